//! Once, OnceLock and LazyLock.

mod child;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::{LazyLock, Once, OnceLock};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

/// Whether it panics, without a message.
fn panics<R>(f: impl FnOnce() -> R) -> bool {
    panic::catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn fail() {
    panic::resume_unwind(Box::new("fails"));
}

#[test]
fn an_initialiser_that_waits_runs_once_and_parks_the_others() {
    run(|| {
        let (once, runs) = (Once::new(), Cell::new(0));
        let start = Instant::now();
        thread::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    once.call_once(|| {
                        thread::sleep(SECOND);
                        runs.set(runs.get() + 1);
                    });
                    assert!(once.is_completed());
                    assert_eq!((runs.get(), start.elapsed() < 2 * SECOND), (1, true));
                });
            }
            // The carrier goes on meanwhile.
            thread::sleep(SECOND / 2);
            assert!(!once.is_completed());
        });
    });
}

#[test]
fn a_panic_poisons_a_once_as_in_std() {
    run(|| {
        let once = Once::new();
        assert!(panics(|| once.call_once(fail)));
        assert!(!once.is_completed());
        assert!(panics(|| once.call_once(|| ())) && panics(|| once.wait()));
        assert!(panics(|| once.wait_timeout(SECOND)));
        once.call_once_force(|state| assert!(state.is_poisoned()));
        assert!(once.is_completed());
        once.call_once(fail);
        once.wait();
        once.call_once_force(|_| fail());
    });
}

#[test]
fn those_who_wait_for_an_initialiser_that_panics_find_it_poisoned_or_force_it() {
    run(|| {
        let once = Rc::new(Once::new());
        let first = thread::spawn_local({
            let once = once.clone();
            move || {
                once.call_once(|| {
                    thread::sleep(SECOND);
                    fail();
                });
            }
        });
        let second = thread::spawn_local({
            let once = once.clone();
            move || once.call_once(|| unreachable!())
        });
        let third = thread::spawn_local({
            let once = once.clone();
            move || once.call_once_force(|state| assert!(state.is_poisoned()))
        });
        thread::sleep(SECOND / 2);
        assert!(!second.is_finished());
        // The message of the second is one of those that a test keeps to itself.
        assert!(first.join().is_err() && second.join().is_err() && third.join().is_ok());
        assert!(once.is_completed());
    });
}

#[test]
fn waiting_for_a_once_ends_with_it_or_with_the_time() {
    run(|| {
        let once = Once::new();
        let start = Instant::now();
        assert!(!once.wait_timeout(SECOND));
        assert!(!once.wait_deadline(start + 2 * SECOND));
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(SECOND);
                once.call_once(|| thread::sleep(SECOND));
            });
            assert!(!once.wait_timeout(SECOND + SECOND / 2));
            once.wait_force();
            assert_eq!(start.elapsed(), 4 * SECOND);
        });
        assert!(once.wait_timeout(Duration::ZERO));
    });
}

#[test]
fn after_an_initialiser_of_a_cell_panicked_or_was_cancelled_the_next_one_tries() {
    run(|| {
        let (cell, order) = (Rc::new(OnceLock::new()), Rc::new(RefCell::new(Vec::new())));
        let ends: Vec<fn()> = vec![fail, thread::park, || thread::sleep(SECOND), || unreachable!()];
        let children: Vec<_> = ends
            .into_iter()
            .enumerate()
            .map(|(number, end)| {
                let (cell, order) = (cell.clone(), order.clone());
                thread::spawn_local(move || {
                    *cell.get_or_init(|| {
                        order.borrow_mut().push(number);
                        thread::yield_now();
                        end();
                        number
                    })
                })
            })
            .collect();
        thread::sleep(SECOND);
        assert_eq!((cell.get(), &**order.borrow()), (None, &[0, 1][..]));
        children[1].cancel();
        assert_eq!(*cell.wait(), 2);
        let values: Vec<_> = children.into_iter().map(|child| child.join().ok()).collect();
        assert_eq!(values, [None, None, Some(2), Some(2)]);
        assert_eq!(*order.borrow(), [0, 1, 2]);
    });
}

#[test]
fn a_cell_is_set_once_and_gives_the_value_back_that_comes_too_late() {
    run(|| {
        let cell = OnceLock::new();
        assert_eq!((cell.get(), format!("{cell:?}")), (None, "OnceLock(<uninit>)".to_owned()));
        assert_eq!(cell.wait_timeout(SECOND), None);
        assert_eq!(cell.get_or_try_init(|| Err("not yet")), Err::<&String, _>("not yet"));
        assert_eq!(cell.set("one".to_owned()), Ok(()));
        assert_eq!(cell.set("two".to_owned()), Err("two".to_owned()));
        assert_eq!(cell.get_or_init(|| unreachable!()), "one");
        assert_eq!(cell.clone(), cell);
        let mut cell = cell;
        cell.get_mut().unwrap().push('!');
        assert_eq!(cell.take().as_deref(), Some("one!"));
        assert_eq!(cell, OnceLock::new());
        assert_eq!(OnceLock::from(3).into_inner(), Some(3));
    });
}

