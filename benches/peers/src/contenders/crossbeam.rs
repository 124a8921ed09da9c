//! crossbeam-channel: channels and `select!` for OS threads.

use std::array;
use std::hint::black_box;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::measure::{Entry, Sample};
use crate::os_threads::{self, Channels};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::SelectReady => Entry::runs(select_ready),
        Workload::SelectBecomesReady => Entry::runs(select_becomes_ready),
        _ => os_threads::enter::<Crossbeam>(workload),
    }
}

struct Crossbeam;

impl Channels for Crossbeam {
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

fn select_ready(wish: u64) -> Sample {
    let ends: [_; 4] = array::from_fn(|_| bounded(1));
    let [(to_a, a), (to_b, b), (to_c, c), (to_d, d)] = &ends;
    for (sender, _) in &ends {
        Crossbeam::send(sender, 0);
    }
    Sample::time(wish, || {
        for _ in 0..wish {
            select! {
                recv(a) -> number => Crossbeam::send(to_a, number.expect("a number")),
                recv(b) -> number => Crossbeam::send(to_b, number.expect("a number")),
                recv(c) -> number => Crossbeam::send(to_c, number.expect("a number")),
                recv(d) -> number => Crossbeam::send(to_d, number.expect("a number")),
            }
        }
    })
}

fn select_becomes_ready(wish: u64) -> Sample {
    let ends: [_; 4] = array::from_fn(|_| bounded(1));
    let [a, b, c, d] = ends.each_ref().map(|(_, receiver)| receiver.clone());
    let senders = ends.map(|(sender, _)| sender);
    let (answer, answers) = bounded(1);
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..wish {
                Crossbeam::send(&senders[number as usize % 4], number);
                assert_eq!(Crossbeam::receive(&answers), Some(number));
            }
        });
        Sample::time(wish, || {
            for _ in 0..wish {
                let number = select! {
                    recv(a) -> number => number,
                    recv(b) -> number => number,
                    recv(c) -> number => number,
                    recv(d) -> number => number,
                };
                Crossbeam::send(&answer, black_box(number.expect("a number")));
            }
        })
    })
}
