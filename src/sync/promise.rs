//! A value that somebody promises and many may wait for.
//!
//! Promise and futures share one record. It is settled once, under the inner lock, with a value or
//! an error, which from then on is only shared, and can be seen without the lock. Whoever waits is
//! in one of two lists under the lock: parties that block, and the wakers of those that poll. User
//! code (a waker, the destructor of a value or waker) runs outside.

use std::cell::UnsafeCell;
use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::registration::Pollable;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{self, Resource, ResourceKind, Waiting};
use crate::task;

static KIND: ResourceKind = ResourceKind::without_holder("for a promise to be settled");

/// Makes a promise and the future that waits for it.
///
/// ```
/// use pirn::sync::promise;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let (promise, answer) = promise();
///     let waiter = thread::spawn({
///         let answer = answer.clone();
///         move || *answer.get().unwrap()
///     });
///     promise.set(42).unwrap();
///     assert_eq!(waiter.join().unwrap(), 42);
///     assert_eq!(promise.set(43).unwrap_err().0, 43);
///     assert_eq!(*answer.get().unwrap(), 42);
/// });
/// ```
pub fn promise<T>() -> (Promise<T>, Future<T>) {
    promise_of(&KIND)
}

/// [`promise`], for whose waits reports have words of their own.
pub(crate) fn promise_of<T>(kind: &'static ResourceKind) -> (Promise<T>, Future<T>) {
    let shared = Arc::new(Shared {
        resource: Resource::new(kind),
        settled: AtomicBool::new(false),
        queue: Spin::new(Queue { waiters: Waiters::new(), wakers: Vec::new(), next_key: 0 }),
        result: UnsafeCell::new(None),
    });
    (Promise { shared: shared.clone() }, Future { shared, key: None })
}

/// What a promise has in common with its futures.
struct Shared<T> {
    resource: Resource,
    /// Whether the result is there. Set once, under the lock of the queue.
    settled: AtomicBool,
    queue: Spin<Queue>,
    /// Written before it is settled, under the lock; afterwards only read.
    result: UnsafeCell<Option<Result<T, PromiseError>>>,
}

// SAFETY: the result comes from one OS thread and may be dropped on another (Send), and several may
// look at it at a time (Sync).
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T: RefUnwindSafe> UnwindSafe for Shared<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Shared<T> {}

struct Queue {
    waiters: Waiters<()>,
    /// Each with the key of the future that polled.
    wakers: Vec<(u64, Waker)>,
    next_key: u64,
}

impl<T> Shared<T> {
    fn result(&self) -> Option<&Result<T, PromiseError>> {
        // Acquire: the result is visible, and what was done before it was settled.
        if !self.settled.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: settled, hence only read.
        unsafe { (*self.result.get()).as_ref() }
    }

    /// Settles it, unless it is; then the result comes back.
    fn settle(&self, result: Result<T, PromiseError>) -> Result<(), Result<T, PromiseError>> {
        let mut wakes = Wakes::new();
        let mut queue = self.queue.lock();
        // Relaxed: under the lock.
        if self.settled.load(Ordering::Relaxed) {
            return Err(result);
        }
        // SAFETY: not settled, and we have the lock: nobody looks. It was `None`.
        unsafe { *self.result.get() = Some(result) };
        // Release: pairs with `result`.
        self.settled.store(true, Ordering::Release);
        let wakers = mem::take(&mut queue.wakers);
        queue.waiters.notify_all(|_| {}, &mut wakes);
        drop(queue);
        // Those that block come before those that poll.
        drop(wakes);
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        Ok(())
    }

    /// Queues a record unless it is settled. True: it is.
    fn enqueue(&self, record: Pin<&Record<()>>) -> bool {
        let mut queue = self.queue.lock();
        let settled = self.settled.load(Ordering::Relaxed);
        if !settled {
            queue.waiters.push(record);
        }
        settled
    }
}

/// A parked task's share in a promise.
struct Pending<T>(Arc<Shared<T>>);

