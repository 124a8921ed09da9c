//! What a carrier counts of its own doings, for whoever wants to watch it.
//!
//! Each count has one writer, the carrier or its watchdog, which writes with plain loads and stores,
//! and only where it is slow anyway: around a sleep in the kernel, when a timer expires, to report. A
//! switch counts nothing here.

use std::sync::atomic::{AtomicU64, Ordering};

use super::carrier::Carrier;
use super::deadlock::ask_others;
use super::mailbox::Slept;

/// What a runtime has done so far, as it counts it itself: unlike processor time and the kernel's
/// figures, these do not depend on what else the machine is busy with.
///
/// Of the calling fiber's runtime from [`pirn::stats`](stats), of any other one from
/// [`Handle::stats`](crate::Handle::stats). All counts only grow.
///
/// ```
/// use pirn::thread;
/// use std::time::Duration;
///
/// pirn::run(|| {
///     thread::spawn(|| thread::sleep(Duration::from_millis(1))).join().unwrap();
///     let stats = pirn::stats().unwrap();
///     assert_eq!((stats.spawned, stats.timers_fired), (2, 1));
///     assert!(stats.kernel_wait_timeouts <= stats.kernel_waits);
/// });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Fibers spawned, the main one included, even if it has yet to begin.
    pub spawned: u64,
    /// How often the carrier has slept in the kernel, since no fiber could run.
    pub kernel_waits: u64,
    /// How many of those sleeps ended by their time limit: a timer was due, or half a second had
    /// passed in which another thread might have brought something and did not. All others were
    /// ended by such a thread, or by a signal.
    pub kernel_wait_timeouts: u64,
    /// Timers that expired while a fiber waited: ends of sleeps, and of waits with a time limit. Not
    /// those of waits that ended in time.
    pub timers_fired: u64,
    /// Stretches in which a fiber sat on the carrier for longer than the
    /// [watchdog](crate::Builder::watchdog) allows, and was reported.
    pub stalls: u64,
}

impl Stats {
    /// Those of a further carrier.
    pub(super) fn add(&mut self, other: &Stats) {
        self.spawned += other.spawned;
        self.kernel_waits += other.kernel_waits;
        self.kernel_wait_timeouts += other.kernel_wait_timeouts;
        self.timers_fired += other.timers_fired;
        self.stalls += other.stalls;
    }
}

/// The counts of one carrier.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    kernel_waits: AtomicU64,
    kernel_wait_timeouts: AtomicU64,
    timers_fired: AtomicU64,
    stalls: AtomicU64,
}

impl Counters {
    /// The carrier, which calls this, has slept.
    pub(super) fn count_sleep(&self, slept: Slept) {
        if slept != Slept::NotAtAll {
            increment(&self.kernel_waits);
        }
        if slept == Slept::UntilTheLimit {
            increment(&self.kernel_wait_timeouts);
        }
    }

    /// The carrier, which calls this, has found a timer due.
    pub(super) fn count_timer(&self) {
        increment(&self.timers_fired);
    }

    /// The watchdog, which calls this, has reported a stretch.
    pub(super) fn count_stall(&self) {
        increment(&self.stalls);
    }

    /// The counts, for any thread.
    pub(super) fn read(&self, spawned: u64) -> Stats {
        // Acquire: pairs with the release in `increment`, so that what is counted later is not seen
        // without what was counted before: a time-out only together with its sleep.
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        let kernel_wait_timeouts = read(&self.kernel_wait_timeouts);
        Stats {
            spawned,
            kernel_waits: read(&self.kernel_waits),
            kernel_wait_timeouts,
            timers_fired: read(&self.timers_fired),
            stalls: read(&self.stalls),
        }
    }
}

fn increment(count: &AtomicU64) {
    // Relaxed: each count has one writer.
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// What a runtime has under way at the moment: what its tasks have begun and not ended.
///
/// With nothing but the main fiber left that is one task, and otherwise nothing. What remains where
/// it should not has been leaked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outstanding {
    /// Fibers and tasks without a stack that have not ended, the asking one included. Those that no
    /// carrier has taken yet are left out.
    pub tasks: usize,
    /// Those of them that wait for something.
    pub waits: usize,
    /// Entries in the heaps of deadlines.
    pub timers: usize,
    /// Descriptors that a carrier watches; one that several watch counts for each.
    pub descriptors: usize,
}

impl Outstanding {
    fn of(carrier: &Carrier) -> Outstanding {
        let mut own = carrier.outstanding();
        // Not whoever asks on behalf of another carrier.
        own.tasks -= usize::from(carrier.current_fiber().is_none());
        own
    }

    fn add(self, other: Outstanding) -> Outstanding {
        Outstanding {
            tasks: self.tasks + other.tasks,
            waits: self.waits + other.waits,
            timers: self.timers + other.timers,
            descriptors: self.descriptors + other.descriptors,
        }
    }
}

/// What the calling fiber's runtime has under way; `None` elsewhere than on a fiber.
///
/// With [several carriers](crate::Builder::carriers) each is asked in turn, and what they answer need
/// not be true at the same time.
///
/// ```
/// use pirn::thread;
///
/// pirn::run(|| {
///     let sleeper = thread::spawn_local(|| thread::sleep(std::time::Duration::MAX));
///     thread::yield_now();
///     assert_eq!(pirn::outstanding().unwrap().waits, 1);
///     sleeper.cancel();
///     let _ = sleeper.join();
///     let left = pirn::outstanding().unwrap();
///     assert_eq!((left.tasks, left.waits, left.timers), (1, 0, 0));
/// });
/// ```
pub fn outstanding() -> Option<Outstanding> {
    let carrier = Carrier::current().filter(|carrier| carrier.current_fiber().is_some())?;
    let here = || Carrier::current().map(Outstanding::of).unwrap_or_default();
    let others = ask_others(carrier, here);
    Some(others.into_iter().fold(Outstanding::of(carrier), Outstanding::add))
}

/// What the calling fiber's runtime has done so far; `None` outside a runtime.
///
/// Another thread asks by way of a [`Handle`](crate::Handle::stats).
pub fn stats() -> Option<Stats> {
    Carrier::current().map(|carrier| carrier.shared.stats())
}
