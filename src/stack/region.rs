//! Regions: reservations that are sliced into slots, and the public record of them.
//!
//! A region's bookkeeping ([`Region`]) belongs to the depot and is used under its lock. Beside it
//! stands a record for those who cannot take a lock: signal handlers and debuggers.
//! [`PIRN_STACK_REGIONS`] is a static table with one [`Record`] for each region: where it lies, how
//! it is sliced, and where its *side table* is: one pointer for each slot, to the [`Occupant`] that
//! runs there now.
//!
//! # The protocol of a record
//!
//! `version` is even while the record is steady, and `base` is 0 while it describes nothing. A
//! writer (there is one at a time: the depot's lock) makes it odd, changes the rest, and makes it
//! even again. A reader ignores a record whose version was odd or changed meanwhile. It loses
//! nothing by that: a region with a live stack is not being changed, and for any other address
//! there is no answer.
//!
//! Side tables are recycled but never unmapped, so that a reader who is late reads an old pointer
//! and does not fault. They cost 8 bytes for each slot of the largest number of slots ever
//! reserved.

use core::ffi::c_int;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::alloc::{Layout, alloc_zeroed};

use super::guard::{self, GuardKind};
use super::{Occupant, SizeClass, SlotId, Stack, annotate, colour, kernel};

/// How many regions there can be.
///
/// Regions grow with what is already reserved, so that even a full 47-bit address space takes about
/// a hundred of a class.
pub(super) const MAX_REGIONS: usize = 4096;

/// Address space that must be left for the rest of the program, which mostly cannot survive being
/// refused memory.
pub(super) const HEADROOM: usize = 4 << 20;

/// What a debugger finds under the symbol `PIRN_STACK_REGIONS`. All fields are words, in this
/// order.
#[repr(C)]
pub(crate) struct Table {
    /// The number of `records`.
    capacity: usize,
    /// Only records below this number were ever in use.
    used: AtomicUsize,
    records: [Record; MAX_REGIONS],
}

/// One region, for readers without a lock.
#[repr(C)]
struct Record {
    /// Even: steady. Odd: being changed.
    version: AtomicUsize,
    /// Address of slot 0; 0 for an unused record.
    base: AtomicUsize,
    /// Bytes of all slots together.
    len: AtomicUsize,
    /// Bytes from one slot to the next, whole pages.
    slot: AtomicUsize,
    /// Bytes of guard at the low end of each slot.
    guard: AtomicUsize,
    /// The side table: `len / slot` pointers, null where nobody runs.
    side: AtomicPtr<AtomicPtr<Occupant>>,
}

/// All regions; see the module's prose. Exported for `tools/gdb/pirn.py`.
#[unsafe(no_mangle)]
#[used]
pub(crate) static PIRN_STACK_REGIONS: Table = Table {
    capacity: MAX_REGIONS,
    used: AtomicUsize::new(0),
    records: [const {
        Record {
            version: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            slot: AtomicUsize::new(0),
            guard: AtomicUsize::new(0),
            side: AtomicPtr::new(ptr::null_mut()),
        }
    }; MAX_REGIONS],
};

impl Record {
    /// Replaces what the record says. Callers hold the depot's lock.
    fn write(
        &self,
        base: usize,
        len: usize,
        slot: usize,
        guard: usize,
        side: *mut AtomicPtr<Occupant>,
    ) {
        // Relaxed: there is one writer at a time.
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Release fence: a reader that sees any store below also sees the odd version.
        fence(Ordering::Release);
        self.base.store(base, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Relaxed);
        self.guard.store(guard, Ordering::Relaxed);
        self.side.store(side, Ordering::Relaxed);
        // Release: a reader that sees this version also sees the stores above.
        self.version.store(version + 2, Ordering::Release);
    }

    /// The slot of this region that `addr` lies in, if any.
    fn locate(&self, addr: usize) -> Option<Place> {
        // Acquire: pairs with the last store of `write`.
        let version = self.version.load(Ordering::Acquire);
        let base = self.base.load(Ordering::Relaxed);
        let len = self.len.load(Ordering::Relaxed);
        let slot = self.slot.load(Ordering::Relaxed);
        let guard = self.guard.load(Ordering::Relaxed);
        let side = self.side.load(Ordering::Relaxed);
        // Acquire fence: pairs with the release fence in `write`, so that a value of the next
        // writer shows in the version.
        fence(Ordering::Acquire);
        let steady = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        if !steady || base == 0 || addr.wrapping_sub(base) >= len {
            return None;
        }
        let index = (addr - base) / slot;
        let start = base + index * slot;
        Some(Place { start, guard, end: start + slot, entry: side.wrapping_add(index) })
    }
}

/// One slot, as found by an address.
pub(super) struct Place {
    /// The lowest byte, where the guard begins.
    pub(super) start: usize,
    /// Bytes of guard.
    pub(super) guard: usize,
    /// One past the highest byte.
    pub(super) end: usize,
    entry: *const AtomicPtr<Occupant>,
}

