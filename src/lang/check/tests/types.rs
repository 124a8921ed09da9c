use super::harness::{expect, expect_in_main, expect_units};

#[test]
fn a_name_that_means_nothing_is_an_error_with_the_closest_one() {
    expect(
        "class Point { public int x; public int move_() { return y; } } // error: unknown name `y`
        int count(int n) { return n; }
        int main() {
            int total = 1;
            total = totla; // error: unknown name `totla` did you mean `total`?
            coutn(1); // error: unknown name `coutn` did you mean `count`?
            Pount p = null; // error: unknown type `Pount` did you mean `Point`?
            String s = null; // error: unknown type `String` `string`
            return nothing; // error: unknown name `nothing`
        }",
    );
}

#[test]
fn what_other_languages_call_it_is_known_too() {
    expect(
        "import math;
        int main() {
            List<int> l = {}; int[] a = [1]; string s = \"\";
            l.push(1); // error: no member `push` did you mean `add`?
            int n = l.size(); // error: no member `size` `length`
            n = a.len(); // error: no member `len` `length`
            a.add(1); // error: no member `add` the length of an array is fixed
            s = s.toLowerCase(); // error: no member `toLowerCase` did you mean `toLower`?
            println(s); // error: unknown name `println` write `io.print`, and `import io;`
            return sqrt(4); // error: unknown name `sqrt` write `math.sqrt`
        }",
    );
}

#[test]
fn one_mistake_gives_one_message() {
    expect(
        "Nothing make(Nothing a) { return a; } // error: unknown type
        // That it stands twice in one line is said twice.
        int main() {
            int a = nothing + 1; // error: unknown name
            a = nothing.field.other(a)[3]; // error: unknown name
            string s = make(a) + 1;
            List<Missing> l = {}; // error: unknown type
            l.add(4);
            foreach (int x in l) { a = x; }
            if (nothing) { } // error: unknown name
            return make(1, 2); // error: takes 1 argument
        }",
    );
}

#[test]
fn void_and_arrays_of_arrays_are_no_types_of_values() {
    expect(
        "using Row = int[];
        class C { public List<Row> rows; }
        int main() {
            Row[] rows = null; // error: one dimension List<int[]>
            List<int, int> l = {}; // error: takes 1 type argument
            Dict<int> d = {}; // error: takes 2 type arguments
            C<int> c = null; // error: C no type
            List<Row> ok = {};
            Row[] other = new Row[3]; // error: one dimension
            return 0;
        }",
    );
}

#[test]
fn keys_are_neither_functions_nor_structs() {
    expect(
        "struct S { int x; }
        int main() {
            Dict<func<void>, int> a = {}; // error: `func<void>` cannot be the key
            Dict<S, int> b = {}; // error: `S` cannot be the key
            Dict<int[], S> c = {};
            return 0;
        }",
    );
}

#[test]
fn aliases_may_name_any_type_but_only_aliases_above() {
    expect(
        "using Row = List<int>;
        using Table = List<Row>;
        using Callback = func<void, Row>;
        using Early = Late; // error: `Late` below
        using Late = int;
        using Own = List<Own>; // error: refers to itself
        using C = int; // error: alias `C` is taken
        using f = int; // error: alias `f` is taken
        using List = int; // error: built-in
        using Row = int; // error: alias `Row` is taken
        using P = Point;
        class C { }
        void f() { }
        class Point { public int x; }
        class Derived : P { }
        int main() {
            Table t = [[1], [2]];
            Row r = t[0];
            P p = P();
            Late l = Derived().x;
            return r[0] + p.x + l;
        }",
    );
}

#[test]
fn an_alias_is_known_in_its_file_only() {
    expect_units(&[
        (
            "main",
            "import other;
            int main() {
                Row r = {}; // error: unknown type `Row`
                return other.f();
            }",
        ),
        ("other", "using Row = List<int>; public int f() { Row r = [1]; return r[0]; }"),
    ]);
}

#[test]
fn integers_widen_and_literals_fit() {
    expect_in_main(
        "byte b = 127; short s = b; int i = s; long l = i; ubyte ub = 255; ushort us = ub;
        uint ui = us; ulong ul = ui; s = ub; i = us; l = ui; float f = i; double d = l; f = us;
        d = f; d = ul; f = 1.5; b = -128; ul = 18446744073709551615; l = -9223372036854775808;
        i = -2147483648; b = (5); char c = 'x'; float g = 1.5f; long m = -5; d = 5; f = 5;
        b = 128; // error: `128` does not fit into `byte`
        b = -129; // error: `-129` does not fit
        ub = -1; // error: `-1` does not fit into `ubyte`
        b = 1 + 2; // error: expected `byte`, found `int`
        i = l; // error: expected `int`, found `long` as int
        ui = i; // error: expected `uint`, found `int`
        i = ui; // error: expected `int`, found `uint`
        l = ul; // error: expected `long`, found `ulong`
        f = d; // error: expected `float`, found `double`
        f = 1e39; // error: expected `float`
        i = 1.0; // error: expected `int`, found `double`
        i = 3000000000; // error: does not fit into `int`
        c = 65; // error: expected `char`, found `int` as char
        i = c; // error: expected `int`, found `char` as int
        i = true; // error: expected `int`, found `bool`
        bool t = 1; // error: expected `bool` != 0
        d = \"1\"; // error: expected `double`, found `string` toDouble()
        l = -9223372036854775809; // error: does not fit",
    );
}

