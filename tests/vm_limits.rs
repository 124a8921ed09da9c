//! What a host may rely on when a script goes too far: endless loops, endless recursion, a full heap
//! and deep structures end as documented, and the machine goes on.

use std::sync::{Arc, OnceLock};

use pirn::vm::{Call, Error, Object, ScriptError, StopHandle, Vm, compile};

fn script_error<T: std::fmt::Debug>(result: Result<T, Error>) -> ScriptError {
    match result {
        Err(Error::Script(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Ways never to end, each a body of a function with a `Log l`.
const ENDLESS: [(&str, &str); 16] = [
    ("a bare loop", "while (true) { }"),
    ("a loop without conditions", "for (;;) { }"),
    ("a loop that tests behind", "do { } while (true);"),
    ("a loop that goes on", "while (true) { continue; }"),
    (
        "loops in loops",
        "while (true) { for (int i = 0; i < 10; i += 1) { foreach (int x in [1, 2]) { } } }",
    ),
    (
        "catching all",
        "while (true) { try { while (true) { } } catch (Exception e) { l.caught += 1; } }",
    ),
    ("a finally that loops", "try { l.ok += 1; } finally { while (true) { } }"),
    ("leaving by finally", "while (true) { try { continue; } finally { l.ok += 1; } }"),
    (
        "throwing",
        "while (true) { try { throw Exception(\"x\"); } catch (Exception e) { l.ok += 1; } }",
    ),
    ("recursion", "while (true) { try { forever(0); } catch (Exception e) { l.ok += 1; } }"),
    ("two that call each other", "while (true) { ping(5); }"),
    ("natives", "string s; while (true) { s = \"abc\".replace(\"b\", \"x\").toUpper(); }"),
    (
        "growing",
        "List<int> all = {}; while (true) { all.add(1); if (all.length() > 99) { all.clear(); } }",
    ),
    ("texts of objects", "while (true) { string s = \"${l}\"; }"),
    ("a constructor", "while (true) { Endless e = Endless(); }"),
    ("a switch", "int i; while (true) { switch (i) { case 0: i = 1; case 1: i = 0; } }"),
];

const ENDLESS_HELPERS: &str = "
    native void begin();
    class Log { public int caught; public int ok; public int left; public string toString() { return \"${ok}\"; } }
    class Endless { public Endless() { while (true) { } } }
    int forever(int n) { return forever(n + 1) + 1; }
    void ping(int n) { if (n > 0) { pong(n - 1); } }
    void pong(int n) { if (n > 0) { ping(n - 1); } }
    Log log() { return Log(); }
";

/// A function per endless way, which begins with `begin()`, and notes when it is left.
fn endless() -> String {
    let mut source = String::from(ENDLESS_HELPERS);
    for (i, (_, body)) in ENDLESS.iter().enumerate() {
        source.push_str(&format!(
            "void way{i}(Log l) {{ begin(); try {{ {body} }} catch (Exception e) {{ l.caught += 1; }} finally {{ l.left += 1; }} }}\n"
        ));
    }
    source
}

fn check_unnoticed(vm: &mut Vm, log: &Object, what: &str) {
    assert_eq!(vm.field::<i32>(log, "caught").unwrap(), 0, "{what}: the script caught it");
    assert_eq!(vm.field::<i32>(log, "left").unwrap(), 0, "{what}: a finally ran");
    assert!(vm.call::<Object>("log", ()).is_ok(), "{what}: the machine goes on");
}

#[test]
fn fuel_ends_every_endless_script_unnoticed() {
    let program = compile(&endless()).unwrap();
    let mut vm = Vm::builder().call_depth(200).native("begin", || ()).load(&program).unwrap();
    for (i, (what, _)) in ENDLESS.iter().enumerate() {
        vm.set_fuel(None);
        let log: Object = vm.call("log", ()).unwrap();
        vm.set_fuel(Some(3000));
        let result = vm.call::<()>(&format!("way{i}"), (&log,));
        assert!(matches!(result, Err(Error::OutOfFuel)), "{what}: {result:?}");
        vm.set_fuel(None);
        check_unnoticed(&mut vm, &log, what);
    }
}

#[test]
fn a_stop_ends_every_endless_script_unnoticed() {
    let program = compile(&endless()).unwrap();
    let handle: Arc<OnceLock<StopHandle>> = Arc::default();
    let stop = handle.clone();
    let begin = move || stop.get().unwrap().stop();
    let mut vm = Vm::builder().call_depth(200).native("begin", begin).load(&program).unwrap();
    handle.set(vm.stop_handle()).unwrap();
    for (i, (what, _)) in ENDLESS.iter().enumerate() {
        let log: Object = vm.call("log", ()).unwrap();
        let result = vm.call::<()>(&format!("way{i}"), (&log,));
        assert!(matches!(result, Err(Error::Stopped)), "{what}: {result:?}");
        check_unnoticed(&mut vm, &log, what);
    }
}

#[test]
fn endless_recursion_is_an_exception_on_every_way_and_the_machine_goes_on() {
    let source = "
        native int through(func<int> f);
        interface Step { int step(); }
        class Way implements Step {
            public int how;
            public Way next;
            public func<int> again;
            public int method() { return this.method() + 1; }
            public virtual int dispatched() { return this.dispatched() + 1; }
            public int step() { Step s = this; return s.step() + 1; }
            public int value() { return again() + 1; }
            public int native_() { return through(this.native_) + 1; }
            public string toString() {
                if (how == 1) { return \"x\" + this; }
                if (how == 2) { List<Way> l = [this]; return l.toString(); }
                Dict<string, Way> d = {\"k\": this};
                return \"${d}\";
            }
        }
        class Made { public Made inner; public Made() { inner = Made(); } }
        class Derived : Made { public Derived() { super(); } }
        int plain(int n) { return plain(n + 1) + 1; }
        int even(int n) { return odd(n) + 1; }
        int odd(int n) { return even(n) + 1; }
        int defaults(int n = more()) { return n; } int more() { return defaults(more()); }
        int caught(int n) { try { throw Exception(\"x\"); } catch (Exception e) { return caught(n + 1); } return 0; }
        int last(int n) { try { return n; } finally { last(n + 1); } }
        int label(int n) { switch (n) { case label(n): return 1; } return 0; }
        int looped(int n) { foreach (int x in [n]) { return looped(x) + 1; } return 0; }
        string go(int way) {
            Way w = Way();
            try {
                switch (way) {
                    case 0: plain(0);
                    case 1: even(0);
                    case 2: defaults();
                    case 3: caught(0);
                    case 4: last(0);
                    case 5: label(0);
                    case 6: looped(0);
                    case 7: w.method();
                    case 8: w.dispatched();
                    case 9: w.step();
                    case 10: w.again = w.value; w.value();
                    case 11: w.native_();
                    case 12: w.how = 1; w.toString();
                    case 13: w.how = 2; w.toString();
                    case 14: w.how = 3; w.toString();
                    case 15: Made();
                    case 16: Derived();
                }
            } catch (Exception e) { return e.message; }
            return \"nothing\";
        }";
    let through = |call: &mut Call<'_>, f: Object| call.call_value::<i32>(&f, ());
    let program = compile(source).unwrap();
    let mut vm =
        Vm::builder().call_depth(300).reentrant("through", through).load(&program).unwrap();
    for _ in 0..2 {
        for way in 0..17 {
            let message: String = vm.call("go", (way,)).unwrap();
            assert!(message.starts_with("call depth exceeded"), "way {way}: {message}");
        }
    }
}

#[test]
fn endlessly_nested_source_is_a_compile_error() {
    let main = |body: String| format!("int f(int n) {{ return n; }} int main() {{ {body} }}");
    let nest = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(5000), close.repeat(5000))
    };
    let sources = [
        main(nest("{", "", "}")),
        main(format!("return {};", nest("(", "1", ")"))),
        main(format!("return {};", nest("- ", "1", ""))),
        main(format!("return {};", nest("f(", "1", ")"))),
        main(format!("return 1{};", nest(" + 1", "", ""))),
        main(format!("return 1{};", nest(" as int", "", ""))),
        main(nest("if (true) ", ";", "")),
        main(nest("while (true) ", ";", "")),
        main(nest("try { ", "", " } finally { }")),
        main(nest("switch (1) { case 1: ", "", " }")),
        main(format!("List<int> l = {};", nest("[", "", "]"))),
        main(format!("{} l;", nest("List<", "int", ">"))),
        main(format!("{} l;", nest("func<", "int", ">"))),
    ];
    for source in sources {
        let error = compile(&source).unwrap_err().to_string();
        assert!(error.contains("nested") || error.contains("`try`"), "{error}");
    }
}

#[test]
fn many_findings_are_shown_from_the_first_on() {
    let source = format!("int main() {{ {} return 0; }}", "x = y;\n".repeat(2000));
    let report = Error::from(compile(&source).unwrap_err()).report(false);
    assert!(report.starts_with("main.n:1:14: error: unknown name `x`\n"), "{report}");
    assert!(report.ends_with("more\n"), "{report}");
}

/// Ways to fill a heap, each a function that gives how far it came.
const FILLS: &str = "
    struct S { int a; string b; }
    class Node { public Node next; public string s; }
    int list() { List<int> l = {}; try { while (true) { l.add(l.length()); } } catch (Exception e) { } return l.length(); }
    int structs() { List<S> l = {}; S s; try { while (true) { l.add(s); } } catch (Exception e) { } return l.length(); }
    int dict() { Dict<int, int> d = {}; try { while (true) { d[d.count()] = 1; } } catch (Exception e) { } return d.count(); }
    int keys() { Dict<string, string> d = {}; try { while (true) { d[\"k\" + d.count()] = \"v\"; } } catch (Exception e) { } return d.count(); }
    int nodes() { Node n; int c; try { while (true) { Node m = Node(); m.next = n; n = m; c += 1; } } catch (Exception e) { } return c; }
    int doubled() { string s = \"xy\"; try { while (true) { s += s; } } catch (Exception e) { } return s.length(); }
    int array() { int n = 1; try { while (true) { long[] a = new long[n]; n *= 2; } } catch (Exception e) { } return n; }
    int again() {
        List<string> l = {};
        try { while (true) { l.add(\"t\" + l.length()); } }
        catch (Exception e) {
            try { while (true) { l.add(\"u\" + l.length()); } }
            catch (Exception f) { return l.length(); }
            finally { l.clear(); }
        }
        return 0;
    }
    int huge() { try { int[] a = new int[2147483647]; } catch (Exception e) { return 1; } return 0; }
    int recursion(int n) { int a = n; int b = n; int c = n; return recursion(n + 1) + a + b + c; }
    string fine(string s) { return s + \"!\"; }
";

#[test]
fn a_heap_that_is_full_is_an_exception_however_it_was_filled() {
    let program = compile(FILLS).unwrap();
    let mut vm = Vm::builder().heap_limit(256 << 10).load(&program).unwrap();
    let ways = ["list", "structs", "dict", "keys", "nodes", "doubled", "array", "again", "huge"];
    for _ in 0..2 {
        for way in ways {
            assert!(vm.call::<i32>(way, ()).unwrap() > 0, "{way}");
            // Memory is handed out in runs, so the count is not exact.
            let used = vm.stats().used;
            assert!(used <= 288 << 10, "{way}: {used}");
            assert_eq!(vm.call::<String>("fine", ("still",)).unwrap(), "still!", "{way}");
        }
    }
}

#[test]
fn a_list_that_grows_up_to_the_limit_does_not_collect_for_every_element() {
    let program = compile(FILLS).unwrap();
    let mut vm = Vm::builder().heap_limit(1 << 20).load(&program).unwrap();
    let length = vm.call::<i32>("list", ()).unwrap();
    assert!(length > 50_000, "{length}");
    let collections = vm.stats().collections;
    assert!(collections < 100, "{collections}");
}

#[test]
fn calls_take_no_more_memory_than_the_heap_may() {
    let program = compile(FILLS).unwrap();
    let mut vm = Vm::builder().heap_limit(64 << 10).call_depth(100_000_000).load(&program).unwrap();
    let error = script_error(vm.call::<i32>("recursion", (0,)));
    let depth: usize = error.message.split(' ').nth(3).unwrap().parse().unwrap();
    assert!((10_000..150_000).contains(&depth), "{error}");
}

#[test]
fn structures_of_any_depth_are_collected_on_a_small_stack() {
    let source = "
        class Node { public Object next; public func<int> call; public Object[] slots; public int f() { return 1; } }
        Object field(Object o) { Node n = Node(); n.next = o; return n; }
        Object slot(Object o) { Node n = Node(); n.slots = [o]; return n; }
        Object receiver(Object o) { Node n = Node(); Node below = o as Node; if (below != null) { n.call = below.f; } return n; }
        Object element(Object o) { Bag b = Bag(); b.list = [o]; return b; }
        Object value(Object o) { Bag b = Bag(); b.values = {}; b.values[1] = o; return b; }
        Object key(Object o) { Bag b = Bag(); b.keys = {}; b.keys[o] = 1; return b; }
        class Bag { public List<Object> list; public Dict<int, Object> values; public Dict<Object, int> keys; }
        Object chain(func<Object, Object> link, int n) { Object o; for (int i = 0; i < n; i += 1) { o = link(o); } return o; }
        Object fields(int n) { return chain(field, n); }
        Object slots(int n) { return chain(slot, n); }
        Object receivers(int n) { return chain(receiver, n); }
        Object elements(int n) { return chain(element, n); }
        Object values(int n) { return chain(value, n); }
        Object keys(int n) { return chain(key, n); }";
    let length = if cfg!(debug_assertions) { 20_000 } else { 500_000 };
    let run = move || {
        let mut vm = Vm::new(&compile(source).unwrap()).unwrap();
        for kind in ["fields", "slots", "receivers", "elements", "values", "keys"] {
            let head: Object = vm.call(kind, (length,)).unwrap();
            vm.collect();
            let held = vm.stats().used;
            assert!(held > length as usize * 16, "{kind}: {held}");
            drop(head);
            vm.collect();
            assert!(vm.stats().used < held / 4, "{kind}: {}", vm.stats().used);
        }
    };
    // A word of stack for each link would not fit.
    std::thread::Builder::new().stack_size(768 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_program_whose_constants_do_not_fit_leaves_the_others_as_they_were() {
    let first = compile(
        "long big() { return 123456789012345; }
         int main() {
             string s = \"one\" + \" of these\";
             if (s == \"one of these\" && big() % 10 == 5) { return 7; }
             return 0;
         }",
    )
    .unwrap();
    let texts: String =
        (0..2000).map(|i| format!("s = \"{i:0100}\"; n = {};", i + (1i64 << 40))).collect();
    let second = compile(&format!("int main() {{ string s; long n; {texts} return 0; }}")).unwrap();
    let mut vm = Vm::builder().heap_limit(64 << 10).load(&first).unwrap();
    assert_eq!(vm.run().unwrap(), 7);
    assert!(matches!(vm.load(&second), Err(Error::HeapFull)));
    assert_eq!(vm.run().unwrap(), 7);
}
