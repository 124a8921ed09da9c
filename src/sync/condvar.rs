//! A condition variable, with std's names.
//!
//! A waiter is in the queue before it gives the mutex back, so no notification that is given under
//! the mutex is missed. A notification ends the wait of exactly one that has not ended otherwise:
//! one that finds the first waiter leaving goes to the next. A waiter that was notified and is then
//! cancelled, before it has the mutex again, passes the notification on.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use super::mutex::MutexGuard;
use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::clock::Instant;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};

static KIND: ResourceKind = ResourceKind::without_holder("for a notification");

/// See [`std::sync::Condvar`]; this one blocks the fiber only.
///
/// ```
/// use pirn::sync::{Condvar, Mutex};
/// use pirn::thread;
///
/// pirn::run(|| {
///     let (ready, changed) = (Mutex::new(false), Condvar::new());
///     thread::scope(|s| {
///         s.spawn(|| {
///             *ready.lock().unwrap() = true;
///             changed.notify_one();
///         });
///         let ready = changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap();
///         assert!(*ready);
///     });
/// });
/// ```
///
/// Differences from std: waiters are notified in the order in which they came; there are waits
/// until an instant; a mutex may be used with several condition variables and the other way round.
/// A wait ends only by a notification or its deadline, but a notified waiter then queues up for the
/// mutex, so others may have changed the condition meanwhile: wait in a loop, as with std's.
///
/// On return the mutex is held, whatever ended the wait. When its wait is called off, by a
/// cancellation or the end of the runtime, a waiter unwinds *without* it.
pub struct Condvar {
    resource: Resource,
    queue: Spin<Waiters<()>>,
}

impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Condvar {}

/// Whether a wait ended because its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time was up, false if there was a notification.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar { resource: Resource::new(&KIND), queue: Spin::new(Waiters::new()) }
    }

    /// Gives the mutex back, waits for a notification, and takes the mutex again.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned by then; the error holds the guard.
    ///
    /// # Panics
    ///
    /// In a destructor while the caller is cancelled or its runtime ends.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        match self.wait_until(guard, Instant::FAR_FUTURE) {
            (Outcome::Cancelled, _) => super::called_off("a notification"),
            (_, guard) => guard,
        }
    }

    /// Waits while the condition holds.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned; the error holds the guard.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait) does.
    pub fn wait_while<'a, T: ?Sized, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// [`wait`](Self::wait), for a notification at most for this long.
    ///
    /// Taking the mutex again may take longer.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned by then; the error holds the guard and what ended the wait.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_deadline(guard, Instant::now() + duration)
    }

    /// [`wait`](Self::wait), for a notification at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`wait_timeout`](Self::wait_timeout).
    pub fn wait_deadline<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (outcome, guard) = self.wait_until(guard, deadline);
        with(guard, WaitTimeoutResult(outcome != Outcome::Notified))
    }

    /// Waits while the condition holds, at most for this long.
    ///
    /// The result says that the time was up only if the condition still holds then.
    ///
    /// # Errors
    ///
    /// As for [`wait_timeout`](Self::wait_timeout).
    pub fn wait_timeout_while<'a, T: ?Sized, F>(
        &self,
        guard: MutexGuard<'a, T>,
        duration: Duration,
        condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        self.wait_deadline_while(guard, Instant::now() + duration, condition)
    }

    /// Waits while the condition holds, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`wait_timeout`](Self::wait_timeout).
    pub fn wait_deadline_while<'a, T: ?Sized, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: Instant,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut timed_out = WaitTimeoutResult(false);
        while condition(&mut *guard) {
            if timed_out.0 {
                return Ok((guard, timed_out));
            }
            (guard, timed_out) = self.wait_deadline(guard, deadline)?;
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    /// Ends the wait of the one that has waited for longest, if anybody waits.
    pub fn notify_one(&self) {
        let mut wakes = Wakes::new();
        self.queue.lock().notify_one(|_| {}, |_| {}, &mut wakes);
    }

    /// Ends the wait of everybody who waits now.
    pub fn notify_all(&self) {
        let mut wakes = Wakes::new();
        self.queue.lock().notify_all(|_| {}, &mut wakes);
    }

    /// One wait. On return the mutex is held; unwinds without it if the wait is called off, and it
    /// can.
    fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (Outcome, LockResult<MutexGuard<'a, T>>) {
        let mutex = guard.mutex();
        let record = pin!(Record::begin(None, 0));
        self.queue.lock().push(record.as_ref());
        drop(guard);
        let outcome = waiters::wait(record.as_ref(), &self.resource, deadline, |unlink| {
            unlink(&mut self.queue.lock());
        });
        check_cancelled(outcome);
        match mutex.lock_again() {
            Some(guard) => (outcome, guard),
            None => {
                if outcome == Outcome::Notified {
                    self.notify_one();
                }
                check_cancelled(Outcome::Cancelled);
                super::called_off("a mutex")
            }
        }
    }
}

/// Adds to what a result holds.
fn with<G, A>(result: LockResult<G>, addition: A) -> LockResult<(G, A)> {
    match result {
        Ok(got) => Ok((got, addition)),
        Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), addition))),
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}
