//! What the targets in `fuzz/` call. Only there with `--cfg fuzzing`, and no part of the interface.

use crate::lang::compile;
use crate::lang::diagnostic::Style;
use crate::lang::loader::Memory;
use crate::lang::on_deep_stack;
use crate::lang::units::{Root, load};
use crate::vm::heap::{Config, Heap};
use crate::vm::interp::{Exit, Limits, Machine};
use crate::vm::library::decl;
use crate::vm::library::net::Access;
use crate::vm::library::streams::Streams;
use crate::vm::module::{Module, NativeImport};
use crate::vm::native::{NativeBody, NativeKind};
use crate::vm::types::{FunctionId, TypeTable};
use crate::vm::verify::{Library, Natives, Verified, verify};

/// Back-edges and calls that a function gets.
const FUEL: u64 = 300;

/// Functions that are run, of a program with many.
const MOST_RUNS: usize = 16;

/// Instructions that all runs of a program execute at most, about: between one unit of fuel and the
/// next lies no more than the longest function. One may go through all of the heap, as a native
/// function with a long text does.
const INSTRUCTIONS: u64 = 1 << 15;

/// Bytes of a program's heap.
const HEAP: usize = 1 << 17;

/// Collections of stress. Each goes through the whole heap, so without an end they would take more
/// time than all the rest.
const COLLECTIONS: u64 = 300;

/// Compiles bytes as the source of a program, and runs it for a moment.
///
/// # Panics
///
/// When the front end has a mistake; it or what runs the program may harm the process in other ways.
pub fn front_end(bytes: &[u8]) {
    let others = Memory::default().with("helper", "int twice(int n) { return n * 2; }");
    let module = on_deep_stack(|| {
        let program = load(Root::new("main.n", bytes), &others);
        let (module, diagnostics) = compile(&program, &|_| true);
        let shown = diagnostics.render(&program.sources, Style { colour: false, limit: 100 });
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert_eq!(module.is_none(), diagnostics.has_errors(), "{shown}");
        module
    });
    let Some(module) = module else { return };
    match verify(module, &Any) {
        Ok(verified) => run(verified),
        Err(error) => assert!(error.to_string().contains("too intricate"), "{error}"),
    }
}

/// A host that has whatever native function a program declares.
struct Any;

impl Natives for Any {
    fn accepts(&self, import: &NativeImport, types: &TypeTable) -> bool {
        let home = import.name.split('.').next().unwrap_or("");
        home == "main" || Library.accepts(import, types)
    }
}

/// Reads bytes as a compiled program, whatever its checksum, verifies what comes of it, and runs that
/// for a moment.
///
/// # Panics
///
/// When the format or the verifier has a mistake; it or what runs the program may harm the process in
/// other ways.
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
        run(verified);
    }
}

/// Runs the functions that take nothing, each for a moment, with a collection at every safepoint that
/// allocates, up to [`COLLECTIONS`].
fn run(verified: Verified) {
    let module = verified.module();
    if !module.natives.iter().all(|import| is_harmless(import, &module.types)) {
        return;
    }
    let parameterless = |&id: &FunctionId| {
        module.functions[id.0 as usize].signature.params.is_empty() && Some(id) != module.main
    };
    let others = (0..module.functions.len() as u32).map(FunctionId).filter(parameterless);
    let functions: Vec<_> = module.main.into_iter().chain(others).take(MOST_RUNS).collect();
    let longest = module.functions.iter().map(|f| f.code.len() as u64).max().unwrap_or(1);
    let mut fuel = INSTRUCTIONS / longest;

    let config =
        Config { stress: true, stress_most: COLLECTIONS, limit: HEAP, ..Config::default() };
    let limits = Limits { depth: 50, fuel: None };
    let Ok(mut machine) = Machine::new(Heap::new(config).local(), limits) else { return };
    let mut streams = Streams::default();
    streams.set_input(Box::new(&b"one 2\n3.5 true"[..]));
    streams.set_output(Box::new(std::io::sink()), false);
    streams.set_error(Box::new(std::io::sink()));
    machine.states.set(streams);
    machine.states.set(Access(false));
    let mut resolve = |import: &NativeImport, types: &TypeTable| {
        let native = decl::import(import, types)?;
        Some((NativeBody::Function(native.function), native.kind))
    };
    let Ok(index) = machine.load(verified, &mut resolve) else { return };
    for function in functions {
        let granted = fuel.min(FUEL);
        machine.set_fuel(Some(granted));
        let function = machine.image.program.module(index).function(function);
        let mut thread = machine.start(function, &[]);
        while let Exit::Yielded | Exit::Paused = machine.run(&mut thread) {}
        fuel -= granted - machine.fuel().map_or(0, |left| left.min(granted));
    }
}

/// Whether a function of the library leaves the world outside of the machine as it is.
fn is_harmless(import: &NativeImport, types: &TypeTable) -> bool {
    let Some(native) = decl::import(import, types) else { return false };
    let is_stream = || import.name.starts_with("io.") && !import.name.ends_with("File");
    native.kind != NativeKind::Blocking || is_stream()
}
