//! What lowering makes of programs, by listing; and that the verifier takes it.

mod jumps;
mod trees;
