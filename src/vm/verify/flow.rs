//! What every register holds before every instruction of a function, by data flow to a fixed point.
//!
//! Registers are remembered where ways meet: at the entry, the targets of jumps, switches and
//! handlers. Between two such places they follow from the instructions. A place is gone through again
//! whenever what it remembers has risen, in order of the code; kinds only rise, and the height above
//! a kind is bounded by the depth of classes, so this ends. In the code of a compiler it does after
//! two or three rounds; a budget of work stops what was made to take long.
//!
//! An exception can come from any instruction of a handler's range, with the registers as they were
//! before it, except that a call has lost its window.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::VerifyError;
use super::kind::{Kind, Kinds};
use super::rules::{Registers, Rules};
use crate::vm::module::{Function, Module};
use crate::vm::op::{Code, Op};

/// Registers that are remembered for one function, over all places: of 4 bytes each.
const MEMORY: usize = 1 << 25;

/// Work that may be spent on all functions of a module together: about half a second.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(1 << 28)
    }

    /// A budget that is soon used up.
    #[cfg(test)]
    pub(super) fn small() -> Budget {
        Budget(1 << 20)
    }

    fn spend(&mut self, work: usize) -> Result<(), String> {
        self.0 = self.0.checked_sub(work as u64).ok_or("the module is too intricate to verify")?;
        Ok(())
    }
}

/// The fixed point for one function.
pub(super) struct Flow<'m> {
    rules: Rules<'m>,
    /// For each instruction 0, or 1 more than the place's index.
    places: Vec<u32>,
    /// For each place its instruction.
    starts: Vec<u32>,
    /// For each place that was reached, the registers there.
    reached: Vec<Option<Box<[Kind]>>>,
    /// How many registers may still be remembered.
    memory: usize,
    queue: Queue,
}

/// Places to go through, lowest first.
#[derive(Default)]
struct Queue {
    heap: BinaryHeap<Reverse<u32>>,
    waiting: Vec<bool>,
}

impl Queue {
    fn push(&mut self, place: usize) {
        if !std::mem::replace(&mut self.waiting[place], true) {
            self.heap.push(Reverse(place as u32));
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let Reverse(place) = self.heap.pop()?;
        self.waiting[place as usize] = false;
        Some(place as usize)
    }
}

impl<'m> Flow<'m> {
    /// Follows a function whose instructions have been checked one by one.
    pub(super) fn of(
        module: &'m Module,
        kinds: &'m Kinds<'m>,
        index: usize,
        budget: &mut Budget,
    ) -> Result<Flow<'m>, VerifyError> {
        let function = &module.functions[index];
        let places = find_places(function);
        let starts: Vec<u32> =
            (0..places.len() as u32).filter(|&at| places[at as usize] != 0).collect();
        let queue = Queue { heap: BinaryHeap::new(), waiting: vec![false; starts.len()] };
        let reached = vec![None; starts.len()];
        let rules = Rules { module, kinds, function };
        let mut flow = Flow { rules, places, starts, reached, memory: MEMORY, queue };
        flow.solve(budget)
            .map_err(|(at, what)| VerifyError::instruction(module, index, at, what))?;
        Ok(flow)
    }

