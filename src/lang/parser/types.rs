//! Types, and how a declaration is told from an expression.

use super::{Keyword, Parse, Parser, Symbol, TokenKind};
use crate::lang::ast::{TypeExpr, TypeExprKind};

/// The names after which `<` opens type arguments in an expression.
const GENERIC: [&str; 6] = ["List", "Dict", "Channel", "Future", "Promise", "Func"];

/// A type argument.
struct Argument {
    is_out: bool,
    ty: TypeExpr,
}

impl Parser<'_> {
    pub(super) fn ty(&mut self) -> Parse<TypeExpr> {
        let outside = self.begin_chain();
        self.enter()?;
        let mut ty = self.element_type()?;
        self.leave();
        if self.is(Symbol::OpenBracket) {
            ty = self.array_type(ty)?;
        }
        self.end_chain(outside);
        Ok(ty)
    }

    /// After a type: `[]`, once.
    fn array_type(&mut self, mut ty: TypeExpr) -> Parse<TypeExpr> {
        let mut dimensions = 0;
        while self.is(Symbol::OpenBracket) && self.nth_is(1, Symbol::CloseBracket) {
            self.bump();
            self.bump();
            dimensions += 1;
        }
        let span = self.since(ty.span.start);
        if dimensions > 1 {
            let hint = "use a list of arrays: `List<T[]>`";
            self.error(span, "an array cannot hold arrays", hint);
            return Ok(TypeExpr { kind: TypeExprKind::Error, span });
        }
        if dimensions == 1 {
            self.wrap()?;
            ty = TypeExpr { kind: TypeExprKind::Array(Box::new(ty)), span };
        }
        Ok(ty)
    }

    /// A type, or `void`.
    pub(super) fn result_type(&mut self) -> Parse<TypeExpr> {
        if self.is_keyword(Keyword::Void) && !self.nth_is(1, Symbol::OpenBracket) {
            let token = self.bump();
            return Ok(TypeExpr { kind: TypeExprKind::Void, span: self.span(token) });
        }
        self.ty()
    }

    /// A type without `[]`.
    fn element_type(&mut self) -> Parse<TypeExpr> {
        let start = self.start();
        let kind = match self.peek() {
            TokenKind::Keyword(keyword) if keyword.is_primitive() => {
                self.bump();
                TypeExprKind::Primitive(keyword.text())
            }
            TokenKind::Keyword(Keyword::Func) => {
                self.bump();
                self.func_type()?
            }
            TokenKind::Keyword(Keyword::Void) => {
                if self.is_news() {
                    let hint = "it is the result of functions that give no value";
                    self.error(self.here(), "`void` is not a type of values", hint);
                }
                self.bump();
                TypeExprKind::Error
            }
            TokenKind::Word if self.text(self.nth(0)) == "Func" && self.nth_is(1, Symbol::Less) => {
                self.bump();
                self.func_type()?
            }
            TokenKind::Word => self.named_type()?,
            _ => return Err(self.expected("a type")),
        };
        Ok(TypeExpr { kind, span: self.since(start) })
    }

    fn named_type(&mut self) -> Parse<TypeExprKind> {
        let path = self.path("a type")?;
        let mut args = Vec::new();
        if self.is(Symbol::Less) {
            for Argument { is_out, mut ty } in self.type_args()? {
                if is_out || matches!(ty.kind, TypeExprKind::Void) {
                    let word = if is_out { "out" } else { "void" };
                    let message = format!("`{word}` is possible in a `func` type only");
                    self.error(ty.span, message, "");
                    ty.kind = TypeExprKind::Error;
                }
                args.push(ty);
            }
        }
        Ok(TypeExprKind::Named { path, args })
    }

    /// After `func`: the result's type, then those of the parameters.
    fn func_type(&mut self) -> Parse<TypeExprKind> {
        if !self.is(Symbol::Less) {
            return Err(self.expected("`<` and the types of result and parameters"));
        }
        let mut args = self.type_args()?.into_iter();
        let mut result = None;
        if let Some(first) = args.next() {
            if first.is_out {
                self.error(first.ty.span, "a result cannot be `out`", "the result comes first");
            }
            result = Some(first.ty);
        }
        let mut params = Vec::new();
        for Argument { is_out, mut ty } in args {
            if matches!(ty.kind, TypeExprKind::Void) {
                let hint = "a function without parameters is written `func<R>`";
                self.error(ty.span, "a parameter cannot be `void`", hint);
                ty.kind = TypeExprKind::Error;
            }
            params.push((is_out, ty));
        }
        // The list is never empty.
        let Some(result) = result else { return Ok(TypeExprKind::Error) };
        Ok(TypeExprKind::Func { result: Box::new(result), params })
    }

    /// `<A, out B, void>`, at least one.
    fn type_args(&mut self) -> Parse<Vec<Argument>> {
        self.bump();
        let mut args = Vec::new();
        loop {
            let start = self.start();
            let is_out = self.eat_keyword(Keyword::Out);
            let mut ty = self.result_type()?;
            if is_out {
                ty.span = self.since(start);
            }
            args.push(Argument { is_out, ty });
            if !self.eat(Symbol::Comma) {
                break;
            }
        }
        self.close_angle()?;
        Ok(args)
    }

    /// `>`, also as the first half of `>=`.
    fn close_angle(&mut self) -> Parse<()> {
        if !self.is(Symbol::GreaterEqual) {
            return self.expect(Symbol::Greater);
        }
        let token = &mut self.tokens[self.at];
        token.start += 1;
        token.kind = TokenKind::Symbol(Symbol::Assign);
        self.end = token.start;
        Ok(())
    }

    /// Whether an expression's next word and `<` begin a generic type.
    pub(super) fn begins_generic(&self) -> bool {
        self.nth_is(1, Symbol::Less) && GENERIC.contains(&self.text(self.nth(0)))
    }

    /// Whether the next tokens are a type and a name, as no expression has them. Reads no further
    /// than the type reaches.
    pub(super) fn begins_local(&self) -> bool {
        match self.peek() {
            TokenKind::Keyword(Keyword::Const | Keyword::Func | Keyword::Void) => true,
            TokenKind::Keyword(keyword) => keyword.is_primitive(),
            TokenKind::Word => self.type_before_name(),
            _ => false,
        }
    }

    /// Whether a type's name is followed by a variable's.
    fn type_before_name(&self) -> bool {
        let mut at = 1;
        while self.nth_is(at, Symbol::Dot) && self.nth(at + 1).kind == TokenKind::Word {
            at += 2;
        }
        if self.nth_is(at, Symbol::Less) {
            let Some(after) = self.after_type_args(at) else { return false };
            at = after;
        }
        while self.nth_is(at, Symbol::OpenBracket) && self.nth_is(at + 1, Symbol::CloseBracket) {
            at += 2;
        }
        self.nth(at).kind == TokenKind::Word
    }

    /// From `<` to after its `>`, if only what types are made of is between.
    fn after_type_args(&self, mut at: usize) -> Option<usize> {
        let mut open = 0;
        loop {
            match self.nth(at).kind {
                TokenKind::Symbol(Symbol::Less) => open += 1,
                TokenKind::Symbol(Symbol::Greater) => {
                    open -= 1;
                    if open == 0 {
                        return Some(at + 1);
                    }
                }
                TokenKind::Symbol(
                    Symbol::Comma | Symbol::Dot | Symbol::OpenBracket | Symbol::CloseBracket,
                )
                | TokenKind::Word
                | TokenKind::Keyword(Keyword::Func | Keyword::Void | Keyword::Out) => {}
                TokenKind::Keyword(keyword) if keyword.is_primitive() => {}
                _ => return None,
            }
            at += 1;
        }
    }
}
