//! The lock inside a primitive: a handful of instructions long, never held over a wait or user code.
//!
//! A lock is used by one carrier alone, most of the time. It *favours* the first carrier that takes
//! it, which then takes it and gives it back with plain stores:
//!
//! ```text
//!   FRESH ── first taken by a carrier ──► favours its thread
//!     │                                          │ taken by another thread
//!     └── by another thread ──► SHARED ◄── PASSING
//! ```
//!
//! A favoured thread says that it is `busy`, and then looks whether it still is favoured. Whoever
//! comes from another thread first says that the lock is PASSING, and then looks whether the favoured
//! one is busy; between the two lie [asymmetric fences](crate::sched::bias), so at least one of them
//! sees the other. When the favoured one is not busy, or no longer, the lock is SHARED, and remains
//! so: it is taken by an exchange of `taken` from then on. Until then nobody else gets in, so at most
//! one of `busy` and `taken` stands for a holder.
//!
//! Whoever finds the lock taken spins a little and then yields its OS thread: the holder is on
//! another one, and may have been preempted there.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::sched::atomic::{AtomicBool, AtomicU32, Ordering, back_off, const_unless_modelled};
use crate::sched::bias::{self, heavy_fence, light_fence};

/// Nobody has taken it yet.
const FRESH: u32 = bias::NOBODY;
/// It favours nobody.
const SHARED: u32 = u32::MAX;
/// Its favoured thread is losing it.
const PASSING: u32 = u32::MAX - 1;

/// Protects the state of a primitive.
#[derive(Debug)]
pub(crate) struct Spin<T> {
    /// FRESH, PASSING, SHARED, or the token of the thread that it favours.
    favours: AtomicU32,
    /// Whether the favoured thread holds it, or is about to look whether it may.
    busy: AtomicBool,
    /// Whether another thread holds it.
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives out the value to one thread at a time.
unsafe impl<T: Send> Send for Spin<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T: Default> Default for Spin<T> {
    fn default() -> Self {
        Spin::new(T::default())
    }
}

impl<T> Spin<T> {
    const_unless_modelled! {
        /// A free one, which nobody has taken yet.
        pub(crate) fn new(value: T) -> Self {
            Spin {
                favours: AtomicU32::new(FRESH),
                busy: AtomicBool::new(false),
                taken: AtomicBool::new(false),
                value: UnsafeCell::new(value),
            }
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        let token = bias::token();
        // Relaxed: our own token stands here only by our own doing.
        let favours = self.favours.load(Ordering::Relaxed);
        if favours == token && token != FRESH && self.enter(token).is_ok() {
            return SpinGuard { lock: self, favoured: true };
        }
        SpinGuard { lock: self, favoured: self.lock_slow(token) }
    }

    /// By the favoured thread; an error says what stands there instead, if it is not that any more.
    #[inline(always)]
    fn enter(&self, token: u32) -> Result<(), u32> {
        // Relaxed, both: ordered by the fences, and nobody has written to the value but we.
        self.busy.store(true, Ordering::Relaxed);
        light_fence();
        if self.favours.load(Ordering::Relaxed) == token {
            return Ok(());
        }
        // Release: stands for the last time that we gave it back.
        self.busy.store(false, Ordering::Release);
        // Acquire: as in `lock_slow`.
        Err(self.favours.load(Ordering::Acquire))
    }

    /// True: by the favoured thread.
    #[inline(never)]
    fn lock_slow(&self, token: u32) -> bool {
        let mut spins = 0;
        // Acquire, here and below: after SHARED, what was done by the thread that was favoured is
        // visible.
        let mut seen = self.favours.load(Ordering::Acquire);
        loop {
            seen = match seen {
                SHARED => {
                    self.lock_shared();
                    return false;
                }
                FRESH => {
                    let worth = token != FRESH && bias::is_worth_while();
                    let next = if worth { token } else { SHARED };
                    self.change(FRESH, next).map_or_else(|now| now, |()| next)
                }
                PASSING => {
                    back_off(&mut spins);
                    self.favours.load(Ordering::Acquire)
                }
                favoured if favoured == token => match self.enter(token) {
                    Ok(()) => return true,
                    Err(now) => now,
                },
                favoured => match self.change(favoured, PASSING) {
                    Ok(()) => {
                        self.pass_on();
                        SHARED
                    }
                    Err(now) => now,
                },
            };
        }
    }

    /// An error says what stands there instead.
    fn change(&self, from: u32, to: u32) -> Result<(), u32> {
        // Relaxed: what is protected was handed around by other means so far, or is after SHARED.
        self.favours.compare_exchange(from, to, Ordering::Relaxed, Ordering::Acquire).map(drop)
    }

    /// By whoever has made it PASSING: waits for the favoured thread to leave.
    #[cold]
    fn pass_on(&self) {
        heavy_fence();
        let mut spins = 0;
        // Acquire: pairs with the release in the guard's drop.
        while self.busy.load(Ordering::Acquire) {
            back_off(&mut spins);
        }
        // Release: passes that on to all others.
        self.favours.store(SHARED, Ordering::Release);
    }

    #[inline]
    fn lock_shared(&self) {
        let mut spins = 0;
        // Acquire: pairs with the release in the guard's drop. The weak form of the exchange, since it
        // is repeated anyway; and not `swap`, so that those who fail write nothing.
        let take =
            || self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed);
        while take().is_err() {
            back_off(&mut spins);
        }
    }

