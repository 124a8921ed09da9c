//! What a coroutine promises: values cross the border unharmed, states are checked, handles go
//! wherever they like.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt::Debug;
use std::iter::FusedIterator;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{Builder, Coroutine, CoroutineState, ResumeError, Suspender};
use pirn::stack::StackError;
use pirn::thread;

/// A coroutine that sends its input back until it gets the one to return.
#[track_caller]
fn echoes<T: Clone + PartialEq + Debug + 'static>(values: [T; 3]) {
    let mut echo = Coroutine::new(|s: &Suspender<T, T>, first: T| {
        let second = s.suspend(first);
        s.suspend(second)
    });
    let [first, second, third] = values;
    assert_eq!(echo.resume(first.clone()), Ok(Yield(first)));
    assert_eq!(echo.resume(second.clone()), Ok(Yield(second)));
    assert!(!echo.is_done());
    assert_eq!(echo.resume(third.clone()), Ok(Return(third.clone())));
    assert!(echo.is_done());
    assert_eq!(echo.resume(third.clone()).unwrap_err().into_input(), third);
}

#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(64))]
struct Aligned(u8);

#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Padded {
    small: u8,
    large: u32,
    last: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(align(128))]
struct AlignedNothing;

#[test]
fn values_of_any_shape_cross_the_border_both_ways() {
    echoes([(), (), ()]);
    echoes([AlignedNothing; 3]);
    echoes([1u8, 0, 255]);
    echoes([true, false, true]);
    echoes(['a', '\u{10ffff}', '\0']);
    echoes([u64::MAX, 0, 1 << 63]);
    echoes([1.5f32, -0.0, f32::INFINITY]);
    echoes([1.5f64, f64::MIN_POSITIVE, f64::MAX]);
    echoes([u128::MAX, 0, 1 << 127]);
    echoes(["", "weft", "a longer piece of text"].map(String::from));
    echoes([1, 2, 3].map(Box::new));
    echoes([None, Some(Box::new(7)), None]);
    echoes([&1, &2, &3]);
    echoes(["a", "", "c"]);
    echoes([Rc::new(1), Rc::new(2), Rc::new(3)]);
    echoes([(1u8, 2u64), (0, 0), (255, u64::MAX)]);
    let padded = Padded { small: 1, large: 2, last: 3 };
    echoes([padded, Padded { small: 255, ..padded }, padded]);
    echoes([Aligned(1), Aligned(2), Aligned(3)]);
    echoes([[1u8; 7], [2; 7], [3; 7]]);
    echoes([[1u64; 100], [2; 100], [3; 100]]);
    echoes([vec![1, 2], vec![], vec![3]]);
}

#[test]
fn over_aligned_values_arrive_aligned() {
    let mut coroutine = Coroutine::new(|s: &Suspender<Aligned, Aligned>, first: Aligned| {
        assert!((&raw const first).addr().is_multiple_of(64));
        let second = s.suspend(first);
        assert!((&raw const second).addr().is_multiple_of(64));
        second
    });
    let Ok(Yield(value)) = coroutine.resume(Aligned(3)) else { panic!() };
    assert!((&raw const value).addr().is_multiple_of(64));
    assert_eq!(value, Aligned(3));
    assert_eq!(coroutine.resume(Aligned(4)), Ok(Return(Aligned(4))));
}

const MEBIBYTE: usize = 1 << 20;

#[test]
fn a_mebibyte_crosses_by_value_on_a_stack_that_is_large_enough() {
    // The resumer needs room for such values as well.
    let resumer = std::thread::Builder::new().stack_size(64 * MEBIBYTE).spawn(|| {
        let mut echo = Builder::new()
            .stack_size(32 * MEBIBYTE)
            .build(|s: &Suspender<[u8; MEBIBYTE], [u8; MEBIBYTE]>, first| {
                let second = s.suspend(first);
                s.suspend(second)
            })
            .unwrap();
        for fill in 1..=3 {
            let back = match echo.resume([fill; MEBIBYTE]).unwrap() {
                Yield(back) | Return(back) => back,
            };
            assert!(back.iter().all(|&byte| byte == fill));
        }
        assert!(echo.is_done());
    });
    resumer.unwrap().join().unwrap();
}

