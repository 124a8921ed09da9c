//! Futures, and the threads that settle them.
//!
//! ```text
//!  status:  63        32 31         4       3       2    1 0
//!          |  task's id |  place + 1  | reference | seen | state |
//! ```
//!
//! Its queue and a value that is no reference share a field: nobody waits once it is settled.
//!
//! The *place* is that of the task in the machine's table while it has not ended, else 0; a promise's
//! future has none. *Seen* says that somebody has observed the outcome, or is about to.

use super::objects::{future as field, promise};
use super::queue::Queue;
use super::wait::State;
use crate::vm::heap::{HeapFull, LocalHeap, TypeIndex, object};
use crate::vm::native::Word;

/// How a future stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    /// With the word of its value.
    Done(Word),
    /// With the exception.
    Failed(Word),
}

const PENDING: Word = 0;
const DONE: Word = 1;
const FAILED: Word = 2;
const STATE: Word = 3;
const SEEN: Word = 4;
/// What it was settled with is in the field for references.
const REFERENCE: Word = 8;
const PLACE_SHIFT: u32 = 4;
const PLACE_MASK: Word = (1 << 28) - 1;
const ID_SHIFT: u32 = 32;

/// How many tasks there can be at a time.
pub(super) const MOST_PLACES: usize = PLACE_MASK as usize;

/// A future or thread of a script that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Future(Word);

impl Future {
    /// # Safety
    ///
    /// The address is that of a living object of a `Future` type, or of a `Thread`.
    pub(crate) unsafe fn from_word(word: Word) -> Future {
        Future(word)
    }

    /// A new one that is pending.
    ///
    /// # Errors
    ///
    /// If the heap has no room.
    ///
    /// # Safety
    ///
    /// The type is that of futures or threads.
    pub(crate) unsafe fn new(heap: &LocalHeap, ty: TypeIndex) -> Result<Future, HeapFull> {
        Ok(Future(heap.new_instance(ty)?))
    }

    pub(crate) fn word(self) -> Word {
        self.0
    }

    fn get(self, slot: usize) -> Word {
        // SAFETY: the promise of `from_word`.
        unsafe { object::field(self.0, slot) }
    }

    fn set(self, slot: usize, word: Word) {
        // SAFETY: as above.
        unsafe { object::set_field(self.0, slot, word) }
    }

    /// Who waits for it.
    pub(crate) fn queue(self) -> Queue {
        // SAFETY: as above; a future has this field.
        unsafe { Queue::new(self.0, field::QUEUE) }
    }

    pub(crate) fn status(self) -> Status {
        let status = self.get(field::STATUS);
        match status & STATE {
            PENDING => Status::Pending,
            FAILED => Status::Failed(self.get(field::REFERENCE)),
            _ if status & REFERENCE != 0 => Status::Done(self.get(field::REFERENCE)),
            _ => Status::Done(self.get(field::WORD)),
        }
    }

    pub(crate) fn is_settled(self) -> bool {
        self.get(field::STATUS) & STATE != PENDING
    }

    /// Makes it that of a task.
    pub(super) fn belong(self, id: u32, place: u32) {
        let place = Word::from(place + 1) & PLACE_MASK;
        self.set(field::STATUS, Word::from(id) << ID_SHIFT | place << PLACE_SHIFT);
    }

    /// The id of its task; 0 for main, and where there is none.
    pub(crate) fn id(self) -> u32 {
        (self.get(field::STATUS) >> ID_SHIFT) as u32
    }

    /// The place of its task in the table, while that has not ended.
    pub(crate) fn place(self) -> Option<usize> {
        let place = self.get(field::STATUS) >> PLACE_SHIFT & PLACE_MASK;
        (place as usize).checked_sub(1)
    }

    /// Whether somebody has observed how it ended.
    pub(super) fn is_seen(self) -> bool {
        self.get(field::STATUS) & SEEN != 0
    }

    /// Somebody observes how it ended, or will.
    pub(crate) fn see(self) {
        self.set(field::STATUS, self.get(field::STATUS) | SEEN);
    }

    fn end(self, state: Word) {
        let kept = self.get(field::STATUS) & !(PLACE_MASK << PLACE_SHIFT) & !STATE;
        self.set(field::STATUS, kept | state);
    }

    /// Settles it with a value, and wakes who waits, in order of arrival. It must be pending.
    pub(crate) fn complete(self, value: Word, reference: bool) {
        // First those who wait: afterwards the queue is empty, and its field free.
        self.queue().deliver(value, reference);
        match reference {
            true => self.set(field::REFERENCE, value),
            false => self.set(field::WORD, value),
        }
        self.end(if reference { DONE | REFERENCE } else { DONE });
    }

    /// Settles it with an exception, and wakes who waits. It must be pending.
    pub(crate) fn fail(self, exception: Word) {
        self.queue().serve_all(State::Again, exception, true);
        self.set(field::REFERENCE, exception);
        self.end(FAILED);
    }
}

/// The future of a promise.
///
/// # Safety
///
/// The address is that of a living promise.
pub(crate) unsafe fn of_promise(promise: Word) -> Future {
    // SAFETY: a promise is made with its future.
    unsafe { Future(object::field(promise, promise::FUTURE)) }
}

/// Gives a new promise its future.
///
/// # Safety
///
/// The address is that of a living promise.
pub(crate) unsafe fn set_of_promise(promise: Word, future: Future) {
    // SAFETY: the caller's promise.
    unsafe { object::set_field(promise, promise::FUTURE, future.0) }
}
