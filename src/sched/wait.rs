//! How an OS thread, or a fiber that must not switch away, sleeps in a wait: a futex.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::clock::{self, Instant};
pub(crate) use super::word::{Claim, Epoch, Manner, Outcome, Waiter};

impl Waiter {
    /// Sleeps in the kernel until the wait, begun as blocked, is claimed; claims it itself, with
    /// this outcome, when the deadline passes.
    pub(crate) fn block(&self, epoch: Epoch, deadline: Option<Instant>, late: Outcome) {
        let asleep = epoch.blocked_word() as u32;
        while self.outcome().is_none() {
            let timeout = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_duration_since(clock::monotonic()) {
                    Some(left) if !left.is_zero() => Some(left),
                    _ => {
                        // Whether this or another claim succeeds: the wait is over.
                        let _ = self.claim(epoch, late);
                        return;
                    }
                },
            };
            futex_wait(self.futex(), asleep, timeout);
        }
    }

    /// Wakes a waiter that was claimed while it was blocked.
    ///
    /// The waiter may be gone by now; `this` is only an address then, and the kernel does nothing
    /// or wakes somebody who looks again.
    pub(crate) fn wake_blocked(this: *const Waiter) {
        // The lower half of the word comes first on both (little-endian) architectures.
        futex_wake(this.cast());
    }

    fn futex(&self) -> *const AtomicU32 {
        (&raw const self.word).cast()
    }
}

/// Sleeps while `*word == expected`, at most for `timeout`. May return early. Whether the time was
/// up before anybody woke the sleeper.
pub(crate) fn futex_wait(word: *const AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
    let timeout = timeout.map(clock::timespec);
    // SAFETY: the word and the time are valid for the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            timeout.as_ref().map_or(std::ptr::null(), |timeout| timeout as *const libc::timespec),
        ) == -1
            && *libc::__errno_location() == libc::ETIMEDOUT
    }
}

/// Wakes one sleeper of [`futex_wait`].
pub(crate) fn futex_wake(word: *const AtomicU32) {
    // SAFETY: waking uses the address only; an unmapped one is an error that nobody minds.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}
