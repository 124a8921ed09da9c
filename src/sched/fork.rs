//! After `fork`: the child has one thread, and none of the parent's runtimes.
//!
//! The child's memory shows the parent's runtimes as they were, but whatever a fiber there waits for
//! happens in the parent, and its other threads do not exist. So they count as over:
//!
//! * A process has a *generation*, one more than its parent's; a runtime belongs to that in which it
//!   was made. [`check`] tells whether it is still there.
//! * A carrier that forked aborts when it would next switch or wait, with a message. Nothing on the
//!   hot path looks: the fork leaves the carrier a budget of one switch, and the poll that follows
//!   looks, as does all that is rare.
//! * For all others, what belongs to an earlier generation is as if its runtime had ended.
//!
//! Threads of the parent may have held locks when it forked, which nobody in the child would open
//! again. Those of pirn are taken before the fork and given back after it, on both sides. Not so what
//! the first runtime of a process installs with std's help, the panic hook and the overflow handler: a
//! program that forks from several threads should not do so just while its very first runtime begins.
//! Nor can pirn take the lock that std holds for a moment while one of its threads begins, and again
//! while it ends: a child that was forked just then by another thread can start no thread of std's any more,
//! and so no carrier but the first, no watchdog and none for blocking calls.

use std::cell::UnsafeCell;
use std::process;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;

use super::carrier::Carrier;
use super::{mailbox, signals};
use crate::stack;

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The generation of this process.
#[inline]
pub(super) fn generation() -> u32 {
    // Relaxed: it changes only where there is one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// Aborts if the runtime that was made in this generation has stayed behind in the parent.
#[inline]
pub(super) fn check(made_in: u32) {
    if made_in != generation() {
        left_behind();
    }
}

#[cold]
#[inline(never)]
fn left_behind() -> ! {
    const MESSAGE: &[u8] = b"pirn: this runtime was forked: it goes on in the parent process, and \
        its fibers cannot switch, wait or end in the child; call exec or _exit in the child, or run \
        a new runtime in it: aborting\n";
    // Not by `eprintln`: another thread of the parent may have held its lock.
    // SAFETY: the message is valid for its length.
    unsafe { libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    process::abort();
}

/// Has the following done at each fork of this process.
///
/// Another thread may fork the process just while this one is here, so this must not wait for a lock
/// whose holder the child does not have. Who is at it is told by the process that it belongs to.
pub(super) fn install() {
    const NOBODY: i32 = 0;
    const DONE: i32 = -1;
    static AT_IT: AtomicI32 = AtomicI32::new(NOBODY);
    let own = process::id().cast_signed();
    // Acquire, throughout: whoever sees that it is done may rely on it.
    let mut seen = AT_IT.load(Ordering::Acquire);
    while seen != DONE {
        if seen == own {
            thread::yield_now();
            seen = AT_IT.load(Ordering::Acquire);
            continue;
        }
        // Nobody yet, or a thread that stayed behind in the parent.
        match AT_IT.compare_exchange(seen, own, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                // It had got so far if the fork that left it behind was noticed.
                if generation() == 0 {
                    // SAFETY: the handlers may run wherever `fork` may be called.
                    let error = unsafe {
                        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child))
                    };
                    assert_eq!(error, 0, "no memory to prepare for forks");
                }
                // Release: pairs with the loads above.
                AT_IT.store(DONE, Ordering::Release);
                return;
            }
            Err(now) => seen = now,
        }
    }
}

/// What is locked while the process forks.
struct Held(UnsafeCell<Option<(stack::Locks, mailbox::Lock, signals::Lock)>>);

// SAFETY: used only by a thread that holds these very locks.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

extern "C" fn before() {
    let locks = (stack::lock_for_fork(), mailbox::lock(), signals::lock());
    // SAFETY: the locks are ours: nobody else forks now.
    unsafe { *HELD.0.get() = Some(locks) };
}

extern "C" fn in_parent() {
    // SAFETY: taken by this thread before the fork.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    signals::separate();
    in_parent();
    // Relaxed: see `generation`.
    GENERATION.store(generation().wrapping_add(1), Ordering::Relaxed);
    if let Some(carrier) = Carrier::current() {
        carrier.poll_at_next_switch();
    }
}
