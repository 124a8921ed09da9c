//! Conversions: between numbers, to text, to and from `Object`, along the class hierarchy.

use super::builder::Reg;
use super::expr::Want;
use super::function::Lowering;
use crate::lang::hir::{Conversion, Expr, ExprKind};
use crate::vm::op::Op;
use crate::vm::types::{Type, TypeId, known, object_slot};

/// How a number type lies in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Number {
    /// Of a number type; `char`, `bool` and enums lie there like integers.
    pub(super) fn of(ty: &Type) -> Option<Number> {
        Some(match ty {
            Type::Byte => Number::I8,
            Type::Short => Number::I16,
            Type::Int | Type::Enum(_) => Number::I32,
            Type::Ubyte => Number::U8,
            Type::Ushort => Number::U16,
            Type::Uint | Type::Char | Type::Bool => Number::U32,
            Type::Long => Number::I64,
            Type::Ulong => Number::U64,
            Type::Float => Number::F32,
            Type::Double => Number::F64,
            _ => return None,
        })
    }

    /// Whether the word, zero-extended 32 bits, has to be sign-extended for a `long`.
    pub(super) fn is_signed_32(self) -> bool {
        matches!(self, Number::I8 | Number::I16 | Number::I32)
    }

    /// The integer that a word stands for.
    pub(super) fn value(self, word: u64) -> i128 {
        match self {
            Number::I8 | Number::I16 | Number::I32 => i128::from(word as i32),
            Number::I64 => i128::from(word as i64),
            _ => i128::from(word),
        }
    }

    /// The word of an integer, cut to the type's bits.
    pub(super) fn word(self, value: i128) -> u64 {
        match self {
            Number::I8 => u64::from(i32::from(value as i8) as u32),
            Number::I16 => u64::from(i32::from(value as i16) as u32),
            Number::U8 => u64::from(value as u8),
            Number::U16 => u64::from(value as u16),
            Number::I32 | Number::U32 => u64::from(value as u32),
            _ => value as u64,
        }
    }

    /// The word of the same number in another type.
    pub(super) fn convert(self, word: u64, to: Number) -> Option<u64> {
        let float = match self {
            Number::F32 => Some(f64::from(f32::from_bits(word as u32))),
            Number::F64 => Some(f64::from_bits(word)),
            _ => None,
        };
        Some(match (float, to) {
            (Some(float), Number::F64) => float.to_bits(),
            (Some(float), Number::F32) => (float as f32).to_bits().into(),
            // Casts of Rust truncate and saturate as the instructions do.
            (Some(float), Number::I8) => to.word((float as i8).into()),
            (Some(float), Number::I16) => to.word((float as i16).into()),
            (Some(float), Number::I32) => to.word((float as i32).into()),
            (Some(float), Number::U8) => to.word((float as u8).into()),
            (Some(float), Number::U16) => to.word((float as u16).into()),
            (Some(float), Number::U32) => to.word((float as u32).into()),
            (Some(float), Number::I64) => to.word((float as i64).into()),
            (Some(float), Number::U64) => to.word((float as u64).into()),
            (None, Number::F64) => (self.value(word) as f64).to_bits(),
            (None, Number::F32) => (self.value(word) as f32).to_bits().into(),
            (None, _) => to.word(self.value(word)),
        })
    }

    /// The instructions that convert, one after the other; none if the word is the same.
    fn steps(self, to: Number) -> (Option<Op>, Option<Op>) {
        use Number::{F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let one = |op| (Some(op), None);
        match (self, to) {
            (F32, F32) | (F64, F64) => (None, None),
            (F32, F64) => one(Op::FloatToDouble),
            (F64, F32) => one(Op::DoubleToFloat),
            (F32 | F64, _) => {
                let last = match to {
                    I8 => Op::DoubleToByte,
                    I16 => Op::DoubleToShort,
                    I32 => Op::DoubleToInt,
                    U8 => Op::DoubleToUbyte,
                    U16 => Op::DoubleToUshort,
                    U32 => Op::DoubleToUint,
                    I64 => Op::DoubleToLong,
                    _ => Op::DoubleToUlong,
                };
                match self {
                    F32 => (Some(Op::FloatToDouble), Some(last)),
                    _ => one(last),
                }
            }
            (I8 | I16 | I32, F32) => one(Op::IntToFloat),
            (I8 | I16 | I32, F64) => one(Op::IntToDouble),
            (U64, F32) => one(Op::UlongToFloat),
            (U64, F64) => one(Op::UlongToDouble),
            (_, F32) => one(Op::LongToFloat),
            (_, F64) => one(Op::LongToDouble),
            (I8, I8) | (U8, U8) => (None, None),
            (I8, I16) | (I16, I16) => (None, None),
            (U8, U16) | (U16, U16) => (None, None),
            // An unsigned byte is a `short` of the same word.
            (U8, I16) => (None, None),
            (_, I8) => one(Op::ToByte),
            (_, U8) => one(Op::ToUbyte),
            (_, I16) => one(Op::ToShort),
            (_, U16) => one(Op::ToUshort),
            (I64 | U64, I32 | U32) => one(Op::LongToInt),
            (_, I32 | U32) => (None, None),
            (I8 | I16 | I32, I64 | U64) => one(Op::IntToLong),
            (_, I64 | U64) => (None, None),
        }
    }
}

