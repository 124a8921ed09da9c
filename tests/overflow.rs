//! Running off a stack ends in a report of who did, and nothing else is taken for it.

mod child;
mod fate;

use std::hint::black_box;

use pirn::coroutine::CoroutineState::Yield;
use pirn::coroutine::{self, Builder, Coroutine, Suspender};
use pirn::{stack, thread};

#[allow(unconditional_recursion)]
fn recurse(depth: usize) {
    let frame = black_box([depth; 32]);
    recurse(depth + 1);
    black_box(&frame);
}

/// Goes down until `bytes` of stack are in use, and calls `then` there.
fn dig(from: usize, bytes: usize, then: fn()) {
    let frame = black_box([1u8; 256]);
    if from - (&raw const frame).addr() < bytes {
        dig(from, bytes, then);
    } else {
        then();
    }
    black_box(&frame);
}

fn dereference_null() {
    // SAFETY: none: this is the fault that is tested.
    black_box(unsafe { black_box(std::ptr::null::<u8>()).read_volatile() });
}

/// Whether overflows are looked for here: AddressSanitizer reports them in its own way.
fn is_reported() -> bool {
    if fate::has_sanitizer() {
        eprintln!("SKIPPED: the sanitizer has a report of its own");
    }
    !fate::has_sanitizer()
}

/// How many bytes of stack the report gives.
fn reported_size(stderr: &str) -> usize {
    let (_, size) = stderr.split_once(" has overflowed its stack of ").unwrap_or_default();
    size.split(' ').next().and_then(|size| size.parse().ok()).unwrap_or(0)
}

#[track_caller]
fn assert_reported(stderr: &str, who: &str) {
    if is_reported() {
        let report = format!("\n{who} created at tests/overflow.rs:");
        assert!(stderr.contains(&report), "{stderr}");
        assert!(reported_size(stderr) >= 100_000, "{stderr}");
        assert!(stderr.contains("\nfatal runtime error: stack overflow, aborting\n"), "{stderr}");
    }
}

#[test]
fn an_overflow_names_the_coroutine_and_its_stack_outside_a_runtime() {
    let test = "an_overflow_names_the_coroutine_and_its_stack_outside_a_runtime";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        let builder = Builder::new().name("digger").stack_size(100_000);
        let body = |_: &Suspender<(), ()>, ()| recurse(0);
        builder.build(body).unwrap().resume(()).unwrap();
    });
    assert_reported(&stderr, "coroutine 'digger'");
}

#[test]
fn an_overflow_on_another_thread_names_the_coroutine() {
    let test = "an_overflow_on_another_thread_names_the_coroutine";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        // This thread has seen to its own reports; that must not be all.
        Coroutine::new(|_: &Suspender<(), ()>, ()| ()).resume(()).unwrap();
        let other = std::thread::spawn(|| {
            let body = |_: &Suspender<(), ()>, ()| recurse(0);
            Builder::new().name("other").build(body).unwrap().resume(()).unwrap();
        });
        other.join().unwrap();
    });
    assert_reported(&stderr, "coroutine 'other'");
}

#[test]
fn an_overflow_in_a_coroutine_of_a_fiber_names_the_coroutine() {
    let test = "an_overflow_in_a_coroutine_of_a_fiber_names_the_coroutine";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        pirn::run(|| {
            let fiber = thread::spawn(|| {
                coroutine::scope(|scope| {
                    let body = |_: &Suspender<(), ()>, ()| recurse(0);
                    let inner = Builder::new().name("inner").build_scoped(scope, body);
                    inner.unwrap().resume(()).unwrap();
                });
            });
            fiber.join().unwrap();
        });
    });
    assert_reported(&stderr, "coroutine 'inner'");
}

#[test]
fn an_overflow_of_a_fiber_names_the_fiber() {
    let stderr =
        fate::is_killed_by(libc::SIGABRT, "an_overflow_of_a_fiber_names_the_fiber", || {
            pirn::run(|| {
                // It has a coroutine that waits: the report must not take that for the culprit.
                let mut waiting = Coroutine::new(|s: &Suspender<(), ()>, ()| s.suspend(()));
                waiting.resume(()).unwrap();
                let fiber = thread::Builder::new().name("fiber").spawn(|| recurse(0)).unwrap();
                fiber.join().unwrap();
            });
        });
    if is_reported() {
        let report = "\nfiber 'fiber' (id 1), spawned at tests/overflow.rs:";
        assert!(stderr.contains(report), "{stderr}");
        assert!(reported_size(&stderr) >= 100_000, "{stderr}");
    }
}

#[test]
fn an_unnamed_coroutine_is_reported_by_where_it_was_created() {
    let test = "an_unnamed_coroutine_is_reported_by_where_it_was_created";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        let mut deep = Coroutine::new(|_: &Suspender<(), ()>, ()| recurse(0));
        deep.resume(()).unwrap();
    });
    assert_reported(&stderr, "coroutine");
}

#[test]
fn a_null_pointer_is_not_taken_for_an_overflow() {
    let test = "a_null_pointer_is_not_taken_for_an_overflow";
    let stderr = fate::is_killed_by(libc::SIGSEGV, test, || {
        let mut coroutine = Coroutine::new(|_: &Suspender<(), ()>, ()| dereference_null());
        coroutine.resume(()).unwrap();
    });
    assert!(!stderr.contains("has overflowed"), "{stderr}");
}

