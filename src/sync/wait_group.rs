//! A count of what is still to be done, to wait for.
//!
//! The count and the queue are under the inner lock. Whoever waits when the count falls to zero is
//! let go then, whatever is added afterwards.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::clock::Instant;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};

static KIND: ResourceKind = ResourceKind::without_holder("for a wait group to be done");

/// Waits until everything that was added is done; in the manner of Go's `sync.WaitGroup`.
///
/// It is a handle: clones stand for the same group, and making or dropping one changes no count.
/// What counts is [`add`](Self::add)ed and [`done`](Self::done) by hand, or is a
/// [guard](Self::guard) that is done when it is dropped, also by a panic.
///
/// ```
/// use pirn::sync::WaitGroup;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let group = WaitGroup::new();
///     for _ in 0..3 {
///         let working = group.guard();
///         thread::spawn(move || {
///             thread::yield_now();
///             drop(working);
///         });
///     }
///     group.wait();
///     assert_eq!(group.count(), 0);
/// });
/// ```
///
/// A group can be used again when it is done, and more may be added at any time. Whoever waits when
/// the count falls to zero goes on, even if more is added before its turn comes; with a count of
/// zero nobody waits.
#[derive(Clone)]
pub struct WaitGroup {
    shared: Arc<Shared>,
}

impl UnwindSafe for WaitGroup {}
impl RefUnwindSafe for WaitGroup {}

struct Shared {
    resource: Resource,
    state: Spin<State>,
}

struct State {
    count: usize,
    queue: Waiters<()>,
}

impl WaitGroup {
    /// A group with a count of zero.
    pub fn new() -> WaitGroup {
        let state = Spin::new(State { count: 0, queue: Waiters::new() });
        WaitGroup { shared: Arc::new(Shared { resource: Resource::new(&KIND), state }) }
    }

    /// Adds to the count. Call it before what it stands for is handed to somebody else, not there.
    ///
    /// # Panics
    ///
    /// When the count would overflow.
    pub fn add(&self, count: usize) {
        let mut state = self.shared.state.lock();
        let sum = state.count.checked_add(count);
        if let Some(sum) = sum {
            state.count = sum;
        }
        drop(state);
        assert!(sum.is_some(), "the count of a wait group overflows");
    }

    /// Takes one from the count. At zero, everybody who waits goes on.
    ///
    /// # Panics
    ///
    /// When the count is zero.
    pub fn done(&self) {
        let mut wakes = Wakes::new();
        let mut state = self.shared.state.lock();
        let rest = state.count.checked_sub(1);
        if let Some(rest) = rest {
            state.count = rest;
            if rest == 0 {
                state.queue.notify_all(|_| {}, &mut wakes);
            }
        }
        drop(state);
        assert!(rest.is_some(), "a wait group was done more often than it was added to");
    }

    /// Adds one to the count for as long as the guard lives.
    pub fn guard(&self) -> WaitGroupGuard {
        self.add(1);
        WaitGroupGuard { group: self.clone() }
    }

    /// The present count.
    pub fn count(&self) -> usize {
        self.shared.state.lock().count
    }

    /// Waits until the count is zero.
    ///
    /// # Panics
    ///
    /// In a destructor while the caller is cancelled or its runtime ends, if it would have to wait.
    pub fn wait(&self) {
        if !self.wait_deadline(Instant::FAR_FUTURE) {
            super::called_off("a wait group");
        }
    }

    /// Waits until the count is zero, at most for this long. False: the time was up.
    pub fn wait_timeout(&self, duration: Duration) -> bool {
        self.wait_deadline(Instant::now() + duration)
    }

    /// Waits until the count is zero, at most until this instant. False: the time was up.
    pub fn wait_deadline(&self, deadline: Instant) -> bool {
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        if state.count == 0 {
            return true;
        }
        let record = pin!(Record::begin(None, 0));
        state.queue.push(record.as_ref());
        drop(state);
        let outcome = waiters::wait(record.as_ref(), &shared.resource, deadline, |unlink| {
            unlink(&mut shared.state.lock().queue);
        });
        check_cancelled(outcome);
        outcome == Outcome::Notified
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup").field("count", &self.count()).finish()
    }
}

/// Counts as one in a [`WaitGroup`] until it is dropped.
#[derive(Debug)]
#[must_use = "if unused it is done at once"]
pub struct WaitGroupGuard {
    group: WaitGroup,
}

impl Drop for WaitGroupGuard {
    fn drop(&mut self) {
        self.group.done();
    }
}
