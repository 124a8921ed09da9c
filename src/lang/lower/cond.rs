//! Comparisons and conditions.
//!
//! A condition is lowered into jumps: [`branch`](Lowering::branch) goes to a label if the condition
//! has a certain outcome, else on to the next instruction. `&&` and `||` are only ways to go. The
//! same code, with the label behind it, makes the back-edge of a loop.

use super::builder::{Label, Reg, back_edge, inverse};
use super::convert::Number;
use super::expr::Want;
use super::function::Lowering;
use crate::lang::hir::{Compare, Expr, ExprKind};
use crate::vm::op::{Code, Op};
use crate::vm::types::{Type, TypeId, known};

/// A label, and on which side of the jump it lies.
#[derive(Clone, Copy, Debug)]
struct Target {
    label: Label,
    back: bool,
}

/// Which instructions compare two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Int,
    /// `uint`, `char` and all that is zero-extended.
    Unsigned,
    Long,
    Ulong,
    Float,
    Double,
    Text,
    Func,
    Reference,
}

impl Family {
    /// The instruction that makes a bool, and whether its operands change places.
    fn value(self, op: Compare) -> (Op, bool) {
        let turned = matches!(op, Compare::Gt | Compare::Ge);
        let [eq, ne, lt, le] = match self {
            Family::Int => [Op::Eq, Op::Ne, Op::LtInt, Op::LeInt],
            Family::Long => [Op::Eq, Op::Ne, Op::LtLong, Op::LeLong],
            Family::Unsigned | Family::Ulong => [Op::Eq, Op::Ne, Op::LtUlong, Op::LeUlong],
            Family::Float => [Op::EqFloat, Op::NeFloat, Op::LtFloat, Op::LeFloat],
            Family::Double => [Op::EqDouble, Op::NeDouble, Op::LtDouble, Op::LeDouble],
            Family::Text => [Op::EqText, Op::NeText, Op::LtText, Op::LeText],
            // References and functions have no order.
            Family::Func => [Op::EqFunc, Op::NeFunc, Op::EqFunc, Op::NeFunc],
            Family::Reference => [Op::EqRef, Op::NeRef, Op::EqRef, Op::NeRef],
        };
        let op = match op {
            Compare::Eq => eq,
            Compare::Ne => ne,
            Compare::Lt | Compare::Gt => lt,
            Compare::Le | Compare::Ge => le,
        };
        (op, turned)
    }

    /// The jump, with operands in the same order as for [`value`](Family::value).
    fn jump(self, op: Compare) -> Option<Op> {
        let [eq, ne, lt, le] = match self {
            Family::Int => [Op::JumpEq, Op::JumpNe, Op::JumpLtInt, Op::JumpLeInt],
            Family::Long => [Op::JumpEq, Op::JumpNe, Op::JumpLtLong, Op::JumpLeLong],
            Family::Unsigned | Family::Ulong => {
                [Op::JumpEq, Op::JumpNe, Op::JumpLtUlong, Op::JumpLeUlong]
            }
            Family::Double => {
                [Op::JumpEqDouble, Op::JumpNeDouble, Op::JumpLtDouble, Op::JumpLeDouble]
            }
            Family::Reference => [Op::JumpEqRef, Op::JumpNeRef, Op::JumpEqRef, Op::JumpNeRef],
            Family::Float | Family::Text | Family::Func => return None,
        };
        Some(match op {
            Compare::Eq => eq,
            Compare::Ne => ne,
            Compare::Lt | Compare::Gt => lt,
            Compare::Le | Compare::Ge => le,
        })
    }

    /// The jump that compares a register with a constant.
    fn jump_constant(self, op: Compare, k: i16) -> Option<Op> {
        let equality = matches!(op, Compare::Eq | Compare::Ne);
        let ints = match self {
            Family::Int => true,
            // Zero-extended words are not negative as `long`; in equality with a constant that is
            // not negative, 32 bits say it all.
            Family::Unsigned if k >= 0 => equality,
            Family::Long => false,
            Family::Ulong if equality => false,
            _ => return None,
        };
        Some(match (op, ints) {
            (Compare::Eq, true) => Op::JumpEqIntK,
            (Compare::Ne, true) => Op::JumpNeIntK,
            (Compare::Lt, true) => Op::JumpLtIntK,
            (Compare::Le, true) => Op::JumpLeIntK,
            (Compare::Gt, true) => Op::JumpGtIntK,
            (Compare::Ge, true) => Op::JumpGeIntK,
            (Compare::Eq, false) => Op::JumpEqLongK,
            (Compare::Ne, false) => Op::JumpNeLongK,
            (Compare::Lt, false) => Op::JumpLtLongK,
            (Compare::Le, false) => Op::JumpLeLongK,
            (Compare::Gt, false) => Op::JumpGtLongK,
            (Compare::Ge, false) => Op::JumpGeLongK,
        })
    }
}

