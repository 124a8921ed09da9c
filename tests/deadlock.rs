//! When nothing can ever run again that is reported, and reports say who waits for what.

mod child;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use child::{child, isolated};
use pirn::sync::channel;
use pirn::thread::{self, JoinHandle};
use pirn::time::{Duration, Timer};
use pirn::{Deadlock, Runtime};

/// A program that deadlocks, and what the report says of its fibers.
type Stuck = (fn(), &'static [&'static str]);

/// The name of the test with children.
const IN_A_CHILD: &str = "a_deadlock_ends_the_program_with_a_panic_that_lists_the_fibers";

const STUCK: &[(&str, Stuck)] = &[
    ("park", (|| thread::park(), &["fiber 'main' (id 0)", "is parked until somebody unparks it"])),
    (
        "all parked",
        (
            || {
                let children = [(); 3].map(|()| thread::spawn(thread::park));
                children.into_iter().for_each(|child| child.join().unwrap());
            },
            &["waits to join fiber (id 1)", "fiber (id 3)", "4 fibers wait"],
        ),
    ),
    (
        "join cycle",
        (
            || {
                let slot: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
                let other = slot.clone();
                let first = thread::Builder::new().name("first").spawn_local(move || {
                    let second = other.take().unwrap();
                    second.join().unwrap();
                });
                let first = first.unwrap();
                let second = thread::Builder::new().name("second");
                *slot.borrow_mut() = Some(second.spawn_local(|| first.join().unwrap()).unwrap());
                thread::park();
            },
            &["waits to join fiber 'first' (id 1)", "waits to join fiber 'second' (id 2)"],
        ),
    ),
    (
        "join of itself",
        (
            || {
                let slot: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
                let own = slot.clone();
                let child = thread::Builder::new().name("narcissus");
                let child = child.spawn_local(move || own.take().unwrap().join().unwrap()).unwrap();
                *slot.borrow_mut() = Some(child);
                thread::park();
            },
            &["fiber 'narcissus' (id 1)", "waits to join fiber 'narcissus' (id 1)"],
        ),
    ),
    (
        "scope",
        (
            || {
                thread::scope(|scope| {
                    scope.spawn(thread::park);
                });
            },
            &["waits for 1 fiber of its scope", "is parked until somebody unparks it"],
        ),
    ),
    (
        "a timer that nobody sets",
        (
            || {
                let timer = Timer::after(Duration::from_secs(1));
                timer.stop();
                timer.wait();
            },
            &["waits for a timer that is not set"],
        ),
    ),
    ("sleep for ever", (|| thread::sleep(Duration::MAX), &["1 fiber waits", "sleeps"])),
    (
        "after timers have fired and fibers have ended",
        (
            || {
                thread::sleep(Duration::from_millis(1));
                thread::spawn(thread::yield_now).join().unwrap();
                thread::park_timeout(Duration::from_millis(1));
                thread::park();
            },
            &["1 fiber waits"],
        ),
    ),
];

fn assert_reports(text: &str, program: &str, expected: &[&str]) {
    assert!(text.contains("deadlock: "), "{program}: {text}");
    assert!(text.contains("spawned at tests/deadlock.rs:"), "{program}: {text}");
    for expected in expected {
        assert!(text.contains(expected), "{program}: no '{expected}' in: {text}");
    }
}

#[test]
fn a_deadlock_is_an_error_that_says_what_each_fiber_waits_for() {
    for &(program, (stuck, expected)) in STUCK {
        // The one in which this test's own thread could unpark somebody would not be a deadlock.
        let deadlock = Runtime::new().unwrap().run(stuck).unwrap_err();
        assert_reports(&deadlock.to_string(), program, expected);
        assert!(!deadlock.fibers().is_empty());
    }
}

#[test]
fn a_deadlock_ends_the_program_with_a_panic_that_lists_the_fibers() {
    for &(program, (stuck, expected)) in STUCK {
        let env = [("RUST_BACKTRACE", "0")];
        if let Some(result) = child(IN_A_CHILD, program, &env, || pirn::run(stuck)) {
            // What a test program exits with when its test panics.
            assert_eq!(result.code, Some(101), "{program}: {result:?}");
            assert_reports(&result.err, program, expected);
        }
    }
}

