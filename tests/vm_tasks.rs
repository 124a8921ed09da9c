//! Tasks of a script and the host: channels in both hands, functions as tasks, stops, ends.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use pirn::time::{Duration, Instant, Timer};
use pirn::vm::{Call, Channel, Error, Object, Vm, compile};

fn vm(source: &str) -> Vm {
    Vm::new(&compile(source).unwrap()).unwrap()
}

const ECHO: &str = "
    native void serve(Channel<string> requests, Channel<string> replies);
    int main() {
        Channel<string> requests = {};
        Channel<string> replies = {};
        serve(requests, replies);
        for (int i = 0; i < 3; i += 1) { requests.send(\"n${i}\"); assert(replies.recv() == \"N${i}\"); }
        requests.close();
        return 7;
    }";

fn serve(requests: &Channel<String>, replies: &Channel<String>) {
    loop {
        match requests.recv() {
            Ok(request) => replies.send(request.to_uppercase()).unwrap(),
            Err(Error::Closed | Error::NotRunning) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_fiber_of_the_host_serves_a_script_in_its_channels() {
    pirn::run(|| {
        let server = |requests: Channel<String>, replies: Channel<String>| {
            pirn::thread::spawn(move || serve(&requests, &replies));
        };
        let mut vm = Vm::builder().native("serve", server).load(&compile(ECHO).unwrap()).unwrap();
        assert_eq!(vm.run().unwrap(), 7);
    });
}

#[test]
fn an_os_thread_serves_a_script_that_has_a_runtime_of_its_own() {
    let server = |requests: Channel<String>, replies: Channel<String>| {
        std::thread::spawn(move || serve(&requests, &replies));
    };
    let mut vm = Vm::builder().native("serve", server).load(&compile(ECHO).unwrap()).unwrap();
    for _ in 0..20 {
        assert_eq!(vm.run().unwrap(), 7);
    }
}

#[test]
fn fibers_and_script_tasks_stand_in_one_queue() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let received = order.clone();
    let listen = move |channel: Channel<i32>| {
        let received = received.clone();
        // On the carrier of the machine, so that the order is settled.
        pirn::thread::spawn_local(move || {
            let value = channel.recv().unwrap();
            received.lock().unwrap().push(("fiber", value));
        });
    };
    let heard = order.clone();
    let note = move |value: i32| heard.lock().unwrap().push(("script", value));
    let source = "
        import thread;
        native void listen(Channel<int> c);
        native void note(int n);
        class Listener { public Channel<int> c; public void run() { note(c.recv()); } }
        int main() {
            Listener l = Listener(); l.c = {};
            thread.spawn(l.run); thread.yield();
            listen(l.c); thread.yield();
            thread.spawn(l.run); thread.yield();
            for (int i = 1; i <= 3; i += 1) { l.c.send(i); }
            thread.yield();
            return 0;
        }";
    pirn::run(|| {
        let program = compile(source).unwrap();
        let builder = Vm::builder().native("listen", listen).native("note", note);
        builder.load(&program).unwrap().run().unwrap();
    });
    assert_eq!(*order.lock().unwrap(), [("script", 1), ("fiber", 2), ("script", 3)]);
}

#[test]
fn a_channel_is_of_no_use_outside_a_call() {
    let (give, take) = mpsc::channel();
    let keep = move |channel: Channel<i32>| give.send(channel).unwrap();
    let source =
        "native void keep(Channel<int> c); int main() { Channel<int> c = {}; keep(c); return 0; }";
    let mut vm = Vm::builder().native("keep", keep).load(&compile(source).unwrap()).unwrap();
    vm.run().unwrap();
    let channel = take.recv().unwrap();
    assert!(matches!(channel.recv(), Err(Error::NotRunning)));
    drop(vm);
    assert!(matches!(channel.try_send(1), Err(Error::NotRunning)));
}

#[test]
fn a_plain_native_function_cannot_wait_for_the_script_that_called_it() {
    let wait = |channel: Channel<i32>| matches!(channel.recv(), Err(Error::NotRunning));
    let source =
        "native bool wait(Channel<int> c); bool test() { Channel<int> c = {}; return wait(c); }";
    let mut vm = Vm::builder().native("wait", wait).load(&compile(source).unwrap()).unwrap();
    assert!(vm.call::<bool>("test", ()).unwrap());
}

#[test]
fn a_host_calls_functions_as_tasks() {
    let mut vm = vm("import thread;
        int add(int a, int b) { thread.sleep(2); return a + b; }
        string fail() { throw Exception(\"no\"); }
        void nothing() { }
        func<int> two() { return twice; }
        int twice() { return 22; }");
    let (sum, error) = vm
        .with_tasks(|tasks| {
            let first = tasks.spawn::<i32>("add", (1, 2)).unwrap();
            let second = tasks.spawn::<i32>("add", (3, 4)).unwrap();
            let failing = tasks.spawn::<String>("fail", ()).unwrap();
            tasks.spawn::<()>("nothing", ()).unwrap().get().unwrap();
            assert!(!first.is_done().unwrap());
            let sum = first.get().unwrap() + second.get().unwrap();
            assert_eq!(first.get().unwrap(), 3);
            (sum, failing.get().unwrap_err().to_string())
        })
        .unwrap();
    assert_eq!((sum, error.as_str()), (10, "Exception: no"));
    let two: Object = vm.call("two", ()).unwrap();
    let value = vm.with_tasks(|tasks| tasks.spawn_value::<i32>(&two).unwrap().get().unwrap());
    assert_eq!(value.unwrap(), 22);
}

#[test]
fn a_task_is_waited_for_on_another_os_thread() {
    let mut vm = vm("import thread; long f(long n) { thread.sleep(1); return n + 1; }");
    let value = vm.with_tasks(|tasks| {
        let task = tasks.spawn::<i64>("f", (41i64,)).unwrap();
        let thread = std::thread::spawn(move || task.get().unwrap());
        while !thread.is_finished() {
            pirn::thread::yield_now();
        }
        thread.join().unwrap()
    });
    assert_eq!(value.unwrap(), 42);
}

#[test]
fn tasks_that_have_not_ended_are_dropped_with_the_call() {
    let mut vm = vm("
        import thread;
        class Waiter { public Channel<int> c; public void run() { c.recv(); } }
        int main() {
            Waiter w = Waiter(); w.c = {};
            for (int i = 0; i < 100; i += 1) { thread.spawn(w.run); }
            thread.yield();
            return 3;
        }");
    pirn::run(|| {
        for _ in 0..3 {
            assert_eq!(vm.run().unwrap(), 3);
        }
        assert_eq!(pirn::fibers(false).len(), 1);
    });
    assert_eq!(vm.run().unwrap(), 3);
}

/// Slices of a busy thread between two looks at the timers, at most.
const SLICES: i64 = 64;

#[test]
fn a_timer_beside_a_busy_loop_is_late_by_no_more_than_the_slices_between_two_looks() {
    // When the timer is due, and how often the loop has turned since it saw that the time had come.
    let due = Arc::new(Mutex::new((None, 0)));
    let seen = due.clone();
    let turn = move || {
        let (until, turns) = &mut *seen.lock().unwrap();
        if until.is_some_and(|until| until <= Instant::now()) {
            *turns += 1;
        }
        // For good when nobody looks at all.
        *turns < 10 * SLICES * 1000
    };
    let source = "
        native bool turn();
        int main() { int n = 0; while (turn()) { n += 1; } return 0; }";
    let program = compile(source).unwrap();
    let late = pirn::run(|| {
        // On the loop's carrier, however many there are.
        let timer = pirn::thread::spawn_local(move || {
            let rounds = (0..30).map(|_| {
                let until = Instant::now() + Duration::from_millis(1);
                *due.lock().unwrap() = (Some(until), 0);
                Timer::at(until).wait();
                std::mem::take(&mut *due.lock().unwrap()).1
            });
            let late: Vec<i64> = rounds.collect();
            due.lock().unwrap().1 = i64::MAX;
            late
        });
        let mut vm = Vm::builder().native("turn", turn).load(&program).unwrap();
        assert_eq!(vm.run().unwrap(), 0);
        timer.join().unwrap()
    });
    // The loop may have seen the time come at the begin of a slice.
    let most = (SLICES + 1) * 1000;
    assert!(late.iter().all(|&turns| turns <= most), "{late:?}");
    assert_eq!(late.len(), 30);
}

/// Fibers and script tasks of one runtime, in the order of their turns.
#[test]
fn a_busy_script_gives_way_to_fibers_after_its_slice() {
    let source = "int spin(int n) { int i = 0; while (i < n) { i += 1; } return i; }";
    pirn::run(|| {
        let turns = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = turns.clone();
        let counter = pirn::thread::spawn_local(move || {
            loop {
                count.set(count.get() + 1);
                pirn::thread::yield_now();
            }
        });
        assert_eq!(vm(source).call::<i32>("spin", (100_000,)).unwrap(), 100_000);
        // 100 slices of 1,000 back-edges; the first ends on the caller's stack.
        assert!((90..=110).contains(&turns.get()), "{} turns", turns.get());
        counter.cancel();
    });
}

#[test]
fn a_stop_ends_a_script_whose_tasks_all_wait() {
    let source = "
        import thread;
        class Waiter { public Channel<int> c; public void run() { try { c.recv(); } catch (Exception e) { } } }
        int main() {
            Waiter w = Waiter(); w.c = {};
            for (int i = 0; i < 10; i += 1) { thread.spawn(w.run); }
            try { thread.sleep(100000000); } catch (Exception e) { } finally { w.c.close(); }
            return 1;
        }";
    let mut vm = vm(source);
    let stop = vm.stop_handle();
    let stopper = std::thread::spawn(move || stop.stop());
    assert!(matches!(vm.run(), Err(Error::Stopped)));
    stopper.join().unwrap();
}

#[test]
fn fuel_is_that_of_all_tasks() {
    let source = "
        import thread;
        void spin() { while (true) { } }
        int main() { for (int i = 0; i < 10; i += 1) { thread.spawn(spin); } thread.sleep(100000000); return 0; }";
    let mut vm = Vm::builder().fuel(50_000).load(&compile(source).unwrap()).unwrap();
    assert!(matches!(vm.run(), Err(Error::OutOfFuel)));
    assert_eq!(vm.fuel(), Some(0));
}

#[test]
fn a_deadlock_names_tasks_places_and_the_cycle() {
    let source = "
        import thread;
        class Pair { public Mutex a; public Mutex b;
            public void one() { a.lock(); thread.yield();
                b.lock(); }
            public void two() { b.lock(); thread.yield();
                a.lock(); } }
        int main() {
            Pair p = Pair(); p.a = {}; p.b = {};
            Thread t = thread.spawn(p.one); thread.spawn(p.two);
            thread.join(t);
            return 0;
        }";
    let Err(Error::Deadlock(deadlock)) = vm(source).run() else { panic!() };
    let text = deadlock.to_string();
    for part in [
        "task 0, main (main.n:11): waits for a task or a promise: task 1",
        "task 1, Pair.one (main.n:5): waits to lock a mutex that task 2 holds",
        "task 2, Pair.two (main.n:7): waits to lock a mutex that task 1 holds",
        "cycle: task 1 waits for task 2 waits for task 1",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn an_exception_passes_through_a_join_with_both_backtraces() {
    let source = "
        import thread;
        int boom() { int zero = 0;
            return 1 / zero; }
        int main() { Future<int> f = thread.spawn(boom);
            return f.get(); }";
    let Err(Error::Script(error)) = vm(source).run() else { panic!() };
    assert_eq!(error.class, "DivByZeroException");
    let expected = ["boom (main.n:4)", "task 0, which asked for the outcome", "main (main.n:6)"];
    assert_eq!(error.backtrace, expected);
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn exceptions_that_nobody_observes_are_reported_once_by_id() {
    let source = "
        import thread;
        class Task { public int n; public void run() { if (n == 1) { thread.sleep(2); } throw Exception(\"e${n}\"); } }
        int main() {
            List<Thread> all = [];
            for (int i = 0; i < 3; i += 1) { Task t = Task(); t.n = i + 1; all.add(thread.spawn(t.run)); }
            try { thread.join(all[1]); } catch (Exception e) { }
            try { thread.join(all[1]); } catch (Exception e) { }
            thread.sleep(5);
            return 4;
        }";
    let sink = Sink::default();
    let runtime = pirn::Builder::new().virtual_time(true);
    let builder = Vm::builder().stderr(sink.clone()).runtime(runtime);
    let mut vm = builder.load(&compile(source).unwrap()).unwrap();
    assert_eq!(vm.run().unwrap(), 4);
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Task")).collect();
    assert_eq!(
        lines,
        [
            "Task 1 ended with an exception that nobody observed: Exception: e1",
            "Task 3 ended with an exception that nobody observed: Exception: e3",
        ]
    );
}

#[test]
fn a_script_waits_inside_calls_from_native_functions() {
    let source = "
        import thread;
        native int apply(func<int, int> f, int n);
        class Box { public Channel<int> c; public int n;
            public int take(int times) { int s = 0; for (int i = 0; i < times; i += 1) { s += c.recv(); } return s; }
            public void fill() { for (int i = 1; i <= n; i += 1) { c.send(i); thread.yield(); } } }
        int again(int n) { if (n == 0) { return 0; } thread.yield(); return 1 + apply(again, n - 1); }
        int main() {
            Box b = Box(); b.c = {}; b.n = 4;
            thread.spawn(b.fill);
            assert(apply(b.take, 4) == 10);
            return apply(again, 30);
        }";
    let apply = |call: &mut Call<'_>, f: Object, n: i32| -> Result<i32, Error> {
        let before = vec![n; 10];
        let result = call.call_value::<i32>(&f, (n,))?;
        assert_eq!(before, vec![n; 10]);
        Ok(result)
    };
    for stress in [false, true] {
        let builder = Vm::builder().reentrant("apply", apply).gc_stress(stress);
        let mut vm = builder.load(&compile(source).unwrap()).unwrap();
        assert_eq!(vm.run().unwrap(), 30);
    }
}

#[test]
fn a_native_function_is_unwound_whose_task_is_dropped_in_it() {
    struct Count(Arc<Mutex<u32>>);
    impl Drop for Count {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let source = "
        import thread;
        native int apply(func<int> f);
        class Box { public Channel<int> c; public int take() { return c.recv(); } public void run() { apply(this.take); } }
        int main() {
            Box b = Box(); b.c = {};
            for (int i = 0; i < 5; i += 1) { thread.spawn(b.run); }
            thread.yield();
            return 0;
        }";
    let dropped = Arc::new(Mutex::new(0));
    let counter = dropped.clone();
    let apply = move |call: &mut Call<'_>, f: Object| -> Result<i32, Error> {
        let _count = Count(counter.clone());
        call.call_value::<i32>(&f, ())
    };
    let mut vm = Vm::builder().reentrant("apply", apply).load(&compile(source).unwrap()).unwrap();
    vm.run().unwrap();
    assert_eq!(*dropped.lock().unwrap(), 5);
    vm.run().unwrap();
    assert_eq!(*dropped.lock().unwrap(), 10);
}

#[test]
fn a_panic_of_a_native_function_in_a_task_goes_on_in_the_host() {
    // The task has a turn of its own, or main's, which passes it on.
    for wait in
        ["thread.sleep(100000000);", "thread.join(task);", "while (true) { thread.yield(); }"]
    {
        let source = format!(
            "import thread;
            native void boom();
            void others() {{ while (true) {{ thread.yield(); }} }}
            void run() {{ thread.yield(); try {{ boom(); }} catch (Exception e) {{ }} }}
            int main() {{
                Thread task = thread.spawn(run);
                thread.spawn(others);
                {wait}
                return 0;
            }}"
        );
        let boom = || -> () { panic!("from the host") };
        let mut vm = Vm::builder().native("boom", boom).load(&compile(&source).unwrap()).unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| vm.run()));
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"from the host"), "{wait}");
    }
}

#[test]
fn a_cancelled_host_fiber_takes_the_tasks_of_its_call_with_it() {
    let source = "
        import thread;
        class Waiter { public Channel<int> c; public void run() { c.recv(); } }
        int main() { Waiter w = Waiter(); w.c = {}; thread.spawn(w.run); w.run(); return 0; }";
    pirn::run(|| {
        let mut machine = vm(source);
        let call = pirn::thread::spawn(move || machine.run().map(drop));
        pirn::thread::yield_now();
        pirn::thread::yield_now();
        call.cancel();
        assert!(call.join().is_err());
        pirn::thread::yield_now();
        pirn::thread::yield_now();
        assert_eq!(pirn::fibers(false).len(), 1);
    });
}

#[test]
fn tasks_count_against_the_limit_of_the_heap() {
    let source = "
        import thread;
        void nothing() { }
        class Waiter { public Channel<int> c; public void run() { c.recv(); } }
        int main() {
            Waiter w = Waiter(); w.c = {};
            int n = 0;
            try { while (true) { thread.spawn(w.run); n += 1; } } catch (Exception e) { }
            for (int i = 0; i < n; i += 1) { w.c.send(i); }
            thread.yield();
            int again = 0;
            while (again < n) { thread.spawn(nothing); thread.yield(); again += 1; }
            return n;
        }";
    let mut vm = Vm::builder().heap_limit(4 << 20).load(&compile(source).unwrap()).unwrap();
    let count = vm.run().unwrap();
    assert!((2_000..40_000).contains(&count), "{count}");
    assert_eq!(vm.run().unwrap(), count);
}

#[test]
fn other_tasks_go_on_while_one_reads_its_input() {
    let source = "
        import io;
        import thread;
        class Reader { public Channel<string> c; public void run() { c.send(io.readLine()); c.send(io.readLine()); } }
        native void write(string line);
        int main() {
            Reader r = Reader(); r.c = {};
            thread.spawn(r.run);
            thread.yield();
            write(\"first\");
            string got = r.c.recv();
            write(\"second\");
            got += r.c.recv();
            assert(got == \"firstsecond\");
            return 1;
        }";
    let (reader, writer) = std::io::pipe().unwrap();
    let write = move |line: &str| {
        use std::io::Write;
        (&writer).write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    let builder = Vm::builder().stdin(reader).native("write", write);
    assert_eq!(builder.load(&compile(source).unwrap()).unwrap().run().unwrap(), 1);
}

#[test]
fn a_line_that_nobody_took_is_read_by_the_next() {
    let source = "
        import io;
        import thread;
        class Reader { public void run() { io.readLine(); } }
        native void write(string line);
        int main() {
            Thread t = thread.spawn(Reader().run);
            thread.yield();
            t.cancel();
            try { thread.join(t); } catch (CancelledException e) { }
            write(\"for main\");
            assert(io.readLine() == \"for main\");
            return 1;
        }";
    let (reader, writer) = std::io::pipe().unwrap();
    let write = move |line: &str| {
        use std::io::Write;
        (&writer).write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    let builder = Vm::builder().stdin(reader).native("write", write);
    assert_eq!(builder.load(&compile(source).unwrap()).unwrap().run().unwrap(), 1);
}

#[test]
fn a_closure_on_the_pool_returns_throws_and_panics_like_any_other() {
    let source = "
        import thread;
        native string read(string name);
        class Job { public string name; public string run() { return read(name); } }
        string go(string name) { Future<string> f = thread.spawn(new Job{name: name}.run); return f.get(); }
        string main2() { string a = go(\"x\"); try { go(\"bad\"); } catch (IOException e) { a += e.message; } return a; }
        string worse() { return go(\"worse\"); }";
    let read = |name: &str| -> Result<String, std::io::Error> {
        match name {
            "bad" => Err(std::io::Error::other("no such thing")),
            "worse" => panic!("on the pool"),
            name => Ok(name.repeat(3)),
        }
    };
    let mut vm = Vm::builder().blocking("read", read).load(&compile(source).unwrap()).unwrap();
    assert_eq!(vm.call::<String>("main2", ()).unwrap(), "xxxno such thing");
    let result =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| vm.call::<String>("worse", ())));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"on the pool"));
    assert_eq!(vm.call::<String>("main2", ()).unwrap(), "xxxno such thing");
}
