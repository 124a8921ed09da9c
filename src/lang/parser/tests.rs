mod grammar;
mod messages;
mod robust;

use super::{dump, parse};
use crate::lang::ast::Unit;
use crate::lang::diagnostic::{Diagnostics, Style};
use crate::lang::source::{Source, Sources};

/// A file's tree and what is wrong with it.
fn parsed(text: &str) -> (Unit, Diagnostics, Sources) {
    let mut sources = Sources::default();
    let file = sources.add(Source::from_bytes("main.n".to_owned(), text.as_bytes()));
    let mut diagnostics = Diagnostics::default();
    let unit = parse(file, sources.get(file), &mut diagnostics);
    (unit, diagnostics, sources)
}

/// The dump of a file that must be right.
#[track_caller]
fn tree(text: &str) -> String {
    let (unit, diagnostics, sources) = parsed(text);
    assert_eq!(diagnostics.render(&sources, Style::default()), "", "in {text}");
    dump::unit(&unit)
}

/// The dump of statements that must be right, without the braces around.
#[track_caller]
fn body(text: &str) -> String {
    inside(&tree(&format!("void f() {{ {text} }}"))).to_owned()
}

/// What stands in the only function of a dump.
fn inside(tree: &str) -> &str {
    tree.strip_prefix("(fn void f() (do ").and_then(|rest| rest.strip_suffix("))")).unwrap_or(tree)
}

/// The dump of an expression that must be right.
#[track_caller]
fn value(text: &str) -> String {
    let dumped = body(&format!("x = {text};"));
    dumped
        .strip_prefix("(= x ")
        .and_then(|rest| rest.strip_suffix(")"))
        .unwrap_or(&dumped)
        .to_owned()
}

/// The messages about a file, each `line:column message`.
fn messages(text: &str) -> Vec<String> {
    let (_, diagnostics, sources) = parsed(text);
    let lines = diagnostics.sorted().into_iter().map(|found| {
        let span = found.span.expect("the parser always has a place");
        let (line, column) = sources.get(span.file).position(span.start);
        format!("{line}:{column} {}", found.message)
    });
    lines.collect()
}

/// The messages about statements, each `column message`.
fn complaints(statements: &str) -> Vec<String> {
    let all = messages(&format!("void f() {{\n{statements}\n}}"));
    all.into_iter()
        .map(|message| match message.strip_prefix("2:") {
            Some(rest) => rest.to_owned(),
            None => message,
        })
        .collect()
}

/// The hint that goes with the first message about statements.
fn hint(statements: &str) -> String {
    let (_, diagnostics, _) = parsed(&format!("void f() {{\n{statements}\n}}"));
    let first = diagnostics.sorted().first().and_then(|found| found.hint.clone());
    first.unwrap_or_default()
}
