//! Mutexes and semaphores of scripts: first come, first served, and handed over.

use super::objects::{mutex, semaphore};
use super::queue::Queue;
use super::wait::State;
use crate::vm::heap::object;
use crate::vm::native::Word;

/// A `Mutex` or `ReentrantMutex` of a script that lives. Its owners are tasks, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mutex(Word);

impl Mutex {
    /// # Safety
    ///
    /// The address is that of a living mutex.
    pub(crate) unsafe fn from_word(word: Word) -> Mutex {
        Mutex(word)
    }

    fn get(self, slot: usize) -> Word {
        // SAFETY: the promise of `from_word`.
        unsafe { object::field(self.0, slot) }
    }

    fn set(self, slot: usize, word: Word) {
        // SAFETY: as above.
        unsafe { object::set_field(self.0, slot, word) }
    }

    /// The task that holds it.
    pub(crate) fn owner(self) -> Option<u32> {
        (self.get(mutex::OWNER) as u32).checked_sub(1)
    }

    pub(crate) fn queue(self) -> Queue {
        // SAFETY: a mutex has these fields.
        unsafe { Queue::new(self.0, mutex::QUEUE) }
    }

    /// Takes it, or takes it once more. False: another task holds it.
    pub(crate) fn try_lock(self, task: u32) -> bool {
        match self.owner() {
            None => {
                self.set(mutex::OWNER, Word::from(task) + 1);
                self.set(mutex::DEPTH, 1);
            }
            Some(owner) if owner == task => self.set(mutex::DEPTH, self.get(mutex::DEPTH) + 1),
            Some(_) => return false,
        }
        true
    }

    /// Gives it back once; the longest-waiting task gets it then. What it brought is its id.
    pub(crate) fn unlock(self) {
        let depth = self.get(mutex::DEPTH) - 1;
        self.set(mutex::DEPTH, depth);
        if depth > 0 {
            return;
        }
        match self.queue().peek_value() {
            Some(next) => {
                self.set(mutex::OWNER, next + 1);
                self.set(mutex::DEPTH, 1);
                self.queue().serve(State::Served, 0, false);
            }
            None => self.set(mutex::OWNER, 0),
        }
    }
}

/// A `Semaphore` of a script that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Semaphore(Word);

impl Semaphore {
    /// # Safety
    ///
    /// The address is that of a living semaphore.
    pub(crate) unsafe fn from_word(word: Word) -> Semaphore {
        Semaphore(word)
    }

    pub(crate) fn permits(self) -> u32 {
        // SAFETY: the promise of `from_word`.
        unsafe { object::field(self.0, semaphore::PERMITS) as u32 }
    }

    pub(crate) fn set_permits(self, permits: u32) {
        // SAFETY: as above.
        unsafe { object::set_field(self.0, semaphore::PERMITS, permits.into()) }
    }

    pub(crate) fn queue(self) -> Queue {
        // SAFETY: a semaphore has these fields.
        unsafe { Queue::new(self.0, semaphore::QUEUE) }
    }

    /// Takes a permit if there is one.
    pub(crate) fn try_acquire(self) -> bool {
        let permits = self.permits();
        if permits > 0 {
            self.set_permits(permits - 1);
        }
        permits > 0
    }

    /// Hands a permit to the longest-waiting task, or keeps it. False: there are too many.
    pub(crate) fn release(self) -> bool {
        if self.queue().serve(State::Served, 0, false) {
            return true;
        }
        match self.permits() {
            permits if permits == i32::MAX as u32 => false,
            permits => {
                self.set_permits(permits + 1);
                true
            }
        }
    }
}
