//! The methods of arrays and lists.

use super::args::{Native, array, list, return_bytes, return_element};
use crate::vm::heap::{List, Str};
use crate::vm::native::{Context, Outcome, Trap, Word};
use crate::vm::types::Type;

pub fn array_length(cx: &mut Context<'_>) -> Native {
    cx.set_int(array(cx)?.len() as i32);
    Ok(Outcome::Done)
}

pub fn length(cx: &mut Context<'_>) -> Native {
    cx.set_int(list(cx)?.len() as i32);
    Ok(Outcome::Done)
}

pub fn add(cx: &mut Context<'_>) -> Native {
    // SAFETY: the argument has the type of the elements.
    unsafe { list(cx)?.add(cx.word(1))? };
    Ok(Outcome::Done)
}

pub fn get(cx: &mut Context<'_>) -> Native {
    let (list, index) = (list(cx)?, cx.int(1));
    let element = usize::try_from(index).ok().and_then(|index| list.get(index));
    return_element(cx, element.ok_or_else(|| Trap::index(index.into(), list.len()))?)
}

pub fn set(cx: &mut Context<'_>) -> Native {
    let (list, index) = (list(cx)?, cx.int(1));
    // SAFETY: the argument has the type of the elements.
    let done = index >= 0 && unsafe { list.set(index as usize, cx.word(2)) };
    if !done {
        return Err(Trap::index(index.into(), list.len()));
    }
    Ok(Outcome::Done)
}

pub fn remove_at(cx: &mut Context<'_>) -> Native {
    let (list, index) = (list(cx)?, cx.int(1));
    match usize::try_from(index).ok().and_then(|index| list.remove_at(index)) {
        Some(_) => Ok(Outcome::Done),
        None => Err(Trap::index(index.into(), list.len())),
    }
}

pub fn clear(cx: &mut Context<'_>) -> Native {
    list(cx)?.clear();
    Ok(Outcome::Done)
}

pub fn index_of(cx: &mut Context<'_>) -> Native {
    let found = position(cx, list(cx)?, cx.word(1));
    cx.set_int(found.map_or(-1, |index| index as i32));
    Ok(Outcome::Done)
}

pub fn contains(cx: &mut Context<'_>) -> Native {
    let found = position(cx, list(cx)?, cx.word(1));
    cx.set_bool(found.is_some());
    Ok(Outcome::Done)
}

/// The first element that is equal: numbers by value, strings by content, all else by identity.
fn position(cx: &Context<'_>, list: List<'_>, word: Word) -> Option<usize> {
    match cx.types().get(cx.signature().params[1].ty) {
        Type::String => {
            // SAFETY: the elements and the word are strings.
            let text = |word| unsafe { Str::from_word(cx.heap(), word) };
            let wanted = text(word);
            list.position(|element| text(element) == wanted)
        }
        Type::Float => {
            let value = f32::from_bits(word as u32);
            list.position(|element| f32::from_bits(element as u32) == value)
        }
        Type::Double => {
            let value = f64::from_bits(word);
            list.position(|element| f64::from_bits(element) == value)
        }
        _ => list.position(|element| element == word),
    }
}

/// Of arrays, lists and dictionaries.
pub fn to_string(cx: &mut Context<'_>) -> Native {
    let container = cx.word(0);
    if container == 0 {
        return Err(Trap::null("the container"));
    }
    let mut text = String::new();
    cx.write_text(&mut text, container)?;
    return_bytes(cx, text.as_bytes())
}
