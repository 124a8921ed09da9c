//! A thread of the machine as a task without a stack.

use std::mem::offset_of;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

use super::core::Core;
use super::crew::Turn;
use super::future::Future;
use super::table::TASK;
use super::{Tasks, Wait};
use crate::sched::clock::Instant;
use crate::sched::resumable::Relay;
use crate::sched::spawn::{spawn_detached, spawn_movable, spawn_relaying};
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
        let machine = unsafe { core.machine() };
        let _held = machine.hold();
        task.enlist(machine);
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
        let crew = self.crew();
        let enlist = |task: &mut ScriptTask| {
            let (id, place) = task.enlist(self);
            future.belong(id, place);
        };
        let spawned = match crew {
            // SAFETY: a thread that has not begun uses no machine yet: it gets that of the carrier which
            // begins, or drops it; its future and its arguments are roots by the table.
            Some(crew) => unsafe {
                // It may be a carrier of another runtime, which a native function has made.
                crew.number_here();
                spawn_movable(Location::caller(), task, enlist)
            },
            None => spawn_detached(Location::caller(), task, enlist),
        };
        spawned.expect("tasks run on a carrier");
    }

    /// Cancels the task of a future. False: it has ended, or there is none.
    pub(crate) fn cancel(&mut self, future: Future) -> bool {
        let Some(thread) = future.place().and_then(|place| self.tasks.at(place)) else {
            return false;
        };
        // SAFETY: what is in the table is alive, in its task; it may be the running one, of which only
        // the wait is touched. We are on its carrier: by a task, or by the host between their turns; or,
        // with a crew, have the lock, as a native function does.
        unsafe {
            Wait::cancel(&raw mut (*thread.as_ptr()).wait, self.has_crew());
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
        let (machine, held) = unsafe { core.machine_held() };
        // Dropped when all else is done.
        let _kept = remove(machine, thread);
        match thread.future() {
            None => {
                machine.interrupt.set_wakeup(None);
                // Others may go on meanwhile, and collect.
                machine.tasks.keep_result(match &exit {
                    Exit::Done(word) if thread.gives_reference => *word,
                    Exit::Thrown(thrown) => thrown.exception,
                    _ => 0,
                });
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
        drop(held);
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
        // SAFETY: the contract; the core is alive while this task is in the table.
        if let Some(crew) = unsafe { (*this).core.as_ref().crew() } {
            // SAFETY: as above.
            let turn = unsafe { Turn::begin((*this).core, crew) };
            // SAFETY: the contract is passed on.
            return unsafe { ScriptTask::relay_in_crew(this, cx, &turn) };
        }
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
    /// [`relay`](Relay::relay), on one of several carriers.
    ///
    /// # Safety
    ///
    /// As there; the turn is this one.
    #[inline(never)]
    unsafe fn relay_in_crew(this: *mut Self, cx: &mut Context<'_>, turn: &Turn) -> Step<()> {
        // SAFETY: the contract; others change the wait under the lock.
        let is_cancelled = unsafe {
            let _held = turn.lock();
            !(*this).thread.begun && (*this).thread.wait.is_cancelled()
        };
        // SAFETY: as in `relay`; the turn keeps core and machine.
        unsafe {
            let (machine, thread) = match ScriptTask::begin_if(this, is_cancelled) {
                Ok(begun) => begun,
                Err(step) => return step,
            };
            debug_assert_eq!(machine, turn.machine());
            let halt = (*machine.as_ptr()).resume(thread, cx);
            let this = cx.resumable::<ScriptTask>().as_ptr();
            let held = turn.lock();
            let deadline = match halt {
                Halt::Parked => (*this).thread.wait.deadline(),
                _ => Instant::FAR_FUTURE,
            };
            drop(held);
            if halt == Halt::Yielded {
                // Those that it has spawned are among the others that have their turn first.
                cx.take_offered();
            }
            ScriptTask::halted_until(this, halt, deadline, cx)
        }
    }

    /// The machine and the thread, if it is to run.
    ///
    /// # Safety
    ///
    /// The task has not ended, and no reference to it is used.
    #[inline(always)]
    unsafe fn begin(this: *mut ScriptTask) -> Result<(NonNull<Machine>, *mut Thread), Step<()>> {
        // SAFETY: the contract; this reference ends before the task does.
        let is_cancelled = {
            let thread = unsafe { &(*this).thread };
            debug_assert!(!thread.ended);
            !thread.begun && thread.wait.is_cancelled()
        };
        // SAFETY: the contract.
        unsafe { ScriptTask::begin_if(this, is_cancelled) }
    }

    /// [`begin`](Self::begin), for one of which it is known whether it was cancelled before it began.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    unsafe fn begin_if(
        this: *mut ScriptTask,
        is_cancelled: bool,
    ) -> Result<(NonNull<Machine>, *mut Thread), Step<()>> {
        // SAFETY: the contract; the core is alive while this task is in the table: until it has ended.
        let (core, thread) = unsafe { ((*this).core.as_ref(), &raw mut (*this).thread) };
        if core.is_ending() {
            // Cancelled, and so dropped when it parks.
            return Err(Step::Parked);
        }
        // SAFETY: as above.
        let is_main = unsafe { (*thread).handle == 0 };
        if is_main && let Some(stop) = core.stopped() {
            // SAFETY: as above.
            return Err(unsafe { ScriptTask::end(this, Exit::Stopped(stop)) });
        }
        // SAFETY: by a task.
        let machine = unsafe { core.machine_here() };
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
        let deadline = match halt {
            // SAFETY: the contract.
            Halt::Parked => unsafe { (*this).thread.wait.deadline() },
            _ => Instant::FAR_FUTURE,
        };
        // SAFETY: the contract.
        unsafe { ScriptTask::halted_until(this, halt, deadline, cx) }
    }

    /// [`halted`](Self::halted), for one that waits until then, if it waits.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    unsafe fn halted_until(
        this: *mut ScriptTask,
        halt: Halt,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Step<()> {
        match halt {
            Halt::Yielded | Halt::Paused => Step::Yielded,
            Halt::Parked => {
                match deadline.is_far_future() || cx.poll_sleep(deadline).is_pending() {
                    true => Step::Parked,
                    false => Step::Yielded,
                }
            }
            Halt::Ended => Step::Done(()),
            // SAFETY: the contract; by a task.
            halt => unsafe {
                let exit = (*this).core.as_ref().machine_here().exit(halt);
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
        // SAFETY: as above.
        let turn = unsafe { core.crew().map(|crew| Turn::begin(self.core, crew)) };
        let held = turn.as_ref().and_then(Turn::lock);
        core.note_stuck();
        // SAFETY: by a task that is dropped: none has the machine.
        let machine = unsafe { core.machine_here() };
        if self.thread.is_main() {
            machine.interrupt.set_wakeup(None);
        }
        // Dropped when all else is done.
        let _kept = remove(machine, &mut self.thread);
        drop(held);
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
