//! A thread of the machine as a task without a stack.

use std::mem::offset_of;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use super::core::Core;
use super::future::Future;
use super::table::TASK;
use super::{Tasks, Wait};
use crate::sched::resumable::Relay;
use crate::sched::spawn::{spawn_detached, spawn_relaying};
use crate::sched::wakeup::Wakeup;
use crate::task::{Context, Resumable, Step};
use crate::thread::JoinHandle;
use crate::vm::heap::object;
use crate::vm::interp::{Begin, Exit, Halt, Machine, Thread, Thrown};
use crate::vm::native::Word;
use crate::vm::types::ExceptionClass;

/// See the [module documentation](self).
pub(super) struct ScriptTask {
    /// Alive while any of its tasks is in the machine's table.
    core: NonNull<Core>,
    /// The table has its address, and so have queues: see [`enlist`](Self::enlist).
    thread: Thread,
}

/// Makes a thread a task: that of the function which the host called.
pub(super) fn spawn_main(core: &Arc<Core>, thread: Thread) -> JoinHandle<()> {
    let task = ScriptTask { core: NonNull::from(&**core), thread };
    let enlist = |task: &mut ScriptTask| {
        // SAFETY: on behalf of the first task.
        task.enlist(unsafe { core.machine() });
    };
    let handle = spawn_relaying(Location::caller(), task, enlist).expect("within a runtime");
    // SAFETY: as above. A wish to stop ends this one, whatever it waits for.
    unsafe { core.machine() }.interrupt.set_wakeup(Some(Wakeup::new(handle.task())));
    handle
}

impl Machine {
    /// Makes a thread a task, behind all others that can run. Its future, or what stands for it, is
    /// settled at its end; whether that holds references, `references` says.
    pub(crate) fn spawn(&mut self, begin: Begin, future: Future, references: bool) {
        let thread = Thread::new(begin, future.word(), references);
        let task = ScriptTask { core: self.tasks.core_of_tasks(), thread };
        let enlist = |task: &mut ScriptTask| {
            let (id, place) = task.enlist(self);
            future.belong(id, place);
        };
        spawn_detached(Location::caller(), task, enlist).expect("tasks run on a carrier");
    }

    /// Cancels the task of a future. False: it has ended, or there is none.
    pub(crate) fn cancel(&mut self, future: Future) -> bool {
        let Some(thread) = future.place().and_then(|place| self.tasks.at(place)) else {
            return false;
        };
        // SAFETY: what is in the table is alive, in its task; it may be the running one, of which only
        // the wait is touched. We are on its carrier: by a task, or by the host between their turns.
        unsafe {
            Wait::cancel(&raw mut (*thread.as_ptr()).wait);
        }
        true
    }
}

impl ScriptTask {
    /// Takes the thread in among the tasks of its machine: from now on it stays where it is. Returns its
    /// number and its place.
    #[inline]
    fn enlist(&mut self, machine: &mut Machine) -> (u32, u32) {
        self.thread.wait.belongs_to_task();
        machine.tasks.charge(&machine.heap, (TASK + self.thread.bytes()) as isize);
        machine.tasks.add(&mut self.thread)
    }

    /// By what the task is woken that has this wait.
    ///
    /// # Safety
    ///
    /// It lies in a task, which has not ended.
    #[inline(always)]
    pub(super) unsafe fn wakeup_of(wait: *const Wait) -> Wakeup {
        const AT: usize = offset_of!(ScriptTask, thread) + offset_of!(Thread, wait);
        // SAFETY: the contract: there is one in the allocation of its task.
        unsafe {
            let task = wait.byte_sub(AT).cast_mut().cast::<ScriptTask>();
            Wakeup::of(NonNull::new_unchecked(task))
        }
    }