/// The comparison with its sides changed.
fn turned(op: Compare) -> Compare {
    match op {
        Compare::Lt => Compare::Gt,
        Compare::Le => Compare::Ge,
        Compare::Gt => Compare::Lt,
        Compare::Ge => Compare::Le,
        equality => equality,
    }
}

fn is_null(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Null => true,
        ExprKind::Convert { value, .. } => is_null(value),
        _ => false,
    }
}

impl<'a> Lowering<'a> {
    fn family_of(&self, ty: TypeId) -> Family {
        match Number::of(self.ty(ty)) {
            Some(Number::F32) => Family::Float,
            Some(Number::F64) => Family::Double,
            Some(Number::I64) => Family::Long,
            Some(Number::U64) => Family::Ulong,
            Some(Number::U8 | Number::U16 | Number::U32) => Family::Unsigned,
            Some(_) => Family::Int,
            None => match self.ty(ty) {
                Type::String => Family::Text,
                Type::Func(_) => Family::Func,
                _ => Family::Reference,
            },
        }
    }

    fn family(&self, left: &Expr, right: &Expr) -> Family {
        self.family_of(if is_null(left) { right.ty } else { left.ty })
    }

    /// Whether an operand can be a constant in the jump of a comparison.
    pub(super) fn compares_with(&self, op: Compare, operand: &Expr) -> bool {
        let family = self.family_of(operand.ty);
        self.small(operand).is_some_and(|k| family.jump_constant(op, k).is_some())
    }

    /// An operand of a comparison; null is of the other side's type.
    fn compared(&mut self, operand: &'a Expr, other: &'a Expr) -> Reg {
        if !is_null(operand) {
            return self.operand_before(operand, &[other]);
        }
        let to = self.registers.temp();
        let ty = if is_null(other) { known::OBJECT } else { other.ty };
        self.zero(ty, to);
        to
    }

    /// The value of a comparison.
    pub(super) fn compare(
        &mut self,
        op: Compare,
        left: &'a Expr,
        right: &'a Expr,
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        let (code, turn) = self.family(left, right).value(op);
        let first = self.compared(left, right);
        let second = self.compared(right, left);
        let (first, second) = if turn { (second, first) } else { (first, second) };
        let to = self.destination(mark, want);
        self.code.abc(code, to, first, second);
        to
    }

    /// Goes to a label further down if a condition has the given outcome.
    pub(super) fn branch(&mut self, cond: &'a Expr, outcome: bool, label: Label) {
        self.branch_to(cond, outcome, Target { label, back: false });
    }

    /// Goes back to a label if a condition holds.
    pub(super) fn branch_back(&mut self, cond: &'a Expr, label: Label) {
        self.branch_to(cond, true, Target { label, back: true });
    }

    /// Goes to a label if a bool in a register has the given value.
    pub(super) fn branch_on(&mut self, register: Reg, outcome: bool, label: Label) {
        let op = if outcome { Op::JumpIf } else { Op::JumpIfNot };
        self.code.jump(Code::ax(op, register, 0), label);
    }

    /// Goes to a label if a reference is null, or is not.
    pub(super) fn branch_on_null(&mut self, register: Reg, null: bool, label: Label) {
        let op = if null { Op::JumpNull } else { Op::JumpNotNull };
        self.code.jump(Code::ax(op, register, 0), label);
    }

