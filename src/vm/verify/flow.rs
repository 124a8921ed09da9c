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
use std::ops::Range;

use super::VerifyError;
use super::kind::{Kind, Kinds};
use super::rules::{Registers, Rules};
use crate::vm::module::{Function, Handler, Module};
use crate::vm::op::{Code, Op};

/// Registers that are remembered for one function, over all places: of 4 bytes each.
const MEMORY: usize = 1 << 25;

/// Work that may be spent on all functions of a module together: in proportion to its instructions,
/// with something to begin with. A unit is about a nanosecond: a register that is compared, an
/// instruction that is followed.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    /// Real programs take about 10 for each instruction.
    const EACH: u64 = 1 << 12;
    const LEAST: u64 = 1 << 22;
    const MOST: u64 = 1 << 28;

    /// For a module with so many instructions.
    pub(super) fn new(instructions: u64) -> Budget {
        let work = instructions.saturating_mul(Budget::EACH).saturating_add(Budget::LEAST);
        Budget(work.min(Budget::MOST))
    }

    /// For what was verified before.
    pub(super) fn unlimited() -> Budget {
        Budget(u64::MAX)
    }

    /// How much is left.
    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.0
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
    /// The function's handlers, by their first instructions.
    handlers: Vec<Handler>,
    near: Near,
}

/// Handlers on the way through a piece of code.
#[derive(Default)]
struct Near {
    /// Those that cover an instruction of the piece, by their first instructions.
    handlers: Vec<Handler>,
    /// How many of these begin at the instruction at hand or before.
    begun: usize,
    /// Those of them that have not ended.
    covering: Vec<Handler>,
}

impl Near {
    /// Goes on to an instruction.
    fn reach(&mut self, at: usize) {
        while let Some(&handler) = self.handlers.get(self.begun).filter(|h| h.first as usize <= at)
        {
            self.covering.push(handler);
            self.begun += 1;
        }
        self.covering.retain(|handler| at < handler.end as usize);
    }
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
        kinds: Kinds<'m>,
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
        let mut handlers = function.handlers.clone();
        handlers.sort_by_key(|handler| handler.first);
        let mut flow = Flow {
            rules,
            places,
            starts,
            reached,
            memory: MEMORY,
            queue,
            handlers,
            near: Near::default(),
        };
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
            self.come_near(place, budget).map_err(|what| (at, what))?;
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

    /// Looks which handlers cover an instruction between a place and the next.
    fn come_near(&mut self, place: usize, budget: &mut Budget) -> Result<(), String> {
        let start = self.starts[place];
        let end = self.starts.get(place + 1).map_or(self.places.len() as u32, |&next| next);
        let before = self.handlers.partition_point(|handler| handler.first < end);
        self.near.handlers.clear();
        self.near.handlers.extend(self.handlers[..before].iter().filter(|h| start < h.end));
        self.near.begun = 0;
        self.near.covering.clear();
        budget.spend(before + 1)
    }

    /// Goes through one instruction and tells whether the next one is reached.
    fn step(
        &mut self,
        at: usize,
        registers: &mut Registers,
        budget: &mut Budget,
    ) -> Result<bool, String> {
        let function = self.rules.function;
        let code = function.code[at];
        let op = code.op().expect("an operation: checked before");
        if !self.near.handlers.is_empty() {
            self.may_throw(at, code, op, registers, budget)?;
        }
        self.rules.apply(code, registers)?;
        budget.spend(1 + registers.take_work())?;
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
        self.near.reach(at);
        budget.spend(self.near.covering.len())?;
        for i in 0..self.near.covering.len() {
            let handler = self.near.covering[i];
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
        range: Range<usize>,
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
        let mut work = range.len() + 1;
        let mut risen = false;
        for (there, &here) in there[range.clone()].iter_mut().zip(&kinds[range]) {
            if *there != here {
                let joined = self.rules.kinds.join(*there, here, &mut work);
                risen |= joined != *there;
                *there = joined;
            }
        }
        budget.spend(work)?;
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

    /// Shows the registers before each instruction that is reached, in order of the code, and which of
    /// them may be others than the last time.
    pub(super) fn visit(&self, mut see: impl FnMut(usize, &[Kind], Range<usize>)) {
        let mut registers = self.rules.entry();
        for (place, &start) in self.starts.iter().enumerate() {
            let Some(there) = &self.reached[place] else { continue };
            registers.kinds.copy_from_slice(there);
            registers.soil();
            let mut at = start as usize;
            loop {
                see(at, &registers.kinds, registers.written());
                registers.clean();
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
