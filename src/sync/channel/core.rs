//! What rendezvous, bounded and unbounded channels have in common: everything but their capacity.
//!
//! Invariants, under the lock:
//!
//! * One of the two queues is empty: whoever would wait takes from, or gives to, the first of the
//!   other queue instead. (Leaving waiters aside, and a select that would send as well as receive.)
//! * Receivers wait only while the buffer is empty, senders only while it is full. A rendezvous
//!   channel's buffer is both, always; unless a receiver that was handed a value [left without
//!   it](State::put_back).
//! * A closed channel has no waiters, and its buffer only shrinks.
//!
//! Hence the order of values: a receiver takes the first value of the buffer, which is older than
//! what any waiting sender brings, and lets the first of those put its own at the end. A sender that
//! finds a receiver waiting hands over directly: nothing is older.
//!
//! Values only move under the lock. They are cloned and dropped outside.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::mem::{self, offset_of};
use std::pin::pin;
use std::sync::atomic::AtomicU32;

use super::error::{SendTimeoutError, TrySendError};
use crate::sched::atomic::{AtomicUsize, Ordering};
use crate::sched::cancel::check_cancelled;
use crate::sched::clock::Instant;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};
use crate::sync::spin::{Spin, SpinGuard};
use crate::sync::waiters::{self, Record, Waiters};

/// The capacity that is no bound.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// A drained buffer with more room than this is given back.
const KEPT: usize = 4_096;

static RECEIVE: ResourceKind =
    ResourceKind::without_holder("to receive from channel").detailed(|resource, to| {
        // SAFETY: the resource is the first field of a `Public`.
        unsafe { &*resource.cast::<Public>() }.describe("empty", to)
    });
static SEND: ResourceKind =
    ResourceKind::without_holder("to send into channel").detailed(|resource, to| {
        // SAFETY: the resource is the field `sending` of a `Public`.
        unsafe { &*resource.byte_sub(offset_of!(Public, sending)).cast::<Public>() }
            .describe("full", to)
    });

/// What reports say of a channel, whatever travels through it.
#[repr(C)]
pub(crate) struct Public {
    receiving: Resource,
    sending: Resource,
    pub(crate) capacity: usize,
    /// By which a reader of reports may know it again; 0 while it is in none.
    number: AtomicU32,
}

impl Public {
    fn new(capacity: usize) -> Self {
        let (receiving, sending) = (Resource::new(&RECEIVE), Resource::new(&SEND));
        Public { receiving, sending, capacity, number: AtomicU32::new(0) }
    }

    /// What whoever receives waits for.
    pub(super) fn receiving(&self) -> *const Resource {
        &raw const self.receiving
    }

    /// What whoever sends waits for.
    pub(super) fn sending(&self) -> *const Resource {
        &raw const self.sending
    }

    /// " #3 (capacity 8, full)". Whoever waits finds it `full`, or empty.
    #[cold]
    fn describe(&self, full: &str, to: &mut dyn Write) -> fmt::Result {
        write!(to, " #{} (", self.number())?;
        match self.capacity {
            0 => write!(to, "rendezvous)"),
            UNBOUNDED => write!(to, "unbounded, {full})"),
            capacity => write!(to, "capacity {capacity}, {full})"),
        }
    }

    /// Channels are numbered as they come to be reported, which costs the others nothing.
    fn number(&self) -> u32 {
        static NUMBERED: AtomicU32 = AtomicU32::new(0);
        // Relaxed, throughout: only uniqueness matters.
        let number = self.number.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        let new = NUMBERED.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match self.number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(earlier) => earlier,
        }
    }
}

/// A channel, shared by its senders and receivers.
pub(crate) struct Channel<T> {
    pub(crate) public: Public,
    pub(crate) state: Spin<State<T>>,
    /// How many [`Sender`](super::Sender)s there are, and how many [`Receiver`](super::Receiver)s.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

/// What is under the lock.
pub(crate) struct State<T> {
    buffer: VecDeque<T>,
    pub(crate) receivers: Waiters<T>,
    pub(crate) senders: Waiters<T>,
    closed: bool,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// Nobody has sent yet.
    Empty,
    /// Nobody ever will.
    Disconnected,
}

// Inlined throughout: a result that goes through memory costs more than the work.
impl<T> State<T> {
    /// Takes the first value that is there; a waiting sender may put its own into the buffer then.
    #[inline(always)]
    pub(crate) fn take_under(&mut self, unshared: bool, wakes: &mut Wakes) -> Result<T, Nothing> {
        match self.buffer.pop_front() {
            Some(value) => {
                if !self.senders.is_empty() {
                    let next = self.take_from_sender(unshared, wakes);
                    self.buffer.extend(next);
                }
                Ok(value)
            }
            None => self.take_unbuffered(unshared, wakes),
        }
    }

