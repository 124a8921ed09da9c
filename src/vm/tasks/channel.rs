//! Channels of scripts.
//!
//! The rules are those of [`pirn::sync::channel`](crate::sync::channel), over words that the
//! collector sees: receivers wait only while no value is there, senders only while there is no room,
//! so one of the two queues is empty. Values leave in the order in which they came.
//!
//! ```text
//!  status:  63       62          31       0
//!          | closed | references | … | capacity |
//! ```

use super::objects::channel as field;
use super::queue::Queue;
use super::wait::State;
use crate::vm::heap::{HeapFull, LocalHeap, TypeIndex, object};
use crate::vm::native::Word;

const CLOSED: Word = 1 << 63;
const REFERENCES: Word = 1 << 62;
/// Words of the first ring.
const LEAST: u64 = 4;

/// Why a call did not go through at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Nobody is there at the other end, or no room.
    Now,
    /// The channel was closed.
    Closed,
}

/// A channel of a script that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel(Word);

impl Channel {
    /// # Safety
    ///
    /// The address is that of a living object of a `Channel` type.
    pub(crate) unsafe fn from_word(word: Word) -> Channel {
        Channel(word)
    }

    /// A new one; the type says what travels through it, and `references` what that is to the
    /// collector.
    ///
    /// # Errors
    ///
    /// If the heap has no room.
    ///
    /// # Safety
    ///
    /// The type is that of channels of such values.
    pub(crate) unsafe fn new(
        heap: &LocalHeap,
        ty: TypeIndex,
        capacity: u32,
        references: bool,
    ) -> Result<Channel, HeapFull> {
        let channel = Channel(heap.new_instance(ty)?);
        let traits = if references { REFERENCES } else { 0 };
        channel.set(field::STATUS, Word::from(capacity) | traits);
        Ok(channel)
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

    /// Whether references travel through it.
    pub(crate) fn has_references(self) -> bool {
        self.get(field::STATUS) & REFERENCES != 0
    }

    pub(crate) fn capacity(self) -> u32 {
        self.get(field::STATUS) as u32
    }

    pub(crate) fn is_closed(self) -> bool {
        self.get(field::STATUS) & CLOSED != 0
    }

    /// Values that are buffered.
    pub(crate) fn len(self) -> u32 {
        self.get(field::COUNT) as u32
    }

    pub(crate) fn receivers(self) -> Queue {
        // SAFETY: a channel has these fields.
        unsafe { Queue::new(self.0, field::RECEIVERS) }
    }

    pub(crate) fn senders(self) -> Queue {
        // SAFETY: as above.
        unsafe { Queue::new(self.0, field::SENDERS) }
    }

    /// Hands a value to the longest-waiting receiver, or buffers it.
    ///
    /// # Errors
    ///
    /// Where neither goes; or if the heap has no room for the buffer.
    #[inline]
    pub(crate) fn try_send(
        self,
        heap: &LocalHeap,
        value: Word,
    ) -> Result<Result<(), Refused>, HeapFull> {
        if self.is_closed() {
            return Ok(Err(Refused::Closed));
        }
        if self.receivers().serve(State::Served, value, self.has_references()) {
            return Ok(Ok(()));
        }
        if self.len() >= self.capacity() {
            return Ok(Err(Refused::Now));
        }
        self.buffer(heap, value)?;
        Ok(Ok(()))
    }

    /// Puts a value behind those that are there: the capacity allows for one more.
    #[inline(never)]
    fn buffer(self, heap: &LocalHeap, value: Word) -> Result<(), HeapFull> {
        self.make_room(heap)?;
        self.push(value);
        Ok(())
    }

    /// Takes the oldest value, and lets the longest-waiting sender put its own in.
    ///
    /// # Errors
    ///
    /// Where there is none.
    #[inline]
    pub(crate) fn try_recv(self) -> Result<Word, Refused> {
        if self.len() > 0 {
            return Ok(self.take_oldest());
        }
        match self.senders().accept() {
            Some(value) => Ok(value),
            None => Err(if self.is_closed() { Refused::Closed } else { Refused::Now }),
        }
    }

    #[inline(never)]
    fn take_oldest(self) -> Word {
        let value = self.pop();
        if let Some(next) = self.senders().accept() {
            // There is room: one value has gone.
            self.push(next);
        }
        value
    }

    /// Lets nothing more in, and ends all waits. What is buffered stays.
    pub(crate) fn close(self) {
        self.set(field::STATUS, self.get(field::STATUS) | CLOSED);
        self.receivers().serve_all(State::Closed, 0, false);
        self.senders().serve_all(State::Closed, 0, false);
    }

    fn ring_length(self) -> u64 {
        match self.get(field::RING) {
            0 => 0,
            // SAFETY: the ring is an array.
            ring => unsafe { object::array_length(ring) },
        }
    }

    /// A ring grows with what it holds: a large capacity costs nothing before it is used.
    fn make_room(self, heap: &LocalHeap) -> Result<(), HeapFull> {
        let (count, length) = (self.get(field::COUNT), self.ring_length());
        if count < length {
            return Ok(());
        }
        let longer = (2 * length).max(LEAST).min(Word::from(self.capacity()).max(LEAST));
        let ring = heap.new_words(longer, self.has_references())?;
        for i in 0..count {
            // SAFETY: both rings have so many words.
            unsafe { object::set_element64(ring, i, self.at(i)) };
        }
        self.set(field::HEAD, 0);
        self.set(field::RING, ring);
        Ok(())
    }

    /// The word at a distance from the oldest.
    fn at(self, i: u64) -> Word {
        let index = (self.get(field::HEAD) + i) % self.ring_length();
        // SAFETY: inside the ring.
        unsafe { object::element64(self.get(field::RING), index) }
    }

    fn push(self, value: Word) {
        let count = self.get(field::COUNT);
        let index = (self.get(field::HEAD) + count) % self.ring_length();
        // SAFETY: inside the ring.
        unsafe { object::set_element64(self.get(field::RING), index, value) };
        self.set(field::COUNT, count + 1);
    }

    fn pop(self) -> Word {
        let value = self.at(0);
        // SAFETY: inside the ring. What has gone must not be kept alive.
        unsafe { object::set_element64(self.get(field::RING), self.get(field::HEAD), 0) };
        self.set(field::HEAD, (self.get(field::HEAD) + 1) % self.ring_length());
        self.set(field::COUNT, self.get(field::COUNT) - 1);
        value
    }
}
