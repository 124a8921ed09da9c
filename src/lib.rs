#![doc = include_str!("../README.md")]
#![deny(unsafe_op_in_unsafe_fn)]
// A module's prose serves those who read its source as well.
#![allow(rustdoc::private_intra_doc_links)]
#![debugger_visualizer(gdb_script_file = "../tools/gdb/pirn.py")]

mod block_on;
pub mod blocking;
pub mod context;
pub mod coroutine;
mod explore;
pub mod fs;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod io;
mod lang;
pub mod net;
pub mod process;
mod sched;
pub mod stack;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;
pub mod vm;

pub use block_on::block_on;
pub use blocking::blocking;
pub use explore::explore;
pub use sched::{
    Builder, Deadlock, FiberReport, Handle, Outstanding, Runtime, Stats, fibers, find_deadlock,
    outstanding, run, stats,
};
