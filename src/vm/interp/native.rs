//! Calls of native functions, and their calls back into the script.

use super::state::Step;
use super::thread::Nested;
use super::{Exit, Machine, Stop, dispatch, stub};
use crate::context::stack_pointer;
use crate::vm::heap::HeapFull;
use crate::vm::module::NativeImport;
use crate::vm::native::{Context, NativeBody, NativeKind, Outcome, Park, Trap, Word};
use crate::vm::types::{ExceptionClass, FunctionId, Signature};

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
}

impl LinkedNative {
    pub(super) fn new(import: &NativeImport, body: NativeBody, kind: NativeKind) -> LinkedNative {
        let signature = import.signature.clone();
        let outs = signature.params.iter().filter(|param| param.out).count();
        let window = signature.params.len().max(1 + outs);
        LinkedNative { body, kind, signature, window }
    }
}

/// `call.native`
pub(super) fn call(machine: &mut Machine) -> Step {
    if machine.heap.wants_collection() {
        machine.collect();
    }
    match invoke(machine) {
        Ok(Outcome::Done) => machine.advance(),
        Err(Trap::HeapFull(_)) => call_again(machine),
        other => finish(machine, other),
    }
}

/// The first call found the heap full.
#[cold]
fn call_again(machine: &mut Machine) -> Step {
    machine.collect();
    let result = invoke(machine);
    finish(machine, result)
}

#[cold]
fn finish(machine: &mut Machine, result: Result<Outcome, Trap>) -> Step {
    match result {
        Ok(Outcome::Done) => machine.advance(),
        Ok(Outcome::Park(park)) => {
            if park == Park::Deliver {
                machine.pc = machine.pc.wrapping_add(1);
            }
            machine.leave(Exit::Parked(park))
        }
        Err(trap) => machine.trap(trap),
    }
}

#[inline]
fn invoke(machine: &mut Machine) -> Result<Outcome, Trap> {
    let code = machine.code();
    let index = code.x() as usize;
    let locals = machine.locals.len();
    let window = machine.base.wrapping_add(usize::from(code.a()));
    let native = &machine.natives[index];
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
    machine.locals.truncate(locals);
    result
}

impl Machine {
    /// Fails as a native function did.
    #[cold]
    pub(super) fn trap(&mut self, trap: Trap) -> Step {
        match trap {
            Trap::Exception(class, message) => self.raise(class, &message),
            Trap::Thrown(0) => self.raise(ExceptionClass::NullPointer, "the exception is null"),
            Trap::Thrown(exception) => self.throw(exception),
            Trap::HeapFull(full) => self.raise_heap_full(full),
            Trap::Stop => {
                let stop = self.stopped.take().unwrap_or(Stop::Requested);
                self.leave(Exit::Stopped(stop))
            }
        }
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
        let entry = self.tables.entries[function.0 as usize];
        let (pc, base) = (self.pc, self.base_offset());
        let here = self.program.locate(pc.addr()).expect("natives are called by script functions");
        let registers = self.program.functions[here.function.0 as usize].registers as usize;
        let new = base + registers + 1;
        self.make_room(new + entry.bytes / size_of::<Word>())
            .map_err(|depth| Trap::exception(depth.to_string()))?;
        // SAFETY: the current thread is borrowed by `run`; there is room for the return address and
        // the callee's registers, which the arguments are the first of.
        unsafe {
            let thread = &mut *self.thread;
            thread.nested.push(Nested { pc, base });
            thread.words[new - 1] = stub().expose_provenance() as Word;
            thread.words[new..new + arguments.len()].copy_from_slice(arguments);
            self.base = thread.words.as_mut_ptr().wrapping_add(new);
        }
        self.pc = entry.code;
        let result = self.run_nested();
        // SAFETY: as above. The segment may have moved.
        unsafe {
            let thread = &mut *self.thread;
            thread.nested.pop();
            self.base = thread.words.as_mut_ptr().wrapping_add(base);
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
                Exit::Parked(_) => return Err(Trap::exception(CANNOT_WAIT)),
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
        let result = loop {
            // SAFETY: the caller has made a frame at the begin of a function.
            unsafe { dispatch::run(self) };
            match self.exit.take().expect("the dispatch ends with a reason") {
                Exit::Done(word) => break Ok(word),
                Exit::Yielded => self.begin_slice(),
                Exit::Paused => {
                    paused = true;
                    self.begin_slice();
                }
                Exit::Parked(_) => {
                    break Err(Trap::exception(CANNOT_WAIT));
                }
                Exit::Thrown(thrown) => break Err(Trap::Thrown(thrown.exception)),
                Exit::Stopped(stop) => {
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
