//! The one parking primitive: a waiter's word, claimed once.
//!
//! Whoever can wait (a fiber, an OS thread) has a [`Waiter`]. A wait is one *epoch* of its word:
//!
//! ```text
//!              begin            park or block           claim (by notify, timeout, cancel, …)
//!    IDLE ─────────────► WAITING ─────────────► PARKED ──────────────────► outcome
//!     ▲                     │                   BLOCKED                       │
//!     │                     └──────────────── claim ─────────────────────────►│
//!     └──────────────────────────────── finish ───────────────────────────────┘
//! ```
//!
//! The word holds the epoch in its upper bits and the state in the lowest three. A [`Ticket`] names
//! a waiter and an epoch; whoever holds a copy may try to [`claim`](Waiter::claim) it, and exactly
//! one succeeds: afterwards the word no longer shows that epoch as waiting. A late claim fails
//! harmlessly, since epochs are never used twice.
//!
//! The claimer learns what it must do next:
//!
//! * the waiter was only WAITING: it has not gone to sleep yet, and will see the outcome when it
//!   tries. Nothing to do; the claimer must not touch the waiter any more, for it may be gone.
//! * PARKED: a fiber that has switched away. The claimer puts it on its carrier's run queue.
//! * BLOCKED: an OS thread (or a fiber that cannot switch away now) sleeping in a futex on the
//!   word's lower half. The claimer wakes it.
//!
//! A fiber is resumed by its own carrier only, from the run queue, and enters PARKED on that same
//! thread before it switches: so nobody can resume it before its registers are saved.
//!
//! The *token* of `park`/`unpark` is separate from the word, so that other waits neither eat nor
//! disturb it. Epochs of `park` are odd, all others even: an unpark that reads an odd epoch may
//! claim it, and can never end another wait by mistake.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::sched::clock::{self, Instant};

const STATE_BITS: u32 = 3;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

/// Not in a wait.
const IDLE: u64 = 0;
/// In a wait, still awake.
const WAITING: u64 = 1;
/// Switched away.
const PARKED: u64 = 2;
/// Asleep in a futex.
const BLOCKED: u64 = 3;
/// From here on: claimed, by [`Outcome`].
const FIRST_OUTCOME: u64 = 4;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Outcome {
    /// What was waited for has happened.
    Notified = FIRST_OUTCOME,
    /// The deadline passed first.
    TimedOut = FIRST_OUTCOME + 1,
    /// The wait was called off: the runtime is closing.
    Cancelled = FIRST_OUTCOME + 2,
}

/// What a successful claimer must do.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claimed waiter that sleeps must be woken"]
pub(crate) enum Claim {
    /// Somebody else ended this wait.
    Lost,
    /// The waiter is awake and will notice by itself.
    Awake,
    /// A fiber: put it on its run queue.
    Parked,
    /// A thread: call [`Waiter::wake_blocked`].
    Blocked,
}

/// One wait of one waiter: a waiter's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// What can wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Epoch and state.
    word: AtomicU64,
    /// The token of `park` and `unpark`.
    token: AtomicBool,
}

impl Waiter {
    pub(crate) const fn new() -> Self {
        Waiter { word: AtomicU64::new(IDLE), token: AtomicBool::new(false) }
    }

    /// Begins a wait. By the waiter itself, which must [`finish`](Self::finish) it.
    #[inline]
    pub(crate) fn begin(&self) -> Epoch {
        // Relaxed: the ticket reaches others through a lock or a release store of its own.
        self.begin_as(0, Ordering::Relaxed)
    }

    #[inline]
    fn begin_as(&self, parity: u64, ordering: Ordering) -> Epoch {
        // Relaxed: only the waiter itself changes the word outside a wait.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE_MASK, IDLE, "a wait within a wait");
        let epoch = ((word >> STATE_BITS) & !1) + 2 + parity;
        self.word.store(epoch << STATE_BITS | WAITING, ordering);
        Epoch(epoch)
    }

    /// Declares that the waiter is about to switch away. False: it has been claimed already.
    #[inline]
    pub(crate) fn set_parked(&self, epoch: Epoch) -> bool {
        self.set_asleep(epoch, PARKED)
    }

