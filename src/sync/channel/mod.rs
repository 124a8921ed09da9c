//! Channels: values handed from fiber to fiber, or between fibers and OS threads.
//!
//! | made by | holds | `send` waits |
//! |---|---|---|
//! | [`rendezvous`] | nothing | until a receiver takes the value |
//! | [`bounded`] | so many values | while it is full |
//! | [`unbounded`] | any number | never |
//! | [`oneshot`] | one value, ever | never |
//!
//! All but the last have any number of senders and of receivers, which are cloned. Each value is
//! received once. Values are received in the order in which they were sent, and both senders and
//! receivers are served first come, first served. A value goes straight to a receiver that waits.
//!
//! ```
//! use pirn::sync::channel;
//! use pirn::thread;
//!
//! pirn::run(|| {
//!     let (sender, receiver) = channel::bounded(8);
//!     for worker in 0..3 {
//!         let sender = sender.clone();
//!         thread::spawn(move || {
//!             for n in 0..10 {
//!                 sender.send(10 * worker + n).unwrap();
//!             }
//!         });
//!     }
//!     drop(sender); // or the loop below would wait for ever
//!     let mut all: Vec<i32> = receiver.iter().collect();
//!     all.sort();
//!     assert_eq!(all, (0..30).collect::<Vec<_>>());
//! });
//! ```
//!
//! Async code receives and sends by [`recv_async`](Receiver::recv_async) and
//! [`send_async`](Sender::send_async), on whatever executor.
//!
//! To wait for several channels at once, or for a channel and a timer, see
//! [`select!`](crate::select).
//!
//! # Disconnection
//!
//! A channel is disconnected when it is [closed](Sender::close), when its last sender is gone, or
//! its last receiver. Whoever waits is woken. Nothing can be sent any more: the value comes back in
//! the error, also to a sender that was waiting. What is in the buffer can still be received, after
//! that `recv` is an error. With the last receiver the buffer is dropped.
//!
//! # Who runs next
//!
//! An operation that need not wait does not give way to others: a woken fiber runs when the waker
//! waits, yields or ends. A fiber that for ever finds what it looks for should
//! [yield](crate::thread::yield_now) now and then.
//!
//! # When a wait is called off
//!
//! A fiber that waits when its runtime ends is unwound; a value that it was sending is dropped. In a
//! destructor in that unwind an operation that would have to wait returns at once, as if the channel
//! were disconnected. See [`pirn::thread`](crate::thread).
//!
//! # Where the errors come from
//!
//! They are std's, from [`std::sync::mpsc`], but for [`SendTimeoutError`].

pub(crate) mod core;
mod error;
mod iter;
pub(crate) mod oneshot;
// A model checker runs the others as they stand, without tasks.
#[cfg(not(loom))]
mod future;
#[cfg(not(loom))]
mod poll;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use self::core::{Channel, Nothing, UNBOUNDED};
use crate::sched::clock::Instant;

pub use error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
#[cfg(not(loom))]
pub use future::{OneshotFuture, RecvFuture, SendFuture};
pub use iter::{IntoIter, Iter, TryIter};
pub use oneshot::{OneshotReceiver, OneshotSender, oneshot};

/// A channel without a buffer: a sender waits for a receiver, and a receiver for a sender.
///
/// ```
/// use pirn::sync::channel;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let (sender, receiver) = channel::rendezvous();
///     assert!(sender.try_send(0).is_err()); // nobody waits for it
///     thread::spawn(move || sender.send(1).unwrap());
///     assert_eq!(receiver.recv(), Ok(1));
/// });
/// ```
pub fn rendezvous<T>() -> (Sender<T>, Receiver<T>) {
    bounded(0)
}

/// A channel that holds at most so many values; with 0 a [`rendezvous`] channel.
///
/// Memory is taken as it is needed, so a huge capacity costs nothing. `usize::MAX` is no bound.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(capacity));
    (Sender { channel: channel.clone() }, Receiver { channel })
}

/// A channel that holds any number of values: `send` never waits.
///
/// ```
/// let (sender, receiver) = pirn::sync::channel::unbounded();
/// sender.send("a").unwrap();
/// sender.send("b").unwrap();
/// drop(sender);
/// assert_eq!(receiver.iter().collect::<String>(), "ab");
/// ```
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(UNBOUNDED)
}

/// The sending end of a channel. Its clones send into the same channel.
pub struct Sender<T> {
    pub(crate) channel: Arc<Channel<T>>,
}

/// The receiving end of a channel. Its clones compete for the values of the same channel.
pub struct Receiver<T> {
    pub(crate) channel: Arc<Channel<T>>,
}

