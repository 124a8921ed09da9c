//! Walks over the typed tree, for what lowering wants to know ahead of time.

use crate::lang::hir::{Callee, Expr, ExprKind, Place, Stmt, StmtKind};

/// Calls `see` for the expressions right inside an expression, in order of evaluation.
pub(super) fn children<'a>(expr: &'a Expr, see: &mut dyn FnMut(&'a Expr)) {
    match &expr.kind {
        ExprKind::Word(_)
        | ExprKind::Text(_)
        | ExprKind::Null
        | ExprKind::Zero
        | ExprKind::Local(_)
        | ExprKind::Old
        | ExprKind::Argument(_)
        | ExprKind::NewContainer
        | ExprKind::FunctionValue(_) => {}
        ExprKind::Field { object: inner, .. }
        | ExprKind::Neg(inner)
        | ExprKind::Not(inner)
        | ExprKind::Convert { value: inner, .. }
        | ExprKind::Copy(inner)
        | ExprKind::NewArray { length: inner }
        | ExprKind::BoundValue { receiver: inner, .. } => see(inner),
        ExprKind::Index { base: left, index: right }
        | ExprKind::Arithmetic { left, right, .. }
        | ExprKind::Compare { left, right, .. }
        | ExprKind::And(left, right)
        | ExprKind::Or(left, right) => {
            see(left);
            see(right);
        }
        ExprKind::Concat(all) | ExprKind::Elements(all) => all.iter().for_each(see),
        ExprKind::Call { callee, args } => {
            if let Callee::Value(value) = callee {
                see(value);
            }
            args.iter().for_each(|arg| see(&arg.value));
        }
        ExprKind::New { args, fields, .. } => {
            args.iter().for_each(|arg| see(&arg.value));
            fields.iter().for_each(|(_, value)| see(value));
        }
        ExprKind::Entries(entries) => {
            for (key, value) in entries {
                see(key);
                see(value);
            }
        }
    }
}

/// Calls `see` for an expression and all expressions inside.
pub(super) fn all<'a>(expr: &'a Expr, see: &mut dyn FnMut(&'a Expr)) {
    see(expr);
    children(expr, &mut |child| all(child, see));
}

/// Calls `see_expr` for the expressions that stand right in a statement, and `see_stmt` for the
/// statements right inside.
pub(super) fn parts<'a>(
    stmt: &'a Stmt,
    see_stmt: &mut dyn FnMut(&'a Stmt),
    see_expr: &mut dyn FnMut(&'a Expr),
) {
    match &stmt.kind {
        StmtKind::Block(body) => body.iter().for_each(see_stmt),
        StmtKind::Local { init, .. } => init.iter().for_each(see_expr),
        StmtKind::Expr(expr) | StmtKind::Throw(expr) | StmtKind::Assert(expr) => see_expr(expr),
        StmtKind::Assign { place, value } => {
            match place {
                Place::Local(_) => {}
                Place::Field { object, .. } => see_expr(object),
                Place::Index { base, index } => {
                    see_expr(base);
                    see_expr(index);
                }
            }
            see_expr(value);
        }
        StmtKind::If { cond, then, otherwise } => {
            see_expr(cond);
            see_stmt(then);
            otherwise.iter().for_each(|stmt| see_stmt(stmt));
        }
        StmtKind::While { cond, body } | StmtKind::DoWhile { body, cond } => {
            see_expr(cond);
            see_stmt(body);
        }
        StmtKind::For { init, cond, step, body } => {
            init.iter().for_each(&mut *see_stmt);
            cond.iter().for_each(see_expr);
            step.iter().for_each(|stmt| see_stmt(stmt));
            see_stmt(body);
        }
        StmtKind::Foreach { iterable, body, .. } => {
            see_expr(iterable);
            see_stmt(body);
        }
        StmtKind::Switch { value, cases, default } => {
            see_expr(value);
            for case in cases {
                case.labels.iter().for_each(&mut *see_expr);
                case.body.iter().for_each(&mut *see_stmt);
            }
            default.iter().flatten().for_each(see_stmt);
        }
        StmtKind::Try { body, catches, finally } => {
            see_stmt(body);
            catches.iter().for_each(|catch| see_stmt(&catch.body));
            finally.iter().for_each(|stmt| see_stmt(stmt));
        }
        StmtKind::Return(value) => value.iter().for_each(see_expr),
        StmtKind::Rethrow(_) | StmtKind::Break | StmtKind::Continue => {}
    }
}

/// Calls the functions for a statement, all statements inside and all expressions in them.
pub(super) fn everything<'a>(
    stmt: &'a Stmt,
    see_stmt: &mut dyn FnMut(&'a Stmt),
    see_expr: &mut dyn FnMut(&'a Expr),
) {
    see_stmt(stmt);
    let mut inner = Vec::new();
    parts(stmt, &mut |part| inner.push(part), &mut |expr| all(expr, see_expr));
    for part in inner {
        everything(part, see_stmt, see_expr);
    }
}
