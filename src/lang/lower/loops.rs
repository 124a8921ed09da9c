//! Loops.
//!
//! ```text
//!        test at the top, where it is short      jump cond
//! body:  …                                 body: …
//! cond:  back-edge to body if it holds     cond: back-edge to body if it holds
//! ```
//!
//! `continue` goes to the step of a `for`, else to `cond`. Nothing else ever goes back.

use super::builder::Label;
use super::call::Inlined;
use super::convert::Number;
use super::expr::Want;
use super::function::Lowering;
use super::tries::Exit;
use super::visit;
use crate::lang::hir::{Arg, Callee, Compare, Expr, ExprKind, LocalId, Stmt, StmtKind};
use crate::vm::op::{Code, Op};
use crate::vm::types::{Type, TypeId, known};

/// How many nodes a condition may have that is tested in two places.
const SHORT: usize = 12;

/// The labels of a loop.
struct Labels {
    body: Label,
    next: Label,
    end: Label,
}

impl<'a> Lowering<'a> {
    fn labels(&mut self) -> Labels {
        Labels { body: self.new_label(), next: self.new_label(), end: self.new_label() }
    }

    /// What every loop does around its code: the outermost one keeps its constants in registers.
    fn around_loop(&mut self, stmt: &'a Stmt, lower: impl FnOnce(&mut Self)) {
        let block = self.enter();
        let outermost = !self.in_loop;
        if outermost {
            self.pin_constants(stmt);
            self.in_loop = true;
        }
        lower(self);
        if outermost {
            self.in_loop = false;
            self.pinned.clear();
        }
        self.leave(block);
    }

    fn loop_body(&mut self, labels: &Labels, body: &'a Stmt) {
        self.exits.push(Exit::Loop { next: labels.next, end: labels.end });
        self.scoped(body);
        self.exits.pop();
    }

    pub(super) fn while_loop(&mut self, stmt: &'a Stmt, cond: &'a Expr, body: &'a Stmt) {
        self.around_loop(stmt, |this| this.tested_loop(Some(cond), None, body));
    }

    pub(super) fn for_loop(
        &mut self,
        stmt: &'a Stmt,
        init: &'a [Stmt],
        cond: Option<&'a Expr>,
        step: Option<&'a Stmt>,
        body: &'a Stmt,
    ) {
        self.around_loop(stmt, |this| {
            this.stmts(init);
            let certain = cond.is_some_and(|cond| this.holds_after(init, cond));
            match cond {
                Some(cond) if certain => this.bottom_loop(Some(cond), step, body),
                _ => this.tested_loop(cond, step, body),
            }
        });
    }

    pub(super) fn do_while(&mut self, stmt: &'a Stmt, body: &'a Stmt, cond: &'a Expr) {
        self.around_loop(stmt, |this| this.bottom_loop(Some(cond), None, body));
    }

    /// A loop whose condition is tested before the first round.
    fn tested_loop(&mut self, cond: Option<&'a Expr>, step: Option<&'a Stmt>, body: &'a Stmt) {
        let Some(cond) = cond else { return self.bottom_loop(None, step, body) };
        let labels = self.labels();
        let alive = self.code.is_reachable();
        if self.is_short(cond) {
            self.branch(cond, false, labels.end);
            let enters = self.code.is_reachable();
            self.rounds(&labels, enters, Some(cond), step, body, None);
        } else {
            let test = self.new_label();
            self.code.goto(test);
            self.rounds(&labels, alive, Some(cond), step, body, Some(test));
        }
    }

    /// A loop whose first round comes without a test.
    fn bottom_loop(&mut self, cond: Option<&'a Expr>, step: Option<&'a Stmt>, body: &'a Stmt) {
        let labels = self.labels();
        let alive = self.code.is_reachable();
        self.rounds(&labels, alive, cond, step, body, None);
    }

    fn rounds(
        &mut self,
        labels: &Labels,
        alive: bool,
        cond: Option<&'a Expr>,
        step: Option<&'a Stmt>,
        body: &'a Stmt,
        test: Option<Label>,
    ) {
        self.code.bind_head(labels.body, alive);
        self.loop_body(labels, body);
        self.code.bind(labels.next);
        if let Some(step) = step {
            self.stmt(step);
        }
        if let Some(test) = test {
            self.code.bind(test);
        }
        match cond {
            Some(cond) => {
                self.line(cond.span);
                if !self.count_to_length(cond, labels.body) {
                    self.branch_back(cond, labels.body);
                }
            }
            None => self.code.jump(Code::ax(Op::Loop, 0, 0), labels.body),
        }
        self.code.bind(labels.end);
    }

    /// The back-edge of a loop that has just counted, under the condition `i < x.length()`: step,
    /// length and test in one instruction.
    fn count_to_length(&mut self, cond: &'a Expr, body: Label) -> bool {
        let ExprKind::Compare { op: Compare::Lt, left, right } = &cond.kind else { return false };
        let (ExprKind::Local(counter), ExprKind::Call { callee: Callee::Native(native), args }) =
            (&left.kind, &right.kind)
        else {
            return false;
        };
        let [Arg { value: Expr { kind: ExprKind::Local(container), .. }, .. }] = &args[..] else {
            return false;
        };
        let op = match self.inlined(*native) {
            Some(Inlined::Unary(Op::ArrayLength)) => Op::LoopIncLtArray,
            Some(Inlined::Unary(Op::ListLength)) => Op::LoopIncLtList,
            Some(Inlined::Unary(Op::TextLength)) => Op::LoopIncLtText,
            _ => return false,
        };
        let (counter, container) = (self.local(*counter), self.local(*container));
        if left.ty != known::INT || !self.code.take_step(counter) {
            return false;
        }
        self.code.jump(Code::abc(op, counter, container, 0), body);
        true
    }

