//! Memory from the system: arenas of units, and the mark bits of the objects in them.
//!
//! An arena is 32 MiB of address space at a multiple of 32 MiB, mapped at once and touched as it is
//! used. It has 512 units of 64 KiB; the first 8 hold a mark bit for every word of the arena, so that
//! the bit of any object is found from its address alone:
//!
//! ```text
//!  address  | arena                  | word in arena      |000|
//!                                      └─► bit of the bitmap at the arena's begin
//! ```
//!
//! A unit is free, a *block* of cells of one size, or part of the *span* of a large object, which
//! begins at a unit. An object larger than an arena has a mapping of its own, of several times 32 MiB,
//! with the same bitmap at its begin.
//!
//! Few large mappings, not one for each object: the system limits their number.

use std::io;
use std::ptr::null_mut;

use super::object;
use super::size::SIZES;

/// Bytes of a unit.
pub const UNIT: usize = 64 << 10;
/// Bytes of an arena.
pub const ARENA: usize = 32 << 20;
const UNITS: usize = ARENA / UNIT;
/// Units that hold the bitmap.
const FIRST_UNIT: usize = ARENA / 64 / UNIT;
/// Bytes of bitmap for a unit.
const UNIT_BITMAP: usize = UNIT / 64;
/// The largest object that shares an arena with others.
const SHARED_MAX: usize = (UNITS - FIRST_UNIT) * UNIT;
/// After so many collections a free unit is given back to the system.
const IDLE_COLLECTIONS: u8 = 2;
/// The memory of a larger object is given back as soon as the object is freed.
const KEPT_SPAN: usize = 16;

/// Where the mark bit of an object is: the address of a word, and the bit in it.
#[inline(always)]
pub fn mark_bit(address: u64) -> (u64, u64) {
    let arena = address & !(ARENA as u64 - 1);
    let offset = address & (ARENA as u64 - 1);
    (arena + (offset >> 9 << 3), 1 << (offset >> 3 & 63))
}

/// What a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Whether its memory is known to be zero, and how many collections it has been free.
    Free { clean: bool, idle: u8 },
    /// Cells of a class.
    Block { class: u8 },
    /// The first unit of a large object of so many bytes.
    Span { bytes: usize },
    /// Another unit of a large object.
    Tail,
}

/// One mapping.
#[derive(Debug)]
pub struct Arena {
    base: usize,
    bytes: usize,
    units: Box<[Unit]>,
    free: usize,
}

