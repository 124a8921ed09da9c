//! Arrays and lists.
//!
//! The contract with readers that take no lock is in [`object`]: load the length, then the buffer.
//! While several carriers run, nothing behind a list's end is cleared either, so that a reader with an
//! old length finds an old element there and never a 0 where there is none (a struct's reference).

use std::marker::PhantomData;

use super::layout::LIST_BUFFER;
use super::local::{LocalHeap, MAX_LENGTH};
use super::object::{self, ELEMENTS, Header, Kind, REFERENCES};
use super::shared::HeapFull;
use super::size::{self, LARGE, SIZES};

/// A list that was cleared keeps a buffer of at most so many bytes.
const KEPT_BUFFER: usize = 1 << 16;

/// Holds a container's lock, if the heap is shared.
pub(super) struct Guard(u64);

impl Guard {
    /// # Safety
    ///
    /// The address is that of an object that lives as long as the guard; the caller does not hold
    /// its lock.
    #[inline(always)]
    pub unsafe fn new(heap: &LocalHeap, object: u64) -> Guard {
        if heap.is_shared() {
            // SAFETY: the caller's contract.
            unsafe { object::lock(object) };
            return Guard(object);
        }
        Guard(0)
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 != 0 {
            // SAFETY: `new` took the lock.
            unsafe { object::unlock(self.0) };
        }
    }
}

/// An array.
#[derive(Clone, Copy, Debug)]
pub struct Array<'h> {
    word: u64,
    heap: PhantomData<&'h LocalHeap>,
}

impl<'h> Array<'h> {
    /// The array at an address.
    ///
    /// # Panics
    ///
    /// If the object is no array.
    ///
    /// # Safety
    ///
    /// The word is the address of an object of this heap that lives, not 0.
    #[inline]
    pub unsafe fn from_word(_: &'h LocalHeap, word: u64) -> Array<'h> {
        // SAFETY: the caller's contract.
        let kind = unsafe { object::header(word) }.kind();
        assert_eq!(kind, Kind::Array, "an array");
        Array { word, heap: PhantomData }
    }

    #[inline]
    pub fn len(self) -> usize {
        // SAFETY: an array that lives while the heap is borrowed.
        unsafe { object::array_length(self.word) as usize }
    }

    /// An element as a canonical word.
    #[inline]
    pub fn get(self, index: usize) -> Option<u64> {
        // SAFETY: as in `len`; the index is below the length.
        (index < self.len()).then(|| unsafe { object::element(self.word, index as u64) })
    }

    /// Writes an element; tells whether there is one of this index.
    ///
    /// # Safety
    ///
    /// The word is one of the element's type: 0 or the address of a living object of this heap for a
    /// reference.
    #[inline]
    pub unsafe fn set(self, index: usize, word: u64) -> bool {
        let inside = index < self.len();
        if inside {
            // SAFETY: as in `get`, and the caller's contract.
            unsafe { object::set_element(self.word, index as u64, word) };
        }
        inside
    }

    /// All elements.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'h {
        (0..self.len()).map_while(move |i| self.get(i))
    }
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub struct List<'h> {
    word: u64,
    heap: &'h LocalHeap,
}

