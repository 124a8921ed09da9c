//! The methods of `string`.
//!
//! Strings are bytes, and positions count bytes. A string that was cut within a char keeps the broken
//! bytes; read as a char they are U+FFFD.

use memchr::memmem::find;

use super::args::{Native, bytes, return_bytes, return_part, return_strings, string};
use super::number;
use super::streams::is_space;
use crate::vm::native::{Context, Outcome, Trap};
use crate::vm::types::ExceptionClass;

pub fn length(cx: &mut Context<'_>) -> Native {
    cx.set_int(bytes(cx, 0).len() as i32);
    Ok(Outcome::Done)
}

/// How many chars `foreach` sees.
pub fn char_count(cx: &mut Context<'_>) -> Native {
    let mut rest = bytes(cx, 0);
    let mut count = 0;
    while !rest.is_empty() {
        rest = &rest[first_char(rest).1..];
        count += 1;
    }
    cx.set_int(count);
    Ok(Outcome::Done)
}

/// The char with which bytes begin, and how many bytes it takes: one for a broken one.
pub fn first_char(bytes: &[u8]) -> (char, usize) {
    if let Some(&byte @ 0..0x80) = bytes.first() {
        return (byte.into(), 1);
    }
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8()))
}

pub fn char_at(cx: &mut Context<'_>) -> Native {
    let (text, index) = (bytes(cx, 0), cx.int(1));
    let rest = usize::try_from(index).ok().and_then(|index| text.get(index..));
    match rest {
        Some(rest) if !rest.is_empty() => {
            cx.set_uint(first_char(rest).0.into());
            Ok(Outcome::Done)
        }
        _ => Err(Trap::index(index.into(), text.len())),
    }
}

pub fn substring_from(cx: &mut Context<'_>) -> Native {
    substring(cx, bytes(cx, 0).len() as i32)
}

pub fn substring_range(cx: &mut Context<'_>) -> Native {
    substring(cx, cx.int(2))
}

fn substring(cx: &mut Context<'_>, end: i32) -> Native {
    let (text, start) = (bytes(cx, 0), cx.int(1));
    if start < 0 || end < start || end as usize > text.len() {
        return Err(Trap::of(
            ExceptionClass::IndexOutOfBounds,
            format!("the range {start} to {end} is out of bounds for length {}", text.len()),
        ));
    }
    return_part(cx, 0, start as usize, end as usize)
}

pub fn index_of(cx: &mut Context<'_>) -> Native {
    let found = find(bytes(cx, 0), bytes(cx, 1));
    cx.set_int(found.map_or(-1, |at| at as i32));
    Ok(Outcome::Done)
}

pub fn contains(cx: &mut Context<'_>) -> Native {
    cx.set_bool(find(bytes(cx, 0), bytes(cx, 1)).is_some());
    Ok(Outcome::Done)
}

pub fn starts_with(cx: &mut Context<'_>) -> Native {
    cx.set_bool(bytes(cx, 0).starts_with(bytes(cx, 1)));
    Ok(Outcome::Done)
}

pub fn ends_with(cx: &mut Context<'_>) -> Native {
    cx.set_bool(bytes(cx, 0).ends_with(bytes(cx, 1)));
    Ok(Outcome::Done)
}

pub fn to_upper(cx: &mut Context<'_>) -> Native {
    let text = bytes(cx, 0).to_ascii_uppercase();
    return_bytes(cx, &text)
}

pub fn to_lower(cx: &mut Context<'_>) -> Native {
    let text = bytes(cx, 0).to_ascii_lowercase();
    return_bytes(cx, &text)
}

pub fn trim(cx: &mut Context<'_>) -> Native {
    let bytes = bytes(cx, 0);
    let start = bytes.iter().position(|&byte| !is_space(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|&byte| !is_space(byte)).map_or(start, |last| last + 1);
    return_part(cx, 0, start, end)
}

/// The parts of a text between separators.
struct Parts<'a> {
    rest: Option<&'a [u8]>,
    separator: &'a [u8],
}

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        Some(match find(rest, self.separator) {
            Some(at) => {
                self.rest = Some(&rest[at + self.separator.len()..]);
                &rest[..at]
            }
            None => {
                self.rest = None;
                rest
            }
        })
    }
}

