//! flume: channels for threads and futures alike. Its asynchronous side is driven by tokio's
//! `current_thread` scheduler, built as the contender tokio is; the blocking side by OS threads.

use std::hint::black_box;
use std::time::Instant;

use flume::{Receiver, Sender, bounded};
use tokio::task;

use super::tokio::{Drivers, run};
use crate::measure::{Entry, Sample};
use crate::os_threads::{self, Channels};
use crate::workload::{PLACES, Workload};

pub fn enter_on_tokio(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelRendezvous => Entry::runs(|wish| run(Drivers::All, ping_pong(wish))),
        Workload::ChannelBounded { pairs } => {
            Entry::Runs(Box::new(move |wish| run(Drivers::All, stream(pairs, wish))))
        }
        _ => Entry::Absent,
    }
}

async fn ping_pong(wish: u64) -> Sample {
    let (ping, from_ping) = bounded(0);
    let (pong, from_pong) = bounded(0);
    let other = task::spawn(async move {
        while let Ok(number) = from_ping.recv_async().await {
            pong.send_async(number).await.expect("there is a receiver");
        }
    });
    let round_trips = wish.div_ceil(2);
    let start = Instant::now();
    for number in 0..round_trips {
        ping.send_async(number).await.expect("there is a receiver");
        assert_eq!(from_pong.recv_async().await, Ok(number));
    }
    let elapsed = start.elapsed();
    drop(ping);
    other.await.expect("the task does not panic");
    Sample { operations: round_trips * 2, elapsed }
}

async fn stream(pairs: u64, wish: u64) -> Sample {
    let each = wish.div_ceil(pairs);
    let (sender, receiver) = bounded(PLACES);
    let start = Instant::now();
    let mut handles = Vec::new();
    for _ in 0..pairs {
        let (sender, receiver) = (sender.clone(), receiver.clone());
        handles.push(task::spawn(async move {
            for number in 0..each {
                sender.send_async(number).await.expect("there are receivers");
            }
        }));
        handles.push(task::spawn(async move {
            while let Ok(number) = receiver.recv_async().await {
                black_box(number);
            }
        }));
    }
    drop((sender, receiver));
    for handle in handles {
        handle.await.expect("the task does not panic");
    }
    Sample { operations: each * pairs, elapsed: start.elapsed() }
}

pub fn enter_on_threads(workload: Workload) -> Entry {
    os_threads::enter::<Flume>(workload)
}

struct Flume;

impl Channels for Flume {
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn bounded(places: usize) -> (Sender<u64>, Receiver<u64>) {
        bounded(places)
    }

    fn send(sender: &Sender<u64>, number: u64) {
        sender.send(number).expect("there are receivers");
    }

    fn receive(receiver: &Receiver<u64>) -> Option<u64> {
        receiver.recv().ok()
    }
}