#[test]
fn the_three_types_may_all_differ() {
    let mut parse = Coroutine::new(|s: &Suspender<&'static str, usize>, mut text: &str| {
        let mut all = String::new();
        while !text.is_empty() {
            all.push_str(text);
            text = s.suspend(text.len());
        }
        Some(all)
    });
    assert_eq!(parse.resume("warp"), Ok(Yield(4)));
    assert_eq!(parse.resume("and weft"), Ok(Yield(8)));
    assert_eq!(parse.resume(""), Ok(Return(Some("warpand weft".to_owned()))));
}

#[test]
fn nothing_runs_before_the_first_resume() {
    let ran = Rc::new(Cell::new(false));
    let mut coroutine = Coroutine::new({
        let ran = ran.clone();
        move |_: &Suspender<(), ()>, ()| ran.set(true)
    });
    assert!(!ran.get());
    assert!(!coroutine.is_done());
    assert_eq!(coroutine.resume(()), Ok(Return(())));
    assert!(ran.get());
}

#[test]
fn large_and_over_aligned_closures_work() {
    fn sums<const N: usize>() {
        let captured = [1u8; N];
        let kept = Rc::new(());
        let held = kept.clone();
        let mut coroutine = Coroutine::new(move |s: &Suspender<usize, usize>, first: usize| {
            let _held = held;
            let second = s.suspend(first + captured.len());
            second + captured.iter().map(|&byte| usize::from(byte)).sum::<usize>()
        });
        assert_eq!(coroutine.resume(1), Ok(Yield(N + 1)));
        assert_eq!(Rc::strong_count(&kept), 2);
        assert_eq!(coroutine.resume(2), Ok(Return(N + 2)));
        assert_eq!(Rc::strong_count(&kept), 1);
    }
    sums::<0>();
    sums::<1000>();
    // From here on the closure does not fit into the control block.
    sums::<1025>();
    sums::<20_000>();

    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let page = Page([7; 4096]);
    let mut coroutine = Coroutine::new(move |_: &Suspender<(), ()>, ()| {
        assert!((&raw const page).addr().is_multiple_of(4096));
        page.0.iter().map(|&byte| u64::from(byte)).sum::<u64>()
    });
    assert_eq!(coroutine.resume(()), Ok(Return(7 * 4096)));
}

#[test]
fn a_coroutine_suspends_at_any_depth_of_calls() {
    fn descend(depth: u32, s: &Suspender<u32, u32>) -> u32 {
        if depth == 0 { s.suspend(0) } else { descend(depth - 1, s) + s.suspend(depth) }
    }
    let mut coroutine = Coroutine::new(|s: &Suspender<u32, u32>, _: u32| descend(20, s));
    assert_eq!(coroutine.resume(0), Ok(Yield(0)));
    for depth in 1..=20 {
        assert_eq!(coroutine.resume(1), Ok(Yield(depth)));
    }
    assert_eq!(coroutine.resume(1), Ok(Return(21)));
}

#[test]
fn a_coroutine_of_no_input_is_an_iterator_that_stays_at_its_end() {
    fn fused<T: FusedIterator>(iterator: T) -> T {
        iterator
    }
    let mut digits = fused(Coroutine::new(|s: &Suspender<(), u32>, ()| {
        (0..4).for_each(|digit| s.suspend(digit));
        "dropped"
    }));
    assert_eq!(digits.by_ref().map(|digit| digit * 10).collect::<Vec<_>>(), [0, 10, 20, 30]);
    assert_eq!(digits.next(), None);
    assert_eq!(digits.next(), None);
    assert!(digits.is_done());
}

#[test]
fn an_ended_coroutine_gives_the_input_back_and_changes_nothing() {
    let mut coroutine = Coroutine::new(|_: &Suspender<String, ()>, input: String| input.len());
    assert_eq!(coroutine.resume("shed".into()), Ok(Return(4)));
    for _ in 0..3 {
        let error: ResumeError<String> = coroutine.resume("again".into()).unwrap_err();
        assert_eq!(error.to_string(), "cannot resume a coroutine that has already ended");
        assert_eq!(format!("{error:?}"), "ResumeError(..)");
        let _: &dyn Error = &error;
        assert_eq!(error.into_input(), "again");
        assert!(coroutine.is_done());
        assert_eq!((coroutine.stack_size(), coroutine.stack_high_water()), (0, 0));
    }
}