    /// Goes to a label if the value in a register equals a switch's label.
    pub(super) fn branch_on_equal(
        &mut self,
        value: Reg,
        ty: TypeId,
        other: &'a Expr,
        label: Label,
    ) {
        let mark = self.registers.mark();
        let family = self.family_of(ty);
        let k = self.small(other);
        if let Some((op, k)) = k.and_then(|k| Some((family.jump_constant(Compare::Eq, k)?, k))) {
            self.code.jump(Code::abc(op, value, k as u16, 0), label);
            return;
        }
        let other = self.operand(other);
        match family.jump(Compare::Eq) {
            Some(op) => self.code.jump(Code::abc(op, value, other, 0), label),
            None => {
                let equal = self.destination(mark, Want::Any);
                self.code.abc(family.value(Compare::Eq).0, equal, value, other);
                self.branch_on(equal, true, label);
            }
        }
        self.registers.release(mark);
    }

    fn branch_to(&mut self, cond: &'a Expr, outcome: bool, target: Target) {
        if let Some(word) = self.constant(cond) {
            if (word != 0) == outcome {
                let op = if target.back { Op::Loop } else { Op::Jump };
                self.code.jump(Code::ax(op, 0, 0), target.label);
            }
            return;
        }
        let mark = self.registers.mark();
        match &cond.kind {
            ExprKind::Not(inner) => self.branch_to(inner, !outcome, target),
            ExprKind::And(left, right) => self.branch_pair(left, right, true, outcome, target),
            ExprKind::Or(left, right) => self.branch_pair(left, right, false, outcome, target),
            ExprKind::Compare { op, left, right } => {
                let code = self.compare_jump(*op, left, right);
                let code = if outcome { code } else { inverse(code).expect("of a jump") };
                self.line(cond.span);
                self.jump_to(code, target);
            }
            _ => {
                let register = self.operand(cond);
                let op = if outcome { Op::JumpIf } else { Op::JumpIfNot };
                self.jump_to(Code::ax(op, register, 0), target);
            }
        }
        self.registers.release(mark);
    }

    /// `left && right` (or `||`): the left side alone may decide.
    fn branch_pair(
        &mut self,
        left: &'a Expr,
        right: &'a Expr,
        and: bool,
        outcome: bool,
        target: Target,
    ) {
        if outcome == and {
            // Both have to agree on the way to the target.
            let stay = self.new_label();
            self.branch(left, !outcome, stay);
            self.branch_to(right, outcome, target);
            self.code.bind(stay);
        } else {
            self.branch_to(left, outcome, target);
            self.branch_to(right, outcome, target);
        }
    }

    /// A jump, as the back-edge that it is if the target lies behind.
    fn jump_to(&mut self, code: Code, target: Target) {
        if !target.back {
            return self.code.jump(code, target.label);
        }
        match back_edge(code) {
            Some(code) => self.code.jump(code, target.label),
            None => {
                let over = self.new_label();
                self.code.jump(inverse(code).expect("of a jump"), over);
                self.code.jump(Code::ax(Op::Loop, 0, 0), target.label);
                self.code.bind(over);
            }
        }
    }

    /// Evaluates the operands of a comparison; the jump is taken if it holds.
    fn compare_jump(&mut self, op: Compare, left: &'a Expr, right: &'a Expr) -> Code {
        let family = self.family(left, right);
        if matches!(family, Family::Reference | Family::Func) && (is_null(left) || is_null(right)) {
            let value = self.compared(if is_null(left) { right } else { left }, left);
            let op = if op == Compare::Eq { Op::JumpNull } else { Op::JumpNotNull };
            return Code::ax(op, value, 0);
        }
        for (value, constant, op) in [(left, right, op), (right, left, turned(op))] {
            let Some(k) = self.small(constant) else { continue };
            // `b == true` is `b`.
            if *self.ty(value.ty) == Type::Bool {
                let positive = (op == Compare::Eq) == (k != 0);
                let value = self.operand(value);
                return Code::ax(if positive { Op::JumpIf } else { Op::JumpIfNot }, value, 0);
            }
            if let Some(op) = family.jump_constant(op, k) {
                let value = self.operand(value);
                return Code::abc(op, value, k as u16, 0);
            }
        }
        match family.jump(op) {
            Some(code) => {
                let first = self.compared(left, right);
                let second = self.compared(right, left);
                match op {
                    Compare::Gt | Compare::Ge => Code::abc(code, second, first, 0),
                    _ => Code::abc(code, first, second, 0),
                }
            }
            None => {
                let holds = self.compare(op, left, right, Want::Any);
                Code::ax(Op::JumpIf, holds, 0)
            }
        }
    }
}
