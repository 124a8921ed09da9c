//! What a host may rely on about the order in which a script's tasks run: it is decided by the
//! program, its input and the seed, and by nothing else.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use pirn::vm::{Program, Vm, compile};

/// Five tasks that give way, wait for one another and are cut off at the end of their slices.
const PROGRAM: &str = "
    import io;
    import thread;
    class Task {
        public string name;
        public Channel<int> c;
        public Mutex m;
        public void run() {
            for (int i = 0; i < 3; i += 1) {
                io.write(name);
                for (int k = 0; k < 700; k += 1) {}
                m.lock();
                thread.sleep(1);
                m.unlock();
                c.send(i);
            }
        }
    }
    int main() {
        Channel<int> c = Channel<int>(2);
        Mutex m = Mutex();
        foreach (string name in [\"a\", \"b\", \"c\", \"d\", \"e\"]) {
            Task t = Task();
            t.name = name;
            t.c = c;
            t.m = m;
            thread.spawn(t.run);
        }
        int sum = 0;
        for (int i = 0; i < 15; i += 1) { sum += c.recv(); }
        return sum;
    }
";

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The order in which the tasks wrote their names.
fn order(program: &Program, seed: Option<u64>) -> String {
    let mut runtime = pirn::Builder::new().virtual_time(true);
    if let Some(seed) = seed {
        runtime = runtime.seed(seed);
    }
    let sink = Sink::default();
    let mut vm = Vm::builder().runtime(runtime).stdout(sink.clone()).load(program).unwrap();
    assert_eq!(vm.run().unwrap(), 15);
    String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn without_a_seed_the_order_is_always_the_same() {
    let program = compile(PROGRAM).unwrap();
    let first = order(&program, None);
    assert_eq!(first.len(), 15);
    for _ in 0..200 {
        assert_eq!(order(&program, None), first);
    }
}

#[test]
fn a_seed_decides_the_order_and_others_decide_otherwise() {
    let program = compile(PROGRAM).unwrap();
    let orders: BTreeSet<String> = (0..40).map(|seed| order(&program, Some(seed))).collect();
    assert!(orders.len() > 10, "{orders:?}");
    for seed in 0..40 {
        let again = order(&program, Some(seed));
        assert!(orders.contains(&again));
        assert_eq!(again, order(&program, Some(seed)));
    }
}

#[test]
fn the_order_does_not_depend_on_when_garbage_is_collected() {
    let program = compile(PROGRAM).unwrap();
    let sink = Sink::default();
    let runtime = pirn::Builder::new().virtual_time(true);
    let mut vm =
        Vm::builder().runtime(runtime).gc_stress(true).stdout(sink.clone()).load(&program).unwrap();
    assert_eq!(vm.run().unwrap(), 15);
    let stressed = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    assert_eq!(stressed, order(&program, None));
}

#[test]
fn code_takes_as_much_fuel_in_a_task_as_elsewhere() {
    let work = "int work() { int s = 0; for (int i = 0; i < 5000; i += 1) { s += i; } return s; }";
    let alone = format!("{work} int main() {{ return work() % 256; }}");
    let as_task =
        format!("import thread; {work} int main() {{ return thread.spawn(work).get() % 256; }}");
    let used = |source: &str| {
        let mut vm = Vm::builder().fuel(1_000_000).load(&compile(source).unwrap()).unwrap();
        let value = vm.run().unwrap();
        (value, 1_000_000 - vm.fuel().unwrap())
    };
    // The call counts, beside the iterations; a task begins without one.
    let (value, fuel) = used(&alone);
    assert_eq!(used(&as_task), (value, fuel - 1));
}
