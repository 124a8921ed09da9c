//! What lowering makes of programs, by listing; and that the verifier takes it.

mod jumps;
mod programs;
mod run;
mod shapes;
mod trees;

use crate::lang::check::check;
use crate::lang::diagnostic::Style;
use crate::lang::lower::lower;
use crate::lang::parser;
use crate::lang::source::Source;
use crate::lang::units::{ImportTarget, ImportedPackage, ParsedProgram, ParsedUnit};
use crate::vm::library::decl::PACKAGES;
use crate::vm::module::Module;

/// A legal program of one unit that may import the library, lowered.
#[track_caller]
fn compile(text: &str) -> Module {
    try_compile(text).unwrap_or_else(|findings| panic!("{findings}"))
}

/// A program of one unit that may import the library, lowered; or what is wrong with it.
fn try_compile(text: &str) -> Result<Module, String> {
    let mut program = ParsedProgram::default();
    let file = program.sources.add(Source::new("test.n".into(), text.into()));
    let source = program.sources.get(file).clone();
    let ast = parser::parse(file, &source, &mut program.diagnostics);
    let imports = ast.imports.iter().filter_map(|import| {
        let parts: Vec<&str> = import.path.parts.iter().map(|part| part.text.as_str()).collect();
        let name = parts.join(".");
        let target = ImportTarget::Library;
        let known = PACKAGES.contains(&name.as_str());
        known.then_some(ImportedPackage { name, target, span: import.span })
    });
    let imports = imports.collect();
    let (package, directory) = ("test".into(), String::new());
    program.units.push(ParsedUnit { package, directory, file, ast, imports });
    let (tree, mut findings) = check(&program, &|_| false);
    match tree {
        Some(tree) => Ok(lower(tree, &program.sources).expect("within the limits")),
        None => {
            findings.append(program.diagnostics);
            Err(findings.render(&program.sources, Style::default()))
        }
    }
}