    fn set_asleep(&self, Epoch(epoch): Epoch, state: u64) -> bool {
        let base = epoch << STATE_BITS;
        // Acquire on failure: what the claimer did before is then visible, as after a wake-up.
        // Release: a claimer that finds us asleep may read what we wrote.
        self.word
            .compare_exchange(base | WAITING, base | state, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }

    /// Ends a wait for everybody else; exactly one claim of an epoch succeeds.
    #[inline]
    pub(crate) fn claim(&self, Epoch(epoch): Epoch, outcome: Outcome) -> Claim {
        let base = epoch << STATE_BITS;
        // Relaxed: a guess, which the exchange verifies.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let claim = match seen.wrapping_sub(base) {
                WAITING => Claim::Awake,
                PARKED => Claim::Parked,
                BLOCKED => Claim::Blocked,
                _ => return Claim::Lost,
            };
            // AcqRel: the waiter sees what the claimer did before (Release), and the claimer may
            // touch what the waiter left behind when it went to sleep (Acquire).
            match self.word.compare_exchange_weak(
                seen,
                base | outcome as u64,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return claim,
                Err(now) => seen = now,
            }
        }
    }

    /// How the wait ended, if it has.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        // Acquire: pairs with the claimer's release.
        match self.word.load(Ordering::Acquire) & STATE_MASK {
            state if state == Outcome::Notified as u64 => Some(Outcome::Notified),
            state if state == Outcome::TimedOut as u64 => Some(Outcome::TimedOut),
            state if state == Outcome::Cancelled as u64 => Some(Outcome::Cancelled),
            _ => None,
        }
    }

    /// Goes back to idle. By the waiter itself, after the wait was claimed.
    #[inline]
    pub(crate) fn finish(&self) -> Outcome {
        let outcome = self.outcome().expect("a wait is finished after it was claimed");
        // Relaxed: only the waiter itself uses an idle word.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word & !STATE_MASK | IDLE, Ordering::Relaxed);
        outcome
    }

    /// The current wait, if the waiter is parked in one.
    pub(crate) fn parked_epoch(&self) -> Option<Epoch> {
        let word = self.word.load(Ordering::Acquire);
        (word & STATE_MASK == PARKED).then_some(Epoch(word >> STATE_BITS))
    }

    /// Sleeps in the kernel until the wait is claimed; claims it itself when the deadline passes.
    ///
    /// For OS threads, and for fibers that must not switch away.
    pub(crate) fn block(&self, epoch: Epoch, deadline: Option<Instant>) {
        if !self.set_asleep(epoch, BLOCKED) {
            return;
        }
        let asleep = (epoch.0 << STATE_BITS | BLOCKED) as u32;
        while self.outcome().is_none() {
            let timeout = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_duration_since(clock::monotonic()) {
                    Some(left) if !left.is_zero() => Some(left),
                    _ => {
                        // Whether this or another claim succeeds: the wait is over.
                        let _ = self.claim(epoch, Outcome::TimedOut);
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

    /// Takes the token, if it is there.
    #[inline]
    pub(crate) fn take_token(&self) -> bool {
        // Acquire: what was done before `unpark` is visible after `park`. The load first keeps the
        // common "no token" from writing.
        self.token.load(Ordering::Relaxed) && self.token.swap(false, Ordering::Acquire)
    }

    /// Begins a wait that [`unpark`](Self::unpark) may end. `None`: the token was there.
    pub(crate) fn begin_park(&self) -> Option<Epoch> {
        if self.take_token() {
            return None;
        }
        // SeqCst, here and in `unpark`: either the unparker sees this wait, or we see its token.
        let epoch = self.begin_as(1, Ordering::SeqCst);
        if self.token.load(Ordering::SeqCst) {
            // The unparker may have claimed it as well; in any case it is claimed now.
            let _ = self.claim(epoch, Outcome::Notified);
        }
        Some(epoch)
    }

    /// Ends a wait begun by [`begin_park`](Self::begin_park); eats the token that ended it.
    pub(crate) fn finish_park(&self) -> Outcome {
        let outcome = self.finish();
        if outcome == Outcome::Notified {
            self.take_token();
        }
        outcome
    }

    /// Leaves the token, and ends the wait if the waiter is in `park`.
    pub(crate) fn unpark(&self) -> Claim {
        self.token.store(true, Ordering::SeqCst);
        let epoch = self.word.load(Ordering::SeqCst) >> STATE_BITS;
        if epoch & 1 == 1 { self.claim(Epoch(epoch), Outcome::Notified) } else { Claim::Lost }
    }
}

/// Sleeps while `*word == expected`, at most for `timeout`. May return early.
pub(crate) fn futex_wait(word: *const AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(clock::timespec);
    // SAFETY: the word and the time are valid for the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            timeout.as_ref().map_or(std::ptr::null(), |timeout| timeout as *const libc::timespec),
        );
    }
}

/// Wakes one sleeper of [`futex_wait`].
pub(crate) fn futex_wake(word: *const AtomicU32) {
    // SAFETY: waking uses the address only; an unmapped one is an error that nobody minds.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}
