//! From labelled instructions to a function's code: jumps threaded, dead code dropped, distances
//! filled in.
//!
//! The cleanup works on the list as it is, marking instructions as gone; indices into the list stay
//! good until the very end. Then each instruction gets its size (a jump that 16 bits cannot span
//! takes two instructions or three), its address, and its distance.

use std::collections::HashSet;

use super::builder::{Builder, Inst, inverse, jump_place};
use crate::vm::module::{Handler, Switch};
use crate::vm::op::{Code, Op, Place};

/// What a function's code consists of. Variables keep the index of their `LocalId`.
#[derive(Debug)]
pub(super) struct Laid {
    pub(super) code: Vec<Code>,
    pub(super) lines: Vec<(u32, u32)>,
    pub(super) handlers: Vec<Handler>,
    pub(super) switches: Vec<Switch>,
    /// Variables as `(local, register, first, end)`.
    pub(super) variables: Vec<(u32, u16, u32, u32)>,
}

struct Node {
    code: Code,
    /// The index of the instruction it jumps to.
    target: Option<u32>,
    line: u32,
    alive: bool,
}

struct Layout {
    nodes: Vec<Node>,
    builder: Builder,
    /// Targets of each switch table, the default last.
    tables: Vec<Vec<u32>>,
}

/// Finishes a function.
pub(super) fn lay_out(mut builder: Builder) -> Laid {
    let insts = std::mem::take(&mut builder.insts);
    let node = |inst: &Inst| Node {
        code: inst.code,
        target: inst.target.map(|label| builder.target(label)),
        line: inst.line,
        alive: true,
    };
    let nodes = insts.iter().map(node).collect();
    let tables = builder.tables.iter();
    let tables = tables
        .map(|table| {
            let labels = table.targets.iter().chain([&table.default]);
            labels.map(|&label| builder.target(label)).collect()
        })
        .collect();
    let mut layout = Layout { nodes, builder, tables };
    // Each round enables less than the one before; what remains after a few is not worth more.
    for _ in 0..4 {
        let threaded = layout.thread();
        let dropped = layout.drop_unreachable();
        let inverted = layout.invert_around_jumps();
        let removed = layout.drop_jumps_to_next();
        if !(threaded || dropped || inverted || removed) {
            break;
        }
    }
    layout.finish()
}

impl Layout {
    /// The first instruction at or behind an index that is still there.
    fn settle(&self, mut at: u32) -> u32 {
        while self.nodes.get(at as usize).is_some_and(|node| !node.alive) {
            at += 1;
        }
        at
    }

    fn op(&self, at: u32) -> Option<Op> {
        self.nodes.get(at as usize).and_then(|node| node.code.op())
    }

    /// Where a jump to an instruction ends up, through unconditional jumps.
    fn follow(&self, target: u32) -> u32 {
        let mut at = self.settle(target);
        while self.op(at) == Some(Op::Jump) {
            let next = self.nodes[at as usize].target.expect("a jump has a target");
            at = self.settle(next);
        }
        at
    }

