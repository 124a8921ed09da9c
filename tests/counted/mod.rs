//! Values whose destructors tests watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts those of its kind that are alive.
pub struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub fn new(alive: &Arc<AtomicUsize>) -> Counted {
        alive.fetch_add(1, Ordering::SeqCst);
        Counted(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
