use super::dump::dump;
use super::harness::{expect, tree};
use crate::vm::types::Method;

#[test]
fn declarations_must_not_clash() {
    expect(
        "class A { } class A { } // error: the name of class `A` is taken
        void A() { } // error: the name of function `A` is taken
        class List { } // error: built-in type
        enum Exception { X } // error: built-in type
        class F { public int x; public long x; } // error: field `x` is taken
        void p(int a, int a) { } // error: parameter `a` is taken
        enum E { X, X } // error: member `X` is taken
        class M { public void f(int a) { } public int f(int b) { return b; } } // error: `M.f` is declared twice
        class Mutex { public int own; }
        int main() { return Mutex().own; }",
    );
}

#[test]
fn bases_and_interfaces_are_classes_and_interfaces() {
    expect(
        "class A : B { } // error: class `A` derives from itself
        class B : A { }
        class C : I { } // error: `I` cannot be a base class implements I
        class D : S { } // error: `S` cannot be a base class
        class E implements D { } // error: `D` is not an interface
        class F implements I, I { } // error: named twice
        class G : Missing { } // error: unknown type `Missing`
        class H : Object { } class J : Exception { }
        interface I { } struct S { int x; }
        int main() { return 0; }",
    );
}

#[test]
fn overrides_and_implementations_return_the_same() {
    expect(
        "interface I { int f(int a); string toString(); }
        class A implements I { public virtual int f(int a) { return a; } public virtual void g() { } }
        class B : A { public long f(int a) { return a; } // error: `B.f` must return `int` as `A.f` does
            public int g() { return 1; } // error: `B.g` must return `void`
            public string f(string s) { return s; } public int equals(Object o) { return 1; } }
        class C implements I { public int f(long a) { return 1; } } // error: class `C` does not implement `I.f(int)`
        class D { public int toString() { return 1; } } // error: `D.toString` must return `string`
        class E implements I { public static int f(int a) { return 1; } } // error: does not implement `I.f(int)`
        int main() { return 0; }",
    );
}

