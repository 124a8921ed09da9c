//! Green threads with std's names: `use pirn::thread` where `use std::thread` stood.
//!
//! A thread here is a *fiber*: a closure on a stack of its own, run by the carrier of a
//! [`Runtime`](crate::Runtime), which it shares with all others. It gives way only when it waits,
//! yields or ends. Once begun it never changes its OS thread. With [several
//! carriers](crate::Builder::carriers) it begins on any of them, so [`spawn`] takes what is `Send`, as
//! std's; [`spawn_local`] takes any `'static` closure, and stays on its parent's carrier, as the fibers
//! of a [`scope`] do.
//!
//! ```
//! use pirn::thread;
//!
//! pirn::run(|| {
//!     let handle = thread::spawn(|| "from a fiber");
//!     assert_eq!(handle.join().unwrap(), "from a fiber");
//! });
//! ```
//!
//! # Order
//!
//! `spawn` does not run the child: it joins the end of the run queue, and so does a fiber that is
//! woken, while the waker goes on. [`yield_now`] goes to the end as well. Among runnable fibers the
//! order is first in, first out. With several carriers that holds for the fibers of each; when a child
//! of `spawn` begins is not determined then.
//!
//! # Panics
//!
//! As in std: a panic ends its fiber, and `join` returns the payload. The message names the fiber.
//! A panic that nobody can observe any more, since the handle is gone, is reported once more when
//! the runtime ends. A result or payload that nobody takes is dropped; if its destructor panics,
//! that is reported and goes no further.
//!
//! # Waiting while panicking
//!
//! The panic count of std belongs to the OS thread: while a panic unwinds one fiber, no other may
//! run on its carrier, or it would find itself panicking. So a destructor that waits during an
//! unwind waits *in place*: [`yield_now`] does nothing, everything else blocks the whole carrier
//! until a timer or another OS thread ends the wait. If nobody but a fiber of the same carrier could
//! end it, the process aborts with a report. This holds for all blocking calls.
//!
//! # Cancellation
//!
//! [`JoinHandle::cancel`] and [`time::timeout`](crate::time::timeout) call waits off: the call that
//! the fiber waits in, or its next one, unwinds it without a message, so that destructors run.
//! [`yield_now`] is a wait in this sense. In a destructor during such an unwind a wait ends at once:
//! `sleep`, `park` and `yield_now` return, `join` returns [`Cancelled`]; in a [`shield`] it waits, in
//! place. A [`scope`] whose fiber is cancelled cancels its fibers, and waits for them.
//!
//! # When the runtime ends
//!
//! Fibers that still wait are cancelled, the newest first, each to its end before the next, and
//! nobody else runs meanwhile: a [`shield`] cannot wait any more. A fiber that catches every unwind
//! and waits again, a thousand times over, is reported and leaked. With `panic = "abort"` nothing is unwound: what waits is leaked.
//!
//! # Outside a runtime
//!
//! On a plain OS thread [`sleep`], [`park`], [`yield_now`], [`current`], [`JoinHandle::join`] and
//! [`LocalKey`] work on that thread. Spawning needs a runtime: [`spawn`] panics without one, with a
//! message; a [`Handle`](crate::Handle) spawns from anywhere.
//!
//! # Fork
//!
//! In a child of `fork` the parent's runtimes do not go on; for the child they count as over.
//! Spawning through their handles and joining their fibers return [`Cancelled`], unless the fiber
//! had ended before the fork. If the fork was called on a fiber, that fiber goes on in the child
//! until it would switch, wait or end: then the child aborts, with a message. It may call `exec`,
//! `_exit`, or `std::process::exit`, and it may [run](crate::Runtime::run) a new runtime, whose
//! loop then stands on that fiber's stack. A child forked anywhere else, on an OS thread that is no
//! carrier, runs new runtimes as any process does. The parent is unaffected. None of this concerns
//! [`std::process::Command`], whose children only `exec`.
//!
//! # Signals
//!
//! A signal mask belongs to the carrier, not to the fiber: a fiber that changes it must put it back
//! before it waits. Handlers run on the stack of whatever fiber runs, unless they were installed
//! with `SA_ONSTACK`; the smallest stack leaves room for one. No call of this module may be made
//! from a signal handler.

mod join;
mod local;
mod scope;

use std::fmt;
use std::io;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::{Carrier, current_party};
use crate::sched::clock::Instant;
use crate::sched::party::{Party, PartyRef};
use crate::sched::scope::Tally;
use crate::sched::spawn::{Request, spawn_fiber};
use crate::sched::{self, Waiting};

