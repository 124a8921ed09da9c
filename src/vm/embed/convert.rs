//! Which Rust type stands for which type of scripts, and how values go over: the table in
//! docs/embedding.md.
//!
//! Conversions of references rest on two things: the word has the type that the machine says, and no
//! collection happens until the result is in its place.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::error::Error;
use super::object::Object;
use crate::vm::heap::{Array, Dict, HeapFull, List, LocalHeap, Str, TypeIndex};
use crate::vm::link;
use crate::vm::native::Word;
use crate::vm::tasks::Tasks;
use crate::vm::types::{Type, TypeId, TypeTable, known};

/// What conversions work on. Not for use outside this crate.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub(super) heap: &'a LocalHeap,
    pub(super) types: &'a TypeTable,
    pub(super) tasks: &'a Tasks,
}

/// A type of scripts. Not for use outside this crate.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct ScriptType<'a> {
    pub(super) types: &'a TypeTable,
    pub(super) id: TypeId,
}

/// Why a value did not go over. Not for use outside this crate.
#[doc(hidden)]
pub enum Failure {
    HeapFull(HeapFull),
    Error(Error),
}

impl From<HeapFull> for Failure {
    fn from(full: HeapFull) -> Failure {
        Failure::HeapFull(full)
    }
}

impl<'a> ScriptType<'a> {
    fn get(self) -> &'a Type {
        self.types.get(self.id)
    }

    fn with(self, id: TypeId) -> ScriptType<'a> {
        ScriptType { id, ..self }
    }
}

impl<'a> Scope<'a> {
    pub(super) fn ty(self, id: TypeId) -> ScriptType<'a> {
        ScriptType { types: self.types, id }
    }

    /// What the heap calls a type.
    pub(super) fn index(self, id: TypeId) -> TypeIndex {
        TypeIndex(link::TypeIndex::of(id).0)
    }

    pub(super) fn mismatch<T: Value + ?Sized>(self, id: TypeId) -> Failure {
        Failure::Error(Error::Type { rust: T::describe(), script: self.types.name(id) })
    }
}

