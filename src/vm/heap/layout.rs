//! The table of runtime types: what the objects of each type look like.
//!
//! A virtual machine has one table, which only grows. Strings and the inner parts of containers have
//! the types below [`FIRST`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::object::{
    Header, KEY_REFERENCES, KEY_SHIFT, Kind, MAP_FIELDS, MAP_SHIFT, REFERENCES, SIGNED,
};
use super::size;
use crate::vm::types::{Type, TypeId, TypeTable};

/// A runtime type, by its index in the table of the virtual machine: what the low half of an
/// object's header holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeIndex(pub u32);

/// All strings.
pub const STRING: TypeIndex = TypeIndex(1);
/// Text that strings are views of.
pub(super) const TEXT_BUFFER: TypeIndex = TypeIndex(2);
/// The elements of a list.
pub(super) const LIST_BUFFER: TypeIndex = TypeIndex(3);
/// The entries of a dictionary.
pub(super) const ENTRIES: TypeIndex = TypeIndex(4);
/// The index of a dictionary.
pub(super) const DICT_INDEX: TypeIndex = TypeIndex(5);
/// The first index that [`Types::reserve`] gives out.
pub const FIRST: TypeIndex = TypeIndex(16);

/// An element of an array or list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    I8,
    U8,
    I16,
    U16,
    /// 32 bits: integers, floats, chars, enums.
    Bits32,
    /// 64 bits that are no reference.
    Bits64,
    /// A string, struct or other reference.
    Reference,
}

impl Element {
    /// How elements of a type are stored.
    pub fn of(types: &TypeTable, ty: TypeId) -> Element {
        match types.get(ty) {
            Type::Byte => Element::I8,
            Type::Bool | Type::Ubyte => Element::U8,
            Type::Short => Element::I16,
            Type::Ushort => Element::U16,
            Type::Int | Type::Uint | Type::Float | Type::Char | Type::Enum(_) => Element::Bits32,
            _ if types.is_reference(ty) => Element::Reference,
            _ => Element::Bits64,
        }
    }

    fn apply(self, header: Header) -> Header {
        match self {
            Element::I8 => header.with_size(0).with(SIGNED),
            Element::U8 => header.with_size(0),
            Element::I16 => header.with_size(1).with(SIGNED),
            Element::U16 => header.with_size(1),
            Element::Bits32 => header.with_size(2),
            Element::Bits64 => header.with_size(3),
            Element::Reference => header.with_size(3).with(REFERENCES),
        }
    }
}

/// How keys of a dictionary are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Key {
    /// As words: integers, chars, bools, enums.
    Word = 0,
    /// As `float`s: zeros are equal, NaN is equal to nothing.
    Float = 1,
    Double = 2,
    /// By content.
    String = 3,
    /// By identity.
    Reference = 4,
}

impl Key {
    /// How keys of a type are compared.
    pub fn of(types: &TypeTable, ty: TypeId) -> Key {
        match types.get(ty) {
            Type::Float => Key::Float,
            Type::Double => Key::Double,
            Type::String => Key::String,
            _ if types.is_reference(ty) => Key::Reference,
            _ => Key::Word,
        }
    }

    pub(super) fn from_header(header: Header) -> Key {
        match header.0 >> KEY_SHIFT & 7 {
            0 => Key::Word,
            1 => Key::Float,
            2 => Key::Double,
            3 => Key::String,
            _ => Key::Reference,
        }
    }
}

/// A field of a class or struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// No reference.
    Word,
    /// A string or other reference, null in a new object.
    Reference,
    /// A struct of its own, made together with the object.
    Struct(TypeIndex),
}

/// What the objects of a type look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A class or struct.
    Instance(Vec<Field>),
    /// A scalar as `Object`.
    Box,
    /// An array. For `Struct`, the elements of a new one are new structs of the type.
    Array(Element, Option<TypeIndex>),
    List(Element),
    /// Keys, and whether the values are references.
    Dict(Key, bool),
    Function,
    /// A value of the host: see [`HostValue`](super::HostValue).
    Host,
}

/// What the heap knows of a type.
#[derive(Debug)]
pub struct TypeInfo {
    /// The header of new objects.
    pub header: Header,
    /// Bytes of an object with the header, if all are of one size; else 0.
    pub bytes: usize,
    /// The size class of `bytes`, or [`size::LARGE`].
    pub class: usize,
    /// Fields that are references, where the header's map does not reach.
    pub(super) wide: Box<[u32]>,
    /// Fields (or for an array, the elements: slot 0) that are structs.
    pub(super) structs: Box<[(u32, TypeIndex)]>,
}

impl TypeInfo {
    /// Whether a new object is a cell with a header and no more.
    pub fn is_plain(&self) -> bool {
        self.structs.is_empty() && self.bytes != 0 && self.class != size::LARGE
    }

    fn new(index: TypeIndex, layout: &Layout) -> TypeInfo {
        let fixed = |header: Header, words: usize| TypeInfo {
            header,
            bytes: 8 * words,
            class: size::class_of(8 * words),
            wide: Box::default(),
            structs: Box::default(),
        };
        match layout {
            Layout::Instance(fields) => TypeInfo::instance(index, fields),
            Layout::Box => fixed(Header::new(Kind::Box, index.0), 2),
            &Layout::Array(element, structs) => TypeInfo {
                structs: structs.map(|ty| (0, ty)).into_iter().collect(),
                ..fixed(element.apply(Header::new(Kind::Array, index.0)), 0)
            },
            &Layout::List(element) => fixed(element.apply(Header::new(Kind::List, index.0)), 3),
            &Layout::Dict(key, references) => {
                let mut header = Header::new(Kind::Dict, index.0).with((key as u64) << KEY_SHIFT);
                if matches!(key, Key::String | Key::Reference) {
                    header = header.with(KEY_REFERENCES);
                }
                if references {
                    header = header.with(REFERENCES);
                }
                fixed(header, 5)
            }
            Layout::Function => fixed(Header::new(Kind::Function, index.0), 3),
            Layout::Host => fixed(Header::new(Kind::Host, index.0), 2),
        }
    }

