//! Tasks without a stack: resumed by the loop, on its own stack.
//!
//! Some of them pass their turn on to the next in the queue, where that is such a one too: then the loop
//! does not come to the end of one resume and the begin of the next, but all that it would do in between
//! is done. Where there is more to do than that, the turn ends as usual: so the order in which
//! tasks run, and what is looked at meanwhile, are the same either way.

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
        stackless.wake_up(resumed);
        let mut context = TaskContext::new(resumed, self);
        self.begin_turn(resumed, stackless, Phase::Running);
        // SAFETY: by the runtime, one at a time, and not after its end.
        let step = unsafe { Task::resume(task, &mut context) };
        // By now it may be the turn of another one.
        let resumed = context.task();
        let (task, stackless) = (NonNull::from(resumed), self::stackless(resumed));
        if !matches!(step, Step::Done(())) {
            stackless.sweep();
        }
        self.end_turn(stackless);
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
            self.begin_turn(ended, stackless, Phase::Ending);
            stackless.withdraw_all();
            // SAFETY: it has not ended, and is not resumed any more.
            unsafe { ended.abandon() };
            self.end_turn(stackless);
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

    /// Code of a task without a stack begins to run: the loop is that task until the
    /// [end](Self::end_turn) of its turn. It does not unwind: panics are caught where it is called.
    #[inline(always)]
    fn begin_turn(&self, task: &Task, stackless: &Stackless, phase: Phase) {
        stackless.phase.set(phase);
        self.resumed.store(ptr::from_ref(task).cast_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn end_turn(&self, stackless: &Stackless) {
        self.resumed.store(ptr::null_mut(), Ordering::Relaxed);
        if stackless.phase.get() == Phase::Running {
            stackless.phase.set(Phase::Begun);
        }
    }

    /// The task to which the running one may [pass on](Self::relay) its turn: the next one in the queue,
    /// if nothing is to be done but what that does.
    #[inline]
    pub(in crate::sched) fn next_to_relay<'a>(&self, from: &Task) -> Option<&'a Task> {
        // SAFETY: a queued task is alive, until it has had its turn.
        let next = unsafe { &*self.queue().peek_resumable()? };
        let (old, new) = (stackless(from), stackless(next));
        let can = old.can_relay()
            && new.can_relay()
            // With a seed, who comes next is settled when the running one has its place.
            && !self.queue().is_shuffled()
            && !self.is_poll_due();
        can.then_some(next)
    }

    /// Ends the turn of the running task, which yields or parks until an unpark, and begins that of the
    /// next one.
    ///
    /// # Safety
    ///
    /// It is the [next to relay](Self::next_to_relay), and the task that runs is `from`, which has polled
    /// nothing.
    #[inline]
    pub(in crate::sched) unsafe fn relay(&self, from: &Task, parks: bool, next: &Task) {
        let (old, new) = (stackless(from), stackless(next));
        debug_assert_eq!(old.phase.get(), Phase::Running);
        old.phase.set(Phase::Begun);
        self.queue().skip();
        // A wait that it has begun is one that this resume gave up again.
        let runs =
            if parks { !old.park(from, &Waits::NONE) } else { old.take_back_wait(&from.party) };
        if runs {
            self.queue().push_again(Runnable::resumable(from));
        }
        self.count_tick();
        new.end_wait(&next.party);
        self.begin_turn(next, new, Phase::Running);
    }

    /// [`relay`](Self::relay), from a task that has ended.
    ///
    /// # Safety
    ///
    /// As there; the task's result is in place. It may be gone afterwards.
    #[inline]
    pub(in crate::sched) unsafe fn relay_from_ended(&self, from: NonNull<Task>, next: &Task) {
        self.queue().skip();
        self.retire_stackless(from);
        self.count_tick();
        let new = stackless(next);
        new.end_wait(&next.party);
        self.begin_turn(next, new, Phase::Running);
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
#[inline(always)]
fn stackless(task: &Task) -> &Stackless {
    // SAFETY: only such tasks are queued as resumable, and come here.
    unsafe { task.stackless_unchecked() }
}
