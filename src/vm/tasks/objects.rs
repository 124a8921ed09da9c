//! The fields of the built-in objects of concurrency, as the collector sees them.
//!
//! They are ordinary objects with a map of references; queues are words to it, since what is in a
//! queue is a thread, which is no object.

use crate::vm::heap::{Field, Layout};
use crate::vm::types::{Opaque, Type};

/// `Future<T>` and `Thread`.
pub(super) mod future {
    /// State, place of the task in the table, id: see [`future`](super::super::future).
    pub(crate) const STATUS: usize = 0;
    /// The value, if that is a reference; the exception of one that failed.
    pub(crate) const REFERENCE: usize = 1;
    /// While it is pending: who waits.
    pub(crate) const QUEUE: u8 = 2;
    /// Afterwards: the value, if that is no reference.
    pub(crate) const WORD: usize = QUEUE as usize;
}

/// `Promise<T>`.
pub(super) mod promise {
    pub(crate) const FUTURE: usize = 0;
}

/// `Channel<T>`.
pub(super) mod channel {
    /// Capacity and traits: see [`channel`](super::super::channel).
    pub(crate) const STATUS: usize = 0;
    /// A ring of words: an array, or null while none was needed.
    pub(crate) const RING: usize = 1;
    /// Where the oldest value is in the ring.
    pub(crate) const HEAD: usize = 2;
    /// How many values there are.
    pub(crate) const COUNT: usize = 3;
    pub(crate) const RECEIVERS: u8 = 4;
    pub(crate) const SENDERS: u8 = 5;
}

/// `Mutex` and `ReentrantMutex`.
pub(super) mod mutex {
    /// 1 + the id of the task that holds it; 0 if none does.
    pub(crate) const OWNER: usize = 0;
    /// How often it holds it.
    pub(crate) const DEPTH: usize = 1;
    pub(crate) const QUEUE: u8 = 2;
}

/// `Semaphore`.
pub(super) mod semaphore {
    pub(crate) const PERMITS: usize = 0;
    pub(crate) const QUEUE: u8 = 1;
}

/// `AtomicInt`.
pub(crate) mod atomic {
    pub(crate) const VALUE: usize = 0;
}

/// `Select`.
pub(super) mod select {
    /// An array with the channel of each arm.
    pub(crate) const CHANNELS: usize = 0;
    /// An array with what each arm sends, where that is a reference.
    pub(crate) const REFERENCES: usize = 1;
    /// An array with two words for each arm: whether it sends, and what, where that is none.
    pub(crate) const WORDS: usize = 2;
    /// How many arms there are.
    pub(crate) const COUNT: usize = 3;
    /// 1 + the arm that the last wait ended with; 0 if none did.
    pub(crate) const LAST: usize = 4;
    /// What that has received: a reference, or a word.
    pub(crate) const REFERENCE: usize = 5;
    pub(crate) const WORD: usize = 6;
}

/// The layout of a type of this module; `None` for others.
pub(crate) fn layout(ty: &Type) -> Option<Layout> {
    use Field::{Reference, Word};
    let fields = match *ty {
        Type::Future(_) | Type::Opaque(Opaque::Thread) => vec![Word, Reference, Word],
        Type::Promise(_) => vec![Reference],
        Type::Channel(_) => vec![Word, Reference, Word, Word, Word, Word],
        Type::Opaque(Opaque::Mutex | Opaque::ReentrantMutex) => vec![Word, Word, Word],
        Type::Opaque(Opaque::Semaphore) => vec![Word, Word],
        Type::Opaque(Opaque::AtomicInt) => vec![Word],
        Type::Opaque(Opaque::Select) => {
            vec![Reference, Reference, Reference, Word, Word, Reference, Word]
        }
        _ => return None,
    };
    Some(Layout::Instance(fields))
}
