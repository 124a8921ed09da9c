//! Stacks: where the native frames of a fiber live while it runs and while it waits.
//!
//! This floor owns the memory. It reserves address space in large *regions*, slices a region into
//! *slots*, guards each slot at its low end, hands slots out as [`Stack`]s and takes them back. It
//! does not know what runs on a stack: whoever moves in leaves an [`Occupant`] that can describe
//! itself, and that is what the overflow report prints.
//!
//! ```text
//!  a region of one size class, one mmap:
//!
//!  base                       base + slot                base + 2 * slot
//!   |guard|      usable        |guard|      usable        |guard|      usable      | ...
//!         ^                 ^  ^
//!         bottom()      top()  end of slot 0; top() lies `colour` bytes below it
//! ```
//!
//! # Invariants
//!
//! * A slot is in exactly one place: uncarved, owned by a [`Stack`], in one thread's magazine, or in
//!   the depot (warm or cold). Only the depot may unmap, and only a region whose carved slots are
//!   all cold.
//! * The pages between `bottom()` and the slot's end are readable and writable; the guard below never
//!   is, from the moment the slot is first handed out.
//! * `top()` is 64-byte aligned, and `top() - bottom()` is at least the size that was asked for.
//!
//! # The life of a slot
//!
//! ```text
//!  uncarved --carve--> cold --refill--> magazine --acquire--> Stack
//!                       ^                  ^                    |
//!                       |                  +------release-------+
//!                       |                  v (full: the older half)
//!                       +---give back--- warm (depot)
//! ```
//!
//! *Warm* slots keep the pages that their last user touched, *cold* ones have given them back to
//! the kernel. The warm ones are bounded: for each thread and class a magazine of at most 8 MiB of
//! slots and never more than 32 (at least one), and once more as much for the process in the depot.
//! Pages are given back for a whole batch at once, neighbours in one call: a quarter of the price
//! of one by one.
//!
//! # Costs
//!
//! [`Stack::acquire`] and [`Stack::release`] of a warm stack touch one thread-local pointer and one
//! magazine: no lock, no atomic read-modify-write. A lock is taken once for every 16 stacks beyond
//! that.
//!
//! # Colours
//!
//! The hot lines of a suspended fiber are those just below `top()`, on the last page of its slot:
//! without care these lines of all fibers would compete for the same few sets of the cache.
//! `top()` is therefore shifted down by `(slot number % 24) * 64` bytes, which spreads them over a third
//! of the sets and leaves most of the page to the frames. The same happens one level up, to the page-table entries of those last pages: with
//! slots a power of two apart they would fill only every fourth line of each table. So a slot is an
//! odd number of pages. Together this halves what it costs to go round among 100,000 fibers.

mod annotate;
mod config;
mod depot;
mod error;
mod guard;
mod kernel;
mod magazine;
mod overflow;
mod pile;
mod region;
mod signal_stack;

#[cfg(test)]
mod tests;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::fmt;
use std::sync::MutexGuard;

pub(crate) use config::SizeClass;
pub use config::StackConfig;
pub use depot::{PoolStats, stats, trim};
pub use error::StackError;
#[cfg(test)]
pub(crate) use guard::set_guard_kind_for_test;
pub use guard::{GuardKind, guard_kind};
#[cfg(test)]
pub(crate) use overflow::install_overflow_handler;
pub(crate) use region::bounds_at;
#[cfg(test)]
pub(crate) use region::occupant_at;

/// First field of whatever a stack carries; lets this floor describe it without knowing it.
#[repr(C)]
pub(crate) struct Occupant {
    /// Writes one phrase that names the occupant, such as `fiber 'worker' (id 7), spawned at
    /// src/main.rs:10:5`.
    ///
    /// It is called from a signal handler: no allocation, no locks, no panics, little stack.
    pub(crate) describe: unsafe fn(*const Occupant, &mut dyn fmt::Write),
}

/// Which slot: number within its region, region, and class.
///
/// Packed by hand: as three fields it would be moved in overlapping pieces, and reading those back
/// right after they were written costs more than all the rest of a release and acquire.
#[derive(Clone, Copy)]
struct SlotId(u64);

impl SlotId {
    fn new(index: u32, region: u16, class: SizeClass) -> SlotId {
        SlotId(u64::from(index) << 32 | u64::from(region) << 8 | class.index() as u64)
    }