impl Place {
    /// Who runs in the slot.
    pub(super) fn occupant(&self) -> Option<*const Occupant> {
        // SAFETY: side tables are never freed, and `locate` has checked the index.
        // Relaxed: see `Stack::occupy`.
        let occupant = unsafe { (*self.entry).load(Ordering::Relaxed) };
        (!occupant.is_null()).then_some(occupant.cast_const())
    }
}

/// The slot that `addr` lies in, guard included. Async-signal-safe and lock-free.
pub(super) fn place_at(addr: usize) -> Option<Place> {
    // Acquire: pairs with the release in `Region::create`; records below `used` are initialised.
    let used = PIRN_STACK_REGIONS.used.load(Ordering::Acquire);
    PIRN_STACK_REGIONS.records[..used].iter().find_map(|record| record.locate(addr))
}

/// Who runs on the stack that `addr` lies in (or in the guard of). Async-signal-safe and lock-free.
///
/// The pointer may be followed only if the caller knows that this stack is occupied for as long, as
/// when `addr` is its own stack pointer.
#[cfg(test)]
pub(crate) fn occupant_at(addr: usize) -> Option<*const Occupant> {
    place_at(addr)?.occupant()
}

/// The usable bytes of the slot that `addr` lies in (or in the guard of). Async-signal-safe and
/// lock-free.
pub(crate) fn bounds_at(addr: usize) -> Option<Range<usize>> {
    place_at(addr).map(|place| place.start + place.guard..place.end)
}

/// A region's bookkeeping: slots below `carved` have their guard, and those in `idle` are cold.
pub(super) struct Region {
    base: *mut u8,
    slots: u32,
    carved: u32,
    /// How many bits of `idle` are set.
    cold: u32,
    /// No bit is set in the words of `idle` below this one.
    hint: u32,
    side: *mut AtomicPtr<Occupant>,
    /// One bit for each slot.
    idle: *mut u64,
    kind: GuardKind,
}

// SAFETY: the pointers are to memory that the region owns, whichever thread holds the depot's lock.
unsafe impl Send for Region {}

impl Region {
    /// No region.
    pub(super) const NONE: Region = Region {
        base: ptr::null_mut(),
        slots: 0,
        carved: 0,
        cold: 0,
        hint: 0,
        side: ptr::null_mut(),
        idle: ptr::null_mut(),
        kind: GuardKind::Light,
    };

    pub(super) fn exists(&self) -> bool {
        !self.base.is_null()
    }

    /// Maps a region of `slots` slots and publishes it as number `id`; `Err(errno)` when refused.
    pub(super) fn create(
        id: u16,
        class: SizeClass,
        slots: u32,
        spare: &mut SpareTables,
    ) -> Result<Region, c_int> {
        let len = class.slot_size() * slots as usize;
        let base = kernel::reserve(len)?;
        let tables =
            kernel::check_headroom(HEADROOM).and_then(|()| spare.take(slots).ok_or(libc::ENOMEM));
        let Tables { side, idle } = tables.inspect_err(|_| {
            // SAFETY: nobody knows the mapping yet.
            unsafe { kernel::unreserve(base, len) };
        })?;
        let (slot, guard) = (class.slot_size(), class.guard_size());
        PIRN_STACK_REGIONS.records[id as usize].write(base.addr(), len, slot, guard, side);
        // Release: see `place_at`. The lock makes this read-modify-write safe without being atomic.
        let used = PIRN_STACK_REGIONS.used.load(Ordering::Relaxed).max(id as usize + 1);
        PIRN_STACK_REGIONS.used.store(used, Ordering::Release);
        Ok(Region { base, slots, side, idle, kind: guard::guard_kind(), ..Region::NONE })
    }

    /// Unmaps the region, if the kernel lets us, and leaves [`Region::NONE`].
    ///
    /// # Safety
    ///
    /// All carved slots are cold.
    pub(super) unsafe fn destroy(&mut self, id: u16, class: SizeClass, spare: &mut SpareTables) {
        let len = class.slot_size() * self.slots as usize;
        // The record goes first: nobody may look up an address that the kernel may give to somebody
        // else.
        let record = &PIRN_STACK_REGIONS.records[id as usize];
        record.write(0, 0, 0, 0, ptr::null_mut());
        // SAFETY: nobody owns a slot of it, by the caller's contract.
        if !unsafe { kernel::unreserve(self.base, len) } {
            // Unmapping out of the middle of a larger mapping takes one mapping more, and there is
            // none left.
            record.write(self.base.addr(), len, class.slot_size(), class.guard_size(), self.side);
            return;
        }
        annotate::forget_stacks(self.base, len);
        spare.give(Tables { side: self.side, idle: self.idle }, self.slots, self.carved);
        *self = Region::NONE;
    }

    /// Guards up to `count` more slots and makes them cold; `Err(errno)` if not even one could be.
    pub(super) fn carve(&mut self, class: SizeClass, count: u32) -> Result<(), c_int> {
        let count = count.min(self.uncarved()) as usize;
        let (slot, guard) = (class.slot_size(), class.guard_size());
        let first = self.base.wrapping_add(self.carved as usize * slot);
        // SAFETY: slots from `carved` on were never handed out.
        let done = unsafe { guard::install(&mut self.kind, first, slot, guard, count) }?;
        for index in 0..done {
            let start = first.wrapping_add(index * slot);
            annotate::remember_stack(start.wrapping_add(guard), start.wrapping_add(slot));
            self.carved += 1;
            self.put(self.carved - 1);
        }
        Ok(())
    }

