use super::*;

pub(super) fn collect(cx: &mut Context<'_>) -> Result<Outcome, Trap> {
    cx.machine().collect();
    Ok(Outcome::Done)
}

/// Calls its first argument with the second.
pub(super) fn apply(cx: &mut Context<'_>) -> Result<Outcome, Trap> {
    let word = cx.call(cx.word(0), &[cx.word(1)])?;
    cx.set_word(word);
    Ok(Outcome::Done)
}

/// Calls its first argument with the second, and again with what came back.
pub(super) fn twice(cx: &mut Context<'_>) -> Result<Outcome, Trap> {
    let once = cx.call(cx.word(0), &[cx.word(1)])?;
    let word = cx.call(cx.word(0), &[once])?;
    cx.set_word(word);
    Ok(Outcome::Done)
}

pub(super) fn fail(_: &mut Context<'_>) -> Result<Outcome, Trap> {
    Err(Trap::of(ExceptionClass::Io, "no such file"))
}

pub(super) fn stop(_: &mut Context<'_>) -> Result<Outcome, Trap> {
    Err(Trap::Stop)
}

pub(super) fn park(cx: &mut Context<'_>) -> Result<Outcome, Trap> {
    match std::mem::replace(cx.state::<u32>(), 1) {
        0 => Ok(Outcome::Park),
        _ => {
            cx.set_int(42);
            Ok(Outcome::Done)
        }
    }
}

/// Never finds room.
pub(super) fn full(cx: &mut Context<'_>) -> Result<Outcome, Trap> {
    *cx.state::<u64>() += 1;
    Err(Trap::HeapFull(crate::vm::heap::HeapFull { requested: 1 << 40 }))
}

/// Makes a string, lets the script allocate, and returns the string.
pub(super) fn keep_across(cx: &mut Context<'_>) -> Result<Outcome, Trap> {
    let text = cx.heap().new_string(b"kept by the native")?.word();
    let kept = cx.keep(text);
    cx.call(cx.word(0), &[cx.word(1)])?;
    cx.set_word(cx.kept(kept));
    Ok(Outcome::Done)
}

pub(super) fn panic(_: &mut Context<'_>) -> Result<Outcome, Trap> {
    panic!("a native of the host panics");
}

const PROGRAM: &str = "
    type func<int, int>
    class Node { Node next; }
    native int test.apply(func<int, int>, int)
    native int test.twice(func<int, int>, int)
    native string test.keep(func<int, int>, int)
    native int test.fail()
    native int test.stop()
    native int test.park()
    native int test.full()
    native void test.panic()
    func void panics() 2
        call.native r1, test.panic
        return.void
    func int double(int) 4
        new r1, Node
        new r2, Node
        mul.int.k r3, r0, 2
        return r3
    func int quarter(int) 3
        int r1, 100
        div.int r2, r1, r0
        return r2
    func int nest(int) 5
        func r1, nest
        jump.gt.int.k r0, 0, more
        return.int 9
    more:
        func r3, nest
        add.int.k r4, r0, -1
        call.native r3, test.apply
        return r3
    func int twice() 4
        func r2, double
        int r3, 5
        call.native r2, test.twice
        return r2
    func int catches() 4
    start:
        func r2, quarter
        int r3, 0
        call.native r2, test.apply
        return r2
    end:
    caught:
        return.int 77
        try start end caught r0 DivByZeroException
    func int uncaught() 4
        func r2, quarter
        int r3, 0
        call.native r2, test.apply
        return r2
    func string keeps() 4
        func r2, double
        int r3, 0
        call.native r2, test.keep
        return r2
    func int fails() 2
        call.native r1, test.fail
        return r1
    func int stops() 2
    start:
        call.native r1, test.stop
        return r1
    end:
    caught:
        return.int 1
        try start end caught r0 Exception
    func int parks() 2
        call.native r1, test.park
        return r1
    func int full() 2
        call.native r1, test.full
        return r1
";

#[test]
fn natives_call_back_and_their_references_survive() {
    for mut machine in [machine(PROGRAM), stressed(PROGRAM)] {
        assert_eq!(int(&mut machine, "twice", &[]), 20);
        assert_eq!(string(&mut machine, "keeps"), "kept by the native");
    }
}

#[test]
fn exceptions_pass_through_natives_with_their_backtrace() {
    let mut machine = stressed(PROGRAM);
    assert_eq!(int(&mut machine, "catches", &[]), 77);
    match exit(&mut machine, "uncaught", &[]) {
        Exit::Thrown(thrown) => {
            assert_eq!(thrown.backtrace.len(), 2);
            assert!(thrown.backtrace[0].starts_with("quarter ("));
            assert!(thrown.backtrace[1].starts_with("uncaught ("));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(thrown(&mut machine, "fails", &[]), ("no such file".into(), ExceptionClass::Io));
}

#[test]
fn calls_back_nested_too_deep_are_an_exception() {
    let mut machine = machine(PROGRAM);
    assert_eq!(int(&mut machine, "nest", &[3]), 9);
    let (message, _) = thrown(&mut machine, "nest", &[100_000]);
    assert!(message.starts_with("call depth exceeded"), "{message}");
    assert_eq!(int(&mut machine, "nest", &[3]), 9);
}

#[test]
fn calls_back_end_in_an_exception_before_the_stack_of_a_fiber_does() {
    let nest = || {
        let mut machine = machine(PROGRAM);
        let (message, _) = thrown(&mut machine, "nest", &[100_000]);
        assert!(message.starts_with("call depth exceeded"), "{message}");
        assert_eq!(int(&mut machine, "nest", &[1]), 9);
    };
    let fiber = crate::thread::Builder::new().stack_size(256 << 10);
    crate::run(|| fiber.spawn(nest).expect("a stack").join().expect("no panic"));
}

#[test]
fn no_script_catches_a_stop() {
    let mut machine = machine(PROGRAM);
    assert!(matches!(exit(&mut machine, "stops", &[]), Exit::Stopped(Stop::Requested)));
}

#[test]
fn a_native_that_waits_leaves_the_thread_to_be_resumed() {
    let mut machine = machine(PROGRAM);
    let id =
        (0..).map(FunctionId).find(|&id| machine.image.program.source(id).name == "parks").unwrap();
    let mut thread = machine.start(id, &[]);
    assert!(matches!(machine.run(&mut thread), Exit::Parked));
    machine.collect();
    assert!(matches!(machine.run(&mut thread), Exit::Done(42)));
}

#[test]
fn a_native_that_finds_the_heap_full_is_called_once_more() {
    let mut machine = machine(PROGRAM);
    let (message, _) = thrown(&mut machine, "full", &[]);
    assert!(message.contains("out of memory"), "{message}");
    assert_eq!(*machine.states.get::<u64>(), 2);
}

#[test]
fn a_machine_survives_the_panic_of_a_native() {
    let mut machine = machine(PROGRAM);
    let run = std::panic::AssertUnwindSafe(|| exit(&mut machine, "panics", &[]));
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(int(&mut machine, "twice", &[]), 20);
}

#[test]
fn a_function_called_from_outside_gets_a_thread_of_its_own() {
    let mut machine = machine(PROGRAM);
    let id = (0..)
        .map(FunctionId)
        .find(|&id| machine.image.program.source(id).name == "double")
        .unwrap();
    assert_eq!(machine.call_function(id, &[21]), Ok(42));
}
