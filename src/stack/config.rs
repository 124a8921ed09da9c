//! What a caller asks for, and the size classes that requests are rounded to.
//!
//! A class is a slot size (a page less than a power of two) together with a guard size (whole
//! pages). Every distinct
//! pair that the program asks for is entered once into a small static table and named by its index
//! from then on, so that the hot path never computes with sizes.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{COLOUR_SPAN, StackError, kernel};

/// How large a stack must be, and how large the guard below it.
///
/// Sizes are in bytes and are minima: [`size`](StackConfig::size) is rounded up so that stack,
/// guard and a little padding fill a page less than a power of two; the guard is rounded up to
/// whole pages, at least one. Memory is committed page by page as it is touched, so a large size
/// costs address space only.
///
/// The default, 112 KiB above a guard of one page, makes slots of 124 KiB: deep enough for ordinary
/// code with formatting, panics and backtraces, and small enough that sixteen share one page of the
/// kernel's page tables (248 bytes of it for each).
///
/// # Guards and foreign code
///
/// Rust code touches a new frame page by page from the top ("stack probes"), so one guard page
/// catches every overflow, however large the frame. Foreign code that was compiled without such
/// probes can step over the guard when a single frame is larger than it (C compiled without
/// `-fstack-clash-protection`, a big `alloca`). For such code raise the guard above its largest
/// frame; it costs address space only.
///
/// # Signals
///
/// The smallest stack holds one signal frame and the handler's own few frames. Handlers that need
/// more should run on the alternate signal stack (`SA_ONSTACK`).
///
/// ```
/// use pirn::stack::StackConfig;
///
/// let deep = StackConfig::DEFAULT.with_size(1 << 20).with_guard(64 << 10);
/// assert_eq!(deep.size(), 1 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackConfig {
    size: usize,
    guard: usize,
}

impl StackConfig {
    /// 112 KiB of stack above 4 KiB of guard, which means one page.
    pub const DEFAULT: StackConfig = StackConfig { size: 112 << 10, guard: 4096 };

    /// The same with at least `size` usable bytes.
    #[must_use]
    pub const fn with_size(self, size: usize) -> StackConfig {
        StackConfig { size, ..self }
    }

    /// The same with at least `guard` inaccessible bytes below the stack. There is always at least
    /// one page.
    #[must_use]
    pub const fn with_guard(self, guard: usize) -> StackConfig {
        StackConfig { guard, ..self }
    }

    /// The usable bytes asked for.
    pub const fn size(self) -> usize {
        self.size
    }

    /// The guard bytes asked for.
    pub const fn guard(self) -> usize {
        self.guard
    }

    /// The class whose stacks satisfy this.
    ///
    /// # Errors
    ///
    /// [`StackError::TooLarge`] when size or guard exceed 2^46 bytes; [`StackError::TooManyKinds`]
    /// when the program has already asked for 64 different classes, none of which would do.
    #[inline]
    pub(crate) fn class(self) -> Result<SizeClass, StackError> {
        // Relaxed: the class itself was published by `COUNT`, and is only an index.
        let default = DEFAULT_CLASS.load(Ordering::Relaxed);
        if self == StackConfig::DEFAULT && default != UNKNOWN {
            return Ok(SizeClass(default));
        }
        self.find_class()
    }

    #[cold]
    fn find_class(self) -> Result<SizeClass, StackError> {
        if self.size > MAX_SIZE || self.guard > MAX_SIZE {
            return Err(StackError::TooLarge {
                size: self.size,
                guard: self.guard,
                limit: MAX_SIZE,
            });
        }
        let page = kernel::page_size();
        let guard = self.guard.max(1).next_multiple_of(page);
        let usable = self.size.max(kernel::least_stack()) + COLOUR_SPAN;
        // A page less than a power of two, an odd number of pages: see "Colours" in the parent.
        let slot = (usable + guard + page).next_power_of_two().max(MIN_SLOT + page) - page;
        let class = SizeClass::find(slot, guard)
            .map_or_else(|| SizeClass::register(slot, guard, self), Ok)?;
        if self == StackConfig::DEFAULT {
            DEFAULT_CLASS.store(class.0, Ordering::Relaxed);
        }
        Ok(class)
    }
}