    /// Takes the cold slot with the lowest address.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.cold == 0 {
            return None;
        }
        loop {
            // SAFETY: a bit is set somewhere from `hint` on, so `hint` stays below the number of
            // words.
            let word = unsafe { &mut *self.idle.add(self.hint as usize) };
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                self.cold -= 1;
                return Some(self.hint * u64::BITS + bit);
            }
            self.hint += 1;
        }
    }

    /// Makes a slot cold. Its owner has given back its pages.
    pub(super) fn put(&mut self, index: u32) {
        assert!(index < self.carved, "pirn: a stack slot that was never handed out came back");
        let word = index / u64::BITS;
        // SAFETY: the index is below `slots`.
        let bits = unsafe { &mut *self.idle.add(word as usize) };
        let bit = 1 << (index % u64::BITS);
        assert!(*bits & bit == 0, "pirn: a stack slot came back twice");
        *bits |= bit;
        self.cold += 1;
        self.hint = self.hint.min(word);
    }

    /// The stack in slot `index`, which the caller took out of wherever it was.
    pub(super) fn stack(&self, region: u16, class: SizeClass, index: u32) -> Stack {
        let end = self.base.wrapping_add((index as usize + 1) * class.slot_size());
        let top = end.wrapping_sub(colour(index));
        let occupant = self.side.wrapping_add(index as usize);
        // SAFETY: both point into a live mapping and a live table.
        let (top, occupant) =
            unsafe { (NonNull::new_unchecked(top), NonNull::new_unchecked(occupant)) };
        Stack { top, occupant, slot: SlotId::new(index, region, class) }
    }

    /// Whether the kernel keeps this memory resident (`mlockall` with `MCL_FUTURE`): then nothing
    /// is lazy.
    pub(super) fn is_locked(&self, class: SizeClass) -> bool {
        let end = self.base.wrapping_add(self.slots as usize * class.slot_size());
        kernel::lowest_resident(end.wrapping_sub(kernel::page_size()), end).is_some()
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }
    pub(super) fn carved(&self) -> u32 {
        self.carved
    }
    pub(super) fn uncarved(&self) -> u32 {
        self.slots - self.carved
    }
    pub(super) fn cold(&self) -> u32 {
        self.cold
    }
    pub(super) fn is_idle(&self) -> bool {
        self.cold == self.carved
    }
    pub(super) fn kind(&self) -> GuardKind {
        self.kind
    }
}

/// A side table and a bitmap, both all zeroes while they are spare.
pub(super) struct Tables {
    side: *mut AtomicPtr<Occupant>,
    idle: *mut u64,
}

/// Tables of regions that are gone, by the logarithm of their number of slots.
///
/// The lists are threaded through the first word of the bitmaps: the side tables may still be read.
pub(super) struct SpareTables([*mut AtomicPtr<Occupant>; 32]);

// SAFETY: the tables on the lists belong to the depot, whichever thread holds its lock.
unsafe impl Send for SpareTables {}

impl SpareTables {
    pub(super) const NONE: SpareTables = SpareTables([ptr::null_mut(); 32]);

    fn take(&mut self, slots: u32) -> Option<Tables> {
        let log = slots.next_power_of_two().trailing_zeros();
        let capacity = 1usize << log;
        let list = &mut self.0[log as usize];
        let mut side = *list;
        if side.is_null() {
            let words = capacity + capacity.div_ceil(64);
            let layout = Layout::array::<u64>(words).ok()?;
            // SAFETY: the layout is not empty. All-zero bytes are null pointers and empty bitmaps.
            side = unsafe { alloc_zeroed(layout) }.cast();
            if side.is_null() {
                return None;
            }
            return Some(Tables { side, idle: side.wrapping_add(capacity).cast() });
        }
        let idle: *mut u64 = side.wrapping_add(capacity).cast();
        // SAFETY: `give` has put the next table's address there.
        unsafe {
            *list = ptr::with_exposed_provenance_mut(*idle as usize);
            *idle = 0;
        }
        Some(Tables { side, idle })
    }

    fn give(&mut self, tables: Tables, slots: u32, carved: u32) {
        let list = &mut self.0[slots.next_power_of_two().trailing_zeros() as usize];
        for index in 0..carved as usize {
            // SAFETY: `carved` entries exist. Relaxed: nobody runs there.
            unsafe { (*tables.side.add(index)).store(ptr::null_mut(), Ordering::Relaxed) };
        }
        // SAFETY: the bitmap has a word for each 64 slots, at least one.
        unsafe {
            ptr::write_bytes(tables.idle, 0, (carved as usize).div_ceil(64));
            *tables.idle = (*list).expose_provenance() as u64;
        }
        *list = tables.side;
    }
}
