//! Proves that a module cannot harm the interpreter, and says where its pointers are.
//!
//! A module may come from anywhere, as bytes. The interpreter executes instructions without looking
//! at what they name: that every index has an entry, that a register holds a reference where one is
//! followed, that an object has the field that is read. All of that is seen to here, once, before a
//! module runs. No sequence of bytes that passes can make the interpreter touch memory that is not
//! its own; what it can do is compute nonsense, throw, and use up its time and memory.
//!
//! | step | what it establishes |
//! |---|---|
//! | `tables` | types, classes, natives and signatures agree with one another |
//! | `code` | each instruction names what exists; jumps stay inside, and go back only where they count |
//! | `flow`, `rules` | what each register holds at each instruction suits what is done with it |
//! | `maps` | the pointers, for the collector; made when first asked for |
//!
//! `docs/vm.md` has the rules that a compiler has to keep.

use std::sync::OnceLock;

#[cfg(any(test, fuzzing))]
use super::library::decl;
use super::module::{Module, NativeImport};
use super::types::{FunctionId, TypeTable};

#[cfg(test)]
mod bounds;
mod code;
#[cfg(test)]
mod compiled;
mod error;
mod flow;
mod kind;
mod maps;
mod rules;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use error::VerifyError;
use flow::{Budget, Flow};
use kind::{Kinds, Lineage};
pub(crate) use maps::Maps;

/// A module that may run.
#[derive(Debug)]
pub(crate) struct Verified {
    module: Module,
    lineage: Lineage,
    maps: Box<[OnceLock<Maps>]>,
    /// Whether local variables in scope are kept alive.
    keeps_locals: bool,
}

/// Which native functions there are to call.
pub(crate) trait Natives {
    /// Whether there is a native of the import's name whose signature the import's is an instance of.
    fn accepts(&self, import: &NativeImport, types: &TypeTable) -> bool;
}

/// The natives of the script library, and no others.
#[cfg(any(test, fuzzing))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library;

#[cfg(any(test, fuzzing))]
impl Natives for Library {
    fn accepts(&self, import: &NativeImport, types: &TypeTable) -> bool {
        decl::import(import, types).is_some()
    }
}

/// Proves that a module may run.
///
/// # Errors
///
/// [`VerifyError`] with the first rule that is broken. A module whose verification takes far more work
/// than that of programs of its size, or half a second, is refused as well.
pub(crate) fn verify(module: Module, natives: &dyn Natives) -> Result<Verified, VerifyError> {
    let instructions = module.functions.iter().map(|f| f.code.len() as u64).sum();
    verify_within(module, natives, &mut Budget::new(instructions))
}

fn verify_within(
    module: Module,
    natives: &dyn Natives,
    budget: &mut Budget,
) -> Result<Verified, VerifyError> {
    let lineage = tables::check(&module, natives)?;
    let kinds = Kinds { types: &module.types, lineage: &lineage };
    code::check(&module, kinds)?;
    for index in 0..module.functions.len() {
        Flow::of(&module, kinds, index, budget)?;
    }
    Ok(Verified::new(module, lineage))
}

impl Verified {
    fn new(module: Module, lineage: Lineage) -> Verified {
        let maps = module.functions.iter().map(|_| OnceLock::new()).collect();
        Verified { module, lineage, maps, keeps_locals: false }
    }

    /// Keeps local variables alive as long as they are in scope, so that a debugger can show them.
    /// To be said before the module runs.
    #[allow(dead_code, reason = "for debuggers")]
    pub(crate) fn keep_locals(mut self) -> Verified {
        self.keeps_locals = true;
        self
    }

    /// The module.
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// The pointer maps of a function. They are made at the first call, by whichever thread that is.
    pub(crate) fn maps(&self, function: FunctionId) -> &Maps {
        let index = function.0 as usize;
        let kinds = Kinds { types: &self.module.types, lineage: &self.lineage };
        self.maps[index].get_or_init(|| Maps::of(&self.module, kinds, index, self.keeps_locals))
    }

    /// Takes a module on trust, for tests of what comes after the verifier.
    #[cfg(test)]
    pub(crate) fn trusted(module: Module) -> Verified {
        let lineage = Lineage::new(&module.types);
        Verified::new(module, lineage)
    }
}
