//! Strings: making, joining, cutting, comparing.
//!
//! A string that is made by joining, and then joined to again, lives in a buffer with room behind it:
//!
//! ```text
//! View  ──┐ length 5        Buffer: used 8, capacity 20
//!         ├──────────────► [h e l l o , _ w · · · · · · · · · · · ·]
//! View  ──┘ length 8                       └─ used
//! ```
//!
//! Joining to a string that ends exactly at `used` claims the room by moving `used`, and copies the
//! new piece only; any other string of that buffer is not disturbed, since bytes before `used` are
//! never written again. Where there is no room, a buffer of twice the size is begun, so building a
//! string of n bytes piece by piece copies at most 2n bytes. The first join makes an exact string, as
//! most are never joined to again.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use super::hash;
use super::layout::{STRING, TEXT_BUFFER};
use super::local::{LocalHeap, MAX_LENGTH};
use super::object::{self, BUFFER_BYTES, ELEMENTS, GROWN, Header, Kind};
use super::shared::HeapFull;
use super::size::{self, LARGE, SIZES};

/// Shorter results of joining are always exact.
const SHORTEST_GROWING: usize = 64;
/// Shorter substrings are copies.
const SHORTEST_VIEW: usize = 128;

const INLINE_HEADER: Header = Header::new(Kind::String, STRING.0);
const VIEW_HEADER: Header = Header::new(Kind::View, STRING.0);
const BUFFER_HEADER: Header = Header::new(Kind::Buffer, TEXT_BUFFER.0);

/// A string: 0, or the address of a string object.
#[derive(Clone, Copy)]
pub struct Str<'h> {
    word: u64,
    heap: PhantomData<&'h LocalHeap>,
}

impl<'h> Str<'h> {
    /// The empty string.
    pub const EMPTY: Str<'static> = Str { word: 0, heap: PhantomData };

    /// The string that a word stands for.
    ///
    /// # Panics
    ///
    /// If the object is no string.
    ///
    /// # Safety
    ///
    /// The word is 0 or the address of an object of this heap that lives.
    #[inline]
    pub unsafe fn from_word(_: &'h LocalHeap, word: u64) -> Str<'h> {
        if word != 0 {
            // SAFETY: the caller's contract.
            let kind = unsafe { object::header(word) }.kind();
            assert!(matches!(kind, Kind::String | Kind::View), "a string, not {kind:?}");
        }
        Str { word, heap: PhantomData }
    }

    /// The word that stands for it.
    #[inline]
    pub fn word(self) -> u64 {
        self.word
    }

    #[inline]
    pub fn bytes(self) -> &'h [u8] {
        // SAFETY: a value of this type is made from 0 or a string that lives while the heap is
        // borrowed: collecting needs it mutably.
        unsafe { object::string_bytes(self.word) }
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        // SAFETY: as in `bytes`.
        unsafe { object::string_length(self.word) as usize }
    }

    /// As text. Strings of scripts are UTF-8 unless they were cut within a character: then the broken
    /// parts are replaced.
    pub fn to_text(self) -> std::borrow::Cow<'h, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl PartialEq for Str<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both are 0 or strings that live.
        unsafe { equal(self.word, other.word) }
    }
}

impl Eq for Str<'_> {}

impl PartialOrd for Str<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Str<'_> {
    /// By bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

/// Whether two strings have the same bytes.
///
/// # Safety
///
/// Both words are 0 or addresses of strings that live.
#[inline]
pub unsafe fn equal(a: u64, b: u64) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        a == b
            || (object::string_length(a) == object::string_length(b)
                && object::string_bytes(a) == object::string_bytes(b))
    }
}

/// How the bytes of a buffer-backed string may be continued.
enum Room {
    /// The string is the last of this buffer, which has room.
    Here(u64),
    /// It is the last, but there is no room.
    Full,
    /// Another string continues there already; or it is in no buffer.
    None,
}

/// # Safety
///
/// The address is that of a string that lives.
unsafe fn room_behind(string: u64, length: usize, more: usize) -> Room {
    // SAFETY: a view's third word is its owner; a buffer has two more words.
    unsafe {
        let header = object::header(string);
        if header.kind() != Kind::View {
            return if header.has(GROWN) { Room::Full } else { Room::None };
        }
        let owner = object::load(string + 16);
        if object::header(owner).kind() != Kind::Buffer {
            return Room::None;
        }
        let end = object::load(string + 24) + length as u64 - (owner + BUFFER_BYTES);
        if end != object::load_acquire(owner + 8) {
            return Room::None;
        }
        let room = object::load(owner + 16) - end;
        if room >= more as u64 { Room::Here(owner) } else { Room::Full }
    }
}

