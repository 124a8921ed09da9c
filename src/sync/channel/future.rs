//! Channels as futures see them, whoever polls those: another executor, or
//! [`block_on`](crate::block_on).
//!
//! The records are those of every waiter, so a future has its place among fibers and OS threads. One
//! that is dropped takes its record out; what had been handed over goes to the next in line.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::core::Nothing;
use super::error::{RecvError, SendError, TryRecvError, TrySendError};
use super::{OneshotReceiver, Receiver, Sender};
use crate::sched::awaiting::{Await, Queued};
use crate::sched::wakes::Wakes;

impl<T> Receiver<T> {
    /// [`recv`](Self::recv) as a future.
    ///
    /// Dropping the future loses nothing: a value that was handed to it goes to the next receiver, or
    /// back to the head of the channel.
    ///
    /// # Errors
    ///
    /// When the channel is disconnected and empty.
    ///
    /// ```
    /// use pirn::sync::channel;
    /// use pirn::task;
    ///
    /// pirn::run(|| {
    ///     let (sender, receiver) = channel::rendezvous();
    ///     let sum = task::spawn_future(async move {
    ///         let mut sum = 0;
    ///         while let Ok(number) = receiver.recv_async().await {
    ///             sum += number;
    ///         }
    ///         sum
    ///     });
    ///     (1..=10).for_each(|number| sender.send(number).unwrap()); // a fiber waits for the future
    ///     drop(sender);
    ///     assert_eq!(sum.join().unwrap(), 55);
    /// });
    /// ```
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture { receiver: self, queued: None }
    }
}

/// Receives a value when it is polled; made by [`Receiver::recv_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    receiver: &'a Receiver<T>,
    /// Where it waits, since a poll that was pending.
    queued: Option<Queued<T>>,
}

impl<T> Unpin for RecvFuture<'_, T> {}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let RecvFuture { receiver, queued } = &mut *self;
        let channel = &receiver.channel;
        if let Some(ours) = queued {
            ours.set_waker(cx.waker());
            let state = channel.state.lock();
            if ours.record.is_queued() {
                return Poll::Pending;
            }
            drop(state);
            // Nothing in it: the channel was closed.
            let value = ours.record.value.take().ok_or(RecvError);
            *queued = None;
            return Poll::Ready(value);
        }
        let taken = match channel.try_recv() {
            Err(Nothing::Empty) => {
                // Made outside the lock.
                let ours = Queued::new(cx.waker(), None);
                let mut wakes = Wakes::new();
                let mut state = channel.state.lock();
                let taken = state.take(&mut wakes);
                if matches!(taken, Err(Nothing::Empty)) {
                    state.receivers.push(ours.record.as_ref());
                    drop(state);
                    *queued = Some(ours);
                    return Poll::Pending;
                }
                drop(state);
                taken
            }
            taken => taken,
        };
        Poll::Ready(taken.map_err(|_| RecvError))
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        if let Some(ours) = self.queued.take() {
            self.receiver.channel.withdraw_receiver(&ours.record);
        }
    }
}

impl<T> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").finish_non_exhaustive()
    }
}

impl<T> Sender<T> {
    /// [`send`](Self::send) as a future.
    ///
    /// Nothing is sent before it is polled. When it is dropped the value is dropped with it, unless it
    /// has gone.
    ///
    /// # Errors
    ///
    /// When the channel is disconnected; the error holds the value.
    ///
    /// ```
    /// use pirn::sync::channel;
    /// use pirn::task;
    ///
    /// pirn::run(|| {
    ///     let (sender, receiver) = channel::bounded(1);
    ///     task::spawn_future(async move {
    ///         for number in 0..3 {
    ///             sender.send_async(number).await.unwrap();
    ///         }
    ///     });
    ///     assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
    /// });
    /// ```
    pub fn send_async(&self, value: T) -> SendFuture<'_, T> {
        SendFuture { sender: self, value: Some(value), queued: None }
    }
}

/// Sends a value when it is polled; made by [`Sender::send_async`].
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    sender: &'a Sender<T>,
    /// Until it is polled.
    value: Option<T>,
    /// Where it waits, with the value, since a poll that was pending.
    queued: Option<Queued<T>>,
}

// The value is moved, never pinned.
impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let SendFuture { sender, value, queued } = &mut *self;
        let channel = &sender.channel;
        if let Some(ours) = queued {
            ours.set_waker(cx.waker());
            let state = channel.state.lock();
            if ours.record.is_queued() {
                return Poll::Pending;
            }
            drop(state);
            // Still in it: the channel was closed.
            let left = ours.record.value.take();
            *queued = None;
            return Poll::Ready(left.map_or(Ok(()), |value| Err(SendError(value))));
        }
        let value = value.take().expect("a SendFuture was polled after it was ready");
        let sent = match channel.try_send(value) {
            Err(TrySendError::Full(value)) => {
                // Made outside the lock.
                let ours = Queued::new(cx.waker(), None);
                let mut wakes = Wakes::new();
                let mut state = channel.state.lock();
                match state.put(value, channel.public.capacity, &mut wakes) {
                    Err(TrySendError::Full(value)) => {
                        ours.record.value.set(Some(value));
                        state.senders.push(ours.record.as_ref());
                        drop(state);
                        *queued = Some(ours);
                        return Poll::Pending;
                    }
                    sent => {
                        drop(state);
                        sent
                    }
                }
            }
            sent => sent,
        };
        Poll::Ready(sent.map_err(|error| match error {
            TrySendError::Full(value) | TrySendError::Disconnected(value) => SendError(value),
        }))
    }
}

impl<T> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        if let Some(ours) = self.queued.take() {
            // The value, if it is still in it, goes with the record, when the lock is free again.
            self.sender.channel.state.lock().senders.withdraw(&ours.record);
        }
    }
}

impl<T> fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}

impl<T> IntoFuture for OneshotReceiver<T> {
    type Output = Result<T, RecvError>;
    type IntoFuture = OneshotFuture<T>;

    /// [`recv`](OneshotReceiver::recv) for futures, whoever polls them.
    fn into_future(self) -> OneshotFuture<T> {
        OneshotFuture { receiver: self, wait: None }
    }
}

/// Receives the value when it is polled; what a [`OneshotReceiver`] becomes by `.await`.
#[must_use = "futures do nothing unless they are polled"]
pub struct OneshotFuture<T> {
    /// Dropped first: then the sender refers to the wait no more.
    receiver: OneshotReceiver<T>,
    wait: Option<Await>,
}

impl<T> Unpin for OneshotFuture<T> {}

impl<T> Future for OneshotFuture<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let OneshotFuture { receiver, wait } = &mut *self;
        let mut received = receiver.try_recv();
        if matches!(received, Err(TryRecvError::Empty)) {
            match wait {
                Some(wait) => wait.set_waker(cx.waker()),
                None => {
                    let wait = wait.insert(Await::new(cx.waker()));
                    let block = receiver.block();
                    if block.lock_for_select() {
                        block.enqueue(wait.party(), wait.begin());
                        block.unlock_after_select();
                        return Poll::Pending;
                    }
                }
            }
            // It may have come meanwhile.
            received = receiver.try_recv();
        }
        match received {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => Poll::Ready(Err(RecvError)),
        }
    }
}

impl<T> fmt::Debug for OneshotFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotFuture").finish_non_exhaustive()
    }
}
