//! Fiber-local values: whose they are, and when they go.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{Coroutine, Suspender};
use pirn::thread;
use pirn::thread::{AccessError, LocalKey};

std::thread_local! {
    /// What the destructors of this thread's values have said so far.
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn log(line: impl Into<String>) {
    // At the end of the thread nobody listens any more.
    let _ = LOG.try_with(|log| log.borrow_mut().push(line.into()));
}

fn logged() -> Vec<String> {
    LOG.take()
}

/// Says that it goes, and whether the other value can still be had.
struct Speaker(&'static str, fn() -> Result<String, AccessError>);

impl Drop for Speaker {
    fn drop(&mut self) {
        let other = (self.1)().unwrap_or_else(|error| error.to_string());
        log(format!("{} goes: {other}", self.0));
    }
}

pirn::thread_local! {
    static A: Speaker = Speaker("a", || B.try_with(|b| b.0.to_owned()));
    static B: Speaker = Speaker("b", || A.try_with(|a| a.0.to_owned()));
}

const GONE: &str = "the fiber-local value is being dropped or has been dropped";

#[test]
fn values_go_in_the_opposite_order_of_their_first_use_however_the_fiber_ends() {
    for end in [|| (), || panic::resume_unwind(Box::new(()))] {
        pirn::run(move || {
            let fiber = thread::spawn_local(move || {
                A.with(|_| ());
                B.with(|_| ());
                thread::yield_now();
                A.with(|_| ());
                end();
            });
            let _ = fiber.join();
            // The values have gone before join returns; the last one made may use the first.
            assert_eq!(logged(), ["b goes: a".to_owned(), format!("a goes: {GONE}")]);
        });
    }
}

#[test]
fn values_go_when_the_runtime_ends_their_fiber() {
    pirn::run(|| {
        thread::spawn_local(|| {
            B.with(|_| ());
            A.with(|_| ());
            thread::park();
        });
        thread::yield_now();
    });
    assert_eq!(logged(), ["a goes: b".to_owned(), format!("b goes: {GONE}")]);
}

#[test]
fn a_value_that_is_being_dropped_or_gone_is_an_error_and_no_crash() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            let gone: AccessError = LATE.try_with(|_| ()).unwrap_err();
            assert_eq!(gone.to_string(), GONE);
            let panicked = catch_unwind(|| LATE.with(|_| ()));
            let message = panicked.unwrap_err().downcast_ref::<String>().cloned();
            log(message.unwrap());
        }
    }
    pirn::thread_local!(static LATE: Late = Late);
    pirn::run(|| thread::spawn_local(|| LATE.with(|_| ())).join().unwrap());
    assert_eq!(logged(), [format!("cannot access a fiber-local: {GONE}")]);
}

#[test]
fn a_destructor_may_make_a_value_of_another_key_wait_and_spawn() {
    struct Busy;
    impl Drop for Busy {
        fn drop(&mut self) {
            thread::yield_now();
            let child = thread::spawn_local(|| log("child"));
            child.join().unwrap();
            NAME.with_borrow(|name| log(format!("made: {name}")));
        }
    }
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            log("last");
        }
    }
    pirn::thread_local! {
        static BUSY: Busy = const { Busy };
        static NAME: RefCell<String> = {
            LAST.with(|_| ());
            RefCell::new("weft".to_owned())
        };
        static LAST: Last = Last;
    }
    pirn::run(|| thread::spawn_local(|| BUSY.with(|_| ())).join().unwrap());
    assert_eq!(logged(), ["child", "made: weft", "last"]);
}

#[test]
fn an_initialiser_may_wait_and_runs_once_for_each_fiber() {
    pirn::thread_local! {
        static NUMBER: u64 = {
            thread::yield_now();
            log("made");
            thread::current().id().number()
        };
    }
    pirn::run(|| {
        let fibers = [0; 3].map(|_| {
            thread::spawn_local(|| {
                let id = thread::current().id().number();
                assert!((0..3).all(|_| NUMBER.with(|&number| number == id)));
            })
        });
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    assert_eq!(logged(), ["made"; 3]);
}

#[test]
fn the_carriers_own_thread_locals_outlive_its_fibers() {
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            log("destroyed");
        }
    }
    std::thread_local!(static OWN: Counts = const { Counts });
    pirn::run(|| {
        thread::spawn_local(|| OWN.with(|_| ())).join().unwrap();
        assert_eq!(logged().len(), 0);
    });
    OWN.with(|_| ());
    assert_eq!(logged().len(), 0);
}

