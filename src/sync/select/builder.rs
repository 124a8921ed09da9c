//! A select over operations that are known at run time only.

use std::error::Error;
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::arms::{NoArm, ReceiveArm, SendArm};
use super::{Arm, Missed, Operation, Patience, select};
use crate::sched::clock::Instant;
use crate::sync::channel::{Receiver, RecvError, SendError, Sender};

/// A list of operations, of which one is to be completed: the dynamic form of
/// [`select!`](crate::select).
///
/// ```
/// use pirn::sync::{Select, channel};
/// use pirn::thread;
///
/// pirn::run(|| {
///     let channels: Vec<_> = (0..3).map(|_| channel::rendezvous()).collect();
///     for (number, (sender, _)) in channels.iter().enumerate() {
///         let sender = sender.clone();
///         thread::spawn(move || sender.send(10 * number).unwrap());
///     }
///     let mut select = Select::new();
///     for (_, receiver) in &channels {
///         select.recv(receiver);
///     }
///     let mut sum = 0;
///     for _ in 0..3 {
///         let done = select.select();
///         let receiver = &channels[done.index()].1;
///         sum += done.recv(receiver).unwrap();
///     }
///     assert_eq!(sum, 30);
/// });
/// ```
///
/// An operation that has completed may complete again in the next select. Without operations
/// [`select`](Self::select) waits for ever, and is part of a deadlock report if everybody does. When
/// a wait is called off it does as `select!` does.
#[must_use = "a list of operations does nothing by itself"]
pub struct Select<'a> {
    arms: Vec<Box<dyn Arm + 'a>>,
    biased: bool,
}

impl<'a> Select<'a> {
    /// An empty list. Of several operations that can complete one is drawn by lot.
    pub fn new() -> Self {
        Select { arms: Vec::new(), biased: false }
    }

    /// An empty list. Of several operations that can complete the first is chosen.
    pub fn new_biased() -> Self {
        Select { biased: true, ..Select::new() }
    }

    /// Adds an operation that receives. Returns its index.
    pub fn recv<T>(&mut self, receiver: &'a Receiver<T>) -> usize {
        self.add(Box::new(receiver.__receive_arm()))
    }

    /// Adds an operation that sends the value in `slot`, and returns its index. The value is taken
    /// out when the operation is chosen; else it is back in the slot when this list is gone. An
    /// operation whose value has been sent is not chosen again.
    pub fn send<T>(&mut self, sender: &'a Sender<T>, slot: &'a mut Option<T>) -> usize {
        self.add(Box::new(sender.__send_arm_from(slot)))
    }

    fn add(&mut self, arm: Box<dyn Arm + 'a>) -> usize {
        self.arms.push(arm);
        self.arms.len() - 1
    }

    /// Takes an operation out. The others keep their indices.
    ///
    /// # Panics
    ///
    /// When no operation has had that index.
    pub fn remove(&mut self, index: usize) {
        self.arms[index] = Box::new(NoArm);
    }

    fn complete(&mut self, patience: Patience) -> Result<SelectedOperation<'_>, Missed> {
        self.arms.iter().for_each(|arm| arm.discard());
        let arms: Vec<&dyn Arm> = self.arms.iter().map(|arm| &**arm as &dyn Arm).collect();
        let mut order: Vec<usize> = (0..arms.len()).collect();
        let index = select(&arms, &mut order, self.biased, patience)?;
        Ok(SelectedOperation { index, arm: &*self.arms[index] })
    }

    /// Waits until one of the operations can complete, and completes it.
    pub fn select(&mut self) -> SelectedOperation<'_> {
        match self.complete(Patience::Until(Instant::FAR_FUTURE)) {
            Ok(done) => done,
            Err(_) => unreachable!("without a deadline"),
        }
    }

    /// Completes one of the operations if that can be done without waiting.
    ///
    /// # Errors
    ///
    /// When none can.
    pub fn try_select(&mut self) -> Result<SelectedOperation<'_>, TrySelectError> {
        self.complete(Patience::None).map_err(|_| TrySelectError)
    }

    /// Waits until one of the operations can complete, at most for this long, and completes it.
    ///
    /// # Errors
    ///
    /// When the time is up.
    pub fn select_timeout(
        &mut self,
        duration: Duration,
    ) -> Result<SelectedOperation<'_>, SelectTimeoutError> {
        self.select_deadline(Instant::now() + duration)
    }

    /// Waits until one of the operations can complete, at most until this instant, and completes it.
    ///
    /// # Errors
    ///
    /// When the time is up.
    pub fn select_deadline(
        &mut self,
        deadline: Instant,
    ) -> Result<SelectedOperation<'_>, SelectTimeoutError> {
        self.complete(Patience::Until(deadline)).map_err(|_| SelectTimeoutError)
    }
}

impl Default for Select<'_> {
    fn default() -> Self {
        Select::new()
    }
}

impl fmt::Debug for Select<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Select { arms, biased } = self;
        f.debug_struct("Select").field("arms", &arms.len()).field("biased", biased).finish()
    }
}

/// An operation that a [`Select`] has completed. What came of it is in here: it is lost if it is not
/// asked for.
#[must_use = "a value that was received is in here"]
pub struct SelectedOperation<'a> {
    index: usize,
    arm: &'a dyn Arm,
}

impl SelectedOperation<'_> {
    /// Which operation it was.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What was received.
    ///
    /// # Errors
    ///
    /// When the channel is disconnected.
    ///
    /// # Panics
    ///
    /// When the operation was another one than receiving from this channel.
    pub fn recv<T>(self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        self.check(Operation::Receive, Arc::as_ptr(&receiver.channel).cast());
        // SAFETY: it is an arm of that kind on this very channel, so its T is the channel's.
        unsafe { &*ptr::from_ref(self.arm).cast::<ReceiveArm<'_, T>>() }.finish()
    }

    /// Whether the value was sent.
    ///
    /// # Errors
    ///
    /// When the channel is disconnected; the error holds the value.
    ///
    /// # Panics
    ///
    /// When the operation was another one than sending into this channel.
    pub fn send<T>(self, sender: &Sender<T>) -> Result<(), SendError<T>> {
        self.check(Operation::Send, Arc::as_ptr(&sender.channel).cast());
        // SAFETY: as in `recv`.
        unsafe { &*ptr::from_ref(self.arm).cast::<SendArm<'_, T>>() }.finish()
    }

    fn check(&self, operation: Operation, channel: *const ()) {
        assert!(
            self.arm.operation() == (operation, channel),
            "the selected operation, number {}, is not the one that is asked for",
            self.index
        );
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        self.arm.discard();
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedOperation").field("index", &self.index).finish_non_exhaustive()
    }
}

/// None of the operations could complete without waiting. Returned by [`Select::try_select`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrySelectError;

impl fmt::Display for TrySelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all operations in select would block")
    }
}

impl Error for TrySelectError {}

/// None of the operations could complete in time. Returned by [`Select::select_timeout`] and
/// [`Select::select_deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectTimeoutError;

impl fmt::Display for SelectTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out waiting on select")
    }
}

impl Error for SelectTimeoutError {}
