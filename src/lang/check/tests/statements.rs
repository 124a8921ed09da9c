use super::dump::dump;
use super::harness::{expect, expect_in_main, tree};

#[test]
fn names_live_in_their_blocks() {
    expect_in_main(
        "int x = 1; { int x = 2; int y = x; } x = 3;
        y = 1; // error: unknown name `y`
        int x = 4; // error: variable `x` is declared twice
        int z = z; // error: unknown name `z`
        for (int i = 0, k = i; i < k; i += 1) { int i = 5; }
        i = 1; // error: unknown name `i`
        foreach (int v in [1]) { } try { } catch (Exception e) { }
        e = null; // error: unknown name `e`
        const int a = 1, b = a;
        b = 2; // error: `b` is `const`",
    );
}

#[test]
fn returns_match_the_result() {
    expect(
        "int f() { return; } // error: a value of type `int` must be returned
        void g() { return 1; } // error: returns `void`
        void h() { return g(); } // error: returns `void`
        int i() { return \"a\"; } // error: expected `int`, found `string`
        int j() { } long k() { return 1; } double l() { return 1; } string m() { return 1; }
        int n() { return g(); } // error: returns no value
        int main() {
            int x = g(); // error: returns no value
            x = 1 + g(); // error: returns no value
            f(); g();
            return 0;
        }",
    );
}

#[test]
fn jumps_need_something_to_leave() {
    expect_in_main(
        "break; // error: `break` outside
        continue; // error: `continue` outside of a loop
        while (true) { break; } do { continue; } while (false);
        switch (1) { case 1: break; }
        switch (1) { case 1: continue; } // error: `continue` outside of a loop
        while (true) { switch (1) { case 1: continue; default: break; } }",
    );
}

#[test]
fn nothing_leaves_a_finally_body_but_an_exception_that_happens() {
    expect(
        "void f() { }
        int main() {
            while (true) { try { break; } finally { f(); } }
            while (true) { try { f(); } finally { break; } } // error: `break` cannot leave
            while (true) { try { f(); } finally { continue; } } // error: `continue` cannot leave
            try { f(); } finally { return 1; } // error: `return` cannot leave
            try { f(); } finally { throw Exception(); } // error: `throw` is not possible
            try { f(); } finally { while (true) { break; } for (;;) { continue; } }
            try { f(); } finally { while (true) { return 1; } } // error: `return` cannot leave
            try { f(); } finally { switch (1) { case 1: break; } }
            while (true) { try { f(); } finally { switch (1) { case 1: continue; } } } // error: `continue` cannot leave
            try { f(); } catch (Exception e) { throw; } finally { try { f(); } catch (Exception e) { f(); } }
            return 0;
        }",
    );
}

#[test]
fn exceptions_are_thrown_caught_and_rethrown() {
    expect(
        "class E : IOException { } class Plain { }
        int main() {
            throw; // error: `throw;` outside of a `catch` body
            throw \"text\"; // error: only exceptions can be thrown, but this is `string` throw Exception
            throw Plain(); // error: only exceptions can be thrown, but this is `Plain`
            throw null; // error: only exceptions can be thrown
            throw E(); 
            throw new E(\"m\");
            try { } catch (Plain p) { } // error: `Plain` is no exception class
            try { } catch (string s) { } // error: `string` is no exception class
            try { } catch (E e) { throw; } catch (Exception e) { string s = e.message + e.backtrace; throw e; }
            try { } catch (E e) { while (true) { throw; } }
            return 0;
        }",
    );
    let program = tree(
        "int main() {
            try { main(); } catch (IOException e) { try { main(); } catch (Exception f) { throw; } throw; }
            return 0;
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "try\n  main()\n\
         catch IOException e hidden0\n  try\n    main()\n  catch Exception f hidden2\n    rethrow hidden2\n  rethrow hidden0\n\
         return 0\n"
    );
}

#[test]
fn foreach_variables_have_the_type_of_the_elements() {
    expect_in_main(
        "List<long> l = {}; Dict<string, int> d = {}; int[] a = [1];
        foreach (long v in l) { } foreach (string k in d) { } foreach (int v in a) { } foreach (char c in \"x\") { }
        foreach (int v in l) { } // error: the elements are `long`, but the variable is `int`
        foreach (long v in a) { } // error: the elements are `int`
        foreach (int k in d) { } // error: the elements are `string`
        foreach (int k in 5) { } // error: cannot go through `int`
        foreach (ubyte b in \"x\") { } // error: the elements are `char`
        foreach (Object o in new List<string>()) { } // error: the elements are `string`",
    );
}

#[test]
fn labels_fit_the_value() {
    expect(
        "enum Dir { N, E } enum Other { X } class C { }
        int main() {
            int n = 1; byte b = 1; char c = 'x'; string s = \"\"; double d = 1; float f = 1; Dir e = Dir.N; long l = 1; ulong u = 1;
            switch (n) { case 1, 2: case 3 + 1: case n + 1: case Dir.E as int + 10: default: }
            switch (b) { case 1: case -128: case n: } switch (l) { case 1: case 5000000000: case n: } switch (u) { case 1: }
            switch (c) { case 'a', 'b': } switch (s) { case \"a\": case s + \"x\": } switch (e) { case Dir.N: case 1: }
            switch (d) { case 1.5: case f: } switch (f) { case 1.5: case 2.5f: } switch (n) { case Dir.N: case 1: }
            switch (n) { case \"a\": } // error: the label is `string`, but the value is `int`
            switch (n) { case 'a': } // error: the label is `char`
            switch (b) { case 300: } // error: the label `300` is out of the range of `byte`
            switch (b) { case 100 + 100: } // error: the label `200` is out of the range
            switch (u) { case -1: } // error: the label `-1` is out of the range of `ulong`
            switch (s) { case 1: } // error: the label is `int`, but the value is `string`
            switch (d) { case 1: } // error: the label is `int`, but the value is `double`
            switch (f) { case d: } // error: the label is `double`, but the value is `float`
            switch (e) { case Other.X: } // error: the label is `Other`, but the value is `Dir`
            switch (n) { case 1: case 2, 1: } // error: this label stands here twice
            switch (n) { case 3: case 1 + 2: } // error: twice
            switch (e) { case Dir.N: case 0: } // error: twice
            switch (s) { case \"a\": case \"a\": } // error: twice
            switch (d) { case 0.0: case -0.0: } // error: twice
            switch (true) { case true: } // error: `switch` is not possible on `bool`
            switch (C()) { } // error: `switch` is not possible on `C`
            switch (u) { case n: } // error: the label is `int`, but the value is `ulong`
            return 0;
        }",
    );
    let program = tree(
        "int main() { byte b = 1; int n = 2; switch (b) { case 1: case n: n = 3; default: n = 4; } return 0; }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var b = 1_byte\nvar n = 2\n\
         switch Number<int>(b)\ncase Number<int>(1_byte)\ncase n\n  n = 3\ndefault\n  n = 4\nreturn 0\n"
    );
}

#[test]
fn compound_assignments_read_the_place_before_the_rest() {
    let program = tree(
        "int f() { return 1; }
        class C { public int[] a; public string s; public byte b; }
        C c() { return C(); }
        int main() {
            int x = 1; x += f(); c().a[f()] *= f(); c().s += f(); c().b -= 1; x += x;
            Dict<string, double> d = {}; d[f()] /= 2; x = f() + x; ulong u = 1; u *= 2;
            return 0;
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var x = 1\n\
         x = Add(old, f())\n\
         c().0[f()] = Mul(old, f())\n\
         c().1 = Concat(old, ToString<string>(f()))\n\
         c().2 = Number<byte>(Sub(Number<int>(old), 1))\n\
         x = Add(old, x)\n\
         var d = new Dict<string, double>\n\
         d[ToString<string>(f())] = Div(old, 4611686018427387904_double)\n\
         x = Add(f(), x)\n\
         var u = 1_ulong\n\
         u = Mul(old, 2_ulong)\n\
         return 0\n"
    );
}

#[test]
fn texts_are_joined_from_left_to_right() {
    let program = tree(
        "int main() {
            int n = 1; string s = 1 + 2.5 + \"x\" + n + 1; s = \"${n}${s}!\"; s = \"${s}\"; s = \"a\" + (s + n);
            return 0;
        }",
    );
    assert_eq!(
        dump(&program, "main"),
        "var n = 1\n\
         var s = Concat(ToString<string>(Add(4607182418800017408_double, 4612811918334230528_double)), \"x\", ToString<string>(n), ToString<string>(1))\n\
         s = Concat(ToString<string>(n), s, \"!\")\n\
         s = s\n\
         s = Concat(\"a\", s, ToString<string>(n))\n\
         return 0\n"
    );
}

#[test]
fn interpolation_takes_variables_and_fields() {
    expect(
        "class C { public int n; public string f(int p) { int l = 1; return \"${n} ${p} ${l}\"; }
            public string g() { return \"${f}\"; } } // error: unknown name `f`
        int main() { string s = \"${main}\"; return 0; } // error: unknown name `main`",
    );
}

#[test]
fn a_statement_that_could_not_be_read_hides_no_other_error() {
    expect(
        "int main() {
            int a = ; // error: expected an expression
            a = 5;
            int b = \"x\"; // error: expected `int`
            b = c; // error: unknown name `c`
            return a;
        }
        int other() { return a; } // error: unknown name `a`",
    );
}

#[test]
fn main_takes_nothing() {
    expect("int main(int n) { return n; } // error: `main` takes no parameters");
    expect("string main() { return 1; } // error: returns `int` or `void`");
    assert!(tree("void main() { }").main.is_some());
    assert!(tree("void helper() { }").main.is_none());
}
