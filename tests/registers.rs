//! What of the processor's and the thread's state goes along with a coroutine or fiber: floating
//! point control words when asked for, the stack's alignment always, the signal mask never.

mod child;
mod fate;

use std::cell::{Cell, UnsafeCell};
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pirn::context::{StackPointer, ctx_switch};
use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{self, Builder, Coroutine, Suspender};
use pirn::thread;

/// The control words, read and written past Rust's back.
mod words {
    use std::arch::asm;

    #[cfg(target_arch = "x86_64")]
    pub type Words = (u32, u16);
    /// MXCSR and the x87 control word as the ABI has them.
    #[cfg(target_arch = "x86_64")]
    pub const DEFAULT: Words = (0x1f80, 0x037f);
    /// Rounding up, flush to zero; 53 bits of precision.
    #[cfg(target_arch = "x86_64")]
    pub const UNUSUAL: Words = (0x1f80 | 0x4000 | 0x8000, 0x027f);

    #[cfg(target_arch = "x86_64")]
    pub fn read() -> Words {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: stores two control words. MXCSR's lowest six bits are flags, not control.
        unsafe {
            asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87);
        }
        (mxcsr & !0x3f, x87)
    }

    #[cfg(target_arch = "x86_64")]
    pub fn write((mxcsr, x87): Words) {
        // SAFETY: no exception is unmasked; the tests round in asm and put the words back.
        unsafe {
            asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &raw const mxcsr, in(reg) &raw const x87)
        }
    }

    #[cfg(target_arch = "aarch64")]
    pub type Words = u64;
    #[cfg(target_arch = "aarch64")]
    pub const DEFAULT: Words = 0;
    /// Rounding up, flush to zero.
    #[cfg(target_arch = "aarch64")]
    pub const UNUSUAL: Words = 1 << 22 | 1 << 24;

    #[cfg(target_arch = "aarch64")]
    pub fn read() -> Words {
        let fpcr;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr) };
        fpcr
    }

    #[cfg(target_arch = "aarch64")]
    pub fn write(fpcr: Words) {
        // SAFETY: no trap is enabled; the tests put the word back.
        unsafe { asm!("msr fpcr, {}", in(reg) fpcr) }
    }
}

/// A third, and half of the smallest normal number, as the words in force give them.
fn results() -> (u64, u64) {
    let third = black_box(1.0f64) / black_box(3.0);
    let half = black_box(1e-310f64) / black_box(2.0);
    (black_box(third).to_bits(), black_box(half).to_bits())
}

#[track_caller]
fn assert_default() {
    assert_eq!(words::read(), words::DEFAULT);
    assert_eq!(results(), (0x3fd5_5555_5555_5555, 5e-311f64.to_bits()));
}

#[track_caller]
fn assert_unusual() {
    assert_eq!(words::read(), words::UNUSUAL);
    assert_eq!(results(), (0x3fd5_5555_5555_5556, 0));
}

/// Reads the words when dropped.
struct ReadsAtDrop(Rc<Cell<Option<words::Words>>>);

impl Drop for ReadsAtDrop {
    fn drop(&mut self) {
        self.0.set(Some(words::read()));
    }
}

#[test]
fn a_coroutine_that_keeps_its_float_control_words_keeps_them_from_everybody_else() {
    let make = || {
        let body = |s: &Suspender<(), ()>, ()| {
            assert_default();
            words::write(words::UNUSUAL);
            s.suspend(());
            assert_unusual();
            s.suspend(());
            assert_unusual();
        };
        Builder::new().keep_float_control(true).build(body).unwrap()
    };
    let (mut first, mut second) = (make(), make());
    for state in [Yield(()), Yield(()), Return(())] {
        for coroutine in [&mut first, &mut second] {
            assert_eq!(coroutine.resume(()), Ok(state));
            assert_default();
        }
    }
}

