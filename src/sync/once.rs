//! What is done once: [`Once`], and the cells built on it, with std's names.
//!
//! The state changes under the inner lock only; that it is COMPLETE can be seen without. Whoever finds
//! it RUNNING waits; when the run is over, however it ended, everybody who waits looks again. So after
//! a run that failed the first of them runs next.

use std::cell::{Cell, UnsafeCell};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
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
/// Differences from std: an initialiser that comes back to its own `Once` panics, saying that this is
/// a deadlock; a longer way round, through other fibers, shows in the deadlock report. There are
/// waits with a limit of time.
///
/// # Poisoning
///
/// As in std: a panic of the initialiser poisons it for [`call_once`](Self::call_once). An unwind that
/// ends a fiber because its runtime ends does not: the next one tries.
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

static KIND: ResourceKind = ResourceKind {
    wish: "for a one-time initialisation",
    // SAFETY: the resource is the first field of a `Once`.
    holder: |resource| unsafe { (*resource.cast::<Once>()).inner.lock().runner },
};

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
    /// When an earlier closure panicked; when the closure does; when called by the closure itself; in
    /// a destructor while the caller is cancelled or its runtime ends, if it would have to wait.
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
    fn call(&self, forced: bool, f: &mut dyn FnMut(&OnceState) -> bool) {
        if !self.is_completed() {
            self.call_slow(forced, f);
        }
    }

    #[cold]
    #[track_caller]
    fn call_slow(&self, forced: bool, f: &mut dyn FnMut(&OnceState) -> bool) {
        self.resource.touch();
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

    #[track_caller]
    fn wait_as(&self, forced: bool, deadline: Instant) -> bool {
        if self.is_completed() {
            return true;
        }
        self.resource.touch();
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
fn poisoned(what: &str) -> ! {
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
        let mut inner = self.once.inner.lock();
        inner.runner = None;
        // Release: what the initialiser did is visible to whoever sees that it is complete.
        self.once.state.store(state, Ordering::Release);
        inner.queue.notify_all(|_| {});
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

/// See [`std::sync::OnceLock`]; while one fiber initialises, this one parks the others.
///
/// An initialiser that panics, fails or is cancelled leaves the cell empty: the next one
/// tries. One that comes back to its own cell panics, as described for [`Once`].
///
/// ```
/// use pirn::sync::OnceLock;
///
/// static ADDRESS: OnceLock<String> = OnceLock::new();
///
/// assert_eq!(ADDRESS.get(), None);
/// assert_eq!(ADDRESS.get_or_init(|| "::1".to_owned()), "::1");
/// assert_eq!(ADDRESS.set("::2".to_owned()), Err("::2".to_owned()));
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// Initialised when `once` is complete.
    value: UnsafeCell<MaybeUninit<T>>,
    /// It owns and drops a `T`.
    owns: PhantomData<T>,
}

// SAFETY: as std's: the value moves with the cell, …
unsafe impl<T: Send> Send for OnceLock<T> {}
// SAFETY: … is shared by it, and may be put in on one OS thread and dropped on another.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe + RefUnwindSafe> RefUnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> OnceLock<T> {
        let value = UnsafeCell::new(MaybeUninit::uninit());
        OnceLock { once: Once::new(), value, owns: PhantomData }
    }

    /// The value, if there is one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: complete means initialised; from then on it is only shared.
        self.once.is_completed().then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }

    /// The value, if there is one, of a cell that is not shared.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as in `get`; the cell is ours.
        self.once.is_completed().then(|| unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Puts a value in; waits for an initialiser that is running.
    ///
    /// # Errors
    ///
    /// When there is a value already; the error is the new one.
    ///
    /// # Panics
    ///
    /// When called by an initialiser of this cell; in a destructor while the caller is ended from
    /// outside, if it would have to wait.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("it runs once"));
        value.map_or(Ok(()), Err)
    }

    /// The value; the closure makes it if there is none. Waits for an initialiser that is running.
    ///
    /// # Panics
    ///
    /// When the closure does, and as [`set`](Self::set) does.
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match self.get_or_try_init(|| Ok::<T, Infallible>(f())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// The value; the closure makes it if there is none, or fails. Waits for an initialiser that is
    /// running.
    ///
    /// # Errors
    ///
    /// What the closure returned; the cell stays empty.
    ///
    /// # Panics
    ///
    /// As [`get_or_init`](Self::get_or_init) does.
    #[inline]
    #[track_caller]
    pub fn get_or_try_init<F, E>(&self, f: F) -> Result<&T, E>
    where
        F: FnOnce() -> Result<T, E>,
    {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let (mut f, mut error) = (Some(f), None);
        self.once.call(true, &mut |_| match f.take().expect("it runs once")() {
            Ok(value) => {
                // SAFETY: nobody looks at the place before the run is over, and nobody else runs.
                unsafe { (*self.value.get()).write(value) };
                true
            }
            Err(failed) => {
                error = Some(failed);
                false
            }
        });
        match error {
            Some(error) => Err(error),
            None => Ok(self.get().expect("it was initialised, by this call or another")),
        }
    }

    /// Waits until there is a value.
    ///
    /// # Panics
    ///
    /// As [`set`](Self::set) does.
    #[track_caller]
    pub fn wait(&self) -> &T {
        self.once.wait_force();
        self.get().expect("complete means initialised")
    }

    /// Waits until there is a value, at most for this long.
    ///
    /// # Panics
    ///
    /// When called by an initialiser of this cell.
    #[track_caller]
    pub fn wait_timeout(&self, duration: Duration) -> Option<&T> {
        self.wait_deadline(Instant::now() + duration)
    }

    /// Waits until there is a value, at most until this instant.
    ///
    /// # Panics
    ///
    /// When called by an initialiser of this cell.
    #[track_caller]
    pub fn wait_deadline(&self, deadline: Instant) -> Option<&T> {
        self.once.wait_as(true, deadline);
        self.get()
    }

    /// Takes the value out, if there is one: the cell is empty again.
    pub fn take(&mut self) -> Option<T> {
        let full = self.once.is_completed();
        self.once = Once::new();
        // SAFETY: as in `get_mut`; the cell counts as empty from now on.
        full.then(|| unsafe { self.value.get_mut().assume_init_read() })
    }

    /// The value, if there is one.
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = OnceLock::new();
        cell.get_or_init(|| value);
        cell
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::from)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceLock").field(value).finish(),
            None => f.write_str("OnceLock(<uninit>)"),
        }
    }
}