#[test]
fn a_value_that_is_set_wakes_those_who_wait_for_it() {
    run(|| {
        let cell = Rc::new(OnceLock::new());
        let waiters = [(); 3].map(|()| {
            let cell = cell.clone();
            thread::spawn_local(move || *cell.wait())
        });
        thread::yield_now();
        cell.set(5).unwrap();
        assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [5; 3]);
    });
}

#[test]
fn values_are_dropped_once() {
    struct Counted(Rc<Cell<u32>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Rc::new(Cell::new(0));
    drop(OnceLock::<Counted>::new());
    let cell = OnceLock::from(Counted(drops.clone()));
    drop(cell.set(Counted(drops.clone())));
    assert_eq!(drops.get(), 1);
    drop(cell);
    assert_eq!(drops.get(), 2);
    let lazy = LazyLock::new(|| Counted(drops.clone()));
    LazyLock::force(&lazy);
    drop(lazy);
    assert_eq!(drops.get(), 3);
}

#[test]
fn an_initialiser_that_comes_back_to_its_own_is_told_that_this_is_a_deadlock() {
    let test = "an_initialiser_that_comes_back_to_its_own_is_told_that_this_is_a_deadlock";
    child::isolated(test, &[("RUST_BACKTRACE", "0")], || {
        fn message<R>(f: impl FnOnce() -> R) -> String {
            let payload = panic::catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
            payload.downcast_ref::<&str>().map(|text| text.to_string()).unwrap_or_default()
        }
        static LAZY: LazyLock<u32> = LazyLock::new(|| *LAZY + 1);
        let all = || {
            let (once, cell) = (Once::new(), OnceLock::new());
            let messages = [
                message(|| once.call_once(|| once.call_once(|| ()))),
                message(|| *cell.get_or_init(|| *cell.get_or_init(|| 1))),
                message(|| *cell.get_or_init(|| *cell.wait())),
            ];
            assert!(messages.iter().all(|text| text.starts_with("deadlock: ")), "{messages:?}");
            assert_eq!(*cell.get_or_init(|| 3), 3);
        };
        // With something else to do, too: it does not take a standstill to find out.
        run(|| {
            thread::spawn(|| thread::sleep(SECOND));
            all();
            assert!(message(|| *LAZY).starts_with("deadlock: "));
        });
        all();
    });
}

#[test]
fn a_lazy_value_is_made_when_first_used_and_never_after_a_panic() {
    run(|| {
        let runs = Cell::new(0);
        let lazy = LazyLock::new(|| {
            thread::yield_now();
            runs.set(runs.get() + 1);
            runs.get()
        });
        assert_eq!((runs.get(), format!("{lazy:?}")), (0, "LazyLock(<uninit>)".to_owned()));
        thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| assert_eq!(*lazy, 1));
            }
        });
        let broken: LazyLock<u32> = LazyLock::new(|| {
            fail();
            1
        });
        assert!(panics(|| *broken) && panics(|| *broken));
    });
}

#[test]
fn the_end_of_a_runtime_in_an_initialiser_does_not_poison() {
    let once = Arc::new(Once::new());
    pirn::run(|| {
        let once = once.clone();
        thread::spawn(move || once.call_once(thread::park));
        thread::yield_now();
    });
    once.call_once(|| ());
    assert!(once.is_completed());
}

#[test]
fn threads_and_fibers_race_to_initialise_and_one_does() {
    for _ in 0..50 {
        let cell = Arc::new(OnceLock::new());
        // As far as the deadlock detector can know, whoever has not used it yet never will.
        assert_eq!(cell.wait_timeout(Duration::ZERO), None::<&String>);
        let runs = Arc::new(AtomicUsize::new(0));
        let threads = [false, false, true, true].map(|on_fibers| {
            let (cell, runs) = (cell.clone(), runs.clone());
            let init = move || {
                let value = cell.get_or_init(|| {
                    thread::yield_now();
                    runs.fetch_add(1, Ordering::Relaxed);
                    "value".to_owned()
                });
                assert_eq!(value, "value");
            };
            std::thread::spawn(move || match on_fibers {
                false => init(),
                true => pirn::run(|| {
                    thread::scope(|s| {
                        s.spawn(&init);
                        s.spawn(&init);
                    });
                }),
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}
