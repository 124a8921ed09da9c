//! Time: instants of the monotonic clock, sleeping, timers.

mod timer;

pub use crate::sched::Elapsed;
pub use std::time::Duration;

pub use crate::sched::clock::Instant;
pub use crate::thread::{sleep, sleep_until};
pub use timer::{Interval, Timer, interval};

/// Runs `f`; its waits are called off when this much time has passed.
///
/// The time passes while `f` waits, not while it computes: a wait that begins too late is called off
/// at once. A wait that is called off unwinds `f`, so that destructors run; a
/// [`shield`](crate::thread::shield) keeps clean-up from being called off. Limits nest, and the
/// nearest deadline counts. What `f` returns by itself, even too late, is its value.
///
/// ```
/// use pirn::time::{self, Duration};
/// use pirn::thread;
///
/// pirn::run(|| {
///     assert!(time::timeout(Duration::from_millis(1), thread::park).is_err());
///     assert_eq!(time::timeout(Duration::from_secs(3600), || 7), Ok(7));
/// });
/// ```
///
/// # Errors
///
/// [`Elapsed`] when a wait in `f` was called off.
///
/// # Panics
///
/// With the payload of `f`, and outside a fiber.
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    timeout_at(Instant::now() + duration, f)
}

/// Like [`timeout`], with the instant at which waits are called off.
///
/// # Errors
///
/// [`Elapsed`] when a wait in `f` was called off.
///
/// # Panics
///
/// With the payload of `f`, and outside a fiber.
pub fn timeout_at<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    crate::sched::cancel::with_limit(deadline, f)
}
