//! The hot path for AArch64; see `x86_64.rs` for the reasons, and `asm/aarch64.S`.

use core::arch::asm;

use super::{Context, Entry, Word, pirn_coroutine_entry};

/// Suspends the caller into `from`, goes on at `to`, and hands `word` and `tag` over.
///
/// Returns what the side that later switches back hands over.
///
/// # Safety
///
/// `to` must be fit to run: prepared by [`Context::new`], or saved by an earlier switch and not
/// switched to since; its stack must be intact and belong to this OS thread. `from` must stay
/// writable until then.
#[inline(always)]
pub(crate) unsafe fn switch(
    from: *mut Context,
    to: *const Context,
    word: Word,
    tag: usize,
) -> (Word, usize) {
    let (word_back, tag_back): (Word, usize);
    // SAFETY: all registers are declared lost, except x19 and x29, which the compiler keeps to
    // itself and which are saved and loaded here, and sp, likewise. Label 2 is where the other
    // side's switch branches back to, with the registers as this side left them.
    unsafe {
        asm!(
            "adr x8, 2f",
            "mov x9, sp",
            "stp x9, x19, [x0]",
            "stp x29, x8, [x0, #16]",
            // CFA = [x0]; x19, x29, return address above it.
            ".cfi_remember_state",
            ".cfi_escape 0x0f, 3, 0x70, 0, 0x06",
            ".cfi_escape 0x10, 19, 2, 0x70, 8",
            ".cfi_escape 0x10, 29, 2, 0x70, 16",
            ".cfi_escape 0x10, 30, 2, 0x70, 24",
            "ldp x9, x19, [x1]",
            "ldp x29, x8, [x1, #16]",
            "mov sp, x9",
            "br x8",
            ".cfi_restore_state",
            "nop", // unwinders look up the byte before an address to go on at
            "2:",
            "hint #36", // bti j
            inout("x0") from => _,
            inout("x1") to => _,
            inout("x2") word => word_back,
            inout("x3") tag => tag_back,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _,
            lateout("x24") _, lateout("x25") _, lateout("x26") _, lateout("x27") _,
            lateout("x28") _, lateout("lr") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
        );
    }
    (word_back, tag_back)
}

/// Suspends the caller into `from` and begins a coroutine, from which backtraces go on into its resumer.
///
/// # Safety
///
/// As for [`switch`]. `block` is a 16-byte aligned control block of two `Context`s, of which `from` is
/// the second; the frames of a stack that is not in use begin right below it.
#[inline(always)]
pub(crate) unsafe fn start(
    from: *mut Context,
    block: *mut u8,
    entry: Entry,
    word: Word,
    tag: usize,
) -> (Word, usize) {
    let (word_back, tag_back): (Word, usize);
    // SAFETY: as in `switch`; the first frame expects its registers as they are loaded here.
    unsafe {
        asm!(
            "adr x8, 2f",
            "mov x9, sp",
            "stp x9, x19, [x0]",
            "stp x29, x8, [x0, #16]",
            ".cfi_remember_state",
            ".cfi_escape 0x0f, 3, 0x70, 0, 0x06",
            ".cfi_escape 0x10, 19, 2, 0x70, 8",
            ".cfi_escape 0x10, 29, 2, 0x70, 16",
            ".cfi_escape 0x10, 30, 2, 0x70, 24",
            "mov sp, x1",
            "mov x19, x1",
            "mov x29, x4",
            "b {first_frame}",
            ".cfi_restore_state",
            "nop",
            "2:",
            "hint #36", // bti j
            first_frame = sym pirn_coroutine_entry,
            inout("x0") from => _,
            inout("x1") block => _,
            inout("x4") entry as *mut u8 => _,
            inout("x2") word => word_back,
            inout("x3") tag => tag_back,
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _,
            lateout("x24") _, lateout("x25") _, lateout("x26") _, lateout("x27") _,
            lateout("x28") _, lateout("lr") _,
            lateout("v8") _, lateout("v9") _, lateout("v10") _, lateout("v11") _,
            lateout("v12") _, lateout("v13") _, lateout("v14") _, lateout("v15") _,
            clobber_abi("C"),
        );
    }
    (word_back, tag_back)
}

/// Goes on at `to` and never comes back: the last act of a stack.
///
/// Unwinders see the end of the stack here: there is nothing below the frame that calls this.
///
/// # Safety
///
/// As for [`switch`].
#[inline(always)]
pub(crate) unsafe fn leave(to: *const Context, word: Word, tag: usize) -> ! {
    // SAFETY: by the contract; nothing of this side is used again.
    unsafe {
        asm!(
            ".cfi_remember_state",
            ".cfi_undefined x30",
            "ldp x9, x19, [x1]",
            "ldp x29, x8, [x1, #16]",
            "mov sp, x9",
            "br x8",
            ".cfi_restore_state",
            in("x1") to,
            in("x2") word,
            in("x3") tag,
            options(noreturn),
        );
    }
}

/// The stack pointer, to ask which stack the caller stands on.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// Lays out the frame that `pirn_ctx_switch` pops, and returns its address.
///
/// # Safety
///
/// The 160 bytes below `top`, which is 16-byte aligned, must be writable.
pub(super) unsafe fn prepare(
    top: *mut u8,
    function: *mut u8,
    argument: *mut u8,
    entry: *const u8,
) -> *mut u8 {
    // Behind the landing pad, see the assembly.
    let entry = entry.wrapping_add(4);
    let mut frame = [core::ptr::null_mut(); 20];
    let (x29, x30, x19, x20) = (0, 1, 2, 3);
    frame[x29] = core::ptr::null_mut();
    frame[x30] = entry.cast_mut();
    frame[x19] = function;
    frame[x20] = argument;
    // SAFETY: the caller vouches for the memory.
    unsafe {
        let sp = top.sub(size_of_val(&frame));
        sp.cast::<[*mut u8; 20]>().write(frame);
        sp
    }
}

/// The floating-point control word, FPCR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatControl {
    fpcr: u64,
}

impl FloatControl {
    /// What every new stack starts with: round to nearest, no flush to zero, no traps.
    pub(crate) const DEFAULT: FloatControl = FloatControl { fpcr: 0 };

    /// Reads the word in force.
    #[inline]
    pub(crate) fn save() -> Self {
        let fpcr;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
        FloatControl { fpcr }
    }

    /// Puts the word in force.
    ///
    /// # Safety
    ///
    /// Rust assumes the default word wherever it computes: another may only be in force where the
    /// program itself chose it.
    #[inline]
    pub(crate) unsafe fn load(self) {
        // SAFETY: the word came from `save` or is the default one.
        unsafe {
            asm!("msr fpcr, {}", in(reg) self.fpcr, options(nomem, nostack, preserves_flags));
        }
    }
}
