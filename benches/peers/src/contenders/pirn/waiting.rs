//! Channels, promises, selects, locks and time limits, between fibers of one carrier.

use std::array;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use pirn::sync::channel::{bounded, oneshot, rendezvous};
use pirn::sync::{Future, Mutex, promise};
use pirn::{select, thread, time};

use crate::measure::{Entry, Sample};
use crate::relay::{RUNNERS, Relay};
use crate::workload::{LOCKERS, PLACES, Workload};

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelRendezvous => {
            Entry::runs(|wish| pirn::run(move || ping_pong(wish, First::Sends)))
        }
        Workload::ChannelBounded { pairs } => {
            Entry::Runs(Box::new(move |wish| pirn::run(move || stream(pairs, wish))))
        }
        Workload::ChannelOneshot => Entry::runs(|wish| pirn::run(move || oneshots(wish))),
        Workload::PromiseWaiters => Entry::runs(|wish| pirn::run(move || promises(wish))),
        Workload::SelectReady => Entry::runs(|wish| pirn::run(move || select_ready(wish))),
        Workload::SelectBecomesReady => {
            Entry::runs(|wish| pirn::run(move || select_becomes_ready(wish)))
        }
        Workload::MutexUncontended => {
            Entry::runs(|wish| pirn::run(move || mutex_uncontended(wish)))
        }
        Workload::MutexYielding => Entry::runs(|wish| pirn::run(move || mutex_yielding(wish))),
        Workload::TimeoutReadyReceive => Entry::runs(|wish| pirn::run(move || recv_timeout(wish))),
        _ => Entry::Absent,
    }
}

/// The same ping-pong with the receivers waiting, not the senders.
pub fn enter_receiver_first(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelRendezvous => {
            Entry::runs(|wish| pirn::run(move || ping_pong(wish, First::Receives)))
        }
        _ => Entry::Absent,
    }
}

/// The general time limit around the wait, instead of the wait's own.
pub fn enter_time_limit(workload: Workload) -> Entry {
    match workload {
        Workload::TimeoutReadyReceive => Entry::runs(|wish| pirn::run(move || time_limit(wish))),
        _ => Entry::Absent,
    }
}

/// Which of the two fibers of the ping-pong comes first. It stays so ever after: senders wait for
/// receivers, or receivers for senders, one wait and one switch a message either way.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Sends,
    Receives,
}

fn ping_pong(wish: u64, first: First) -> Sample {
    let (ping, from_ping) = rendezvous();
    let (pong, from_pong) = rendezvous();
    let other = thread::spawn(move || {
        while let Ok(number) = from_ping.recv() {
            pong.send(number).expect("there is a receiver");
        }
    });
    if first == First::Receives {
        thread::yield_now();
    }
    let round_trips = wish.div_ceil(2);
    let sample = Sample::time(round_trips * 2, || {
        for number in 0..round_trips {
            ping.send(number).expect("there is a receiver");
            assert_eq!(from_pong.recv(), Ok(number));
        }
    });
    drop(ping);
    other.join().expect("the fiber does not panic");
    sample
}

fn stream(pairs: u64, wish: u64) -> Sample {
    let each = wish.div_ceil(pairs);
    let (sender, receiver) = bounded(PLACES);
    Sample::time(each * pairs, move || {
        let mut handles = Vec::new();
        for _ in 0..pairs {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            handles.push(thread::spawn(move || {
                for number in 0..each {
                    sender.send(number).expect("there are receivers");
                }
            }));
            handles.push(thread::spawn(move || {
                while let Ok(number) = receiver.recv() {
                    black_box(number);
                }
            }));
        }
        drop((sender, receiver));
        for handle in handles {
            handle.join().expect("the fiber does not panic");
        }
    })
}

fn oneshots(wish: u64) -> Sample {
    Sample::time(wish, || {
        for number in 0..wish {
            let (sender, receiver) = oneshot();
            sender.send(black_box(number)).expect("the receiver is there");
            assert_eq!(receiver.recv(), Ok(number));
        }
    })
}