impl<'a> Lowering<'a> {
    /// The instructions between two number types; `None` if the word stays as it is.
    pub(super) fn number_conversion(&self, from: TypeId, to: TypeId) -> Option<(Op, Option<Op>)> {
        let (from, to) = (Number::of(self.ty(from))?, Number::of(self.ty(to))?);
        match from.steps(to) {
            (Some(first), second) => Some((first, second)),
            (None, _) => None,
        }
    }

    pub(super) fn convert(
        &mut self,
        expr: &'a Expr,
        conversion: Conversion,
        value: &'a Expr,
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        if self.is_same_word(conversion, value, expr.ty) {
            return self.eval(value, want);
        }
        match conversion {
            Conversion::Upcast => {
                // Only null is left: it takes the type that is asked for.
                let to = self.destination(mark, want);
                self.zero(expr.ty, to);
                to
            }
            Conversion::Number => {
                let (first, second) =
                    self.number_conversion(value.ty, expr.ty).expect("not the same word");
                let mut from = self.operand(value);
                if let Some(second) = second {
                    let between = self.destination(mark, Want::Any);
                    self.code.abc(first, between, from, 0);
                    from = between;
                    let to = self.destination(mark, want);
                    self.code.abc(second, to, from, 0);
                    return to;
                }
                let to = self.destination(mark, want);
                self.code.abc(first, to, from, 0);
                to
            }
            Conversion::ToChar => {
                let from = self.operand_as_long(value);
                let to = self.destination(mark, want);
                self.line(expr.span);
                self.code.abc(Op::LongToChar, to, from, 0);
                to
            }
            Conversion::ToString => self.text_of(expr, value, want),
            Conversion::Box | Conversion::Unbox | Conversion::Downcast => {
                let (op, ty) = match conversion {
                    Conversion::Box if matches!(self.ty(value.ty), Type::Enum(_)) => {
                        (Op::Box, known::INT)
                    }
                    Conversion::Box => (Op::Box, value.ty),
                    Conversion::Unbox => (Op::Unbox, expr.ty),
                    _ => (Op::Cast, expr.ty),
                };
                let ty = self.type16(ty);
                let from = self.operand(value);
                let to = self.destination(mark, want);
                self.line(expr.span);
                self.code.abc(op, to, from, ty);
                to
            }
        }
    }

    /// An integer as the `long` of its value.
    pub(super) fn operand_as_long(&mut self, value: &'a Expr) -> Reg {
        let mark = self.registers.mark();
        let number = Number::of(self.ty(value.ty)).expect("an integer");
        if let Some(word) = self.constant(value) {
            let to = self.registers.temp();
            self.load(number.value(word) as u64, to);
            return to;
        }
        let from = self.operand(value);
        if !number.is_signed_32() {
            return from;
        }
        let to = self.destination(mark, Want::Any);
        self.code.abc(Op::IntToLong, to, from, 0);
        to
    }

    /// The text of a value.
    fn text_of(&mut self, expr: &'a Expr, value: &'a Expr, want: Want) -> Reg {
        let mark = self.registers.mark();
        if let Some(text) = self.constant_text(expr) {
            let text = self.pool.string(&text);
            let to = self.destination(mark, want);
            self.code.ax(Op::Text, to, text);
            return to;
        }
        if let Some(class) = self.pool.class_of(value.ty)
            && !matches!(value.kind, ExprKind::Null)
        {
            // Called from here, not from a native function: the call may wait like any other.
            let method = self.pool.only_method(class, object_slot::TO_STRING);
            let window = self.window(want);
            self.eval(value, Want::Window(window));
            self.registers.cover(window);
            let (null, end) = (self.new_label(), self.new_label());
            self.line(expr.span);
            self.branch_on_null(window, true, null);
            match method {
                Some(function) => self.code.ax(Op::Call, window, function.0),
                None => self.code.abc(Op::CallVirtual, window, object_slot::TO_STRING, 0),
            }
            self.code.goto(end);
            self.code.bind(null);
            let text = self.pool.string("null");
            self.code.ax(Op::Text, window, text);
            self.code.bind(end);
            return self.take_result(mark, window, want);
        }
        let from = self.operand(value);
        let to = self.destination(mark, want);
        self.line(expr.span);
        if let Type::Func(_) = self.pool.types.get(value.ty) {
            // Null has no type at run time, but here it has another text than other nulls.
            let (null, end) = (self.new_label(), self.new_label());
            self.branch_on_null(from, true, null);
            self.code.abc(Op::RefText, to, from, 0);
            self.code.goto(end);
            self.code.bind(null);
            let text = self.pool.string("<null>");
            self.code.ax(Op::Text, to, text);
            self.code.bind(end);
        } else if self.pool.types.is_reference(value.ty) {
            self.code.abc(Op::RefText, to, from, 0);
        } else {
            let ty = self.type16(value.ty);
            self.code.abc(Op::WordText, to, from, ty);
        }
        to
    }
}
