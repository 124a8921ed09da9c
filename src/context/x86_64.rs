//! The hot path for x86-64. `asm/x86_64.S` has the stack drawings.

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
    // SAFETY: all registers are declared lost, except rbx and rbp, which the compiler keeps to
    // itself and which are saved and loaded here, and rsp, likewise. Label 2 is where the other
    // side's switch jumps back to, with the registers as this side left them.
    unsafe {
        asm!(
            // This side is suspended as soon as its four words are written.
            "lea rax, [rip + 2f]",
            "mov [rdi + 24], rax",
            "mov [rdi + 16], rbp",
            "mov [rdi + 8], rbx",
            "mov [rdi], rsp",
            // From here to the jump the registers are half the one side's and half the other's:
            // tell unwinders to go by the record instead. CFA = [rdi]; rbx, rbp, rip above it.
            ".cfi_remember_state",
            ".cfi_escape 0x0f, 3, 0x75, 0, 0x06",
            ".cfi_escape 0x10, 3, 2, 0x75, 8",
            ".cfi_escape 0x10, 6, 2, 0x75, 16",
            ".cfi_escape 0x10, 16, 2, 0x75, 24",
            "mov rsp, [rsi]",
            "mov rbx, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "jmp [rsi + 24]",
            ".cfi_restore_state",
            // Never reached: unwinders look up the byte before an address to go on at.
            "nop",
            "2:",
            "endbr64",
            inout("rdi") from => _,
            inout("rsi") to => _,
            inout("rdx") word => word_back,
            inout("rcx") tag => tag_back,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
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
            "lea rax, [rip + 2f]",
            "mov [rdi + 24], rax",
            "mov [rdi + 16], rbp",
            "mov [rdi + 8], rbx",
            "mov [rdi], rsp",
            ".cfi_remember_state",
            ".cfi_escape 0x0f, 3, 0x75, 0, 0x06",
            ".cfi_escape 0x10, 3, 2, 0x75, 8",
            ".cfi_escape 0x10, 6, 2, 0x75, 16",
            ".cfi_escape 0x10, 16, 2, 0x75, 24",
            "mov rsp, rsi",
            "mov rbx, rsi",
            "mov rbp, r8",
            "jmp {first_frame}",
            ".cfi_restore_state",
            "nop",
            "2:",
            "endbr64",
            first_frame = sym pirn_coroutine_entry,
            inout("rdi") from => _,
            inout("rsi") block => _,
            inout("r8") entry as *mut u8 => _,
            inout("rdx") word => word_back,
            inout("rcx") tag => tag_back,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
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
            ".cfi_undefined rip",
            "mov rsp, [rsi]",
            "mov rbx, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "jmp [rsi + 24]",
            ".cfi_restore_state",
            in("rsi") to,
            in("rdx") word,
            in("rcx") tag,
            options(noreturn),
        );
    }
}

/// The stack pointer, to ask which stack the caller stands on.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// Lays out the frame that `pirn_ctx_switch` pops, and returns its address.
///
/// # Safety
///
/// The 56 bytes below `top`, which is 16-byte aligned, must be writable.
pub(super) unsafe fn prepare(
    top: *mut u8,
    function: *mut u8,
    argument: *mut u8,
    entry: *const u8,
) -> *mut u8 {
    // Behind the landing pad, see the assembly.
    let entry = entry.wrapping_add(4);
    let null = core::ptr::null_mut();
    let (r15, r14, r13, r12, rbx, rbp) = (null, null, argument, function, null, null);
    let frame = [r15, r14, r13, r12, rbx, rbp, entry.cast_mut()];
    // SAFETY: the caller vouches for the memory.
    unsafe {
        let sp = top.sub(size_of_val(&frame));
        sp.cast::<[*mut u8; 7]>().write(frame);
        sp
    }
}

/// The floating-point control words: MXCSR and the x87 control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatControl {
    mxcsr: u32,
    x87: u16,
}

impl FloatControl {
    /// What every new stack starts with: round to nearest, all exceptions masked.
    pub(crate) const DEFAULT: FloatControl = FloatControl { mxcsr: 0x1f80, x87: 0x037f };

    /// Reads the words in force.
    #[inline]
    pub(crate) fn save() -> Self {
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        // SAFETY: both instructions store to the places given.
        unsafe {
            asm!(
                "stmxcsr [{}]", "fnstcw [{}]",
                in(reg) &raw mut mxcsr, in(reg) &raw mut x87,
                options(nostack, preserves_flags),
            );
        }
        FloatControl { mxcsr, x87 }
    }

    /// Puts the words in force.
    ///
    /// # Safety
    ///
    /// Rust assumes the default words wherever it computes: others may only be in force where the
    /// program itself chose them.
    #[inline]
    pub(crate) unsafe fn load(self) {
        // SAFETY: the words came from `save` or are the default ones, so no reserved bit is set.
        unsafe {
            asm!(
                "ldmxcsr [{}]", "fldcw [{}]",
                in(reg) &raw const self.mxcsr, in(reg) &raw const self.x87,
                options(nostack, preserves_flags, readonly),
            );
        }
    }
}
