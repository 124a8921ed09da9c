//! Conversions: which there are, how far they lead, and how they are written into the tree.

use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, Conversion, ExprKind};
use crate::lang::source::Span;
use crate::vm::types::{ClassId, InterfaceId, Type, TypeId, known};

use super::Checker;
use super::tables::ERROR;
use super::value::{Checked, Literal, Value, expr};

/// Distances, by which overloads are chosen.
mod distance {
    pub const FIT: u32 = 1;
    pub const ENUM_TO_INT: u32 = 1;
    /// Behind every widening, so that a number prefers a number.
    pub const INT_TO_ENUM: u32 = 5;
    pub const INT_TO_FLOATING: u32 = 10;
    pub const UPCAST: u32 = 20;
    pub const BOX: u32 = 40;
    pub const TO_STRING: u32 = 60;
}

/// An implicit conversion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Implicit {
    pub distance: u32,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    Same,
    /// A literal that becomes another constant.
    Constant(u64),
    Convert(Conversion),
    /// `null` as a string.
    EmptyText,
}

/// An integer type: whether it is signed, and its width in bits.
pub(super) fn integer(ty: TypeId) -> Option<(bool, u32)> {
    Some(match ty {
        known::BYTE => (true, 8),
        known::SHORT => (true, 16),
        known::INT => (true, 32),
        known::LONG => (true, 64),
        known::UBYTE => (false, 8),
        known::USHORT => (false, 16),
        known::UINT => (false, 32),
        known::ULONG => (false, 64),
        _ => return None,
    })
}

pub(super) fn is_floating(ty: TypeId) -> bool {
    matches!(ty, known::FLOAT | known::DOUBLE)
}

pub(super) fn is_number(ty: TypeId) -> bool {
    integer(ty).is_some() || is_floating(ty)
}

