//! Calls of native functions, and their calls back into the script.
//!
//! # Windows
//!
//! A native function that may call the script runs on a native stack of its own, a *window*: a
//! coroutine that the run resumes. So when the script that it has called waits, the window is
//! suspended, the run ends as for any thread that waits, and the thread keeps the window until it is
//! resumed. A thread has one window at most: what is called further in stands on the same stack.
//!
//! ```text
//!   the run's stack     run ─► dispatch ─► call ─► resume the window …
//!   the window                                     native ─► call_function ─► dispatch ─► native …
//! ```

use super::state::Step;
use super::thread::Nested;
use super::{Exit, Halt, Machine, Stop, dispatch, stub};
use crate::context::stack_pointer;
use crate::coroutine::{self, Coroutine, CoroutineState, Suspender};
use crate::stack::bounds_at;
use crate::vm::heap::HeapFull;
use crate::vm::library::decl;
use crate::vm::module::NativeImport;
use crate::vm::native::{Context, NativeBody, NativeKind, Outcome, Trap, Word};
use crate::vm::tasks::select::Select;
use crate::vm::tasks::table::GoOn;
use crate::vm::tasks::wait::What;
use crate::vm::types::{ExceptionClass, FunctionId, Signature};

/// Bytes of a window's stack. They are address space until they are used.
const WINDOW: usize = 4 << 20;

/// Bytes of it that are left for a native function that calls nobody.
const RESERVE: usize = 256 << 10;

const CANNOT_WAIT: &str = "cannot wait inside a call from native code";

/// A native function as a program's instructions call it.
#[derive(Clone, Debug)]
pub(crate) struct LinkedNative {
    pub(crate) body: NativeBody,
    pub(crate) kind: NativeKind,
    /// With types of the program.
    pub(crate) signature: Signature,
    /// Words of the call's window: arguments, or result and outs.
    pub(crate) window: usize,
    /// It touches nothing but its arguments, and objects that guard themselves: it runs on several
    /// carriers at once.
    pub(crate) runs_beside: bool,
}

impl LinkedNative {
    pub(super) fn new(import: &NativeImport, body: NativeBody, kind: NativeKind) -> LinkedNative {
        let signature = import.signature.clone();
        let outs = signature.params.iter().filter(|param| param.out).count();
        let window = signature.params.len().max(1 + outs);
        let runs_beside = match kind {
            NativeKind::Plain => {
                matches!(body, NativeBody::Closure(_)) || decl::touches_arguments_only(&import.name)
            }
            // It waits.
            NativeKind::Blocking => false,
            NativeKind::Reentrant | NativeKind::GivesWay => true,
        };
        LinkedNative { body, kind, signature, window, runs_beside }
    }
}

/// The native stack of a thread that waits in the middle of a native function.
pub(super) struct Window {
    stack: Coroutine<(), Halt, Step>,
    suspender: *const Suspender<(), Halt>,
    stack_floor: usize,
    /// References that the native functions keep, while the thread does not run.
    pub(super) locals: Vec<Word>,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("stack", &self.stack).finish_non_exhaustive()
    }
}

/// `call.native`
pub(super) fn call(machine: &mut Machine) -> Step {
    if machine.heap.wants_collection() {
        return collect_and_call(machine);
    }
    call_by_kind(machine)
}

#[cold]
#[inline(never)]
fn collect_and_call(machine: &mut Machine) -> Step {
    machine.collect();
    call_by_kind(machine)
}

// The three ways end in a call of their own, so that giving way, which is short, saves no registers for
// the others.
#[inline(always)]
fn call_by_kind(machine: &mut Machine) -> Step {
    // SAFETY: as in `invoke_here`.
    let native = unsafe { &*machine.natives.add(machine.code().x() as usize) };
    match native.kind {
        NativeKind::GivesWay if machine.tasks.is_task() => {
            machine.advance();
            machine.give_way(Halt::Yielded)
        }
        NativeKind::Reentrant => machine.in_window(call_here),
        _ => call_here(machine),
    }
}