#[test]
fn overflows_of_ordinary_threads_are_still_reported_by_std() {
    let test = "overflows_of_ordinary_threads_are_still_reported_by_std";
    let stderr = fate::is_killed_by(libc::SIGABRT, test, || {
        let ordinary = std::thread::Builder::new().name("ordinary".into());
        let body = || {
            Coroutine::new(|_: &Suspender<(), ()>, ()| ()).resume(()).unwrap();
            recurse(0);
        };
        ordinary.spawn(body).unwrap().join().unwrap();
    });
    if is_reported() {
        assert!(stderr.contains("thread 'ordinary'"), "{stderr}");
        assert!(stderr.contains("has overflowed its stack\n"), "{stderr}");
    }
}

#[test]
fn a_coroutine_that_uses_most_of_its_stack_is_not_reported() {
    if fate::has_sanitizer() {
        return eprintln!("SKIPPED: the sanitizer moves locals to the heap");
    }
    for size in [65_537, 123 << 10, 1 << 20] {
        let body = move |s: &Suspender<(), ()>, ()| {
            let here = 0u8;
            dig((&raw const here).addr(), size / 10 * 9, || ());
            s.suspend(());
        };
        let mut coroutine = Builder::new().stack_size(size).build(body).unwrap();
        assert_eq!(coroutine.resume(()), Ok(Yield(())));
        assert!(coroutine.stack_high_water() >= size / 10 * 9);
        assert!(coroutine.stack_high_water() <= coroutine.stack_size().next_multiple_of(4096));
    }
}

/// A frame larger than the guard, of which only the far end is used.
#[inline(never)]
fn far_end() -> u8 {
    let mut frame = std::mem::MaybeUninit::<[u8; 1 << 20]>::uninit();
    // SAFETY: in bounds.
    unsafe {
        let end = black_box(frame.as_mut_ptr()).cast::<u8>();
        end.write_volatile(7);
        end.read_volatile()
    }
}

/// C code without stack probes: moves the stack pointer down by 64 KiB and writes there.
#[unsafe(naked)]
extern "C" fn unprobed() {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "mov rax, rsp",
        "sub rsp, 65536",
        "mov qword ptr [rsp], 0",
        "mov rsp, rax",
        "ret"
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("mov x9, sp", "sub sp, sp, #65536", "str xzr, [sp]", "mov sp, x9", "ret");
}

/// Coroutines that keep a pattern on their stacks, and check it when resumed.
fn neighbours(builder: &Builder) -> Vec<Coroutine<(), bool, ()>> {
    let make = |_| {
        let body = |s: &Suspender<(), bool>, ()| {
            let pattern = black_box([0x5au8; 8 << 10]);
            loop {
                s.suspend(black_box(&pattern).iter().all(|&byte| byte == 0x5a));
            }
        };
        let mut neighbour = builder.clone().build(body).unwrap();
        assert_eq!(neighbour.next(), Some(true));
        neighbour
    };
    (0..8).map(make).collect()
}

/// With any guard of whole pages up to 128 KiB it makes slots of 256 KiB, nearly filled.
const STACK: usize = 120 << 10;

fn steps_over(test: &str, guard: usize, step: fn()) {
    let stderr = fate::is_killed_by(libc::SIGABRT, test, move || {
        let builder = Builder::new().name("leaper").stack_size(STACK).guard_size(guard);
        let before = neighbours(&builder);
        let body = move |_: &Suspender<(), ()>, ()| {
            let here = 0u8;
            dig((&raw const here).addr(), STACK / 10 * 9, step);
        };
        let mut leaper = builder.clone().build(body).unwrap();
        let after = neighbours(&builder);
        leaper.resume(()).unwrap();
        let intact = before.into_iter().chain(after).all(|mut one| one.next() == Some(true));
        eprintln!("it went by unnoticed; the neighbours are intact: {intact}");
    });
    assert_reported(&stderr, "coroutine 'leaper'");
}

#[test]
fn a_rust_frame_larger_than_the_guard_does_not_step_over_it() {
    let test = "a_rust_frame_larger_than_the_guard_does_not_step_over_it";
    steps_over(test, 4096, || assert_eq!(far_end(), 7));
}

#[test]
fn a_guard_larger_than_the_largest_unprobed_frame_catches_it() {
    let test = "a_guard_larger_than_the_largest_unprobed_frame_catches_it";
    steps_over(test, 128 << 10, || unprobed());
}

#[test]
fn coroutines_that_used_little_hold_two_pages_and_none_at_the_low_end() {
    let test = "coroutines_that_used_little_hold_two_pages_and_none_at_the_low_end";
    fate::succeeds(test, || {
        if !child::is_native() || cfg!(debug_assertions) {
            // Frames of unoptimised code are large.
            return eprintln!("SKIPPED: figures of memory need an optimised native build");
        }
        let mut coroutines = Vec::new();
        for _ in 0..10_000 {
            let mut coroutine = Coroutine::new(|s: &Suspender<(), ()>, ()| {
                let frame = black_box([1u8; 512]);
                s.suspend(());
                black_box(&frame);
            });
            coroutine.resume(()).unwrap();
            // A page at the low end would be a mark of the whole stack.
            let water = coroutine.stack_high_water();
            assert!(water <= 2 * 4096, "{water}");
            coroutines.push(coroutine);
        }
        assert_eq!(stack::stats().in_use, 10_000);
    });
}
