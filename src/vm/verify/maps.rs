//! Pointer maps: which registers hold references before an instruction.
//!
//! A register is in the map if the data flow says that it holds a reference and if the value may
//! still be read: the collector need not keep what no instruction will look at. What an instruction
//! reads itself is alive before it, so an instruction that is executed again after a collection finds
//! it.
//!
//! For debuggers a local variable is alive as long as it is in scope.

use std::ops::Range;

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
    pub(super) fn of(module: &Module, kinds: Kinds<'_>, index: usize, locals: bool) -> Maps {
        let flow = Flow::of(module, kinds, index, &mut Budget::unlimited());
        let flow = flow.expect("what was verified");
        let function = &module.functions[index];
        let words = (function.registers as usize).div_ceil(64).max(1);
        let mut rows = Liveness::new(module, function, words).solve();
        if locals {
            keep_locals(function, &mut rows, words);
        }
        let mut reached = vec![false; function.code.len()];
        let mut holds = vec![0; words];
        flow.visit(|at, kinds, changed| {
            reached[at] = true;
            let changed = changed.start / 64..changed.end.div_ceil(64);
            for (word, kinds) in
                holds[changed.clone()].iter_mut().zip(kinds.chunks(64).skip(changed.start))
            {
                *word = references(kinds);
            }
            let row = &mut rows[at * words..][..words];
            row.iter_mut().zip(&holds).for_each(|(alive, holds)| *alive &= holds);
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

/// Calls `change` with the words that have bits of registers in a range, and those bits.
fn each_word(row: &mut [u64], range: Range<usize>, change: impl Fn(&mut u64, u64)) {
    if range.is_empty() {
        return;
    }
    let (first, last) = (range.start / 64, (range.end - 1) / 64);
    for (i, word) in row[first..=last].iter_mut().enumerate() {
        let from = if i == 0 { u64::MAX << (range.start % 64) } else { u64::MAX };
        let to = if first + i == last { u64::MAX >> (63 - (range.end - 1) % 64) } else { u64::MAX };
        change(word, from & to);
    }
}

/// Ranges of instructions, met on the way from the last instruction to the first.
struct Ranges {
    /// First instruction and index of each range, the last first.
    firsts: Vec<(u32, u32)>,
    /// The same of their ends.
    ends: Vec<(u32, u32)>,
    left: usize,
    entered: usize,
}

impl Ranges {
    /// Of ranges by first instruction and end.
    fn new(ranges: impl Iterator<Item = (u32, u32)>) -> Ranges {
        let ranges = ranges.zip(0..).filter(|((first, end), _)| first < end);
        let (mut firsts, mut ends): (Vec<_>, Vec<_>) =
            ranges.map(|((first, end), i)| ((first, i), (end, i))).unzip();
        for list in [&mut firsts, &mut ends] {
            list.sort_unstable_by(|a, b| b.cmp(a));
        }
        Ranges { firsts, ends, left: 0, entered: 0 }
    }

    /// Begins behind the last instruction again.
    fn restart(&mut self) {
        (self.left, self.entered) = (0, 0);
    }

    /// Goes on to an instruction. Tells of each range whether it is entered or left, and at last
    /// whether there was one.
    fn reach(&mut self, at: u32, mut change: impl FnMut(usize, bool)) -> bool {
        let before = (self.left, self.entered);
        while let Some(&(_, i)) = self.ends.get(self.entered).filter(|(end, _)| *end > at) {
            change(i as usize, true);
            self.entered += 1;
        }
        while let Some(&(_, i)) = self.firsts.get(self.left).filter(|(first, _)| *first > at) {
            change(i as usize, false);
            self.left += 1;
        }
        before != (self.left, self.entered)
    }
}

/// Takes local variables as alive where they are in scope.
fn keep_locals(function: &Function, rows: &mut [u64], words: usize) {
    let mut ranges = Ranges::new(function.locals.iter().map(|local| (local.first, local.end)));
    let mut counts = vec![0u32; function.registers as usize];
    let mut scope = vec![0; words];
    for (at, row) in rows.chunks_exact_mut(words).enumerate().rev() {
        ranges.reach(at as u32, |local, enters| {
            let register = usize::from(function.locals[local].register);
            let count = &mut counts[register];
            *count = if enters { *count + 1 } else { *count - 1 };
            if *count > 0 { put(&mut scope, register) } else { take(&mut scope, register) }
        });
        row.iter_mut().zip(&scope).for_each(|(alive, scope)| *alive |= scope);
    }
}

/// Handlers that cover an instruction, by their indices.
struct Covering {
    handlers: Vec<u32>,
    /// Where each handler is in the list.
    places: Vec<u32>,
}

impl Covering {
    fn new(count: usize) -> Covering {
        Covering { handlers: Vec::new(), places: vec![0; count] }
    }

    fn change(&mut self, handler: usize, enters: bool) {
        if enters {
            self.places[handler] = self.handlers.len() as u32;
            self.handlers.push(handler as u32);
            return;
        }
        let place = self.places[handler] as usize;
        self.handlers.swap_remove(place);
        if let Some(&moved) = self.handlers.get(place) {
            self.places[moved as usize] = place as u32;
        }
    }
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
    /// What its handlers read.
    caught: Vec<u64>,
    /// How many registers a return reads, besides the result.
    outs: usize,
    /// Words of rows that were gone through.
    work: usize,
}

impl<'m> Liveness<'m> {
    /// Rounds through the code: one more than loops are nested suffices. Where that is not enough,
    /// everything is taken as alive, which only keeps garbage.
    const ROUNDS: usize = 16;
    /// The same if more words are gone through for an instruction: there are very many registers,
    /// handlers or targets of switches.
    const EACH: usize = 1 << 12;

    fn new(module: &'m Module, function: &'m Function, words: usize) -> Liveness<'m> {
        let rows = vec![0; words * function.code.len()];
        let (row, caught) = (vec![0; words], vec![0; words]);
        let outs = outs(&function.signature);
        Liveness { module, function, words, rows, row, caught, outs, work: 0 }
    }

    fn solve(mut self) -> Vec<u64> {
        if !self.settle() {
            self.rows.fill(u64::MAX);
        }
        self.rows
    }

    /// Whether there is a fixed point in the time that is allowed.
    fn settle(&mut self) -> bool {
        let Function { code, handlers, .. } = self.function;
        let mut ranges = Ranges::new(handlers.iter().map(|h| (h.first, h.end)));
        for _ in 0..Liveness::ROUNDS {
            ranges.restart();
            let mut covering = Covering::new(handlers.len());
            self.caught.fill(0);
            let mut risen = false;
            for at in (0..code.len()).rev() {
                // Handlers stand behind what they cover, so what they read is known by now.
                if ranges.reach(at as u32, |handler, enters| covering.change(handler, enters)) {
                    self.catch(&covering);
                }
                self.before(at);
                let there = &mut self.rows[at * self.words..][..self.words];
                for (there, here) in there.iter_mut().zip(&self.row) {
                    risen |= *there | here != *there;
                    *there |= here;
                }
                if self.work > code.len() * Liveness::EACH {
                    return false;
                }
            }
            if !risen {
                return true;
            }
        }
        false
    }

    /// Puts what the handlers of an instruction read into `caught`.
    fn catch(&mut self, covering: &Covering) {
        self.caught.fill(0);
        for &handler in &covering.handlers {
            let handler = self.function.handlers[handler as usize];
            let register = usize::from(handler.register);
            let read = self.caught[register / 64] >> (register % 64) & 1 != 0;
            join(&mut self.caught, &self.rows, handler.target as usize);
            if !read {
                take(&mut self.caught, register);
            }
        }
        self.work += covering.handlers.len() * self.words;
    }

    /// Puts what is alive before an instruction into `row`.
    fn before(&mut self, at: usize) {
        let function = self.function;
        let code = function.code[at];
        let op = code.op().expect("a verified operation");
        self.row.fill(0);
        if !op.ends() {
            join(&mut self.row, &self.rows, at + 1);
        }
        if op == Op::Switch {
            let switch = &function.switches[code.x() as usize];
            join(&mut self.row, &self.rows, switch.default as usize);
            for &target in &switch.targets {
                join(&mut self.row, &self.rows, target as usize);
            }
            self.work += switch.targets.len() * self.words;
        } else if let Some(target) = code.jump_target(at) {
            join(&mut self.row, &self.rows, target);
        }
        self.writes(code, op);
        join(&mut self.row, &self.caught, 0);
        self.reads(code, op);
        self.work += self.words;
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
            let lost = usize::from(code.a()) - 1..self.function.registers as usize;
            each_word(&mut self.row, lost, |word, bits| *word &= !bits);
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
            Op::Return | Op::ReturnInt | Op::ReturnVoid => 1..1 + self.outs,
            _ => 0..0,
        };
        each_word(&mut self.row, range, |word, bits| *word |= bits);
    }
}

/// Adds the row of an instruction to another.
fn join(row: &mut [u64], rows: &[u64], at: usize) {
    let there = &rows[at * row.len()..][..row.len()];
    row.iter_mut().zip(there).for_each(|(here, there)| *here |= there);
}

/// How many words of rows are gone through for the maps of a function.
#[cfg(test)]
pub(super) fn liveness_work(module: &Module, index: usize) -> usize {
    let function = &module.functions[index];
    let words = (function.registers as usize).div_ceil(64).max(1);
    let mut liveness = Liveness::new(module, function, words);
    liveness.settle();
    liveness.work
}
