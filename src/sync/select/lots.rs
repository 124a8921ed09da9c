//! Drawing lots: which arm of a select is tried first.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, 2014), which is a counter and a mixing
//! function. Each OS thread has its own, and begins anew, from the runtime's
//! [seed](crate::Builder::seed), with each runtime that it runs: the same program draws the same lots
//! each time.

use std::cell::Cell;

use crate::sched::carrier::{Carrier, current_party};

thread_local! {
    /// The runtime that lots are drawn for, and the counter.
    static COUNTER: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The lots of one select.
pub(super) struct Lots(u64);

impl Lots {
    /// Without a need for lots, all are 0.
    #[inline]
    pub(super) fn draw_if(needed: bool) -> Self {
        Lots(if needed { draw() } else { 0 })
    }

    /// One of so many. Up to a dozen or so draws are as good as independent.
    #[inline]
    pub(super) fn below(&mut self, count: usize) -> usize {
        // The upper half of the product is the lot, the lower half goes on as the next fraction.
        let product = u128::from(self.0) * count as u128;
        self.0 = product as u64;
        (product >> 64) as usize
    }
}

fn draw() -> u64 {
    let id = current_party().id;
    let runtime = id.to_bits() - id.number();
    let (of, count) = COUNTER.get();
    let begin = || Carrier::current().map_or(0, Carrier::seed);
    let count = if of == runtime { count } else { begin() }.wrapping_add(0x9E37_79B9_7F4A_7C15);
    COUNTER.set((runtime, count));
    let mixed = (count ^ (count >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
