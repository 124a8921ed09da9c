//! What is known of a function's variables before it is lowered.

use super::visit;
use crate::lang::hir::{Expr, ExprKind, Function, LocalId, Place, StmtKind};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Facts {
    assigned: Vec<bool>,
    out: Vec<bool>,
    rethrown: Vec<bool>,
}

impl Facts {
    pub(super) fn of(function: &Function) -> Facts {
        let count = function.locals.len();
        let mut assigned = vec![false; count];
        let mut rethrown = vec![false; count];
        let mut out = vec![false; count];
        for stmt in &function.body {
            visit::everything(
                stmt,
                &mut |stmt| match stmt.kind {
                    StmtKind::Assign { place: Place::Local(local), .. } => {
                        assigned[local.0 as usize] = true;
                    }
                    StmtKind::Rethrow(local) => rethrown[local.0 as usize] = true,
                    _ => {}
                },
                &mut |expr| for_each_out(expr, &mut |local| out[local.0 as usize] = true),
            );
        }
        for (assigned, &out) in assigned.iter_mut().zip(&out) {
            *assigned |= out;
        }
        Facts { assigned, out, rethrown }
    }

    /// Whether anything but its declaration gives a variable a value.
    pub(super) fn is_assigned(&self, local: LocalId) -> bool {
        self.assigned[local.0 as usize]
    }

    /// Whether a `throw;` reads a variable.
    pub(super) fn is_rethrown(&self, local: LocalId) -> bool {
        self.rethrown[local.0 as usize]
    }

    /// Whether evaluating an expression may change a variable: only an `out` argument does that.
    pub(super) fn may_change(&self, local: LocalId, expr: &Expr) -> bool {
        let mut found = false;
        if self.out[local.0 as usize] {
            visit::all(expr, &mut |inner| for_each_out(inner, &mut |out| found |= out == local));
        }
        found
    }
}

fn for_each_out(expr: &Expr, see: &mut dyn FnMut(LocalId)) {
    let (ExprKind::Call { args, .. } | ExprKind::New { args, .. }) = &expr.kind else { return };
    args.iter().filter_map(|arg| arg.out).for_each(see);
}
