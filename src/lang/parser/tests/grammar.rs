use super::{body, tree, value};

#[test]
fn a_unit_is_imports_then_aliases_then_declarations() {
    let text = "import io; import lib.geo;\nimport lib.*;\nusing Row = List<int>;\n\
                int main() { return 0; }";
    let expected = "(import io)\n(import lib.geo)\n(import lib.*)\n(using Row List<int>)\n\
                    (fn int main() (do (return 0)))";
    assert_eq!(tree(text), expected);
    assert_eq!(tree(""), "");
}

#[test]
fn functions_have_modifiers_parameters_and_defaults() {
    let text = "public static void f(int a, out string b, long c = a + 1, P d = {}) {}";
    let expected =
        "(fn public static void f(int a, out string b, long c = (+ a 1), P d = (braces)) (do))";
    assert_eq!(tree(text), expected);
    assert_eq!(tree("native int g();"), "(fn native int g())");
}

#[test]
fn classes_have_bases_interfaces_fields_methods_and_constructors() {
    let text = "class B : lib.A implements I, x.J { private int n; public List<B>[] all; P p;\n\
                virtual int step(int by) { n += by; } static B make() { return new B(); } }";
    let expected = "(class B :lib.A +I +x.J (private int n) (public List<B>[] all) (P p) \
                    (fn virtual int step(int by) (do (+= n by))) \
                    (fn static B make() (do (return (new B)))))";
    assert_eq!(tree(text), expected);
}

#[test]
fn a_constructor_may_have_a_dummy_result_or_none() {
    let text = "class C { C() {} public int C(int a) { return 0; } void C(long b) {} C c() {} }";
    let expected = "(class C (ctor void C() (do)) (ctor public int C(int a) (do (return 0))) \
                    (ctor void C(long b) (do)) (fn C c() (do)))";
    assert_eq!(tree(text), expected);
}

#[test]
fn structs_interfaces_and_enums_have_their_members() {
    assert_eq!(tree("struct S { int x; public S2 y; }"), "(struct S (int x) (public S2 y))");
    let interface = "interface I { void a(); public int b(int x); }";
    assert_eq!(tree(interface), "(interface I (fn void a()) (fn public int b(int x)))");
    assert_eq!(tree("enum E { A }"), "(enum E A)");
    let text = "enum Dir { N, E = 4, S; public int twice() { return this * 2; } }";
    let expected = "(enum Dir N (= E 4) S (fn public int twice() (do (return (* this 2)))))";
    assert_eq!(tree(text), expected);
}

#[test]
fn types_nest_and_two_closing_angles_close_two_levels() {
    let text = "Dict<string, List<List<int>>> a; func<void> b; Func<int, out string, lib.P[]> c;\n\
                func<func<int>[], List<x.Y>>[] d; ulong[] e;";
    let expected = "(let Dict<string,List<List<int>>> a) (let func<void> b) \
                    (let func<int,out string,lib.P[]> c) (let func<func<int>[],List<x.Y>>[] d) \
                    (let ulong[] e)";
    assert_eq!(body(text), expected);
}

#[test]
fn a_closing_angle_may_touch_the_equals_sign() {
    assert_eq!(tree("using A = List<int>;\nvoid f(List<int>a={}) {}").lines().count(), 2);
    assert_eq!(tree("void f(List<List<int>>a=x) {}"), "(fn void f(List<List<int>> a = x) (do))");
}

#[test]
fn statements_of_every_kind() {
    for (text, expected) in [
        ("{ ; { } }", "(do _ (do))"),
        ("int a = 1, b, c = a;", "(let int (= a 1) b (= c a))"),
        ("const int n = 3;", "(const int (= n 3))"),
        ("Channel<int> c = {};", "(let Channel<int> (= c (braces)))"),
        ("f(); a.b(1);", "(call f) (call (. a b) 1)"),
        (
            "a = 1; a.b += 2; a[i] -= 3; a *= 4; a /= 5; a %= 6;",
            "(= a 1) (+= (. a b) 2) (-= ([] a i) 3) (*= a 4) (/= a 5) (%= a 6)",
        ),
        ("if (a) b(); else if (c) d(); else e();", "(if a (call b) (if c (call d) (call e)))"),
        ("if (a) if (b) c(); else d();", "(if a (if b (call c) (call d)))"),
        ("while (a) { }", "(while a (do))"),
        ("do a(); while (b);", "(do-while (call a) b)"),
        (
            "for (int i = 0, n = 3; i < n; i += 1) f(i);",
            "(for (let int (= i 0) (= n 3)) (< i n) (+= i 1) (call f i))",
        ),
        ("for (;;) break;", "(for _ _ _ break)"),
        ("for (i = 0; ; next()) continue;", "(for (= i 0) _ (call next) continue)"),
        ("foreach (List<int> x in xs) f(x);", "(foreach List<int> x xs (call f x))"),
        (
            "switch (x) { case 1, 2: f(); break; case 'c': default: g(); }",
            "(switch x (case (1 2) (call f) break) (case ('c')) (default (call g)))",
        ),
        ("switch (x) { }", "(switch x)"),
        (
            "try { a(); } catch (A e) { } catch (b.B e) f(); finally { }",
            "(try (do (call a)) (catch A e (do)) (catch b.B e (call f)) (finally (do)))",
        ),
        ("try a(); finally b();", "(try (call a) (finally (call b)))"),
        (
            "throw; throw e; return; return 1; return {};",
            "(throw _) (throw e) (return _) (return 1) (return (braces))",
        ),
        ("assert(a); super(1, n = 2);", "(assert a) (super 1 n=2)"),
    ] {
        assert_eq!(body(text), expected, "{text}");
    }
}

