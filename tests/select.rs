//! A select completes one arm; the others consume nothing and lose nothing.

mod child;
mod fate;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::channel::{self, Receiver, RecvError, SendError, Sender};
use pirn::sync::{Select, SelectTimeoutError, TrySelectError};
use pirn::time::Instant;
use pirn::{Builder, select, thread};

const HOUR: Duration = Duration::from_secs(3_600);

fn run_in_virtual_time<T: 'static>(main: impl FnOnce() -> T) -> T {
    Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn an_arm_that_is_ready_wins_and_the_others_lose_nothing() {
    let (full, from_full) = channel::bounded(1);
    let (_empty, from_empty) = channel::bounded::<u32>(1);
    full.send(1).unwrap();
    let mut value = Some(2);
    for _ in 0..100 {
        select! {
            recv(from_empty) -> _ => unreachable!(),
            send(full, ref mut value) -> _ => unreachable!(),
            recv(from_full) -> received => {
                assert_eq!(received, Ok(1));
                full.send(1).unwrap();
            }
            after(HOUR) => unreachable!(),
        }
        assert_eq!((value, from_full.len()), (Some(2), 1));
    }
}

#[test]
fn an_arm_that_becomes_ready_wins() {
    pirn::run(|| {
        let (to_a, a) = channel::rendezvous();
        let (to_b, b) = channel::bounded(1);
        let (c, from_c) = channel::rendezvous();
        // On this carrier: what another one sends may all be there when the arms are looked at.
        thread::spawn_local(move || {
            to_b.send(1).unwrap();
            thread::yield_now();
            to_a.send("two").unwrap();
            thread::yield_now();
            assert_eq!(from_c.recv(), Ok(3));
            thread::park();
            drop((to_a, to_b));
        });
        let mut got = Vec::new();
        let mut offer = Some(3);
        while got.len() < 3 {
            select! {
                recv(a) -> word => got.push(word.unwrap().to_owned()),
                recv(b) -> number => got.push(number.unwrap().to_string()),
                send(c, ref mut offer) -> sent => got.push(format!("{sent:?}")),
            }
        }
        assert_eq!(got, ["1", "two", "Ok(())"]);
        assert_eq!(offer, None);
        // Without a value the arm is never chosen.
        let nothing = select! {
            send(c, ref mut offer) -> _ => false,
            default => true,
        };
        assert!(nothing);
    });
}

#[test]
fn the_bodies_may_break_return_and_use_what_the_arms_borrowed() {
    fn first(mut receivers: Vec<Receiver<u32>>) -> Result<u32, RecvError> {
        loop {
            let other = receivers.pop().ok_or(RecvError)?;
            let mut slot = Some(1);
            let (sender, _keep) = channel::bounded::<u32>(0);
            select! {
                biased;
                recv(other) -> value => {
                    drop(other);
                    receivers.clear();
                    let value = value?;
                    return Ok(value + 1);
                },
                send(sender, ref mut slot) -> _ => break Err(RecvError),
                default => {
                    slot.take();
                    continue;
                }
            }
        }
    }
    let (sender, receiver) = channel::bounded(1);
    let (_keep, empty) = channel::bounded(1);
    sender.send(5).unwrap();
    assert_eq!(first(vec![receiver.clone(), empty.clone()]), Ok(6));
    assert_eq!(first(vec![receiver, empty]), Err(RecvError));
}

#[test]
fn a_disconnected_channel_is_ready_with_its_error() {
    pirn::run(|| {
        let (sender, receiver) = channel::bounded::<u32>(0);
        let (other, from_other) = channel::bounded::<u32>(0);
        drop(sender);
        assert_eq!(select! { recv(receiver) -> received => received }, Err(RecvError));
        let waiter = thread::spawn(move || {
            select! {
                send(other, 7) -> sent => sent,
                after(HOUR) => Ok(()),
            }
        });
        thread::yield_now();
        drop(from_other);
        assert_eq!(waiter.join().unwrap(), Err(SendError(7)));
    });
}

#[test]
fn timers_and_default_are_arms() {
    run_in_virtual_time(|| {
        let start = Instant::now();
        let (sender, receiver) = channel::bounded::<u32>(1);
        let second = Duration::from_secs(1);
        let which = select! {
            recv(receiver) -> _ => "recv",
            after(2 * second) => "two seconds",
            at(start + second) => "one second",
            timeout(Duration::MAX) => "never",
        };
        assert_eq!((which, start.elapsed()), ("one second", second));
        let which = select! {
            recv(receiver) -> _ => "recv",
            default => "default",
        };
        assert_eq!(which, "default");
        // Zero and the past are due at once, but only look.
        for _ in 0..20 {
            select! { recv(receiver) -> _ => unreachable!(), after(Duration::ZERO) => {} }
            select! { recv(receiver) -> _ => unreachable!(), at(start) => {} }
        }
        assert_eq!(start.elapsed(), second);
        // A timer that is due has its chance beside a channel that always is ready.
        let (mut values, mut times) = (0, 0);
        for _ in 0..200 {
            sender.try_send(1).ok();
            select! { recv(receiver) -> _ => values += 1, at(start) => times += 1 }
        }
        assert!(values > 50 && times > 50, "{values} {times}");
        assert_eq!(select! { default => 7 }, 7);
    });
}

