//! The mutex: order, poisoning, time limits, deadlocks, OS threads, the end of a runtime.

mod child;
mod fate;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::{Mutex, MutexGuard, TryLockError};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn waiters_get_it_in_the_order_in_which_they_came() {
    run(|| {
        let (mutex, order) = (Mutex::new(()), RefCell::new(Vec::new()));
        thread::scope(|s| {
            let held = mutex.lock().unwrap();
            for number in 0..10 {
                let (mutex, order) = (&mutex, &order);
                s.spawn(move || {
                    let _held = mutex.lock().unwrap();
                    thread::yield_now();
                    order.borrow_mut().push(number);
                });
            }
            thread::yield_now();
            drop(held);
            // It was handed over: whoever comes now has to wait.
            assert!(mutex.try_lock().is_err());
            let _held = mutex.lock().unwrap();
            order.borrow_mut().push(10);
        });
        assert_eq!(order.into_inner(), (0..=10).collect::<Vec<_>>());
    });
}

#[test]
fn fibers_that_hold_it_across_yields_exclude_one_another_in_every_order() {
    pirn::explore(200, || {
        let (mutex, inside) = (Mutex::new(0), Cell::new(false));
        thread::scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    for _ in 0..3 {
                        let mut total = mutex.lock().unwrap();
                        assert!(!inside.replace(true));
                        let seen = *total;
                        thread::yield_now();
                        *total = seen + 1;
                        inside.set(false);
                    }
                });
            }
        });
        assert_eq!(mutex.into_inner().unwrap(), 15);
    });
}

#[test]
fn try_lock_says_whether_it_is_held() {
    let mutex = Mutex::new(1);
    let held = mutex.try_lock().unwrap();
    assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
    drop(held);
    *mutex.try_lock().unwrap() += 1;
    assert_eq!(mutex.into_inner().unwrap(), 2);
}

#[test]
fn a_lock_with_a_time_limit_gives_up_then_and_lets_the_next_one_on() {
    run(|| {
        let mutex = Mutex::new(());
        let start = Instant::now();
        thread::scope(|s| {
            let held = mutex.lock().unwrap();
            let hasty = s.spawn(|| {
                assert!(matches!(mutex.lock_timeout(SECOND), Err(TryLockError::WouldBlock)));
                Instant::now()
            });
            let patient = s.spawn(|| {
                drop(mutex.lock_deadline(start + HOUR).unwrap());
                Instant::now()
            });
            assert_eq!(hasty.join().unwrap(), start + SECOND);
            thread::sleep(SECOND);
            drop(held);
            assert_eq!(patient.join().unwrap(), start + 2 * SECOND);
            // One that is free is had even when the time is up already.
            assert!(mutex.lock_deadline(start).is_ok());
            assert!(mutex.lock_timeout(Duration::ZERO).is_ok());
        });
    });
}

#[test]
fn a_release_in_the_same_moment_as_a_timeout_reaches_somebody() {
    for first in [true, false] {
        run(|| {
            let (mutex, got) = (Mutex::new(()), Cell::new(0));
            let deadline = Instant::now() + SECOND;
            let held = RefCell::new(Some(mutex.lock().unwrap()));
            let release = || {
                thread::sleep_until(deadline);
                drop(held.take());
            };
            thread::scope(|s| {
                if first {
                    s.spawn(release);
                    thread::yield_now();
                }
                s.spawn(|| {
                    let has_got = mutex.lock_deadline(deadline).is_ok();
                    got.set(got.get() + u32::from(has_got));
                });
                s.spawn(|| {
                    drop(mutex.lock().unwrap());
                    got.set(got.get() + 10);
                });
                thread::yield_now();
                if !first {
                    s.spawn(release);
                }
            });
            assert!(got.get() == 10 || got.get() == 11);
            assert!(mutex.try_lock().is_ok());
        });
    }
}