/// What Rust types on both sides have in common. Implemented by this crate only.
#[doc(hidden)]
pub trait Value {
    /// The Rust type, as messages show it.
    fn describe() -> String;
    /// Whether a script's type corresponds.
    fn fits(ty: ScriptType<'_>) -> bool;
}

/// A Rust value that a script can receive: an argument of a call, the result of a native function.
///
/// The implementations are those of the [table](crate::vm#values); there can be no others.
pub trait ToScript: Value {
    /// The word of the value. No collection happens meanwhile.
    #[doc(hidden)]
    fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure>;
}

/// A Rust value that a script can give: the result of a call, an argument of a native function.
///
/// The implementations are those of the [table](crate::vm#values); there can be no others.
pub trait FromScript: Value + Sized + Send + 'static {
    /// The value of a word, which is of the type.
    #[doc(hidden)]
    fn from_word(scope: Scope<'_>, ty: TypeId, word: Word) -> Result<Self, Failure>;
}

macro_rules! scalars {
    ($($rust:ty: $pattern:pat, |$value:ident| $to:expr, |$word:ident| $from:expr;)*) => {
        $(impl Value for $rust {
            fn describe() -> String {
                stringify!($rust).into()
            }

            fn fits(ty: ScriptType<'_>) -> bool {
                matches!(ty.get(), $pattern)
            }
        }

        impl ToScript for $rust {
            fn to_word(&self, _: Scope<'_>, _: TypeId) -> Result<Word, Failure> {
                let $value = *self;
                Ok($to)
            }
        }

        impl FromScript for $rust {
            fn from_word(_: Scope<'_>, _: TypeId, $word: Word) -> Result<$rust, Failure> {
                Ok($from)
            }
        })*
    };
}

scalars! {
    i8: Type::Byte, |value| (i32::from(value) as u32).into(), |word| word as i8;
    i16: Type::Short, |value| (i32::from(value) as u32).into(), |word| word as i16;
    i32: Type::Int | Type::Enum(_), |value| (value as u32).into(), |word| word as i32;
    i64: Type::Long, |value| value as u64, |word| word as i64;
    u8: Type::Ubyte, |value| value.into(), |word| word as u8;
    u16: Type::Ushort, |value| value.into(), |word| word as u16;
    u32: Type::Uint, |value| value.into(), |word| word as u32;
    u64: Type::Ulong, |value| value, |word| word;
    f32: Type::Float, |value| value.to_bits().into(), |word| f32::from_bits(word as u32);
    f64: Type::Double, |value| value.to_bits(), |word| f64::from_bits(word);
    bool: Type::Bool, |value| value.into(), |word| word as u8 != 0;
    char: Type::Char, |value| u32::from(value).into(),
        |word| char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    (): Type::Void, |_value| 0, |_word| ();
}

macro_rules! strings {
    ($($rust:ty),*) => {
        $(impl Value for $rust {
            fn describe() -> String {
                stringify!($rust).into()
            }

            fn fits(ty: ScriptType<'_>) -> bool {
                ty.id == known::STRING
            }
        }

        impl ToScript for $rust {
            fn to_word(&self, scope: Scope<'_>, _: TypeId) -> Result<Word, Failure> {
                Ok(scope.heap.new_string(self.as_bytes())?.word())
            }
        })*
    };
}

strings!(str, String);

impl FromScript for String {
    fn from_word(scope: Scope<'_>, _: TypeId, word: Word) -> Result<String, Failure> {
        // SAFETY: the word is of the type string.
        Ok(unsafe { Str::from_word(scope.heap, word) }.to_text().into_owned())
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn describe() -> String {
        format!("&{}", T::describe())
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        T::fits(ty)
    }
}

impl<T: ToScript + ?Sized> ToScript for &T {
    fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure> {
        (**self).to_word(scope, ty)
    }
}

/// The type of the elements of a list or array.
fn element(ty: ScriptType<'_>) -> Option<ScriptType<'_>> {
    match ty.get() {
        &Type::List(element) | &Type::Array(element) => Some(ty.with(element)),
        _ => None,
    }
}

impl<T: Value> Value for [T] {
    fn describe() -> String {
        format!("[{}]", T::describe())
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        element(ty).is_some_and(T::fits)
    }
}

impl<T: ToScript> ToScript for [T] {
    fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure> {
        let element = element(scope.ty(ty)).ok_or_else(|| scope.mismatch::<[T]>(ty))?.id;
        let mut words = Vec::with_capacity(self.len());
        for value in self {
            words.push(value.to_word(scope, element)?);
        }
        let index = scope.index(ty);
        if let Type::List(_) = scope.types.get(ty) {
            // SAFETY: the words are of the elements' type; no collection happened since they were made.
            return Ok(unsafe { scope.heap.new_list(index, &words)? }.word());
        }
        let array = scope.heap.new_array(index, words.len() as u64)?;
        // SAFETY: a new array.
        let elements = unsafe { Array::from_word(scope.heap, array) };
        for (i, word) in words.into_iter().enumerate() {
            // SAFETY: the words are of the elements' type.
            unsafe { elements.set(i, word) };
        }
        Ok(array)
    }
}

impl<T: Value> Value for Vec<T> {
    fn describe() -> String {
        format!("Vec<{}>", T::describe())
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        <[T]>::fits(ty)
    }
}

impl<T: ToScript> ToScript for Vec<T> {
    fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure> {
        self.as_slice().to_word(scope, ty)
    }
}

impl<T: FromScript> FromScript for Vec<T> {
    fn from_word(scope: Scope<'_>, ty: TypeId, word: Word) -> Result<Vec<T>, Failure> {
        if word == 0 {
            return Err(null::<Vec<T>>());
        }
        let of = element(scope.ty(ty)).ok_or_else(|| scope.mismatch::<Vec<T>>(ty))?.id;
        let convert = |word| T::from_word(scope, of, word);
        match scope.types.get(ty) {
            // SAFETY: the word is of this type and not null; so below.
            Type::List(_) => {
                unsafe { List::from_word(scope.heap, word) }.iter().map(convert).collect()
            }
            _ => unsafe { Array::from_word(scope.heap, word) }.iter().map(convert).collect(),
        }
    }
}

fn null<T: Value>() -> Failure {
    Failure::Error(Error::Type { rust: T::describe(), script: "null".into() })
}

macro_rules! maps {
    ($($map:ident: $($bound:ident)+;)*) => {
        $(impl<K: Value, V: Value> Value for $map<K, V> {
            fn describe() -> String {
                format!("{}<{}, {}>", stringify!($map), K::describe(), V::describe())
            }

            fn fits(ty: ScriptType<'_>) -> bool {
                match ty.get() {
                    &Type::Dict(key, value) => K::fits(ty.with(key)) && V::fits(ty.with(value)),
                    _ => false,
                }
            }
        }

        impl<K: ToScript, V: ToScript> ToScript for $map<K, V> {
            fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure> {
                let &Type::Dict(key, value) = scope.types.get(ty) else {
                    return Err(scope.mismatch::<Self>(ty));
                };
                let word = scope.heap.new_container(scope.index(ty))?;
                // SAFETY: a new dictionary; no collection happens until it is in its place.
                let dict = unsafe { Dict::from_word(scope.heap, word) };
                for (k, v) in self {
                    let (k, v) = (k.to_word(scope, key)?, v.to_word(scope, value)?);
                    // SAFETY: the words are of the types of keys and values.
                    unsafe { dict.set(k, v)? };
                }
                Ok(word)
            }
        }

        impl<K: FromScript $(+ $bound)+, V: FromScript> FromScript for $map<K, V> {
            fn from_word(scope: Scope<'_>, ty: TypeId, word: Word) -> Result<Self, Failure> {
                let &Type::Dict(key, value) = scope.types.get(ty) else {
                    return Err(scope.mismatch::<Self>(ty));
                };
                if word == 0 {
                    return Err(null::<Self>());
                }
                // SAFETY: the word is of this type and not null.
                let dict = unsafe { Dict::from_word(scope.heap, word) };
                let mut map = $map::new();
                let mut position = 0;
                while let Some((next, k, v)) = dict.entry_from(position) {
                    map.insert(K::from_word(scope, key, k)?, V::from_word(scope, value, v)?);
                    position = next;
                }
                Ok(map)
            }
        })*
    };
}

maps! {
    HashMap: Eq Hash;
    BTreeMap: Ord;
}

impl<T: Value> Value for Option<T> {
    fn describe() -> String {
        format!("Option<{}>", T::describe())
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        ty.types.is_reference(ty.id) && ty.id != known::STRING && T::fits(ty)
    }
}

impl<T: ToScript> ToScript for Option<T> {
    fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure> {
        match self {
            Some(value) => value.to_word(scope, ty),
            None => Ok(0),
        }
    }
}

impl<T: FromScript> FromScript for Option<T> {
    fn from_word(scope: Scope<'_>, ty: TypeId, word: Word) -> Result<Option<T>, Failure> {
        match word {
            0 => Ok(None),
            word => T::from_word(scope, ty, word).map(Some),
        }
    }
}

impl Value for Object {
    fn describe() -> String {
        "Object".into()
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        ty.types.is_reference(ty.id) && !matches!(ty.get(), Type::String | Type::Null)
    }
}

impl ToScript for Object {
    fn to_word(&self, scope: Scope<'_>, ty: TypeId) -> Result<Word, Failure> {
        let word = self.word(scope.heap).map_err(Failure::Error)?;
        if !self.is_a(scope, word, ty) {
            let rust = format!("Object ({})", self.type_name_of(scope, word));
            return Err(Failure::Error(Error::Type { rust, script: scope.types.name(ty) }));
        }
        match scope.types.get(ty) {
            // A struct belongs to one place only.
            // SAFETY: the handle keeps the object alive.
            Type::Struct(_) => Ok(unsafe { scope.heap.copy_struct(word)? }),
            _ => Ok(word),
        }
    }
}

impl FromScript for Object {
    fn from_word(scope: Scope<'_>, ty: TypeId, word: Word) -> Result<Object, Failure> {
        match word {
            0 => Err(null::<Object>()),
            // SAFETY: the word is of a reference type and not null, so it is a living object.
            word => Ok(unsafe { Object::new(scope.heap, ty, word) }),
        }
    }
}
