//! Floor 3: tasks, and who runs when.
//!
//! A [`Runtime`] has one carrier (the thread that calls [`run`]), or several, which run *tasks*. A task is
//! a fiber, that is, a closure that gets a stack when it first runs; or a resumable, which has none
//! and runs on the carrier's. The parts, from the outside in:
//!
//! * `runtime`: settings, the life of a runtime, handles for other threads;
//! * `spawn`: how a closure becomes a task;
//! * `carrier`: the run queue, switching, waiting, the loop, the end;
//! * `task`: the record of closure and result; `fiber`: a task on a stack; `resumable`: one without, `registration`:
//!   what that waits for, `wakeup`: who wakes it;
//! * `cancel`: cancellation, time limits, shields;
//! * `word` and `wait`: the one parking primitive, `party`: whoever can wait on it, `awaiting`: futures among them, `wakes`: waking
//!   them when a lock has been given back;
//! * `queue`, `timer`, `mailbox`, `registry`, `blocks`: what a carrier is made of; `bias`: what a lock
//!   may do for it;
//! * `team`: what several carriers share, `idlers`: which of them sleep, and who wakes them;
//! * `affinity`: which CPUs carriers are pinned to;
//! * `reactor`: where a carrier waits for descriptors, `source`: a descriptor that tasks wait for;
//! * `pool`: OS threads for calls that block; `signals`: how signals of the system get to tasks;
//! * `deadlock`, `watchdog`, `hook`: reports; `stats`: counts; `fork`: what a child process may not do.

pub(crate) mod affinity;
pub(crate) mod atomic;
pub(crate) mod awaiting;
pub(crate) mod bias;
pub(crate) mod blocks;
pub(crate) mod cancel;
pub(crate) mod carrier;
pub(crate) mod clock;
mod deadlock;
mod debugger;
mod fiber;
mod foreign;
mod fork;
mod hook;
mod idlers;
mod inbox;
mod mailbox;
pub(crate) mod party;
pub(crate) mod pool;
mod queue;
mod reactor;
pub(crate) mod registration;
mod registry;
mod resource;
pub(crate) mod resumable;
mod runtime;
pub(crate) mod scope;
pub(crate) mod signals;
pub(crate) mod source;
pub(crate) mod spawn;
mod stats;
mod task;
mod team;
mod timer;
pub(crate) mod wait;
pub(crate) mod wakes;
pub(crate) mod wakeup;
mod watchdog;
mod word;

pub use cancel::Elapsed;
pub(crate) use deadlock::cycles_among;
pub use deadlock::{Deadlock, FiberReport};
pub(crate) use fiber::Waiting;
pub(crate) use mailbox::Mailbox;
pub(crate) use resource::{Resource, ResourceKind};
pub use runtime::{Builder, Handle, Runtime, run};
pub(crate) use runtime::{Errand, Shared as SharedRuntime};
pub use stats::{Outstanding, Stats, outstanding, stats};
pub use task::Cancelled;
pub(crate) use task::{Task, drop_quietly};
pub(crate) use team::Team;

use carrier::Carrier;
use clock::Instant;
use party::Party;
use wait::{Epoch, Outcome};

/// Waits until the epoch, begun by the calling party, is claimed, or the deadline passes.
///
/// On a fiber of a runtime this switches away; on an OS thread it sleeps. It never unwinds: the
/// caller puts its records in order, finishes the epoch, and calls
/// [`check_cancelled`](cancel::check_cancelled).
pub(crate) fn wait(party: &Party, epoch: Epoch, waiting: Waiting, deadline: Instant) {
    match Carrier::current() {
        Some(carrier) => carrier.wait_in_full(epoch, waiting, deadline),
        None => {
            let deadline = (!deadline.is_far_future()).then_some(deadline);
            party.waiter.block(epoch, deadline, Outcome::TimedOut);
        }
    }
}

/// [`wait`], inlined as far as it consists of a switch to another fiber.
///
/// Where fibers wait in different places, a call's return would be predicted to go where the one that
/// was left had come from. Worth its code only in what programs do all the time.
#[inline(always)]
pub(crate) fn wait_inlined(party: &Party, epoch: Epoch, waiting: Waiting, deadline: Instant) {
    match Carrier::current() {
        Some(carrier) => carrier.wait(epoch, waiting, deadline),
        None => wait(party, epoch, waiting, deadline),
    }
}

/// Lists every fiber of the calling fiber's runtime that has not ended, in the order in which they
/// were spawned; with backtraces of the suspended ones on request.
///
/// A backtrace costs some microseconds a fiber, and more when it is printed. A fiber with less than
/// 16 KiB of stack left has none. Outside a runtime the list is empty; another thread asks by way of
/// a [`Handle`]: `handle.spawn(|| pirn::fibers(true)).join()`.
///
/// ```
/// pirn::run(|| {
///     let sleeper = pirn::thread::Builder::new().name("sleeper").spawn(pirn::thread::park).unwrap();
///     pirn::thread::yield_now();
///     let fibers = pirn::fibers(false);
///     assert_eq!(fibers[1].name(), Some("sleeper"));
///     assert_eq!(fibers[1].state(), "is parked until somebody unparks it");
///     sleeper.thread().unpark();
/// });
/// ```
pub fn fibers(backtraces: bool) -> Vec<FiberReport> {
    Carrier::current().map(|carrier| deadlock::list(carrier, backtraces)).unwrap_or_default()
}

/// Looks for fibers of the calling fiber's runtime that wait for one another in a cycle, and will for
/// ever, while others go on: locks taken in opposite orders, joins in a circle.
///
/// It looks at all fibers once; a program that fears for itself may do so from time to time.
///
/// ```
/// use pirn::{sync::Mutex, thread};
///
/// pirn::run(|| {
///     static A: Mutex<()> = Mutex::new(());
///     static B: Mutex<()> = Mutex::new(());
///     let lock_both = |first: &'static Mutex<()>, second: &'static Mutex<()>| {
///         thread::spawn_local(move || {
///             let _first = first.lock();
///             thread::yield_now();
///             let _second = second.lock(); // poisoned, if the other gave in
///         })
///     };
///     let (one, other) = (lock_both(&A, &B), lock_both(&B, &A));
///     thread::yield_now();
///     thread::yield_now();
///     let stuck = pirn::find_deadlock().expect("each waits for the other");
///     assert_eq!(stuck.cycles(), [[one.thread().id(), other.thread().id()]]);
///     one.cancel(); // a way out: one of them gives in
///     assert!(other.join().is_ok());
/// });
/// ```
pub fn find_deadlock() -> Option<Deadlock> {
    Carrier::current().and_then(deadlock::partial)
}
