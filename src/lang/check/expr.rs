//! Expressions: the way to each kind, and those that are simple.

use crate::lang::ast::{self, ExprKind as Ast, UnaryOp};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, ExprKind};
use crate::lang::parser::MAX_DEPTH;
use crate::lang::source::Span;
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::convert::{integer, integer_word, is_floating, is_number};
use super::member::Entity;
use super::value::{Checked, Literal, Value, expr};

impl<'a> Checker<'a> {
    /// An expression wherever it may go.
    pub(super) fn check_expr(&mut self, e: &'a ast::Expr) -> Checked<'a> {
        // No tree is that high, but defaults stand in one another.
        if self.depth > 2 * MAX_DEPTH {
            self.diagnostics.error(e.span, "the defaults in this call are nested too deeply");
            return Value::error(e.span).into();
        }
        self.depth += 1;
        let checked = self.expr_of_kind(e);
        self.depth -= 1;
        checked
    }

    fn expr_of_kind(&mut self, e: &'a ast::Expr) -> Checked<'a> {
        let span = e.span;
        match &e.kind {
            &Ast::Int(n) => self.int_literal(n.into(), span).into(),
            &Ast::Double(x) => double_literal(x, span).into(),
            &Ast::Float(x) => {
                Value::new(ExprKind::Word(x.to_bits().into()), known::FLOAT, span).into()
            }
            &Ast::Bool(b) => Value::new(ExprKind::Word(b.into()), known::BOOL, span).into(),
            &Ast::Char(c) => Value::new(ExprKind::Word(c.into()), known::CHAR, span).into(),
            Ast::String(parts) => self.string_literal(parts, span).into(),
            Ast::Null => Value::new(ExprKind::Null, known::NULL, span).into(),
            Ast::This => self.this(span).into(),
            Ast::Name(_) | Ast::Member { .. } => match self.entity(e) {
                Entity::Expr(checked) => checked,
                entity => {
                    self.not_a_value(&entity, span);
                    Value::error(span).into()
                }
            },
            Ast::Index { object, index } => self.index(object, index, span).into(),
            Ast::Call { callee, args } => self.call(callee, args, span).into(),
            Ast::New { ty, init } => self.new_object(ty, init, span).into(),
            Ast::NewArray { element, length } => self.new_array(element, length, span).into(),
            Ast::List(elements) => Checked::Elements(elements, span),
            Ast::Braces(entries) => Checked::Braces(entries, span),
            Ast::Unary { op, operand } => self.unary(*op, operand, span).into(),
            Ast::Binary { op, left, right, op_span } => {
                self.binary(*op, left, right, *op_span, span).into()
            }
            Ast::Cast { operand, ty } => {
                let value = self.value(operand);
                let to = self.resolve_type(self.body.unit, ty);
                self.cast(value, to, span).into()
            }
            Ast::Paren(inner) => self.check_expr(inner),
            Ast::Error => Value::error(span).into(),
        }
    }

    /// An expression that has to have a type of its own; it may be `void`.
    pub(super) fn value_or_void(&mut self, e: &'a ast::Expr) -> Value {
        match self.check_expr(e) {
            Checked::Value(value) => value,
            Checked::Functions(functions) => {
                let name = &functions.name;
                let message = format!("`{name}` is a function");
                let hint = format!("call it: `{name}(…)`");
                self.report(Diagnostic::error(functions.span, message).hint(hint));
                Value::error(e.span)
            }
            Checked::Braces(entries, span) => {
                self.error(span, "nothing here says what `{…}` is");
                self.discard(Checked::Braces(entries, span));
                Value::error(span)
            }
            Checked::Elements(elements, span) => self.untyped_elements(elements, span),
        }
    }

    /// An expression that has to be a value with a type of its own.
    pub(super) fn value(&mut self, e: &'a ast::Expr) -> Value {
        let value = self.value_or_void(e);
        if value.ty() == known::VOID {
            self.error(value.span(), "this call returns no value");
            return Value::error(value.span());
        }
        value
    }

    /// An expression as a value of a type.
    pub(super) fn expr_as(&mut self, e: &'a ast::Expr, to: TypeId) -> hir::Expr {
        let checked = self.check_expr(e);
        self.coerce(checked, to)
    }

    /// A condition, or an operand of `&&`, `||` and `!`.
    pub(super) fn condition(&mut self, e: &'a ast::Expr, what: &str) -> hir::Expr {
        let value = self.value(e);
        if value.is_error() || value.ty() == known::BOOL {
            return value.expr;
        }
        let found = self.name(value.ty());
        let message = format!("{what} must be `bool`, but this is `{found}`");
        let diagnostic = Diagnostic::error(value.span(), message);
        let text = self.source_text(e.span);
        let diagnostic = match self.ty(value.ty()) {
            _ if is_number(value.ty()) => diagnostic.hint(format!("write `{text} != 0`")),
            Type::String => diagnostic.hint(format!("write `{text} != \"\"`")),
            _ if self.types.is_reference(value.ty()) => {
                diagnostic.hint(format!("write `{text} != null`"))
            }
            _ => diagnostic,
        };
        self.report(diagnostic);
        Value::error(e.span).expr
    }

    /// A short piece of the source for a hint; `…` for what is long.
    fn source_text(&self, span: Span) -> &'a str {
        let text = &self.program.sources.get(span.file).text;
        let text = text.get(span.start as usize..span.end as usize).unwrap_or("…");
        if text.len() > 24 || text.contains(['\n', ' ']) { "…" } else { text }
    }

    pub(super) fn int_literal(&mut self, n: i128, span: Span) -> Value {
        let of = |ty| super::convert::fits(n, ty);
        let ty = if of(known::INT) {
            known::INT
        } else if of(known::LONG) {
            known::LONG
        } else if of(known::ULONG) {
            known::ULONG
        } else {
            self.error(span, format!("`{n}` does not fit into `long`"));
            return Value::error(span);
        };
        let value = Value::new(ExprKind::Word(integer_word(n, ty)), ty, span);
        Value { literal: Some(Literal::Int(n)), ..value }
    }

    fn string_literal(&mut self, parts: &'a [ast::StringPart], span: Span) -> Value {
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                ast::StringPart::Text(text) if text.is_empty() => {}
                ast::StringPart::Text(text) => {
                    pieces.push(expr(ExprKind::Text(text.clone()), known::STRING, span));
                }
                ast::StringPart::Name(name) => match self.variable(name) {
                    Some(value) => pieces.push(self.coerce_value(value, known::STRING)),
                    None => {
                        self.unknown_variable(name);
                        return Value::error(span);
                    }
                },
            }
        }
        if pieces.iter().any(|piece| piece.ty == super::tables::ERROR) {
            return Value::error(span);
        }
        match pieces.len() {
            0 => Value::new(ExprKind::Text(String::new()), known::STRING, span),
            1 => {
                let mut piece = pieces.remove(0);
                piece.span = span;
                Value { expr: piece, literal: None, is_place: false }
            }
            _ => Value::new(ExprKind::Concat(pieces), known::STRING, span),
        }
    }

    pub(super) fn this(&mut self, span: Span) -> Value {
        match self.body.this {
            Some(ty) if self.body.is_default => Value::new(ExprKind::Argument(0), ty, span),
            Some(ty) => Value::new(ExprKind::Local(hir::LocalId(0)), ty, span),
            None => {
                self.error(span, "there is no `this` outside of methods");
                Value::error(span)
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, operand: &'a ast::Expr, span: Span) -> Value {
        if op == UnaryOp::Not {
            let operand = self.condition(operand, "what `!` negates");
            return Value::new(ExprKind::Not(Box::new(operand)), known::BOOL, span);
        }
        let value = self.value(operand);
        if value.is_error() {
            return Value::error(span);
        }
        match (op, value.literal) {
            (UnaryOp::Plus, Some(_)) => return value,
            (UnaryOp::Neg, Some(Literal::Int(n))) if n >= 0 => return self.int_literal(-n, span),
            (UnaryOp::Neg, Some(Literal::Double(x))) => return double_literal(-x, span),
            _ => {}
        }
        let sign = if op == UnaryOp::Neg { '-' } else { '+' };
        let ty = value.ty();
        let to = match integer(ty) {
            Some((_, 64)) if ty == known::ULONG => {
                self.error(span, format!("`ulong` has no `{sign}`"));
                return Value::error(span);
            }
            Some((_, 64)) => known::LONG,
            Some((false, 32)) => known::LONG,
            Some(_) => known::INT,
            None if is_floating(ty) => ty,
            None if matches!(self.ty(ty), Type::Enum(_)) => known::INT,
            None => {
                let name = self.name(ty);
                self.error(span, format!("`{sign}` needs a number, but this is `{name}`"));
                return Value::error(span);
            }
        };
        let operand = self.coerce_value(value, to);
        if op == UnaryOp::Plus {
            return Value { expr: operand, literal: None, is_place: false };
        }
        Value::new(ExprKind::Neg(Box::new(operand)), to, span)
    }
}

fn double_literal(x: f64, span: Span) -> Value {
    let value = Value::new(ExprKind::Word(x.to_bits()), known::DOUBLE, span);
    Value { literal: Some(Literal::Double(x)), ..value }
}
