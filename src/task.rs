//! Tasks without a stack: the door for interpreters, state machines and futures.
//!
//! A fiber keeps its half-done state on a stack. Whoever keeps that state himself, as an interpreter
//! does whose frames are on the heap, implements [`Resumable`] and [`spawn`]s it: the scheduler calls
//! [`resume`](Resumable::resume) when its turn comes, on the carrier's own stack, and again when what
//! it waits for has happened. Such a task costs a few hundred bytes, and no page.
//!
//! It is a task like any fiber: it stands in the same run queue, first in, first out, has an id, a
//! name and a [`JoinHandle`], waits in the same queues of the same channels and promises, and
//! appears in the same reports. Fibers, OS threads and resumables join one another and talk to one
//! another.
//!
//! ```
//! use pirn::task::{self, Context, Resumable, Step};
//!
//! /// Counts down, and gives way between two numbers.
//! struct Countdown(u32);
//!
//! impl Resumable for Countdown {
//!     type Output = &'static str;
//!
//!     fn resume(&mut self, _: &mut Context<'_>) -> Step<&'static str> {
//!         match self.0.checked_sub(1) {
//!             Some(less) => {
//!                 self.0 = less;
//!                 Step::Yielded
//!             }
//!             None => Step::Done("lift-off"),
//!         }
//!     }
//! }
//!
//! pirn::run(|| {
//!     let count = task::spawn(Countdown(3));
//!     assert_eq!(count.join().unwrap(), "lift-off");
//! });
//! ```
//!
//! # Waiting
//!
//! `resume` never blocks. It polls:
//!
//! | instead of | it calls |
//! |---|---|
//! | [`Receiver::recv`](crate::sync::channel::Receiver::recv) | [`poll_recv`](crate::sync::channel::Receiver::poll_recv) |
//! | [`Sender::send`](crate::sync::channel::Sender::send) | [`poll_send`](crate::sync::channel::Sender::poll_send) |
//! | [`Future::get`](crate::sync::Future::get) | [`poll_get`](crate::sync::Future::poll_get) |
//! | [`Mutex::lock`](crate::sync::Mutex::lock) | [`poll_lock`](crate::sync::Mutex::poll_lock) |
//! | [`Semaphore::acquire`](crate::sync::Semaphore::acquire) | [`poll_acquire`](crate::sync::Semaphore::poll_acquire) |
//! | [`JoinHandle::join`] | [`poll_join`](JoinHandle::poll_join) |
//! | [`thread::sleep_until`](crate::thread::sleep_until) | [`Context::poll_sleep`] |
//! | [`thread::yield_now`](crate::thread::yield_now) | nothing: it returns [`Step::Yielded`] |
//! | [`thread::park`](crate::thread::park) | nothing: it returns [`Step::Parked`] |
//!
//! A poll that is [`Pending`](std::task::Poll::Pending) has put the task into the queue of the
//! primitive. When the task then returns [`Step::Parked`], it is resumed as soon as any of what it
//! has polled may go on, and polls again. So waiting for several things at once is polling all of
//! them; the first one that is ready counts.
//!
//! What was polled stands until it is ready, or until the end of a resume in which it was not polled
//! again. Then it is taken back; a value or a lock that had been handed over meanwhile goes to the
//! next in line. To be resumed for nothing, as by an [`unpark`](crate::thread::Thread::unpark), does
//! no harm therefore: whoever polls again keeps what is there. A wait that a poll has left may lose
//! its place in line by that.
//!
//! A call of the blocking kind that need not wait is as good as anywhere. One that would have to wait
//! panics in `resume`, and says so: there is no stack to wait on. [`thread::scope`](crate::thread::scope) and
//! [`time::timeout`](crate::time::timeout) always do. In destructors that run when the task has
//! ended, or panics, such a call returns at once, as for a fiber that is being unwound.
//!
//! # Panics
//!
//! A panic in `resume` ends the task; `join` returns the payload, and a panic that nobody observes is
//! reported, as for fibers. The resumable is dropped.
//!
//! # Cancellation
//!
//! A task that is [cancelled](JoinHandle::cancel) is resumed, with [`Context::is_cancelled`], so that
//! it can come to an end in its own way: [`Step::Done`], with [`Step::Yielded`] as often as it likes
//! before. If it returns [`Step::Parked`] it is dropped, and `join` returns
//! [`Cancelled`](crate::thread::Cancelled); so a resumable that does not care need not look. One that
//! has not begun is dropped at once.
//!
//! # When the runtime ends
//!
//! What has not ended is dropped, in its turn among the fibers that are unwound: the newest first.
//!
//! # What it does not have
//!
//! A [`LocalKey`](crate::thread::LocalKey) has no value of its own for a resumable: there it is the
//! carrier's thread that has one. Time limits and shields belong to fibers.

