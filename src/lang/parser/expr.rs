//! Expressions, arguments and initialisers.
//!
//! Binary operators are parsed by precedence climbing: the loop of [`Parser::operators`] makes chains,
//! the recursion goes only as deep as there are precedences and brackets.

use std::mem;

use super::{Keyword, Parse, Parser, Reported, Symbol, TokenKind};
use crate::lang::ast::{
    Arg, BinaryOp, Entry, EntryKey, Expr, ExprKind, NewInit, StringPart, TypeExpr, TypeExprKind,
    UnaryOp,
};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::source::Span;

/// A binary operator and how tightly it binds.
fn binary_op(kind: TokenKind) -> Option<(BinaryOp, u32)> {
    let TokenKind::Symbol(symbol) = kind else { return None };
    Some(match symbol {
        Symbol::Or => (BinaryOp::Or, 1),
        Symbol::And => (BinaryOp::And, 2),
        Symbol::Equal => (BinaryOp::Eq, 3),
        Symbol::NotEqual => (BinaryOp::Ne, 3),
        Symbol::Less => (BinaryOp::Lt, 4),
        Symbol::LessEqual => (BinaryOp::Le, 4),
        Symbol::Greater => (BinaryOp::Gt, 4),
        Symbol::GreaterEqual => (BinaryOp::Ge, 4),
        Symbol::Plus => (BinaryOp::Add, 5),
        Symbol::Minus => (BinaryOp::Sub, 5),
        Symbol::Star => (BinaryOp::Mul, 6),
        Symbol::Slash => (BinaryOp::Div, 6),
        Symbol::Percent => (BinaryOp::Mod, 6),
        _ => return None,
    })
}

