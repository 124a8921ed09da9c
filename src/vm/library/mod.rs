//! What scripts can call without writing it themselves: the built-in types' methods and the
//! packages.
//!
//! [`decl`] is the one list of them, read by the checker, the verifier and the linker. It names the
//! functions that do the work:
//!
//! | file | owns |
//! |---|---|
//! | `pattern` | signatures with type variables |
//! | `args` | arguments and results as Rust values |
//! | `list`, `dict`, `text` | methods of arrays and lists, dictionaries, strings |
//! | `io`, `fs`, `math`, `thread` | the packages; `thread` with the methods of tasks and futures |
//! | `channel`, `select`, `lock` | methods of channels; of `Select`; of mutexes and semaphores |
//! | `net`, `event` | sockets; the scheduler's loop: for the packages of these names |
//! | `streams` | standard input, output and error |
//! | `number`, `random` | numbers as text and back; MT19937 |
//! | `scripts` | the packages that are written in the language: `concurrent`, `event`, `net` |

mod args;
mod channel;
pub(crate) mod decl;
mod dict;
mod event;
mod fs;
pub(crate) mod io;
mod list;
mod lock;
mod math;
pub(crate) mod net;
pub(crate) mod number;
pub(crate) mod pattern;
mod random;
pub(crate) mod scripts;
mod select;
pub(crate) mod streams;
mod text;
mod thread;
