//! Programs from text, and what is expected of them.
//!
//! An expected error stands in a comment on its line: `int x = "a"; // error: expected int`. Of what
//! follows `error:`, each word must occur in the message or its hint, in this order.

use crate::lang::diagnostic::Diagnostics;
use crate::lang::hir;
use crate::lang::parser;
use crate::lang::source::Source;
use crate::lang::units::{ImportTarget, ImportedPackage, ParsedProgram, ParsedUnit, UnitId};
use crate::vm::library::decl::PACKAGES;

use super::super::check;

/// A program of units, each with its package; the first one is the root.
pub fn program(units: &[(&str, &str)]) -> ParsedProgram {
    let mut program = ParsedProgram::default();
    for (package, text) in units {
        let path = format!("{}.n", package.replace('.', "/"));
        let file = program.sources.add(Source::new(path, (*text).into()));
        let source = program.sources.get(file).clone();
        let ast = parser::parse(file, &source, &mut program.diagnostics);
        let directory = package.rsplit_once('.').map_or("", |(directory, _)| directory);
        let (package, directory) = ((*package).into(), directory.into());
        program.units.push(ParsedUnit { package, directory, file, ast, imports: Vec::new() });
    }
    let packages: Vec<String> = units.iter().map(|(package, _)| (*package).into()).collect();
    for unit in &mut program.units {
        unit.imports = imports(&unit.ast, &packages);
    }
    program
}

fn imports(ast: &crate::lang::ast::Unit, packages: &[String]) -> Vec<ImportedPackage> {
    let mut found = Vec::new();
    for import in &ast.imports {
        let parts: Vec<&str> = import.path.parts.iter().map(|part| part.text.as_str()).collect();
        let name = parts.join(".");
        let mut add = |name: &str, target| {
            found.push(ImportedPackage { name: name.into(), target, span: import.span });
        };
        for (at, package) in packages.iter().enumerate() {
            let below = package.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'));
            if if import.recursive { below } else { *package == name } {
                add(package, ImportTarget::Unit(UnitId(at as u32)));
            }
        }
        if PACKAGES.contains(&name.as_str()) {
            add(&name, ImportTarget::Library);
        }
    }
    found
}

/// What parser and checker find, and the tree if they find no error. The host has the functions
/// whose names begin with `host`.
pub fn run(program: &ParsedProgram) -> (Option<hir::Program>, Diagnostics) {
    let (tree, found) = check(program, &|name| name.starts_with("host"));
    let mut all = program.diagnostics.clone();
    all.append(found);
    assert_eq!(tree.is_none(), all.has_errors());
    (tree, all)
}

/// Checks a program of one unit against the errors that its comments announce.
#[track_caller]
pub fn expect(source: &str) {
    expect_units(&[("main", source)]);
}

#[track_caller]
pub fn expect_units(units: &[(&str, &str)]) {
    let program = program(units);
    let (_, found) = run(&program);
    let mut expected = Vec::new();
    for (file, (_, text)) in units.iter().enumerate() {
        for (at, line) in text.lines().enumerate() {
            if let Some((_, words)) = line.split_once("// error:") {
                expected.push((file as u32, at as u32 + 1, words.trim()));
            }
        }
    }
    let mut wrong = String::new();
    let mut met = vec![false; expected.len()];
    for it in found.sorted() {
        let text = format!("{} {}", it.message, it.hint.as_deref().unwrap_or(""));
        let place = it.span.map(|span| (span.file.0, program.sources.line_of(span)));
        let same = |&(file, line, words): &(u32, u32, &str)| {
            place == Some((file, line)) && has_words(&text, words)
        };
        match expected.iter().position(same) {
            Some(at) => met[at] = true,
            None => wrong += &format!("not expected at {place:?}: {text}\n"),
        }
    }
    for (expected, met) in expected.iter().zip(met) {
        if !met {
            wrong += &format!("not found: {expected:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn has_words(text: &str, words: &str) -> bool {
    let mut rest = text;
    words.split_whitespace().all(|word| match rest.split_once(word) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

/// The statements of `main` in `{…}` around these lines, with errors expected as above.
#[track_caller]
pub fn expect_in_main(lines: &str) {
    expect(&format!("import io; int main() {{ {lines}\nreturn 0; }}"));
}

/// The tree of a legal program.
#[track_caller]
pub fn tree(source: &str) -> hir::Program {
    let program = program(&[("main", source)]);
    let (tree, found) = run(&program);
    let Some(tree) = tree else {
        panic!("{}", found.render(&program.sources, crate::lang::diagnostic::Style::default()));
    };
    tree
}