    #[inline(always)]
    fn take_unbuffered(&mut self, unshared: bool, wakes: &mut Wakes) -> Result<T, Nothing> {
        if !self.senders.is_empty()
            && let Some(value) = self.take_from_sender(unshared, wakes)
        {
            return Ok(value);
        }
        Err(if self.closed { Nothing::Disconnected } else { Nothing::Empty })
    }

    /// Takes the value of the first waiting sender, whose wait that ends.
    fn take_from_sender(&mut self, unshared: bool, wakes: &mut Wakes) -> Option<T> {
        wakes.set_unshared(unshared);
        let value = Cell::new(None);
        self.senders.notify_one(
            |sender| sender.value.swap(&value),
            |sender| sender.value.swap(&value),
            wakes,
        );
        value.into_inner()
    }

    /// Hands the value to the first waiting receiver, whose wait that ends, or puts it into the
    /// buffer.
    #[inline(always)]
    pub(crate) fn put_under(
        &mut self,
        value: T,
        capacity: usize,
        unshared: bool,
        wakes: &mut Wakes,
    ) -> Result<(), TrySendError<T>> {
        if self.closed {
            return Err(TrySendError::Disconnected(value));
        }
        let mut value = value;
        if !self.receivers.is_empty() {
            match self.hand_to_receiver(value, unshared, wakes) {
                None => return Ok(()),
                Some(left) => value = left,
            }
        }
        if self.buffer.len() < capacity {
            self.buffer.push_back(value);
            Ok(())
        } else {
            Err(TrySendError::Full(value))
        }
    }

    /// Gives the value back if all receivers that wait are leaving.
    #[inline(always)]
    fn hand_to_receiver(&mut self, value: T, unshared: bool, wakes: &mut Wakes) -> Option<T> {
        wakes.set_unshared(unshared);
        let value = Cell::new(Some(value));
        self.receivers.notify_one(
            |receiver| receiver.value.swap(&value),
            |receiver| receiver.value.swap(&value),
            wakes,
        );
        value.into_inner()
    }

    /// Puts the value into the buffer if that is all there is to do: the channel is open, nobody waits
    /// for a value, and there is room. Else gives it back.
    #[inline(always)]
    fn put_alone(&mut self, value: T, capacity: usize) -> Option<T> {
        if self.closed || !self.receivers.is_empty() || self.buffer.len() >= capacity {
            return Some(value);
        }
        self.buffer.push_back(value);
        None
    }

    /// Takes the first value from the buffer if that is all there is to do: nobody waits to put
    /// another one in.
    #[inline(always)]
    fn take_alone(&mut self) -> Option<T> {
        if self.senders.is_empty() { self.buffer.pop_front() } else { None }
    }

    /// Takes back a value that was handed to a receiver who left without it: the next one gets it, or
    /// it is the first in the buffer again, whatever the capacity.
    pub(super) fn put_back(&mut self, value: T, wakes: &mut Wakes) {
        let mut left = Some(value);
        if !self.receivers.is_empty() {
            left = left.and_then(|value| self.hand_to_receiver(value, false, wakes));
        }
        if let Some(value) = left {
            self.buffer.push_front(value);
        }
    }

    /// A buffer that has been drained and is not worth keeping: to be freed outside the lock.
    #[inline(always)]
    pub(super) fn outgrown(&mut self) -> Option<VecDeque<T>> {
        (self.buffer.is_empty() && self.buffer.capacity() > KEPT && mem::size_of::<T>() > 0)
            .then(|| mem::take(&mut self.buffer))
    }
}

impl<T> SpinGuard<'_, State<T>> {
    /// [`State::take_under`] this lock.
    #[inline(always)]
    pub(crate) fn take(&mut self, wakes: &mut Wakes) -> Result<T, Nothing> {
        let unshared = self.is_unshared();
        self.take_under(unshared, wakes)
    }

    /// [`State::put_under`] this lock.
    #[inline(always)]
    pub(crate) fn put(
        &mut self,
        value: T,
        capacity: usize,
        wakes: &mut Wakes,
    ) -> Result<(), TrySendError<T>> {
        let unshared = self.is_unshared();
        self.put_under(value, capacity, unshared, wakes)
    }
}

