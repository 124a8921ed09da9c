//! What happens when a stack overflows: a report that names who it was, and an abort.
//!
//! The guard turns an overflow into a SIGSEGV (code `SEGV_MAPERR` for a light guard, `SEGV_ACCERR`
//! for a protected one) or, on some kernels, a SIGBUS. A handler on the alternate signal stack
//! looks the address up:
//!
//! * in the guard of one of our slots, with the thread's stack pointer in that slot or not far below
//!   it: an overflow. It is reported in std's manner, and the process aborts as std's does.
//! * anything else goes to the handler that was there before, under the conditions that one asked
//!   for. That is mostly std's own, which reports overflows of ordinary threads and otherwise
//!   restores the default action; so the fault repeats and the process dies of it, as if this module
//!   did not exist.
//!
//! The stack pointer is part of the test because a wild pointer, too, can hit a guard. It may lie
//! below the guard when a frame larger than the guard was entered without stack probes; then it
//! lies in the neighbour's slot, and the fault could as well be the neighbour's, writing past its
//! upper end. The report says so.
//!
//! The handler and all it calls allocate nothing, take no lock and touch no thread-local.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::fmt::{self, Write};
use core::mem::{MaybeUninit, transmute};
use core::ptr;
use std::sync::Once;

use super::region::{Place, place_at};
use super::{kernel, signal_stack};

/// Makes overflows of our stacks on the calling thread end in a report.
///
/// Idempotent. The handlers are the process's, the alternate stack is the thread's: every thread
/// that runs fibers calls this.
pub(crate) fn install_overflow_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        install(libc::SIGSEGV);
        install(libc::SIGBUS);
    });
    signal_stack::ensure();
}

/// The actions that were in force before ours.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler that reads it is installed.
unsafe impl Sync for Previous {}

static SEGV: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));
static BUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// Puts our handler before the one that is there.
fn install(signal: c_int) {
    let previous = if signal == libc::SIGBUS { &BUS } else { &SEGV };
    let mut action = plain_action(on_fault as *const () as usize);
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `previous` is filled before the handler can run; the handler has the signature that
    // SA_SIGINFO asks for.
    unsafe {
        let known = libc::sigaction(signal, ptr::null(), (*previous.0.get()).as_mut_ptr()) == 0;
        if known {
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}

/// An action with no flags and an empty mask.
pub(super) fn plain_action(handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid action; for the mask they are the empty set.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler;
    action
}

unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = kernel::errno();
    // SAFETY: the kernel passes valid pointers.
    let (code, address, sp) =
        unsafe { ((*info).si_code, (*info).si_addr().addr(), stack_pointer(context)) };
    // Codes of 0 and below: sent by `kill` and the like; the address means nothing.
    if code > 0
        && let Some(place) = place_at(address)
        && is_overflow(&place, address, sp)
    {
        report(&place, sp);
        die();
    }
    // SAFETY: the arguments are the kernel's own.
    unsafe { pass_on(signal, code, info, context) };
    // SAFETY: libc's errno location is valid for the calling thread.
    unsafe { *libc::__errno_location() = errno };
}

/// The stack pointer of the code that the signal interrupted.
///
/// # Safety
///
/// `context` is what the kernel passed to a handler.
unsafe fn stack_pointer(context: *mut c_void) -> usize {
    // SAFETY: the kernel passes a `ucontext_t`.
    let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return context.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    return context.sp as usize;
}

/// Whether a fault at `address`, in the slot `place`, is an overflow of the stack there.
fn is_overflow(place: &Place, address: usize, sp: usize) -> bool {
    /// How far below the slot the stack pointer may be: unprobed frames up to this size are
    /// recognised.
    const REACH: usize = 64 << 10;
    let in_guard = address < place.start + place.guard;
    in_guard && sp >= place.start.saturating_sub(place.guard.max(REACH)) && sp <= place.end
}

/// Says who has overflowed what.
fn report(place: &Place, sp: usize) {
    let mut out = Stderr::new();
    let usable = place.end - place.start - place.guard;
    let _ = out.write_str("\n");
    match place.occupant() {
        // SAFETY: the stack pointer says that the occupant runs now, so it is alive.
        Some(occupant) => unsafe { ((*occupant).describe)(occupant, &mut out) },
        None => _ = out.write_str("an unnamed fiber"),
    }
    let guard = place.guard;
    let _ = writeln!(out, " has overflowed its stack of {usable} bytes (guard of {guard} bytes)");
    if sp < place.start {
        let _ = out.write_str(
            "its stack pointer is below the guard: a frame larger than the guard was entered without stack probes, \
             or the stack below was written past its upper end\n",
        );
    }
    let _ = out.write_str("fatal runtime error: stack overflow, aborting\n");
    out.flush();
}

/// Aborts, whatever handler for SIGABRT there is: it would run in the middle of an overflow.
fn die() -> ! {
    let action = plain_action(libc::SIG_DFL);
    // SAFETY: restores a default action; `abort` does not return.
    unsafe {
        libc::sigaction(libc::SIGABRT, &action, ptr::null_mut());
        libc::abort()
    }
}

/// Does what would have happened without this module.
///
/// # Safety
///
/// The arguments are those of a handler that runs now.
unsafe fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = if signal == libc::SIGBUS { &BUS } else { &SEGV };
    // SAFETY: it was filled before the handler was installed.
    let previous = unsafe { (*previous.0.get()).assume_init_ref() };
    let sent = code <= 0;
    match previous.sa_sigaction {
        libc::SIG_IGN if sent => {}
        action @ (libc::SIG_DFL | libc::SIG_IGN) => {
            // Back to how it was: on return the instruction faults again, and the kernel kills
            // (even when ignored).
            let action = plain_action(action);
            // SAFETY: restores an action without a handler.
            unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
            if sent {
                send_again(signal);
            }
        }
        handler => {
            // SAFETY: an address of a handler, whose signature the flag tells; it gets what the
            // kernel would have given it. What is changed of the mask is undone on return from the
            // signal.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &previous.sa_mask, ptr::null_mut());
                if previous.sa_flags & libc::SA_NODEFER != 0 {
                    let mut itself = MaybeUninit::zeroed();
                    libc::sigaddset(itself.as_mut_ptr(), signal);
                    libc::pthread_sigmask(libc::SIG_UNBLOCK, itself.as_ptr(), ptr::null_mut());
                }
                if previous.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                        transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = transmute(handler);
                    handler(signal);
                }
                // Such as std's, which puts the default action back so that the fault repeats and
                // kills. A signal that was sent does not repeat by itself.
                let mut now = MaybeUninit::<libc::sigaction>::zeroed();
                let known = libc::sigaction(signal, ptr::null(), now.as_mut_ptr()) == 0;
                if sent && known && now.assume_init().sa_sigaction == libc::SIG_DFL {
                    send_again(signal);
                }
            }
        }
    }
}

/// Sends a signal to this thread. It is blocked while its handler runs, so it arrives when that
/// returns.
fn send_again(signal: c_int) {
    // SAFETY: a signal to the calling thread.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}

/// Standard error for a signal handler: a small buffer and `write`.
struct Stderr {
    buffer: [u8; 256],
    len: usize,
}

impl Stderr {
    fn new() -> Stderr {
        Stderr { buffer: [0; 256], len: 0 }
    }

    fn flush(&mut self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: the pointer and length are those of a slice.
            let written =
                unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) => rest = &rest[written..],
                Err(_) if kernel::errno() == libc::EINTR => {}
                Err(_) => break,
            }
        }
        self.len = 0;
    }
}

impl fmt::Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == self.buffer.len() {
                self.flush();
            }
            self.buffer[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}
