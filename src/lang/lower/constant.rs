//! Constants: what is computed ahead of time, and what a register holds during a loop.
//!
//! A constant that does not fit into an instruction costs one of its own each time. Inside a loop
//! that adds up: so the constants that the outermost loop's instructions need as operands are put
//! into registers before it.

use std::cell::RefCell;

use super::builder::Reg;
use super::convert::Number;
use super::function::Lowering;
use super::visit;
use crate::lang::hir::{Arithmetic, Callee, Conversion, Expr, ExprKind, Place, Stmt, StmtKind};
use crate::vm::types::{Type, TypeId};

/// How many constants a loop keeps in registers at most.
const PINNED: usize = 16;

impl<'a> Lowering<'a> {
    /// The word of an expression that is known, if it is a number or the like.
    pub(super) fn constant(&self, expr: &Expr) -> Option<u64> {
        match &expr.kind {
            &ExprKind::Word(word) => Some(word),
            ExprKind::Zero if !self.pool.types.is_reference(expr.ty) => Some(0),
            ExprKind::Not(value) => Some(u64::from(self.constant(value)? == 0)),
            ExprKind::Neg(value) => {
                let word = self.constant(value)?;
                self.fold(Arithmetic::Sub, expr.ty, None, word)
            }
            ExprKind::Arithmetic { op, left, right } => {
                // The right side first: it is the shorter one of a chain.
                let right = self.constant(right)?;
                let left = self.constant(left)?;
                self.fold(*op, expr.ty, Some(left), right)
            }
            ExprKind::Convert { conversion: Conversion::Number, value } => {
                let word = self.constant(value)?;
                Number::of(self.ty(value.ty))?.convert(word, Number::of(self.ty(expr.ty))?)
            }
            _ => None,
        }
    }

    /// Computes what the instructions would, but for what throws. Without a left side: negates.
    fn fold(&self, op: Arithmetic, ty: TypeId, left: Option<u64>, right: u64) -> Option<u64> {
        let number = Number::of(self.ty(ty))?;
        match number {
            Number::F32 => {
                let right = f32::from_bits(right as u32);
                let value = match left.map(|left| f32::from_bits(left as u32)) {
                    None => -right,
                    Some(left) => match op {
                        Arithmetic::Add => left + right,
                        Arithmetic::Sub => left - right,
                        Arithmetic::Mul => left * right,
                        Arithmetic::Div if right != 0.0 => left / right,
                        Arithmetic::Div | Arithmetic::Mod => return None,
                    },
                };
                Some(value.to_bits().into())
            }
            Number::F64 => {
                let right = f64::from_bits(right);
                let value = match left.map(f64::from_bits) {
                    None => -right,
                    Some(left) => match op {
                        Arithmetic::Add => left + right,
                        Arithmetic::Sub => left - right,
                        Arithmetic::Mul => left * right,
                        Arithmetic::Div if right != 0.0 => left / right,
                        Arithmetic::Div | Arithmetic::Mod => return None,
                    },
                };
                Some(value.to_bits())
            }
            _ => {
                let (signed, unsigned) = (number.value(left.unwrap_or(0)), number.value(right));
                let value = match op {
                    Arithmetic::Add => signed + unsigned,
                    Arithmetic::Sub => signed - unsigned,
                    Arithmetic::Mul => signed.checked_mul(unsigned)?,
                    Arithmetic::Div => signed.checked_div(unsigned)?,
                    Arithmetic::Mod => signed.checked_rem(unsigned)?,
                };
                Some(number.word(value))
            }
        }
    }

    /// The text of an expression that is known.
    pub(super) fn constant_text(&self, expr: &Expr) -> Option<String> {
        match &expr.kind {
            ExprKind::Text(text) => Some(text.clone()),
            ExprKind::Convert { conversion: Conversion::ToString, value } => {
                if let ExprKind::Text(text) = &value.kind {
                    return Some(text.clone());
                }
                let word = self.constant(value)?;
                match self.ty(value.ty) {
                    Type::Bool => Some((word != 0).to_string()),
                    Type::Char => char::from_u32(word as u32).map(String::from),
                    Type::Enum(_) | Type::Float | Type::Double => None,
                    ty => Some(Number::of(ty)?.value(word).to_string()),
                }
            }
            _ => None,
        }
    }

    /// The constant of an expression, as the 16 bits that an instruction has for it: of the value
    /// as `int` for types of up to 32 bits, of the word for longer ones.
    pub(super) fn small(&self, expr: &Expr) -> Option<i16> {
        let word = self.constant(expr)?;
        match Number::of(self.ty(expr.ty))? {
            Number::F32 | Number::F64 => None,
            Number::I64 | Number::U64 => i16::try_from(word as i64).ok(),
            _ => i16::try_from(word as u32 as i32).ok(),
        }
    }

    /// The register that holds a constant during the loop at hand.
    pub(super) fn pinned(&self, word: u64) -> Option<Reg> {
        self.pinned.iter().find(|&&(pinned, _)| pinned == word).map(|&(_, register)| register)
    }

    /// Before an outermost loop: loads the constants that its instructions take from registers.
    pub(super) fn pin_constants(&mut self, stmt: &'a Stmt) {
        let found = RefCell::new(Vec::new());
        let note = |word: Option<u64>| {
            let mut found = found.borrow_mut();
            if let Some(word) = word
                && found.len() < PINNED
                && !found.contains(&word)
            {
                found.push(word);
            }
        };
        visit::everything(
            stmt,
            &mut |stmt| {
                if let StmtKind::Assign { place, value } = &stmt.kind {
                    match place {
                        Place::Local(_) => {}
                        Place::Field { .. } => note(self.constant(value)),
                        Place::Index { base, index } if self.element_ops(base.ty).is_some() => {
                            note(self.constant(index));
                            note(self.constant(value));
                        }
                        Place::Index { .. } => {}
                    }
                }
            },
            &mut |expr| match &expr.kind {
                ExprKind::Arithmetic { op, left, right } if self.constant(expr).is_none() => {
                    let (left_fits, right_fits) = self.immediates(*op, left, right);
                    note(self.constant(left).filter(|_| !left_fits));
                    note(self.constant(right).filter(|_| !right_fits));
                }
                ExprKind::Compare { op, left, right } => {
                    for (operand, other) in [(left, right), (right, left)] {
                        if !self.compares_with(*op, operand) && self.constant(other).is_none() {
                            note(self.constant(operand));
                        }
                    }
                }
                ExprKind::Index { base, index } if self.element_ops(base.ty).is_some() => {
                    note(self.constant(index));
                }
                ExprKind::Call { callee: Callee::Native(native), args }
                    if self.inlined(*native).is_some() =>
                {
                    args.iter().for_each(|arg| note(self.constant(&arg.value)));
                }
                _ => {}
            },
        );
        for word in found.into_inner() {
            let register = self.registers.variable();
            self.load(word, register);
            self.pinned.push((word, register));
        }
    }
}
