//! A counting semaphore.
//!
//! All state is under the inner lock, so taking permits and giving them back are one exchange each.
//! Requests are served strictly in their order: nobody overtakes a large request at the head of the
//! queue, which is therefore served after as many permits have come back as it lacks. Invariants:
//!
//! * available permits and those that are held add up to those that exist, which are at most the
//!   maximum;
//! * [`State::admit`] runs whenever permits come back or the head of the queue changes, so at rest
//!   the head of the queue asks for more than are available.

use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::clock::Instant;
use crate::sched::registration::{Pollable, Registration};
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};
use crate::task::Context;

static KIND: ResourceKind = ResourceKind::without_holder("for permits of a semaphore");

/// Gives out permits, and makes those wait who ask for more than there are.
///
/// ```
/// use pirn::sync::Semaphore;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let desks = Semaphore::new(2);
///     thread::scope(|s| {
///         for _ in 0..5 {
///             s.spawn(|| {
///                 let _desk = desks.acquire().unwrap();
///                 thread::yield_now(); // at most two are here at a time
///             });
///         }
///     });
///     assert_eq!(desks.available_permits(), 2);
/// });
/// ```
///
/// # Order
///
/// First come, first served, large requests as well as small ones: while somebody waits, everybody
/// else queues up behind, even if there are permits enough for them.
///
/// # Maximum
///
/// A semaphore has a maximum of permits: those that it was made [`new`](Self::new) with, or a
/// number of its own. A request for more can never be served, and is an error at once. To signal
/// with a semaphore, begin with none:
///
/// ```
/// # use pirn::sync::Semaphore;
/// let signals = Semaphore::with_maximum(0, 10);
/// signals.add_permits(1).unwrap();
/// signals.acquire().unwrap().forget();
/// assert!(signals.acquire_many(11).is_err());
/// ```
pub struct Semaphore {
    resource: Resource,
    maximum: usize,
    state: Spin<State>,
}

impl UnwindSafe for Semaphore {}
impl RefUnwindSafe for Semaphore {}

struct State {
    available: usize,
    /// Available or held.
    existing: usize,
    /// A record's kind is the number of permits that it asks for.
    queue: Waiters<()>,
}

impl State {
    /// Serves the requests at the head of the queue for which there are permits.
    fn admit(&mut self, wakes: &mut Wakes) {
        while let Some(wanted) = self.queue.peek().map(|record| record.kind)
            && wanted <= self.available
        {
            if self.queue.notify_first(|_| {}, wakes) == Some(true) {
                self.available -= wanted;
            }
        }
    }
}

/// Why permits could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// There can never be so many.
    TooMany {
        /// How many were asked for.
        requested: usize,
        /// How many there can be at most.
        maximum: usize,
    },
    /// There are not so many now, or others wait; the call was not to wait.
    WouldBlock,
    /// The time was up first.
    TimedOut,
    /// The wait was called off, in a destructor: the caller is cancelled or its runtime ends.
    Cancelled,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::TooMany { requested, maximum } => write!(
                f,
                "{requested} permits were asked of a semaphore that has at most {maximum}: \
                 ask for fewer, or make it with a larger maximum"
            ),
            AcquireError::WouldBlock => f.write_str("the permits are not available now"),
            AcquireError::TimedOut => f.write_str("the permits were not available in time"),
            AcquireError::Cancelled => f.write_str("the wait for permits was called off"),
        }
    }
}

impl Error for AcquireError {}

/// More permits were to be added than a semaphore can have; none were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddPermitsError {
    added: usize,
    existing: usize,
    maximum: usize,
}

impl fmt::Display for AddPermitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} permits were to be added to the {} of a semaphore that has at most {}: \
             make it with a larger maximum",
            self.added, self.existing, self.maximum
        )
    }
}

impl Error for AddPermitsError {}