    fn solve(&mut self, budget: &mut Budget) -> Result<(), (usize, String)> {
        let mut registers = self.rules.entry();
        let width = registers.kinds.len();
        self.arrive(0, &registers.kinds, 0..width, budget).map_err(|what| (0, what))?;
        while let Some(place) = self.queue.pop() {
            registers.kinds.copy_from_slice(self.at(place));
            registers.soil();
            let mut at = self.starts[place] as usize;
            loop {
                let goes_on = self.step(at, &mut registers, budget).map_err(|what| (at, what))?;
                at += 1;
                if !goes_on {
                    break;
                }
                if self.places[at] != 0 {
                    self.arrive(at, &registers.kinds, 0..width, budget)
                        .map_err(|what| (at - 1, what))?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn at(&self, place: usize) -> &[Kind] {
        self.reached[place].as_deref().unwrap_or_default()
    }

    /// Goes through one instruction and tells whether the next one is reached.
    fn step(
        &mut self,
        at: usize,
        registers: &mut Registers,
        budget: &mut Budget,
    ) -> Result<bool, String> {
        budget.spend(1)?;
        let function = self.rules.function;
        let code = function.code[at];
        let op = code.op().expect("an operation: checked before");
        if !function.handlers.is_empty() {
            self.may_throw(at, code, op, registers, budget)?;
        }
        self.rules.apply(code, registers)?;
        let all = 0..registers.kinds.len();
        if op == Op::Switch {
            let switch = &function.switches[code.x() as usize];
            self.arrive(switch.default as usize, &registers.kinds, all.clone(), budget)?;
            for &target in &switch.targets {
                budget.spend(1)?;
                if self.places[target as usize] != 0 {
                    self.arrive(target as usize, &registers.kinds, all.clone(), budget)?;
                }
            }
        } else if let Some(target) = code.jump_target(at) {
            self.arrive(target, &registers.kinds, all, budget)?;
        }
        Ok(!op.ends())
    }

    /// Brings the registers to the handlers of an instruction.
    fn may_throw(
        &mut self,
        at: usize,
        code: Code,
        op: Op,
        registers: &mut Registers,
        budget: &mut Budget,
    ) -> Result<(), String> {
        let rules = &self.rules;
        let covers = |first: u32, end: u32| (first as usize..end as usize).contains(&at);
        budget.spend(rules.function.handlers.len())?;
        for i in 0..self.rules.function.handlers.len() {
            let handler = self.rules.function.handlers[i];
            if !covers(handler.first, handler.end) {
                continue;
            }
            let target = handler.target as usize;
            let register = usize::from(handler.register);
            // At the first instruction of a range everything is new to the handler.
            let written = if at == handler.first as usize {
                0..registers.kinds.len()
            } else {
                registers.written()
            };
            let held =
                std::mem::replace(&mut registers.kinds[register], Kind::reference(handler.ty));
            let written = written.start.min(register)..written.end.max(register + 1);
            self.arrive(target, &registers.kinds, written, budget)?;
            registers.kinds[register] = held;
            if is_call(op) {
                self.lose(target, usize::from(code.a()) - 1, register, budget)?;
            }
        }
        registers.clean();
        Ok(())
    }

    /// Joins some registers into what a place remembers.
    fn arrive(
        &mut self,
        at: usize,
        kinds: &[Kind],
        range: std::ops::Range<usize>,
        budget: &mut Budget,
    ) -> Result<(), String> {
        let place = self.places[at] as usize - 1;
        let Some(there) = &mut self.reached[place] else {
            budget.spend(kinds.len() + 1)?;
            let left = self.memory.checked_sub(kinds.len() + 1);
            self.memory = left.ok_or("the function is too large to verify")?;
            self.reached[place] = Some(kinds.into());
            self.queue.push(place);
            return Ok(());
        };
        budget.spend(range.len() + 1)?;
        let mut risen = false;
        for (there, &here) in there[range.clone()].iter_mut().zip(&kinds[range]) {
            if *there != here {
                let joined = self.rules.kinds.join(*there, here);
                risen |= joined != *there;
                *there = joined;
            }
        }
        if risen {
            self.queue.push(place);
        }
        Ok(())
    }

    /// A place finds nothing in the registers of a call's window, but for the exception.
    fn lose(
        &mut self,
        at: usize,
        first: usize,
        but: usize,
        budget: &mut Budget,
    ) -> Result<(), String> {
        let place = self.places[at] as usize - 1;
        let Some(there) = &mut self.reached[place] else { return Ok(()) };
        budget.spend(there.len() - first)?;
        let mut risen = false;
        for (register, kind) in there.iter_mut().enumerate().skip(first) {
            if register != but && *kind != Kind::UNREADABLE {
                *kind = Kind::UNREADABLE;
                risen = true;
            }
        }
        if risen {
            self.queue.push(place);
        }
        Ok(())
    }

    /// Shows the registers before each instruction that is reached, in order of the code.
    pub(super) fn visit(&self, mut see: impl FnMut(usize, &[Kind])) {
        let mut registers = self.rules.entry();
        for (place, &start) in self.starts.iter().enumerate() {
            let Some(there) = &self.reached[place] else { continue };
            registers.kinds.copy_from_slice(there);
            let mut at = start as usize;
            loop {
                see(at, &registers.kinds);
                let code = self.rules.function.code[at];
                self.rules.apply(code, &mut registers).expect("what was verified");
                at += 1;
                if code.op().is_none_or(Op::ends) || self.places[at] != 0 {
                    break;
                }
            }
        }
    }
}

pub(super) fn is_call(op: Op) -> bool {
    matches!(
        op,
        Op::Call
            | Op::CallMethod
            | Op::CallVirtual
            | Op::CallInterface
            | Op::CallFunc
            | Op::CallNative
    )
}

/// Numbers the instructions at which ways meet, in order of the code.
fn find_places(function: &Function) -> Vec<u32> {
    let mut places = vec![0; function.code.len()];
    places[0] = 1;
    for (at, code) in function.code.iter().enumerate() {
        if let Some(target) = code.jump_target(at) {
            places[target] = 1;
        }
    }
    for switch in &function.switches {
        places[switch.default as usize] = 1;
        for &target in &switch.targets {
            places[target as usize] = 1;
        }
    }
    for handler in &function.handlers {
        places[handler.target as usize] = 1;
    }
    let mut count = 0;
    for place in places.iter_mut().filter(|place| **place != 0) {
        count += 1;
        *place = count;
    }
    places
}
