//! Time: instants of the monotonic clock, and sleeping.

pub use std::time::Duration;

pub use crate::sched::clock::Instant;
pub use crate::thread::{sleep, sleep_until};
