//! Calls of script functions, from outside and from native functions.

use std::sync::Arc;

use super::convert::{Failure, FromScript, Scope, ScriptType, ToScript, Value};
use super::error::{Deadlock, Error, NoFunction, ScriptError};
use super::object::Object;
use crate::sched::Builder;
use crate::vm::heap::{Str, object};
use crate::vm::interp::{Exit, Machine, Stop, Thrown};
use crate::vm::module::{Function, FunctionKind};
use crate::vm::native::{Context, Trap, Word};
use crate::vm::tasks::core::{Core, End};
use crate::vm::tasks::table;
use crate::vm::types::{FunctionId, Param, Signature, Type, TypeId, TypeTable, known};

/// Arguments of a call: `()`, or a tuple of up to eight values that a script can receive.
///
/// A single argument is a tuple too: `(7,)`.
pub trait Args {
    #[doc(hidden)]
    fn fits(types: &TypeTable, params: &[Param]) -> bool;
    #[doc(hidden)]
    fn describe() -> String;
    #[doc(hidden)]
    fn to_words(&self, scope: Scope<'_>, params: &[Param]) -> Result<Vec<Word>, Failure>;
}

macro_rules! args {
    ($($arg:ident $index:tt),*) => {
        impl<$($arg: ToScript),*> Args for ($($arg,)*) {
            fn fits(types: &TypeTable, params: &[Param]) -> bool {
                let fits: &[fn(ScriptType<'_>) -> bool] = &[$($arg::fits),*];
                params.len() == fits.len()
                    && params.iter().zip(fits).all(|(param, fits)| {
                        !param.out && fits(ScriptType { types, id: param.ty })
                    })
            }

            fn describe() -> String {
                let types: &[String] = &[$($arg::describe()),*];
                types.join(", ")
            }

            fn to_words(&self, scope: Scope<'_>, params: &[Param]) -> Result<Vec<Word>, Failure> {
                let _ = (scope, params);
                Ok(vec![$(self.$index.to_word(scope, params[$index].ty)?),*])
            }
        }
    };
}

args!();
args!(A 0);
args!(A 0, B 1);
args!(A 0, B 1, C 2);
args!(A 0, B 1, C 2, D 3);
args!(A 0, B 1, C 2, D 3, E 4);
args!(A 0, B 1, C 2, D 3, E 4, F 5);
args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
args!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// The machine as a native function sees it that calls back into the script; see
/// [`Builder::reentrant`](super::Builder::reentrant).
pub struct Call<'a> {
    cx: &'a mut dyn Inner,
}

/// Hides the lifetime of the context.
trait Inner {
    fn machine(&mut self) -> &mut Machine;
    fn call_function(&mut self, function: FunctionId, words: &[Word]) -> Result<Word, Trap>;
    fn call_value(&mut self, value: Word, words: &[Word]) -> Result<Word, Trap>;
    fn write_text(&mut self, text: &mut String, word: Word) -> Result<(), Trap>;
}

impl Inner for Context<'_> {
    fn machine(&mut self) -> &mut Machine {
        Context::machine(self)
    }

    fn call_function(&mut self, function: FunctionId, words: &[Word]) -> Result<Word, Trap> {
        Context::call_function(self, function, words)
    }

    fn call_value(&mut self, value: Word, words: &[Word]) -> Result<Word, Trap> {
        Context::call(self, value, words)
    }

    fn write_text(&mut self, text: &mut String, word: Word) -> Result<(), Trap> {
        Context::write_text(self, text, word)
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(cx: &'a mut Context<'_>) -> Call<'a> {
        Call { cx }
    }

    /// Calls a function of the program: see [`Vm::call`](super::Vm::call).
    ///
    /// # Errors
    ///
    /// As there. A native function that returns the error throws the same exception on. After
    /// [`Error::Stopped`] and [`Error::OutOfFuel`] the script ends whatever the native function does.
    pub fn call<R: FromScript>(&mut self, name: &str, args: impl Args) -> Result<R, Error> {
        let machine = self.cx.machine();
        let (function, signature) = find::<R, _>(machine, name, &args)?;
        let words = arguments(machine, &args, &signature)?;
        let result = self.cx.call_function(function, &words);
        self.finish(result, signature.result)
    }

    /// Calls a function value: see [`Vm::call_value`](super::Vm::call_value).
    ///
    /// # Errors
    ///
    /// As for [`Call::call`].
    pub fn call_value<R: FromScript>(
        &mut self,
        function: &Object,
        args: impl Args,
    ) -> Result<R, Error> {
        let machine = self.cx.machine();
        let (value, signature) = function_value::<R, _>(machine, function, &args)?;
        let words = arguments(machine, &args, &signature)?;
        let result = self.cx.call_value(value, &words);
        self.finish(result, signature.result)
    }

    /// The text of an object, as `io.print` shows it.
    ///
    /// # Errors
    ///
    /// As for [`Call::call`]: a `toString` of the script may be called.
    pub fn text(&mut self, object: &Object) -> Result<String, Error> {
        let word = object.word(&self.cx.machine().heap)?;
        let mut text = String::new();
        let result = self.cx.write_text(&mut text, word);
        match result {
            Ok(()) => Ok(text),
            Err(trap) => Err(error(self.cx.machine(), trap)),
        }
    }

    /// Whether somebody asked the script to end: a native function that works for long should look,
    /// and return [`Error::Stopped`].
    pub fn stop_requested(&mut self) -> bool {
        self.cx.machine().interrupt.stop_requested()
    }

    fn finish<R: FromScript>(
        &mut self,
        result: Result<Word, Trap>,
        ty: TypeId,
    ) -> Result<R, Error> {
        match result {
            Ok(word) => take_result(self.cx.machine(), ty, word),
            Err(trap) => Err(error(self.cx.machine(), trap)),
        }
    }
}

/// Why a call failed.
pub(super) fn error(machine: &Machine, trap: Trap) -> Error {
    match trap {
        Trap::Thrown(exception) => {
            // SAFETY: an exception that was just thrown lives.
            Error::Script(unsafe { script_error(machine, exception, Vec::new()) })
        }
        Trap::Exception(class, message) => {
            let mut error = ScriptError::new(message);
            error.class = class.name().into();
            Error::Script(error)
        }
        Trap::HeapFull(_) => Error::HeapFull,
        Trap::NeedsTask => Error::Script(ScriptError::new("a call from the host cannot wait here")),
        Trap::Stop if machine.fuel() == Some(0) => Error::OutOfFuel,
        Trap::Stop => Error::Stopped,
    }
}

/// The function of a name that takes the arguments and gives the result: of the program that was
/// loaded last, if several have one.
pub(super) fn find<R: Value, A: Args>(
    machine: &Machine,
    name: &str,
    _: &A,
) -> Result<(FunctionId, Signature), Error> {
    let program = &machine.image.program;
    let mut candidates = Vec::new();
    for index in (0..program.module_count() as u32).rev() {
        let linked = program.module(index);
        let module = linked.module();
        let functions = module.functions.iter().enumerate();
        for (i, function) in
            functions.filter(|(_, f)| f.kind == FunctionKind::Free && f.name == name)
        {
            let Signature { params, result } = &function.signature;
            let ty = ScriptType { types: &module.types, id: *result };
            if !A::fits(&module.types, params) || !R::fits(ty) {
                candidates.push(declaration(function, &module.types));
                continue;
            }
            let params = params.iter().map(|p| Param { ty: linked.ty(p.ty), ..*p }).collect();
            let signature = Signature { params, result: linked.ty(*result) };
            return Ok((linked.function(FunctionId(i as u32)), signature));
        }
    }
    let wanted = format!("{} ({})", R::describe(), A::describe());
    Err(Error::NoFunction(NoFunction { name: name.into(), wanted, candidates }))
}

/// A function as a script would declare it.
pub(super) fn declaration(function: &Function, types: &TypeTable) -> String {
    format!(
        "{} {}({})",
        types.name(function.signature.result),
        function.name,
        params(&function.signature, types)
    )
}

/// The parameters of a function as a script would declare them.
pub(super) fn params(signature: &Signature, types: &TypeTable) -> String {
    let param = |p: &Param| format!("{}{}", if p.out { "out " } else { "" }, types.name(p.ty));
    signature.params.iter().map(param).collect::<Vec<_>>().join(", ")
}

/// A function value that takes the arguments and gives the result.
pub(super) fn function_value<R: Value, A: Args>(
    machine: &Machine,
    function: &Object,
    _: &A,
) -> Result<(Word, Signature), Error> {
    let value = function.word(&machine.heap)?;
    let types = &machine.image.program.types;
    let ty = function.dynamic_type(value);
    match types.get(ty) {
        Type::Func(signature)
            if A::fits(types, &signature.params)
                && R::fits(ScriptType { types, id: signature.result }) =>
        {
            Ok((value, signature.clone()))
        }
        _ => {
            let rust = format!("{} ({})", R::describe(), A::describe());
            Err(Error::Type { rust, script: types.name(ty) })
        }
    }
}

/// The words of arguments. No collection may happen until they are in a frame.
pub(super) fn arguments(
    machine: &mut Machine,
    args: &impl Args,
    signature: &Signature,
) -> Result<Vec<Word>, Error> {
    for attempt in 0.. {
        match args.to_words(scope(machine), &signature.params) {
            Ok(words) => return Ok(words),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::HeapFull(_)) if attempt == 0 => machine.collect(),
            Err(Failure::HeapFull(_)) => break,
        }
    }
    Err(Error::HeapFull)
}