    #[inline]
    fn index(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn region(self) -> u16 {
        (self.0 >> 8) as u16
    }

    #[inline]
    fn class(self) -> SizeClass {
        SizeClass::from_index(self.0 as u8)
    }
}

/// This floor's locks, held so that no other thread holds one while the process forks.
pub(crate) struct Locks {
    _depot: MutexGuard<'static, depot::Depot>,
    _classes: MutexGuard<'static, ()>,
}

/// Takes all locks of this floor.
pub(crate) fn lock_for_fork() -> Locks {
    Locks { _depot: depot::lock(), _classes: config::lock() }
}

/// An owned stack, bound to nobody else until it is released.
///
/// There is no `Drop`: a stack that is dropped is leaked, which is what decision 6 asks for when
/// its fiber was neither finished nor unwound. [`Stack::release`] gives it back.
pub(crate) struct Stack {
    top: NonNull<u8>,
    occupant: NonNull<AtomicPtr<Occupant>>,
    slot: SlotId,
}

// SAFETY: a `Stack` owns its slot exclusively, and nothing about a slot belongs to a thread.
unsafe impl Send for Stack {}

/// Colours repeat after this many slots.
const COLOURS: usize = 24;
/// Bytes from one colour to the next: a cache line.
const COLOUR_STEP: usize = 64;
/// The largest shift of `top()`.
const COLOUR_SPAN: usize = (COLOURS - 1) * COLOUR_STEP;

/// How far below the end of its slot the top of slot number `index` lies.
#[inline]
fn colour(index: u32) -> usize {
    (index as usize % COLOURS) * COLOUR_STEP
}

impl Stack {
    /// Takes a stack of the given class: the one that this thread released last, if it still has
    /// one.
    ///
    /// # Errors
    ///
    /// When no idle stack is left and the kernel grants no more: see [`StackError`]. Nothing is
    /// lost by it, and later calls succeed as soon as stacks come back or the limit is raised.
    #[inline]
    pub(crate) fn acquire(class: SizeClass) -> Result<Stack, StackError> {
        let stack = match magazine::pop(class) {
            Some(stack) => stack,
            None => magazine::acquire_slow(class)?,
        };
        annotate::reused(&stack);
        Ok(stack)
    }

    /// Takes a stack that this thread has in its magazine: never enters the kernel, and needs next to
    /// no stack itself.
    #[inline]
    pub(crate) fn acquire_warm(class: SizeClass) -> Option<Stack> {
        let stack = magazine::pop(class)?;
        annotate::reused(&stack);
        Some(stack)
    }

    /// Whether [`release`](Self::release) of this stack would leave it in this thread's magazine:
    /// never enter the kernel, and need next to no stack itself.
    #[inline]
    pub(crate) fn stays_warm(&self) -> bool {
        magazine::has_room(self.slot.class())
    }

    /// Gives the stack back to this thread's magazine or, when that is full, half the magazine to
    /// the depot.
    ///
    /// The caller has vacated it and does not stand on it.
    #[inline]
    pub(crate) fn release(self) {
        if let Err(stack) = magazine::push(self) {
            magazine::release_slow(stack);
        }
    }

    /// Exclusive upper end of the usable bytes; 64-byte aligned.
    #[inline]
    pub(crate) fn top(&self) -> *mut u8 {
        self.top.as_ptr()
    }

    /// Lowest usable byte, just above the guard.
    #[inline]
    pub(crate) fn bottom(&self) -> *mut u8 {
        let class = self.slot.class();
        self.base().wrapping_add(class.guard_size())
    }

    /// Usable bytes: the distance from [`bottom`](Stack::bottom) to [`top`](Stack::top).
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.span() - colour(self.slot.index())
    }

    /// Bytes from the guard to the end of the slot: less than that below any place near the top is
    /// still this stack, or its guard.
    #[inline]
    pub(crate) fn span(&self) -> usize {
        self.slot.class().span()
    }

    /// The class this stack belongs to.
    #[inline]
    pub(crate) fn class(&self) -> SizeClass {
        self.slot.class()
    }

    /// Records who runs here, for the overflow report and for debuggers.
    ///
    /// The pointer must stay valid until [`vacate`](Stack::vacate), another `occupy`, or the next
    /// owner's.
    #[inline]
    pub(crate) fn occupy(&self, occupant: *const Occupant) {
        // Relaxed: read by signal handlers of the thread that stored it, and by stopped debuggers.
        self.entry().store(occupant.cast_mut(), Ordering::Relaxed);
    }

    /// Records that nobody runs here.
    #[inline]
    pub(crate) fn vacate(&self) {
        // Relaxed: as in `occupy`.
        self.entry().store(core::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Bytes from the top to the lowest page that is resident.
    ///
    /// That is how deep this stack was ever used since its pages were last given back, by this
    /// owner or by an earlier one, rounded up to whole pages. Pages that were swapped out do not
    /// count.
    pub(crate) fn high_water(&self) -> usize {
        let end = self.base().wrapping_add(self.slot.class().slot_size());
        match kernel::lowest_resident(self.bottom(), end) {
            Some(page) => self.top().addr().saturating_sub(page),
            None => 0,
        }
    }

    /// The lowest byte of the slot: its guard.
    #[inline]
    fn base(&self) -> *mut u8 {
        self.top()
            .wrapping_add(colour(self.slot.index()))
            .wrapping_sub(self.slot.class().slot_size())
    }

    /// This slot's entry in the side table.
    #[inline]
    fn entry(&self) -> &AtomicPtr<Occupant> {
        // SAFETY: side tables are never freed, see `region`.
        unsafe { self.occupant.as_ref() }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("bottom", &self.bottom())
            .field("top", &self.top())
            .finish_non_exhaustive()
    }
}
