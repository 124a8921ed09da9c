//! Compiled programs.

use std::fmt;
use std::sync::Arc;

use super::call::declaration;
use super::diagnostics::Diagnostics;
use super::error::Error;
use crate::vm::disasm::Listing;
use crate::vm::module::{FunctionKind, Module, NativeImport};
use crate::vm::types::TypeTable;
use crate::vm::verify::{Natives, Verified, verify};

/// Any native function: which ones the host has is seen when a machine loads the program.
struct Any;

impl Natives for Any {
    fn accepts(&self, _: &NativeImport, _: &TypeTable) -> bool {
        true
    }
}

/// A compiled program: what [`compile`](super::compile) makes and a [`Vm`](super::Vm) loads.
///
/// Cloning is cheap, and many machines, in many threads, can load the same one.
#[derive(Clone)]
pub struct Program {
    verified: Arc<Verified>,
    warnings: Arc<Diagnostics>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Program {
    pub(super) fn new(module: Module, warnings: Diagnostics) -> Result<Program, Error> {
        let verified = verify(module, &Any).map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(Program { verified: Arc::new(verified), warnings: Arc::new(warnings) })
    }

    pub(super) fn module(&self) -> &Module {
        self.verified.module()
    }

    pub(in crate::vm) fn verified(&self) -> Arc<Verified> {
        self.verified.clone()
    }

    /// The name of the root unit.
    pub fn name(&self) -> &str {
        &self.module().name
    }

    /// What the compiler warned of.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// Whether [`Vm::run`](super::Vm::run) can run it.
    pub fn has_main(&self) -> bool {
        self.module().main.is_some()
    }

    /// The functions that [`Vm::call`](super::Vm::call) can call, as they are declared.
    ///
    /// ```
    /// let program = pirn::vm::compile("int add(int a, int b) { return a + b; }")?;
    /// assert_eq!(program.functions().collect::<Vec<_>>(), ["int add(int, int)"]);
    /// # Ok::<(), pirn::vm::Diagnostics>(())
    /// ```
    pub fn functions(&self) -> impl Iterator<Item = String> + '_ {
        let module = self.module();
        let free = module.functions.iter().filter(|f| f.kind == FunctionKind::Free);
        free.map(|function| declaration(function, &module.types))
    }

    /// The program as a module file, which needs no sources.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.module().to_bytes()
    }

    /// Whether bytes begin as a module file does.
    pub fn is_module(bytes: &[u8]) -> bool {
        Module::is_module(bytes)
    }

    /// The program in a module file. Bytes from anywhere are safe: what could harm the machine is
    /// refused.
    ///
    /// ```
    /// use pirn::vm::{Program, Vm, compile};
    ///
    /// let bytes = compile("int main() { return 7; }")?.to_bytes();
    /// assert_eq!(Vm::new(&Program::from_bytes(&bytes)?)?.run()?, 7);
    /// # Ok::<(), pirn::vm::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] says what is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program, Error> {
        let module =
            Module::from_bytes(bytes).map_err(|error| Error::Invalid(error.to_string()))?;
        Program::new(module, Diagnostics::none())
    }

    /// The instructions of the program, to read.
    pub fn disassemble(&self) -> String {
        Listing(self.module()).to_string()
    }
}