impl<T> Channel<T> {
    /// With one sender and one receiver.
    pub(super) fn new(capacity: usize) -> Self {
        Channel {
            public: Public::new(capacity),
            state: Spin::new(State {
                buffer: VecDeque::new(),
                receivers: Waiters::new(),
                senders: Waiters::new(),
                closed: false,
            }),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    #[inline]
    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        match state.put_alone(value, self.public.capacity) {
            None => Ok(()),
            Some(value) => state.put(value, self.public.capacity, &mut wakes),
        }
    }

    #[inline]
    pub(crate) fn try_recv(&self) -> Result<T, Nothing> {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        let taken = match state.take_alone() {
            Some(value) => Ok(value),
            None => state.take(&mut wakes),
        };
        let outgrown = state.outgrown();
        drop(state);
        drop(outgrown);
        taken
    }

    #[inline(always)]
    pub(super) fn send(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        let mut state = self.state.lock();
        match state.put_alone(value, self.public.capacity) {
            None => Ok(()),
            Some(value) => self.send_in_full(state, value, deadline),
        }
    }

    #[inline(always)]
    fn send_in_full(
        &self,
        state: SpinGuard<'_, State<T>>,
        value: T,
        deadline: Instant,
    ) -> Result<(), SendTimeoutError<T>> {
        let mut wakes = Wakes::new();
        // Given back before anybody is woken.
        let mut state = state;
        match state.put(value, self.public.capacity, &mut wakes) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(value)) => self.wait_to_send(state, value, deadline),
            Err(TrySendError::Disconnected(value)) => Err(SendTimeoutError::Disconnected(value)),
        }
    }

    #[inline(always)]
    fn wait_to_send(
        &self,
        mut state: SpinGuard<'_, State<T>>,
        value: T,
        deadline: Instant,
    ) -> Result<(), SendTimeoutError<T>> {
        let record = pin!(Record::begin(Some(value), 0));
        state.senders.push(record.as_ref());
        drop(state);
        let outcome =
            waiters::wait_inlined(record.as_ref(), &self.public.sending, deadline, |unlink| {
                unlink(&mut self.state.lock().senders);
            });
        // If this unwinds, the value goes with the record.
        check_cancelled(outcome);
        match record.value.take() {
            None => Ok(()),
            Some(value) if outcome == Outcome::TimedOut => Err(SendTimeoutError::Timeout(value)),
            Some(value) => Err(SendTimeoutError::Disconnected(value)),
        }
    }

    #[inline(always)]
    pub(super) fn recv(&self, deadline: Instant) -> Result<T, Nothing> {
        let mut state = self.state.lock();
        match state.take_alone() {
            Some(value) => {
                let outgrown = state.outgrown();
                drop(state);
                drop(outgrown);
                Ok(value)
            }
            None => self.recv_in_full(state, deadline),
        }
    }

    #[inline(always)]
    fn recv_in_full(
        &self,
        state: SpinGuard<'_, State<T>>,
        deadline: Instant,
    ) -> Result<T, Nothing> {
        let mut wakes = Wakes::new();
        // Given back before anybody is woken.
        let mut state = state;
        match state.take(&mut wakes) {
            Err(Nothing::Empty) => self.wait_to_recv(state, deadline),
            taken => taken,
        }
    }

    /// Empty: the deadline has passed.
    #[inline(always)]
    fn wait_to_recv(
        &self,
        mut state: SpinGuard<'_, State<T>>,
        deadline: Instant,
    ) -> Result<T, Nothing> {
        let record = pin!(Record::begin(None, 0));
        state.receivers.push(record.as_ref());
        drop(state);
        let outcome =
            waiters::wait_inlined(record.as_ref(), &self.public.receiving, deadline, |unlink| {
                unlink(&mut self.state.lock().receivers);
            });
        check_cancelled(outcome);
        match record.value.take() {
            Some(value) => Ok(value),
            None if outcome == Outcome::TimedOut => Err(Nothing::Empty),
            None => Err(Nothing::Disconnected),
        }
    }

    /// Lets nothing more in, and ends all waits. False: it was closed already.
    pub(super) fn close(&self) -> bool {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        if mem::replace(&mut state.closed, true) {
            return false;
        }
        // What they find in their records tells them: a receiver nothing, a sender its value.
        state.receivers.notify_all(|_| {}, &mut wakes);
        state.senders.notify_all(|_| {}, &mut wakes);
        true
    }

    /// Drops what is in the buffer of a channel that nobody can receive from any more.
    pub(super) fn discard(&self) {
        let buffer = mem::take(&mut self.state.lock().buffer);
        drop(buffer);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().buffer.len()
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        (self.public.capacity != UNBOUNDED).then_some(self.public.capacity)
    }

    /// A further sender or receiver, by the count of its kind.
    pub(super) fn add(&self, count: &AtomicUsize) {
        // Relaxed: it comes from an existing one.
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// One sender or receiver less. True: it was the last of its kind.
    #[inline]
    pub(super) fn remove(count: &AtomicUsize) -> bool {
        // AcqRel: what the others did with theirs comes before what the last one does.
        count.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
