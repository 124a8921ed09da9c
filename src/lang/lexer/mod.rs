//! From the text of a file to tokens.
//!
//! The lexer never gives up: what it cannot read is reported and becomes a [`TokenKind::Bad`] (about
//! which the parser keeps silent) or, where it is clear what was meant, the token that was meant. So
//! every file has tokens, the last of which is [`TokenKind::End`], and their spans lie in the file,
//! in order, without overlap.
//!
//! `number.rs` reads numbers, `text.rs` chars and strings with their escapes and interpolation.

mod number;
#[cfg(test)]
mod tests;
mod text;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::source::{FileId, Source, Span};
use super::token::{Keyword, Symbol, Token, TokenKind, Tokens};

/// Reads a whole file.
pub fn lex(file: FileId, source: &Source, diagnostics: &mut Diagnostics) -> Tokens {
    let mut lexer = Lexer { file, source, at: 0, tokens: Tokens::default(), diagnostics };
    while lexer.skip_blank() {
        let start = lexer.at;
        let kind = lexer.token();
        lexer.push(kind, start);
    }
    lexer.push(TokenKind::End, lexer.at);
    lexer.tokens
}

struct Lexer<'a> {
    file: FileId,
    source: &'a Source,
    /// The byte to be read next; always between two chars.
    at: usize,
    tokens: Tokens,
    diagnostics: &'a mut Diagnostics,
}

impl Lexer<'_> {
    fn push(&mut self, kind: TokenKind, start: usize) {
        let token = Token { kind, start: start as u32, end: self.at as u32 };
        self.tokens.list.push(token);
    }

    /// What is left to read.
    fn rest(&self) -> &str {
        &self.source.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The byte `ahead` bytes away, 0 beyond the end (which no rule looks for).
    fn byte(&self, ahead: usize) -> u8 {
        self.source.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn span(&self, start: usize) -> Span {
        self.span_between(start, self.at)
    }

    fn span_between(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Advances over all chars of a kind.
    fn skip_while(&mut self, is_part: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    }

    /// Skips white space and comments; whether anything follows.
    fn skip_blank(&mut self) -> bool {
        loop {
            self.skip_while(|c| matches!(c, ' ' | '\t' | '\n' | '\x0B' | '\x0C'));
            if self.rest().starts_with("//") {
                self.skip_while(|c| c != '\n');
            } else if self.rest().starts_with("/*") {
                self.skip_comment();
            } else {
                return self.at < self.source.text.len();
            }
        }
    }

    fn skip_comment(&mut self) {
        let start = self.at;
        let end = self.source.text[start + 2..].find("*/");
        self.at = end.map_or(self.source.text.len(), |end| start + 2 + end + 2);
        if end.is_none() {
            let opener = self.span_between(start, start + 2);
            self.report(
                Diagnostic::error(opener, "this comment is not closed")
                    .hint("end it with `*/`; comments do not nest"),
            );
        }
    }

    fn token(&mut self) -> TokenKind {
        match self.byte(0) {
            b'0'..=b'9' => self.number(),
            b'.' if self.byte(1).is_ascii_digit() => self.number(),
            b'"' => self.string(),
            b'\'' => self.char(),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            _ => match self.symbol() {
                Some(symbol) => TokenKind::Symbol(symbol),
                None => self.unknown(),
            },
        }
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(is_word);
        if self.peek().is_some_and(|c| !c.is_ascii() && c.is_alphanumeric()) {
            return self.foreign_word(start);
        }
        match Keyword::from_text(&self.source.text[start..self.at]) {
            Some(keyword) => TokenKind::Keyword(keyword),
            None => TokenKind::Word,
        }
    }

    /// A word with letters that identifiers may not have. It is reported here and a word otherwise,
    /// so that the parser goes on.
    fn foreign_word(&mut self, start: usize) -> TokenKind {
        self.skip_while(|c| is_word(c) || c.is_alphanumeric());
        let word = &self.source.text[start..self.at];
        let message = format!("`{word}` is not a legal name");
        self.report(
            Diagnostic::error(self.span(start), message)
                .hint("names consist of the letters a to z and A to Z, digits and `_`"),
        );
        TokenKind::Word
    }

    fn symbol(&mut self) -> Option<Symbol> {
        let rest = &self.source.text.as_bytes()[self.at..];
        // Two bytes where possible. (No symbol is longer.)
        for length in [2, 1] {
            let text = rest.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(symbol) = text.and_then(Symbol::from_text) {
                self.at += length;
                return Some(symbol);
            }
        }
        None
    }

    /// A char that begins no token.
    fn unknown(&mut self) -> TokenKind {
        let start = self.at;
        let Some(c) = self.peek() else { return TokenKind::Bad };
        if !c.is_ascii() && c.is_alphabetic() {
            return self.foreign_word(start);
        }
        self.at += c.len_utf8();
        if c == char::REPLACEMENT_CHARACTER && self.source.invalid.is_some() {
            return TokenKind::Bad;
        }
        if matches!(c, '&' | '|' | '^' | '~') && self.byte(0) == b'=' {
            self.at += 1;
        }
        let text = &self.source.text[start..self.at];
        let message = match c {
            ' '..='~' => format!("`{text}` is not an operator of this language"),
            _ => format!("the character U+{:04X} does not belong here", c as u32),
        };
        let diagnostic = Diagnostic::error(self.span(start), message);
        self.report(match hint_for(c) {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
        TokenKind::Bad
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What to write instead of a char that is no part of the language.
fn hint_for(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "the logical operator is `&&`; there are no bit operators",
        '|' => "the logical operator is `||`; there are no bit operators",
        '^' | '~' => "there are no bit operators",
        '?' => "there is no `?:` operator; use `if` and `else`",
        '#' => "a comment begins with `//`",
        '`' | '\u{2018}' | '\u{2019}' => "a char is written `'x'`, a string `\"text\"`",
        '\u{201C}' | '\u{201D}' | '\u{201E}' => "a string stands between straight quotes: `\"`",
        '\u{2212}' | '\u{2013}' => "the minus sign is `-`",
        '\u{A0}' | '\u{2007}' | '\u{202F}' | '\u{3000}' => "it looks like a space, but is none",
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{FEFF}' => "it cannot be seen",
        _ => return None,
    })
}