// SAFETY: the mapping is owned by this value and bound to no thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Maps an arena, or a mapping for one object of so many bytes if that is more than an arena has.
    pub fn new(object: usize) -> io::Result<Arena> {
        let overflow = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = object
            .checked_add(FIRST_UNIT * UNIT)
            .and_then(|bytes| bytes.checked_next_multiple_of(ARENA))
            .ok_or_else(overflow)?;
        let mapped = bytes.checked_add(ARENA).ok_or_else(overflow)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the system chooses touches nothing else.
        let start = unsafe { libc::mmap(null_mut(), mapped, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.expose_provenance();
        let base = start.next_multiple_of(ARENA);
        unmap(start, base - start);
        unmap(base + bytes, start + mapped - base - bytes);
        let mut units = vec![Unit::Free { clean: true, idle: 0 }; bytes / UNIT];
        units[..FIRST_UNIT].fill(Unit::Tail);
        let free = units.len() - FIRST_UNIT;
        Ok(Arena { base, bytes, units: units.into(), free })
    }

    /// Asks for huge pages: marking goes through memory at random, and most of its time are misses of
    /// the table of pages. For heaps that are large anyway.
    pub fn prefer_huge_pages(&self) {
        let start = std::ptr::with_exposed_provenance_mut(self.base);
        // SAFETY: advice about a mapping of this value; it changes no content. It may be refused.
        unsafe { libc::madvise(start, self.bytes, libc::MADV_HUGEPAGE) };
    }

    /// The address of a unit.
    pub fn address(&self, unit: usize) -> u64 {
        (self.base + unit * UNIT) as u64
    }

    /// The index of the unit at an address, if that is in this arena.
    #[cfg(test)]
    pub fn unit_at(&self, address: u64) -> Option<usize> {
        let offset = (address as usize).checked_sub(self.base)?;
        (offset < self.bytes).then_some(offset / UNIT)
    }

    /// All units in use that begin a block or a span.
    pub fn used(&self) -> impl Iterator<Item = (usize, Unit)> + '_ {
        let used = |unit: &Unit| matches!(unit, Unit::Block { .. } | Unit::Span { .. });
        let all = self.units.iter().copied().enumerate();
        all.filter(move |(_, unit)| used(unit))
    }

    /// Whether nothing is in use.
    pub fn is_empty(&self) -> bool {
        self.free == self.units.len() - FIRST_UNIT
    }

    /// Bytes of address space.
    pub fn reserved(&self) -> usize {
        self.bytes
    }

    /// Finds consecutive free units, the lowest first; makes them a block or span. Tells the address
    /// and whether the memory is known to be zero.
    pub fn take(&mut self, what: Unit) -> Option<(u64, bool)> {
        let count = match what {
            Unit::Span { bytes } => bytes.div_ceil(UNIT),
            _ => 1,
        };
        if self.free < count {
            return None;
        }
        let (mut first, mut run, mut all_clean) = (0, 0, true);
        for (i, unit) in self.units.iter().enumerate() {
            match unit {
                Unit::Free { clean, .. } => {
                    if run == 0 {
                        (first, all_clean) = (i, true);
                    }
                    run += 1;
                    all_clean &= clean;
                    if run == count {
                        break;
                    }
                }
                _ => run = 0,
            }
        }
        if run < count {
            return None;
        }
        self.units[first..first + count].fill(Unit::Tail);
        self.units[first] = what;
        self.free -= count;
        Some((self.address(first), all_clean))
    }

    /// Makes a block or span free. A large span is given back to the system at once.
    pub fn free(&mut self, unit: usize) {
        let count = match self.units[unit] {
            Unit::Span { bytes } => bytes.div_ceil(UNIT),
            Unit::Block { .. } => 1,
            Unit::Free { .. } | Unit::Tail => return,
        };
        let clean = count > KEPT_SPAN && self.discard(unit, count);
        self.units[unit..unit + count].fill(Unit::Free { clean, idle: 0 });
        self.free += count;
    }

    /// Gives units back that have been free for a while. Returns how many.
    pub fn give_back(&mut self) -> usize {
        let mut given = 0;
        let mut i = 0;
        while i < self.units.len() {
            let start = i;
            while i < self.units.len() {
                let Unit::Free { clean: false, idle } = &mut self.units[i] else { break };
                *idle += 1;
                if *idle < IDLE_COLLECTIONS {
                    break;
                }
                i += 1;
            }
            if i > start && self.discard(start, i - start) {
                self.units[start..i].fill(Unit::Free { clean: true, idle: 0 });
                given += i - start;
            }
            i += 1;
        }
        given
    }

    /// Tells the system that the content of units is not needed; they are zero then.
    fn discard(&self, unit: usize, count: usize) -> bool {
        let start = std::ptr::with_exposed_provenance_mut(self.base + unit * UNIT);
        // SAFETY: the units are free, so nothing in them is used; private anonymous memory reads as
        // zero afterwards.
        unsafe { libc::madvise(start, count * UNIT, libc::MADV_DONTNEED) == 0 }
    }

    /// Clears the mark bits of everything in use.
    pub fn clear_marks(&mut self) {
        for unit in FIRST_UNIT..self.units.len().min(UNITS) {
            let bytes = match self.units[unit] {
                Unit::Block { .. } => UNIT_BITMAP,
                Unit::Span { .. } => 8,
                Unit::Free { .. } | Unit::Tail => continue,
            };
            let (bitmap, _) = mark_bit(self.address(unit));
            // SAFETY: the bitmap of the unit, which only the collector writes, and it writes now.
            unsafe { object::zero(bitmap, bytes) };
        }
    }

    /// Whether the object at an address is marked.
    fn is_marked(address: u64) -> bool {
        let (word, bit) = mark_bit(address);
        // SAFETY: a bitmap word of a mapping that lives.
        unsafe { object::load(word) & bit != 0 }
    }

    /// How many cells of a block, or whether a span (0 or 1), are marked.
    pub fn marked(&self, unit: usize) -> usize {
        let address = self.address(unit);
        if !matches!(self.units[unit], Unit::Block { .. }) {
            return Arena::is_marked(address).into();
        }
        let (bitmap, _) = mark_bit(address);
        let words = (0..UNIT_BITMAP as u64).step_by(8);
        // SAFETY: the bitmap words of the unit.
        words.map(|i| unsafe { object::load(bitmap + i) }.count_ones() as usize).sum()
    }

    /// Calls `f` with every marked object of a block or span.
    pub fn for_each_marked(&self, unit: usize, mut f: impl FnMut(u64)) {
        let address = self.address(unit);
        if !matches!(self.units[unit], Unit::Block { .. }) {
            if Arena::is_marked(address) {
                f(address);
            }
            return;
        }
        let (bitmap, _) = mark_bit(address);
        for i in (0..UNIT_BITMAP as u64).step_by(8) {
            // SAFETY: a bitmap word of the unit.
            let mut bits = unsafe { object::load(bitmap + i) };
            while bits != 0 {
                f(address + i * 64 + 8 * bits.trailing_zeros() as u64);
                bits &= bits - 1;
            }
        }
    }

    /// Fills what is not marked in a block with poison.
    pub fn poison(&self, unit: usize) {
        let Unit::Block { class } = self.units[unit] else { return };
        let (cell, address) = (SIZES[class as usize], self.address(unit));
        let mut from = 0;
        while let Some((start, end)) = free_run(address, cell, from, UNIT) {
            // SAFETY: free cells, in which nothing is used.
            unsafe { object::fill(address + start as u64, (end - start) / 8, object::POISON) };
            from = end;
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        unmap(self.base, self.bytes);
    }
}

fn unmap(start: usize, bytes: usize) {
    if bytes > 0 {
        let start = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: a part of a mapping that this module made, and nothing uses any more.
        unsafe { libc::munmap(start, bytes) };
    }
}

/// The next run of free cells in a block: the cells whose mark bit is not set, beginning at `from`
/// (an offset), at most `most` bytes (or one cell). Offsets of begin and end.
pub fn free_run(block: u64, cell: usize, from: usize, most: usize) -> Option<(usize, usize)> {
    let end = UNIT / cell * cell;
    let (bitmap, _) = mark_bit(block);
    let marks = |offset: usize| {
        // SAFETY: a bitmap word of a block that the caller owns.
        unsafe { object::load(bitmap + (offset >> 9 << 3) as u64) >> (offset >> 3 & 63) }
    };
    let mut start = from;
    while start < end && marks(start) & 1 != 0 {
        start += cell;
    }
    if start >= end {
        return None;
    }
    let limit = end.min(start + (most / cell).max(1) * cell);
    let mut stop = start;
    while stop < limit {
        let bits = marks(stop);
        if bits != 0 {
            stop += 8 * bits.trailing_zeros() as usize;
            break;
        }
        stop = (stop | 511) + 1;
    }
    Some((start, stop.min(limit)))
}

/// Whether objects of so many bytes share an arena with others.
pub fn shares_arena(bytes: usize) -> bool {
    bytes <= SHARED_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(address: u64) {
        let (word, bit) = mark_bit(address);
        // SAFETY: a bitmap word of an arena that the test owns.
        unsafe { object::store(word, object::load(word) | bit) };
    }

    #[test]
    fn runs_are_the_gaps_between_marked_cells() {
        let mut arena = Arena::new(0).unwrap();
        let (block, clean) = arena.take(Unit::Block { class: 2 }).unwrap();
        assert!(clean);
        assert_eq!(free_run(block, 32, 0, 4096), Some((0, 4096)));
        assert_eq!(free_run(block, 32, 0, 1), Some((0, 32)));
        for cell in [0, 1, 5, 100, 2047] {
            mark(block + 32 * cell);
        }
        let unit = arena.unit_at(block).unwrap();
        assert_eq!(arena.marked(unit), 5);
        assert_eq!(free_run(block, 32, 0, 4096), Some((64, 160)));
        assert_eq!(free_run(block, 32, 160, 4096), Some((192, 3200)));
        assert_eq!(free_run(block, 32, 3200, UNIT), Some((3232, 2047 * 32)));
        assert_eq!(free_run(block, 32, 2047 * 32, UNIT), None);
        let mut seen = Vec::new();
        arena.for_each_marked(unit, |address| seen.push((address - block) / 32));
        assert_eq!(seen, [0, 1, 5, 100, 2047]);
        arena.clear_marks();
        assert_eq!(arena.marked(unit), 0);
    }

    #[test]
    fn poison_fills_all_cells_but_the_marked_ones() {
        let mut arena = Arena::new(0).unwrap();
        // 64 KiB are not a multiple of the cell: what is left behind the last one is no cell's.
        let class = SIZES.iter().position(|&size| !UNIT.is_multiple_of(size)).unwrap();
        let (block, _) = arena.take(Unit::Block { class: class as u8 }).unwrap();
        let cell = SIZES[class];
        let live = [0, 1, 5, 100, UNIT / cell - 1];
        live.iter().for_each(|i| mark(block + (i * cell) as u64));
        arena.poison(arena.unit_at(block).unwrap());
        for i in 0..UNIT / cell {
            let expected = if live.contains(&i) { 0 } else { object::POISON };
            for offset in (i * cell..(i + 1) * cell).step_by(8) {
                // SAFETY: a word of the block.
                assert_eq!(unsafe { object::load(block + offset as u64) }, expected, "cell {i}");
            }
        }
        for offset in (UNIT / cell * cell..UNIT).step_by(8) {
            // SAFETY: as above.
            assert_eq!(unsafe { object::load(block + offset as u64) }, 0);
        }
    }

    #[test]
    fn freed_spans_join_and_are_zero() {
        let mut arena = Arena::new(0).unwrap();
        let (a, _) = arena.take(Unit::Span { bytes: 30 * UNIT }).unwrap();
        let (b, _) = arena.take(Unit::Span { bytes: 20 * UNIT + 1 }).unwrap();
        assert_eq!(b - a, 30 * UNIT as u64);
        // SAFETY: the first word of the span.
        unsafe { object::store(a, 7) };
        arena.free(arena.unit_at(a).unwrap());
        arena.free(arena.unit_at(b).unwrap());
        assert!(arena.is_empty());
        let (c, clean) = arena.take(Unit::Span { bytes: 51 * UNIT }).unwrap();
        assert!(clean && c == a);
        // SAFETY: as above.
        assert_eq!(unsafe { object::load(c) }, 0);
    }

    #[test]
    fn a_block_that_stays_free_goes_back_to_the_system() {
        let mut arena = Arena::new(0).unwrap();
        let (block, _) = arena.take(Unit::Block { class: 0 }).unwrap();
        arena.free(arena.unit_at(block).unwrap());
        assert_eq!(arena.take(Unit::Block { class: 0 }), Some((block, false)));
        arena.free(arena.unit_at(block).unwrap());
        assert_eq!((arena.give_back(), arena.give_back()), (0, 1));
        assert_eq!(arena.take(Unit::Block { class: 0 }), Some((block, true)));
    }

    #[test]
    fn an_object_larger_than_an_arena_has_a_mapping_of_its_own() {
        let bytes = 3 * ARENA;
        assert!(!shares_arena(bytes));
        let mut arena = Arena::new(bytes).unwrap();
        let (address, _) = arena.take(Unit::Span { bytes }).unwrap();
        // SAFETY: the last word of the span.
        unsafe { object::store(address + bytes as u64 - 8, 1) };
        mark(address);
        assert_eq!(arena.marked(arena.unit_at(address).unwrap()), 1);
        assert!(Arena::new(usize::MAX - 4096).is_err());
    }
}