#[test]
fn a_deadlock_unwinds_main_and_everybody_else() {
    struct Unwound(Rc<RefCell<Vec<&'static str>>>, &'static str);
    impl Drop for Unwound {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }
    let order = Rc::new(RefCell::new(Vec::new()));
    let note = |name| Unwound(order.clone(), name);
    let result = Runtime::new().unwrap().run(|| {
        let _main = note("main");
        let child = note("child");
        thread::spawn_local(move || {
            let _child = child;
            thread::park();
        });
        thread::park();
    });
    assert_eq!(result.unwrap_err().fibers().len(), 2);
    assert_eq!(*order.borrow(), ["child", "main"]);
}

#[test]
fn whoever_may_still_be_woken_is_not_deadlocked() {
    // By a timer.
    pirn::run(|| thread::park_timeout(Duration::from_millis(5)));
    // By a fiber that another thread spawns with a handle, whose end may make it one.
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let other = std::thread::spawn(move || handle.spawn(|| ()).join().is_ok());
    let deadlock: Deadlock = runtime.run(thread::park).unwrap_err();
    assert_eq!(deadlock.fibers().len(), 1);
    assert!(other.join().unwrap());
    // By another thread that may unpark it.
    pirn::run(|| {
        let main = thread::current();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let _ = receiver.recv();
            main.unpark();
        });
        drop(sender);
        thread::park();
        other.join().unwrap();
    });
}

#[test]
fn a_subset_that_is_stuck_shows_in_the_list_of_fibers() {
    pirn::run(|| {
        let slot: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
        let other = slot.clone();
        let first = thread::Builder::new().name("first");
        let first = first.spawn_local(move || other.take().unwrap().join().unwrap()).unwrap();
        let second = thread::Builder::new().name("second");
        *slot.borrow_mut() = Some(second.spawn_local(|| first.join().unwrap()).unwrap());
        // The program as a whole goes on for ever.
        thread::spawn(|| {
            loop {
                thread::sleep(Duration::from_millis(1));
            }
        });
        thread::sleep(Duration::from_millis(5));
        let fibers = pirn::fibers(false);
        let find = |name| fibers.iter().find(|fiber| fiber.name() == Some(name)).unwrap();
        assert!(find("first").state().starts_with("waits to join fiber 'second' (id 2)"));
        assert!(find("second").state().starts_with("waits to join fiber 'first' (id 1)"));
    });
}

/// 200 fibers in all states; spawns them and waits until each is in its own.
fn two_hundred_fibers() -> BTreeMap<u64, &'static str> {
    const STATES: [(&str, fn()); 8] = [
        ("is parked until somebody unparks it", || waits_in_park()),
        ("is parked until somebody unparks it or its time is up", || {
            thread::park_timeout(Duration::from_secs(3_600));
        }),
        ("sleeps", || thread::sleep(Duration::from_secs(3_600))),
        ("waits to join fiber ", || thread::spawn_local(thread::park).join().unwrap()),
        ("waits for 2 fibers of its scope", || {
            thread::scope(|scope| {
                scope.spawn(thread::park);
                scope.spawn(thread::park);
            });
        }),
        ("waits for a timer", || Timer::after(Duration::from_secs(3_600)).wait()),
        ("is runnable", || {
            loop {
                thread::yield_now();
            }
        }),
        ("has not begun", || unreachable!()),
    ];
    let mut expected = BTreeMap::from([(thread::current().id().number(), "is running")]);
    for (state, wait) in STATES {
        if state == "has not begun" {
            thread::yield_now();
        }
        for number in 0..25 {
            let builder = thread::Builder::new().name(format!("{state}, {number}"));
            let child = builder.spawn_local(wait).unwrap();
            expected.insert(child.thread().id().number(), state);
        }
    }
    expected
}

#[inline(never)]
fn waits_in_park() {
    thread::park();
    std::hint::black_box(());
}

