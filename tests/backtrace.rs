//! Backtraces of coroutines and fibers end, and show what matters on the way.

mod child;
mod fate;

use std::backtrace::Backtrace;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{Coroutine, Suspender};
use pirn::thread;

/// The addresses of the frames from here outwards.
#[inline(never)]
fn frames() -> Vec<usize> {
    let mut frames = Vec::new();
    backtrace::trace(|frame| {
        frames.push(frame.ip().addr());
        frames.len() < 10_000
    });
    frames
}

/// The names of the functions from here outwards, as std's backtrace has them.
#[inline(never)]
fn names() -> Vec<String> {
    let text = Backtrace::force_capture().to_string();
    let name = |line: &str| line.split_once(": ").map(|(_, name)| name.trim().to_owned());
    text.lines().filter(|line| !line.trim().starts_with("at ")).filter_map(name).collect()
}

/// Captures `depth` calls deeper.
#[inline(never)]
fn deeper<T>(depth: usize, capture: fn() -> T) -> T {
    let result = if depth == 0 { capture() } else { deeper(depth - 1, capture) };
    black_box(&result);
    result
}

#[inline(never)]
fn body_that_captures(depth: usize) -> Vec<usize> {
    black_box(deeper(depth, frames))
}

#[inline(never)]
fn resumer_of(coroutine: &mut Coroutine<(), Vec<String>, Vec<String>>) -> Vec<String> {
    match coroutine.resume(()).unwrap() {
        Yield(names) | Return(names) => black_box(names),
    }
}

#[inline(never)]
fn another_resumer(coroutine: &mut Coroutine<(), Vec<String>, Vec<String>>) -> Vec<String> {
    black_box(resumer_of(coroutine))
}

#[track_caller]
fn assert_names(names: &[String], expected: &[&str]) {
    let mut names = names.iter();
    for expected in expected {
        let found = names.any(|name| name.contains(expected));
        assert!(found, "{expected} is not where it should be in {names:#?}");
    }
}

#[inline(never)]
fn captures_and_suspends(s: &Suspender<(), Vec<String>>) -> Vec<String> {
    s.suspend(deeper(3, names));
    black_box(deeper(0, names))
}

#[test]
fn a_backtrace_goes_from_the_body_on_to_whoever_resumes_it_now() {
    let mut coroutine =
        Coroutine::new(|s: &Suspender<(), Vec<String>>, ()| captures_and_suspends(s));
    let body = "captures_and_suspends";
    let first = resumer_of(&mut coroutine);
    assert_names(&first, &["deeper", body, "resumer_of", "goes_from_the_body_on"]);
    assert!(!first.iter().any(|name| name.contains("another_resumer")));
    let second = another_resumer(&mut coroutine);
    assert_names(&second, &["deeper", body, "resumer_of", "another_resumer"]);
}

#[test]
fn a_backtrace_in_nested_coroutines_goes_through_all_of_them() {
    let mut outer = Coroutine::new(|_: &Suspender<(), Vec<String>>, ()| {
        let mut inner = Coroutine::new(|s: &Suspender<(), Vec<String>>, ()| {
            black_box(captures_and_suspends(s))
        });
        another_resumer(&mut inner)
    });
    let names = resumer_of(&mut outer);
    let expected =
        ["captures_and_suspends", "another_resumer", "resumer_of", "goes_through_all_of_them"];
    assert_names(&names, &expected);
}

#[test]
fn a_backtrace_at_any_depth_ends_and_adds_no_frame_at_zero() {
    let zeros = |frames: &[usize]| frames.iter().filter(|&&address| address == 0).count();
    let outside = frames();
    for depth in [0, 1, 200] {
        let mut coroutine =
            Coroutine::new(move |_: &Suspender<(), ()>, ()| body_that_captures(depth));
        let Ok(Return(frames)) = coroutine.resume(()) else { panic!() };
        assert!(
            frames.len() > depth && frames.len() < outside.len() + depth + 60,
            "{}",
            frames.len()
        );
        // The C library may mark the end of a thread by one.
        assert_eq!(zeros(&frames), zeros(&outside));
        // Only the recursive function may repeat.
        let repeated = frames.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(repeated <= depth, "{repeated}");
    }
}

#[test]
fn a_backtrace_of_a_fiber_ends_at_its_entry() {
    let depths = pirn::run(|| {
        let fiber = |depth| thread::spawn(move || body_that_captures(depth)).join().unwrap();
        let names = thread::spawn(|| deeper(1, names)).join().unwrap();
        assert_names(&names, &["deeper", "pirn_fiber_entry"]);
        assert!(names.last().unwrap().contains("pirn_fiber_entry"), "{names:#?}");
        [0, 1, 200].map(|depth| fiber(depth).len())
    });
    assert!(depths[0] < 60, "{depths:?}");
    // The optimiser may turn a call or two into none.
    assert!(depths[2] - depths[0] >= 190, "{depths:?}");
}