impl LocalHeap {
    /// A string with these bytes; the empty one is the word 0.
    pub fn new_string(&self, bytes: &[u8]) -> Result<Str<'_>, HeapFull> {
        if bytes.is_empty() { Ok(Str::EMPTY) } else { self.new_string_object(bytes) }
    }

    /// A string that is an object, even if it is empty: what a string becomes as `Object`.
    pub fn new_string_object(&self, bytes: &[u8]) -> Result<Str<'_>, HeapFull> {
        let word = self.inline_string(bytes.len(), INLINE_HEADER)?;
        // SAFETY: the bytes of the new string, which nobody knows yet.
        unsafe { object::write_bytes(word + ELEMENTS, bytes) };
        Ok(Str { word, heap: PhantomData })
    }

    /// A string object with room for its bytes, which are zero.
    #[inline]
    fn inline_string(&self, length: usize, header: Header) -> Result<u64, HeapFull> {
        if length as u64 > MAX_LENGTH {
            return Err(HeapFull { requested: usize::MAX });
        }
        let word = self.allocate(ELEMENTS as usize + length, header)?;
        // SAFETY: the second word of a string is its length; no hash yet.
        unsafe { object::store(word + 8, length as u64) };
        Ok(word)
    }

    fn view(&self, owner: u64, start: u64, length: usize, flags: u64) -> Result<u64, HeapFull> {
        let view = self.allocate_class(size::class_of(32), VIEW_HEADER.with(flags))?;
        // SAFETY: the words of the new view.
        unsafe {
            object::store(view + 8, length as u64);
            object::store(view + 16, owner);
            object::store(view + 24, start);
        }
        Ok(view)
    }

    /// Joins two strings.
    #[cfg(test)]
    pub fn concat<'h>(&'h self, a: Str<'h>, b: Str<'h>) -> Result<Str<'h>, HeapFull> {
        // SAFETY: both live while the heap is borrowed.
        let word = unsafe { self.concat_words(&[a.word, b.word])? };
        Ok(Str { word, heap: PhantomData })
    }

    /// Joins strings.
    ///
    /// # Safety
    ///
    /// The words are 0 or addresses of strings of this heap that live.
    pub unsafe fn concat_words(&self, mut pieces: &[u64]) -> Result<u64, HeapFull> {
        // SAFETY (the closure and below): the caller's contract.
        let length = |&piece: &u64| unsafe { object::string_length(piece) as usize };
        while let [first, rest @ ..] = pieces
            && length(first) == 0
        {
            pieces = rest;
        }
        let [first, rest @ ..] = pieces else { return Ok(0) };
        let more: usize = rest.iter().map(length).sum();
        if more == 0 {
            return Ok(*first);
        }
        let total = length(first) + more;
        if total as u64 > MAX_LENGTH {
            return Err(HeapFull { requested: usize::MAX });
        }
        // SAFETY: `first` is not empty, so it is a string.
        let room = unsafe { room_behind(*first, length(first), more) };
        match room {
            Room::Here(buffer) => {
                // SAFETY: `first` is a view into the buffer.
                if let Some(joined) = unsafe { self.append(buffer, *first, rest, total)? } {
                    return Ok(joined);
                }
            }
            Room::Full if total >= SHORTEST_GROWING => {
                // SAFETY: strings that live.
                if let Some(joined) = unsafe { self.begin_buffer(pieces, total) } {
                    return Ok(joined);
                }
            }
            Room::Full | Room::None => {}
        }
        let joined = self.inline_string(total, INLINE_HEADER.with(GROWN))?;
        // SAFETY: the new string has room for all of them.
        unsafe { copy_pieces(joined + ELEMENTS, pieces) };
        Ok(joined)
    }

    /// Appends behind a view, unless another carrier takes the room first.
    ///
    /// # Safety
    ///
    /// `first` is a view into `buffer`, whose end and room were checked; the rest are strings.
    unsafe fn append(
        &self,
        buffer: u64,
        first: u64,
        rest: &[u64],
        total: usize,
    ) -> Result<Option<u64>, HeapFull> {
        // SAFETY: the caller's contract. The room from `end` on is ours once `used` was moved.
        unsafe {
            let start = object::load(first + 24);
            let view = self.view(buffer, start, total, GROWN)?;
            let end = start + object::string_length(first) as u64;
            let used = end - (buffer + BUFFER_BYTES);
            let claimed = start + total as u64 - (buffer + BUFFER_BYTES);
            if self.is_shared() {
                if !object::exchange(buffer + 8, used, claimed) {
                    return Ok(None);
                }
            } else {
                object::store(buffer + 8, claimed);
            }
            copy_pieces(end, rest);
            Ok(Some(view))
        }
    }

    /// Copies all into a new buffer with as much room again; `None` where memory is short.
    ///
    /// # Safety
    ///
    /// All are strings that live.
    unsafe fn begin_buffer(&self, pieces: &[u64], total: usize) -> Option<u64> {
        let bytes = BUFFER_BYTES as usize + 2 * total;
        let bytes = match size::class_of(bytes) {
            LARGE => bytes.next_multiple_of(8),
            class => SIZES[class],
        };
        self.has_room(bytes).ok()?;
        let buffer = self.allocate(bytes, BUFFER_HEADER).ok()?;
        let start = buffer + BUFFER_BYTES;
        // SAFETY: the words of the new buffer, and room for all pieces.
        unsafe {
            object::store(buffer + 8, total as u64);
            object::store(buffer + 16, bytes as u64 - BUFFER_BYTES);
            copy_pieces(start, pieces);
        }
        self.view(buffer, start, total, GROWN).ok()
    }

    /// The bytes `from..to` of a string: a copy, or a view if that does not keep much more memory
    /// alive than it needs.
    ///
    /// # Panics
    ///
    /// If the range is not within the string.
    pub fn substring<'h>(
        &'h self,
        string: Str<'h>,
        from: usize,
        to: usize,
    ) -> Result<Str<'h>, HeapFull> {
        let bytes = &string.bytes()[from..to];
        if bytes.len() == string.len() {
            return Ok(string);
        }
        if bytes.len() < SHORTEST_VIEW {
            return self.new_string(bytes);
        }
        // SAFETY: the string is not empty and lives.
        let (owner, held, start) = unsafe {
            let start = object::string_start(string.word);
            let owner = match object::header(string.word).kind() {
                Kind::View => object::load(string.word + 16),
                _ => string.word,
            };
            let held = match object::header(owner).kind() {
                Kind::Buffer => object::load(owner + 16) as usize,
                _ => object::string_length(owner) as usize,
            };
            (owner, held, start + from as u64)
        };
        if bytes.len() < held / 4 {
            return self.new_string(bytes);
        }
        let word = self.view(owner, start, bytes.len(), 0)?;
        Ok(Str { word, heap: PhantomData })
    }

    /// The hash of a string, which depends on its bytes and the heap's seed; never 0.
    pub fn hash_string(&self, string: Str<'_>) -> u32 {
        // SAFETY: the string lives while the heap is borrowed.
        unsafe { self.hash_string_word(string.word) }
    }

    /// # Safety
    ///
    /// The word is 0 or the address of a string of this heap that lives.
    pub(super) unsafe fn hash_string_word(&self, string: u64) -> u32 {
        let seed = self.config().seed;
        if string == 0 {
            return hash::of_bytes(seed, &[]);
        }
        // SAFETY: the high half of a string's second word is for its hash; who else computes it
        // writes the same.
        unsafe {
            let word = object::load(string + 8);
            if word >> 32 != 0 {
                return (word >> 32) as u32;
            }
            let hash = hash::of_bytes(seed, object::string_bytes(string));
            object::store(string + 8, word | (hash as u64) << 32);
            hash
        }
    }
}

/// Copies the bytes of strings one behind the other.
///
/// # Safety
///
/// All are strings that live; from `target` on there is room for them that belongs to the caller.
unsafe fn copy_pieces(mut target: u64, pieces: &[u64]) {
    for &piece in pieces {
        // SAFETY: the caller's contract.
        let bytes = unsafe { object::string_bytes(piece) };
        // SAFETY: as above.
        unsafe { object::write_bytes(target, bytes) };
        target += bytes.len() as u64;
    }
}
