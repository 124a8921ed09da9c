//! The read-write lock.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::{RwLock, RwLockWriteGuard, TryLockError};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn many_read_at_a_time_and_one_writes() {
    run(|| {
        let lock = RwLock::new(1);
        let (one, two) = (lock.read().unwrap(), lock.try_read().unwrap());
        assert_eq!(*one + *two, 2);
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        drop((one, two));
        let mut writer = lock.try_write().unwrap();
        *writer = 5;
        assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
        assert!(matches!(lock.read_timeout(SECOND), Err(TryLockError::WouldBlock)));
        assert!(matches!(lock.write_timeout(SECOND), Err(TryLockError::WouldBlock)));
        drop(writer);
        assert_eq!(lock.into_inner().unwrap(), 5);
    });
}

#[test]
fn the_queue_is_served_in_order_and_readers_in_a_row_get_in_together() {
    run(|| {
        let (lock, log) = (RwLock::new(()), RefCell::new(Vec::new()));
        thread::scope(|s| {
            let first = lock.read().unwrap();
            for (number, kind) in "rwrrwwr".chars().enumerate() {
                let (lock, log) = (&lock, &log);
                let note = move |what: &str| log.borrow_mut().push(format!("{what}{number}"));
                s.spawn(move || {
                    if kind == 'r' {
                        let _held = lock.read().unwrap();
                        note("+");
                        thread::sleep(SECOND);
                        note("-");
                    } else {
                        let _held = lock.write().unwrap();
                        note("+");
                        thread::sleep(SECOND);
                        note("-");
                    }
                });
            }
            thread::yield_now();
            // The reader that came before the first writer is in; nobody overtakes that.
            assert_eq!(*log.borrow(), ["+0"]);
            assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
            drop(first);
        });
        let expected = "+0 -0 +1 -1 +2 +3 -2 -3 +4 -4 +5 -5 +6 -6";
        assert_eq!(log.into_inner().join(" "), expected);
    });
}

#[test]
fn readers_behind_a_writer_that_gives_up_get_in_at_once() {
    // By its time limit, by cancellation, and by a limit around the call.
    for way in 0..3 {
        run(|| {
            let lock = Rc::new(RwLock::new(()));
            let start = Instant::now();
            let held = lock.read().unwrap();
            let writer = thread::spawn_local({
                let lock = lock.clone();
                move || match way {
                    0 => assert!(lock.write_timeout(20 * SECOND).is_err()),
                    1 => unreachable!("{:?}", lock.write().map(drop)),
                    _ => {
                        let wait = || drop(lock.write());
                        assert!(pirn::time::timeout(20 * SECOND, wait).is_err());
                    }
                }
            });
            thread::yield_now();
            let readers = [(); 2].map(|()| {
                let lock = lock.clone();
                thread::spawn_local(move || {
                    drop(lock.read().unwrap());
                    Instant::now()
                })
            });
            thread::sleep(20 * SECOND);
            if way == 1 {
                writer.cancel();
            }
            for reader in readers {
                assert_eq!(reader.join().unwrap(), start + 20 * SECOND);
            }
            assert_eq!(writer.join().is_err(), way == 1);
            drop(held);
            assert!(lock.try_write().is_ok());
        });
    }
}

#[test]
fn a_writer_panics_and_poisons_but_a_reader_does_not() {
    run(|| {
        let lock = RwLock::new(3);
        let fail = |hold: &dyn Fn(&mut dyn FnMut())| {
            let result = panic::catch_unwind(AssertUnwindSafe(|| {
                hold(&mut || panic::resume_unwind(Box::new(())));
            }));
            assert!(result.is_err());
        };
        fail(&|fail| {
            let _held = lock.read().unwrap();
            fail();
        });
        assert!(!lock.is_poisoned());
        fail(&|fail| {
            let _held = lock.write().unwrap();
            fail();
        });
        assert!(lock.is_poisoned());
        assert_eq!(**lock.read().unwrap_err().get_ref(), 3);
        assert_eq!(**lock.write().unwrap_err().get_ref(), 3);
        assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(lock.write_timeout(SECOND), Err(TryLockError::Poisoned(_))));
        assert_eq!(format!("{lock:?}"), "RwLock { data: 3, poisoned: true, .. }");
        lock.clear_poison();
        assert_eq!(lock.into_inner().unwrap(), 3);
    });
}

#[test]
fn a_downgraded_writer_reads_on_and_lets_the_readers_in() {
    run(|| {
        let lock = RwLock::new(0);
        thread::scope(|s| {
            let mut writer = lock.write().unwrap();
            let reader = s.spawn(|| *lock.read().unwrap());
            let next = s.spawn(|| *lock.write().unwrap() = 2);
            thread::yield_now();
            *writer = 1;
            let reading = RwLockWriteGuard::downgrade(writer);
            assert_eq!(reader.join().unwrap(), 1);
            assert!(!next.is_finished());
            assert_eq!(*reading, 1);
            drop(reading);
            next.join().unwrap();
        });
        assert_eq!(lock.into_inner().unwrap(), 2);
    });
}

#[test]
fn threads_and_fibers_see_no_reader_beside_a_writer() {
    const ROUNDS: usize = if cfg!(target_arch = "x86_64") { 2_000 } else { 300 };
    let lock = Arc::new(RwLock::new((0usize, 0usize)));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    drop(lock.read());
    let writes = Arc::new(AtomicUsize::new(0));
    let work = {
        let (lock, writes) = (lock.clone(), writes.clone());
        move |round: usize| {
            if round.is_multiple_of(4) {
                let mut pair = lock.write().unwrap();
                pair.0 += 1;
                if round.is_multiple_of(64) {
                    thread::yield_now();
                }
                pair.1 += 1;
                writes.fetch_add(1, Ordering::Relaxed);
            } else {
                let pair = lock.read().unwrap();
                if round % 64 == 1 {
                    thread::yield_now();
                }
                assert_eq!(pair.0, pair.1);
            }
        }
    };
    let mut threads = Vec::new();
    for is_fiber in [false, false, true, true] {
        let work = work.clone();
        threads.push(std::thread::spawn(move || {
            if is_fiber {
                pirn::run(|| {
                    thread::scope(|s| {
                        for _ in 0..3 {
                            s.spawn(|| (0..ROUNDS).for_each(&work));
                        }
                    });
                });
            } else {
                (0..ROUNDS).for_each(work);
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(lock.read().unwrap().0, writes.load(Ordering::Relaxed));
    assert_eq!(lock.read().unwrap().1, 8 * ROUNDS / 4);
}
