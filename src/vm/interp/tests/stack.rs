//! The native stack does not grow, whatever is executed and however often.

use super::*;
use crate::vm::op::{Op, Operand, Place};
use std::collections::HashSet;

/// Executions of each instruction. Were one call not a jump, they would need many times the stack.
const TRIPS: u64 = if cfg!(pirn_threaded) { 1_000_000 } else { 3_000 };
/// Bytes of stack: what a run needs, with slow paths and a collection.
const STACK: usize = if cfg!(pirn_threaded) { 192 << 10 } else { 2 << 20 };

/// Runs a function until its fuel is used up, or until its end.
fn exhaust(program: &str, seen: &mut HashSet<Op>) {
    let module = verify(assemble(program), &Known).unwrap_or_else(|e| panic!("{e}\n{program}"));
    for function in &module.module().functions {
        seen.extend(function.code.iter().filter_map(|code| code.op()));
    }
    let limits = Limits { fuel: Some(TRIPS), ..Limits::default() };
    let mut machine = Machine::new(Heap::new(Config::default()).local(), limits).unwrap();
    machine.load(module, &mut resolve).unwrap();
    let result = exit(&mut machine, "run", &[]);
    assert!(matches!(result, Exit::Done(_) | Exit::Stopped(Stop::OutOfFuel)), "{result:?}");
}

/// Programs with each operation that has no rule of its own: once with numbers for which conditions
/// hold one way, once the other.
fn plain() -> Vec<String> {
    let mut programs = Vec::new();
    let plain = Op::ALL.iter().filter(|op| {
        !op.is_special()
            && op.operands().iter().all(|(operand, _)| {
                matches!(operand, Operand::DW | Operand::W | Operand::K | Operand::J)
            })
    });
    for &op in plain {
        for (a, b) in [(1, 2), (2, 1), (0, 0)] {
            let target = if op.is_loop() { "top" } else { "over" };
            let operands: Vec<String> = op
                .operands()
                .iter()
                .map(|&(operand, place)| match (operand, place) {
                    (Operand::DW, _) => "r3".into(),
                    (Operand::K, _) => b.to_string(),
                    (Operand::J, _) => target.into(),
                    (_, Place::A) => "r0".into(),
                    (_, Place::B) if op.text().contains("jump") || op.is_loop() => "r1".into(),
                    (_, Place::B) => "r0".into(),
                    _ => "r1".into(),
                })
                .collect();
            let zero_throws = a == 0 && (op.text().contains("div") || op.text().contains("mod"));
            let (a, b) = if zero_throws { (3, 3) } else { (a, b) };
            programs.push(format!(
                "func int run() 4
                    int r0, {a}
                    int r1, {b}
                 top:
                    {} {}
                 over:
                    loop top",
                op.text(),
                operands.join(", ")
            ));
        }
    }
    programs
}