#[test]
fn a_coroutine_that_panicked_has_ended() {
    let mut coroutine = Coroutine::new(|_: &Suspender<u8, ()>, _: u8| -> () {
        panic::resume_unwind(Box::new("reed"));
    });
    let payload = panic::catch_unwind(AssertUnwindSafe(|| coroutine.resume(1))).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"reed"));
    assert!(coroutine.is_done());
    assert_eq!(coroutine.resume(2).unwrap_err().into_input(), 2);
}

/// The only way to name a running coroutine is a cell, and the cell refuses.
#[test]
fn a_running_coroutine_cannot_be_resumed_or_dropped_from_within() {
    type Shared = Rc<RefCell<Option<Coroutine<(), (), bool>>>>;
    let shared = Shared::default();
    let itself = shared.clone();
    let body = move |s: &Suspender<(), ()>, ()| {
        assert!(itself.try_borrow_mut().is_err());
        // From a coroutine that it runs, it is as little to be had.
        let mut inner = Coroutine::new({
            let itself = itself.clone();
            move |_: &Suspender<(), ()>, ()| itself.try_borrow_mut().is_err()
        });
        assert_eq!(inner.resume(()), Ok(Return(true)));
        s.suspend(());
        itself.try_borrow_mut().is_err()
    };
    *shared.borrow_mut() = Some(Coroutine::new(body));
    assert_eq!(shared.borrow_mut().as_mut().unwrap().resume(()), Ok(Yield(())));
    assert_eq!(shared.borrow_mut().as_mut().unwrap().resume(()), Ok(Return(true)));
    assert_eq!(Rc::strong_count(&shared), 1);
}

#[test]
fn a_suspender_used_on_another_stack_panics_and_switches_nothing() {
    let mut outer = Coroutine::new(|outer: &Suspender<u32, &'static str>, _: u32| {
        pirn::coroutine::scope(|scope| {
            let mut inner = scope.coroutine(|_: &Suspender<(), ()>, ()| {
                let misuse = panic::catch_unwind(AssertUnwindSafe(|| outer.suspend("misuse")));
                misuse.unwrap_err().downcast_ref::<&str>().map(|text| text.to_string())
            });
            let message = "a suspender was used on a stack other than its own coroutine's";
            assert_eq!(inner.resume(()), Ok(Return(Some(message.to_owned()))));
        });
        outer.suspend("still works")
    });
    assert_eq!(outer.resume(0), Ok(Yield("still works")));
    assert_eq!(outer.resume(5), Ok(Return(5)));
}

#[test]
fn a_suspender_used_by_a_fiber_panics_and_switches_nothing() {
    pirn::run(|| {
        let mut coroutine = Coroutine::new(|s: &Suspender<u8, u8>, _: u8| {
            thread::scope(|scope| {
                let misuse = scope.spawn(|| s.suspend(1)).join();
                assert!(misuse.is_err());
            });
            s.suspend(2)
        });
        assert_eq!(coroutine.resume(0), Ok(Yield(2)));
        assert_eq!(coroutine.resume(3), Ok(Return(3)));
    });
}

#[test]
fn the_builder_sets_stack_and_guard_and_refuses_what_no_machine_has() {
    let body = |_: &Suspender<(), ()>, ()| ();
    for size in [0, 1, 4095, 4096, 4097, 65_537, 1 << 20] {
        let coroutine = Builder::new().name("sized").stack_size(size).build(body).unwrap();
        assert!(coroutine.stack_size() >= size.max(4096), "{size}");
        let coroutine = Builder::default().stack_size(size).guard_size(size).build(body).unwrap();
        assert!(coroutine.stack_size() >= size.max(4096), "{size}");
    }
    for builder in [
        Builder::new().stack_size(usize::MAX),
        Builder::new().guard_size(usize::MAX),
        Builder::new().stack_size(1 << 47),
    ] {
        let error = builder.clone().build(body).unwrap_err();
        assert!(matches!(error, StackError::TooLarge { .. }), "{error}");
        assert_eq!(error.raw_os_error(), None);
    }
}