#[test]
fn operators_bind_as_the_precedences_say_and_associate_left() {
    for (text, expected) in [
        ("a + b + c", "(+ (+ a b) c)"),
        ("a - b * c % d", "(- a (% (* b c) d))"),
        ("a || b && c == d < e + f * g", "(|| a (&& b (== c (< d (+ e (* f g))))))"),
        ("a * b + c < d == e && f || g", "(|| (&& (== (< (+ (* a b) c) d) e) f) g)"),
        ("a != b == c", "(== (!= a b) c)"),
        ("a <= b >= c > d", "(> (>= (<= a b) c) d)"),
        ("-x as byte", "(- (as x byte))"),
        ("c as int + 1", "(+ (as c int) 1)"),
        ("c as int as List<int>", "(as (as c int) List<int>)"),
        ("!a.b[c]", "(! ([] (. a b) c))"),
        ("- + ! - x", "(- (+ (! (- x))))"),
        ("(a + b) * c", "(* (paren (+ a b)) c)"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn operands_of_every_kind() {
    for (text, expected) in [
        ("1", "1"),
        ("18446744073709551615", "18446744073709551615"),
        ("1.5", "1.5"),
        ("2.5f", "2.5f"),
        ("true == false", "(== true false)"),
        ("'x'", "'x'"),
        ("\"\"", "\"\""),
        ("\"a\"", "\"a\""),
        ("\"a${b}c${d}\"", "(cat \"a\" $b \"c\" $d)"),
        ("null", "null"),
        ("this.x", "(. this x)"),
        ("a.b.c(1).d[2].e", "(. ([] (. (call (. (. a b) c) 1) d) 2) e)"),
        ("f(a, out b, n = 1, m = {}, o = [2])", "(call f a out b n=1 m=(braces) o=(list 2))"),
        ("[1, [2], {}]", "(list 1 (list 2) (braces))"),
        ("[]", "(list)"),
        ("{1, x: 2, \"k\": {3}, \"\": 4}", "(braces 1 x: 2 \"k\": (braces 3) \"\": 4)"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn construction_with_and_without_new() {
    for (text, expected) in [
        ("new C(1, 2)", "(new C 1 2)"),
        ("new lib.geo.Point{x: 1}", "(init lib.geo.Point x: 1)"),
        ("new S{1, 2}", "(init S 1 2)"),
        ("C(1)", "(call C 1)"),
        ("lib.C(1)", "(call (. lib C) 1)"),
        ("new List<int>{1}", "(init List<int> 1)"),
        ("List<List<int>>()", "(new List<List<int>>)"),
        ("Dict<string, int>{\"a\": 1}", "(init Dict<string,int> \"a\": 1)"),
        ("Channel<func<void>>(3)", "(new Channel<func<void>> 3)"),
        ("new int[n + 1]", "(array int (+ n 1))"),
        ("new func<int>[3]", "(array func<int> 3)"),
        ("new List<int[]>[3]", "(array List<int[]> 3)"),
        ("new int[3][1]", "([] (array int 3) 1)"),
        ("new C().m()", "(call (. (new C) m))"),
        ("Future.selectAny(fs)", "(call (. Future selectAny) fs)"),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn a_less_sign_opens_type_arguments_only_after_a_built_in_generic_name() {
    assert_eq!(value("a < b"), "(< a b)");
    assert_eq!(value("Lists < b"), "(< Lists b)");
    assert_eq!(body("f(a < b, c > d);"), "(call f (< a b) (> c d))");
    assert_eq!(body("A<B> c;"), "(let A<B> c)");
}

#[test]
fn two_signs_in_a_row_are_two_unary_operators() {
    assert_eq!(value("a - -b"), "(- a (- b))");
    assert_eq!(value("- -b"), "(- (- b))");
}
