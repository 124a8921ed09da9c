//! How objects lie in memory, and the only functions that touch their words.
//!
//! An object is a header of 8 bytes and what follows; its address is a multiple of 8 and never
//! changes. The header says all that the collector must know, except for classes with more than 24
//! fields:
//!
//! ```text
//!  63            40 39 38 37  36 35   32 31             0
//! +----------------+--+--+------+-------+----------------+
//! | map, or traits |L |S | size | kind  | type           |
//! +----------------+--+--+------+-------+----------------+
//!   type    index in the table of runtime types
//!   kind    one of `Kind`; 0 is no object
//!   size    of an element: 1 << size bytes  } arrays and lists
//!   S       elements are sign-extended      }
//!   L       lock, for containers that several carriers use
//!   map     of an `Instance`: bit i tells that field i is a reference
//!   traits  of the others: see `REFERENCES`, `KEY_SHIFT`, `GROWN`
//! ```
//!
//! ```text
//! Instance   | header | field 0 | field 1 | …                      class or struct, ≤ 24 fields
//! Wide       | header | field 0 | field 1 | …                      map in the type table
//! Box        | header | word |                                     a scalar as `Object`
//! Array      | header | length | elements of 1, 2, 4 or 8 bytes …  elements from byte 16
//! List       | header | length | buffer |                          buffer: an Array, or 0
//! Function   | header | target | receiver |
//! String     | header | length, hash | bytes …                     bytes from byte 16
//! View       | header | length, hash | owner | address of bytes |  owner: String or Buffer
//! Buffer     | header | used | capacity | bytes …                  bytes from byte 24
//! Dict       | header | count | used | entries | index |           see `dict`
//! Entries    | header | capacity | (hash, key, value) …
//! Host       | header | slot |                                     a value of the host
//! ```
//!
//! *Strings.* The word after the header has the length in its low half and a cached hash in the
//! high half, 0 if none was computed yet. `String` and `View` are both strings and have the same
//! type. The reference 0 is the empty string.
//!
//! *Lists.* A reader loads the length first (acquire), then the buffer: a buffer is replaced before
//! the length grows, and by one that is at least as large, so a reader that saw length n finds a
//! buffer of n elements or more.
//!
//! *Racing threads.* Every word and element is read and written as a relaxed atomic, which compiles
//! to a plain move: racing script threads may see old values but never cause undefined behaviour.
//! A reference that is stored into an object is stored with release and loaded with acquire (plain
//! moves on x86-64), so who finds an object finds its header and length.
//!
//! Addresses come from words, so provenance is exposed when memory is mapped and taken up again here.

use std::ptr::with_exposed_provenance;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

const KIND_SHIFT: u32 = 32;
const SIZE_SHIFT: u32 = 36;
/// Narrow elements are sign-extended to 32 bits.
pub const SIGNED: u64 = 1 << 38;
/// The lock of a container.
pub const LOCK: u64 = 1 << 39;
/// Where the map of an [`Kind::Instance`] begins.
pub const MAP_SHIFT: u32 = 40;
/// How many fields that map covers.
pub const MAP_FIELDS: usize = 24;
/// Elements, the boxed word or the values of a dictionary are references.
pub const REFERENCES: u64 = 1 << 40;
/// Keys of a dictionary are references.
pub const KEY_REFERENCES: u64 = 1 << 41;
/// A string that was made by concatenation, so more may follow.
pub const GROWN: u64 = 1 << 42;
/// Where the kind of a dictionary's keys stands, 3 bits.
pub const KEY_SHIFT: u32 = 43;

/// Bytes before the elements of an array and the text of a string.
pub const ELEMENTS: u64 = 16;
/// Bytes before the text in a buffer.
pub const BUFFER_BYTES: u64 = 24;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// No object: a cell that is free or was never used.
    None = 0,
    Instance = 1,
    Wide = 2,
    Box = 3,
    Array = 4,
    List = 5,
    Function = 6,
    String = 7,
    View = 8,
    Buffer = 9,
    Dict = 10,
    Entries = 11,
    Host = 12,
    /// A freed cell that was filled with [`POISON`].
    Poison = 15,
}