#[test]
fn the_shorthands_of_std_work() {
    pirn::thread_local! {
        /// Attributes and visibility pass through.
        pub(crate) static CELL: Cell<u32> = const { Cell::new(1) };
        static LIST: RefCell<Vec<u32>> = RefCell::default();
    }
    pirn::thread_local! {}
    CELL.set(5);
    assert_eq!((CELL.get(), CELL.replace(6), CELL.take(), CELL.get()), (5, 5, 6, 0));
    LIST.with_borrow_mut(|list| list.push(1));
    assert_eq!(LIST.with_borrow(Vec::len), 1);
    let key: &'static LocalKey<_> = &LIST;
    assert_eq!(format!("{key:?}"), "LocalKey { .. }");
}

pirn::thread_local!(static CURRENT: RefCell<Vec<&'static str>> = RefCell::default());

/// Puts a name on the fiber's stack of names, for as long as it lives.
struct Span(&'static str);

impl Span {
    fn enter(name: &'static str) -> Span {
        CURRENT.with_borrow_mut(|current| current.push(name));
        Span(name)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        assert_eq!(CURRENT.with_borrow_mut(Vec::pop), Some(self.0));
    }
}

fn current() -> Option<&'static str> {
    CURRENT.with_borrow(|current| current.last().copied())
}

#[test]
fn guards_on_a_fiber_local_stack_are_seen_by_their_own_fiber_only() {
    pirn::run(|| {
        let first = thread::spawn_local(|| {
            let _span = Span::enter("first");
            thread::yield_now();
            assert_eq!(current(), Some("first"));
        });
        let second = thread::spawn_local(|| {
            assert_eq!(current(), None);
            let _span = Span::enter("second");
            // The first one leaves before us.
            (0..3).for_each(|_| thread::yield_now());
            assert_eq!(current(), Some("second"));
        });
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(current(), None);
    });
}

#[test]
fn coroutine_and_thread_scopes_may_be_left_in_the_opposite_order_of_entering() {
    use pirn::coroutine;
    pirn::run(|| {
        let fiber = |yields: usize| {
            thread::spawn_local(move || {
                coroutine::scope(|scope| {
                    let mut inner = scope.coroutine(|s: &Suspender<(), usize>, ()| {
                        thread::scope(|fibers| _ = fibers.spawn(thread::yield_now));
                        s.suspend(yields);
                    });
                    assert_eq!(inner.resume(()), Ok(Yield(yields)));
                    (0..yields).for_each(|_| thread::yield_now());
                });
            })
        };
        let fibers = [5, 3, 1].map(fiber);
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_coroutine_uses_the_locals_of_whichever_fiber_resumes_it() {
    pirn::thread_local!(static OWNER: Cell<u32> = const { Cell::new(0) });
    OWNER.set(7);
    let reads = Rc::new(RefCell::new(Coroutine::new(|s: &Suspender<(), u32>, ()| {
        loop {
            s.suspend(OWNER.get());
        }
        #[allow(unreachable_code, reason = "names the type")]
        ()
    })));
    assert_eq!(reads.borrow_mut().next(), Some(7));
    pirn::run({
        let reads = reads.clone();
        move || {
            for number in [1, 2] {
                let reads = reads.clone();
                let fiber = thread::spawn_local(move || {
                    OWNER.set(number);
                    assert_eq!(reads.borrow_mut().next(), Some(number));
                });
                fiber.join().unwrap();
            }
        }
    });
    assert_eq!(reads.borrow_mut().next(), Some(7));
}

#[test]
fn a_value_borrowed_by_a_suspended_coroutine_outlives_its_fiber() {
    pirn::thread_local!(static TEXT: Rc<RefCell<String>> = {
        Rc::new(RefCell::new("woven by the first fiber".repeat(4)))
    });
    pirn::run(|| {
        let fiber = thread::spawn_local(|| {
            let mut coroutine = Coroutine::new(|s: &Suspender<(), ()>, ()| {
                TEXT.with(|text| {
                    s.suspend(());
                    text.borrow().len()
                })
            });
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
            AssertUnwindSafe(coroutine)
        });
        let mut coroutine = fiber.join().unwrap();
        // Where the value was, something else is now.
        let others = [0; 16].map(|_| Rc::new(RefCell::new("x".repeat(500))));
        assert_eq!(coroutine.resume(()), Ok(Return(24 * 4)));
        drop(others);
    });
}
