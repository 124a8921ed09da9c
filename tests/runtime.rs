//! The life of a runtime: what it returns, how it ends, what other threads may do with it.

mod child;

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake, Waker};

use child::{LEAKS, child, is_native, isolated};
use pirn::thread::{self, Cancelled, Thread};
use pirn::time::{Duration, Instant};
use pirn::{Builder, Runtime, Stats};

const MS: Duration = Duration::from_millis(1);

/// What takes longer hangs: everything here that is slower on purpose takes an hour.
const SOON: Duration = Duration::from_secs(600);

/// A runtime with one carrier, whatever the environment says.
fn with_one_carrier() -> Runtime {
    Builder::new().carriers(1).build().unwrap()
}

/// The message of a caught panic.
fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    match payload.downcast_ref::<String>() {
        Some(text) => text,
        None => payload.downcast_ref::<&str>().unwrap(),
    }
}

#[test]
fn run_returns_what_main_returns_which_may_borrow() {
    let text = String::from("borrowed");
    let part = pirn::run(|| {
        thread::spawn(|| thread::sleep(MS)).join().unwrap();
        &text[..3]
    });
    assert_eq!(part, "bor");
}

#[test]
fn run_panics_with_mains_payload() {
    let caught = panic::catch_unwind(|| pirn::run(|| panic::resume_unwind(Box::new(7u8))));
    assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 7);
    // The thread can be a carrier again.
    assert_eq!(pirn::run(|| 1), 1);
}

#[test]
fn a_runtime_within_a_runtime_is_refused_with_a_message() {
    pirn::run(|| {
        let nested = panic::catch_unwind(|| pirn::run(|| ())).unwrap_err();
        assert!(message(&*nested).contains("cannot be started within another one"));
        let nested = thread::spawn(|| pirn::run(|| ())).join().unwrap_err();
        assert!(message(&*nested).contains("cannot be started within another one"));
        // On a thread of its own it may.
        assert_eq!(std::thread::spawn(|| pirn::run(|| 2)).join().unwrap(), 2);
    });
}

#[test]
fn spawning_outside_a_runtime_panics_or_fails_with_a_message() {
    let caught = panic::catch_unwind(|| drop(thread::spawn(|| ()))).unwrap_err();
    assert!(message(&*caught).contains("pirn::thread::spawn was called outside a runtime"));
    let error = thread::Builder::new().spawn(|| ()).unwrap_err();
    assert!(error.to_string().contains("use a pirn::Handle"), "{error}");
    let caught = panic::catch_unwind(|| thread::scope(|_| ())).unwrap_err();
    assert!(message(&*caught).contains("pirn::thread::scope was called outside a runtime"));
}

#[test]
fn blocking_calls_block_a_plain_os_thread() {
    let start = Instant::now();
    thread::sleep(2 * MS);
    thread::sleep_until(start + 3 * MS);
    assert!(start.elapsed() >= 3 * MS);
    thread::yield_now();
    thread::park_timeout(MS);
    thread::current().unpark();
    thread::park();
    let named = std::thread::Builder::new().name("os".into());
    let named = named.spawn(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!(named.join().unwrap().as_deref(), Some("os"));
    assert!(pirn::fibers(true).is_empty());
}

#[test]
fn os_threads_join_fibers_and_fibers_are_joined_once() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let joiners: Vec<_> = (0..4)
        .map(|number| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                let slow = handle.spawn(move || {
                    thread::sleep(5 * MS);
                    number
                });
                let panics = handle.spawn(|| panic::resume_unwind(Box::new("payload")));
                let payload = panics.join().unwrap_err();
                assert_eq!(payload.downcast_ref::<&str>(), Some(&"payload"));
                slow.join().unwrap()
            })
        })
        .collect();
    drop(handle);
    runtime
        .run(|| {
            while !joiners.iter().all(|j| j.is_finished()) {
                thread::sleep(MS)
            }
        })
        .unwrap();
    let results: Vec<i32> = joiners.into_iter().map(|joiner| joiner.join().unwrap()).collect();
    assert_eq!(results, [0, 1, 2, 3]);
}

