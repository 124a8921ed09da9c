//! What those who come from other languages write, and what it is here.

use super::{Keyword, Parser, Symbol, Token, TokenKind};

/// What to write instead of the name of a type that there is not; for the checker's message.
pub fn for_unknown_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "var" | "let" | "auto" | "val" => "a variable is declared with its type: `int x = 1;`",
        "String" | "str" => "the type of strings is `string`",
        "boolean" | "Boolean" | "Bool" => "the type is called `bool`",
        "Integer" | "Int" | "i32" | "int32" | "integer" => "the type is called `int`",
        "i64" | "int64" | "Long" => "the type is called `long`",
        "u8" | "uint8" => "the type is called `ubyte`",
        "i8" | "int8" | "sbyte" => "the type is called `byte`",
        "f32" | "Float" | "single" => "the type is called `float`",
        "f64" | "Double" | "real" => "the type is called `double`",
        "object" => "the root of all classes is `Object`",
        "list" | "Vec" | "vector" | "ArrayList" | "Array" => "a list of values is a `List<T>`",
        "dict" | "map" | "Map" | "HashMap" | "Dictionary" => "a table of values is a `Dict<K, V>`",
        "Function" | "fn" | "function" => "a function value is a `func<Result, Parameter>`",
        "unsigned" => "the unsigned types are `ubyte`, `ushort`, `uint` and `ulong`",
        _ => return None,
    })
}

impl Parser<'_> {
    /// What the next token, where it cannot stand, tells about its author's intention.
    pub(super) fn hint_here(&self) -> Option<String> {
        let next = self.nth(0);
        let last = self.at.checked_sub(1).map(|at| self.tokens[at]);
        let TokenKind::Symbol(symbol) = next.kind else { return self.hint_at_word(next, last) };
        let after_number = last.is_some_and(|last| matches!(last.kind, TokenKind::Int(_)));
        // Whether the last token is this symbol and touches the next one.
        let follows = |symbol: Symbol| {
            let is = |last: Token| last.kind == TokenKind::Symbol(symbol) && last.end == next.start;
            last.is_some_and(is)
        };
        let text = match symbol {
            Symbol::Assign if self.nth_is(1, Symbol::Greater) => {
                "there are no lambdas; name a function or method instead"
            }
            Symbol::Assign => "compare with `==`; an assignment is a statement of its own",
            Symbol::Greater if follows(Symbol::Minus) => "a member is reached with `.`",
            Symbol::Less | Symbol::Greater if follows(symbol) => {
                "there are no shift operators; multiply or divide"
            }
            Symbol::PlusAssign
            | Symbol::MinusAssign
            | Symbol::StarAssign
            | Symbol::SlashAssign
            | Symbol::PercentAssign => "an assignment is a statement of its own",
            Symbol::Colon if follows(Symbol::Colon) => "qualified names are written with `.`",
            Symbol::OpenBrace if self.closes_call_of("elseif") => "it is spelled `else if`",
            Symbol::OpenBrace if last.is_some_and(|last| last.kind == TokenKind::Word) => {
                "an object with its fields is written `new C{…}`"
            }
            Symbol::Dot if after_number => "a number does not end in a point",
            Symbol::CloseBrace | Symbol::CloseParen | Symbol::CloseBracket
                if last.is_some_and(|last| last.kind == TokenKind::Symbol(Symbol::Comma)) =>
            {
                "no comma stands after the last one"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// The same for a next token that is no symbol.
    fn hint_at_word(&self, next: Token, last: Option<Token>) -> Option<String> {
        let last_text = last.map_or("", |last| self.text(last));
        let text = match next.kind {
            TokenKind::Keyword(Keyword::In) => "going through a container is `foreach (T v in e)`",
            TokenKind::Keyword(_) if matches!(last_text, "elseif" | "elif") => {
                "it is spelled `else if`"
            }
            TokenKind::Word if matches!(last_text, "elif" | "elsif" | "elseif") => {
                "it is spelled `else if`"
            }
            TokenKind::Word if matches!(last_text, "function" | "fn" | "def") => {
                "a function begins with its result type: `int f() { … }`"
            }
            TokenKind::Word if matches!(self.text(next), "and" | "or" | "not" | "is") => {
                match self.text(next) {
                    "and" => "the logical operator is `&&`",
                    "or" => "the logical operator is `||`",
                    "not" => "the logical operator is `!`",
                    _ => "there is no test of an object's class; try `as` and catch",
                }
            }
            TokenKind::Word if self.text(next) == "extends" => {
                "a base class follows a colon: `class B : A`"
            }
            TokenKind::Keyword(Keyword::Super) => {
                "`super(…);` calls the constructor of the base class; there is no other use"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// Whether the last tokens are a call of a name, on which no other closing parenthesis stands.
    fn closes_call_of(&self, name: &str) -> bool {
        let mut open = 0;
        for (at, token) in self.tokens[..self.at].iter().enumerate().rev().take(200) {
            match token.kind {
                TokenKind::Symbol(Symbol::CloseParen) => open += 1,
                TokenKind::Symbol(Symbol::OpenParen) => {
                    open -= 1;
                    if open == 0 {
                        return at > 0 && self.text(self.tokens[at - 1]) == name;
                    }
                }
                TokenKind::Symbol(Symbol::Semicolon | Symbol::OpenBrace | Symbol::CloseBrace) => {
                    return false;
                }
                _ if open == 0 => return false,
                _ => {}
            }
        }
        false
    }
}
