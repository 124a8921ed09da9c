//! Arguments and results of native functions as Rust values.
//!
//! The verifier has proved the types of a call's arguments, and no collection runs while a native
//! function does: that is what the reading of references here rests on, and nothing else in the
//! library needs it.

use std::path::Path;

use crate::vm::heap::{Array, Dict, HeapFull, List, LocalHeap, Str, TypeIndex, object};
use crate::vm::native::{Context, Outcome, Trap, Word};
use crate::vm::types::{ExceptionClass, Type, known};

/// What a native function returns.
pub type Native = Result<Outcome, Trap>;

/// The bytes of a `string` argument.
pub fn bytes<'a>(cx: &Context<'a>, index: usize) -> &'a [u8] {
    // SAFETY: the argument's type is string, so its word is 0 or the address of a living string. It
    // lives, and never moves or changes, as long as the native runs, which `'a` does not outlive.
    unsafe { object::string_bytes(cx.word(index)) }
}

/// A `string` argument.
pub fn string<'c>(cx: &'c Context<'_>, index: usize) -> Str<'c> {
    // SAFETY: as in `bytes`.
    unsafe { Str::from_word(cx.heap(), cx.word(index)) }
}

/// A `string` argument as the path of a file.
pub fn path<'a>(cx: &Context<'a>, index: usize) -> &'a Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes(cx, index)))
}

/// The receiver, a list.
pub fn list<'c>(cx: &'c Context<'_>) -> Result<List<'c>, Trap> {
    match cx.word(0) {
        0 => Err(Trap::null("the list")),
        // SAFETY: the argument's type is a list, and it is not null.
        word => Ok(unsafe { List::from_word(cx.heap(), word) }),
    }
}

/// The receiver, an array.
pub fn array<'c>(cx: &'c Context<'_>) -> Result<Array<'c>, Trap> {
    match cx.word(0) {
        0 => Err(Trap::null("the array")),
        // SAFETY: the argument's type is an array, and it is not null.
        word => Ok(unsafe { Array::from_word(cx.heap(), word) }),
    }
}

/// The receiver, a dictionary.
pub fn dict<'c>(cx: &'c Context<'_>) -> Result<Dict<'c>, Trap> {
    match cx.word(0) {
        0 => Err(Trap::null("the dictionary")),
        // SAFETY: the argument's type is a dictionary, and it is not null.
        word => Ok(unsafe { Dict::from_word(cx.heap(), word) }),
    }
}

/// Ends with an element or value of a container as result: of a struct, a copy.
pub fn return_element(cx: &mut Context<'_>, word: Word) -> Native {
    let word = match cx.types().get(cx.signature().result) {
        // SAFETY: a struct in a container is an object that lives as long as its place does.
        Type::Struct(_) => unsafe { cx.heap().copy_struct(word)? },
        _ => word,
    };
    cx.set_word(word);
    Ok(Outcome::Done)
}

/// Ends with a string as result.
pub fn return_bytes(cx: &mut Context<'_>, bytes: &[u8]) -> Native {
    let word = cx.heap().new_string(bytes)?.word();
    cx.set_word(word);
    Ok(Outcome::Done)
}

/// Ends with a part of a string argument as result.
pub fn return_part(cx: &mut Context<'_>, index: usize, start: usize, end: usize) -> Native {
    let word = cx.heap().substring(string(cx, index), start, end)?.word();
    cx.set_word(word);
    Ok(Outcome::Done)
}

/// Ends with a `List<string>` as result.
pub fn return_strings<'t>(
    cx: &mut Context<'_>,
    texts: impl IntoIterator<Item = &'t [u8]>,
) -> Native {
    let word = strings(cx.heap(), texts)?;
    cx.set_word(word);
    Ok(Outcome::Done)
}

fn strings<'t>(
    heap: &LocalHeap,
    texts: impl IntoIterator<Item = &'t [u8]>,
) -> Result<Word, HeapFull> {
    let mut words = Vec::new();
    for text in texts {
        words.push(heap.new_string(text)?.word());
    }
    let ty = TypeIndex(crate::vm::link::TypeIndex::of(known::STRINGS).0);
    // SAFETY: the type is that of lists of strings; the words are new strings of this heap.
    Ok(unsafe { heap.new_list(ty, &words)? }.word())
}

/// An `IOException` that names what was attempted, and on what.
pub fn io_error(what: &str, on: &Path, error: &std::io::Error) -> Trap {
    Trap::of(ExceptionClass::Io, format!("cannot {what} {:?}: {error}", on.display().to_string()))
}
