//! The semaphore.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::{AcquireError, Semaphore};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn permits_are_taken_and_come_back() {
    run(|| {
        let semaphore = Semaphore::new(3);
        let two = semaphore.acquire_many(2).unwrap();
        assert_eq!((two.permits(), semaphore.available_permits()), (2, 1));
        let one = semaphore.try_acquire().unwrap();
        assert_eq!(semaphore.try_acquire().unwrap_err(), AcquireError::WouldBlock);
        assert_eq!(semaphore.acquire_timeout(SECOND).unwrap_err(), AcquireError::TimedOut);
        drop(two);
        drop(semaphore.acquire_many_deadline(2, Instant::now()).unwrap());
        one.forget();
        assert_eq!(semaphore.available_permits(), 2);
        semaphore.add_permits(1).unwrap();
        assert_eq!(semaphore.available_permits(), 3);
        // None at all are always to be had.
        let _all = semaphore.acquire_many(3).unwrap();
        assert_eq!(semaphore.acquire_many(0).unwrap().permits(), 0);
    });
}

#[test]
fn a_request_for_more_than_can_ever_be_is_an_error_at_once() {
    run(|| {
        let semaphore = Semaphore::new(5);
        let too_many = AcquireError::TooMany { requested: 6, maximum: 5 };
        assert_eq!(semaphore.acquire_many(6).unwrap_err(), too_many);
        assert_eq!(semaphore.try_acquire_many(6).unwrap_err(), too_many);
        assert_eq!(semaphore.acquire_many_timeout(6, SECOND).unwrap_err(), too_many);
        assert!(
            too_many.to_string().contains("6 permits were asked of a semaphore that has at most 5")
        );
        assert!(matches!(Semaphore::new(0).acquire(), Err(AcquireError::TooMany { .. })));
    });
}

#[test]
fn permits_beyond_the_maximum_are_refused_and_nothing_changes() {
    let semaphore = Semaphore::new(1);
    assert!(semaphore.add_permits(usize::MAX).is_err());
    assert!(semaphore.add_permits(1).is_err());
    let held = semaphore.acquire().unwrap();
    assert!(semaphore.add_permits(1).is_err(), "the one that is held counts");
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
    let semaphore = Semaphore::with_maximum(1, usize::MAX);
    semaphore.add_permits(usize::MAX - 1).unwrap();
    assert_eq!(semaphore.available_permits(), usize::MAX);
    let error = semaphore.add_permits(1).unwrap_err().to_string();
    assert!(error.starts_with("1 permits were to be added"), "{error}");
    assert!(std::panic::catch_unwind(|| Semaphore::with_maximum(2, 1)).is_err());
}

#[test]
fn nobody_overtakes_a_large_request_and_it_is_served_when_enough_came_back() {
    run(|| {
        let semaphore = Semaphore::new(5);
        thread::scope(|s| {
            let mut held: Vec<_> = (0..5).map(|_| semaphore.acquire().unwrap()).collect();
            let large = s.spawn(|| drop(semaphore.acquire_many(5).unwrap()));
            let small = s.spawn(|| drop(semaphore.acquire().unwrap()));
            for left in (0..5).rev() {
                thread::yield_now();
                assert!(!large.is_finished() && !small.is_finished());
                assert!(left == 4 || semaphore.try_acquire().is_err(), "permits are there");
                held.pop();
            }
            thread::yield_now();
            assert!(large.is_finished());
        });
    });
}

#[test]
fn permits_add_up_after_any_cancellations_and_timeouts() {
    // Requests for 5, 3, 1 and 4 of 5, some with limits, two cancelled, in every order.
    pirn::explore(1_000, || {
        let semaphore = Rc::new(Semaphore::new(5));
        let served = Rc::new(Cell::new(0));
        let requests = [(5, None), (3, Some(2)), (1, None), (4, Some(3)), (5, Some(9))];
        let clients = requests.map(|(wanted, limit)| {
            let (semaphore, served) = (semaphore.clone(), served.clone());
            thread::spawn_local(move || {
                for _ in 0..3 {
                    let limit = limit.map_or(Duration::MAX, |seconds| SECOND * seconds);
                    if let Ok(permit) = semaphore.acquire_many_timeout(wanted, limit) {
                        served.set(served.get() + 1);
                        thread::sleep(SECOND);
                        drop(permit);
                    }
                }
            })
        });
        thread::sleep(2 * SECOND);
        clients[0].cancel();
        thread::yield_now();
        clients[3].cancel();
        let ended = clients.map(|client| client.join().is_ok());
        assert_eq!(ended, [false, true, true, false, true]);
        assert!(served.get() >= 3);
        assert_eq!(semaphore.available_permits(), 5);
        drop(semaphore.try_acquire_many(5).unwrap());
    });
}

#[test]
fn a_release_wakes_a_parked_waiter_in_the_next_round() {
    run(|| {
        let semaphore = Rc::new(Semaphore::with_maximum(0, 1));
        let waiter = thread::spawn_local({
            let semaphore = semaphore.clone();
            move || drop(semaphore.acquire().unwrap())
        });
        thread::yield_now();
        semaphore.add_permits(1).unwrap();
        thread::yield_now();
        assert!(waiter.is_finished());
    });
}

#[test]
fn threads_and_fibers_hold_no_more_permits_than_there_are() {
    const ROUNDS: usize = if cfg!(target_arch = "x86_64") { 2_000 } else { 300 };
    let semaphore = Arc::new(Semaphore::new(3));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    drop(semaphore.acquire());
    let held = Arc::new(AtomicUsize::new(0));
    let work = {
        let (semaphore, held) = (semaphore.clone(), held.clone());
        move |round: usize| {
            let wanted = 1 + round % 3;
            let permit = semaphore.acquire_many(wanted).unwrap();
            assert!(held.fetch_add(wanted, Ordering::Relaxed) + wanted <= 3);
            if round.is_multiple_of(32) {
                thread::yield_now();
            }
            held.fetch_sub(wanted, Ordering::Relaxed);
            drop(permit);
        }
    };
    let threads = [false, false, true, true].map(|on_fibers| {
        let work = work.clone();
        std::thread::spawn(move || {
            if on_fibers {
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
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn a_wait_that_is_called_off_in_a_destructor_is_an_error() {
    struct Acquires(Arc<Semaphore>);
    impl Drop for Acquires {
        fn drop(&mut self) {
            assert_eq!(self.0.acquire().unwrap_err(), AcquireError::Cancelled);
            self.0.add_permits(1).unwrap();
            assert!(self.0.acquire().is_ok());
        }
    }
    let semaphore = Arc::new(Semaphore::with_maximum(0, 1));
    pirn::run(|| {
        let acquires = Acquires(semaphore.clone());
        thread::spawn(move || {
            let _acquires = acquires;
            thread::park();
        });
        thread::yield_now();
    });
    assert_eq!(semaphore.available_permits(), 1);
}
