//! A thread of the machine as a task without a stack.

use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Tasks;
use super::core::Core;
use super::future::Future;
use super::table::TASK;
use crate::sched::resumable::{Relay, Wakeup};
use crate::sched::spawn::{spawn_detached, spawn_relaying};
use crate::task::{Context, Resumable, Step};
use crate::thread::JoinHandle;
use crate::vm::heap::object;
use crate::vm::interp::{Exit, Halt, Machine, Thread, Thrown};
use crate::vm::native::Word;
use crate::vm::types::ExceptionClass;

/// See the [module documentation](self).
pub(super) struct ScriptTask {
    /// Alive while any of its tasks is in the machine's table.
    core: NonNull<Core>,
    /// Until it has ended.
    thread: Option<Box<Thread>>,
}

/// Makes a thread a task: that of the function which the host called.
pub(super) fn spawn_main(core: &Arc<Core>, thread: Box<Thread>) -> JoinHandle<()> {
    // SAFETY: on behalf of the first task.
    let machine = unsafe { core.machine() };
    let mut thread = machine.enlist(thread);
    let thread_ptr = &raw mut *thread;
    let task = ScriptTask { core: NonNull::from(&**core), thread: Some(thread) };
    let handle = spawn_relaying(Location::caller(), task).expect("within a runtime");
    // SAFETY: the thread is in its box, which the task owns and has not touched yet: no carrier that
    // closes calls the machine.
    unsafe { (*thread_ptr).wait.wakeup = Some(Wakeup::local(handle.task())) };
    // A wish to stop ends this one, whatever it waits for.
    machine.interrupt.set_wakeup(Some(Wakeup::new(handle.task())));
    handle
}

impl Machine {
    /// Takes a thread in that becomes a task.
    fn enlist(&mut self, mut thread: Box<Thread>) -> Box<Thread> {
        self.tasks.add(&mut thread);
        self.tasks.charge(&self.heap, (TASK + thread.bytes()) as isize);
        thread
    }

    /// Makes a thread a task, behind all others that can run. Its future, or what stands for it, is
    /// settled at its end; whether that holds references, `references` says.
    pub(crate) fn spawn(&mut self, mut thread: Box<Thread>, future: Future, references: bool) {
        thread.handle = future.word();
        thread.gives_reference = references;
        let thread = self.enlist(thread);
        future.belong(thread.id, thread.place);
        let core = self.tasks.core_of_tasks();
        let prepare = |task: &mut ScriptTask, wakeup| {
            if let Some(thread) = &mut task.thread {
                thread.wait.wakeup = Some(wakeup);
            }
        };
        let task = ScriptTask { core, thread: Some(thread) };
        spawn_detached(Location::caller(), task, prepare).expect("tasks run on a carrier");
    }

    /// Cancels the task of a future. False: it has ended, or there is none.
    pub(crate) fn cancel(&mut self, future: Future) -> bool {
        let Some(mut thread) = future.place().and_then(|place| self.tasks.at(place)) else {
            return false;
        };
        // SAFETY: what is in the table is alive; it may be the running one, of which only the wait is
        // touched.
        unsafe {
            thread.as_mut().wait.cancel();
        }
        true
    }
}

impl ScriptTask {
    /// The id of the task of the function that the host called.
    pub(super) const MAIN: u32 = 0;

    fn end(&mut self, exit: Exit) -> Step<()> {
        // Dropped last.
        let _kept;
        let Some(mut thread) = self.thread.take() else { return Step::Done(()) };
        // SAFETY: alive while this task is in the table, and then kept.
        let core = unsafe { self.core.as_ref() };
        // SAFETY: by a task.
        let machine = unsafe { core.machine() };
        _kept = remove(machine, &mut thread);
        if thread.id == ScriptTask::MAIN {
            machine.interrupt.set_wakeup(None);
            core.set_outcome(exit);
            // Those that could run, and come before the host learns of it, do not go on.
            core.begin_to_end();
            drop(thread);
            return Step::Done(());
        }
        // SAFETY: the handle of a thread is its future, which the thread has kept alive.
        let future = unsafe { Future::from_word(thread.handle) };
        match exit {
            Exit::Done(word) => future.complete(word, thread.gives_reference),
            Exit::Thrown(thrown) => fail(machine, thread.id, future, thrown),
            Exit::Stopped(stop) => core.stop(stop),
            _ => unreachable!("a task that has ended does not go on"),
        }
        machine.recycle(thread);
        Step::Done(())
    }
}

/// Takes a thread out of the table that will not go on, with what [keeps](super::Tasks::remove) the core.
#[must_use]
fn remove(machine: &mut Machine, thread: &mut Thread) -> Option<Arc<Core>> {
    machine.tasks.charge(&machine.heap, -((TASK + thread.bytes()) as isize));
    machine.tasks.remove(thread)
}

