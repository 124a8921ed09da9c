//! A barrier, with std's names.
//!
//! The last of a group to arrive lets the others go, by marking their records under the inner lock;
//! whoever is marked has passed, even if its time was up in the same moment. Whoever leaves without
//! a mark takes its arrival back. So a group that passes has as many members as it should, always.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::time::Duration;

use super::spin::Spin;
use super::waiters::{self, Record, Waiters};
use crate::sched::cancel::check_cancelled;
use crate::sched::clock::Instant;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};

static KIND: ResourceKind = ResourceKind::without_holder("at a barrier");

/// See [`std::sync::Barrier`]; this one blocks the fiber only.
///
/// ```
/// use pirn::sync::Barrier;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let barrier = Barrier::new(3);
///     let leaders = thread::scope(|s| {
///         let all = [(); 3].map(|()| s.spawn(|| barrier.wait().is_leader()));
///         all.map(|one| one.join().unwrap()).into_iter().filter(|&is_leader| is_leader).count()
///     });
///     assert_eq!(leaders, 1);
/// });
/// ```
///
/// The leader is the last to arrive; it does not wait, and the others go on in the order in which
/// they came. A barrier for a group of 0 is one for a group of 1, as in std: nobody waits.
pub struct Barrier {
    resource: Resource,
    size: usize,
    state: Spin<State>,
}

impl UnwindSafe for Barrier {}
impl RefUnwindSafe for Barrier {}

struct State {
    /// How many of the present group wait.
    arrived: usize,
    /// A record that has passed holds a value.
    queue: Waiters<()>,
}

/// Says who of a group was the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// True for exactly one of each group.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    /// A barrier for groups of this size.
    pub const fn new(size: usize) -> Barrier {
        let state = State { arrived: 0, queue: Waiters::new() };
        Barrier { resource: Resource::new(&KIND), size, state: Spin::new(state) }
    }

    /// Waits until the group is complete.
    ///
    /// # Panics
    ///
    /// In a destructor while the caller is cancelled or its runtime ends, if it would have to wait.
    pub fn wait(&self) -> BarrierWaitResult {
        let passed = self.wait_deadline(Instant::FAR_FUTURE);
        passed.unwrap_or_else(|| super::called_off("the others at a barrier"))
    }

    /// Waits until the group is complete, at most for this long. `None`: the time was up, and the
    /// caller does not count as having arrived.
    pub fn wait_timeout(&self, duration: Duration) -> Option<BarrierWaitResult> {
        self.wait_deadline(Instant::now() + duration)
    }

    /// Waits until the group is complete, at most until this instant. `None`: the time was up, and
    /// the caller does not count as having arrived.
    pub fn wait_deadline(&self, deadline: Instant) -> Option<BarrierWaitResult> {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        if state.arrived + 1 >= self.size {
            state.arrived = 0;
            state.queue.notify_all(|record| record.value.set(Some(())), &mut wakes);
            return Some(BarrierWaitResult(true));
        }
        state.arrived += 1;
        let record = pin!(Record::begin(None, 0));
        state.queue.push(record.as_ref());
        drop(state);
        let outcome = waiters::wait(record.as_ref(), &self.resource, deadline, |unlink| {
            let mut state = self.state.lock();
            unlink(&mut state.queue);
            let passed = record.value.take();
            if passed.is_none() {
                state.arrived -= 1;
            }
            record.value.set(passed);
        });
        check_cancelled(outcome);
        record.value.take().map(|()| BarrierWaitResult(false))
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}