    /// Ends a task, as its thread has.
    ///
    /// # Safety
    ///
    /// The task has not ended, and no reference to it is used.
    unsafe fn end(this: *mut ScriptTask, exit: Exit) -> Step<()> {
        // SAFETY: the contract; the core is alive while this task is in the table, and then kept.
        let (core, thread) = unsafe { ((*this).core.as_ref(), &mut (*this).thread) };
        // SAFETY: by a task.
        let machine = unsafe { core.machine() };
        // Dropped when all else is done.
        let _kept = remove(machine, thread);
        match thread.future() {
            None => {
                machine.interrupt.set_wakeup(None);
                core.set_outcome(exit);
                // Those that could run, and come before the host learns of it, do not go on.
                core.begin_to_end();
            }
            Some(future) => match exit {
                Exit::Done(word) => future.complete(word, thread.gives_reference),
                Exit::Thrown(thrown) => fail(machine, future, thrown),
                Exit::Stopped(stop) => core.stop(stop),
                _ => unreachable!("a task that has ended does not go on"),
            },
        }
        machine.recycle(thread);
        thread.clear();
        Step::Done(())
    }
}

/// Takes a thread out of the table that will not go on, with what [keeps](super::Tasks::remove) the core.
#[must_use]
fn remove(machine: &mut Machine, thread: &mut Thread) -> Option<Arc<Core>> {
    thread.ended = true;
    machine.tasks.charge(&machine.heap, -((TASK + thread.bytes()) as isize));
    machine.tasks.remove(thread)
}

/// A cancelled task that ends by that is no failure that anybody must hear of.
fn fail(machine: &mut Machine, future: Future, thrown: Thrown) {
    let exception = thrown.exception;
    if machine.is_exception(exception, ExceptionClass::Cancelled) {
        future.see();
    } else {
        machine.tasks.note_failure(future, thrown);
    }
    future.fail(exception);
}

impl Resumable for ScriptTask {
    type Output = ();

    fn resume(&mut self, cx: &mut Context<'_>) -> Step<()> {
        // SAFETY: this is the resumable, and `self` is not used any more.
        unsafe { ScriptTask::relay(self, cx) }
    }
}

// SAFETY: there is no other one.
unsafe impl Relay for ScriptTask {
    #[inline(always)]
    unsafe fn relay(this: *mut Self, cx: &mut Context<'_>) -> Step<()> {
        // SAFETY: the contract.
        let (machine, thread) = match unsafe { ScriptTask::begin(this) } {
            Ok(begun) => begun,
            Err(step) => return step,
        };
        // SAFETY: the machine is in its box, and the thread in its task.
        let halt = unsafe { (*machine.as_ptr()).resume(thread, cx) };
        // SAFETY: all references have ended: this is the task that has run last, maybe another one.
        unsafe { ScriptTask::halted(cx.resumable::<ScriptTask>().as_ptr(), halt, cx) }
    }
}

impl ScriptTask {
    /// The machine and the thread, if it is to run.
    ///
    /// # Safety
    ///
    /// The task has not ended, and no reference to it is used.
    #[inline(always)]
    unsafe fn begin(this: *mut ScriptTask) -> Result<(NonNull<Machine>, *mut Thread), Step<()>> {
        // SAFETY: the contract; the core is alive while this task is in the table: until it has ended.
        let (core, thread) = unsafe { ((*this).core.as_ref(), &raw mut (*this).thread) };
        if core.is_ending() {
            // Cancelled, and so dropped when it parks.
            return Err(Step::Parked);
        }
        // SAFETY: as above; this reference ends before the task does.
        let (is_main, is_cancelled) = {
            let thread = unsafe { &*thread };
            debug_assert!(!thread.ended);
            (thread.is_main(), !thread.begun && thread.wait.is_cancelled())
        };
        if is_main && let Some(stop) = core.stopped() {
            // SAFETY: as above.
            return Err(unsafe { ScriptTask::end(this, Exit::Stopped(stop)) });
        }
        // SAFETY: by a task.
        let machine = unsafe { core.machine() };
        if is_cancelled {
            let message = "the task was cancelled before it began";
            let exception = machine.new_exception(ExceptionClass::Cancelled, message);
            let thrown = Thrown { exception, backtrace: Vec::new() };
            // SAFETY: as above.
            return Err(unsafe { ScriptTask::end(this, Exit::Thrown(thrown)) });
        }
        Ok((NonNull::from(machine), thread))
    }

