//! What happens on a coroutine's stack when its handle goes away, or when its body panics.

mod child;
mod fate;

use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{Builder, Coroutine, Suspender, UNWIND_ATTEMPTS};
use pirn::{stack, thread};

/// Counts itself out.
struct Guard(Rc<Cell<usize>>);

impl Guard {
    fn new(alive: &Rc<Cell<usize>>) -> Guard {
        alive.set(alive.get() + 1);
        Guard(alive.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Panics when dropped.
#[derive(Debug)]
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic::resume_unwind(Box::new("grenade"));
    }
}

fn caught<T>(f: impl FnOnce() -> T) -> &'static str {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => "nothing",
        Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or("something else"),
    }
}

#[test]
fn dropping_an_unfinished_coroutine_drops_what_is_on_its_stack_once() {
    let alive = Rc::new(Cell::new(0));
    let make = || {
        let alive = alive.clone();
        Coroutine::new(move |s: &Suspender<Guard, Guard>, input: Guard| {
            let local = Guard::new(&alive);
            let second = s.suspend(Guard::new(&alive));
            let boxed: Box<dyn Fn()> = Box::new(|| _ = &local);
            s.suspend(Guard::new(&alive));
            drop((input, second, boxed));
            Guard::new(&alive)
        })
    };
    for resumes in 0..=3 {
        let mut coroutine = make();
        for resume in 0..resumes {
            match coroutine.resume(Guard::new(&alive)).unwrap() {
                Yield(guard) => assert_eq!((guard.0.get() > 0, resume < 2), (true, true)),
                Return(guard) => assert_eq!((guard.0.get(), resume), (1, 2)),
            }
        }
        drop(coroutine);
        assert_eq!(alive.get(), 0, "after {resumes} resumes");
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}

#[test]
fn ten_thousand_unfinished_coroutines_leave_nothing_behind() {
    fn descend(depth: u32, alive: &Rc<Cell<usize>>, shared: &Arc<()>, s: &Suspender<(), u32>) {
        let _kept = (Guard::new(alive), shared.clone(), Box::new([1u8; 4096]));
        s.suspend(depth);
        if depth > 0 {
            descend(depth - 1, alive, shared, s);
        }
    }
    fate::succeeds("ten_thousand_unfinished_coroutines_leave_nothing_behind", || {
        let (alive, shared) = (Rc::new(Cell::new(0)), Arc::new(()));
        let in_use = stack::stats().in_use;
        let mut coroutines = Vec::new();
        for number in 0..10_000 {
            let (alive, shared) = (alive.clone(), shared.clone());
            let mut coroutine = Coroutine::new(move |s: &Suspender<(), u32>, ()| {
                descend(2, &alive, &shared, s);
            });
            // A quarter is never started; the others wait at one, two or three levels.
            for _ in 0..number % 4 {
                coroutine.resume(()).unwrap();
            }
            coroutines.push(coroutine);
        }
        assert_eq!(alive.get(), 2500 * (1 + 2 + 3));
        assert_eq!(stack::stats().in_use, in_use + 10_000);
        for coroutine in coroutines.drain(..).step_by(2) {
            // What `step_by` leaves out is dropped unfinished.
            coroutine.for_each(drop);
        }
        assert_eq!(alive.get(), 0);
        assert_eq!(Arc::strong_count(&shared), 1);
        assert_eq!(Rc::strong_count(&alive), 1);
        assert_eq!(stack::stats().in_use, in_use);
    });
}

#[test]
fn unwinding_a_dropped_coroutine_prints_nothing_and_runs_no_hook() {
    let test = "unwinding_a_dropped_coroutine_prints_nothing_and_runs_no_hook";
    let stderr = fate::succeeds(test, || {
        panic::set_hook(Box::new(|_| std::process::abort()));
        let alive = Rc::new(Cell::new(0));
        let mut coroutine = Coroutine::new({
            let alive = alive.clone();
            move |s: &Suspender<(), ()>, ()| {
                let _guard = Guard::new(&alive);
                s.suspend(());
            }
        });
        assert_eq!(coroutine.resume(()), Ok(Yield(())));
        drop(coroutine);
        assert_eq!(alive.get(), 0);
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_body_that_catches_its_unwind_is_unwound_again_at_each_suspend_until_it_ends() {
    let test = "a_body_that_catches_its_unwind_is_unwound_again_at_each_suspend_until_it_ends";
    let stderr = fate::succeeds(test, || {
        panic::set_hook(Box::new(|_| std::process::abort()));
        let (alive, caught) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut coroutine = Coroutine::new({
            let (alive, caught) = (alive.clone(), caught.clone());
            move |s: &Suspender<(), Guard>, ()| {
                for _ in 0..3 {
                    let round = catch_unwind(AssertUnwindSafe(|| {
                        let _guard = Guard::new(&alive);
                        s.suspend(Guard::new(&alive));
                    }));
                    assert!(!std::thread::panicking());
                    caught.set(caught.get() + u32::from(round.is_err()));
                }
                Guard::new(&alive)
            }
        });
        assert!(matches!(coroutine.resume(()), Ok(Yield(_))));
        drop(coroutine);
        assert_eq!((caught.get(), alive.get()), (3, 0));
        assert_eq!(Rc::strong_count(&alive), 1);
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_body_that_never_gives_in_is_reported_and_leaked_after_the_documented_attempts() {
    let test = "a_body_that_never_gives_in_is_reported_and_leaked_after_the_documented_attempts";
    let stderr = fate::succeeds_leaking(test, || {
        let caught = Rc::new(Cell::new(0));
        let in_use = stack::stats().in_use;
        let mut stubborn = Builder::new()
            .name("stubborn")
            .build({
                let caught = caught.clone();
                move |s: &Suspender<(), ()>, ()| {
                    loop {
                        let round = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                        caught.set(caught.get() + u32::from(round.is_err()));
                    }
                }
            })
            .unwrap();
        assert_eq!(stubborn.resume(()), Ok(Yield(())));
        drop(stubborn);
        assert_eq!(caught.get(), UNWIND_ATTEMPTS);
        assert_eq!(stack::stats().in_use, in_use + 1);
    });
    assert!(stderr.starts_with("pirn: coroutine 'stubborn' created at "), "{stderr}");
    let complaint = "caught 1000 unwinds and suspended again each time; its stack is leaked\n";
    assert!(stderr.ends_with(complaint), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_panic_that_replaces_the_unwind_comes_out_of_the_drop() {
    let alive = Rc::new(Cell::new(0));
    let mut coroutine = Coroutine::new({
        let alive = alive.clone();
        move |s: &Suspender<(), ()>, ()| {
            let _guard = Guard::new(&alive);
            let unwound = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
            assert!(unwound.is_err());
            panic::resume_unwind(Box::new("another"));
        }
    });
    assert_eq!(coroutine.resume(()), Ok(Yield(())));
    assert_eq!(caught(|| drop(coroutine)), "another");
    assert_eq!(alive.get(), 0);
}

#[test]
fn a_closure_never_started_is_dropped_once_even_if_that_panics() {
    let grenade = Grenade;
    let alive = Rc::new(Cell::new(0));
    let guard = Guard::new(&alive);
    let fresh = Coroutine::new(move |_: &Suspender<(), ()>, ()| drop((grenade, guard)));
    assert_eq!(caught(|| drop(fresh)), "grenade");
    assert_eq!(alive.get(), 0);
}

#[test]
fn values_that_panic_when_the_drop_discards_them_do_not_stop_the_unwinding() {
    let test = "values_that_panic_when_the_drop_discards_them_do_not_stop_the_unwinding";
    fate::succeeds(test, || {
        let alive = Rc::new(Cell::new(0));
        let in_use = stack::stats().in_use;
        let mut coroutine = Coroutine::new({
            let alive = alive.clone();
            move |s: &Suspender<(), Option<Grenade>>, ()| {
                let _guard = Guard::new(&alive);
                s.suspend(None)
            }
        });
        assert!(matches!(coroutine.resume(()), Ok(Yield(None))));
        assert_eq!(caught(|| drop(coroutine)), "nothing");

        // Yielded during the unwinding.
        let mut coroutine = Coroutine::new({
            let alive = alive.clone();
            move |s: &Suspender<(), Option<Grenade>>, ()| {
                let _guard = Guard::new(&alive);
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(None)));
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(Some(Grenade))));
                s.suspend(Some(Grenade))
            }
        });
        assert!(matches!(coroutine.resume(()), Ok(Yield(None))));
        assert_eq!(caught(|| drop(coroutine)), "grenade");
        assert_eq!(alive.get(), 0);

        // Returned at the end of it.
        let mut coroutine = Coroutine::new(|s: &Suspender<(), ()>, ()| {
            let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
            Grenade
        });
        assert!(matches!(coroutine.resume(()), Ok(Yield(()))));
        assert_eq!(caught(|| drop(coroutine)), "grenade");
        assert_eq!(stack::stats().in_use, in_use);
    });
}

/// Drops what it holds while a panic unwinds.
fn drop_during_a_panic<T>(value: T) {
    let outcome = caught(move || {
        let _value = value;
        panic::resume_unwind(Box::new("first"));
    });
    assert_eq!(outcome, "first");
    assert!(!std::thread::panicking());
}

#[test]
fn coroutines_dropped_by_a_panic_are_unwound_all_the_same() {
    let test = "coroutines_dropped_by_a_panic_are_unwound_all_the_same";
    let stderr = fate::succeeds(test, unwound_by_a_panic);
    assert_eq!(stderr, "");
}

fn unwound_by_a_panic() {
    panic::set_hook(Box::new(|_| std::process::abort()));
    let alive = Rc::new(Cell::new(0));
    let mut plain = Coroutine::new({
        let alive = alive.clone();
        move |s: &Suspender<(), ()>, ()| {
            let _guard = Guard::new(&alive);
            s.suspend(());
        }
    });
    // One that catches the unwind and suspends, and one whose end is another panic.
    let mut catching = Coroutine::new({
        let alive = alive.clone();
        move |s: &Suspender<(), ()>, ()| {
            let _guard = Guard::new(&alive);
            for _ in 0..3 {
                let unwound = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                assert!(unwound.is_err());
            }
        }
    });
    let mut panicking = Coroutine::new({
        let alive = alive.clone();
        move |s: &Suspender<(), ()>, ()| {
            let _guard = Guard::new(&alive);
            let unwound = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
            assert!(unwound.is_err());
            panic::resume_unwind(Box::new("second"));
        }
    });
    for coroutine in [&mut plain, &mut catching, &mut panicking] {
        assert_eq!(coroutine.resume(()), Ok(Yield(())));
    }
    drop_during_a_panic((plain, catching, panicking));
    assert_eq!(alive.get(), 0);
}

#[test]
fn a_coroutine_that_owns_others_unwinds_them_too() {
    fn nest(depth: usize, alive: Rc<Cell<usize>>) -> Coroutine<(), usize, ()> {
        Coroutine::new(move |s: &Suspender<(), usize>, ()| {
            let _guard = Guard::new(&alive);
            if depth > 0 {
                for below in nest(depth - 1, alive.clone()) {
                    s.suspend(below + 1);
                }
            }
            s.suspend(0);
        })
    }
    let alive = Rc::new(Cell::new(0));
    let mut outermost = nest(20, alive.clone());
    assert_eq!(outermost.next(), Some(20));
    assert_eq!(alive.get(), 21);
    drop(outermost);
    assert_eq!(alive.get(), 0);
}

/// How deep [`nested`] goes.
fn depth() -> usize {
    // An emulator guards stacks by mprotect, and those are limited.
    if child::is_emulated() || fate::has_sanitizer() { 2_000 } else { 50_000 }
}

/// Coroutines that each make and resume the next one. The innermost suspends, then ends by `end`.
fn nested(depth: usize, alive: Rc<Cell<usize>>, end: fn()) -> Coroutine<(), (), ()> {
    let body = move |s: &Suspender<(), ()>, ()| {
        let _guard = Guard::new(&alive);
        if depth == 0 {
            s.suspend(());
            end();
        } else {
            nested(depth - 1, alive, end).for_each(|()| s.suspend(()));
        }
    };
    Builder::new().stack_size(1).build(body).unwrap()
}

#[test]
fn fifty_thousand_coroutines_within_each_other_finish() {
    fate::succeeds("fifty_thousand_coroutines_within_each_other_finish", || {
        let alive = Rc::new(Cell::new(0));
        let mut outermost = nested(depth(), alive.clone(), || {});
        assert_eq!(outermost.resume(()), Ok(Yield(())));
        assert_eq!(alive.get(), depth() + 1);
        assert_eq!(outermost.resume(()), Ok(Return(())));
        assert_eq!(alive.get(), 0);
    });
}

#[test]
fn a_panic_passes_through_fifty_thousand_coroutines() {
    fate::succeeds("a_panic_passes_through_fifty_thousand_coroutines", || {
        let alive = Rc::new(Cell::new(0));
        let end = || panic::resume_unwind(Box::new("innermost"));
        let mut outermost = nested(depth(), alive.clone(), end);
        assert_eq!(outermost.resume(()), Ok(Yield(())));
        assert_eq!(caught(|| outermost.resume(())), "innermost");
        assert_eq!(alive.get(), 0);
        assert!(outermost.is_done() && !std::thread::panicking());
    });
}

#[test]
fn dropping_the_outermost_of_fifty_thousand_coroutines_unwinds_all() {
    fate::succeeds("dropping_the_outermost_of_fifty_thousand_coroutines_unwinds_all", || {
        let alive = Rc::new(Cell::new(0));
        let mut outermost = nested(depth(), alive.clone(), || {});
        assert_eq!(outermost.resume(()), Ok(Yield(())));
        drop(outermost);
        assert_eq!(alive.get(), 0);
        assert!(!std::thread::panicking());
    });
}

#[test]
fn a_forgotten_coroutine_keeps_its_stack_and_nothing_reuses_it() {
    fate::succeeds_leaking("a_forgotten_coroutine_keeps_its_stack_and_nothing_reuses_it", || {
        let seen: Rc<RefCell<Vec<usize>>> = Rc::default();
        let make = || {
            let seen = seen.clone();
            Coroutine::new(move |s: &Suspender<(), ()>, ()| {
                let local = 0u8;
                seen.borrow_mut().push((&raw const local).addr());
                s.suspend(());
            })
        };
        let mut forgotten = make();
        assert_eq!(forgotten.resume(()), Ok(Yield(())));
        mem::forget(forgotten);
        for _ in 0..100 {
            let mut next = make();
            assert_eq!(next.resume(()), Ok(Yield(())));
        }
        let seen = seen.take();
        assert_eq!(seen.iter().filter(|&&address| address == seen[0]).count(), 1);
        assert_eq!(stack::stats().in_use, 1);
    });
}

#[test]
fn a_fiber_that_the_runtime_ends_inside_a_coroutine_unwinds_the_coroutine() {
    let alive = Rc::new(Cell::new(0));
    pirn::run({
        let alive = alive.clone();
        move || {
            thread::spawn_local(move || {
                let _outside = Guard::new(&alive);
                let mut coroutine = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
                    let _inside = Guard::new(&alive);
                    s.suspend(());
                    thread::park();
                    unreachable!("nobody unparks");
                });
                assert_eq!(coroutine.resume(()), Ok(Yield(())));
                coroutine.resume(()).unwrap();
            });
            thread::yield_now();
        }
    });
    assert_eq!(alive.get(), 0);
}

#[test]
fn a_fiber_waits_on_its_coroutines_stack_while_others_run() {
    pirn::run(|| {
        let order: Rc<RefCell<Vec<u32>>> = Rc::default();
        let within = order.clone();
        let fiber = thread::spawn_local(move || {
            let mut coroutine = Coroutine::new(move |s: &Suspender<u32, ()>, input: u32| {
                within.borrow_mut().push(input);
                thread::park();
                within.borrow_mut().push(3);
                thread::sleep(std::time::Duration::from_micros(1));
                within.borrow_mut().push(4);
                within.borrow_mut().push(s.suspend(()));
                thread::yield_now();
            });
            assert_eq!(coroutine.resume(1), Ok(Yield(())));
            assert_eq!(coroutine.resume(5), Ok(Return(())));
        });
        thread::yield_now();
        order.borrow_mut().push(2);
        fiber.thread().unpark();
        fiber.join().unwrap();
        assert_eq!(*order.borrow(), [1, 2, 3, 4, 5]);
    });
}
