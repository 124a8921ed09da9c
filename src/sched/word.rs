//! The one parking primitive: a waiter's word, claimed once.
//!
//! Only atomics here: how a blocked thread sleeps is in [`wait`](super::wait), and a model checker
//! runs this file as it stands (`tests/loom.rs`).
//!
//! Whoever can wait (a fiber, an OS thread) has a [`Waiter`]. A wait is one *epoch* of its word:
//!
//! ```text
//!            begin                claim (by notify, timeout, cancel, …)
//!    IDLE ──────────► PARKED  ─────────────────────────────────────────► outcome
//!     ▲               BLOCKED                                               │
//!     │               POLLED                                                │
//!     └───────────────────────────── finish ────────────────────────────────┘
//! ```
//!
//! The word holds the epoch in its upper bits and the state in the lowest three. Whoever knows the
//! waiter and the epoch may try to [`claim`](Waiter::claim) it, and exactly one succeeds: afterwards
//! the word no longer shows that epoch as waiting. A late claim fails harmlessly, since epochs are
//! never used twice.
//!
//! How the waiter is to be woken is settled when the wait begins:
//!
//! * PARKED: a fiber that switches away. The claimer puts it on its carrier's run queue.
//! * BLOCKED: an OS thread (or a fiber that cannot switch away now) that sleeps in a futex on the
//!   word's lower half. The claimer wakes it.
//! * POLLED: a future. The claimer calls its waker; the future is [kept](super::awaiting) meanwhile.
//!
//! A parked fiber may be claimed before it has switched away. That is harmless: it is resumed by its
//! own carrier only, from the run queue, and the carrier does not look there before the fiber has
//! switched. Nothing can resume a fiber whose registers are not yet saved.
//!
//! The *token* of `park`/`unpark` is separate from the word, so that other waits neither eat nor
//! disturb it. Epochs of `park` are odd, all others even: an unpark that reads an odd epoch may
//! claim it, and can never end another wait by mistake.

use super::atomic::{AtomicBool, AtomicU64, Ordering, settle};

const STATE_BITS: u32 = 3;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

/// Not in a wait.
const IDLE: u64 = 0;
/// In a wait; a fiber, to be put on its run queue.
const PARKED: u64 = 1;
/// In a wait; a thread, to be woken by the kernel.
const BLOCKED: u64 = 2;
/// In a wait; a future, whose waker is to be called.
const POLLED: u64 = 3;
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
    /// The wait was called off: the fiber is cancelled, out of time, or its runtime is closing.
    Cancelled = FIRST_OUTCOME + 2,
}

/// What a successful claimer must do.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a claimed waiter that sleeps must be woken"]
pub(crate) enum Claim {
    /// Somebody else ended this wait.
    Lost,
    /// A fiber: put it on its run queue.
    Parked,
    /// A thread: call [`Waiter::wake_blocked`].
    Blocked,
    /// A future: call its waker.
    Polled,
}

/// How a waiter waits, and hence how it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Manner {
    /// It switches away.
    Parked = PARKED,
    /// It blocks its OS thread.
    Blocked = BLOCKED,
    /// Somebody polls it.
    Polled = POLLED,
}

/// One wait of one waiter: a waiter's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// Before every wait.
    pub(crate) const NEVER: Epoch = Epoch(0);

    /// What the word holds while its waiter is blocked in this wait.
    pub(super) fn blocked_word(self) -> u64 {
        self.0 << STATE_BITS | BLOCKED
    }
}

/// The waiter has begun a wait already: by polling, as a resumable.
#[cold]
#[inline(never)]
fn within_a_wait() -> ! {
    panic!(
        "a call that blocks was made in `resume` after a poll that is pending: a resumable has no \
         stack to wait on; use the call's `poll_` form and return `Step::Parked`, or leave the call \
         to a fiber"
    )
}

/// What can wait.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Epoch and state.
    pub(super) word: AtomicU64,
    /// The token of `park` and `unpark`.
    token: AtomicBool,
}

impl Waiter {
    pub(crate) fn new() -> Self {
        Waiter { word: AtomicU64::new(IDLE), token: AtomicBool::new(false) }
    }

    /// Begins a wait. By the waiter itself, which must [`finish`](Self::finish) it.
    #[inline]
    pub(crate) fn begin(&self, manner: Manner) -> Epoch {
        // Relaxed: the epoch reaches others through a lock or a release store of its own.
        self.begin_as(manner, 0, Ordering::Relaxed)
    }

    #[inline]
    fn begin_as(&self, manner: Manner, parity: u64, ordering: Ordering) -> Epoch {
        // Relaxed: only the waiter itself changes the word outside a wait.
        let word = self.word.load(Ordering::Relaxed);
        if word & STATE_MASK != IDLE {
            within_a_wait();
        }
        let epoch = ((word >> STATE_BITS) & !1) + 2 + parity;
        self.word.store(epoch << STATE_BITS | manner as u64, ordering);
        Epoch(epoch)
    }

    /// Begins a wait that [`unpark`](Self::unpark) may end as well as whoever is told of it.
    ///
    /// The waiter looks at the [token](Self::has_token) before it goes to sleep.
    pub(crate) fn begin_open(&self, manner: Manner) -> Epoch {
        // SeqCst: as in `begin_park`.
        let epoch = self.begin_as(manner, 1, Ordering::SeqCst);
        settle();
        epoch
    }

