//! Time: the monotonic clock in nanoseconds, and deadlines that cannot overflow.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use super::carrier::Carrier;

/// A point on the runtime's clock; pirn's counterpart of [`std::time::Instant`].
///
/// It counts nanoseconds of `CLOCK_MONOTONIC`: setting the wall clock does not move it, and it
/// stands still while the machine is suspended. Sums saturate: an instant beyond the year 2500 is
/// *the far future*, and a wait until then is a wait without a deadline.
///
/// ```
/// use pirn::time::{Duration, Instant};
///
/// let start = Instant::now();
/// assert!(start + Duration::from_millis(5) > start);
/// assert_eq!(start + Duration::MAX, Instant::FAR_FUTURE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than every other instant; waiting until then is waiting for ever.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The present: of the clock of the calling fiber's runtime, which may be
    /// [virtual](crate::Builder::virtual_time).
    pub fn now() -> Instant {
        match Carrier::current() {
            Some(carrier) => carrier.now(),
            None => monotonic(),
        }
    }

    /// The time since this instant; zero if it lies in the future.
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    ///
    /// Like std's, this does not panic.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time from `earlier` to this instant; `None` if `earlier` is later.
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration::from_nanos)
    }

    /// This instant and a duration; `None` beyond the range of the clock.
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).filter(|&sum| sum != u64::MAX).map(Instant)
    }

    /// This instant less a duration; `None` before the start of the clock.
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_sub(nanos).map(Instant)
    }

    /// Whether this is [the far future](Self::FAR_FUTURE): no deadline at all.
    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn is_far_future(self) -> bool {
        self == Instant::FAR_FUTURE
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_far_future() {
            f.write_str("Instant(far future)")
        } else {
            write!(f, "Instant({}.{:09})", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::FAR_FUTURE`].
    fn add(self, duration: Duration) -> Instant {
        self.checked_add(duration).unwrap_or(Instant::FAR_FUTURE)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// Saturates at the start of the clock.
    fn sub(self, duration: Duration) -> Instant {
        self.checked_sub(duration).unwrap_or(Instant(0))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// The monotonic clock.
#[inline]
pub(crate) fn monotonic() -> Instant {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Instant(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// A duration for the kernel; cut to what it can hold.
pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: duration.subsec_nanos() as _,
    }
}
