//! Dictionaries: hash tables that keep the order of insertion.
//!
//! ```text
//! Dict    | header | count | used | entries | index |
//! Entries | header | capacity | meta key value | meta key value | …     in order of insertion
//! index   an array of words, twice the capacity: | hash, entry + 1 | or 0
//! ```
//!
//! `used` entries were written, `count` of them are live; a removed one has `meta` 0 until the table
//! is rebuilt. `meta` of a live entry is its hash and a bit above it. The index is probed linearly from
//! the hash on, up to a 0; it is at most half full. Up to [`SMALL`] entries there is none: the entries
//! are looked through.
//!
//! A NaN is equal to nothing: it is never looked for, and stands in no index, or all NaNs would stand
//! at one place of it.
//!
//! Every operation on a dictionary takes its lock while several carriers run.

use super::hash;
use super::layout::{DICT_INDEX, ENTRIES, Key, TypeIndex};
use super::list::{Guard, List};
use super::local::LocalHeap;
use super::object::{self, ELEMENTS, Header, KEY_REFERENCES, Kind, REFERENCES};
use super::shared::HeapFull;
use super::string;

/// Without an index up to this capacity.
const SMALL: u64 = 8;
const LARGEST: u64 = 1 << 30;
/// In the meta word of an entry that is live.
const LIVE: u64 = 1 << 32;
const INDEX_HEADER: Header = Header::new(Kind::Array, DICT_INDEX.0).with_size(3);

const COUNT: u64 = 8;
const USED: u64 = 16;
const ENTRIES_AT: u64 = 24;
const INDEX_AT: u64 = 32;

/// A dictionary.
#[derive(Clone, Copy, Debug)]
pub struct Dict<'h> {
    word: u64,
    heap: &'h LocalHeap,
}

/// A key together with what its comparison needs.
struct Wanted {
    key: u64,
    kind: Key,
    /// `None` for what is equal to nothing.
    hash: Option<u32>,
}

/// Zero without a sign, so that equal numbers are equal words; `None` for NaN.
fn number(kind: Key, key: u64) -> Option<u64> {
    match kind {
        Key::Float => {
            let number = f32::from_bits(key as u32);
            (!number.is_nan()).then_some(if number == 0.0 { 0 } else { key })
        }
        Key::Double => {
            let number = f64::from_bits(key);
            (!number.is_nan()).then_some(if number == 0.0 { 0 } else { key })
        }
        _ => Some(key),
    }
}

impl Wanted {
    /// # Safety
    ///
    /// A key of kind `String` is 0 or a string that lives.
    #[inline]
    unsafe fn new(heap: &LocalHeap, kind: Key, key: u64) -> Wanted {
        let hash = match kind {
            // SAFETY: the caller's contract.
            Key::String => Some(unsafe { heap.hash_string_word(key) }),
            _ => number(kind, key).map(|word| hash::of_word(heap.config().seed, word)),
        };
        Wanted { key, kind, hash }
    }

    /// # Safety
    ///
    /// As for [`Wanted::new`], of the other key.
    #[inline]
    unsafe fn fits(&self, other: u64) -> bool {
        match self.kind {
            Key::Word | Key::Reference => self.key == other,
            Key::Float | Key::Double => number(self.kind, self.key) == number(self.kind, other),
            // SAFETY: the caller's contract.
            Key::String => unsafe { string::equal(self.key, other) },
        }
    }

    fn meta(&self) -> u64 {
        LIVE | self.hash.unwrap_or(0) as u64
    }
}

/// The address of an entry: its meta word; key and value follow.
#[inline(always)]
fn entry(entries: u64, i: u64) -> u64 {
    entries + ELEMENTS + 24 * i
}

