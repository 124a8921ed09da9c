//! Fiber-local storage.
//!
//! Each fiber has a list of the keys that it has used, in order of first use, with their values.
//! A key is the address of its static. Few keys are in use at a time, so a list is searched faster
//! than a table.

use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::error::Error;
use std::fmt;
use std::rc::Rc;

use crate::sched::carrier::Carrier;
use crate::sched::drop_quietly;

/// Declares fiber-local variables; see [`LocalKey`].
///
/// The syntax is std's:
///
/// ```
/// use std::cell::Cell;
/// use pirn::thread;
///
/// pirn::thread_local! {
///     static DEPTH: Cell<u32> = Cell::new(1);
/// }
///
/// pirn::run(|| {
///     DEPTH.set(5);
///     assert_eq!(thread::spawn(|| DEPTH.get()).join().unwrap(), 1);
///     assert_eq!(DEPTH.get(), 5);
/// });
/// ```
#[macro_export]
macro_rules! thread_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = const { $init:expr } $(; $($rest:tt)*)?) => {
        $crate::thread_local!($(#[$attr])* $vis static $name: $t = $init);
        $($crate::thread_local!($($rest)*);)?
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident : $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::thread::LocalKey<$t> = {
            fn init() -> $t {
                $init
            }
            $crate::thread::LocalKey::new(init)
        };
        $($crate::thread_local!($($rest)*);)?
    };
}

/// A variable of which every fiber has its own; declared by [`thread_local!`](crate::thread_local).
///
/// The value is made when the fiber first uses it, on that fiber; the initialiser may wait. When the
/// fiber's closure has returned or unwound, before `join` returns, the values are dropped: the last
/// one made first. A destructor may use keys whose values have not been dropped yet, and may make
/// values of new ones, which are dropped next; a value that is being dropped or gone is an
/// [`AccessError`]. A panic in such a destructor is reported and goes no further. On a plain OS
/// thread the variable is the thread's.
///
/// A [coroutine](crate::coroutine) has no values of its own: it uses those of the fiber or thread
/// that resumes it. If it suspends within [`with`](Self::with) and the fiber ends meanwhile, the
/// value is dropped when `with` returns.
///
/// It may be used within an initialiser of another key. A key that is used within its own
/// initialiser is initialised twice, and keeps the first value, as in std.
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
    /// Gives each static an address of its own.
    unique: u8,
}

/// The value of a [`LocalKey`] is being dropped, or has been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fiber-local value is being dropped or has been dropped")
    }
}

impl Error for AccessError {}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { init, unique: 0 }
    }

    fn id(&'static self) -> *const u8 {
        &raw const self.unique
    }

    /// Calls `f` with the value.
    ///
    /// # Panics
    ///
    /// When the value is being dropped or has been dropped.
    pub fn with<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        match self.try_with(f) {
            Ok(result) => result,
            Err(error) => panic!("cannot access a fiber-local: {error}"),
        }
    }

    /// Calls `f` with the value.
    ///
    /// # Errors
    ///
    /// When the value is being dropped or has been dropped.
    pub fn try_with<F, R>(&'static self, f: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        // `f` holds a share of the value: on the stack of a coroutine it may be suspended, and go on
        // after the fiber that the value belongs to has ended.
        with_locals(|locals| locals.get(self.id(), self.init)).map(|value: Rc<T>| f(&value))
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Sets the value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// A copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value, leaving the default.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Replaces the value, and returns the old one.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Calls `f` with a shared borrow of the value.
    ///
    /// # Panics
    ///
    /// When it is mutably borrowed.
    pub fn with_borrow<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with a mutable borrow of the value.
    ///
    /// # Panics
    ///
    /// When it is borrowed.
    pub fn with_borrow_mut<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&mut T) -> R,
    {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// One key's value; `None` from when its destructor begins.
struct Local {
    key: *const u8,
    value: Option<Rc<dyn Any>>,
}

/// The values of one fiber or OS thread.
#[derive(Default)]
pub(crate) struct Locals {
    list: UnsafeCell<Vec<Local>>,
}

impl Locals {
    pub(crate) const fn new() -> Self {
        Locals { list: UnsafeCell::new(Vec::new()) }
    }

    /// The list. The reference must not live across a call of user code.
    #[allow(clippy::mut_from_ref, reason = "one thread, and never across user code")]
    fn list(&self) -> &mut Vec<Local> {
        // SAFETY: used by the thread that owns it, for one expression at a time.
        unsafe { &mut *self.list.get() }
    }

    fn find<T: 'static>(&self, key: *const u8) -> Option<Result<Rc<T>, AccessError>> {
        let local = self.list().iter().find(|local| local.key == key)?;
        Some(match &local.value {
            Some(value) => Ok(value.clone().downcast().expect("a key has one type")),
            None => Err(AccessError),
        })
    }

    fn get<T: 'static>(&self, key: *const u8, init: fn() -> T) -> Result<Rc<T>, AccessError> {
        if let Some(found) = self.find(key) {
            return found;
        }
        // The initialiser may use other keys, or this one, and may wait.
        let value = Rc::new(init());
        if let Some(found) = self.find(key) {
            return found;
        }
        self.list().push(Local { key, value: Some(value.clone()) });
        Ok(value)
    }

    /// Drops the values, the last one made first.
    #[inline]
    pub(crate) fn clear(&self) {
        if self.list().capacity() > 0 {
            self.clear_all();
        }
    }

    #[inline(never)]
    fn clear_all(&self) {
        // Destructors may add further values: those come next.
        while let Some(next) = self.list().iter().rposition(|local| local.value.is_some()) {
            let value = self.list()[next].value.take();
            drop_quietly(value);
        }
        // Late accesses no longer come from the fiber's own code.
        *self.list() = Vec::new();
    }
}

impl Drop for Locals {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Finds the locals of the calling fiber or OS thread.
fn with_locals<R>(f: impl FnOnce(&Locals) -> Result<R, AccessError>) -> Result<R, AccessError> {
    std::thread_local! {
        static LOCALS: Locals = const { Locals::new() };
    }
    match Carrier::current().and_then(Carrier::current_fiber) {
        Some(fiber) => f(&fiber.locals),
        None => LOCALS.try_with(f).map_err(|_| AccessError)?,
    }
}
