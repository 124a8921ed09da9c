//! The queue of those who wait for a primitive: first come, first served.
//!
//! A record lies on the waiter's own stack for as long as the wait lasts, so waiting allocates
//! nothing. The queue is part of the primitive's state, under its [`Spin`](super::spin::Spin) lock.
//! The protocol:
//!
//! ```text
//!   waiter                                        notifier
//!   lock; not ready: push a record; unlock        lock; pop the first record
//!   sched::wait                                   put what it gets into the record
//!   ended by notify: the record is out            claim it: true: it has it
//!   else: lock; take the record out; unlock       false: it is leaving: try the next one
//!                                                 unlock; wake it
//! ```
//!
//! A record is claimed under the lock, after it was popped and filled. So a waiter that finds itself
//! notified owns what is in its record; one that timed out or was called off takes the lock first,
//! and then nobody can be looking at its record any more. What a notifier has to give goes to the
//! next waiter when the first one is already leaving: nothing is lost.

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::{self, NonNull};

use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::party::Party;
use crate::sched::wait::{Epoch, Outcome};
use crate::sched::wakes::Wakes;
use crate::sched::{self, Resource, Waiting};

/// Where a record stands. Under the primitive's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In no queue.
    Out,
    Queued,
    /// A notifier has taken it out and ended the wait by it.
    Chosen,
}

/// A waiter's place in a queue, with what it is waiting to get or to give.
pub(crate) struct Record<T> {
    party: *const Party,
    /// Changes only when it is armed anew, under the primitive's lock.
    epoch: Cell<Epoch>,
    /// Under the primitive's lock, while queued.
    next: Cell<Option<NonNull<Record<T>>>>,
    previous: Cell<Option<NonNull<Record<T>>>>,
    place: Cell<Place>,
    /// Whether the wait has no other record, in this queue or any other.
    alone: bool,
    /// Handed over between waiter and notifier.
    pub(crate) value: Cell<Option<T>>,
    /// What kind of waiter this is, for primitives that have several.
    pub(crate) kind: usize,
    _pinned: PhantomPinned,
}

impl<T> Record<T> {
    /// Begins a wait of the calling party.
    ///
    /// It must be [queued](Waiters::push) and [waited for](wait), or [abandoned](Self::abandon).
    pub(crate) fn begin(value: Option<T>, kind: usize) -> Self {
        let party = current_party();
        Record { alone: true, ..Record::sharing(party, party.begin(), value, kind) }
    }

    /// A record of a wait that has been begun, and that may have others: whichever is notified first
    /// ends it. Each must be [withdrawn](Waiters::withdraw) when it is over.
    pub(crate) fn sharing(party: &Party, epoch: Epoch, value: Option<T>, kind: usize) -> Self {
        Record {
            party,
            epoch: Cell::new(epoch),
            next: Cell::new(None),
            previous: Cell::new(None),
            place: Cell::new(Place::Out),
            alone: false,
            value: Cell::new(value),
            kind,
            _pinned: PhantomPinned,
        }
    }

    /// Whether a notifier has ended a wait by it, and it is in the hands of its waiter since. Under
    /// the primitive's lock.
    pub(crate) fn is_chosen(&self) -> bool {
        self.place.get() == Place::Chosen
    }

    /// Whether it is in the queue. Under the primitive's lock.
    pub(crate) fn is_queued(&self) -> bool {
        self.place.get() == Place::Queued
    }

    /// Whose it is, for whoever wants to warm the caches.
    pub(crate) fn party_address(&self) -> *const Party {
        self.party
    }

    fn party(&self) -> &Party {
        // SAFETY: the record belongs to the calling party, or to one that waits in it.
        unsafe { &*self.party }
    }

    /// Ends the wait, under the primitive's lock, when the record has been taken out. False: somebody
    /// else has ended it.
    #[inline(always)]
    fn notify(&self, wakes: &mut Wakes) -> bool {
        let (party, epoch) = (self.party(), self.epoch.get());
        if self.alone {
            party.notify_told_once(epoch, Outcome::Notified, wakes)
        } else {
            party.notify_locked(epoch, Outcome::Notified, wakes)
        }
    }
}

/// A queue of waiters, in order of arrival.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    first: Option<NonNull<Record<T>>>,
    last: Option<NonNull<Record<T>>>,
}