#[test]
fn a_body_may_use_the_stack_that_was_asked_for() {
    if cfg!(pirn_asan) {
        return eprintln!("SKIPPED: the sanitizer moves locals to the heap");
    }
    /// Uses the stack down to `bytes` below its caller, and returns how much that was.
    fn dig(from: usize, bytes: usize) -> usize {
        let frame = std::hint::black_box([1u8; 512]);
        let used = from - (&raw const frame).addr();
        let deepest = if used < bytes { dig(from, bytes) } else { used };
        std::hint::black_box(&frame);
        deepest
    }
    for size in [65_537, 100_000, 1 << 20] {
        let mut coroutine = Builder::new()
            .stack_size(size)
            .build(move |s: &Suspender<(), usize>, ()| {
                let here = 0u8;
                s.suspend(dig((&raw const here).addr(), size / 10 * 8))
            })
            .unwrap();
        let Ok(Yield(used)) = coroutine.resume(()) else { panic!() };
        let water = coroutine.stack_high_water();
        assert!(water >= used && water <= coroutine.stack_size().next_multiple_of(65_536));
        assert_eq!(coroutine.resume(()), Ok(Return(())));
    }
}

#[test]
fn handles_and_states_are_printable_and_comparable() {
    let mut coroutine = Coroutine::new(|s: &Suspender<(), String>, ()| {
        s.suspend(format!("{s:?}"));
    });
    assert_eq!(format!("{coroutine:?}"), "Coroutine { done: false, .. }");
    let state: CoroutineState<String, ()> = coroutine.resume(()).unwrap();
    assert_eq!(state.clone(), Yield("Suspender { .. }".to_owned()));
    assert_eq!(format!("{state:?}"), "Yield(\"Suspender { .. }\")");
    assert_eq!(coroutine.resume(()), Ok(Return(())));
    assert_eq!(format!("{coroutine:?}"), "Coroutine { done: true, .. }");
}

#[test]
fn a_handle_may_be_moved_boxed_and_swapped_while_its_body_waits() {
    let make = |name: &'static str| {
        Coroutine::new(move |s: &Suspender<(), (&str, usize)>, ()| {
            let local = [1usize, 2, 3];
            for number in &local {
                s.suspend((name, *number));
            }
        })
    };
    let (mut first, mut second) = (make("first"), make("second"));
    assert_eq!(first.next(), Some(("first", 1)));
    assert_eq!(second.next(), Some(("second", 1)));
    mem::swap(&mut first, &mut second);
    assert_eq!(first.next(), Some(("second", 2)));
    let mut boxed: Vec<Box<dyn Iterator<Item = (&str, usize)>>> =
        vec![Box::new(first), Box::new(second)];
    boxed.reverse();
    assert_eq!(boxed[0].next(), Some(("first", 2)));
    assert_eq!(boxed[1].next(), Some(("second", 3)));
    assert_eq!(boxed[1].next(), None);
}

#[test]
fn one_may_be_resumed_from_different_fibers_of_its_thread() {
    pirn::run(|| {
        let counter = Rc::new(RefCell::new(Coroutine::new(|s: &Suspender<(), u64>, ()| {
            (0..20).for_each(|n| s.suspend(n));
        })));
        let mut fibers = Vec::new();
        for turn in 0..5 {
            let counter = counter.clone();
            fibers.push(thread::spawn_local(move || {
                let first = counter.borrow_mut().next();
                thread::yield_now();
                assert_eq!((first, counter.borrow_mut().next()), (Some(turn), Some(turn + 5)));
            }));
        }
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn bodies_never_change_their_os_thread_so_they_may_keep_what_belongs_to_it() {
    std::thread_local!(static OWN: Rc<Cell<u32>> = Rc::default());
    pirn::run(|| {
        let fibers: Vec<_> = (0..200)
            .map(|_| {
                thread::spawn_local(|| {
                    let (own, id) = (OWN.with(Rc::clone), std::thread::current().id());
                    let mut coroutine = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
                        for _ in 0..50 {
                            thread::yield_now();
                            s.suspend(());
                            assert_eq!(std::thread::current().id(), id);
                            own.set(own.get() + 1);
                        }
                    });
                    while coroutine.next().is_some() {
                        thread::yield_now();
                        assert_eq!(std::thread::current().id(), id);
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    assert_eq!(OWN.with(|own| own.get()), 200 * 50);
}
