//! Selects that join fibers, and selects that hear of their own fiber's cancellation.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::channel;
use pirn::thread::{self, Cancelled, JoinHandle};
use pirn::time::{self, Instant};
use pirn::{Builder, Runtime, select};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn run_in_virtual_time<T: 'static>(main: impl FnOnce() -> T) -> T {
    Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

/// Notes that it was dropped.
struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_fiber_that_has_ended_is_joined_at_once_and_one_that_ends_later_then() {
    run_in_virtual_time(|| {
        for sleeps in [Duration::ZERO, SECOND] {
            let mut child = Some(thread::spawn(move || {
                thread::sleep(sleeps);
                "done"
            }));
            if sleeps.is_zero() {
                while !child.as_ref().unwrap().is_finished() {
                    thread::yield_now();
                }
            }
            let start = Instant::now();
            let result = select! {
                join(ref mut child) -> result => result,
                after(HOUR) => unreachable!(),
            };
            assert_eq!((result.unwrap(), start.elapsed()), ("done", sleeps));
            assert!(child.is_none());
        }
    });
}

#[test]
fn an_arm_that_loses_leaves_the_handle_the_fiber_and_its_result() {
    run_in_virtual_time(|| {
        let (sender, receiver) = channel::bounded(1);
        let drops = Rc::new(Cell::new(0));
        let result = Counted(drops.clone());
        let mut child = Some(thread::spawn_local(move || {
            thread::park();
            result
        }));
        for round in 0..10 {
            // Ready at once, after a wait, and by a time limit.
            match round % 3 {
                0 => sender.send(round).unwrap(),
                1 => {
                    let sender = sender.clone();
                    thread::spawn(move || sender.send(round).unwrap());
                }
                _ => {}
            }
            let lost_to = select! {
                join(ref mut child) -> _ => unreachable!("it is parked"),
                recv(receiver) -> number => number.ok(),
                after(SECOND) => None,
            };
            assert_eq!(lost_to, (round % 3 != 2).then_some(round));
            assert!(!child.as_ref().unwrap().is_finished());
        }
        let child = child.unwrap();
        child.thread().unpark();
        drop(child.join().unwrap());
        assert_eq!(drops.get(), 1);
    });
}

#[test]
fn a_handle_that_was_joined_is_never_chosen_again() {
    run_in_virtual_time(|| {
        let mut joined = Some(thread::spawn(|| 1));
        let mut later = Some(thread::spawn(|| thread::sleep(SECOND)));
        let mut ends = Vec::new();
        while joined.is_some() || later.is_some() {
            select! {
                join(ref mut joined) -> result => ends.push(result.unwrap()),
                join(ref mut later) -> result => {
                    result.unwrap();
                    ends.push(2);
                }
            }
        }
        assert_eq!(ends, [1, 2]);
        let none: &mut Option<JoinHandle<()>> = &mut None;
        assert!(select! { join(ref mut *none) -> _ => false, default => true });
    });
}

#[test]
fn panics_and_cancellations_of_the_joined_arrive_as_with_join() {
    pirn::run(|| {
        let mut panics = Some(thread::spawn(|| std::panic::resume_unwind(Box::new(7))));
        let payload = select! { join(ref mut panics) -> result => result.unwrap_err() };
        assert_eq!(payload.downcast_ref(), Some(&7));
        let mut cancelled = Some(thread::spawn(thread::park));
        thread::yield_now();
        cancelled.as_ref().unwrap().cancel();
        let payload = select! { join(ref mut cancelled) -> result => result.unwrap_err() };
        assert!(payload.is::<Cancelled>());
    });
}

#[test]
fn scoped_fibers_are_joined_as_well_and_a_panic_is_reported_once() {
    pirn::run(|| {
        let text = String::from("borrowed");
        thread::scope(|s| {
            let mut child = Some(s.spawn(|| &text[..3]));
            let mut panics = Some(s.spawn(|| std::panic::resume_unwind(Box::new(()))));
            let part = select! { join(ref mut child) -> part => part.unwrap() };
            assert_eq!(part, "bor");
            assert!(select! { join(ref mut panics) -> result => result.is_err() });
        });
    });
}

