//! What valgrind and AddressSanitizer are told about stacks. What they are told about switches is
//! floor 0's.
//!
//! Valgrind is recognised at run time, by its own protocol of otherwise idle instructions, so every
//! build works under it. Each slot is registered as a stack when it is carved and deregistered when
//! its region is unmapped; a stack that is reused is declared uninitialised.
//!
//! AddressSanitizer is recognised at build time: `build.rs` sets `pirn_asan`. Code that leaves a
//! stack for good does not clean up the marks around its locals, so a stack that is reused is
//! declared clean.

use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Stack;

#[cfg(pirn_asan)]
unsafe extern "C" {
    fn __asan_unpoison_memory_region(start: *const core::ffi::c_void, size: usize);
}

/// Tells AddressSanitizer that what the last user left poisoned on this stack is gone.
#[inline]
pub(super) fn reused(_stack: &Stack) {
    #[cfg(pirn_asan)]
    // SAFETY: the stack is owned, and nobody has anything on it.
    unsafe {
        __asan_unpoison_memory_region(_stack.bottom().cast(), whole(_stack))
    };
}

/// Bytes from a stack's bottom to the end of its slot.
fn whole(stack: &Stack) -> usize {
    stack.size() + super::colour(stack.slot.index())
}

/// Whether the process runs under valgrind.
pub(super) fn on_valgrind() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed: the answer is all there is, and always the same.
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let answer = request(RUNNING_ON_VALGRIND, 0, 0) != 0;
            ANSWER.store(if answer { YES } else { NO }, Ordering::Relaxed);
            answer
        }
        answer => answer == YES,
    }
}

/// Registered stacks and valgrind's ids for them, by lowest address.
static REGISTERED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Registers a new stack with valgrind.
pub(super) fn remember_stack(bottom: *mut u8, end: *mut u8) {
    if on_valgrind() {
        let id = request(STACK_REGISTER, bottom.addr(), end.addr() - 1);
        REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).push((bottom.addr(), id));
    }
}

/// Deregisters all stacks in a range that is being unmapped.
pub(super) fn forget_stacks(base: *mut u8, len: usize) {
    if on_valgrind() {
        REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).retain(|&(bottom, id)| {
            let stays = bottom.wrapping_sub(base.addr()) >= len;
            if !stays {
                request(STACK_DEREGISTER, id, 0);
            }
            stays
        });
    }
}

/// Tells valgrind's memcheck that a stack may be written again, and that nothing on it is
/// initialised.
pub(super) fn reused_on_valgrind(stack: &Stack) {
    if on_valgrind() {
        request(MAKE_MEM_UNDEFINED, stack.bottom().addr(), whole(stack));
    }
}

// Valgrind's client requests, from its valgrind.h and memcheck.h.
const RUNNING_ON_VALGRIND: usize = 0x1001;
const STACK_REGISTER: usize = 0x1501;
const STACK_DEREGISTER: usize = 0x1502;
const MAKE_MEM_UNDEFINED: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16 | 1;

/// Asks valgrind something; 0 when it is not there. Four rotations that amount to none and a move
/// to itself are the sign.
fn request(code: usize, first: usize, second: usize) -> usize {
    let arguments: [usize; 6] = [code, first, second, 0, 0, 0];
    let mut answer = 0usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: without valgrind these instructions change nothing; with it, only the answer. `xchg`
    // of rbx with itself leaves rbx as it is, which the compiler reserves for itself.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(), inout("rdx") answer, options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as on x86-64.
    unsafe {
        core::arch::asm!(
            "ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61", "orr x10, x10, x10",
            in("x4") arguments.as_ptr(), inout("x3") answer, options(nostack),
        );
    }
    answer
}
