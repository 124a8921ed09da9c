//! Assignments, and those that add to a field in one instruction.

use super::convert::Number;
use super::expr::Want;
use super::function::{Lowering, Target};
use super::visit;
use crate::lang::hir::{Arithmetic, Callee, Conversion, Expr, ExprKind, Place};
use crate::vm::op::Op;
use crate::vm::types::TypeId;

/// An instruction that adds to a field or subtracts from it.
#[derive(Clone, Copy, Debug)]
enum Change<'a> {
    Register(Op, &'a Expr),
    Constant(Op, i16),
}

impl<'a> Lowering<'a> {
    pub(super) fn assign(&mut self, place: &'a Place, value: &'a Expr) {
        let mark = self.registers.mark();
        match place {
            Place::Local(local) => {
                self.place = Some(Target::Local(*local));
                self.eval(value, Want::Local(self.local(*local)));
            }
            Place::Field { object, field } => {
                if self.add_to_field(object, *field, value) {
                    return self.registers.release(mark);
                }
                let object = self.operand_before(object, &[value]);
                self.place = Some(Target::Field { object, field: *field });
                let value = self.operand(value);
                self.code.abc(Op::SetField, object, *field, value);
            }
            Place::Index { base, index } => self.assign_element(base, index, value),
        }
        self.place = None;
        self.registers.release(mark);
    }

    /// `x.f += value` in one instruction, where that makes no difference: the instruction reads the
    /// field after the value was evaluated, and tests the object only then.
    fn add_to_field(&mut self, object: &'a Expr, field: u16, value: &'a Expr) -> bool {
        let Some((op, change)) = self.change_of_field(object, field, value) else { return false };
        let Some(change) = self.change(op, value.ty, change) else { return false };
        let span = object.span;
        let object = self.operand(object);
        let (op, last) = match change {
            Change::Register(op, value) => (op, self.operand(value)),
            Change::Constant(op, k) => (op, k as u16),
        };
        self.line(span);
        self.code.abc(op, object, field, last);
        true
    }

    /// What is added to a field of a variable's object, or subtracted.
    fn change_of_field(
        &self,
        object: &Expr,
        field: u16,
        value: &'a Expr,
    ) -> Option<(Arithmetic, &'a Expr)> {
        let ExprKind::Local(owner) = object.kind else { return None };
        let ExprKind::Arithmetic { op: op @ (Arithmetic::Add | Arithmetic::Sub), left, right } =
            &value.kind
        else {
            return None;
        };
        let reads_field = match &left.kind {
            ExprKind::Old => true,
            ExprKind::Field { object, field: read } => {
                *read == field && matches!(object.kind, ExprKind::Local(local) if local == owner)
            }
            _ => false,
        };
        let calm = self.is_calm(right, self.is_this(owner));
        (reads_field && calm).then_some((*op, &**right))
    }

    /// The instruction for a change of a field of a type.
    fn change(&self, op: Arithmetic, ty: TypeId, value: &'a Expr) -> Option<Change<'a>> {
        let adds = op == Arithmetic::Add;
        let (constant, add, sub) = match Number::of(self.ty(ty))? {
            Number::I32 | Number::U32 => (Some(Op::AddFieldIntK), Op::AddFieldInt, Op::SubFieldInt),
            Number::I64 | Number::U64 => {
                (Some(Op::AddFieldLongK), Op::AddFieldLong, Op::SubFieldLong)
            }
            Number::F64 => (None, Op::AddFieldDouble, Op::SubFieldDouble),
            _ => return None,
        };
        let k = self.small(value).and_then(|k| if adds { Some(k) } else { k.checked_neg() });
        Some(match (constant, k) {
            (Some(op), Some(k)) => Change::Constant(op, k),
            _ => Change::Register(if adds { add } else { sub }, value),
        })
    }

    /// Whether evaluating an expression changes nothing, and throws nothing, or only for a reference
    /// that is null; with `may_throw`, whatever it likes.
    fn is_calm(&self, expr: &Expr, may_throw: bool) -> bool {
        let calm = match &expr.kind {
            ExprKind::Word(_) | ExprKind::Local(_) | ExprKind::Argument(_) => true,
            ExprKind::Field { .. } | ExprKind::Neg(_) => true,
            ExprKind::Convert { conversion: Conversion::Number, .. } => true,
            ExprKind::Arithmetic { op: Arithmetic::Div | Arithmetic::Mod, right, .. } => {
                may_throw || self.constant(right).is_some_and(|word| word != 0)
            }
            ExprKind::Arithmetic { .. } => true,
            ExprKind::Index { base, .. } => may_throw && self.element_ops(base.ty).is_some(),
            ExprKind::Call { callee: Callee::Native(native), .. } => {
                self.inlined(*native).is_some_and(|inlined| inlined.only_reads(may_throw))
            }
            _ => false,
        };
        let mut all = calm;
        visit::children(expr, &mut |child| all = all && self.is_calm(child, may_throw));
        all
    }
}