impl Semaphore {
    /// A semaphore with so many permits, and never more.
    ///
    /// With none every request is an error: see [`with_maximum`](Self::with_maximum).
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore::with_maximum(permits, permits)
    }

    /// A semaphore with so many permits now, to which others may be [added](Self::add_permits) up
    /// to a maximum, which may be `usize::MAX`.
    ///
    /// # Panics
    ///
    /// When there are more permits than the maximum.
    pub const fn with_maximum(permits: usize, maximum: usize) -> Semaphore {
        assert!(permits <= maximum, "a semaphore begins with at most its maximum of permits");
        let state = State { available: permits, existing: permits, queue: Waiters::new() };
        Semaphore { resource: Resource::new(&KIND), maximum, state: Spin::new(state) }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TooMany`] at once, if the maximum is 0; [`AcquireError::Cancelled`].
    #[inline]
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Waits for so many permits together; for none, not at all.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TooMany`] at once, if the maximum is less; [`AcquireError::Cancelled`].
    #[inline]
    pub fn acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many_deadline(permits, Instant::FAR_FUTURE)
    }

    /// Takes a permit if there is one and nobody waits.
    ///
    /// # Errors
    ///
    /// [`AcquireError::WouldBlock`]; [`AcquireError::TooMany`], if the maximum is 0.
    #[inline]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes so many permits if there are as many and nobody waits.
    ///
    /// # Errors
    ///
    /// [`AcquireError::WouldBlock`]; [`AcquireError::TooMany`], if the maximum is less.
    pub fn try_acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        if self.try_take(permits)? {
            Ok(SemaphorePermit { semaphore: self, permits })
        } else {
            Err(AcquireError::WouldBlock)
        }
    }

    /// Waits for a permit, at most for this long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`]; otherwise as for [`acquire`](Self::acquire).
    pub fn acquire_timeout(&self, duration: Duration) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many_timeout(1, duration)
    }

    /// Waits for a permit, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`acquire_timeout`](Self::acquire_timeout).
    pub fn acquire_deadline(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many_deadline(1, deadline)
    }

    /// Waits for so many permits together, at most for this long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`]; otherwise as for [`acquire_many`](Self::acquire_many).
    pub fn acquire_many_timeout(
        &self,
        permits: usize,
        duration: Duration,
    ) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many_deadline(permits, Instant::now() + duration)
    }

    /// Waits for so many permits together, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`acquire_many_timeout`](Self::acquire_many_timeout).
    #[inline]
    pub fn acquire_many_deadline(
        &self,
        permits: usize,
        deadline: Instant,
    ) -> Result<SemaphorePermit<'_>, AcquireError> {
        if !self.try_take(permits)? {
            self.wait(permits, deadline)?;
        }
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// Puts so many further permits there: new ones, or such as were
    /// [forgotten](SemaphorePermit::forget).
    ///
    /// # Errors
    ///
    /// When there would be more than the maximum, those counted that are held.
    pub fn add_permits(&self, permits: usize) -> Result<(), AddPermitsError> {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        if permits > self.maximum - state.existing {
            let (added, existing, maximum) = (permits, state.existing, self.maximum);
            return Err(AddPermitsError { added, existing, maximum });
        }
        state.existing += permits;
        state.available += permits;
        state.admit(&mut wakes);
        Ok(())
    }

    /// How many permits could be had now, if nobody waits for them.
    pub fn available_permits(&self) -> usize {
        self.state.lock().available
    }

    /// How many permits there can be at most.
    pub fn maximum_permits(&self) -> usize {
        self.maximum
    }

    #[inline]
    fn try_take(&self, permits: usize) -> Result<bool, AcquireError> {
        if permits > self.maximum {
            return Err(AcquireError::TooMany { requested: permits, maximum: self.maximum });
        }
        let mut state = self.state.lock();
        Ok(Self::take(&mut state, permits))
    }

    #[inline]
    fn take(state: &mut State, permits: usize) -> bool {
        let there = permits == 0 || state.queue.is_empty() && permits <= state.available;
        if there {
            state.available -= permits;
        }
        there
    }

    /// One poll of a resumable, whose share in the semaphore `share` makes; `earlier` asks for as
    /// many permits. Ready: they are its own.
    pub(super) fn poll_take<P: Pollable<Item = ()>>(
        &self,
        cx: &mut Context<'_>,
        permits: usize,
        earlier: Option<Registration<P>>,
        share: impl FnOnce() -> P,
    ) -> Poll<Result<(), AcquireError>> {
        if permits > self.maximum {
            return Poll::Ready(Err(AcquireError::TooMany {
                requested: permits,
                maximum: self.maximum,
            }));
        }
        let mut state = self.state.lock();
        // While it is queued it has its turn, which has not come.
        let given = match &earlier {
            Some(ours) if ours.record().is_chosen() => true,
            Some(ours) if ours.record().is_queued() => false,
            _ => Self::take(&mut state, permits),
        };
        if given {
            earlier.into_iter().for_each(|registration| cx.settle(registration));
            return Poll::Ready(Ok(()));
        }
        let registration = earlier.unwrap_or_else(|| cx.register(share(), None, permits));
        state.queue.arm(registration.record(), cx.epoch());
        Poll::Pending
    }

    /// Takes the record of a poll out. Permits that were given by it are given back.
    pub(super) fn withdraw(&self, record: &Record<()>) {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        if state.queue.withdraw(record) {
            state.available += record.kind;
        }
        // Else it may have stood in the way of those behind it.
        state.admit(&mut wakes);
    }

    /// What whoever acquires waits for.
    pub(super) fn resource(&self) -> *const Resource {
        &raw const self.resource
    }

    #[cold]
    fn wait(&self, permits: usize, deadline: Instant) -> Result<(), AcquireError> {
        let mut state = self.state.lock();
        if Self::take(&mut state, permits) {
            return Ok(());
        }
        let record = pin!(Record::begin(None, permits));
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
        match outcome {
            Outcome::Notified => Ok(()),
            Outcome::TimedOut => Err(AcquireError::TimedOut),
            Outcome::Cancelled => Err(AcquireError::Cancelled),
        }
    }
}

/// Permits that are held; given back when dropped. May be sent to another OS thread.
#[derive(Debug)]
#[must_use = "if unused the permits are given back at once"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl<'a> SemaphorePermit<'a> {
    /// Permits that have been taken, and belong to nobody else.
    pub(super) fn of(semaphore: &'a Semaphore, permits: usize) -> Self {
        SemaphorePermit { semaphore, permits }
    }

    /// How many permits these are.
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// Lets go of the permits without giving them back: there are fewer from now on, until others
    /// are [added](Semaphore::add_permits).
    pub fn forget(self) {
        self.semaphore.state.lock().existing -= self.permits;
        mem::forget(self);
    }
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut wakes = Wakes::new();
        let mut state = self.semaphore.state.lock();
        state.available += self.permits;
        state.admit(&mut wakes);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available_permits())
            .field("maximum", &self.maximum)
            .finish_non_exhaustive()
    }
}