#[test]
fn runtimes_on_several_os_threads_do_not_meet() {
    let rounds: usize = if is_native() { 10_000 } else { 1_000 };
    let all_started = Arc::new(Barrier::new(8));
    let ended = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..8usize)
        .map(|stamp| {
            let (all_started, ended) = (all_started.clone(), ended.clone());
            std::thread::spawn(move || {
                let (sender, receiver) = mpsc::channel();
                // Handles and results are dropped on a thread that is no carrier.
                let dropper = std::thread::spawn(move || receiver.into_iter().for_each(drop));
                pirn::run(|| {
                    all_started.wait();
                    for round in 0..rounds {
                        let ended = ended.clone();
                        let child = thread::spawn_local(move || {
                            // If two fibers ever shared a stack, one would find the other's mark.
                            let mark = std::hint::black_box([stamp * 1_000_000 + round; 16]);
                            thread::yield_now();
                            assert!(mark.iter().all(|&m| m == stamp * 1_000_000 + round));
                            ended.fetch_add(1, Ordering::Relaxed);
                            vec![0u8; 16]
                        });
                        sender.send(child).unwrap();
                        if round % 16 == 15 {
                            thread::yield_now();
                        }
                    }
                    thread::yield_now();
                    thread::yield_now();
                    drop(sender);
                });
                dropper.join().unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(ended.load(Ordering::Relaxed), 8 * rounds);
}

/// Notes its name when it is dropped.
struct Noted(Rc<RefCell<Vec<String>>>, String);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1.clone());
    }
}

#[test]
fn the_end_of_the_runtime_unwinds_the_newest_first_and_drops_what_never_ran() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let note = |name: &str| Noted(order.clone(), name.into());
    pirn::run(|| {
        for number in 0..3 {
            let waits = note(&format!("waits {number}"));
            thread::spawn_local(move || {
                let _waits = waits;
                if number == 1 { thread::sleep(Duration::MAX) } else { thread::park() }
            });
        }
        thread::yield_now();
        let fresh = note("never ran");
        thread::spawn_local(move || {
            let _fresh = fresh;
            unreachable!("it is not its turn before main ends");
        });
    });
    assert_eq!(*order.borrow(), ["never ran", "waits 2", "waits 1", "waits 0"]);
}

#[test]
fn destructors_do_not_wait_when_the_runtime_ends() {
    struct Waits(Rc<Cell<bool>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            thread::sleep(Duration::from_secs(3_600));
            thread::park();
            thread::yield_now();
            let refused = thread::spawn(|| ()).join().unwrap_err();
            assert!(refused.is::<Cancelled>());
            self.0.set(true);
        }
    }
    let dropped = Rc::new(Cell::new(false));
    let waits = Waits(dropped.clone());
    let start = Instant::now();
    pirn::run(|| {
        thread::spawn_local(move || {
            let _waits = waits;
            thread::park();
        });
        thread::yield_now();
    });
    assert!(dropped.get() && start.elapsed() < SOON);
}

#[test]
fn a_fiber_that_catches_every_unwind_is_reported_and_given_up() {
    let test = "a_fiber_that_catches_every_unwind_is_reported_and_given_up";
    let stubborn = || {
        pirn::run(|| {
            thread::spawn(|| {
                loop {
                    let _ = panic::catch_unwind(thread::park);
                }
            });
            thread::yield_now();
        })
    };
    if let Some(result) = child(test, "alone", LEAKS, stubborn) {
        assert_eq!(result.code, Some(0), "{result:?}");
        let expected = "caught 1000 unwinds and waited again each time; its stack is leaked";
        assert!(result.err.contains(expected), "{result:?}");
    }
}

