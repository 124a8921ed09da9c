//! The virtual machine as hosts use it: the public face of [`vm`](crate::vm).
//!
//! | file | owns |
//! |---|---|
//! | `compile`, `program`, `diagnostics` | source text to programs, and what is wrong with it |
//! | `machine` | the machine and its settings |
//! | `convert`, `object` | values on both sides |
//! | `call`, `native` | calls into the script, and out of it |
//! | `channel`, `tasks` | channels of a script; its functions as tasks |
//! | `error` | why something failed |

mod call;
mod channel;
mod compile;
mod convert;
mod diagnostics;
mod error;
mod machine;
mod native;
mod object;
mod program;
mod tasks;

pub use call::{Args, Call};
pub use channel::Channel;
pub use compile::{Compiler, compile};
pub use convert::{FromScript, ToScript};
pub use diagnostics::{Diagnostic, Diagnostics};
pub use error::{Deadlock, Error, Exception, NoFunction, ScriptError, UnlinkedNative};
pub use machine::{Builder, Stats, StopHandle, Vm};
pub use native::{Argument, Native, ReentrantNative, Return};
pub use object::{Host, Object};
pub use program::Program;
pub use tasks::{Task, Tasks};