impl<'h> Dict<'h> {
    /// The dictionary at an address.
    ///
    /// # Panics
    ///
    /// If the object is no dictionary.
    ///
    /// # Safety
    ///
    /// The word is the address of an object of this heap that lives, not 0.
    #[inline]
    pub unsafe fn from_word(heap: &'h LocalHeap, word: u64) -> Dict<'h> {
        // SAFETY: the caller's contract.
        let kind = unsafe { object::header(word) }.kind();
        assert_eq!(kind, Kind::Dict, "a dictionary");
        Dict { word, heap }
    }

    #[inline(always)]
    fn load(self, at: u64) -> u64 {
        // SAFETY: a word of a dictionary that lives while the heap is borrowed.
        unsafe { object::load_acquire(self.word + at) }
    }

    #[inline(always)]
    fn store(self, at: u64, word: u64) {
        // SAFETY: as in `load`; only this module writes them, each what belongs there.
        unsafe { object::store_release(self.word + at, word) }
    }

    fn header(self) -> Header {
        // SAFETY: as in `load`.
        unsafe { object::header(self.word) }
    }

    fn lock(self) -> Guard {
        // SAFETY: as in `load`; no operation calls another one that locks.
        unsafe { Guard::new(self.heap, self.word) }
    }

    /// How keys are compared.
    pub fn key_kind(self) -> Key {
        Key::from_header(self.header())
    }

    /// How many keys there are.
    pub fn len(self) -> usize {
        self.load(COUNT) as usize
    }

    fn capacity(self) -> u64 {
        match self.load(ENTRIES_AT) {
            0 => 0,
            // SAFETY: entries have their capacity where an array has its length.
            entries => unsafe { object::array_length(entries) },
        }
    }

    /// The address of the entry of a key.
    ///
    /// # Safety
    ///
    /// As for [`Wanted::new`].
    #[inline]
    unsafe fn find(self, wanted: &Wanted) -> Option<u64> {
        let hash = wanted.hash?;
        let (entries, index) = (self.load(ENTRIES_AT), self.load(INDEX_AT));
        let meta = wanted.meta();
        // SAFETY: entries below `used`, and slots of the index, which has a 0 among them.
        unsafe {
            let fits = |entry: u64| {
                object::load(entry) == meta && wanted.fits(object::load_acquire(entry + 8))
            };
            if index == 0 {
                return (0..self.load(USED)).map(|i| entry(entries, i)).find(|&entry| fits(entry));
            }
            let mask = object::array_length(index) - 1;
            let mut at = hash as u64 & mask;
            loop {
                let slot = object::load(index + ELEMENTS + 8 * at);
                if slot == 0 {
                    return None;
                }
                if slot >> 32 == hash as u64 {
                    let entry = entry(entries, (slot & 0xffff_ffff) - 1);
                    if fits(entry) {
                        return Some(entry);
                    }
                }
                at = (at + 1) & mask;
            }
        }
    }

    /// The value of a key.
    ///
    /// # Safety
    ///
    /// The key is of the dictionary's key type: a string is 0 or the address of a string of this heap
    /// that lives.
    pub unsafe fn get(self, key: u64) -> Option<u64> {
        // SAFETY: the caller's contract; the third word of an entry is its value.
        unsafe {
            let wanted = Wanted::new(self.heap, self.key_kind(), key);
            let _guard = self.lock();
            self.find(&wanted).map(|entry| object::load_acquire(entry + 16))
        }
    }

    /// Whether there is a key.
    ///
    /// # Safety
    ///
    /// As for [`Dict::get`].
    pub unsafe fn contains(self, key: u64) -> bool {
        // SAFETY: the same contract.
        unsafe { self.get(key) }.is_some()
    }

    /// Sets the value of a key; a new key becomes the last. Changes nothing if it fails.
    ///
    /// # Safety
    ///
    /// Key and value are of the dictionary's types: 0 or addresses of living objects of this heap for
    /// references.
    pub unsafe fn set(self, key: u64, value: u64) -> Result<(), HeapFull> {
        // SAFETY: the caller's contract; entries below the capacity.
        unsafe {
            let wanted = Wanted::new(self.heap, self.key_kind(), key);
            let _guard = self.lock();
            if let Some(entry) = self.find(&wanted) {
                object::store_release(entry + 16, value);
                return Ok(());
            }
            let used = self.load(USED);
            if used == self.capacity() {
                self.rebuild(self.next_capacity())?;
            }
            let used = self.load(USED);
            let (entries, index) = (self.load(ENTRIES_AT), self.load(INDEX_AT));
            let place = entry(entries, used);
            object::store_release(place + 8, key);
            object::store_release(place + 16, value);
            object::store(place, wanted.meta());
            if let Some(hash) = wanted.hash
                && index != 0
            {
                insert(index, hash, used);
            }
            self.store(USED, used + 1);
            self.store(COUNT, self.load(COUNT) + 1);
        }
        Ok(())
    }

    /// Removes a key; tells whether it was there.
    ///
    /// # Safety
    ///
    /// As for [`Dict::get`].
    pub unsafe fn remove(self, key: u64) -> bool {
        // SAFETY: the caller's contract; the words of the entry.
        unsafe {
            let wanted = Wanted::new(self.heap, self.key_kind(), key);
            let _guard = self.lock();
            let Some(entry) = self.find(&wanted) else { return false };
            for at in [0, 8, 16] {
                object::store(entry + at, 0);
            }
            self.store(COUNT, self.load(COUNT) - 1);
            // Walking through what is left must not take as long as when all were there. Without
            // memory for that it stays as it is.
            if self.load(USED) > 32 && self.load(COUNT) < self.load(USED) / 4 {
                let _ = self.rebuild(self.next_capacity());
            }
            true
        }
    }

    /// Removes all keys.
    pub fn clear(self) {
        let _guard = self.lock();
        for at in [COUNT, USED, ENTRIES_AT, INDEX_AT] {
            self.store(at, 0);
        }
    }

    /// The first live entry from a position on (0 to begin with): the next position, key and value.
    /// Keys that are set meanwhile may be met, and none is met twice unless keys are removed.
    pub fn entry_from(self, position: usize) -> Option<(usize, u64, u64)> {
        let _guard = self.lock();
        self.walk(position as u64)
    }

    fn walk(self, position: u64) -> Option<(usize, u64, u64)> {
        let entries = self.load(ENTRIES_AT);
        (position..self.load(USED)).find_map(|i| {
            let entry = entry(entries, i);
            // SAFETY: an entry below `used`.
            unsafe {
                let live = object::load(entry) & LIVE != 0;
                let read = |at| object::load_acquire(entry + at);
                live.then(|| (i as usize + 1, read(8), read(16)))
            }
        })
    }

    /// The values in order of the keys, in a new list of a type with their layout.
    #[cfg(test)]
    pub fn values(self, ty: TypeIndex) -> Result<List<'h>, HeapFull> {
        self.collect(ty, |_, value| value)
    }

