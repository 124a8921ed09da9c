//! Labels, threading and distances.

use crate::lang::lower::builder::{Builder, Table, back_edge, inverse, jump_place};
use crate::lang::lower::layout::{Laid, lay_out};
use crate::vm::op::{Code, Op, Operand, Place};
use crate::vm::types::known;

fn ops(laid: &Laid) -> Vec<Op> {
    laid.code.iter().map(|code| code.op().unwrap()).collect()
}

fn distance(code: Code) -> i64 {
    match jump_place(code.op().unwrap()).unwrap() {
        Place::C => i64::from(code.c() as i16),
        _ => i64::from(code.x() as i32),
    }
}

/// Where each jump of the code goes.
fn targets(laid: &Laid) -> Vec<(usize, i64)> {
    let jumps = laid.code.iter().enumerate();
    let jumps = jumps.filter(|(_, code)| jump_place(code.op().unwrap()).is_some());
    jumps.map(|(at, &code)| (at, at as i64 + 1 + distance(code))).collect()
}

#[test]
fn every_conditional_jump_has_an_inverse_whose_inverse_it_is() {
    for &op in Op::ALL {
        let jumps = jump_place(op).is_some() && !op.is_loop() && op != Op::Jump;
        let code = match jump_place(op) {
            Some(Place::X) => Code::ax(op, 1, 0),
            _ => Code::abc(op, 1, 2, 0),
        };
        let inverted = inverse(code);
        assert_eq!(inverted.is_some(), jumps, "{op:?}");
        if let Some(inverted) = inverted {
            assert_ne!(inverted.op(), Some(op));
            assert_eq!(inverse(inverted), Some(code), "{op:?}");
        }
    }
}

#[test]
fn a_back_edge_has_the_condition_and_the_operands_of_its_jump() {
    let mut found = 0;
    for &op in Op::ALL {
        let code = Code::abc(op, 1, 2, 0);
        let Some(back) = back_edge(code) else { continue };
        let (forward, back_op) = (op.text().strip_prefix("jump."), back.op().unwrap());
        assert_eq!(back_op.text().strip_prefix("loop."), forward);
        assert_eq!((back.a(), back.b(), back_op.is_loop()), (1, 2, true));
        found += 1;
    }
    let plain = |op: &&Op| op.is_loop() && !op.text().contains("inc") && !op.text().contains("dec");
    assert_eq!(
        found,
        Op::ALL.iter().filter(plain).count() - 1,
        "all but the one without a condition"
    );
}

#[test]
fn a_jump_to_a_jump_goes_where_that_one_ends() {
    let mut code = Builder::default();
    let (first, second, other) = (code.label(), code.label(), code.label());
    code.jump(Code::abc(Op::JumpLtInt, 0, 1, 0), first);
    code.jump(Code::abc(Op::JumpLtInt, 1, 0, 0), other);
    code.ax(Op::Int, 2, 1);
    code.bind(first);
    code.goto(second);
    code.bind(other);
    code.ax(Op::Int, 2, 2);
    code.bind(second);
    code.ax(Op::Int, 3, 3);
    code.abc(Op::ReturnVoid, 0, 0, 0);
    let laid = lay_out(code);
    assert_eq!(
        ops(&laid),
        [Op::JumpLtInt, Op::JumpLtInt, Op::Int, Op::Jump, Op::Int, Op::Int, Op::ReturnVoid]
    );
    assert_eq!(targets(&laid), [(0, 5), (1, 4), (3, 5)]);
}

#[test]
fn a_condition_around_a_jump_becomes_the_opposite_condition() {
    let mut code = Builder::default();
    let (over, away) = (code.label(), code.label());
    code.jump(Code::abc(Op::JumpLtInt, 0, 1, 0), over);
    code.goto(away);
    code.bind(over);
    code.ax(Op::Int, 2, 1);
    code.bind(away);
    code.ax(Op::Int, 2, 1);
    code.abc(Op::ReturnVoid, 0, 0, 0);
    let laid = lay_out(code);
    assert_eq!(ops(&laid), [Op::JumpLeInt, Op::Int, Op::Int, Op::ReturnVoid]);
    assert_eq!((laid.code[0].a(), laid.code[0].b()), (1, 0));
    assert_eq!(targets(&laid), [(0, 2)]);
}

#[test]
fn a_jump_to_a_return_returns() {
    let mut code = Builder::default();
    let (no, end) = (code.label(), code.label());
    code.jump(Code::ax(Op::JumpIf, 0, 0), no);
    code.ax(Op::Int, 1, 1);
    code.goto(end);
    code.bind(no);
    code.ax(Op::Int, 1, 2);
    code.bind(end);
    code.abc(Op::Return, 1, 0, 0);
    assert_eq!(ops(&lay_out(code)), [Op::JumpIf, Op::Int, Op::Return, Op::Int, Op::Return]);
}