pub use crate::sched::Cancelled;
pub use crate::sched::party::ThreadId;
#[doc(hidden)]
pub use join::Joinable;
pub use join::{JoinFuture, JoinHandle};
pub(crate) use local::Locals;
pub use local::{AccessError, LocalKey};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use std::thread::{Result, panicking};

/// Spawns a fiber on the caller's runtime.
///
/// It begins when its turn comes. With [several carriers](crate::Builder::carriers) any of them may
/// take it before it begins; from then on it stays there. What cannot be sent to another thread is
/// spawned by [`spawn_local`]. Dropping the handle detaches it.
///
/// ```compile_fail,E0277
/// let count = std::rc::Rc::new(1);
/// pirn::run(|| pirn::thread::spawn(move || *count).join());
/// ```
///
/// # Panics
///
/// Outside a runtime, and while no stack can be had; [`Builder::spawn`] returns that as an error.
#[track_caller]
#[inline]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: F and T are 'static, and may be sent.
    match unsafe { spawn_fiber(Request::plain(Location::caller()).movable(), f) } {
        // SAFETY: the handle's reference, for the T that the task was made with.
        Ok(task) => unsafe { JoinHandle::new(task) },
        Err(error) => cannot_spawn(error),
    }
}

/// [`spawn`], for a closure or a result that cannot be sent to another thread: the fiber runs on the
/// caller's carrier, on this OS thread.
///
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let count = Rc::new(Cell::new(0));
///     let shared = count.clone();
///     thread::spawn_local(move || shared.set(1)).join().unwrap();
///     assert_eq!(count.get(), 1);
/// });
/// ```
///
/// # Panics
///
/// As for `spawn`; [`Builder::spawn_local`] returns that as an error.
#[track_caller]
#[inline]
pub fn spawn_local<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    // SAFETY: F and T are 'static.
    match unsafe { spawn_fiber(Request::plain(Location::caller()), f) } {
        // SAFETY: the handle's reference, for the T that the task was made with.
        Ok(task) => unsafe { JoinHandle::new(task) },
        Err(error) => cannot_spawn(error),
    }
}

#[cold]
#[track_caller]
fn cannot_spawn(error: io::Error) -> ! {
    panic!("failed to spawn a fiber: {error}")
}

/// Settings of a fiber: name, stack, guard, floating-point control.
///
/// ```
/// use pirn::thread;
///
/// pirn::run(|| {
///     let child = thread::Builder::new()
///         .name("deep")
///         .stack_size(1 << 20)
///         .spawn(|| thread::current().name().map(String::from))
///         .unwrap();
///     assert_eq!(child.join().unwrap().as_deref(), Some("deep"));
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
    guard_size: Option<usize>,
    keep_float_control: bool,
}

impl Builder {
    /// No name, the runtime's stack settings, float control not kept.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the fiber, for panic messages, reports and the debugger.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Asks for at least so many usable bytes of stack.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// Asks for at least so many bytes of guard below the stack. See [`pirn::stack`](crate::stack).
    pub fn guard_size(mut self, bytes: usize) -> Builder {
        self.guard_size = Some(bytes);
        self
    }

    /// Keeps the floating-point control words (rounding, flush to zero, traps) per fiber, at a few
    /// nanoseconds a switch.
    ///
    /// Off by default: a new fiber starts with the default words; from then on they are the
    /// carrier's, and a fiber that changes them must put them back before it waits.
    pub fn keep_float_control(mut self, keep: bool) -> Builder {
        self.keep_float_control = keep;
        self
    }

    fn request(self, scope: Option<Rc<Tally>>, spawned_at: &'static Location<'static>) -> Request {
        Request {
            name: self.name.map(String::into_boxed_str),
            stack_size: self.stack_size,
            guard_size: self.guard_size,
            keep_float_control: self.keep_float_control,
            scope,
            ..Request::plain(spawned_at)
        }
    }

