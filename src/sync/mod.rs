//! What fibers wait for together, with std's names: locks that block the fiber, not its carrier.
//!
//! Everything here works between fibers of one runtime, of several, and plain OS threads alike. The
//! owner of a lock is the fiber. Waiters are served first come, first served, by handing over: a
//! lock that somebody waits for never becomes free in between.
//!
//! What applies to every blocking call: while a panic unwinds the caller, it waits in place; when
//! the runtime ends, it unwinds; see [`pirn::thread`](crate::thread). A destructor that runs in such
//! an unwind gets what it can have at once; what it would have to wait for is an error where the
//! call can return one, and a panic where it cannot (which then aborts the process).

mod barrier;
pub mod channel;
mod condvar;
mod mutex;
mod once;
mod once_lock;
mod owned;
mod poison;
mod promise;
mod reentrant;
mod rwlock;
#[doc(hidden)]
pub mod select;
mod semaphore;
pub(crate) mod spin;
mod wait_group;
pub(crate) mod waiters;

/// A wait that cannot fail was called off, and could not unwind: there is no way to go on.
#[cold]
pub(crate) fn called_off(what: &str) -> ! {
    panic!(
        "a destructor waits for {what} while its fiber is being ended, and cannot have it any more"
    )
}

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use once::{Once, OnceState};
pub use once_lock::{LazyLock, OnceLock};
pub use owned::{OwnedMutexGuard, OwnedSemaphorePermit};
pub(crate) use promise::promise_of;
pub use promise::{
    AlreadySettled, Future, Promise, PromiseError, join_all, join_all_deadline, join_all_timeout,
    promise, select_any, select_any_deadline, select_any_timeout,
};
pub use reentrant::{ReentrantMutex, ReentrantMutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use select::{Select, SelectTimeoutError, SelectedOperation, TrySelectError};
pub use semaphore::{AcquireError, AddPermitsError, Semaphore, SemaphorePermit};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
pub use wait_group::{WaitGroup, WaitGroupGuard};
