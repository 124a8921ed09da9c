//! Channels keep order, lose nothing, and wake whoever waits.

mod child;
mod counted;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use counted::Counted;
use pirn::Builder;
use pirn::sync::channel::{
    self, Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError,
};
use pirn::thread;
use pirn::time::Instant;

/// Rendezvous, small, larger, without bound.
fn channels<T>() -> Vec<(Sender<T>, Receiver<T>)> {
    vec![channel::rendezvous(), channel::bounded(1), channel::bounded(8), channel::unbounded()]
}

/// Runs on a clock that stands still while anything runs.
fn run_in_virtual_time<T: 'static>(main: impl FnOnce() -> T) -> T {
    Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn values_arrive_in_the_order_in_which_they_were_sent() {
    pirn::run(|| {
        for (sender, receiver) in channels() {
            thread::spawn(move || (0..1_000).for_each(|n| sender.send(n).unwrap()));
            assert!(receiver.into_iter().eq(0..1_000));
        }
    });
}

#[test]
fn receivers_are_served_first_come_first_served() {
    pirn::run(|| {
        for (sender, receiver) in channels() {
            let served = Rc::new(RefCell::new(Vec::new()));
            for number in 0..5 {
                let (receiver, served) = (receiver.clone(), served.clone());
                thread::spawn_local(move || {
                    let value = receiver.recv().unwrap();
                    served.borrow_mut().push((number, value));
                });
            }
            thread::yield_now();
            (10..15).for_each(|value| sender.send(value).unwrap());
            thread::yield_now();
            assert_eq!(*served.borrow(), [(0, 10), (1, 11), (2, 12), (3, 13), (4, 14)]);
        }
    });
}

#[test]
fn senders_are_served_first_come_first_served() {
    pirn::run(|| {
        for capacity in [0, 1, 3] {
            let (sender, receiver) = channel::bounded(capacity);
            for number in 0..8 {
                let sender = sender.clone();
                thread::spawn_local(move || sender.send(number).unwrap());
            }
            thread::yield_now();
            assert_eq!(receiver.len(), capacity);
            drop(sender);
            assert!(receiver.iter().eq(0..8));
        }
    });
}

#[test]
fn a_value_goes_to_a_waiting_receiver_without_touching_the_buffer() {
    pirn::run(|| {
        for (sender, receiver) in channels() {
            let other = receiver.clone();
            let waiter = thread::spawn(move || other.recv().unwrap());
            thread::yield_now();
            sender.try_send(7).unwrap();
            assert_eq!((sender.len(), receiver.try_recv()), (0, Err(TryRecvError::Empty)));
            assert_eq!(waiter.join().unwrap(), 7);
        }
    });
}

#[test]
fn operations_that_do_not_wait_wake_those_that_do() {
    pirn::run(|| {
        for (sender, receiver) in channels() {
            let woken = Rc::new(Cell::new(0));
            for _ in 0..2 {
                let (receiver, woken) = (receiver.clone(), woken.clone());
                thread::spawn_local(move || {
                    receiver.recv().unwrap();
                    woken.set(woken.get() + 1);
                });
            }
            thread::yield_now();
            for expected in 1..=2 {
                sender.try_send(()).unwrap();
                thread::yield_now();
                assert_eq!(woken.get(), expected);
            }
        }
        for capacity in [0, 1, 8] {
            let (sender, receiver) = channel::bounded(capacity);
            (0..capacity).for_each(|_| sender.try_send(()).unwrap());
            assert_eq!(sender.try_send(()), Err(TrySendError::Full(())));
            let woken = Rc::new(Cell::new(false));
            let flag = woken.clone();
            thread::spawn_local(move || {
                sender.send(()).unwrap();
                flag.set(true);
            });
            thread::yield_now();
            assert!(!woken.get());
            receiver.try_recv().unwrap();
            thread::yield_now();
            assert!(woken.get());
        }
    });
}

