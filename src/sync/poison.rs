//! The flag by which a lock remembers that a holder panicked.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sched::carrier::is_ending;

/// Set while a guard is dropped by a panic. Relaxed throughout: the lock orders it.
#[derive(Debug, Default)]
pub(super) struct Poison(AtomicBool);

impl Poison {
    pub(super) const fn new() -> Self {
        Poison(AtomicBool::new(false))
    }

    #[inline]
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A guard was dropped by a panic. An unwind that ends a fiber with its runtime does not count.
    #[cold]
    pub(super) fn set(&self) {
        if !is_ending() {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
