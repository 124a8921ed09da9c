//! Functions of a script as tasks that the host spawns.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::call::{self, Args};
use super::convert::FromScript;
use super::error::{Deadlock, Error};
use super::machine::Vm;
use super::object::Object;
use crate::sched::clock::Instant;
use crate::vm::interp::{Machine, Started, Stop};
use crate::vm::native::{Trap, Waiting, Word};
use crate::vm::tasks::Core;
use crate::vm::tasks::future::{Future, Status};
use crate::vm::tasks::guest::{Pass, Visit, Way};
use crate::vm::tasks::wait::What;
use crate::vm::types::{Opaque, Signature, Type, TypeId, known};

/// A machine that is open for tasks: see [`Vm::with_tasks`].
pub struct Tasks {
    core: Arc<Core>,
    /// It stays on the carrier of the tasks.
    stays: PhantomData<*mut ()>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

impl Vm {
    /// Calls a closure that may call functions of the script as tasks, which run beside it and beside
    /// one another: on the caller's runtime, or on one that is made for this. When the closure
    /// returns, tasks that have not ended are dropped.
    ///
    /// ```
    /// use pirn::vm::{Vm, compile};
    ///
    /// let program = compile("import thread; int slow(int n) { thread.sleep(n); return n * n; }")?;
    /// let mut vm = Vm::new(&program)?;
    /// let sum = vm.with_tasks(|tasks| {
    ///     let squares: Vec<_> = (1..=3).map(|n| tasks.spawn::<i32>("slow", (n,))).collect();
    ///     squares.into_iter().map(|square| square?.get()).sum::<Result<i32, _>>()
    /// })??;
    /// assert_eq!(sum, 14);
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Deadlock`] if the closure waits for tasks, and none can go on; [`Error::Stopped`] if
    /// that was asked for before. [`Error::Io`] if what the tasks printed cannot be written.
    ///
    /// # Panics
    ///
    /// If a native function of the host does in a task: the panic goes on here.
    pub fn with_tasks<T>(&mut self, f: impl FnOnce(&Tasks) -> T) -> Result<T, Error> {
        let core = self.core().clone();
        let tasks = Tasks { core: core.clone(), stays: PhantomData };
        // SAFETY: we own the machine.
        let result = unsafe {
            if core.machine().interrupt.stop_requested() {
                core.machine().interrupt.clear();
                return Err(Error::Stopped);
            }
            let result = core.host(self.runtime_settings(), || f(&tasks))?;
            if core.stopped().is_some() {
                core.machine().interrupt.clear();
            }
            if let Some(panic) = core.machine().take_panic() {
                std::panic::resume_unwind(panic);
            }
            result
        };
        self.end_of_call()?;
        result.map_err(|report| Error::Deadlock(Deadlock { report }))
    }
}

impl Tasks {
    /// Spawns a task that calls a function by its name: see [`Vm::call`].
    ///
    /// # Errors
    ///
    /// Those of [`Vm::call`] that concern the function and the arguments.
    pub fn spawn<R: FromScript>(&self, name: &str, args: impl Args) -> Result<Task<R>, Error> {
        let machine = self.machine();
        let (function, signature) = call::find::<R, _>(machine, name, &args)?;
        let words = call::arguments(machine, &args, &signature)?;
        self.start(signature.result, |machine| {
            Ok(Started::Thread(machine.prepare(function, &words)))
        })
    }

    /// Spawns a task that calls a function value: see [`Vm::call_value`].
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_value<R: FromScript>(&self, function: &Object) -> Result<Task<R>, Error> {
        let machine = self.machine();
        let (value, Signature { result, .. }) =
            call::function_value::<R, _>(machine, function, &())?;
        self.start(result, |machine| machine.start_value(value))
    }

    #[allow(clippy::mut_from_ref, reason = "exclusive by the contract of the core")]
    fn machine(&self) -> &mut Machine {
        // SAFETY: inside `with_tasks`, on its carrier; no task has the machine, or it is a native
        // function of one that does this.
        unsafe { self.core.machine() }
    }

    fn start<R>(
        &self,
        result: TypeId,
        start: impl FnOnce(&mut Machine) -> Result<Started, Trap>,
    ) -> Result<Task<R>, Error> {
        let machine = self.machine();
        let references = result != known::VOID && machine.image.program.types.is_reference(result);
        let ty = match result {
            known::VOID => machine.define(Type::Opaque(Opaque::Thread)),
            of => machine.define(Type::Future(of)),
        };
        let of = machine.image.program.types.find(&match result {
            known::VOID => Type::Opaque(Opaque::Thread),
            of => Type::Future(of),
        });
        // SAFETY: a type of threads or futures.
        let future = unsafe { Future::new(&machine.heap, ty) }.map_err(|_| Error::HeapFull)?;
        match start(machine).map_err(|trap| call::error(machine, trap))? {
            Started::Thread(begin) => machine.spawn(begin, future, references),
            Started::Done(word) => future.complete(word, references),
        }
        // SAFETY: a new object of this type.
        let object = unsafe { Object::new(&machine.heap, of.unwrap_or(result), future.word()) };
        Ok(Task { object, pass: Pass::new(&self.core), result, marker: PhantomData })
    }
}

/// A task of a script that the host has spawned. Dropping it does not end the task.
///
/// It may be sent to other fibers and OS threads.
pub struct Task<R> {
    object: Object,
    pass: Pass,
    /// What it returns, as the script calls it.
    result: TypeId,
    marker: PhantomData<fn() -> R>,
}

impl<R> Clone for Task<R> {
    fn clone(&self) -> Task<R> {
        Task {
            object: self.object.clone(),
            pass: self.pass.clone(),
            result: self.result,
            marker: PhantomData,
        }
    }
}

impl<R> fmt::Debug for Task<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.object).finish()
    }
}

impl<R: FromScript + Send + 'static> Task<R> {
    /// Waits for the task to end, and gives what it returned; as often as one likes.
    ///
    /// # Errors
    ///
    /// [`Error::Script`] if it threw; [`Error::Stopped`], [`Error::OutOfFuel`]; [`Error::NotRunning`]
    /// after the end of [`Vm::with_tasks`].
    pub fn get(&self) -> Result<R, Error> {
        self.at_home(|task, core| task.get_here(core, Instant::FAR_FUTURE))
    }

    /// As [`get`](Self::get), for so long at most.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]; else as there.
    pub fn get_timeout(&self, duration: Duration) -> Result<R, Error> {
        let deadline = Instant::now().checked_add(duration).unwrap_or(Instant::FAR_FUTURE);
        self.at_home(move |task, core| task.get_here(core, deadline))
    }

    /// Whether it has ended.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`].
    pub fn is_done(&self) -> Result<bool, Error> {
        self.at_home(|task, core| Ok(task.future(core)?.is_settled()))
    }

