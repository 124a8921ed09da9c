//! How other threads reach a carrier: a list of tasks to run, and a way to wake it.
//!
//! The list is a Treiber stack of tasks, linked through the tasks themselves (a task is woken once
//! at a time); the carrier takes the whole list with one exchange and turns it round, which makes it
//! first in, first out.
//!
//! No lost wake-up: the sender publishes its task and then looks whether the carrier sleeps; the
//! carrier declares that it sleeps and then looks at the list. Both with sequentially consistent
//! accesses, so one of the two sees the other.
//!
//! Mailboxes are never freed, but reused by later runtimes: a sender that has just handed over the
//! task that a runtime was waiting for may still look at `sleeping` when that runtime is gone. The
//! worst that can happen then is that a carrier wakes for nothing.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fork;
use super::party::PartyRef;
use super::task::Task;
use super::wait::{futex_wait, futex_wake};

/// See the [module documentation](self).
#[repr(align(64))]
pub(crate) struct Mailbox {
    /// The newest task handed over; the lowest bit is set while there are `cancels`.
    head: AtomicPtr<Task>,
    /// Tasks that other threads have cancelled.
    cancels: Mutex<Vec<PartyRef>>,
    /// 1 while the carrier sleeps, or is about to.
    sleeping: AtomicU32,
    /// The process that it was claimed in; see [`fork`].
    generation: AtomicU32,
}

/// Marks the head while there are tasks to cancel.
const CANCELS: usize = 1;

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
                head: AtomicPtr::new(ptr::null_mut()),
                cancels: Mutex::new(Vec::new()),
                sleeping: AtomicU32::new(0),
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
        // has just made the task.
        let link = unsafe { &(*task).mail_link };
        self.change_head(|head| {
            // Relaxed: published by the exchange.
            link.store(head.map_addr(|address| address & !CANCELS), Ordering::Relaxed);
            task.cast_mut().map_addr(|address| address | head.addr() & CANCELS)
        });
        self.wake();
    }

    /// Asks the carrier to cancel a task of its own, and wakes it if it sleeps.
    pub(crate) fn send_cancel(&self, task: PartyRef) {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        self.change_head(|head| head.map_addr(|address| address | CANCELS));
        self.wake();
    }

    fn change_head(&self, change: impl Fn(*mut Task) -> *mut Task) {
        let mut head = self.head.load(Ordering::Relaxed);
        // SeqCst: before the look at `sleeping`; includes the release of what we did so far.
        while let Err(now) =
            self.head.compare_exchange_weak(head, change(head), Ordering::SeqCst, Ordering::Relaxed)
        {
            head = now;
        }
    }

    /// Wakes the carrier if it sleeps.
    pub(crate) fn wake(&self) {
        if self.sleeping.load(Ordering::SeqCst) == 1
            && self.sleeping.swap(0, Ordering::Relaxed) == 1
        {
            futex_wake(&raw const self.sleeping);
        }
    }

    /// Whether nothing has been handed over.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a stale answer is corrected by the next look, or by the look before sleeping.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all tasks to run, the earliest first, and returns those to cancel.
    pub(crate) fn take(&self, mut each: impl FnMut(*const Task)) -> Vec<PartyRef> {
        // Acquire: what the senders did before is visible to the tasks.
        let head = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut newest = head.map_addr(|address| address & !CANCELS);
        let mut earliest: *mut Task = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the list is ours now; tasks in it are alive, for they have yet to run.
            unsafe {
                let next = (*newest).mail_link.load(Ordering::Relaxed);
                (*newest).mail_link.store(earliest, Ordering::Relaxed);
                earliest = newest;
                newest = next;
            }
        }
        while !earliest.is_null() {
            // SAFETY: as above; the link is read before the task may run.
            let next = unsafe { (*earliest).mail_link.load(Ordering::Relaxed) };
            each(earliest);
            earliest = next;
        }
        if head.addr() & CANCELS == 0 {
            return Vec::new();
        }
        std::mem::take(&mut self.cancels.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sleeps until something is handed over, at most for `timeout`. May return early.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.sleeping.store(1, Ordering::SeqCst);
        // SeqCst: after the declaration; pairs with `send`.
        if self.head.load(Ordering::SeqCst).is_null() {
            futex_wait(&raw const self.sleeping, 1, timeout);
        }
        self.sleeping.store(0, Ordering::Relaxed);
    }
}
