//! Coroutines that borrow: whatever becomes of their handles, they are over when the scope is.

mod child;
mod fate;

use std::cell::{Cell, RefCell};
use std::mem;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{self, Builder, Coroutine, ScopedCoroutine, Suspender};
use pirn::stack::StackError;
use pirn::{stack, thread};

/// Writes its name to a list when dropped.
struct Bell<'a>(&'a RefCell<Vec<&'static str>>, &'static str);

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

/// A body that rings when it is unwound.
fn ringing<'a>(
    rung: &'a RefCell<Vec<&'static str>>,
    name: &'static str,
) -> impl FnOnce(&Suspender<(), ()>, ()) + 'a {
    move |s, ()| {
        let _bell = Bell(rung, name);
        s.suspend(());
    }
}

fn caught<T>(f: impl FnOnce() -> T) -> &'static str {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => "nothing",
        Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or("something else"),
    }
}

#[test]
fn a_scoped_coroutine_borrows_and_changes_its_surroundings() {
    let words = vec!["warp".to_owned(), "weft".to_owned()];
    let mut total = 0;
    let collected: Vec<&str> = coroutine::scope(|scope| {
        let walk = scope.coroutine(|s: &Suspender<(), &str>, ()| {
            for word in &words {
                total += word.len();
                s.suspend(word);
            }
        });
        assert_eq!(format!("{walk:?}"), "ScopedCoroutine { done: false, .. }");
        assert_eq!(format!("{scope:?}"), "Scope { .. }");
        walk.collect()
    });
    assert_eq!((collected, total), (vec!["warp", "weft"], 8));
}

#[test]
fn an_ended_scoped_coroutine_gives_the_input_back() {
    coroutine::scope(|scope| {
        let mut coroutine = scope.coroutine(|s: &Suspender<u8, u8>, first: u8| s.suspend(first));
        assert!(!coroutine.is_done());
        assert_eq!(coroutine.resume(1), Ok(Yield(1)));
        assert_eq!(coroutine.resume(2), Ok(Return(2)));
        assert!(coroutine.is_done());
        assert_eq!(coroutine.resume(3).unwrap_err().into_input(), 3);
    });
}

#[test]
fn the_end_of_a_scope_unwinds_what_waits_the_newest_first() {
    let rung = RefCell::new(Vec::new());
    coroutine::scope(|scope| {
        let handles = ["first", "second", "third"].map(|name| {
            let mut coroutine = scope.coroutine(ringing(&rung, name));
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
            coroutine
        });
        mem::forget(handles);
    });
    assert_eq!(*rung.borrow(), ["third", "second", "first"]);
}

#[test]
fn a_dropped_handle_unwinds_its_coroutine_at_once() {
    let rung = RefCell::new(Vec::new());
    coroutine::scope(|scope| {
        let mut handles = ["first", "second", "third", "fourth"].map(|name| {
            let mut coroutine = scope.coroutine(ringing(&rung, name));
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
            Some(coroutine)
        });
        // From the middle of the list, its end, its beginning.
        for index in [1, 3, 0] {
            handles[index] = None;
        }
        assert_eq!(*rung.borrow(), ["second", "fourth", "first"]);
    });
    assert_eq!(*rung.borrow(), ["second", "fourth", "first", "third"]);
}

#[test]
fn closures_that_never_began_are_dropped_with_the_scope() {
    let rung = RefCell::new(Vec::new());
    coroutine::scope(|scope| {
        let bell = Bell(&rung, "fresh");
        mem::forget(scope.coroutine(move |_: &Suspender<(), ()>, ()| drop(bell)));
    });
    assert_eq!(*rung.borrow(), ["fresh"]);
}

#[test]
fn a_panic_in_the_scope_unwinds_its_coroutines_and_goes_on() {
    let rung = RefCell::new(Vec::new());
    let outcome = caught(|| {
        coroutine::scope(|scope| {
            let mut coroutine = scope.coroutine(ringing(&rung, "inside"));
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
            mem::forget(coroutine);
            panic::resume_unwind(Box::new("torn"));
        })
    });
    assert_eq!(outcome, "torn");
    assert_eq!(*rung.borrow(), ["inside"]);
}

#[test]
fn a_panic_of_a_body_comes_out_of_resume_and_leaves_the_others_alone() {
    coroutine::scope(|scope| {
        let mut other = scope.coroutine(|s: &Suspender<(), u8>, ()| s.suspend(1));
        let mut panicking = scope.coroutine(|_: &Suspender<(), ()>, ()| {
            panic::resume_unwind(Box::new("snapped"));
        });
        assert_eq!(other.resume(()), Ok(Yield(1)));
        assert_eq!(caught(|| panicking.resume(())), "snapped");
        assert!(panicking.is_done());
        assert_eq!(other.resume(()), Ok(Return(())));
    });
}