#[test]
fn a_handle_outlives_its_runtime_and_then_cancels() {
    let runtime = with_one_carrier();
    let handle = runtime.handle();
    let before = handle.spawn(|| 5);
    let never = handle.spawn(thread::park);
    runtime.run(thread::yield_now).unwrap();
    assert_eq!(before.join().unwrap(), 5);
    assert!(never.join().unwrap_err().is::<Cancelled>());
    assert!(handle.spawn(|| ()).join().unwrap_err().is::<Cancelled>());
    // One that is never run drops what it was given.
    let runtime = Runtime::new().unwrap();
    let fresh = runtime.handle().spawn(|| ());
    drop(runtime);
    assert!(fresh.join().unwrap_err().is::<Cancelled>());
}

/// Is woken first of several, and keeps the others from hearing of it until their runtime ends.
struct SlowWaker {
    handle: pirn::Handle,
    called: mpsc::Sender<()>,
    /// Somebody was unwound.
    unwound: Mutex<mpsc::Receiver<()>>,
}

impl Wake for SlowWaker {
    fn wake(self: Arc<Self>) {
        self.called.send(()).unwrap();
        // Refused at once when the runtime has begun to end: its only carrier does not run any.
        while !self.handle.spawn(|| ()).is_finished() {}
        let early = self.unwound.lock().unwrap().recv_timeout(50 * MS);
        assert!(early.is_err(), "a fiber was unwound that this thread is about to wake");
    }
}

