//! Calls that block: on OS threads of their own, while only the calling fiber waits.
//!
//! A fiber that calls into the kernel, or a library, and is kept there, keeps all fibers of its
//! carrier. [`blocking`] has such a call made by a thread of a pool, and the carrier goes on. [`spawn`]
//! does that without waiting: the [`Job`] is waited for later, by a fiber, an OS thread, a
//! [resumable](crate::task) or a future.
//!
//! ```
//! use std::fs;
//!
//! pirn::run(|| {
//!     let other = pirn::thread::spawn(|| "meanwhile");
//!     // Reads on another thread; `other` runs here.
//!     let limits = pirn::blocking(|| fs::read_to_string("/proc/self/limits"));
//!     assert!(limits.unwrap().contains("open files"));
//!     assert_eq!(other.join().unwrap(), "meanwhile");
//! });
//! ```
//!
//! # The pool
//!
//! There is one for the whole process, for OS threads as well as for fibers of all runtimes. It has at
//! most 512 threads ([`set_max_threads`]). A job goes to an idle one, or else to a new one; if there
//! may be no more it waits in a queue, first in, first out. So jobs that wait for one another need as
//! many threads as there are of them. A thread that has had no job for ten seconds ends
//! ([`set_keep_alive`]).
//!
//! # Panics
//!
//! A panic of the closure is the caller's: `blocking` goes on with it, [`Job::join`] returns the
//! payload. (The message says where it was, on a thread called `pirn-blocking`.)
//!
//! # Cancellation
//!
//! Nothing can make a call return that blocks. A fiber that is cancelled in `blocking`, or whose time
//! limit is reached, is unwound at once. Its closure is dropped if no thread has begun with it; else it
//! goes on, and what it returns is dropped on that thread. A job that was [spawned](spawn) is not
//! affected by who waits for it; [`Job::cancel`] takes it back if it has not begun.
//!
//! In a destructor of a fiber whose waits are called off, `blocking` makes the call in place: clean-up
//! is done, and nobody else has to go on then.
//!
//! # When the runtime ends, or the process
//!
//! A runtime does not wait for its jobs, so one that is stuck keeps nobody; and a process ends when
//! `main` returns, whatever its threads do. A program that wants what it has begun to be done calls
//! [`drain`] before, which says what is left after some time.
//!
//! # Reports and virtual time
//!
//! A job can wake somebody, so while one runs nothing is a deadlock; unless it sleeps until another
//! thread wakes it, and so do all others.
//!
//! A [virtual clock](crate::Builder::virtual_time) stands still from when a fiber of its runtime hands
//! in a job until that has ended, whether somebody waits for it or not: what jobs do takes no time.
//! (The same exception holds.) A job that never ends stops such a clock for ever.

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::thread::Result;
use std::time::Duration;

use crate::sched::cancel::{cannot_wait, check_cancelled, refuse_in_resume};
use crate::sched::carrier::Carrier;
use crate::sched::wait::Outcome;
use crate::sched::{Errand, ResourceKind, pool};
use crate::sync::{Future, Promise, promise, promise_of};
use crate::task;
use crate::thread::Cancelled;

/// What a caller of [`blocking`] does, as a refusal says it.
const CALL: &str = "waits for a blocking call to return";
static KIND: ResourceKind = ResourceKind::without_holder("for a blocking call to return");

/// Makes a call on a thread of the [pool](self), and waits for what it returns: only the calling fiber
/// does, or OS thread.
///
/// ```
/// use std::time::Duration;
///
/// pirn::run(|| {
///     let slow = pirn::thread::spawn(|| {
///         pirn::blocking(|| std::thread::sleep(Duration::from_millis(5)));
///         "slow"
///     });
///     let quick = pirn::thread::spawn(|| "quick");
///     assert_eq!(quick.join().unwrap(), "quick");
///     assert!(!slow.is_finished());
///     assert_eq!(slow.join().unwrap(), "slow");
/// });
/// ```
///
/// # Panics
///
/// With the payload of the closure if that panics; when no thread can be had at all; in
/// [`resume`](crate::task::Resumable::resume), which must not wait, as does any such call.
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if cannot_wait() {
        check_cancelled(Outcome::Cancelled);
        // A destructor, which cannot unwind: see the module documentation.
        return f();
    }
    refuse_in_resume(CALL);
    finish(spawn(f))
}

