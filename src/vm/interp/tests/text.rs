use super::*;

#[test]
fn values_are_written_by_the_rules_of_the_language() {
    let program = "
        class P { int x; string name; }
        class Q { }
        struct S { int a; }
        enum Dir { N E }
        vtable Q native native Q.toString
        type List<string>
        type List<S>
        type List<Q>
        type List<List<int>>
        type List<int>
        type Dict<string, int>
        type List<func<int>>
        type List<Object>
        func int one() 1
            return.int 1
        func string Q.toString(Q) 2 method
            new r1, P
            text r1, \"a \\\"q\\\"\"
            return r1
        func string strings() 3
            new.container r0, List<string>
            text r1, \"x\"
            list.add r0, r1
            list.add r0, r1
            ref.text r2, r0
            return r2
        func string objects() 3
            new.container r0, List<Q>
            new r1, Q
            list.add r0, r1
            null r1, Q
            list.add r0, r1
            ref.text r2, r0
            return r2
        func string nested() 4
            new.container r0, List<List<int>>
            new.container r1, List<int>
            int r2, -5
            list.add r1, r2
            list.add r0, r1
            list.add r0, r1
            ref.text r3, r0
            return r3
        func string structs() 3
            new.container r0, List<S>
            new r1, S
            list.add r0, r1
            ref.text r2, r0
            return r2
        func string functions() 3
            new.container r0, List<func<int>>
            func r1, one
            list.add r0, r1
            null r1, func<int>
            list.add r0, r1
            ref.text r2, r0
            return r2
        func string self() 3
            new.container r0, List<Object>
            list.add r0, r0
            int r1, 7
            box r1, r1, int
            list.add r0, r1
            ref.text r2, r0
            return r2
        func string dir() 2
            int r0, 1
            word.text r1, r0, Dir
            return r1
        func string double() 3
            long r0, 100000
            long.double r0, r0
            word.text r1, r0, double
            return r1
        func string null() 2
            null r0, P
            ref.text r1, r0
            return r1
        func string object() 2
            new r0, P
            ref.text r1, r0
            return r1";
    for mut machine in [machine(program), stressed(program)] {
        for (name, expected) in [
            ("strings", "[\"x\", \"x\"]"),
            ("nested", "[[-5], [-5]]"),
            ("structs", "[<struct>]"),
            ("functions", "[func test.one, <null>]"),
            ("self", "[[...], 7]"),
            ("dir", "E"),
            ("double", "1e+05"),
            ("null", "null"),
        ] {
            assert_eq!(string(&mut machine, name), expected, "{name}");
        }
        assert!(string(&mut machine, "objects").ends_with(", null]"));
        assert!(string(&mut machine, "object").starts_with("P@"));
    }
}