    /// The value, for whoever holds the lock.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.value.get()
    }

    /// Gives back a lock whose guard was forgotten.
    ///
    /// # Safety
    ///
    /// By its holder, who refers to the value no more.
    pub(crate) unsafe fn unlock(&self) {
        // Relaxed: if we have set it we see it; and nobody else does as long as we hold the lock.
        let favoured = !self.taken.load(Ordering::Relaxed);
        drop(SpinGuard { lock: self, favoured });
    }
}

/// Gives the lock back when dropped.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a Spin<T>,
    /// Whether it is held by the favoured thread.
    favoured: bool,
}

impl<T> SpinGuard<'_, T> {
    /// Whether no other thread has ever held the lock.
    #[inline(always)]
    pub(crate) fn is_unshared(&self) -> bool {
        self.favoured
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is held by us.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let held = if self.favoured { &self.lock.busy } else { &self.lock.taken };
        // Release: what was done under the lock is visible to the next holder.
        held.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    fn add(lock: &Spin<u64>, times: u64) {
        (0..times).for_each(|_| *lock.lock() += 1);
    }

    #[test]
    fn a_lock_stays_with_the_thread_that_it_favours_until_another_one_comes() {
        let lock = Spin::new(0);
        thread::scope(|s| {
            s.spawn(|| {
                bias::admit_thread();
                add(&lock, 3);
                let worth = bias::token() != bias::NOBODY && bias::is_worth_while();
                assert_eq!(lock.lock().favoured, worth);
            });
        });
        let lock = Spin::new(0);
        add(&lock, 1);
        assert_eq!(lock.favours.load(Ordering::Relaxed), SHARED, "this is no carrier's thread");
    }

    #[test]
    fn every_turn_counts_however_the_lock_passes_between_threads() {
        // More often than anybody is favoured.
        for round in 0..100 {
            let (lock, start) = (Spin::new(0), Barrier::new(3));
            let (lock, start) = (&lock, &start);
            thread::scope(|s| {
                for thread in 0..3 {
                    s.spawn(move || {
                        if thread < 2 {
                            bias::admit_thread();
                        }
                        // One is favoured already, or all three come at once.
                        if thread == 0 && round % 2 == 0 {
                            add(lock, 10);
                        }
                        start.wait();
                        add(lock, 300);
                    });
                }
            });
            assert_eq!(*lock.lock(), 900 + if round % 2 == 0 { 10 } else { 0 });
        }
    }

    #[test]
    fn a_lock_whose_guard_was_forgotten_is_given_back() {
        let lock = Spin::new(0);
        for favoured in [true, false] {
            thread::scope(|s| {
                s.spawn(|| {
                    if favoured {
                        bias::admit_thread();
                    }
                    std::mem::forget(lock.lock());
                    // SAFETY: held by this thread.
                    unsafe { *lock.as_ptr() += 1 };
                    // SAFETY: as above.
                    unsafe { lock.unlock() };
                });
            });
        }
        assert_eq!(*lock.lock(), 2);
    }
}
