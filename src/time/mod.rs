//! Time: instants of the monotonic clock, sleeping, timers.

mod timer;

pub use std::time::Duration;

pub use crate::sched::clock::Instant;
pub use crate::thread::{sleep, sleep_until};
pub use timer::{Interval, Timer, interval};