impl<T: 'static> Pollable for Pending<T> {
    type Item = ();

    fn resource(&self) -> *const Resource {
        &raw const self.0.resource
    }

    fn withdraw(&self, record: &Record<()>) {
        self.0.queue.lock().waiters.withdraw(record);
    }
}

/// The right to settle what the [futures](Future) wait for; see [`promise`].
///
/// Dropping it unsettled breaks the promise: the futures fail with [`PromiseError::Broken`]. So a
/// fiber that panics with a promise fails it.
///
/// Waiters are woken in the order in which they came, those that block first and then those that
/// poll. Whoever settles goes on meanwhile.
pub struct Promise<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Promise<T> {
    /// Settles the promise with a value. It is kept if nobody waits, for futures that ask later.
    ///
    /// # Errors
    ///
    /// When it is settled already; the value comes back.
    pub fn set(&self, value: T) -> Result<(), AlreadySettled<T>> {
        match self.shared.settle(Ok(value)) {
            Err(Ok(value)) => Err(AlreadySettled(value)),
            _ => Ok(()),
        }
    }

    /// Settles the promise with an error, for which a text will do as well.
    ///
    /// # Errors
    ///
    /// When it is settled already; the error comes back.
    pub fn fail(
        &self,
        error: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Result<(), AlreadySettled<Arc<dyn Error + Send + Sync>>> {
        match self.shared.settle(Err(PromiseError::Failed(Arc::from(error.into())))) {
            Err(Err(PromiseError::Failed(error))) => Err(AlreadySettled(error)),
            _ => Ok(()),
        }
    }

    /// Whether it is settled.
    pub fn is_settled(&self) -> bool {
        self.shared.result().is_some()
    }

    /// A further future of this promise.
    pub fn future(&self) -> Future<T> {
        Future { shared: self.shared.clone(), key: None }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if !self.is_settled() {
            // Whatever comes back: it was settled, or is now.
            let _ = self.shared.settle(Err(PromiseError::Broken));
        }
    }
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("settled", &self.is_settled()).finish_non_exhaustive()
    }
}

/// A promise can be settled once: what came too late.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AlreadySettled<V>(pub V);

impl<V> fmt::Debug for AlreadySettled<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlreadySettled").finish_non_exhaustive()
    }
}

impl<V> fmt::Display for AlreadySettled<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the promise is settled already")
    }
}

impl<V> Error for AlreadySettled<V> {}

/// Why there is no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PromiseError {
    /// The promise was dropped before it was settled.
    Broken,
    /// The promise was settled with this error.
    Failed(Arc<dyn Error + Send + Sync>),
    /// The wait was called off, in a destructor: the caller is cancelled or its runtime ends.
    Cancelled,
}

impl fmt::Display for PromiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PromiseError::Broken => f.write_str("the promise was dropped before it was settled"),
            PromiseError::Failed(error) => write!(f, "the promise failed: {error}"),
            PromiseError::Cancelled => f.write_str("the wait for a promise was called off"),
        }
    }
}

impl Error for PromiseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PromiseError::Failed(error) => Some(&**error),
            _ => None,
        }
    }
}

/// Waits for a [`Promise`]: pending, then done or failed for good.
///
/// Clones wait for the same promise and share its value, which is dropped with the last of them and
/// the promise. It can be had as often as one likes, by reference; there is no way to move it out,
/// for which a channel is made.
///
/// It is also a [`std::future::Future`], of a clone of the value.
pub struct Future<T> {
    shared: Arc<Shared<T>>,
    /// By which its waker is found.
    key: Option<u64>,
}

impl<T> Future<T> {
    /// Waits for the value.
    ///
    /// # Errors
    ///
    /// When the promise failed or was broken; [`PromiseError::Cancelled`].
    pub fn get(&self) -> Result<&T, PromiseError> {
        self.get_deadline(Instant::FAR_FUTURE).unwrap_or(Err(PromiseError::Cancelled))
    }

