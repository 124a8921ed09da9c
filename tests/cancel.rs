//! Cancellation, time limits and shields.

mod child;
mod fate;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

use pirn::sync::Mutex;
use pirn::thread::{self, Cancelled, JoinHandle};
use pirn::time::{self, Instant};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs in virtual time: whatever is not called off would take its hour at once, and be noticed.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

/// Counts how often it is dropped.
struct Counted(Rc<Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

fn was_cancelled<T>(handle: JoinHandle<T>) -> bool {
    handle.join().is_err_and(|payload| payload.is::<Cancelled>())
}

#[test]
fn cancel_ends_any_wait_and_runs_the_destructors() {
    run(|| {
        let mutex = Rc::new(Mutex::new(()));
        let _held = mutex.lock().unwrap();
        let forever = thread::spawn(|| thread::sleep(HOUR));
        let waits: Vec<Box<dyn FnOnce()>> = vec![
            Box::new(|| thread::sleep(HOUR)),
            Box::new(thread::park),
            Box::new(|| thread::park_timeout(HOUR)),
            Box::new({
                let mutex = mutex.clone();
                move || drop(mutex.lock())
            }),
            Box::new(|| forever.join().unwrap()),
            Box::new(|| time::Timer::after(HOUR).wait()),
            Box::new(|| {
                loop {
                    thread::yield_now();
                }
            }),
        ];
        for wait in waits {
            let dropped = Rc::new(Cell::new(0));
            let counted = Counted(dropped.clone());
            let start = Instant::now();
            let waiter = thread::spawn_local(move || {
                let _counted = counted;
                wait();
            });
            thread::yield_now();
            waiter.cancel();
            assert!(was_cancelled(waiter));
            assert_eq!(dropped.get(), 1);
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
        assert!(!mutex.is_poisoned());
    });
}

#[test]
fn a_fiber_that_has_not_begun_drops_its_closure() {
    run(|| {
        let dropped = Rc::new(Cell::new(0));
        let counted = Counted(dropped.clone());
        let fresh = thread::spawn_local(move || drop(counted));
        fresh.cancel();
        assert!(was_cancelled(fresh));
        assert_eq!(dropped.get(), 1);
    });
}

#[test]
fn a_fiber_that_has_ended_keeps_its_result() {
    run(|| {
        let ended = thread::spawn(|| 5);
        thread::yield_now();
        ended.cancel();
        assert_eq!(ended.join().unwrap(), 5);
    });
}

#[test]
fn a_fiber_that_does_not_wait_any_more_comes_to_its_end() {
    run(|| {
        let main = thread::current();
        let busy = thread::spawn(move || {
            main.unpark();
            thread::park();
            7
        });
        thread::park();
        // Woken, then cancelled before it goes on: the wake-up counts.
        busy.thread().unpark();
        busy.cancel();
        assert_eq!(busy.join().unwrap(), 7);
    });
}

#[test]
fn a_fiber_that_catches_the_unwind_is_unwound_again() {
    run(|| {
        let caught = Rc::new(Cell::new(0));
        let stubborn = thread::spawn_local({
            let caught = caught.clone();
            move || {
                for _ in 0..3 {
                    let wait = AssertUnwindSafe(|| thread::sleep(HOUR));
                    assert!(panic::catch_unwind(wait).is_err());
                    caught.set(caught.get() + 1);
                }
                "in the end"
            }
        });
        thread::yield_now();
        stubborn.cancel();
        assert_eq!(stubborn.join().unwrap(), "in the end");
        assert_eq!(caught.get(), 3);
    });
}

#[test]
fn one_that_catches_every_unwind_is_given_up_and_joined_all_the_same() {
    let test = "one_that_catches_every_unwind_is_given_up_and_joined_all_the_same";
    let report = fate::succeeds_leaking(test, || {
        run(|| {
            let stubborn = thread::spawn(|| {
                loop {
                    let _ = panic::catch_unwind(thread::park);
                }
            });
            thread::yield_now();
            stubborn.cancel();
            assert!(was_cancelled(stubborn));
        });
    });
    assert!(report.contains("caught 1000 unwinds and waited again each time"), "{report}");
    assert!(report.contains("its stack is leaked"), "{report}");
}

#[test]
fn a_shield_lets_clean_up_wait() {
    run(|| {
        let log = Rc::new(RefCell::new(Vec::new()));
        let worker = thread::spawn_local({
            let log = log.clone();
            move || {
                let work = AssertUnwindSafe(|| thread::sleep(HOUR));
                log.borrow_mut().push(("work was called off", panic::catch_unwind(work).is_err()));
                let start = Instant::now();
                thread::shield(|| thread::shield(|| thread::sleep(Duration::from_secs(1))));
                let slept = start.elapsed() == Duration::from_secs(1);
                log.borrow_mut().push(("the clean-up slept", slept));
                assert!(thread::is_cancelled());
                thread::sleep(HOUR);
                unreachable!("outside the shield it is called off again");
            }
        });
        thread::yield_now();
        worker.cancel();
        assert!(was_cancelled(worker));
        assert!(log.borrow().iter().all(|&(_, right)| right), "{log:?}");
    });
}

#[test]
fn a_destructor_finds_its_waits_called_off_and_shielded_ones_take_their_time() {
    struct Goodbye(Rc<RefCell<Vec<Duration>>>);
    impl Drop for Goodbye {
        fn drop(&mut self) {
            let start = Instant::now();
            thread::sleep(HOUR);
            self.0.borrow_mut().push(start.elapsed());
            thread::shield(|| thread::sleep(Duration::from_millis(5)));
            self.0.borrow_mut().push(start.elapsed());
        }
    }
    run(|| {
        let log = Rc::new(RefCell::new(Vec::new()));
        let goodbye = Goodbye(log.clone());
        let worker = thread::spawn_local(move || {
            let _goodbye = goodbye;
            thread::sleep(HOUR);
        });
        thread::yield_now();
        worker.cancel();
        assert!(was_cancelled(worker));
        assert_eq!(*log.borrow(), [Duration::ZERO, Duration::from_millis(5)]);
    });
}

#[test]
fn a_mutex_is_not_lost_on_a_waiter_that_is_cancelled_when_it_is_handed_over() {
    pirn::explore(200, || {
        let mutex = Rc::new(Mutex::new(0));
        let held = mutex.lock().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let mutex = mutex.clone();
                thread::spawn_local(move || *mutex.lock().unwrap() += 1)
            })
            .collect();
        thread::yield_now();
        let canceller = thread::spawn({
            let first = waiters[0].thread();
            move || first.unpark()
        });
        drop(held);
        waiters[0].cancel();
        canceller.join().unwrap();
        let ended: Vec<bool> = waiters.into_iter().map(|waiter| waiter.join().is_ok()).collect();
        let counted = ended.iter().filter(|&&ok| ok).count();
        // Whoever was not called off got the mutex, and it is free again.
        assert!(counted >= 2);
        assert_eq!(*mutex.try_lock().unwrap(), counted);
    });
}