fn parts<'a>(text: &'a [u8], separator: &'a [u8]) -> Result<Parts<'a>, Trap> {
    match separator {
        [] => Err(Trap::exception("the separator is empty")),
        _ => Ok(Parts { rest: Some(text), separator }),
    }
}

pub fn split(cx: &mut Context<'_>) -> Native {
    let parts = parts(bytes(cx, 0), bytes(cx, 1))?;
    return_strings(cx, parts)
}

pub fn replace(cx: &mut Context<'_>) -> Native {
    let (text, new) = (bytes(cx, 0), bytes(cx, 2));
    let mut replaced = Vec::with_capacity(text.len());
    for (i, part) in parts(text, bytes(cx, 1))?.enumerate() {
        if i > 0 {
            replaced.extend_from_slice(new);
        }
        replaced.extend_from_slice(part);
        // A result that cannot fit is noticed before it takes all memory.
        cx.heap().has_room(replaced.len())?;
    }
    return_bytes(cx, &replaced)
}

fn parsed<T>(cx: &Context<'_>, parse: fn(&str) -> Result<T, number::BadText>) -> Result<T, Trap> {
    // What is not UTF-8 is no number with replacements either.
    parse(&String::from_utf8_lossy(bytes(cx, 0))).map_err(|e| Trap::exception(e.to_string()))
}

pub fn to_int(cx: &mut Context<'_>) -> Native {
    cx.set_int(parsed(cx, number::parse_int)?);
    Ok(Outcome::Done)
}

pub fn to_long(cx: &mut Context<'_>) -> Native {
    cx.set_long(parsed(cx, number::parse_long)?);
    Ok(Outcome::Done)
}

pub fn to_float(cx: &mut Context<'_>) -> Native {
    cx.set_float(parsed(cx, number::parse_float)?);
    Ok(Outcome::Done)
}

pub fn to_double(cx: &mut Context<'_>) -> Native {
    cx.set_double(parsed(cx, number::parse_double)?);
    Ok(Outcome::Done)
}

pub fn to_bool(cx: &mut Context<'_>) -> Native {
    cx.set_bool(parsed(cx, number::parse_bool)?);
    Ok(Outcome::Done)
}

pub fn to_char(cx: &mut Context<'_>) -> Native {
    cx.set_uint(parsed(cx, number::parse_char)?.into());
    Ok(Outcome::Done)
}

pub fn equals(cx: &mut Context<'_>) -> Native {
    cx.set_int((bytes(cx, 0) == bytes(cx, 1)).into());
    Ok(Outcome::Done)
}

/// As of a string that is held as `Object`.
pub fn get_hash_code(cx: &mut Context<'_>) -> Native {
    let hash = cx.heap().hash_string(string(cx, 0));
    cx.set_uint(hash);
    Ok(Outcome::Done)
}

pub fn to_string(cx: &mut Context<'_>) -> Native {
    cx.set_word(cx.word(0));
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_char_takes_one_byte() {
        assert_eq!(first_char("é!".as_bytes()), ('é', 2));
        assert_eq!(first_char("😀".as_bytes()), ('😀', 4));
        assert_eq!(first_char(b"\xa9!"), ('\u{fffd}', 1));
        assert_eq!(first_char(b"\xe2\x82"), ('\u{fffd}', 1));
        assert_eq!(first_char(b"a\xff"), ('a', 1));
        assert_eq!(first_char("éa\u{ff}".as_bytes()), ('é', 2));
    }

    #[test]
    fn parts_lie_between_separators_and_may_be_empty() {
        let split = |text: &'static str, by: &'static str| -> Vec<_> {
            parts(text.as_bytes(), by.as_bytes()).unwrap().collect()
        };
        assert_eq!(split(",a,,b", ","), [&b""[..], b"a", b"", b"b"]);
        assert_eq!(split("", ","), [b""]);
        assert_eq!(split("aaa", "aa"), [&b""[..], b"a"]);
        assert!(parts(b"x", b"").is_err());
    }
}