    fn instance(index: TypeIndex, fields: &[Field]) -> TypeInfo {
        let references =
            || fields.iter().enumerate().filter(|(_, f)| **f != Field::Word).map(|(i, _)| i as u32);
        let wide = fields.len() > MAP_FIELDS;
        let header = if wide {
            Header::new(Kind::Wide, index.0)
        } else {
            let map = references().fold(0u64, |map, i| map | 1 << i);
            Header::new(Kind::Instance, index.0).with(map << MAP_SHIFT)
        };
        // A cell has room for a header and one word at least.
        let bytes = 8 * (1 + fields.len()).max(2);
        TypeInfo {
            header,
            bytes,
            class: size::class_of(bytes),
            wide: if wide { references().collect() } else { Box::default() },
            structs: fields
                .iter()
                .enumerate()
                .filter_map(|(i, field)| match field {
                    Field::Struct(ty) => Some((i as u32, *ty)),
                    _ => None,
                })
                .collect(),
        }
    }
}

const FIRST_CHUNK_LOG2: u32 = 6;
const CHUNKS: usize = 32 - FIRST_CHUNK_LOG2 as usize;

/// The table. Reading takes no lock; entries never move.
#[derive(Debug)]
pub struct Types {
    /// Chunk i has `64 << i` entries.
    chunks: [OnceLock<Box<[OnceLock<TypeInfo>]>>; CHUNKS],
    len: AtomicU32,
    growth: Mutex<()>,
}

/// Chunk and place in it of an index.
#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    let shifted = index as u64 + (1 << FIRST_CHUNK_LOG2);
    let log2 = 63 - shifted.leading_zeros();
    ((log2 - FIRST_CHUNK_LOG2) as usize, (shifted - (1 << log2)) as usize)
}

impl Types {
    pub(super) fn new() -> Types {
        let types = Types {
            chunks: [const { OnceLock::new() }; CHUNKS],
            len: AtomicU32::new(0),
            growth: Mutex::new(()),
        };
        types.reserve(FIRST.0);
        types
    }

    /// Indices for `count` more types, each to be given a layout by [`Types::define`] before the
    /// first object of it is made. Returns the first.
    ///
    /// # Panics
    ///
    /// When there are more than 4 billion types.
    pub fn reserve(&self, count: u32) -> TypeIndex {
        let _growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.len.load(Ordering::Relaxed);
        let end =
            first.checked_add(count).filter(|&end| end < u32::MAX - 64).expect("type indices");
        if count > 0 {
            for chunk in 0..=place(end - 1).0 {
                self.chunks[chunk]
                    .get_or_init(|| (0..64usize << chunk).map(|_| OnceLock::new()).collect());
            }
        }
        self.len.store(end, Ordering::Release);
        TypeIndex(first)
    }

    /// Says what the objects of a reserved type look like.
    ///
    /// # Panics
    ///
    /// If the type was not reserved or has a layout already.
    pub fn define(&self, index: TypeIndex, layout: &Layout) {
        assert!(index.0 < self.len.load(Ordering::Acquire), "a type that was not reserved");
        let (chunk, place) = place(index.0);
        let entry = &self.chunks[chunk].get().expect("a reserved chunk")[place];
        assert!(entry.set(TypeInfo::new(index, layout)).is_ok(), "a type has one layout");
    }

    /// [`Types::reserve`] and [`Types::define`] for one type.
    #[cfg(test)]
    pub fn add(&self, layout: &Layout) -> TypeIndex {
        let index = self.reserve(1);
        self.define(index, layout);
        index
    }

    /// A type that was defined.
    ///
    /// # Panics
    ///
    /// If it was not.
    #[inline]
    pub fn get(&self, index: TypeIndex) -> &TypeInfo {
        let (chunk, place) = place(index.0);
        self.chunks[chunk].get().and_then(|chunk| chunk[place].get()).expect("a defined type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_place_of_its_own() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(63), (0, 63));
        assert_eq!(place(64), (1, 0));
        assert_eq!(place(191), (1, 127));
        assert_eq!(place(192), (2, 0));
    }

    #[test]
    fn a_map_names_the_reference_fields() {
        let types = Types::new();
        let inner = types.add(&Layout::Instance(vec![Field::Word]));
        let index = types.add(&Layout::Instance(vec![
            Field::Word,
            Field::Reference,
            Field::Word,
            Field::Struct(inner),
        ]));
        let info = types.get(index);
        assert_eq!(info.header.0 >> MAP_SHIFT, 0b1010);
        assert_eq!(info.header.ty(), index.0);
        assert_eq!((info.bytes, &*info.structs), (40, &[(3, inner)][..]));

        let mut fields = vec![Field::Word; 24];
        fields.push(Field::Reference);
        let wide = types.add(&Layout::Instance(fields));
        assert_eq!(types.get(wide).header.kind(), Kind::Wide);
        assert_eq!(&*types.get(wide).wide, &[24]);
    }

    #[test]
    fn a_table_takes_many_types() {
        let types = Types::new();
        let indices: Vec<_> = (0..5000).map(|_| types.add(&Layout::Box)).collect();
        for index in indices {
            assert_eq!(types.get(index).header.ty(), index.0);
        }
    }
}
