//! Channels as [resumables](crate::task) see them: operations that are pending instead of waiting.
//!
//! The records are those of every waiter, so a resumable has its place among fibers and OS threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use super::core::{Channel, Nothing};
use super::error::{RecvError, SendError, TrySendError};
use super::{Receiver, Sender};
use crate::sched::Resource;
use crate::sched::registration::Pollable;
use crate::sched::wakes::Wakes;
use crate::sync::waiters::Record;
use crate::task::Context;

/// A parked task's share in a channel that it would receive from.
struct Receiving<T>(Arc<Channel<T>>);

impl<T: 'static> Pollable for Receiving<T> {
    type Item = T;

    fn resource(&self) -> *const Resource {
        self.0.public.receiving()
    }

    fn withdraw(&self, record: &Record<T>) {
        self.0.withdraw_receiver(record);
    }
}

impl<T> Channel<T> {
    /// Takes the record of a receiver out. A value that was handed over by it goes to the next one, or
    /// is the first in the buffer again.
    pub(super) fn withdraw_receiver(&self, record: &Record<T>) {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        let handed_over = state.receivers.withdraw(record).then(|| record.value.take()).flatten();
        // Relaxed: the last receiver drops the buffer under the lock, after it was counted out.
        let heard = self.receivers.load(Ordering::Relaxed) > 0;
        let unheard = match handed_over {
            Some(value) if heard => {
                state.put_back(value, &mut wakes);
                None
            }
            other => other,
        };
        drop(state);
        drop(unheard);
    }
}

/// A parked task's share in a channel that it would send into; the record has the value.
struct Sending<T>(Arc<Channel<T>>);

impl<T: 'static> Pollable for Sending<T> {
    type Item = T;

    fn resource(&self) -> *const Resource {
        self.0.public.sending()
    }

    fn withdraw(&self, record: &Record<T>) {
        self.0.state.lock().senders.withdraw(record);
    }
}

impl<T: 'static> Receiver<T> {
    /// [`recv`](Self::recv) for a [`Resumable`](crate::task::Resumable): pending while there is no
    /// value, and the first that comes resumes the task, which polls again.
    ///
    /// A value that was handed to the task and is not taken, since the task does not poll again
    /// before its next resume is over, goes to the next receiver, or back to the head of the channel.
    ///
    /// # Errors
    ///
    /// When the channel is disconnected and empty.
    ///
    /// ```
    /// use pirn::sync::channel::{self, Receiver};
    /// use pirn::task::{self, Context, Resumable, Step};
    /// use std::task::Poll;
    ///
    /// struct Sum(Receiver<u32>, u32);
    ///
    /// impl Resumable for Sum {
    ///     type Output = u32;
    ///     fn resume(&mut self, cx: &mut Context<'_>) -> Step<u32> {
    ///         loop {
    ///             match self.0.poll_recv(cx) {
    ///                 Poll::Ready(Ok(number)) => self.1 += number,
    ///                 Poll::Ready(Err(_)) => return Step::Done(self.1),
    ///                 Poll::Pending => return Step::Parked,
    ///             }
    ///         }
    ///     }
    /// }
    ///
    /// pirn::run(|| {
    ///     let (sender, receiver) = channel::rendezvous();
    ///     let sum = task::spawn(Sum(receiver, 0));
    ///     (1..=10).for_each(|number| sender.send(number).unwrap());
    ///     drop(sender);
    ///     assert_eq!(sum.join().unwrap(), 55);
    /// });
    /// ```
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let channel = &self.channel;
        let earlier = cx.find::<Receiving<T>>(channel.public.receiving());
        let mut wakes = Wakes::new();
        let mut state = channel.state.lock();
        let taken = match &earlier {
            // Nothing in it: the channel was closed.
            Some(ours) if ours.record().is_chosen() => {
                ours.record().value.take().ok_or(Nothing::Disconnected)
            }
            _ => state.take(&mut wakes),
        };
        if matches!(taken, Err(Nothing::Empty)) {
            let registration =
                earlier.unwrap_or_else(|| cx.register(Receiving(channel.clone()), None, 0));
            state.receivers.arm(registration.record(), cx.epoch());
            return Poll::Pending;
        }
        if let Some(registration) = earlier {
            state.receivers.withdraw(&registration.record());
            cx.settle(registration);
        }
        let outgrown = state.outgrown();
        drop(state);
        drop(outgrown);
        Poll::Ready(taken.map_err(|_| RecvError))
    }
}

impl<T: 'static> Sender<T> {
    /// [`send`](Self::send) for a [`Resumable`](crate::task::Resumable): pending while there is no
    /// room, and the task is resumed when the value has gone, or cannot go.
    ///
    /// Takes the value out of `value`, also when it is pending: it is on its way then, and further
    /// polls find nothing there, and ask what has become of it. When the task does not poll again
    /// before its next resume is over, the value is dropped, unless it has gone; so it is when the
    /// task polls with another one.
    ///
    /// # Errors
    ///
    /// When the channel is disconnected; the error holds the value.
    ///
    /// # Panics
    ///
    /// When there is no value, and none is on its way.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        value: &mut Option<T>,
    ) -> Poll<Result<(), SendError<T>>> {
        let channel = &self.channel;
        let mut earlier = cx.find::<Sending<T>>(channel.public.sending());
        if value.is_some()
            && let Some(registration) = earlier.take()
        {
            cx.withdraw(registration);
        }
        assert!(
            value.is_some() || earlier.is_some(),
            "Sender::poll_send was given no value, and none is on its way"
        );
        let mut wakes = Wakes::new();
        let mut state = channel.state.lock();
        let sent = match &earlier {
            // The value is still in it: the channel was closed.
            Some(ours) if ours.record().is_chosen() => match ours.record().value.take() {
                Some(value) => Err(TrySendError::Disconnected(value)),
                None => Ok(()),
            },
            ours => {
                let ours = ours.as_ref().and_then(|ours| ours.record().value.take());
                let value = ours.or_else(|| value.take()).expect("one of the two is there");
                state.put(value, channel.public.capacity, &mut wakes)
            }
        };
        let sent = match sent {
            Err(TrySendError::Full(value)) => {
                let registration =
                    earlier.unwrap_or_else(|| cx.register(Sending(channel.clone()), None, 0));
                registration.record().value.set(Some(value));
                state.senders.arm(registration.record(), cx.epoch());
                return Poll::Pending;
            }
            Err(TrySendError::Disconnected(value)) => Err(SendError(value)),
            Ok(()) => Ok(()),
        };
        if let Some(registration) = earlier {
            state.senders.withdraw(&registration.record());
            cx.settle(registration);
        }
        drop(state);
        Poll::Ready(sent)
    }
}
