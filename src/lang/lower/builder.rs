//! Instructions of one function while it is being made: labels in place of distances.
//!
//! Code that no path reaches is not emitted at all: after an instruction that never goes on, the
//! builder swallows everything until a label is bound that something jumps to. Handlers, switch
//! tables and variables refer to instructions by their index here; [`layout`](super::layout) turns
//! all of it into a function's final form.

use crate::vm::op::{Code, Op, Operand, Place};
use crate::vm::types::TypeId;

/// A register.
pub(super) type Reg = u16;

/// A place in the code that can be jumped to before it is known where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(u32);

/// One instruction; the jump in it is not filled in yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inst {
    pub(super) code: Code,
    pub(super) target: Option<Label>,
    pub(super) line: u32,
}

/// A protected range, in indices of instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protected {
    pub(super) first: u32,
    pub(super) end: u32,
    pub(super) target: Label,
    pub(super) register: Reg,
    pub(super) ty: TypeId,
}

/// A table of targets.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) first: i64,
    pub(super) targets: Vec<Label>,
    pub(super) default: Label,
}

/// A variable and the instructions during which it lives.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) local: u32,
    pub(super) register: Reg,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) insts: Vec<Inst>,
    /// The index of the instruction behind each label; `None` while it is not bound.
    pub(super) labels: Vec<Option<u32>>,
    /// Labels that reachable code jumps to.
    used: Vec<bool>,
    pub(super) handlers: Vec<Protected>,
    pub(super) tables: Vec<Table>,
    pub(super) variables: Vec<Variable>,
    /// Whether nothing gets to the next instruction.
    dead: bool,
    /// The last index to which something jumps: what stands before must not be fused with what
    /// comes.
    barrier: u32,
    line: u32,
}

impl Builder {
    /// The source line of the instructions that follow.
    pub(super) fn set_line(&mut self, line: u32) {
        self.line = line;
    }

    /// The index of the next instruction.
    pub(super) fn position(&self) -> u32 {
        self.insts.len() as u32
    }

    /// Whether the next instruction can be reached.
    pub(super) fn is_reachable(&self) -> bool {
        !self.dead
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        self.used.push(false);
        Label(self.labels.len() as u32 - 1)
    }

    /// Puts a label that was jumped to, or will not be, before the next instruction.
    pub(super) fn bind(&mut self, label: Label) {
        self.place(label);
        if self.used[label.0 as usize] {
            self.dead = false;
            self.barrier = self.position();
        }
    }

    /// Puts the label of a loop's head, which only jumps from further down lead to, before the next
    /// instruction. `alive` says whether the loop is entered at all.
    pub(super) fn bind_head(&mut self, label: Label, alive: bool) {
        self.place(label);
        self.dead = !alive;
        self.barrier = self.position();
    }

    fn place(&mut self, label: Label) {
        let at = self.position();
        debug_assert!(self.labels[label.0 as usize].is_none(), "a label is bound once");
        self.labels[label.0 as usize] = Some(at);
    }

    /// An instruction without a jump.
    pub(super) fn emit(&mut self, code: Code) {
        let op = code.op().expect("the lowering makes operations of the list");
        if self.dead || (op == Op::Move && code.a() == code.b()) {
            return;
        }
        let code = self.joined_with_move(code).unwrap_or(code);
        self.insts.push(Inst { code, target: None, line: self.line });
        self.dead = op.ends();
    }

    /// Takes a move out of the code, if one instruction does it along with the next one.
    fn joined_with_move(&mut self, code: Code) -> Option<Code> {
        let first = self.last()?;
        let both = (first.op()?, code.op()?) == (Op::Move, Op::Move);
        if !both || code.a() != first.a().checked_add(1)? || code.b() == first.a() {
            return None;
        }
        self.insts.pop();
        Some(Code::abc(Op::Move2, first.a(), first.b(), code.b()))
    }

    /// The instruction before, if the next one always follows it.
    pub(super) fn last(&self) -> Option<Code> {
        match self.barrier == self.position() {
            true => None,
            false => self.insts.last().map(|inst| inst.code),
        }
    }

    pub(super) fn abc(&mut self, op: Op, a: Reg, b: u16, c: u16) {
        self.emit(Code::abc(op, a, b, c));
    }

