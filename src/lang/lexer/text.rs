//! Chars and strings: escapes, surrogate pairs, interpolation.

use std::mem;

use super::{Diagnostic, Lexer, TokenKind, is_word};
use crate::lang::ast::{Name, StringPart};
use crate::lang::token::Keyword;

/// What an escape stands for.
enum Escape {
    Char(char),
    /// Half of a surrogate pair.
    Surrogate(u32),
    /// Reported.
    Bad,
}

impl Lexer<'_> {
    pub(super) fn string(&mut self) -> TokenKind {
        let start = self.at;
        self.at += 1;
        let mut parts = Vec::new();
        let mut text = String::new();
        loop {
            self.plain(&mut text);
            match self.byte(0) {
                b'"' => {
                    self.at += 1;
                    break;
                }
                b'\\' => self.string_escape(&mut text),
                b'$' => {
                    if let Some(name) = self.dollar(&mut text) {
                        if !text.is_empty() {
                            parts.push(StringPart::Text(mem::take(&mut text)));
                        }
                        parts.push(StringPart::Name(name));
                    }
                }
                _ => {
                    let opener = self.span_between(start, start + 1);
                    self.report(
                        Diagnostic::error(opener, "this string is not closed")
                            .hint("a string ends on its line; a line break in it is written `\\n`"),
                    );
                    return TokenKind::Bad;
                }
            }
        }
        if !text.is_empty() {
            parts.push(StringPart::Text(text));
        }
        self.tokens.strings.push(parts);
        TokenKind::String(self.tokens.strings.len() as u32 - 1)
    }

    /// Takes what stands for itself.
    fn plain(&mut self, text: &mut String) {
        let start = self.at;
        self.skip_while(|c| !matches!(c, '"' | '\\' | '$' | '\n'));
        text.push_str(&self.source.text[start..self.at]);
    }

    /// What begins with `$`: an interpolated name, or text.
    fn dollar(&mut self, text: &mut String) -> Option<Name> {
        let start = self.at;
        self.at += 1;
        match self.byte(0) {
            b'$' => {
                self.at += 1;
                text.push('$');
                None
            }
            b'{' => {
                self.at += 1;
                self.interpolation(start)
            }
            _ => {
                text.push('$');
                None
            }
        }
    }

    /// The name and the brace after `${`.
    fn interpolation(&mut self, start: usize) -> Option<Name> {
        let inside = self.at;
        self.skip_while(|c| !matches!(c, '}' | '"' | '\n'));
        let text = &self.source.text[inside..self.at];
        let hint = "to have `${` in a string, write `$${`";
        if self.byte(0) != b'}' {
            let opener = self.span_between(start, inside);
            self.report(Diagnostic::error(opener, "`${` without `}` in this string").hint(hint));
            return None;
        }
        let is_name = text.chars().all(is_word)
            && !text.is_empty()
            && !text.as_bytes()[0].is_ascii_digit()
            && Keyword::from_text(text).is_none();
        let name = Name { text: text.to_owned(), span: self.span(inside) };
        self.at += 1;
        if is_name {
            return Some(name);
        }
        let message = "`${…}` takes the name of a variable, nothing else";
        let hint = if name.text.trim().is_empty() {
            hint.to_owned()
        } else {
            "put the value into a variable, or join strings with `+`".to_owned()
        };
        self.report(Diagnostic::error(self.span(start), message).hint(hint));
        None
    }

    fn string_escape(&mut self, text: &mut String) {
        let start = self.at;
        match self.escape("nrt\\\"'0abfvu") {
            Escape::Char(c) => text.push(c),
            Escape::Bad => {}
            Escape::Surrogate(high @ 0xD800..=0xDBFF) if self.rest().starts_with("\\u") => {
                let second = self.at;
                match self.escape("u") {
                    Escape::Surrogate(low @ 0xDC00..=0xDFFF) => {
                        let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                        text.extend(char::from_u32(code));
                    }
                    Escape::Bad => {}
                    _ => {
                        self.at = second;
                        self.lone_surrogate(start);
                    }
                }
            }
            Escape::Surrogate(_) => self.lone_surrogate(start),
        }
    }

    fn lone_surrogate(&mut self, start: usize) {
        let message = "half of a surrogate pair is not a character";
        let hint = "a pair is a high half and a low half: `\\uD83D\\uDE00`";
        self.report(Diagnostic::error(self.span(start), message).hint(hint));
    }

    /// An escape out of those allowed, by the char after the backslash.
    fn escape(&mut self, allowed: &str) -> Escape {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.peek().filter(|&c| c != '\n') else {
            // The string or char is not closed either, which its reader reports.
            return Escape::Bad;
        };
        self.at += c.len_utf8();
        if !allowed.contains(c) {
            let text = &self.source.text[start..self.at];
            let message = format!("`{text}` is not an escape");
            let hint = match c {
                '$' => "a dollar sign is written `$$`",
                '"' | '\'' => "this quote needs no backslash here",
                'x' | 'U' => "a character by its number is written `\\u00E9`, with four digits",
                '0' | 'a' | 'b' | 'f' | 'v' => "in a char, write it by its number: `\\u0000`",
                _ => "a backslash is written `\\\\`",
            };
            self.report(Diagnostic::error(self.span(start), message).hint(hint));
            return Escape::Bad;
        }
        Escape::Char(match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0C',
            'v' => '\x0B',
            'u' => return self.unicode_escape(start),
            itself => itself,
        })
    }

    fn unicode_escape(&mut self, start: usize) -> Escape {
        let digits = self.rest().bytes().take(4).take_while(u8::is_ascii_hexdigit).count();
        let code = u32::from_str_radix(&self.rest()[..digits], 16);
        self.at += digits;
        match code {
            Ok(code) if digits == 4 => match char::from_u32(code) {
                Some(c) => Escape::Char(c),
                None => Escape::Surrogate(code),
            },
            _ => {
                let message = "`\\u` takes exactly four hexadecimal digits";
                self.report(Diagnostic::error(self.span(start), message));
                Escape::Bad
            }
        }
    }

    pub(super) fn char(&mut self) -> TokenKind {
        let start = self.at;
        self.at += 1;
        let value = match self.byte(0) {
            b'\\' => match self.escape("nrt'\\u") {
                Escape::Char(c) => Some(c),
                Escape::Surrogate(_) => {
                    self.lone_surrogate(start + 1);
                    None
                }
                Escape::Bad => None,
            },
            b'\'' => return self.empty_char(start),
            _ => match self.peek().filter(|&c| c != '\n') {
                Some(c) => {
                    self.at += c.len_utf8();
                    Some(c)
                }
                None => None,
            },
        };
        if self.byte(0) == b'\'' {
            self.at += 1;
            return TokenKind::Char(value.unwrap_or('?'));
        }
        self.long_char(start)
    }

    /// `''`, or `'''`.
    fn empty_char(&mut self, start: usize) -> TokenKind {
        self.at += 1;
        let hint = if self.byte(0) == b'\'' {
            self.at += 1;
            "the quote itself is written `'\\''`"
        } else {
            "an empty string is written `\"\"`"
        };
        self.report(Diagnostic::error(self.span(start), "this char is empty").hint(hint));
        TokenKind::Char('?')
    }

    /// A char literal whose second quote is not where it should be.
    fn long_char(&mut self, start: usize) -> TokenKind {
        loop {
            self.skip_while(|c| !matches!(c, '\'' | '\\' | '\n'));
            match self.byte(0) {
                b'\\' => {
                    self.at += 1;
                    self.at += self.peek().filter(|&c| c != '\n').map_or(0, char::len_utf8);
                }
                b'\'' => break,
                _ => {
                    let opener = self.span_between(start, start + 1);
                    self.report(
                        Diagnostic::error(opener, "this char is not closed")
                            .hint("a char is written `'x'`, a string `\"text\"`"),
                    );
                    return TokenKind::Bad;
                }
            }
        }
        self.at += 1;
        let inside = &self.source.text[start + 1..self.at - 1];
        let hint = format!("a string stands between double quotes: `\"{inside}\"`");
        let message = "a char holds exactly one character";
        self.report(Diagnostic::error(self.span(start), message).hint(hint));
        TokenKind::Char('?')
    }
}
