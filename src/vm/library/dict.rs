//! The methods of dictionaries.

use super::args::{Native, bytes, dict, return_element};
use crate::vm::heap::TypeIndex;
use crate::vm::link;
use crate::vm::native::{Context, Outcome, Trap};
use crate::vm::types::Type;

pub fn count(cx: &mut Context<'_>) -> Native {
    cx.set_int(dict(cx)?.len() as i32);
    Ok(Outcome::Done)
}

pub fn contains_key(cx: &mut Context<'_>) -> Native {
    // SAFETY: the argument has the type of the keys.
    let found = unsafe { dict(cx)?.contains(cx.word(1)) };
    cx.set_bool(found);
    Ok(Outcome::Done)
}

pub fn get(cx: &mut Context<'_>) -> Native {
    // SAFETY: the argument has the type of the keys.
    match unsafe { dict(cx)?.get(cx.word(1)) } {
        Some(value) => return_element(cx, value),
        None => Err(missing(cx)),
    }
}

/// Names the key, where that needs no call of a script's `toString`.
fn missing(cx: &Context<'_>) -> Trap {
    let key = match cx.types().get(cx.signature().params[1].ty) {
        Type::String => format!("{:?}", String::from_utf8_lossy(bytes(cx, 1))),
        Type::Byte | Type::Short | Type::Int => cx.int(1).to_string(),
        Type::Ubyte | Type::Ushort | Type::Uint => cx.uint(1).to_string(),
        Type::Long => cx.long(1).to_string(),
        Type::Ulong => cx.word(1).to_string(),
        Type::Char => format!("{:?}", cx.char(1)),
        _ => return Trap::exception("the dictionary has no such key"),
    };
    Trap::exception(format!("the dictionary has no key {key}"))
}

/// A key that is there keeps its place.
pub fn set(cx: &mut Context<'_>) -> Native {
    // SAFETY: the arguments have the types of the keys and the values.
    unsafe { dict(cx)?.set(cx.word(1), cx.word(2))? };
    Ok(Outcome::Done)
}

pub fn remove(cx: &mut Context<'_>) -> Native {
    // SAFETY: the argument has the type of the keys.
    let removed = unsafe { dict(cx)?.remove(cx.word(1)) };
    cx.set_int(removed.into());
    Ok(Outcome::Done)
}

pub fn clear(cx: &mut Context<'_>) -> Native {
    dict(cx)?.clear();
    Ok(Outcome::Done)
}

pub fn keys(cx: &mut Context<'_>) -> Native {
    let ty = TypeIndex(link::TypeIndex::of(cx.signature().result).0);
    let word = dict(cx)?.keys(ty)?.word();
    cx.set_word(word);
    Ok(Outcome::Done)
}
