use proptest::prelude::*;
use proptest::sample::select;

use super::super::{MAX_DEPTH, MAX_PARAMS, parse};
use super::{dump, messages, parsed};
use crate::lang::ast::{Decl, Expr, ExprKind, Stmt, StmtKind};
use crate::lang::diagnostic::{Diagnostics, Style};
use crate::lang::lexer;
use crate::lang::on_deep_stack;
use crate::lang::source::{FileId, Source, Sources};
use crate::lang::token::TokenKind;

/// Programs that are as deep as a number says, each in another way.
const DEEP: [fn(usize) -> String; 26] = [
    |n| inside(&format!("x = {}1{};", "(".repeat(n), ")".repeat(n))),
    |n| inside(&format!("x = 1{};", " + a".repeat(n))),
    |n| inside(&format!("x = 1{};", " + a * b".repeat(n))),
    |n| inside(&format!("x = 1{};", " || a".repeat(n))),
    |n| inside(&format!("x = a{};", ".b".repeat(n))),
    |n| inside(&format!("x = a{};", ".b()".repeat(n))),
    |n| inside(&format!("x = a{};", "[0]".repeat(n))),
    |n| inside(&format!("x = {}0{};", "a[".repeat(n), "]".repeat(n))),
    |n| inside(&format!("x = a{};", "()".repeat(n))),
    |n| inside(&format!("x = a{};", " as int".repeat(n))),
    |n| inside(&format!("x = {}a;", "- ".repeat(n))),
    |n| inside(&format!("x = {}a;", "!".repeat(n))),
    |n| inside(&format!("x = {}a;", "(int)".repeat(n))),
    |n| inside(&format!("x = {}a;", "(C) ".repeat(n))),
    |n| inside(&format!("x = {}a{};", "f(".repeat(n), ")".repeat(n))),
    |n| inside(&format!("x = {}a{};", "[".repeat(n), "]".repeat(n))),
    |n| inside(&format!("x = {}a{};", "{".repeat(n), "}".repeat(n))),
    |n| inside(&format!("x = {}a{};", "new C{f: ".repeat(n), "}".repeat(n))),
    |n| inside(&format!("x = {}a{};", "new int[".repeat(n), "]".repeat(n))),
    |n| inside(&format!("{}int{} x;", "List<".repeat(n), ">".repeat(n))),
    |n| inside(&format!("{}int{} x;", "func<int, ".repeat(n), ">".repeat(n))),
    |n| inside(&format!("{}{}", "{".repeat(n), "}".repeat(n))),
    |n| inside(&format!("{}f();", "if (a) ".repeat(n))),
    |n| inside(&format!("if (a) f();{}", " else if (b) g();".repeat(n))),
    |n| inside(&format!("{}{}", "do ".repeat(n), "f(); while (a);".repeat(n.min(1)))),
    |n| inside(&format!("{}{}", "switch (a) { case 1: ".repeat(n), "}".repeat(n))),
];

/// The same for what never closes.
const OPEN: [&str; 21] = [
    "(",
    "[",
    "{",
    "a.",
    "a[",
    "f(",
    "new C{",
    "x = (",
    "- ",
    "if (",
    "while (a) ",
    "for (;;) ",
    "switch (a) {",
    "switch (a) { case ",
    "try ",
    "List<",
    "x = List<",
    "func<",
    "a < ",
    "++",
    "else ",
];

fn inside(statements: &str) -> String {
    format!("void f() {{\n{statements}\n}}\n")
}

/// How many nodes of expressions and statements lie above one another, by recursion; at a bounded
/// depth, else the test dies.
fn height(stmt: &Stmt) -> usize {
    1 + match &stmt.kind {
        StmtKind::Block(block) => block.stmts.iter().map(height).max().unwrap_or(0),
        StmtKind::Assign { value, .. } => expr_height(value),
        StmtKind::If { then, otherwise, .. } => {
            height(then).max(otherwise.as_deref().map_or(0, height))
        }
        _ => 0,
    }
}