    /// [`begin_open`](Self::begin_open), while nobody on another thread can know of the waiter.
    #[inline]
    pub(crate) fn begin_open_here(&self, manner: Manner) -> Epoch {
        // Relaxed: an unpark comes from this thread, or from one that learns of the waiter later.
        self.begin_as(manner, 1, Ordering::Relaxed)
    }

    /// The wait that was begun and not finished, whether claimed or not. By the waiter itself.
    #[inline]
    pub(crate) fn begun(&self) -> Option<Epoch> {
        // Relaxed: the waiter's own epoch is the one it has begun; who claims it leaves that alone.
        let word = self.word.load(Ordering::Relaxed);
        (word & STATE_MASK != IDLE).then_some(Epoch(word >> STATE_BITS))
    }

    /// Whether the token is there, after a wait was begun.
    pub(crate) fn has_token(&self) -> bool {
        self.token.load(Ordering::SeqCst)
    }

    /// Ends its own wait before it has gone to sleep. False: somebody else has ended it, and has
    /// woken it, or will: it must go to sleep after all.
    pub(crate) fn retract(&self, epoch: Epoch, outcome: Outcome) -> bool {
        self.claim(epoch, outcome) != Claim::Lost
    }

    /// Ends a wait for everybody else; exactly one claim of an epoch succeeds.
    #[inline]
    pub(crate) fn claim(&self, Epoch(epoch): Epoch, outcome: Outcome) -> Claim {
        let base = epoch << STATE_BITS;
        // Relaxed: a guess, which the exchange verifies.
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let claim = match seen.wrapping_sub(base) {
                PARKED => Claim::Parked,
                BLOCKED => Claim::Blocked,
                POLLED => Claim::Polled,
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

    /// [`claim`](Self::claim) for a parked wait whose epoch nobody but this thread has been told:
    /// without an atomic exchange.
    #[inline]
    pub(crate) fn claim_here(&self, Epoch(epoch): Epoch, outcome: Outcome) -> bool {
        let base = epoch << STATE_BITS;
        // Relaxed: all on one thread.
        let parked = self.word.load(Ordering::Relaxed) == base | PARKED;
        if parked {
            self.word.store(base | outcome as u64, Ordering::Relaxed);
        }
        parked
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

    /// Whether a wait was claimed that the waiter has yet to finish.
    pub(crate) fn has_ended(&self) -> bool {
        // Relaxed: the claim is all there is to see.
        self.word.load(Ordering::Relaxed) & STATE_MASK >= FIRST_OUTCOME
    }

    /// Takes the token, if it is there.
    #[inline]
    pub(crate) fn take_token(&self) -> bool {
        // Acquire: what was done before `unpark` is visible after `park`. The load first keeps the
        // common "no token" from writing.
        self.token.load(Ordering::Relaxed) && self.token.swap(false, Ordering::Acquire)
    }

    /// Begins a wait that [`unpark`](Self::unpark) may end. `None`: the token was there.
    #[inline]
    pub(crate) fn begin_park(&self, manner: Manner) -> Option<Epoch> {
        if self.take_token() {
            return None;
        }
        // SeqCst, here and in `unpark`: either the unparker sees this wait, or we see its token.
        let epoch = self.begin_as(manner, 1, Ordering::SeqCst);
        settle();
        if self.token.load(Ordering::SeqCst) && self.retract(epoch, Outcome::Notified) {
            self.finish_park();
            return None;
        }
        Some(epoch)
    }

    /// Ends a wait begun by [`begin_park`](Self::begin_park); eats the token that ended it.
    #[inline]
    pub(crate) fn finish_park(&self) -> Outcome {
        let outcome = self.finish();
        if outcome == Outcome::Notified {
            self.take_token();
        }
        outcome
    }

    /// Ends the wait if the waiter is in `park`; else leaves the token.
    #[inline]
    pub(crate) fn unpark(&self) -> Claim {
        let claim = self.claim_park();
        if claim != Claim::Lost {
            return claim;
        }
        self.token.store(true, Ordering::SeqCst);
        settle();
        // It may have begun to park before it could see the token.
        self.claim_park()
    }

    /// [`unpark`](Self::unpark) of a waiter that parks, while nobody on another thread can know of it.
    /// True: the wait was ended.
    #[inline]
    pub(crate) fn unpark_here(&self) -> bool {
        // Relaxed: all on one thread.
        let word = self.word.load(Ordering::Relaxed);
        let parked = word & (1 << STATE_BITS | STATE_MASK) == 1 << STATE_BITS | PARKED;
        if parked {
            self.word.store(word & !STATE_MASK | Outcome::Notified as u64, Ordering::Relaxed);
        } else {
            self.token.store(true, Ordering::Relaxed);
        }
        parked
    }

    #[inline]
    fn claim_park(&self) -> Claim {
        let epoch = self.word.load(Ordering::SeqCst) >> STATE_BITS;
        if epoch & 1 == 1 { self.claim(Epoch(epoch), Outcome::Notified) } else { Claim::Lost }
    }
}
