//! Where parsing goes on after an error.

use super::{Parser, Symbol, TokenKind};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::source::Span;
use crate::lang::token::Keyword;

impl Parser<'_> {
    /// Skips what is left of a broken statement that began at token `first` with `parens` open
    /// parentheses: up to its `;` or block, or to what clearly begins something else.
    pub(super) fn skip_statement(&mut self, first: usize, parens: usize) {
        if self.peek() == TokenKind::Bad && self.nth(1).kind != TokenKind::End {
            self.bump();
            // An open string has swallowed the end of the line.
            if self.on_new_line() {
                self.parens = parens;
                return;
            }
        }
        let mut braces = 0;
        while self.peek() != TokenKind::End {
            let inside = braces > 0;
            match self.peek() {
                TokenKind::Symbol(Symbol::OpenBrace) => {
                    braces += 1;
                    self.parens = parens;
                }
                TokenKind::Symbol(Symbol::CloseBrace) if !inside => break,
                TokenKind::Symbol(Symbol::CloseBrace) => {
                    braces -= 1;
                    if braces == 0 {
                        self.bump();
                        // Braces that were a value do not end the statement.
                        if self.is(Symbol::CloseParen) || self.is(Symbol::Comma) {
                            continue;
                        }
                        break;
                    }
                }
                TokenKind::Symbol(Symbol::Semicolon) if !inside => {
                    self.bump();
                    if self.parens <= parens || self.on_new_line() {
                        break;
                    }
                    continue;
                }
                TokenKind::Keyword(keyword)
                    if !inside
                        && self.at > first
                        && (begins_declaration(keyword)
                            || begins_statement(keyword) && self.on_new_line()) =>
                {
                    break;
                }
                _ => {}
            }
            self.bump();
        }
        self.parens = parens;
    }

    /// Skips what is left of a broken declaration or member that began at token `first`. At the top
    /// level a closing brace is skipped as well, else it ends the body around the member.
    pub(super) fn skip_declaration(&mut self, first: usize, is_top: bool) {
        let mut braces = 0;
        while self.peek() != TokenKind::End {
            match self.peek() {
                TokenKind::Symbol(Symbol::OpenBrace) => braces += 1,
                TokenKind::Symbol(Symbol::CloseBrace) if braces == 0 && !is_top => break,
                TokenKind::Symbol(Symbol::CloseBrace) if braces <= 1 => {
                    self.bump();
                    break;
                }
                TokenKind::Symbol(Symbol::CloseBrace) => braces -= 1,
                TokenKind::Symbol(Symbol::Semicolon) if braces == 0 => {
                    self.bump();
                    break;
                }
                TokenKind::Keyword(keyword)
                    if braces == 0 && self.at > first && begins_declaration(keyword) =>
                {
                    break;
                }
                _ => {}
            }
            self.bump();
        }
        self.parens = 0;
    }

    /// Takes the `}` that closes a body. If the file, or what cannot stand inside, comes first,
    /// reports that the body is open and goes on as if it were closed.
    pub(super) fn close_body(&mut self, opener: Span) {
        if self.eat(Symbol::CloseBrace) || !self.is_news() {
            return;
        }
        let seen = match self.peek() {
            TokenKind::End => "the file ends here".to_owned(),
            _ => format!("{} cannot stand inside", self.found()),
        };
        let diagnostic = Diagnostic::error(opener, "this `{` is not closed");
        self.report(diagnostic.label(self.here(), seen));
    }

    /// Whether the next token ends a list of statements, rightly or not.
    pub(super) fn ends_statements(&self) -> bool {
        match self.peek() {
            TokenKind::End | TokenKind::Symbol(Symbol::CloseBrace) => true,
            TokenKind::Keyword(keyword) => begins_declaration(keyword),
            _ => false,
        }
    }
}

/// Whether a word begins a declaration or member and cannot begin a statement.
pub(super) fn begins_declaration(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        Class
            | Struct
            | Interface
            | Enum
            | Import
            | Using
            | Public
            | Protected
            | Private
            | Static
            | Virtual
            | Native
    )
}

/// Whether a word begins a statement and no expression or type.
pub(super) fn begins_statement(keyword: Keyword) -> bool {
    use Keyword::*;
    matches!(
        keyword,
        If | While
            | Do
            | For
            | Foreach
            | Switch
            | Try
            | Throw
            | Return
            | Break
            | Continue
            | Assert
            | Const
            | Case
            | Default
    )
}
