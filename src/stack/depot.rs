//! The depot: what the process has in idle stacks, and where new ones come from.
//!
//! One lock for everything, taken once for a batch of stacks. For each class there are *warm*
//! stacks, which keep their pages and are bounded in number, and behind them the class's regions,
//! which know their *cold* slots. When the warm ones overflow, they all go cold together: sorted by
//! address, so that neighbours are given back by one call. The system calls for that run outside
//! the lock; meanwhile the slots count as in use, so that their regions stay.
//!
//! Cold slots are handed out lowest address first and from the oldest region on, so that what is in
//! use gathers in few regions and the others can be unmapped. A region whose slots are all cold is
//! unmapped when enough idle stacks are left without it; the oldest one of a class only by
//! [`trim`].

use core::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::config::{MAX_CLASSES, MAX_WARM};
use super::error::{self, StackError};
use super::guard::{self, GuardKind};
use super::pile::Pile;
use super::region::{MAX_REGIONS, Region, SpareTables};
use super::{SizeClass, kernel, magazine};

/// How many stacks move between a magazine and the depot at a time, at most.
pub(super) const BATCH: usize = MAX_WARM / 2;

/// All idle stacks that no thread has in its magazine, and all regions.
pub(super) struct Depot {
    shelves: [Shelf; MAX_CLASSES],
    regions: [Region; MAX_REGIONS],
    /// For each region, one more than the number of the next younger one of its class; 0 at the
    /// end.
    younger: [u16; MAX_REGIONS],
    /// Regions from this number on never existed.
    fresh: u16,
    spare: SpareTables,
    /// The magazines of all threads, for the statistics.
    pub(super) magazines: magazine::List,
}

/// What belongs to one class.
struct Shelf {
    warm: Pile<MAX_WARM>,
    /// One more than the number of the oldest region; 0 if there is none.
    oldest: u16,
    /// Bytes of all regions.
    reserved: usize,
    /// The logarithm of how many slots are carved next time.
    carve: u8,
    /// New memory is made resident at once (`mlockall`), so reserving ahead would cost dearly.
    locked: bool,
}

static DEPOT: Mutex<Depot> = Mutex::new(Depot {
    shelves: [const { Shelf { warm: Pile::EMPTY, oldest: 0, reserved: 0, carve: 0, locked: false } };
        MAX_CLASSES],
    regions: [const { Region::NONE }; MAX_REGIONS],
    younger: [0; MAX_REGIONS],
    fresh: 0,
    spare: SpareTables::NONE,
    magazines: magazine::List::EMPTY,
});

/// Locks the depot. A panic under the lock can only be an assertion of this floor, checked before
/// it changes anything.
pub(super) fn lock() -> MutexGuard<'static, Depot> {
    DEPOT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes up to `want` stacks, at least one: warm ones, else cold ones, else new ones.
///
/// The one to be used first is on top.
pub(super) fn take(class: SizeClass, want: usize) -> Result<Pile<BATCH>, StackError> {
    // Bound first: the lock must be free while the reasons of a failure are read from /proc.
    let result = lock().take(class, want);
    result.map_err(|refusal| error::explain(class, refusal))
}

/// Puts stacks into the depot that nobody stands on.
pub(super) fn put(class: SizeClass, mut stacks: Pile<BATCH>) {
    let mut batch = Pile::EMPTY;
    {
        let mut depot = lock();
        let warm = &mut depot.shelves[class.index()].warm;
        if warm.len() + stacks.len() <= class.warm_limit() {
            stacks.pour(warm);
            return;
        }
        warm.pour(&mut batch);
    }
    stacks.pour(&mut batch);
    cool(class, batch, Reap::Surplus);
}

/// Which idle regions to unmap.
#[derive(Clone, Copy, PartialEq)]
enum Reap {
    /// Those without which enough is left.
    Surplus,
    All,
}

/// Gives the pages of all these stacks back to the kernel, neighbours together, and makes them
/// cold.
fn cool(class: SizeClass, mut batch: Pile<{ MAX_WARM + BATCH }>, reap: Reap) {
    const NOTHING: libc::iovec = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
    let mut ranges = [NOTHING; MAX_WARM + BATCH];
    let mut count = 0;
    let stacks = batch.as_mut_slice();
    stacks.sort_unstable_by_key(|stack| stack.top().addr());
    let (slot, guard) = (class.slot_size(), class.guard_size());
    for stack in stacks.iter() {
        let start = stack.bottom();
        let follows =
            |last: &libc::iovec| last.iov_base.addr() + last.iov_len + guard == start.addr();
        match ranges[..count].last_mut().filter(|last| follows(last)) {
            // The guard in between stays a guard, of either kind.
            Some(last) => last.iov_len += slot,
            None => {
                ranges[count] = libc::iovec { iov_base: start.cast(), iov_len: slot - guard };
                count += 1;
            }
        }
    }
    // Locked memory cannot be given back: the error is ignored, the pages stay.
    // SAFETY: the batch owns these stacks, and nothing on them is of value.
    unsafe { kernel::advise(&ranges[..count], libc::MADV_DONTNEED) };

    let mut depot = lock();
    while let Some(stack) = batch.pop() {
        depot.regions[stack.slot.region() as usize].put(stack.slot.index());
    }
    depot.reap(class, reap);
}

