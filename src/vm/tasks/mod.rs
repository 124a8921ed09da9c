//! Virtual threads: the tasks of a machine on pirn's scheduler.
//!
//! | file | owns |
//! |---|---|
//! | `crew`, `common` | the machines of a call on several carriers |
//! | `core` | the machine as its tasks share it, and a call of the host from begin to end |
//! | `task` | a thread of the machine as a [`Resumable`](crate::task::Resumable) |
//! | `table` | the threads of a machine, what they are called, how they ended |
//! | `wait`, `select` | waiting: what a thread waits for, and how that ended |
//! | `queue` | its place in the queue of that |
//! | `future`, `channel`, `lock` | what is waited for, as objects of the heap |
//! | `objects` | the fields of these objects |
//! | `guest` | fibers and OS threads of the host at these queues |
//! | `report` | who waits for whom, in words |
//!
//! # One machine, many threads
//!
//! A call of the host runs a function on the caller's own stack, as long as it needs nobody else. The
//! first native function that has to (`spawn`, or anything that would wait) answers
//! [`Trap::NeedsTask`](super::native::Trap): the run ends with the thread complete in its segment, and
//! the thread goes on as a task of the caller's runtime, where the call is made again; if there is no
//! runtime, one is made for this call. So a sequential program never meets the scheduler.
//!
//! The tasks of a machine run on one carrier, one at a time, and each has the machine for as long as
//! it is resumed; or on several, each of which has a [machine](crew). The scheduler knows none of this: to it they are resumables.
//!
//! # Waiting
//!
//! A native function that has to wait [begins a wait](super::native::Context::park) and answers
//! [`Outcome::Park`](super::native::Outcome); the thread stays at the call. When the task is resumed,
//! the machine looks how the wait stands, puts the result of the call in its place, or throws, or
//! makes the call again. What the queues hold are not records of [`sync`](crate::sync), but nodes in
//! the threads themselves, for three reasons: what is handed over are words that the collector must
//! see, in a queue as well as in a frame; a waiting thread has a few hundred bytes for everything;
//! and the machine belongs to whoever runs, so no lock is needed but that of a crew. All waking is by the one parking
//! primitive: a node's thread is unparked, its timer is the task's timer.

pub(crate) mod channel;
pub(crate) mod common;
pub(crate) mod core;
pub(crate) mod crew;
pub(crate) mod future;
pub(crate) mod guest;
pub(crate) mod lock;
pub(crate) mod objects;
pub(crate) mod queue;
mod report;
pub(crate) mod select;
pub(crate) mod table;
mod task;
pub(crate) mod wait;

pub(crate) use core::Core;
pub(crate) use table::Tasks;
pub(crate) use wait::Wait;
