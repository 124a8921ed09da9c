//! Binary operators.

use crate::lang::ast::{self, BinaryOp};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{Arithmetic, Compare, Conversion, ExprKind};
use crate::lang::source::Span;
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::convert::{fits, integer, is_floating, is_number};
use super::tables::ERROR;
use super::value::{Checked, Literal, Value, expr};

pub(super) fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
    }
}

fn arithmetic(op: BinaryOp) -> Option<Arithmetic> {
    Some(match op {
        BinaryOp::Add => Arithmetic::Add,
        BinaryOp::Sub => Arithmetic::Sub,
        BinaryOp::Mul => Arithmetic::Mul,
        BinaryOp::Div => Arithmetic::Div,
        BinaryOp::Mod => Arithmetic::Mod,
        _ => return None,
    })
}

fn comparison(op: BinaryOp) -> Option<Compare> {
    Some(match op {
        BinaryOp::Eq => Compare::Eq,
        BinaryOp::Ne => Compare::Ne,
        BinaryOp::Lt => Compare::Lt,
        BinaryOp::Le => Compare::Le,
        BinaryOp::Gt => Compare::Gt,
        BinaryOp::Ge => Compare::Ge,
        _ => return None,
    })
}

impl<'a> Checker<'a> {
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        op_span: Span,
        span: Span,
    ) -> Value {
        if let BinaryOp::And | BinaryOp::Or = op {
            let what =
                if op == BinaryOp::And { "an operand of `&&`" } else { "an operand of `||`" };
            let left = Box::new(self.condition(left, what));
            let right = Box::new(self.condition(right, what));
            let kind = match op {
                BinaryOp::And => ExprKind::And(left, right),
                _ => ExprKind::Or(left, right),
            };
            return Value::new(kind, known::BOOL, span);
        }
        let Some(compare) = comparison(op) else {
            let (left, right) = (self.value(left), self.value(right));
            return self.arithmetic(op, left, right, op_span, span);
        };
        // The name of a function takes its type from the other side.
        let (left, right) = match (self.check_expr(left), self.check_expr(right)) {
            (Checked::Functions(functions), Checked::Value(value))
                if matches!(self.ty(value.ty()), Type::Func(_)) =>
            {
                (self.typed_function(functions, value.ty()), value)
            }
            (Checked::Value(value), Checked::Functions(functions))
                if matches!(self.ty(value.ty()), Type::Func(_)) =>
            {
                let function = self.typed_function(functions, value.ty());
                (value, function)
            }
            (left, right) => (self.operand(left), self.operand(right)),
        };
        self.compare(compare, op, left, right, op_span, span)
    }

    fn typed_function(&mut self, functions: super::value::Functions, ty: TypeId) -> Value {
        let function = self.function_value(functions, ty);
        Value { expr: function, literal: None, is_place: false }
    }

    /// What a comparison compares, as a value.
    fn operand(&mut self, checked: Checked<'a>) -> Value {
        match checked {
            Checked::Value(value) if value.ty() == known::VOID => {
                self.error(value.span(), "this call returns no value");
                Value::error(value.span())
            }
            Checked::Value(value) => value,
            Checked::Functions(functions) => {
                let message = format!("`{}` is a function", functions.name);
                self.error(functions.span, message);
                Value::error(functions.span)
            }
            Checked::Elements(elements, span) => self.untyped_elements(elements, span),
            Checked::Braces(entries, span) => {
                self.error(span, "nothing here says what `{…}` is");
                self.discard(Checked::Braces(entries, span));
                Value::error(span)
            }
        }
    }

    /// `+ - * / %` on values, also for compound assignments.
    pub(super) fn arithmetic(
        &mut self,
        op: BinaryOp,
        left: Value,
        right: Value,
        op_span: Span,
        span: Span,
    ) -> Value {
        if left.is_error() || right.is_error() {
            return Value::error(span);
        }
        let Some(kind) = arithmetic(op) else { return Value::error(span) };
        if op == BinaryOp::Add {
            if left.is_null() || right.is_null() {
                self.error(op_span, "`null` cannot be an operand of `+`");
                return Value::error(span);
            }
            if left.ty() == known::STRING || right.ty() == known::STRING {
                return self.concat(left, right, span);
            }
        }
        let Some(ty) = self.common_number(op, &left, &right, op_span) else {
            return Value::error(span);
        };
        let left = Box::new(self.coerce_value(left, ty));
        let right = Box::new(self.coerce_value(right, ty));
        Value::new(ExprKind::Arithmetic { op: kind, left, right }, ty, span)
    }

    fn concat(&mut self, left: Value, right: Value, span: Span) -> Value {
        let mut pieces = Vec::new();
        for side in [left, right] {
            let piece = self.coerce_value(side, known::STRING);
            match piece.kind {
                _ if piece.ty == ERROR => return Value::error(span),
                ExprKind::Concat(mut inner) => pieces.append(&mut inner),
                _ => pieces.push(piece),
            }
        }
        Value::new(ExprKind::Concat(pieces), known::STRING, span)
    }

    /// The type in which two numbers are computed or compared; reports if there is none.
    fn common_number(
        &mut self,
        op: BinaryOp,
        left: &Value,
        right: &Value,
        op_span: Span,
    ) -> Option<TypeId> {
        let (Some(a), Some(b)) = (self.promoted(left, right), self.promoted(right, left)) else {
            self.not_for_operator(op, left, right, op_span);
            return None;
        };
        if a == known::DOUBLE || b == known::DOUBLE {
            return Some(known::DOUBLE);
        }
        if is_floating(a) || is_floating(b) {
            return Some(known::FLOAT);
        }
        match (a, b) {
            _ if a == b => Some(a),
            (known::ULONG, known::UINT) | (known::UINT, known::ULONG) => Some(known::ULONG),
            (known::ULONG, _) | (_, known::ULONG) => {
                let (left, right) = (self.name(left.ty()), self.name(right.ty()));
                let message = format!("no type holds both `{left}` and `{right}`");
                self.report(
                    Diagnostic::error(op_span, message).hint("convert one side: `… as long`"),
                );
                None
            }
            _ => Some(known::LONG),
        }
    }

    /// The type of an operand after promotion, given the other one.
    fn promoted(&self, value: &Value, other: &Value) -> Option<TypeId> {
        let ty = value.ty();
        if let Some(Literal::Int(n)) = value.literal
            && matches!(other.ty(), known::UINT | known::LONG | known::ULONG)
            && fits(n, other.ty())
        {
            return Some(other.ty());
        }
        match integer(ty) {
            Some((_, 8 | 16)) => Some(known::INT),
            Some(_) => Some(ty),
            None if is_floating(ty) => Some(ty),
            None => matches!(self.ty(ty), Type::Enum(_)).then_some(known::INT),
        }
    }

    fn not_for_operator(&mut self, op: BinaryOp, left: &Value, right: &Value, op_span: Span) {
        let symbol = symbol(op);
        let (a, b) = (self.name(left.ty()), self.name(right.ty()));
        let message = format!("`{symbol}` is not possible between `{a}` and `{b}`");
        let diagnostic = Diagnostic::error(op_span, message);
        let is_struct = |ty| matches!(self.ty(ty), Type::Struct(_));
        let hint = if is_struct(left.ty()) && is_struct(right.ty()) {
            Some("compare the fields of the structs".into())
        } else if left.ty() == known::CHAR && is_number(right.ty())
            || is_number(left.ty()) && right.ty() == known::CHAR
        {
            Some("convert the `char`: `… as int`".into())
        } else if left.ty() == known::STRING && is_number(right.ty())
            || is_number(left.ty()) && right.ty() == known::STRING
        {
            Some("parse the string, with `….toInt()`, or convert the number: `… as string`".into())
        } else if left.ty() == known::OBJECT || right.ty() == known::OBJECT {
            let other = if left.ty() == known::OBJECT { &b } else { &a };
            let other_is_value = other != "Object" && other != "null";
            other_is_value.then(|| format!("take the value out of the object: `… as {other}`"))
        } else {
            None
        };
        self.report(match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    fn compare(
        &mut self,
        compare: Compare,
        op: BinaryOp,
        left: Value,
        right: Value,
        op_span: Span,
        span: Span,
    ) -> Value {
        if left.is_error() || right.is_error() {
            return Value::error(span);
        }
        let equality = matches!(compare, Compare::Eq | Compare::Ne);
        let (a, b) = (left.ty(), right.ty());
        let target = match (self.ty(a), self.ty(b)) {
            (Type::Null, Type::Null) if equality => {
                let result = u64::from(compare == Compare::Eq);
                return Value::new(ExprKind::Word(result), known::BOOL, span);
            }
            (Type::String | Type::Null, Type::String) | (Type::String, Type::Null)
                if equality || !left.is_null() && !right.is_null() =>
            {
                Some(known::STRING)
            }
            (Type::Char, Type::Char) => Some(known::CHAR),
            (Type::Bool, Type::Bool) if equality => Some(known::BOOL),
            (Type::Enum(one), Type::Enum(other)) if one == other => Some(known::INT),
            (Type::Enum(_), Type::Enum(_)) => None,
            _ if self.promoted(&left, &right).is_some()
                && self.promoted(&right, &left).is_some() =>
            {
                match self.common_number(op, &left, &right, op_span) {
                    Some(ty) => Some(ty),
                    None => return Value::error(span),
                }
            }
            _ if equality => self.common_reference(a, b),
            _ => None,
        };
        let Some(target) = target else {
            self.not_for_operator(op, &left, &right, op_span);
            return Value::error(span);
        };
        let left = Box::new(self.comparable(left, target));
        let right = Box::new(self.comparable(right, target));
        Value::new(ExprKind::Compare { op: compare, left, right }, known::BOOL, span)
    }

    /// The type in which two references are compared by identity.
    fn common_reference(&self, a: TypeId, b: TypeId) -> Option<TypeId> {
        let is_reference = |ty| {
            self.types.is_reference(ty) && !matches!(self.ty(ty), Type::String | Type::Struct(_))
        };
        if !is_reference(a) || !is_reference(b) {
            return None;
        }
        if a == b || b == known::NULL {
            return Some(a);
        }
        if a == known::NULL {
            return Some(b);
        }
        let is_object =
            |ty| matches!(self.ty(ty), Type::Class(_) | Type::Interface(_) | Type::Object);
        if !is_object(a) || !is_object(b) {
            return None;
        }
        if self.implicit(a, None, b).is_some() {
            return Some(b);
        }
        if self.implicit(b, None, a).is_some() {
            return Some(a);
        }
        // An object of a class below may implement the interface.
        let has_interface =
            matches!(self.ty(a), Type::Interface(_)) || matches!(self.ty(b), Type::Interface(_));
        has_interface.then_some(known::OBJECT)
    }

    fn comparable(&mut self, value: Value, target: TypeId) -> crate::lang::hir::Expr {
        if value.ty() == target {
            return value.expr;
        }
        if target == known::OBJECT && !value.is_null() {
            let span = value.span();
            let value = Box::new(value.expr);
            let kind = ExprKind::Convert { conversion: Conversion::Upcast, value };
            return expr(kind, target, span);
        }
        self.coerce_value(value, target)
    }
}