#[test]
fn the_first_panic_of_the_unwinding_comes_out_of_the_scope_after_all_are_unwound() {
    let rung = RefCell::new(Vec::new());
    let outcome = caught(|| {
        coroutine::scope(|scope| {
            for name in ["first", "second", "third"] {
                let rung = &rung;
                let mut coroutine = scope.coroutine(move |s: &Suspender<(), ()>, ()| {
                    let _bell = Bell(rung, name);
                    let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                    panic::resume_unwind(Box::new(name));
                });
                assert_eq!(coroutine.resume(()), Ok(Yield(())));
                mem::forget(coroutine);
            }
        })
    });
    assert_eq!(outcome, "third");
    assert_eq!(*rung.borrow(), ["third", "second", "first"]);
}

/// Panics when dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic::resume_unwind(Box::new("grenade"));
    }
}

/// The unwinding of one must not keep a scope from that of the others: their borrows end with it.
#[test]
fn values_that_panic_when_discarded_do_not_keep_a_scope_from_unwinding_the_rest() {
    let test = "values_that_panic_when_discarded_do_not_keep_a_scope_from_unwinding_the_rest";
    // A payload whose destructor panics is not dropped a second time.
    fate::succeeds_leaking(test, unwinds_the_rest);
}

fn unwinds_the_rest() {
    let rung = RefCell::new(Vec::new());
    let outcome = caught(|| {
        coroutine::scope(|scope| {
            let mut oldest = scope.coroutine(ringing(&rung, "oldest"));
            assert_eq!(oldest.resume(()), Ok(Yield(())));
            mem::forget(oldest);
            let rung = &rung;
            let mut returning = scope.coroutine(move |s: &Suspender<(), ()>, ()| {
                let _bell = Bell(rung, "returning");
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                Grenade
            });
            assert!(matches!(returning.resume(()), Ok(Yield(()))));
            mem::forget(returning);
            let mut yielding = scope.coroutine(move |s: &Suspender<(), Option<Grenade>>, ()| {
                let _bell = Bell(rung, "yielding");
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(None)));
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(Some(Grenade))));
            });
            assert!(matches!(yielding.resume(()), Ok(Yield(None))));
            mem::forget(yielding);
            // Its payload panics in turn.
            let mut nested = scope.coroutine(move |s: &Suspender<(), ()>, ()| {
                let _bell = Bell(rung, "nested");
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                panic::resume_unwind(Box::new(Cell::new(Some(Grenade))));
            });
            assert_eq!(nested.resume(()), Ok(Yield(())));
            mem::forget(nested);
            let mut newest = scope.coroutine(move |s: &Suspender<(), ()>, ()| {
                let _bell = Bell(rung, "newest");
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                panic::resume_unwind(Box::new("newest"));
            });
            assert_eq!(newest.resume(()), Ok(Yield(())));
            mem::forget(newest);
        })
    });
    assert_eq!(outcome, "newest");
    assert_eq!(*rung.borrow(), ["newest", "nested", "yielding", "returning", "oldest"]);
}

#[test]
fn a_handle_on_the_stack_of_another_coroutine_of_the_scope_is_harmless() {
    for held_is_newer in [false, true] {
        for forget in [false, true] {
            let rung = RefCell::new(Vec::new());
            coroutine::scope(|scope| {
                let make = |name| {
                    let mut coroutine = scope.coroutine(ringing(&rung, name));
                    assert_eq!(coroutine.resume(()), Ok(Yield(())));
                    coroutine
                };
                let rung = &rung;
                let slot: Rc<RefCell<Option<ScopedCoroutine<'_, (), (), ()>>>> = Rc::default();
                let held = (!held_is_newer).then(|| make("held"));
                let from = slot.clone();
                let mut holder = scope.coroutine(move |s: &Suspender<(), ()>, ()| {
                    let _bell = Bell(rung, "holder");
                    s.suspend(());
                    let _held = from.take();
                    s.suspend(());
                });
                assert_eq!(holder.resume(()), Ok(Yield(())));
                *slot.borrow_mut() = Some(held.unwrap_or_else(|| make("held")));
                assert_eq!(holder.resume(()), Ok(Yield(())));
                if forget {
                    mem::forget(holder);
                }
            });
            let mut rung = rung.into_inner();
            rung.sort_unstable();
            assert_eq!(rung, ["held", "holder"], "{held_is_newer} {forget}");
        }
    }
}

#[test]
fn coroutines_made_while_the_scope_ends_are_unwound_as_well() {
    let rung = RefCell::new(Vec::new());
    coroutine::scope(|scope| {
        let rung = &rung;
        let mut parent = scope.coroutine(move |s: &Suspender<(), ()>, ()| {
            let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
            let mut late = scope.coroutine(ringing(rung, "late"));
            assert_eq!(late.resume(()), Ok(Yield(())));
            mem::forget(late);
        });
        assert_eq!(parent.resume(()), Ok(Yield(())));
    });
    assert_eq!(*rung.borrow(), ["late"]);
}