    /// Throws a `CancelledException` into the task where it waits, or comes to wait next.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`].
    pub fn cancel(&self) -> Result<(), Error> {
        self.at_home(|task, core| {
            let future = task.future(core)?;
            // SAFETY: as in `future`.
            unsafe { core.machine() }.cancel(future);
            Ok(())
        })
    }

    fn at_home<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Task<R>, &Core) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let core = self.pass.core()?;
        match core.way()? {
            Way::Here => f(self, &core),
            Way::There(handle) => {
                let task = self.clone();
                handle
                    .spawn(move || f(&task, &*task.pass.core()?))
                    .join()
                    .unwrap_or(Err(Error::NotRunning))
            }
        }
    }

    // On the carrier of the machine's tasks.

    fn future(&self, core: &Core) -> Result<Future, Error> {
        // SAFETY: a call is under way on this carrier; no task runs meanwhile, or it is a task's
        // native function that does this.
        let machine = unsafe { core.machine() };
        let word = self.object.word(&machine.heap)?;
        // SAFETY: the handle keeps the future alive.
        Ok(unsafe { Future::from_word(word) })
    }

    fn get_here(&self, core: &Core, deadline: Instant) -> Result<R, Error> {
        loop {
            let future = self.future(core)?;
            // SAFETY: as in `future`.
            let machine = unsafe { core.machine() };
            match future.status() {
                Status::Done(word) => return call::take_result(machine, self.result, word),
                Status::Failed(exception) => return Err(self.failure(machine, future, exception)),
                Status::Pending => {}
            }
            let waiting = Waiting::on(What::Future, future.queue()).until(deadline);
            // SAFETY: we are on the carrier, and have not waited since the last look.
            match unsafe { core.visit(waiting) } {
                Ok(Visit::TimedOut) => return Err(Error::TimedOut),
                Ok(_) => {}
                Err(_) => {
                    return Err(match core.stopped() {
                        Some(Stop::Requested) => Error::Stopped,
                        Some(Stop::OutOfFuel) => Error::OutOfFuel,
                        None => Error::NotRunning,
                    });
                }
            }
        }
    }

    fn failure(&self, machine: &mut Machine, future: Future, exception: Word) -> Error {
        machine.tasks.observe(future);
        let backtrace = machine.tasks.origin(exception).unwrap_or_default().to_vec();
        // SAFETY: the future keeps its exception alive.
        Error::Script(unsafe { call::script_error(machine, exception, backtrace) })
    }
}
