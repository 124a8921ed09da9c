//! Native functions that the host registers: closures, with their signatures checked when a program
//! is loaded.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::call::Call;
use super::convert::{Failure, FromScript, Scope, ScriptType, ToScript, Value};
use super::error::Error;
use crate::coroutine::is_forced;
use crate::vm::heap::object;
use crate::vm::interp::Machine;
use crate::vm::native::{Context, NativeClosure, Outcome, Trap, Word};
use crate::vm::types::{ExceptionClass, Signature, TypeId, TypeTable};

/// A type that a native function can have as parameter: those of [`FromScript`], and `&str`.
pub trait Argument: Value {
    /// The same type with another lifetime.
    #[doc(hidden)]
    type Of<'a>;

    /// What stands for it on another OS thread.
    #[doc(hidden)]
    type Owned: Send + 'static;

    /// The value of an argument.
    #[doc(hidden)]
    fn get<'a>(scope: Scope<'_>, ty: TypeId, word: Word, call: &Lives<'a>) -> Got<Self::Of<'a>>;

    /// The value of an argument, to be taken to another OS thread.
    #[doc(hidden)]
    fn own(scope: Scope<'_>, ty: TypeId, word: Word) -> Got<Self::Owned>;

    /// The argument there; once.
    #[doc(hidden)]
    fn lend(owned: &mut Option<Self::Owned>) -> Self::Of<'_>;
}

/// The result of reading an argument. Not for use outside this crate.
#[doc(hidden)]
pub type Got<T> = Result<T, Failure>;

/// Stands for the lifetime of a call: as long as it is there, so are the call's arguments. Not for
/// use outside this crate.
#[doc(hidden)]
pub struct Lives<'a>(std::marker::PhantomData<&'a ()>);

impl<T: FromScript> Argument for T {
    type Of<'a> = T;

    type Owned = T;

    fn get<'a>(scope: Scope<'_>, ty: TypeId, word: Word, _: &Lives<'a>) -> Got<T> {
        T::from_word(scope, ty, word)
    }

    fn own(scope: Scope<'_>, ty: TypeId, word: Word) -> Got<T> {
        T::from_word(scope, ty, word)
    }

    fn lend(owned: &mut Option<T>) -> T {
        owned.take().expect("an argument is lent once")
    }
}

impl Argument for &str {
    type Of<'a> = &'a str;
    type Owned = String;

    fn get<'a>(_: Scope<'_>, _: TypeId, word: Word, _: &Lives<'a>) -> Got<&'a str> {
        // SAFETY: the word is of the type string. A string never moves or changes, and arguments are
        // kept alive until the call ends.
        let bytes: &'a [u8] = unsafe { object::string_bytes(word) };
        std::str::from_utf8(bytes).map_err(|_| {
            let script = "string that is not UTF-8".into();
            Failure::Error(Error::Type { rust: "&str".into(), script })
        })
    }

    fn own(scope: Scope<'_>, ty: TypeId, word: Word) -> Got<String> {
        String::from_word(scope, ty, word)
    }

    fn lend(owned: &mut Option<String>) -> &str {
        owned.as_deref().expect("an argument is there as long as the call")
    }
}

/// What a native function may return: a value, or a `Result` whose error is thrown.
///
/// [`ScriptError`](super::ScriptError) becomes the exception it describes, [`std::io::Error`] an
/// `IOException`; [`Error::Stopped`] ends the script; any other [`Error`] becomes an `Exception`.
pub trait Return {
    /// What is returned if all goes well.
    #[doc(hidden)]
    type Value: ToScript + Send + 'static;

    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Value, Error>;
}

impl<T: ToScript + Send + 'static> Return for T {
    type Value = T;

    fn into_result(self) -> Result<T, Error> {
        Ok(self)
    }
}

impl<T: ToScript + Send + 'static, E: Into<Error>> Return for Result<T, E> {
    type Value = T;

    fn into_result(self) -> Result<T, Error> {
        self.map_err(E::into)
    }
}

/// A closure that can be a native function: up to eight parameters. `Marker` is inferred.
pub trait Native<Marker>: Send + Sync + 'static {
    #[doc(hidden)]
    fn registered(self) -> Registered;

    /// To be called on the pool.
    #[doc(hidden)]
    fn registered_blocking(self) -> Registered;
}

/// A closure that can be a native function which calls back into the script: the first parameter is a
/// [`&mut Call`](Call), up to eight follow. `Marker` is inferred.
pub trait ReentrantNative<Marker>: Send + Sync + 'static {
    #[doc(hidden)]
    fn registered(self) -> Registered;
}

/// A native function without its Rust types. Not for use outside this crate.
#[doc(hidden)]
#[derive(Clone)]
pub struct Registered {
    pub(super) fits: fn(&Signature, &TypeTable) -> bool,
    pub(super) describe: fn() -> String,
    pub(super) body: NativeClosure,
}

