use super::*;

/// Runs `op r2, r0, r1` on two words.
fn binary(op: &str, b: Word, c: Word) -> Word {
    let program = format!(
        "func ulong run(ulong, ulong) 3
            {op} r2, r0, r1
            return r2"
    );
    word(&mut machine(&program), "run", &[b, c])
}

/// Runs `op r1, r0` on a word.
fn unary(op: &str, b: Word) -> Word {
    let program = format!(
        "func ulong run(ulong) 2
            {op} r1, r0
            return r1"
    );
    word(&mut machine(&program), "run", &[b])
}

fn i(value: i32) -> Word {
    Word::from(value as u32)
}

fn f(value: f32) -> Word {
    Word::from(value.to_bits())
}

#[test]
fn integers_wrap_and_stay_canonical() {
    for (op, b, c, result) in [
        ("add.int", i(i32::MAX), i(1), i(i32::MIN)),
        ("sub.int", i(i32::MIN), i(1), i(i32::MAX)),
        ("mul.int", i(-3), i(5), i(-15)),
        ("div.int", i(-7), i(2), i(-3)),
        ("mod.int", i(-7), i(2), i(-1)),
        ("div.int", i(i32::MIN), i(-1), i(i32::MIN)),
        ("mod.int", i(i32::MIN), i(-1), i(0)),
        ("div.uint", i(-2), 2, 0x7fff_ffff),
        ("mod.uint", i(-1), 10, 5),
        ("add.long", i64::MAX as u64, 1, i64::MIN as u64),
        ("div.long", i64::MIN as u64, u64::MAX, i64::MIN as u64),
        ("mod.long", i64::MIN as u64, u64::MAX, 0),
        ("div.ulong", u64::MAX, 2, u64::MAX / 2),
        ("mod.ulong", u64::MAX, 10, 5),
        ("lt.int", i(-1), 0, 1),
        ("lt.ulong", u64::MAX, 0, 0),
        ("le.long", u64::MAX, 0, 1),
    ] {
        assert_eq!(binary(op, b, c), result, "{op} {b:#x} {c:#x}");
    }
    for (op, b, result) in [
        ("neg.int", i(i32::MIN), i(i32::MIN)),
        ("int.long", i(-1), u64::MAX),
        ("long.int", 0x1_0000_0001, 1),
        ("to.byte", 200, i(-56)),
        ("to.ubyte", i(-1), 255),
        ("to.short", 0x18000, i(-32768)),
        ("to.ushort", i(-1), 0xffff),
        ("not", 0, 1),
    ] {
        assert_eq!(unary(op, b), result, "{op} {b:#x}");
    }
}

#[test]
fn floating_point_follows_ieee_but_for_zero_divisors() {
    let d = f64::to_bits;
    for (op, b, c, result) in [
        ("add.double", d(0.5), d(0.25), d(0.75)),
        ("div.double", d(1.0), d(4.0), d(0.25)),
        ("mod.double", d(-5.5), d(2.0), d(-1.5)),
        ("mod.float", f(5.5), f(2.0), f(1.5)),
        ("mul.float", f(1.5), f(2.0), f(3.0)),
        ("lt.double", d(f64::NAN), d(1.0), 0),
        ("ne.double", d(f64::NAN), d(f64::NAN), 1),
        ("eq.double", d(0.0), d(-0.0), 1),
    ] {
        assert_eq!(binary(op, b, c), result, "{op}");
    }
    for (op, b, result) in [
        ("double.int", d(1e10), i(i32::MAX)),
        ("double.int", d(f64::NAN), 0),
        ("double.byte", d(-200.0), i(-128)),
        ("double.ulong", d(-1.0), 0),
        ("ulong.double", u64::MAX, d(18446744073709551615.0)),
        ("double.float", d(0.1), f(0.1)),
        ("sqrt.double", d(9.0), d(3.0)),
        ("int.double", i(-3), d(-3.0)),
    ] {
        assert_eq!(unary(op, b), result, "{op}");
    }
    let mut machine = machine(
        "func double run(double) 2
            div.double r1, r0, r0
            return r1
         func double rest(double) 2
            mod.double r1, r0, r0
            return r1",
    );
    assert_eq!(thrown(&mut machine, "run", &[d(-0.0)]).1, ExceptionClass::DivByZero);
    assert_eq!(thrown(&mut machine, "rest", &[d(0.0)]).1, ExceptionClass::DivByZero);
}