/// What freed cells are filled with where that is asked for: as a header it is of kind
/// [`Kind::Poison`], as an address it faults.
pub const POISON: u64 = 0xfbad_fbaf_fbad_fbad;

const KINDS: [Kind; 16] = [
    Kind::None,
    Kind::Instance,
    Kind::Wide,
    Kind::Box,
    Kind::Array,
    Kind::List,
    Kind::Function,
    Kind::String,
    Kind::View,
    Kind::Buffer,
    Kind::Dict,
    Kind::Entries,
    Kind::Host,
    Kind::None,
    Kind::None,
    Kind::Poison,
];

/// The header of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(pub u64);

impl Header {
    /// A header without traits.
    pub const fn new(kind: Kind, ty: u32) -> Header {
        Header((kind as u64) << KIND_SHIFT | ty as u64)
    }

    /// The header of something with elements of `1 << log2` bytes.
    pub const fn with_size(self, log2: u32) -> Header {
        Header(self.0 | (log2 as u64) << SIZE_SHIFT)
    }

    /// With more bits set.
    pub const fn with(self, bits: u64) -> Header {
        Header(self.0 | bits)
    }

    /// Another kind and type with the same element.
    pub const fn same_element(self, kind: Kind, ty: u32) -> Header {
        let element = self.0 & (3 << SIZE_SHIFT | SIGNED | REFERENCES);
        Header(Header::new(kind, ty).0 | element)
    }

    #[inline(always)]
    pub fn kind(self) -> Kind {
        KINDS[(self.0 >> KIND_SHIFT) as usize & 15]
    }

    /// The index in the table of runtime types.
    #[inline(always)]
    pub const fn ty(self) -> u32 {
        self.0 as u32
    }

    /// The binary logarithm of an element's bytes.
    #[inline(always)]
    pub const fn size_log2(self) -> u32 {
        (self.0 >> SIZE_SHIFT) as u32 & 3
    }

    #[inline(always)]
    pub const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }
}

#[inline(always)]
fn at<T>(address: u64) -> *const T {
    with_exposed_provenance(address as usize)
}

/// The word at an address.
///
/// # Safety
///
/// The address is that of a word inside an object (or a mark bitmap) of a heap that lives.
#[inline(always)]
pub unsafe fn load(address: u64) -> u64 {
    // SAFETY: the caller names a live, aligned word; all access to it is atomic.
    unsafe { (*at::<AtomicU64>(address)).load(Relaxed) }
}

/// Writes the word at an address.
///
/// # Safety
///
/// As for [`load`].
#[inline(always)]
pub unsafe fn store(address: u64, word: u64) {
    // SAFETY: as in `load`.
    unsafe { (*at::<AtomicU64>(address)).store(word, Relaxed) }
}

/// [`load`] with acquire: for references and for lengths that guard a buffer.
///
/// # Safety
///
/// As for [`load`].
#[inline(always)]
pub unsafe fn load_acquire(address: u64) -> u64 {
    // SAFETY: as in `load`.
    unsafe { (*at::<AtomicU64>(address)).load(Acquire) }
}

/// [`store`] with release: for references and for lengths that guard a buffer.
///
/// # Safety
///
/// As for [`load`].
#[inline(always)]
pub unsafe fn store_release(address: u64, word: u64) {
    // SAFETY: as in `load`.
    unsafe { (*at::<AtomicU64>(address)).store(word, Release) }
}

/// Replaces a word if it is the expected one; tells whether it did.
///
/// # Safety
///
/// As for [`load`].
#[inline]
pub unsafe fn exchange(address: u64, expected: u64, word: u64) -> bool {
    // SAFETY: as in `load`. Acquire and release: the word may be a lock.
    unsafe {
        (*at::<AtomicU64>(address)).compare_exchange(expected, word, Acquire, Relaxed).is_ok()
    }
}