    /// The keys in order, in a new list of a type with their layout.
    pub fn keys(self, ty: TypeIndex) -> Result<List<'h>, HeapFull> {
        self.collect(ty, |key, _| key)
    }

    fn collect(self, ty: TypeIndex, pick: fn(u64, u64) -> u64) -> Result<List<'h>, HeapFull> {
        let list = self.heap.new_container(ty)?;
        // SAFETY: a new list.
        let list = unsafe { List::from_word(self.heap, list) };
        let _guard = self.lock();
        list.reserve(self.len())?;
        let mut position = 0;
        while let Some((next, key, value)) = self.walk(position) {
            // SAFETY: the caller chose a list of the type of keys or values.
            unsafe { list.add(pick(key, value))? };
            position = next as u64;
        }
        Ok(list)
    }

    /// What the capacity should be when there is no room: at least a quarter of it free.
    fn next_capacity(self) -> u64 {
        let (count, capacity) = (self.load(COUNT), self.capacity());
        if capacity == 0 {
            return SMALL / 2;
        }
        if count > capacity / 4 * 3 {
            return capacity * 2;
        }
        let mut next = capacity;
        while next > SMALL && count <= next / 4 {
            next /= 2;
        }
        next
    }

    /// Copies the live entries into new tables.
    ///
    /// # Safety
    ///
    /// The caller holds the lock; the capacity is a power of two above the count.
    unsafe fn rebuild(self, capacity: u64) -> Result<(), HeapFull> {
        if capacity > LARGEST {
            return Err(HeapFull { requested: usize::MAX });
        }
        let traits = self.header().0 & (REFERENCES | KEY_REFERENCES);
        let header = Header::new(Kind::Entries, ENTRIES.0).with(traits);
        let new = self.heap.allocate((ELEMENTS + 24 * capacity) as usize, header)?;
        let index = match capacity {
            ..=SMALL => 0,
            _ => self.heap.new_elements(INDEX_HEADER, 2 * capacity)?,
        };
        let (old, used, kind) = (self.load(ENTRIES_AT), self.load(USED), self.key_kind());
        let mut live = 0;
        // SAFETY: entries below `used` of the old table, and as many of the new one at most; the
        // second word of entries is their capacity.
        unsafe {
            object::store(new + 8, capacity);
            for i in 0..used {
                let from = entry(old, i);
                let meta = object::load(from);
                if meta & LIVE == 0 {
                    continue;
                }
                let to = entry(new, live);
                let key = object::load(from + 8);
                object::store(to, meta);
                object::store(to + 8, key);
                object::store(to + 16, object::load(from + 16));
                if index != 0 && number(kind, key).is_some() {
                    insert(index, meta as u32, live);
                }
                live += 1;
            }
        }
        self.store(ENTRIES_AT, new);
        self.store(INDEX_AT, index);
        self.store(USED, live);
        Ok(())
    }
}

/// Puts an entry into the first free slot of the index.
///
/// # Safety
///
/// The address is that of an index with a free slot.
unsafe fn insert(index: u64, hash: u32, entry: u64) {
    // SAFETY: the caller's contract; slots of the index.
    unsafe {
        let mask = object::array_length(index) - 1;
        let mut at = hash as u64 & mask;
        while object::load(index + ELEMENTS + 8 * at) != 0 {
            at = (at + 1) & mask;
        }
        object::store(index + ELEMENTS + 8 * at, (hash as u64) << 32 | (entry + 1));
    }
}