#[test]
fn each_ready_arm_has_the_same_chance() {
    pirn::run(|| {
        let ends: [_; 5] = std::array::from_fn(|_| channel::bounded(1));
        let [(_, a), (to_b, b), (to_c, c), (to_d, d), (_, e)] = &ends;
        // Neighbours and ends among the ready ones.
        let mut counts = [0; 3];
        for _ in 0..6_000 {
            for sender in [to_b, to_c, to_d] {
                let _ = sender.try_send(());
            }
            let chosen = select! {
                recv(a) -> _ => unreachable!(),
                recv(b) -> _ => 0,
                recv(c) -> _ => 1,
                recv(d) -> _ => 2,
                recv(e) -> _ => unreachable!(),
            };
            counts[chosen] += 1;
        }
        assert!(counts.iter().all(|count| (1_850..2_150).contains(count)), "{counts:?}");
    });
}

#[test]
fn a_biased_select_takes_the_first_ready_arm() {
    let (to_a, a) = channel::unbounded();
    let (to_b, b) = channel::unbounded();
    (0..50).for_each(|n| to_a.send(n).unwrap());
    (0..50).for_each(|n| to_b.send(n).unwrap());
    let mut order = Vec::new();
    for _ in 0..100 {
        select! {
            biased;
            recv(b) -> _ => order.push('b'),
            recv(a) -> _ => order.push('a'),
        }
    }
    assert_eq!(order, [['b'; 50], ['a'; 50]].concat());
}

#[test]
fn the_lots_are_the_same_in_each_run() {
    let run = || {
        pirn::run(|| {
            let (sender, receiver) = channel::unbounded();
            (0..100).for_each(|n| sender.send(n).unwrap());
            let other = receiver.clone();
            let draw = || select! { recv(receiver) -> _ => 'a', recv(other) -> _ => 'b' };
            (0..100).map(|_| draw()).collect::<String>()
        })
    };
    let first = run();
    assert!(first.contains("ab") && first.contains("bb"));
    assert_eq!(run(), first);
    assert_eq!(std::thread::spawn(run).join().unwrap(), first);
}

#[test]
fn the_same_channel_may_appear_twice() {
    pirn::run(|| {
        let (sender, receiver) = channel::rendezvous();
        // It does not send to itself.
        let mut value = Some(1);
        let itself = select! {
            send(sender, ref mut value) -> _ => "sent",
            recv(receiver) -> _ => "received",
            recv(receiver) -> _ => "received",
            after(Duration::from_millis(1)) => "nobody",
        };
        assert_eq!((itself, value), ("nobody", Some(1)));
        let other = sender.clone();
        thread::spawn(move || (0..10).for_each(|n| other.send(n).unwrap()));
        for n in 0..10 {
            let received = select! {
                recv(receiver) -> received => received,
                send(sender, 99) -> _ => unreachable!(),
                recv(receiver) -> received => received,
            };
            assert_eq!(received, Ok(n));
        }
        assert!(select! { send(sender, 1) -> _ => false, default => true });
    });
}

/// Sends and receives on two rendezvous channels by selects until it has done so often enough.
fn trade(sender: &Sender<u64>, receiver: &Receiver<u64>, each: u64) -> (u64, u64) {
    let (mut sent, mut received, mut sums) = (0, 0, (0, 0));
    let mut offer = Some(0);
    while sent < each || received < each {
        if sent < each && offer.is_none() {
            offer = Some(sent);
        }
        let more = received < each;
        let (_never, nothing) = channel::bounded(0);
        let receiver = if more { receiver } else { &nothing };
        select! {
            send(sender, ref mut offer) -> result => {
                result.unwrap();
                sums.0 += sent;
                sent += 1;
            }
            recv(receiver) -> value => {
                sums.1 += value.unwrap();
                received += 1;
            }
        }
    }
    sums
}

