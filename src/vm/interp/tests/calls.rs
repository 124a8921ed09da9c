use super::*;

const FIB: &str = "
    func int fib(int) 6
        jump.ge.int.k r0, 2, more
        return r0
    more:
        add.int.k r3, r0, -1
        call r3, fib
        add.int.k r5, r0, -2
        call r5, fib
        add.int r1, r3, r5
        return r1
";

#[test]
fn calls_return_to_where_they_came_from() {
    assert_eq!(int(&mut machine(FIB), "fib", &[20]), 6765);
}

#[test]
fn a_function_without_registers_has_room_for_its_result() {
    let mut machine =
        machine("func int seven() 0\nreturn.int 7\nfunc void nothing() 0\nreturn.void");
    for (function, expected) in [(0, Some(7)), (1, None)] {
        let mut thread = machine.start(FunctionId(function), &[]);
        assert!(thread.words().len() >= 2, "the return address, and the result");
        let exit = machine.run(&mut thread);
        assert!(matches!(exit, Exit::Done(word) if expected.is_none_or(|e| word == e)), "{exit:?}");
    }
}

#[test]
fn a_segment_grows_and_moves_under_a_deep_call() {
    let mut machine = machine(
        "func int sum(int) 4
            jump.gt.int.k r0, 0, more
            return.int 0
        more:
            add.int.k r3, r0, -1
            call r3, sum
            add.int r1, r0, r3
            return r1",
    );
    assert_eq!(int(&mut machine, "sum", &[1000]), 500_500);
}

#[test]
fn virtual_and_interface_calls_find_the_object_s_own_method() {
    let mut machine = machine(
        "class A { int n; }
         class B : A { }
         selector int twice()
         interface I { twice }
         implements A I twice=A.twice
         implements B I twice=B.twice
         vtable A native native native A.name
         vtable B native native native B.name
         func int A.name(A) 1 method
            return.int 1
         func int B.name(B) 1 method
            return.int 2
         func int A.twice(A) 1 method
            return.int 10
         func int B.twice(B) 1 method
            return.int 20
         func int calls() 5
            new r1, A
            new r2, B
            int r0, 0
            move r4, r1
            call.virtual r4, 3
            add.int r0, r0, r4
            move r4, r2
            call.virtual r4, 3
            mul.int.k r4, r4, 10
            add.int r0, r0, r4
            move r4, r1
            call.interface r4, twice
            mul.int.k r4, r4, 10
            add.int r0, r0, r4
            move r4, r2
            call.interface r4, twice
            mul.int.k r4, r4, 100
            add.int r0, r0, r4
            return r0",
    );
    assert_eq!(int(&mut machine, "calls", &[]), 2121);
}

#[test]
fn function_values_call_what_they_were_made_of() {
    let program = "
        class A { int n; }
        class B : A { }
        selector int third(int)
        interface I { third }
        implements A I third=A.bound
        implements B I third=A.bound
        vtable A native native native A.over
        vtable B native native native B.over
        type func<int, int>
        func int plus(int) 2
            add.int.k r1, r0, 1
            return r1
        func int A.bound(A, int) 3 method
            get r2, r0, 0
            add.int r1, r1, r2
            return r1
        func int A.over(A, int) 2 method
            return.int 5
        func int B.over(B, int) 2 method
            return.int 6
        func int all() 6
            new r1, B
            int r0, 30
            set r1, 0, r0
            func r2, plus
            int r5, 1
            call.func r4, r2
            move r0, r4
            bind r2, r1, A.bound
            int r5, 10
            call.func r4, r2
            add.int r0, r0, r4
            bind.virtual r2, r1, 3
            int r5, 10
            call.func r4, r2
            mul.int.k r4, r4, 100
            add.int r0, r0, r4
            bind.interface r2, r1, third
            int r5, 1000
            call.func r4, r2
            add.int r0, r0, r4
            return r0
        func int same() 5
            new r1, B
            func r2, plus
            func r3, plus
            eq.func r0, r2, r3
            bind r2, r1, A.bound
            ne.func r4, r2, r3
            add.int r0, r0, r4
            return r0";
    for mut machine in [machine(program), stressed(program)] {
        assert_eq!(int(&mut machine, "all", &[]), 2 + 40 + 600 + 1030);
        assert_eq!(int(&mut machine, "same", &[]), 2);
    }
}

#[test]
fn outs_come_back_beside_the_result() {
    let mut machine = machine(
        "func int split(int, out int) 3
            mod.int.k r2, r0, 10
            div.int.k r0, r0, 10
            move r1, r2
            return r0
         func int main() 4
            int r2, 57
            int r3, 0
            call r2, split
            mul.int.k r0, r3, 100
            add.int r0, r0, r2
            return r0",
    );
    assert_eq!(int(&mut machine, "main", &[]), 705);
}