#[test]
fn enums_convert_to_and_from_int_only() {
    expect(
        "enum Dir { N, E } enum Other { A }
        int main() {
            int i = Dir.E; Dir d = 1; d = i; i = Dir.N + 1;
            Dir wrong = Other.A; // error: expected `Dir`, found `Other`
            long l = Dir.N as long; byte b = 1; d = b as Dir; d = l as Dir;
            d = l; // error: expected `Dir`, found `long`
            bool same = Dir.N == Dir.E && d < Dir.E && d == 0;
            same = Dir.N == Other.A; // error: between `Dir` and `Other`
            Object o = Dir.N; d = o as Dir;
            return d;
        }",
    );
}

#[test]
fn references_go_up_by_themselves_and_down_by_as() {
    expect(
        "interface I { void f(); } interface J { void f(); }
        class A implements I { public void f() { } } class B : A { } class C { }
        int main() {
            A a = B(); I i = B(); Object o = a; o = i; a = null; i = null; o = null;
            B b = a as B; a = i as A; i = o as I; a = o as A; i = C() as I; J j = i as J;
            List<int> l = null; int[] r = null; func<void> f = null; string s = null;
            b = a; // error: expected `B`, found `A` as B
            I wrong = C(); // error: expected `I`, found `C` does not implement
            C c = a as C; // error: `A` cannot be converted to `C`
            int n = null; // error: expected `int`, found `null`
            List<A> as_ = new List<B>(); // error: expected `List<A>`, found `List<B>`
            o = r; // error: expected `Object`, found `int[]`
            o = f; // error: expected `Object`, found `func<void>`
            r = o as int[]; // error: `Object` cannot be converted to `int[]`
            return 0;
        }",
    );
}

#[test]
fn as_narrows_unboxes_and_knows_chars() {
    expect_in_main(
        "long l = 5; double d = 1.5; int i = l as int; i = d as int; ubyte b = i as ubyte;
        char c = i as char; c = b as char; i = c as int; l = c as long; i = 5 as int;
        Object o = 5; i = o as int; string s = o as string; bool t = o as bool; s = 5 as string;
        i = -i as byte; float f = d as float; ulong u = (-1) as ulong; o = i as Object;
        i = \"1\" as int; // error: `string` cannot be converted to `int` toInt
        i = t as int; // error: `bool` cannot be converted to `int`
        t = i as bool; // error: `int` cannot be converted to `bool`
        d = c as double; // error: `char` cannot be converted to `double`
        i = new int[1] as int; // error: `int[]` cannot be converted to `int`
        byte fold = 5 as int; // error: expected `byte`, found `int`",
    );
}

#[test]
fn everything_but_structs_becomes_text_in_string_positions() {
    expect(
        "struct S { int x; } enum E { A } class C { public string name; }
        void take(string s) { }
        string give() { return 5; }
        string wrong(S s) { return s; } // error: expected `string`, found `S`
        int main() {
            string s = 5; s = 1.5; s = 'x'; s = true; s = E.A; s = C(); s = [1, 2]; s = null;
            take(5); take(C()); s += 1; s = s + E.A + 1; s = 1 + s; s = \"${s}\";
            C c = C(); c.name = 5; List<string> l = [1, 'x']; l[0] = 5; s = new List<int>{};
            S v = {1};
            s = v; // error: expected `string`, found `S` name its fields
            s = s + v; // error: expected `string`, found `S`
            s = \"${v}\"; // error: expected `string`, found `S`
            s = s + null; // error: `null` cannot be an operand of `+`
            s = s + take(1); // error: returns no value
            return 0;
        }",
    );
}

#[test]
fn the_library_takes_no_text_of_other_values_but_for_printing() {
    expect_in_main(
        "io.print(5); io.print([1, 2]); io.write('x'); io.eprint(null);
        List<string> l = {};
        l.add(5); // error: expected `string`, found `int` as string
        l.add(null);
        bool b = \"a\".contains('a'); // error: expected `string`, found `char`
        b = \"a\".contains(\"a\");
        List<long> n = {}; n.add(1); byte small = 1; n.add(small);
        n.add(1.5); // error: expected `long`, found `double`
        n.add(1, 2); // error: takes 1 argument, but 2 are given
        string s = \"abc\".substring(1); s = \"abc\".substring(1, 2);
        s = \"abc\".substring(); // error: takes 1 or 2 arguments, but 0 are given
        s = \"abc\".substrin(1); // error: `string` has no member `substrin` did you mean `substring`?
        s = io.readLine(1); // error: takes 0 arguments
        l.add(item = 3); // error: have no names",
    );
}