#[test]
fn two_selects_that_face_each_other_neither_miss_nor_lock_each_other() {
    let each = if child::is_native() { 20_000 } else { 500 };
    // Fibers, then OS threads, then one of each.
    for mode in 0..3 {
        let (to_b, from_a) = channel::rendezvous();
        let (to_a, from_b) = channel::rendezvous();
        let a = move || trade(&to_b, &from_b, each);
        let b = move || trade(&to_a, &from_a, each);
        let (a, b) = match mode {
            0 => pirn::run(|| {
                let other = thread::spawn(a);
                let b = b();
                (other.join().unwrap(), b)
            }),
            1 => {
                let other = std::thread::spawn(a);
                let b = b();
                (other.join().unwrap(), b)
            }
            _ => {
                let other = std::thread::spawn(a);
                let b = pirn::run(b);
                (other.join().unwrap(), b)
            }
        };
        let sum = each * (each - 1) / 2;
        assert_eq!((a, b), ((sum, sum), (sum, sum)));
    }
}

#[test]
fn under_selects_time_limits_and_cancels_every_value_is_accounted_for() {
    const PRODUCERS: u32 = 8;
    let each = if child::is_native() { 2_000 } else { 100 };
    for seed in 0..4 {
        let runtime = Builder::new().seed(seed).build().unwrap();
        let accounted = runtime.run(move || {
            let ends = [channel::rendezvous(), channel::bounded(2), channel::unbounded()];
            let seen = Rc::new(RefCell::new(Vec::new()));
            let returned = Rc::new(RefCell::new(Vec::new()));
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|producer| {
                    let senders = ends.each_ref().map(|(sender, _)| sender.clone());
                    let returned = returned.clone();
                    thread::spawn_local(move || {
                        let [a, b, c] = senders;
                        for value in producer * each..(producer + 1) * each {
                            let mut slot = Some(value);
                            match value % 4 {
                                0 => select! {
                                    send(a, ref mut slot) -> sent => sent.unwrap(),
                                    after(Duration::from_micros(20)) => {}
                                },
                                1 => {
                                    let limit = Duration::from_micros(20);
                                    slot =
                                        a.send_timeout(value, limit).err().map(|e| e.into_inner());
                                }
                                2 => slot = b.try_send(value).err().map(|_| value),
                                _ => slot = c.send(value).err().map(|e| e.0),
                            }
                            returned.borrow_mut().extend(slot);
                        }
                    })
                })
                .collect();
            let consume = || {
                let receivers = ends.each_ref().map(|(_, receiver)| receiver.clone());
                let seen = seen.clone();
                thread::spawn_local(move || {
                    let [a, b, c] = receivers;
                    loop {
                        let value = select! {
                            recv(a) -> value => value,
                            recv(b) -> value => value,
                            recv(c) -> value => value,
                            timeout(Duration::from_micros(50)) => continue,
                        };
                        seen.borrow_mut().push(value.unwrap());
                    }
                })
            };
            // Consumers come and are cancelled while they wait, or are about to.
            let mut consumers: Vec<_> = (0..4).map(|_| consume()).collect();
            let mut round = 0;
            while producers.iter().any(|producer| !producer.is_finished()) {
                thread::yield_now();
                round += 1;
                if round % 7 == 0 {
                    consumers[round % 4].cancel();
                    let cancelled = std::mem::replace(&mut consumers[round % 4], consume());
                    let _ = cancelled.join();
                }
            }
            consumers.iter().for_each(|consumer| consumer.cancel());
            consumers.into_iter().for_each(|consumer| drop(consumer.join()));
            let mut all = seen.take();
            all.extend(returned.take());
            ends.iter().for_each(|(_, receiver)| all.extend(receiver.try_iter()));
            all.sort();
            all
        });
        assert!(accounted.unwrap().into_iter().eq(0..PRODUCERS * each), "seed {seed}");
    }
}

#[test]
fn an_arm_that_loses_leaves_no_timer_and_no_memory_behind() {
    // In a process of its own: the memory is that of the whole process.
    fate::succeeds("an_arm_that_loses_leaves_no_timer_and_no_memory_behind", || {
        let selects = if child::is_native() { 1_000_000 } else { 5_000 };
        pirn::run(|| {
            let (sender, receiver) = channel::bounded(1);
            let (to_other, from_main) = channel::rendezvous();
            let other = sender.clone();
            thread::spawn(move || from_main.iter().for_each(|()| other.send(()).unwrap()));
            let mut before = 0;
            for round in 0..selects {
                if round == selects / 10 {
                    before = child::resident_bytes();
                }
                // Ready at once, and after a wait.
                if round % 2 == 0 {
                    sender.send(()).unwrap();
                } else {
                    to_other.send(()).unwrap();
                }
                select! {
                    recv(receiver) -> received => received.unwrap(),
                    after(HOUR) => unreachable!(),
                }
            }
            if child::is_native() {
                assert!(child::resident_bytes() < before + (1 << 20));
            }
        });
    });
}

/// Programs that wait for ever, and how their reports put it.
const STUCK: [(&str, &str, fn()); 3] = [
    ("macro", "waits in a select without arms", || select! {}),
    ("list", "waits in a select without arms", || {
        let _ = Select::new().select();
    }),
    ("arms", "waits in a select", || {
        let (_sender, receiver) = channel::bounded::<u8>(1);
        select! { recv(receiver) -> _ => {}, after(Duration::MAX) => {} }
    }),
];

