//! A lock that many may hold for reading, or one for writing, with std's names and poisoning.
//!
//! All state is under the inner lock, so taking it and giving it back are one exchange each. The
//! rules:
//!
//! * Whoever comes while somebody waits queues up behind: a stream of readers cannot keep a writer
//!   out. The queue is served strictly in its order; consecutive readers get in together.
//! * [`State::admit`] lets in, from the head of the queue, all that fit. It runs whenever the lock
//!   gets freer *or the head of the queue changes*: a writer that gives up lets the readers behind it
//!   join those that read already. So at rest the head of the queue does not fit.
//! * Whoever is let in holds the lock from then on; it never becomes free in between.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::poison::Poison;
use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::party::ThreadId;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};

/// What a waiter wants; the `kind` of its record.
const READ: usize = 0;
const WRITE: usize = 1;

/// See [`std::sync::RwLock`]; this one blocks the fiber only.
///
/// ```
/// use pirn::sync::RwLock;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let table = RwLock::new(vec![1, 2, 3]);
///     thread::scope(|s| {
///         s.spawn(|| table.write().unwrap().push(4));
///         s.spawn(|| {
///             let (one, two) = (table.read().unwrap(), table.read().unwrap());
///             assert_eq!(one.len(), two.len());
///         });
///     });
///     assert_eq!(table.into_inner().unwrap(), [1, 2, 3, 4]);
/// });
/// ```
///
/// # Order
///
/// First come, first served, where readers that come one after the other get in together. A reader
/// that comes while a writer waits queues up behind it, so a fiber that takes the lock for reading
/// twice, with a writer in between, waits for ever: a deadlock, which is reported.
///
/// # Poisoning
///
/// As in std: a *write* guard that is dropped while its holder panics poisons the lock. An unwind
/// that ends a fiber because its runtime ends does not.
#[repr(C)]
pub struct RwLock<T: ?Sized> {
    resource: Resource,
    state: Spin<State>,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: as std's: the value may move to another OS thread with the lock.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as std's: a shared lock gives out shared references to several OS threads at a time, and
// exclusive ones to one.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

/// Who holds the lock, and who waits.
struct State {
    readers: usize,
    writing: bool,
    /// The exclusive or of the holders' ids: with a single one, its id.
    holders: u64,
    /// Each waiter brings its id.
    queue: Waiters<ThreadId>,
}

impl State {
    /// Whether the lock can be held like this in addition.
    fn fits(&self, kind: usize) -> bool {
        !self.writing && (kind == READ || self.readers == 0)
    }

    fn enter(&mut self, kind: usize, id: ThreadId) {
        if kind == READ {
            self.readers += 1;
        } else {
            self.writing = true;
        }
        self.holders ^= id.to_bits();
    }

    fn leave(&mut self, kind: usize, id: ThreadId) {
        if kind == READ {
            self.readers -= 1;
        } else {
            self.writing = false;
        }
        self.holders ^= id.to_bits();
    }

