//! How other threads reach a carrier: an [inbox](super::inbox) of tasks to run (a task is woken once
//! at a time), a list of tasks to cancel, and a way to wake the carrier.
//!
//! Mailboxes are never freed, but reused by later runtimes: a sender that has just handed over the
//! task that a runtime was waiting for may still look at `sleeping` when that runtime is gone. The
//! worst that can happen then is that a carrier wakes for nothing.

use std::mem;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
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
}

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
            }))
        });
        // Relaxed: whoever comes to know the mailbox does so later.
        mailbox.generation.store(fork::generation(), Ordering::Relaxed);
        mailbox
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

    /// Wakes the carrier if it sleeps.
    pub(crate) fn wake(&self) {
        if self.inbox.rouse() {
            self.wake_sleeper();
        }
    }

    fn wake_sleeper(&self) {
        futex_wake(&raw const self.inbox.sleeping);
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
        let slept = if !self.inbox.doze() {
            Slept::NotAtAll
        } else if futex_wait(&raw const self.inbox.sleeping, 1, timeout) {
            Slept::UntilTheLimit
        } else {
            Slept::UntilWoken
        };
        self.inbox.wake_up();
        slept
    }
}