/// Takes the lock bit of a container's header, spinning while another carrier has it.
///
/// # Safety
///
/// The address is that of an object that lives. The caller does not hold its lock.
pub unsafe fn lock(address: u64) {
    // SAFETY: an object begins with its header, a word.
    let header = unsafe { &*at::<AtomicU64>(address) };
    let mut spins = 0u32;
    // Acquire: what the last holder wrote is seen.
    while header.fetch_or(LOCK, Acquire) & LOCK != 0 {
        spins += 1;
        if spins.is_multiple_of(64) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Gives the lock bit back.
///
/// # Safety
///
/// The caller holds the lock of the object at this address.
pub unsafe fn unlock(address: u64) {
    // SAFETY: an object begins with its header, a word. Release: the next holder sees our writes.
    unsafe { &*at::<AtomicU64>(address) }.fetch_and(!LOCK, Release);
}

/// The header of the object at an address.
///
/// # Safety
///
/// The address is that of an object that lives.
#[inline(always)]
pub unsafe fn header(address: u64) -> Header {
    // SAFETY: an object begins with its header.
    Header(unsafe { load(address) })
}

/// The runtime type of the object at an address.
///
/// # Safety
///
/// The address is that of an object that lives.
#[inline(always)]
pub unsafe fn type_of(address: u64) -> u32 {
    // SAFETY: the same contract.
    unsafe { header(address) }.ty()
}

/// Field `slot` of a class, struct, box (slot 0) or function value (0 target, 1 receiver).
///
/// # Safety
///
/// The address is that of an object that lives and has this field.
#[inline(always)]
pub unsafe fn field(address: u64, slot: usize) -> u64 {
    // SAFETY: the caller's contract. Acquire: the field may be a reference.
    unsafe { load_acquire(address + 8 + 8 * slot as u64) }
}

/// Writes a field.
///
/// # Safety
///
/// As for [`field`]; a reference field gets 0 or the address of an object of the same heap.
#[inline(always)]
pub unsafe fn set_field(address: u64, slot: usize, word: u64) {
    // SAFETY: the caller's contract. Release: the word may be a reference.
    unsafe { store_release(address + 8 + 8 * slot as u64, word) }
}

/// The length of an array.
///
/// # Safety
///
/// The address is that of an array that lives.
#[inline(always)]
pub unsafe fn array_length(address: u64) -> u64 {
    // SAFETY: the second word of an array is its length.
    unsafe { load(address + 8) }
}

/// The length of a list: to be read before [`list_buffer`].
///
/// # Safety
///
/// The address is that of a list that lives.
#[inline(always)]
pub unsafe fn list_length(address: u64) -> u64 {
    // SAFETY: the second word of a list is its length.
    unsafe { load_acquire(address + 8) }
}

/// The array with the elements of a list; 0 if it never had any.
///
/// # Safety
///
/// The address is that of a list that lives.
#[inline(always)]
pub unsafe fn list_buffer(address: u64) -> u64 {
    // SAFETY: the third word of a list is its buffer.
    unsafe { load_acquire(address + 16) }
}

/// The element of an array with elements of 1 byte, zero-extended.
///
/// # Safety
///
/// The address is that of such an array that lives, and the index is below its length.
#[inline(always)]
pub unsafe fn element8(array: u64, index: u64) -> u8 {
    // SAFETY: the caller's contract.
    unsafe { (*at::<AtomicU8>(array + ELEMENTS + index)).load(Relaxed) }
}

/// The element of an array with elements of 2 bytes.
///
/// # Safety
///
/// As for [`element8`].
#[inline(always)]
pub unsafe fn element16(array: u64, index: u64) -> u16 {
    // SAFETY: the caller's contract.
    unsafe { (*at::<AtomicU16>(array + ELEMENTS + 2 * index)).load(Relaxed) }
}

/// The element of an array with elements of 4 bytes.
///
/// # Safety
///
/// As for [`element8`].
#[inline(always)]
pub unsafe fn element32(array: u64, index: u64) -> u32 {
    // SAFETY: the caller's contract.
    unsafe { (*at::<AtomicU32>(array + ELEMENTS + 4 * index)).load(Relaxed) }
}

/// The element of an array with elements of 8 bytes.
///
/// # Safety
///
/// As for [`element8`].
#[inline(always)]
pub unsafe fn element64(array: u64, index: u64) -> u64 {
    // SAFETY: the caller's contract. Acquire: the element may be a reference.
    unsafe { load_acquire(array + ELEMENTS + 8 * index) }
}

/// Writes an element of 1 byte.
///
/// # Safety
///
/// As for [`element8`].
#[inline(always)]
pub unsafe fn set_element8(array: u64, index: u64, value: u8) {
    // SAFETY: the caller's contract.
    unsafe { (*at::<AtomicU8>(array + ELEMENTS + index)).store(value, Relaxed) }
}

/// Writes an element of 2 bytes.
///
/// # Safety
///
/// As for [`element8`].
#[inline(always)]
pub unsafe fn set_element16(array: u64, index: u64, value: u16) {
    // SAFETY: the caller's contract.
    unsafe { (*at::<AtomicU16>(array + ELEMENTS + 2 * index)).store(value, Relaxed) }
}

/// Writes an element of 4 bytes.
///
/// # Safety
///
/// As for [`element8`].
#[inline(always)]
pub unsafe fn set_element32(array: u64, index: u64, value: u32) {
    // SAFETY: the caller's contract.
    unsafe { (*at::<AtomicU32>(array + ELEMENTS + 4 * index)).store(value, Relaxed) }
}

/// Writes an element of 8 bytes.
///
/// # Safety
///
/// As for [`element8`]; a reference element gets 0 or the address of an object of the same heap.
#[inline(always)]
pub unsafe fn set_element64(array: u64, index: u64, value: u64) {
    // SAFETY: the caller's contract. Release: the element may be a reference.
    unsafe { store_release(array + ELEMENTS + 8 * index, value) }
}

/// An element of any size as a canonical word, by the array's header.
///
/// # Safety
///
/// The address is that of an array that lives, and the index is below its length.
#[inline]
pub unsafe fn element(array: u64, index: u64) -> u64 {
    // SAFETY: the header says how large the elements are; the rest is the caller's contract.
    unsafe {
        let header = header(array);
        match header.size_log2() {
            0 if header.has(SIGNED) => element8(array, index) as i8 as i32 as u32 as u64,
            0 => element8(array, index).into(),
            1 if header.has(SIGNED) => element16(array, index) as i16 as i32 as u32 as u64,
            1 => element16(array, index).into(),
            2 => element32(array, index).into(),
            _ => element64(array, index),
        }
    }
}

/// Writes the low bits of a word as an element of any size, by the array's header.
///
/// # Safety
///
/// As for [`element`]; a reference element gets 0 or the address of an object of the same heap.
#[inline]
pub unsafe fn set_element(array: u64, index: u64, word: u64) {
    // SAFETY: the header says how large the elements are; the rest is the caller's contract.
    unsafe {
        match header(array).size_log2() {
            0 => set_element8(array, index, word as u8),
            1 => set_element16(array, index, word as u16),
            2 => set_element32(array, index, word as u32),
            _ => set_element64(array, index, word),
        }
    }
}

/// The length of a string in bytes; 0 for the reference 0.
///
/// # Safety
///
/// The word is 0 or the address of a string that lives.
#[inline(always)]
pub unsafe fn string_length(string: u64) -> u32 {
    if string == 0 {
        return 0;
    }
    // SAFETY: the low half of a string's second word is its length.
    unsafe { load(string + 8) as u32 }
}

/// Where the bytes of a string are.
///
/// # Safety
///
/// The address is that of a string that lives; not 0.
#[inline(always)]
pub unsafe fn string_start(string: u64) -> u64 {
    // SAFETY: a view has the address in its fourth word, else the bytes follow the second.
    unsafe {
        if header(string).kind() == Kind::View { load(string + 24) } else { string + ELEMENTS }
    }
}

/// The byte of a string at an index.
///
/// # Safety
///
/// The address is that of a string that lives, and the index is below its length.
#[inline(always)]
pub unsafe fn string_byte(string: u64, index: u64) -> u8 {
    // SAFETY: the bytes of a string are never written again once it can be seen.
    unsafe { *at::<u8>(string_start(string) + index) }
}

/// The bytes of a string; none for the reference 0.
///
/// # Safety
///
/// The word is 0 or the address of a string that lives as long as `'a`.
#[inline(always)]
pub unsafe fn string_bytes<'a>(string: u64) -> &'a [u8] {
    if string == 0 {
        return &[];
    }
    // SAFETY: the bytes of a string are never written again once it can be seen, and lie in one
    // object that the string keeps alive.
    unsafe { std::slice::from_raw_parts(at(string_start(string)), string_length(string) as usize) }
}

/// Copies bytes into an object.
///
/// # Safety
///
/// The target lies in an object, and nobody else reads or writes these bytes meanwhile.
#[inline]
pub unsafe fn write_bytes(target: u64, bytes: &[u8]) {
    let target = std::ptr::with_exposed_provenance_mut::<u8>(target as usize);
    // SAFETY: the caller's contract; source and target are apart, since nobody reads the target.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
}

/// Fills words with zero.
///
/// # Safety
///
/// The range lies in mapped memory of the heap that nobody else uses; both ends are multiples of 8.
#[inline]
pub unsafe fn zero(start: u64, bytes: usize) {
    let start = std::ptr::with_exposed_provenance_mut::<u8>(start as usize);
    // SAFETY: the caller's contract.
    unsafe { std::ptr::write_bytes(start, 0, bytes) }
}

/// Fills so many words with one.
///
/// # Safety
///
/// As for [`zero`].
pub unsafe fn fill(start: u64, count: usize, word: u64) {
    let start = std::ptr::with_exposed_provenance_mut::<u64>(start as usize);
    // SAFETY: the caller's contract; mapped memory is initialised.
    unsafe { std::slice::from_raw_parts_mut(start, count) }.fill(word);
}

/// Copies elements within or between arrays of the same element; ranges may overlap. `racing` tells
/// that other carriers may read them meanwhile: then each is moved as an atomic of its own size.
///
/// # Safety
///
/// Both ranges lie inside arrays that live, with elements of `1 << log2` bytes.
pub unsafe fn copy_elements(from: u64, to: u64, count: usize, log2: u32, racing: bool) {
    if !racing {
        let source = at::<u8>(from);
        let target = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
        // SAFETY: the caller's contract; without other carriers nobody else touches them.
        unsafe { std::ptr::copy(source, target, count << log2) };
        return;
    }
    let mut step = |i: usize| {
        let offset = (i as u64) << log2;
        // SAFETY: element i of both ranges, with the size of the arrays' elements.
        unsafe {
            match log2 {
                0 => (*at::<AtomicU8>(to + offset))
                    .store((*at::<AtomicU8>(from + offset)).load(Relaxed), Relaxed),
                1 => (*at::<AtomicU16>(to + offset))
                    .store((*at::<AtomicU16>(from + offset)).load(Relaxed), Relaxed),
                2 => (*at::<AtomicU32>(to + offset))
                    .store((*at::<AtomicU32>(from + offset)).load(Relaxed), Relaxed),
                _ => store_release(to + offset, load_acquire(from + offset)),
            }
        }
    };
    if to <= from {
        (0..count).for_each(&mut step);
    } else {
        (0..count).rev().for_each(&mut step);
    }
}
