//! The end of a carrier: everything that has not ended is ended.

use super::*;

impl Carrier {
    /// Ends everything that has not ended.
    pub(super) fn close(&self) {
        self.check_fork();
        self.shared.close();
        self.closing.set(true);
        self.take_mail();
        self.drop_offered();
        self.starved().clear();
        // First all waits: what an unwinding fiber gives back must not be handed to one that is about
        // to be unwound as well.
        self.call_off_all();
        let mut tasks: Vec<(ThreadId, NonNull<Task>)> =
            self.registry().iter().map(|task| (task.party.id, NonNull::from(task))).collect();
        // The newest first: see the module documentation.
        tasks.sort_unstable_by_key(|&(id, _)| std::cmp::Reverse(id));
        for (_, task) in tasks {
            self.queue().drain();
            self.finish_off(task);
        }
        self.take_mail();
        self.queue().drain();
        self.retire_reactor();
    }

    /// Ends the waits of all parked tasks, whatever they are for.
    ///
    /// Some may have been claimed by other threads, which are about to send them: it waits for that
    /// mail, so that nobody refers to a task when it is gone.
    fn call_off_all(&self) {
        let mut claimed = 0;
        for task in self.registry().iter() {
            if let Some(epoch) = task.party.waiter.parked_epoch() {
                // Lost, if another thread is faster.
                task.party.notify(epoch, Outcome::Cancelled);
            }
            // A task whose wait has ended has not run since: it is in the queue, or on the way there.
            claimed += usize::from(task.party.waiter.has_ended());
        }
        loop {
            // SAFETY: tasks are alive until they are retired, and so are their fibers.
            let ended = |item: &Runnable| unsafe { item.task() }.party.waiter.has_ended();
            claimed -= self.queue().drain().iter().filter(|item| ended(item)).count();
            if claimed == 0 {
                return;
            }
            self.sleep(Some(Duration::from_millis(1)));
            self.take_mail();
        }
    }

    /// Ends one task: drops its closure, or unwinds its stack.
    pub(super) fn finish_off(&self, task: NonNull<Task>) {
        // SAFETY: registered tasks are alive until they are retired, here or on their own fiber.
        unsafe {
            let ended = task.as_ref();
            if ended.is_stackless() {
                return self.drop_stackless(task);
            }
            let fiber = ended.fiber.get();
            if fiber.is_null() {
                ended.abandon();
                self.retire(task);
                return;
            }
            if cfg!(panic = "abort") {
                // Nothing can be unwound: the stack and what it owns are leaked.
                ended.fiber.set(ptr::null_mut());
                self.registry().remove(ended);
                return;
            }
            self.dispatch(fiber);
        }
    }
}
