//! Child processes, with std's names: waiting for one, or for its pipes, blocks the fiber, not its
//! carrier.
//!
//! ```
//! use pirn::process::{Command, Stdio};
//! use pirn::thread;
//! use std::io::Write;
//!
//! # fn main() -> std::io::Result<()> {
//! pirn::run(|| {
//!     let mut child =
//!         Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
//!     let mut input = child.stdin.take().unwrap();
//!     thread::spawn(move || input.write_all(b"weft\nwarp\n"));
//!     let output = child.wait_with_output()?;
//!     assert_eq!(output.stdout, b"warp\nweft\n");
//!     assert!(output.status.success());
//!     Ok(())
//! })
//! # }
//! ```
//!
//! Types and functions stand for those of [`std::process`] with the same name. They differ in this:
//!
//! * A pipe to a child is a pipe of [`io`](crate::io): `&ChildStdout` reads, there are time limits, and
//!   no SIGPIPE.
//! * [`Child::wait`] waits, in the reactor, for a descriptor of the process (`pidfd_open`, Linux 5.3).
//!   Where the system has none, or forbids it, an OS thread waits for that child until it ends.
//!   There are [`Child::wait_timeout`], [`Child::poll_wait`], and an arm of [`select!`](crate::select).
//! * A child whose [`Child`] is dropped goes on, as with std; but it does not remain a zombie until
//!   this process ends: when it has ended, one of the next calls here that begin or drop a child waits
//!   for it.
//!
//! Spawning itself happens in place: the carrier waits until the system has begun with the other
//! program, which takes some hundred microseconds.

mod child;
mod command;
mod orphans;
mod pipes;
mod watch;

pub use std::process::{
    CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id,
};

pub use child::Child;
pub use command::Command;
pub use pipes::{ChildStderr, ChildStdin, ChildStdout};
