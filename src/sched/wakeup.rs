//! How a task without a stack is woken: by those who know that it lives, and by a [`Waker`].

use std::mem;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::cancel;
use super::carrier::Carrier;
use super::party::PartyRef;
use super::resumable::Resumable;
use super::task::{self, Task};

/// Refers to a task without counting as a reference: whoever keeps one sees to it that the task has
/// not ended when it is used. So it does not keep a deadlock from being found, as a
/// [`Thread`](crate::thread::Thread) would, by which anybody might wake the task.
///
/// One that stays on the task's carrier costs less there: see [`of`](Self::of).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup(NonNull<Task>);

// SAFETY: a task is woken from any thread; `cancel` asks for its carrier.
unsafe impl Send for Wakeup {}
// SAFETY: as above.
unsafe impl Sync for Wakeup {}

impl Wakeup {
    /// For any thread. Made on the task's carrier.
    #[inline]
    pub(crate) fn new(task: &Task) -> Wakeup {
        task.expose();
        Wakeup(NonNull::from(task))
    }

    /// Of the task that a resumable lies in. To be used on its carrier only.
    ///
    /// # Safety
    ///
    /// It lies in one, and has not been dropped.
    #[inline(always)]
    pub(crate) unsafe fn of<R: Resumable>(resumable: NonNull<R>) -> Wakeup {
        // SAFETY: the contract.
        Wakeup(unsafe { task::task_of(resumable) })
    }

    /// Resumes the task, as an unpark does.
    ///
    /// # Safety
    ///
    /// The task has not ended. On its carrier, if the reference was made by [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn wake(self) {
        // SAFETY: the contract.
        let task = unsafe { self.0.as_ref() };
        match Carrier::current() {
            // Nobody knows of it on another thread: so this is its carrier.
            Some(carrier) if task.is_private() => {
                debug_assert!(task.party.is_at_home(carrier.mailbox()));
                if task.party.waiter.unpark_here() {
                    // SAFETY: its parked wait was ended just now.
                    unsafe { carrier.make_runnable(task) };
                }
            }
            _ => task.party.unpark(),
        }
    }

    /// There is something to be seen to before the task's next turn: it is not
    /// [passed](super::resumable::Context::pass_on) that by another one.
    ///
    /// # Safety
    ///
    /// As for [`wake`](Self::wake); and the caller runs on the task's carrier.
    #[inline]
    pub(crate) unsafe fn hold(self) {
        // SAFETY: the contract.
        if let Some(stackless) = unsafe { self.0.as_ref() }.stackless() {
            stackless.ends_turn_itself();
        }
    }

    /// Cancels the task.
    ///
    /// # Safety
    ///
    /// As for [`wake`](Self::wake); and the caller runs on the task's carrier.
    pub(crate) unsafe fn cancel(self) {
        // SAFETY: the contract.
        cancel::cancel(unsafe { self.0.as_ref() });
    }
}

/// A waker that unparks, and owns the reference.
pub(super) fn waker(party: PartyRef) -> Waker {
    fn party_of(data: *const ()) -> mem::ManuallyDrop<PartyRef> {
        // SAFETY: the data of such a waker is a reference that it owns.
        mem::ManuallyDrop::new(unsafe { PartyRef::from_raw(data.cast()) })
    }
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| RawWaker::new(PartyRef::clone(&party_of(data)).into_raw().cast(), &VTABLE),
        |data| mem::ManuallyDrop::into_inner(party_of(data)).unpark(),
        |data| party_of(data).unpark(),
        |data| drop(mem::ManuallyDrop::into_inner(party_of(data))),
    );
    // SAFETY: the functions keep the contract: a waker is a counted reference, and parties are woken
    // from any thread.
    unsafe { Waker::from_raw(RawWaker::new(party.into_raw().cast(), &VTABLE)) }
}
