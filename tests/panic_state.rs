//! The panic count belongs to the OS thread: a switch must not let anybody find somebody else's.

mod child;
mod fate;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{self, Coroutine, Suspender};
use pirn::thread;

/// Runs a closure when dropped.
struct AtDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn payload_of<T>(outcome: std::thread::Result<T>) -> &'static str {
    outcome.err().and_then(|payload| payload.downcast_ref().copied()).unwrap_or("no payload")
}

/// A fiber that waits by `wait` in a destructor while it panics, and one that looks on and panics
/// itself.
fn waits_in_place(wait: fn()) {
    assert!(!std::thread::panicking());
    pirn::run(move || {
        let waited = Rc::new(Cell::new(false));
        let seen = Rc::new(RefCell::new(Vec::new()));
        let (told, tell) = (waited.clone(), seen.clone());
        let panicking = thread::spawn_local(move || {
            let _guard = AtDrop(|| {
                wait();
                told.set(true);
            });
            panic::resume_unwind(Box::new("first"));
        });
        let looking = thread::spawn_local(move || {
            tell.borrow_mut().push((waited.get(), std::thread::panicking()));
            let own = catch_unwind(|| panic::resume_unwind(Box::new("second")));
            tell.borrow_mut().push((payload_of(own) == "second", std::thread::panicking()));
        });
        looking.join().unwrap();
        assert_eq!(payload_of(panicking.join()), "first");
        // The wait was over before anybody else ran.
        assert_eq!(*seen.borrow(), [(true, false), (true, false)]);
    });
    assert!(!std::thread::panicking());
}

#[test]
fn a_destructor_that_yields_during_a_panic_waits_in_place() {
    waits_in_place(thread::yield_now);
}

#[test]
fn a_destructor_that_sleeps_during_a_panic_waits_in_place() {
    waits_in_place(|| thread::sleep(Duration::from_millis(1)));
}

#[test]
fn a_destructor_that_parks_with_a_timeout_during_a_panic_waits_in_place() {
    waits_in_place(|| thread::park_timeout(Duration::from_millis(1)));
}

#[test]
fn a_destructor_that_parks_during_a_panic_can_be_unparked_by_another_os_thread() {
    waits_in_place(|| {
        let me = thread::current();
        let other = std::thread::spawn(move || me.unpark());
        thread::park();
        other.join().unwrap();
    });
}

#[test]
fn a_destructor_that_waits_on_a_coroutines_stack_during_a_panic_waits_in_place() {
    waits_in_place(|| {
        let mut coroutine = Coroutine::new(|s: &Suspender<(), ()>, ()| {
            thread::yield_now();
            s.suspend(());
            thread::sleep(Duration::from_millis(1));
        });
        assert_eq!(coroutine.resume(()), Ok(Yield(())));
        assert_eq!(coroutine.resume(()), Ok(Return(())));
    });
}

#[test]
fn a_wait_during_a_panic_that_only_a_fiber_of_the_carrier_could_end_aborts_with_a_report() {
    let test =
        "a_wait_during_a_panic_that_only_a_fiber_of_the_carrier_could_end_aborts_with_a_report";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        pirn::run(|| {
            let panicking = thread::Builder::new().name("stuck").spawn(|| {
                // It cannot begin before we wait.
                let mut other = Some(thread::spawn_local(|| ()));
                let _guard = AtDrop(|| _ = other.take().unwrap().join());
                panic!("torn");
            });
            let _ = panicking.unwrap().join();
        });
    });
    assert!(stderr.contains("pirn: ") && stderr.contains("'stuck'"), "{stderr}");
}

#[test]
fn a_coroutine_that_suspends_while_its_own_panic_unwinds_it_aborts_with_a_message() {
    let test = "a_coroutine_that_suspends_while_its_own_panic_unwinds_it_aborts_with_a_message";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        let mut coroutine = Coroutine::new(|s: &Suspender<(), ()>, ()| {
            let _guard = AtDrop(|| s.suspend(()));
            panic::resume_unwind(Box::new(()));
        });
        let _ = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
        eprintln!("it went on");
    });
    assert!(stderr.contains("a coroutine cannot suspend while a panic unwinds it"), "{stderr}");
    assert!(!stderr.contains("it went on"), "{stderr}");
}

#[test]
fn a_destructor_in_a_panic_may_resume_coroutines_that_suspend_and_catch() {
    let mut started = Coroutine::new(|s: &Suspender<u32, u32>, first: u32| {
        let second = s.suspend(first);
        let own = catch_unwind(|| panic::resume_unwind(Box::new("own")));
        s.suspend(second + u32::from(payload_of(own) == "own"))
    });
    assert_eq!(started.resume(1), Ok(Yield(1)));
    let after = Rc::new(RefCell::new(None));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut started = Some(started);
        let _guard = AtDrop(|| {
            let mut started = started.take().unwrap();
            assert_eq!(started.resume(2), Ok(Yield(3)));
            let mut fresh = Coroutine::new(|s: &Suspender<u32, u32>, first: u32| s.suspend(first));
            assert_eq!(fresh.resume(4), Ok(Yield(4)));
            assert_eq!(fresh.resume(5), Ok(Return(5)));
            *after.borrow_mut() = Some(started);
        });
        panic::resume_unwind(Box::new("outer"));
    }));
    assert_eq!(payload_of(outcome), "outer");
    assert!(!std::thread::panicking());
    assert_eq!(after.take().unwrap().resume(6), Ok(Return(6)));
}

