//! The atomics of the files that a model checker runs as well, with its own in their place.

pub(super) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Stands between a sequentially consistent write and a sequentially consistent read of something
/// else. The accesses order themselves; the model checker, which takes them for release and acquire
/// only, has a fence here.
#[inline(always)]
pub(super) fn settle() {}