impl<'h> List<'h> {
    /// The list at an address.
    ///
    /// # Panics
    ///
    /// If the object is no list.
    ///
    /// # Safety
    ///
    /// The word is the address of an object of this heap that lives, not 0.
    #[inline]
    pub unsafe fn from_word(heap: &'h LocalHeap, word: u64) -> List<'h> {
        // SAFETY: the caller's contract.
        let kind = unsafe { object::header(word) }.kind();
        assert_eq!(kind, Kind::List, "a list");
        List { word, heap }
    }

    #[inline]
    pub fn word(self) -> u64 {
        self.word
    }

    #[inline]
    pub fn len(self) -> usize {
        // SAFETY: a list that lives while the heap is borrowed.
        unsafe { object::list_length(self.word) as usize }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// How many elements fit before the buffer must grow.
    pub fn capacity(self) -> usize {
        // SAFETY: as in `len`.
        unsafe {
            match object::list_buffer(self.word) {
                0 => 0,
                buffer => object::array_length(buffer) as usize,
            }
        }
    }

    /// An element as a canonical word.
    #[inline]
    pub fn get(self, index: usize) -> Option<u64> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: a list that lives; its buffer, loaded after the length, has this element.
        Some(unsafe { object::element(object::list_buffer(self.word), index as u64) })
    }

    /// Writes an element; tells whether there is one of this index.
    ///
    /// # Safety
    ///
    /// The word is one of the element's type: 0 or the address of a living object of this heap for a
    /// reference.
    #[inline]
    pub unsafe fn set(self, index: usize, word: u64) -> bool {
        // SAFETY: as in `get`, and the caller's contract. The lock: a buffer that is being replaced
        // would lose the element.
        unsafe {
            let _guard = Guard::new(self.heap, self.word);
            let inside = index < self.len();
            if inside {
                object::set_element(object::list_buffer(self.word), index as u64, word);
            }
            inside
        }
    }

    /// Appends an element.
    ///
    /// # Safety
    ///
    /// As for [`List::set`].
    #[inline]
    pub unsafe fn add(self, word: u64) -> Result<(), HeapFull> {
        // SAFETY: a list that lives, and the caller's contract.
        unsafe { self.heap.list_add(self.word, word) }
    }

    /// Makes room for more elements.
    pub fn reserve(self, more: usize) -> Result<(), HeapFull> {
        // SAFETY: a list that lives.
        unsafe {
            let _guard = Guard::new(self.heap, self.word);
            let least = object::list_length(self.word).saturating_add(more as u64);
            if least > self.capacity() as u64 {
                self.heap.grow_list(self.word, least)
            } else {
                Ok(())
            }
        }
    }

    /// Takes an element out; those behind it move up. `None` if there is none of this index.
    pub fn remove_at(self, index: usize) -> Option<u64> {
        // SAFETY: a list that lives; all that is touched lies below its length.
        unsafe {
            let _guard = Guard::new(self.heap, self.word);
            let length = self.len();
            if index >= length {
                return None;
            }
            let buffer = object::list_buffer(self.word);
            let removed = object::element(buffer, index as u64);
            let log2 = object::header(buffer).size_log2();
            let place = |i: usize| buffer + ELEMENTS + ((i as u64) << log2);
            let racing = self.heap.is_shared();
            object::copy_elements(place(index + 1), place(index), length - index - 1, log2, racing);
            object::store_release(self.word + 8, length as u64 - 1);
            if !racing {
                object::set_element(buffer, length as u64 - 1, 0);
            }
            Some(removed)
        }
    }

    /// Takes all elements out.
    pub fn clear(self) {
        // SAFETY: a list that lives.
        unsafe {
            let _guard = Guard::new(self.heap, self.word);
            let length = self.len();
            object::store_release(self.word + 8, 0);
            if length == 0 || self.heap.is_shared() {
                return;
            }
            let buffer = object::list_buffer(self.word);
            let log2 = object::header(buffer).size_log2();
            if self.capacity() << log2 > KEPT_BUFFER {
                object::store_release(self.word + 16, 0);
            } else {
                object::zero(buffer + ELEMENTS, length << log2);
            }
        }
    }

    /// The elements. A list that changes meanwhile gives old or new ones.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'h {
        (0..).map_while(move |i| self.get(i))
    }

    /// The first index whose element fits.
    pub fn position(self, fits: impl FnMut(u64) -> bool) -> Option<usize> {
        // SAFETY: a list that lives.
        let _guard = unsafe { Guard::new(self.heap, self.word) };
        self.iter().position(fits)
    }
}

