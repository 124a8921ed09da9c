use super::dump::dump;
use super::harness::{expect, expect_units, tree};

#[test]
fn arguments_must_fill_the_parameters() {
    expect(
        "int f(int a, int b = 2, int c = 3) { return a; }
        int main() {
            f(1); f(1, c = 5); f(b = 1, a = 2); f(1, 2, 3);
            f(); // error: lacks an argument for `a`
            f(1, 2, 3, 4); // error: `f` takes 3 arguments, but 4 are given
            f(1, d = 2); // error: `f` has no parameter `d`
            f(1, a = 2); // error: parameter `a` is given twice
            f(a = 1, 2); // error: an argument without a name
            f(1, \"b\"); // error: expected `int`, found `string`
            f(b = 1); // error: lacks an argument for `a`
            main(1); // error: `main` takes 0 arguments, but 1 is given
            return 0;
        }",
    );
}

#[test]
fn out_is_marked_on_both_sides() {
    expect(
        "void set(out int a) { a = 1; }
        void none(int a) { }
        class C { public int x; }
        int main() {
            int v; long l; const int k = 1; int[] a = [1]; C c = C();
            set(out v);
            set(v); // error: must be marked `out`
            none(out v); // error: this parameter is not `out`
            set(out l); // error: the `out` parameter is `int`, but the variable is `long`
            set(out k); // error: `k` is `const`
            set(out w); // error: unknown name `w`
            func<void, out int> f = set;
            f(out v);
            f(v); // error: must be marked `out`
            func<void, int> g = none;
            g(out v); // error: is not `out`
            return v;
        }
        struct S { int x; }
        void s(out S s) { } // error: a struct cannot be an `out` parameter
        void d(out int a = 1) { } // error: an `out` parameter cannot have a default
        class D { public D(out int a) { } // error: a constructor cannot have `out`
            public virtual void v(out int a) { } // error: a virtual method cannot have `out`
        }
        interface I { void f(out int a); } // error: an interface cannot have `out`
        enum E { A; public int g(out int x) { return 1; } } // error: an enum cannot have `out`",
    );
}

#[test]
fn the_nearest_overload_is_called() {
    let program = tree(
        "int f(int a) { return 1; } int f(long a) { return 2; } int f(string a) { return 3; }
        int f(Object a) { return 4; } int f(double a) { return 5; }
        int g(long a) { return 1; } int g(double a) { return 2; }
        class A { } class B : A { } class C : B { }
        int h(A a) { return 1; } int h(B a) { return 2; } int h(Object a) { return 3; }
        int e(byte a) { return 1; } int e(Dir a) { return 2; } int e(Object a) { return 3; }
        enum Dir { N }
        int r(func<int> f) { return 1; } int r(func<int, A> f) { return 2; }
        int main() {
            byte b = 1; float x = 1.5f;
            f(1); f(b); f(5000000000); f(x); f('x'); f(true); f(\"s\"); f(A());
            g(b); g(x);
            h(C()); h(A());
            e(b); e(Dir.N); e(1);
            r(main); r(h);
            return 0;
        }",
    );
    let named = |name: &str, nth: usize| {
        let all: Vec<usize> =
            (0..program.functions.len()).filter(|&at| program.functions[at].name == name).collect();
        all[nth]
    };
    let main = program.functions.iter().find(|f| f.name == "main").unwrap();
    let mut called = Vec::new();
    for stmt in &main.body {
        if let crate::lang::hir::StmtKind::Expr(expr) = &stmt.kind
            && let crate::lang::hir::ExprKind::Call { callee, .. } = &expr.kind
            && let crate::lang::hir::Callee::Direct(id) = callee
        {
            called.push(id.0 as usize);
        }
    }
    let expected = [
        ("f", [0, 0, 1, 4, 3, 3, 2, 3].as_slice()),
        ("g", &[0, 1]),
        ("h", &[1, 0]),
        ("e", &[0, 1, 0]),
        ("r", &[0, 1]),
    ];
    let expected: Vec<usize> =
        expected.iter().flat_map(|(name, nths)| nths.iter().map(|&nth| named(name, nth))).collect();
    assert_eq!(called, expected);
}

#[test]
fn ties_and_calls_without_a_candidate_are_errors() {
    expect(
        "void f(int a, long b) { } void f(long a, int b) { }
        void g(int a, int b = 1) { } void g(int a) { }
        int f(int a, long b) { return 1; } // error: `f` is declared twice
        void h(int[] a) { } void h(List<int> a) { }
        int main() {
            f(1, 1); // error: ambiguous
            f(1, 5000000000);
            g(1); // error: ambiguous
            g(1, 2);
            f(true, false); // error: no `f` takes `(bool, bool)`
            h([1]); // error: ambiguous
            f(nothing, 1); // error: unknown name
            return 0;
        }",
    );
}

#[test]
fn defaults_come_after_given_arguments_and_know_earlier_parameters() {
    let program = tree(
        "class C {
            public int n;
            public int m(int a, int b = a + n, int c = this.k(b)) { return c; }
            public int k(int x = 7) { return x; }
        }
        int g(int x, int y = x) { return x; }
        int f(int a, int b = g(a), int c = g(a, b)) { return a; }
        int main() {
            int x = f(c = 1, a = 2);
            x = f(5);
            C o = C();
            return o.m(1);
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var x = f(2: 1, 0: 2, 1: default g(0: #0, 1: default #0))\n\
         x = f(0: 5, 1: default g(0: #0, 1: default #0), 2: default g(0: #0, 1: #1))\n\
         var o = new C\n\
         return C.m(0: o, 1: 1, 2: default Add(#1, #0.0), 3: default C.k(0: #0, 1: #2))\n"
    );
}

#[test]
fn a_default_that_cannot_be_computed_is_an_error() {
    expect(
        "int f(int a = b, int b = 1) { return a; } // error: unknown name `b`
        int g(int a = \"x\") { return a; } // error: expected `int`, found `string`
        int h(int a = h()) { return a; } // error: the default of `a` needs a call of `h`
        int i(int a = j()) { return a; } // error: the default of `a` needs a call of `i`
        int j(int a = i()) { return a; } // error: the default of `a` needs a call of `j`
        class C { public int n; public static int s(int a = n) { return a; } } // error: unknown name `n`
        int main() { f(); g(); g(); h(); return i(); }",
    );
}

#[test]
fn defaults_that_multiply_are_refused_instead_of_never_ending() {
    let mut source = String::from("int f0(int a = 1) { return a; }\n");
    for n in 1..40 {
        let inner = n - 1;
        source += &format!("int f{n}(int a = f{inner}() + f{inner}()) {{ return a; }}\n");
    }
    source += "int main() { return f39(); }";
    let program = super::harness::program(&[("main", &source)]);
    let (tree, found) = super::harness::run(&program);
    assert!(tree.is_none());
    assert!(found.sorted().iter().any(|it| it.message.contains("too often")));
}

#[test]
fn defaults_that_stand_in_one_another_without_end_are_refused() {
    let mut source = String::from("int f0(int a = 1) { return a; }\n");
    for n in 1..20 {
        let (open, close) = ("(".repeat(100), ")".repeat(100));
        source += &format!("int f{n}(int a = {open}f{}(){close}) {{ return a; }}\n", n - 1);
    }
    source += "int main() { return f19(); }";
    let program = super::harness::program(&[("main", &source)]);
    let (tree, found) = super::harness::run(&program);
    assert!(tree.is_none());
    assert!(found.sorted().iter().any(|it| it.message.contains("too deeply")));
}

#[test]
fn methods_need_a_receiver_and_static_ones_a_class() {
    expect(
        "class A {
            public int n;
            public int get() { return n; }
            public static int make(int k) { return k; }
            public int wrong() { return get(); } // error: unknown name `get` `this.get`
            public static int alone() { return n; } // error: unknown name `n` `static` method has no fields
            public static A self() { return this; } // error: there is no `this`
        }
        int main() {
            A a = A(); a.get(); A.make(1); func<int, int> f = A.make; func<int> g = a.get;
            A.get(); // error: `A.get` is not `static`
            a.make(1); // error: `A.make` is `static`
            f = a.make; // error: `A.make` is `static`
            g = A.get; // error: `A.get` is not `static`
            a.gte(); // error: `A` has no member `gte` did you mean `get`?
            a.x = 1; // error: `A` has no member `x`
            int x = a.get; // error: expected `int`, found the function `get` call it
            return get(); // error: unknown name `get`
        }",
    );
}

#[test]
fn a_variable_shadows_a_function_only_if_it_can_be_called() {
    expect(
        "int count(int n) { return n; } int twice(int n) { return 2 * n; } int other(int n) { return n; }
        class C { public func<int, int> f; public int count; public int run() { return f(count) + count(2); } }
        int main() {
            int count = count(1);
            count = count(2);
            func<int, int> twice = other;
            C c = C(); c.f = twice;
            count = 5;
            int x = 1;
            x(); // error: this is `int` and cannot be called
            return twice(\"x\") + c.f(1); // error: expected `int`, found `string`
        }
        int wrong() { func<int, int> twice = null; return twice(n = 1); } // error: have no names
        int short_() { func<int, int> twice = null; return twice(); } // error: takes 1 argument, not 0",
    );
}

#[test]
fn references_match_exactly_and_some_functions_are_none() {
    expect(
        "import io;
        int f(int a) { return a; } long g(int a) { return a; } int d(int a = 1) { return a; }
        void out_(out int a) { }
        enum E { A; public int m() { return this; } }
        interface I { int f(int a); }
        class C implements I { public virtual int f(int a) { return a; } public int k(int a) { return a; } }
        void take(func<int, int> f) { }
        int main() {
            func<int, int> x = f; take(f); x = C().f; x = C().k; I i = C(); x = i.f;
            func<string> t = C().toString; func<void, out int> o = out_;
            x = g; // error: `g` is no `func<int, int>` it is a `func<long, int>`
            x = d; // error: `d` has defaults
            x = out_; // error: `out_` is no `func<int, int>`
            func<int> m = E.A.m; // error: `E.m` is a method of an enum
            func<void, string> p = io.print; // error: native function
            func<int> l = [1].length; // error: native function
            int n = f; // error: expected `int`, found the function `f` call it: `f(…)`
            f; // error: not used
            n = f + 1; // error: `f` is a function
            x = new func<int, int>(f); // error: func
            func<int>[] many = new func<int>[3];
            return x(1);
        }",
    );
}

#[test]
fn bound_methods_dispatch_as_calls_do() {
    let program = tree(
        "interface I { int f(); }
        class C implements I { public virtual int f() { return 1; } public int k() { return 2; } public static int s() { return 3; } }
        int main() {
            C c = C(); I i = c; func<int> g = c.f; g = c.k; g = i.f; g = C.s; g = main;
            func<string> t = i.toString;
            return g();
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var c = new C\n\
         var i = Upcast<I>(c)\n\
         var g = bound virtual3 c\n\
         g = bound C.k c\n\
         g = bound interface f i\n\
         g = &C.s\n\
         g = &main\n\
         var t = bound virtual2 Upcast<Object>(i)\n\
         return (g)()\n"
    );
}

#[test]
fn functions_of_the_host_are_called_by_their_qualified_names() {
    expect(
        "native int host_add(int a, int b);
        native void missing(); // error: there is no native function `missing`
        int main() { func<int, int, int> f = host_add; // error: native function
            return host_add(1, b = 2); }",
    );
    let program = tree(
        "native int host_add(int a, int b);
        int main() { return host_add(1, b = 2); }",
    );
    assert_eq!(dump(&program, "main"), "return host_add(0: 1, 1: 2)\n");
    assert_eq!(program.natives[0].name, "host_add");
    assert_eq!(program.functions.len(), 1);
}

#[test]
fn packages_are_named_whole_and_only_if_imported() {
    let geo = "class Point { public int x; int own; private int secret; }
        public int area(Point p) { return p.x + helper(); }
        private int hidden() { return 1; }";
    let util = "public int helper() { return 1; }";
    expect_units(&[
        (
            "main",
            "import lib.geo;
            int main() {
                lib.geo.Point p = lib.geo.Point(); p.x = 1;
                int n = lib.geo.area(p);
                func<int, lib.geo.Point> f = lib.geo.area;
                n = lib.util.helper(); // error: package `lib.util` is not imported
                n = lib.geo.aera(p); // error: package `lib.geo` has no `aera` did you mean `lib.geo.area`?
                n = area(p); // error: unknown name `area` `lib.geo.area`
                Point q = p; // error: unknown type `Point` `lib.geo.Point`
                n = p.own; // error: belongs to its own file public
                n = p.secret; // error: private
                n = lib.geo.hidden(); // error: `lib.geo.hidden` is private
                n = lib.geo; // error: `lib.geo` is a package
                n = io.readInt(); // error: package `io` is not imported import io;
                lib.nothing.Type t = null; // error: lib.nothing
                return n;
            }",
        ),
        ("lib.geo", geo),
        ("lib.util", util),
    ]);
}

#[test]
fn neighbours_see_each_other_and_own_names_win() {
    expect_units(&[
        (
            "main",
            "import helper; import third;
            int own() { return 1; }
            int main() { Thing t = Thing(); return own() + shared(2) + helper.own() + t.n + twice(1); } // error: ambiguous",
        ),
        (
            "helper",
            "class Thing { public int n; } public int own() { return 2; }
            public int shared(int n) { return own(); } public int twice(int n) { return n; }",
        ),
        ("third", "public int twice(int n) { return n; } public int shared(string s) { return 1; }"),
    ]);
}
