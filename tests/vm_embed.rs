//! What a host may rely on when it runs scripts: values, natives, limits, and a machine that is in
//! order after any error.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pirn::vm::{Call, Compiler, Error, Exception, Host, Object, Program, ScriptError, Vm, compile};

fn vm(source: &str) -> Vm {
    Vm::new(&program(source)).unwrap()
}

fn program(source: &str) -> Program {
    compile(source).unwrap_or_else(|error| panic!("{error}"))
}

fn script_error<T: std::fmt::Debug>(result: Result<T, Error>) -> ScriptError {
    match result {
        Err(Error::Script(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[test]
fn scalars_go_in_and_come_out_unchanged() {
    let mut vm = vm("
        byte f1(byte v) { return v; } short f2(short v) { return v; } int f3(int v) { return v; }
        long f4(long v) { return v; } ubyte f5(ubyte v) { return v; } ushort f6(ushort v) { return v; }
        uint f7(uint v) { return v; } ulong f8(ulong v) { return v; } float f9(float v) { return v; }
        double fa(double v) { return v; } bool fb(bool v) { return v; } char fc(char v) { return v; }
        int negative(byte b, short s) { return b * 1000 + s; }
    ");
    for v in [i8::MIN, -1, 0, i8::MAX] {
        assert_eq!(vm.call::<i8>("f1", (v,)).unwrap(), v);
    }
    assert_eq!(vm.call::<i16>("f2", (i16::MIN,)).unwrap(), i16::MIN);
    assert_eq!(vm.call::<i32>("f3", (i32::MIN,)).unwrap(), i32::MIN);
    assert_eq!(vm.call::<i64>("f4", (i64::MIN,)).unwrap(), i64::MIN);
    assert_eq!(vm.call::<u8>("f5", (u8::MAX,)).unwrap(), u8::MAX);
    assert_eq!(vm.call::<u16>("f6", (u16::MAX,)).unwrap(), u16::MAX);
    assert_eq!(vm.call::<u32>("f7", (u32::MAX,)).unwrap(), u32::MAX);
    assert_eq!(vm.call::<u64>("f8", (u64::MAX,)).unwrap(), u64::MAX);
    assert_eq!(vm.call::<f32>("f9", (0.1f32,)).unwrap(), 0.1);
    assert!(vm.call::<f64>("fa", (f64::NAN,)).unwrap().is_nan());
    assert!(vm.call::<bool>("fb", (true,)).unwrap());
    assert_eq!(vm.call::<char>("fc", ('😀',)).unwrap(), '😀');
    assert_eq!(vm.call::<i32>("negative", (-2i8, -3i16)).unwrap(), -2003);
}

#[test]
fn strings_lists_and_dictionaries_are_copied_both_ways() {
    let mut vm = vm("
        string join(List<string> l, string by) {
            string all;
            foreach (string s in l) { all += s + by; }
            return all;
        }
        List<short> squares(short[] a) {
            List<short> l = {};
            foreach (short v in a) { l.add((v * v) as short); }
            return l;
        }
        Dict<string, List<int>> group(Dict<int, string> d) {
            Dict<string, List<int>> g = {};
            foreach (int k in d) {
                if (!g.containsKey(d[k])) { List<int> none = {}; g[d[k]] = none; }
                g[d[k]].add(k);
            }
            return g;
        }
    ");
    let words = vec!["ä".to_string(), String::new(), "c".into()];
    assert_eq!(vm.call::<String>("join", (&words, "-")).unwrap(), "ä--c-");
    assert_eq!(vm.call::<String>("join", (["x"].as_slice(), "")).unwrap(), "x");
    assert_eq!(vm.call::<Vec<i16>>("squares", (vec![2i16, -3],)).unwrap(), [4, 9]);
    let map = BTreeMap::from([(1, "odd"), (2, "even"), (3, "odd")]);
    let groups: HashMap<String, Vec<i32>> = vm.call("group", (map,)).unwrap();
    assert_eq!(groups, HashMap::from([("odd".into(), vec![1, 3]), ("even".into(), vec![2])]));
}

#[test]
fn an_overload_is_chosen_by_the_rust_types() {
    let mut vm = vm("
        string f(int n) { return \"int\"; } string f(long n) { return \"long\"; }
        string f(string s) { return \"string\"; } string f(int a, int b) { return \"two\"; }
        int g(out int n) { n = 3; return n; }
    ");
    assert_eq!(vm.call::<String>("f", (1i32,)).unwrap(), "int");
    assert_eq!(vm.call::<String>("f", (1i64,)).unwrap(), "long");
    assert_eq!(vm.call::<String>("f", ("",)).unwrap(), "string");
    assert_eq!(vm.call::<String>("f", (1, 2)).unwrap(), "two");
    let error = vm.call::<String>("f", (1u8,)).unwrap_err();
    assert!(matches!(&error, Error::NoFunction(e) if e.candidates.len() == 4), "{error}");
    assert!(error.to_string().contains("`string f(int, int)`"), "{error}");
    let error = vm.call::<i32>("f", (1,)).unwrap_err();
    assert!(error.to_string().contains("`i32 (i32)`"), "{error}");
    let error = vm.call::<i32>("g", (1,)).unwrap_err().to_string();
    assert!(error.contains("`int g(out int)`"), "{error}");
    let error = vm.call::<i32>("h", ()).unwrap_err().to_string();
    assert_eq!(error, "the program has no function `h`");
    assert!(vm.run().unwrap_err().to_string().contains("`main`"));
}

#[test]
fn functions_of_units_and_static_methods_have_qualified_names() {
    let program = Compiler::new()
        .unit("lib.geo", "int area(int a, int b) { return a * b; } class P { public static int one() { return 1; } }")
        .compile("main.n", "import lib.geo; class C { public static int two() { return 2; } } int main() { return 0; }")
        .unwrap_or_else(|error| panic!("{error}"));
    let mut vm = Vm::new(&program).unwrap();
    assert_eq!(vm.call::<i32>("lib.geo.area", (6, 7)).unwrap(), 42);
    assert_eq!(vm.call::<i32>("lib.geo.P.one", ()).unwrap(), 1);
    assert_eq!(vm.call::<i32>("C.two", ()).unwrap(), 2);
}

#[test]
fn an_object_stays_alive_as_long_as_its_handle() {
    let program = program(
        "class Node { public int value; public Node next; }
         Node chain(int n) { Node first; for (int i = 0; i < n; i += 1) { first = new Node{value: i, next: first}; } return first; }
         int sum(Node n) { int s = 0; while (n != null) { s += n.value; n = n.next; } return s; }",
    );
    for stress in [false, true] {
        let mut vm = Vm::builder().gc_stress(stress).load(&program).unwrap();
        let chain: Object = vm.call("chain", (100,)).unwrap();
        for _ in 0..3 {
            vm.call::<Object>("chain", (1000,)).unwrap();
            vm.collect();
        }
        assert_eq!(vm.call::<i32>("sum", (&chain,)).unwrap(), 4950);
        let used = vm.stats().used;
        let copy = chain.clone();
        drop(chain);
        vm.collect();
        assert_eq!(vm.field::<i32>(&copy, "value").unwrap(), 99);
        assert!(vm.field::<Option<Object>>(&copy, "next").unwrap().is_some());
        drop(copy);
        vm.collect();
        assert!(vm.stats().used < used, "{} of {used}", vm.stats().used);
    }
}

#[test]
fn an_object_is_no_use_in_another_machine_or_as_another_class() {
    let source = "class A { } class B : A { } class C { } interface I { int m(); }
        A a() { return A(); } B b() { return B(); } A hidden() { return B(); }
        int takeA(A a) { return 1; } int takeB(B b) { return 2; } int takeI(I i) { return 3; }
        int takeObject(Object o) { return 4; } int takeList(List<int> l) { return 5; }
        List<int> ints() { return [1]; } List<long> longs() { return [2]; }";
    let (mut one, mut two) = (vm(source), vm(source));
    let a: Object = one.call("a", ()).unwrap();
    let b: Object = one.call("b", ()).unwrap();
    assert_eq!(one.call::<i32>("takeA", (&a,)).unwrap(), 1);
    assert_eq!(one.call::<i32>("takeA", (&b,)).unwrap(), 1);
    assert_eq!(one.call::<i32>("takeObject", (&b,)).unwrap(), 4);
    // What counts is the object's own class.
    let hidden: Object = one.call("hidden", ()).unwrap();
    assert_eq!(one.call::<i32>("takeB", (&hidden,)).unwrap(), 2);
    assert_eq!(one.type_name(&hidden).unwrap(), "B");
    for (name, object) in [("takeB", &a), ("takeI", &a)] {
        let error = one.call::<i32>(name, (object,)).unwrap_err();
        assert!(matches!(error, Error::Type { .. }), "{error}");
    }
    let longs: Object = one.call("longs", ()).unwrap();
    assert!(matches!(one.call::<i32>("takeList", (&longs,)), Err(Error::Type { .. })));
    let ints: Object = one.call("ints", ()).unwrap();
    assert_eq!(one.call::<i32>("takeList", (&ints,)).unwrap(), 5);

    assert!(matches!(two.call::<i32>("takeA", (&a,)), Err(Error::ForeignObject)));
    assert!(matches!(two.field::<i32>(&a, "x"), Err(Error::ForeignObject)));
    drop(one);
    assert!(matches!(two.call::<i32>("takeA", (&a,)), Err(Error::ForeignObject)));
}

#[test]
fn null_is_none_and_nothing_else() {
    let mut vm = vm("class A { } A none() { return null; } List<int> noList() { return null; }
         int isNull(A a) { if (a == null) { return 1; } return 0; } string noText() { return null; }");
    assert!(vm.call::<Option<Object>>("none", ()).unwrap().is_none());
    assert!(vm.call::<Option<Vec<i32>>>("noList", ()).unwrap().is_none());
    assert!(matches!(vm.call::<Object>("none", ()), Err(Error::Type { .. })));
    assert!(matches!(vm.call::<Vec<i32>>("noList", ()), Err(Error::Type { .. })));
    assert_eq!(vm.call::<i32>("isNull", (None::<Object>,)).unwrap(), 1);
    assert_eq!(vm.call::<String>("noText", ()).unwrap(), "");
}

#[test]
fn a_struct_is_copied_on_its_way() {
    let mut vm = vm("struct P { int x; int y; }
         P make(int x) { return new P{x, 0}; } int change(P p) { p.x += 1; return p.x; }");
    let p: Object = vm.call("make", (5,)).unwrap();
    assert_eq!(vm.call::<i32>("change", (&p,)).unwrap(), 6);
    assert_eq!(vm.call::<i32>("change", (&p,)).unwrap(), 6);
    assert_eq!(vm.field::<i32>(&p, "x").unwrap(), 5);
}

#[test]
fn function_values_are_called_with_their_own_signature_only() {
    let mut vm = vm("class Counter { public int n; public int up(int by) { n += by; return n; } }
         int twice(int n) { return 2 * n; }
         func<int, int> plain() { return twice; }
         func<int, int> bound() { Counter c = Counter(); return c.up; }
         int use(func<int, int> f) { return f(1); } int useLong(func<long, long> f) { return 0; }
         func<string> text() { Object o = Counter(); return o.toString; }");
    let plain: Object = vm.call("plain", ()).unwrap();
    assert_eq!(vm.call_value::<i32>(&plain, (21,)).unwrap(), 42);
    let bound: Object = vm.call("bound", ()).unwrap();
    vm.call_value::<i32>(&bound, (2,)).unwrap();
    assert_eq!(vm.call_value::<i32>(&bound, (3,)).unwrap(), 5);
    assert_eq!(vm.call::<i32>("use", (&bound,)).unwrap(), 6);
    assert!(matches!(vm.call_value::<i32>(&plain, ("x",)), Err(Error::Type { .. })));
    assert!(matches!(vm.call_value::<i64>(&plain, (1,)), Err(Error::Type { .. })));
    assert!(matches!(vm.call::<i32>("useLong", (&plain,)), Err(Error::Type { .. })));
    let text: Object = vm.call("text", ()).unwrap();
    assert!(vm.call_value::<String>(&text, ()).unwrap().starts_with("Counter@"));
}

#[test]
fn natives_of_all_shapes_are_linked_by_name_and_signature() {
    let program = program(
        "native void none(); native string text(string a, char c, bool b); native List<int> list(List<int> l);
         native double sum(double a, float b, long c, ulong d, int e, uint f, short g, byte h);
         class Box { public int v; public native int open(int n); public static native int shut(); }
         int main() {
             none();
             assert(text(\"a\", 'b', true) == \"abtrue\");
             assert(list([1, 2]).length() == 3);
             assert(sum(1.0, 2.0f, 3, 4, 5, 6, 7, 8) == 36.0);
             Box b = new Box{v: 5};
             return b.open(2) + Box.shut();
         }",
    );
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let mut vm = Vm::builder()
        .native("none", move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
        .native("text", |a: &str, c: char, b: bool| format!("{a}{c}{b}"))
        .blocking("list", |mut l: Vec<i32>| {
            l.push(3);
            l
        })
        .native("sum", |a: f64, b: f32, c: i64, d: u64, e: i32, f: u32, g: i16, h: i8| {
            a + f64::from(b)
                + c as f64
                + d as f64
                + f64::from(e)
                + f64::from(f)
                + f64::from(g)
                + f64::from(h)
        })
        .reentrant("Box.open", |call: &mut Call<'_>, this: Object, n: i32| -> Result<i32, Error> {
            assert!(call.text(&this)?.starts_with("Box@"));
            Ok(10 * n)
        })
        .native("Box.shut", || 1)
        .load(&program)
        .unwrap();
    assert_eq!(vm.run().unwrap(), 21);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn a_native_that_is_missing_or_different_is_named_when_the_program_is_loaded() {
    let program = program(
        "native int a(string s); native void b(out int n); native long c(); int main() { int n; b(out n); return a(\"\") + (c() as int); }",
    );
    let builder =
        Vm::builder().native("a", |_: i32| 0).native("c", || 0i64).native("b", |_: i32| ());
    let Err(Error::Unlinked(mut missing)) = builder.load(&program) else { panic!() };
    missing.sort_by(|a, b| a.name.cmp(&b.name));
    let texts: Vec<String> = missing.iter().map(|native| native.to_string()).collect();
    assert_eq!(
        texts,
        [
            "`a` as `int (string)`, registered as `fn(i32) -> i32`",
            "`b` as `void (out int)`, registered as `fn(i32) -> ()`",
        ]
    );
    let Err(Error::Unlinked(missing)) = Vm::new(&program) else { panic!() };
    assert_eq!(missing.len(), 3);
    // The compiler can be told which natives there are.
    let error = Compiler::new()
        .natives(["b"])
        .compile("main.n", "native int a(); int main() { return a(); }");
    assert!(error.unwrap_err().to_string().contains("`a`"));
}

#[test]
fn an_error_of_a_native_is_an_exception_for_the_script() {
    let source = "native int fail(int how);
        string attempt(int how) {
            try { fail(how); }
            catch (IOException e) { return \"io: \" + e.message; }
            catch (Exception e) { return \"plain: \" + e.message; }
            return \"nothing\";
        }
        int pass(int how) { return fail(how); }";
    let fail = |how: i32| match how {
        0 => Err(Error::Script(ScriptError::new("zero"))),
        1 => Err(Error::Script(ScriptError::of(Exception::Io, "one"))),
        2 => Err(Error::Io(io::Error::other("two"))),
        3 => Err(Error::HeapFull),
        how => Ok(how),
    };
    let mut vm = Vm::builder().native("fail", fail).load(&program(source)).unwrap();
    let mut attempt = |how: i32| vm.call::<String>("attempt", (how,)).unwrap();
    assert_eq!(attempt(0), "plain: zero");
    assert_eq!(attempt(1), "io: one");
    assert_eq!(attempt(2), "io: two");
    assert!(attempt(3).starts_with("plain: "));
    assert_eq!(attempt(4), "nothing");
    let error = script_error(vm.call::<i32>("pass", (1,)));
    assert_eq!((error.class.as_str(), error.message.as_str()), ("IOException", "one"));
    assert!(error.backtrace[0].starts_with("pass ("), "{error:?}");
}

#[test]
fn an_exception_passes_through_a_native_as_the_same_object() {
    let source = "native int through(func<int> f);
        class Mine : Exception { public int code; public Mine(int c) { super(\"mine\"); code = c; } }
        int bad() { throw Mine(7); }
        int main() {
            try { return through(bad); } catch (Mine e) { return e.code; }
        }
        int uncaught() { return through(bad); }";
    let through = |call: &mut Call<'_>, f: Object| -> Result<i32, Error> {
        let error = call.call_value::<i32>(&f, ()).unwrap_err();
        assert!(matches!(&error, Error::Script(e) if e.class == "Mine" && e.message == "mine"));
        Err(error)
    };
    let mut vm = Vm::builder().reentrant("through", through).load(&program(source)).unwrap();
    assert_eq!(vm.run().unwrap(), 7);
    let error = script_error(vm.call::<i32>("uncaught", ()));
    assert_eq!(error.class, "Mine");
    assert_eq!(vm.field::<i32>(error.exception.as_ref().unwrap(), "code").unwrap(), 7);
    let first = &error.backtrace[0];
    assert!(first.starts_with("bad (") && error.backtrace.len() == 2, "{error:?}");
}

#[test]
fn natives_and_scripts_call_each_other_many_levels_deep() {
    let source = "native long down(long n); long step(long n) { if (n == 0) { return 0; } return down(n - 1) + 1; }";
    let down = |call: &mut Call<'_>, n: i64| call.call::<i64>("step", (n,));
    // Frames of the interpreter are much larger in a debug build.
    let levels = if cfg!(debug_assertions) { 6 } else { 50 };
    for stress in [false, true] {
        let mut vm =
            Vm::builder().gc_stress(stress).reentrant("down", down).load(&program(source)).unwrap();
        assert_eq!(vm.call::<i64>("step", (levels,)).unwrap(), levels);
        // Without an end it is an exception, not an overflow of the native stack.
        let error = script_error(vm.call::<i64>("step", (1_000_000i64,)));
        assert!(error.message.contains("depth"), "{error}");
        assert_eq!(vm.call::<i64>("step", (5i64,)).unwrap(), 5);
    }
}

#[test]
fn a_panic_of_a_native_goes_on_in_the_host_and_the_script_sees_nothing_of_it() {
    let source = "native int boom(); native int through(func<int> f);
        int f() { return boom(); }
        int main() { try { through(f); } catch (Exception e) { return 1; } finally { boom(); } return 2; }
        int fine() { return 3; }";
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let mut vm = Vm::builder()
        .native("boom", move || -> i32 {
            count.fetch_add(1, Ordering::Relaxed);
            panic!("boom")
        })
        // Takes any error for an answer: the script ends all the same.
        .reentrant("through", |call: &mut Call<'_>, f: Object| {
            call.call_value::<i32>(&f, ()).unwrap_or(0)
        })
        .load(&program(source))
        .unwrap();
    for i in 1..=2 {
        let panic = catch_unwind(AssertUnwindSafe(|| vm.run())).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"boom"));
        assert_eq!(calls.load(Ordering::Relaxed), i);
        assert_eq!(vm.call::<i32>("fine", ()).unwrap(), 3);
    }
}

#[test]
fn a_value_of_the_host_is_dropped_when_nobody_has_it() {
    struct Watched(Arc<AtomicUsize>);
    impl Drop for Watched {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let source = "native Object open(); class Keeper { public Object kept; }
        Keeper keep() { return new Keeper{kept: open()}; } void lose(Keeper k) { k.kept = null; }
        void many() { for (int i = 0; i < 10; i += 1) { open(); } }";
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let mut vm = Vm::builder()
        .native("open", move || Host::new(Watched(count.clone())))
        .load(&program(source))
        .unwrap();
    let keeper: Object = vm.call("keep", ()).unwrap();
    vm.call::<()>("many", ()).unwrap();
    vm.collect();
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
    let mine: Host<Watched> = vm.field(&keeper, "kept").unwrap();
    vm.call::<()>("lose", (&keeper,)).unwrap();
    vm.collect();
    assert_eq!(dropped.load(Ordering::Relaxed), 10, "the host has it");
    drop(mine);
    assert_eq!(dropped.load(Ordering::Relaxed), 11);
    vm.call::<Object>("keep", ()).unwrap();
    drop(vm);
    assert_eq!(dropped.load(Ordering::Relaxed), 12, "with the machine");
}

#[test]
fn a_value_of_the_host_is_known_by_its_type() {
    let source = "native Object number(); native int take(Object o); class C { }
        int main() { return take(number()); }
        int wrong(int how) {
            Object o = C();
            if (how == 1) { o = null; }
            if (how == 2) { o = 5; }
            try { return take(o); } catch (Exception e) { return -1; }
        }
        int other(Object o) { try { return take(o); } catch (Exception e) { return -1; } }
        int equal() { Object a = number(); if (a.equals(a) == 1 && a.equals(number()) == 0) { return 1; } return 0; }";
    let mut vm = Vm::builder()
        .native("number", || Host::new(5i32))
        .native("take", |number: Host<i32>| *number)
        .load(&program(source))
        .unwrap();
    assert_eq!(vm.run().unwrap(), 5);
    for how in 0..3 {
        assert_eq!(vm.call::<i32>("wrong", (how,)).unwrap(), -1);
    }
    assert_eq!(vm.call::<i32>("other", (Host::new("text"),)).unwrap(), -1);
    assert_eq!(vm.call::<i32>("other", (Host::new(6i32),)).unwrap(), 6);
    assert_eq!(vm.call::<i32>("equal", ()).unwrap(), 1);
}

#[test]
fn a_stop_cannot_be_caught_and_the_machine_goes_on_afterwards() {
    let source = "native void ready(); class Log { public int n; }
        void spin(Log log) {
            ready();
            while (true) { try { log.n += 1; } catch (Exception e) { log.n = -1; } finally { log.n += 0; } }
        }
        void recurse(Log log) { ready(); try { while (true) { this_goes_on(1); } } finally { log.n = -2; } }
        int this_goes_on(int n) { if (n > 100) { return n; } return this_goes_on(n + 1); }
        Log log() { return Log(); }";
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut vm = Vm::builder()
        .native("ready", move || sender.send(()).unwrap())
        .load(&program(source))
        .unwrap();
    let log: Object = vm.call("log", ()).unwrap();
    let stop = vm.stop_handle();
    let stopper = std::thread::spawn(move || {
        for () in receiver {
            stop.stop();
        }
    });
    for name in ["spin", "recurse", "spin"] {
        assert!(matches!(vm.call::<()>(name, (&log,)), Err(Error::Stopped)));
        assert!(vm.field::<i32>(&log, "n").unwrap() >= 0);
    }
    // A stop when nothing runs ends the next call.
    vm.stop_handle().stop();
    assert!(matches!(vm.call::<Object>("log", ()), Err(Error::Stopped)));
    assert!(vm.call::<Object>("log", ()).is_ok());
    drop(vm);
    stopper.join().unwrap();
}

#[test]
fn a_native_that_takes_a_stop_for_an_answer_does_not_keep_the_script_alive() {
    let source = "native int swallow(func<int> f); int spin() { while (true) { } return 0; }
        int main() { while (true) { swallow(spin); } return 0; }";
    let swallow = |call: &mut Call<'_>, f: Object| call.call_value::<i32>(&f, ()).unwrap_or(1);
    let builder = || Vm::builder().reentrant("swallow", swallow);
    let mut vm = builder().fuel(50_000).load(&program(source)).unwrap();
    assert!(matches!(vm.run(), Err(Error::OutOfFuel)));
    let mut vm = builder().load(&program(source)).unwrap();
    let stop = vm.stop_handle();
    let stopper = std::thread::spawn(move || stop.stop());
    assert!(matches!(vm.run(), Err(Error::Stopped)));
    stopper.join().unwrap();
}

#[test]
fn fuel_ends_a_script_at_the_same_place_every_time() {
    let source = "class Log { public int n; } Log log() { return Log(); }
        void spin(Log log) { while (true) { log.n += 1; } }";
    let mut counts = Vec::new();
    for _ in 0..2 {
        let mut vm = vm(source);
        let log: Object = vm.call("log", ()).unwrap();
        vm.set_fuel(Some(12_345));
        assert!(matches!(vm.call::<()>("spin", (&log,)), Err(Error::OutOfFuel)));
        assert_eq!(vm.fuel(), Some(0));
        assert!(matches!(vm.call::<()>("spin", (&log,)), Err(Error::OutOfFuel)));
        counts.push(vm.field::<i32>(&log, "n").unwrap());
        vm.set_fuel(None);
        assert!(vm.call::<Object>("log", ()).is_ok());
    }
    assert_eq!(counts[0], counts[1]);
    assert!((12_000..=12_500).contains(&counts[0]), "{counts:?}");
}

#[test]
fn a_full_heap_is_an_exception_and_leaves_room_afterwards() {
    let source = "int fill() { List<string> l = {}; try { while (true) { l.add(\"text \" + l.length()); } } catch (Exception e) { return l.length(); } return 0; }
        void grow() { string s = \"x\"; while (true) { s += s; } }
        string echo(string s) { return s; }
        int deep(int n) { return deep(n + 1); }";
    let mut vm = Vm::builder().heap_limit(1 << 20).call_depth(500).load(&program(source)).unwrap();
    for _ in 0..3 {
        assert!(vm.call::<i32>("fill", ()).unwrap() > 1000);
        let error = script_error(vm.call::<()>("grow", ()));
        assert!(error.message.contains("memory"), "{error}");
        let error = script_error(vm.call::<i32>("deep", (0,)));
        assert!(error.message.contains("depth"), "{error}");
    }
    let large = "y".repeat(2 << 20);
    assert!(matches!(vm.call::<String>("echo", (&large,)), Err(Error::HeapFull)));
    let fits = "y".repeat(400 << 10);
    for _ in 0..10 {
        assert_eq!(vm.call::<String>("echo", (&fits,)).unwrap(), fits);
    }
}

#[test]
fn a_result_for_which_the_heap_had_no_room_does_not_run_the_native_twice() {
    let source = "native string big(); int main() { int n = 0; for (int i = 0; i < 50; i += 1) { n += big().length(); } return n; }";
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let mut vm = Vm::builder()
        .heap_limit(1 << 20)
        .native("big", move || {
            count.fetch_add(1, Ordering::Relaxed);
            "z".repeat(300 << 10)
        })
        .load(&program(source))
        .unwrap();
    assert_eq!(vm.run().unwrap(), 50 * (300 << 10));
    assert_eq!(calls.load(Ordering::Relaxed), 50);
    assert!(vm.stats().collections > 0);
}

#[test]
fn streams_of_the_host_take_the_place_of_the_processs() {
    let (out, err) = (Sink::default(), Sink::default());
    let source = "import io; int main() { string s = io.readLine(); io.print(\"got \" + s); io.eprint(\"err\"); io.print(io.args()); return io.readInt(); }";
    let mut vm = Vm::builder()
        .stdin(io::Cursor::new("first\n 42 "))
        .stdout(out.clone())
        .stderr(err.clone())
        .args(["a", "b c"])
        .load(&program(source))
        .unwrap();
    assert_eq!(vm.run().unwrap(), 42);
    assert_eq!(out.text(), "got first\n[\"a\", \"b c\"]\n");
    assert_eq!(err.text(), "err\n");
    // What was printed before an error is not lost.
    let out = Sink::default();
    let source = "import io; void main() { io.write(\"so far\"); assert(false); }";
    let mut vm = Vm::builder().stdout(out.clone()).load(&program(source)).unwrap();
    assert_eq!(script_error(vm.run()).class, "AssertionException");
    assert_eq!(out.text(), "so far");
}

#[test]
fn machines_in_many_threads_share_a_program() {
    let program =
        program("int fib(int n) { if (n < 2) { return n; } return fib(n - 1) + fib(n - 2); }");
    let threads: Vec<_> = (10..14)
        .map(|n| {
            let program = program.clone();
            std::thread::spawn(move || Vm::new(&program).unwrap().call::<i32>("fib", (n,)).unwrap())
        })
        .collect();
    let results: Vec<i32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(results, [55, 89, 144, 233]);
}

#[test]
fn a_machine_may_move_to_another_thread_between_calls() {
    let mut vm = vm(
        "class C { public int n; } C make() { return C(); } int up(C c) { c.n += 1; return c.n; }",
    );
    let c: Object = vm.call("make", ()).unwrap();
    let (mut vm, c) = std::thread::spawn(move || {
        vm.call::<i32>("up", (&c,)).unwrap();
        (vm, c)
    })
    .join()
    .unwrap();
    assert_eq!(vm.call::<i32>("up", (&c,)).unwrap(), 2);
}

#[test]
fn programs_loaded_one_after_the_other_live_side_by_side() {
    let mut vm = vm(
        "class P { public int x; } P make() { return new P{x: 1}; } int f() { return 1; } int take(P p) { return p.x; }",
    );
    let p: Object = vm.call("make", ()).unwrap();
    vm.load(&program("class P { public string y; } P make2() { return P(); } int f() { return 2; } int main() { return 5; }")).unwrap();
    assert_eq!(vm.run().unwrap(), 5);
    assert_eq!(vm.call::<i32>("f", ()).unwrap(), 2);
    assert_eq!(vm.call::<i32>("take", (&p,)).unwrap(), 1);
    let other: Object = vm.call("make2", ()).unwrap();
    assert!(matches!(vm.call::<i32>("take", (&other,)), Err(Error::Type { .. })));
}

#[test]
fn bytes_that_are_no_module_are_refused() {
    let good = program("int main() { return 1; }").to_bytes();
    assert!(Program::is_module(&good) && !Program::is_module(b"int main"));
    for bytes in [&b""[..], b"int main() {}", &good[..good.len() - 1], &good[1..]] {
        assert!(matches!(Program::from_bytes(bytes), Err(Error::Invalid(_))));
    }
    for i in 0..good.len() {
        let mut bytes = good.clone();
        bytes[i] ^= 0x10;
        assert!(Program::from_bytes(&bytes).is_err(), "byte {i}");
    }
}

#[test]
fn diagnostics_have_places_and_show_the_source() {
    let error = compile("int main() {\n    int x = \"é\" + y;\n    return x;\n}\n").unwrap_err();
    let found: Vec<_> = error.iter().collect();
    assert!(
        found.iter().any(|d| d.line == 2 && d.message.contains("`y`") && d.column == 19),
        "{found:?}"
    );
    assert_eq!(error.errors(), found.len());
    assert!(error.to_string().contains("int x = \"é\" + y;"), "{error}");
    assert!(error.render(true).contains("\x1b["));
}

#[test]
fn imported_units_come_from_wherever_the_host_says() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let program = Compiler::new()
        .loader(move |path| {
            log.lock().unwrap().push(path.to_string());
            (path == "a/b.n").then(|| "int f() { return 9; }".into())
        })
        .compile("main.n", "import a.b; int main() { return a.b.f(); }")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Vm::new(&program).unwrap().run().unwrap(), 9);
    assert!(asked.lock().unwrap().iter().any(|path| path == "a/b.n"));
    let error = compile("import a.b; int main() { return 0; }").unwrap_err();
    assert!(error.to_string().contains("a.b"), "{error}");
}

#[test]
fn scripts_work_with_files_and_folders() {
    let folder = std::env::temp_dir().join(format!("pirn-files-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let source = r#"
        import io;
        import fs;
        int main() {
            string dir = fs.join(io.args()[0], "a/b");
            fs.makeDirs(dir);
            fs.makeDirs(dir);
            assert(fs.isDirectory(dir) && !fs.isFile(dir) && fs.exists(dir));
            string file = fs.join(dir, "z.txt");
            io.writeFile(file, "first\n");
            io.appendFile(file, "second");
            io.appendFile(fs.join(dir, "b.txt"), "new");
            assert(io.readFile(file) == "first\nsecond");
            assert(fs.size(file) == 12 && fs.isFile(file));
            fs.makeDirs(fs.join(dir, "c"));
            assert(fs.listFiles(dir).toString() == "[\"b.txt\", \"z.txt\"]");
            int failed = 0;
            try { fs.remove(dir); } catch (IOException e) { failed += 1; }
            try { io.readFile(dir); } catch (IOException e) { failed += 1; }
            try { fs.listFiles(file); } catch (IOException e) { failed += 1; }
            try { fs.makeDirs(fs.join(file, "x")); } catch (IOException e) { failed += 1; }
            assert(!fs.exists(fs.join(file, "x")));
            fs.remove(fs.join(file, "x"));
            fs.remove(file);
            fs.remove(file);
            fs.remove(fs.join(dir, "c"));
            assert(!fs.exists(file) && !fs.exists(fs.join(dir, "c")));
            try { io.readFile(io.args()[1]); } catch (IOException e) { failed += 1; }
            try { io.readFile("a\0b"); } catch (IOException e) { failed += 1; }
            string binary = io.readFile(io.args()[2]);
            io.writeFile(fs.join(dir, "copy"), binary);
            return failed * 100 + binary.length();
        }
    "#;
    let large = std::env::temp_dir().join(format!("pirn-large-{}", std::process::id()));
    std::fs::File::create(&large).unwrap().set_len((16 << 20) + 1).unwrap();
    let binary = std::env::temp_dir().join(format!("pirn-binary-{}", std::process::id()));
    std::fs::write(&binary, b"\xff\x00\xc3").unwrap();
    let paths = [&folder, &large, &binary].map(|path| path.display().to_string());
    let mut vm = Vm::builder().args(paths).load(&program(source)).unwrap();
    assert_eq!(vm.run().unwrap_or_else(|error| panic!("{}", error.report(false))), 603);
    assert_eq!(std::fs::read(folder.join("a/b/copy")).unwrap(), b"\xff\x00\xc3");
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_file(large).unwrap();
    std::fs::remove_file(binary).unwrap();
}
