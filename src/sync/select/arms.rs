//! The operations that a select can choose from.

use std::cell::{Cell, UnsafeCell};
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::time::Duration;

use super::macros::Erased;
use super::{Arm, Operation, Withdrawn};
use crate::sched::clock::Instant;
use crate::sched::party::Party;
use crate::sched::wait::Epoch;
use crate::sched::wakes::Wakes;
use crate::sync::channel::core::{Channel, Nothing, State};
use crate::sync::channel::oneshot::Oneshot;
use crate::sync::channel::{
    OneshotReceiver, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError,
};
use crate::sync::waiters::{Record, Waiters};

/// The record of an arm on a channel, while it waits.
pub(super) struct Place<T>(UnsafeCell<Option<Record<T>>>);

impl<T> Place<T> {
    pub(super) fn new() -> Self {
        Place(UnsafeCell::new(None))
    }

    /// Puts a record with this value into a queue.
    ///
    /// # Safety
    ///
    /// The queue's lock must be held. No other record may be in use here. The place must stay where it
    /// is until `leave`.
    pub(super) unsafe fn queue_up(
        &self,
        queue: &mut Waiters<T>,
        party: &Party,
        epoch: Epoch,
        value: Option<T>,
    ) {
        // SAFETY: by the contract nobody refers to the old record, and the new one stays here.
        let record = unsafe {
            let record = (*self.0.get()).insert(Record::sharing(party, epoch, value, 0));
            Pin::new_unchecked(&*record)
        };
        queue.push(record);
    }

    /// Takes the record out of the queue. Returns its value, and whether the wait was ended by it.
    /// `None`: there is no record.
    ///
    /// # Safety
    ///
    /// It must be the queue that it was put into, whose lock must be held.
    pub(super) unsafe fn leave(&self, queue: &mut Waiters<T>) -> Option<(Option<T>, bool)> {
        // SAFETY: under the lock nobody else uses it.
        let record = unsafe { (*self.0.get()).as_ref()? };
        let chosen = queue.withdraw(record);
        let value = record.value.take();
        // SAFETY: it is in no queue now.
        unsafe { *self.0.get() = None };
        Some((value, chosen))
    }
}

/// Receives from a channel.
pub struct ReceiveArm<'a, T> {
    channel: &'a Channel<T>,
    place: Place<T>,
    result: Cell<Option<Result<T, RecvError>>>,
}

impl<T> Receiver<T> {
    #[doc(hidden)]
    #[inline]
    pub fn __receive_arm(&self) -> ReceiveArm<'_, T> {
        ReceiveArm { channel: &self.channel, place: Place::new(), result: Cell::new(None) }
    }
}

impl<T> ReceiveArm<'_, T> {
    #[inline]
    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    /// What came of it, after it has won.
    #[inline]
    pub fn finish(&self) -> Result<T, RecvError> {
        self.result.take().expect("an arm that has won has a result")
    }

    #[inline]
    fn note(&self, taken: Result<T, Nothing>) -> bool {
        let result = match taken {
            Ok(value) => Ok(value),
            Err(Nothing::Disconnected) => Err(RecvError),
            Err(Nothing::Empty) => return false,
        };
        self.result.set(Some(result));
        true
    }
}

impl<T> Arm for ReceiveArm<'_, T> {
    #[inline]
    fn attempt(&self) -> bool {
        self.note(self.channel.try_recv())
    }

    fn lock_address(&self) -> usize {
        ptr::from_ref(self.channel).addr()
    }

    fn lock(&self) {
        mem::forget(self.channel.state.lock());
    }

    unsafe fn unlock(&self) {
        // SAFETY: taken by this arm.
        unsafe { self.channel.state.unlock() };
    }

    unsafe fn attempt_locked(&self, wakes: &mut Wakes) -> bool {
        // SAFETY: the lock is held.
        self.note(unsafe { state(self.channel) }.take_under(false, wakes))
    }

    unsafe fn enqueue(&self, party: &Party, epoch: Epoch) {
        // SAFETY: the lock is held; the rest is passed on.
        unsafe { self.place.queue_up(&mut state(self.channel).receivers, party, epoch, None) };
    }

    fn withdraw(&self) -> Withdrawn {
        let mut state = self.channel.state.lock();
        // SAFETY: under the lock, the queue of `enqueue`.
        let left = unsafe { self.place.leave(&mut state.receivers) };
        drop(state);
        match left {
            Some((value, true)) => {
                self.result.set(Some(value.ok_or(RecvError)));
                Withdrawn::Won
            }
            _ => Withdrawn::Lost,
        }
    }

    fn call_off(&self) -> bool {
        self.note(Err(Nothing::Disconnected))
    }

    fn operation(&self) -> (Operation, *const ()) {
        (Operation::Receive, ptr::from_ref(self.channel).cast())
    }

    fn discard(&self) {
        self.result.set(None);
    }
}

