//! Pointer maps: which registers hold references before an instruction.
//!
//! A register is in the map if the data flow says that it holds a reference and if the value may
//! still be read: the collector need not keep what no instruction will look at. What an instruction
//! reads itself is alive before it, so an instruction that is executed again after a collection finds
//! it.
//!
//! For debuggers a local variable is alive as long as it is in scope.

use super::Budget;
use super::code::outs;
use super::flow::{Flow, is_call};
use super::kind::{Kind, Kinds};
use crate::vm::module::{Function, Module};
use crate::vm::op::{Code, Op, Operand};

/// The maps of all instructions of one function.
#[derive(Debug)]
pub(crate) struct Maps {
    /// Words of a map.
    words: usize,
    /// The instructions from which on another map holds than before, ascending; the first is 0.
    firsts: Box<[u32]>,
    /// The maps, one after the other.
    bits: Box<[u64]>,
}

impl Maps {
    /// Which registers hold references before an instruction: bit `i % 64` of word `i / 64` is for
    /// register `i`.
    ///
    /// # Panics
    ///
    /// If the function has no instruction.
    pub(crate) fn references(&self, instruction: usize) -> &[u64] {
        let place = self.firsts.partition_point(|&first| first as usize <= instruction) - 1;
        &self.bits[place * self.words..][..self.words]
    }

    /// The maps of a verified function.
    pub(super) fn of(module: &Module, index: usize, locals: bool) -> Maps {
        let kinds = Kinds::new(&module.types);
        let flow = Flow::of(module, &kinds, index, &mut Budget::new()).expect("what was verified");
        let function = &module.functions[index];
        let words = (function.registers as usize).div_ceil(64).max(1);
        let mut rows = Liveness::new(module, function, words).solve();
        if locals {
            for local in &function.locals {
                for at in local.first..local.end {
                    put(&mut rows[at as usize * words..], local.register.into());
                }
            }
        }
        let mut reached = vec![false; function.code.len()];
        flow.visit(|at, kinds| {
            reached[at] = true;
            let row = &mut rows[at * words..][..words];
            for (word, kinds) in row.iter_mut().zip(kinds.chunks(64)) {
                *word &= references(kinds);
            }
        });
        let (mut firsts, mut bits) = (Vec::new(), Vec::<u64>::new());
        for (at, row) in rows.chunks_exact(words).enumerate() {
            // What is never reached needs no map: the one before goes on.
            let last = bits.len().checked_sub(words).map(|start| &bits[start..]);
            if last.is_some_and(|last| last == row || !reached[at]) {
                continue;
            }
            firsts.push(at as u32);
            bits.extend_from_slice(row);
        }
        Maps { words, firsts: firsts.into(), bits: bits.into() }
    }
}

fn references(kinds: &[Kind]) -> u64 {
    let mut word = 0;
    for (i, kind) in kinds.iter().enumerate() {
        word |= u64::from(kind.is_reference()) << i;
    }
    word
}

fn put(row: &mut [u64], register: usize) {
    row[register / 64] |= 1 << (register % 64);
}

fn take(row: &mut [u64], register: usize) {
    row[register / 64] &= !(1 << (register % 64));
}

/// Which registers may still be read, backward to a fixed point.
struct Liveness<'m> {
    module: &'m Module,
    function: &'m Function,
    words: usize,
    /// For each instruction the registers alive before it.
    rows: Vec<u64>,
    /// What is alive before the instruction at hand.
    row: Vec<u64>,
}

impl<'m> Liveness<'m> {
    /// Rounds through the code: one more than loops are nested suffices. Where that is not enough,
    /// everything is taken as alive, which only keeps garbage.
    const ROUNDS: usize = 16;
    /// The same for code with very many handlers or targets of switches.
    const WORK: usize = 1 << 26;

    fn new(module: &'m Module, function: &'m Function, words: usize) -> Liveness<'m> {
        let rows = vec![0; words * function.code.len()];
        Liveness { module, function, words, rows, row: vec![0; words] }
    }

    fn solve(mut self) -> Vec<u64> {
        let (len, handlers) = (self.function.code.len(), self.function.handlers.len());
        let mut work = 0;
        for _ in 0..Liveness::ROUNDS {
            work += len * (handlers + self.words);
            let mut risen = false;
            for at in (0..len).rev() {
                if work > Liveness::WORK {
                    break;
                }
                work += self.before(at);
                let there = &mut self.rows[at * self.words..][..self.words];
                for (there, here) in there.iter_mut().zip(&self.row) {
                    risen |= *there | here != *there;
                    *there |= here;
                }
            }
            if work > Liveness::WORK {
                break;
            }
            if !risen {
                return self.rows;
            }
        }
        self.rows.fill(u64::MAX);
        self.rows
    }

    /// Puts what is alive before an instruction into `row`. Returns the work of a switch.
    fn before(&mut self, at: usize) -> usize {
        let function = self.function;
        let code = function.code[at];
        let op = code.op().expect("a verified operation");
        let mut work = 0;
        self.row.fill(0);
        if !op.ends() {
            self.join(at + 1);
        }
        if op == Op::Switch {
            let switch = &function.switches[code.x() as usize];
            self.join(switch.default as usize);
            switch.targets.iter().for_each(|&target| self.join(target as usize));
            work = switch.targets.len() * self.words;
        } else if let Some(target) = code.jump_target(at) {
            self.join(target);
        }
        self.writes(code, op);
        for handler in &function.handlers {
            if (handler.first as usize..handler.end as usize).contains(&at) {
                let register = usize::from(handler.register);
                let alive = self.row[register / 64] >> (register % 64) & 1 != 0;
                self.join(handler.target as usize);
                if !alive {
                    take(&mut self.row, register);
                }
            }
        }
        self.reads(code, op);
        work
    }

    fn join(&mut self, at: usize) {
        let there = &self.rows[at * self.words..][..self.words];
        self.row.iter_mut().zip(there).for_each(|(here, there)| *here |= there);
    }

    fn writes(&mut self, code: Code, op: Op) {
        for &(operand, place) in op.operands() {
            if matches!(operand, Operand::DW | Operand::DR | Operand::DS) {
                take(&mut self.row, code.field(place) as usize);
            }
        }
        if op == Op::Move2 {
            take(&mut self.row, usize::from(code.a()) + 1);
        }
        if is_call(op) {
            for register in usize::from(code.a()) - 1..self.function.registers as usize {
                take(&mut self.row, register);
            }
        }
    }

    fn reads(&mut self, code: Code, op: Op) {
        for &(operand, place) in op.operands() {
            if matches!(operand, Operand::W | Operand::R | Operand::S) {
                put(&mut self.row, code.field(place) as usize);
            }
        }
        let registers = self.function.registers as usize;
        let a = usize::from(code.a());
        let module = self.module;
        let range = match op {
            Op::ConcatMany => usize::from(code.b())..usize::from(code.b()) + usize::from(code.c()),
            Op::Call | Op::CallMethod => {
                a..a + module.functions[code.x() as usize].signature.params.len()
            }
            Op::CallInterface => {
                let selector = &module.types.selectors[code.x() as usize];
                a..a + 1 + selector.signature.params.len()
            }
            Op::CallNative => a..a + module.natives[code.x() as usize].signature.params.len(),
            // How many arguments there are depends on the receiver: all that could be some.
            Op::CallVirtual | Op::CallFunc => a..registers,
            Op::Return | Op::ReturnInt | Op::ReturnVoid => 1..1 + outs(&self.function.signature),
            _ => 0..0,
        };
        range.for_each(|register| put(&mut self.row, register));
    }
}
