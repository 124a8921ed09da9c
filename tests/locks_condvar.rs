//! The condition variable.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pirn::sync::{Condvar, Mutex};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn notifications_reach_waiters_in_order_one_each_or_all() {
    run(|| {
        let (mutex, condvar, log) = (Mutex::new(()), Condvar::new(), RefCell::new(Vec::new()));
        thread::scope(|s| {
            for number in 0..5 {
                let (mutex, condvar, log) = (&mutex, &condvar, &log);
                s.spawn(move || {
                    let guard = condvar.wait(mutex.lock().unwrap()).unwrap();
                    log.borrow_mut().push(number);
                    drop(guard);
                });
            }
            thread::yield_now();
            condvar.notify_one();
            thread::yield_now();
            assert_eq!(*log.borrow(), [0]);
            condvar.notify_one();
            condvar.notify_one();
            thread::yield_now();
            assert_eq!(*log.borrow(), [0, 1, 2]);
            condvar.notify_all();
        });
        assert_eq!(log.into_inner(), [0, 1, 2, 3, 4]);
        // One that nobody waits for is lost.
        condvar.notify_one();
        let (_guard, result) = condvar.wait_timeout(mutex.lock().unwrap(), SECOND).unwrap();
        assert!(result.timed_out());
    });
}

#[test]
fn however_a_wait_ends_the_mutex_is_held_then() {
    pirn::explore(200, || {
        let (mutex, condvar, inside) = (Mutex::new(0), Condvar::new(), Cell::new(false));
        let alone = || {
            assert!(!inside.replace(true));
            thread::yield_now();
            inside.set(false);
        };
        thread::scope(|s| {
            // Holds it when the limits below are reached.
            s.spawn(|| {
                for _ in 0..5 {
                    let guard = mutex.lock().unwrap();
                    assert!(!inside.replace(true));
                    thread::sleep(3 * SECOND);
                    inside.set(false);
                    drop(guard);
                }
            });
            s.spawn(|| {
                let (guard, result) = condvar.wait_timeout(mutex.lock().unwrap(), SECOND).unwrap();
                alone();
                assert!(result.timed_out());
                // The next wait does not return at once.
                let start = Instant::now();
                let (guard, result) = condvar.wait_deadline(guard, start + SECOND).unwrap();
                alone();
                assert!(result.timed_out() && start.elapsed() >= SECOND);
                drop(guard);
            });
            s.spawn(|| {
                let guard = mutex.lock().unwrap();
                let (guard, result) =
                    condvar.wait_timeout_while(guard, 2 * SECOND, |value| *value == 0).unwrap();
                alone();
                assert!(result.timed_out());
                drop(guard);
            });
            s.spawn(|| {
                let guard = mutex.lock().unwrap();
                let wait = || drop(condvar.wait(guard));
                assert!(pirn::time::timeout(2 * SECOND, wait).is_err());
                let _guard = mutex.lock();
                alone();
            });
        });
        assert!(mutex.try_lock().is_ok());
    });
}

#[test]
fn waits_with_a_condition_see_it_change_and_say_what_ended_them() {
    run(|| {
        let (mutex, condvar) = (Mutex::new(0), Condvar::new());
        thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..3 {
                    thread::sleep(SECOND);
                    *mutex.lock().unwrap() += 1;
                    condvar.notify_all();
                }
            });
            let guard = condvar.wait_while(mutex.lock().unwrap(), |value| *value < 2).unwrap();
            assert_eq!(*guard, 2);
            let (guard, result) =
                condvar.wait_timeout_while(guard, 5 * SECOND, |value| *value < 3).unwrap();
            assert_eq!((*guard, result.timed_out()), (3, false));
            // True already, with no time at all.
            let (_guard, result) =
                condvar.wait_timeout_while(guard, Duration::ZERO, |value| *value < 3).unwrap();
            assert!(!result.timed_out());
        });
    });
}

#[test]
fn a_notification_to_a_waiter_that_is_cancelled_or_late_is_not_lost() {
    // In one step: notify, which picks the first, and cancel the first; the mutex is free or held.
    for way in 0..4 {
        pirn::explore(500, || {
            let pair = Rc::new((Mutex::new(()), Condvar::new()));
            let woken = Rc::new(Cell::new(0));
            let waiters = [(); 2].map(|()| {
                let (pair, woken) = (pair.clone(), woken.clone());
                let waiter = thread::spawn_local(move || {
                    let guard = pair.0.lock().unwrap();
                    let _guard =
                        pair.1.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
                    woken.set(woken.get() + 1);
                });
                thread::sleep(SECOND); // until it waits
                waiter
            });
            let held = (way % 2 == 0).then(|| pair.0.lock().unwrap());
            if way < 2 {
                pair.1.notify_one();
                waiters[0].cancel();
            } else {
                waiters[0].cancel();
                pair.1.notify_one();
            }
            thread::sleep(SECOND);
            drop(held);
            thread::sleep(SECOND);
            let [first, second] = waiters;
            assert!(first.is_finished(), "cancelled or woken");
            let first = first.join().is_ok();
            assert!(first || second.is_finished(), "one of them has the notification");
            assert_eq!(woken.get(), u32::from(first) + u32::from(second.is_finished()));
            if !second.is_finished() {
                pair.1.notify_one();
            }
            second.join().unwrap();
        });
    }
}

