//! What scripts can call without writing it themselves: the built-in types' methods and the
//! packages `io`, `fs` and `math`.
//!
//! [`decl`] is the one list of them, read by the checker, the verifier and the linker.

pub(crate) mod decl;
pub(crate) mod number;
pub(crate) mod pattern;
pub(crate) mod random;
pub(crate) mod streams;