    /// Whether a condition costs little to test in two places.
    fn is_short(&self, cond: &Expr) -> bool {
        fn count(this: &Lowering<'_>, expr: &Expr, nodes: &mut usize) -> bool {
            *nodes += 1;
            let simple = match &expr.kind {
                ExprKind::Call { callee: Callee::Native(native), .. } => {
                    this.inlined(*native).is_some()
                }
                ExprKind::Index { base, .. } => !matches!(this.ty(base.ty), Type::Dict(..)),
                ExprKind::Call { .. }
                | ExprKind::New { .. }
                | ExprKind::NewArray { .. }
                | ExprKind::Concat(_)
                | ExprKind::Elements(_)
                | ExprKind::Entries(_)
                | ExprKind::Copy(_)
                | ExprKind::BoundValue { .. } => false,
                _ => true,
            };
            let mut all = simple && *nodes <= SHORT;
            visit::children(expr, &mut |child| all = all && count(this, child, nodes));
            all
        }
        count(self, cond, &mut 0)
    }

    /// Whether a condition holds for certain before the first round: `i < 10` after `int i = 0`.
    fn holds_after(&self, init: &[Stmt], cond: &Expr) -> bool {
        let [Stmt { kind: StmtKind::Local { local, init: Some(start) }, .. }] = init else {
            return false;
        };
        let ExprKind::Compare { op, left, right } = &cond.kind else { return false };
        let ExprKind::Local(tested) = left.kind else { return false };
        let (Some(start), Some(bound)) = (self.constant(start), self.constant(right)) else {
            return false;
        };
        let number = Number::of(self.ty(left.ty));
        let Some(number) = number.filter(|_| tested == *local) else { return false };
        if matches!(number, Number::F32 | Number::F64) {
            return false;
        }
        let (start, bound) = (number.value(start), number.value(bound));
        match op {
            Compare::Eq => start == bound,
            Compare::Ne => start != bound,
            Compare::Lt => start < bound,
            Compare::Le => start <= bound,
            Compare::Gt => start > bound,
            Compare::Ge => start >= bound,
        }
    }

    pub(super) fn foreach(
        &mut self,
        stmt: &'a Stmt,
        local: LocalId,
        iterable: &'a Expr,
        body: &'a Stmt,
    ) {
        self.around_loop(stmt, |this| match *this.ty(iterable.ty) {
            Type::String => this.foreach_char(local, iterable, body),
            Type::Dict(key, _) => {
                let keys = this.pool.types.intern(Type::List(key));
                let native = this.pool.native("Dict.keys", iterable.ty, &[], keys);
                let window = this.window(Want::Any);
                this.eval(iterable, Want::Window(window));
                this.registers.cover(window);
                this.line(iterable.span);
                this.code.ax(Op::CallNative, window, native);
                this.foreach_element(local, window, keys, body);
            }
            _ => {
                let base = this.iterable(iterable);
                this.foreach_element(local, base, iterable.ty, body);
            }
        });
    }

    /// The value that is iterated over, in a register that the body does not change.
    fn iterable(&mut self, iterable: &'a Expr) -> u16 {
        if let ExprKind::Local(local) = iterable.kind
            && !self.facts.is_assigned(local)
        {
            return self.local(local);
        }
        self.push(iterable)
    }

    fn foreach_element(&mut self, local: LocalId, base: u16, ty: TypeId, body: &'a Stmt) {
        let (read, _) = self.element_ops(ty).expect("an array or list");
        let length = match self.ty(ty) {
            Type::Array(_) => Op::ArrayLength,
            _ => Op::ListLength,
        };
        let count = self.registers.temp();
        self.code.abc(length, count, base, 0);
        let labels = self.labels();
        self.code.jump(Code::abc(Op::JumpEqIntK, count, 0, 0), labels.end);
        let index = self.registers.temp();
        self.load(0, index);
        let alive = self.code.is_reachable();
        self.code.bind_head(labels.body, alive);
        let block = self.enter();
        let variable = self.registers.variable();
        self.code.abc(read, variable, base, index);
        if matches!(self.ty(self.local_type(local)), Type::Struct(_)) {
            self.code.abc(Op::CopyStruct, variable, variable, 0);
        }
        self.begin_local(local, variable);
        self.loop_body(&labels, body);
        self.leave(block);
        self.code.bind(labels.next);
        self.code.abc(Op::AddIntK, index, index, 1);
        self.code.jump(Code::abc(Op::LoopLtInt, index, count, 0), labels.body);
        self.code.bind(labels.end);
    }

    fn foreach_char(&mut self, local: LocalId, iterable: &'a Expr, body: &'a Stmt) {
        let text = self.iterable(iterable);
        let length = self.registers.temp();
        self.code.abc(Op::TextLength, length, text, 0);
        let labels = self.labels();
        self.code.jump(Code::abc(Op::JumpEqIntK, length, 0, 0), labels.end);
        let position = self.registers.temp();
        self.load(0, position);
        let alive = self.code.is_reachable();
        self.code.bind_head(labels.body, alive);
        let block = self.enter();
        let variable = self.registers.variable();
        self.code.abc(Op::TextNext, variable, text, position);
        self.begin_local(local, variable);
        self.loop_body(&labels, body);
        self.leave(block);
        self.code.bind(labels.next);
        self.code.jump(Code::abc(Op::LoopLtInt, position, length, 0), labels.body);
        self.code.bind(labels.end);
    }
}
