//! One function being lowered: its registers, variables and code, its entry and its ends.

use super::builder::{Builder, Label, Reg};
use super::facts::Facts;
use super::layout::lay_out;
use super::pool::Pool;
use super::registers::{LIMIT, Registers, Scope};
use super::tries::Exit;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, LocalId};
use crate::lang::source::{Sources, Span};
use crate::vm::module::{Function, FunctionKind, Local};
use crate::vm::op::Op;
use crate::vm::types::{Type, TypeId, known};

/// What outgrew the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// An index that has to fit into 16 bits.
    Index(&'static str),
}

/// Where an assignment goes, evaluated as far as it can be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Local(LocalId),
    Field { object: Reg, field: u16 },
    Index { base: Reg, index: Reg, ty: TypeId },
}

/// The variables of a block.
pub(super) struct Block {
    scope: Scope,
    variables: usize,
}

/// See the [module](self).
pub(super) struct Lowering<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) functions: &'a [hir::Function],
    pub(super) function: &'a hir::Function,
    sources: &'a Sources,
    pub(super) facts: Facts,
    pub(super) code: Builder,
    pub(super) registers: Registers,
    /// The register of each variable in scope.
    locals: Vec<Reg>,
    /// The variables in scope, and where each began.
    in_scope: Vec<(LocalId, u32)>,
    /// What `break`, `continue` and `return` lead through, innermost last.
    pub(super) exits: Vec<Exit>,
    /// Keeps the result while `finally` blocks run on the way to a return.
    pub(super) result: Option<Reg>,
    /// Windows of the calls whose defaults are being evaluated, innermost last.
    pub(super) windows: Vec<Reg>,
    /// The place of the assignment at hand.
    pub(super) place: Option<Target>,
    /// Constants that a register holds during the loop at hand.
    pub(super) pinned: Vec<(u64, Reg)>,
    pub(super) in_loop: bool,
    limit: Option<Limit>,
    /// The span whose line was looked up last.
    last_line: (Span, u32),
}

