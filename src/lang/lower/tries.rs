//! `try`, `catch`, `finally`, and the ways out of statements: `break`, `continue`, `return`.
//!
//! ```text
//!          exception := null; selector := 0
//! first:   the body, and the catch clauses behind it
//! end:
//! finally: the finally block              ◄── handler of first..end: exception := what was thrown
//!          if exception: throw it
//!          selector 1, 2, …: break, continue, return
//!          selector 0: on
//! ```
//!
//! A way out that leads through a finally block sets the selector and goes to the block; behind it
//! the way leads on, perhaps to the next finally block. The code of a block is there once, so that
//! nesting does not multiply it. A value to return waits in a register that the outermost `try` on
//! the way keeps for it. All three registers have a value before the body begins: on every path to
//! the block they hold the same kind, which is what the verifier asks for.

use super::builder::{Label, Reg};
use super::function::Lowering;
use super::visit;
use crate::lang::hir::{Catch, Stmt, StmtKind};
use crate::vm::op::{Code, Op};
use crate::vm::types::{Type, known};

/// A statement that other statements lead out of.
#[derive(Debug)]
pub(super) enum Exit {
    Loop { next: Label, end: Label },
    Switch { end: Label },
    Finally { block: Label, selector: Option<Reg>, ways: Vec<Way> },
}

/// Where a way out leads in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To a label of the loop or switch at a place in the list of exits.
    To(Label, usize),
    Return,
}

/// Which ways lead out of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ways {
    /// A `break` or `continue`.
    jump: bool,
    returns: bool,
}

impl<'a> Lowering<'a> {
    pub(super) fn break_statement(&mut self) {
        let found = self.exits.iter().enumerate().rev().find_map(|(at, exit)| match *exit {
            Exit::Loop { end, .. } | Exit::Switch { end } => Some(Way::To(end, at)),
            Exit::Finally { .. } => None,
        });
        self.go(found.expect("`break` stands in a loop or switch"));
    }

    pub(super) fn continue_statement(&mut self) {
        let found = self.exits.iter().enumerate().rev().find_map(|(at, exit)| match *exit {
            Exit::Loop { next, .. } => Some(Way::To(next, at)),
            Exit::Switch { .. } | Exit::Finally { .. } => None,
        });
        self.go(found.expect("`continue` stands in a loop"));
    }

    /// Returns; a result is in the register for it.
    pub(super) fn leave_function(&mut self) {
        self.go(Way::Return);
    }

    pub(super) fn inside_finally(&self) -> bool {
        self.exits.iter().any(|exit| matches!(exit, Exit::Finally { .. }))
    }

    /// Takes a way out, through the innermost finally block in between.
    fn go(&mut self, way: Way) {
        let outermost = match way {
            Way::To(_, at) => at,
            Way::Return => 0,
        };
        let passed = self.exits.iter().rposition(|exit| matches!(exit, Exit::Finally { .. }));
        let Some(at) = passed.filter(|&at| at >= outermost) else {
            return match way {
                Way::To(label, _) => self.code.goto(label),
                Way::Return => self.return_from(self.result_register()),
            };
        };
        if !self.code.is_reachable() {
            return;
        }
        let Exit::Finally { block, selector, ways } = &mut self.exits[at] else {
            unreachable!("found by its kind")
        };
        let number = match ways.iter().position(|&known| known == way) {
            Some(index) => index + 1,
            None => {
                ways.push(way);
                ways.len()
            }
        };
        let (block, selector) = (*block, selector.expect("there is a way out"));
        self.load(number as u64, selector);
        self.code.goto(block);
    }

    fn result_register(&self) -> Option<Reg> {
        self.result.filter(|_| self.function.signature.result != known::VOID)
    }