#[test]
fn a_resumers_float_control_words_survive_a_coroutine_that_keeps_its_own() {
    coroutine::scope(|scope| {
        let body = |s: &Suspender<(), ()>, ()| {
            assert_default();
            s.suspend(());
            assert_default();
        };
        let keeping = Builder::new().keep_float_control(true);
        let mut coroutine = keeping.build_scoped(scope, body).unwrap();
        words::write(words::UNUSUAL);
        coroutine.resume(()).unwrap();
        assert_unusual();
        coroutine.resume(()).unwrap();
        assert_unusual();
        words::write(words::DEFAULT);
    });
}

#[test]
fn kept_float_control_words_survive_panics_and_unwinding() {
    let at_drop = Rc::new(Cell::new(None));
    let make = |end: fn()| {
        let at_drop = at_drop.clone();
        let body = move |s: &Suspender<(), ()>, ()| {
            words::write(words::UNUSUAL);
            let _reads = ReadsAtDrop(at_drop);
            s.suspend(());
            assert_unusual();
            end();
        };
        Builder::new().keep_float_control(true).build(body).unwrap()
    };
    let mut panicking = make(|| panic::resume_unwind(Box::new(())));
    panicking.resume(()).unwrap();
    assert_default();
    catch_unwind(AssertUnwindSafe(|| panicking.resume(()))).unwrap_err();
    assert_default();
    assert_eq!(at_drop.take(), Some(words::UNUSUAL));

    let mut dropped = make(|| ());
    dropped.resume(()).unwrap();
    drop(dropped);
    assert_default();
    assert_eq!(at_drop.take(), Some(words::UNUSUAL));
}

#[test]
fn a_plain_coroutine_starts_with_the_default_words_and_from_then_on_they_are_the_threads() {
    let mut coroutine = Coroutine::new(|s: &Suspender<(), ()>, ()| {
        assert_default();
        s.suspend(());
        assert_unusual();
        words::write(words::DEFAULT);
        s.suspend(());
        words::write(words::UNUSUAL);
    });
    words::write(words::UNUSUAL);
    coroutine.resume(()).unwrap();
    assert_default();
    words::write(words::UNUSUAL);
    coroutine.resume(()).unwrap();
    assert_default();
    coroutine.resume(()).unwrap();
    assert_unusual();
    words::write(words::DEFAULT);
}

#[test]
fn a_fiber_that_keeps_its_float_control_words_keeps_them_from_the_others() {
    pirn::run(|| {
        let keeping = || {
            let fiber = || {
                assert_default();
                words::write(words::UNUSUAL);
                thread::yield_now();
                assert_unusual();
                thread::park();
                assert_unusual();
                words::write(words::DEFAULT);
            };
            thread::Builder::new().keep_float_control(true).spawn(fiber).unwrap()
        };
        let fibers = [keeping(), keeping()];
        let fresh = |_| {
            thread::spawn(|| {
                assert_default();
                thread::yield_now();
                assert_default();
            })
        };
        // Some run on stacks of their own, and some on that of one that has just ended.
        for _ in 0..3 {
            [0; 3].map(fresh).into_iter().for_each(|fiber| fiber.join().unwrap());
            assert_default();
        }
        for fiber in fibers {
            fiber.thread().unpark();
            fiber.join().unwrap();
            assert_default();
        }
    });
}

#[test]
fn a_fiber_that_keeps_its_float_control_words_takes_them_along_when_it_ends() {
    for end in [|| (), || panic::resume_unwind(Box::new(()))] {
        pirn::run(move || {
            let fiber = move || {
                words::write(words::UNUSUAL);
                end();
            };
            let _ = thread::Builder::new().keep_float_control(true).spawn(fiber).unwrap().join();
            let words = words::read();
            words::write(words::DEFAULT);
            assert_eq!(words, words::DEFAULT);
        });
    }
}

#[test]
fn a_plain_fiber_starts_with_the_default_words_and_from_then_on_they_are_the_carriers() {
    pirn::run(|| {
        let waiting = thread::spawn(|| {
            assert_default();
            thread::park();
            assert_unusual();
            words::write(words::DEFAULT);
        });
        thread::yield_now();
        words::write(words::UNUSUAL);
        waiting.thread().unpark();
        waiting.join().unwrap();
        assert_default();
        words::write(words::UNUSUAL);
        thread::spawn(assert_default).join().unwrap();
        words::write(words::DEFAULT);
    });
}

