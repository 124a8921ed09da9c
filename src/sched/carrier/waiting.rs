//! What a fiber calls: giving way, and waiting.

use super::*;

impl Carrier {
    /// Lets every other runnable task run once.
    #[inline]
    pub(crate) fn yield_now(&self) {
        let fiber = self.running();
        if fiber.is_null() || thread::panicking() {
            return;
        }
        self.tick();
        if self.queue().is_empty() {
            return self.check_called_off(fiber);
        }
        self.queue().push(Runnable::started(fiber));
        // SAFETY: the fiber is queued.
        unsafe {
            match self.next() {
                Some(next) if next == fiber => {}
                Some(next) => self.switch(fiber, next),
                None => self.switch_to_loop(fiber),
            }
        }
        self.check_called_off(fiber);
    }

    /// Unwinds the running fiber if it may not wait any more.
    #[inline(always)]
    fn check_called_off(&self, fiber: *mut Fiber) {
        // SAFETY: the running fiber is alive.
        let fiber = unsafe { &*fiber };
        if self.closing.get()
            || fiber.interrupts.get() != 0
                && fiber.allowance(Instant::FAR_FUTURE, || self.now()).is_none()
        {
            self.unwind();
        }
    }

    /// Waits until the epoch, begun by the running task, is claimed.
    ///
    /// Never unwinds: the caller puts its own records in order first and then calls
    /// [`check_cancelled`]. The caller finishes the epoch.
    pub(crate) fn wait(&self, epoch: Epoch, waiting: Waiting, deadline: Instant) {
        let fiber = self.running();
        // SAFETY: the running fiber and its task are alive; null means the loop.
        let Some((fiber_ref, task)) =
            (unsafe { fiber.as_ref().map(|fiber| (fiber, &*fiber.task.get())) })
        else {
            // A destructor that runs on the loop while the carrier closes.
            party::os_thread().waiter.retract(epoch, Outcome::Cancelled);
            return;
        };
        let waiter = &task.party.waiter;
        let mut allowance = Allowance { until: deadline, outcome: Outcome::TimedOut };
        if self.closing.get() || fiber_ref.interrupts.get() != 0 {
            let closer = || fiber_ref.allowance(deadline, || self.now());
            match (!self.closing.get()).then(closer).flatten() {
                Some(left) => allowance = left,
                None => {
                    waiter.retract(epoch, Outcome::Cancelled);
                    return;
                }
            }
        }
        let Allowance { until, outcome } = allowance;
        let limit = (!until.is_far_future()).then_some(until);
        if thread::panicking() {
            // The panic count is the thread's: nobody else may run here now. Wait in place.
            self.check_fork();
            fiber_ref.waiting.set(waiting);
            if limit.is_none() && !self.may_be_woken_from_outside() {
                self.stuck_in_place(task);
            }
            match (limit, self.virtual_now.get()) {
                (Some(deadline), Some(now)) => {
                    self.virtual_now.set(Some(now.max(deadline)));
                    waiter.retract(epoch, outcome);
                }
                _ => waiter.block(epoch, limit, outcome),
            }
            fiber_ref.waiting.set(Waiting::Nothing);
            return;
        }
        if let Some(deadline) = limit {
            let timer = self.timers().insert(deadline, Alarm { fiber, epoch, outcome });
            fiber_ref.timer.set(Some(timer));
            if self.timers().len() == 1 {
                // The first one: see soon how fast time passes.
                let budget = self.budget.load(Ordering::Relaxed).min(FIRST_POLL);
                self.budget.store(budget, Ordering::Relaxed);
            }
        }
        fiber_ref.waiting.set(waiting);
        self.tick();
        // SAFETY: whoever claims the wait finds the fiber.
        unsafe {
            match self.next() {
                Some(next) if next == fiber => {}
                Some(next) => self.switch(fiber, next),
                None => self.switch_to_loop(fiber),
            }
        }
        fiber_ref.waiting.set(Waiting::Nothing);
        if let Some(timer) = fiber_ref.timer.take() {
            self.timers().cancel(timer);
        }
    }

    /// A fiber that unwinds waits for something that only a fiber of this carrier could bring.
    #[cold]
    pub(super) fn stuck_in_place(&self, task: &Task) -> ! {
        let mut name = String::new();
        let _ = task.describe(&mut name);
        eprintln!(
            "pirn: deadlock: {name} waits while a panic unwinds it; meanwhile nothing else can run \
             on its carrier, and nobody else can wake it: aborting\n{}",
            Deadlock::of(self)
        );
        process::abort();
    }
}