    /// Spawns the fiber.
    ///
    /// A stack is bound when the fiber first runs. If none can be had then, the fiber waits for one
    /// to be given back, and from then until one is, `spawn` returns an error for stacks of that size
    /// and more.
    ///
    /// ```compile_fail,E0277
    /// let count = std::rc::Rc::new(1);
    /// pirn::run(|| pirn::thread::Builder::new().spawn(move || *count).map(drop));
    /// ```
    ///
    /// # Errors
    ///
    /// Outside a runtime; when the stack size is beyond what an address space holds; and while
    /// stacks are exhausted, in which case the error names the limit that was hit.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let request = self.request(None, Location::caller()).movable();
        // SAFETY: F and T are 'static, and may be sent; the handle is made for the T of the task.
        unsafe { spawn_fiber(request, f).map(|task| JoinHandle::new(task)) }
    }

    /// Spawns the fiber on the caller's carrier: [`spawn_local`].
    ///
    /// # Errors
    ///
    /// As for `spawn`.
    #[track_caller]
    pub fn spawn_local<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        let request = self.request(None, Location::caller());
        // SAFETY: F and T are 'static; the handle is made for the T of the task.
        unsafe { spawn_fiber(request, f).map(|task| JoinHandle::new(task)) }
    }
}

/// Lets every other runnable fiber run before this one goes on.
///
/// With nobody else runnable it returns at once. On a plain OS thread it yields that thread.
#[inline(always)]
pub fn yield_now() {
    match Carrier::current() {
        Some(carrier) => carrier.yield_now(),
        None => std::thread::yield_now(),
    }
}

/// Waits for at least this long; others run meanwhile.
///
/// Measured by the monotonic clock, in nanoseconds, and never early. Zero is a [`yield_now`]; a
/// duration beyond the range of the clock, such as `Duration::MAX`, is for ever. Fibers whose sleeps
/// end at the same nanosecond wake in the order of their calls.
pub fn sleep(duration: Duration) {
    if duration.is_zero() {
        return yield_now();
    }
    sleep_until(Instant::now() + duration);
}

/// Waits until this instant at least; others run meanwhile.
pub fn sleep_until(deadline: Instant) {
    let party = current_party();
    let epoch = party.begin();
    sched::wait(party, epoch, Waiting::Sleep(deadline), deadline);
    check_cancelled(party.waiter.finish());
}

/// Waits until somebody [unparks](Thread::unpark) this fiber (or OS thread).
///
/// Returns at once if that has happened since the last `park`: the token is kept through any other
/// waits. May return without an unpark, as in std.
pub fn park() {
    park_until(Instant::FAR_FUTURE);
}

/// Like [`park`], at most for this long.
pub fn park_timeout(duration: Duration) {
    park_until(Instant::now() + duration);
}

fn park_until(deadline: Instant) {
    let party = current_party();
    let Some(epoch) = party.waiter.begin_park(party.manner()) else {
        return;
    };
    sched::wait(party, epoch, Waiting::Park(deadline), deadline);
    check_cancelled(party.waiter.finish_park());
}

/// Runs `f` as if nobody had cancelled the calling fiber, and without its time limits: for clean-up
/// that must wait.
///
/// Shields nest. When `f` has returned, the next wait is called off as before. While a panic or a
/// cancellation unwinds the fiber, a wait in a shield is in place, as every wait then: see
/// [Waiting while panicking](self#waiting-while-panicking). The end of the runtime is not shielded
/// against: nobody else runs any more.
///
/// ```
/// use std::time::Duration;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let worker = thread::spawn(|| {
///         let work = std::panic::catch_unwind(thread::park);
///         assert!(work.is_err());
///         thread::shield(|| thread::sleep(Duration::from_millis(1)));
///         "cleaned up"
///     });
///     thread::yield_now();
///     worker.cancel();
///     assert_eq!(worker.join().unwrap(), "cleaned up");
/// });
/// ```
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    sched::cancel::shielded(f)
}

/// Whether the calling fiber has been [cancelled](JoinHandle::cancel): for loops that do not wait.
pub fn is_cancelled() -> bool {
    sched::cancel::is_cancelled()
}

/// A handle to a fiber or an OS thread: its name, its id, and `unpark`.
#[derive(Clone)]
pub struct Thread(PartyRef);

impl Thread {
    pub(crate) fn of(party: &Party) -> Thread {
        Thread(PartyRef::share(party))
    }

    /// The name it was given; `main` for the main fiber.
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Its id, unique in the process.
    pub fn id(&self) -> ThreadId {
        self.0.id
    }

    /// Makes its current [`park`] return, or else its next one.
    ///
    /// May be called from any thread, also when it has ended. No other wait is disturbed.
    pub fn unpark(&self) {
        self.0.unpark();
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish()
    }
}

/// The calling fiber; outside a runtime, the calling OS thread.
pub fn current() -> Thread {
    Thread::of(current_party())
}