/// The caller's stack pointer at its call instruction, which the ABI wants aligned.
#[unsafe(naked)]
extern "C" fn stack_pointer() -> usize {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!("lea rax, [rsp + 8]", "ret");
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!("mov x0, sp", "ret");
}

#[repr(align(16))]
struct A16(u8);
#[repr(align(32))]
struct A32(u8);
#[repr(align(64))]
struct A64(u8);
#[repr(align(4096))]
struct A4096(u8);

/// Checks the alignment here and `depth` calls deeper.
fn assert_aligned(depth: usize) {
    assert_eq!(stack_pointer() % 16, 0, "at depth {depth}");
    let locals = (A16(1), A32(2), A64(3), A4096(4));
    let locals = black_box(&locals);
    assert_eq!((&raw const locals.0.0).addr() % 16, 0);
    assert_eq!((&raw const locals.1.0).addr() % 32, 0);
    assert_eq!((&raw const locals.2.0).addr() % 64, 0);
    assert_eq!((&raw const locals.3.0).addr() % 4096, 0);
    // C spills vector registers for variable arguments, with instructions that insist on alignment.
    let mut text = [0u8; 64];
    // SAFETY: the format fits the arguments and the buffer the length.
    let len = unsafe {
        libc::snprintf(text.as_mut_ptr().cast(), 64, c"%.2f %g".as_ptr(), 1.25f64, 0.5f64)
    };
    assert_eq!(&text[..len as usize], b"1.25 0.5");
    if depth > 0 {
        assert_aligned(depth - 1);
    }
}

#[test]
fn stacks_are_aligned_as_the_abi_says_at_every_depth() {
    // More than there are cache colours.
    let mut coroutines: Vec<_> = (0..40)
        .map(|_| {
            let body = |s: &Suspender<(), ()>, ()| {
                assert_aligned(5);
                s.suspend(());
                assert_aligned(5);
            };
            Builder::new().stack_size(500_000).build(body).unwrap()
        })
        .collect();
    for _ in 0..2 {
        coroutines.iter_mut().for_each(|coroutine| _ = coroutine.resume(()).unwrap());
    }
    let runtime = pirn::Builder::new().stack_size(500_000).build().unwrap();
    let fibers = || {
        let fibers: Vec<_> = (0..40).map(|_| thread::spawn(|| assert_aligned(5))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    };
    runtime.run(fibers).unwrap();
}

struct Sides {
    main: UnsafeCell<StackPointer>,
    other: UnsafeCell<StackPointer>,
    visits: Cell<usize>,
}

unsafe extern "C" fn visit(sides: *mut u8) -> ! {
    // SAFETY: the argument is the `Sides` that the test owns meanwhile.
    let sides = unsafe { &*sides.cast::<Sides>() };
    loop {
        assert_aligned(5);
        sides.visits.set(sides.visits.get() + 1);
        // SAFETY: the test waits in `main`.
        unsafe { ctx_switch(sides.other.get(), sides.main.get()) };
    }
}

#[test]
fn a_stack_of_the_callers_own_may_begin_at_any_odd_address() {
    for odd in 0..17 {
        let mut memory = vec![0u8; 1 << 20];
        let sides = Sides {
            main: StackPointer::empty().into(),
            other: StackPointer::empty().into(),
            visits: Cell::new(0),
        };
        // SAFETY: the memory below `top` is ours; the other side is fit to run each time.
        unsafe {
            let top = memory.as_mut_ptr_range().end.sub(odd);
            *sides.other.get() =
                StackPointer::prepare(top, visit, (&raw const sides).cast_mut().cast());
            ctx_switch(sides.main.get(), sides.other.get());
            ctx_switch(sides.main.get(), sides.other.get());
        }
        assert_eq!(sides.visits.get(), 2);
    }
}

/// Blocks or unblocks SIGUSR1 on this thread; returns whether it was blocked.
fn mask_sigusr1(how: libc::c_int) -> bool {
    // SAFETY: the sets are filled in before they are read.
    unsafe {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR1);
        assert_eq!(libc::pthread_sigmask(how, set.as_ptr(), before.as_mut_ptr()), 0);
        libc::sigismember(before.as_ptr(), libc::SIGUSR1) == 1
    }
}

