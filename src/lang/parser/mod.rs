//! From tokens to the tree, by recursive descent over the grammar of the language.
//!
//! **Errors.** A rule that cannot go on reports what it expected and returns [`Reported`]; the
//! innermost statement, member or declaration around it then skips to where the next one seems to
//! begin, and parsing goes on, so that one run reports several errors. Where it is plain what was
//! meant (a missing `;`, a cast as in C, a field with an initialiser), the parser reports and reads
//! on as if it had been written right. Nothing is reported twice at one token, and nothing at a
//! token that the lexer has reported. What was left out is an `Error` node.
//!
//! **Depth.** No tree is higher than [`MAX_DEPTH`], whatever the input: that is counted for
//! statements, expressions, types and initialisers together, and for what the grammar repeats and
//! the tree nests too (`a + b + c`, `a.b.c`, `x as int as long`, `else if`). What is deeper is an
//! error, and the last one of its file. So this parser, the passes after it and dropping the tree may all recurse; they do so on a
//! stack of their own ([`on_deep_stack`]), so that a caller needs little. Parsing takes
//! time proportional to the length of the file.
//!
//! **Who reports what.** Besides syntax the parser reports what shows without names and types:
//! misplaced or repeated modifiers, a body missing or in the wrong place, `void` or `out` where no
//! type argument may be so, jagged arrays, arrays made without a length, `new` on a primitive or
//! func type, targets that cannot be assigned to, statements without an effect, calls of anything
//! but a name, a declaration as an unbraced body, `try` without `catch` or `finally`, `default`
//! that is not last, more than [`MAX_PARAMS`] parameters. The rest is the checker's.

mod decl;
#[cfg(test)]
mod dump;
mod expr;
mod hint;
mod recover;
mod stmt;
#[cfg(test)]
mod tests;
mod types;

use std::mem;

use super::ast::{Name, Path, StringPart, Unit};
use super::diagnostic::{Diagnostic, Diagnostics};
use super::lexer;
use super::on_deep_stack;
use super::source::{FileId, Source, Span};
use super::token::{Keyword, Symbol, Token, TokenKind, Tokens};

pub use hint::for_unknown_type;

/// How high a tree can be.
pub const MAX_DEPTH: u32 = 256;

/// How many parameters a function can have.
pub const MAX_PARAMS: usize = 64;

/// Lexes and parses a file.
pub fn parse(file: FileId, source: &Source, diagnostics: &mut Diagnostics) -> Unit {
    let tokens = lexer::lex(file, source, diagnostics);
    on_deep_stack(|| parse_tokens(file, source, tokens, diagnostics))
}

fn parse_tokens(
    file: FileId,
    source: &Source,
    tokens: Tokens,
    diagnostics: &mut Diagnostics,
) -> Unit {
    let mut parser = Parser {
        file,
        source,
        tokens: tokens.list,
        strings: tokens.strings,
        at: 0,
        end: 0,
        parens: 0,
        depth: 0,
        deepest: 0,
        last_error: None,
        diagnostics,
    };
    parser.unit()
}

/// Something was wrong and has been reported: the rule was left half-way.
#[derive(Debug)]
struct Reported;

type Parse<T> = Result<T, Reported>;

struct Parser<'a> {
    file: FileId,
    source: &'a Source,
    tokens: Vec<Token>,
    strings: Vec<Vec<StringPart>>,
    /// The next token; never beyond the last one, which is `End`.
    at: usize,
    /// Where the last token taken ends.
    end: u32,
    /// How many parentheses are open.
    parens: usize,
    /// How many levels of the tree are above what is being parsed.
    depth: u32,
    /// The lowest level of what has been parsed, since somebody set it to `depth`.
    deepest: u32,
    /// The token at which something was reported last.
    last_error: Option<usize>,
    diagnostics: &'a mut Diagnostics,
}

