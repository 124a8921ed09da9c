//! Assignments, plain and compound.

use crate::lang::ast::{self, BinaryOp, ExprKind as Ast};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, ExprKind, Place, StmtKind};
use crate::lang::source::Span;
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::member::Entity;
use super::tables::ERROR;
use super::value::{Checked, Value};

impl<'a> Checker<'a> {
    pub(super) fn assign(
        &mut self,
        target: &'a ast::Expr,
        op: Option<BinaryOp>,
        value: &'a ast::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let found = self.place(target);
        let ty = found.as_ref().map_or(ERROR, |(_, ty)| *ty);
        let value = match op {
            None => self.expr_as(value, ty),
            Some(op) => {
                let old = Value::new(ExprKind::Old, ty, target.span);
                let right = self.value(value);
                let mut result = self.arithmetic(op, old, right, span, span);
                // A literal's conversion would be checked; here any result is converted.
                result.literal = None;
                self.compound_result(result, ty, op, span)
            }
        };
        let (place, _) = found?;
        Some(StmtKind::Assign { place, value })
    }

    /// The result of the operation as a value of the place.
    fn compound_result(
        &mut self,
        result: Value,
        to: TypeId,
        op: BinaryOp,
        span: Span,
    ) -> hir::Expr {
        if result.is_error() || to == ERROR {
            return Value::error(span).expr;
        }
        if self.implicit(result.ty(), None, to).is_none()
            && self.explicit(result.ty(), to).is_none()
        {
            let (found, wanted) = (self.name(result.ty()), self.name(to));
            let symbol = super::operators::symbol(op);
            let message = format!("`{symbol}=` gives `{found}`, which cannot become `{wanted}`");
            self.error(span, message);
            return Value::error(span).expr;
        }
        self.cast(result, to, span).expr
    }

    /// What an expression names as the target of an assignment, and its type; reports if it is no
    /// place.
    fn place(&mut self, target: &'a ast::Expr) -> Option<(Place, TypeId)> {
        match &target.kind {
            Ast::Name(name) => self.named_place(target, name),
            Ast::Member { object, name } => match self.entity(object) {
                Entity::Expr(checked) => {
                    let value = self.receiver(checked)?;
                    self.field_place(value, name, target.span)
                }
                entity => {
                    let entity = self.member_of(entity, name, target.span);
                    self.not_assignable(&entity, target.span);
                    None
                }
            },
            Ast::Index { object, index } => {
                let element = self.index(object, index, target.span);
                let ty = element.ty();
                let ExprKind::Index { base, index } = element.expr.kind else { return None };
                if base.ty == known::STRING {
                    self.report(
                        Diagnostic::error(target.span, "the bytes of a string cannot be changed")
                            .hint("build a new string"),
                    );
                    return None;
                }
                Some((Place::Index { base: *base, index: *index }, ty))
            }
            Ast::Paren(inner) => self.place(inner),
            // Reported by the parser.
            _ => {
                let value = self.check_expr(target);
                self.discard(value);
                None
            }
        }
    }

    fn named_place(
        &mut self,
        target: &'a ast::Expr,
        name: &'a ast::Name,
    ) -> Option<(Place, TypeId)> {
        if let Some(binding) = self.body.find(&name.text) {
            if binding.is_const {
                self.error(name.span, format!("`{}` is `const`", name.text));
                return None;
            }
            return Some((Place::Local(hir::LocalId(binding.index)), binding.ty));
        }
        match self.entity(target) {
            Entity::Expr(Checked::Value(value)) => {
                let ty = value.ty();
                match value.expr.kind {
                    ExprKind::Field { object, field } => {
                        Some((Place::Field { object: *object, field }, ty))
                    }
                    _ => None,
                }
            }
            entity => {
                self.not_assignable(&entity, target.span);
                None
            }
        }
    }

    fn field_place(
        &mut self,
        value: Value,
        name: &'a ast::Name,
        span: Span,
    ) -> Option<(Place, TypeId)> {
        let ty = value.ty();
        if let Some((field, field_type)) = self.field_of(ty, name) {
            self.check_in_place(&value.expr)?;
            return Some((Place::Field { object: value.expr, field }, field_type));
        }
        if self.methods_of(ty, &name.text).is_empty() {
            self.no_member(ty, name);
        } else {
            self.error(span, format!("`{}` is a method and cannot be assigned to", name.text));
        }
        None
    }

    /// Whether a field of this is a field of something that stays; reports if it is one of a copy.
    fn check_in_place(&mut self, object: &hir::Expr) -> Option<()> {
        let mut object = object;
        loop {
            if !matches!(self.ty(object.ty), Type::Struct(_)) {
                return Some(());
            }
            match &object.kind {
                ExprKind::Local(_) => return Some(()),
                ExprKind::Field { object: outer, .. } => object = outer,
                ExprKind::Index { base, .. } => {
                    if let Type::Array(_) = self.ty(base.ty) {
                        return Some(());
                    }
                    let container = self.name(base.ty);
                    let message = format!("an element of `{container}` is a copy");
                    let hint = "change a variable and store it back as a whole";
                    self.report(Diagnostic::error(object.span, message).hint(hint));
                    return None;
                }
                _ => {
                    let message = "this struct is a copy: a change of it would be lost";
                    self.report(
                        Diagnostic::error(object.span, message)
                            .hint("put it into a variable first"),
                    );
                    return None;
                }
            }
        }
    }

    fn not_assignable(&mut self, entity: &Entity<'a>, span: Span) {
        match entity {
            Entity::Expr(Checked::Functions(functions)) => {
                let message =
                    format!("`{}` is a function and cannot be assigned to", functions.name);
                self.error(span, message);
            }
            Entity::Expr(Checked::Value(value)) if value.is_error() => {}
            Entity::Expr(_) => self.error(span, "this cannot be assigned to"),
            other => self.not_a_value(other, span),
        }
    }
}