pub(super) fn scope(machine: &Machine) -> Scope<'_> {
    Scope { heap: &machine.heap, types: &machine.image.program.types, tasks: &machine.tasks }
}

/// The result of a call for the host.
pub(super) fn take_result<R: FromScript>(
    machine: &Machine,
    ty: TypeId,
    word: Word,
) -> Result<R, Error> {
    R::from_word(scope(machine), ty, word).map_err(|failure| match failure {
        Failure::HeapFull(_) => Error::HeapFull,
        Failure::Error(error) => error,
    })
}

/// Runs a function to its end, and drops the tasks that it has spawned.
///
/// # Safety
///
/// By the host that owns the machine.
pub(super) unsafe fn execute(
    core: &Arc<Core>,
    function: FunctionId,
    words: &[Word],
    runtime: &Builder,
    spreads: bool,
) -> Result<Word, Error> {
    // SAFETY: the caller's promise.
    let machine = || unsafe { core.machine() };
    if machine().interrupt.stop_requested() {
        machine().interrupt.clear();
        return Err(Error::Stopped);
    }
    // SAFETY: the caller's promise.
    let end = unsafe { core.call(function, words, runtime, spreads)? };
    if let Some(panic) = machine().take_panic() {
        std::panic::resume_unwind(panic);
    }
    match end {
        End::Exit(Exit::Done(word)) => Ok(word),
        End::Exit(Exit::Thrown(thrown)) => {
            // SAFETY: the machine keeps it alive until it runs again.
            let error = unsafe { script_error(machine(), thrown.exception, thrown.backtrace) };
            Err(Error::Script(error))
        }
        End::Exit(Exit::Stopped(Stop::OutOfFuel)) => Err(Error::OutOfFuel),
        End::Exit(_) => {
            machine().interrupt.clear();
            Err(Error::Stopped)
        }
        End::Deadlock(report) => Err(Error::Deadlock(Deadlock { report })),
    }
}

/// What a host gets of the end of a task that nobody has observed.
///
/// # Safety
///
/// The exception lives.
pub(super) unsafe fn task_error(machine: &Machine, failure: &table::Failure) -> ScriptError {
    let Thrown { exception, backtrace } = &failure.thrown;
    // SAFETY: the caller's contract.
    unsafe { script_error(machine, *exception, backtrace.clone()) }
}

/// What a host gets of an exception.
///
/// # Safety
///
/// The word is the address of an exception that lives.
pub(super) unsafe fn script_error(
    machine: &Machine,
    exception: Word,
    backtrace: Vec<String>,
) -> ScriptError {
    // SAFETY: the caller's contract. Every exception has its message in slot 0.
    unsafe {
        let object = Object::new(&machine.heap, known::EXCEPTION, exception);
        let message = Str::from_word(&machine.heap, object::field(exception, 0));
        ScriptError {
            class: object.type_name_of(scope(machine), exception),
            message: message.to_text().into_owned(),
            backtrace,
            exception: Some(object),
        }
    }
}