/// What a promise is about: the future of the one after it.
#[derive(Clone)]
struct Next(Future<Next>);

fn promises(wish: u64) -> Sample {
    let (first, future) = promise();
    let relay = Rc::new(Relay::new(first));
    Sample::time(wish, move || {
        let handles: Vec<_> = (0..RUNNERS)
            .map(|_| {
                let (relay, mut future) = (relay.clone(), future.clone());
                thread::spawn_local(move || {
                    for _ in 0..wish {
                        if let Some((promise, next)) = relay.arrive(promise) {
                            assert!(promise.set(Next(next)).is_ok());
                        }
                        let Next(next) = future.get().expect("it is settled").clone();
                        future = next;
                    }
                })
            })
            .collect();
        // Whoever keeps the first future keeps all.
        drop(future);
        for handle in handles {
            handle.join().expect("the fiber does not panic");
        }
    })
}

fn select_ready(wish: u64) -> Sample {
    let ends: [_; 4] = array::from_fn(|_| bounded(1));
    let [(to_a, a), (to_b, b), (to_c, c), (to_d, d)] = &ends;
    for (sender, _) in &ends {
        sender.send(0_u64).expect("the receiver is there");
    }
    Sample::time(wish, || {
        for _ in 0..wish {
            select! {
                recv(a) -> number => to_a.send(number.expect("a number")),
                recv(b) -> number => to_b.send(number.expect("a number")),
                recv(c) -> number => to_c.send(number.expect("a number")),
                recv(d) -> number => to_d.send(number.expect("a number")),
            }
            .expect("the receiver is there");
        }
    })
}

fn select_becomes_ready(wish: u64) -> Sample {
    let ends: [_; 4] = array::from_fn(|_| bounded(1));
    let [a, b, c, d] = ends.each_ref().map(|(_, receiver)| receiver.clone());
    let senders = ends.map(|(sender, _)| sender);
    let (answer, answers) = bounded(1);
    let other = thread::spawn(move || {
        for number in 0..wish {
            senders[number as usize % 4].send(number).expect("the receiver is there");
            assert_eq!(answers.recv(), Ok(number));
        }
    });
    let sample = Sample::time(wish, || {
        for _ in 0..wish {
            let number = select! {
                recv(a) -> number => number,
                recv(b) -> number => number,
                recv(c) -> number => number,
                recv(d) -> number => number,
            };
            answer.send(black_box(number.expect("a number"))).expect("the receiver is there");
        }
    });
    other.join().expect("the fiber does not panic");
    sample
}

fn mutex_uncontended(wish: u64) -> Sample {
    let mutex = Mutex::new(0_u64);
    Sample::time(wish, || {
        for _ in 0..wish {
            *black_box(&mutex).lock().expect("nobody panics") += 1;
        }
    })
}

fn mutex_yielding(wish: u64) -> Sample {
    let each = wish.div_ceil(LOCKERS);
    let mutex = Rc::new(Mutex::new(0_u64));
    Sample::time(each * LOCKERS, || {
        let handles: Vec<_> = (0..LOCKERS)
            .map(|_| {
                let mutex = mutex.clone();
                thread::spawn_local(move || {
                    for _ in 0..each {
                        let mut guard = mutex.lock().expect("nobody panics");
                        *guard += 1;
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().expect("the fiber does not panic");
        }
    })
}

const HOUR: Duration = Duration::from_secs(3600);

fn recv_timeout(wish: u64) -> Sample {
    let (sender, receiver) = bounded(1);
    Sample::time(wish, || {
        for number in 0..wish {
            sender.try_send(number).expect("there is a place");
            assert_eq!(receiver.recv_timeout(black_box(HOUR)), Ok(number));
        }
    })
}

fn time_limit(wish: u64) -> Sample {
    let (sender, receiver) = bounded(1);
    Sample::time(wish, || {
        for number in 0..wish {
            sender.try_send(number).expect("there is a place");
            assert_eq!(time::timeout(black_box(HOUR), || receiver.recv()), Ok(Ok(number)));
        }
    })
}
