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
