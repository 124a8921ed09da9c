//! Statements without a control flow of their own; the others are in [`loops`](super::loops),
//! [`switch`](super::switch) and [`tries`](super::tries).

use super::expr::Want;
use super::function::Lowering;
use crate::lang::hir::{Expr, ExprKind, LocalId, Stmt, StmtKind};
use crate::vm::op::Op;
use crate::vm::types::{ExceptionClass, known};

impl<'a> Lowering<'a> {
    pub(super) fn stmts(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    /// Statements with a scope of their own.
    pub(super) fn block(&mut self, stmts: &'a [Stmt]) {
        let block = self.enter();
        self.stmts(stmts);
        self.leave(block);
    }

    pub(super) fn stmt(&mut self, stmt: &'a Stmt) {
        self.line(stmt.span);
        match &stmt.kind {
            StmtKind::Block(body) => self.block(body),
            StmtKind::Local { local, init } => self.declare(*local, init.as_ref()),
            StmtKind::Expr(expr) => {
                let mark = self.registers.mark();
                self.eval(expr, Want::Any);
                self.registers.release(mark);
            }
            StmtKind::Assign { place, value } => self.assign(place, value),
            StmtKind::If { cond, then, otherwise } => {
                self.if_statement(cond, then, otherwise.as_deref());
            }
            StmtKind::While { cond, body } => self.while_loop(stmt, cond, body),
            StmtKind::DoWhile { body, cond } => self.do_while(stmt, body, cond),
            StmtKind::For { init, cond, step, body } => {
                self.for_loop(stmt, init, cond.as_ref(), step.as_deref(), body);
            }
            StmtKind::Foreach { local, iterable, body } => {
                self.foreach(stmt, *local, iterable, body);
            }
            StmtKind::Switch { value, cases, default } => {
                self.switch_statement(value, cases, default.as_deref());
            }
            StmtKind::Try { body, catches, finally } => {
                self.try_statement(body, catches, finally.as_deref());
            }
            StmtKind::Throw(value) => {
                let mark = self.registers.mark();
                let register = self.operand(value);
                self.line(stmt.span);
                self.code.abc(Op::Throw, register, 0, 0);
                self.registers.release(mark);
            }
            StmtKind::Rethrow(local) => {
                let register = self.local(*local);
                self.code.abc(Op::Throw, register, 0, 0);
            }
            StmtKind::Return(value) => self.return_statement(value.as_ref()),
            StmtKind::Break => self.break_statement(),
            StmtKind::Continue => self.continue_statement(),
            StmtKind::Assert(cond) => {
                let holds = self.new_label();
                self.branch(cond, true, holds);
                self.line(stmt.span);
                let message = self.pool.string("assertion failed");
                self.code.ax(Op::Raise, ExceptionClass::Assertion as u16, message);
                self.code.bind(holds);
            }
        }
    }

    fn declare(&mut self, local: LocalId, init: Option<&'a Expr>) {
        let register = match init {
            // The result of a call becomes the variable where it is.
            Some(init) if self.is_real_call(init) => {
                let header = self.registers.top();
                let register = self.eval(init, Want::Any);
                self.registers.cover(register);
                for hole in header..register {
                    self.registers.leave_hole(hole);
                }
                register
            }
            Some(init) => {
                let register = self.registers.variable();
                let mark = self.registers.mark();
                self.eval(init, Want::Fresh(register));
                self.registers.release(mark);
                register
            }
            None => {
                let register = self.registers.variable();
                self.zero(self.local_type(local), register);
                register
            }
        };
        self.begin_local(local, register);
    }

    fn if_statement(&mut self, cond: &'a Expr, then: &'a Stmt, otherwise: Option<&'a Stmt>) {
        let end = self.new_label();
        let (mut cond, mut then, mut otherwise) = (cond, then, otherwise);
        // A chain of `else if` is one loop here: it may be long.
        loop {
            let no = self.new_label();
            self.branch(cond, false, no);
            self.scoped(then);
            let Some(rest) = otherwise else {
                self.code.bind(no);
                break;
            };
            self.code.goto(end);
            self.code.bind(no);
            self.line(rest.span);
            match &rest.kind {
                StmtKind::If { cond: c, then: t, otherwise: o } => {
                    (cond, then, otherwise) = (c, t, o.as_deref());
                }
                _ => {
                    self.scoped(rest);
                    break;
                }
            }
        }
        self.code.bind(end);
    }

    /// A statement that may declare variables, as a scope.
    pub(super) fn scoped(&mut self, stmt: &'a Stmt) {
        let block = self.enter();
        self.stmt(stmt);
        self.leave(block);
    }

    fn return_statement(&mut self, value: Option<&'a Expr>) {
        let Some(value) = value else { return self.leave_function() };
        let mark = self.registers.mark();
        if self.inside_finally() {
            let register =
                self.result.expect("kept free by the outermost try with a return inside");
            self.eval(value, Want::Local(register));
            self.leave_function();
        } else if self.has_outs() {
            let register = self.operand(value);
            self.return_from(Some(register));
        } else if matches!(value.kind, ExprKind::And(..) | ExprKind::Or(..)) {
            let no = self.new_label();
            self.branch(value, false, no);
            self.code.ax(Op::ReturnInt, 0, 1);
            self.code.bind(no);
            self.code.ax(Op::ReturnInt, 0, 0);
        } else if let Some(word) = self.constant(value).filter(|&word| word <= u32::MAX.into()) {
            self.code.ax(Op::ReturnInt, 0, word as u32);
        } else if value.ty == known::VOID {
            self.eval(value, Want::Any);
            self.return_from(None);
        } else {
            let register = self.operand(value);
            self.code.abc(Op::Return, register, 0, 0);
        }
        self.registers.release(mark);
    }
}