    pub(super) fn ax(&mut self, op: Op, a: Reg, x: u32) {
        self.emit(Code::ax(op, a, x));
    }

    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.abc(Op::Move, to, from, 0);
    }

    /// A jump, forward or (`Loop…`) backward, without its distance.
    pub(super) fn jump(&mut self, code: Code, target: Label) {
        if self.dead {
            return;
        }
        let code = self.fused_with_step(code).unwrap_or(code);
        self.used[target.0 as usize] = true;
        self.insts.push(Inst { code, target: Some(target), line: self.line });
        self.dead = matches!(code.op(), Some(Op::Jump | Op::Loop));
    }

    /// Always goes to a label further down.
    pub(super) fn goto(&mut self, target: Label) {
        self.jump(Code::ax(Op::Jump, 0, 0), target);
    }

    /// Takes the step `register = register + 1` out of the code, if it stands before.
    pub(super) fn take_step(&mut self, register: Reg) -> bool {
        let step = Code::abc(Op::AddIntK, register, register, 1);
        let found = !self.dead && self.last() == Some(step);
        if found {
            self.insts.pop();
        }
        found
    }

    /// Takes the step of a counting loop out of the code, if the one back-edge does both.
    fn fused_with_step(&mut self, code: Code) -> Option<Code> {
        let step = self.last()?;
        if step.a() != step.b() || step.a() != code.a() {
            return None;
        }
        let k = step.c() as i16;
        let op = match (step.op()?, k, code.op()?) {
            (Op::AddIntK, 1, Op::LoopLtInt) => Op::LoopIncLtInt,
            (Op::AddIntK, 1, Op::LoopLeInt) => Op::LoopIncLeInt,
            (Op::AddIntK, 1, Op::LoopLtIntK) => Op::LoopIncLtIntK,
            (Op::AddIntK, 1, Op::LoopLeIntK) => Op::LoopIncLeIntK,
            (Op::AddIntK, -1, Op::LoopGeIntK) => Op::LoopDecGeIntK,
            (Op::AddIntK, -1, Op::LoopGtIntK) if code.b() as i16 != i16::MAX => {
                self.insts.pop();
                let bound = (code.b() as i16 + 1) as u16;
                return Some(Code::abc(Op::LoopDecGeIntK, code.a(), bound, 0));
            }
            (Op::AddLongK, 1, Op::LoopLtLong) => Op::LoopIncLtLong,
            (Op::AddLongK, 1, Op::LoopLtLongK) => Op::LoopIncLtLongK,
            _ => return None,
        };
        // The bound of `i < i` is the counter itself, before its step.
        let bound_is_register = op.operands()[1].0 == Operand::W;
        if bound_is_register && code.b() == code.a() {
            return None;
        }
        self.insts.pop();
        Some(Code::abc(op, code.a(), code.b(), 0))
    }

    /// A jump by a table; all targets will be bound further down.
    pub(super) fn switch(&mut self, value: Reg, table: Table) {
        if self.dead {
            return;
        }
        for &target in table.targets.iter().chain([&table.default]) {
            self.used[target.0 as usize] = true;
        }
        self.ax(Op::Switch, value, self.tables.len() as u32);
        self.tables.push(table);
    }

    /// Sends exceptions from `first` up to here to `target`. Handlers are given innermost first.
    pub(super) fn protect(
        &mut self,
        first: u32,
        end: u32,
        target: Label,
        register: Reg,
        ty: TypeId,
    ) {
        if first < end {
            self.used[target.0 as usize] = true;
            self.handlers.push(Protected { first, end, target, register, ty });
        }
    }

    /// Notes that a variable lived from `first` up to here.
    pub(super) fn variable(&mut self, local: u32, register: Reg, first: u32) {
        let end = self.position();
        if first < end {
            self.variables.push(Variable { local, register, first, end });
        }
    }

    /// The instruction behind a label.
    pub(super) fn target(&self, label: Label) -> u32 {
        self.labels[label.0 as usize].expect("every label that is jumped to is bound")
    }
}

