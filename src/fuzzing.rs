//! What the targets in `fuzz/` call. Only there with `--cfg fuzzing`, and no part of the interface.

use crate::lang::compile;
use crate::lang::diagnostic::Style;
use crate::lang::loader::Memory;
use crate::lang::on_deep_stack;
use crate::lang::units::{Root, load};
use crate::vm::module::{Module, NativeImport};
use crate::vm::types::{FunctionId, TypeTable};
use crate::vm::verify::{Library, Natives, verify};

/// Compiles bytes as the source of a program.
///
/// # Panics
///
/// When the front end has a mistake.
pub fn front_end(bytes: &[u8]) {
    let others = Memory::default().with("helper", "int twice(int n) { return n * 2; }");
    on_deep_stack(|| {
        let program = load(Root::new("main.n", bytes), &others);
        let (module, diagnostics) = compile(&program, &|_| true);
        let shown = diagnostics.render(&program.sources, Style { colour: false, limit: 100 });
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert_eq!(module.is_none(), diagnostics.has_errors(), "{shown}");
        if let Some(error) = module.and_then(|module| verify(module, &Any).err()) {
            assert!(error.to_string().contains("too intricate"), "{error}");
        }
    });
}

/// A host that has whatever native function a program declares.
struct Any;

impl Natives for Any {
    fn accepts(&self, import: &NativeImport, types: &TypeTable) -> bool {
        let home = import.name.split('.').next().unwrap_or("");
        home == "main" || Library.accepts(import, types)
    }
}

/// Reads bytes as a compiled program, whatever its checksum, and verifies what comes of it.
///
/// # Panics
///
/// When the format or the verifier has a mistake.
pub fn module_bytes(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    Module::seal(&mut bytes);
    let Ok(module) = Module::from_bytes(&bytes) else { return };
    assert!(Module::from_bytes(&module.to_bytes()).as_ref() == Ok(&module));
    let functions = module.functions.len() as u32;
    if let Ok(verified) = verify(module, &Library) {
        for index in 0..functions {
            let _ = verified.maps(FunctionId(index)).references(0);
        }
    }
}