/// Sends into a channel; the value goes back to where it came from if another arm wins.
pub struct SendArm<'a, T> {
    channel: &'a Channel<T>,
    value: Cell<Option<T>>,
    origin: Option<&'a mut Option<T>>,
    place: Place<T>,
    result: Cell<Option<Result<(), SendError<T>>>>,
}

impl<T> Sender<T> {
    #[doc(hidden)]
    #[inline]
    pub fn __send_arm(&self, value: T) -> SendArm<'_, T> {
        SendArm::new(&self.channel, Some(value), None)
    }

    #[doc(hidden)]
    #[inline]
    pub fn __send_arm_from<'a>(&'a self, origin: &'a mut Option<T>) -> SendArm<'a, T> {
        SendArm::new(&self.channel, origin.take(), Some(origin))
    }
}

impl<'a, T> SendArm<'a, T> {
    #[inline]
    fn new(channel: &'a Channel<T>, value: Option<T>, origin: Option<&'a mut Option<T>>) -> Self {
        let (value, result) = (Cell::new(value), Cell::new(None));
        SendArm { channel, value, origin, place: Place::new(), result }
    }

    #[inline]
    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    /// What came of it, after it has won.
    #[inline]
    pub fn finish(&self) -> Result<(), SendError<T>> {
        self.result.take().expect("an arm that has won has a result")
    }

    #[inline]
    fn note(&self, sent: Result<(), TrySendError<T>>) -> bool {
        let result = match sent {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(value)) => Err(SendError(value)),
            Err(TrySendError::Full(value)) => {
                self.value.set(Some(value));
                return false;
            }
        };
        self.result.set(Some(result));
        true
    }
}

impl<T> Drop for SendArm<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(origin) = &mut self.origin {
            **origin = self.value.take();
        }
    }
}

impl<T> Arm for SendArm<'_, T> {
    #[inline]
    fn attempt(&self) -> bool {
        let Some(value) = self.value.take() else { return false };
        self.note(self.channel.try_send(value))
    }

    fn lock_address(&self) -> usize {
        ptr::from_ref(self.channel).addr()
    }

    fn lock(&self) {
        mem::forget(self.channel.state.lock());
    }

    unsafe fn unlock(&self) {
        // SAFETY: taken by this arm.
        unsafe { self.channel.state.unlock() };
    }

    unsafe fn attempt_locked(&self, wakes: &mut Wakes) -> bool {
        let Some(value) = self.value.take() else { return false };
        // SAFETY: the lock is held.
        self.note(unsafe { state(self.channel) }.put_under(
            value,
            self.channel.public.capacity,
            false,
            wakes,
        ))
    }

    unsafe fn enqueue(&self, party: &Party, epoch: Epoch) {
        let Some(value) = self.value.take() else { return };
        // SAFETY: the lock is held; the rest is passed on.
        unsafe { self.place.queue_up(&mut state(self.channel).senders, party, epoch, Some(value)) };
    }

    fn withdraw(&self) -> Withdrawn {
        let mut state = self.channel.state.lock();
        // SAFETY: under the lock, the queue of `enqueue`.
        let left = unsafe { self.place.leave(&mut state.senders) };
        drop(state);
        match left {
            Some((value, true)) => {
                self.result.set(Some(value.map_or(Ok(()), |value| Err(SendError(value)))));
                Withdrawn::Won
            }
            Some((value, false)) => {
                self.value.set(value);
                Withdrawn::Lost
            }
            None => Withdrawn::Lost,
        }
    }

    fn call_off(&self) -> bool {
        let Some(value) = self.value.take() else { return false };
        self.note(Err(TrySendError::Disconnected(value)))
    }

    fn operation(&self) -> (Operation, *const ()) {
        (Operation::Send, ptr::from_ref(self.channel).cast())
    }

    fn discard(&self) {
        self.result.set(None);
    }
}