#[test]
fn the_signal_mask_is_the_threads_whichever_coroutine_changes_it() {
    let (block, unblock) = (libc::SIG_BLOCK, libc::SIG_UNBLOCK);
    let mut blocking = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
        assert!(!mask_sigusr1(block));
        s.suspend(());
        assert!(!mask_sigusr1(block), "somebody else has unblocked it");
    });
    let mut other = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
        assert!(mask_sigusr1(unblock), "the first one has blocked it");
        s.suspend(());
        assert!(mask_sigusr1(unblock));
    });
    for _ in 0..2 {
        blocking.resume(()).unwrap();
        other.resume(()).unwrap();
    }
    assert!(!mask_sigusr1(unblock));
}

#[test]
fn the_signal_mask_is_the_carriers_whichever_fiber_changes_it() {
    let (block, unblock) = (libc::SIG_BLOCK, libc::SIG_UNBLOCK);
    pirn::run(move || {
        let blocking = thread::spawn(move || assert!(!mask_sigusr1(block)));
        let other = thread::spawn(move || assert!(mask_sigusr1(unblock)));
        blocking.join().unwrap();
        other.join().unwrap();
        assert!(!mask_sigusr1(unblock));
    });
}

static CAUGHT: AtomicUsize = AtomicUsize::new(0);

/// Disturbs what vector registers it can.
extern "C" fn disturb(_: libc::c_int) {
    let mut values = black_box([1.5f64, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5]);
    for value in &mut values {
        *value = value.mul_add(black_box(-3.0), 1.0);
    }
    black_box(values);
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

/// Sends itself through eight sums of floats, on a stack of the smallest size.
fn sums(s: &Suspender<f64, f64>, mut input: f64) {
    let mut sums = [0.0f64; 8];
    loop {
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum += input * (n + 1) as f64;
        }
        input = s.suspend(sums.iter().sum());
    }
}

fn storm(flags: libc::c_int) {
    let enough = if child::is_emulated() { 100 } else { 500 };
    let mut action: libc::sigaction =
        // SAFETY: all zeroes are a valid action.
        unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = disturb as *const () as usize;
    action.sa_flags = flags | libc::SA_RESTART;
    // SAFETY: the handler only computes and counts; the thread outlives the storm.
    let me = unsafe {
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
        libc::pthread_self()
    };
    static OVER: AtomicBool = AtomicBool::new(false);
    let sender = std::thread::spawn(move || {
        while !OVER.load(Ordering::Relaxed) {
            let before = CAUGHT.load(Ordering::Relaxed);
            // SAFETY: the thread waits for us.
            assert_eq!(unsafe { libc::pthread_kill(me, libc::SIGPROF) }, 0);
            while CAUGHT.load(Ordering::Relaxed) == before && !OVER.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        }
    });
    let builder = Builder::new().stack_size(1);
    let mut coroutines = [0; 4].map(|_| builder.clone().build(sums).unwrap());
    let mut rounds = 0u32;
    while CAUGHT.load(Ordering::Relaxed) < enough {
        rounds += 1;
        for coroutine in &mut coroutines {
            // Eight sums of 36 in all, each round; small whole numbers are exact.
            assert_eq!(coroutine.resume(1.0), Ok(Yield(36.0 * f64::from(rounds))));
        }
    }
    OVER.store(true, Ordering::Relaxed);
    sender.join().unwrap();
}

#[test]
fn a_storm_of_signals_on_the_smallest_stacks_disturbs_no_float() {
    fate::succeeds("a_storm_of_signals_on_the_smallest_stacks_disturbs_no_float", || storm(0));
}

#[test]
fn a_storm_of_signals_on_the_alternate_stack_disturbs_no_float() {
    let test = "a_storm_of_signals_on_the_alternate_stack_disturbs_no_float";
    fate::succeeds(test, || storm(libc::SA_ONSTACK));
}