/// See [`std::sync::LazyLock`]; while one fiber initialises, this one parks the others.
///
/// The closure runs once. If it panics, or its fiber is cancelled while it waits, the value can
/// never be had: every further use panics.
///
/// ```
/// use pirn::sync::LazyLock;
///
/// static PRIMES: LazyLock<Vec<u32>> = LazyLock::new(|| vec![2, 3, 5, 7]);
///
/// assert_eq!(PRIMES.len(), 4);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    cell: OnceLock<T>,
    /// Until it is run. Belongs to whoever initialises the cell.
    init: Cell<Option<F>>,
}

// SAFETY: as std's: the closure is taken by one party, under the cell's protection, and never shared.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe + RefUnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that the closure makes when it is first wanted.
    pub const fn new(f: F) -> LazyLock<T, F> {
        LazyLock { cell: OnceLock::new(), init: Cell::new(Some(f)) }
    }

    /// The value; makes it first if need be. Waits for an initialiser that is running.
    ///
    /// # Panics
    ///
    /// When the closure panics, or has; when called by the closure itself; in a destructor while the
    /// caller is ended from outside, if it would have to wait.
    #[inline]
    #[track_caller]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.cell.get_or_init(|| match this.init.take() {
            Some(f) => f(),
            None => poisoned("LazyLock"),
        })
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cell.get() {
            Some(value) => f.debug_tuple("LazyLock").field(value).finish(),
            None => f.write_str("LazyLock(<uninit>)"),
        }
    }
}
