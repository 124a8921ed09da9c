//! The atomics and the lock of the file that a model checker runs as well, with its own in their place.

pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

/// Stands between a sequentially consistent write and a sequentially consistent read of something
/// else. The accesses order themselves; the model checker, which takes them for release and acquire
/// only, has a fence here.
#[inline(always)]
pub(super) fn settle() {}
