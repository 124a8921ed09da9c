//! `switch`: what can be switched on, and which labels fit.

use std::collections::HashMap;

use crate::lang::ast;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, ExprKind, StmtKind};
use crate::lang::source::Span;
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::convert::{fits, integer, integer_word, is_floating};
use super::fold::{Folded, fold};
use super::scope::Jump;
use super::tables::ERROR;
use super::value::{Literal, Value};

/// Kinds of values that a label can be compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    Integer,
    Floating,
    Char,
    Text,
    Enum,
}

/// A label's value, if it is known now.
#[derive(PartialEq, Eq, Hash)]
enum Constant {
    Int(i128),
    /// The bits; of either zero those of the positive one.
    Double(u64),
    Text(String),
}

fn double(x: f64) -> Constant {
    Constant::Double(if x == 0.0 { 0 } else { x.to_bits() })
}

impl<'a> Checker<'a> {
    pub(super) fn switch(
        &mut self,
        value: &'a ast::Expr,
        cases: &'a [ast::Case],
        default: Option<&'a [ast::Stmt]>,
    ) -> StmtKind {
        let value = self.value(value);
        let family = self.family(value.ty());
        if family.is_none() && !value.is_error() {
            let name = self.name(value.ty());
            let message = format!("`switch` is not possible on `{name}`");
            let hint = "it takes integers, char, float, double, string and enums";
            self.report(Diagnostic::error(value.span(), message).hint(hint));
        }
        let mut seen: HashMap<Constant, Span> = HashMap::new();
        let mut target = value.ty();
        let mut bodies = Vec::with_capacity(cases.len());
        for case in cases {
            let mut labels = Vec::with_capacity(case.labels.len());
            for label in &case.labels {
                let checked = self.value(label);
                if let Some(family) = family
                    && let Some(checked) = self.label(checked, label, value.ty(), family, &mut seen)
                {
                    target = self.wider(target, checked.ty());
                    labels.push(checked);
                }
            }
            bodies.push((labels, self.case_body(&case.body)));
        }
        let default = default.map(|stmts| self.case_body(stmts));
        let value = self.coerce_value(value, target);
        let cases = bodies
            .into_iter()
            .map(|(labels, body)| {
                let labels = labels.into_iter().map(|l| self.coerce_value(l, target)).collect();
                hir::Case { labels, body }
            })
            .collect();
        StmtKind::Switch { value, cases, default }
    }

    fn case_body(&mut self, stmts: &'a [ast::Stmt]) -> Vec<hir::Stmt> {
        self.body.jumps.push(Jump::Switch);
        let body = self.block(stmts);
        self.body.jumps.pop();
        body
    }

    fn family(&self, ty: TypeId) -> Option<Family> {
        if ty == ERROR {
            return None;
        }
        if integer(ty).is_some() {
            return Some(Family::Integer);
        }
        if is_floating(ty) {
            return Some(Family::Floating);
        }
        match self.ty(ty) {
            Type::Char => Some(Family::Char),
            Type::String => Some(Family::Text),
            Type::Enum(_) => Some(Family::Enum),
            _ => None,
        }
    }

    /// The type in which a value and a computed label of a wider type are compared.
    fn wider(&self, target: TypeId, label: TypeId) -> TypeId {
        let widens = self.implicit(target, None, label).is_some();
        if integer(target).is_some() && integer(label).is_some() && target != label && widens {
            return label;
        }
        target
    }

    /// A label as something that can be compared with the value; reports if it cannot.
    fn label(
        &mut self,
        label: Value,
        source: &ast::Expr,
        ty: TypeId,
        family: Family,
        seen: &mut HashMap<Constant, Span>,
    ) -> Option<Value> {
        if label.is_error() {
            return None;
        }
        let span = label.span();
        let found = self.family(label.ty());
        let fits_family = found == Some(family)
            || (found, family) == (Some(Family::Enum), Family::Integer)
            || (found, family) == (Some(Family::Integer), Family::Enum)
                && self.implicit(label.ty(), label.literal, known::INT).is_some();
        if !fits_family || found == Some(Family::Enum) && family == Family::Enum && label.ty() != ty
        {
            let (found, wanted) = (self.name(label.ty()), self.name(ty));
            self.error(span, format!("the label is `{found}`, but the value is `{wanted}`"));
            return None;
        }
        let constant = self.constant(&label, source);
        let integer = match constant {
            Some(Constant::Int(n)) => Some(n),
            _ => None,
        };
        let is_constant = constant.is_some();
        if let Some(constant) = constant {
            if let Some(first) = seen.get(&constant) {
                let diagnostic = Diagnostic::error(span, "this label stands here twice");
                self.report(diagnostic.label(*first, "the first one is here"));
                return None;
            }
            seen.insert(constant, span);
        }
        match (integer, family) {
            (Some(n), Family::Integer) => {
                if !fits(n, ty) {
                    let name = self.name(ty);
                    self.error(span, format!("the label `{n}` is out of the range of `{name}`"));
                    return None;
                }
                Some(Value::new(ExprKind::Word(integer_word(n, ty)), ty, span))
            }
            (Some(n), Family::Enum) => {
                let word = integer_word(n, known::INT);
                Some(Value::new(ExprKind::Word(word), ty, span))
            }
            (None, Family::Integer) if !is_constant => self.computed_label(label, ty),
            _ if self.implicit(label.ty(), label.literal, ty).is_none() => {
                let (found, wanted) = (self.name(label.ty()), self.name(ty));
                self.error(span, format!("the label is `{found}`, but the value is `{wanted}`"));
                None
            }
            _ => Some(Value { expr: self.coerce_value(label, ty), literal: None, is_place: false }),
        }
    }

    /// A label of integers that is computed when the switch runs.
    fn computed_label(&mut self, label: Value, ty: TypeId) -> Option<Value> {
        let label = match self.ty(label.ty()) {
            Type::Enum(_) => {
                let inner = self.coerce_value(label, known::INT);
                Value { expr: inner, literal: None, is_place: false }
            }
            _ => label,
        };
        let narrows = self.implicit(label.ty(), None, ty).is_some();
        let widens = self.implicit(ty, None, label.ty()).is_some();
        if !narrows && !widens {
            let (found, wanted) = (self.name(label.ty()), self.name(ty));
            self.error(
                label.span(),
                format!("the label is `{found}`, but the value is `{wanted}`"),
            );
            return None;
        }
        if narrows {
            let inner = self.coerce_value(label, ty);
            return Some(Value { expr: inner, literal: None, is_place: false });
        }
        Some(label)
    }

    fn constant(&self, label: &Value, source: &ast::Expr) -> Option<Constant> {
        match label.literal {
            Some(Literal::Int(n)) => return Some(Constant::Int(n)),
            Some(Literal::Double(x)) => return Some(double(x)),
            None => {}
        }
        match (&label.expr.kind, self.ty(label.ty())) {
            (&ExprKind::Word(word), Type::Enum(_)) => {
                return Some(Constant::Int(i128::from(word as u32 as i32)));
            }
            (&ExprKind::Word(word), Type::Float) => {
                return Some(double(f32::from_bits(word as u32).into()));
            }
            (ExprKind::Text(text), _) => return Some(Constant::Text(text.clone())),
            _ => {}
        }
        match fold(source)? {
            Folded::Int(n) => {
                // What wraps is computed as it is at run time.
                fits(n, label.ty()).then_some(Constant::Int(n))
            }
            Folded::Char(c) => Some(Constant::Int(u32::from(c).into())),
            Folded::Text(text) => Some(Constant::Text(text)),
        }
    }
}
