//! A mutual exclusion lock whose owner is the fiber (or OS thread), with std's names and poisoning.
//!
//! One word says whether it is held and whether anybody waits; who holds it and who waits is under
//! the inner lock. Taking a free mutex is one exchange, giving back one that nobody waits for
//! another. With waiters the mutex is *handed over* to the first: it never becomes free in between,
//! so nobody overtakes those that wait.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::poison::Poison;
use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::carrier::{check_cancelled, current_party};
use crate::sched::clock::Instant;
use crate::sched::party::ThreadId;
use crate::sched::wait::Outcome;
use crate::sched::{Resource, ResourceKind};

const FREE: u8 = 0;
const HELD: u8 = 1;
/// Held, and somebody waits or is about to.
const CONTENDED: u8 = 2;

/// See [`std::sync::Mutex`]; this one blocks the fiber only.
///
/// ```
/// use pirn::sync::Mutex;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let total = Mutex::new(0);
///     thread::scope(|s| {
///         for n in 1..=4 {
///             let total = &total;
///             s.spawn(move || {
///                 let mut total = total.lock().unwrap();
///                 thread::yield_now(); // others wait, while this fiber holds it
///                 *total += n;
///             });
///         }
///     });
///     assert_eq!(total.into_inner().unwrap(), 10);
/// });
/// ```
///
/// Differences from std: waiters get the mutex in the order in which they came; there are
/// [`lock_timeout`](Self::lock_timeout) and [`lock_deadline`](Self::lock_deadline); locking it twice
/// is a deadlock that is reported, not a hang.
///
/// # Poisoning
///
/// As in std: a guard that is dropped while its holder panics poisons the mutex. An unwind that ends
/// a fiber because its runtime ends does not.
#[repr(C)]
pub struct Mutex<T: ?Sized> {
    resource: Resource,
    state: AtomicU8,
    poison: Poison,
    /// The holder, for reports; 0 while free. Written by the holder.
    holder: AtomicU64,
    queue: Spin<Waiters<()>>,
    value: UnsafeCell<T>,
}

// SAFETY: as std's: the mutex gives out the value to one party at a time, which may be on another
// OS thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

static KIND: ResourceKind = ResourceKind {
    wish: "to lock a mutex",
    holder: |resource| {
        // SAFETY: the resource is the first field of a `Mutex<T>`, and the fields up to the queue
        // lie at the same places whatever T is.
        let holder = unsafe { (*resource.cast::<Mutex<()>>()).holder.load(Ordering::Relaxed) };
        ThreadId::from_bits(holder)
    },
};

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            resource: Resource::new(&KIND),
            state: AtomicU8::new(FREE),
            poison: Poison::new(),
            holder: AtomicU64::new(0),
            queue: Spin::new(Waiters::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, of a mutex that nobody can hold any more.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned; the error holds the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison.get();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, or handed over, and takes it.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned; the error holds the guard.
    ///
    /// # Panics
    ///
    /// In a destructor while the runtime ends, if a fiber holds it that has not been unwound yet.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if !self.try_take() && !self.lock_slow(Instant::FAR_FUTURE) {
            super::called_off("a mutex");
        }
        self.guard()
    }

    /// Takes the mutex if it is free.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] when it is held; [`TryLockError::Poisoned`], with the guard, when
    /// it is poisoned.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.try_take() {
            self.guard().map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Waits for the mutex, at most for this long.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] when the time is up; [`TryLockError::Poisoned`], with the guard,
    /// when the mutex is poisoned.
    pub fn lock_timeout(&self, duration: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_deadline(Instant::now() + duration)
    }

    /// Waits for the mutex, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`lock_timeout`](Self::lock_timeout).
    pub fn lock_deadline(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        if self.try_take() || self.lock_slow(deadline) {
            self.guard().map_err(TryLockError::Poisoned)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// The value, of a mutex that is not shared.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned; the error holds the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.poison.get();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// Whether a holder panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Takes the poison away.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    #[inline]
    fn try_take(&self) -> bool {
        // Acquire: what the last holder did is visible.
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        // Relaxed: read by reports only.
        self.holder.store(current_party().id.to_bits(), Ordering::Relaxed);
        let guard = MutexGuard { mutex: self, panicking: std::thread::panicking() };
        if self.poison.get() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Queues up. False: the deadline passed first. Unwinds if the wait is called off.
    #[cold]
    fn lock_slow(&self, deadline: Instant) -> bool {
        self.resource.touch();
        let mut queue = self.queue.lock();
        // Acquire: as in `try_take`. Under the inner lock nobody else sets CONTENDED or hands over.
        if self.state.swap(CONTENDED, Ordering::Acquire) == FREE {
            // It was given back meanwhile. If others wait, CONTENDED is right; if not, giving it
            // back takes the long way once.
            return true;
        }
        let record = pin!(Record::begin(None, 0));
        queue.push(record.as_ref());
        drop(queue);
        let outcome = waiters::wait(record.as_ref(), &self.resource, deadline, |unlink| {
            unlink(&mut self.queue.lock());
        });
        check_cancelled(outcome);
        // Handed over: the state has stayed CONTENDED.
        outcome == Outcome::Notified
    }

    /// Gives the mutex back. By the holder.
    #[inline]
    fn release(&self) {
        self.holder.store(0, Ordering::Relaxed);
        // Release: what we did is visible to the next holder.
        if self.state.compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_slow();
        }
    }

    #[cold]
    fn release_slow(&self) {
        let mut queue = self.queue.lock();
        // The inner lock orders what we did before what the next holder does.
        if !queue.notify_one(|_| {}, |_| {}) {
            self.state.store(FREE, Ordering::Release);
        }
    }
}

/// Gives the mutex back when dropped. As in std it stays on the OS thread that took it.
#[must_use = "if unused the mutex is given back at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Whether the holder was panicking already when it took the mutex.
    panicking: bool,
}

// SAFETY: a shared guard gives out shared references only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that this guard holds.
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is held by this guard.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held by this guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.mutex.poison.set();
        }
        self.mutex.release();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => debug.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("data", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.poison.get()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}
