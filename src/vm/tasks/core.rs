//! The machine as its tasks share it, and a call of the host from begin to end.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use super::guest::Entrance;
use super::report;
use super::table::Failure;
use super::task;
use super::wait::{Wait, What};
use crate::sched::Builder;
use crate::sched::carrier::Carrier;
use crate::sched::wakeup::Wakeup;
use crate::thread;
use crate::vm::interp::{Exit, Machine, Stop, Thread};
use crate::vm::native::Word;
use crate::vm::types::FunctionId;

/// How a call of the host ended.
#[derive(Debug)]
pub(crate) enum End {
    Exit(Exit),
    /// Nobody could go on: who waits for what.
    Deadlock(String),
}

/// A machine, with what the tasks of the present call share.
pub(crate) struct Core {
    machine: UnsafeCell<Box<Machine>>,
    /// How the function ended that the host called.
    outcome: Cell<Option<Exit>>,
    /// Why a task was stopped: then all are.
    stopped: Cell<Option<Stop>>,
    /// The function has ended: its tasks are dropped.
    ending: Cell<bool>,
    pub(super) entrance: Entrance,
    /// Who waited for whom when the first task was dropped that could have gone on.
    stuck: RefCell<Option<String>>,
}

// SAFETY: what is in it is used by the host that owns the machine (by mutable reference, hence one at a
// time) and, while that is inside `call`, by the tasks of the call, all on the same OS thread.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(machine: Box<Machine>) -> Arc<Core> {
        Arc::new(Core {
            machine: UnsafeCell::new(machine),
            outcome: Cell::new(None),
            stopped: Cell::new(None),
            ending: Cell::new(false),
            entrance: Entrance::default(),
            stuck: RefCell::new(None),
        })
    }

    /// The machine.
    ///
    /// # Safety
    ///
    /// By the host that owns it, between calls; or by a task of the present call, on its carrier. No
    /// two of the references are used in turn, but for calls that go from one to the other.
    #[allow(clippy::mut_from_ref, reason = "exclusive by the contract")]
    pub(crate) unsafe fn machine(&self) -> &mut Machine {
        // SAFETY: the contract.
        unsafe { &mut *self.machine.get() }
    }

    /// Runs a function to its end, and drops the tasks that it has spawned.
    ///
    /// Where there is no runtime, and the function needs one, it gets one with these settings.
    ///
    /// # Errors
    ///
    /// If there is no stack for a runtime; or if tasks of an earlier call, which was unwound, are
    /// still there.
    ///
    /// # Safety
    ///
    /// By the host that owns the machine.
    pub(crate) unsafe fn call(
        self: &Arc<Core>,
        function: FunctionId,
        words: &[Word],
        runtime: &Builder,
    ) -> io::Result<End> {
        // SAFETY: the caller's promise.
        let machine = unsafe {
            self.begin()?;
            self.machine()
        };
        let _closing = Closing(&self.entrance);
        self.entrance.set_inline();
        let mut thread = machine.start(function, words);
        loop {
            match machine.run(&mut thread) {
                Exit::NeedsTask | Exit::Yielded => break,
                Exit::Paused => {}
                exit => return Ok(End::Exit(exit)),
            }
        }
        if Carrier::current().is_some() {
            return Ok(self.run_as_task(thread));
        }
        let runtime = runtime.clone().build()?;
        match runtime.run(|| self.run_as_task(thread)) {
            Ok(end) => Ok(end),
            Err(_) => Ok(End::Deadlock(self.stuck.take().unwrap_or_default())),
        }
    }

    /// Calls the host with the machine open for tasks, and drops those that it has spawned. Inside is
    /// the report of a deadlock.
    ///
    /// # Errors
    ///
    /// As for [`call`](Self::call).
    ///
    /// # Safety
    ///
    /// By the host that owns the machine.
    pub(crate) unsafe fn host<T>(
        self: &Arc<Core>,
        runtime: &Builder,
        f: impl FnOnce() -> T,
    ) -> io::Result<Result<T, String>> {
        // SAFETY: the caller's promise.
        unsafe { self.begin()? };
        let _closing = Closing(&self.entrance);
        let f = || {
            let _ending = Ending(self);
            let carrier = Carrier::current().expect("within a runtime");
            self.entrance.open(carrier);
            // SAFETY: the caller's promise.
            let machine = unsafe { self.machine() };
            // The host itself is number 0, and hears of a wish to stop where it waits for tasks.
            machine.tasks.skip_main();
            machine.interrupt.set_wakeup(carrier.current_task().map(Wakeup::new));
            f()
        };
        if Carrier::current().is_some() {
            return Ok(Ok(f()));
        }
        let runtime = runtime.clone().build()?;
        Ok(runtime.run(f).map_err(|_| self.stuck.take().unwrap_or_default()))
    }

    /// Begins a call.
    ///
    /// # Safety
    ///
    /// By the host that owns the machine.
    unsafe fn begin(self: &Arc<Core>) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let machine = unsafe { self.machine() };
        if machine.tasks.live > 0 {
            return Err(io::Error::other(
                "an earlier call of the machine was unwound, and its tasks are still being dropped",
            ));
        }
        self.outcome.set(None);
        self.stopped.set(None);
        self.ending.set(false);
        self.stuck.take();
        machine.tasks.begin(NonNull::from(&**self));
        Ok(())
    }

    /// Goes on with a thread as a task, until it has ended and the others are gone.
    fn run_as_task(self: &Arc<Core>, thread: Thread) -> End {
        let ending = Ending(self);
        self.entrance.open(Carrier::current().expect("a task runs in a runtime"));
        let joined = task::spawn_main(self, thread).join();
        drop(ending);
        if let Err(payload) = joined {
            std::panic::resume_unwind(payload);
        }
        End::Exit(self.outcome.take().expect("a task that has ended has left its outcome"))
    }

    /// What nobody has observed of the tasks that failed in the last call, by id.
    ///
    /// # Safety
    ///
    /// By the host that owns the machine.
    pub(crate) unsafe fn take_failures(&self) -> Vec<Failure> {
        // SAFETY: the caller's promise.
        unsafe { self.machine() }.tasks.take_failures()
    }

    // For the tasks.

    /// The function has ended that the host called.
    pub(super) fn begin_to_end(&self) {
        self.ending.set(true);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stopped.get()
    }

    /// A task was stopped: so are all, as soon as the first one knows.
    pub(super) fn stop(&self, stop: Stop) {
        self.stopped.set(Some(stop));
        // SAFETY: by a task.
        let machine = unsafe { self.machine() };
        for thread in machine.tasks.threads() {
            // SAFETY: what is in the table is alive, in its task, and we are on its carrier.
            unsafe {
                if thread.as_ref().is_main() {
                    let wait = &raw const (*thread.as_ptr()).wait;
                    Wait::hold(wait);
                    Wait::wake(wait);
                }
            }
        }
        self.dismiss_guests();
    }

    pub(super) fn set_outcome(&self, exit: Exit) {
        self.outcome.set(Some(exit));
    }

    /// A task is dropped that has not ended. If that is not since its call has ended, nobody could go
    /// on any more: it is noted who waits for whom while all are there.
    pub(super) fn note_stuck(&self) {
        if !self.ending.get() && self.stuck.borrow().is_none() {
            // SAFETY: by a task.
            let report = report::waiting(unsafe { self.machine() });
            self.stuck.replace(Some(report));
        }
    }

    fn end_tasks(&self) {
        self.begin_to_end();
        self.entrance.close();
        self.dismiss_guests();
        // SAFETY: by the caller of `run_as_task`; no task has the machine.
        let machine = unsafe { self.machine() };
        machine.interrupt.set_wakeup(None);
        for thread in machine.tasks.threads() {
            // SAFETY: as above; its task has not ended, and we are on its carrier.
            unsafe {
                if let Some(wakeup) = Wait::wakeup(&raw const (*thread.as_ptr()).wait) {
                    wakeup.cancel();
                }
            }
        }
        // Whoever is unwound cannot wait: they are dropped in their turn.
        if !std::thread::panicking() {
            // SAFETY: as above; nobody uses a reference across the yield.
            thread::shield(|| {
                while unsafe { self.machine() }.tasks.live > 0 {
                    thread::yield_now();
                }
            });
        }
    }
}

/// Closes the gate when a call is over.
struct Closing<'a>(&'a Entrance);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Ends the tasks of a call, whichever way it is left.
struct Ending<'a>(&'a Core);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end_tasks();
    }
}

impl What {
    /// For messages: "to receive from a channel".
    pub(crate) fn purpose(self) -> &'static str {
        match self {
            What::Sleep => "for its time to come",
            What::Receive => "to receive from a channel",
            What::Send => "to send into a channel",
            What::Future => "for a task or a promise",
            What::AnyFuture => "for one of several futures",
            What::Lock => "to lock a mutex",
            What::Permit => "for a permit of a semaphore",
            What::Select => "for one of several channels",
            What::Job => "for the operating system",
            What::Connect => "to connect",
            What::Accept => "to accept a connection",
            What::Read => "to read from a socket",
            What::Write => "to write to a socket",
        }
    }
}
