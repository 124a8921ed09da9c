use super::harness::{expect, expect_in_main};

#[test]
fn numbers_meet_in_the_smallest_type_that_holds_both() {
    expect_in_main(
        "byte b = 1; ubyte ub = 2; int i = 3; uint ui = 4; long l = 5; ulong ul = 6;
        float f = 1.5f; double d = 2.5;
        i = b + ub; l = i + ui; l = l + ui; ui = ui + 1; ul = ul + 1; ul = ui + ul; ui = ui + ui;
        f = f + l; d = d + f; d = f * 2.0; l = l * 2; ul = ul % 10; ul = 1 + 18446744073709551615;
        ui = ui - 3000000000;
        b = b + b; // error: expected `byte`, found `int`
        i = i + ui; // error: expected `int`, found `long`
        ui = ui + -1; // error: expected `uint`, found `long`
        f = f * 2.0; // error: expected `float`, found `double`
        l = i + ul; // error: no type holds both `int` and `ulong`
        l = l * ul; // error: no type holds both `long` and `ulong`
        bool t = ul < i; // error: no type holds both
        i = -b; l = -ui; d = -d; i = +b;
        ul = -ul; // error: `ulong` has no `-`
        i = -true; // error: `-` needs a number
        i = 'a' + 1; // error: `+` is not possible between `char` and `int` as int
        i = true + 1; // error: `+` is not possible between `bool` and `int`
        i = \"a\" - 1; // error: `-` is not possible between `string` and `int`",
    );
}

#[test]
fn comparisons_need_values_of_one_family() {
    expect(
        "struct S { int x; } class A { } class B : A { } class C { } interface I { }
        int main() {
            A a = null; B b = null; C c = null; I i = null; Object o = null; S s = {};
            List<int> l = null; int[] r = null; string t = null; func<int> f = main;
            bool x = a == b && a == null && a == o && i == a && i == c && l == null && r == r;
            x = t == \"a\" && t < \"b\" && t == null && null == t && 'a' < 'b' && true == false;
            x = f == main && main != f && f == null && 1 == 1.0 && null == null;
            x = t == 1; // error: between `string` and `int`
            x = 'a' == 97; // error: between `char` and `int` as int
            x = true == 1; // error: between `bool` and `int`
            x = true < false; // error: `<` is not possible between `bool`
            x = r == 1; // error: between `int[]` and `int`
            x = s == s; // error: between `S` and `S` fields
            x = a == c; // error: between `A` and `C`
            x = a < b; // error: `<` is not possible between `A` and `B`
            x = f < f; // error: `<` is not possible
            x = t < null; // error: `<` is not possible between `string` and `null`
            x = o == 1; // error: between `Object` and `int` as int
            x = l == r; // error: between `List<int>` and `int[]`
            x = 1 == null; // error: between `int` and `null`
            return 0;
        }",
    );
}

#[test]
fn conditions_and_logic_take_bools() {
    expect_in_main(
        "int n = 1; string s = \"\"; List<int> l = {}; bool b = !(n == 1) || n > 2 && n < 3;
        if (n) { } // error: the condition of `if` must be `bool`, but this is `int` write `n != 0`
        while (s) { } // error: the condition of `while` write `s != \"\"`
        do { } while (l); // error: the condition of `while` write `l != null`
        for (; n; ) { } // error: the condition of `for` must be `bool`
        b = n && b; // error: an operand of `&&` must be `bool`
        b = b || n; // error: an operand of `||` must be `bool`
        b = !n; // error: negates must be `bool`
        assert(n); // error: `assert` checks must be `bool`",
    );
}

#[test]
fn compound_assignment_converts_back() {
    expect(
        "enum E { A, B }
        int main() {
            byte b = 1; b += 1; b *= 2.5; ubyte u = 1; u -= 2; float f = 1.5f; f *= 2.0; int i = 1;
            i += 2.5; i %= 3; string s = \"a\"; s += 1; s += 'x'; ulong l = 1; l += 1; E e = E.A; e += 1;
            List<int> list = [1]; list[0] += 5; Dict<string, int> d = {}; d[\"a\"] *= 2;
            i += \"x\"; // error: `+=` gives `string`, which cannot become `int`
            s -= 1; // error: `-` is not possible between `string` and `int`
            bool t = true;
            t += 1; // error: `+` is not possible between `bool` and `int`
            char c = 'a';
            c += 1; // error: `+` is not possible between `char` and `int`
            l += i; // error: no type holds both `ulong` and `int`
            return 0;
        }",
    );
}

#[test]
fn elements_have_integer_indices_and_strings_do_not_change() {
    expect_in_main(
        "int[] a = [1]; List<int> l = [1]; Dict<string, int> d = {}; string s = \"ab\"; long n = 0;
        int x = a[0] + l[0] + d[\"k\"] + s[0]; ubyte u = s[0]; x = a[n]; x = l[3000000000];
        d[5] = 1; a[0] = 2; l[0] = 3; x = [1, 2][1]; x = a['a' as int];
        x = a[\"0\"]; // error: an index must be `int`, but this is `string`
        x = a[1.5]; // error: an index must be `int` as int
        x = x[0]; // error: `int` has no elements
        s[0] = 65; // error: the bytes of a string cannot be changed
        l[0] = \"a\"; // error: expected `int`, found `string`",
    );
}

#[test]
fn only_what_stays_can_be_assigned_to() {
    expect(
        "struct In { int v; } struct S { In in_; int x; } class C { public S s; public int n; }
        enum E { A }
        S give() { return {}; }
        C object() { return C(); }
        int main() {
            S s = {}; S[] a = new S[2]; List<S> l = [s]; Dict<string, S> d = {}; C c = C();
            s.x = 1; s.in_.v = 2; a[0].x = 3; a[0].in_.v = 4; c.s.in_.v = 5; object().n = 6;
            object().s.x = 7; l[0] = s;
            l[0].x = 1; // error: an element of `List<S>` is a copy
            d[\"a\"].in_.v = 1; // error: an element of `Dict<string, S>` is a copy
            give().x = 1; // error: this struct is a copy
            const int k = 1;
            k = 2; // error: `k` is `const`
            k += 2; // error: `k` is `const`
            const List<int> fixed = [1];
            fixed[0] = 2; fixed.add(3);
            main = 1; // error: `main` is a function
            C = c; // error: `C` is a type
            E.A = 1; // error: cannot be assigned to
            c.toString = 1; // error: `toString` is a method
            return 0;
        }",
    );
}
