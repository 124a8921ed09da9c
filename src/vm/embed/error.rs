//! Why something failed.

use std::fmt;

use super::diagnostics::Diagnostics;
use super::object::Object;
use crate::vm::tasks::guest::NotRunning;
use crate::vm::types::ExceptionClass;

/// Why the host did not get what it asked for.
///
/// A [`Vm`](super::Vm) can be used again after any error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The source text is not a legal program.
    Compile(Diagnostics),
    /// The bytes are not a program that may run: not a module file, of another version, damaged, or
    /// refused by the verifier.
    Invalid(String),
    /// The program calls native functions that the host did not register, or registered with another
    /// signature.
    Unlinked(Vec<UnlinkedNative>),
    /// The program has no function that can be called like this.
    NoFunction(NoFunction),
    /// A value cannot become one of the type on the other side.
    Type {
        /// What the value was or should have been in Rust.
        rust: String,
        /// What it was or should have been in the script.
        script: String,
    },
    /// The script threw an exception that it did not catch.
    Script(ScriptError),
    /// A [`StopHandle`](super::StopHandle) ended the script.
    Stopped,
    /// The script used up its [fuel](super::Builder::fuel).
    OutOfFuel,
    /// The values passed to the script, or its constants, do not fit into the
    /// [heap](super::Builder::heap_limit).
    HeapFull,
    /// Every task of the script waits, and nobody can wake any of them.
    Deadlock(Deadlock),
    /// A channel was closed.
    Closed,
    /// The time was up first.
    TimedOut,
    /// What belongs to tasks of a machine was used while no call of that was under way; or by a plain
    /// native function, in whose call nobody else could go on.
    NotRunning,
    /// An [`Object`] belongs to another machine, or its machine is gone.
    ForeignObject,
    /// Reading or writing failed.
    Io(std::io::Error),
}

/// Tasks of a script that wait for one another, or for nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    pub(super) report: String,
}

impl fmt::Display for Deadlock {
    /// A line for each task, with where it stands and what it waits for, and one for each cycle.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock{}", self.report)
    }
}