impl Default for StackConfig {
    fn default() -> StackConfig {
        StackConfig::DEFAULT
    }
}

/// The class of [`StackConfig::DEFAULT`], once somebody has asked for it.
static DEFAULT_CLASS: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = u8::MAX;

/// No request may exceed this: half of what a 47-bit address space could hold at all.
const MAX_SIZE: usize = 1 << 46;
/// The smallest slot.
const MIN_SLOT: usize = 12 << 10;
/// How many classes there can be.
pub(super) const MAX_CLASSES: usize = 64;

/// A rounded stack size: an index into the table of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeClass(u8);

struct Class {
    slot: AtomicUsize,
    /// What is left of it above the guard: asked for each time a coroutine is made.
    span: AtomicUsize,
}

static CLASSES: [Class; MAX_CLASSES] =
    [const { Class { slot: AtomicUsize::new(0), span: AtomicUsize::new(0) } }; MAX_CLASSES];
/// Entries below this number are filled in and never change again.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static REGISTER: Mutex<()> = Mutex::new(());

impl SizeClass {
    /// Index into per-class arrays, below [`MAX_CLASSES`].
    #[inline]
    pub(super) fn index(self) -> usize {
        // The mask tells the compiler what the constructor guarantees, so that indexing needs no
        // check.
        self.0 as usize % MAX_CLASSES
    }

    /// The inverse of [`index`](SizeClass::index).
    #[inline]
    pub(super) fn from_index(index: u8) -> SizeClass {
        SizeClass(index)
    }

    /// Bytes from one slot to the next; whole pages.
    #[inline]
    pub(crate) fn slot_size(self) -> usize {
        // Relaxed: whoever holds a class got it through `COUNT` (acquire) or from somebody who did.
        CLASSES[self.index()].slot.load(Ordering::Relaxed)
    }

    /// Bytes of guard at the low end of each slot; whole pages.
    #[inline]
    pub(crate) fn guard_size(self) -> usize {
        self.slot_size() - self.span()
    }

    /// Bytes of each slot above its guard.
    #[inline]
    pub(crate) fn span(self) -> usize {
        // Relaxed: as in `slot_size`.
        CLASSES[self.index()].span.load(Ordering::Relaxed)
    }

    /// How many warm stacks one magazine, and once more the depot, may hold.
    pub(super) fn warm_limit(self) -> usize {
        const BYTES: usize = 8 << 20;
        (BYTES / self.slot_size()).clamp(1, MAX_WARM)
    }

    /// The classes registered so far.
    pub(super) fn all() -> impl Iterator<Item = SizeClass> {
        // Acquire: pairs with the release in `register`.
        (0..COUNT.load(Ordering::Acquire)).map(|index| SizeClass(index as u8))
    }

    fn find(slot: usize, guard: usize) -> Option<SizeClass> {
        SizeClass::all().find(|class| class.slot_size() == slot && class.guard_size() == guard)
    }

    fn register(slot: usize, guard: usize, asked: StackConfig) -> Result<SizeClass, StackError> {
        let _lock = lock();
        if let Some(class) = SizeClass::find(slot, guard) {
            return Ok(class);
        }
        // Relaxed: only changed under the lock.
        let index = COUNT.load(Ordering::Relaxed);
        if index < MAX_CLASSES {
            CLASSES[index].slot.store(slot, Ordering::Relaxed);
            CLASSES[index].span.store(slot - guard, Ordering::Relaxed);
            // Release: publishes the two stores above.
            COUNT.store(index + 1, Ordering::Release);
            return Ok(SizeClass(index as u8));
        }
        // The table is full: the tightest class that still satisfies the request.
        let usable = asked.size.max(kernel::least_stack()) + COLOUR_SPAN;
        SizeClass::all()
            .filter(|class| class.guard_size() >= guard && class.span() >= usable)
            .min_by_key(|class| class.slot_size())
            .ok_or(StackError::TooManyKinds {
                size: asked.size,
                guard: asked.guard,
                limit: MAX_CLASSES,
            })
    }
}

/// Keeps other threads from registering a class.
pub(super) fn lock() -> MutexGuard<'static, ()> {
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most stacks that one magazine holds, whatever their size.
pub(super) const MAX_WARM: usize = 32;
