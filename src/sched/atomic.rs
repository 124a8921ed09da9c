//! The atomics of the files that a model checker runs as well, with its own in their place, and how
//! those wait that find a lock taken.

use std::hint;
use std::thread;

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

/// Stands between a sequentially consistent write and a sequentially consistent read of something
/// else. The accesses order themselves; the model checker, which takes them for release and acquire
/// only, has a fence here.
#[inline(always)]
pub(super) fn settle() {}

/// Spins before the first yield.
const SPINS: u32 = 64;

/// Lets time pass for the holder of a lock: a little at first, then more.
pub(crate) fn back_off(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS { hint::spin_loop() } else { thread::yield_now() }
}

/// A `const fn`; but not where a model checker takes part, whose atomics are made at run time.
macro_rules! const_unless_modelled {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        $(#[$attribute])* $visibility const fn $($rest)*
    };
}
pub(crate) use const_unless_modelled;
