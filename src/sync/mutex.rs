//! A mutual exclusion lock whose owner is the fiber (or OS thread), with std's names and poisoning.
//!
//! [`RawMutex`] is the lock proper, [`Mutex`] adds the value and the poison. Who holds it and who
//! waits is under the inner lock, so taking it and giving it back are one exchange each, and none
//! while a single carrier uses it: see [`Spin`]. With waiters the mutex is *handed over* to the
//! first: it never becomes free in between, so nobody overtakes those that wait.
//!
//! What an uncontended lock and unlock touch lies together, before the poison and the value: that is
//! one cache line, like as not.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::task::Poll;
use std::time::Duration;

use super::poison::Poison;
use super::spin::{Spin, SpinGuard};
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::{Carrier, current_party};
use crate::sched::clock::Instant;
use crate::sched::party::ThreadId;
use crate::sched::registration::Pollable;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};
use crate::task::Context;

const FREE: u64 = 0;

/// The lock without a value.
#[repr(C)]
pub(super) struct RawMutex {
    resource: Resource,
    /// Each waiter brings its id, for whoever hands over to it.
    queue: Spin<Waiters<ThreadId>>,
    /// The holder's id, or FREE: then nobody waits. Written under the lock of the queue; anybody may
    /// read it, for a report, and the holder, to know itself.
    holder: AtomicU64,
}

thread_local! {
    /// The id of this OS thread, which is nearer at hand here than in its party.
    static OWN_ID: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

#[cold]
fn learn_own_id() -> ThreadId {
    let id = current_party().id;
    OWN_ID.set(Some(id));
    id
}

impl RawMutex {
    /// A free one, whose kind must say that its holder is [`RawMutex::holder_of`].
    pub(super) const fn new(kind: &'static ResourceKind) -> Self {
        RawMutex {
            resource: Resource::new(kind),
            queue: Spin::new(Waiters::new()),
            holder: AtomicU64::new(FREE),
        }
    }

    /// Who holds it now.
    pub(super) fn holder(&self) -> Option<ThreadId> {
        // Relaxed: for reports; and whoever holds it wrote the word itself, or was handed it.
        ThreadId::from_bits(self.holder.load(Ordering::Relaxed))
    }

    /// [`holder`](Self::holder), for a [`ResourceKind`].
    ///
    /// # Safety
    ///
    /// The resource must be the first field of a living `RawMutex`.
    pub(super) unsafe fn holder_of(resource: *const Resource) -> Option<ThreadId> {
        // SAFETY: by the contract.
        unsafe { (*resource.cast::<RawMutex>()).holder() }
    }

    /// The caller's id.
    #[inline(always)]
    pub(super) fn own_id(&self) -> ThreadId {
        match Carrier::current().and_then(Carrier::current_task) {
            Some(task) => task.party.id,
            None => OWN_ID.get().unwrap_or_else(learn_own_id),
        }
    }

    /// Takes it if it is free.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        let id = self.own_id();
        let _queue = self.queue.lock();
        self.take(id)
    }

    /// Takes it if it is free. Under the lock of the queue, which orders it.
    #[inline(always)]
    fn take(&self, id: ThreadId) -> bool {
        let free = self.holder.load(Ordering::Relaxed) == FREE;
        if free {
            self.holder.store(id.to_bits(), Ordering::Relaxed);
        }
        free
    }

    /// Queues up unless it is free. The error says why the caller does not hold it.
    #[cold]
    fn wait(&self, deadline: Instant) -> Result<(), Outcome> {
        let id = self.own_id();
        let mut queue = self.queue.lock();
        if self.take(id) {
            return Ok(());
        }
        let record = pin!(Record::begin(Some(id), 0));
        queue.push(record.as_ref());
        drop(queue);
        let outcome = waiters::wait(record.as_ref(), &self.resource, deadline, |unlink| {
            unlink(&mut self.queue.lock());
        });
        if outcome == Outcome::Notified { Ok(()) } else { Err(outcome) }
    }

    /// One poll of a resumable, whose share in the mutex `share` makes. Ready: it holds the mutex.
    pub(super) fn poll_lock<P: Pollable<Item = ThreadId>>(
        &self,
        cx: &mut Context<'_>,
        share: impl FnOnce() -> P,
    ) -> Poll<()> {
        let id = cx.party().id;
        let earlier = cx.find::<P>(self.resource());
        let mut queue = self.queue.lock();
        if earlier.as_ref().is_some_and(|ours| ours.record().is_chosen()) || self.take(id) {
            if let Some(registration) = earlier {
                queue.withdraw(&registration.record());
                cx.settle(registration);
            }
            return Poll::Ready(());
        }
        let registration = earlier.unwrap_or_else(|| cx.register(share(), None, 0));
        registration.record().value.set(Some(id));
        queue.arm(registration.record(), cx.epoch());
        Poll::Pending
    }

    /// Takes the record of a poll out. A mutex that was handed over by it is given back.
    pub(super) fn withdraw(&self, record: &Record<ThreadId>) {
        if self.queue.lock().withdraw(record) {
            self.unlock();
        }
    }

    /// What whoever locks waits for.
    pub(super) fn resource(&self) -> *const Resource {
        &raw const self.resource
    }

    /// Takes it, waiting for it if need be. False: the wait was called off, or the time was up.
    /// Unwinds if the wait is called off and it can.
    #[inline]
    pub(super) fn lock(&self, deadline: Instant) -> bool {
        self.try_lock() || self.lock_slow(deadline)
    }

    #[cold]
    fn lock_slow(&self, deadline: Instant) -> bool {
        self.wait(deadline).map_err(check_cancelled).is_ok()
    }

    /// [`lock`](Self::lock) without a deadline, that never unwinds.
    fn lock_again(&self) -> bool {
        self.try_lock() || self.wait(Instant::FAR_FUTURE).is_ok()
    }

    /// Gives it back. By the holder, or whoever acts for it.
    #[inline]
    pub(super) fn unlock(&self) {
        let queue = self.queue.lock();
        if queue.is_empty() {
            self.holder.store(FREE, Ordering::Relaxed);
        } else {
            self.hand_over(queue);
        }
    }

    #[cold]
    fn hand_over(&self, mut queue: SpinGuard<'_, Waiters<ThreadId>>) {
        let mut wakes = Wakes::new();
        // The next holder is that before it can run; and nobody is when all waiters are leaving.
        self.holder.store(FREE, Ordering::Relaxed);
        let hand_over = |record: &Record<ThreadId>| {
            let next = record.value.take().expect("a waiter brings its id");
            self.holder.store(next.to_bits(), Ordering::Relaxed);
        };
        let take_back = |_: &Record<ThreadId>| self.holder.store(FREE, Ordering::Relaxed);
        queue.notify_one(hand_over, take_back, &mut wakes);
        // Before the wakes, which may take a system call.
        drop(queue);
    }
}

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
/// [`lock_timeout`](Self::lock_timeout) and [`lock_deadline`](Self::lock_deadline); locking it
/// twice is a deadlock that is reported, not a hang.
///
/// # Poisoning
///
/// As in std: a guard that is dropped while its holder panics poisons the mutex. An unwind that
/// ends a fiber because its runtime ends does not.
#[repr(C)]
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: as std's: the mutex gives out the value to one party at a time, which may be on another
// OS thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

