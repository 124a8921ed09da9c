//! What is done once, with std's names.
//!
//! The state changes under the inner lock only; that it is COMPLETE can be seen without. Whoever
//! finds it RUNNING waits; when the run is over, however it ended, everybody who waits looks again.
//! So after a run that failed the first of them runs next.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::poison::Poison;
use super::spin::{Spin, SpinGuard};
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::party::ThreadId;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};

const INCOMPLETE: u8 = 0;
const RUNNING: u8 = 1;
const COMPLETE: u8 = 2;

/// See [`std::sync::Once`]; while one fiber initialises, this one parks the others.
///
/// ```
/// use pirn::sync::Once;
/// use pirn::thread;
///
/// static START: Once = Once::new();
///
/// pirn::run(|| {
///     let start = || START.call_once(|| thread::yield_now()); // an initialiser may wait
///     let other = thread::spawn(start);
///     start();
///     other.join().unwrap();
///     assert!(START.is_completed());
/// });
/// ```
///
/// Differences from std: an initialiser that comes back to its own `Once` panics, saying that this
/// is a deadlock; a longer way round, through other fibers, shows in the deadlock report. There are
/// waits with a limit of time.
///
/// # Poisoning
///
/// As in std: a panic of the initialiser poisons it for [`call_once`](Self::call_once). An unwind
/// that ends a fiber because its runtime ends does not: the next one tries.
#[repr(C)]
pub struct Once {
    resource: Resource,
    inner: Spin<Inner>,
    /// Changes under the inner lock.
    state: AtomicU8,
    poison: Poison,
}

struct Inner {
    /// Who initialises.
    runner: Option<ThreadId>,
    queue: Waiters<()>,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

/// What [`Once::call_once_force`] tells its closure.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Whether an earlier initialiser panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

static KIND: ResourceKind =
    ResourceKind::with_holder("for a one-time initialisation", |resource| {
        // SAFETY: the resource is the first field of a `Once`.
        unsafe { (*resource.cast::<Once>()).inner.lock().runner }
    });

impl Once {
    /// One for which nothing has run yet.
    pub const fn new() -> Once {
        Once {
            resource: Resource::new(&KIND),
            inner: Spin::new(Inner { runner: None, queue: Waiters::new() }),
            state: AtomicU8::new(INCOMPLETE),
            poison: Poison::new(),
        }
    }

    /// Runs the closure if none has run to its end yet; waits for one that is running. Afterwards
    /// one has.
    ///
    /// # Panics
    ///
    /// When an earlier closure panicked; when the closure does; when called by the closure itself;
    /// in a destructor while the caller is cancelled or its runtime ends, if it would have to wait.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        let mut f = Some(f);
        self.call(false, &mut |_| {
            f.take().expect("it runs once")();
            true
        });
    }

