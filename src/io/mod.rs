//! Pipes, standard input and output, and signals: waiting for them blocks the fiber, not its carrier.
//!
//! ```
//! use pirn::{io, thread};
//! use std::io::{Read, Write};
//!
//! pirn::run(|| {
//!     let (mut reader, mut writer) = io::pipe()?;
//!     let copy = thread::spawn(move || {
//!         let mut text = String::new();
//!         reader.read_to_string(&mut text).map(|_| text)
//!     });
//!     writer.write_all(b"thread by thread")?;
//!     drop(writer);
//!     assert_eq!(copy.join().unwrap()?, "thread by thread");
//!     Ok::<(), std::io::Error>(())
//! }).unwrap();
//! ```
//!
//! What [`net`](crate::net) says of sockets holds here: how a call waits, who may call, virtual time.
//! Children and their pipes are in [`process`](crate::process), files in [`fs`](crate::fs). The traits
//! for reading and writing are std's.

pub(crate) mod descriptor;
pub(crate) mod end;
mod pipe;
mod signal;
mod signals;
mod stdin;
mod stdout;
mod stream;

pub use pipe::{PipeReader, PipeWriter, pipe};
pub use signal::Signal;
pub use signals::{Signals, SignalsIter, signals};
pub use stdin::{Stdin, StdinLock, stdin};
pub use stdout::{Stderr, StderrLock, Stdout, StdoutLock, stderr, stdout};
