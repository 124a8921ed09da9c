//! The queue of what threads wait for: its nodes, and how the wait behind one is ended.
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
//! All of it belongs to the machine: who touches a queue has the machine, or else the lock of the
//! [crew](super::crew), so there are no locks here. A
//! notifier takes a node out, says in it how the wait ended, and wakes the thread; what it hands over
//! lies in the node until the thread goes on. A timeout or a cancellation finds the node still queued.
//! So exactly one of them ends a [wait](super::wait).

use std::ptr;

use super::wait::{State, Timeout, Wait, What, Whose};
use crate::vm::heap::{Tracer, object};
use crate::vm::native::Word;

/// Whose node it is that a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
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
    pub(super) object: Word,
    /// What is handed over, in either direction.
    pub(super) value: Word,
    /// The field that is the queue.
    slot: u8,
    pub(super) seat: Seat,
    /// Whether `value` is a reference.
    pub(super) reference: bool,
    pub(super) state: State,
    pub(super) what: What,
    pub(super) timeout: Timeout,
    /// Somebody wants the thread to end: it is told at its next wait.
    pub(super) cancelled: bool,
    pub(super) whose: Whose,
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
    pub(super) unsafe fn push(self, node: *mut Node, seat: Seat) {
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
    #[inline]
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