/// A cancelled task that ends by that is no failure that anybody must hear of.
fn fail(machine: &mut Machine, id: u32, future: Future, thrown: Thrown) {
    let exception = thrown.exception;
    if machine.is_exception(exception, ExceptionClass::Cancelled) {
        future.see();
    } else {
        machine.tasks.note_failure(id, future, thrown);
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
        // SAFETY: the contract; the reference ends before the thread runs.
        let (machine, thread) = match unsafe { &mut *this }.begin() {
            Ok(begun) => begun,
            Err(step) => return step,
        };
        // SAFETY: the machine is in its box, and the thread in the one of its task.
        let halt = unsafe { (*machine.as_ptr()).resume(thread.as_ptr(), cx) };
        // SAFETY: all references have ended: this is the task that has run last, maybe another one.
        let last = unsafe { cx.resumable::<ScriptTask>().as_mut() };
        last.halted(halt, cx)
    }
}

impl ScriptTask {
    /// The machine and the thread, if it is to run.
    #[inline(always)]
    fn begin(&mut self) -> Result<(NonNull<Machine>, NonNull<Thread>), Step<()>> {
        // SAFETY: alive while this task is in the table: until it has ended.
        let core = unsafe { self.core.as_ref() };
        if core.is_ending() {
            // Cancelled, and so dropped when it parks.
            return Err(Step::Parked);
        }
        let Some(thread) = &mut self.thread else { return Err(Step::Done(())) };
        if thread.id == ScriptTask::MAIN
            && let Some(stop) = core.stopped()
        {
            return Err(self.end(Exit::Stopped(stop)));
        }
        // SAFETY: by a task.
        let machine = unsafe { core.machine() };
        if !thread.begun && thread.wait.is_cancelled() {
            let message = "the task was cancelled before it began";
            let exception = machine.new_exception(ExceptionClass::Cancelled, message);
            return Err(self.end(Exit::Thrown(Thrown { exception, backtrace: Vec::new() })));
        }
        Ok((NonNull::from(machine), NonNull::from(&mut **thread)))
    }

    /// The thread, if it is one of these tasks and could go on at once, in the middle of another's run.
    #[inline(always)]
    fn next(&self, core: NonNull<Core>) -> Option<NonNull<Thread>> {
        let thread = self.thread.as_deref()?;
        let can = self.core == core && (thread.begun || !thread.wait.is_cancelled());
        // SAFETY: as in `begin`.
        let ends = thread.id == ScriptTask::MAIN && unsafe { core.as_ref() }.stopped().is_some();
        (can && !ends).then(|| NonNull::from(thread))
    }

    #[inline(always)]
    fn halted(&mut self, halt: Halt, cx: &mut Context<'_>) -> Step<()> {
        // SAFETY: as in `begin`; by a task.
        let machine = unsafe { self.core.as_ref().machine() };
        let Some(thread) = &self.thread else { return Step::Done(()) };
        match halt {
            Halt::Yielded | Halt::Paused => Step::Yielded,
            Halt::Parked => {
                let deadline = thread.wait.deadline;
                match deadline.is_far_future() || cx.poll_sleep(deadline).is_pending() {
                    true => Step::Parked,
                    false => Step::Yielded,
                }
            }
            halt => {
                let exit = machine.exit(halt);
                self.end(exit)
            }
        }
    }
}

impl Tasks {
    /// Lets the running task give way to the next one, if that is a task of this machine which can go on
    /// at once: its thread.
    #[inline]
    pub(crate) fn pass_on(&mut self, parks: bool) -> Option<NonNull<Thread>> {
        let core = self.core_of_tasks();
        // SAFETY: the context is that of the resume which is under way.
        let context = unsafe { self.context()?.as_mut() };
        let mut next = None;
        context.pass_on(parks, |task: NonNull<ScriptTask>| {
            // SAFETY: it stands in the queue, and does not run.
            next = unsafe { task.as_ref() }.next(core);
            next.is_some()
        })?;
        next
    }
}

impl Drop for ScriptTask {
    fn drop(&mut self) {
        // Dropped last.
        let _kept;
        let Some(mut thread) = self.thread.take() else { return };
        // SAFETY: alive while this task is in the table, and then kept.
        let core = unsafe { self.core.as_ref() };
        core.note_stuck();
        // SAFETY: by a task that is dropped: none has the machine.
        let machine = unsafe { core.machine() };
        if thread.id == ScriptTask::MAIN {
            machine.interrupt.set_wakeup(None);
        }
        _kept = remove(machine, &mut thread);
        // Unwinds native functions that wait in the middle of it.
        drop(thread);
    }
}

impl Machine {
    /// Whether an object is an exception of this very class.
    fn is_exception(&self, exception: Word, class: ExceptionClass) -> bool {
        // SAFETY: an exception that was thrown lives.
        self.class_of(unsafe { object::type_of(exception) }) == Some(class.class())
    }
}