// Whatever an unwind leaves behind, a channel is whole: no user code runs under its lock.
impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Sender<T> {
    /// Sends a value; waits while the channel is full.
    ///
    /// # Errors
    ///
    /// When the channel is [disconnected](self#disconnection); the error holds the value.
    #[inline(always)]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let sent = self.channel.send(value, Instant::FAR_FUTURE);
        sent.map_err(|error| SendError(error.into_inner()))
    }

    /// Sends a value if that can be done without waiting: there is room, or a receiver waits.
    ///
    /// # Errors
    ///
    /// [`TrySendError::Full`], [`TrySendError::Disconnected`]; both hold the value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.channel.try_send(value)
    }

    /// Sends a value; waits while the channel is full, at most for this long.
    ///
    /// ```
    /// use pirn::sync::channel::{self, SendTimeoutError};
    /// use pirn::time::Duration;
    ///
    /// let (sender, receiver) = channel::bounded(1);
    /// let patience = Duration::from_millis(1);
    /// assert_eq!(sender.send_timeout(1, patience), Ok(()));
    /// assert_eq!(sender.send_timeout(2, patience), Err(SendTimeoutError::Timeout(2)));
    /// drop(receiver);
    /// assert_eq!(sender.send_timeout(3, patience), Err(SendTimeoutError::Disconnected(3)));
    /// ```
    ///
    /// # Errors
    ///
    /// [`SendTimeoutError::Timeout`] when the time is up; [`SendTimeoutError::Disconnected`]; both
    /// hold the value.
    #[inline]
    pub fn send_timeout(&self, value: T, duration: Duration) -> Result<(), SendTimeoutError<T>> {
        // The clock is read only if there is a wait.
        match self.channel.try_send(value) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(value)) => self.send_deadline(value, Instant::now() + duration),
            Err(TrySendError::Disconnected(value)) => Err(SendTimeoutError::Disconnected(value)),
        }
    }

    /// Sends a value; waits while the channel is full, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`send_timeout`](Self::send_timeout).
    #[inline]
    pub fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.channel.send(value, deadline)
    }

    /// Closes the channel, for all its ends: see [disconnection](self#disconnection). False: it was
    /// disconnected already.
    pub fn close(&self) -> bool {
        self.channel.close()
    }

    /// Whether the channel is disconnected: nothing can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// How many values the channel holds; never more than its capacity.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the channel holds no value. A rendezvous channel always is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the channel holds as many values as it may. A rendezvous channel always is full.
    pub fn is_full(&self) -> bool {
        self.len() >= self.channel.public.capacity
    }

    /// How many values the channel may hold; `None` for any number.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether both send into the same channel.
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Receiver<T> {
    /// Receives a value; waits until there is one.
    ///
    /// # Errors
    ///
    /// When the channel is empty and [disconnected](self#disconnection).
    #[inline(always)]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.recv(Instant::FAR_FUTURE).map_err(|_| RecvError)
    }

    /// Receives a value if one is there, or a sender waits with one.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`], [`TryRecvError::Disconnected`].
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.channel.try_recv().map_err(|nothing| match nothing {
            Nothing::Empty => TryRecvError::Empty,
            Nothing::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// Receives a value; waits until there is one, at most for this long.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError::Timeout`] when the time is up; [`RecvTimeoutError::Disconnected`].
    #[inline]
    pub fn recv_timeout(&self, duration: Duration) -> Result<T, RecvTimeoutError> {
        // The clock is read only if there is a wait.
        match self.channel.try_recv() {
            Ok(value) => Ok(value),
            Err(Nothing::Empty) => self.recv_deadline(Instant::now() + duration),
            Err(Nothing::Disconnected) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// Receives a value; waits until there is one, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`recv_timeout`](Self::recv_timeout).
    #[inline]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.channel.recv(deadline).map_err(|nothing| match nothing {
            Nothing::Empty => RecvTimeoutError::Timeout,
            Nothing::Disconnected => RecvTimeoutError::Disconnected,
        })
    }

    /// Receives value after value, waiting for each, until the channel is disconnected.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Receives value after value for as long as that needs no waiting.
    ///
    /// ```
    /// let (sender, receiver) = pirn::sync::channel::unbounded();
    /// sender.send(1).unwrap();
    /// sender.send(2).unwrap();
    /// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// Closes the channel, for all its ends: see [disconnection](self#disconnection). False: it was
    /// disconnected already.
    ///
    /// ```
    /// let (sender, receiver) = pirn::sync::channel::unbounded();
    /// sender.send(1).unwrap();
    /// assert!(receiver.close());
    /// assert!(sender.send(2).is_err());
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert!(receiver.recv().is_err());
    /// ```
    pub fn close(&self) -> bool {
        self.channel.close()
    }

    /// Whether the channel is disconnected: nothing more comes than what it holds.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// How many values the channel holds; never more than its capacity.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether the channel holds no value. A rendezvous channel always is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the channel holds as many values as it may. A rendezvous channel always is full.
    pub fn is_full(&self) -> bool {
        self.len() >= self.channel.public.capacity
    }

    /// How many values the channel may hold; `None` for any number.
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether both receive from the same channel.
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.add(&self.channel.senders);
        Sender { channel: self.channel.clone() }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.channel.add(&self.channel.receivers);
        Receiver { channel: self.channel.clone() }
    }
}

impl<T> Drop for Sender<T> {
    #[inline]
    fn drop(&mut self) {
        if Channel::<T>::remove(&self.channel.senders) {
            self.channel.close();
        }
    }
}

impl<T> Drop for Receiver<T> {
    #[inline]
    fn drop(&mut self) {
        if Channel::<T>::remove(&self.channel.receivers) {
            self.channel.close();
            self.channel.discard();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.capacity();
        f.debug_struct("Sender").field("len", &self.len()).field("capacity", &capacity).finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.capacity();
        f.debug_struct("Receiver").field("len", &self.len()).field("capacity", &capacity).finish()
    }
}
