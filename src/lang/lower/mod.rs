//! From the typed tree to instructions.
//!
//! One pass over each function, top down, with a destination for every value: an expression is
//! evaluated right into the register where it is needed (a variable, an argument's place in the
//! window of the call to come), and a variable is used where it stands. The order of evaluation is
//! that of the tree. Cleaning up is left to the end: [`layout`] threads jumps and drops what nothing
//! reaches.
//!
//! # Registers
//!
//! Parameters, then the variables in scope, then the temporaries of the expression at hand, each in
//! one stack ([`registers`]). A variable that stands as an operand is not copied, unless a later part
//! of the same expression may change it, which only an `out` argument can do.
//!
//! # Shapes
//!
//! | source | code |
//! |---|---|
//! | condition | jumps that compare, to where the outcome leads: no bool is made ([`cond`]) |
//! | loop | the test at the bottom, as the back-edge; once more at the top where it is short ([`loops`]) |
//! | call | arguments evaluated into the window, the word below kept free ([`call`]) |
//! | `finally` | once; an exception register and a selector say how it goes on ([`tries`]) |
//! | `switch` | a table for dense constants, else tests in order ([`switch`]) |
//!
//! The tree is legal: nothing here reports an error of the program, except that it outgrows the
//! format.

mod arith;
mod assign;
mod builder;
mod call;
mod cond;
mod constant;
mod container;
mod convert;
mod expr;
mod facts;
mod function;
mod layout;
mod loops;
mod new;
mod pool;
mod registers;
mod stmt;
mod switch;
#[cfg(test)]
mod tests;
mod tries;
mod visit;

use self::function::Lowering;
use self::pool::Pool;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::Program;
use crate::lang::source::Sources;
use crate::vm::module::Module;

/// Makes a module of a checked program.
///
/// # Errors
///
/// If a function is too large for the format: more than 65,535 registers, or an index that does not
/// fit its instruction. The diagnostic names the function.
pub(crate) fn lower(program: Program, sources: &Sources) -> Result<Module, Box<Diagnostic>> {
    let Program { types, functions, natives, main } = program;
    let mut pool = Pool::new(types, natives);
    let mut lowered = Vec::with_capacity(functions.len());
    for function in &functions {
        let lowering = Lowering::new(&mut pool, &functions, function, sources);
        lowered.push(lowering.function()?);
    }
    let files: Vec<String> = sources.all().iter().map(|source| source.path.clone()).collect();
    let root = files.first().map_or("", String::as_str);
    Ok(Module {
        name: root.rsplit('/').next().unwrap_or("").into(),
        types: pool.types,
        functions: lowered,
        strings: pool.strings,
        words: pool.words,
        natives: pool.natives,
        main,
        files,
    })
}