// SAFETY: the queue is used under its primitive's lock only; the values that travel through the
// records are Send if the primitive is.
unsafe impl<T: Send> Send for Waiters<T> {}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Waiters<T> {
    pub(crate) const fn new() -> Self {
        Waiters { first: None, last: None }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Puts a record at the end.
    #[inline]
    pub(crate) fn push(&mut self, record: Pin<&Record<T>>) {
        let record = NonNull::from(record.get_ref());
        // SAFETY: queued records stay where they are until they are out again: see `wait`.
        unsafe {
            record.as_ref().place.set(Place::Queued);
            record.as_ref().previous.set(self.last);
            match self.last {
                Some(last) => last.as_ref().next.set(Some(record)),
                None => self.first = Some(record),
            }
        }
        self.last = Some(record);
    }

    /// Makes a record wait in a further epoch: it keeps its place if it is still queued, else it goes
    /// to the end.
    pub(crate) fn arm(&mut self, record: Pin<&Record<T>>, epoch: Epoch) {
        record.epoch.set(epoch);
        if record.place.get() != Place::Queued {
            self.push(record);
        }
    }

    /// The first record, left in place.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&Record<T>> {
        // SAFETY: queued records are alive.
        self.first.map(|record| unsafe { record.as_ref() })
    }

    fn unlink(&mut self, record: &Record<T>) {
        let (previous, next) = (record.previous.take(), record.next.take());
        // SAFETY: neighbours are queued, hence alive.
        unsafe {
            match previous {
                Some(previous) => previous.as_ref().next.set(next),
                None => self.first = next,
            }
            match next {
                Some(next) => next.as_ref().previous.set(previous),
                None => self.last = previous,
            }
        }
        record.place.set(Place::Out);
    }

    /// Takes a record out, if it is still in, after its wait has ended somehow. True: it was by this
    /// record that a notifier ended it.
    pub(crate) fn withdraw(&mut self, record: &Record<T>) -> bool {
        if record.place.get() == Place::Queued {
            self.unlink(record);
        }
        record.place.get() == Place::Chosen
    }

    /// Ends the wait of the first one that is not already leaving: `hand_over` puts what it gets
    /// into its record, or takes what it gives; `take_back` undoes that for one that was leaving.
    ///
    /// True if somebody was woken.
    #[inline]
    pub(crate) fn notify_one(
        &mut self,
        mut hand_over: impl FnMut(&Record<T>),
        mut take_back: impl FnMut(&Record<T>),
        wakes: &mut Wakes,
    ) -> bool {
        while let Some(record) = self.first {
            // SAFETY: queued records are alive; a leaving waiter needs our lock to go.
            let record = unsafe { record.as_ref() };
            self.unlink(record);
            record.place.set(Place::Chosen);
            hand_over(record);
            if record.notify(wakes) {
                return true;
            }
            record.place.set(Place::Out);
            take_back(record);
        }
        false
    }

    /// Takes the first one out and ends its wait, after `hand_over`. `Some(false)`: it was already
    /// leaving. `None`: nobody waits.
    ///
    /// For primitives whose waiters do not all want the same: with the next one begins a new
    /// decision.
    pub(crate) fn notify_first(
        &mut self,
        hand_over: impl FnOnce(&Record<T>),
        wakes: &mut Wakes,
    ) -> Option<bool> {
        // SAFETY: as in `notify_one`.
        let record = unsafe { self.first?.as_ref() };
        self.unlink(record);
        record.place.set(Place::Chosen);
        hand_over(record);
        let woken = record.notify(wakes);
        if !woken {
            record.place.set(Place::Out);
        }
        Some(woken)
    }

    /// Ends the wait of everybody, in order.
    pub(crate) fn notify_all(&mut self, mut hand_over: impl FnMut(&Record<T>), wakes: &mut Wakes) {
        while self.notify_one(&mut hand_over, |_| {}, wakes) {}
    }
}

/// Waits in a record that has been pushed, after the lock was given back.
///
/// `relock` must give access to the queue that it was pushed to, under the lock; it is called only
/// when the wait ends otherwise than by a notifier, to take the record out.
///
/// The caller then looks at what is in the record, and calls
/// [`check_cancelled`](crate::sched::cancel::check_cancelled).
#[inline]
pub(crate) fn wait<T>(
    record: Pin<&Record<T>>,
    resource: &Resource,
    deadline: Instant,
    relock: impl FnOnce(&mut dyn FnMut(&mut Waiters<T>)),
) -> Outcome {
    let waiting = Waiting::On(ptr::from_ref(resource));
    sched::wait(record.party(), record.epoch.get(), waiting, deadline);
    finish(record, relock)
}

/// [`wait`], where [inlining](sched::wait_inlined) it is worth while.
#[inline(always)]
pub(crate) fn wait_inlined<T>(
    record: Pin<&Record<T>>,
    resource: &Resource,
    deadline: Instant,
    relock: impl FnOnce(&mut dyn FnMut(&mut Waiters<T>)),
) -> Outcome {
    let waiting = Waiting::On(ptr::from_ref(resource));
    sched::wait_inlined(record.party(), record.epoch.get(), waiting, deadline);
    finish(record, relock)
}

#[inline(always)]
fn finish<T>(
    record: Pin<&Record<T>>,
    relock: impl FnOnce(&mut dyn FnMut(&mut Waiters<T>)),
) -> Outcome {
    let outcome = record.party().waiter.finish();
    if outcome != Outcome::Notified {
        relock(&mut |queue| {
            queue.withdraw(&record);
        });
    }
    outcome
}