/// Whether an integer type holds a value.
pub(super) fn fits(n: i128, ty: TypeId) -> bool {
    let Some((signed, width)) = integer(ty) else { return false };
    let (low, high) = if signed {
        (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
    } else {
        (0, (1i128 << width) - 1)
    };
    (low..=high).contains(&n)
}

/// The canonical word of a value that fits into an integer type.
pub(super) fn integer_word(n: i128, ty: TypeId) -> u64 {
    match integer(ty) {
        Some((_, 64)) => n as u64,
        _ => u64::from(n as u32),
    }
}

/// The word of a literal as a value of a number type that holds it.
fn literal_word(literal: Literal, to: TypeId) -> Option<u64> {
    match (literal, to) {
        (Literal::Int(n), known::DOUBLE) => Some((n as f64).to_bits()),
        (Literal::Int(n), known::FLOAT) => Some(u64::from((n as f32).to_bits())),
        (Literal::Int(n), _) => fits(n, to).then(|| integer_word(n, to)),
        (Literal::Double(x), known::DOUBLE) => Some(x.to_bits()),
        (Literal::Double(x), known::FLOAT) => {
            (x as f32).is_finite().then(|| u64::from((x as f32).to_bits()))
        }
        (Literal::Double(_), _) => None,
    }
}

/// How many steps of widening lead from one integer type to another.
fn widening(from: TypeId, to: TypeId) -> Option<u32> {
    let ((from_signed, from_width), (to_signed, to_width)) = (integer(from)?, integer(to)?);
    let wider = from_width < to_width && (from_signed == to_signed || to_signed);
    wider.then(|| to_width.ilog2() - from_width.ilog2())
}

impl<'a> Checker<'a> {
    /// The implicit conversion between two types, if there is one.
    pub(super) fn implicit(
        &self,
        from: TypeId,
        literal: Option<Literal>,
        to: TypeId,
    ) -> Option<Implicit> {
        let convert =
            |distance, conversion| Some(Implicit { distance, how: How::Convert(conversion) });
        if from == to || from == ERROR || to == ERROR {
            return Some(Implicit { distance: 0, how: How::Same });
        }
        if from == known::VOID || to == known::VOID {
            return None;
        }
        if is_number(from) && is_number(to) {
            let distance = if let Some(steps) = widening(from, to) {
                Some(steps)
            } else if integer(from).is_some() && is_floating(to) {
                Some(distance::INT_TO_FLOATING)
            } else if from == known::FLOAT && to == known::DOUBLE {
                Some(1)
            } else {
                None
            };
            return match (distance, literal.and_then(|literal| literal_word(literal, to))) {
                (distance, Some(word)) => {
                    let distance = distance.unwrap_or(distance::FIT);
                    Some(Implicit { distance, how: How::Constant(word) })
                }
                (Some(distance), None) => convert(distance, Conversion::Number),
                (None, None) => None,
            };
        }
        match (self.ty(from), self.ty(to)) {
            (Type::Enum(_), Type::Int) => convert(distance::ENUM_TO_INT, Conversion::Number),
            (Type::Int, Type::Enum(_)) => convert(distance::INT_TO_ENUM, Conversion::Number),
            (Type::Null, Type::String) => {
                Some(Implicit { distance: distance::UPCAST, how: How::EmptyText })
            }
            (Type::Null, Type::Struct(_)) => None,
            (Type::Null, _) if self.types.is_reference(to) => {
                convert(distance::UPCAST, Conversion::Upcast)
            }
            (Type::Null, _) => None,
            (Type::Struct(_), _) => None,
            (_, Type::String) => convert(distance::TO_STRING, Conversion::ToString),
            (&Type::Class(class), &Type::Class(base)) => {
                let steps = self.steps_up(class, base)?;
                convert(distance::UPCAST * steps, Conversion::Upcast)
            }
            (&Type::Class(class), &Type::Interface(interface)) => {
                let steps = self.steps_to_interface(class, interface)?;
                convert(distance::UPCAST * steps, Conversion::Upcast)
            }
            (&Type::Class(class), Type::Object) => {
                convert(distance::UPCAST * self.depth(class), Conversion::Upcast)
            }
            (Type::Interface(_), Type::Object) => convert(distance::UPCAST, Conversion::Upcast),
            (Type::Bool | Type::Char | Type::String | Type::Enum(_), Type::Object) => {
                convert(distance::BOX, Conversion::Box)
            }
            (_, Type::Object) if is_number(from) => convert(distance::BOX, Conversion::Box),
            _ => None,
        }
    }

    /// How many classes lie on the way from a class up to one of its bases.
    fn steps_up(&self, class: ClassId, base: ClassId) -> Option<u32> {
        let mut steps = 0;
        let mut at = class;
        while at != base {
            at = self.types.class(at).base?;
            steps += 1;
        }
        Some(steps)
    }

    /// How far `Object` is above a class.
    fn depth(&self, class: ClassId) -> u32 {
        let mut depth = 1;
        let mut at = class;
        while let Some(base) = self.types.class(at).base {
            at = base;
            depth += 1;
        }
        depth
    }

    /// How far an interface is above a class: one step from the class that names it.
    fn steps_to_interface(&self, class: ClassId, interface: InterfaceId) -> Option<u32> {
        let has = |class: ClassId| self.types.class(class).interfaces.contains(&interface);
        if !has(class) {
            return None;
        }
        let mut steps = 1;
        let mut at = class;
        while let Some(base) = self.types.class(at).base
            && has(base)
        {
            at = base;
            steps += 1;
        }
        Some(steps)
    }

    /// Writes a conversion into the tree.
    pub(super) fn apply(&self, value: Value, how: How, to: TypeId) -> hir::Expr {
        let span = value.span();
        match how {
            How::Same => self.owned(value),
            How::Constant(word) => expr(ExprKind::Word(word), to, span),
            How::EmptyText => expr(ExprKind::Text(String::new()), to, span),
            How::Convert(Conversion::Upcast) if value.is_null() => expr(ExprKind::Null, to, span),
            How::Convert(conversion) => {
                let value = Box::new(value.expr);
                expr(ExprKind::Convert { conversion, value }, to, span)
            }
        }
    }

    /// The expression as a value of a type; reports if it cannot be one.
    pub(super) fn coerce(&mut self, checked: Checked<'a>, to: TypeId) -> hir::Expr {
        let span = checked.span();
        match checked {
            Checked::Value(value) => self.coerce_value(value, to),
            Checked::Functions(functions) => self.function_value(functions, to),
            _ if to == ERROR => {
                self.discard(checked);
                Value::error(span).expr
            }
            Checked::Braces(entries, span) => self.braces(entries, to, span),
            Checked::Elements(elements, span) => self.elements(elements, to, span),
        }
    }

    pub(super) fn coerce_value(&mut self, value: Value, to: TypeId) -> hir::Expr {
        if value.is_error() || to == ERROR {
            return Value::error(value.span()).expr;
        }
        match self.implicit(value.ty(), value.literal, to) {
            Some(conversion) => self.apply(value, conversion.how, to),
            None => {
                self.mismatch(&value, to);
                Value::error(value.span()).expr
            }
        }
    }

    /// Checks what is left of an expression whose target is wrong, for the errors in it.
    pub(super) fn discard(&mut self, checked: Checked<'a>) {
        match checked {
            Checked::Value(_) | Checked::Functions(_) => {}
            Checked::Braces(entries, _) => {
                for entry in entries {
                    let value = self.check_expr(&entry.value);
                    self.discard(value);
                }
            }
            Checked::Elements(elements, _) => {
                for element in elements {
                    let value = self.check_expr(element);
                    self.discard(value);
                }
            }
        }
    }

    /// Reports that a value is of a wrong type.
    fn mismatch(&mut self, value: &Value, to: TypeId) {
        let from = value.ty();
        let span = value.span();
        if from == known::VOID {
            self.error(span, "this call returns no value");
            return;
        }
        let (found, wanted) = (self.name(from), self.name(to));
        if let Some(Literal::Int(n)) = value.literal
            && integer(to).is_some()
        {
            self.error(span, format!("`{n}` does not fit into `{wanted}`"));
            return;
        }
        let diagnostic = Diagnostic::error(span, format!("expected `{wanted}`, found `{found}`"));
        let diagnostic = match self.hint_for(from, to) {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        };
        self.report(diagnostic);
    }

    /// How a value of one type could become one of another.
    fn hint_for(&self, from: TypeId, to: TypeId) -> Option<String> {
        let wanted = self.name(to);
        if to == known::BOOL && (is_number(from)) {
            return Some("compare it: `… != 0`".into());
        }
        if from == known::STRING && (is_number(to) || to == known::BOOL || to == known::CHAR) {
            let mut method = wanted.clone();
            if let Some(first) = method.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            return (!crate::vm::library::decl::lookup("string", &format!("to{method}"))
                .is_empty())
            .then(|| format!("parse it: `….to{method}()`"));
        }
        if let (Type::Struct(_), Type::String) = (self.ty(from), self.ty(to)) {
            return Some("a struct has no text: name its fields".into());
        }
        if let (&Type::Class(class), &Type::Interface(_)) = (self.ty(from), self.ty(to)) {
            let class = &self.types.class(class).name;
            return Some(format!("`{class}` does not implement `{wanted}`"));
        }
        self.explicit(from, to).is_some().then(|| format!("convert it: `… as {wanted}`"))
    }

    /// The conversions that `as` makes between two types that do not convert by themselves, in
    /// order, each with its result.
    pub(super) fn explicit(&self, from: TypeId, to: TypeId) -> Option<Vec<(Conversion, TypeId)>> {
        let one = |conversion| Some(vec![(conversion, to)]);
        if is_number(from) && is_number(to) {
            return one(Conversion::Number);
        }
        let (from_int, to_int) = (integer(from).is_some(), integer(to).is_some());
        match (self.ty(from), self.ty(to)) {
            (Type::Char | Type::Enum(_), _) if to_int => one(Conversion::Number),
            (_, Type::Char) if from_int => one(Conversion::ToChar),
            (_, Type::Enum(_)) if from_int => one(Conversion::Number),
            (Type::Object, Type::Enum(_)) => {
                Some(vec![(Conversion::Unbox, known::INT), (Conversion::Number, to)])
            }
            (Type::Object, Type::Bool | Type::Char | Type::String) => one(Conversion::Unbox),
            (Type::Object, _) if is_number(to) => one(Conversion::Unbox),
            (Type::Object | Type::Interface(_), Type::Class(_) | Type::Interface(_)) => {
                one(Conversion::Downcast)
            }
            (&Type::Class(from), &Type::Class(to)) if self.types.derives(to, from) => {
                one(Conversion::Downcast)
            }
            (Type::Class(_), Type::Interface(_)) => one(Conversion::Downcast),
            _ => None,
        }
    }

    /// `value as T`.
    pub(super) fn cast(&mut self, value: Value, to: TypeId, span: Span) -> Value {
        let from = value.ty();
        if value.is_error() || to == ERROR {
            return Value::error(span);
        }
        let is_array = |ty: TypeId| matches!(self.ty(ty), Type::Array(_));
        if from == known::VOID {
            self.error(value.span(), "this call returns no value");
            return Value::error(span);
        }
        let unboxes = from == known::OBJECT && to == known::STRING;
        if !(unboxes || is_array(from) || is_array(to) && !value.is_null())
            && let Some(conversion) = self.implicit(from, value.literal, to)
        {
            let is_place = value.is_place && conversion.how == How::Same;
            let mut inner =
                if is_place { value.expr } else { self.apply(value, conversion.how, to) };
            inner.span = span;
            return Value { expr: inner, literal: None, is_place };
        }
        let Some(steps) = self.explicit(from, to) else {
            let (found, wanted) = (self.name(from), self.name(to));
            let diagnostic =
                Diagnostic::error(span, format!("`{found}` cannot be converted to `{wanted}`"));
            let diagnostic = match self.hint_for(from, to) {
                Some(hint) => diagnostic.hint(hint),
                None => diagnostic,
            };
            self.report(diagnostic);
            return Value::error(span);
        };
        let mut inner = value.expr;
        for (conversion, ty) in steps {
            inner = expr(ExprKind::Convert { conversion, value: Box::new(inner) }, ty, span);
        }
        Value { expr: inner, literal: None, is_place: false }
    }
}