impl Depot {
    fn take(&mut self, class: SizeClass, want: usize) -> Result<Pile<BATCH>, Refusal> {
        let mut out = Pile::EMPTY;
        let warm = &mut self.shelves[class.index()].warm;
        while out.len() < want.min(BATCH)
            && let Some(stack) = warm.pop()
        {
            out.push(stack);
        }
        if out.len() > 0 {
            return Ok(out);
        }
        let id = match self.find(class, |region| region.cold() > 0) {
            Some(id) => id,
            None => self.carve(class)?,
        };
        let region = &mut self.regions[id as usize];
        while out.len() < want.min(BATCH)
            && let Some(index) = region.take()
        {
            out.push(region.stack(id, class, index));
        }
        // They came lowest first, and lowest first they shall be used.
        out.as_mut_slice().reverse();
        Ok(out)
    }

    /// Makes new cold slots, in a new region if need be, and tells in which region.
    ///
    /// A first fiber pays for one guard; the more are asked for, the more are made at a time.
    fn carve(&mut self, class: SizeClass) -> Result<u16, Refusal> {
        let id = match self.find(class, |region| region.uncarved() > 0) {
            Some(id) => id,
            None => self.reserve(class).map_err(|errno| Refusal { step: Step::Reserve, errno })?,
        };
        let shelf = &mut self.shelves[class.index()];
        let region = &mut self.regions[id as usize];
        region
            .carve(class, 1 << shelf.carve)
            .map_err(|errno| Refusal { step: Step::Guard, errno })?;
        if 1 << shelf.carve < guard::BATCH {
            shelf.carve += 1;
        }
        Ok(id)
    }

    /// Reserves a new region: as much as the class has already, within bounds, or as much as can be
    /// had.
    fn reserve(&mut self, class: SizeClass) -> Result<u16, c_int> {
        const FIRST_BYTES: usize = 8 << 20;
        const FIRST_SLOTS: usize = 64;
        const MOST_BYTES: usize = 1 << 30;
        /// Beyond [`MOST_BYTES`], regions are at most this part of the whole, so that their number
        /// grows like a logarithm.
        const SHARE: usize = 8;
        let id = match (0..self.fresh).find(|&id| !self.regions[id as usize].exists()) {
            Some(id) => id,
            None if (self.fresh as usize) < MAX_REGIONS => self.fresh,
            None => return Err(libc::ENOMEM),
        };
        let slot = class.slot_size();
        let shelf = &self.shelves[class.index()];
        let least = FIRST_BYTES.min(FIRST_SLOTS * slot);
        let most = if shelf.locked { least } else { MOST_BYTES.max(shelf.reserved / SHARE) };
        let mut slots = (shelf.reserved.clamp(least, most) / slot).clamp(1, 1 << 24) as u32;
        let region = loop {
            match Region::create(id, class, slots, &mut self.spare) {
                Ok(region) => break region,
                Err(errno) if slots == 1 => return Err(errno),
                Err(_) => slots /= 2,
            }
        };
        let last = self.walk(class).last();
        let shelf = &mut self.shelves[class.index()];
        shelf.reserved += slots as usize * slot;
        shelf.locked = region.is_locked(class);
        self.fresh = self.fresh.max(id + 1);
        self.regions[id as usize] = region;
        self.younger[id as usize] = 0;
        match last {
            Some(last) => self.younger[last as usize] = id + 1,
            None => shelf.oldest = id + 1,
        }
        Ok(id)
    }