use std::fmt;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::task::Poll;

use crate::sched::spawn::spawn_stackless;
use crate::thread::JoinHandle;

pub use crate::sched::resumable::{Context, Resumable, Step};

/// Spawns a resumable on the caller's runtime, as a task without a stack.
///
/// It is resumed when its turn comes, on this OS thread. Dropping the handle detaches it.
///
/// # Panics
///
/// Outside a runtime; [`Builder::spawn`] returns that as an error.
#[track_caller]
pub fn spawn<R: Resumable + 'static>(resumable: R) -> JoinHandle<R::Output> {
    match spawn_stackless(None, Location::caller(), resumable) {
        Ok(handle) => handle,
        Err(error) => panic!("failed to spawn a task: {error}"),
    }
}

/// Settings of a task: its name.
///
/// ```
/// use pirn::task::{self, Context, Resumable, Step};
///
/// struct Name;
///
/// impl Resumable for Name {
///     type Output = Option<String>;
///     fn resume(&mut self, cx: &mut Context<'_>) -> Step<Option<String>> {
///         Step::Done(cx.thread().name().map(String::from))
///     }
/// }
///
/// pirn::run(|| {
///     let task = task::Builder::new().name("weaver").spawn(Name).unwrap();
///     assert_eq!(task.join().unwrap().as_deref(), Some("weaver"));
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// No name.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the task, for panic messages, reports and the debugger.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Spawns the resumable.
    ///
    /// # Errors
    ///
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<R: Resumable + 'static>(self, resumable: R) -> io::Result<JoinHandle<R::Output>> {
        spawn_stackless(self.name.map(String::into_boxed_str), Location::caller(), resumable)
    }
}

/// A resumable whose `resume` is this closure.
///
/// ```
/// use pirn::task::{self, Step};
///
/// pirn::run(|| {
///     let mut left = 3;
///     let count = task::spawn(task::from_fn(move |_| {
///         left -= 1;
///         if left > 0 { Step::Yielded } else { Step::Done("lift-off") }
///     }));
///     assert_eq!(count.join().unwrap(), "lift-off");
/// });
/// ```
pub fn from_fn<F, T>(resume: F) -> FromFn<F>
where
    F: FnMut(&mut Context<'_>) -> Step<T>,
{
    FromFn(resume)
}

/// A closure as a resumable; made by [`from_fn`].
pub struct FromFn<F>(F);

impl<F, T> Resumable for FromFn<F>
where
    F: FnMut(&mut Context<'_>) -> Step<T>,
{
    type Output = T;

    fn resume(&mut self, cx: &mut Context<'_>) -> Step<T> {
        (self.0)(cx)
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

/// Spawns a future on the caller's runtime (to wait for one right here see
/// [`block_on`](crate::block_on)): it is polled when its turn comes, and again when its
/// waker is called, from whatever thread.
///
/// # Panics
///
/// Outside a runtime.
///
/// ```
/// use pirn::sync::promise;
/// use pirn::task;
///
/// pirn::run(|| {
///     let (promise, answer) = promise();
///     let doubled = task::spawn_future(async { 2 * answer.await.unwrap() });
///     promise.set(21).unwrap();
///     assert_eq!(doubled.join().unwrap(), 42);
/// });
/// ```
#[track_caller]
pub fn spawn_future<F: Future + 'static>(future: F) -> JoinHandle<F::Output> {
    spawn(Polled(Box::pin(future)))
}

/// A future as a resumable.
struct Polled<F>(Pin<Box<F>>);

impl<F: Future> Resumable for Polled<F> {
    type Output = F::Output;

    fn resume(&mut self, cx: &mut Context<'_>) -> Step<F::Output> {
        let waker = cx.waker();
        match self.0.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            Poll::Ready(value) => Step::Done(value),
            Poll::Pending => Step::Parked,
        }
    }
}
