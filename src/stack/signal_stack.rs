//! The alternate signal stack: a thread whose stack has just overflowed needs another one to say
//! so.
//!
//! std gives one to each thread that it starts. Other threads (a C library's) have none, and an
//! existing one may be too small for the report.

use core::cell::RefCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

use super::kernel;

/// Makes sure that the calling thread has an alternate signal stack of adequate size.
pub(super) fn ensure() {
    /// For the handler's own frames, beside the signal frame.
    const HANDLER: usize = 4 << 10;
    // After the thread's destructors have run nothing could free a new one, so there it stays as it
    // is.
    let _ = OURS.try_with(|ours| {
        let mut ours = ours.borrow_mut();
        if ours.is_some() {
            return;
        }
        let previous = current();
        let running_on_it = previous.ss_flags & libc::SS_ONSTACK != 0;
        let missing = previous.ss_flags & libc::SS_DISABLE != 0;
        if running_on_it || !missing && previous.ss_size >= kernel::signal_frame() + HANDLER {
            return;
        }
        *ours = SignalStack::install(previous);
    });
}

thread_local! {
    static OURS: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
}

/// An alternate signal stack of this module's making, in force for this thread.
struct SignalStack {
    base: *mut u8,
    len: usize,
    /// What was there before.
    previous: libc::stack_t,
}

impl SignalStack {
    /// Without memory for it there is none: an overflow is then fatal without a report.
    fn install(previous: libc::stack_t) -> Option<SignalStack> {
        const SIZE: usize = 64 << 10;
        let page = kernel::page_size();
        let len = (SIZE + kernel::signal_frame()).next_multiple_of(page) + page;
        let base = kernel::reserve(len).ok()?;
        let stack = libc::stack_t {
            ss_sp: base.wrapping_add(page).cast::<c_void>(),
            ss_flags: 0,
            ss_size: len - page,
        };
        // SAFETY: the lowest page of a mapping that nobody else knows becomes its guard (or stays
        // usable, if the kernel has no mapping left), and the rest becomes the signal stack; if
        // not, it is unmapped again.
        unsafe {
            let _ = kernel::protect(base, page);
            if libc::sigaltstack(&stack, ptr::null_mut()) != 0 {
                kernel::unreserve(base, len);
                return None;
            }
        }
        Some(SignalStack { base, len, previous })
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let now = current();
        let ours = self.base.addr()..self.base.addr() + self.len;
        // SAFETY: restores what was there. The stack is unmapped only if it is not in force any
        // more, and its thread is here and not on it.
        unsafe {
            if ours.contains(&now.ss_sp.addr())
                && libc::sigaltstack(&self.previous, ptr::null_mut()) != 0
            {
                return;
            }
            kernel::unreserve(self.base, self.len);
        }
    }
}

/// The calling thread's alternate signal stack.
fn current() -> libc::stack_t {
    let mut stack = MaybeUninit::uninit();
    // SAFETY: `stack` is valid for writing, and asking cannot fail.
    unsafe {
        libc::sigaltstack(ptr::null(), stack.as_mut_ptr());
        stack.assume_init()
    }
}
