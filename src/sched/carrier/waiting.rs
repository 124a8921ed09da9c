//! What a fiber calls: giving way, and waiting.

use super::*;

impl Carrier {
    /// Lets every other runnable task run once.
    ///
    /// Inlined into whoever calls it, as far as the next fiber can be switched to at once: the return
    /// of a call would be predicted to go where the fiber that was left had come from.
    #[inline(always)]
    pub(crate) fn yield_now(&self) {
        let fiber = self.running();
        match self.quick_successor(fiber) {
            Some(next) if !self.queue().is_shuffled() => {
                self.count_tick();
                self.queue().skip();
                self.queue().push_again(Runnable::started(fiber));
                self.queue().prefetch();
                // SAFETY: the fiber is queued.
                unsafe { self.switch(fiber, next) };
                self.check_called_off(fiber);
            }
            _ => self.yield_in_full(),
        }
    }

    /// What runs next, if that is a fiber, and switching to it is all that there is to do: no poll is due,
    /// and the caller, which is this fiber, does not panic.
    #[inline(always)]
    fn quick_successor(&self, fiber: *mut Fiber) -> Option<*mut Fiber> {
        if fiber.is_null() || thread::panicking() || self.is_poll_due() {
            return None;
        }
        self.queue().peek_started()
    }

    /// [`yield_now`](Self::yield_now), whatever there is to do.
    #[inline(never)]
    fn yield_in_full(&self) {
        let fiber = self.running();
        if fiber.is_null() || thread::panicking() {
            return self.refuse_to_yield();
        }
        self.tick();
        if self.queue().is_empty() && (self.mate.is_none() || !self.yield_in_team(fiber)) {
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
        if self.calls_off(unsafe { &*fiber }) {
            self.unwind();
        }
    }

    /// Whether a fiber runs whose next wait, or yield, unwinds it.
    pub(super) fn is_called_off(&self) -> bool {
        self.current_fiber().is_some_and(|fiber| self.calls_off(fiber))
    }

    #[inline(always)]
    fn calls_off(&self, fiber: &Fiber) -> bool {
        self.closing.get()
            || fiber.interrupts.get() != 0
                && fiber.allowance(Instant::FAR_FUTURE, || self.now()).is_none()
    }

    /// Waits until the epoch, begun by the running task, is claimed.
    ///
    /// Never unwinds: the caller puts its own records in order first and then calls
    /// [`check_cancelled`]. The caller finishes the epoch.
    ///
    /// Inlined, as far as the next fiber can be switched to at once: see
    /// [`sched::wait_inlined`](crate::sched::wait_inlined).
    #[inline(always)]
    pub(crate) fn wait(&self, epoch: Epoch, waiting: Waiting, deadline: Instant) {
        let fiber = self.running();
        if deadline.is_far_future()
            && let Some(next) = self.quick_successor(fiber)
            // Itself: its wait is over already.
            && next != fiber
            && !self.closing.get()
        {
            // SAFETY: the running fiber is alive; whoever claims the wait finds it.
            unsafe {
                if (*fiber).interrupts.get() == 0 {
                    (*fiber).waiting.set(waiting);
                    self.count_tick();
                    self.queue().skip();
                    self.queue().prefetch();
                    self.switch(fiber, next);
                    (*fiber).waiting.set(Waiting::Nothing);
                    return;
                }
            }
        }
        self.wait_in_full(epoch, waiting, deadline);
    }

    /// [`wait`](Self::wait), whatever there is to do.
    #[inline(never)]
    pub(in crate::sched) fn wait_in_full(&self, epoch: Epoch, waiting: Waiting, deadline: Instant) {
        let fiber = self.running();
        // SAFETY: the running fiber and its task are alive; null means the loop.
        let Some((fiber_ref, task)) =
            (unsafe { fiber.as_ref().map(|fiber| (fiber, &*fiber.task.get())) })
        else {
            return self.call_off_on_loop(epoch, waiting);
        };
        let waiter = &task.party.waiter;
        let mut allowance = Allowance { until: deadline, outcome: Outcome::TimedOut };
        if self.closing.get() || fiber_ref.interrupts.get() != 0 {
            match self.patience(deadline) {
                Some(left) => allowance = left,
                None => return self.take_back(&task.party, epoch),
            }
        }
        let Allowance { until, outcome } = allowance;
        let limit = (!until.is_far_future()).then_some(until);
        if thread::panicking() {
            // The panic count is the thread's: nobody else may run here now. Wait in place.
            self.check_fork();
            fiber_ref.waiting.set(waiting);
            let alone = || self.needs_this_carrier(waiting) || !self.may_be_woken_from_outside();
            if limit.is_none() && alone() {
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
            let alarm = Alarm { party: &raw const task.party, epoch, outcome };
            fiber_ref.timer.set(Some(self.set_alarm(deadline, alarm)));
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

    /// Whether only fibers of this carrier can end such a wait.
    fn needs_this_carrier(&self, waiting: Waiting) -> bool {
        match waiting {
            // SAFETY: the one that joins holds the handle, and with it a reference.
            Waiting::Join(task) => unsafe { (*task).party.is_at_home(self.mailbox) },
            Waiting::Scope(_) => true,
            _ => false,
        }
    }

    /// How long the running fiber may wait, if until `deadline` at most. `None`: its waits are called
    /// off.
    pub(in crate::sched) fn patience(&self, deadline: Instant) -> Option<Allowance> {
        if self.closing.get() {
            return None;
        }
        match self.current_fiber() {
            Some(fiber) if fiber.interrupts.get() != 0 => fiber.allowance(deadline, || self.now()),
            _ => Some(Allowance { until: deadline, outcome: Outcome::TimedOut }),
        }
    }

    /// Whether a fiber runs that cannot switch away, since it panics: the panic count is the thread's.
    pub(in crate::sched) fn must_wait_in_place(&self) -> bool {
        !self.running().is_null() && thread::panicking()
    }

    /// A wait on the loop, which cannot switch away, ends at once: of a destructor that runs there, or
    /// of a resumable that makes a call which blocks. The latter is then [refused](Self::unwind).
    #[cold]
    fn call_off_on_loop(&self, epoch: Epoch, waiting: Waiting) {
        if self.is_resuming() {
            self.refused.set(Some(deadlock::wish(waiting)));
        }
        let party = self.current_task().map_or_else(party::os_thread, |task| &task.party);
        self.take_back(party, epoch);
    }

    /// Calls off a wait of the caller, who does not switch away.
    ///
    /// Somebody else may have ended it. The caller is in the run queue then, or another thread is
    /// about to send it there; it comes out of it, or it would be resumed out of turn, or when it is
    /// gone.
    fn take_back(&self, party: &Party, epoch: Epoch) {
        let parked = party.manner() == Manner::Parked;
        if party.waiter.retract(epoch, Outcome::Cancelled) || !parked {
            return;
        }
        let runnable = party.as_task().runnable();
        while !self.queue().remove(runnable) {
            self.sleep(Some(Duration::from_millis(1)));
            self.take_mail();
        }
    }

    /// A yield of what is no fiber, or one that panics.
    #[cold]
    fn refuse_to_yield(&self) {
        if self.is_resuming() {
            self.refuse("yields");
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
            // Of this carrier alone: the others may never answer.
            Deadlock::of_one(self)
        );
        process::abort();
    }
}