fn expr_height(expr: &Expr) -> usize {
    1 + match &expr.kind {
        ExprKind::Binary { left, right, .. } => expr_height(left).max(expr_height(right)),
        ExprKind::Member { object, .. } | ExprKind::Index { object, .. } => expr_height(object),
        ExprKind::Call { callee, .. } => expr_height(callee),
        ExprKind::Unary { operand, .. } | ExprKind::Cast { operand, .. } => expr_height(operand),
        ExprKind::Paren(inner) => expr_height(inner),
        _ => 0,
    }
}

#[test]
fn what_is_a_hundred_levels_deep_is_parsed() {
    for program in DEEP {
        let text = program(100);
        let wrong = messages(&text);
        assert!(!wrong.iter().any(|message| message.contains("levels deep")), "{text}: {wrong:?}");
    }
}

#[test]
fn what_is_deeper_than_the_limit_is_one_error_and_no_stack_overflow() {
    for program in DEEP {
        let text = program(10_000);
        let (unit, diagnostics, _) = parsed(&text);
        let deep =
            diagnostics.sorted().iter().filter(|d| d.message.contains("levels deep")).count();
        assert_eq!(deep, 1, "{}", &text[..60]);
        // Walks the tree to its ends.
        assert!(on_deep_stack(|| dump::unit(&unit)).len() < 10_000);
    }
}

#[test]
fn a_tree_is_never_higher_than_the_limit_even_where_chains_and_brackets_nest() {
    let mut text = "1".to_owned();
    for _ in 0..30 {
        text = format!("({text}{})", " + a".repeat(30));
    }
    let (unit, diagnostics, _) = parsed(&inside(&format!("x = {text};")));
    assert!(diagnostics.has_errors());
    assert_eq!(dump::unit(&unit), "(fn void f() (do <error>))");
    for program in DEEP {
        for count in [120, 126, 129, 200, 240, 252, 254, 255, 256, 257, 258] {
            let (unit, _, _) = parsed(&program(count));
            let [Decl::Function(function)] = unit.decls.as_slice() else { panic!() };
            let stmts = &function.body.as_ref().expect("f has a body").stmts;
            let highest = on_deep_stack(|| stmts.iter().map(height).max().unwrap_or(0));
            assert!(highest <= MAX_DEPTH as usize + 1, "{highest} of {}", program(3));
        }
    }
}

#[test]
fn what_opens_ten_thousand_times_and_never_closes_is_reported_in_linear_time() {
    for opener in OPEN {
        for text in [inside(&opener.repeat(10_000)), opener.repeat(10_000)] {
            let (_, diagnostics, _) = parsed(&text);
            assert!(diagnostics.has_errors(), "{opener}");
        }
        messages(&inside(&format!("{opener};\n").repeat(3_000)));
    }
}

#[test]
fn wide_programs_are_no_deep_ones() {
    let n = 10_000;
    assert_eq!(messages(&inside(&"f();\n".repeat(n))), [""; 0]);
    assert_eq!(messages(&inside(&format!("x = [{}1];", "1,".repeat(n)))), [""; 0]);
    assert_eq!(messages(&"void f() {}\n".repeat(n)), [""; 0]);
    let parts = "${a}".repeat(n);
    assert_eq!(messages(&inside(&format!("x = \"{parts}\";"))), [""; 0]);
}

#[test]
fn more_parameters_than_possible_are_refused() {
    let function = |n: usize| format!("void f({}) {{}}", vec!["int a"; n].join(", "));
    assert_eq!(messages(&function(MAX_PARAMS)), [""; 0]);
    let wrong = messages(&function(MAX_PARAMS + 1));
    assert_eq!(wrong, ["1:456 a function has at most 64 parameters"]);
}

/// Whatever a file contains, lexer, parser and renderer come to an end, and everything lies in the
/// file.
fn survives(bytes: &[u8]) {
    on_deep_stack(|| survives_here(bytes));
}