#[test]
fn a_backtrace_taken_while_a_coroutine_is_unwound_ends() {
    struct Captures(std::rc::Rc<std::cell::Cell<usize>>);
    impl Drop for Captures {
        fn drop(&mut self) {
            self.0.set(frames().len());
        }
    }
    let count = std::rc::Rc::default();
    let captures = Captures(std::rc::Rc::clone(&count));
    let mut coroutine = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
        let _captures = captures;
        s.suspend(());
    });
    coroutine.resume(()).unwrap();
    drop(coroutine);
    assert!((1..300).contains(&count.get()), "{}", count.get());
}

#[test]
fn a_panic_prints_a_full_backtrace_with_body_and_resumer() {
    #[inline(never)]
    fn body_that_panics(depth: usize) -> usize {
        if depth == 0 { panic!("torn warp") } else { black_box(body_that_panics(depth - 1)) + 1 }
    }
    #[inline(never)]
    fn resumer_of_it(mut coroutine: Coroutine<(), (), usize>) {
        black_box(coroutine.resume(())).unwrap();
    }
    let test = "a_panic_prints_a_full_backtrace_with_body_and_resumer";
    let child = child::child(test, "alone", &[("RUST_BACKTRACE", "full")], || {
        resumer_of_it(Coroutine::new(|_: &Suspender<(), ()>, ()| body_that_panics(3)));
    });
    let child = child.unwrap();
    assert_eq!(child.code, Some(101), "{child:?}");
    let lines: Vec<String> = child.err.lines().map(String::from).collect();
    assert!(lines.len() < 600, "{child:?}");
    assert_names(&lines, &["torn warp", "body_that_panics", "resumer_of_it"]);
    assert_eq!(child.err.matches("torn warp").count(), 1);
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static LONGEST: AtomicUsize = AtomicUsize::new(0);

/// Walks the stack with the C unwinder, from wherever the signal came.
extern "C" fn walk(_: libc::c_int) {
    let mut count = 0usize;
    // SAFETY: the program has no other thread that takes backtraces. libgcc's unwinder, warmed up,
    // takes no lock here.
    unsafe {
        backtrace::trace_unsynchronized(|_| {
            count += 1;
            count < 10_000
        });
    }
    LONGEST.fetch_max(count, Ordering::Relaxed);
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

fn storm() {
    let enough = if child::is_emulated() { 50 } else { 2_000 };
    let outside = frames().len();
    // SAFETY: all zeroes are a valid action; the handler has been argued for.
    let me = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = walk as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
        libc::pthread_self()
    };
    let sender = std::thread::spawn(move || {
        for sent in 0..enough {
            // SAFETY: the thread waits for us.
            assert_eq!(unsafe { libc::pthread_kill(me, libc::SIGPROF) }, 0);
            while SIGNALS.load(Ordering::Relaxed) <= sent {
                std::thread::yield_now();
            }
        }
    });
    let mut coroutine = Coroutine::new(|s: &Suspender<u64, u64>, mut input: u64| {
        loop {
            input = s.suspend(input + 1);
        }
        #[allow(unreachable_code, reason = "names the type")]
        ()
    });
    while SIGNALS.load(Ordering::Relaxed) < enough {
        // Signals meet the switch at each of its instructions, sooner or later.
        for n in 0..1_000 {
            assert_eq!(coroutine.resume(n), Ok(Yield(n + 1)));
            Coroutine::new(|_: &Suspender<(), ()>, ()| ()).resume(()).unwrap();
        }
    }
    sender.join().unwrap();
    let longest = LONGEST.load(Ordering::Relaxed);
    assert!(longest > 0 && longest < outside + 100, "{longest} frames, {outside} outside");
}

#[test]
fn the_c_unwinder_finds_the_end_from_a_signal_handler_anywhere_in_a_switch() {
    fate::succeeds(
        "the_c_unwinder_finds_the_end_from_a_signal_handler_anywhere_in_a_switch",
        storm,
    );
}

#[test]
fn the_list_of_fibers_shows_what_a_waiting_coroutine_stands_on() {
    #[inline(never)]
    fn parks_inside() {
        thread::park();
        black_box(());
    }
    pirn::run(|| {
        let fiber = thread::spawn(|| {
            Coroutine::new(|_: &Suspender<(), ()>, ()| parks_inside()).resume(()).unwrap();
        });
        thread::yield_now();
        let reports = pirn::fibers(true);
        let text = reports[1].backtrace().expect("it is suspended").to_string();
        assert!(text.contains("parks_inside"), "{text}");
        fiber.thread().unpark();
        fiber.join().unwrap();
    });
}

#[test]
fn a_panic_hook_may_take_a_backtrace_in_a_coroutine() {
    fate::succeeds("a_panic_hook_may_take_a_backtrace_in_a_coroutine", || {
        panic::set_hook(Box::new(|_| assert!((1..300).contains(&frames().len()))));
        let mut coroutine = Coroutine::new(|_: &Suspender<(), ()>, ()| -> () { panic!("hooked") });
        let outcome = panic::catch_unwind(panic::AssertUnwindSafe(|| coroutine.resume(())));
        assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"hooked"));
    });
}