    /// Sends jumps to jumps to where they end, and puts a return in place of a jump to it.
    fn thread(&mut self) -> bool {
        let mut changed = false;
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let (Some(target), true) = (node.target, node.alive) else { continue };
            let op = node.code.op().expect("operations of the list");
            if op.is_loop() {
                continue;
            }
            let end = self.follow(target);
            if end != target {
                self.nodes[at].target = Some(end);
                changed = true;
            }
            if op != Op::Jump {
                continue;
            }
            let Some(last) = self.nodes.get(end as usize) else { continue };
            let (code, line, onward) = (last.code, last.line, last.target);
            match code.op() {
                Some(Op::Return | Op::ReturnInt | Op::ReturnVoid) => {
                    self.nodes[at] = Node { code, target: None, line, alive: true };
                    changed = true;
                }
                Some(Op::Loop) if onward.is_some_and(|head| head as usize <= at) => {
                    self.nodes[at].code = code;
                    self.nodes[at].target = onward;
                    changed = true;
                }
                _ => {}
            }
        }
        for table in 0..self.tables.len() {
            for i in 0..self.tables[table].len() {
                let end = self.follow(self.tables[table][i]);
                changed |= end != self.tables[table][i];
                self.tables[table][i] = end;
            }
        }
        changed
    }

    /// Marks what no path from the entry reaches as gone.
    fn drop_unreachable(&mut self) -> bool {
        let mut reached = vec![false; self.nodes.len()];
        let mut work = vec![self.settle(0)];
        let mut caught = vec![false; self.builder.handlers.len()];
        loop {
            while let Some(at) = work.pop() {
                let at = self.settle(at);
                let Some(seen) = reached.get_mut(at as usize) else { continue };
                if std::mem::replace(seen, true) {
                    continue;
                }
                let node = &self.nodes[at as usize];
                work.extend(node.target);
                let op = node.code.op().expect("operations of the list");
                if op == Op::Switch {
                    work.extend(&self.tables[node.code.x() as usize]);
                }
                if !op.ends() {
                    work.push(at + 1);
                }
            }
            for (i, handler) in self.builder.handlers.iter().enumerate() {
                let range = handler.first as usize..handler.end as usize;
                if !caught[i] && reached[range].contains(&true) {
                    caught[i] = true;
                    work.push(self.builder.target(handler.target));
                }
            }
            if work.is_empty() {
                break;
            }
        }
        let mut changed = false;
        for (node, reached) in self.nodes.iter_mut().zip(reached) {
            changed |= node.alive && !reached;
            node.alive &= reached;
        }
        changed
    }

    /// Turns `if c goto x; goto y; x:` into `if not c goto y; x:`.
    fn invert_around_jumps(&mut self) -> bool {
        let mut jumped_to: HashSet<u32> = HashSet::new();
        jumped_to.extend(self.nodes.iter().filter(|n| n.alive).filter_map(|n| n.target));
        jumped_to.extend(self.tables.iter().flatten());
        jumped_to.extend(self.builder.handlers.iter().map(|h| self.builder.target(h.target)));
        let jumped_to: HashSet<u32> = jumped_to.into_iter().map(|at| self.settle(at)).collect();
        let mut changed = false;
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let (true, Some(target)) = (node.alive, node.target) else { continue };
            let Some(inverted) = inverse(node.code) else { continue };
            let next = self.settle(at as u32 + 1);
            if self.op(next) != Some(Op::Jump)
                || jumped_to.contains(&next)
                || self.settle(target) != self.settle(next + 1)
            {
                continue;
            }
            self.nodes[at].code = inverted;
            self.nodes[at].target = self.nodes[next as usize].target;
            self.nodes[next as usize].alive = false;
            changed = true;
        }
        changed
    }

    /// Drops jumps to the next instruction.
    fn drop_jumps_to_next(&mut self) -> bool {
        let mut changed = false;
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            let (true, Some(target)) = (node.alive, node.target) else { continue };
            let op = node.code.op().expect("operations of the list");
            if !op.is_loop() && self.settle(target) == self.settle(at as u32 + 1) {
                self.nodes[at].alive = false;
                changed = true;
            }
        }
        changed
    }

    /// Addresses of all instructions, with those of `long` in their long form; one more for the end.
    fn addresses(&self, long: &[bool]) -> Vec<u32> {
        let mut address = 0;
        let mut addresses = Vec::with_capacity(self.nodes.len() + 1);
        for (node, &long) in self.nodes.iter().zip(long) {
            addresses.push(address);
            if node.alive {
                address += match long {
                    false => 1,
                    true => long_form(node.code).codes.len() as u32,
                };
            }
        }
        addresses.push(address);
        addresses
    }

    fn finish(self) -> Laid {
        let mut long = vec![false; self.nodes.len()];
        let addresses = loop {
            let addresses = self.addresses(&long);
            let mut grown = false;
            for (at, node) in self.nodes.iter().enumerate() {
                let (true, false, Some(target)) = (node.alive, long[at], node.target) else {
                    continue;
                };
                let op = node.code.op().expect("operations of the list");
                let distance = distance(addresses[at], addresses[target as usize]);
                if jump_place(op) == Some(Place::C) && i16::try_from(distance).is_err() {
                    long[at] = true;
                    grown = true;
                }
            }
            if !grown {
                break addresses;
            }
        };
        let mut code: Vec<Code> = Vec::with_capacity(addresses[self.nodes.len()] as usize);
        let mut lines: Vec<(u32, u32)> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.alive) {
            if lines.last().is_none_or(|&(_, line)| line != node.line) {
                lines.push((code.len() as u32, node.line));
            }
            let form = match long[at] {
                true => long_form(node.code),
                false => Form { codes: vec![node.code], jump: 0 },
            };
            for (i, &inst) in form.codes.iter().enumerate() {
                let target = node.target.filter(|_| i == form.jump);
                code.push(match target {
                    Some(target) => {
                        let away = distance(code.len() as u32, addresses[target as usize]);
                        with_distance(inst, away)
                    }
                    None => inst,
                });
            }
        }
        let handlers = self.builder.handlers.iter().map(|handler| Handler {
            first: addresses[handler.first as usize],
            end: addresses[handler.end as usize],
            target: addresses[self.builder.target(handler.target) as usize],
            register: handler.register,
            ty: handler.ty,
        });
        let switches = self.builder.tables.iter().zip(&self.tables).map(|(table, targets)| {
            let mut targets: Vec<u32> = targets.iter().map(|&at| addresses[at as usize]).collect();
            let default = targets.pop().expect("the default is the last");
            Switch { first: table.first, targets, default }
        });
        let variables =
            self.builder.variables.iter().map(|v| {
                (v.local, v.register, addresses[v.first as usize], addresses[v.end as usize])
            });
        let handlers = handlers.filter(|handler| handler.first < handler.end).collect();
        let switches = switches.collect();
        let variables = variables.filter(|&(_, _, first, end)| first < end).collect();
        let mut laid = Laid { code, lines, handlers, switches, variables };
        laid.drop_unused_switches();
        laid
    }
}

