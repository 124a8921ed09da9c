//! Proves that a module cannot harm the interpreter.

use super::module::Module;

/// A module that may run.
#[derive(Debug)]
pub(crate) struct Verified {
    module: Module,
}

impl Verified {
    /// The module.
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }
}

impl Verified {
    /// Takes a module on trust, for tests of what comes after the verifier.
    #[cfg(test)]
    pub(crate) fn trusted(module: Module) -> Verified {
        Verified { module }
    }
}
