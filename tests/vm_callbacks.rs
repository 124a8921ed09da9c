//! What a host may rely on when natives fail, panic and call back at every place where a script can
//! stand, and about the values that host and script keep for each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pirn::vm::{Call, Error, Exception, Host, Object, ScriptError, Vm, compile};

fn script_error<T: std::fmt::Debug>(result: Result<T, Error>) -> ScriptError {
    match result {
        Err(Error::Script(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A function `placeN` for every place where a native can be called.
const PLACES: &str = "
    native int bad();
    class Made { public int v; public Made() { v = bad(); } }
    class Derived : Made { public Derived() { super(); } }
    class Shown { public string toString() { return \"v\".replace(\"v\", \"w\") + bad(); } }
    class Has {
        public int v;
        public static int st() { return bad(); }
        public virtual int vi() { return bad(); }
        public int me() { return bad(); }
        public func<int> f;
    }
    interface Able { int able(); }
    class Can implements Able { public int able() { return bad(); } }
    enum E { A; public int m() { return bad(); } }
    int dflt(int a = bad()) { return a; }
    void outs(out int a) { a = 5; a = bad(); }
    List<int> items() { List<int> l = [bad()]; return l; }
    int place0() { return bad(); }
    int place1() { return Made().v; }
    int place2() { return Derived().v; }
    int place3() { string s = \"x\" + Shown(); return s.length(); }
    int place4() { List<Shown> l = [Shown()]; return l.toString().length(); }
    int place5() { return Has.st(); }
    int place6() { return Has().vi(); }
    int place7() { Has h = Has(); h.f = h.me; return h.f(); }
    int place8() { Able a = Can(); return a.able(); }
    int place9() { return E.A.m(); }
    int place10() { return dflt(); }
    int place11() { int x; outs(out x); return x; }
    int place12() { foreach (int i in items()) { return i; } return 0; }
    int place13() { switch (1) { case bad(): return 1; } return 0; }
    int place14() { try { throw Exception(\"inner\"); } catch (Exception e) { return bad(); } return 0; }
    int place15() { try { return 1; } finally { bad(); } }
    int place16() { int[] a = [1, 2]; a[bad()] += 1; return a[0]; }
    int place17() { Dict<string, int> d = {\"k\": bad()}; return d[\"k\"]; }
    int place18() { if (true && bad() == 1) { return 1; } return 0; }
    int place19() { Made m = new Made{v: bad()}; return m.v; }
    int place20() { for (int i = bad(); i < 3; i += bad()) { } return 0; }
    string go(int which) {
        try { switch (which) {\n";

const COUNT: i32 = 21;

fn places() -> String {
    let mut source = String::from(PLACES);
    for i in 0..COUNT {
        source.push_str(&format!("case {i}: place{i}();\n"));
    }
    source.push_str(
        "} } catch (IOException e) { return \"io \" + e.message; } catch (Exception e) { return e.message; }
        return \"nothing\"; } int fine() { return 7; }",
    );
    source
}

#[test]
fn an_error_of_a_native_reaches_the_script_from_every_place() {
    let program = compile(&places()).unwrap();
    let bad =
        || -> Result<i32, Error> { Err(Error::Script(ScriptError::of(Exception::Io, "broken"))) };
    for stress in [false, true] {
        let mut vm = Vm::builder().gc_stress(stress).native("bad", bad).load(&program).unwrap();
        for place in 0..COUNT {
            let caught: String = vm.call("go", (place,)).unwrap();
            assert_eq!(caught, "io broken", "place {place}");
            let error = script_error(vm.call::<i32>(&format!("place{place}"), ()));
            assert_eq!((&*error.class, &*error.message), ("IOException", "broken"));
            let outermost = error.backtrace.last().unwrap();
            assert!(outermost.starts_with(&format!("place{place} (")), "{error:?}");
            assert_eq!(vm.call::<i32>("fine", ()).unwrap(), 7);
        }
    }
}

#[test]
fn a_panic_of_a_native_reaches_the_host_from_every_place_and_leaves_the_machine_whole() {
    let program = compile(&places()).unwrap();
    let bad = || -> i32 { std::panic::resume_unwind(Box::new("broken")) };
    let mut vm = Vm::builder().native("bad", bad).load(&program).unwrap();
    for place in 0..COUNT {
        let panic = catch_unwind(AssertUnwindSafe(|| vm.call::<String>("go", (place,))));
        assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"broken"), "place {place}");
        vm.collect();
        assert_eq!(vm.call::<i32>("fine", ()).unwrap(), 7, "place {place}");
    }
}

/// Host and script call each other `n` levels deep, with more arguments than a new thread has room
/// for; at the bottom something is thrown if asked for, and the levels add, catch or pass on.
#[test]
fn an_error_at_any_level_of_natives_and_scripts_arrives_where_it_is_caught() {
    let params: Vec<String> = (0..60).map(|i| format!("int a{i}")).collect();
    let args: Vec<String> = (0..60).map(|i| format!("a{i}")).collect();
    let source = format!(
        "native int down(int n, int throws, int catches);
        int step(int n, int throws, int catches) {{ return wide({zeros}, n, throws, catches); }}
        int wide({params}, int n, int throws, int catches) {{
            if (n == throws) {{ throw Exception(\"at \" + n); }}
            if (n == 0) {{ return 0; }}
            try {{ return down(n - 1, throws, catches) + 1; }}
            catch (Exception e) {{
                if (n == catches) {{ return 1000 + e.message.length(); }}
                throw;
            }}
            finally {{ {sum} }}
        }}",
        zeros = vec!["1"; 60].join(", "),
        params = params.join(", "),
        sum = format_args!("a0 = {}; assert(a0 == 60);", args.join(" + ")),
    );
    let levels = if cfg!(debug_assertions) { 5 } else { 50 };
    let down = |call: &mut Call<'_>, n: i32, throws: i32, catches: i32| {
        call.call::<i32>("step", (n, throws, catches))
    };
    let program = compile(&source).unwrap();
    for stress in [false, true] {
        let mut vm =
            Vm::builder().gc_stress(stress).reentrant("down", down).load(&program).unwrap();
        assert_eq!(vm.call::<i32>("step", (levels, -1, -1)).unwrap(), levels);
        for throws in 0..levels {
            for catches in [throws + 1, levels] {
                let result = vm.call::<i32>("step", (levels, throws, catches)).unwrap();
                let message = format!("at {throws}").len() as i32;
                assert_eq!(result, 1000 + message + levels - catches, "{throws} {catches}");
            }
            let error = script_error(vm.call::<i32>("step", (levels, throws, -1)));
            assert_eq!(error.message, format!("at {throws}"));
            assert_eq!(vm.call::<i32>("step", (1, -1, -1)).unwrap(), 1);
        }
    }
}

#[test]
fn what_the_host_holds_lives_as_long_as_it_holds_it() {
    let source = "class Item { public int v; public string s; }
        Item make(int v) { Item i = Item(); i.v = v; i.s = \"item ${v}\"; return i; }
        int churn(int n) { int sum; for (int k = 0; k < n; k += 1) { sum += make(k).s.length(); } return sum; }";
    let mut vm = Vm::new(&compile(source).unwrap()).unwrap();
    vm.collect();
    let empty = vm.stats().used;
    let items: Vec<Object> = (0..1000).map(|v| vm.call("make", (v,)).unwrap()).collect();
    let clones = items.clone();
    for round in 0..20 {
        vm.call::<i32>("churn", (20,)).unwrap();
        vm.collect();
        for (v, item) in items.iter().enumerate().skip(round % 7).step_by(50) {
            assert_eq!(vm.field::<i32>(item, "v").unwrap(), v as i32);
            assert_eq!(vm.field::<String>(item, "s").unwrap(), format!("item {v}"));
        }
    }
    drop(items);
    vm.collect();
    assert!(vm.stats().used > empty + 1000 * 16, "clones hold them too");
    assert_eq!(vm.field::<i32>(&clones[999], "v").unwrap(), 999);
    let last = clones[0].clone();
    drop(clones);
    vm.collect();
    assert!(vm.stats().used < empty + 4096, "{} {empty}", vm.stats().used);
    drop(vm);
    let other = Vm::new(&compile(source).unwrap()).unwrap();
    assert!(matches!(other.field::<i32>(&last, "v"), Err(Error::ForeignObject)));
}

#[test]
fn values_of_the_host_that_hold_objects_of_the_script_are_dropped_without_harm() {
    /// Lets go of an object of the script when it is dropped, which is while the heap cleans up.
    struct Holder {
        _object: Option<Object>,
        drops: Arc<AtomicUsize>,
    }
    impl Drop for Holder {
        fn drop(&mut self) {
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
    }
    let source = "native Object wrap(Object o); class Link { public Object o; }
        void chain(int n) { Object o; for (int i = 0; i < n; i += 1) { Link l = Link(); l.o = o; o = wrap(l); } }";
    let drops = Arc::new(AtomicUsize::new(0));
    let count = drops.clone();
    let wrap =
        move |object: Object| Host::new(Holder { _object: Some(object), drops: count.clone() });
    let mut vm = Vm::builder().native("wrap", wrap).load(&compile(source).unwrap()).unwrap();
    vm.call::<()>("chain", (50,)).unwrap();
    // Each collection finds what the one before let go of.
    for _ in 0..60 {
        vm.collect();
    }
    assert_eq!(drops.load(Ordering::Relaxed), 50);
    vm.call::<()>("chain", (50,)).unwrap();
    drop(vm);
    assert_eq!(drops.load(Ordering::Relaxed), 100);
}

#[test]
fn a_panic_in_the_drop_of_a_host_value_leaves_the_machine_whole() {
    struct Bomb(Arc<Mutex<u32>>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("boom"));
            }
        }
    }
    let source = "native Object bomb(); void light(int n) { for (int i = 0; i < n; i += 1) { bomb(); } }
        int fine() { List<string> l = {}; for (int i = 0; i < 100; i += 1) { l.add(\"s\" + i); } return l.length(); }";
    let drops = Arc::new(Mutex::new(0));
    let count = drops.clone();
    let bomb = move || Host::new(Bomb(count.clone()));
    let mut vm = Vm::builder().native("bomb", bomb).load(&compile(source).unwrap()).unwrap();
    vm.call::<()>("light", (3,)).unwrap();
    for _ in 0..5 {
        let _ = catch_unwind(AssertUnwindSafe(|| vm.collect()));
        assert_eq!(vm.call::<i32>("fine", ()).unwrap(), 100);
    }
    assert_eq!(*drops.lock().unwrap(), 3, "each once");
}
