//! What stands where `std::thread` stood: spawn, join, names, ids, scopes, the order of turns.

mod child;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Mutex;

use child::LEAKS;
use pirn::thread;
use pirn::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// A generous limit for what should happen soon.
const SOON: Duration = Duration::from_secs(60);

/// Panics with a payload of its own, without the hook's message.
fn throw<P: Any + Send>(payload: P) -> ! {
    panic::resume_unwind(Box::new(payload))
}

#[test]
fn join_returns_what_the_closure_returned_though_neither_can_leave_the_thread() {
    pirn::run(|| {
        let shared = Rc::new(Cell::new(1));
        let handle = thread::spawn_local({
            let shared = shared.clone();
            move || {
                shared.set(shared.get() + 1);
                shared
            }
        });
        assert!(Rc::ptr_eq(&handle.join().unwrap(), &shared));
        assert_eq!(shared.get(), 2);
    });
}

#[test]
fn join_returns_the_payload_of_the_panic() {
    pirn::run(|| {
        let payload = thread::spawn(|| panic!("literal")).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"literal"));
        let number = std::hint::black_box(1);
        let payload = thread::spawn(move || panic!("formatted {number}")).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), "formatted 1");
        let payload = thread::spawn(|| throw(vec![1, 2, 3])).join().unwrap_err();
        assert_eq!(*payload.downcast::<Vec<i32>>().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_panic_ends_its_fiber_and_no_other() {
    pirn::run(|| {
        let children: Vec<_> = (0..100)
            .map(|number| {
                thread::spawn(move || {
                    thread::yield_now();
                    assert!(!thread::panicking());
                    if number % 2 == 0 {
                        throw(number);
                    }
                    thread::yield_now();
                    number
                })
            })
            .collect();
        for (number, child) in children.into_iter().enumerate() {
            match child.join() {
                Ok(value) => assert_eq!((value, number % 2), (number, 1)),
                Err(payload) => assert_eq!(*payload.downcast::<usize>().unwrap(), number),
            }
        }
    });
}

#[test]
fn a_builder_names_the_fiber_and_sizes_its_stack() {
    /// Needs more than a kibibyte a level.
    fn deep(levels: usize) -> usize {
        let room = std::hint::black_box([levels as u8; 1024]);
        if levels == 0 { 0 } else { deep(levels - 1) + usize::from(room[512] == levels as u8) }
    }
    pirn::run(|| {
        assert_eq!(thread::current().name(), Some("main"));
        let builder = thread::Builder::new().name("deep").stack_size(8 << 20);
        let deep = builder.spawn(|| (thread::current().name().map(str::to_owned), deep(1_000)));
        let deep = deep.unwrap();
        assert_eq!(deep.thread().name(), Some("deep"));
        assert_eq!(deep.join().unwrap().0.as_deref(), Some("deep"));
        thread::spawn(|| assert_eq!(thread::current().name(), None)).join().unwrap();
        let error = thread::Builder::new().stack_size(usize::MAX).spawn(|| {}).unwrap_err();
        assert!(error.to_string().contains(&usize::MAX.to_string()), "{error}");
    });
}

#[test]
fn ids_are_unique_and_count_in_the_order_of_spawns() {
    let outside = thread::current().id();
    let first: HashSet<_> = pirn::run(|| {
        let main = thread::current().id();
        assert_eq!(main.number(), 0);
        assert_ne!(main, outside);
        let children: Vec<_> = (1..=10)
            .map(|number| {
                let child = thread::spawn(|| thread::current().id());
                assert_eq!(child.thread().id().number(), number);
                child
            })
            .collect();
        let ids = children.into_iter().map(|child| {
            let id = child.thread().id();
            assert_eq!(child.join().unwrap(), id);
            id
        });
        ids.chain([main]).collect()
    });
    assert_eq!(first.len(), 11);
    // Another runtime's are others, though their numbers are the same.
    assert!(!first.contains(&pirn::run(|| thread::current().id())));
    assert_eq!(thread::current().id(), outside);
}

#[test]
fn is_finished_is_true_once_join_would_not_wait() {
    pirn::run(|| {
        let child = thread::spawn_local(thread::yield_now);
        assert!(!child.is_finished());
        thread::yield_now();
        assert!(!child.is_finished());
        thread::yield_now();
        assert!(child.is_finished());
        child.join().unwrap();
    });
}

#[test]
fn fibers_whose_handles_were_dropped_go_on_to_their_end() {
    pirn::run(|| {
        let ended = Rc::new(Cell::new(0));
        for _ in 0..1_000 {
            let ended = ended.clone();
            drop(thread::spawn_local(move || {
                thread::sleep(20 * MS);
                ended.set(ended.get() + 1);
            }));
        }
        let start = Instant::now();
        while ended.get() < 1_000 {
            assert!(start.elapsed() < SOON);
            thread::sleep(MS);
        }
        // Nothing of them is left.
        thread::yield_now();
        assert_eq!((Rc::strong_count(&ended), pirn::fibers(false).len()), (1, 1));
    });
}

#[test]
fn results_that_nobody_takes_are_dropped() {
    pirn::run(|| {
        let result = Rc::new(());
        let [dropped_before, dropped_after] = [(); 2].map(|()| {
            let result = result.clone();
            thread::spawn_local(move || result)
        });
        drop(dropped_before);
        thread::yield_now();
        assert!(dropped_after.is_finished());
        assert_eq!(Rc::strong_count(&result), 2);
        drop(dropped_after);
        assert_eq!(Rc::strong_count(&result), 1);
    });
}

/// Spawning, yielding, parking, joining, scopes: what came in which order.
fn order_of_events() -> Vec<String> {
    let events = Rc::new(RefCell::new(Vec::new()));
    let note = {
        let events = events.clone();
        Rc::new(move |text: String| events.borrow_mut().push(text))
    };
    pirn::run(move || {
        note("main spawns".into());
        let children: Vec<_> = (0..3)
            .map(|child| {
                let note = note.clone();
                thread::spawn_local(move || {
                    for step in 0..=child {
                        note(format!("{child} step {step}"));
                        thread::yield_now();
                    }
                    if child == 1 {
                        thread::park();
                        note("1 unparked".into());
                    }
                })
            })
            .collect();
        note("main has spawned".into());
        thread::yield_now();
        note("main yields back".into());
        thread::scope(|scope| {
            scope.spawn(|| note("scoped".into()));
            note("scope waits".into());
        });
        children[1].thread().unpark();
        note("main unparks".into());
        thread::yield_now();
        children.into_iter().for_each(|child| child.join().unwrap());
        note("main joins".into());
    });
    events.take()
}

#[test]
fn the_order_of_turns_is_first_in_first_out_in_a_thousand_runs() {
    let expected = [
        "main spawns",
        "main has spawned",
        "0 step 0",
        "1 step 0",
        "2 step 0",
        "main yields back",
        "scope waits",
        // Child 0 has ended here.
        "1 step 1",
        "2 step 1",
        "scoped",
        // Child 1 parks here.
        "2 step 2",
        "main unparks",
        "1 unparked",
        "main joins",
    ];
    for _ in 0..1_000 {
        assert_eq!(order_of_events(), expected);
    }
}

#[test]
fn a_loop_that_tries_and_yields_lets_the_owner_run() {
    pirn::run(|| {
        let lock = Rc::new(Mutex::new(0));
        let owner = thread::spawn_local({
            let lock = lock.clone();
            move || {
                let mut held = lock.lock().unwrap();
                for _ in 0..5 {
                    thread::yield_now();
                }
                *held = 1;
            }
        });
        thread::yield_now();
        let mut attempts = 0;
        let held = loop {
            match lock.try_lock() {
                Ok(held) => break held,
                Err(_) => attempts += 1,
            }
            thread::yield_now();
        };
        assert_eq!((*held, attempts), (1, 5));
        drop(held);
        owner.join().unwrap();
    });
}

#[test]
fn fibers_of_a_scope_borrow_and_have_ended_when_it_returns() {
    pirn::run(|| {
        let (text, mut slots) = (String::from("borrowed"), vec![0; 100]);
        let length = thread::scope(|scope| {
            for (number, slot) in slots.iter_mut().enumerate() {
                let text = &text;
                scope.spawn(move || {
                    (0..number % 7).for_each(|_| thread::yield_now());
                    *slot = number + text.len();
                });
            }
            // A fiber of the scope spawns into it as well, and a result may borrow.
            let inner = scope.spawn(|| scope.spawn(|| &text[..3]).join().unwrap());
            inner.join().unwrap().len()
        });
        assert_eq!(length, 3);
        assert!(slots.iter().enumerate().all(|(number, &slot)| slot == number + 8));
    });
}

#[test]
fn a_scope_raises_a_panic_that_nobody_joined_after_all_have_ended() {
    pirn::run(|| {
        let ended = Cell::new(false);
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                scope.spawn(|| throw("lost"));
                scope.spawn(|| {
                    thread::sleep(5 * MS);
                    ended.set(true);
                });
            });
        }));
        assert!(ended.get());
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"a scoped thread panicked"));
    });
}