#[test]
fn a_switch_goes_to_the_target_of_the_value_or_to_the_default() {
    let mut machine = machine(
        "func int run(int) 2
            switch r0, 3 a b | other
         a:
            return.int 1
         b:
            return.int 2
         other:
            return.int 0",
    );
    let results: Vec<i32> = (2..6).chain([-1]).map(|n| int(&mut machine, "run", &[n])).collect();
    assert_eq!(results, [0, 1, 2, 0, 0]);
}

#[test]
fn narrow_elements_come_back_as_the_words_that_went_in() {
    for (ty, suffix, set, value) in [
        ("byte", "i8", "8", i(-7)),
        ("ubyte", "u8", "8", 200),
        ("short", "i16", "16", i(-300)),
        ("ushort", "u16", "16", 60_000),
        ("int", "32", "32", i(-70_000)),
        ("long", "64", "64", -70_000i64 as u64),
    ] {
        let program = format!(
            "type {ty}[]
             type List<{ty}>
             func ulong array({ty}) 5
                int r1, 3
                new.array r2, r1, {ty}[]
                int r3, 2
                array.set.{set} r2, r3, r0
                array.get.{suffix} r4, r2, r3
                return r4
             func ulong list({ty}) 5
                new.container r2, List<{ty}>
                list.add r2, r0
                list.add r2, r0
                int r3, 1
                list.set.{set} r2, r3, r0
                list.get.{suffix} r4, r2, r3
                return r4"
        );
        let mut machine = stressed(&program);
        assert_eq!(word(&mut machine, "array", &[value]), value, "{ty}");
        assert_eq!(word(&mut machine, "list", &[value]), value, "{ty}");
    }
}

#[test]
fn strings_compare_by_bytes_and_are_walked_by_chars() {
    let mut machine = stressed(
        "func int order() 5
            text r1, \"abc\"
            text r2, \"ab\"
            concat r3, r2, r1
            lt.text r0, r2, r1
            le.text r4, r1, r2
            sub.int r0, r0, r4
            return r0
         func string join() 5
            text r1, \"a\"
            text r2, \"b\"
            text r3, \"c\"
            concat.many r0, r1, 3
            return r0
         func int walk(int) 5
            text r1, \"aé😀\"
            int r2, 0
            text.length r4, r1
            int r0, 0
         top:
            text.next r3, r1, r2
            add.int r0, r0, r3
            loop.lt.int r2, r4, top
            return r0",
    );
    assert_eq!(int(&mut machine, "order", &[]), 1);
    assert_eq!(string(&mut machine, "join"), "abc");
    let sum = "aé😀".chars().map(u32::from).sum::<u32>();
    assert_eq!(int(&mut machine, "walk", &[0]), sum as i32);
}

#[test]
fn boxes_give_back_what_they_hold_and_structs_are_copied_deeply() {
    let mut machine = stressed(
        "struct In { int n; }
         struct Out { In inner; }
         class A { }
         class B : A { }
         func long box(long) 3
            box r1, r0, long
            unbox r2, r1, long
            return r2
         func int copy() 5
            new r0, Out
            get r1, r0, 0
            int r2, 5
            set r1, 0, r2
            copy r3, r0
            int r2, 6
            set r1, 0, r2
            get r3, r3, 0
            get r4, r3, 0
            return r4
         func int cast() 3
            new r0, B
            cast r1, r0, A
            eq.ref r2, r0, r1
            return r2",
    );
    assert_eq!(word(&mut machine, "box", &[1 << 40]), 1 << 40);
    assert_eq!(int(&mut machine, "copy", &[]), 5);
    assert_eq!(int(&mut machine, "cast", &[]), 1);
}