macro_rules! natives {
    ($($arg:ident $index:literal),*) => {
        impl<F, R, $($arg),*> Native<fn($($arg),*) -> R> for F
        where
            F: Fn($($arg),*) -> R + for<'a> Fn($($arg::Of<'a>),*) -> R + Send + Sync + 'static,
            R: Return,
            $($arg: Argument,)*
        {
            fn registered(self) -> Registered {
                Registered {
                    fits: |signature, types| {
                        fits::<R>(signature, types, &[$($arg::fits),*])
                    },
                    describe: || describe::<R>(&[$($arg::describe()),*]),
                    body: Arc::new(move |cx: &mut Context<'_>| {
                        run::<R>(cx, |cx| {
                            let lives = Lives(std::marker::PhantomData);
                            let _ = (&lives, &cx);
                            $(#[allow(non_snake_case)]
                            let $arg = argument::<$arg>(cx, $index, &lives)?;)*
                            guard(cx, |_| self($($arg),*))
                        })
                    }),
                }
            }

            fn registered_blocking(self) -> Registered {
                let function = Arc::new(self);
                Registered {
                    fits: |signature, types| {
                        fits::<R>(signature, types, &[$($arg::fits),*])
                    },
                    describe: || describe::<R>(&[$($arg::describe()),*]),
                    body: Arc::new(move |cx: &mut Context<'_>| {
                        let function = function.clone();
                        $(#[allow(non_snake_case)]
                        let mut $arg = Some(owned::<$arg>(cx, $index)?);)*
                        cx.blocking(
                            move || {
                                Slot::new(catch_unwind(AssertUnwindSafe(|| {
                                    function($($arg::lend(&mut $arg)),*).into_result()
                                })))
                            },
                            finish::<R>,
                        )
                    }),
                }
            }
        }

        impl<F, R, $($arg),*> ReentrantNative<fn($($arg),*) -> R> for F
        where
            F: Fn(&mut Call<'_>, $($arg),*) -> R
                + for<'a, 'b, 'c> Fn(&'b mut Call<'c>, $($arg::Of<'a>),*) -> R
                + Send
                + Sync
                + 'static,
            R: Return,
            $($arg: Argument,)*
        {
            fn registered(self) -> Registered {
                Registered {
                    fits: |signature, types| {
                        fits::<R>(signature, types, &[$($arg::fits),*])
                    },
                    describe: || describe::<R>(&[$($arg::describe()),*]),
                    body: Arc::new(move |cx: &mut Context<'_>| {
                        run::<R>(cx, |cx| {
                            let lives = Lives(std::marker::PhantomData);
                            let _ = &lives;
                            $(#[allow(non_snake_case)]
                            let $arg = argument::<$arg>(cx, $index, &lives)?;)*
                            guard(cx, |cx| self(&mut Call::new(cx), $($arg),*))
                        })
                    }),
                }
            }
        }
    };
}

natives!();
natives!(A 0);
natives!(A 0, B 1);
natives!(A 0, B 1, C 2);
natives!(A 0, B 1, C 2, D 3);
natives!(A 0, B 1, C 2, D 3, E 4);
natives!(A 0, B 1, C 2, D 3, E 4, G 5);
natives!(A 0, B 1, C 2, D 3, E 4, G 5, H 6);
natives!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7);

fn fits<R: Return>(
    signature: &Signature,
    types: &TypeTable,
    params: &[fn(ScriptType<'_>) -> bool],
) -> bool {
    let ty = |id| ScriptType { types, id };
    signature.params.len() == params.len()
        && signature.params.iter().zip(params).all(|(param, fits)| !param.out && fits(ty(param.ty)))
        && R::Value::fits(ty(signature.result))
}

fn describe<R: Return>(params: &[String]) -> String {
    format!("fn({}) -> {}", params.join(", "), R::Value::describe())
}

fn argument<'a, A: Argument>(
    cx: &Context<'_>,
    index: usize,
    lives: &Lives<'a>,
) -> Result<A::Of<'a>, Trap> {
    let scope = Scope { heap: cx.heap(), types: cx.types(), tasks: cx.tasks() };
    let ty = cx.signature().params[index].ty;
    A::get(scope, ty, cx.word(index), lives).map_err(|failure| match failure {
        // Reading allocates nothing in the heap.
        Failure::HeapFull(_) => Trap::exception("out of memory"),
        Failure::Error(error) => trap(cx, error),
    })
}

/// An argument that goes to another OS thread.
fn owned<A: Argument>(cx: &Context<'_>, index: usize) -> Result<A::Owned, Trap> {
    let scope = Scope { heap: cx.heap(), types: cx.types(), tasks: cx.tasks() };
    let ty = cx.signature().params[index].ty;
    A::own(scope, ty, cx.word(index)).map_err(|failure| match failure {
        // Reading allocates nothing in the heap.
        Failure::HeapFull(_) => Trap::exception("out of memory"),
        Failure::Error(error) => trap(cx, error),
    })
}