#[test]
fn a_scope_does_not_raise_a_panic_that_was_joined() {
    pirn::run(|| {
        let caught = thread::scope(|scope| scope.spawn(|| throw(7u8)).join());
        assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 7);
    });
}

#[test]
fn a_panic_of_the_scope_itself_waits_for_its_fibers_and_comes_first() {
    pirn::run(|| {
        let mut ended = false;
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::yield_now();
                    ended = true;
                });
                scope.spawn(|| throw("of a fiber"));
                throw("of the scope");
            });
        }));
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"of the scope"));
        assert!(ended);
    });
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        throw("dropped");
    }
}

/// Counts its drops.
struct Counted<'a>(&'a Cell<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_payload_that_panics_when_dropped_breaks_neither_scope_nor_join() {
    // A payload that cannot be dropped is leaked.
    let test = "a_payload_that_panics_when_dropped_breaks_neither_scope_nor_join";
    child::isolated(test, LEAKS, || {
        pirn::run(|| {
            let (drops, mut slow) = (Cell::new(0), 0);
            let caught = panic::catch_unwind(AssertUnwindSafe(|| {
                thread::scope(|scope| {
                    // Nobody takes the payload: it is dropped within the scope.
                    scope.spawn(|| throw(Bomb));
                    // Nor this result, which borrows from the scope's surroundings.
                    scope.spawn(|| Counted(&drops));
                    scope.spawn(|| {
                        thread::sleep(10 * MS);
                        slow = 1;
                    });
                });
            }));
            assert_eq!((drops.get(), slow), (1, 1));
            assert_eq!(
                caught.unwrap_err().downcast_ref::<&str>(),
                Some(&"a scoped thread panicked")
            );
            // A detached fiber's, and one that is joined.
            drop(thread::spawn(|| throw(Bomb)));
            drop(thread::spawn(|| Bomb));
            let payload = thread::spawn(|| throw(Bomb)).join().unwrap_err();
            std::mem::forget(payload);
            std::mem::forget(thread::spawn(|| Bomb).join().unwrap());
        })
    });
}

#[test]
fn a_fiber_local_is_each_fibers_own_and_is_dropped_before_join_returns() {
    struct Noted(Option<Rc<RefCell<Vec<&'static str>>>>, &'static str);
    impl Drop for Noted {
        fn drop(&mut self) {
            if let Some(list) = &self.0 {
                list.borrow_mut().push(self.1);
            }
        }
    }
    pirn::thread_local! {
        static FIRST: RefCell<Noted> = RefCell::new(Noted(None, "first"));
        static SECOND: RefCell<Noted> = RefCell::new(Noted(None, "second"));
    }
    pirn::run(|| {
        let list = Rc::new(RefCell::new(Vec::new()));
        let child = thread::spawn_local({
            let list = list.clone();
            move || {
                FIRST.with_borrow_mut(|noted| noted.0 = Some(list.clone()));
                thread::yield_now();
                SECOND.with_borrow_mut(|noted| noted.0 = Some(list.clone()));
            }
        });
        thread::yield_now();
        FIRST.with_borrow(|noted| assert!(noted.0.is_none()));
        child.join().unwrap();
        assert_eq!(*list.borrow(), ["second", "first"]);
    });
}