#[inline(never)]
fn call_here(machine: &mut Machine) -> Step {
    match invoke(machine) {
        Ok(outcome) => machine.end_call(outcome),
        Err(Trap::HeapFull(_)) => call_again(machine),
        failed => finish(machine, failed),
    }
}

/// The first call found the heap full.
#[cold]
#[inline(never)]
fn call_again(machine: &mut Machine) -> Step {
    machine.collect();
    let result = invoke(machine);
    // What a job gave is lost where it finds no room even so.
    machine.tasks.finished = None;
    finish(machine, result)
}

#[cold]
fn finish(machine: &mut Machine, result: Result<Outcome, Trap>) -> Step {
    match result {
        Ok(outcome) => machine.end_call(outcome),
        Err(trap) => machine.trap(trap),
    }
}

#[inline(always)]
fn invoke(machine: &mut Machine) -> Result<Outcome, Trap> {
    match machine.has_crew() {
        false => invoke_here(machine),
        true => invoke_in_crew(machine),
    }
}

/// [`invoke`], on one of several carriers.
#[inline(never)]
fn invoke_in_crew(machine: &mut Machine) -> Result<Outcome, Trap> {
    // SAFETY: as in `invoke_here`.
    let native = unsafe { &*machine.natives.add(machine.code().x() as usize) };
    let _held = if native.runs_beside { None } else { machine.hold() };
    invoke_here(machine)
}

#[inline(always)]
fn invoke_here(machine: &mut Machine) -> Result<Outcome, Trap> {
    let code = machine.code();
    let index = code.x() as usize;
    let locals = machine.locals.len();
    let window = machine.base.wrapping_add(usize::from(code.a()));
    debug_assert!(index < machine.image.natives.len());
    // SAFETY: linked code names natives that the program imports.
    let native = unsafe { &*machine.natives.add(index) };
    let size = native.window;
    let result = match &native.body {
        &NativeBody::Function(function) => {
            // SAFETY: the verifier has seen that the window lies in the frame.
            function(&mut unsafe { Context::new(machine, window, size, index) })
        }
        NativeBody::Closure(closure) => {
            let closure = closure.clone();
            // SAFETY: as above.
            closure(&mut unsafe { Context::new(machine, window, size, index) })
        }
    };
    if machine.locals.len() > locals {
        machine.locals.truncate(locals);
    }
    result
}

