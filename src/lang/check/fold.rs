//! Constants of the source, as far as rules depend on their values.

use crate::lang::ast::{BinaryOp, Expr, ExprKind, StringPart, UnaryOp};

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Folded {
    Int(i128),
    Char(char),
    Text(String),
}

/// The value of an expression that consists of literals.
pub(super) fn fold(expr: &Expr) -> Option<Folded> {
    match &expr.kind {
        &ExprKind::Int(n) => Some(Folded::Int(n.into())),
        &ExprKind::Char(c) => Some(Folded::Char(c)),
        ExprKind::String(parts) => {
            let mut text = String::new();
            for part in parts {
                match part {
                    StringPart::Text(piece) => text.push_str(piece),
                    StringPart::Name(_) => return None,
                }
            }
            Some(Folded::Text(text))
        }
        ExprKind::Paren(inner) => fold(inner),
        ExprKind::Unary { op, operand } => match (op, fold(operand)?) {
            (UnaryOp::Neg, Folded::Int(n)) => Some(Folded::Int(n.checked_neg()?)),
            (UnaryOp::Plus, Folded::Int(n)) => Some(Folded::Int(n)),
            _ => None,
        },
        ExprKind::Binary { op, left, right, .. } => {
            let (Folded::Int(left), Folded::Int(right)) = (fold(left)?, fold(right)?) else {
                return None;
            };
            let result = match op {
                BinaryOp::Add => left.checked_add(right),
                BinaryOp::Sub => left.checked_sub(right),
                BinaryOp::Mul => left.checked_mul(right),
                BinaryOp::Div => left.checked_div(right),
                BinaryOp::Mod => left.checked_rem(right),
                _ => None,
            }?;
            // What is larger would have wrapped at run time: no constant that a rule speaks of.
            (i128::from(i64::MIN)..=i128::from(u64::MAX))
                .contains(&result)
                .then_some(Folded::Int(result))
        }
        _ => None,
    }
}