#[test]
fn a_panic_of_the_holder_poisons_it_as_in_std() {
    run(|| {
        let mutex = Rc::new(Mutex::new(7));
        let holder = thread::spawn_local({
            let mutex = mutex.clone();
            move || {
                let _held = mutex.lock().unwrap();
                panic::resume_unwind(Box::new("fails with the lock held"));
            }
        });
        assert!(holder.join().is_err());
        assert!(mutex.is_poisoned());
        assert_eq!(**mutex.lock().unwrap_err().get_ref(), 7);
        assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(mutex.lock_timeout(SECOND), Err(TryLockError::Poisoned(_))));
        let text = format!("{mutex:?}");
        assert_eq!(text, "Mutex { data: 7, poisoned: true, .. }");
        mutex.clear_poison();
        assert_eq!(*mutex.lock().unwrap(), 7);
        // A guard taken by a destructor in an unwind does not poison.
        struct Locks(Rc<Mutex<i32>>);
        impl Drop for Locks {
            fn drop(&mut self) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let locks = Locks(mutex.clone());
        let _ = panic::catch_unwind(AssertUnwindSafe(move || {
            let _locks = locks;
            panic::resume_unwind(Box::new(()));
        }));
        assert_eq!(*mutex.lock().unwrap(), 8);
    });
}

#[test]
fn waiters_of_a_poisoned_mutex_get_it_one_after_the_other() {
    run(|| {
        let mutex = Rc::new(Mutex::new(()));
        let held = mutex.lock().unwrap();
        let waiters = [(); 3].map(|()| {
            let mutex = mutex.clone();
            thread::spawn_local(move || mutex.lock().is_err())
        });
        thread::yield_now();
        let _ = panic::catch_unwind(AssertUnwindSafe(move || {
            let _held = held;
            panic::resume_unwind(Box::new(()));
        }));
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
    });
}

#[test]
fn the_value_is_dropped_once_and_never_with_a_guard() {
    struct Counted(Rc<Cell<u32>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Rc::new(Cell::new(0));
    let mutex = Mutex::new(Counted(drops.clone()));
    drop(mutex.lock().unwrap());
    assert_eq!(drops.get(), 0);
    drop(mutex);
    assert_eq!(drops.get(), 1);
    let value = Mutex::new(Counted(drops.clone())).into_inner();
    assert_eq!(drops.get(), 1);
    drop(value);
    assert_eq!(drops.get(), 2);
}

#[test]
fn a_mutex_in_a_static_serves_runtimes_and_threads_in_turn() {
    static TOTAL: Mutex<u32> = Mutex::new(0);
    for _ in 0..2 {
        pirn::run(|| {
            let children = [(); 3].map(|()| {
                thread::spawn(|| {
                    let mut total = TOTAL.lock().unwrap();
                    thread::yield_now();
                    *total += 1;
                })
            });
            children.into_iter().for_each(|child| child.join().unwrap());
        });
    }
    std::thread::spawn(|| *TOTAL.lock().unwrap() += 1).join().unwrap();
    assert_eq!(*TOTAL.lock().unwrap(), 7);
}

#[test]
fn a_guard_may_be_dropped_by_another_fiber_of_its_thread() {
    run(|| {
        static MUTEX: Mutex<i32> = Mutex::new(1);
        let mutex = &MUTEX;
        let guard: MutexGuard<'static, i32> = mutex.lock().unwrap();
        thread::spawn_local(move || drop(guard));
        assert_eq!(*mutex.lock().unwrap(), 1);
    });
}

#[test]
fn threads_and_fibers_of_several_runtimes_exclude_one_another() {
    const ROUNDS: usize = if cfg!(target_arch = "x86_64") { 3_000 } else { 500 };
    let mutex = Arc::new(Mutex::new(0));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    drop(mutex.lock());
    let inside = Arc::new(AtomicBool::new(false));
    let work = {
        let (mutex, inside) = (mutex.clone(), inside.clone());
        move |round: usize| {
            let mut total = mutex.lock().unwrap();
            assert!(!inside.swap(true, Ordering::Relaxed));
            *total += 1;
            if round.is_multiple_of(64) {
                thread::yield_now();
            }
            inside.store(false, Ordering::Relaxed);
        }
    };
    let mut threads: Vec<_> = (0..2)
        .map(|_| {
            let work = work.clone();
            std::thread::spawn(move || (0..ROUNDS).for_each(work))
        })
        .collect();
    for _ in 0..2 {
        let work = work.clone();
        threads.push(std::thread::spawn(move || {
            pirn::run(|| {
                thread::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| (0..ROUNDS).for_each(&work));
                    }
                });
            });
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*mutex.lock().unwrap(), 8 * ROUNDS);
}