#[test]
fn a_scope_whose_fiber_is_cancelled_cancels_its_children_and_waits_for_them() {
    run(|| {
        let ended = Rc::new(Cell::new(0));
        for parent_in_body in [false, true] {
            ended.set(0);
            let parent = thread::spawn_local({
                let ended = ended.clone();
                move || {
                    let ended = &ended;
                    thread::scope(|s| {
                        for _ in 0..3 {
                            s.spawn(move || {
                                let _ended = Counted(ended.clone());
                                thread::sleep(HOUR);
                            });
                        }
                        if parent_in_body {
                            thread::sleep(HOUR);
                        }
                    });
                }
            });
            thread::yield_now();
            thread::yield_now();
            parent.cancel();
            let start = Instant::now();
            let result = parent.join();
            assert_eq!(ended.get(), 3);
            assert_eq!(start.elapsed(), Duration::ZERO);
            // One that only waited for its children has nothing left to be unwound from.
            assert_eq!(result.is_err(), parent_in_body);
        }
    });
}

#[test]
fn another_os_thread_may_cancel() {
    // Without virtual time: the other thread takes real time.
    let slept = pirn::run(|| {
        let sleeper: JoinHandle<()> = thread::spawn(|| thread::sleep(HOUR));
        thread::yield_now();
        std::thread::scope(|s| {
            let sleeper = &sleeper;
            s.spawn(move || sleeper.cancel()).join().unwrap();
        });
        sleeper.join()
    });
    assert!(slept.unwrap_err().is::<Cancelled>());
}

#[test]
fn a_time_limit_calls_off_the_wait_that_outlasts_it() {
    run(|| {
        let start = Instant::now();
        let late = time::timeout(Duration::from_secs(5), || {
            thread::sleep(Duration::from_secs(3));
            thread::sleep(Duration::from_secs(3));
            unreachable!("called off after two seconds")
        });
        assert!(late.is_err());
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(time::timeout(HOUR, || thread::sleep(Duration::from_secs(1))), Ok(()));
        // Nothing is left of either limit.
        thread::sleep(HOUR);
        assert_eq!(start.elapsed(), HOUR + Duration::from_secs(6));
    });
}

#[test]
fn the_nearest_of_nested_limits_counts_and_unwinds_to_its_own_call() {
    run(|| {
        let seconds = Duration::from_secs;
        // The outer one is nearer: the inner call is unwound through.
        let outer = time::timeout(seconds(1), || {
            let _: Result<(), _> = time::timeout(seconds(2), thread::park);
            unreachable!("unwound to the outer call")
        });
        assert!(outer.is_err());
        // The inner one is nearer.
        let both = time::timeout(seconds(2), || time::timeout(seconds(1), thread::park).is_err());
        assert_eq!(both, Ok(true));
    });
}

#[test]
fn a_value_is_a_value_even_too_late_and_a_wait_too_late_is_called_off_at_once() {
    run(|| {
        assert_eq!(time::timeout(Duration::ZERO, || 3), Ok(3));
        assert!(time::timeout(Duration::ZERO, thread::yield_now).is_err());
        assert!(time::timeout(Duration::ZERO, || thread::sleep(HOUR)).is_err());
    });
}

#[test]
fn limits_and_cancellation_work_together() {
    run(|| {
        let limited = thread::spawn(|| {
            let within: Result<(), _> = time::timeout(HOUR, thread::park);
            unreachable!("a cancelled fiber does not stop at a limit: {within:?}")
        });
        thread::yield_now();
        limited.cancel();
        assert!(was_cancelled(limited));
        let many = thread::spawn(|| {
            // Far more limits than unwinds are borne of a fiber that will not end.
            (0..5_000)
                .filter(|_| time::timeout(Duration::from_nanos(1), thread::park).is_err())
                .count()
        });
        assert_eq!(many.join().unwrap(), 5_000);
    });
}

#[test]
fn a_shield_keeps_the_limit_off() {
    run(|| {
        let start = Instant::now();
        let shielded = time::timeout(Duration::from_secs(1), || {
            thread::shield(|| thread::sleep(Duration::from_secs(2)));
            "done"
        });
        assert_eq!(shielded, Ok("done"));
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    });
}

#[test]
fn a_limit_outside_a_fiber_is_refused_with_a_message() {
    let payload = panic::catch_unwind(|| time::timeout(HOUR, || ())).unwrap_err();
    let message = payload.downcast_ref::<String>().unwrap();
    assert!(message.contains("within pirn::run"), "{message}");
}
