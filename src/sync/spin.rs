//! The lock inside a primitive: a handful of instructions long, never held over a wait or user code.
//!
//! Taking it is one exchange, giving it back one store. Whoever finds it taken spins a little and
//! then yields its OS thread: the holder is on another one, and may have been preempted there.

use std::cell::UnsafeCell;
use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Protects the state of a primitive.
#[derive(Debug, Default)]
pub(crate) struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives out the value to one thread at a time.
unsafe impl<T: Send> Send for Spin<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Spin<T> {}

/// Spins before the first yield.
const SPINS: u32 = 64;

impl<T> Spin<T> {
    pub(crate) const fn new(value: T) -> Self {
        Spin { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        // Acquire: pairs with the release in the guard's drop.
        if self.taken.swap(true, Ordering::Acquire) {
            self.lock_contended();
        }
        SpinGuard { lock: self }
    }

    #[cold]
    fn lock_contended(&self) {
        let mut spins = 0;
        loop {
            // Relaxed: only a look; the swap acquires.
            while self.taken.load(Ordering::Relaxed) {
                spins += 1;
                if spins < SPINS {
                    hint::spin_loop();
                } else {
                    thread::yield_now();
                }
            }
            if !self.taken.swap(true, Ordering::Acquire) {
                return;
            }
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
        drop(SpinGuard { lock: self });
    }
}

/// Gives the lock back when dropped.
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a Spin<T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is taken by us.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was done under the lock is visible to the next holder.
        self.lock.taken.store(false, Ordering::Release);
    }
}