fn survives_here(bytes: &[u8]) {
    let mut sources = Sources::default();
    let file = sources.add(Source::from_bytes("x.n".to_owned(), bytes));
    let source = sources.get(file);
    let length = source.text.len() as u32;
    let mut diagnostics = Diagnostics::default();
    let tokens = lexer::lex(FileId(0), source, &mut diagnostics).list;
    for pair in tokens.windows(2) {
        assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start, "{pair:?}");
        assert_ne!(pair[0].kind, TokenKind::End);
    }
    let last = tokens.last().expect("a file has an end");
    assert_eq!((last.kind, last.start, last.end), (TokenKind::End, length, length));
    let unit = parse(file, source, &mut diagnostics);
    for found in diagnostics.sorted() {
        for span in found.span.into_iter().chain(found.labels.iter().map(|label| label.span)) {
            assert!(span.start <= span.end && span.end <= length, "{found:?}");
            let (start, end) = (span.start as usize, span.end as usize);
            assert!(source.text.get(start..end).is_some(), "{found:?}");
        }
    }
    // A tree with something left out is never passed off as whole.
    let dumped = dump::unit(&unit);
    assert!(!dumped.contains("<error>") || diagnostics.has_errors(), "{dumped}");
    let shown = diagnostics.render(&sources, Style { colour: false, limit: 1000 });
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}

const WORDS: &str = "as assert bool break byte case catch char class const continue default do \
    double else enum false finally float for foreach func if implements import in int interface \
    long native new null out private protected public return short static string struct super \
    switch this throw true try ubyte using virtual void while List Dict Func x y f C 1 1.5 2f 5. \
    0x 'c' '' \" \"s\" \"${x}\" \"${\" \\ // /* */ + - * / % = += == != < <= > >= && || ! . , ; : ( ) \
    [ ] { } ++ -- ? & ~ \u{e9} \n ;\n }\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_the_front_end_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
    }

    #[test]
    fn no_text_makes_the_front_end_panic_or_hang(text in "(?s)[ -~\n\r\t\u{e9}\u{1F600}\u{0}\u{FEFF}]{0,300}") {
        survives(text.as_bytes());
    }

    #[test]
    fn no_tokens_make_the_front_end_panic_or_hang(
        words in prop::collection::vec(select(WORDS.split(' ').collect::<Vec<_>>()), 0..200),
        glue in select(vec![" ", "", "\n"]),
        is_inside in any::<bool>(),
    ) {
        let text = words.join(glue);
        survives(if is_inside { inside(&text) } else { text }.as_bytes());
    }

    #[test]
    fn no_piece_of_a_program_makes_the_front_end_panic_or_hang(
        from in 0..PROGRAM.len(), length in 0..60_usize, to in 0..PROGRAM.len(),
    ) {
        // Moves a piece to another place, and leaves a hole behind.
        let cut = from..(from + length).min(PROGRAM.len());
        let mut text = PROGRAM.as_bytes().to_vec();
        let piece: Vec<u8> = text.drain(cut).collect();
        let to = to.min(text.len());
        survives(&text);
        text.splice(to..to, piece);
        survives(&text);
    }
}

const PROGRAM: &str = r#"import io;
using Row = List<List<int>>;
enum Dir { N, E = 4, S; public int twice() { return this * 2; } }
struct P { int x; int y; }
interface I { void a(); }
class B : A implements I, J {
    public List<B>[] all;
    int B(int n, string s = "x") { super(n); this.n = n; return 0; }
    virtual int step(out int by) { for (int i = 0; i < 3; i += 1) { n[i].x += by; } return n; }
}
int main() {
    const P p = new P{x: 1, y: [2]};
    foreach (int k in [1]) { if (k == 'c') break; else { continue; } }
    switch (p) { case 1, -2: io.print("a${b}$$"); default: throw; }
    try { do assert(a); while (!b || c as byte + 1 > 2.5f); } catch (E e) { } finally { f(out x, n = 1); }
    Dict<string, func<void, out int>> d = new Dict<string, int>{"k": 1};
    return new int[3];
}
"#;

#[test]
fn the_program_that_is_cut_up_is_right() {
    assert_eq!(messages(PROGRAM), [""; 0]);
    survives(PROGRAM.as_bytes());
}
