//! The interpreter on programs that are written instruction by instruction.

mod calls;
mod carriers;
mod collection;
mod exceptions;
mod instructions;
mod limits;
mod natives;
mod stack;
mod text;

use super::*;
use crate::vm::asm::assemble;
use crate::vm::heap::{Config, Heap, object};
use crate::vm::module::NativeImport;
use crate::vm::native::{Context, NativeBody, NativeKind, Outcome, Trap};
use crate::vm::types::{ExceptionClass, TypeTable};
use crate::vm::verify::{Natives, verify};

/// The natives that the programs of these tests call.
struct Known;

const NATIVES: &[(&str, crate::vm::native::NativeFn)] = &[
    ("test.collect", natives::collect),
    ("test.apply", natives::apply),
    ("test.twice", natives::twice),
    ("test.fail", natives::fail),
    ("test.stop", natives::stop),
    ("test.park", natives::park),
    ("test.full", natives::full),
    ("test.keep", natives::keep_across),
    ("test.panic", natives::panic),
];

impl Natives for Known {
    fn accepts(&self, import: &NativeImport, _: &TypeTable) -> bool {
        NATIVES.iter().any(|(name, _)| *name == import.name)
    }
}

fn resolve(import: &NativeImport, _: &TypeTable) -> Option<(NativeBody, NativeKind)> {
    let (_, function) = NATIVES.iter().find(|(name, _)| *name == import.name)?;
    Some((NativeBody::Function(*function), NativeKind::Reentrant))
}

/// A machine with a program, and a heap that collects whenever it can.
fn stressed(program: &str) -> Box<Machine> {
    machine_with(program, Config { stress: true, ..Config::default() }, Limits::default())
}

fn machine(program: &str) -> Box<Machine> {
    machine_with(program, Config::default(), Limits::default())
}

fn machine_with(program: &str, config: Config, limits: Limits) -> Box<Machine> {
    let module = verify(assemble(program), &Known).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(Heap::new(config).local(), limits).unwrap();
    machine.load(module, &mut resolve).unwrap();
    machine
}

/// Runs the function of a name.
fn exit(machine: &mut Machine, name: &str, arguments: &[Word]) -> Exit {
    let function = (0..machine.image.program.functions.len() as u32)
        .map(FunctionId)
        .find(|&id| machine.image.program.source(id).name == name)
        .expect("a function of this name");
    let mut thread = machine.start(function, arguments);
    machine.run(&mut thread)
}

#[track_caller]
fn word(machine: &mut Machine, name: &str, arguments: &[Word]) -> Word {
    match exit(machine, name, arguments) {
        Exit::Done(word) => word,
        Exit::Thrown(thrown) => panic!("{}", describe(&thrown)),
        other => panic!("{other:?}"),
    }
}

fn int(machine: &mut Machine, name: &str, arguments: &[i32]) -> i32 {
    let words: Vec<Word> = arguments.iter().map(|&n| Word::from(n as u32)).collect();
    word(machine, name, &words) as i32
}

fn string(machine: &mut Machine, name: &str) -> String {
    let word = word(machine, name, &[]);
    string_of(word)
}

fn string_of(word: Word) -> String {
    // SAFETY: the functions of these tests return strings, and nothing has collected since.
    String::from_utf8(unsafe { object::string_bytes(word) }.to_vec()).unwrap()
}

/// The message of an exception, and its class.
fn thrown(machine: &mut Machine, name: &str, arguments: &[Word]) -> (String, ExceptionClass) {
    match exit(machine, name, arguments) {
        Exit::Thrown(thrown) => {
            // SAFETY: the exception lives until the machine runs again.
            let (class, message) =
                unsafe { (object::type_of(thrown.exception), object::field(thrown.exception, 0)) };
            let class = machine.class_of(class).expect("exceptions are of a class");
            (string_of(message), ExceptionClass::ALL[class.0 as usize])
        }
        other => panic!("{other:?}"),
    }
}

fn describe(thrown: &Thrown) -> String {
    // SAFETY: the exception lives until the machine runs again.
    let message = unsafe { object::field(thrown.exception, 0) };
    format!("{} at {:?}", string_of(message), thrown.backtrace)
}
