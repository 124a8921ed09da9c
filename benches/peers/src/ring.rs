//! The clock of the yield workloads, shared by all tasks of a ring.
//!
//! Creating and ending 100,000 tasks costs more than a few rounds of yields, and schedulers
//! interleave tasks differently, so the timed stretch is defined by what the tasks have done and
//! not by who runs when: it begins when the last task has arrived and ends when the last task has
//! done all its yields. A task then yields once more before it returns, which keeps the ends of
//! tasks out of the stretch: the half yields that are missing at its beginning (tasks that
//! arrived earlier had already left their stacks) are the ones it contains too many at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::measure::Sample;

/// Counts arrivals and finishes of a ring's tasks and notes the times of the last ones.
///
/// All tasks run on one thread; the counters are atomic only because most spawn functions want
/// `Send` closures. They are touched twice a task, never in the loop.
pub struct Ring {
    tasks: u64,
    yields_each: u64,
    epoch: Instant,
    arrived: AtomicU64,
    finished: AtomicU64,
    started_at: AtomicU64,
    ended_at: AtomicU64,
}

impl Ring {
    /// A ring of `tasks` tasks that together do at least `operations` yields.
    pub fn new(tasks: u64, operations: u64) -> Arc<Self> {
        Arc::new(Ring {
            tasks,
            yields_each: operations.div_ceil(tasks),
            epoch: Instant::now(),
            arrived: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            started_at: AtomicU64::new(0),
            ended_at: AtomicU64::new(0),
        })
    }

    /// Called by a task before its first yield; returns how many yields it has to do.
    pub fn arrive(&self) -> u64 {
        self.note(&self.arrived, &self.started_at);
        self.yields_each
    }

    /// Called by a task after its last yield that counts. It then yields once more.
    pub fn finish(&self) {
        self.note(&self.finished, &self.ended_at);
    }

    fn note(&self, counter: &AtomicU64, at: &AtomicU64) {
        // Relaxed: whoever reads the times has joined the tasks.
        if counter.fetch_add(1, Ordering::Relaxed) + 1 == self.tasks {
            at.store(self.epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// The timed stretch. All tasks must have been joined.
    pub fn sample(&self) -> Sample {
        assert_eq!(self.finished.load(Ordering::Relaxed), self.tasks);
        let start = self.started_at.load(Ordering::Relaxed);
        let end = self.ended_at.load(Ordering::Relaxed);
        Sample {
            operations: self.tasks * self.yields_each,
            elapsed: Duration::from_nanos(end - start),
        }
    }
}