#[test]
fn closing_wakes_everybody_and_senders_get_their_values_back() {
    type Close = fn(Sender<u32>, Receiver<u32>);
    let closes: [Close; 3] = [
        |sender, _| assert!(sender.close()),
        |_, receiver| assert!(receiver.close()),
        |sender, receiver| drop((sender, receiver)),
    ];
    for capacity in [0, 1, 8] {
        for close in closes {
            run_in_virtual_time(move || {
                let hour = Duration::from_secs(3_600);
                let (sender, receiver) = channel::bounded(capacity);
                (0..capacity as u32).for_each(|n| sender.send(n).unwrap());
                let waiting: Vec<_> = (100..105)
                    .map(|value| {
                        // Senders that are clones would keep it open for receivers, not for senders.
                        let sender = sender.clone();
                        thread::spawn(move || match value {
                            100 | 101 => sender.send(value).unwrap_err().0,
                            102 | 103 => match sender.send_timeout(value, hour).unwrap_err() {
                                SendTimeoutError::Disconnected(value) => value,
                                timeout => panic!("{timeout}"),
                            },
                            _ => pirn::select! {
                                send(sender, value) -> sent => sent.unwrap_err().0,
                                after(hour) => panic!("nobody closed it"),
                            },
                        })
                    })
                    .collect();
                thread::yield_now();
                let start = Instant::now();
                close(sender, receiver);
                for (waiter, value) in waiting.into_iter().zip(100..) {
                    assert_eq!(waiter.join().unwrap(), value);
                }
                assert_eq!(start.elapsed(), Duration::ZERO);

                let (sender, receiver) = channel::bounded(capacity);
                let waiting: Vec<_> = (0..5)
                    .map(|number| {
                        let receiver = receiver.clone();
                        thread::spawn(move || match number {
                            0 | 1 => assert_eq!(receiver.recv(), Err(RecvError)),
                            2 | 3 => assert_eq!(
                                receiver.recv_timeout(hour),
                                Err(RecvTimeoutError::Disconnected)
                            ),
                            _ => pirn::select! {
                                recv(receiver) -> received => assert_eq!(received, Err(RecvError)),
                                after(hour) => panic!("nobody closed it"),
                            },
                        })
                    })
                    .collect();
                thread::yield_now();
                close(sender, receiver);
                waiting.into_iter().for_each(|waiter| waiter.join().unwrap());
                assert_eq!(start.elapsed(), Duration::ZERO);
            });
        }
    }
}

#[test]
fn what_was_buffered_is_received_before_the_disconnection() {
    for close in [true, false] {
        let (sender, receiver) = channel::bounded(4);
        (0..3).for_each(|n| sender.send(n).unwrap());
        if close {
            assert!(sender.close());
            assert!(!sender.close() && !receiver.close());
            assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
            assert_eq!(sender.send(3), Err(SendError(3)));
        }
        drop(sender);
        assert!(receiver.is_closed());
        assert!(receiver.iter().eq(0..3));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(receiver.recv(), Err(RecvError));
    }
}

#[test]
fn with_the_last_receiver_the_buffer_is_dropped() {
    let alive = Arc::default();
    for (sender, receiver) in channels() {
        while sender.try_send(Counted::new(&alive)).is_ok() && sender.len() < 20 {}
        let other = receiver.clone();
        drop(receiver);
        assert!(!sender.is_closed());
        drop(other);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert!(sender.send(Counted::new(&alive)).is_err());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_receiver_may_wait_for_other_things_between_two_rendezvous() {
    /// Gives way when it is dropped.
    struct Yields(u32);
    impl Drop for Yields {
        fn drop(&mut self) {
            thread::yield_now();
        }
    }
    pirn::run(|| {
        let (sender, receiver) = channel::rendezvous();
        let (go, wait) = channel::rendezvous();
        let receiver = thread::spawn(move || {
            let mut got = Vec::new();
            for value in receiver {
                let value: Yields = value;
                got.push(value.0);
                if wait.recv().is_err() {
                    break;
                }
            }
            got
        });
        let helper = thread::spawn(move || while go.send(()).is_ok() {});
        for n in 0..3 {
            sender.send(Yields(n)).unwrap();
        }
        drop(sender);
        assert_eq!(receiver.join().unwrap(), [0, 1, 2]);
        helper.join().unwrap();
    });
}

#[test]
fn a_time_limit_gives_the_value_back_and_is_kept_to_the_nanosecond() {
    run_in_virtual_time(|| {
        let limit = Duration::from_millis(3);
        let (sender, receiver) = channel::bounded(1);
        let start = Instant::now();
        assert_eq!(receiver.recv_timeout(limit), Err(RecvTimeoutError::Timeout));
        assert_eq!(sender.send_timeout(1, limit), Ok(()));
        assert_eq!(start.elapsed(), limit);
        assert_eq!(sender.send_timeout(2, limit), Err(SendTimeoutError::Timeout(2)));
        assert_eq!(start.elapsed(), 2 * limit);
        // In the past, and never.
        assert_eq!(sender.send_deadline(3, start), Err(SendTimeoutError::Timeout(3)));
        assert_eq!(receiver.recv_deadline(start), Ok(1));
        assert_eq!(receiver.recv_deadline(start), Err(RecvTimeoutError::Timeout));
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(1));
            sender.send(4).unwrap();
        });
        assert_eq!(receiver.recv_timeout(Duration::MAX), Ok(4));
        assert_eq!(receiver.recv_timeout(limit), Err(RecvTimeoutError::Disconnected));
        assert_eq!(start.elapsed(), 2 * limit + Duration::from_secs(1));
    });
}

