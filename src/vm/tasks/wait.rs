//! Waiting: what a thread waits for, and how that ended.
//!
//! A [`Wait`] is a node in a [queue](super::queue), or several, or none but a deadline. It lies in the
//! thread that waits, or in a guest.

use std::ptr;

use super::queue::{Node, Queue, Seat, unlink};
use super::select::Arms;
use super::task::ScriptTask;
use crate::sched::clock::Instant;
use crate::sched::wakeup::Wakeup;
use crate::vm::heap::Tracer;
use crate::vm::native::{Trap, Waiting, Word};
use crate::vm::types::ExceptionClass;

/// How a wait stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no wait.
    Idle,
    /// It goes on; a wait in no queue ends at its deadline.
    Waiting,
    /// It has got what it waited for: `value` is the result of the call.
    Served,
    /// The call is to be made again: what it looks for is there.
    Again,
    /// What was waited for was closed.
    Closed,
    /// Somebody wanted it to end.
    Cancelled,
}

/// What a thread waits for, as reports say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Sleep,
    Receive,
    Send,
    Future,
    AnyFuture,
    Lock,
    Permit,
    Select,
    Job,
    /// A descriptor, in a native call that polls it.
    Connect,
    Accept,
    Read,
    Write,
}

impl What {
    /// Whether the call is made again whenever its thread is resumed.
    pub(super) fn is_polled(self) -> bool {
        matches!(self, What::Connect | What::Accept | What::Read | What::Write)
    }
}

/// What a call gives when its deadline passes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// A `TimeoutException`.
    Throws,
    /// What a call without a result gives: the time is what it waits for.
    Nothing,
    /// The `int` -1.
    MinusOne,
}
/// Who waits, and so how it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A thread that is no task: it does not wait.
    Nobody,
    /// The thread of a [`ScriptTask`], which the wait lies in.
    Task,
    /// A guest: this is the wait of a [`GuestWait`].
    Guest,
}
/// What a thread of the machine waits for. It stays where it is while it waits.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Wait {
    /// First, so that one in the [seat](Seat) of a wait is a wait.
    pub(super) node: Node,
    pub(super) rest: Rest,
}

/// What few waits have, in one word: a deadline, as an odd number; or, of a wait for several things,
/// the box with their nodes, which has the deadline then. Null: neither.
#[derive(Debug)]
pub(super) struct Rest(*mut Arms);

impl Rest {
    const NOTHING: Rest = Rest(ptr::null_mut());

    #[inline]
    fn until(deadline: Instant) -> Rest {
        if deadline.is_far_future() {
            return Rest::NOTHING;
        }
        // What is later than that does not come.
        let nanos = deadline.nanos().min(u64::MAX >> 1);
        Rest(ptr::without_provenance_mut((nanos << 1 | 1) as usize))
    }

    fn several(arms: Box<Arms>) -> Rest {
        Rest(Box::into_raw(arms))
    }

    #[inline]
    fn has_arms(&self) -> bool {
        !self.0.is_null() && self.0.addr() & 1 == 0
    }

    #[inline]
    fn arms(&self) -> Option<&Arms> {
        // SAFETY: that is a box, which this owns.
        self.has_arms().then(|| unsafe { &*self.0 })
    }

    #[inline]
    pub(super) fn arms_mut(&mut self) -> Option<&mut Arms> {
        // SAFETY: as above.
        self.has_arms().then(|| unsafe { &mut *self.0 })
    }

