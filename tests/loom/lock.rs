//! The lock inside a primitive, which favours one thread.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::check;
use crate::sched::bias;
use crate::sync::spin::Spin;

/// Adds one under the lock, so many times, and so that whoever comes in between is noticed.
fn add(lock: &Spin<AtomicUsize>, times: usize) {
    for _ in 0..times {
        let count = lock.lock();
        let seen = count.load(Ordering::Relaxed);
        count.store(seen + 1, Ordering::Relaxed);
    }
}

#[test]
fn a_lock_that_favours_a_thread_passes_to_another_and_counts_every_turn() {
    check(3, || {
        let lock = Arc::new(Spin::new(AtomicUsize::new(0)));
        bias::admit_thread(1);
        add(&lock, 1);
        let other = thread::spawn({
            let lock = lock.clone();
            move || {
                // One that could be favoured as well, had it come first.
                bias::admit_thread(2);
                add(&lock, 2);
            }
        });
        add(&lock, 2);
        other.join().unwrap();
        assert_eq!(lock.lock().load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_fresh_lock_favours_at_most_one_thread() {
    for token in [2, bias::NOBODY] {
        check(3, move || {
            let lock = Arc::new(Spin::new(AtomicUsize::new(0)));
            let other = thread::spawn({
                let lock = lock.clone();
                move || {
                    bias::admit_thread(token);
                    add(&lock, 2);
                }
            });
            bias::admit_thread(1);
            add(&lock, 2);
            other.join().unwrap();
            assert_eq!(lock.lock().load(Ordering::Relaxed), 4);
        });
    }
}

#[test]
fn a_lock_whose_guard_was_forgotten_is_given_back_to_all() {
    check(3, || {
        let lock = Arc::new(Spin::new(AtomicUsize::new(0)));
        bias::admit_thread(1);
        let other = thread::spawn({
            let lock = lock.clone();
            move || add(&lock, 2)
        });
        for _ in 0..2 {
            std::mem::forget(lock.lock());
            // SAFETY: the lock is held by this thread.
            let count = unsafe { &*lock.as_ptr() };
            let seen = count.load(Ordering::Relaxed);
            count.store(seen + 1, Ordering::Relaxed);
            // SAFETY: as above.
            unsafe { lock.unlock() };
        }
        other.join().unwrap();
        assert_eq!(lock.lock().load(Ordering::Relaxed), 4);
    });
}