#[test]
fn what_nothing_reaches_is_dropped_with_its_handlers_and_tables() {
    let mut code = Builder::default();
    let (end, handler) = (code.label(), code.label());
    let first = code.position();
    code.abc(Op::ReturnVoid, 0, 0, 0);
    code.ax(Op::Int, 0, 1);
    code.switch(0, Table { first: 0, targets: vec![end], default: end });
    let unreached = code.position();
    code.protect(unreached, code.position(), handler, 0, known::EXCEPTION);
    code.bind(handler);
    code.ax(Op::Throw, 0, 0);
    code.bind(end);
    code.abc(Op::ReturnVoid, 0, 0, 0);
    assert_eq!(first + 1, unreached);
    let laid = lay_out(code);
    assert_eq!(ops(&laid), [Op::ReturnVoid]);
    assert!(laid.handlers.is_empty() && laid.switches.is_empty());
}

#[test]
fn a_step_joins_its_back_edge_unless_something_jumps_between() {
    let fused = [Op::JumpIf, Op::LoopIncLtInt, Op::ReturnVoid];
    let apart = [Op::JumpIf, Op::AddIntK, Op::LoopLtInt, Op::ReturnVoid];
    for (between, expected) in [(false, &fused[..]), (true, &apart[..])] {
        let mut code = Builder::default();
        let (body, test, end) = (code.label(), code.label(), code.label());
        code.jump(Code::ax(Op::JumpIf, 9, 0), if between { test } else { end });
        code.bind_head(body, true);
        code.abc(Op::AddIntK, 3, 3, 1);
        code.bind(test);
        code.jump(Code::abc(Op::LoopLtInt, 3, 4, 0), body);
        code.bind(end);
        code.abc(Op::ReturnVoid, 0, 0, 0);
        assert_eq!(ops(&lay_out(code)), expected);
    }
}

#[test]
fn a_counter_that_is_its_own_bound_is_not_fused() {
    let mut code = Builder::default();
    let body = code.label();
    code.bind_head(body, true);
    code.abc(Op::AddIntK, 3, 3, 1);
    code.jump(Code::abc(Op::LoopLtInt, 3, 3, 0), body);
    code.abc(Op::ReturnVoid, 0, 0, 0);
    assert_eq!(ops(&lay_out(code)), [Op::AddIntK, Op::LoopLtInt, Op::ReturnVoid]);
}

/// A loop whose body has `size` instructions, guarded at its top.
fn long_loop(size: usize, back: Code) -> Laid {
    let mut code = Builder::default();
    let (body, end) = (code.label(), code.label());
    code.jump(Code::abc(Op::JumpLeInt, 1, 0, 0), end);
    code.bind_head(body, true);
    for _ in 0..size {
        code.ax(Op::Int, 2, 7);
    }
    code.jump(back, body);
    code.bind(end);
    code.abc(Op::ReturnVoid, 0, 0, 0);
    lay_out(code)
}

#[test]
fn a_jump_beyond_16_bits_takes_the_long_form() {
    let back = Code::abc(Op::LoopIncLtInt, 0, 1, 0);
    let short = long_loop(32_766, back);
    assert_eq!(short.code.len(), 32_766 + 3);
    assert_eq!(targets(&short), [(0, 32_768), (32_767, 1)]);

    let long = long_loop(40_000, back);
    assert_eq!(long.code.len(), 40_000 + 6);
    assert_eq!(ops(&long)[..2], [Op::JumpLtInt, Op::Jump]);
    assert_eq!(ops(&long)[40_002..], [Op::Jump, Op::Loop, Op::LoopIncLtInt, Op::ReturnVoid]);
    // The opposite of the guard steps over the jump to the end; the back-edge goes to the one that
    // goes on to the body.
    let jumps = [(0, 2), (1, 40_005), (40_002, 40_004), (40_003, 2), (40_004, 40_003)];
    assert_eq!(targets(&long), jumps);
    assert_eq!((long.code[0].a(), long.code[0].b()), (0, 1));
}

#[test]
fn long_forms_that_push_others_beyond_the_limit_are_found() {
    // The outer jump spans just under the limit until the inner one grows.
    let mut code = Builder::default();
    let (inner, outer) = (code.label(), code.label());
    code.jump(Code::abc(Op::JumpEq, 0, 1, 0), outer);
    for _ in 0..10 {
        code.jump(Code::abc(Op::JumpEq, 0, 1, 0), inner);
    }
    for _ in 0..32_757 {
        code.ax(Op::Int, 2, 7);
    }
    code.bind(outer);
    for _ in 0..20 {
        code.ax(Op::Int, 3, 7);
    }
    code.bind(inner);
    code.abc(Op::ReturnVoid, 0, 0, 0);
    let laid = lay_out(code);
    for (at, target) in targets(&laid) {
        let to_outer = laid.code[target as usize - 1].op() == Some(Op::Int)
            && laid.code[target as usize].a() == 3;
        let to_inner = laid.code[target as usize].op() == Some(Op::ReturnVoid);
        let over = target == at as i64 + 2;
        assert!(to_outer || to_inner || over, "{at} goes to {target}");
    }
}

#[test]
fn operands_of_a_jump_are_where_the_long_form_expects_them() {
    for &op in Op::ALL {
        if let Some(Place::C) = jump_place(op) {
            assert_eq!(op.operands().len(), 3, "{op:?}");
            assert_ne!(op.operands()[0].0, Operand::J);
        }
    }
}
