//! What the compiler makes is accepted and comes through the file format unchanged; what anybody makes
//! is refused or runs without harm.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::flow::Budget;
use super::{Library, Verified, verify, verify_within};
use crate::lang::check::check;
use crate::lang::lower::lower;
use crate::lang::units::load_path;
use crate::vm::disasm::FunctionListing;
use crate::vm::heap::{Config, Heap};
use crate::vm::interp::{Limits, Machine};
use crate::vm::module::{Handler, Module};
use crate::vm::native::{Context, NativeBody, NativeKind, Outcome, Trap};
use crate::vm::op::{Code, Op, Operand, Place};
use crate::vm::types::{FunctionId, known};

/// The module of a script; `None` if it has errors.
fn compile(path: &Path) -> Option<Module> {
    let parsed = load_path(path);
    let (program, _) = check(&parsed, &|_| false);
    lower(program?, &parsed.sources).ok()
}

fn scripts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of scripts") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "n") {
            found.push(path);
        }
    }
}

fn all_scripts() -> Vec<PathBuf> {
    let mut found = Vec::new();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lang"), &mut found);
    found.sort();
    found
}

#[test]
fn real_programs_take_little_of_the_work_that_is_allowed() {
    let mut found = all_scripts();
    scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scripts"), &mut found);
    for path in found {
        let Some(module) = compile(&path) else { continue };
        let instructions: usize = module.functions.iter().map(|f| f.code.len()).sum();
        let mut budget = Budget::unlimited();
        let before = budget.left();
        verify_within(module, &Library, &mut budget).unwrap();
        let work = before - budget.left();
        assert!(work < 50 * instructions as u64, "{path:?}: {work} for {instructions}");
    }
}

#[test]
fn every_compiled_script_comes_through_the_file_format_and_has_maps() {
    let (mut count, mut refused) = (0, Vec::new());
    for path in all_scripts() {
        let Some(module) = compile(&path) else { continue };
        count += 1;
        assert_eq!(Module::from_bytes(&module.to_bytes()).as_ref(), Ok(&module), "{path:?}");
        match verify(module.clone(), &Library) {
            Ok(verified) => {
                for index in 0..module.functions.len() {
                    let maps = verified.maps(FunctionId(index as u32));
                    assert!(
                        maps.references(0).len() * 64 >= module.functions[index].registers as usize
                    );
                }
            }
            Err(error) => {
                let at = error.place.split(['#', ' ']).nth(2).and_then(|n| n.parse().ok());
                let listing = at.map(|index| FunctionListing { module: &module, index });
                let listing = listing.map(|l| l.to_string()).unwrap_or_default();
                refused.push(format!("{}: {error}\n{listing}", path.display()));
            }
        }
    }
    assert!(count > 50, "only {count} scripts compile");
    assert!(refused.is_empty(), "{} of {count}:\n{}", refused.len(), refused.join("\n"));
}

/// An instruction with operands of the sizes that a small program has.
fn instruction() -> impl Strategy<Value = Code> {
    let operation = prop::sample::select(Op::ALL);
    (operation, prop::array::uniform3(any::<u32>())).prop_map(|(op, random)| {
        let mut code = Code(op as u64);
        for (&(operand, place), random) in op.operands().iter().zip(random) {
            let value = match operand {
                Operand::J if op.is_loop() => -(1 + (random % 4) as i32) as u32,
                Operand::J => random % 4,
                Operand::Ty => random % (known::COUNT + 20),
                Operand::Cls => 8 + random % 4,
                Operand::K => random,
                Operand::Fld | Operand::Slot => random % 4,
                Operand::U => random % 3,
                Operand::Fun | Operand::Str | Operand::Nat | Operand::Sel => random % 2,
                Operand::Word | Operand::Sw => 0,
                _ => random % 8,
            };
            let value = if place == Place::X { value } else { u32::from(value as u16) };
            code = code.with_field(place, value).expect("a value that was cut to fit");
        }
        code
    })
}

/// The functions of a small program, most of them as they were.
fn mutated() -> impl Strategy<Value = Module> {
    let at = any::<prop::sample::Index>;
    let change = (at(), at(), instruction());
    let handler = (at(), 0..20u32, 1..4u32, 0..4u32, 0..8u16);
    let changes = prop::collection::vec(change, 1..12);
    (changes, prop::collection::vec(handler, 0..3)).prop_map(|(changes, handlers)| {
        let mut module = crate::vm::module::sample();
        for (function, place, code) in changes {
            let index = function.index(module.functions.len());
            let function = &mut module.functions[index];
            let place = place.index(function.code.len());
            function.code[place] = code;
        }
        for (function, first, length, distance, register) in handlers {
            let index = function.index(module.functions.len());
            let end = first + length;
            let target = end + distance;
            let handler = Handler { first, end, target, register, ty: known::EXCEPTION };
            module.functions[index].handlers.push(handler);
        }
        module
    })
}

fn silent(_: &mut Context<'_>) -> Result<Outcome, Trap> {
    Ok(Outcome::Done)
}

/// Runs a main function for a while, with a collection at every safepoint: however it ends.
fn run(verified: Verified) {
    let config = Config { stress: true, limit: 4 << 20, ..Config::default() };
    let limits = Limits { depth: 50, fuel: Some(500) };
    let mut machine = Machine::new(Heap::new(config).local(), limits).expect("an empty machine");
    let mut resolve = |_: &_, _: &_| Some((NativeBody::Function(silent), NativeKind::Plain));
    let module = machine.load(verified, &mut resolve).expect("a small module");
    let main = machine.image.program.module(module).main().expect("a main function");
    let mut thread = machine.start(main, &[]);
    let _ = machine.run(&mut thread);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn changed_code_is_refused_or_runs_without_harm(module in mutated()) {
        if let Ok(verified) = verify(module, &Library) {
            run(verified);
        }
    }

    #[test]
    fn random_code_is_refused_or_runs_without_harm(code in prop::collection::vec(instruction(), 1..8)) {
        let mut module = crate::vm::module::sample();
        let main = module.main.expect("a main function");
        let function = &mut module.functions[main.0 as usize];
        function.handlers.clear();
        function.switches.clear();
        // An object, a word, an array and a function value to begin with, and a text.
        function.code.truncate(5);
        function.code.push(Code::ax(Op::Text, 2, 0));
        function.code.extend(code);
        function.code.push(Code::ax(Op::ReturnInt, 0, 0));
        if let Ok(verified) = verify(module, &Library) {
            run(verified);
        }
    }
}