    /// Unmaps regions whose slots are all cold, the youngest first.
    fn reap(&mut self, class: SizeClass, reap: Reap) {
        /// Idle stacks that must be left over. Light guards cost no mappings, so more are kept for
        /// the next burst: at 256 bytes of page tables for each of the default size, a megabyte.
        const KEEP_LIGHT: u32 = 4096;
        const KEEP_PROTECTED: u32 = 16;
        if self.find(class, Region::is_idle).is_none() {
            return;
        }
        let warm = self.shelves[class.index()].warm.len() as u32;
        let mut idle: u32 =
            warm + self.walk(class).map(|id| self.regions[id as usize].cold()).sum::<u32>();
        let mut tried = MAX_REGIONS as u16;
        loop {
            // Regions are not ordered by number, so the youngest is found by walking; there are
            // few.
            let (mut previous, mut last) = (None, None);
            let mut before = None;
            for id in self.walk(class) {
                let region = &self.regions[id as usize];
                let keep =
                    if region.kind() == GuardKind::Light { KEEP_LIGHT } else { KEEP_PROTECTED };
                let surplus = before.is_some() && idle - region.cold() >= keep;
                if id != tried && region.is_idle() && (surplus || reap == Reap::All) {
                    (previous, last) = (before, Some(id));
                }
                before = Some(id);
            }
            let Some(id) = last else { return };
            let region = &mut self.regions[id as usize];
            let (cold, bytes) = (region.cold(), region.slots() as usize * class.slot_size());
            // SAFETY: all its carved slots are cold.
            unsafe { region.destroy(id, class, &mut self.spare) };
            if region.exists() {
                // The kernel would not. Leave it, and look at the others.
                if tried != MAX_REGIONS as u16 {
                    return;
                }
                tried = id;
                continue;
            }
            idle -= cold;
            self.shelves[class.index()].reserved -= bytes;
            let next = self.younger[id as usize];
            match previous {
                Some(previous) => self.younger[previous as usize] = next,
                None => self.shelves[class.index()].oldest = next,
            }
        }
    }

    /// The oldest region of a class for which `test` holds.
    fn find(&self, class: SizeClass, test: impl Fn(&Region) -> bool) -> Option<u16> {
        self.walk(class).find(|&id| test(&self.regions[id as usize]))
    }

    /// The numbers of a class's regions, oldest first.
    fn walk(&self, class: SizeClass) -> impl Iterator<Item = u16> {
        let mut next = self.shelves[class.index()].oldest;
        core::iter::from_fn(move || {
            let id = next.checked_sub(1)?;
            next = self.younger[id as usize];
            Some(id)
        })
    }
}

/// What the kernel refused.
pub(super) struct Refusal {
    pub(super) step: Step,
    pub(super) errno: c_int,
}

/// At which step.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Step {
    Reserve,
    Guard,
}

/// What the process holds in stacks, at some moment while others may go on.
///
/// Counts are in stacks, of all sizes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Stacks in use: bound to a fiber or a coroutine, or leaked with one.
    pub in_use: usize,
    /// Idle stacks that keep the pages they have touched, ready for reuse.
    pub idle_warm: usize,
    /// Bytes of these stacks: what they hold at most if each was used to its end.
    pub idle_warm_bytes: usize,
    /// Idle stacks whose pages were given back to the kernel.
    pub idle_cold: usize,
    /// Stacks that the reserved address space has room for, whether they were ever used or not.
    pub reserved: usize,
    /// Bytes of reserved address space, guards included. It is not memory until it is touched.
    pub reserved_bytes: usize,
    /// Reservations, each one or more memory mappings.
    pub regions: usize,
}

/// Counts the stacks of the process.
///
/// ```
/// let stats = pirn::stack::stats();
/// println!("{} stacks in use, {} idle", stats.in_use, stats.idle_warm + stats.idle_cold);
/// ```
pub fn stats() -> PoolStats {
    let mut stats = PoolStats::default();
    let depot = lock();
    let mut carved = 0;
    for class in SizeClass::all() {
        let warm = depot.shelves[class.index()].warm.len() + depot.magazines.count(class);
        stats.idle_warm += warm;
        stats.idle_warm_bytes += warm * class.slot_size();
        for id in depot.walk(class) {
            let region = &depot.regions[id as usize];
            stats.idle_cold += region.cold() as usize;
            stats.reserved += region.slots() as usize;
            stats.reserved_bytes += region.slots() as usize * class.slot_size();
            stats.regions += 1;
            carved += region.carved() as usize;
        }
    }
    // Other threads acquire and release meanwhile, so the sum may be off by what they have just
    // moved.
    stats.in_use = carved.saturating_sub(stats.idle_warm + stats.idle_cold);
    stats
}

/// Gives the pages of idle stacks back to the kernel now, and unmaps reservations that are wholly
/// idle.
///
/// It reaches what the process shares and what the calling thread keeps for itself, not the few
/// stacks (8 MiB of each size) that other threads keep.
///
/// ```
/// pirn::stack::trim();
/// assert_eq!(pirn::stack::stats().idle_warm, 0); // On a process with one thread.
/// ```
pub fn trim() {
    magazine::flush_all();
    for class in SizeClass::all() {
        let mut batch = Pile::EMPTY;
        lock().shelves[class.index()].warm.pour(&mut batch);
        cool(class, batch, Reap::All);
    }
}