#[test]
fn the_end_of_the_runtime_waits_for_a_wake_up_that_is_under_way() {
    struct Tell(mpsc::Sender<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let runtime = Runtime::new().unwrap();
    let (called, is_called) = mpsc::channel();
    let (tell, unwound) = mpsc::channel();
    let waker = Arc::new(SlowWaker { handle: runtime.handle(), called, unwound: unwound.into() });
    let (sender, receiver) = pirn::sync::channel::unbounded::<()>();
    let other = runtime.run(move || {
        let other = {
            let first = receiver.clone();
            let (queued, is_queued) = mpsc::channel();
            let (go, may_go) = mpsc::channel();
            let other = std::thread::spawn(move || {
                let waker = Waker::from(waker);
                let mut future = pin!(first.recv_async());
                assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                queued.send(()).unwrap();
                may_go.recv().unwrap();
                // Both waits end by this; then the two are woken, one after the other.
                drop(sender);
            });
            is_queued.recv().unwrap();
            let tell = Tell(tell);
            thread::spawn(move || {
                let _tell = tell;
                let _ = receiver.recv();
                thread::park();
            });
            thread::yield_now(); // the fiber waits now, second in the queue
            go.send(()).unwrap();
            other
        };
        // A call that blocks the carrier: the fiber cannot run meanwhile.
        is_called.recv().unwrap();
        other
    });
    other.unwrap().join().unwrap();
}

#[test]
fn a_panic_that_nobody_can_observe_is_reported_once_in_order_of_ids() {
    let test = "a_panic_that_nobody_can_observe_is_reported_once_in_order_of_ids";
    let detached = || {
        pirn::run(|| {
            let late = thread::spawn(|| {
                thread::yield_now();
                panic!("the first");
            });
            drop(thread::spawn(|| panic!("the second")));
            let joined = thread::spawn(|| panic!("the third"));
            drop(late);
            thread::sleep(MS);
            assert!(joined.join().is_err());
        })
    };
    if let Some(result) = child(test, "alone", &[], detached) {
        assert_eq!(result.code, Some(0), "{result:?}");
        let reports: Vec<&str> =
            result.err.lines().filter(|line| line.contains("and nobody joined it")).collect();
        assert_eq!(reports.len(), 2, "{result:?}");
        for (report, (id, text)) in reports.iter().zip([(1, "the first"), (2, "the second")]) {
            assert!(
                report.starts_with(&format!("pirn: fiber (id {id}), spawned at tests/runtime.rs"))
            );
            assert!(
                report.ends_with(&format!("panicked, and nobody joined it: {text}")),
                "{report}"
            );
        }
    }
}

/// Ends, detaches, panics and first schedulings against the end of the runtime: every task has
/// exactly one fate, and it is the real one.
#[test]
fn every_fiber_has_one_fate_however_the_end_of_the_runtime_races_with_its_own() {
    let rounds = if is_native() { 2_000u64 } else { 300 };
    let drops = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut fates = [0u64; 3];
    for round in 0..rounds {
        let runtime = Runtime::new().unwrap();
        let (handle, counted) = (runtime.handle(), drops.clone());
        let before = drops.load(Ordering::Relaxed);
        let other = std::thread::spawn(move || {
            let children: Vec<_> = (0..6)
                .map(|child| {
                    let counted = Counted(counted.clone());
                    handle.spawn(move || {
                        let _counted = counted;
                        (0..child % 3).for_each(|_| thread::yield_now());
                        if child == 5 {
                            panic::resume_unwind(Box::new(child));
                        }
                        child
                    })
                })
                .collect();
            drop(handle);
            let fates =
                children.into_iter().enumerate().map(|(number, child)| match child.join() {
                    Ok(value) => {
                        assert_eq!(value, number);
                        0
                    }
                    Err(payload) if payload.is::<Cancelled>() => 1,
                    Err(payload) => {
                        assert_eq!(*payload.downcast::<usize>().unwrap(), 5);
                        2
                    }
                });
            fates.collect::<Vec<usize>>()
        });
        runtime
            .run(|| (0..round % 40).for_each(|_| thread::sleep(Duration::from_micros(1))))
            .unwrap();
        for fate in other.join().unwrap() {
            fates[fate] += 1;
        }
        assert_eq!(drops.load(Ordering::Relaxed) - before, 6, "each closure is dropped once");
    }
    assert_eq!(fates.iter().sum::<u64>(), 6 * rounds);
}

/// A carrier that sleeps without a timer looks again by itself after half a second, which makes up for
/// a wake-up that was lost. A sleep of this age cannot have come so far yet.
const YOUNG: Duration = Duration::from_millis(400);

/// An OS thread spawns fibers on an otherwise idle runtime, so many, after gaps of up to 200 µs; each
/// must wake the carrier.
fn spawns_from_outside(times: u64) {
    // Whose sleeps are counted, and nobody else's.
    let runtime = with_one_carrier();
    let handle = runtime.handle();
    let main = Arc::new(OnceLock::new());
    let spawner = std::thread::spawn({
        let main: Arc<OnceLock<Thread>> = main.clone();
        move || {
            let (mut state, mut last) = (1u64, None);
            for number in 0..times {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let gap = Instant::now() + Duration::from_micros((state >> 33) % 200);
                while Instant::now() < gap {
                    std::hint::spin_loop();
                }
                let child = handle.spawn(move || {
                    (number, pirn::stats().unwrap().kernel_wait_timeouts, Instant::now())
                });
                let spawned_at = Instant::now();
                let (echo, timeouts, ran_at) = child.join().unwrap();
                assert_eq!(echo, number);
                // The sleep that this one ended began after the one before had run.
                if let Some((timeouts_before, slept_since)) = last
                    && spawned_at - slept_since < YOUNG
                {
                    assert_eq!(timeouts, timeouts_before, "spawn {number} woke nobody");
                }
                last = Some((timeouts, ran_at));
            }
            main.wait().unpark();
        }
    });
    runtime
        .run(|| {
            main.set(thread::current()).unwrap();
            thread::park();
        })
        .unwrap();
    spawner.join().unwrap();
}

#[test]
fn a_spawn_from_another_os_thread_is_never_lost() {
    spawns_from_outside(3_000);
}

#[test]
#[ignore = "takes a minute: the same, as often as the case asks"]
fn two_hundred_thousand_spawns_from_another_os_thread_arrive() {
    spawns_from_outside(200_000);
}

/// A thousand suspended fibers, one of which computes; then `end`.
fn with_a_thousand_suspended(end: fn()) {
    pirn::run(|| {
        for number in 0..1_000 {
            thread::spawn(move || match number % 3 {
                0 => thread::park(),
                1 => thread::sleep(Duration::from_secs(3_600)),
                _ => loop {
                    thread::yield_now();
                },
            });
        }
        thread::yield_now();
        end();
    });
}

/// What ends the process, and its status.
const EXITS: [(&str, fn(), i32); 4] = [
    ("main returns", || with_a_thousand_suspended(|| ()), 0),
    ("after the runtime", || with_a_thousand_suspended(thread::yield_now), 0),
    ("exit on the main fiber", || with_a_thousand_suspended(|| std::process::exit(3)), 3),
    (
        "exit on another fiber",
        || {
            with_a_thousand_suspended(|| {
                thread::spawn(|| std::process::exit(4)).join().unwrap();
            });
        },
        4,
    ),
];

fn exits(test: &str, rounds: usize) {
    for (role, body, code) in EXITS {
        for _ in 0..rounds {
            let start = Instant::now();
            let Some(result) = child(test, role, LEAKS, body) else { break };
            assert_eq!((result.code, result.signal), (Some(code), None), "{role}: {result:?}");
            assert!(start.elapsed() < SOON);
        }
    }
}

#[test]
fn a_process_ends_with_its_status_whatever_its_fibers_do() {
    exits("a_process_ends_with_its_status_whatever_its_fibers_do", 10);
}

#[test]
#[ignore = "takes a minute: the same, as often as the case asks"]
fn a_process_ends_with_its_status_a_thousand_times() {
    exits("a_process_ends_with_its_status_a_thousand_times", 250);
}

/// Asserts that the carrier has slept since then, until a timer was due or half a second had passed,
/// and that hardly anything else woke it.
fn assert_slept(before: Stats, after: Stats, took: Duration) {
    let timeouts = after.kernel_wait_timeouts - before.kernel_wait_timeouts;
    let waits = after.kernel_waits - before.kernel_waits;
    let timers = after.timers_fired - before.timers_fired;
    let half_seconds = (took.as_millis() / 500) as u64;
    assert!(timeouts > 0 && timeouts <= timers + half_seconds, "{before:?} {after:?} {took:?}");
    assert!(waits <= timeouts + 10, "{before:?} {after:?} {took:?}");
}

#[test]
fn an_idle_runtime_sleeps_in_the_kernel() {
    isolated("an_idle_runtime_sleeps_in_the_kernel", &[], || {
        pirn::run(|| {
            for number in 0..100 {
                thread::spawn(move || match number % 2 {
                    0 => thread::park(),
                    _ => thread::sleep(Duration::from_secs(3_600)),
                });
            }
            thread::yield_now();
            let (start, before) = (Instant::now(), pirn::stats().unwrap());
            thread::sleep(1_000 * MS);
            assert_slept(before, pirn::stats().unwrap(), start.elapsed());
        });
        // Also without a timer, while another thread may bring work.
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle();
        let (start, before) = (Instant::now(), handle.stats());
        let other = std::thread::spawn(move || {
            std::thread::sleep(1_000 * MS);
            let stats = handle.stats();
            drop(handle);
            stats
        });
        assert!(runtime.run(thread::park).is_err());
        assert_slept(before, other.join().unwrap(), start.elapsed());
    });
}

#[test]
fn a_runtime_counts_what_it_does() {
    let runtime = with_one_carrier();
    let handle = runtime.handle();
    assert_eq!(pirn::stats(), None);
    let inside = runtime.run(|| {
        let sleeper = thread::spawn(|| thread::sleep(MS));
        thread::spawn(|| thread::park_timeout(Duration::from_secs(3_600))).thread().unpark();
        thread::yield_now();
        sleeper.join().unwrap();
        pirn::stats().unwrap()
    });
    // Nothing happened between the two looks.
    let stats = handle.stats();
    assert_eq!(inside.unwrap(), stats);
    assert_eq!(
        (stats.spawned, stats.timers_fired),
        (3, 1),
        "a limit that was not reached counts not"
    );
    assert!(stats.kernel_waits >= stats.kernel_wait_timeouts);
}

#[test]
fn a_panic_that_main_catches_leaves_the_runtime_as_it_was() {
    pirn::run(|| {
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            thread::spawn(thread::yield_now);
            panic::resume_unwind(Box::new(()));
        }));
        assert!(caught.is_err() && !thread::panicking());
        assert_eq!(thread::spawn(|| 1).join().unwrap(), 1);
    });
}