#[test]
fn timeouts_that_race_with_notifications_end_each_wait_once() {
    let wakes = Rc::new(Cell::new(0));
    const WAITS: u32 = if cfg!(target_arch = "x86_64") { 2_000 } else { 200 };
    run(|| {
        let pair = Rc::new((Mutex::new(()), Condvar::new()));
        let done = Rc::new(Cell::new(0));
        let waiters = [(); 6].map(|()| {
            let (pair, wakes, done) = (pair.clone(), wakes.clone(), done.clone());
            thread::spawn_local(move || {
                for _ in 0..WAITS {
                    let guard = pair.0.lock().unwrap();
                    let limit = Duration::from_millis(5);
                    let (_guard, result) = pair.1.wait_timeout(guard, limit).unwrap();
                    wakes.set(wakes.get() + u32::from(!result.timed_out()));
                }
                done.set(done.get() + 1);
            })
        });
        let mut notified = 0;
        while done.get() < 6 {
            thread::sleep(Duration::from_millis(5));
            pair.1.notify_one();
            notified += 1;
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(wakes.get() <= notified);
    });
}

#[test]
fn timeouts_that_race_with_notifications_of_threads_end_each_wait_once() {
    let pair = Arc::new((Mutex::new(0u32), Condvar::new()));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    drop(pair.0.lock());
    pair.1.notify_one();
    let rounds = if cfg!(target_arch = "x86_64") { 300 } else { 50 };
    let waiter = {
        let pair = pair.clone();
        move || {
            let mut wakes = 0;
            for _ in 0..rounds {
                let guard = pair.0.lock().unwrap();
                let (_guard, result) =
                    pair.1.wait_timeout(guard, Duration::from_micros(300)).unwrap();
                wakes += u32::from(!result.timed_out());
            }
            *pair.0.lock().unwrap() += 1;
            wakes
        }
    };
    let threads = [false, true, true].map(|on_fibers| {
        let waiter = waiter.clone();
        std::thread::spawn(move || match on_fibers {
            false => waiter(),
            true => pirn::run(|| {
                let fibers = [(); 2].map(|()| thread::spawn(waiter.clone()));
                fibers.map(|fiber| fiber.join().unwrap()).into_iter().sum()
            }),
        })
    });
    let mut notified = 0;
    while *pair.0.lock().unwrap() < 5 {
        pair.1.notify_one();
        notified += 1;
        std::thread::yield_now();
    }
    let wakes: u32 = threads.map(|thread| thread.join().unwrap()).into_iter().sum();
    assert!(wakes <= notified);
}

#[test]
fn threads_and_fibers_pass_items_through_a_condition() {
    let queue = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    drop(queue.0.lock());
    queue.1.notify_one();
    const ITEMS: u64 = if cfg!(target_arch = "x86_64") { 2_000 } else { 300 };
    let consume = {
        let queue = queue.clone();
        move || {
            let mut sum = 0;
            for _ in 0..ITEMS {
                let items = queue.0.lock().unwrap();
                let mut items = queue.1.wait_while(items, |items| items.is_empty()).unwrap();
                sum += items.pop().unwrap();
            }
            sum
        }
    };
    let consumers = [false, true].map(|on_fiber| {
        let consume = consume.clone();
        std::thread::spawn(move || if on_fiber { pirn::run(consume) } else { consume() })
    });
    for item in 0..2 * ITEMS {
        queue.0.lock().unwrap().push(item);
        queue.1.notify_one();
    }
    let sum: u64 = consumers.map(|consumer| consumer.join().unwrap()).into_iter().sum();
    assert_eq!(sum, (0..2 * ITEMS).sum());
}

#[test]
fn the_poison_of_the_mutex_shows_when_a_wait_ends() {
    run(|| {
        let pair = Rc::new((Mutex::new(()), Condvar::new()));
        let waiters = [true, false].map(|limited| {
            let pair = pair.clone();
            thread::spawn_local(move || {
                let guard = pair.0.lock().unwrap();
                if limited {
                    pair.1.wait_timeout(guard, SECOND).unwrap_err().into_inner().1.timed_out()
                } else {
                    pair.1.wait(guard).is_ok()
                }
            })
        });
        thread::yield_now();
        let _ = panic::catch_unwind(AssertUnwindSafe(|| {
            let _held = pair.0.lock().unwrap();
            panic::resume_unwind(Box::new(()));
        }));
        pair.1.notify_all();
        assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [false, false]);
    });
}

#[test]
fn waiters_end_with_their_runtime_and_without_the_mutex() {
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    pirn::run(|| {
        for _ in 0..3 {
            let pair = pair.clone();
            thread::spawn(move || drop(pair.1.wait(pair.0.lock().unwrap())));
        }
        thread::yield_now();
    });
    assert!(pair.0.try_lock().is_ok(), "free and not poisoned");
    assert_eq!(Arc::strong_count(&pair), 1);
}
