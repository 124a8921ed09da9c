//! Floor 0: the switch between two stacks.
//!
//! There are two switches, and both do the same thing: remember where this side stands, go on where
//! the other side stood.
//!
//! * [`ctx_switch`] is the readable reference: a C-callable function in `asm/<arch>.S` that pushes
//!   every callee-saved register. It is what `docs/gdb.md` steps through.
//! * `switch` is the hot path: an inline stub that writes four words into a [`Context`] record and
//!   jumps. The compiler is told that everything else is lost, so it keeps only what it needs.
//!   Inlined, every switch has an indirect jump of its own, and nothing disturbs the processor's
//!   return-address predictor.
//!
//! A [`Context`] is four words: stack pointer, the two registers that the compiler reserves for
//! itself, and the address to go on at. Whoever owns the stack owns the record; on pirn's stacks it
//! lies in the control block at the top, on the page that the first frame uses anyway.
//!
//! A switch carries two words across in registers: a `word` (a small value, or a pointer to a large
//! one on the other stack) and a `tag` that says what the word means. The side that is switched *to*
//! acts on them, which is how something gets done "after the switch".
//!
//! # Control words
//!
//! MXCSR and the x87 control word (FPCR on AArch64) are callee-saved in the ABI, but keeping them
//! would cost more than the whole switch. A new stack starts with the default words; after that the
//! words belong to the thread, unless a fiber or coroutine is built with `keep_float_control(true)`.
//!
//! # Unwinding
//!
//! Between the instructions that load the other side's registers, the frame that executes them is
//! described by the record just written: a backtrace taken there shows the switching function
//! twice, once at the instruction and once where it will go on, and then its callers.

mod annotate;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;

use core::mem::MaybeUninit;

pub(crate) use annotate::Side;
pub(crate) use arch::{FloatControl, leave, stack_pointer, start, switch};

/// Where a suspended stack goes on.
///
/// The order of the fields is known to `asm/<arch>.S`: `frame` and `pc` lie next to each other, so
/// that together they read as a frame record.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    /// Stack pointer.
    sp: *mut u8,
    /// rbx on x86-64, x19 on AArch64. At first entry: the control block.
    base: *mut u8,
    /// rbp on x86-64, x29 on AArch64. At first entry: the function to call.
    frame: *mut u8,
    /// The address to jump to.
    pc: *const u8,
}

/// What a switch carries across in a register. Bytes that the sender left undefined stay undefined.
pub(crate) type Word = MaybeUninit<*mut u8>;

/// The function that a new stack starts with: `(control block, word, tag)`.
///
/// It must never return or unwind: there is nothing below it.
pub(crate) type Entry = unsafe extern "C" fn(*mut u8, Word, usize) -> !;

impl Context {
    /// A record that nothing has been saved in yet.
    pub(crate) const fn empty() -> Self {
        let null = core::ptr::null_mut();
        Context { sp: null, base: null, frame: null, pc: core::ptr::null() }
    }

    /// A record that starts `entry` as a fiber, at whose entry backtraces end, on a new stack at the
    /// next switch to it. (What starts a coroutine is [`start`].)
    ///
    /// `block` is the control block: the stack's frames begin right below it. It must be 16-byte
    /// aligned.
    pub(crate) fn new(block: *mut u8, entry: Entry) -> Self {
        debug_assert!(block.addr().is_multiple_of(16), "a control block must be 16-byte aligned");
        let first_frame = pirn_fiber_entry as *const u8;
        Context { sp: block, base: block, frame: entry as *mut u8, pc: first_frame }
    }

    /// The stack pointer of a suspended side.
    pub(crate) fn sp(&self) -> *mut u8 {
        self.sp
    }

    /// The address at which a suspended side goes on.
    #[cfg(test)]
    pub(crate) fn pc(&self) -> *const u8 {
        self.pc
    }
}

unsafe extern "C" {
    fn pirn_ctx_switch(from: *mut StackPointer, to: *const StackPointer);
    fn pirn_ctx_entry();
    fn pirn_fiber_entry();
    pub(crate) fn pirn_coroutine_entry();
}

/// Where [`ctx_switch`] left a stack: its stack pointer, with the registers pushed above it.
#[repr(transparent)]
#[derive(Debug)]
pub struct StackPointer(*mut u8);

impl StackPointer {
    /// A place to save into.
    pub const fn empty() -> Self {
        StackPointer(core::ptr::null_mut())
    }

    /// Prepares a stack so that the first [`ctx_switch`] to it calls `function(argument)`.
    ///
    /// `top` is the exclusive upper end of the stack; it is rounded down to 16 bytes.
    ///
    /// # Safety
    ///
    /// Below `top` there must be writable memory enough for whatever `function` does (the frame
    /// drawn in `asm/<arch>.S` takes 160 bytes at most), which nobody else uses while the stack
    /// lives. `function` must neither return nor unwind.
    pub unsafe fn prepare(
        top: *mut u8,
        function: unsafe extern "C" fn(*mut u8) -> !,
        argument: *mut u8,
    ) -> Self {
        let top = top.map_addr(|address| address & !15);
        // SAFETY: the caller vouches for the memory below `top`; the frame that is written fits.
        unsafe {
            StackPointer(arch::prepare(
                top,
                function as *mut u8,
                argument,
                pirn_ctx_entry as *const u8,
            ))
        }
    }
}

/// Suspends the caller into `from` and goes on where `to` was suspended: the reference switch.
///
/// It saves every callee-saved general register (and d8–d15 on AArch64) on the stack that it
/// leaves, and is an ordinary C function, so that a debugger can break on `pirn_ctx_switch` and step
/// it by source line. Fibers and coroutines do not use it: they use an inlined switch that saves
/// less and costs a fraction. It keeps no floating-point control words.
///
/// ```
/// use pirn::context::{StackPointer, ctx_switch};
/// use std::cell::UnsafeCell;
///
/// struct Sides { main: UnsafeCell<StackPointer>, other: UnsafeCell<StackPointer> }
///
/// unsafe extern "C" fn other(sides: *mut u8) -> ! {
///     // SAFETY: the root argument below: `sides` outlives both switches.
///     let sides = unsafe { &*(sides as *const Sides) };
///     loop {
///         // On the other stack: go straight back.
///         // SAFETY: `main` was saved by the switch that came here, and is resumed once.
///         unsafe { ctx_switch(sides.other.get(), sides.main.get()) };
///     }
/// }
///
/// let mut stack = vec![0u128; 4096];
/// let sides = Sides { main: StackPointer::empty().into(), other: StackPointer::empty().into() };
/// // SAFETY: the stack is ours, aligned, and outlives its context; each side is resumed in turn.
/// unsafe {
///     let top = stack.as_mut_ptr_range().end as *mut u8;
///     *sides.other.get() = StackPointer::prepare(top, other, &raw const sides as *mut u8);
///     ctx_switch(sides.main.get(), sides.other.get()); // there and back
///     ctx_switch(sides.main.get(), sides.other.get()); // once more
/// }
/// ```
///
/// # Safety
///
/// `to` must hold what [`StackPointer::prepare`] or an earlier `ctx_switch` wrote, that has not been
/// switched to since, and its stack must be intact. Both sides must run on the same OS thread, and
/// the other side must be fit to run now: Rust cannot see what it borrows.
#[inline(always)]
pub unsafe fn ctx_switch(from: *mut StackPointer, to: *const StackPointer) {
    // SAFETY: the caller's contract is exactly what the assembly asks for.
    unsafe { pirn_ctx_switch(from, to) }
}

#[cfg(test)]
mod tests;