static KIND: ResourceKind = ResourceKind::with_holder("to lock a mutex", RawMutex::holder_of);

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(&KIND), poison: Poison::new(), value: UnsafeCell::new(value) }
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
        if self.raw.try_lock() { self.guard() } else { self.lock_slow() }
    }

    /// Apart, so that the way past it is straight.
    #[cold]
    fn lock_slow(&self) -> LockResult<MutexGuard<'_, T>> {
        if !self.raw.lock_slow(Instant::FAR_FUTURE) {
            super::called_off("a mutex");
        }
        self.guard()
    }

    /// Takes the mutex if it is free.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] when it is held; [`TryLockError::Poisoned`], with the guard,
    /// when it is poisoned.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if !self.raw.try_lock() {
            return Err(TryLockError::WouldBlock);
        }
        self.guard().map_err(TryLockError::Poisoned)
    }

    /// Waits for the mutex, at most for this long.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] when the time is up; [`TryLockError::Poisoned`], with the
    /// guard, when the mutex is poisoned.
    pub fn lock_timeout(&self, duration: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        self.lock_deadline(Instant::now() + duration)
    }

    /// Waits for the mutex, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`lock_timeout`](Self::lock_timeout).
    pub fn lock_deadline(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        if !self.raw.lock(deadline) {
            return Err(TryLockError::WouldBlock);
        }
        self.guard().map_err(TryLockError::Poisoned)
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

    /// The guard of one that the caller has just come to hold.
    #[inline]
    pub(super) fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let panicking = std::thread::panicking();
        let guard = MutexGuard { mutex: self, panicking, stays: PhantomData };
        if self.poison.get() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    pub(super) fn raw(&self) -> &RawMutex {
        &self.raw
    }

    /// Takes the mutex again after the wait of a condition variable, which gave it back. `None`:
    /// the wait was called off. Never unwinds.
    pub(super) fn lock_again(&self) -> Option<LockResult<MutexGuard<'_, T>>> {
        self.raw.lock_again().then(|| self.guard())
    }
}

/// Gives the mutex back when dropped. As in std it stays on the OS thread that took it.
#[must_use = "if unused the mutex is given back at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Whether the holder was panicking already when it took the mutex.
    panicking: bool,
    /// Not `Send`.
    stays: PhantomData<*const ()>,
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
        self.mutex.raw.unlock();
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