#[test]
fn the_list_of_fibers_has_each_once_with_its_state_and_backtrace() {
    pirn::run(|| {
        let expected = two_hundred_fibers();
        let fibers = pirn::fibers(true);
        // In the order of their ids, the helpers of those that join and scope among them.
        assert!(fibers.windows(2).all(|pair| pair[0].id() < pair[1].id()));
        assert_eq!(fibers.len(), expected.len() + 25 + 2 * 25);
        for (id, state) in &expected {
            let fiber = fibers.iter().find(|fiber| fiber.id().number() == *id).unwrap();
            assert!(fiber.state().starts_with(state), "{fiber}");
            assert_eq!(fiber.spawned_at().file(), "tests/deadlock.rs");
            if *state == "is running" {
                assert_eq!(fiber.name(), Some("main"));
            } else {
                assert!(fiber.name().unwrap().starts_with(state), "{fiber}");
            }
            match (*state, fiber.backtrace()) {
                ("has not begun", backtrace) => assert!(backtrace.is_none()),
                (_, backtrace) => assert!(backtrace.is_some(), "{fiber}"),
            }
        }
        let text = fibers[1].to_string();
        assert!(text.contains("waits_in_park"), "{text}");
        assert!(text.contains("tests/deadlock.rs"), "{text}");
        // Everybody goes on as before.
        thread::yield_now();
        let states = |list: &[pirn::FiberReport]| -> Vec<String> {
            list.iter().map(|fiber| fiber.state().to_owned()).collect()
        };
        let runnable = |text: &String| text == "is runnable";
        let before = states(&fibers).into_iter().filter(runnable).count();
        assert_eq!(before, 25);
    });
}

#[test]
fn a_deadlock_report_has_backtraces_when_the_environment_asks_for_them() {
    let test = "a_deadlock_report_has_backtraces_when_the_environment_asks_for_them";
    for (role, asked) in [("without", "0"), ("with", "1")] {
        let stuck = || {
            println!("{}", Runtime::new().unwrap().run(waits_in_park).unwrap_err());
        };
        if let Some(result) = child(test, role, &[("RUST_BACKTRACE", asked)], stuck) {
            assert_eq!(result.code, Some(0), "{result:?}");
            assert!(result.out.contains("deadlock: 1 fiber waits"), "{result:?}");
            assert_eq!(result.out.contains("waits_in_park"), role == "with", "{result:?}");
        }
    }
}

#[test]
fn a_wait_during_a_panic_that_only_a_fiber_could_end_aborts_with_a_report() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            thread::spawn_local(|| ()).join().unwrap();
        }
    }
    let test = "a_wait_during_a_panic_that_only_a_fiber_could_end_aborts_with_a_report";
    let stuck = || {
        pirn::run(|| {
            let _waits = Waits;
            panic!("unwinds");
        })
    };
    if let Some(result) = child(test, "alone", &[], stuck) {
        assert!(result.aborted(), "{result:?}");
        let expected = "pirn: deadlock: fiber 'main' (id 0), spawned at tests/deadlock.rs:";
        assert!(result.err.contains(expected), "{result:?}");
        assert!(result.err.contains("waits while a panic unwinds it"), "{result:?}");
    }
}

#[test]
fn another_thread_gets_the_list_by_a_handle() {
    let runtime = pirn::Runtime::new().unwrap();
    let handle = runtime.handle();
    // Before there is a main fiber, which comes first all the same.
    let asked = handle.spawn(|| pirn::fibers(true));
    let asker = std::thread::spawn(move || asked.join().unwrap());
    drop(handle);
    let list = runtime.run(move || {
        while !asker.is_finished() {
            thread::yield_now();
        }
        asker.join().unwrap()
    });
    let list = list.unwrap();
    assert_eq!(list[0].name(), Some("main"));
    assert_eq!(list[0].state(), "is runnable");
    assert!(list[0].backtrace().unwrap().to_string().contains("another_thread_gets_the_list"));
}

#[test]
fn an_os_thread_that_brings_work_and_sleeps_until_it_is_done_is_no_deadlock() {
    const TEST: &str = "an_os_thread_that_brings_work_and_sleeps_until_it_is_done_is_no_deadlock";
    isolated(TEST, &[], || {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle();
        let ended = runtime.run(move || {
            let (sender, receiver) = channel::oneshot();
            let other = std::thread::spawn(move || {
                // The carrier may look whether anybody could wake it just as this goes to sleep.
                for _ in 0..5_000 {
                    handle.spawn(|| ()).join().unwrap();
                }
                sender.send("done").unwrap();
            });
            let done = receiver.recv().unwrap();
            other.join().unwrap();
            done
        });
        assert_eq!(ended.unwrap(), "done");
    });
}