#[test]
fn scopes_nest_and_a_scope_may_lie_on_a_coroutines_stack() {
    let rung = RefCell::new(Vec::new());
    let within = &rung;
    coroutine::scope(|outer| {
        let mut coroutine = outer.coroutine(move |s: &Suspender<(), u32>, ()| {
            let local = Cell::new(20);
            coroutine::scope(|inner| {
                let mut double = inner.coroutine(|s: &Suspender<(), ()>, ()| {
                    let _bell = Bell(within, "inner");
                    local.set(local.get() * 2);
                    s.suspend(());
                });
                assert_eq!(double.resume(()), Ok(Yield(())));
                mem::forget(double);
                s.suspend(local.get());
            });
            unreachable!("it is unwound inside the inner scope");
        });
        assert_eq!(coroutine.resume(()), Ok(Yield(40)));
    });
    assert_eq!(*rung.borrow(), ["inner"]);
}

#[test]
fn a_scope_may_be_used_by_the_fibers_of_a_thread_scope() {
    pirn::run(|| {
        let mut seen = Vec::new();
        coroutine::scope(|scope| {
            let mut coroutine = scope.coroutine(|s: &Suspender<u32, ()>, mut input: u32| {
                for _ in 0..2 {
                    seen.push(input);
                    thread::yield_now();
                    input = s.suspend(());
                }
            });
            let handle = &mut coroutine;
            thread::scope(|fibers| {
                fibers.spawn(move || {
                    assert_eq!(handle.resume(1), Ok(Yield(())));
                    assert_eq!(handle.resume(2), Ok(Yield(())));
                });
            });
            assert_eq!(coroutine.resume(3), Ok(Return(())));
        });
        assert_eq!(seen, [1, 2]);
    });
}

#[test]
fn build_scoped_returns_what_new_would_panic_with() {
    coroutine::scope(|scope| {
        let body = |_: &Suspender<(), ()>, ()| ();
        let error = Builder::new().stack_size(usize::MAX).build_scoped(scope, body).unwrap_err();
        assert!(matches!(error, StackError::TooLarge { .. }));
        let mut built = Builder::new().name("built").build_scoped(scope, body).unwrap();
        assert_eq!(built.resume(()), Ok(Return(())));
    });
}

#[test]
fn a_scope_gives_every_stack_back() {
    fate::succeeds("a_scope_gives_every_stack_back", || {
        let in_use = stack::stats().in_use;
        coroutine::scope(|scope| {
            for number in 0..100 {
                let mut coroutine = scope.coroutine(|s: &Suspender<(), ()>, ()| s.suspend(()));
                (0..number % 4).for_each(|_| _ = coroutine.resume(()));
                if number % 2 == 0 {
                    mem::forget(coroutine);
                }
            }
        });
        assert_eq!(stack::stats().in_use, in_use);
    });
}

#[test]
fn a_scoped_body_that_never_gives_in_aborts_with_a_report() {
    let test = "a_scoped_body_that_never_gives_in_aborts_with_a_report";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        coroutine::scope(|scope| {
            let stubborn = Builder::new().name("stubborn");
            let mut coroutine = stubborn
                .build_scoped(scope, |s: &Suspender<(), ()>, ()| {
                    loop {
                        let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                    }
                })
                .unwrap();
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
        });
    });
    assert!(stderr.starts_with("pirn: coroutine 'stubborn' created at "), "{stderr}");
    assert!(stderr.contains("its borrows end with the scope: aborting"), "{stderr}");
}

/// A drop during a panic cannot let a second one go on; it must not end the process either.
#[test]
fn a_scope_left_by_a_panic_drops_further_panics_of_the_unwinding() {
    let outcome = caught(|| {
        coroutine::scope(|scope| {
            let mut coroutine = scope.coroutine(|s: &Suspender<(), ()>, ()| {
                let _ = catch_unwind(AssertUnwindSafe(|| s.suspend(())));
                panic::resume_unwind(Box::new("second"));
            });
            assert_eq!(coroutine.resume(()), Ok(Yield(())));
            mem::forget(coroutine);
            panic::resume_unwind(Box::new("first"));
        })
    });
    assert_eq!(outcome, "first");
    assert!(!std::thread::panicking());
}

/// An owning coroutine may run within a scope, and a scope within it.
#[test]
fn owning_and_scoped_coroutines_resume_each_other() {
    let base = 10;
    let numbers = coroutine::scope(|scope| {
        let mut owning = Coroutine::new(|s: &Suspender<(), u32>, ()| {
            (1..4).for_each(|n| s.suspend(n));
        });
        let sums = scope.coroutine(move |s: &Suspender<(), u32>, ()| {
            owning.by_ref().for_each(|n| s.suspend(base + n));
        });
        sums.collect::<Vec<_>>()
    });
    assert_eq!(numbers, [11, 12, 13]);
}
