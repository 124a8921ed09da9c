//! Join handles.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Poll, Waker};
use std::thread::Result;

use super::Thread;
use crate::sched::awaiting::Await;
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::wait::Outcome;
use crate::sched::{self, Task, Waiting};
use crate::task;

/// Owns the right to a fiber's result. Dropping it detaches the fiber.
///
/// A handle may be sent to another OS thread if the result may, and joined there.
pub struct JoinHandle<T> {
    task: NonNull<Task>,
    marker: PhantomData<T>,
}

// SAFETY: the task's shared parts are atomic, and the result moves to whoever joins.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared handle gives away nothing but the id, the name and whether it has ended.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    ///
    /// Takes over the handle's reference to the task, whose result must be a `T`.
    #[inline]
    pub(crate) unsafe fn new(task: NonNull<Task>) -> Self {
        JoinHandle { task, marker: PhantomData }
    }

    #[inline]
    pub(crate) fn task(&self) -> &Task {
        // SAFETY: alive by our reference.
        unsafe { self.task.as_ref() }
    }

    /// The fiber.
    pub fn thread(&self) -> Thread {
        Thread::of(&self.task().party)
    }

    /// Whether `join` would return at once.
    pub fn is_finished(&self) -> bool {
        self.task().is_done()
    }

    /// Cancels the fiber: whatever it waits for is called off, and whatever it will wait for.
    ///
    /// The call that it waits in unwinds it, without a message, so that its destructors run; one
    /// that has not begun drops its closure. `join` then returns [`Cancelled`](super::Cancelled),
    /// unless the fiber comes to its end by itself. One that catches the unwind is unwound again at
    /// its next wait. Work that must be done nevertheless is done in a [`shield`](super::shield).
    /// From any thread; a fiber that has ended is not affected.
    ///
    /// ```
    /// use pirn::thread::{self, Cancelled};
    ///
    /// pirn::run(|| {
    ///     let sleeper = thread::spawn(|| thread::sleep(std::time::Duration::MAX));
    ///     thread::yield_now();
    ///     sleeper.cancel();
    ///     assert!(sleeper.join().unwrap_err().is::<Cancelled>());
    /// });
    /// ```
    pub fn cancel(&self) {
        sched::cancel::cancel(self.task());
    }

    /// Waits for the fiber to end and returns what its closure returned.
    ///
    /// # Errors
    ///
    /// The payload of its panic; [`Cancelled`](super::Cancelled) as the payload if it was cancelled or
    /// its runtime ended first.
    #[inline]
    pub fn join(self) -> Result<T> {
        if !self.task().is_done() {
            self.wait();
            if !self.task().is_done() {
                // Called off: in a destructor while the runtime ends, or after a fork.
                return Err(Box::new(super::Cancelled::NEW));
            }
        }
        let handle = ManuallyDrop::new(self);
        // SAFETY: done, and taken once, since the handle is consumed. Its reference goes with it.
        unsafe {
            let result = handle.task().take();
            Task::release(handle.task);
            result
        }
    }

    /// [`join`](Self::join) for a [`Resumable`](crate::task::Resumable): pending until the fiber has
    /// ended, which resumes the task.
    ///
    /// # Errors
    ///
    /// As for `join`.
    ///
    /// # Panics
    ///
    /// When the result has been taken by an earlier poll.
    pub fn poll_join(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<T>> {
        let task = self.task();
        if !task.is_done() && task.party.is_left_behind() {
            // It goes on in the process that forked this one.
            return Poll::Ready(Err(Box::new(super::Cancelled::NEW)));
        }
        // SAFETY: the handle is borrowed uniquely, and what is left behind is counted.
        if !task.is_done() && unsafe { task.set_joiner(cx.party(), cx.epoch(), false) } {
            cx.note_join(task, true);
            return Poll::Pending;
        }
        cx.note_join(task, false);
        // SAFETY: done; `take` sees to it that it is taken once.
        Poll::Ready(unsafe { task.take() })
    }

    /// One poll of a future that joins; `wait` is what earlier ones have left.
    fn poll_by(&self, wait: &mut Option<Await>, waker: &Waker) -> Poll<Result<T>> {
        let task = self.task();
        if !task.is_done() && task.party.is_left_behind() {
            // It goes on in the process that forked this one.
            return Poll::Ready(Err(Box::new(super::Cancelled::NEW)));
        }
        let pending = match wait {
            _ if task.is_done() => false,
            Some(wait) => {
                wait.set_waker(waker);
                !task.is_done()
            }
            None => {
                let wait = wait.insert(Await::new(waker));
                // SAFETY: by the owner of the handle, once; what is left behind is counted.
                unsafe { task.set_joiner(wait.party(), wait.begin(), false) }
            }
        };
        if pending {
            return Poll::Pending;
        }
        // SAFETY: done; `take` sees to it that it is taken once.
        Poll::Ready(unsafe { task.take() })
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        if self.task().party.is_left_behind() {
            // It goes on in the process that forked this one.
            return;
        }
        let party = current_party();
        let epoch = party.begin();
        // SAFETY: `join` consumes the handle: this happens once.
        if unsafe { self.task().set_joiner(party, epoch, true) } {
            let waiting = Waiting::Join(self.task.as_ptr());
            sched::wait(party, epoch, waiting, Instant::FAR_FUTURE);
        } else {
            // It has just ended.
            party.waiter.retract(epoch, Outcome::Notified);
        }
        let outcome = party.waiter.finish();
        if outcome == Outcome::Cancelled {
            // SAFETY: registered above, by this party.
            unsafe { self.task().clear_joiner() };
            check_cancelled(outcome);
        }
    }
}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = Result<T>;
    type IntoFuture = JoinFuture<T>;

    /// [`join`](JoinHandle::join) for futures, whoever polls them.
    ///
    /// ```
    /// pirn::run(|| {
    ///     let fiber = pirn::thread::spawn(|| 42);
    ///     let joins = pirn::task::spawn_future(async { fiber.await.unwrap() });
    ///     assert_eq!(joins.join().unwrap(), 42);
    /// });
    /// ```
    fn into_future(self) -> JoinFuture<T> {
        JoinFuture { handle: self, wait: None }
    }
}

