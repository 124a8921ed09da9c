//! What a carrier does with its [reactor](super::super::reactor).

use std::io;

use super::*;

impl Carrier {
    #[allow(clippy::mut_from_ref, reason = "one expression at a time, on one thread")]
    #[inline]
    pub(super) fn watch(&self) -> Option<&mut Watch> {
        // SAFETY: as for the queue.
        unsafe { (*self.watch.get()).as_mut() }
    }

    /// The reactor, if a task has had to wait for a descriptor.
    #[inline]
    pub(in crate::sched) fn reactor_if_made(&self) -> Option<*const Reactor> {
        self.watch().map(|watch| Arc::as_ptr(&watch.reactor))
    }

    /// The reactor, which is made when it is first asked for.
    pub(in crate::sched) fn reactor(&self) -> io::Result<&Arc<Reactor>> {
        if self.watch().is_none() {
            let bell = self.mailbox.bell()?;
            let watch = Watch::new(bell)?;
            // SAFETY: there was none, so nobody refers to it.
            unsafe { *self.watch.get() = Some(watch) };
            self.mailbox.use_bell(bell);
            self.queue().expect_cold();
        }
        Ok(&self.watch().expect("made if it was missing").reactor)
    }

    /// Whether any descriptor is registered.
    pub(super) fn watches(&self) -> bool {
        self.watch().is_some_and(|watch| watch.reactor.is_used())
    }

    /// Makes those runnable whose descriptors are ready now.
    pub(super) fn poll_descriptors(&self) {
        if self.watches()
            && let Some(watch) = self.watch()
        {
            watch.wait(Some(Duration::ZERO));
            watch.dispatch();
        }
    }

    /// Whether somebody waits for a descriptor, which may wake him any time.
    pub(super) fn waits_for_descriptors(&self) -> bool {
        self.watch().is_some_and(|watch| watch.reactor.is_waited_for())
    }

    /// A descriptor has been registered: see soon how fast time passes.
    pub(in crate::sched) fn poll_soon(&self) {
        let budget = self.budget.load(Ordering::Relaxed).min(FIRST_POLL);
        self.budget.store(budget, Ordering::Relaxed);
    }

    /// The running fiber is about to make a call that may find its descriptor ready, and so not wait:
    /// it gives way first when it has made many in one run.
    #[inline]
    pub(in crate::sched) fn take_turn(&self) {
        // Changes with every tick, and so with every switch: whoever has just come to run, or has waited
        // for its descriptor, has its calls before it. Else one among many that never hold anybody up
        // would now and then be sent to the end of the queue, and be late by a whole round.
        let polls = u64::from(self.polls.load(Ordering::Relaxed));
        let run = polls << 32 | u64::from(self.budget.load(Ordering::Relaxed));
        let turns =
            if self.turns_of.replace(run) == run { self.turns.get() } else { reactor::TURNS };
        match turns.checked_sub(1) {
            Some(left) => self.turns.set(left),
            None => {
                self.turns.set(reactor::TURNS);
                // On the loop runs what has no stack, and gives way by itself.
                if !self.running().is_null() {
                    self.yield_now();
                }
            }
        }
    }

    pub(in crate::sched) fn has_virtual_time(&self) -> bool {
        self.virtual_now.get().is_some()
    }

    /// A wait in place has lasted until then, by the virtual clock.
    pub(in crate::sched) fn pass_time_until(&self, until: Instant) {
        self.virtual_now.set(self.virtual_now.get().map(|now| now.max(until)));
    }

    /// The end: descriptors that outlive the carrier are watched no more.
    pub(super) fn retire_reactor(&self) {
        // SAFETY: nobody refers to it: no task runs any more.
        if let Some(watch) = unsafe { (*self.watch.get()).take() } {
            watch.reactor.retire();
        }
    }
}