#[test]
fn one_that_locks_and_unlocks_in_a_loop_does_not_keep_others_out() {
    // The one in the loop a thread and the other a fiber, and the other way round.
    for greedy_is_thread in [true, false] {
        let mutex = Arc::new(Mutex::new(()));
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let greedy = {
            let (mutex, stop, turns) = (mutex.clone(), stop.clone(), turns.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let _held = mutex.lock().unwrap();
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let modest = move || {
            while turns.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            for _ in 0..3 {
                drop(mutex.lock_timeout(60 * SECOND).expect("its turn comes"));
            }
            stop.store(true, Ordering::Relaxed);
        };
        type Work = Box<dyn FnOnce() + Send>;
        let (first, second): (Work, Work) = if greedy_is_thread {
            (Box::new(greedy), Box::new(move || pirn::run(modest)))
        } else {
            (Box::new(move || pirn::run(greedy)), Box::new(modest))
        };
        let first = std::thread::spawn(first);
        std::thread::spawn(second).join().unwrap();
        first.join().unwrap();
    }
}

#[test]
fn a_fiber_waits_for_a_thread_that_holds_it_and_that_is_no_deadlock() {
    let mutex = Arc::new(Mutex::new(0));
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel();
    // Older than the runtime, so that only the mutex itself can tell of it.
    let holder = std::thread::spawn({
        let mutex = mutex.clone();
        move || {
            let mut held = mutex.lock().unwrap();
            ready.send(()).unwrap();
            told.recv().unwrap();
            *held = 1;
        }
    });
    is_ready.recv().unwrap();
    pirn::run(|| {
        thread::spawn(move || tell.send(()).unwrap());
        assert_eq!(*mutex.lock().unwrap(), 1);
    });
    holder.join().unwrap();
}

#[test]
fn the_end_of_a_runtime_neither_poisons_nor_prints() {
    let test = "the_end_of_a_runtime_neither_poisons_nor_prints";
    let err = fate::succeeds(test, || {
        let mutex = Arc::new(Mutex::new(0));
        pirn::run(|| {
            // On this carrier, in this order.
            thread::spawn_local({
                let mutex = mutex.clone();
                move || {
                    let _held = mutex.lock().unwrap();
                    thread::park();
                }
            });
            for _ in 0..3 {
                let mutex = mutex.clone();
                thread::spawn_local(move || {
                    let _held = mutex.lock().unwrap();
                    unreachable!("it is never given back to be taken");
                });
            }
            thread::yield_now();
            assert!(mutex.try_lock().is_err());
        });
        assert!(!mutex.is_poisoned());
        *mutex.try_lock().expect("everybody has been unwound") += 1;
        assert_eq!(Arc::try_unwrap(mutex).unwrap().into_inner().unwrap(), 1);
    });
    assert_eq!(err, "");
}

#[test]
fn a_mutex_handed_to_a_fiber_that_ends_with_its_runtime_goes_on_to_a_thread() {
    let mutex = Arc::new(Mutex::new(0));
    let waiting = Arc::new(AtomicBool::new(false));
    let held = mutex.lock().unwrap();
    let other = std::thread::spawn({
        let (mutex, waiting) = (mutex.clone(), waiting.clone());
        move || {
            pirn::run(|| {
                let child = thread::spawn({
                    let mutex = mutex.clone();
                    move || drop(mutex.lock())
                });
                thread::yield_now();
                waiting.store(true, Ordering::Release);
                // The child waits when main ends.
                drop(child);
            });
            *mutex.lock().unwrap() += 1;
        }
    });
    while !waiting.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    drop(held);
    other.join().unwrap();
    assert_eq!(*mutex.lock().unwrap(), 1);
}

#[test]
fn cancelled_waiters_leave_it_to_the_others_in_every_order() {
    pirn::explore(300, || {
        let (mutex, got) = (Rc::new(Mutex::new(())), Rc::new(Cell::new(0)));
        let held = mutex.lock().unwrap();
        let waiters = [(); 4].map(|()| {
            let (mutex, got) = (mutex.clone(), got.clone());
            thread::spawn_local(move || {
                let _held = mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                got.set(got.get() + 1);
            })
        });
        thread::yield_now();
        let canceller = thread::spawn(move || {
            waiters[0].cancel();
            waiters[2].cancel();
            waiters
        });
        drop(held);
        let waiters = canceller.join().unwrap();
        let ended = waiters.map(|waiter| waiter.join().is_ok());
        assert!(ended[1] && ended[3]);
        assert_eq!(got.get(), ended.into_iter().filter(|&ok| ok).count());
        assert!(!matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
    });
}
