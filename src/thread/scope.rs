//! Fibers that borrow from their surroundings.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, Location};
use std::rc::Rc;
use std::thread::Result;

use super::{Builder, JoinHandle, Joinable, Thread, cannot_spawn};
use crate::sched::cancel::is_call_off;
use crate::sched::carrier::Carrier;
use crate::sched::scope::Tally;
use crate::sched::spawn::spawn_fiber;

/// Spawns fibers that may borrow; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    tally: Rc<Tally>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a [`Scope`], and returns when all fibers spawned in it have ended.
///
/// As [`std::thread::scope`], for fibers:
///
/// ```
/// use pirn::thread;
///
/// pirn::run(|| {
///     let mut counts = [0; 3];
///     thread::scope(|s| {
///         for (n, count) in counts.iter_mut().enumerate() {
///             s.spawn(move || *count = n + 1);
///         }
///     });
///     assert_eq!(counts, [1, 2, 3]);
/// });
/// ```
///
/// If the fiber that waits here is cancelled, or `f` is unwound because it was, the fibers of the
/// scope are cancelled as well; `scope` still waits until they have ended.
///
/// # Panics
///
/// With the payload of `f`; else with "a scoped thread panicked" if a fiber did whose handle was
/// not joined. In both cases after all have ended. Outside a runtime, and on
/// a task that is no fiber, with a message.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    assert!(
        Carrier::current().is_some(),
        "pirn::thread::scope was called outside a runtime; call it within pirn::run"
    );
    assert!(
        Carrier::current()
            .is_some_and(|own| own.current_fiber().is_some() || own.current_task().is_none()),
        "pirn::thread::scope was called in `resume`, where there is no stack to wait on for its \
         fibers; spawn a fiber that calls it"
    );
    let scope = Scope { tally: Rc::new(Tally::new()), scope: PhantomData, env: PhantomData };
    // Whatever happens in `f`, nobody may borrow from here any more when we leave.
    let result = panic::catch_unwind(AssertUnwindSafe(|| f(&scope)));
    if result.as_ref().is_err_and(|payload| is_call_off(&**payload)) {
        scope.tally.cancel();
    }
    scope.tally.wait();
    match result {
        Err(payload) => panic::resume_unwind(payload),
        Ok(_) if scope.tally.panicked() => panic!("a scoped thread panicked"),
        Ok(value) => value,
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a fiber that may borrow whatever outlives the scope.
    ///
    /// # Panics
    ///
    /// While no stack can be had; [`Builder::spawn_scoped`] returns that as an error.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        match Builder::new().spawn_scoped(self, f) {
            Ok(handle) => handle,
            Err(error) => cannot_spawn(error),
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.tally.running()).finish_non_exhaustive()
    }
}

impl Builder {
    /// Like [`spawn`](Self::spawn), for a closure that borrows from outside the scope.
    ///
    /// # Errors
    ///
    /// As for `spawn`.
    #[track_caller]
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        let request = self.request(Some(scope.tally.clone()), Location::caller());
        // SAFETY: `scope` waits until the task is counted out, which happens after its closure and
        // an unwanted result are gone; a wanted one belongs to the handle, which cannot leave.
        let task = unsafe { spawn_fiber(request, f)? };
        // SAFETY: the handle's reference, for the T that the task was made with.
        let handle = unsafe { JoinHandle::new(task) };
        Ok(ScopedJoinHandle { handle: ManuallyDrop::new(handle), tally: &scope.tally })
    }
}

/// Owns the right to the result of a fiber in a [`scope`].
///
/// Unlike std's it stays on its OS thread, as the fibers of the scope do.
pub struct ScopedJoinHandle<'scope, T> {
    handle: ManuallyDrop<JoinHandle<T>>,
    tally: &'scope Rc<Tally>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// The fiber.
    pub fn thread(&self) -> Thread {
        self.handle.thread()
    }

    /// Whether `join` would return at once.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Cancels the fiber; see [`JoinHandle::cancel`].
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Waits for the fiber to end and returns what its closure returned.
    ///
    /// # Errors
    ///
    /// The payload of its panic, which the scope then does not report again.
    pub fn join(self) -> Result<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: moved out of a scoped handle that is not dropped.
        let handle = unsafe { ManuallyDrop::take(&mut this.handle) };
        handle.join()
    }
}

impl<T> Joinable for ScopedJoinHandle<'_, T> {
    type Output = T;

    fn __handle(&self) -> &JoinHandle<T> {
        &self.handle
    }

    fn __join(self) -> Result<T> {
        self.join()
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the handle is dropped here, once.
        let handle = unsafe { ManuallyDrop::take(&mut self.handle) };
        if handle.detach() {
            self.tally.note_panic();
        }
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("thread", &self.thread()).finish_non_exhaustive()
    }
}
