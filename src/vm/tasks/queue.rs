//! Waiting: a thread's place in the queue of what it waits for, and how the wait ended.
//!
//! A queue is a field of an object, the address of its first [`Node`]; the node before that is the last
//! one. A node lies in the thread that waits, so waiting allocates nothing, and names its queue by object and field,
//! so it can be taken out by whoever ends the thread. The object is a root for as long as the thread
//! waits: the queue of a parked thread is never collected.
//!
//! ```text
//!   Channel | header | … | receivers ─┐ | …
//!                                     ▼
//!              ┌──► Node in a thread ◄──► Node in a thread ◄──┐
//!              └──────────────── previous ───────────────────►┘
//! ```
//!
//! All of it belongs to the machine: who touches a queue has the machine, so there are no locks. A
//! notifier takes a node out, says in it how the wait ended, and wakes the thread; what it hands over
//! lies in the node until the thread goes on. A timeout or a cancellation finds the node still queued.
//! So exactly one of them ends a wait.

use std::ptr;

use super::select::Arms;
use super::task::ScriptTask;
use crate::sched::clock::Instant;
use crate::sched::resumable::Wakeup;
use crate::vm::heap::{Tracer, object};
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
    /// What was waited for failed: `value` is the exception.
    #[allow(dead_code, reason = "for waits that can fail")]
    Failed,
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

/// Whose node it is that a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// It is in no queue.
    None,
    /// The node of a [`Wait`].
    Wait,
    /// That of an [`Arm`].
    Arm,
}

/// A place in a queue, and the small things of a wait, which share its last word.
#[derive(Debug)]
pub(crate) struct Node {
    /// Null in the last one.
    next: *mut Node,
    /// In the first one the last one.
    previous: *mut Node,
    /// The object with the queue; 0 while there is none.
    object: Word,
    /// What is handed over, in either direction.
    pub(super) value: Word,
    /// The field that is the queue.
    slot: u8,
    seat: Seat,
    /// Whether `value` is a reference.
    pub(super) reference: bool,
    pub(super) state: State,
    pub(super) what: What,
    pub(super) timeout: Timeout,
    /// Somebody wants the thread to end: it is told at its next wait.
    cancelled: bool,
    whose: Whose,
}

/// Who waits, and so how it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// A thread that is no task: it does not wait.
    Nobody,
    /// The thread of a [`ScriptTask`], which the wait lies in.
    Task,
    /// A guest: this is the wait of a [`GuestWait`].
    Guest,
}

/// One of several places of a wait.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Arm {
    /// First, so that one in the [seat](Seat) of an arm is an arm.
    pub(super) node: Node,
    owner: *mut Wait,
    index: u32,
}

impl Arm {
    /// The arm of a wait with this index, with what it brings.
    pub(super) fn new(owner: *mut Wait, index: usize, value: Word, reference: bool) -> Arm {
        let node = Node { value, reference, state: State::Waiting, ..Node::new() };
        Arm { node, owner, index: index as u32 }
    }
}

impl Node {
    pub(super) const fn new() -> Node {
        Node {
            next: ptr::null_mut(),
            previous: ptr::null_mut(),
            object: 0,
            value: 0,
            slot: 0,
            seat: Seat::None,
            reference: false,
            state: State::Idle,
            what: What::Sleep,
            timeout: Timeout::Throws,
            cancelled: false,
            whose: Whose::Nobody,
        }
    }

    /// The object with its queue.
    pub(super) fn object(&self) -> Word {
        self.object
    }

    pub(super) fn trace(&self, tracer: &mut Tracer<'_>) {
        tracer.reference(self.object);
        if self.reference {
            tracer.reference(self.value);
        }
    }
}

/// What a thread of the machine waits for. It stays where it is while it waits.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Wait {
    /// First, so that one in the [seat](Seat) of a wait is a wait.
    pub(super) node: Node,
    rest: Rest,
}

/// What few waits have, in one word: a deadline, as an odd number; or, of a wait for several things,
/// the box with their nodes, which has the deadline then. Null: neither.
#[derive(Debug)]
struct Rest(*mut Arms);

impl Rest {
    const NOTHING: Rest = Rest(ptr::null_mut());

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
    fn arms_mut(&mut self) -> Option<&mut Arms> {
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

    pub(crate) fn what(&self) -> What {
        self.node.what
    }

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
    /// As for [`wake`](Self::wake); and no reference to the wait is used.
    pub(super) unsafe fn cancel(this: *mut Wait) {
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
                    // It may not have begun yet: then it does not.
                    Wait::hold(this);
                }
            }
        }
    }
}

#[cold]
fn cancelled() -> Trap {
    Trap::of(ExceptionClass::Cancelled, "the task was cancelled")
}

/// A queue, by the object and the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(super) object: Word,
    pub(super) slot: u8,
}

impl Queue {
    /// # Safety
    ///
    /// The object lives and has the field, which only this module writes.
    pub(crate) const unsafe fn new(object: Word, slot: u8) -> Queue {
        Queue { object, slot }
    }

    /// What those bring into the queue of a future whose call gives the very word.
    pub(crate) const TAKES: Word = 1;

    #[inline]
    fn first(self) -> *mut Node {
        // SAFETY: the promise of `new`.
        let word = unsafe { object::field(self.object, self.slot.into()) };
        ptr::with_exposed_provenance_mut(word as usize)
    }

