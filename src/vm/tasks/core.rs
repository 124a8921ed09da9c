//! The machine as its tasks share it, and a call of the host from begin to end.

use std::cell::{Cell, UnsafeCell};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::crew::{Crew, Held};
use super::guest::Entrance;
use super::report;
use super::table::Failure;
use super::task;
use super::wait::{Wait, What};
use crate::sched::carrier::Carrier;
use crate::sched::wakeup::Wakeup;
use crate::sched::{Builder, Team};
use crate::thread;
use crate::vm::interp::{Exit, Machine, Stop, Thread};
use crate::vm::native::Word;
use crate::vm::types::{FunctionId, known};

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
    /// The carriers on which the present call runs, if these are several.
    crew: UnsafeCell<Option<Arc<Crew>>>,
    /// How the function ended that the host called.
    outcome: Cell<Option<Exit>>,
    /// Why a task was stopped: then all are.
    stopped: AtomicU8,
    /// The function has ended: its tasks are dropped.
    ending: AtomicBool,
    pub(super) entrance: Entrance,
    /// Who waited for whom when the first task was dropped that could have gone on.
    stuck: Mutex<Option<String>>,
}

// SAFETY: what is in it is used by the host that owns the machine (by mutable reference, hence one at a
// time) and, while that is inside `call`, by the tasks of the call, all on the same OS thread; or, with a
// crew, by those of the host's carrier, and what others use is atomic or under a lock. The crew itself is
// changed while there are no tasks.
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
            crew: UnsafeCell::new(None),
            outcome: Cell::new(None),
            stopped: AtomicU8::new(0),
            ending: AtomicBool::new(false),
            entrance: Entrance::default(),
            stuck: Mutex::new(None),
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
    /// Where there is no runtime, and the function needs one, it gets one with these settings. If
    /// `spreads`, its tasks run on all carriers of the runtime.
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
        spreads: bool,
    ) -> io::Result<End> {
        // SAFETY: the caller's promise.
        let machine = unsafe {
            self.begin()?;
            self.machine()
        };
        let _closing = Closing(&self.entrance);
        self.entrance.set_inline();
        let mut thread = machine.start(function, words);
        let program = &machine.image.program;
        let result = program.source(function).signature.result;
        thread.gives_reference = result != known::VOID && program.types.is_reference(result);
        loop {
            match machine.run(&mut thread) {
                Exit::NeedsTask | Exit::Yielded => break,
                Exit::Paused => {}
                exit => return Ok(End::Exit(exit)),
            }
        }
        if Carrier::current().is_some() {
            return Ok(self.run_as_task(thread, spreads));
        }
        let runtime = runtime.clone().build()?;
        match runtime.run(|| self.run_as_task(thread, spreads)) {
            Ok(end) => Ok(end),
            Err(_) => {
                // SAFETY: the caller's promise; all carriers have ended.
                unsafe { self.dissolve_crew()? };
                Ok(End::Deadlock(self.stuck().take().unwrap_or_default()))
            }
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
        Ok(runtime.run(f).map_err(|_| self.stuck().take().unwrap_or_default()))
    }

    /// Begins a call.
    ///
    /// # Safety
    ///
    /// By the host that owns the machine.
    unsafe fn begin(self: &Arc<Core>) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let machine = unsafe {
            self.dissolve_crew()?;
            self.machine()
        };
        if machine.tasks.table.live > 0 {
            return Err(unwound());
        }
        self.outcome.set(None);
        // Relaxed, here and below: nothing is handed over along with these.
        self.stopped.store(0, Ordering::Relaxed);
        self.ending.store(false, Ordering::Relaxed);
        self.stuck().take();
        machine.tasks.begin(NonNull::from(&**self));
        Ok(())
    }

    /// Goes on with a thread as a task, until it has ended and the others are gone.
    fn run_as_task(self: &Arc<Core>, thread: Thread, spreads: bool) -> End {
        let carrier = Carrier::current().expect("a task runs in a runtime");
        if spreads && let Some(team) = carrier.shared.team() {
            // SAFETY: by the host; there are no tasks yet, and the machine does not run.
            unsafe {
                let crew = Crew::new(self.machine(), team.len(), carrier);
                *self.crew.get() = Some(crew);
            }
        }
        let ending = Ending(self);
        self.entrance.open(carrier);
        let joined = task::spawn_main(self, thread).join();
        drop(ending);
        if let Err(payload) = joined {
            std::panic::resume_unwind(payload);
        }
        End::Exit(self.outcome.take().expect("a task that has ended has left its outcome"))
    }

    /// Takes the crew apart that a call had, if there is one still.
    ///
    /// # Errors
    ///
    /// If that call was unwound, and its tasks are still there.
    ///
    /// # Safety
    ///
    /// By the host that owns the machine, or at the end of a call.
    pub(crate) unsafe fn dissolve_crew(&self) -> io::Result<()> {
        // SAFETY: the contract: tasks look at it, of which there are none, or else nothing is changed.
        let place = unsafe { &mut *self.crew.get() };
        let Some(crew) = place.as_mut() else { return Ok(()) };
        // SAFETY: the contract; the table is looked at under the lock.
        let machine = unsafe { self.machine() };
        let live = {
            let _held = machine.hold();
            machine.tasks.table.live
        };
        // Each turn has a share: when they are gone, nobody uses a machine.
        if live > 0 || Arc::get_mut(crew).is_none() {
            return Err(unwound());
        }
        if let Some(crew) = place.take().and_then(Arc::into_inner) {
            // SAFETY: it was made with this machine; nobody else has it.
            unsafe { crew.dissolve(machine) };
        }
        Ok(())
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
        self.ending.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn stopped(&self) -> Option<Stop> {
        match self.stopped.load(Ordering::Relaxed) {
            0 => None,
            REQUESTED => Some(Stop::Requested),
            _ => Some(Stop::OutOfFuel),
        }
    }

    /// The crew of the present call.
    ///
    /// # Safety
    ///
    /// By a task of the call.
    #[inline(always)]
    pub(super) unsafe fn crew(&self) -> Option<&Arc<Crew>> {
        // SAFETY: it is changed while there are no tasks.
        unsafe { (*self.crew.get()).as_ref() }
    }

    /// The machine of the calling carrier.
    ///
    /// # Safety
    ///
    /// By a task of the call, on its carrier; else as for [`machine`](Self::machine).
    #[allow(clippy::mut_from_ref, reason = "exclusive by the contract")]
    #[inline(always)]
    pub(super) unsafe fn machine_here(&self) -> &mut Machine {
        // SAFETY: the contract.
        unsafe {
            match self.crew() {
                Some(crew) => &mut *crew.machine_here().as_ptr(),
                None => self.machine(),
            }
        }
    }

    /// [`machine_here`](Self::machine_here), with the lock of the crew, if there is one.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "exclusive by the contract")]
    pub(super) unsafe fn machine_held(&self) -> (&mut Machine, Option<Held<'_>>) {
        // SAFETY: the contract.
        unsafe {
            match self.crew() {
                None => (self.machine(), None),
                Some(crew) => (&mut *crew.machine_here().as_ptr(), crew.lock(crew.number_here())),
            }
        }
    }

    fn stuck(&self) -> MutexGuard<'_, Option<String>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task was stopped: so are all, as soon as the first one knows.
    pub(super) fn stop(&self, stop: Stop) {
        let code = if stop == Stop::Requested { REQUESTED } else { OUT_OF_FUEL };
        self.stopped.store(code, Ordering::Relaxed);
        // SAFETY: by a task.
        let machine = unsafe { self.machine_here() };
        let _held = machine.hold();
        for thread in machine.tasks.threads() {
            // SAFETY: what is in the table is alive, in its task, and we are on its carrier.
            unsafe {
                if thread.as_ref().is_main() {
                    let wait = &raw const (*thread.as_ptr()).wait;
                    // With a crew, nobody goes on without a look who was asked to stop.
                    if !machine.has_crew() {
                        Wait::hold(wait);
                    }
                    Wait::wake(wait);
                }
            }
        }
        // A crew has none.
        if !machine.has_crew() {
            self.dismiss_guests();
        }
    }

    pub(super) fn set_outcome(&self, exit: Exit) {
        self.outcome.set(Some(exit));
    }

    /// A task is dropped that has not ended. If that is not since its call has ended, nobody could go
    /// on any more: it is noted who waits for whom while all are there.
    pub(super) fn note_stuck(&self) {
        let mut stuck = self.stuck();
        // With a crew, where a thread stands is looked at only when none runs any more.
        let stands_still =
            || Carrier::current().and_then(|it| it.shared.team()).is_none_or(Team::was_found_stuck);
        // SAFETY: by a task.
        let has_crew = unsafe { self.crew() }.is_some();
        if !self.is_ending() && stuck.is_none() && (!has_crew || stands_still()) {
            // SAFETY: by a task.
            *stuck = Some(report::waiting(unsafe { self.machine_here() }));
        }
    }

    fn end_tasks(&self) {
        self.begin_to_end();
        self.entrance.close();
        self.dismiss_guests();
        // SAFETY: by the caller of `run_as_task`; no task has the machine.
        let machine = unsafe { self.machine() };
        machine.interrupt.set_wakeup(None);
        let held = machine.hold();
        for thread in machine.tasks.threads() {
            // SAFETY: as above; its task has not ended: it would take itself out first.
            unsafe {
                if let Some(wakeup) = Wait::wakeup(&raw const (*thread.as_ptr()).wait) {
                    wakeup.cancel();
                }
            }
        }
        drop(held);
        if let Some(carrier) = Carrier::current() {
            // Those that have not begun, and never will.
            carrier.take_all_offered();
        }
        // Whoever is unwound cannot wait: they are dropped in their turn.
        if !std::thread::panicking() {
            // SAFETY: as above; nobody uses a reference across the yield.
            thread::shield(|| {
                loop {
                    let machine = unsafe { self.machine() };
                    let held = machine.hold();
                    let live = machine.tasks.table.live;
                    drop(held);
                    if live == 0 && unsafe { self.dissolve_crew() }.is_ok() {
                        break;
                    }
                    thread::yield_now();
                }
            });
        }
    }
}

const REQUESTED: u8 = 1;
const OUT_OF_FUEL: u8 = 2;

fn unwound() -> io::Error {
    io::Error::other(
        "an earlier call of the machine was unwound, and its tasks are still being dropped",
    )
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: nobody has it any more, so there are no tasks, and no turn that would keep it.
        let _ = unsafe { self.dissolve_crew() };
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