/// [`blocking`] for operations of the system, whose errors take up that no thread could be had. An OS
/// thread, which nobody else needs, makes the call itself.
pub(crate) fn io<F, T>(f: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    if Carrier::current().is_none() {
        return f();
    }
    if cannot_wait() {
        check_cancelled(Outcome::Cancelled);
        return f();
    }
    refuse_in_resume(CALL);
    finish(try_spawn(f)?)
}

/// Waits for a job that nobody else has.
fn finish<T>(job: Job<T>) -> T {
    let asked = Asked(job);
    match asked.0.wait() {
        Some(Ok(value)) => value,
        Some(Err(payload)) => panic::resume_unwind(payload),
        None => panic!("a blocking call of a destructor was called off"),
    }
}

/// A job of somebody who is gone if he is unwound.
struct Asked<T>(Job<T>);

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        if !self.0.is_finished() {
            self.0.cancel();
        }
    }
}

/// Makes a call on a thread of the [pool](self), without waiting. Dropping the job detaches it.
///
/// ```
/// use pirn::blocking;
///
/// // From any OS thread as well.
/// let jobs: Vec<_> = (0..4).map(|n| blocking::spawn(move || n * n)).collect();
/// let squares: Vec<u32> = jobs.into_iter().map(|job| job.join().unwrap()).collect();
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
///
/// # Panics
///
/// When no thread can be had at all; [`try_spawn`] returns that as an error.
pub fn spawn<F, T>(f: F) -> Job<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match try_spawn(f) {
        Ok(job) => job,
        Err(error) => panic!("failed to spawn a thread for a blocking call: {error}"),
    }
}

/// [`spawn`], for callers who can do without.
///
/// # Errors
///
/// When there is no thread and the system refuses one. With one at least the job waits for that.
pub fn try_spawn<F, T>(f: F) -> io::Result<Job<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (promise, done) = promise_of(&KIND);
    let order = Order { f, promise, _errand: Errand::begin() };
    let ticket = pool::submit(Box::new(move || order.carry_out()))?;
    Ok(Job { done, ticket })
}

/// Where the result is left for the one who has the job.
type Slot<T> = Mutex<Option<Result<T>>>;

/// A job as the pool has it. Dropped in this order: its promise is broken before it counts as over.
struct Order<F, T> {
    f: F,
    promise: Promise<Slot<T>>,
    _errand: Option<Errand>,
}

impl<F: FnOnce() -> T, T> Order<F, T> {
    fn carry_out(self) {
        let Order { f, promise, _errand } = self;
        let result = panic::catch_unwind(AssertUnwindSafe(f));
        // A promise that was just made is not settled.
        let _ = promise.set(Mutex::new(Some(result)));
        drop(promise);
    }
}

/// A call that a thread of the [pool](self) makes; returned by [`spawn`].
///
/// It is also a [`Future`](std::future::Future), of what [`join`](Self::join) returns.
pub struct Job<T> {
    done: Future<Slot<T>>,
    ticket: u64,
}

impl<T> Job<T> {
    /// Waits for what the closure returns.
    ///
    /// If the calling fiber is cancelled meanwhile the job goes on.
    ///
    /// # Errors
    ///
    /// The payload of its panic; [`Cancelled`] as the payload if it was [cancelled](Self::cancel), or
    /// the wait was called off in a destructor.
    pub fn join(self) -> Result<T> {
        self.wait().unwrap_or_else(|| Err(Box::new(Cancelled::NEW)))
    }

    /// `None`: the wait was called off, and could not unwind.
    fn wait(&self) -> Option<Result<T>> {
        // Whatever it says: the job is done then, or the wait is over.
        let _ = self.done.get();
        self.done.is_done().then(|| self.take())
    }

    /// The result of one that is done.
    fn take(&self) -> Result<T> {
        match self.done.try_get() {
            Some(Ok(slot)) => slot
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .expect("the result of a job was taken already"),
            // Dropped before it began.
            _ => Err(Box::new(Cancelled::NEW)),
        }
    }

