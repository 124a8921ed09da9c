//! What the checker accepts and refuses, and what the tree of what it accepts is.

mod calls;
mod classes;
mod dump;
mod harness;
mod operators;
mod robust;
mod statements;
mod types;
