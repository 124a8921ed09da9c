//! A compiled program in memory: tables of types, functions and constants.
//!
//! A module is whole: all units of a program, and nothing else but the names of native functions.
//! It is what the compiler makes, what `pirn build` writes and what a virtual machine loads. Nothing
//! in it is trusted: the verifier decides whether it may run.

mod checksum;
mod decode;
mod encode;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::sample;

use crate::vm::op::Code;
use crate::vm::types::{FunctionId, Signature, TypeId, TypeTable};

/// A compiled program.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Of the root unit: its file's name without the directory.
    pub name: String,
    pub types: TypeTable,
    pub functions: Vec<Function>,
    /// Text constants, by the index that instructions use.
    pub strings: Vec<String>,
    /// Constants that do not fit into an instruction.
    pub words: Vec<u64>,
    /// The native functions that instructions call, by the index that they use.
    pub natives: Vec<NativeImport>,
    /// The program's `main`: without parameters, `int` or `void`.
    pub main: Option<FunctionId>,
    /// Paths of the source files, for messages.
    pub files: Vec<String>,
}

/// One function, method or constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// As messages show it: `main`, `lib.geo.area`, `Point.length`.
    pub name: String,
    /// Parameters are registers `0..`; a method's receiver is the first of them.
    pub signature: Signature,
    /// How many registers its frame has, at most 65,535.
    pub registers: u32,
    pub code: Vec<Code>,
    /// Innermost first.
    pub handlers: Vec<Handler>,
    pub switches: Vec<Switch>,
    /// The source file, an index in [`Module::files`].
    pub file: u32,
    /// The source line (from 1) of the instructions from an index on, ascending.
    pub lines: Vec<(u32, u32)>,
    /// The local variables, for debuggers.
    pub locals: Vec<Local>,
    pub kind: FunctionKind,
}

impl Function {
    /// The source line of an instruction; 0 if unknown.
    pub fn line(&self, instruction: usize) -> u32 {
        let place = self.lines.partition_point(|&(first, _)| first as usize <= instruction);
        place.checked_sub(1).map_or(0, |i| self.lines[i].1)
    }
}

/// How a function is meant to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// By its name alone.
    Free,
    /// On an object, which is parameter 0.
    Method,
    /// On a new object, which is parameter 0; returns nothing.
    Constructor,
}

/// An exception thrown by an instruction in `first..end` goes to `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    pub first: u32,
    pub end: u32,
    pub target: u32,
    /// Takes the exception.
    pub register: u16,
    /// Which exceptions: an exception class, or [`known::EXCEPTION`](crate::vm::types::known::EXCEPTION)
    /// for all.
    pub ty: TypeId,
}

/// Where a `Switch` instruction goes: to `targets[value - first]`, else to `default`. All targets lie
/// behind the instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    pub first: i64,
    pub targets: Vec<u32>,
    pub default: u32,
}

/// A local variable of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub name: String,
    pub ty: TypeId,
    pub register: u16,
    /// The instructions in which the register holds it.
    pub first: u32,
    pub end: u32,
}

/// A native function as this program uses it: generic ones with their types filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeImport {
    /// `io.print`, `List.add`, or a name that the host registered.
    pub name: String,
    /// With the receiver as parameter 0, if there is one.
    pub signature: Signature,
}