    /// Lets in whoever fits, from the head of the queue.
    fn admit(&mut self, wakes: &mut Wakes) {
        while let Some(kind) = self.queue.peek().map(|record| record.kind).filter(|&k| self.fits(k))
        {
            let mut id = None;
            let woken = self.queue.notify_first(|record| id = record.value.take(), wakes);
            // It cannot do anything about it before we give the inner lock back.
            if woken == Some(true) {
                self.enter(kind, id.expect("a waiter brings its id"));
            }
        }
    }
}

static KIND: ResourceKind = ResourceKind::with_holder("to lock a read-write lock", |resource| {
    // SAFETY: the resource is the first field of an `RwLock<T>`, and the state lies at the same
    // place whatever T is.
    let state = unsafe { (*resource.cast::<RwLock<()>>()).state.lock() };
    if state.writing || state.readers == 1 { ThreadId::from_bits(state.holders) } else { None }
});

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> RwLock<T> {
        let queue = Waiters::new();
        RwLock {
            resource: Resource::new(&KIND),
            state: Spin::new(State { readers: 0, writing: false, holders: 0, queue }),
            poison: Poison::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, of a lock that nobody can hold any more.
    ///
    /// # Errors
    ///
    /// When the lock is poisoned; the error holds the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison.get();
        result(poisoned, self.value.into_inner())
    }
}

/// What was locked, or what is not shared, with the poison made known.
fn result<G>(poisoned: bool, got: G) -> LockResult<G> {
    if poisoned { Err(PoisonError::new(got)) } else { Ok(got) }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until the lock can be had for reading, and takes it.
    ///
    /// # Errors
    ///
    /// When the lock is poisoned; the error holds the guard.
    ///
    /// # Panics
    ///
    /// In a destructor while the caller is cancelled or its runtime ends, if it would have to wait.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        match self.enter(READ, Instant::FAR_FUTURE) {
            Some(id) => self.read_guard(id),
            None => super::called_off("a read-write lock"),
        }
    }

    /// Takes the lock for reading if nobody writes, or waits.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] when it cannot be had now; [`TryLockError::Poisoned`], with the
    /// guard, when it is poisoned.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let id = self.try_enter(READ).ok_or(TryLockError::WouldBlock)?;
        Ok(self.read_guard(id)?)
    }

    /// Waits for the lock, for reading, at most for this long.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] when the time is up; [`TryLockError::Poisoned`], with the
    /// guard, when the lock is poisoned.
    pub fn read_timeout(&self, duration: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.read_deadline(Instant::now() + duration)
    }

    /// Waits for the lock, for reading, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`read_timeout`](Self::read_timeout).
    pub fn read_deadline(&self, deadline: Instant) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let id = self.enter(READ, deadline).ok_or(TryLockError::WouldBlock)?;
        Ok(self.read_guard(id)?)
    }

    /// Waits until the lock can be had for writing, and takes it.
    ///
    /// # Errors
    ///
    /// When the lock is poisoned; the error holds the guard.
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read) does.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        match self.enter(WRITE, Instant::FAR_FUTURE) {
            Some(id) => self.write_guard(id),
            None => super::called_off("a read-write lock"),
        }
    }

    /// Takes the lock for writing if nobody holds it.
    ///
    /// # Errors
    ///
    /// As for [`try_read`](Self::try_read).
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let id = self.try_enter(WRITE).ok_or(TryLockError::WouldBlock)?;
        Ok(self.write_guard(id)?)
    }

    /// Waits for the lock, for writing, at most for this long. When the time is up, readers that
    /// queue behind are let in at once if others read.
    ///
    /// # Errors
    ///
    /// As for [`read_timeout`](Self::read_timeout).
    pub fn write_timeout(&self, duration: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.write_deadline(Instant::now() + duration)
    }

    /// Waits for the lock, for writing, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`read_timeout`](Self::read_timeout).
    pub fn write_deadline(&self, deadline: Instant) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let id = self.enter(WRITE, deadline).ok_or(TryLockError::WouldBlock)?;
        Ok(self.write_guard(id)?)
    }

    /// The value, of a lock that is not shared.
    ///
    /// # Errors
    ///
    /// When the lock is poisoned; the error holds the reference.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.poison.get();
        result(poisoned, self.value.get_mut())
    }

    /// Whether a writer panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Takes the poison away.
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    #[inline]
    fn read_guard(&self, id: ThreadId) -> LockResult<RwLockReadGuard<'_, T>> {
        let guard = RwLockReadGuard { lock: self, id, stays: PhantomData };
        result(self.poison.get(), guard)
    }

    #[inline]
    fn write_guard(&self, id: ThreadId) -> LockResult<RwLockWriteGuard<'_, T>> {
        let panicking = std::thread::panicking();
        let guard = RwLockWriteGuard { lock: self, id, panicking, stays: PhantomData };
        result(self.poison.get(), guard)
    }

    /// Takes the lock if that is possible at once; returns by whose id.
    #[inline]
    fn try_enter(&self, kind: usize) -> Option<ThreadId> {
        let id = current_party().id;
        let mut state = self.state.lock();
        let free = state.queue.is_empty() && state.fits(kind);
        free.then(|| {
            state.enter(kind, id);
            id
        })
    }

    /// Takes the lock, waiting for it if need be. `None`: it was not to be had in time. Unwinds if
    /// the wait is called off, and it can.
    #[inline]
    fn enter(&self, kind: usize, deadline: Instant) -> Option<ThreadId> {
        match self.try_enter(kind) {
            Some(id) => Some(id),
            None => self.enter_slow(kind, deadline),
        }
    }

    #[cold]
    fn enter_slow(&self, kind: usize, deadline: Instant) -> Option<ThreadId> {
        let id = current_party().id;
        let mut state = self.state.lock();
        if state.queue.is_empty() && state.fits(kind) {
            state.enter(kind, id);
            return Some(id);
        }
        let record = pin!(Record::begin(Some(id), kind));
        state.queue.push(record.as_ref());
        drop(state);
        let outcome = waiters::wait(record.as_ref(), &self.resource, deadline, |unlink| {
            let mut wakes = Wakes::new();
            let mut state = self.state.lock();
            unlink(&mut state.queue);
            // It may have stood in the way of those behind it.
            state.admit(&mut wakes);
        });
        check_cancelled(outcome);
        (outcome == Outcome::Notified).then_some(id)
    }

    #[inline]
    fn leave(&self, kind: usize, id: ThreadId) {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        state.leave(kind, id);
        state.admit(&mut wakes);
    }
}

/// Gives the lock back when dropped. As in std it stays on the OS thread that took it.
#[must_use = "if unused the lock is given back at once"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Who took it.
    id: ThreadId,
    /// Not `Send`.
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out shared references only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

/// Gives the lock back when dropped. As in std it stays on the OS thread that took it.
#[must_use = "if unused the lock is given back at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Who took it.
    id: ThreadId,
    /// Whether the holder was panicking already when it took the lock.
    panicking: bool,
    /// Not `Send`.
    stays: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out shared references only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on with the lock held for reading; nobody writes in between. Readers at the head of the
    /// queue are let in.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let RwLockWriteGuard { lock, id, .. } = *std::mem::ManuallyDrop::new(guard);
        let mut wakes = Wakes::new();
        let mut state = lock.state.lock();
        state.leave(WRITE, id);
        state.enter(READ, id);
        state.admit(&mut wakes);
        drop(state);
        RwLockReadGuard { lock, id, stays: PhantomData }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held for reading by this guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held for writing by this guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held for writing by this guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave(READ, self.id);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.lock.poison.set();
        }
        self.lock.leave(WRITE, self.id);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => debug.field("data", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("data", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("data", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.poison.get()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        RwLock::new(value)
    }
}