    /// [`call_once`](Self::call_once) that runs the closure even if an earlier one panicked.
    ///
    /// # Panics
    ///
    /// As `call_once` does, poisoning excepted.
    #[inline]
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        let mut f = Some(f);
        self.call(true, &mut |state| {
            f.take().expect("it runs once")(state);
            true
        });
    }

    /// Whether a closure has run to its end.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // Acquire: what it did is visible.
        self.state.load(Ordering::Acquire) == COMPLETE
    }

    /// Waits until a closure has run to its end, without bringing one.
    ///
    /// # Panics
    ///
    /// When a closure has panicked, and as [`call_once`](Self::call_once) does.
    #[track_caller]
    pub fn wait(&self) {
        if !self.wait_as(false, Instant::FAR_FUTURE) {
            super::called_off("a one-time initialisation");
        }
    }

    /// [`wait`](Self::wait) that goes on waiting if a closure panics.
    ///
    /// # Panics
    ///
    /// As `wait` does, poisoning excepted.
    #[track_caller]
    pub fn wait_force(&self) {
        if !self.wait_as(true, Instant::FAR_FUTURE) {
            super::called_off("a one-time initialisation");
        }
    }

    /// [`wait`](Self::wait), at most for this long. False: the time was up.
    ///
    /// # Panics
    ///
    /// When a closure has panicked; when called by the closure itself.
    #[track_caller]
    pub fn wait_timeout(&self, duration: Duration) -> bool {
        self.wait_as(false, Instant::now() + duration)
    }

    /// [`wait`](Self::wait), at most until this instant. False: the time was up.
    ///
    /// # Panics
    ///
    /// As [`wait_timeout`](Self::wait_timeout) does.
    #[track_caller]
    pub fn wait_deadline(&self, deadline: Instant) -> bool {
        self.wait_as(false, deadline)
    }

    /// Makes sure that it is complete, unless `f` says that it failed. That returns normally.
    #[inline]
    #[track_caller]
    pub(super) fn call(&self, forced: bool, f: &mut dyn FnMut(&OnceState) -> bool) {
        if !self.is_completed() {
            self.call_slow(forced, f);
        }
    }

    #[cold]
    #[track_caller]
    fn call_slow(&self, forced: bool, f: &mut dyn FnMut(&OnceState) -> bool) {
        loop {
            let mut inner = self.inner.lock();
            // Relaxed, here and below: under the inner lock.
            match self.state.load(Ordering::Relaxed) {
                COMPLETE => return,
                INCOMPLETE if forced || !self.poison.get() => {
                    self.state.store(RUNNING, Ordering::Relaxed);
                    inner.runner = Some(current_party().id);
                    drop(inner);
                    let mut run = Run { once: self, end: Err(()) };
                    run.end = Ok(f(&OnceState { poisoned: self.poison.get() }));
                    return;
                }
                INCOMPLETE => {
                    drop(inner);
                    poisoned("Once");
                }
                _ => match self.wait_in(inner, Instant::FAR_FUTURE) {
                    Outcome::Notified => {}
                    _ => super::called_off("a one-time initialisation"),
                },
            }
        }
    }

    /// Waits until it is complete; for a forced wait it does not matter whether it is poisoned.
    /// False: the time was up. Unwinds if the wait is called off, and it can.
    #[track_caller]
    pub(super) fn wait_as(&self, forced: bool, deadline: Instant) -> bool {
        if self.is_completed() {
            return true;
        }
        loop {
            let inner = self.inner.lock();
            match self.state.load(Ordering::Relaxed) {
                COMPLETE => return true,
                INCOMPLETE if !forced && self.poison.get() => {
                    drop(inner);
                    poisoned("Once");
                }
                _ => {
                    if self.wait_in(inner, deadline) != Outcome::Notified {
                        return false;
                    }
                }
            }
        }
    }

    /// Waits until a run is over. Unwinds if the wait is called off, and it can.
    #[track_caller]
    fn wait_in(&self, mut inner: SpinGuard<'_, Inner>, deadline: Instant) -> Outcome {
        if inner.runner == Some(current_party().id) {
            drop(inner);
            panic!(
                "deadlock: an initialiser waits for the one-time initialisation that it performs"
            );
        }
        let record = pin!(Record::begin(None, 0));
        inner.queue.push(record.as_ref());
        drop(inner);
        let outcome = waiters::wait(record.as_ref(), &self.resource, deadline, |unlink| {
            unlink(&mut self.inner.lock().queue);
        });
        check_cancelled(outcome);
        outcome
    }
}

#[cold]
#[track_caller]
pub(super) fn poisoned(what: &str) -> ! {
    panic!("{what} instance has previously been poisoned")
}

/// A run of an initialiser; over when dropped.
struct Run<'a> {
    once: &'a Once,
    /// Whether it succeeded; an error while it has not returned.
    end: Result<bool, ()>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.end.is_err() {
            self.once.poison.set();
        }
        let state = if self.end == Ok(true) { COMPLETE } else { INCOMPLETE };
        let mut wakes = Wakes::new();
        let mut inner = self.once.inner.lock();
        inner.runner = None;
        // Release: what the initialiser did is visible to whoever sees that it is complete.
        self.once.state.store(state, Ordering::Release);
        inner.queue.notify_all(|_| {}, &mut wakes);
    }
}

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}
