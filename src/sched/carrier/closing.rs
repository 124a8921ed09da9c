//! The end of a carrier: everything that has not ended is ended.

use super::*;

impl Carrier {
    /// Ends everything that has not ended.
    pub(super) fn close(&self) {
        self.check_fork();
        self.shared.close();
        self.closing.set(true);
        self.take_mail();
        self.queue().drain();
        self.starved().clear();
        let mut tasks: Vec<(ThreadId, NonNull<Task>)> =
            self.registry().iter().map(|task| (task.party.id, NonNull::from(task))).collect();
        // First all waits: what an unwinding fiber gives back must not be handed to one that is about
        // to be unwound as well.
        for &(_, task) in &tasks {
            // SAFETY: registered tasks are alive until they are retired.
            self.call_off(unsafe { task.as_ref() });
        }
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

    /// Ends the wait of a parked task, whatever it was for.
    pub(super) fn call_off(&self, task: &Task) {
        let Some(epoch) = task.party.waiter.parked_epoch() else { return };
        if task.party.notify(epoch, Outcome::Cancelled) {
            return;
        }
        // Another thread claimed it first and is about to say so: wait for its mail, so that nobody
        // refers to the task when it is gone.
        loop {
            self.take_mail();
            if self.queue().drain().contains(&task.runnable()) {
                return;
            }
            self.sleep(Some(Duration::from_millis(1)));
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
