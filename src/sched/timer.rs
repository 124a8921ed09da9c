//! Outstanding deadlines: a 4-ary heap with stable keys.
//!
//! The heap is ordered by deadline and then by order of insertion, so that equal deadlines fire in
//! call order. Entries lie by value in one array, without pointers to chase; a second array maps
//! each entry's key to its place, which makes cancelling O(log n) and touches nothing that belongs
//! to the waiting task. Four children share a cache line or two: half as many levels as a binary
//! heap for the same work a level (LaMarca and Ladner, "The influence of caches on the performance
//! of heaps", 1996).

use std::num::NonZeroU32;

use crate::sched::clock::Instant;

const ARITY: usize = 4;

/// Names an outstanding timer; reused after it fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey(NonZeroU32);

impl TimerKey {
    fn new(index: u32) -> TimerKey {
        TimerKey(NonZeroU32::MIN.saturating_add(index))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Copy)]
struct Entry<T> {
    deadline: Instant,
    sequence: u64,
    key: u32,
    value: T,
}

impl<T> Entry<T> {
    fn before(&self, other: &Self) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

/// The timers of one carrier, each with a value to hand out when it is due.
pub(crate) struct Timers<T> {
    heap: Vec<Entry<T>>,
    /// By key: the entry's place in the heap, or the next free key.
    places: Vec<u32>,
    free: u32,
    sequence: u64,
}

/// No free key.
const NONE: u32 = u32::MAX;

impl<T: Copy> Timers<T> {
    pub(crate) const fn new() -> Self {
        Timers { heap: Vec::new(), places: Vec::new(), free: NONE, sequence: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.deadline)
    }

    pub(crate) fn insert(&mut self, deadline: Instant, value: T) -> TimerKey {
        let place = self.heap.len();
        let key = if self.free != NONE {
            let key = self.free;
            self.free = self.places[key as usize];
            key
        } else {
            let key = u32::try_from(self.places.len()).expect("fewer than 2^32 timers");
            assert_ne!(key, NONE, "fewer than 2^32 timers");
            self.places.push(0);
            key
        };
        self.sequence += 1;
        let entry = Entry { deadline, sequence: self.sequence, key, value };
        self.heap.push(entry);
        self.rise(place, entry);
        TimerKey::new(key)
    }

    /// Takes out a timer that has not fired.
    pub(crate) fn cancel(&mut self, key: TimerKey) {
        let place = self.places[key.index()] as usize;
        debug_assert_eq!(
            self.heap[place].key as usize,
            key.index(),
            "a timer is cancelled once, before it fires"
        );
        self.remove(place);
    }

    /// Takes out the first timer if it is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        let first = self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        let value = first.value;
        self.remove(0);
        Some(value)
    }

    fn remove(&mut self, place: usize) {
        let key = self.heap[place].key;
        self.places[key as usize] = self.free;
        self.free = key;
        let last = self.heap.pop().expect("it has the entry at `place`");
        if place < self.heap.len() {
            if place > 0 && last.before(&self.heap[(place - 1) / ARITY]) {
                self.rise(place, last);
            } else {
                self.sink(place, last);
            }
        }
    }

    /// Puts `entry` at `place` or above it.
    fn rise(&mut self, mut place: usize, entry: Entry<T>) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Puts `entry` at `place` or below it.
    fn sink(&mut self, mut place: usize, entry: Entry<T>) {
        loop {
            let first = place * ARITY + 1;
            if first >= self.heap.len() {
                break;
            }
            let end = (first + ARITY).min(self.heap.len());
            let mut least = first;
            for child in first + 1..end {
                if self.heap[child].before(&self.heap[least]) {
                    least = child;
                }
            }
            if !self.heap[least].before(&entry) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry<T>) {
        self.heap[place] = entry;
        self.places[entry.key as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn equal_deadlines_fire_in_call_order() {
        let mut timers = Timers::new();
        for value in 0..100 {
            timers.insert(at(7), value);
        }
        let fired: Vec<i32> = std::iter::from_fn(|| timers.pop_due(at(7))).collect();
        assert_eq!(fired, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_timer_does_not_fire_early() {
        let mut timers = Timers::new();
        timers.insert(at(10), ());
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.next_deadline(), Some(at(10)));
        assert_eq!(timers.pop_due(at(10)), Some(()));
        assert_eq!(timers.next_deadline(), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Cancel(usize),
        Advance(u64),
    }

    proptest! {
        #[test]
        fn it_fires_like_a_sorted_list(steps in proptest::collection::vec(prop_oneof![
            (0u64..50).prop_map(Step::Insert),
            (0usize..64).prop_map(Step::Cancel),
            (0u64..10).prop_map(Step::Advance),
        ], 0..400)) {
            let mut timers = Timers::new();
            // The model: (deadline, number, key), in order of insertion.
            let mut model: Vec<(u64, usize, TimerKey)> = Vec::new();
            let (mut now, mut number) = (0, 0);
            for step in steps {
                match step {
                    Step::Insert(after) => {
                        let key = timers.insert(at(now + after), number);
                        model.push((now + after, number, key));
                        number += 1;
                    }
                    Step::Cancel(index) if !model.is_empty() => {
                        let (_, _, key) = model.remove(index % model.len());
                        timers.cancel(key);
                    }
                    Step::Cancel(_) => {}
                    Step::Advance(by) => {
                        now += by;
                        let mut due: Vec<_> =
                            model.extract_if(.., |timer| timer.0 <= now).map(|t| (t.0, t.1)).collect();
                        due.sort();
                        for (_, expected) in due {
                            prop_assert_eq!(timers.pop_due(at(now)), Some(expected));
                        }
                        prop_assert_eq!(timers.pop_due(at(now)), None);
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert_eq!(
                    timers.next_deadline(),
                    model.iter().map(|timer| at(timer.0)).min()
                );
            }
        }
    }
}