impl Error {
    /// The error as the command `pirn` shows it, with the end of the last line: what the compiler
    /// says with lines of source, an exception with its backtrace. With ANSI colours if asked for.
    ///
    /// ```
    /// use pirn::vm::{Vm, compile};
    ///
    /// let program = compile("int main() { assert(1 > 2); return 0; }")?;
    /// let report = Vm::new(&program)?.run().unwrap_err().report(false);
    /// assert!(report.starts_with("Runtime error: AssertionException"));
    /// assert!(report.ends_with("    at main (main.n:1)\n"));
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    pub fn report(&self, colour: bool) -> String {
        let (on, off) = if colour { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        match self {
            Error::Compile(diagnostics) => diagnostics.render(colour),
            Error::Script(error) => {
                let mut text = format!("{on}Runtime error{off}: {error}\n");
                for place in &error.backtrace {
                    text.push_str(&format!("    at {place}\n"));
                }
                text
            }
            Error::Stopped | Error::OutOfFuel | Error::Deadlock(_) => {
                format!("{on}Runtime error{off}: {self}\n")
            }
            other => format!("{on}error{off}: {other}\n"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Compile(diagnostics) => f.write_str(diagnostics.to_string().trim_end()),
            Error::Invalid(why) => write!(f, "the program cannot be loaded: {why}"),
            Error::Unlinked(natives) => {
                f.write_str("the program needs native functions that the host does not have: ")?;
                for (i, native) in natives.iter().enumerate() {
                    write!(f, "{}{native}", if i > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
            Error::NoFunction(error) => error.fmt(f),
            Error::Type { rust, script } => {
                write!(f, "`{rust}` of Rust and `{script}` of the script do not correspond")
            }
            Error::Script(error) => error.fmt(f),
            Error::Stopped => f.write_str("the script was stopped"),
            Error::OutOfFuel => f.write_str("the script ran out of fuel"),
            Error::Deadlock(deadlock) => deadlock.fmt(f),
            Error::HeapFull => f.write_str("the heap of the virtual machine is full"),
            Error::Closed => f.write_str("the channel of the script is closed"),
            Error::TimedOut => f.write_str("the time was up first"),
            Error::NotRunning => f.write_str(
                "no call of the virtual machine is under way whose tasks could go on meanwhile",
            ),
            Error::ForeignObject => {
                f.write_str("the object belongs to a virtual machine that is another one or gone")
            }
            Error::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            Error::Script(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NotRunning> for Error {
    fn from(_: NotRunning) -> Error {
        Error::NotRunning
    }
}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Error {
        Error::Compile(diagnostics)
    }
}

impl From<ScriptError> for Error {
    fn from(error: ScriptError) -> Error {
        Error::Script(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Io(error)
    }
}

/// A native function that a program calls and the host does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlinkedNative {
    /// Its name as the host registers it.
    pub name: String,
    /// How the program declares it: `int (string, int)`.
    pub declared: String,
    /// How the host registered it, if it did.
    pub registered: Option<String>,
}

impl fmt::Display for UnlinkedNative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnlinkedNative { name, declared, registered } = self;
        write!(f, "`{name}` as `{declared}`")?;
        match registered {
            Some(registered) => write!(f, ", registered as `{registered}`"),
            None => f.write_str(", which is not registered"),
        }
    }
}

/// A call that fits no function of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoFunction {
    /// The name that was asked for.
    pub name: String,
    /// The arguments and the result that were asked for, as Rust types: `String (i32, &str)`.
    pub wanted: String,
    /// The functions of that name, as the program declares them. Empty if there are none.
    pub candidates: Vec<String>,
}

impl fmt::Display for NoFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoFunction { name, wanted, candidates } = self;
        if candidates.is_empty() {
            return write!(f, "the program has no function `{name}`");
        }
        write!(f, "`{name}` cannot be called as `{wanted}`: it is declared as ")?;
        for (i, candidate) in candidates.iter().enumerate() {
            write!(f, "{}`{candidate}`", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// An exception: one that a script threw and did not catch, or one that a native function of the
/// host throws into the script.
///
/// ```
/// use pirn::vm::{Error, ScriptError, Vm, compile};
///
/// let program = compile("int half(int n) { return n / 0; }")?;
/// let Err(Error::Script(error)) = Vm::new(&program)?.call::<i32>("half", (4,)) else { panic!() };
/// assert_eq!(error.class, "DivByZeroException");
/// assert!(error.backtrace[0].contains("half"));
///
/// let mine = ScriptError::new("the printer is on fire");
/// assert_eq!(mine.to_string(), "Exception: the printer is on fire");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScriptError {
    /// The name of the exception's class: `IOException`, or a script's own.
    pub class: String,
    /// Its `message`.
    pub message: String,
    /// Where it was thrown, innermost first: a line for each call. Empty in an error made by
    /// [`ScriptError::new`].
    pub backtrace: Vec<String>,
    /// The exception itself, if a script threw it: a native function that returns it throws it on.
    pub exception: Option<Object>,
}

impl ScriptError {
    /// A plain `Exception` for a native function to throw.
    pub fn new(message: impl Into<String>) -> ScriptError {
        ScriptError::of(Exception::Exception, message)
    }

    /// An exception of a built-in class.
    pub fn of(class: Exception, message: impl Into<String>) -> ScriptError {
        ScriptError {
            class: class.class().name().into(),
            message: message.into(),
            backtrace: Vec::new(),
            exception: None,
        }
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.is_empty() {
            true => f.write_str(&self.class),
            false => write!(f, "{}: {}", self.class, self.message),
        }
    }
}

impl std::error::Error for ScriptError {}

/// The built-in exception classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exception {
    /// `Exception`, from which all others derive.
    #[default]
    Exception,
    /// `NullPointerException`.
    NullPointer,
    /// `DivByZeroException`.
    DivByZero,
    /// `IndexOutOfBoundsException`.
    IndexOutOfBounds,
    /// `AssertionException`.
    Assertion,
    /// `IOException`.
    Io,
    /// `ChannelClosedException`.
    ChannelClosed,
    /// `TimeoutException`.
    Timeout,
    /// `CancelledException`.
    Cancelled,
}

impl Exception {
    pub(super) fn class(self) -> ExceptionClass {
        match self {
            Exception::Exception => ExceptionClass::Exception,
            Exception::NullPointer => ExceptionClass::NullPointer,
            Exception::DivByZero => ExceptionClass::DivByZero,
            Exception::IndexOutOfBounds => ExceptionClass::IndexOutOfBounds,
            Exception::Assertion => ExceptionClass::Assertion,
            Exception::Io => ExceptionClass::Io,
            Exception::ChannelClosed => ExceptionClass::ChannelClosed,
            Exception::Timeout => ExceptionClass::Timeout,
            Exception::Cancelled => ExceptionClass::Cancelled,
        }
    }
}