#[test]
fn a_value_for_a_receiver_whose_time_is_up_goes_to_the_next() {
    let moment = Duration::from_millis(1);
    for seed in 0..200 {
        let runtime = Builder::new().virtual_time(true).seed(seed).build().unwrap();
        let received = runtime.run(move || {
            let (sender, receiver) = channel::rendezvous();
            let deadline = Instant::now() + moment;
            let first = receiver.clone();
            let first = thread::spawn(move || first.recv_deadline(deadline));
            let second = thread::spawn(move || receiver.recv_deadline(deadline + moment));
            // All in the same nanosecond, in an order that the seed decides.
            thread::sleep_until(deadline);
            sender.send("one").unwrap();
            drop(sender);
            [first.join().unwrap(), second.join().unwrap()]
        });
        let received = received.unwrap();
        assert_eq!(received.iter().flatten().count(), 1, "seed {seed}: {received:?}");
    }
}

#[test]
fn the_length_never_exceeds_the_capacity() {
    for capacity in [0, 1, 3] {
        let (sender, receiver) = channel::bounded(capacity);
        assert_eq!(sender.capacity(), Some(capacity));
        assert_eq!((sender.is_empty(), sender.is_full()), (true, capacity == 0));
        std::thread::scope(|s| {
            for _ in 0..2 {
                let (sender, receiver) = (sender.clone(), receiver.clone());
                s.spawn(move || (0..2_000).for_each(|n| sender.send(n).unwrap()));
                s.spawn(move || {
                    for _ in 0..2_000 {
                        assert!(receiver.len() <= capacity);
                        receiver.recv().unwrap();
                        assert!(receiver.len() <= capacity);
                    }
                });
            }
        });
        assert!(receiver.is_empty());
    }
    let (sender, _receiver) = channel::unbounded::<u8>();
    assert_eq!((sender.capacity(), sender.is_full()), (None, false));
}

#[test]
fn sizes_from_nothing_to_huge_are_fine() {
    pirn::run(|| {
        for (sender, receiver) in channels::<()>() {
            thread::spawn(move || (0..1_000).for_each(|_| sender.send(()).unwrap()));
            assert_eq!(receiver.iter().count(), 1_000);
        }
        for (sender, receiver) in channels::<[u64; 1_000]>() {
            // Without optimization a value is copied more than a dozen times on its way.
            let producer = thread::Builder::new().stack_size(1 << 20);
            let produce = move || (0..20).for_each(|n| sender.send([n; 1_000]).unwrap());
            producer.spawn(produce).unwrap();
            for (value, n) in receiver.iter().zip(0..) {
                assert_eq!(value, [n; 1_000]);
            }
        }
        for capacity in [1 << 40, usize::MAX - 1, usize::MAX] {
            let (sender, receiver) = channel::bounded(capacity);
            (0..10_000).for_each(|n| sender.send(n).unwrap());
            assert!((0..10_000).all(|n| receiver.recv() == Ok(n)));
        }
    });
}