/// Waits for the end of a fiber when it is polled; what a [`JoinHandle`] becomes by `.await`.
///
/// Dropping it detaches the fiber.
#[must_use = "futures do nothing unless they are polled"]
pub struct JoinFuture<T> {
    handle: JoinHandle<T>,
    wait: Option<Await>,
}

impl<T> JoinFuture<T> {
    /// The handle again.
    pub fn into_handle(self) -> JoinHandle<T> {
        self.handle
    }
}

impl<T> Unpin for JoinFuture<T> {}

impl<T> Future for JoinFuture<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Result<T>> {
        let JoinFuture { handle, wait } = &mut *self;
        handle.poll_by(wait, cx.waker())
    }
}

impl<T> fmt::Debug for JoinFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinFuture").field("thread", &self.handle.thread()).finish_non_exhaustive()
    }
}

/// A handle that a select can join by.
#[doc(hidden)]
pub trait Joinable {
    type Output;

    fn __handle(&self) -> &JoinHandle<Self::Output>;

    fn __join(self) -> Result<Self::Output>;
}

impl<T> Joinable for JoinHandle<T> {
    type Output = T;

    fn __handle(&self) -> &JoinHandle<T> {
        self
    }

    fn __join(self) -> Result<T> {
        self.join()
    }
}

impl<T> JoinHandle<T> {
    /// Gives the result up. Whether that left a panic that nobody has observed.
    pub(super) fn detach(self) -> bool {
        let handle = ManuallyDrop::new(self);
        // SAFETY: the handle is consumed: this happens once, and its reference goes with it.
        unsafe {
            let unobserved = handle.task().detach().is_some();
            Task::release(handle.task);
            unobserved
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle's only drop; a joined or detached one is not dropped.
        unsafe {
            if let Some(report) = self.task().detach() {
                sched::spawn::report_unobserved(self.task(), report);
            }
            Task::release(self.task);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("thread", &self.thread()).finish_non_exhaustive()
    }
}