/// Tokens.
impl Parser<'_> {
    fn peek(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    /// The token `ahead` places after the next one.
    fn nth(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    fn bump(&mut self) -> Token {
        let token = self.tokens[self.at];
        match token.kind {
            TokenKind::End => return token,
            TokenKind::Symbol(Symbol::OpenParen) => self.parens += 1,
            TokenKind::Symbol(Symbol::CloseParen) => self.parens = self.parens.saturating_sub(1),
            _ => {}
        }
        self.at += 1;
        self.end = token.end;
        token
    }

    fn is(&self, symbol: Symbol) -> bool {
        self.peek() == TokenKind::Symbol(symbol)
    }

    fn is_keyword(&self, keyword: Keyword) -> bool {
        self.peek() == TokenKind::Keyword(keyword)
    }

    fn nth_is(&self, ahead: usize, symbol: Symbol) -> bool {
        self.nth(ahead).kind == TokenKind::Symbol(symbol)
    }

    fn eat(&mut self, symbol: Symbol) -> bool {
        let found = self.is(symbol);
        if found {
            self.bump();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.bump();
        }
        found
    }

    /// Whether the next two tokens are the same symbol without anything between: `++`.
    fn is_doubled(&self, symbol: Symbol) -> bool {
        self.is(symbol) && self.nth_is(1, symbol) && self.nth(0).end == self.nth(1).start
    }

    fn text(&self, token: Token) -> &str {
        &self.source.text[token.start as usize..token.end as usize]
    }

    fn span(&self, token: Token) -> Span {
        Span { file: self.file, start: token.start, end: token.end }
    }

    /// The next token's place.
    fn here(&self) -> Span {
        self.span(self.nth(0))
    }

    /// Where the next token begins.
    fn start(&self) -> u32 {
        self.nth(0).start
    }

    /// From a place to the end of the last token taken.
    fn since(&self, start: u32) -> Span {
        Span { file: self.file, start, end: self.end.max(start) }
    }

    /// Whether the next token stands on a later line than the last one taken.
    fn on_new_line(&self) -> bool {
        self.source.text[self.end as usize..self.start() as usize].contains('\n')
    }
}

/// Errors.
impl Parser<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn error(&mut self, span: Span, message: impl Into<String>, hint: &str) {
        let diagnostic = Diagnostic::error(span, message);
        self.report(if hint.is_empty() { diagnostic } else { diagnostic.hint(hint) });
    }

    /// Whether an error at the next token would be news.
    fn is_news(&mut self) -> bool {
        let known = self.last_error == Some(self.at) || self.peek() == TokenKind::Bad;
        self.last_error = Some(self.at);
        !known
    }

    /// Reports that the next token is not what must stand here.
    fn expected(&mut self, what: &str) -> Reported {
        if self.is_news() {
            let message = format!("expected {what}, found {}", self.found());
            let diagnostic = Diagnostic::error(self.here(), message);
            let hint = self.hint_here();
            self.report(match hint {
                Some(hint) => diagnostic.hint(hint),
                None => diagnostic,
            });
        }
        Reported
    }

    /// The next token as a message names it.
    fn found(&self) -> String {
        let token = self.nth(0);
        match token.kind {
            TokenKind::End => "the end of the file".to_owned(),
            TokenKind::Keyword(_) => format!("the reserved word `{}`", self.text(token)),
            TokenKind::String(_) => "a string".to_owned(),
            _ => {
                let mut text: String = self.text(token).chars().take(40).collect();
                if text.len() < (token.end - token.start) as usize {
                    text.push('…');
                }
                format!("`{text}`")
            }
        }
    }

    fn expect(&mut self, symbol: Symbol) -> Parse<()> {
        if self.eat(symbol) {
            return Ok(());
        }
        Err(self.expected(&format!("`{}`", symbol.text())))
    }

    /// Expects a closing bracket; says where the opening one is. If a statement or block seems to
    /// begin or end here, only the bracket is missing, and parsing goes on.
    fn expect_close(&mut self, symbol: Symbol, opener: Span) -> Parse<()> {
        if self.eat(symbol) {
            return Ok(());
        }
        if self.is_news() {
            let message = format!("expected `{}`, found {}", symbol.text(), self.found());
            let mut diagnostic = Diagnostic::error(self.here(), message);
            match self.hint_here() {
                Some(hint) => diagnostic = diagnostic.hint(hint),
                None => diagnostic = diagnostic.label(opener, "the one to be closed"),
            }
            self.report(diagnostic);
        }
        let goes_on = [Symbol::Semicolon, Symbol::OpenBrace, Symbol::CloseBrace];
        if goes_on.iter().any(|&symbol| self.is(symbol)) {
            if symbol == Symbol::CloseParen {
                self.parens = self.parens.saturating_sub(1);
            }
            return Ok(());
        }
        Err(Reported)
    }

    /// Expects the `;` after a statement or declaration. If it is merely missing at the end of a
    /// line, parsing goes on.
    fn expect_semicolon(&mut self) -> Parse<()> {
        if self.eat(Symbol::Semicolon) {
            return Ok(());
        }
        let is_last =
            self.on_new_line() || self.is(Symbol::CloseBrace) || self.peek() == TokenKind::End;
        if !is_last || self.hint_here().is_some() {
            return Err(self.expected("`;`"));
        }
        if self.is_news() {
            let after = Span { file: self.file, start: self.end, end: self.end };
            self.error(after, "expected `;`", "");
        }
        Ok(())
    }

    fn name(&mut self, what: &str) -> Parse<Name> {
        if self.peek() != TokenKind::Word {
            return Err(self.expected(what));
        }
        Ok(self.take_name())
    }

    /// The next token, which is a word.
    fn take_name(&mut self) -> Name {
        let token = self.bump();
        Name { text: self.text(token).to_owned(), span: self.span(token) }
    }

    fn path(&mut self, what: &str) -> Parse<Path> {
        let mut parts = vec![self.name(what)?];
        let start = parts[0].span.start;
        while self.is(Symbol::Dot) && self.nth(1).kind == TokenKind::Word {
            self.bump();
            parts.push(self.take_name());
        }
        Ok(Path { parts, span: self.since(start) })
    }
}

/// Depth. A rule that fails leaves `depth` as it is: who goes on after an error sets it back.
impl Parser<'_> {
    /// Goes one level down.
    fn enter(&mut self) -> Parse<()> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        if self.depth > MAX_DEPTH { Err(self.too_deep()) } else { Ok(()) }
    }

    /// Comes back up.
    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// What is parsed from here on may be wrapped into further nodes. Gives what
    /// [`end_chain`](Self::end_chain) takes.
    fn begin_chain(&mut self) -> u32 {
        mem::replace(&mut self.deepest, self.depth)
    }

    /// What has been parsed since the chain began moves down one level.
    fn wrap(&mut self) -> Parse<()> {
        self.deepest += 1;
        if self.deepest > MAX_DEPTH { Err(self.too_deep()) } else { Ok(()) }
    }

    fn end_chain(&mut self, outside: u32) {
        self.deepest = self.deepest.max(outside);
    }

    fn too_deep(&mut self) -> Reported {
        if self.is_news() {
            let message = format!("this is nested more than {MAX_DEPTH} levels deep");
            let hint = "split it; each operand of a chain like `a + b + c`, and each `else if`, is \
                        a level too";
            self.error(self.here(), message, hint);
        }
        // Whatever follows would be about what this has torn.
        self.at = self.tokens.len() - 1;
        self.last_error = Some(self.at);
        Reported
    }
}