#[test]
fn vtables_and_selectors_hold_the_nearest_method() {
    let program = tree(
        "interface I { int f(); int g(); }
        class C : B { public int f() { return 3; } public string toString() { return \"c\"; } }
        class B : A { public int f() { return 2; } public int g() { return 22; } public virtual int h() { return 5; } }
        class A implements I { public virtual int f() { return 1; } public int g() { return 11; } }
        int main() { A a = C(); I i = a; a.f(); a.g(); i.g(); B b = null; b.g(); i.toString(); return 0; }",
    );
    let named = |name: &str| program.functions.iter().position(|f| f.name == name).unwrap() as u32;
    let class = |name: &str| program.types.classes.iter().find(|c| c.name == name).unwrap();
    let script = |name: &str| Method::Script(crate::vm::types::FunctionId(named(name)));
    assert_eq!(class("A").vtable[3..], [script("A.f")]);
    assert_eq!(class("B").vtable[3..], [script("B.f"), script("B.h")]);
    let native = Method::Native;
    assert_eq!(
        class("C").vtable,
        [native, native, script("C.toString"), script("C.f"), script("B.h")]
    );
    let implementing = |name: &str| -> Vec<u32> {
        class(name).selectors.iter().map(|(_, function)| function.0).collect()
    };
    assert_eq!(implementing("A"), [named("A.f"), named("A.g")]);
    assert_eq!(implementing("C"), [named("C.f"), named("B.g")]);
    assert_eq!(
        dump(&program, "main"),
        "var a = Upcast<A>(new C)\n\
         var i = Upcast<I>(a)\n\
         virtual3(0: a)\n\
         A.g(0: a)\n\
         interface g(0: i)\n\
         var b = null\n\
         B.g(0: b)\n\
         virtual2(0: Upcast<Object>(i))\n\
         return 0\n"
    );
    let order = |name: &str| program.types.classes.iter().position(|c| c.name == name);
    assert!(order("A") < order("B") && order("B") < order("C"));
}

#[test]
fn members_are_used_only_from_where_they_may() {
    expect(
        "class A {
            private int a; protected int b; int c; public int d;
            private void f() { } protected void g() { }
            private A(int n) { } public A() { }
            public int same(A other) { other.f(); return other.a; }
        }
        class B : A {
            public int get(A other) {
                this.g(); int x = b + c + d + other.b;
                x = a; // error: field `a` of `A` is private
                this.f(); // error: `A.f` is private
                return x;
            }
        }
        int main() {
            A x = A(); int n = x.c + x.d;
            n = x.a; // error: private
            n = x.b; // error: protected
            x.f(); // error: private
            x.g(); // error: protected
            x = A(1); // error: `A.A` is private
            return n;
        }",
    );
}

#[test]
fn objects_are_made_by_constructors_or_initialisers() {
    expect(
        "class A { public int x; public A(int n) { x = n; } }
        class B { public int x; public string s; }
        class D { public int x; public D(int n = 1) { x = n; } }
        struct S { int x; string s; } interface I { } enum E { X }
        int main() {
            A a = A(1); a = new A(1); B b = new B(); b = B(); b = new B{x: 1, s: 2}; b = {x: 1};
            D d = new D{x: 5}; S s = {}; s = {1, 2}; s = {s: \"a\"}; s = new S{1}; s = S();
            List<int> l = {}; l = {1, 2}; l = [1]; l = new List<int>{1}; l = new List<int>();
            Dict<string, int> m = {}; m = {\"a\": 1}; int[] r = [1]; r = new int[3]; r = {1, 2};
            Object o = new Object(); func<int>[] fs = new func<int>[2]; S[] many = [{1}, {2}];
            Exception e = Exception(); e = new IOException(\"x\"); e = {message: \"y\"};
            a = A(); // error: lacks an argument for `n`
            a = {x: 1}; // error: lacks an argument for `n`
            b = B(1); // error: no constructor that takes arguments
            b = {y: 1}; // error: `B` has no field `y`
            b = {1}; // error: the fields of `B` need names
            b = {x: 1, x: 2}; // error: field `x` is given twice
            s = {1, 2, 3}; // error: struct `S` has only 2 fields
            s = {1, s: 2}; // error: either all fields have names
            s = S(1, 2); // error: no arguments are possible here braces
            m = {a: 1}; // error: string literals write `\"a\"`
            m = {1}; // error: an entry of a Dict has a key
            l = {a: 1}; // error: elements have no names
            l = new List<int>(5); // error: no arguments
            I i = I(); // error: `I` is an interface
            E x = E(); // error: `E` is an enum
            r = [1, \"a\"]; // error: expected `int`, found `string`
            r = new int[\"a\"]; // error: the length of an array must be `int`
            e = Exception(1, 2); // error: one string, or nothing
            int n = {}; // error: `{…}` cannot make a `int`
            n = [1]; // error: expected `int`, found a list of elements
            string t = [1, 2] + [\"a\"]; // error: `+` is not possible between
            foreach (int v in [1, 2]) { n += v; }
            io.print({}); // error: io
            return 0;
        }",
    );
}

#[test]
fn initialisers_evaluate_in_written_order() {
    let program = tree(
        "class C { public int x; public int y; public C(int n = 9) { } }
        struct S { int a; string b; }
        int main() {
            C c = new C{y: 1, x: 2}; S s = {b: \"t\", a: 3}; S t = {4};
            Dict<string, long> d = {\"k\": 1}; Exception e = IOException(\"m\"); List<S> l = [s];
            return 0;
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var c = new C(1: default 9){1: 1, 0: 2}\n\
         var s = new S{1: \"t\", 0: 3}\n\
         var t = new S{0: 4}\n\
         var d = {\"k\": 1_long}\n\
         var e = Upcast<Exception>(new IOException{1: new List<string>, 0: \"m\"})\n\
         var l = List<S>[Copy(s)]\n\
         return 0\n"
    );
}

#[test]
fn super_calls_the_constructor_of_the_base_from_constructors_only() {
    expect(
        "class A { public A(int n) { } } class B : A { public B() { super(1); } }
        class C : A { public C() { super(); } } // error: lacks an argument for `n`
        class D { public D() { super(); } }
        class E { public E() { super(1); } } // error: no base class
        class F : D { public F() { super(1); } } // error: takes 0 arguments
        class G : Exception { public G(string s) { super(s); } }
        class H : Exception { public H() { super(1, 2); } } // error: one string, or nothing
        class I : A { public void f() { super(1); } } // error: `super(…)` outside of a constructor
        class J { } class K : J { public K() { super(); } }
        int main() { super(); return 0; } // error: `super(…)` outside of a constructor",
    );
    let program = tree(
        "class A { public A(int n) { } } class B : A { public B() { super(1); return 0; } }
        class G : Exception { public G(string s) { super(s); } }
        int main() { return 0; }",
    );
    assert_eq!(dump(&program, "B.B"), "A.A(0: this, 1: 1)\nreturn\n");
    assert_eq!(dump(&program, "G.G"), "this.1 = new List<string>\nthis.0 = s\n");
}

#[test]
fn structs_are_copied_where_they_are_read_from_a_place() {
    let program = tree(
        "struct In { int v; } struct S { In in_; int x; }
        class C { public S s; }
        S give(S s) { return s; }
        int take(In i, S s) { return 0; }
        int main() {
            S a = {}; S b = a; a = give(b); C c = C(); c.s = a; a = c.s;
            S[] r = [a, give(a)]; b = r[0]; List<S> l = [b]; l.add(b); b = l.get(0);
            int n = r[0].in_.v + give(a).x; take(a.in_, {});
            foreach (S e in l) { b = e; }
            a.in_ = b.in_; a = {b.in_, 1};
            return n;
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var a = new S\n\
         var b = Copy(a)\n\
         a = give(0: Copy(b))\n\
         var c = new C\n\
         c.0 = Copy(a)\n\
         a = Copy(c.0)\n\
         var r = S[][Copy(a), give(0: Copy(a))]\n\
         b = Copy(r[0])\n\
         var l = List<S>[Copy(b)]\n\
         List.add(0: l, 1: Copy(b))\n\
         b = Copy(List.get(0: l, 1: 0))\n\
         var n = Add(r[0].0.0, give(0: Copy(a)).1)\n\
         take(0: Copy(a.0), 1: new S)\n\
         foreach e in l\n  b = Copy(e)\n\
         a.0 = Copy(b.0)\n\
         a = new S{0: Copy(b.0), 1: 1}\n\
         return n\n"
    );
    assert_eq!(dump(&program, "give"), "return Copy(s)\n");
}

#[test]
fn structs_do_not_contain_themselves() {
    expect(
        "struct A { B b; } struct B { A a; } // error: would contain itself
        struct C { C c; } // error: struct `C` would contain itself
        struct D { D[] many; List<D> more; E e; } struct E { int x; }
        int main() { return 0; }",
    );
}

#[test]
fn enums_have_constant_values_and_static_methods() {
    expect(
        "enum E { A, B = 4, C; public int twice() { return this * 2; } public int more(int n) { return this.twice() + n; } }
        enum Neg { A = -1 } // error: negative
        enum Big { A = 2147483648 } // error: does not fit into `int`
        enum Over { A = 2147483647, B } // error: does not fit into `int`
        enum Text { A = \"x\" } // error: integer constant
        enum Sum { A = 1 + 2 }
        enum Str { A; public string toString() { return \"\"; } } // error: cannot define `toString`
        enum Def { A; public int f(int a = 1) { return a; } } // error: cannot have defaults
        int main() {
            E e = E.B; string s = e.toString();
            int n = e.more(1) + E.C.twice() + e;
            n = E.D; // error: `E` has no member `D`
            n = e.thrice(); // error: `E` has no member `thrice`
            return n;
        }",
    );
}
