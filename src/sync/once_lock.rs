//! Cells that are filled once, with std's names: a value beside a [`Once`].

use std::cell::{Cell, UnsafeCell};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use super::once::{Once, poisoned};
use crate::sched::clock::Instant;

/// See [`std::sync::OnceLock`]; while one fiber initialises, this one parks the others.
///
/// An initialiser that panics, fails or is cancelled leaves the cell empty: the next one
/// tries. One that comes back to its own cell panics, as described for [`Once`](super::Once).
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

// SAFETY: as std's: the closure is taken by one party, under the cell's protection, and never
// shared.
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
    /// When the closure panics, or has; when called by the closure itself; in a destructor while
    /// the caller is ended from outside, if it would have to wait.
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