    #[inline]
    fn set_first(self, node: *mut Node) {
        // SAFETY: as above.
        unsafe {
            object::set_field(self.object, self.slot.into(), node.expose_provenance() as Word)
        }
    }

    /// Puts a node at the end.
    ///
    /// # Safety
    ///
    /// It is in no queue, and stays where it is while it is in this one. The pointer is to all of what
    /// the seat says.
    #[inline]
    unsafe fn push(self, node: *mut Node, seat: Seat) {
        let first = self.first();
        // SAFETY: the caller's promise; what is in a queue is alive.
        unsafe {
            (*node).object = self.object;
            (*node).slot = self.slot;
            (*node).seat = seat;
            (*node).next = ptr::null_mut();
            match first.as_mut() {
                Some(first) => {
                    let last = std::mem::replace(&mut first.previous, node);
                    (*node).previous = last;
                    (*last).next = node;
                }
                None => {
                    (*node).previous = node;
                    self.set_first(node);
                }
            }
        }
    }

    /// [`push`](Self::push), for an arm.
    ///
    /// # Safety
    ///
    /// As for `push`; so does the wait stay that the arm belongs to.
    pub(super) unsafe fn push_arm(self, arm: *mut Arm) {
        // SAFETY: the contract; an arm begins with its node.
        unsafe { self.push(arm.cast(), Seat::Arm) };
    }

    /// What the first one has brought; `None` if nobody waits.
    pub(crate) fn peek_value(self) -> Option<Word> {
        // SAFETY: what is in a queue is alive.
        unsafe { self.first().as_ref() }.map(|node| node.value)
    }

    /// Ends the wait of the first one: false if there is none.
    #[inline]
    pub(crate) fn serve(self, state: State, value: Word, reference: bool) -> bool {
        let node = self.first();
        if node.is_null() {
            return false;
        }
        // SAFETY: what is in a queue is alive, and so is the wait that it belongs to.
        unsafe { self.end_first(node, state, value, reference) };
        true
    }

    /// # Safety
    ///
    /// The node is the first one of the queue, and alive, as all are.
    #[inline(always)]
    unsafe fn end_first(self, node: *mut Node, state: State, value: Word, reference: bool) {
        // SAFETY: the contract; in the seat of a wait is one.
        unsafe {
            if (*node).seat != Seat::Wait {
                return end(node, state, value, reference);
            }
            let next = (*node).next;
            self.set_first(next);
            if let Some(next) = next.as_mut() {
                next.previous = (*node).previous;
            }
            (*node).seat = Seat::None;
            (*node).state = state;
            (*node).value = value;
            (*node).reference = reference;
            Wait::wake(node.cast());
        }
    }

    /// Takes what the first one has brought, and ends its wait; `None` if nobody waits.
    #[inline]
    pub(super) fn accept(self) -> Option<Word> {
        let node = self.first();
        // SAFETY: as in `serve`.
        unsafe {
            let value = node.as_ref()?.value;
            self.end_first(node, State::Served, 0, false);
            Some(value)
        }
    }

    /// Ends the waits for a value. Who [takes it as it is](Self::TAKES) has it; others look again.
    pub(super) fn deliver(self, value: Word, reference: bool) {
        loop {
            let node = self.first();
            // SAFETY: as in `serve`.
            unsafe {
                let Some(first) = node.as_ref() else { return };
                match first.seat == Seat::Wait && first.value == Queue::TAKES {
                    true => self.end_first(node, State::Served, value, reference),
                    false => self.end_first(node, State::Again, 0, false),
                }
            }
        }
    }

    /// Ends all waits.
    pub(crate) fn serve_all(self, state: State, value: Word, reference: bool) {
        while self.serve(state, value, reference) {}
    }
}

/// Takes a node out of its queue, if it is in one.
///
/// # Safety
///
/// Its neighbours and its queue are alive.
pub(super) unsafe fn unlink(node: *mut Node) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*node).seat == Seat::None {
            return;
        }
        let queue = Queue { object: (*node).object, slot: (*node).slot };
        let (next, previous) = ((*node).next, (*node).previous);
        let first = queue.first();
        if first == node {
            queue.set_first(next);
        } else {
            (*previous).next = next;
        }
        match next.as_mut() {
            Some(next) => next.previous = previous,
            // The last one has gone; if it was the first as well, there is none left.
            None => (*first).previous = previous,
        }
        (*node).seat = Seat::None;
    }
}

/// Ends a wait through one of its nodes, and wakes the thread.
///
/// # Safety
///
/// As for [`unlink`]; the node is queued.
unsafe fn end(node: *mut Node, state: State, value: Word, reference: bool) {
    // SAFETY: the caller's promise; the seat says what the node is the beginning of.
    unsafe {
        let seat = (*node).seat;
        unlink(node);
        let owner: *mut Wait = match seat {
            Seat::Arm => {
                let Arm { owner, index, .. } = *node.cast::<Arm>();
                // The others may not be served any more.
                if let Some(arms) = (*owner).rest.arms_mut() {
                    arms.leave();
                    arms.served = index;
                }
                (*owner).node.object = (*node).object;
                owner
            }
            _ => node.cast(),
        };
        let main = &raw mut (*owner).node;
        (*main).state = state;
        (*main).value = value;
        (*main).reference = reference;
        Wait::wake(owner);
    }
}