impl<'a> Lowering<'a> {
    pub(super) fn new(
        pool: &'a mut Pool,
        functions: &'a [hir::Function],
        function: &'a hir::Function,
        sources: &'a Sources,
    ) -> Lowering<'a> {
        Lowering {
            pool,
            functions,
            function,
            sources,
            facts: Facts::of(function),
            code: Builder::default(),
            registers: Registers::default(),
            locals: vec![0; function.locals.len()],
            in_scope: Vec::new(),
            exits: Vec::new(),
            result: None,
            windows: Vec::new(),
            place: None,
            pinned: Vec::new(),
            in_loop: false,
            limit: None,
            last_line: (function.span, sources.line_of(function.span)),
        }
    }

    /// Lowers the function.
    pub(super) fn function(mut self) -> Result<Function, Box<Diagnostic>> {
        let block = self.enter();
        for param in 0..self.function.signature.params.len() as u32 {
            let register = self.registers.temp();
            self.begin_local(LocalId(param), register);
        }
        self.line(self.function.span);
        self.stmts(&self.function.body);
        self.line(self.function.end);
        self.fall_off();
        self.leave(block);
        self.finish()
    }

    fn finish(self) -> Result<Function, Box<Diagnostic>> {
        let function = self.function;
        let registers = self.registers.most();
        if let Some(problem) = self.problem() {
            let message = format!("`{}` is too large: {problem}", function.name);
            return Err(Box::new(
                Diagnostic::error(function.span, message).hint("split it into several functions"),
            ));
        }
        let laid = lay_out(self.code);
        let locals = laid.variables.iter().map(|&(local, register, first, end)| {
            let variable = &function.locals[local as usize];
            Local { name: variable.name.clone(), ty: variable.ty, register, first, end }
        });
        Ok(Function {
            name: function.name.clone(),
            signature: function.signature.clone(),
            registers,
            handlers: laid.handlers,
            switches: laid.switches,
            file: function.span.file.0,
            lines: laid.lines,
            locals: locals.collect(),
            kind: function.kind,
            code: laid.code,
        })
    }

    fn problem(&self) -> Option<String> {
        if self.registers.most() > LIMIT {
            return Some(format!("it needs more than {LIMIT} registers"));
        }
        self.limit.map(|Limit::Index(what)| format!("it uses {what} beyond number 65,535"))
    }

    /// An index that an instruction keeps in 16 bits.
    pub(super) fn index16(&mut self, index: u32, what: &'static str) -> u16 {
        u16::try_from(index).unwrap_or_else(|_| {
            self.limit = Some(Limit::Index(what));
            0
        })
    }

    pub(super) fn type16(&mut self, ty: TypeId) -> u16 {
        self.index16(ty.0, "a type")
    }

    /// Sets the line of the instructions that follow to that of a span.
    pub(super) fn line(&mut self, span: Span) {
        if span.file != self.last_line.0.file || span.start != self.last_line.0.start {
            self.last_line = (span, self.sources.line_of(span));
        }
        self.code.set_line(self.last_line.1);
    }

    pub(super) fn ty(&self, id: TypeId) -> &Type {
        self.pool.types.get(id)
    }

    // Variables.

    pub(super) fn enter(&mut self) -> Block {
        Block { scope: self.registers.enter(), variables: self.in_scope.len() }
    }

    pub(super) fn leave(&mut self, block: Block) {
        for (local, first) in self.in_scope.drain(block.variables..).rev() {
            self.code.variable(local.0, self.locals[local.0 as usize], first);
        }
        self.registers.leave(block.scope);
    }

    /// The register of a variable in scope.
    pub(super) fn local(&self, local: LocalId) -> Reg {
        self.locals[local.0 as usize]
    }

    /// From here on the register, which holds its first value, is the variable's.
    pub(super) fn begin_local(&mut self, local: LocalId, register: Reg) {
        self.locals[local.0 as usize] = register;
        self.in_scope.push((local, self.code.position()));
    }

    /// A variable without a name in the source has its value in this register.
    pub(super) fn set_local(&mut self, local: LocalId, register: Reg) {
        self.locals[local.0 as usize] = register;
    }

    pub(super) fn local_type(&self, local: LocalId) -> TypeId {
        self.function.locals[local.0 as usize].ty
    }

    /// Whether a variable is the receiver of this method, which is never null.
    pub(super) fn is_this(&self, local: LocalId) -> bool {
        local.0 == 0 && self.function.kind != FunctionKind::Free
    }

    // Ends.

    /// The end of the body: returns the result type's zero value.
    fn fall_off(&mut self) {
        if !self.code.is_reachable() {
            return;
        }
        let ty = self.function.signature.result;
        if ty == known::VOID {
            return self.return_from(None);
        }
        if !self.has_outs() && !self.pool.types.is_reference(ty) {
            return self.code.ax(Op::ReturnInt, 0, 0);
        }
        let mark = self.registers.mark();
        let register = self.registers.temp();
        self.zero(ty, register);
        self.return_from(Some(register));
        self.registers.release(mark);
    }

    pub(super) fn has_outs(&self) -> bool {
        self.function.signature.params.iter().any(|param| param.out)
    }

    /// Returns a register's value, after the final values of outs were put into their places.
    pub(super) fn return_from(&mut self, result: Option<Reg>) {
        let mut moves: Vec<(Reg, Reg)> = Vec::new();
        if self.has_outs() {
            moves.extend(result.map(|register| (0, register)));
            let params = self.function.signature.params.iter().enumerate();
            let outs = params.filter(|(_, param)| param.out);
            moves.extend(outs.zip(1..).map(|((param, _), place)| (place, param as Reg)));
            for &(to, _) in &moves {
                self.registers.reserve(to, 1);
            }
        }
        let register = if moves.is_empty() { result } else { result.map(|_| 0) };
        self.move_all(moves);
        match register {
            Some(register) => self.code.abc(Op::Return, register, 0, 0),
            None => self.code.abc(Op::ReturnVoid, 0, 0, 0),
        }
    }

    /// Does several moves `(to, from)` as if at once.
    fn move_all(&mut self, mut moves: Vec<(Reg, Reg)>) {
        moves.retain(|(to, from)| to != from);
        while !moves.is_empty() {
            let free = moves.iter().position(|&(to, _)| moves.iter().all(|&(_, from)| from != to));
            match free {
                Some(at) => {
                    let (to, from) = moves.swap_remove(at);
                    self.code.copy(to, from);
                }
                None => {
                    // Every target is still to be read: a cycle. One value steps aside.
                    let aside = self.registers.temp();
                    let (_, from) = moves[0];
                    self.code.copy(aside, from);
                    for (_, source) in moves.iter_mut().filter(|(_, source)| *source == from) {
                        *source = aside;
                    }
                }
            }
        }
    }

    pub(super) fn new_label(&mut self) -> Label {
        self.code.label()
    }
}