    /// # Safety
    ///
    /// As for [`begin`](Self::begin); it has run, on behalf of this context.
    #[inline(always)]
    unsafe fn halted(this: *mut ScriptTask, halt: Halt, cx: &mut Context<'_>) -> Step<()> {
        match halt {
            Halt::Yielded | Halt::Paused => Step::Yielded,
            Halt::Parked => {
                // SAFETY: the contract.
                let deadline = unsafe { (*this).thread.wait.deadline() };
                match deadline.is_far_future() || cx.poll_sleep(deadline).is_pending() {
                    true => Step::Parked,
                    false => Step::Yielded,
                }
            }
            Halt::Ended => Step::Done(()),
            // SAFETY: the contract; by a task.
            halt => unsafe {
                let exit = (*this).core.as_ref().machine().exit(halt);
                ScriptTask::end(this, exit)
            },
        }
    }
}

impl Machine {
    /// Ends the running task, whose thread has returned, and `goes_on` with the next one, if that is a task
    /// of this machine which can go on at once: its thread.
    ///
    /// # Safety
    ///
    /// The thread is that of a task, not of main's, with no native function in the middle of it. There are
    /// other tasks.
    #[inline]
    pub(crate) unsafe fn end_and_pass_on(&mut self, goes_on: bool) -> Option<NonNull<Thread>> {
        let core = self.tasks.core();
        // SAFETY: the context is that of the resume which is under way.
        let context = unsafe { self.tasks.context()?.as_mut() };
        let ended = context.resumable::<ScriptTask>().as_ptr();
        let exit = self.exit(Halt::Done);
        // SAFETY: it runs, so it has not ended; the machine uses nothing of it any more.
        let next = unsafe {
            ScriptTask::end(ended, exit);
            if !goes_on {
                return None;
            }
            // As in `pass_on`.
            context.pass_on_at_end((), |task: NonNull<ScriptTask>| {
                Some((*task.as_ptr()).core) == core
            })?
        };
        // SAFETY: it does not run, and has not ended.
        Some(NonNull::from(unsafe { &mut (*next.as_ptr()).thread }))
    }
}

impl Tasks {
    /// Lets the running task give way to the next one, if that is a task of this machine which can go on
    /// at once: its thread.
    #[inline]
    pub(crate) fn pass_on(&mut self, parks: bool) -> Option<NonNull<Thread>> {
        let core = self.core();
        // SAFETY: the context is that of the resume which is under way.
        let context = unsafe { self.context()?.as_mut() };
        // SAFETY: it stands in the queue, and does not run: it has not ended.
        let is_ours = |task: NonNull<ScriptTask>| Some(unsafe { (*task.as_ptr()).core }) == core;
        let next = context.pass_on(parks, is_ours)?;
        // SAFETY: as above.
        Some(NonNull::from(unsafe { &mut (*next.as_ptr()).thread }))
    }
}

impl Drop for ScriptTask {
    fn drop(&mut self) {
        if self.thread.ended {
            return;
        }
        // SAFETY: alive while this task is in the table, and then kept.
        let core = unsafe { self.core.as_ref() };
        core.note_stuck();
        // SAFETY: by a task that is dropped: none has the machine.
        let machine = unsafe { core.machine() };
        if self.thread.is_main() {
            machine.interrupt.set_wakeup(None);
        }
        // Dropped when all else is done.
        let _kept = remove(machine, &mut self.thread);
        // Unwinds native functions that wait in the middle of it.
        self.thread.clear();
    }
}

impl Machine {
    /// Whether an object is an exception of this very class.
    fn is_exception(&self, exception: Word, class: ExceptionClass) -> bool {
        // SAFETY: an exception that was thrown lives.
        self.class_of(unsafe { object::type_of(exception) }) == Some(class.class())
    }
}
