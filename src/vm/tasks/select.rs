//! Waiting for several things at once.

use super::channel::{Channel, Refused};
use super::objects::select as field;
use super::queue::{self, Queue};
use super::wait::Wait;
use crate::sched::clock::Instant;
use crate::vm::heap::{HeapFull, LocalHeap, Tracer, object};
use crate::vm::native::Word;

/// Arms of the first arrays.
const LEAST: u64 = 4;

/// What one arm does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Receive(Channel),
    Send(Channel, Word),
}

impl Arm {
    fn channel(self) -> Channel {
        match self {
            Arm::Receive(channel) | Arm::Send(channel, _) => channel,
        }
    }

    /// Where it waits, with what it brings there.
    pub(crate) fn place(self) -> (Queue, Word, bool) {
        match self {
            Arm::Receive(channel) => (channel.receivers(), 0, false),
            Arm::Send(channel, value) => (channel.senders(), value, channel.has_references()),
        }
    }

    /// Does it, if that needs no waiting; gives what it has received.
    ///
    /// # Errors
    ///
    /// Why it was refused; or if the heap has no room for the channel's buffer.
    pub(crate) fn attempt(self, heap: &LocalHeap) -> Result<Result<Word, Refused>, HeapFull> {
        match self {
            Arm::Receive(channel) => Ok(channel.try_recv()),
            Arm::Send(channel, value) => Ok(channel.try_send(heap, value)?.map(|()| 0)),
        }
    }
}

/// A `Select` of a script that lives: a list of arms, and how the last wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Select(Word);

impl Select {
    /// # Safety
    ///
    /// The address is that of a living `Select`.
    pub(crate) unsafe fn from_word(word: Word) -> Select {
        Select(word)
    }

    fn get(self, slot: usize) -> Word {
        // SAFETY: the promise of `from_word`.
        unsafe { object::field(self.0, slot) }
    }

    fn set(self, slot: usize, word: Word) {
        // SAFETY: as above.
        unsafe { object::set_field(self.0, slot, word) }
    }

    pub(crate) fn len(self) -> usize {
        self.get(field::COUNT) as usize
    }

    /// Adds an arm. Returns its index.
    ///
    /// # Errors
    ///
    /// If the heap has no room; nothing has changed.
    pub(crate) fn add(self, heap: &LocalHeap, arm: Arm) -> Result<u32, HeapFull> {
        let count = self.get(field::COUNT);
        self.make_room(heap, count)?;
        let (_, value, reference) = arm.place();
        let sends = matches!(arm, Arm::Send(..));
        // SAFETY: the arrays have room for one more arm.
        unsafe {
            object::set_element64(self.get(field::CHANNELS), count, arm.channel().word());
            let words = self.get(field::WORDS);
            object::set_element64(words, 2 * count, sends.into());
            object::set_element64(words, 2 * count + 1, if reference { 0 } else { value });
            let references = self.get(field::REFERENCES);
            object::set_element64(references, count, if reference { value } else { 0 });
        }
        self.set(field::COUNT, count + 1);
        Ok(count as u32)
    }

    fn make_room(self, heap: &LocalHeap, count: u64) -> Result<(), HeapFull> {
        let channels = self.get(field::CHANNELS);
        // SAFETY: an array, where there is one.
        let length = if channels == 0 { 0 } else { unsafe { object::array_length(channels) } };
        if count < length {
            return Ok(());
        }
        let longer = (2 * length).max(LEAST);
        let new = [
            (field::CHANNELS, heap.new_words(longer, true)?, count),
            (field::REFERENCES, heap.new_words(longer, true)?, count),
            (field::WORDS, heap.new_words(2 * longer, false)?, 2 * count),
        ];
        for (slot, array, words) in new {
            for i in 0..words {
                // SAFETY: both arrays have so many words.
                unsafe { object::set_element64(array, i, object::element64(self.get(slot), i)) };
            }
            self.set(slot, array);
        }
        Ok(())
    }

    /// The arms, in order.
    pub(crate) fn arms(self) -> impl Iterator<Item = Arm> {
        (0..self.get(field::COUNT)).map(move |i| {
            // SAFETY: the arrays have so many arms, each with a channel that lives.
            unsafe {
                let channel = object::element64(self.get(field::CHANNELS), i);
                let channel = Channel::from_word(channel);
                let words = self.get(field::WORDS);
                if object::element64(words, 2 * i) == 0 {
                    return Arm::Receive(channel);
                }
                Arm::Send(
                    channel,
                    match channel.has_references() {
                        true => object::element64(self.get(field::REFERENCES), i),
                        false => object::element64(words, 2 * i + 1),
                    },
                )
            }
        })
    }

    /// Removes all arms.
    pub(crate) fn clear(self) {
        for slot in [field::CHANNELS, field::REFERENCES, field::WORDS, field::COUNT] {
            self.set(slot, 0);
        }
        self.forget();
    }

    /// Forgets how the last wait ended.
    pub(crate) fn forget(self) {
        for slot in [field::LAST, field::REFERENCE, field::WORD] {
            self.set(slot, 0);
        }
    }

    /// A wait has ended with an arm, which has received something, if it receives.
    pub(crate) fn end(self, arm: usize, received: Word) {
        self.forget();
        self.set(field::LAST, arm as Word + 1);
        if let Some(Arm::Receive(channel)) = self.arms().nth(arm) {
            let slot = if channel.has_references() { field::REFERENCE } else { field::WORD };
            self.set(slot, received);
        }
    }

    /// What the last wait has received from this channel; `None` if it ended otherwise.
    pub(crate) fn value(self, channel: Channel) -> Option<Word> {
        let last = (self.get(field::LAST) as usize).checked_sub(1)?;
        if self.arms().nth(last) != Some(Arm::Receive(channel)) {
            return None;
        }
        let slot = if channel.has_references() { field::REFERENCE } else { field::WORD };
        Some(self.get(slot))
    }
}

/// The nodes of a wait for several things; they stay where they are.
#[derive(Debug)]
pub(crate) struct Arms {
    arms: Box<[queue::Arm]>,
    /// By which of them the wait has ended.
    pub(super) served: u32,
    pub(super) deadline: Instant,
}

impl Arms {
    /// Queues a node of a wait in each of these queues, with what it would hand over there.
    ///
    /// # Safety
    ///
    /// The wait stays where it is until it has ended.
    pub(super) unsafe fn begin(
        wait: *mut Wait,
        arms: &[(Queue, Word, bool)],
        deadline: Instant,
    ) -> Box<Arms> {
        let arm = |(i, &(_, value, reference))| queue::Arm::new(wait, i, value, reference);
        let mut all: Box<[queue::Arm]> = arms.iter().enumerate().map(arm).collect();
        for (arm, &(queue, ..)) in all.iter_mut().zip(arms) {
            // SAFETY: the caller's promise; the arms are in a box that the wait owns.
            unsafe { queue.push_arm(arm) };
        }
        Box::new(Arms { arms: all, served: 0, deadline })
    }

    /// Takes all nodes out.
    ///
    /// # Safety
    ///
    /// Their queues are alive.
    pub(super) unsafe fn leave(&mut self) {
        for arm in &mut self.arms {
            // SAFETY: the caller's promise.
            unsafe { queue::unlink(&mut arm.node) };
        }
    }

    pub(super) fn trace(&self, tracer: &mut Tracer<'_>) {
        self.arms.iter().for_each(|arm| arm.node.trace(tracer));
    }
}
