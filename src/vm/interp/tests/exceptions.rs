use super::*;

#[test]
fn a_handler_of_a_caller_catches_by_class() {
    let mut machine = stressed(
        "func int divide(int) 3
            int r1, 100
            div.int r2, r1, r0
            return r2
         func int run(int) 4
         start:
            move r3, r0
            call r3, divide
            return r3
         end:
         wrong:
            return.int -1
         right:
            get r1, r2, 0
            text r3, \"division by zero\"
            eq.text r0, r1, r3
            return r0
            try start end wrong r2 IOException
            try start end right r2 DivByZeroException",
    );
    assert_eq!(int(&mut machine, "run", &[5]), 20);
    assert_eq!(int(&mut machine, "run", &[0]), 1);
}

#[test]
fn an_uncaught_exception_tells_where_it_was_thrown() {
    let mut machine = machine(
        "func int divide(int) 2
            div.int r1, r0, r0
            return r1
         func int middle(int) 3
            move r2, r0
            call r2, divide
            return r2
         func int run(int) 3
         start:
            move r2, r0
            call r2, middle
            return r2
         end:
         other:
            return.int 1
            try start end other r1 IOException",
    );
    match exit(&mut machine, "run", &[0]) {
        Exit::Thrown(thrown) => {
            let names: Vec<&str> =
                thrown.backtrace.iter().map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(names, ["divide", "middle", "run"]);
            // SAFETY: the exception lives until the machine runs again.
            let list = unsafe { object::field(thrown.exception, 1) };
            // SAFETY: as above: a list of strings.
            assert_eq!(unsafe { object::list_length(list) }, 3);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn exceptions_of_instructions_name_things() {
    let mut machine = machine(
        "class P { int x; P next; }
         enum Dir { N E }
         type int[]
         type List<int>
         func int field() 2
            null r1, P
            get r0, r1, 0
            return r0
         func int index(int) 4
            int r1, 3
            new.array r2, r1, int[]
            array.get.32 r3, r2, r0
            return r3
         func int list(int) 4
            new.container r2, List<int>
            list.set.32 r2, r0, r0
            return r0
         func int negative() 3
            long r1, -4
            new.array r2, r1, int[]
            return r1
         func int remainder(int) 2
            mod.int r1, r0, r0
            return r1
         func int text() 4
            text r1, \"abc\"
            int r2, 3
            text.byte r3, r1, r2
            return r3
         func int char() 2
            long r0, 55296
            long.char r1, r0
            return r1
         func int unbox() 3
            int r0, 1
            box r1, r0, int
            unbox r2, r1, long
            return r2
         func int cast() 3
            int r0, 1
            box r1, r0, int
            cast r2, r1, P
            return r0
         func string name() 2
            int r0, 7
            word.text r1, r0, Dir
            return r1
         func int raise() 1
            raise AssertionException, \"no\"",
    );
    use ExceptionClass::*;
    let minus = Word::from(-1i32 as u32);
    for (name, arguments, message, class) in [
        ("field", vec![], "cannot read a field of null", NullPointer),
        ("index", vec![minus], "index -1 is out of bounds for array of length 3", IndexOutOfBounds),
        ("list", vec![0], "index 0 is out of bounds for list of length 0", IndexOutOfBounds),
        ("negative", vec![], "an array cannot have the length -4", Exception),
        ("remainder", vec![0], "remainder of a division by zero", DivByZero),
        ("text", vec![], "index 3 is out of bounds for string of length 3", IndexOutOfBounds),
        ("char", vec![], "55296 is no character: not a Unicode scalar value", Exception),
        ("unbox", vec![], "cannot unbox a boxed int as long", Exception),
        ("cast", vec![], "cannot cast a boxed int to P", Exception),
        ("name", vec![], "7 is no value of the enum Dir", Exception),
        ("raise", vec![], "no", Assertion),
    ] {
        assert_eq!(thrown(&mut machine, name, &arguments), (message.into(), class), "{name}");
    }
}

#[test]
fn a_thrown_object_arrives_as_it_was_made() {
    let mut machine = stressed(
        "func int main() 3
         start:
            new r0, IOException
            text r1, \"mine\"
            set r0, 0, r1
            throw r0
         end:
         caught:
            get r1, r2, 0
            text r0, \"mine\"
            eq.text r0, r0, r1
            return r0
            try start end caught r2 Exception",
    );
    assert_eq!(int(&mut machine, "main", &[]), 1);
}