/// The length of a buffer for at least so many elements: what its cell has room for.
fn rounded(least: u64, log2: u32) -> u64 {
    let bytes = ELEMENTS as usize + ((least as usize) << log2);
    let bytes = match size::class_of(bytes) {
        LARGE => bytes.next_multiple_of(8),
        class => SIZES[class],
    };
    ((bytes - ELEMENTS as usize) >> log2).min(MAX_LENGTH as usize) as u64
}

impl LocalHeap {
    /// A new list with these elements, of a type with the layout
    /// [`Layout::List`](super::Layout::List).
    ///
    /// # Safety
    ///
    /// The words are of the element's type: 0 or addresses of living objects of this heap for
    /// references.
    pub unsafe fn new_list(
        &self,
        ty: super::TypeIndex,
        words: &[u64],
    ) -> Result<List<'_>, HeapFull> {
        let list = self.new_container(ty)?;
        // SAFETY: a new list.
        let list = unsafe { List::from_word(self, list) };
        list.reserve(words.len())?;
        for &word in words {
            // SAFETY: the caller's contract.
            unsafe { list.add(word)? };
        }
        Ok(list)
    }

    /// Appends to a list.
    ///
    /// # Safety
    ///
    /// The address is that of a list of this heap that lives; the word is of its element's type.
    #[inline]
    pub unsafe fn list_add(&self, list: u64, word: u64) -> Result<(), HeapFull> {
        // SAFETY: the caller's contract; the element is written before the length says it is there.
        unsafe {
            let _guard = Guard::new(self, list);
            let length = object::list_length(list);
            let mut buffer = object::list_buffer(list);
            if buffer == 0 || length == object::array_length(buffer) {
                self.grow_list(list, length + 1)?;
                buffer = object::list_buffer(list);
            }
            object::set_element(buffer, length, word);
            object::store_release(list + 8, length + 1);
        }
        Ok(())
    }

    /// Gives a list a larger buffer.
    ///
    /// # Safety
    ///
    /// The address is that of a list of this heap that lives, whose lock the caller holds.
    #[cold]
    #[inline(never)]
    unsafe fn grow_list(&self, list: u64, least: u64) -> Result<(), HeapFull> {
        if least > MAX_LENGTH {
            return Err(HeapFull { requested: usize::MAX });
        }
        // SAFETY: the caller's contract.
        let (header, old) = unsafe { (object::header(list), object::list_buffer(list)) };
        let log2 = header.size_log2();
        // SAFETY: a buffer is an array.
        let capacity = if old == 0 { 0 } else { unsafe { object::array_length(old) } };
        let factor = if capacity << log2 < KEPT_BUFFER as u64 { capacity } else { capacity / 2 };
        let wanted = rounded(least.max(capacity + factor).clamp(2, MAX_LENGTH), log2);
        let header: Header = header.same_element(Kind::Array, LIST_BUFFER.0);
        let buffer = match self.new_elements(header, wanted) {
            // Where memory is short, less; but always by a part of what there is, for a list that grew
            // by one element at a time would be copied, and the heap collected, each time.
            Err(_) if least < wanted => {
                let modest = least.max(capacity + capacity / 16).min(MAX_LENGTH);
                self.new_elements(header, rounded(modest, log2))?
            }
            other => other?,
        };
        if old != 0 {
            // SAFETY: both are arrays of the same element. The old content goes on to be read, but is
            // not written any more: the caller holds the lock. While carriers race, what lies behind
            // the end is copied too.
            unsafe {
                let count =
                    if self.is_shared() { capacity } else { object::list_length(list) } as usize;
                object::copy_elements(
                    old + ELEMENTS,
                    buffer + ELEMENTS,
                    count,
                    log2,
                    self.is_shared(),
                );
            }
        }
        // SAFETY: the third word of a list; the buffer is complete before it can be seen.
        unsafe { object::store_release(list + 16, buffer) };
        Ok(())
    }
}