/// The jump that is taken where this one is not.
pub(super) fn inverse(code: Code) -> Option<Code> {
    let (a, b) = (code.a(), code.b());
    let same = |op| Some(Code::abc(op, a, b, 0));
    let turned = |op| Some(Code::abc(op, b, a, 0));
    match code.op()? {
        Op::JumpIf => Some(Code::ax(Op::JumpIfNot, a, 0)),
        Op::JumpIfNot => Some(Code::ax(Op::JumpIf, a, 0)),
        Op::JumpNull => Some(Code::ax(Op::JumpNotNull, a, 0)),
        Op::JumpNotNull => Some(Code::ax(Op::JumpNull, a, 0)),
        Op::JumpEq => same(Op::JumpNe),
        Op::JumpNe => same(Op::JumpEq),
        Op::JumpEqRef => same(Op::JumpNeRef),
        Op::JumpNeRef => same(Op::JumpEqRef),
        Op::JumpLtInt => turned(Op::JumpLeInt),
        Op::JumpLeInt => turned(Op::JumpLtInt),
        Op::JumpLtLong => turned(Op::JumpLeLong),
        Op::JumpLeLong => turned(Op::JumpLtLong),
        Op::JumpLtUlong => turned(Op::JumpLeUlong),
        Op::JumpLeUlong => turned(Op::JumpLtUlong),
        Op::JumpEqDouble => same(Op::JumpNeDouble),
        Op::JumpNeDouble => same(Op::JumpEqDouble),
        Op::JumpLtDouble => same(Op::JumpNotLtDouble),
        Op::JumpNotLtDouble => same(Op::JumpLtDouble),
        Op::JumpLeDouble => same(Op::JumpNotLeDouble),
        Op::JumpNotLeDouble => same(Op::JumpLeDouble),
        Op::JumpEqIntK => same(Op::JumpNeIntK),
        Op::JumpNeIntK => same(Op::JumpEqIntK),
        Op::JumpLtIntK => same(Op::JumpGeIntK),
        Op::JumpGeIntK => same(Op::JumpLtIntK),
        Op::JumpLeIntK => same(Op::JumpGtIntK),
        Op::JumpGtIntK => same(Op::JumpLeIntK),
        Op::JumpEqLongK => same(Op::JumpNeLongK),
        Op::JumpNeLongK => same(Op::JumpEqLongK),
        Op::JumpLtLongK => same(Op::JumpGeLongK),
        Op::JumpGeLongK => same(Op::JumpLtLongK),
        Op::JumpLeLongK => same(Op::JumpGtLongK),
        Op::JumpGtLongK => same(Op::JumpLeLongK),
        _ => None,
    }
}

/// Each conditional back-edge beside the forward jump with the same condition.
const BACK_EDGES: [(Op, Op); 20] = [
    (Op::LoopIf, Op::JumpIf),
    (Op::LoopIfNot, Op::JumpIfNot),
    (Op::LoopNotNull, Op::JumpNotNull),
    (Op::LoopNe, Op::JumpNe),
    (Op::LoopNeIntK, Op::JumpNeIntK),
    (Op::LoopNeLongK, Op::JumpNeLongK),
    (Op::LoopLtInt, Op::JumpLtInt),
    (Op::LoopLeInt, Op::JumpLeInt),
    (Op::LoopLtIntK, Op::JumpLtIntK),
    (Op::LoopLeIntK, Op::JumpLeIntK),
    (Op::LoopGtIntK, Op::JumpGtIntK),
    (Op::LoopGeIntK, Op::JumpGeIntK),
    (Op::LoopLtLong, Op::JumpLtLong),
    (Op::LoopLeLong, Op::JumpLeLong),
    (Op::LoopLtLongK, Op::JumpLtLongK),
    (Op::LoopLeLongK, Op::JumpLeLongK),
    (Op::LoopGtLongK, Op::JumpGtLongK),
    (Op::LoopGeLongK, Op::JumpGeLongK),
    (Op::LoopLtDouble, Op::JumpLtDouble),
    (Op::LoopLeDouble, Op::JumpLeDouble),
];

/// The instruction with another operation.
fn with_op(code: Code, op: Op) -> Code {
    Code(code.0 & !0xffff | op as u64)
}

/// The back-edge with the condition of a forward jump, if there is one.
pub(super) fn back_edge(code: Code) -> Option<Code> {
    let op = code.op()?;
    let pair = BACK_EDGES.iter().find(|&&(_, forward)| forward == op)?;
    Some(with_op(code, pair.0))
}

/// Where an operation keeps its jump.
pub(super) fn jump_place(op: Op) -> Option<Place> {
    op.operands().iter().find(|(operand, _)| *operand == Operand::J).map(|&(_, place)| place)
}
