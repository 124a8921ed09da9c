//! Whoever sits on the carrier is named.

mod child;

use std::rc::Rc;
use std::sync::Mutex;

use child::{child, child_until};
use pirn::thread;
use pirn::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(100);

fn watched(limit: Duration, main: impl FnOnce()) {
    pirn::Builder::new().watchdog(limit).build().unwrap().run(main).unwrap();
}

/// What the warning says of the fiber that it is about.
fn assert_warns(text: &str, name: &str, function: &str) {
    assert!(text.contains(&format!("pirn: fiber '{name}' (id 2)")), "{text}");
    assert!(text.contains("has not given way to the scheduler of carrier 0 for "), "{text}");
    assert!(text.contains(function), "{text}");
}

/// The warning about the stuck fiber is complete when its last frame is there: the fiber's outermost.
/// On a busy machine others may be warned about as well.
fn is_complete(text: &str) -> bool {
    text.find("pirn: fiber 'stuck'").is_some_and(|at| text[at..].contains("pirn_fiber_entry"))
}

#[inline(never)]
fn locks_across_a_yield(lock: &Mutex<u32>) {
    let mut held = lock.lock().unwrap();
    thread::yield_now();
    *held += 1;
}

#[inline(never)]
fn blocks_the_carrier(lock: &Mutex<u32>) {
    *lock.lock().unwrap() += 1;
}

#[inline(never)]
fn spins_without_a_yield(lock: &Mutex<u32>) {
    while lock.try_lock().is_err() {
        std::hint::spin_loop();
    }
}

/// One fiber holds a std lock over a yield; a second one wants it, in some way. It can never get it.
fn two_fibers_and_a_lock(second: fn(&Mutex<u32>)) {
    watched(LIMIT, || {
        let lock = Rc::new(Mutex::new(0));
        let other = lock.clone();
        let owner = thread::Builder::new().name("owner");
        let owner = owner.spawn_local(move || locks_across_a_yield(&other)).unwrap();
        let stuck =
            thread::Builder::new().name("stuck").spawn_local(move || second(&lock)).unwrap();
        stuck.join().unwrap();
        owner.join().unwrap();
    });
}

#[test]
fn a_std_lock_held_over_a_yield_is_reported_with_the_fiber_that_blocks_the_carrier() {
    let test = "a_std_lock_held_over_a_yield_is_reported_with_the_fiber_that_blocks_the_carrier";
    let stuck = || two_fibers_and_a_lock(blocks_the_carrier);
    if let Some(text) = child_until(test, "alone", is_complete, stuck) {
        assert_warns(&text, "stuck", "blocks_the_carrier");
    }
}

#[test]
fn a_loop_that_never_yields_is_reported() {
    let test = "a_loop_that_never_yields_is_reported";
    let stuck = || two_fibers_and_a_lock(spins_without_a_yield);
    if let Some(text) = child_until(test, "alone", is_complete, stuck) {
        assert_warns(&text, "stuck", "spins_without_a_yield");
    }
}

#[test]
fn one_stretch_is_reported_once_and_the_next_one_again() {
    let test = "one_stretch_is_reported_once_and_the_next_one_again";
    let Some(result) = child(test, "alone", &[], || {
        watched(LIMIT, || {
            thread::spawn(|| ()).join().unwrap();
            let stalls = || pirn::stats().unwrap().stalls;
            let busy = thread::Builder::new().name("stuck").spawn(move || {
                for _ in 0..2 {
                    let before = stalls();
                    while stalls() == before {
                        std::hint::spin_loop();
                    }
                    // The watchdog looks several times more.
                    let start = Instant::now();
                    while start.elapsed() < 5 * LIMIT {
                        std::hint::spin_loop();
                    }
                    assert_eq!(stalls(), before + 1);
                    thread::sleep(LIMIT / 10);
                }
            });
            busy.unwrap().join().unwrap();
        });
    }) else {
        return;
    };
    assert_eq!(result.code, Some(0), "{result:?}");
    assert!(result.err.matches("pirn: fiber 'stuck' (id 2)").count() >= 2, "{result:?}");
}

#[test]
fn a_carrier_that_sleeps_is_not_reported() {
    // A second: no machine is so busy that it keeps a fiber from going to sleep for so long.
    let limit = Duration::from_secs(1);
    watched(limit, || {
        thread::sleep(3 * limit);
        assert_eq!(pirn::stats().unwrap().stalls, 0);
    });
}

#[test]
fn a_watched_runtime_ends_without_waiting_for_its_watchdog() {
    let start = Instant::now();
    pirn::Builder::new().watchdog(Duration::from_secs(3_600)).build().unwrap().run(|| ()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(600));
}

#[test]
fn a_watchdog_is_not_a_thread_that_could_end_a_deadlock() {
    let test = "a_watchdog_is_not_a_thread_that_could_end_a_deadlock";
    let stuck = || {
        // The thread that the test harness began with, and the test's own, are not the runtime's:
        // but they hold no handle of any fiber.
        let runtime = pirn::Builder::new().watchdog(LIMIT).build().unwrap();
        assert_eq!(runtime.run(thread::park).unwrap_err().fibers().len(), 1);
    };
    child::isolated(test, &[], stuck);
}