impl Laid {
    /// Drops the tables of switches that turned out to be unreachable: their targets may be gone.
    fn drop_unused_switches(&mut self) {
        let all = std::mem::take(&mut self.switches);
        for code in &mut self.code {
            if code.op() == Some(Op::Switch) {
                let table = all[code.x() as usize].clone();
                *code = Code::ax(Op::Switch, code.a(), self.switches.len() as u32);
                self.switches.push(table);
            }
        }
    }
}

/// The distance of a jump at an address, which counts from the next instruction.
fn distance(from: u32, to: u32) -> i64 {
    i64::from(to) - i64::from(from) - 1
}

fn with_distance(code: Code, distance: i64) -> Code {
    match jump_place(code.op().expect("operations of the list")) {
        Some(Place::C) => Code::abc(
            code.op().expect("as above"),
            code.a(),
            code.b(),
            i16::try_from(distance).expect("long jumps have the long form") as u16,
        ),
        _ => Code::ax(code.op().expect("as above"), code.a(), distance as i32 as u32),
    }
}

/// A conditional jump without its limit of 16 bits, but for the distance of the one jump in it that
/// leads away: the opposite condition over that jump; or, of a back-edge, the back-edge to that jump.
///
/// ```text
///     not a < b: over         jump back
/// jump away                away: loop away
/// over:                    back: loop.lt away
/// ```
fn long_form(code: Code) -> Form {
    let op = code.op().expect("operations of the list");
    if op.is_loop() {
        let over = Code::ax(Op::Jump, 0, 1);
        return Form {
            codes: vec![over, Code::ax(Op::Loop, 0, 0), with_distance(code, -2)],
            jump: 1,
        };
    }
    let over = with_distance(inverse(code).expect("a conditional jump has an inverse"), 1);
    Form { codes: vec![over, Code::ax(Op::Jump, 0, 0)], jump: 1 }
}

/// Instructions, and which of them has the jump.
struct Form {
    codes: Vec<Code>,
    jump: usize,
}
