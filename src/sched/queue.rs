//! The run queue of a carrier: a ring of runnable things, first in, first out.
//!
//! A ring, not a linked list: the carrier looks a few places ahead and prefetches what it will run
//! next, without touching the tasks in between. Owned by one thread; others hand work over by the
//! [mailbox](super::mailbox).

use std::ptr;

use super::fiber::Fiber;
use super::task::Task;

/// What stands in the run queue: a fiber that was started, a task that needs a stack first, or one
/// that never has any.
///
/// One word; the two lowest bits tell which.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runnable(*mut u8);

/// A [`Runnable`], taken apart.
pub(crate) enum Kind {
    /// Suspended: switch to it.
    Started(*mut Fiber),
    /// Not yet begun: find it a stack.
    Fresh(*const Task),
    /// Resume it on the loop.
    Resumable(*const Task),
}

const FRESH: usize = 1;
const RESUMABLE: usize = 2;
const KIND: usize = FRESH | RESUMABLE;

impl Runnable {
    #[inline(always)]
    pub(crate) fn started(fiber: *mut Fiber) -> Self {
        Runnable(fiber.cast())
    }

    #[inline(always)]
    pub(crate) fn fresh(task: *const Task) -> Self {
        Runnable(task.cast_mut().cast::<u8>().map_addr(|address| address | FRESH))
    }

    #[inline(always)]
    pub(crate) fn resumable(task: *const Task) -> Self {
        Runnable(task.cast_mut().cast::<u8>().map_addr(|address| address | RESUMABLE))
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        let kind = self.0.addr() & KIND;
        if kind == 0 {
            return Kind::Started(self.0.cast());
        }
        let task = self.0.map_addr(|address| address & !KIND).cast_const().cast();
        if kind == FRESH { Kind::Fresh(task) } else { Kind::Resumable(task) }
    }

    /// The task that is to run.
    ///
    /// # Safety
    ///
    /// It must be alive, and so must its fiber.
    pub(crate) unsafe fn task<'a>(self) -> &'a Task {
        // SAFETY: by the contract.
        unsafe {
            match self.kind() {
                Kind::Started(fiber) => &*(*fiber).task.get(),
                Kind::Fresh(task) | Kind::Resumable(task) => &*task,
            }
        }
    }
}

/// A growing ring buffer.
pub(crate) struct RunQueue {
    /// Its length is a power of two.
    ring: Box<[Runnable]>,
    /// Ever-growing positions; masked on use. `head <= tail`.
    head: usize,
    tail: usize,
    /// State of the generator that shuffles the order; 0: first in, first out.
    shuffle: u64,
    /// What is not to run any more, since the end has come: see [`set_aside`](Self::set_aside).
    aside: Vec<Runnable>,
    /// Whether what runs comes from calls into the kernel, which leave little in the caches.
    is_cold: bool,
}

/// How far ahead the control block of a fiber is prefetched, and how far ahead the frame that its
/// stack pointer points to. The second needs the first to have arrived.
const AHEAD_BLOCK: usize = 12;
const AHEAD_FRAME: usize = 6;