    pub(super) fn try_statement(
        &mut self,
        body: &'a Stmt,
        catches: &'a [Catch],
        finally: Option<&'a Stmt>,
    ) {
        let Some(finally) = finally else { return self.try_catch(body, catches) };
        let scope = self.enter();
        let exception = self.registers.variable();
        self.code.ax(Op::Null, exception, known::EXCEPTION.0);
        let mut ways = Ways::default();
        find_ways(body, false, false, &mut ways);
        catches.iter().for_each(|catch| find_ways(&catch.body, false, false, &mut ways));
        let selector = (ways.jump || ways.returns).then(|| self.registers.variable());
        if let Some(selector) = selector {
            self.load(0, selector);
        }
        let result = self.function.signature.result;
        let keeps_result = ways.returns && self.result.is_none() && result != known::VOID;
        if keeps_result {
            let register = self.registers.variable();
            self.zero(result, register);
            self.result = Some(register);
        }
        let block = self.new_label();
        self.exits.push(Exit::Finally { block, selector, ways: Vec::new() });
        let first = self.code.position();
        self.try_catch(body, catches);
        let end = self.code.position();
        let Some(Exit::Finally { ways, .. }) = self.exits.pop() else {
            unreachable!("pushed above")
        };
        self.code.protect(first, end, block, exception, known::EXCEPTION);
        self.code.bind(block);
        self.scoped(finally);
        self.go_on(exception, selector, &ways);
        if keeps_result {
            self.result = None;
        }
        self.leave(scope);
    }

    /// Behind a finally block: where the way that led there leads on.
    fn go_on(&mut self, exception: Reg, selector: Option<Reg>, ways: &[Way]) {
        let quiet = self.new_label();
        self.branch_on_null(exception, true, quiet);
        self.code.abc(Op::Throw, exception, 0, 0);
        self.code.bind(quiet);
        for (&way, number) in ways.iter().zip(1..) {
            let other = self.new_label();
            let selector = selector.expect("there is a way out");
            self.code.jump(Code::abc(Op::JumpNeIntK, selector, number, 0), other);
            self.go(way);
            self.code.bind(other);
        }
    }

    fn try_catch(&mut self, body: &'a Stmt, catches: &'a [Catch]) {
        let first = self.code.position();
        self.scoped(body);
        let end = self.code.position();
        let after = self.new_label();
        self.code.goto(after);
        for catch in catches {
            let scope = self.enter();
            let register = self.registers.variable();
            let ty = self.pool.types.intern(Type::Class(catch.class));
            let handler = self.new_label();
            self.code.protect(first, end, handler, register, ty);
            self.code.bind(handler);
            self.line(catch.body.span);
            self.begin_local(catch.local, register);
            let rethrown = match self.facts.is_rethrown(catch.rethrown)
                && catch.rethrown != catch.local
                && self.facts.is_assigned(catch.local)
            {
                true => {
                    let mark = self.registers.variable();
                    self.code.copy(mark, register);
                    mark
                }
                false => register,
            };
            self.set_local(catch.rethrown, rethrown);
            self.scoped(&catch.body);
            self.code.goto(after);
            self.leave(scope);
        }
        self.code.bind(after);
    }
}

/// Finds the ways out of a statement. Inside a loop, and for `break` inside a switch, `break` and
/// `continue` stay inside.
fn find_ways(stmt: &Stmt, in_loop: bool, in_switch: bool, ways: &mut Ways) {
    let (mut in_loop, mut in_switch) = (in_loop, in_switch);
    match &stmt.kind {
        StmtKind::Return(_) => ways.returns = true,
        StmtKind::Break => ways.jump |= !in_loop && !in_switch,
        StmtKind::Continue => ways.jump |= !in_loop,
        StmtKind::While { .. }
        | StmtKind::DoWhile { .. }
        | StmtKind::For { .. }
        | StmtKind::Foreach { .. } => in_loop = true,
        StmtKind::Switch { .. } => in_switch = true,
        _ => {}
    }
    visit::parts(stmt, &mut |part| find_ways(part, in_loop, in_switch, ways), &mut |_| {});
}