#[test]
fn of_arms_that_are_ready_each_gets_its_share() {
    const ROUNDS: usize = 6_000;
    pirn::run(|| {
        let (sender, receiver) = channel::bounded(1);
        let mut wins = [0; 3];
        for _ in 0..ROUNDS {
            let _ = sender.try_send(());
            let mut children = [(); 2].map(|()| Some(thread::spawn_local(|| ())));
            thread::yield_now();
            let [first, second] = &mut children;
            let winner = select! {
                join(ref mut *first) -> result => result.map(|()| 0).unwrap(),
                recv(receiver) -> unit => unit.map(|()| 1).unwrap(),
                join(ref mut *second) -> result => result.map(|()| 2).unwrap(),
            };
            wins[winner] += 1;
        }
        // The lots are the same in each run.
        assert!(wins.iter().all(|&wins| wins > ROUNDS / 4), "{wins:?}");
    });
}

#[test]
fn in_a_biased_select_the_first_that_is_ready_wins() {
    pirn::run(|| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let mut child = Some(thread::spawn(|| ()));
        thread::yield_now();
        for _ in 0..10 {
            select! {
                biased;
                recv(receiver) -> number => sender.send(number.unwrap()).unwrap(),
                join(ref mut child) -> _ => unreachable!("it comes second"),
            }
        }
        select! {
            biased;
            join(ref mut child) -> result => result.unwrap(),
            recv(receiver) -> _ => unreachable!("it comes second"),
        }
    });
}

/// Ends, messages and time limits race on several OS threads: each is seen once.
#[test]
fn every_end_and_every_message_is_seen_once_across_os_threads() {
    const CHILDREN: usize = 200;
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let ran = &AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let selectors: Vec<_> = (0..3)
            .map(|number: usize| {
                let handle = handle.clone();
                threads.spawn(move || {
                    let select_all = move || {
                        let (sender, receiver) = channel::unbounded();
                        let (mut ends, mut messages) = (0, 0);
                        for child in 0..CHILDREN {
                            let sender = sender.clone();
                            let mut child = Some(handle.spawn(move || {
                                (0..child % 3).for_each(|_| thread::yield_now());
                                sender.send(child).unwrap();
                                child
                            }));
                            while child.is_some() {
                                select! {
                                    join(ref mut child) -> _ => ends += 1,
                                    recv(receiver) -> message => messages += message.map(|_| 1).unwrap(),
                                    after(Duration::from_micros(50)) => {}
                                }
                            }
                        }
                        messages += receiver.try_iter().count();
                        (ends, messages)
                    };
                    // From a plain thread, and from fibers of other runtimes.
                    let seen = if number == 0 { select_all() } else { pirn::run(select_all) };
                    ran.fetch_add(1, Ordering::Relaxed);
                    seen
                })
            })
            .collect();
        drop(handle);
        runtime
            .run(|| {
                while ran.load(Ordering::Relaxed) < 3 {
                    thread::sleep(Duration::from_millis(1));
                }
            })
            .unwrap();
        for selector in selectors {
            assert_eq!(selector.join().unwrap(), (CHILDREN, CHILDREN));
        }
    });
}

#[test]
fn an_end_between_the_first_look_and_the_wait_is_not_missed() {
    const ROUNDS: u32 = if cfg!(debug_assertions) { 4_000 } else { 20_000 };
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let done = &AtomicUsize::new(0);
    std::thread::scope(|threads| {
        // A fiber of another runtime, so that the children end while it begins to wait.
        let selector = threads.spawn(move || {
            pirn::run(move || {
                for round in 0..ROUNDS {
                    let mut child = Some(handle.spawn(|| {}));
                    (0..round % 64).for_each(|_| std::hint::spin_loop());
                    select! {
                        join(ref mut child) -> ended => ended.unwrap(),
                        after(HOUR) => unreachable!(),
                    }
                }
            });
            done.store(1, Ordering::Relaxed);
        });
        runtime
            .run(|| {
                while done.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
            })
            .unwrap();
        selector.join().unwrap();
    });
}

