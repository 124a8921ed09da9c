//! How other threads reach a carrier: an [inbox](super::inbox) of tasks to run (a task is woken once
//! at a time), a list of tasks to cancel, and a way to wake the carrier.
//!
//! A carrier without a [reactor](super::reactor) sleeps in a futex. One that has a reactor sleeps
//! there, and is woken by a *bell*, an event descriptor that the reactor watches. Senders look which
//! it is after they have found the carrier asleep; it is settled before the carrier can be.
//!
//! Mailboxes are never freed, but reused by later runtimes: a sender that has just handed over the
//! task that a runtime was waiting for may still look at `sleeping` when that runtime is gone. The
//! worst that can happen then is that a carrier wakes for nothing.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fork;
use super::inbox::{Inbox, Node};
use super::party::PartyRef;
use super::task::Task;
use super::wait::{futex_wait, futex_wake};

/// See the [module documentation](self).
#[repr(align(64))]
pub(crate) struct Mailbox {
    /// Tasks to run; marked while there are `cancels`.
    inbox: Inbox<Task>,
    /// Tasks that other threads have cancelled.
    cancels: Mutex<Vec<PartyRef>>,
    /// The process that it was claimed in; see [`fork`].
    generation: AtomicU32,
    /// The descriptor of the bell, while the carrier sleeps in its reactor; else [`NO_BELL`].
    bell: AtomicI32,
    /// The bell, with the process that it was made in. It stays with the mailbox: a late sender may
    /// ring it when its runtime is gone.
    made_bell: Mutex<Option<(OwnedFd, u32)>>,
}

/// The carrier sleeps in the futex.
const NO_BELL: RawFd = -1;

/// How a carrier has slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// Something had been handed over already.
    NotAtAll,
    /// Somebody woke it.
    UntilWoken,
    /// The time was up.
    UntilTheLimit,
}

impl Node for Task {
    fn link(&self) -> &AtomicPtr<Task> {
        &self.mail_link
    }
}

/// Mailboxes without a carrier.
static FREE: Mutex<Vec<&'static Mailbox>> = Mutex::new(Vec::new());

/// Keeps other threads from claiming mailboxes and giving them back.
pub(super) type Lock = MutexGuard<'static, Vec<&'static Mailbox>>;

pub(super) fn lock() -> Lock {
    FREE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Mailbox {
    /// An empty mailbox, which nobody else uses.
    pub(crate) fn claim() -> &'static Mailbox {
        let reused = lock().pop();
        let mailbox = reused.unwrap_or_else(|| {
            Box::leak(Box::new(Mailbox {
                inbox: Inbox::new(),
                cancels: Mutex::new(Vec::new()),
                generation: AtomicU32::new(0),
                bell: AtomicI32::new(NO_BELL),
                made_bell: Mutex::new(None),
            }))
        });
        // Relaxed: whoever comes to know the mailbox does so later.
        mailbox.generation.store(fork::generation(), Ordering::Relaxed);
        mailbox.bell.store(NO_BELL, Ordering::Relaxed);
        mailbox
    }

    /// The descriptor of the bell, which is made when it is first asked for.
    pub(super) fn bell(&self) -> io::Result<RawFd> {
        let mut made = self.made_bell.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was made before a fork is shared with the parent, which it would wake.
        if made.as_ref().is_none_or(|&(_, made_in)| made_in != fork::generation()) {
            // SAFETY: takes no pointers.
            let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if bell < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: made just now.
            *made = Some((unsafe { OwnedFd::from_raw_fd(bell) }, fork::generation()));
        }
        Ok(made.as_ref().expect("made if it was missing").0.as_raw_fd())
    }

    /// Has the carrier, which calls this, woken by the bell from now on: it sleeps where that is
    /// heard.
    pub(super) fn use_bell(&self, bell: RawFd) {
        // Relaxed: `sleep_in` publishes it.
        self.bell.store(bell, Ordering::Relaxed);
    }

    /// Gives the mailbox back; it must be empty, and nobody may still have a task to send to it.
    pub(crate) fn free(&'static self) {
        debug_assert!(self.is_empty());
        lock().push(self);
    }

    /// The generation of the process in which it was claimed.
    pub(crate) fn generation(&self) -> u32 {
        // Relaxed: see `claim`.
        self.generation.load(Ordering::Relaxed)
    }

    /// Whether its carrier stayed behind in a process that forked this one.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.generation() != fork::generation()
    }

    /// Hands a task over, and wakes the carrier if it sleeps.
    pub(crate) fn send(&self, task: *const Task) {
        // SAFETY: whoever sends has the right to do so exclusively: it claimed the task's wait, or
        // has just made the task; and a task that has yet to run is alive.
        if unsafe { self.inbox.push(task) } {
            self.wake_sleeper();
        }
    }

    /// Asks the carrier to cancel a task of its own, and wakes it if it sleeps.
    pub(crate) fn send_cancel(&self, task: PartyRef) {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        if self.inbox.mark() {
            self.wake_sleeper();
        }
    }

    /// Keeps the carrier from sleeping, or wakes it: there is something to look at, elsewhere.
    pub(crate) fn nudge(&self) {
        if self.inbox.mark() {
            self.wake_sleeper();
        }
    }

    /// Wakes the carrier if it sleeps.
    pub(crate) fn wake(&self) {
        if self.inbox.rouse() {
            self.wake_sleeper();
        }
    }

    fn wake_sleeper(&self) {
        // Relaxed: stored before the carrier declared that it sleeps, which we have seen.
        match self.bell.load(Ordering::Relaxed) {
            NO_BELL => futex_wake(&raw const self.inbox.sleeping),
            // That carrier is the parent's, and so is its bell.
            _ if self.is_left_behind() => {}
            bell => ring(bell),
        }
    }

    /// Whether nothing has been handed over.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Takes all tasks to run, the earliest first, and returns those to cancel.
    pub(crate) fn take(&self, each: impl FnMut(*const Task)) -> Vec<PartyRef> {
        if self.inbox.take(each) {
            mem::take(&mut *self.cancels.lock().unwrap_or_else(PoisonError::into_inner))
        } else {
            Vec::new()
        }
    }

    /// Sleeps until something is handed over, at most for `timeout`. May return early.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> Slept {
        self.sleep_in(|| futex_wait(&raw const self.inbox.sleeping, 1, timeout))
    }

    /// Sleeps in `bed`, which the bell or the futex ends, and which tells whether the time was up.
    pub(super) fn sleep_in(&self, bed: impl FnOnce() -> bool) -> Slept {
        let slept = if !self.inbox.doze() {
            Slept::NotAtAll
        } else if bed() {
            Slept::UntilTheLimit
        } else {
            Slept::UntilWoken
        };
        self.inbox.wake_up();
        slept
    }
}

/// Makes an event descriptor readable; who watches it for edges sees another one, whatever its count.
fn ring(bell: RawFd) {
    let one = 1_u64;
    // SAFETY: `one` is valid for its length. It can only fail when the count has no room for one
    // more, after 2^64 - 2 of them.
    unsafe { libc::write(bell, (&raw const one).cast(), size_of::<u64>()) };
}