#[test]
fn values_need_not_be_send_between_fibers() {
    pirn::run(|| {
        let (sender, receiver) = channel::bounded(1);
        let value = Rc::new(Cell::new(0));
        let copy = value.clone();
        thread::spawn_local(move || sender.send(copy).unwrap());
        receiver.recv().unwrap().set(1);
        assert_eq!(value.get(), 1);
    });
}

#[test]
fn a_fiber_that_waits_when_the_runtime_ends_drops_its_value_once() {
    let alive: Arc<AtomicUsize> = Arc::default();
    let (kept, (sender, receiver)) = (alive.clone(), channel::bounded::<Counted>(1));
    let (for_main, idle) = (sender.clone(), channel::bounded::<Counted>(1));
    pirn::run(move || {
        for_main.send(Counted::new(&kept)).unwrap();
        for _ in 0..3 {
            let (sender, value) = (for_main.clone(), Counted::new(&kept));
            thread::spawn(move || sender.send(value));
        }
        let idle = idle.1;
        thread::spawn(move || idle.recv());
        thread::yield_now();
        assert_eq!(kept.load(Ordering::SeqCst), 4);
    });
    assert_eq!(alive.load(Ordering::SeqCst), 1, "what was in the buffer");
    // Nothing of those that are gone is left in the queues.
    drop(receiver.recv().unwrap());
    assert!(matches!(receiver.try_recv(), Err(TryRecvError::Empty)));
    assert!(sender.try_send(Counted::new(&alive)).is_ok());
    drop((sender, receiver));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn in_a_destructor_while_the_runtime_ends_what_would_wait_is_disconnected() {
    struct Checks(Sender<u32>, Receiver<u32>, Rc<Cell<u32>>);
    impl Drop for Checks {
        fn drop(&mut self) {
            // What need not wait works.
            assert_eq!(self.0.send(1), Ok(()));
            assert_eq!(self.0.send(2), Err(SendError(2)));
            assert_eq!(
                self.0.send_timeout(3, Duration::from_secs(1)),
                Err(SendTimeoutError::Disconnected(3))
            );
            assert_eq!(self.1.recv(), Ok(1));
            assert_eq!(self.1.recv(), Err(RecvError));
            let (_sender, oneshot) = channel::oneshot::<()>();
            assert_eq!(oneshot.recv(), Err(RecvError));
            pirn::select! {
                recv(self.1) -> received => assert_eq!(received, Err(RecvError)),
            }
            self.2.set(self.2.get() + 1);
        }
    }
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    pirn::run(move || {
        for _ in 0..2 {
            let (sender, receiver) = channel::bounded(1);
            let checks = Checks(sender, receiver, counted.clone());
            thread::spawn_local(move || {
                let _checks = checks;
                thread::park();
            });
        }
        thread::yield_now();
    });
    assert_eq!(count.get(), 2);
}

#[test]
fn a_cancelled_receiver_leaves_the_value_to_others() {
    pirn::run(|| {
        let (sender, receiver) = channel::rendezvous();
        let other = receiver.clone();
        // On this carrier: a cancellation from another one takes its time.
        let waiter = thread::spawn_local(move || other.recv());
        thread::yield_now();
        waiter.cancel();
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        assert!(waiter.join().is_err());
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

/// Programs that wait for ever, and how their reports put it.
const STUCK: [(&str, fn()); 6] = [
    ("waits to receive from channel #1 (capacity 1, empty)", || {
        let (_sender, receiver) = channel::bounded::<()>(1);
        let _ = receiver.recv();
    }),
    ("waits to send into channel #1 (capacity 8, full)", || {
        let (sender, _receiver) = channel::bounded(8);
        (0..9).for_each(|number| sender.send(number).unwrap());
    }),
    ("waits to send into channel #1 (rendezvous)", || {
        let (sender, _receiver) = channel::rendezvous();
        let _ = sender.send(1);
    }),
    ("waits to receive from channel #1 (unbounded, empty)", || {
        let (_sender, receiver) = channel::unbounded::<()>();
        let _ = receiver.recv();
    }),
    // Numbered as they come in the report: main waits for one, its child for another.
    ("waits to receive from channel #2 (capacity 3, empty)", || {
        let (_one, first) = channel::bounded::<()>(2);
        let (_other, second) = channel::bounded::<()>(3);
        thread::spawn(move || second.recv());
        let _ = first.recv();
    }),
    ("waits to receive from a oneshot channel", || {
        let (_sender, receiver) = channel::oneshot::<()>();
        let _ = receiver.recv();
    }),
];

#[test]
fn a_deadlock_report_says_what_each_waits_for() {
    let test = "a_deadlock_report_says_what_each_waits_for";
    for (expected, stuck) in STUCK {
        // In a process whose other threads are older than the runtime: a younger one might have got
        // hold of the other end.
        let stuck = || pirn::run(stuck);
        let quiet = [("RUST_BACKTRACE", "0")];
        if let Some(child) = child::child(test, expected, &quiet, stuck) {
            assert_eq!(child.code, Some(101), "{child:?}");
            assert!(child.err.contains(expected), "{child:?}");
        }
    }
}

#[test]
fn one_carrier_gives_the_same_order_each_time() {
    let run = || {
        pirn::run(|| {
            let log = Rc::new(RefCell::new(String::new()));
            let (sender, receiver) = channel::bounded(2);
            for name in ["a", "b", "c"] {
                let (sender, log) = (sender.clone(), log.clone());
                thread::spawn_local(move || {
                    for n in 0..3 {
                        sender.send(()).unwrap();
                        log.borrow_mut().push_str(&format!("{name}{n} "));
                    }
                });
            }
            drop(sender);
            for _ in &receiver {
                log.borrow_mut().push_str("| ");
            }
            log.take()
        })
    };
    let golden = "a0 a1 a2 | | | | | b0 b1 b2 c0 c1 | | | | c2 ";
    (0..if child::is_native() { 1_000 } else { 50 }).for_each(|_| assert_eq!(run(), golden));
}

#[test]
fn every_value_of_a_crowd_of_fibers_and_threads_arrives_once() {
    for (sender, receiver) in channels() {
        let (to_runtime, from_threads) = (sender, receiver);
        let each = if child::is_native() { 5_000 } else { 200 };
        let produce = move |sender: Sender<u32>, number: u32| {
            (number * each..(number + 1) * each).for_each(|value| sender.send(value).unwrap());
        };
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let sender = to_runtime.clone();
                std::thread::spawn(move || produce(sender, number))
            })
            .collect();
        let receiver = from_threads.clone();
        let aside = std::thread::spawn(move || receiver.iter().collect::<Vec<u32>>());
        let mut all: Vec<u32> = pirn::run(move || {
            for number in 2..4 {
                let sender = to_runtime.clone();
                thread::spawn(move || produce(sender, number));
            }
            drop(to_runtime);
            let consume = || {
                let receiver = from_threads.clone();
                thread::spawn(move || receiver.iter().collect::<Vec<u32>>())
            };
            let consumers = [consume(), consume()];
            consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
        });
        all.extend(aside.join().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(all.len() as u32, 4 * each);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}

#[test]
fn a_send_that_races_with_the_last_receiver_leaks_nothing() {
    let alive: Arc<AtomicUsize> = Arc::default();
    let rounds = if child::is_native() { 20_000 } else { 300 };
    let (to_other, from_main) = std::sync::mpsc::sync_channel::<Receiver<Counted>>(1);
    let (to_main, from_other) = std::sync::mpsc::sync_channel(1);
    let other = std::thread::spawn(move || {
        for receiver in from_main {
            drop(receiver);
            to_main.send(()).unwrap();
        }
    });
    for round in 0..rounds {
        let (sender, receiver) =
            [channel::rendezvous, || channel::bounded(1), channel::unbounded][round % 3]();
        to_other.send(receiver).unwrap();
        let sent = sender.send(Counted::new(&alive));
        drop(sent);
        from_other.recv().unwrap();
        drop(sender);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
    drop(to_other);
    other.join().unwrap();
}