const SPECIAL: &[&str] = &[
    "class A { int x; A next; }
     class B : A { }
     struct S { int n; }
     selector int m()
     interface I { m }
     implements A I m=A.m
     implements B I m=A.m
     vtable A native native native A.m
     vtable B native native native A.m
     type func<int>
     type func<int, int>
     native int test.apply(func<int, int>, int)
     native int test.fail()
     func int A.m(A) 2 method
        return.int 1
     func int same(int) 1
        return r0
     func int plain() 1
        return.int 2
     func void nothing() 1
        return.void
     func int run() 12
        new r1, B
     top:
        new r2, A
        set r1, 1, r2
        get r3, r1, 1
        call r5, plain
        call r5, nothing
        move r5, r1
        call.method r5, A.m
        move r5, r1
        call.virtual r5, 3
        move r5, r1
        call.interface r5, m
        func r6, plain
        call.func r8, r6
        bind r6, r1, A.m
        call.func r8, r6
        bind.virtual r6, r1, 3
        call.func r8, r6
        bind.interface r6, r1, m
        call.func r8, r6
        eq.func r7, r6, r6
        ne.func r7, r6, r6
        check.null r1
        new r6, S
        copy r7, r6
        cast r6, r1, B
        eq.ref r7, r1, r2
        ne.ref r7, r1, r2
        jump.null r1, next
     next:
        jump.notnull r1, more
     more:
        jump.eq.ref r1, r2, again
     again:
        jump.ne.ref r1, r2, last
     last:
        null r6, A
        loop.notnull r1, top
        return.int 0",
    "type func<int, int>
     native int test.apply(func<int, int>, int)
     native int test.fail()
     func int same(int) 1
        return r0
     func int run() 8
     top:
        func r4, same
        int r5, 1
        call.native r4, test.apply
     start:
        call.native r4, test.fail
     end:
        return.int 0
     caught:
        loop top
        try start end caught r6 Exception",
    "func int thrower() 2
        new r0, Exception
        throw r0
     func int raiser() 2
        raise IOException, \"x\"
     func int run() 8
     top:
     start:
        call r4, thrower
     end:
     caught:
        jump next
     next:
     second:
        call r4, raiser
     close:
     again:
        loop top
        try start end caught r6 Exception
        try second close again r6 IOException",
    "type int[]
     type List<int>
     type byte[]
     type List<byte>
     type short[]
     type List<short>
     type long[]
     type List<long>
     func int run() 10
        int r0, 4
        int r1, 1
     top:
        new.array r2, r0, int[]
        array.set.32 r2, r1, r0
        array.get.32 r3, r2, r1
        array.length r3, r2
        new.container r2, List<int>
        list.add r2, r0
        list.add r2, r0
        list.set.32 r2, r1, r0
        list.get.32 r3, r2, r1
        list.length r3, r2
        new.array r2, r0, byte[]
        array.set.8 r2, r1, r0
        array.get.i8 r3, r2, r1
        new.container r2, List<byte>
        list.add r2, r0
        list.add r2, r0
        list.set.8 r2, r1, r0
        list.get.i8 r3, r2, r1
        new.array r2, r0, short[]
        array.set.16 r2, r1, r0
        array.get.i16 r3, r2, r1
        new.container r2, List<short>
        list.add r2, r0
        list.add r2, r0
        list.set.16 r2, r1, r0
        list.get.i16 r3, r2, r1
        new.array r2, r0, long[]
        array.set.64 r2, r1, r0
        array.get.64 r3, r2, r1
        new.container r2, List<long>
        list.add r2, r0
        list.add r2, r0
        list.set.64 r2, r1, r0
        list.get.64 r3, r2, r1
        loop top",
    "type ubyte[]
     type List<ubyte>
     type ushort[]
     type List<ushort>
     func int run() 10
        int r0, 4
        int r1, 1
        new.array r2, r0, ubyte[]
        new.container r3, List<ubyte>
        list.add r3, r0
        list.add r3, r0
        new.array r4, r0, ushort[]
        new.container r5, List<ushort>
        list.add r5, r0
        list.add r5, r0
     top:
        array.get.u8 r6, r2, r1
        list.get.u8 r6, r3, r1
        array.get.u16 r6, r4, r1
        list.get.u16 r6, r5, r1
        loop top",
    "class F { int i; long l; double d; }
     type int[]
     type List<int>
     func int run() 10
        int r0, 4
        int r8, 1
        new.array r1, r0, int[]
        new.container r2, List<int>
        list.add r2, r0
        list.add r2, r0
        text r3, \"some text\"
        new r4, F
        long r5, 2
     again:
        move.2 r6, r0, r5
        add.field.int r4, 0, r8
        sub.field.int r4, 0, r8
        add.field.int.k r4, 0, 3
        add.field.long r4, 1, r5
        sub.field.long r4, 1, r5
        add.field.long.k r4, 1, 3
        add.field.double r4, 2, r5
        sub.field.double r4, 2, r5
        int r9, -1
     array:
        loop.inc.lt.array r9, r1, array
        int r9, -1
     list:
        loop.inc.lt.list r9, r2, list
        int r9, -1
     text:
        loop.inc.lt.text r9, r3, text
        loop again",
    "func int run() 10
        text r0, \"some text\"
        text r1, \"other\"
     top:
        text.length r2, r0
        int r3, 0
        text.byte r2, r0, r3
        text.next r2, r0, r3
        eq.text r2, r0, r1
        ne.text r2, r0, r1
        lt.text r2, r0, r1
        le.text r2, r0, r0
        concat r4, r0, r1
        concat.many r4, r0, 2
        long r5, 12345
        word.text r4, r5, long
        ref.text r4, r4
        box r4, r5, long
        unbox r5, r4, long
        const r5, 1099511627776
        long.char r6, r2
        loop top",
    "func int run() 4
        long r1, 0
     top:
        int r0, 7
        div.int.k r2, r0, 3
        mod.int.k r2, r0, 3
        div.long.k r2, r1, 3
        mod.long.k r2, r1, 3
        switch r0, 6 a b | c
     a:
     b:
     c:
        int r2, 9
        loop.dec.ge.int.k r2, 8, top
        loop.inc.lt.long.k r1, 32767, top
        int r1, 0
        loop.inc.lt.long r1, r0, top
        return r0",
    "func int run() 4
        int r0, 0
        int r1, 2147483647
     top:
        loop.inc.lt.int r0, r1, top
        return r0",
    "func int run() 4
        int r0, 0
        int r1, 2147483647
     top:
        loop.inc.le.int r0, r1, top
        return r0",
    "func int run() 4
     again:
        int r0, 0
     top:
        loop.inc.lt.int.k r0, 30000, top
        loop again",
    "func int run() 4
     again:
        int r0, 0
     top:
        loop.inc.le.int.k r0, 30000, top
        loop again",
    "func int deep(int) 3
        add.int.k r2, r0, 1
        call r2, deep
        return r2
     func int run() 4
     top:
     start:
        int r2, 0
        call r2, deep
     end:
        return.int 0
     caught:
        loop top
        try start end caught r3 Exception",
];

#[test]
fn the_native_stack_stays_as_it_is_whatever_is_executed() {
    let run = || {
        let mut seen = HashSet::new();
        for program in plain().iter().map(String::as_str).chain(SPECIAL.iter().copied()) {
            exhaust(program, &mut seen);
        }
        let missing: Vec<_> = Op::ALL.iter().filter(|op| !seen.contains(op)).collect();
        assert!(missing.is_empty(), "never executed: {missing:?}");
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap();
    thread.join().unwrap();
}
