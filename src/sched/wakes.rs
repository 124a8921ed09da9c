//! Wake-ups that are put off until the lock of a primitive has been given back.
//!
//! Whose wait ends is decided under the lock, by [claiming](super::word::Waiter::claim) it. What is
//! left to do then may be a system call: to wake an OS thread, or another carrier. Done under the
//! lock it would keep others spinning, and the woken one might run into the lock at once. A fiber of
//! the caller's own carrier is made runnable on the spot, which is a matter of nanoseconds.
//!
//! A claimed fiber cannot go on, and so stays alive, until it has been handed to its carrier. A
//! claimed OS thread may see the claim and be gone before it is woken: only its address is kept.

use std::mem::{self, MaybeUninit};
use std::task::Waker;

use super::party::Party;
use super::word::Waiter;

/// How many are put off; those beyond are woken under the lock.
const ROOM: usize = 8;

enum Wake {
    /// A thread that was blocked: an address only.
    Thread(*const Waiter),
    /// A task of another carrier that was parked.
    Task(*const Party),
    /// A future.
    Waker(Waker),
    /// More than there is room for, if wakers are among them: those are never called under a lock.
    More(Vec<Wake>),
}

impl Wake {
    fn perform(self) {
        match self {
            Wake::Thread(waiter) => Waiter::wake_blocked(waiter),
            // SAFETY: it was claimed while it was parked, and nobody has made it runnable yet.
            Wake::Task(task) => unsafe { (*task).send_home() },
            Wake::Waker(waker) => waker.wake(),
            Wake::More(wakes) => wakes.into_iter().for_each(Wake::perform),
        }
    }
}

/// Whom to wake when the lock is free again: made before it is taken, so that it is dropped after it
/// has been given back. See the [module documentation](self).
pub(crate) struct Wakes {
    /// The first `count` are there.
    put_off: [MaybeUninit<Wake>; ROOM],
    count: usize,
    unshared: bool,
}

impl Wakes {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Wakes { put_off: [const { MaybeUninit::uninit() }; ROOM], count: 0, unshared: false }
    }

    /// Says whether no thread but this one has ever held the lock under which waits are ended from now
    /// on. Those that were told to nobody but that lock's queue then [need no exchange] to be claimed: all
    /// others who end waits of this thread's tasks (timers, cancellations, the end) run on it too.
    ///
    /// [need no exchange]: super::word::Waiter::claim_here
    #[inline(always)]
    pub(crate) fn set_unshared(&mut self, unshared: bool) {
        self.unshared = unshared;
    }

    #[inline(always)]
    pub(crate) fn is_unshared(&self) -> bool {
        self.unshared
    }

    /// A thread whose blocked wait the caller has claimed.
    pub(super) fn add_thread(&mut self, waiter: *const Waiter) {
        self.add(Wake::Thread(waiter));
    }

    /// A task of another carrier whose parked wait the caller has claimed.
    pub(super) fn add_task(&mut self, task: &Party) {
        self.add(Wake::Task(task));
    }

    /// The waker of a future whose polled wait the caller has claimed.
    pub(super) fn add_waker(&mut self, waker: Waker) {
        self.add(Wake::Waker(waker));
    }

    #[cold]
    fn add(&mut self, wake: Wake) {
        match (self.put_off.get_mut(self.count), wake) {
            (Some(place), wake) => {
                place.write(wake);
                self.count += 1;
            }
            (None, wake @ Wake::Waker(_)) => self.add_more(wake),
            (None, wake) => wake.perform(),
        }
    }

    /// Puts it off although there is no room.
    #[cold]
    fn add_more(&mut self, wake: Wake) {
        // SAFETY: all places are taken.
        let last = unsafe { self.put_off[ROOM - 1].assume_init_mut() };
        match last {
            Wake::More(more) => more.push(wake),
            _ => {
                let before = mem::replace(last, Wake::More(Vec::new()));
                *last = Wake::More(vec![before, wake]);
            }
        }
    }

    #[cold]
    fn perform(&mut self) {
        for wake in &self.put_off[..self.count] {
            // SAFETY: the first `count` are there, and each is read once.
            unsafe { wake.assume_init_read() }.perform();
        }
    }
}

impl Drop for Wakes {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count > 0 {
            self.perform();
        }
    }
}
