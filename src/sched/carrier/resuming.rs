//! Tasks without a stack: resumed by the loop, on its own stack.

use super::super::resumable::{Context as TaskContext, Phase, Stackless, Step, Waits};
use super::*;

impl Carrier {
    /// Gives a task without a stack its turn.
    ///
    /// Counts a tick: a fork is seen at the poll that follows it.
    #[inline(always)]
    pub(super) fn resume(&self, task: NonNull<Task>) {
        // SAFETY: a queued task is alive.
        let resumed = unsafe { task.as_ref() };
        let stackless = stackless(resumed);
        match stackless.phase.get() {
            Phase::Fresh if resumed.is_cancelled() => return self.drop_stackless(task),
            // SAFETY: its result is in place; it was kept for this turn only.
            Phase::Ended => return unsafe { self.retire(task) },
            _ => {}
        }
        if stackless.timer.get().is_some() {
            self.cancel_timer(stackless);
        }
        stackless.wake_up(&resumed.party);
        let mut context = TaskContext::new(resumed);
        let step = self.on_behalf_of(resumed, stackless, Phase::Running, || {
            // SAFETY: by the runtime, one at a time, and not after its end.
            let step = unsafe { resumed.resume(&mut context) };
            if !matches!(step, Step::Done(())) {
                stackless.sweep();
            }
            step
        });
        match step {
            Step::Parked if resumed.is_cancelled() => self.drop_stackless(task),
            Step::Parked => self.park_stackless(resumed, stackless, &context.waits),
            Step::Yielded => {
                if stackless.take_back_wait(&resumed.party) {
                    self.queue().push(Runnable::resumable(resumed));
                }
            }
            Step::Done(()) => self.retire_stackless(task),
        }
        self.tick();
    }

    #[cold]
    fn cancel_timer(&self, stackless: &Stackless) {
        if let Some(timer) = stackless.timer.take() {
            self.timers().cancel(timer);
        }
    }

    #[inline(always)]
    fn park_stackless(&self, task: &Task, stackless: &Stackless, waits: &Waits) {
        if !stackless.park(task, waits) {
            return self.queue().push(task.runnable());
        }
        if !waits.until.is_far_future() {
            let (epoch, outcome) = (stackless.epoch(task), Outcome::TimedOut);
            let alarm = Alarm { party: &raw const task.party, epoch, outcome };
            stackless.timer.set(Some(self.set_alarm(waits.until, alarm)));
        }
    }

    /// Drops what a task would be resumed with; its end is [`Cancelled`](crate::thread::Cancelled).
    pub(super) fn drop_stackless(&self, task: NonNull<Task>) {
        // SAFETY: alive until it is retired.
        let ended = unsafe { task.as_ref() };
        let stackless = stackless(ended);
        if stackless.phase.get() != Phase::Ended {
            self.cancel_timer(stackless);
            self.on_behalf_of(ended, stackless, Phase::Ending, || {
                stackless.withdraw_all();
                // SAFETY: it has not ended, and is not resumed any more.
                unsafe { ended.abandon() };
            });
        }
        if self.is_closing() {
            // Nobody can wake it any more: all waits were called off, and the queue is not run.
            // SAFETY: its result is in place.
            unsafe { self.retire(task) };
        } else {
            self.retire_stackless(task);
        }
    }

    /// Retires a task whose result is in place; if somebody has just woken it, when its turn comes.
    fn retire_stackless(&self, task: NonNull<Task>) {
        // SAFETY: alive until it is retired.
        let ended = unsafe { task.as_ref() };
        let stackless = stackless(ended);
        if stackless.take_back_wait(&ended.party) {
            // SAFETY: as in `resume`; it is in no queue.
            unsafe { self.retire(task) };
        } else {
            stackless.phase.set(Phase::Ended);
        }
    }

    /// Runs code of a task without a stack: the loop is that task meanwhile.
    #[inline(always)]
    fn on_behalf_of<R>(
        &self,
        task: &Task,
        stackless: &Stackless,
        phase: Phase,
        f: impl FnOnce() -> R,
    ) -> R {
        stackless.phase.set(phase);
        self.resumed.store(ptr::from_ref(task).cast_mut(), Ordering::Relaxed);
        // Neither unwinds: panics of a task are caught where it is called.
        let result = f();
        self.resumed.store(ptr::null_mut(), Ordering::Relaxed);
        if stackless.phase.get() == Phase::Running {
            stackless.phase.set(Phase::Begun);
        }
        result
    }

    /// Whether the loop runs the code of a task that could go on: it must not block.
    #[cold]
    pub(in crate::sched) fn is_resuming(&self) -> bool {
        let phase = || self.resumed_task().and_then(Task::stackless).map(|own| own.phase.get());
        self.running().is_null() && phase() == Some(Phase::Running) && !thread::panicking()
    }

    /// A call was made in `resume` that blocks.
    pub(in crate::sched) fn refuse(&self, call: &str) -> ! {
        self.refused.set(Some(call.to_owned()));
        self.refuse_to_block()
    }

    /// A call was made in `resume` that would have to wait. The wait has been taken back.
    #[cold]
    pub(in crate::sched) fn refuse_to_block(&self) -> ! {
        let mut who = String::new();
        if let Some(task) = self.resumed_task() {
            let _ = task.describe(&mut who);
        }
        let call = self.refused.take().unwrap_or_else(|| "waits".to_owned());
        panic!(
            "{who}, made a call in `resume` that {call}, but a resumable has no stack to wait on: \
             use the call's `poll_` form and return `Step::Parked`, or leave the call to a fiber"
        );
    }
}

/// What a task has that the queue calls resumable.
fn stackless(task: &Task) -> &Stackless {
    debug_assert!(task.is_stackless(), "resumable tasks have no stack");
    // SAFETY: only such tasks are queued as resumable, and come here.
    unsafe { task.stackless().unwrap_unchecked() }
}
