use super::{complaints, hint, messages, parsed, tree};
use crate::lang::diagnostic::Style;
use crate::lang::parser::dump;

#[track_caller]
fn shown(text: &str) -> String {
    let (_, diagnostics, sources) = parsed(text);
    diagnostics.render(&sources, Style::default())
}

#[test]
fn a_missing_semicolon_is_reported_where_it_belongs() {
    let text = "int main() {\n    int x = 1\n    return x\n}\n";
    let expected = "\
main.n:2:14: error: expected `;`
  2 |     int x = 1
    |              ^
main.n:3:13: error: expected `;`
  3 |     return x
    |             ^
";
    assert_eq!(shown(text), expected);
    let (unit, _, _) = parsed(text);
    assert_eq!(dump::unit(&unit), "(fn int main() (do (let int (= x 1)) (return x)))");
}

#[test]
fn what_is_not_closed_points_at_its_opener() {
    let text =
        "class A {\n    void f() {\n        g();\n    public int h() { return 1; }\n}\nint x() {";
    let expected = "\
main.n:2:14: error: this `{` is not closed
  2 |     void f() {
    |              ^
main.n:4:5: note: the reserved word `public` cannot stand inside
  4 |     public int h() { return 1; }
    |     ^^^^^^
main.n:6:9: error: this `{` is not closed
  6 | int x() {
    |         ^
main.n:6:10: note: the file ends here
  6 | int x() {
    |          ^
";
    assert_eq!(shown(text), expected);
    let text = "void f() {\n    g(1, h(2;\n}";
    let expected = "\
main.n:2:13: error: expected `)`, found `;`
  2 |     g(1, h(2;
    |             ^
main.n:2:11: note: the one to be closed
  2 |     g(1, h(2;
    |           ^
";
    assert_eq!(shown(text), expected);
}

#[test]
fn several_errors_are_reported_in_one_run_and_what_is_right_is_kept() {
    let text = "import io\nint = 3;\nvoid f() {\n    x = ;\n    y = 1;\n    if (a { b(); }\n    \
                for (int i = 0 i < 3; i += 1) { c(); }\n    d() e();\n    z = 2;\n}\nclass {}\n\
                void g() { h(; }\n";
    assert_eq!(
        messages(text),
        [
            "1:10 expected `;`",
            "2:5 expected a name, found `=`",
            "4:9 expected an expression, found `;`",
            "6:11 expected `)`, found `{`",
            "7:20 expected `;`, found `i`",
            "8:9 expected `;`, found `e`",
            "11:7 expected the name of a class, found `{`",
            "12:14 expected an expression, found `;`",
        ]
    );
    let (unit, _, _) = parsed(text);
    let expected = "(import io)\n(fn void f() (do <error> (= y 1) (if a (do (call b))) <error> \
                    <error> (= z 2)))\n(fn void g() (do <error>))";
    assert_eq!(dump::unit(&unit), expected);
}

#[test]
fn an_error_in_a_member_leaves_the_other_members() {
    let text = "class C { int a; int 5; void f() { ] } int b; int g( { } long c; }";
    let (unit, diagnostics, _) = parsed(text);
    assert_eq!(diagnostics.counts().0, 3);
    let dumped = dump::unit(&unit);
    assert_eq!(dumped, "(class C (int a) (int b) (long c) (fn void f() (do <error>)))");
}

#[test]
fn what_other_languages_have_is_answered_with_what_to_write() {
    let mut failures = Vec::new();
    for (text, message, says) in [
        ("i++;", "2 there is no `++`", "i += 1"),
        ("--i;", "1 there is no `--`", "i -= 1"),
        ("x = i++;", "6 there is no `++`", "i += 1"),
        ("for (;; i++) { }", "10 there is no `++`", "i += 1"),
        ("x = a ? b : c;", "7 `?` is not an operator of this language", "`if` and `else`"),
        ("x = (int)y;", "5 there is no such cast", "x as int"),
        ("x = (C)y;", "5 there is no such cast", "x as C"),
        ("x = int(y);", "5 a type cannot be called", "x as int"),
        ("int(y);", "1 a type cannot be called", "x as int"),
        ("x = 5.;", "5 `5.` is not a number", "5.0"),
        ("x = 'ab';", "5 a char holds exactly one character", "\"ab\""),
        ("if (a = b) { }", "7 expected `)`, found `=`", "`==`"),
        ("a == b;", "1 the value of this expression is not used", "`=`"),
        ("f;", "1 the value of this expression is not used", "f()"),
        ("int a[3];", "6 the brackets belong to the type", "new T[n]"),
        ("int[][] a;", "1 an array cannot hold arrays", "List<T[]>"),
        ("x = new int[2][];", "16 expected an expression, found `]`", ""),
        ("x = new int[];", "9 this array has no length", "new int[10]"),
        ("x = new int[]{1, 2};", "9 an array is not made like this", "[1, 2, 3]"),
        ("x = new int[2]{1, 2};", "15 braces after the length of an array", "[1, 2, 3]"),
        ("x = new int(5);", "9 this type has no constructor", "classes"),
        ("x = new func<int>(f);", "9 a func type has no constructor", "without `()`"),
        ("x = Point{1};", "10 expected `;`, found `{`", "new C{"),
        ("x = a << 2;", "8 expected an expression, found `<`", "no shift operators"),
        ("x = a >> 2;", "8 expected an expression, found `>`", "no shift operators"),
        ("x = a and b;", "7 expected `;`, found `and`", "`&&`"),
        ("x = y => z;", "7 expected `;`, found `=`", "no lambdas"),
        ("a->b();", "3 expected an expression, found `>`", "`.`"),
        ("for (int x : xs) { }", "12 expected `;`, found `:`", "foreach"),
        ("foreach (x in xs) { }", "12 expected the name of a variable, found `in`", "foreach (int"),
        ("super.m();", "6 expected `(` after `super`", "constructor"),
        ("f()();", "1 only what has a name can be called", "variable"),
        ("f() = 1;", "1 the result of a call is no variable", "fields"),
        ("f(out int x);", "7 `out` takes the name of a variable", "before the call"),
        ("f(out a.b);", "7 `out` takes a local variable or a parameter", "afterwards"),
        ("try { } catch { }", "15 `catch` needs a class and a variable", "Exception"),
        ("f(1,);", "5 expected an expression, found `)`", "no comma"),
        ("int g() { return 1; }", "6 a function cannot be declared inside another one", "`}`"),
        ("if (a) int x = 1;", "8 a declaration cannot be the whole body", "braces"),
        ("void v;", "1 `void` is not a type of values", ""),
        ("List<void> v;", "6 `void` is possible in a `func` type only", ""),
        ("func<out int> v;", "6 a result cannot be `out`", ""),
        ("\"a;", "1 this string is not closed", "line"),
        ("x = {1};", "", ""),
    ] {
        let (wrong, hint) = (complaints(text), hint(text));
        if wrong.join("\n") != message || !hint.contains(says) {
            failures.push(format!("{text}: {wrong:?}, {hint}"));
        }
    }
    assert_eq!(failures, [""; 0]);
}

#[test]
fn else_if_is_spelled_in_two_words() {
    assert_eq!(complaints("if (a) { } elseif (b) { }"), ["23 expected `;`, found `{`"]);
    assert_eq!(hint("if (a) { } elseif (b) { }"), "it is spelled `else if`");
}

#[test]
fn parts_of_statements_do_not_stand_alone() {
    assert_eq!(complaints("else f();"), ["1 `else` without `if`"]);
    assert_eq!(complaints("catch (E e) { }"), ["1 `catch` without `try`"]);
    assert_eq!(complaints("case 1: f();"), ["1 `case` without `switch`"]);
    assert_eq!(complaints("try { }"), ["1 `try` needs a `catch` or a `finally`"]);
    assert_eq!(complaints("do f();"), ["3:1 expected `while` after the body of `do`, found `}`"]);
    assert_eq!(complaints("if (a)"), ["3:1 expected a statement, found `}`"]);
    let late = "switch (a) { default: f(); case 1: g(); }";
    assert_eq!(complaints(late), ["28 `default` comes last"]);
    let twice = "switch (a) { default: f(); default: g(); }";
    assert_eq!(complaints(twice), ["28 there is a `default` already"]);
    assert_eq!(complaints("switch (a) { f(); case 1: g(); }").len(), 1);
}

#[test]
fn declarations_say_what_cannot_stand_there() {
    let mut failures = Vec::new();
    for (text, message) in [
        ("int x = 5;", "1:5 there are no global variables"),
        ("const int X = 5;", "1:11 there are no global variables"),
        ("io.print(1);", "1:1 a statement stands inside a function"),
        ("if (a) { }", "1:1 a statement stands inside a function"),
        ("main() { }", "1:1 a function needs a result type"),
        ("int f();", "1:5 `f` has no body"),
        ("native int f() { }", "1:16 a native function has no body"),
        ("void f(void) { }", "1:8 a parameter cannot be `void`"),
        (
            "public private int f() { }",
            "1:8 there can be only one of `public`, `protected`, `private`",
        ),
        ("static static int f() { }", "1:8 `static` is repeated"),
        ("class C<T> { }", "1:8 a class has no type parameters"),
        ("class C : A, B { }", "1:12 expected `implements` or `{`, found `,`"),
        ("class C { int a = 1; }", "1:17 a field has no initialiser"),
        ("class C { int a, b; }", "1:16 a field stands alone"),
        ("class C { static int a; }", "1:11 a field has no modifiers but its access"),
        ("class C { f() { } }", "1:11 a method needs a result type"),
        ("class C { void a; }", "1:11 `void` is not a type of values"),
        ("class C { virtual C() { } }", "1:11 a constructor has no modifiers but its access"),
        ("class C { } ;", "1:13 a `;` without a declaration"),
        ("}", "1:1 this `}` closes nothing"),
        ("struct S { void f() { } }", "1:17 a struct has no methods"),
        ("interface I { void f() { } }", "1:24 a method of an interface has no body"),
        ("interface I { int a; }", "1:19 an interface has no fields"),
        ("interface I : J { }", "1:13 an interface has no base"),
        ("enum E { }", "1:10 expected the name of an enum's member, found `}`"),
        ("enum E { A, }", "1:13 expected the name of an enum's member, found `}`"),
        ("enum E { A int b; }", "1:12 expected `,`, `;` or `}`, found the reserved word `int`"),
        ("import \"x\";", "1:8 an import names a package, not a file"),
        ("using X;", "1:8 an alias needs a type"),
        ("void f() { } import x;", "1:14 an import stands before everything else"),
        ("void f() { } using A = int;", "1:14 an alias stands before all declarations"),
    ] {
        let wrong = messages(text);
        if wrong != [message] {
            failures.push(format!("{text}: {wrong:?}"));
        }
    }
    assert_eq!(failures, [""; 0]);
}

#[test]
fn doubled_signs_are_legal_and_warned_of() {
    let (_, diagnostics, _) = parsed("void f() { x = --y; x = a--b; x = - -y; x = +-y; }");
    assert_eq!(diagnostics.counts(), (0, 2));
    assert_eq!(tree("void f() { x = - -y; }"), "(fn void f() (do (= x (- (- y)))))");
}