/// The state of a channel that is locked for a select.
///
/// # Safety
///
/// The lock must be held, and there must be no other reference.
#[allow(clippy::mut_from_ref, reason = "the lock is held")]
unsafe fn state<T>(channel: &Channel<T>) -> &mut State<T> {
    // SAFETY: by the contract.
    unsafe { &mut *channel.state.as_ptr() }
}

/// Receives from a oneshot channel. It borrows the receiver for itself, so nobody else takes the
/// value meanwhile.
pub struct OneshotArm<'a, T> {
    block: &'a Oneshot<T>,
    locked: Cell<bool>,
    result: Cell<Option<Result<T, RecvError>>>,
}

impl<T> OneshotReceiver<T> {
    #[doc(hidden)]
    #[inline]
    pub fn __receive_arm(&mut self) -> OneshotArm<'_, T> {
        let (locked, result) = (Cell::new(false), Cell::new(None));
        OneshotArm { block: self.block(), locked, result }
    }
}

impl<T> OneshotArm<'_, T> {
    #[inline]
    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    /// What came of it, after it has won.
    #[inline]
    pub fn finish(&self) -> Result<T, RecvError> {
        self.result.take().expect("an arm that has won has a result")
    }
}

impl<T> Arm for OneshotArm<'_, T> {
    fn attempt(&self) -> bool {
        // SAFETY: the receiver is borrowed by this arm alone.
        let result = match unsafe { self.block.try_take() } {
            Ok(value) => Ok(value),
            Err(TryRecvError::Disconnected) => Err(RecvError),
            Err(TryRecvError::Empty) => return false,
        };
        self.result.set(Some(result));
        true
    }

    fn lock_address(&self) -> usize {
        ptr::from_ref(self.block).addr()
    }

    fn lock(&self) {
        self.locked.set(self.block.lock_for_select());
    }

    unsafe fn unlock(&self) {
        if self.locked.take() {
            self.block.unlock_after_select();
        }
    }

    unsafe fn attempt_locked(&self, _wakes: &mut Wakes) -> bool {
        !self.locked.get() && self.attempt()
    }

    unsafe fn enqueue(&self, party: &Party, epoch: Epoch) {
        // Without the lock the matter has ended, and `attempt_locked` has succeeded.
        debug_assert!(self.locked.get());
        self.block.enqueue(party, epoch);
    }

    fn withdraw(&self) -> Withdrawn {
        if self.block.withdraw() { Withdrawn::Ready } else { Withdrawn::Lost }
    }

    fn call_off(&self) -> bool {
        self.result.set(Some(Err(RecvError)));
        true
    }
}

/// Becomes due.
pub struct TimerArm {
    /// Counts from when the select begins to wait.
    after: Duration,
    deadline: Cell<Option<Instant>>,
}

impl TimerArm {
    #[inline]
    pub fn after(duration: Duration) -> Self {
        TimerArm { after: duration, deadline: Cell::new(None) }
    }

    #[inline]
    pub fn at(deadline: Instant) -> Self {
        TimerArm { after: Duration::ZERO, deadline: Cell::new(Some(deadline)) }
    }

    #[inline]
    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    #[inline]
    pub fn finish(&self) {}
}

impl Arm for TimerArm {
    #[inline]
    fn attempt(&self) -> bool {
        match self.deadline.get() {
            Some(deadline) => !deadline.is_far_future() && deadline <= Instant::now(),
            None => self.after.is_zero(),
        }
    }

    fn deadline(&self) -> Instant {
        let deadline = self.deadline.get().unwrap_or_else(|| Instant::now() + self.after);
        self.deadline.set(Some(deadline));
        deadline
    }

    fn call_off(&self) -> bool {
        true
    }
}

/// Never completes: what is left of an arm that was taken out.
pub(super) struct NoArm;

impl Arm for NoArm {
    fn attempt(&self) -> bool {
        false
    }
}