    /// Waits for the value, at most for this long. `None`: the time was up.
    pub fn get_timeout(&self, duration: Duration) -> Option<Result<&T, PromiseError>> {
        self.get_deadline(Instant::now() + duration)
    }

    /// Waits for the value, at most until this instant. `None`: the time was up.
    pub fn get_deadline(&self, deadline: Instant) -> Option<Result<&T, PromiseError>> {
        if !self.is_done() {
            self.wait(deadline);
        }
        self.try_get()
    }

    /// The value, or why there is none. `None`: the promise is pending.
    pub fn try_get(&self) -> Option<Result<&T, PromiseError>> {
        Some(self.shared.result()?.as_ref().map_err(PromiseError::clone))
    }

    /// Whether the promise is settled, with a value or without.
    pub fn is_done(&self) -> bool {
        self.shared.result().is_some()
    }

    /// [`get`](Self::get) for a [`Resumable`](crate::task::Resumable): pending until the promise is
    /// settled, which resumes the task.
    ///
    /// # Errors
    ///
    /// When the promise failed or was broken.
    pub fn poll_get(&self, cx: &mut task::Context<'_>) -> Poll<Result<&T, PromiseError>>
    where
        T: 'static,
    {
        let resource = &raw const self.shared.resource;
        let earlier = cx.find::<Pending<T>>(resource);
        let mut queue = self.shared.queue.lock();
        // Relaxed: under the lock.
        if self.shared.settled.load(Ordering::Relaxed) {
            if let Some(registration) = earlier {
                queue.waiters.withdraw(&registration.record());
                cx.settle(registration);
            }
            drop(queue);
            return Poll::Ready(self.try_get().expect("it is settled"));
        }
        let registration =
            earlier.unwrap_or_else(|| cx.register(Pending(self.shared.clone()), None, 0));
        queue.waiters.arm(registration.record(), cx.epoch());
        Poll::Pending
    }

    #[cold]
    fn wait(&self, deadline: Instant) {
        let shared = &*self.shared;
        let mut queue = shared.queue.lock();
        if shared.settled.load(Ordering::Relaxed) {
            return;
        }
        let record = pin!(Record::begin(None, 0));
        queue.waiters.push(record.as_ref());
        drop(queue);
        let outcome = waiters::wait(record.as_ref(), &shared.resource, deadline, |unlink| {
            unlink(&mut shared.queue.lock().waiters);
        });
        check_cancelled(outcome);
    }

    /// Ready when it is settled; else wakes whoever polls when it is.
    pub(crate) fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let pending = !self.is_done() && self.register(cx.waker().clone());
        if pending { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Has this waker called when the promise is settled, instead of the last one that this future
    /// was polled with. False: it is settled already.
    fn register(&mut self, waker: Waker) -> bool {
        let mut queue = self.shared.queue.lock();
        if self.shared.settled.load(Ordering::Relaxed) {
            return false;
        }
        let Queue { wakers, next_key, .. } = &mut *queue;
        let old = match wakers.iter_mut().find(|(key, _)| Some(*key) == self.key) {
            Some((_, old)) => Some(mem::replace(old, waker)),
            None => {
                self.key = Some(*next_key);
                wakers.push((*next_key, waker));
                *next_key += 1;
                None
            }
        };
        drop(queue);
        drop(old);
        true
    }
}

impl<T: Clone> std::future::Future for Future<T> {
    type Output = Result<T, PromiseError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_done(cx).map(|()| self.shared.result().expect("it is settled").clone())
    }
}

impl<T> Clone for Future<T> {
    fn clone(&self) -> Self {
        Future { shared: self.shared.clone(), key: None }
    }
}

impl<T> Drop for Future<T> {
    fn drop(&mut self) {
        if let Some(own) = self.key {
            let mut queue = self.shared.queue.lock();
            let place = queue.wakers.iter().position(|&(key, _)| key == own);
            let waker = place.map(|place| queue.wakers.remove(place));
            drop(queue);
            drop(waker);
        }
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Future").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Waits until one of the futures is done, and returns the index of the first that is.
///
/// It consumes nothing: the others can be waited for afterwards.
///
/// # Panics
///
/// When there are none; in a destructor while the caller is cancelled or its runtime ends, if it
/// would have to wait.
///
/// ```
/// use pirn::sync::{promise, select_any};
///
/// let (slow, fast) = (promise::<&str>(), promise::<&str>());
/// fast.0.set("first").unwrap();
/// assert_eq!(select_any(&[slow.1, fast.1]), 1);
/// ```
pub fn select_any<T>(futures: &[Future<T>]) -> usize {
    let done = select_any_deadline(futures, Instant::FAR_FUTURE);
    done.unwrap_or_else(|| super::called_off("one of several promises"))
}

/// [`select_any`], at most for this long. `None`: the time was up.
///
/// # Panics
///
/// When there are no futures.
pub fn select_any_timeout<T>(futures: &[Future<T>], duration: Duration) -> Option<usize> {
    select_any_deadline(futures, Instant::now() + duration)
}

/// [`select_any`], at most until this instant. `None`: the time was up.
///
/// # Panics
///
/// When there are no futures.
pub fn select_any_deadline<T>(futures: &[Future<T>], deadline: Instant) -> Option<usize> {
    assert!(!futures.is_empty(), "a wait for one of no futures would never end");
    if futures.iter().all(|future| !future.is_done()) {
        wait_for_any(futures, deadline);
    }
    futures.iter().position(Future::is_done)
}

/// One wait with a record in the queue of each future.
#[cold]
fn wait_for_any<T>(futures: &[Future<T>], deadline: Instant) {
    let party = current_party();
    let epoch = party.begin();
    let records: Pin<Box<[Record<()>]>> = Box::into_pin(
        futures.iter().map(|_| Record::sharing(party, epoch, None, 0)).collect::<Box<[_]>>(),
    );
    let pairs = || futures.iter().map(|future| &*future.shared).zip(records.as_ref().get_ref());
    // SAFETY: the records are in a pinned box.
    let pin = |record| unsafe { Pin::new_unchecked(record) };
    let settled = pairs().any(|(shared, record)| shared.enqueue(pin(record)));
    let resource = &raw const futures[0].shared.resource;
    if !settled || !party.waiter.retract(epoch, Outcome::Notified) {
        sched::wait(party, epoch, Waiting::On(resource), deadline);
    }
    let outcome = party.waiter.finish();
    for (shared, record) in pairs() {
        shared.queue.lock().waiters.withdraw(record);
    }
    check_cancelled(outcome);
}

/// Waits until all of the futures are done, and returns their values in order.
///
/// ```
/// use pirn::sync::{join_all, promise};
///
/// let (one, two) = (promise::<u32>(), promise::<u32>());
/// one.0.set(1).unwrap();
/// two.0.fail("no second").unwrap();
/// let futures = [one.1, two.1];
/// let values = join_all(&futures);
/// assert_eq!(values[0].as_ref().unwrap(), &&1);
/// assert!(values[1].is_err());
/// ```
pub fn join_all<T>(futures: &[Future<T>]) -> Vec<Result<&T, PromiseError>> {
    futures.iter().map(Future::get).collect()
}

/// [`join_all`], at most for this long. `None`: the time was up.
pub fn join_all_timeout<T>(
    futures: &[Future<T>],
    duration: Duration,
) -> Option<Vec<Result<&T, PromiseError>>> {
    join_all_deadline(futures, Instant::now() + duration)
}

/// [`join_all`], at most until this instant. `None`: the time was up.
pub fn join_all_deadline<T>(
    futures: &[Future<T>],
    deadline: Instant,
) -> Option<Vec<Result<&T, PromiseError>>> {
    futures.iter().map(|future| future.get_deadline(deadline)).collect()
}