/// How many payloads are alive.
struct Payload(Rc<Cell<i32>>, String);

// SAFETY: payloads of these tests stay on their thread.
unsafe impl Send for Payload {}

impl Drop for Payload {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Catches three panics within each other, and calls `pause` at every point between.
fn nest(who: &str, alive: &Rc<Cell<i32>>, level: u32, pause: &dyn Fn()) {
    if level == 0 {
        return pause();
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pause();
        nest(who, alive, level - 1, pause);
        pause();
        alive.set(alive.get() + 1);
        panic::resume_unwind(Box::new(Payload(alive.clone(), format!("{who}{level}"))));
    }));
    pause();
    let again = catch_unwind(AssertUnwindSafe(|| {
        let payload = outcome.unwrap_err();
        pause();
        panic::resume_unwind(payload);
    }));
    pause();
    let payload = again.unwrap_err();
    assert_eq!(payload.downcast_ref::<Payload>().unwrap().1, format!("{who}{level}"));
    assert!(!std::thread::panicking());
}

#[test]
fn coroutines_interleaved_within_their_catches_each_get_their_own_payload() {
    let alive = Rc::new(Cell::new(0));
    // Every pattern of eight turns, repeated until both have ended.
    for order in 0u32..256 {
        let make = |who: &'static str| {
            let alive = alive.clone();
            Coroutine::new(move |s: &Suspender<(), ()>, ()| {
                nest(who, &alive, 3, &|| {
                    assert!(!std::thread::panicking());
                    s.suspend(());
                });
            })
        };
        let mut both = [make("a"), make("b")];
        let mut turn = 0;
        while !both.iter().all(Coroutine::is_done) {
            let one = (order >> (turn % 8) & 1) as usize;
            // Whoever has ended leaves its turns to the other.
            let one = if both[one].is_done() { 1 - one } else { one };
            both[one].resume(()).unwrap();
            assert!(!std::thread::panicking());
            turn += 1;
        }
        assert_eq!(alive.get(), 0);
    }
}

#[test]
fn fibers_interleaved_within_their_catches_each_get_their_own_payload() {
    let alive = Rc::new(Cell::new(0));
    pirn::run({
        let alive = alive.clone();
        move || {
            let make = |(who, yields): (&'static str, u32)| {
                let alive = alive.clone();
                thread::spawn_local(move || {
                    nest(who, &alive, 3, &|| {
                        (0..yields).for_each(|_| thread::yield_now());
                        assert!(!std::thread::panicking());
                    });
                })
            };
            let fibers = [("a", 1), ("b", 2), ("c", 3)].map(make);
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        }
    });
    assert_eq!(alive.get(), 0);
}

#[test]
fn a_scope_ends_after_its_slow_fiber_and_panics_when_one_was_not_joined() {
    let test = "a_scope_ends_after_its_slow_fiber_and_panics_when_one_was_not_joined";
    // A payload whose destructor panics is not dropped a second time.
    let stderr = fate::succeeds_leaking(test, ends_with_its_slow_fiber);
    let report = "pirn: a value that nobody wanted panicked when it was dropped\n";
    assert!(stderr.starts_with(report), "{stderr}");
}

fn ends_with_its_slow_fiber() {
    struct PanicsAtDrop;
    impl Drop for PanicsAtDrop {
        fn drop(&mut self) {
            panic::resume_unwind(Box::new("payload"));
        }
    }
    pirn::run(|| {
        let data = String::from("borrowed");
        let slow = AtomicBool::new(false);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|s| {
                s.spawn(|| panic::resume_unwind(Box::new(AssertUnwindSafe(PanicsAtDrop))));
                s.spawn(|| AtDrop(|| assert_eq!(data, "borrowed")));
                s.spawn(|| {
                    (0..10).for_each(|_| thread::yield_now());
                    slow.store(true, Ordering::Relaxed);
                });
            });
        }));
        assert!(slow.load(Ordering::Relaxed));
        assert_eq!(payload_of(outcome), "a scoped thread panicked");
    });
}

#[test]
fn a_panic_in_a_coroutine_of_a_fiber_is_printed_once_with_name_and_carrier() {
    let test = "a_panic_in_a_coroutine_of_a_fiber_is_printed_once_with_name_and_carrier";
    let stderr = fate::succeeds(test, || {
        pirn::run(|| {
            let fiber = thread::Builder::new().name("weaver").spawn_local(|| {
                coroutine::scope(|scope| {
                    let mut coroutine =
                        scope.coroutine(|_: &Suspender<(), ()>, ()| -> () { panic!("torn weft") });
                    coroutine.resume(()).unwrap();
                });
            });
            let payload = fiber.unwrap().join().unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"torn weft"));
            // Going on with it prints nothing more.
            let again = catch_unwind(AssertUnwindSafe(|| panic::resume_unwind(payload)));
            assert_eq!(payload_of(again), "torn weft");
        });
    });
    assert!(stderr.contains("pirn: fiber 'weaver' (id 1), spawned at tests/"), "{stderr}");
    assert!(stderr.contains(", panicked on carrier 0:"), "{stderr}");
    assert!(stderr.contains("panicked at tests/panic_state.rs:"), "{stderr}");
    assert_eq!(stderr.matches("torn weft").count(), 1, "{stderr}");
}