impl Machine {
    /// Goes on as a native function wants it that has not failed.
    #[inline]
    fn end_call(&mut self, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Done => self.advance(),
            Outcome::Park => self.give_way(Halt::Parked),
            Outcome::Yield => {
                self.advance();
                self.give_way(Halt::Yielded)
            }
        }
    }

    /// Fails as a native function did.
    #[cold]
    pub(super) fn trap(&mut self, trap: Trap) -> Step {
        match trap {
            Trap::Exception(class, message) => self.raise(class, &message),
            Trap::Thrown(0) => self.raise(ExceptionClass::NullPointer, "the exception is null"),
            Trap::Thrown(exception) => self.throw(exception),
            Trap::HeapFull(full) => self.raise_heap_full(full),
            Trap::NeedsTask => self.leave(Halt::NeedsTask),
            Trap::Stop => {
                let stop = self.stopped.take().unwrap_or(Stop::Requested);
                self.leave(Halt::Stopped(stop))
            }
        }
    }

    /// Does something that may call the script, on a native stack of its own.
    pub(super) fn in_window(&mut self, work: fn(&mut Machine) -> Step) -> Step {
        if !self.suspender.is_null() {
            return work(self);
        }
        // From here on the machine is used by this pointer alone, by the window as well.
        let machine = std::ptr::from_mut(self);
        let body = move |suspender: &Suspender<(), Halt>, ()| {
            // SAFETY: whoever resumes the window is in a run of the machine, and does not touch it
            // meanwhile; the machine is in a box that outlives its threads.
            unsafe {
                (*machine).suspender = suspender;
                (*machine).stack_floor = stack_floor();
                work(&mut *machine)
            }
        };
        match coroutine::Builder::new().stack_size(WINDOW).build(body) {
            Ok(stack) => {
                let suspender = std::ptr::null();
                let window = Window { stack, suspender, stack_floor: 0, locals: Vec::new() };
                // SAFETY: the machine runs a thread.
                unsafe { Machine::resume_window(machine, Box::new(window)) }
            }
            Err(error) => self.raise(
                ExceptionClass::Exception,
                &format!("no native stack for a function that calls the script: {error}"),
            ),
        }
    }

    /// Goes on in a window, until that has ended or is suspended.
    ///
    /// # Safety
    ///
    /// The machine runs the thread that the window belongs to, and is used by this pointer alone.
    unsafe fn resume_window(machine: *mut Machine, mut window: Box<Window>) -> Step {
        // SAFETY: the caller's promise. No reference to the machine is alive while the window runs,
        // which has one.
        unsafe {
            (*machine).suspender = window.suspender;
            (*machine).stack_floor = window.stack_floor;
            let state = window.stack.resume(());
            window.suspender = std::mem::replace(&mut (*machine).suspender, std::ptr::null());
            match state {
                Ok(CoroutineState::Yield(halt)) => {
                    window.stack_floor = (*machine).stack_floor;
                    // What it keeps goes with it when the run has ended.
                    (*machine).current().middle().window = Some(window);
                    (*machine).leave(halt)
                }
                Ok(CoroutineState::Return(step)) => step,
                Err(_) => unreachable!("a window that has ended is gone"),
            }
        }
    }

    /// Goes on where the thread stands: with its window, or with what it waited for. `Exit`: it does
    /// not go on, or waits again.
    #[inline]
    pub(super) fn go_on(&mut self) -> Step {
        if self.crew.is_some() {
            return self.go_on_from_wait();
        }
        let thread = self.current();
        if thread.is_ready() {
            return Step::Continue;
        }
        if thread.middle.is_none()
            && let Some(word) = thread.wait.take_word()
        {
            let a = self.code().a();
            self.set_register(a, word);
            return self.advance();
        }
        self.go_on_from_wait()
    }

    #[inline(never)]
    fn go_on_from_wait(&mut self) -> Step {
        if self.suspender.is_null()
            && let Some(window) =
                self.current().middle.as_mut().and_then(|middle| middle.window.take())
        {
            // SAFETY: the thread runs, and the machine is not used by `self` any more.
            return unsafe { Machine::resume_window(self, window) };
        }
        match self.look_at_wait() {
            GoOn::Run => Step::Continue,
            GoOn::Give(word) => {
                let a = self.code().a();
                self.set_register(a, word);
                self.advance()
            }
            GoOn::Selected(arm, received) => {
                let a = self.code().a();
                let _held = self.hold();
                // SAFETY: the thread stands at the call that waits, whose receiver is the `Select`.
                unsafe { Select::from_word(self.register(a)) }.end(arm, received);
                self.set_register(a, arm as Word);
                self.advance()
            }
            GoOn::Wait => self.leave(Halt::Parked),
            GoOn::Closed(what) => {
                let message = format!("cannot wait {}: it was closed", what.purpose());
                self.raise(ExceptionClass::ChannelClosed, &message)
            }
            GoOn::TimedOut(what) => {
                let message = format!("the time was up that was given {}", what.purpose());
                self.raise(ExceptionClass::Timeout, &message)
            }
            GoOn::Cancelled => {
                let place = self.current().place();
                self.tasks.forget_job(place);
                self.raise(ExceptionClass::Cancelled, "the task was cancelled")
            }
        }
    }

    /// How the thread's wait stands; ends it unless it goes on.
    fn look_at_wait(&mut self) -> GoOn {
        let _held = self.hold();
        match self.current().look() {
            GoOn::Wait if self.job_is_done() => GoOn::Run,
            go_on => go_on,
        }
    }

    /// Whether the thread has waited for a job that is done: then it makes its call again.
    fn job_is_done(&mut self) -> bool {
        let (what, place) = (self.current().wait.what(), self.current().place());
        let done = what == What::Job && self.tasks.has_finished(place);
        if done {
            self.current().wait.leave();
        }
        done
    }

    /// Calls a function from native code, on top of the current thread's frames.
    ///
    /// # Errors
    ///
    /// As for [`Machine::call_value`].
    pub(crate) fn call_function(
        &mut self,
        function: FunctionId,
        arguments: &[Word],
    ) -> Result<Word, Trap> {
        if self.thread.is_null() {
            return self.call_from_outside(function, arguments);
        }
        if stack_pointer() < self.stack_floor {
            return Err(Trap::exception(
                "call depth exceeded: too many native functions call the script which calls natives",
            ));
        }
        let entry = self.image.tables.entries[function.0 as usize];
        let (pc, base) = (self.pc, self.base_offset());
        let here =
            self.image.program.locate(pc.addr()).expect("natives are called by script functions");
        let registers = self.image.program.functions[here.function.0 as usize].registers as usize;
        let new = base + registers + 1;
        self.make_room(new + entry.bytes / size_of::<Word>())
            .map_err(|depth| Trap::exception(depth.to_string()))?;
        // SAFETY: the current thread is borrowed by `run`; there is room for the return address and
        // the callee's registers, which the arguments are the first of.
        unsafe {
            let thread = &mut *self.thread;
            thread.middle().nested.push(Nested { pc, base });
            let words = thread.words_mut();
            words[new - 1] = stub().expose_provenance() as Word;
            words[new..new + arguments.len()].copy_from_slice(arguments);
            self.base = thread.start().wrapping_add(new);
        }
        self.pc = entry.code;
        let result = self.run_nested();
        // SAFETY: as above. The segment may have moved.
        unsafe {
            let thread = &mut *self.thread;
            thread.middle().nested.pop();
            self.base = thread.start().wrapping_add(base);
        }
        self.pc = pc;
        result
    }

    /// Calls a function where no thread runs, on a thread of its own.
    fn call_from_outside(
        &mut self,
        function: FunctionId,
        arguments: &[Word],
    ) -> Result<Word, Trap> {
        let mut thread = self.start(function, arguments);
        loop {
            match self.run(&mut thread) {
                Exit::Done(word) => return Ok(word),
                Exit::Yielded | Exit::Paused => {}
                Exit::Parked | Exit::NeedsTask => return Err(Trap::exception(CANNOT_WAIT)),
                Exit::Thrown(thrown) => return Err(Trap::Thrown(thrown.exception)),
                Exit::Stopped(stop) => {
                    self.stopped = Some(stop);
                    return Err(Trap::Stop);
                }
            }
        }
    }

    fn run_nested(&mut self) -> Result<Word, Trap> {
        let mut paused = false;
        let mut step = Step::Continue;
        let result = loop {
            if step == Step::Continue {
                // SAFETY: the caller has made a frame at the begin of a function, and whatever
                // interrupts that leaves the thread between two instructions.
                unsafe { dispatch::run(self) };
            }
            match self.halt {
                Halt::Done => break Ok(self.operand),
                Halt::Ended => unreachable!("tasks do not end below native functions"),
                halt @ (Halt::Yielded | Halt::Parked | Halt::NeedsTask)
                    if !self.suspender.is_null() =>
                {
                    // SAFETY: the window that runs was lent this suspender.
                    unsafe { &*self.suspender }.suspend(halt);
                    step = self.go_on();
                }
                Halt::Yielded => self.begin_slice(),
                Halt::Paused => {
                    paused = true;
                    self.begin_slice();
                }
                Halt::Parked | Halt::NeedsTask => break Err(Trap::exception(CANNOT_WAIT)),
                Halt::Thrown => {
                    let thrown = self.last_thrown.as_ref().expect("it was thrown just now");
                    break Err(Trap::Thrown(thrown.exception));
                }
                Halt::Stopped(stop) => {
                    self.stopped = Some(stop);
                    break Err(Trap::Stop);
                }
            }
        };
        if paused {
            // The outer run gets to know when the native has returned.
            self.interrupt.pause();
        }
        result
    }
}

impl From<HeapFull> for Trap {
    fn from(full: HeapFull) -> Trap {
        Trap::HeapFull(full)
    }
}

/// How far down the present native stack native functions may call the script.
fn stack_floor() -> usize {
    let here = stack_pointer();
    let start = bounds_at(here).map_or(here, |bounds| bounds.start);
    start + RESERVE.min((here - start.min(here)) / 2)
}