/// Operators.
impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        self.operators(1)
    }

    /// An expression of operators that bind at least so tightly, one level down.
    fn operators(&mut self, min: u32) -> Parse<Expr> {
        self.enter()?;
        let outside = self.begin_chain();
        let mut left = self.unary()?;
        while let Some((op, precedence)) = binary_op(self.peek())
            && precedence >= min
            && !matches!(left.kind, ExprKind::Error)
        {
            left = self.operation(left, op, precedence)?;
        }
        self.end_chain(outside);
        self.leave();
        Ok(left)
    }

    /// After the left operand: the operator and its right operand.
    fn operation(&mut self, left: Expr, op: BinaryOp, precedence: u32) -> Parse<Expr> {
        if self.is_step() {
            return Ok(self.postfix_step(left.span.start));
        }
        let token = self.bump();
        let op_span = self.span(token);
        self.wrap()?;
        let right = Box::new(self.operators(precedence + 1)?);
        let span = self.since(left.span.start);
        Ok(Expr { kind: ExprKind::Binary { op, left: Box::new(left), right, op_span }, span })
    }

    /// Whether the next tokens are `++` or `--` after an operand, with no other one behind.
    fn is_step(&self) -> bool {
        let behind = self.nth(2).kind;
        (self.is_doubled(Symbol::Plus) || self.is_doubled(Symbol::Minus))
            && (behind == TokenKind::End
                || matches!(
                    behind,
                    TokenKind::Symbol(
                        Symbol::Semicolon
                            | Symbol::Comma
                            | Symbol::CloseParen
                            | Symbol::CloseBracket
                            | Symbol::CloseBrace
                    )
                ))
    }

    /// `i++`, reported and read over.
    fn postfix_step(&mut self, start: u32) -> Expr {
        let token = self.bump();
        let op = self.text(token).to_owned();
        self.bump();
        self.no_step(self.since(token.start), &op);
        Expr { kind: ExprKind::Error, span: self.since(start) }
    }

    fn unary(&mut self) -> Parse<Expr> {
        match self.peek() {
            TokenKind::Symbol(Symbol::Minus) => self.sign(UnaryOp::Neg),
            TokenKind::Symbol(Symbol::Plus) => self.sign(UnaryOp::Plus),
            TokenKind::Symbol(Symbol::Not) => self.sign(UnaryOp::Not),
            _ => self.operand(),
        }
    }

    fn sign(&mut self, op: UnaryOp) -> Parse<Expr> {
        match op {
            UnaryOp::Neg => self.warn_of_doubled(Symbol::Minus),
            UnaryOp::Plus => self.warn_of_doubled(Symbol::Plus),
            UnaryOp::Not => {}
        }
        let start = self.bump().start;
        self.enter()?;
        let operand = Box::new(self.unary()?);
        self.leave();
        Ok(Expr { kind: ExprKind::Unary { op, operand }, span: self.since(start) })
    }

    /// `--x` and `a--b` are legal, and hardly what they seem to be.
    fn warn_of_doubled(&mut self, symbol: Symbol) {
        let next = self.nth(0);
        let before = self.at.checked_sub(1).map(|at| self.tokens[at]);
        let is_second = before.is_some_and(|before| {
            before.kind == TokenKind::Symbol(symbol) && before.end == next.start
        });
        if is_second {
            let sign = symbol.text();
            let span = Span { start: next.start - 1, ..self.here() };
            let message = format!("`{sign}{sign}` is two signs, not one operator");
            let hint = format!("put a space between them, or write `i {sign}= 1`");
            self.report(Diagnostic::warning(span, message).hint(hint));
        }
    }

    /// An operand with its members, indices, arguments and casts.
    fn operand(&mut self) -> Parse<Expr> {
        let outside = self.begin_chain();
        let mut operand = self.primary()?;
        while self.is_suffix() || self.is_c_cast(&operand) {
            self.wrap()?;
            operand = self.suffix(operand)?;
        }
        while self.is_keyword(Keyword::As) {
            self.wrap()?;
            operand = self.cast(operand)?;
        }
        self.end_chain(outside);
        Ok(operand)
    }

    fn is_suffix(&self) -> bool {
        let TokenKind::Symbol(symbol) = self.peek() else { return false };
        matches!(symbol, Symbol::Dot | Symbol::OpenBracket | Symbol::OpenParen)
    }

    fn suffix(&mut self, object: Expr) -> Parse<Expr> {
        let start = object.span.start;
        let kind = match self.peek() {
            TokenKind::Symbol(Symbol::Dot) => {
                self.bump();
                let name = self.name("the name of a member")?;
                ExprKind::Member { object: Box::new(object), name }
            }
            TokenKind::Symbol(Symbol::OpenBracket) => {
                let opener = self.here();
                self.bump();
                let index = Box::new(self.expr()?);
                self.expect_close(Symbol::CloseBracket, opener)?;
                ExprKind::Index { object: Box::new(object), index }
            }
            TokenKind::Symbol(Symbol::OpenParen) => self.call(object)?,
            _ => return self.c_cast(start),
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    fn cast(&mut self, operand: Expr) -> Parse<Expr> {
        self.bump();
        let ty = self.ty()?;
        let span = self.since(operand.span.start);
        Ok(Expr { kind: ExprKind::Cast { operand: Box::new(operand), ty }, span })
    }

    fn call(&mut self, callee: Expr) -> Parse<ExprKind> {
        let is_named = matches!(callee.kind, ExprKind::Name(_) | ExprKind::Member { .. });
        if !is_named && !matches!(callee.kind, ExprKind::Error) {
            let hint = "a function value is called by the name of the variable that holds it";
            self.error(callee.span, "only what has a name can be called", hint);
        }
        let args = self.args()?;
        if !is_named {
            return Ok(ExprKind::Error);
        }
        Ok(ExprKind::Call { callee: Box::new(callee), args })
    }

    /// Whether `(C)` is followed, on its line, by another operand.
    fn is_c_cast(&self, expr: &Expr) -> bool {
        let ExprKind::Paren(inner) = &expr.kind else { return false };
        let is_operand = matches!(
            self.peek(),
            TokenKind::Word
                | TokenKind::Int(_)
                | TokenKind::Double(_)
                | TokenKind::Float(_)
                | TokenKind::Char(_)
                | TokenKind::String(_)
                | TokenKind::Keyword(Keyword::This | Keyword::New)
        );
        is_operand
            && !self.on_new_line()
            && matches!(inner.kind, ExprKind::Name(_) | ExprKind::Member { .. })
    }

    /// After `(type)` as in C: reports it and reads its operand.
    fn c_cast(&mut self, start: u32) -> Parse<Expr> {
        let place = self.since(start);
        let written = &self.source.text[place.start as usize..place.end as usize];
        let ty = written.trim_start_matches('(').trim_end_matches(')').trim().to_owned();
        let hint = format!("a conversion is written `x as {ty}`");
        self.error(place, "there is no such cast", &hint);
        self.enter()?;
        self.unary()?;
        self.leave();
        Ok(Expr { kind: ExprKind::Error, span: self.since(start) })
    }
}

/// Operands.
impl Parser<'_> {
    fn primary(&mut self) -> Parse<Expr> {
        match self.peek() {
            TokenKind::Symbol(Symbol::OpenParen) => self.parenthesis(),
            TokenKind::Symbol(Symbol::OpenBracket) => self.list(),
            TokenKind::Keyword(Keyword::New) => self.construction(),
            TokenKind::Keyword(Keyword::Func) if self.nth_is(1, Symbol::Less) => {
                self.construction()
            }
            TokenKind::Word if self.begins_generic() => self.construction(),
            _ => self.atom(),
        }
    }

    /// What has no parts.
    fn atom(&mut self) -> Parse<Expr> {
        let kind = match self.peek() {
            TokenKind::Int(value) => ExprKind::Int(value),
            TokenKind::Double(value) => ExprKind::Double(value),
            TokenKind::Float(value) => ExprKind::Float(value),
            TokenKind::Char(value) => ExprKind::Char(value),
            TokenKind::String(index) => {
                ExprKind::String(mem::take(&mut self.strings[index as usize]))
            }
            TokenKind::Keyword(Keyword::True) => ExprKind::Bool(true),
            TokenKind::Keyword(Keyword::False) => ExprKind::Bool(false),
            TokenKind::Keyword(Keyword::Null) => ExprKind::Null,
            TokenKind::Keyword(Keyword::This) => ExprKind::This,
            TokenKind::Word => {
                let name = self.take_name();
                let span = name.span;
                return Ok(Expr { kind: ExprKind::Name(name), span });
            }
            TokenKind::Keyword(keyword) if keyword.is_primitive() => {
                return Err(self.primitive_operand());
            }
            TokenKind::Symbol(Symbol::OpenBrace) => {
                if self.is_news() {
                    let hint = "put the type before it: `new C{…}`, `List<int>{…}`";
                    self.error(self.here(), "the type of these braces is not known here", hint);
                }
                return Err(Reported);
            }
            _ => return Err(self.expected("an expression")),
        };
        let token = self.bump();
        Ok(Expr { kind, span: self.span(token) })
    }

    /// `(e)`, or `(int)e` as in C.
    fn parenthesis(&mut self) -> Parse<Expr> {
        let opener = self.here();
        self.bump();
        if let TokenKind::Keyword(keyword) = self.peek()
            && keyword.is_primitive()
            && self.nth_is(1, Symbol::CloseParen)
        {
            self.bump();
            self.bump();
            return self.c_cast(opener.start);
        }
        let inner = Box::new(self.expr()?);
        self.expect_close(Symbol::CloseParen, opener)?;
        Ok(Expr { kind: ExprKind::Paren(inner), span: self.since(opener.start) })
    }

    /// `int(x)` or `int` alone.
    fn primitive_operand(&mut self) -> Reported {
        if self.nth_is(1, Symbol::OpenParen) && self.is_news() {
            let hint = format!("a conversion is written `x as {}`", self.text(self.nth(0)));
            self.error(self.here(), "a type cannot be called", &hint);
            return Reported;
        }
        self.expected("an expression")
    }

    /// `[a, b]`.
    fn list(&mut self) -> Parse<Expr> {
        let opener = self.here();
        self.bump();
        let mut elements = Vec::new();
        if !self.is(Symbol::CloseBracket) {
            loop {
                elements.push(self.init()?);
                if !self.eat(Symbol::Comma) {
                    break;
                }
            }
        }
        self.expect_close(Symbol::CloseBracket, opener)?;
        Ok(Expr { kind: ExprKind::List(elements), span: self.since(opener.start) })
    }

    /// `new C(a)`, `new C{a}`, `new T[n]`; without `new` only the first two.
    fn construction(&mut self) -> Parse<Expr> {
        let start = self.start();
        let is_new = self.eat_keyword(Keyword::New);
        let ty = self.ty()?;
        let kind = match self.peek() {
            TokenKind::Symbol(Symbol::OpenBracket) if is_new => self.new_array(ty)?,
            TokenKind::Symbol(Symbol::OpenParen) => {
                let is_class = self.check_class(&ty);
                let init = NewInit::Args(self.args()?);
                if is_class { ExprKind::New { ty, init } } else { ExprKind::Error }
            }
            TokenKind::Symbol(Symbol::OpenBrace) => {
                let is_class = self.check_class(&ty);
                let init = NewInit::Braces(self.braces()?);
                if is_class { ExprKind::New { ty, init } } else { ExprKind::Error }
            }
            _ if is_new && matches!(ty.kind, TypeExprKind::Array(_)) => {
                if self.is_news() {
                    let hint = "write it between the brackets: `new int[10]`";
                    self.error(ty.span, "this array has no length", hint);
                    return Err(Reported);
                }
                ExprKind::Error
            }
            _ if is_new => return Err(self.expected("`(`, `{` or `[` after the type")),
            _ => return Err(self.expected("`(` or `{` after the type")),
        };
        Ok(Expr { kind, span: self.since(start) })
    }

    /// After `new T`: the length.
    fn new_array(&mut self, ty: TypeExpr) -> Parse<ExprKind> {
        let opener = self.here();
        self.bump();
        let length = Box::new(self.expr()?);
        self.expect_close(Symbol::CloseBracket, opener)?;
        if matches!(ty.kind, TypeExprKind::Array(_)) {
            let hint = "use a list of arrays: `List<T[]>`";
            self.error(ty.span, "an array cannot hold arrays", hint);
            return Ok(ExprKind::Error);
        }
        if self.is(Symbol::OpenBrace) {
            if self.is_news() {
                let hint = "an array with its elements is written `[1, 2, 3]`";
                self.error(self.here(), "braces after the length of an array", hint);
            }
            return Err(Reported);
        }
        Ok(ExprKind::NewArray { element: ty, length })
    }

    /// Whether objects of a type are made with arguments or braces.
    fn check_class(&mut self, ty: &TypeExpr) -> bool {
        let (message, hint) = match &ty.kind {
            TypeExprKind::Named { .. } => return true,
            TypeExprKind::Error => return false,
            TypeExprKind::Array(_) => (
                "an array is not made like this",
                "write `new T[n]`, or `[1, 2, 3]` with the elements",
            ),
            TypeExprKind::Func { .. } => (
                "a func type has no constructor",
                "a function value is the name of a function or method without `()`",
            ),
            TypeExprKind::Primitive(_) | TypeExprKind::Void => {
                ("this type has no constructor", "`new` makes objects of classes, and arrays")
            }
        };
        self.error(ty.span, message, hint);
        false
    }

    /// A value that may be in braces, since its type is known.
    pub(super) fn init(&mut self) -> Parse<Expr> {
        if !self.is(Symbol::OpenBrace) {
            return self.expr();
        }
        let start = self.start();
        self.enter()?;
        let entries = self.braces()?;
        self.leave();
        Ok(Expr { kind: ExprKind::Braces(entries), span: self.since(start) })
    }

    /// `{…}`.
    fn braces(&mut self) -> Parse<Vec<Entry>> {
        let opener = self.here();
        self.expect(Symbol::OpenBrace)?;
        let mut entries = Vec::new();
        if !self.is(Symbol::CloseBrace) {
            loop {
                entries.push(self.entry()?);
                if !self.eat(Symbol::Comma) {
                    break;
                }
            }
        }
        self.expect_close(Symbol::CloseBrace, opener)?;
        Ok(entries)
    }

    fn entry(&mut self) -> Parse<Entry> {
        let mut key = None;
        if self.nth_is(1, Symbol::Colon) {
            key = match self.peek() {
                TokenKind::Word => Some(EntryKey::Name(self.take_name())),
                TokenKind::String(index) => Some(self.text_key(index)),
                TokenKind::Int(_) | TokenKind::Char(_) => {
                    if self.is_news() {
                        let hint = "other keys are set one by one: `d[k] = v`";
                        self.error(self.here(), "a key in braces is a string literal", hint);
                    }
                    return Err(Reported);
                }
                _ => None,
            };
            if key.is_some() {
                self.bump();
            }
        }
        Ok(Entry { key, value: self.init()? })
    }

    fn text_key(&mut self, index: u32) -> EntryKey {
        let span = self.here();
        self.bump();
        let mut text = String::new();
        for part in mem::take(&mut self.strings[index as usize]) {
            match part {
                StringPart::Text(part) => text.push_str(&part),
                StringPart::Name(name) => {
                    let hint = "set it afterwards: `d[k] = v`";
                    self.error(name.span, "a key in braces has no variables in it", hint);
                }
            }
        }
        EntryKey::Text(text, span)
    }

    /// `(a, name = b, out c)`.
    pub(super) fn args(&mut self) -> Parse<Vec<Arg>> {
        let opener = self.here();
        self.expect(Symbol::OpenParen)?;
        let mut args = Vec::new();
        if !self.is(Symbol::CloseParen) {
            loop {
                args.push(self.arg()?);
                if !self.eat(Symbol::Comma) {
                    break;
                }
            }
        }
        self.expect_close(Symbol::CloseParen, opener)?;
        Ok(args)
    }

    fn arg(&mut self) -> Parse<Arg> {
        let start = self.start();
        let is_named = self.peek() == TokenKind::Word && self.nth_is(1, Symbol::Assign);
        let mut name = None;
        if is_named {
            name = Some(self.take_name());
            self.bump();
        }
        let is_out = self.eat_keyword(Keyword::Out);
        let value = if is_out { self.out_variable()? } else { self.init()? };
        Ok(Arg { name, is_out, value, span: self.since(start) })
    }

    fn out_variable(&mut self) -> Parse<Expr> {
        if self.begins_local() && self.is_news() {
            let hint = "declare the variable before the call";
            self.error(self.here(), "`out` takes the name of a variable", hint);
            return Err(Reported);
        }
        let name = self.name("the name of a variable")?;
        let span = name.span;
        if self.is(Symbol::Dot) || self.is(Symbol::OpenBracket) {
            if self.is_news() {
                let hint = "use a local variable, and store it afterwards";
                self.error(span, "`out` takes a local variable or a parameter", hint);
            }
            return Err(Reported);
        }
        Ok(Expr { kind: ExprKind::Name(name), span })
    }
}