    #[inline]
    fn deadline(&self) -> Instant {
        match self.arms() {
            Some(arms) => arms.deadline,
            None if self.0.is_null() => Instant::FAR_FUTURE,
            None => Instant::from_nanos(self.0.addr() as u64 >> 1),
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if self.has_arms() {
            // SAFETY: as above, and it goes now.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// The wait of a guest of the machine, which is in a box of its own.
#[derive(Debug)]
#[repr(C)]
pub(super) struct GuestWait {
    /// First, so that the wait of a [guest](Whose) is one of these.
    pub(super) wait: Wait,
    wakeup: Wakeup,
}

impl GuestWait {
    /// For somebody who is woken so.
    pub(super) fn new(wakeup: Wakeup) -> GuestWait {
        let mut wait = Wait::new();
        wait.node.whose = Whose::Guest;
        GuestWait { wait, wakeup }
    }
}

impl Wait {
    pub(crate) const fn new() -> Wait {
        Wait { node: Node::new(), rest: Rest::NOTHING }
    }

    /// The thread is that of a task from now on, and lies in it.
    #[inline]
    pub(super) fn belongs_to_task(&mut self) {
        self.node.whose = Whose::Task;
    }

    /// Whether the thread is a task.
    pub(crate) fn is_of_task(&self) -> bool {
        self.node.whose == Whose::Task
    }

    /// By what somebody is woken; `None` if the thread is no task.
    ///
    /// # Safety
    ///
    /// The pointer is to all of what the wait lies in, which is alive.
    #[inline(always)]
    pub(super) unsafe fn wakeup(this: *const Wait) -> Option<Wakeup> {
        // SAFETY: the contract; `whose` says what the wait lies in.
        unsafe {
            match (*this).node.whose {
                Whose::Nobody => None,
                Whose::Task => Some(ScriptTask::wakeup_of(this)),
                Whose::Guest => Some((*this.cast::<GuestWait>()).wakeup),
            }
        }
    }

    #[inline]
    pub(crate) fn what(&self) -> What {
        self.node.what
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        self.node.state
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.node.state == State::Idle
    }

    /// Begins to wait. The wait is that of a thread, in its box: it stays where it is, and whoever
    /// ends the thread takes it [out](Self::leave).
    ///
    /// # Errors
    ///
    /// The exception of a task that has been cancelled.
    #[inline]
    pub(crate) fn park(&mut self, waiting: Waiting) -> Result<(), Trap> {
        self.begin(&waiting)?;
        if let Some(queue) = waiting.queue {
            // SAFETY: see above; the node is in no queue, since the last wait has ended.
            unsafe { queue.push((&raw mut *self).cast(), Seat::Wait) };
        }
        Ok(())
    }

    /// Waits in several queues, with what it brings into each.
    ///
    /// # Errors
    ///
    /// As for [`park`](Self::park).
    pub(crate) fn park_on_any(
        &mut self,
        waiting: &Waiting,
        arms: &[(Queue, Word, bool)],
    ) -> Result<(), Trap> {
        self.begin(waiting)?;
        // SAFETY: as in `park`.
        self.rest = Rest::several(unsafe { Arms::begin(self, arms, waiting.deadline) });
        Ok(())
    }

    #[inline]
    fn begin(&mut self, waiting: &Waiting) -> Result<(), Trap> {
        debug_assert_eq!(self.node.state, State::Idle);
        let node = &mut self.node;
        if node.cancelled {
            node.cancelled = false;
            return Err(cancelled());
        }
        (node.what, node.timeout) = (waiting.what, waiting.timeout);
        (node.value, node.reference) = (waiting.value, waiting.reference);
        node.state = State::Waiting;
        self.rest = Rest::until(waiting.deadline);
        Ok(())
    }

    /// Whether it was cancelled before it began.
    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.node.cancelled
    }

    /// Ends a wait in one place that was served: the word which its call gives. `None` if there is
    /// no such wait.
    #[inline]
    pub(crate) fn take_word(&mut self) -> Option<Word> {
        if self.node.state != State::Served || self.rest.has_arms() {
            return None;
        }
        let word = self.node.value;
        self.settle();
        Some(word)
    }

    /// The end of a wait that is in no queue.
    #[inline]
    fn settle(&mut self) {
        debug_assert!(self.node.seat == Seat::None && !self.rest.has_arms());
        self.node.object = 0;
        self.node.value = 0;
        self.node.reference = false;
        self.node.state = State::Idle;
        // Not by an assignment: there is nothing to be dropped.
        self.rest.0 = ptr::null_mut();
    }

    /// When it ends, whatever happens.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        self.rest.deadline()
    }

    /// By which of several things it has ended.
    pub(super) fn served(&self) -> u32 {
        self.rest.arms().map_or(0, |arms| arms.served)
    }

    /// Whether it ends at some instant.
    #[inline]
    pub(crate) fn has_deadline(&self) -> bool {
        !self.rest.deadline().is_far_future()
    }

    /// Whether the deadline has passed.
    pub(super) fn is_due(&self) -> bool {
        self.has_deadline() && self.rest.deadline() <= Instant::now()
    }

    /// The task has ended.
    #[inline]
    pub(super) fn end(&mut self) {
        self.leave();
        self.node.cancelled = false;
        self.node.whose = Whose::Nobody;
    }

    /// Takes the wait out of its queues, whatever has become of it.
    #[inline]
    pub(crate) fn leave(&mut self) {
        if self.node.seat != Seat::None || self.rest.has_arms() {
            self.leave_queues();
        }
        self.settle();
    }

    #[inline(never)]
    fn leave_queues(&mut self) {
        // SAFETY: queued nodes are in living objects' queues: see the module's documentation.
        unsafe {
            unlink(&mut self.node);
            if let Some(arms) = self.rest.arms_mut() {
                arms.leave();
            }
        }
        self.rest = Rest::NOTHING;
    }

    pub(crate) fn trace(&self, tracer: &mut Tracer<'_>) {
        self.node.trace(tracer);
        if let Some(arms) = self.rest.arms() {
            arms.trace(tracer);
        }
    }

    /// Wakes who waits.
    ///
    /// # Safety
    ///
    /// As for [`wakeup`](Self::wakeup); and on the carrier of the tasks.
    #[inline]
    pub(crate) unsafe fn wake(this: *const Wait) {
        // SAFETY: the contract; a task has not ended while its thread belongs to it.
        unsafe {
            if let Some(wakeup) = Wait::wakeup(this) {
                wakeup.wake();
            }
        }
    }

    /// Has the thread looked at before its next turn: whether it goes on at all.
    ///
    /// # Safety
    ///
    /// As for [`wake`](Self::wake).
    #[inline]
    pub(super) unsafe fn hold(this: *const Wait) {
        // SAFETY: as above.
        unsafe {
            if let Some(wakeup) = Wait::wakeup(this) {
                wakeup.hold();
            }
        }
    }

    /// Ends the wait, or else the next one. What comes from now on goes to the next in line.
    ///
    /// # Safety
    ///
    /// As for [`wake`](Self::wake); and no reference to the wait is used. With a crew, under its lock.
    pub(super) unsafe fn cancel(this: *mut Wait, crewed: bool) {
        // SAFETY: the contract.
        unsafe {
            match (*this).node.state {
                State::Waiting => {
                    (*this).leave();
                    (*this).node.state = State::Cancelled;
                    Wait::wake(this);
                }
                State::Cancelled => {}
                _ => {
                    (*this).node.cancelled = true;
                    // It may not have begun yet: then it does not. With a crew, it begins with a look.
                    if !crewed {
                        Wait::hold(this);
                    }
                }
            }
        }
    }
}

#[cold]
fn cancelled() -> Trap {
    Trap::of(ExceptionClass::Cancelled, "the task was cancelled")
}
