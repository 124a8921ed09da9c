//! The order of events in the promise workload, the same for all libraries.
//!
//! Nine tasks want one promise after the other. The first eight that come for a promise find it
//! unsettled and wait; the ninth settles it, and is the first that comes for the next one, where it
//! waits. So eight always wait, no task has to be created or told to go on, and nobody yields:
//! a yield is another workload, and not as cheap everywhere as here.
//!
//! The value of a promise is the future of the next one, so that each task finds its way alone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Those who wait, and the one who settles.
pub const RUNNERS: u64 = 9;

/// Tells which task settles, and keeps for it the promise that is to be settled next.
pub struct Relay<P> {
    arrivals: AtomicU64,
    next: Mutex<Option<P>>,
}

impl<P> Relay<P> {
    /// Begins with this promise.
    pub fn new(first: P) -> Self {
        Relay { arrivals: AtomicU64::new(0), next: Mutex::new(Some(first)) }
    }

    /// Called by a task that comes for a promise. The ninth gets it, to settle it, and leaves the
    /// one that `make` makes; what else `make` returns is the value to settle it with.
    pub fn arrive<F>(&self, make: impl FnOnce() -> (P, F)) -> Option<(P, F)> {
        // Relaxed: only a count, and all tasks run on one thread.
        if !(self.arrivals.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(RUNNERS) {
            return None;
        }
        let (following, future) = make();
        let promise = self.next.lock().expect("nobody panics").replace(following);
        Some((promise.expect("there is always one"), future))
    }
}
