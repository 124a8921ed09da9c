//! Small blocks of memory that a carrier keeps at hand.
//!
//! Records of tasks and of oneshot channels come and go with every request that a server answers, and
//! the allocator's part is a third of what they cost: it knows neither the size, nor that its caller
//! is alone on its thread. A carrier keeps what it frees, up to some [bytes](KEPT) a size, and takes from
//! there first: last in, first out, so a block is still in the cache. Everything else is the
//! allocator's: what is larger, threads that are no carriers, and what lies idle when a carrier ends.
//!
//! A block may be freed on another thread than the one that allocated it.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::carrier::Carrier;

/// Sizes are multiples of this.
const UNIT: usize = 64;

/// The strictest alignment that is kept: the allocator gives it without being asked.
const ALIGN: usize = 16;

/// How many sizes are kept.
const SIZES: usize = 8;

/// The most bytes of one size that a carrier keeps.
const KEPT: usize = 32 << 10;

/// A block that is free.
struct Free {
    next: *mut Free,
}

/// Free blocks of one size.
struct Stock {
    first: Cell<*mut Free>,
    /// How many more it may take.
    room: Cell<usize>,
}

/// The blocks of a carrier.
pub(super) struct Blocks {
    stocks: [Stock; SIZES],
}

/// Which of the sizes that is; `None` if it is not kept.
///
/// The sanitizers and the allocator see each block come and go, where they watch.
const fn size_of(layout: Layout) -> Option<usize> {
    let watched = cfg!(any(pirn_asan, pirn_tsan));
    let fits = layout.size() > 0 && layout.size() <= SIZES * UNIT && layout.align() <= ALIGN;
    if fits && !watched { Some((layout.size() - 1) / UNIT) } else { None }
}

/// What the allocator is asked for in place of a layout of that size.
const fn whole(size: usize) -> Layout {
    match Layout::from_size_align((size + 1) * UNIT, ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a few units are no excess"),
    }
}

impl Blocks {
    pub(super) const fn new() -> Self {
        let mut stocks =
            [const { Stock { first: Cell::new(ptr::null_mut()), room: Cell::new(0) } }; SIZES];
        let mut size = 0;
        while size < SIZES {
            stocks[size].room = Cell::new(KEPT / whole(size).size());
            size += 1;
        }
        Blocks { stocks }
    }

    #[inline(always)]
    fn take(&self, size: usize) -> Option<NonNull<u8>> {
        let stock = &self.stocks[size];
        let first = NonNull::new(stock.first.get())?;
        // SAFETY: what is in the list is free, and ours.
        stock.first.set(unsafe { first.as_ref() }.next);
        stock.room.set(stock.room.get() + 1);
        Some(first.cast())
    }

    /// False: there is enough.
    #[inline(always)]
    fn keep(&self, size: usize, block: NonNull<u8>) -> bool {
        let stock = &self.stocks[size];
        let Some(room) = stock.room.get().checked_sub(1) else { return false };
        let free = block.cast::<Free>();
        // SAFETY: the caller's no more, and large enough.
        unsafe { free.write(Free { next: stock.first.get() }) };
        stock.first.set(free.as_ptr());
        stock.room.set(room);
        true
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for size in 0..SIZES {
            while let Some(block) = self.take(size) {
                // SAFETY: it came from the allocator, with this layout.
                unsafe { alloc::dealloc(block.as_ptr(), whole(size)) };
            }
        }
    }
}

/// Memory for this layout, which must have a size.
#[inline(always)]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    let Some(size) = size_of(layout) else { return ask_for(layout) };
    let at_hand = Carrier::current().and_then(|carrier| carrier.blocks.take(size));
    at_hand.unwrap_or_else(|| ask_for(whole(size)))
}

/// Gives back what [`allocate`] has returned for this layout, on whatever thread.
///
/// # Safety
///
/// Once; nobody uses it any more.
#[inline(always)]
pub(crate) unsafe fn release(block: NonNull<u8>, layout: Layout) {
    let size = size_of(layout);
    if let Some(size) = size
        && let Some(carrier) = Carrier::current()
        && carrier.blocks.keep(size, block)
    {
        return;
    }
    // SAFETY: it came from the allocator, with this layout.
    unsafe { give_back(block, size.map_or(layout, whole)) };
}

#[inline(never)]
fn ask_for(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0);
    // SAFETY: it has a size.
    let block = unsafe { alloc::alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

/// # Safety
///
/// As for [`alloc::dealloc`].
#[inline(never)]
unsafe fn give_back(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the contract.
    unsafe { alloc::dealloc(block.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_units_up_to_the_largest() {
        let size = |bytes, align| size_of(Layout::from_size_align(bytes, align).unwrap());
        assert_eq!(
            [size(1, 1), size(64, 8), size(65, 8), size(512, 16)].map(|size| size.is_some()),
            {
                let kept = !cfg!(any(pirn_asan, pirn_tsan));
                [kept; 4]
            }
        );
        assert_eq!([size(513, 8), size(64, 32), size(0, 1)], [None; 3]);
        assert_eq!(whole(0).size(), 64);
        assert_eq!(whole(SIZES - 1).size(), 512);
    }

    #[test]
    fn what_was_kept_last_is_taken_first_and_no_more_is_kept_than_there_is_room() {
        let blocks = Blocks::new();
        let size = 3;
        let room = KEPT / whole(size).size();
        let all: Vec<_> = (0..=room).map(|_| ask_for(whole(size))).collect();
        assert!(blocks.take(size).is_none());
        let kept: Vec<_> = all.iter().filter(|&&block| blocks.keep(size, block)).collect();
        assert_eq!(kept.len(), room);
        assert_eq!(blocks.take(size), Some(all[room - 1]));
        assert!(blocks.keep(size, all[room - 1]));
        // SAFETY: the one that was not kept; the others go with `blocks`.
        unsafe { give_back(all[room], whole(size)) };
    }

    #[test]
    fn a_block_is_had_again_on_its_carrier_and_may_be_freed_elsewhere() {
        let layout = Layout::new::<[u64; 20]>();
        let again = |block| {
            // SAFETY: from `allocate`, and not used.
            unsafe { release(block, layout) };
            allocate(layout)
        };
        crate::run(move || {
            let first = allocate(layout);
            let block = again(first);
            assert!(block == first || size_of(layout).is_none());
            let address = block.as_ptr().expose_provenance();
            let elsewhere = std::thread::spawn(move || {
                let block = NonNull::new(ptr::with_exposed_provenance_mut(address)).unwrap();
                // SAFETY: as above; the carrier has forgotten it.
                unsafe { release(block, layout) };
            });
            elsewhere.join().unwrap();
        });
    }
}
