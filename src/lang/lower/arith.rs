//! Arithmetic: the instruction for an operation and a type, with the constant in it where it fits.

use super::builder::Reg;
use super::convert::Number;
use super::expr::Want;
use super::function::Lowering;
use crate::lang::hir::{Arithmetic, Expr};
use crate::vm::op::Op;

impl<'a> Lowering<'a> {
    /// Whether the left and the right operand of an operation can be a constant in the instruction.
    pub(super) fn immediates(&self, op: Arithmetic, left: &Expr, right: &Expr) -> (bool, bool) {
        let fits = |expr: &Expr| self.small(expr);
        match op {
            Arithmetic::Add | Arithmetic::Mul => (fits(left).is_some(), fits(right).is_some()),
            Arithmetic::Sub => (false, fits(right).is_some_and(|k| k != i16::MIN)),
            Arithmetic::Div | Arithmetic::Mod => {
                let signed = Number::of(self.ty(right.ty))
                    .is_some_and(|number| !matches!(number, Number::U32 | Number::U64));
                (false, signed && fits(right).is_some_and(|k| k != 0))
            }
        }
    }

    pub(super) fn arithmetic(
        &mut self,
        expr: &'a Expr,
        op: Arithmetic,
        left: &'a Expr,
        right: &'a Expr,
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        let number = Number::of(self.ty(expr.ty)).expect("arithmetic is for numbers");
        let (left_fits, right_fits) = self.immediates(op, left, right);
        if left_fits || right_fits {
            let (value, constant) = if right_fits { (left, right) } else { (right, left) };
            let k = self.small(constant).expect("it fits");
            let k = if op == Arithmetic::Sub { -k } else { k };
            let value = self.operand(value);
            let to = self.destination(mark, want);
            self.line(expr.span);
            self.code.abc(with_constant(op, number), to, value, k as u16);
            return to;
        }
        let left = self.operand_before(left, &[right]);
        let right = self.operand(right);
        let to = self.destination(mark, want);
        self.line(expr.span);
        self.code.abc(with_registers(op, number), to, left, right);
        to
    }

    pub(super) fn negate(&mut self, expr: &'a Expr, value: &'a Expr, want: Want) -> Reg {
        let mark = self.registers.mark();
        let op = match Number::of(self.ty(expr.ty)).expect("arithmetic is for numbers") {
            Number::F32 => Op::NegFloat,
            Number::F64 => Op::NegDouble,
            Number::I64 | Number::U64 => Op::NegLong,
            _ => Op::NegInt,
        };
        let value = self.operand(value);
        let to = self.destination(mark, want);
        self.code.abc(op, to, value, 0);
        to
    }
}

fn is_long(number: Number) -> bool {
    matches!(number, Number::I64 | Number::U64)
}

/// The operation with a constant; the difference is a sum with the negated one.
fn with_constant(op: Arithmetic, number: Number) -> Op {
    match (op, is_long(number)) {
        (Arithmetic::Add | Arithmetic::Sub, false) => Op::AddIntK,
        (Arithmetic::Add | Arithmetic::Sub, true) => Op::AddLongK,
        (Arithmetic::Mul, false) => Op::MulIntK,
        (Arithmetic::Mul, true) => Op::MulLongK,
        (Arithmetic::Div, false) => Op::DivIntK,
        (Arithmetic::Div, true) => Op::DivLongK,
        (Arithmetic::Mod, false) => Op::ModIntK,
        (Arithmetic::Mod, true) => Op::ModLongK,
    }
}

fn with_registers(op: Arithmetic, number: Number) -> Op {
    let ops = match number {
        Number::F32 => [Op::AddFloat, Op::SubFloat, Op::MulFloat, Op::DivFloat, Op::ModFloat],
        Number::F64 => [Op::AddDouble, Op::SubDouble, Op::MulDouble, Op::DivDouble, Op::ModDouble],
        Number::I64 => [Op::AddLong, Op::SubLong, Op::MulLong, Op::DivLong, Op::ModLong],
        Number::U64 => [Op::AddLong, Op::SubLong, Op::MulLong, Op::DivUlong, Op::ModUlong],
        Number::U32 => [Op::AddInt, Op::SubInt, Op::MulInt, Op::DivUint, Op::ModUint],
        _ => [Op::AddInt, Op::SubInt, Op::MulInt, Op::DivInt, Op::ModInt],
    };
    ops[match op {
        Arithmetic::Add => 0,
        Arithmetic::Sub => 1,
        Arithmetic::Mul => 2,
        Arithmetic::Div => 3,
        Arithmetic::Mod => 4,
    }]
}
