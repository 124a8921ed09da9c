//! Switching: from fiber to fiber, to and from the loop, and away for good.

use super::*;

impl Carrier {
    /// Switches from the running fiber to another, and comes back when somebody switches to it.
    ///
    /// # Safety
    ///
    /// `from` must be the running fiber, and have been put where somebody will find it.
    #[inline(always)]
    pub(super) unsafe fn switch(&self, from: *mut Fiber, to: *mut Fiber) {
        // SAFETY: `to` is suspended, or about to begin; both are alive.
        unsafe {
            self.set_running(to);
            let keep = (*from).keep_float_control.get();
            if keep {
                (*from).float_control.set(FloatControl::save());
                FloatControl::DEFAULT.load();
            }
            (*from).side.leave(&(*to).side);
            let (word, tag) = context::switch(
                &raw mut (*from).context,
                &raw const (*to).context,
                Word::uninit(),
                arrival::RESUME,
            );
            (*from).side.arrive();
            if keep {
                (*from).float_control.get().load();
            }
            self.arrived(word, tag);
        }
    }

    /// Does what the side that was left asks for.
    ///
    /// # Safety
    ///
    /// Word and tag must be those of a switch that has just ended.
    #[inline(always)]
    pub(crate) unsafe fn arrived(&self, word: Word, tag: usize) {
        if tag == arrival::RESUME {
            return;
        }
        // SAFETY: the contract is passed on.
        unsafe { self.arrived_with_task(word, tag) }
    }

    #[inline]
    pub(super) unsafe fn arrived_with_task(&self, word: Word, mut tag: usize) {
        // SAFETY: the words other than RESUME's are pointers.
        let mut word = unsafe { word.assume_init() };
        while tag == arrival::CAPTURE {
            // SAFETY: sent by `backtrace_of`, which waits for the answer.
            (word, tag) = unsafe { self.answer(&mut *word.cast::<Capture>()) };
        }
        if tag == arrival::REAP {
            let fiber: *mut Fiber = word.cast();
            // SAFETY: sent by `leave_for_good`, which has left that stack.
            let class = unsafe { (*fiber).stack().class() };
            // SAFETY: as above.
            unsafe { Fiber::reap(fiber) };
            if !self.starved().is_empty() {
                self.feed(class);
            }
        }
    }

    /// Switches from the running fiber to the loop.
    ///
    /// # Safety
    ///
    /// As for [`switch`](Self::switch).
    #[inline(never)]
    pub(in crate::sched) unsafe fn switch_to_loop(&self, from: *mut Fiber) {
        // SAFETY: the loop is suspended while a fiber runs.
        unsafe {
            self.set_running(ptr::null_mut());
            let keep = (*from).keep_float_control.get();
            if keep {
                (*from).float_control.set(FloatControl::save());
                FloatControl::DEFAULT.load();
            }
            (*from).side.leave(&*self.idle_side.get());
            let (word, tag) = context::switch(
                &raw mut (*from).context,
                self.idle.get(),
                Word::uninit(),
                arrival::RESUME,
            );
            (*from).side.arrive();
            if keep {
                (*from).float_control.get().load();
            }
            self.arrived(word, tag);
        }
    }

    /// Switches from the loop to a fiber, and comes back when there is nothing to run.
    #[inline(always)]
    pub(super) fn dispatch(&self, fiber: *mut Fiber) {
        self.check_fork();
        self.set_running(fiber);
        // SAFETY: the fiber is suspended or about to begin. The loop's own context is read only
        // while it is suspended here.
        unsafe {
            (*self.idle_side.get()).leave(&(*fiber).side);
            let (word, tag) = context::switch(
                self.idle.get(),
                &raw const (*fiber).context,
                Word::uninit(),
                arrival::RESUME,
            );
            (*self.idle_side.get()).arrive();
            self.arrived(word, tag);
        }
    }

    /// Ends a task on its own fiber. Returns a fresh task that can go on with the same stack.
    ///
    /// # Safety
    ///
    /// By the fiber, after its task has run.
    pub(crate) unsafe fn end_task(&self, fiber: &Fiber, task: *const Task) -> Option<*const Task> {
        // SAFETY: the runtime's reference is still there.
        unsafe {
            (*task).fiber.set(ptr::null_mut());
            self.retire(NonNull::new_unchecked(task.cast_mut()));
        }
        if self.closing.get() || self.main_ended.get() {
            return None;
        }
        self.tick();
        if let Some(Kind::Fresh(task)) = self.queue().peek().map(Runnable::kind)
            // SAFETY: a queued task is alive.
            && unsafe { (*task).stack } == fiber.stack().class()
        {
            self.queue().pop();
            return Some(task);
        }
        None
    }

    /// Publishes the end of a task and gives up the runtime's reference.
    ///
    /// # Safety
    ///
    /// Once, after the task has run or was abandoned.
    pub(in crate::sched) unsafe fn retire(&self, task: NonNull<Task>) {
        // SAFETY: the contract is passed on.
        unsafe {
            let ended = task.as_ref();
            self.registry().remove(ended);
            if ptr::eq(task.as_ptr(), self.main.get()) {
                self.main_ended.set(true);
            }
            let scope = ended.take_scope();
            let unobserved = Task::complete(task);
            if let Some(tally) = scope {
                if unobserved.is_some() {
                    tally.note_panic();
                }
                tally.end_one();
            } else if let Some(report) = unobserved {
                self.shared.report_unobserved(*report);
            }
        }
    }

    /// The last switch of a fiber whose task has ended: somebody else reaps it.
    ///
    /// # Safety
    ///
    /// `fiber` must be the running one, with nothing left on its stack.
    ///
    /// Inlined into the first frame: a call that never returns would leave the processor's return
    /// predictor one off for the side that is switched to.
    #[inline(always)]
    pub(crate) unsafe fn leave_for_good(&self, fiber: *mut Fiber) -> ! {
        let over = self.closing.get() || self.main_ended.get();
        // SAFETY: the running fiber's control block is alive.
        let at_hand = unsafe { (*fiber).stack().stays_warm() };
        // Where the stack cannot simply be put back, the loop has room to give others back first.
        let next = if over || !at_hand { None } else { self.next() };
        self.set_running(next.unwrap_or(ptr::null_mut()));
        let word = Word::new(fiber.cast());
        // SAFETY: the next fiber, or the loop, is suspended or about to begin.
        unsafe {
            let (side, to) = match next {
                Some(next) => (&raw const (*next).side, &raw const (*next).context),
                None => (self.idle_side.get().cast_const(), self.idle.get().cast_const()),
            };
            if (*fiber).keep_float_control.get() {
                FloatControl::DEFAULT.load();
            }
            (*fiber).side.leave_for_good(&*side);
            context::leave(to, word, arrival::REAP)
        }
    }
}
