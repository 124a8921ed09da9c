//! tokio's channels, select, mutex and time limits. It has no channel without a buffer; one place
//! is the least. Its tasks are `unconstrained`, which is a few per cent faster: otherwise each
//! would yield after 128 operations that did not have to wait.

use std::array;
use std::future::Future;
use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::task::{self, JoinHandle, unconstrained};
use tokio::{select, time};

use super::{Drivers, run};
use crate::measure::{Entry, Sample};
use crate::relay::{RUNNERS, Relay};
use crate::workload::{LOCKERS, PLACES, Workload};

pub fn enter(workload: Workload, drivers: Drivers) -> Entry {
    match workload {
        Workload::ChannelRendezvous => entry(drivers, ping_pong),
        Workload::ChannelBounded { pairs: 1 } => entry(drivers, |wish| stream(1, wish)),
        Workload::ChannelOneshot => entry(drivers, oneshots),
        Workload::PromiseWaiters => entry(drivers, promises),
        Workload::SelectReady => entry(drivers, select_ready),
        Workload::SelectBecomesReady => entry(drivers, select_becomes_ready),
        Workload::MutexUncontended => entry(drivers, mutex_uncontended),
        Workload::MutexYielding => entry(drivers, mutex_yielding),
        // A time limit needs the driver.
        Workload::TimeoutReadyReceive if drivers == Drivers::All => entry(drivers, timeout),
        _ => Entry::Absent,
    }
}

/// As many senders as in the workload, but one receiver, because `mpsc` has no more.
pub fn enter_one_receiver(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelBounded { pairs } if pairs > 1 => {
            entry(Drivers::All, move |wish| stream(pairs, wish))
        }
        _ => Entry::Absent,
    }
}

