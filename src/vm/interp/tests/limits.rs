use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

const DEEP: &str = "
    func int deep(int) 3
        add.int.k r2, r0, 1
        call r2, deep
        return r2
    func int main() 3
    start:
        int r2, 0
        call r2, deep
        return r2
    end:
    caught:
        get r0, r1, 1
        list.length r0, r0
        return r0
        try start end caught r1 Exception
    func int again() 3
        int r2, 0
        call r2, main
        move r0, r2
        int r2, 0
        call r2, main
        return r2
";

#[test]
fn recursion_without_end_is_an_exception_and_the_machine_goes_on() {
    let mut machine = machine(DEEP);
    // The backtrace names the ends of the segment and says how much lies between.
    assert_eq!(int(&mut machine, "main", &[]), 121);
    assert_eq!(int(&mut machine, "again", &[]), 121);
}

#[test]
fn the_depth_is_limited_to_what_the_host_says() {
    let program = "
        func int down(int) 3
            jump.gt.int.k r0, 1, more
            return.int 7
        more:
            add.int.k r2, r0, -1
            call r2, down
            return r2";
    for depth in [10usize, 1000, 50_000] {
        let limits = Limits { depth, fuel: None };
        let mut machine = machine_with(program, Config::default(), limits);
        let depth = depth as Word;
        assert_eq!(word(&mut machine, "down", &[depth]), 7);
        // Near the limit a frame's registers count as room for frames.
        let (message, _) = thrown(&mut machine, "down", &[depth + 4]);
        assert!(message.starts_with("call depth exceeded"), "{message}");
        assert_eq!(word(&mut machine, "down", &[depth]), 7);
    }
}

/// Loops without end, one of each shape.
const ENDLESS: &str = "
    func int loop() 3
    top:
        loop top
    func int loop.if() 3
        int r0, 1
    top:
        loop.if r0, top
        return r0
    func int loop.ifnot() 3
        int r0, 0
    top:
        loop.ifnot r0, top
        return r0
    func int loop.le.int.k() 3
        int r0, 0
    top:
        loop.le.int.k r0, 5, top
        return r0
    func int loop.lt.int() 3
        int r0, 0
        int r1, 1
    top:
        loop.lt.int r0, r1, top
        return r0
    func int loop.inc.le.int() 3
        int r0, 0
        int r1, 2147483647
    top:
        loop.inc.le.int r0, r1, top
        return r0
    func int loop.ne() 3
        int r0, 0
        int r1, 1
    top:
        loop.ne r0, r1, top
        return r0
    func int catches() 3
    begin:
        jump try
    try:
    start:
    top:
        loop top
    end:
    caught:
        return.int 1
        try start end caught r0 Exception
";

const SHAPES: [&str; 8] = [
    "loop",
    "loop.if",
    "loop.ifnot",
    "loop.le.int.k",
    "loop.lt.int",
    "loop.inc.le.int",
    "loop.ne",
    "catches",
];

#[test]
fn fuel_ends_loops_of_every_shape() {
    for shape in SHAPES {
        let limits = Limits { fuel: Some(123_456), ..Limits::default() };
        let mut machine = machine_with(ENDLESS, Config::default(), limits);
        let exit = exit(&mut machine, shape, &[]);
        assert!(matches!(exit, Exit::Stopped(Stop::OutOfFuel)), "{shape}: {exit:?}");
        assert_eq!(machine.fuel(), Some(0));
    }
}

#[test]
fn fuel_counts_back_edges_and_calls() {
    let limits = Limits { fuel: Some(5000), ..Limits::default() };
    let program = "
        func int count(int) 2
            int r1, 0
        top:
            loop.inc.lt.int r1, r0, top
            return r1
        func int main() 3
            int r2, 11
            call r2, count
            int r2, 2001
            call r2, count
            return r2";
    let mut machine = machine_with(program, Config::default(), limits);
    assert_eq!(int(&mut machine, "main", &[]), 2001);
    assert_eq!(machine.fuel(), Some(5000 - 2 - 10 - 2000));
}

#[test]
fn a_stop_from_another_thread_ends_loops_of_every_shape() {
    for shape in SHAPES {
        let mut machine = machine(ENDLESS);
        let interrupt = machine.interrupt.clone();
        let running = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !running.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                interrupt.stop();
            });
            running.store(true, Ordering::Relaxed);
            let exit = exit(&mut machine, shape, &[]);
            assert!(matches!(exit, Exit::Stopped(Stop::Requested)), "{shape}: {exit:?}");
        });
    }
}

#[test]
fn a_slice_ends_the_run_only_if_others_wait() {
    let program = "
        func int count(int) 2
            int r1, 0
        top:
            loop.inc.lt.int r1, r0, top
            return r1";
    let mut machine = machine(program);
    machine.others_wait = true;
    let function = FunctionId(0);
    let mut thread = machine.start(function, &[3002]);
    for _ in 0..3 {
        assert!(matches!(machine.run(&mut thread), Exit::Yielded));
    }
    assert!(matches!(machine.run(&mut thread), Exit::Done(3002)));
}

#[test]
fn a_full_heap_is_an_exception_that_says_so() {
    let program = "
        class Node { Node next; }
        type long[]
        func int nodes() 4
        start:
            null r0, Node
        top:
            new r1, Node
            set r1, 0, r0
            move r0, r1
            loop top
        end:
        caught:
            null r0, Node
            get r0, r3, 0
            text.length r0, r0
            return r0
            try start end caught r3 Exception
        func int array() 4
            long r0, 1000000
            new.array r1, r0, long[]
            return r0";
    let config = Config { limit: 1 << 20, ..Config::default() };
    let mut machine = machine_with(program, config, Limits::default());
    // The length of the message that the handler found.
    assert!(int(&mut machine, "nodes", &[]) > 10);
    let (message, class) = thrown(&mut machine, "array", &[]);
    assert!(message.contains("out of memory"), "{message}");
    assert_eq!(class, ExceptionClass::Exception);
    assert!(int(&mut machine, "nodes", &[]) > 10);
}