/// A fiber that waits in a select with a `cancelled` arm, and what it says then.
fn waits_to_be_cancelled(shielded: bool) -> JoinHandle<&'static str> {
    thread::spawn(move || {
        let (_sender, receiver) = channel::bounded::<()>(1);
        let choose = || {
            select! {
                recv(receiver) -> _ => unreachable!(),
                cancelled => "cancelled",
                after(HOUR) => "an hour has passed",
            }
        };
        if shielded { thread::shield(choose) } else { choose() }
    })
}

#[test]
fn a_cancelled_fiber_completes_the_arm_for_it_before_and_during_the_wait() {
    run_in_virtual_time(|| {
        for waits in [true, false] {
            let start = Instant::now();
            let go = Rc::new(Cell::new(false));
            let child = thread::spawn_local({
                let go = go.clone();
                move || {
                    while !waits && !go.get() {
                        thread::shield(thread::yield_now);
                    }
                    select! { cancelled => "cancelled", after(HOUR) => "late" }
                }
            });
            thread::yield_now();
            child.cancel();
            go.set(true);
            assert_eq!(child.join().unwrap(), "cancelled");
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
    });
}

#[test]
fn the_arm_for_a_cancellation_leaves_the_fiber_cancelled() {
    run_in_virtual_time(|| {
        let child = thread::spawn(|| {
            select! { cancelled => {}, after(HOUR) => unreachable!() }
            // Clean-up may wait in a shield; any other wait ends the fiber.
            let start = Instant::now();
            thread::shield(|| thread::sleep(SECOND));
            assert_eq!(start.elapsed(), SECOND);
            assert!(select! { cancelled => true, default => false });
            thread::park();
            unreachable!("it is cancelled");
        });
        thread::yield_now();
        child.cancel();
        assert!(child.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn the_arm_for_a_cancellation_is_never_chosen_in_a_shield() {
    run_in_virtual_time(|| {
        let [shielded, plain] = [true, false].map(waits_to_be_cancelled);
        thread::yield_now();
        shielded.cancel();
        plain.cancel();
        assert_eq!(plain.join().unwrap(), "cancelled");
        // It waits on, and its fiber ends by itself: without a further wait nothing unwinds it.
        assert_eq!(shielded.join().unwrap(), "an hour has passed");
    });
}

#[test]
fn a_time_limit_is_no_cancellation_and_neither_is_the_end_of_the_runtime() {
    let chosen = Rc::new(Cell::new(0));
    run_in_virtual_time({
        let chosen = chosen.clone();
        move || {
            let limited = time::timeout(SECOND, || {
                select! { cancelled => unreachable!(), after(HOUR) => unreachable!() }
            });
            assert!(limited.is_err());
            thread::spawn_local(move || {
                select! { cancelled => chosen.set(1), after(HOUR) => chosen.set(2) }
            });
            thread::yield_now();
        }
    });
    assert_eq!(chosen.get(), 0);
    // An OS thread cannot be cancelled.
    assert!(select! { cancelled => false, default => true });
}

#[test]
fn a_cancellation_in_the_moment_of_a_message_loses_neither() {
    for seed in 0..300 {
        let runtime = Builder::new().virtual_time(true).seed(seed).build().unwrap();
        let accounted = runtime.run(|| {
            let (sender, receiver) = channel::rendezvous();
            let received = receiver.clone();
            let selector = thread::spawn(move || {
                select! {
                    recv(received) -> number => number.ok(),
                    cancelled => None,
                }
            });
            let sends = thread::spawn(move || sender.send(1).is_ok());
            let cancels = {
                let selector = Rc::new(Cell::new(Some(selector)));
                let handle = selector.clone();
                thread::spawn_local(move || {
                    let selector = handle.take().unwrap();
                    selector.cancel();
                    selector
                })
            };
            let by_select = cancels.join().unwrap().join();
            // One that was cancelled before it began never selects.
            let by_select = by_select.unwrap_or(None);
            let left = if by_select.is_none() { receiver.recv().ok() } else { None };
            (by_select.or(left), sends.join().unwrap())
        });
        assert_eq!(accounted.unwrap(), (Some(1), true), "seed {seed}");
    }
}
