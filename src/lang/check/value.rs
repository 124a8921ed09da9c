//! What an expression is before it is known where it goes.

use crate::lang::ast;
use crate::lang::hir::{self, ExprKind};
use crate::lang::source::Span;
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::tables::{ERROR, FnId};

/// A checked expression.
pub(super) enum Checked<'a> {
    Value(Value),
    /// A name that means functions: which one, its target says.
    Functions(Functions),
    /// `{…}`.
    Braces(&'a [ast::Entry], Span),
    /// `[…]`.
    Elements(&'a [ast::Expr], Span),
}

/// An expression with a type of its own.
pub(super) struct Value {
    pub expr: hir::Expr,
    /// What a literal, or a negated one, says: it also fits into narrower types.
    pub literal: Option<Literal>,
    /// It reads a place, so that a struct has to be copied if it goes elsewhere.
    pub is_place: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Literal {
    Int(i128),
    Double(f64),
}

/// Functions of one name.
pub(super) struct Functions {
    pub name: String,
    pub candidates: Vec<FnId>,
    /// The object before the dot.
    pub receiver: Option<Value>,
    /// The home and name of a function of the library; then there are no candidates.
    pub native: Option<(&'static str, &'static str)>,
    pub span: Span,
}

impl Value {
    pub fn new(kind: ExprKind, ty: TypeId, span: Span) -> Value {
        Value { expr: expr(kind, ty, span), literal: None, is_place: false }
    }

    /// What stands for an expression that is wrong.
    pub fn error(span: Span) -> Value {
        Value::new(ExprKind::Zero, ERROR, span)
    }

    pub fn place(kind: ExprKind, ty: TypeId, span: Span) -> Value {
        Value { is_place: true, ..Value::new(kind, ty, span) }
    }

    pub fn ty(&self) -> TypeId {
        self.expr.ty
    }

    pub fn span(&self) -> Span {
        self.expr.span
    }

    pub fn is_error(&self) -> bool {
        self.expr.ty == ERROR
    }

    /// Whether it is the literal `null`.
    pub fn is_null(&self) -> bool {
        self.expr.ty == known::NULL
    }
}

impl<'a> From<Value> for Checked<'a> {
    fn from(value: Value) -> Checked<'a> {
        Checked::Value(value)
    }
}

impl Checked<'_> {
    pub fn span(&self) -> Span {
        match self {
            Checked::Value(value) => value.span(),
            Checked::Functions(functions) => functions.span,
            Checked::Braces(_, span) | Checked::Elements(_, span) => *span,
        }
    }
}

pub(super) fn expr(kind: ExprKind, ty: TypeId, span: Span) -> hir::Expr {
    hir::Expr { kind, ty, span }
}

impl Checker<'_> {
    /// The expression as something that may be kept: a struct read from a place is copied.
    pub(super) fn owned(&self, value: Value) -> hir::Expr {
        let Value { expr: inner, is_place, .. } = value;
        if is_place && matches!(self.ty(inner.ty), Type::Struct(_)) {
            let (ty, span) = (inner.ty, inner.span);
            return expr(ExprKind::Copy(Box::new(inner)), ty, span);
        }
        inner
    }
}