fn entry<F>(drivers: Drivers, measure: impl Fn(u64) -> F + 'static) -> Entry
where
    F: Future<Output = Sample> + Send + 'static,
{
    Entry::Runs(Box::new(move |wish| run(drivers, unconstrained(measure(wish)))))
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    task::spawn(unconstrained(task))
}

async fn ping_pong(wish: u64) -> Sample {
    let (ping, mut from_ping) = mpsc::channel(1);
    let (pong, mut from_pong) = mpsc::channel(1);
    let other = spawn(async move {
        while let Some(number) = from_ping.recv().await {
            pong.send(number).await.expect("there is a receiver");
        }
    });
    let round_trips = wish.div_ceil(2);
    let start = Instant::now();
    for number in 0..round_trips {
        ping.send(number).await.expect("there is a receiver");
        assert_eq!(from_pong.recv().await, Some(number));
    }
    let elapsed = start.elapsed();
    drop(ping);
    other.await.expect("the task does not panic");
    Sample { operations: round_trips * 2, elapsed }
}

async fn stream(senders: u64, wish: u64) -> Sample {
    let each = wish.div_ceil(senders);
    let (sender, mut receiver) = mpsc::channel(PLACES);
    let start = Instant::now();
    let mut handles = vec![spawn(async move {
        while let Some(number) = receiver.recv().await {
            black_box(number);
        }
    })];
    for _ in 0..senders {
        let sender = sender.clone();
        handles.push(spawn(async move {
            for number in 0..each {
                sender.send(number).await.expect("there is a receiver");
            }
        }));
    }
    drop(sender);
    for handle in handles {
        handle.await.expect("the task does not panic");
    }
    Sample { operations: each * senders, elapsed: start.elapsed() }
}

async fn oneshots(wish: u64) -> Sample {
    let start = Instant::now();
    for number in 0..wish {
        let (sender, receiver) = oneshot::channel();
        sender.send(black_box(number)).expect("the receiver is there");
        assert_eq!(receiver.await, Ok(number));
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}

/// tokio has no promise for many waiters. This is the fastest that its parts make, twice as fast as
/// a `watch` channel of which one value is sent.
#[derive(Default)]
struct Promise {
    settled: Notify,
    value: OnceLock<Arc<Promise>>,
}

impl Promise {
    /// One for whoever settles it and for those who wait.
    fn shared() -> (Arc<Self>, Arc<Self>) {
        let promise = Arc::<Self>::default();
        (promise.clone(), promise)
    }

    fn set(&self, value: Arc<Promise>) {
        assert!(self.value.set(value).is_ok());
        self.settled.notify_waiters();
    }

    async fn get(&self) -> &Arc<Promise> {
        // It counts as waiting from here on, so it cannot miss what happens after the look.
        let settled = self.settled.notified();
        if self.value.get().is_none() {
            settled.await;
        }
        self.value.get().expect("it is settled")
    }
}

async fn promises(wish: u64) -> Sample {
    let (promise, first) = Promise::shared();
    let relay = Arc::new(Relay::new(promise));
    let start = Instant::now();
    let handles: Vec<_> = (0..RUNNERS)
        .map(|_| {
            let (relay, mut current) = (relay.clone(), first.clone());
            spawn(async move {
                for _ in 0..wish {
                    if let Some((promise, next)) = relay.arrive(Promise::shared) {
                        promise.set(next);
                    }
                    let next = current.get().await.clone();
                    current = next;
                }
            })
        })
        .collect();
    // Whoever keeps the first promise keeps all.
    drop(first);
    for handle in handles {
        handle.await.expect("the task does not panic");
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}

async fn select_ready(wish: u64) -> Sample {
    let ends: [_; 4] = array::from_fn(|_| mpsc::channel(1));
    for (sender, _) in &ends {
        sender.try_send(0_u64).expect("there is a place");
    }
    let [(to_a, mut a), (to_b, mut b), (to_c, mut c), (to_d, mut d)] = ends;
    let start = Instant::now();
    for _ in 0..wish {
        let (sender, number) = select! {
            number = a.recv() => (&to_a, number),
            number = b.recv() => (&to_b, number),
            number = c.recv() => (&to_c, number),
            number = d.recv() => (&to_d, number),
        };
        sender.try_send(number.expect("a number")).expect("there is a place");
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}

async fn select_becomes_ready(wish: u64) -> Sample {
    let ends: [_; 4] = array::from_fn(|_| mpsc::channel(1));
    let senders = ends.each_ref().map(|(sender, _)| sender.clone());
    let [mut a, mut b, mut c, mut d] = ends.map(|(_, receiver)| receiver);
    let (answer, mut answers) = mpsc::channel(1);
    let other = spawn(async move {
        for number in 0..wish {
            senders[number as usize % 4].send(number).await.expect("the receiver is there");
            assert_eq!(answers.recv().await, Some(number));
        }
    });
    let start = Instant::now();
    for _ in 0..wish {
        let number = select! {
            number = a.recv() => number,
            number = b.recv() => number,
            number = c.recv() => number,
            number = d.recv() => number,
        };
        answer.send(black_box(number.expect("a number"))).await.expect("the receiver is there");
    }
    let elapsed = start.elapsed();
    other.await.expect("the task does not panic");
    Sample { operations: wish, elapsed }
}

async fn mutex_uncontended(wish: u64) -> Sample {
    let mutex = Mutex::new(0_u64);
    let start = Instant::now();
    for _ in 0..wish {
        *black_box(&mutex).lock().await += 1;
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}

async fn mutex_yielding(wish: u64) -> Sample {
    let each = wish.div_ceil(LOCKERS);
    let mutex = Arc::new(Mutex::new(0_u64));
    let start = Instant::now();
    let handles: Vec<_> = (0..LOCKERS)
        .map(|_| {
            let mutex = mutex.clone();
            spawn(async move {
                for _ in 0..each {
                    let mut guard = mutex.lock().await;
                    *guard += 1;
                    task::yield_now().await;
                }
            })
        })
        .collect();
    for handle in handles {
        handle.await.expect("the task does not panic");
    }
    Sample { operations: each * LOCKERS, elapsed: start.elapsed() }
}

async fn timeout(wish: u64) -> Sample {
    const HOUR: Duration = Duration::from_secs(3600);
    let (sender, mut receiver) = mpsc::channel(1);
    let start = Instant::now();
    for number in 0..wish {
        sender.try_send(number).expect("there is a place");
        assert_eq!(time::timeout(black_box(HOUR), receiver.recv()).await, Ok(Some(number)));
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}
