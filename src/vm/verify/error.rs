//! Why a module may not run.

use std::fmt;

use crate::vm::disasm::Instruction;
use crate::vm::module::Module;

/// A module that may not run, and where it breaks which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifyError {
    /// The module's name.
    pub(crate) module: String,
    /// Which part of it: `class #9 Point`, `function #3 area, instruction 7 (get r1, r2, .5)`.
    pub(crate) place: String,
    /// What is wrong there.
    pub(crate) what: String,
}

impl VerifyError {
    /// An error in a part of a module other than code.
    pub(super) fn new(module: &Module, place: String, what: impl Into<String>) -> VerifyError {
        VerifyError { module: module.name.clone(), place, what: what.into() }
    }

    /// An error in a function, outside its code.
    pub(super) fn function(module: &Module, index: usize, what: impl Into<String>) -> VerifyError {
        let name = &module.functions[index].name;
        VerifyError::new(module, format!("function #{index} {name}"), what)
    }

    /// An error at an instruction.
    pub(super) fn instruction(
        module: &Module,
        index: usize,
        at: usize,
        what: impl Into<String>,
    ) -> VerifyError {
        let function = &module.functions[index];
        let name = &function.name;
        let place = match function.code.get(at) {
            Some(&code) => {
                let text = Instruction { module, code, at };
                format!("function #{index} {name}, instruction {at} ({text})")
            }
            None => format!("function #{index} {name}, instruction {at}"),
        };
        VerifyError::new(module, place, what)
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VerifyError { module, place, what } = self;
        write!(f, "module {module:?} cannot run: {place}: {what}")
    }
}

impl std::error::Error for VerifyError {}