impl RunQueue {
    /// An empty queue; with a seed, one that shuffles what it holds.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let ring = vec![Runnable(ptr::null_mut()); 256].into_boxed_slice();
        // Any seed will do, 0 as well; the state must not be 0.
        let shuffle = seed.map_or(0, |seed| seed.wrapping_mul(2) | 1);
        RunQueue { ring, head: 0, tail: 0, shuffle, aside: Vec::new(), is_cold: false }
    }

    /// From now on what runs has been in the kernel: more of it is warmed.
    pub(crate) fn expect_cold(&mut self) {
        self.is_cold = true;
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.tail - self.head
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline(always)]
    fn at(&self, position: usize) -> Runnable {
        let index = position & (self.ring.len() - 1);
        // SAFETY: masked by the length, a power of two.
        unsafe { *self.ring.get_unchecked(index) }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, runnable: Runnable) {
        if self.len() == self.ring.len() {
            self.grow();
        }
        let index = self.tail & (self.ring.len() - 1);
        // SAFETY: masked by the length, a power of two.
        unsafe { *self.ring.get_unchecked_mut(index) = runnable };
        self.tail += 1;
        if self.shuffle != 0 {
            self.shuffle();
        }
    }

    /// Lets the newest one change places with any of those that wait, itself included.
    #[cold]
    fn shuffle(&mut self) {
        // SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
        self.shuffle = self.shuffle.wrapping_add(0x9e37_79b9_7f4a_7c15).max(1);
        let mut z = self.shuffle;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let (mask, len) = (self.ring.len() - 1, self.len());
        let other = self.head + (z % len as u64) as usize;
        self.ring.swap((self.tail - 1) & mask, other & mask);
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<Runnable> {
        if self.is_empty() {
            return None;
        }
        let runnable = self.at(self.head);
        self.head += 1;
        self.prefetch();
        Some(runnable)
    }

    /// Takes the first one out, which is there, and was peeked at.
    #[inline(always)]
    pub(crate) fn skip(&mut self) {
        debug_assert!(!self.is_empty());
        self.head += 1;
    }

    /// Puts one at the end for which there is room, since one was taken out just now; nothing shuffles.
    #[inline(always)]
    pub(crate) fn push_again(&mut self, runnable: Runnable) {
        debug_assert!(self.len() < self.ring.len() && !self.is_shuffled());
        let index = self.tail & (self.ring.len() - 1);
        // SAFETY: masked by the length, a power of two.
        unsafe { *self.ring.get_unchecked_mut(index) = runnable };
        self.tail += 1;
    }

    /// Whether a seed shuffles it.
    #[inline(always)]
    pub(crate) fn is_shuffled(&self) -> bool {
        self.shuffle != 0
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<Runnable> {
        (!self.is_empty()).then(|| self.at(self.head))
    }

    /// The first one, if that is a suspended fiber.
    #[inline(always)]
    pub(crate) fn peek_started(&self) -> Option<*mut Fiber> {
        match self.peek()?.kind() {
            Kind::Started(fiber) => Some(fiber),
            Kind::Fresh(_) | Kind::Resumable(_) => None,
        }
    }

    /// The first one, if that is a task without a stack.
    #[inline(always)]
    pub(crate) fn peek_resumable(&self) -> Option<*const Task> {
        if self.is_empty() {
            return None;
        }
        let Runnable(first) = self.at(self.head);
        let resumable = first.addr() & KIND == RESUMABLE;
        resumable.then(|| first.map_addr(|address| address - RESUMABLE).cast_const().cast())
    }

    /// Warms the caches for what runs soon: with many fibers the misses cost more than the switch.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if self.len() > AHEAD_BLOCK {
            // SAFETY: queued fibers are alive. A fresh task is not a fiber, and is left alone.
            unsafe {
                if let Kind::Started(fiber) = self.at(self.head + AHEAD_BLOCK).kind() {
                    Fiber::prefetch_block(fiber);
                }
                if let Kind::Started(fiber) = self.at(self.head + AHEAD_FRAME).kind() {
                    Fiber::prefetch_frame(fiber);
                    if self.is_cold {
                        Fiber::prefetch_waiter(fiber);
                    }
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut ring = Vec::with_capacity(self.ring.len() * 2);
        ring.extend((self.head..self.tail).map(|position| self.at(position)));
        (self.head, self.tail) = (0, ring.len());
        ring.resize(ring.capacity().next_power_of_two(), Runnable(ptr::null_mut()));
        self.ring = ring.into_boxed_slice();
    }

    /// Takes this one out. False: it is not there.
    #[cold]
    pub(crate) fn remove(&mut self, runnable: Runnable) -> bool {
        if let Some(found) = self.aside.iter().position(|&aside| aside == runnable) {
            self.aside.remove(found);
            return true;
        }
        let mask = self.ring.len() - 1;
        let Some(found) = (self.head..self.tail).find(|&at| self.at(at) == runnable) else {
            return false;
        };
        for at in found + 1..self.tail {
            self.ring[(at - 1) & mask] = self.ring[at & mask];
        }
        self.tail -= 1;
        true
    }

    /// Keeps everything from running that is there now; only [`drain`](Self::drain) takes it out.
    pub(crate) fn set_aside(&mut self) {
        let all = self.drain();
        self.aside = all;
    }

    /// Takes out everything, in order.
    pub(crate) fn drain(&mut self) -> Vec<Runnable> {
        let mut all = std::mem::take(&mut self.aside);
        all.extend(std::iter::from_fn(|| {
            let runnable = (!self.is_empty()).then(|| self.at(self.head))?;
            self.head += 1;
            Some(runnable)
        }));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_taken_out_and_the_others_keep_their_order() {
        let name = |n: usize| Runnable::fresh(ptr::without_provenance(n * 16));
        let mut queue = RunQueue::new(None);
        // The ring has turned round.
        (0..250).for_each(|n| queue.push(name(n)));
        queue.drain();
        (1..=10).for_each(|n| queue.push(name(n)));
        assert!(queue.remove(name(8)) && queue.remove(name(1)) && queue.remove(name(10)));
        assert!(!queue.remove(name(8)));
        let left = [2, 3, 4, 5, 6, 7, 9].map(name);
        assert!(queue.drain() == left);
    }

    #[test]
    fn a_seed_shuffles_and_the_same_seed_shuffles_alike() {
        let order = |seed| {
            let mut queue = RunQueue::new(seed);
            for n in 0..100 {
                queue.push(Runnable::fresh(ptr::without_provenance(n * 16)));
            }
            queue.drain().into_iter().map(|runnable| runnable.0.addr() / 16).collect::<Vec<_>>()
        };
        let (first, second) = (order(Some(0)), order(Some(1)));
        assert_eq!(first, order(Some(0)));
        assert_ne!(first, second);
        let mut sorted = first.clone();
        sorted.sort();
        assert_eq!(sorted, order(None));
        assert_ne!(first, sorted);
    }

    #[test]
    fn it_is_first_in_first_out_across_growth() {
        let mut queue = RunQueue::new(None);
        let entry = |n: usize| Runnable::fresh(ptr::without_provenance(n * 16));
        let (mut pushed, mut popped) = (0, 0);
        for round in 0..2_000 {
            for _ in 0..3 {
                queue.push(entry(pushed));
                pushed += 1;
            }
            for _ in 0..(if round < 1_000 { 2 } else { 4 }) {
                if let Some(runnable) = queue.pop() {
                    assert!(runnable == entry(popped));
                    popped += 1;
                }
            }
        }
        for runnable in queue.drain() {
            assert!(runnable == entry(popped));
            popped += 1;
        }
        assert_eq!((popped, queue.len()), (pushed, 0));
    }
}
