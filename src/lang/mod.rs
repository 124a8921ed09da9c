//! The front end of the script language: from source text to a [`Module`](crate::vm).

pub(crate) mod ast;
pub(crate) mod check;
mod deep;
pub(crate) mod diagnostic;
pub(crate) mod hir;
pub(crate) mod lexer;
pub(crate) mod loader;
pub(crate) mod lower;
pub(crate) mod parser;
pub(crate) mod source;
pub(crate) mod token;
pub(crate) mod units;

pub(crate) use deep::on_deep_stack;

use crate::vm::module::Module;
use diagnostic::Diagnostics;
use units::ParsedProgram;

/// Compiles a parsed program: the module, unless there are errors, and all findings, those of the
/// parser included.
///
/// `is_host_function` says whether the host has a native function of a qualified name.
pub(crate) fn compile(
    program: &ParsedProgram,
    is_host_function: &dyn Fn(&str) -> bool,
) -> (Option<Module>, Diagnostics) {
    let mut diagnostics = program.diagnostics.clone();
    let (tree, found) = check::check(program, is_host_function);
    diagnostics.append(found);
    let Some(tree) = tree else { return (None, diagnostics) };
    match on_deep_stack(|| lower::lower(tree, &program.sources)) {
        Ok(module) => (Some(module), diagnostics),
        Err(too_large) => {
            diagnostics.push(*too_large);
            (None, diagnostics)
        }
    }
}
