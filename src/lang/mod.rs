//! The front end of the script language: from source text to a [`Module`](crate::vm).

pub(crate) mod ast;
pub(crate) mod check;
pub(crate) mod diagnostic;
pub(crate) mod hir;
pub(crate) mod lower;
pub(crate) mod source;
pub(crate) mod units;