    /// Whether [`join`](Self::join) would return at once.
    pub fn is_finished(&self) -> bool {
        self.done.is_done()
    }

    /// Takes the job back if no thread has begun with it: its closure is dropped, and whoever waits for
    /// it is told that it was [`Cancelled`]. False: it goes on, or has ended.
    pub fn cancel(&self) -> bool {
        pool::withdraw(self.ticket).is_some()
    }

    /// [`join`](Self::join) for a [`Resumable`](crate::task::Resumable): pending until the closure has
    /// returned, which resumes the task.
    ///
    /// ```
    /// use pirn::blocking;
    /// use pirn::task::{self, Context, Step};
    /// use std::task::Poll;
    ///
    /// pirn::run(|| {
    ///     let mut job = blocking::spawn(|| 6 * 7);
    ///     let waits = task::spawn(task::from_fn(move |cx: &mut Context<'_>| match job.poll_join(cx) {
    ///         Poll::Ready(result) => Step::Done(result.unwrap()),
    ///         Poll::Pending => Step::Parked,
    ///     }));
    ///     assert_eq!(waits.join().unwrap(), 42);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// As for `join`.
    ///
    /// # Panics
    ///
    /// When the result has been taken by an earlier poll.
    pub fn poll_join(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<T>>
    where
        T: 'static,
    {
        self.done.poll_get(cx).map(drop).map(|()| self.take())
    }
}

impl<T> std::future::Future for Job<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Result<T>> {
        self.done.poll_done(cx).map(|()| self.take())
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// Sets how many threads the [pool](self) may have; 512 if nobody does.
///
/// If it has more already, those end that have no job, and others as soon as they have done theirs.
pub fn set_max_threads(threads: NonZero<usize>) {
    pool::set_max_threads(threads);
}

/// Sets how long a thread of the [pool](self) stays without a job; ten seconds if nobody does.
pub fn set_keep_alive(duration: Duration) {
    pool::set_keep_alive(duration);
}

/// How the [pool](self) stands; from [`stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Its threads.
    pub threads: usize,
    /// Those of them that have no job.
    pub idle: usize,
    /// Jobs that wait for a thread.
    pub queued: usize,
}

/// How the [pool](self) stands just now.
///
/// ```
/// pirn::blocking(|| ());
/// assert!(pirn::blocking::stats().threads >= 1);
/// ```
pub fn stats() -> Stats {
    let pool::Census { threads, idle, queued } = pool::census();
    Stats { threads, idle, queued }
}

/// Waits until the [pool](self) has no job at all, at most for this long: for the end of a program that
/// wants to leave nothing undone.
///
/// ```
/// use pirn::blocking;
/// use std::time::Duration;
///
/// let (ask, question) = std::sync::mpsc::channel::<()>();
/// drop(blocking::spawn(move || question.recv())); // as a read from a terminal might
/// let left = blocking::drain(Duration::from_millis(1)).unwrap_err();
/// assert_eq!(left.running(), 1);
/// drop(ask);
/// blocking::drain(Duration::MAX).unwrap();
/// ```
///
/// # Errors
///
/// [`Unfinished`], when the time is up, or the wait is called off in a destructor.
pub fn drain(timeout: Duration) -> std::result::Result<(), Unfinished> {
    let (promise, quiet) = promise::<()>();
    let wait = pool::when_quiet(Box::new(move || promise.set(()).expect("settled here only")));
    if wait && quiet.get_timeout(timeout).is_none_or(|end| end.is_err()) {
        let pool::Census { threads, idle, queued } = pool::census();
        return Err(Unfinished { running: threads - idle, queued });
    }
    Ok(())
}

/// The [pool](self) had something to do still; from [`drain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    running: usize,
    queued: usize,
}

impl Unfinished {
    /// Jobs that threads were at.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Jobs that no thread had begun with.
    pub fn queued(&self) -> usize {
        self.queued
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { running, queued } = self;
        write!(f, "blocking calls: {running} have not returned, {queued} have not begun")
    }
}

impl Error for Unfinished {}