/// What a closure on the pool returned, until it has become a word; or how it panicked.
struct Slot<V>(Mutex<Option<std::thread::Result<Result<V, Error>>>>);

impl<V> Slot<V> {
    fn new(result: std::thread::Result<Result<V, Error>>) -> Slot<V> {
        Slot(Mutex::new(Some(result)))
    }
}

/// Makes the result of a call of what a closure on the pool returned.
fn finish<R: Return>(cx: &mut Context<'_>, slot: &Slot<R::Value>) -> Result<Outcome, Trap> {
    let mut slot = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
    let value = match slot.take() {
        Some(Ok(Ok(value))) => value,
        Some(Ok(Err(error))) => return Err(trap(cx, error)),
        Some(Err(panic)) => {
            cx.own_state::<Panicked>().0.get_or_insert(panic);
            return Err(Trap::Stop);
        }
        None => return Err(Trap::exception("the result of a native function was lost")),
    };
    let scope = Scope { heap: cx.heap(), types: cx.types(), tasks: cx.tasks() };
    match value.to_word(scope, cx.signature().result) {
        Ok(word) => {
            cx.set_word(word);
            Ok(Outcome::Done)
        }
        Err(Failure::HeapFull(full)) => {
            *slot = Some(Ok(Ok(value)));
            Err(Trap::HeapFull(full))
        }
        Err(Failure::Error(error)) => Err(trap(cx, error)),
    }
}

/// A result for which the heap had no room: the interpreter collects and calls again, and the
/// closure must not run twice.
#[derive(Default)]
struct Kept(Option<Box<dyn Any + Send>>);

/// A panic of a native function on its way to the host.
#[derive(Default)]
pub(super) struct Panicked(pub(super) Option<Box<dyn Any + Send>>);

impl Machine {
    /// How a native function of the last call panicked, on whichever carrier.
    pub(super) fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        let mut first = None;
        while let Some(Panicked(panic)) = self.own.take() {
            first = first.or(panic);
        }
        first
    }
}

/// Gets the result of a native function and puts it into its place.
fn run<R: Return>(
    cx: &mut Context<'_>,
    call: impl FnOnce(&mut Context<'_>) -> Result<R, Trap>,
) -> Result<Outcome, Trap> {
    let kept = cx.own_state::<Kept>().0.take().and_then(|kept| kept.downcast::<R::Value>().ok());
    let first = kept.is_none();
    let value = match kept {
        Some(value) => *value,
        None => call(cx)?.into_result().map_err(|error| trap(cx, error))?,
    };
    let scope = Scope { heap: cx.heap(), types: cx.types(), tasks: cx.tasks() };
    match value.to_word(scope, cx.signature().result) {
        Ok(word) => {
            cx.set_word(word);
            Ok(Outcome::Done)
        }
        Err(Failure::HeapFull(full)) => {
            if first {
                cx.own_state::<Kept>().0 = Some(Box::new(value));
            }
            Err(Trap::HeapFull(full))
        }
        Err(Failure::Error(error)) => Err(trap(cx, error)),
    }
}

/// Calls host code. A panic stops the script, unnoticed by it, and goes on where the host called the
/// machine.
fn guard<R>(cx: &mut Context<'_>, call: impl FnOnce(&mut Context<'_>) -> R) -> Result<R, Trap> {
    let result = catch_unwind(AssertUnwindSafe(|| call(cx)));
    match result {
        Ok(value) if cx.own_state::<Panicked>().0.is_none() => Ok(value),
        // A native function further in panicked: whatever this one made of it, the script ends.
        Ok(_) => Err(Trap::Stop),
        // The native stack that the call stands on is dropped: that is no panic.
        Err(unwind) if is_forced(&*unwind) => resume_unwind(unwind),
        Err(panic) => {
            cx.own_state::<Panicked>().0.get_or_insert(panic);
            Err(Trap::Stop)
        }
    }
}

/// How a script sees an error of a native function.
fn trap(cx: &Context<'_>, error: Error) -> Trap {
    match error {
        Error::Script(error) => {
            if let Some(Ok(exception)) = error.exception.map(|object| object.word(cx.heap())) {
                return Trap::Thrown(exception);
            }
            let class = ExceptionClass::ALL.into_iter().find(|class| class.name() == error.class);
            Trap::of(class.unwrap_or(ExceptionClass::Exception), error.message)
        }
        Error::Io(error) => Trap::of(ExceptionClass::Io, error.to_string()),
        Error::Stopped | Error::OutOfFuel => Trap::Stop,
        other => Trap::exception(other.to_string()),
    }
}
