#![doc = include_str!("../../docs/embedding.md")]

#[cfg(test)]
pub(crate) mod asm;
pub(crate) mod disasm;
mod embed;
pub(crate) mod heap;
pub(crate) mod interp;
pub(crate) mod library;
pub(crate) mod link;
pub(crate) mod module;
pub(crate) mod native;
pub(crate) mod op;
pub(crate) mod tasks;
pub(crate) mod types;
pub(crate) mod verify;

pub use embed::*;
