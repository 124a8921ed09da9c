//! A mutex that its holder may take again, as often as it likes.
//!
//! The raw mutex knows its holder; how often that holds it is a count beside it, which belongs to
//! the holder.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::mutex::RawMutex;
use crate::sched::ResourceKind;
use crate::sched::clock::Instant;

static KIND: ResourceKind =
    ResourceKind::with_holder("to lock a reentrant mutex", RawMutex::holder_of);

/// A mutex that the fiber (or OS thread) that holds it may lock again; in the manner of std's
/// unstable `ReentrantLock`.
///
/// It becomes free when as many guards have been dropped as were taken. Since there may be several
/// guards at a time they give out shared references only: put a `Cell` or `RefCell` inside. There
/// is no poisoning, for the same reason.
///
/// ```
/// use std::cell::Cell;
/// use pirn::sync::ReentrantMutex;
///
/// fn count_down(depth: &ReentrantMutex<Cell<u32>>) {
///     let guard = depth.lock();
///     if guard.get() > 0 {
///         guard.set(guard.get() - 1);
///         count_down(depth);
///     }
/// }
///
/// pirn::run(|| count_down(&ReentrantMutex::new(Cell::new(3))));
/// ```
///
/// Others that want it get it in the order in which they came. What counts is who *takes* it: a
/// guard that was moved to another fiber of the same thread still belongs to the fiber that took
/// it.
#[repr(C)]
pub struct ReentrantMutex<T: ?Sized> {
    raw: RawMutex,
    /// How many guards there are. The holder's, which stays on its OS thread with all of them.
    count: Cell<usize>,
    value: T,
}

// SAFETY: the value may move to another OS thread with the mutex.
unsafe impl<T: ?Sized + Send> Send for ReentrantMutex<T> {}
// SAFETY: the guards that exist at a time are all on one OS thread: they were taken by one party,
// and are not Send. So the value, and the count, are used by one OS thread at a time, in an order
// that the raw mutex establishes.
unsafe impl<T: ?Sized + Send> Sync for ReentrantMutex<T> {}

impl<T: ?Sized + UnwindSafe> UnwindSafe for ReentrantMutex<T> {}
impl<T: ?Sized + RefUnwindSafe> RefUnwindSafe for ReentrantMutex<T> {}

impl<T> ReentrantMutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> ReentrantMutex<T> {
        ReentrantMutex { raw: RawMutex::new(&KIND), count: Cell::new(0), value }
    }

    /// The value, of a mutex that nobody can hold any more.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: ?Sized> ReentrantMutex<T> {
    /// Takes the mutex, again or for the first time; waits while another holds it.
    ///
    /// # Panics
    ///
    /// In a destructor while the caller is cancelled or its runtime ends, if it would have to wait.
    pub fn lock(&self) -> ReentrantMutexGuard<'_, T> {
        match self.lock_deadline(Instant::FAR_FUTURE) {
            Some(guard) => guard,
            None => super::called_off("a reentrant mutex"),
        }
    }

    /// Takes the mutex unless another holds it.
    pub fn try_lock(&self) -> Option<ReentrantMutexGuard<'_, T>> {
        (self.is_ours() || self.raw.try_lock()).then(|| self.guard())
    }

    /// Takes the mutex, waiting for it at most for this long. `None`: the time was up.
    pub fn lock_timeout(&self, duration: Duration) -> Option<ReentrantMutexGuard<'_, T>> {
        self.lock_deadline(Instant::now() + duration)
    }

    /// Takes the mutex, waiting for it at most until this instant. `None`: the time was up.
    pub fn lock_deadline(&self, deadline: Instant) -> Option<ReentrantMutexGuard<'_, T>> {
        (self.is_ours() || self.raw.lock(deadline)).then(|| self.guard())
    }

    /// The value, of a mutex that is not shared.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Whether the caller holds it. Nobody else can make that true or false.
    fn is_ours(&self) -> bool {
        self.raw.holder() == Some(self.raw.own_id())
    }

    /// A further guard of one that the caller holds.
    fn guard(&self) -> ReentrantMutexGuard<'_, T> {
        self.count.set(self.count.get().checked_add(1).expect("not so many guards fit in memory"));
        ReentrantMutexGuard { mutex: self, stays: PhantomData }
    }
}

/// Gives the mutex back when the last one is dropped. Stays on the OS thread that took it.
#[must_use = "if unused the mutex is given back at once"]
pub struct ReentrantMutexGuard<'a, T: ?Sized> {
    mutex: &'a ReentrantMutex<T>,
    /// Not `Send`.
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out shared references only.
unsafe impl<T: ?Sized + Sync> Sync for ReentrantMutexGuard<'_, T> {}

impl<T: ?Sized> Deref for ReentrantMutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.mutex.value
    }
}

impl<T: ?Sized> Drop for ReentrantMutexGuard<'_, T> {
    fn drop(&mut self) {
        let rest = self.mutex.count.get() - 1;
        self.mutex.count.set(rest);
        if rest == 0 {
            self.mutex.raw.unlock();
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for ReentrantMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ReentrantMutex");
        match self.try_lock() {
            Some(guard) => debug.field("data", &&*guard),
            None => debug.field("data", &format_args!("<locked>")),
        };
        debug.finish_non_exhaustive()
    }
}

impl<T: Default> Default for ReentrantMutex<T> {
    fn default() -> Self {
        ReentrantMutex::new(T::default())
    }
}

impl<T> From<T> for ReentrantMutex<T> {
    fn from(value: T) -> Self {
        ReentrantMutex::new(value)
    }
}