#[test]
fn a_select_that_waits_for_ever_is_reported() {
    let test = "a_select_that_waits_for_ever_is_reported";
    for (role, expected, stuck) in STUCK {
        // In a process whose other threads are older than the runtime: a younger one might have got
        // hold of the other end.
        let stuck = || pirn::run(stuck);
        let quiet = [("RUST_BACKTRACE", "0")];
        if let Some(child) = child::child(test, role, &quiet, stuck) {
            assert_eq!(child.code, Some(101), "{child:?}");
            assert!(child.err.contains(expected), "{child:?}");
        }
    }
}

#[test]
fn a_select_without_arms_but_with_a_limit_is_a_sleep() {
    run_in_virtual_time(|| {
        let start = Instant::now();
        assert_eq!(Select::new().select_timeout(HOUR).unwrap_err(), SelectTimeoutError);
        assert_eq!(start.elapsed(), HOUR);
        assert_eq!(Select::new().try_select().unwrap_err(), TrySelectError);
        assert_eq!(Select::new().select_timeout(Duration::ZERO).unwrap_err(), SelectTimeoutError);
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn a_fiber_that_selects_when_the_runtime_ends_leaves_nothing_behind() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped: Arc<AtomicUsize> = Arc::default();
    let value = Counted(dropped.clone());
    let (sender, receiver) = channel::rendezvous();
    let (_other, from_other) = channel::rendezvous::<u8>();
    let (sender_inside, from_other_inside) = (sender.clone(), from_other.clone());
    pirn::run(|| {
        thread::spawn(move || {
            select! {
                send(sender_inside, value) -> _ => unreachable!(),
                recv(from_other_inside) -> _ => unreachable!(),
            }
        });
        thread::yield_now();
    });
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert!(receiver.try_recv().is_err());
    assert!(_other.try_send(1).is_err());
}

#[test]
fn in_a_destructor_while_the_runtime_ends_the_first_arm_is_called_off() {
    struct Checks(Rc<Cell<u32>>);
    impl Drop for Checks {
        fn drop(&mut self) {
            let (sender, receiver) = channel::rendezvous::<u8>();
            let mut slot = Some(1);
            select! {
                send(sender, ref mut slot) -> sent => assert_eq!(sent, Err(SendError(1))),
                recv(receiver) -> _ => unreachable!(),
            }
            select! { after(HOUR) => {}, recv(receiver) -> _ => unreachable!() }
            self.0.set(self.0.get() + 1);
        }
    }
    let count = Rc::new(Cell::new(0));
    let checks = Checks(count.clone());
    pirn::run(|| {
        thread::spawn_local(move || {
            let _checks = checks;
            thread::park();
        });
        thread::yield_now();
    });
    assert_eq!(count.get(), 1);
}

#[test]
fn a_list_of_operations_made_at_run_time_does_the_same() {
    run_in_virtual_time(|| {
        let ends: Vec<_> = (0..40).map(|_| channel::rendezvous()).collect();
        for (number, (sender, _)) in ends.iter().enumerate() {
            let sender = sender.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_secs(40 - number as u64));
                sender.send(number).unwrap();
            });
        }
        let mut select = Select::new();
        for (_, receiver) in &ends {
            select.recv(receiver);
        }
        for number in (0..40).rev() {
            let done = select.select();
            assert_eq!(done.index(), number);
            assert_eq!(done.recv(&ends[number].1), Ok(number));
        }
        assert!(select.try_select().is_err());

        let (sender, receiver) = channel::bounded(1);
        let (mut one, mut two) = (Some("one"), Some("two"));
        let mut select = Select::new_biased();
        let first = select.send(&sender, &mut one);
        let second = select.send(&sender, &mut two);
        let done = select.select();
        assert_eq!(done.index(), first);
        assert_eq!(done.send(&sender), Ok(()));
        let second_later = Duration::from_secs(1);
        assert_eq!(select.select_timeout(second_later).unwrap_err(), SelectTimeoutError);
        assert_eq!(receiver.try_recv(), Ok("one"));
        select.remove(second);
        assert_eq!(select.select_timeout(second_later).unwrap_err(), SelectTimeoutError);
        drop(select);
        assert_eq!((one, two), (None, Some("two")));
    });
}

#[test]
#[should_panic(expected = "the selected operation, number 0, is not the one that is asked for")]
fn what_was_received_is_not_given_out_as_something_else() {
    let (sender, receiver) = channel::bounded(1);
    let (_other, from_other) = channel::bounded::<String>(1);
    sender.send(1_u8).unwrap();
    let mut select = Select::new();
    select.recv(&receiver);
    let _ = select.select().recv(&from_other);
}
