//! The exceptions that instructions raise by themselves. Each message names what was wrong: the
//! variable, the field, the index and the length.

use super::Machine;
use super::state::Step;
use crate::vm::heap::object;
use crate::vm::native::Word;
use crate::vm::op::{Op, Operand, Place};
use crate::vm::types::{ExceptionClass, Type};

/// Division or remainder by zero.
#[cold]
pub(super) fn division_by_zero(machine: &mut Machine) -> Step {
    let what = match machine.code().op() {
        Some(
            Op::ModInt | Op::ModUint | Op::ModLong | Op::ModUlong | Op::ModFloat | Op::ModDouble,
        ) => "remainder of a division by zero",
        _ => "division by zero",
    };
    machine.raise(ExceptionClass::DivByZero, what)
}

/// A field of null.
#[cold]
pub(super) fn null_field(machine: &mut Machine) -> Step {
    let code = machine.code();
    let (verb, register, slot) = match code.op() {
        Some(
            Op::SetField
            | Op::AddFieldInt
            | Op::SubFieldInt
            | Op::AddFieldIntK
            | Op::AddFieldLong
            | Op::SubFieldLong
            | Op::AddFieldLongK
            | Op::AddFieldDouble
            | Op::SubFieldDouble,
        ) => ("write", code.a(), code.b()),
        _ => ("read", code.b(), code.c()),
    };
    let (variable, ty) = machine.variable(register).unzip();
    let types = &machine.image.program.types;
    let field = ty.and_then(|ty| match types.get(ty) {
        Type::Class(class) | Type::Struct(class) => types.class(*class).fields.get(slot as usize),
        _ => None,
    });
    let message = match (field, &variable) {
        (Some(field), Some(name)) => {
            format!("cannot {verb} field `{}`: `{name}` is null", field.name)
        }
        _ => format!("cannot {verb} a field of null"),
    };
    machine.raise(ExceptionClass::NullPointer, &message)
}

/// A method of null.
#[cold]
pub(super) fn null_receiver(machine: &mut Machine) -> Step {
    let code = machine.code();
    let message = match code.op() {
        Some(Op::CallInterface) => {
            let selectors = &machine.image.program.types.selectors;
            format!("cannot call `{}` on null", selectors[code.x() as usize].name)
        }
        Some(Op::CallMethod) => {
            let function = crate::vm::types::FunctionId(code.x());
            let name = &machine.image.program.source(function).name;
            format!("cannot call `{}` on null", name.rsplit('.').next().unwrap_or(name))
        }
        _ => match code.b() {
            0 => "cannot call `equals` on null".into(),
            1 => "cannot call `getHashCode` on null".into(),
            2 => "cannot call `toString` on null".into(),
            _ => "cannot call a method on null".into(),
        },
    };
    machine.raise(ExceptionClass::NullPointer, &message)
}

/// An element or the length of null.
#[cold]
pub(super) fn null_array(machine: &mut Machine) -> Step {
    null_container(machine, "array")
}

/// As [`null_array`], for lists.
#[cold]
pub(super) fn null_list(machine: &mut Machine) -> Step {
    null_container(machine, "list")
}

fn null_container(machine: &mut Machine, what: &str) -> Step {
    let message = match machine.variable(machine.container_register()) {
        Some((name, _)) => format!("the {what} `{name}` is null"),
        None => format!("the {what} is null"),
    };
    machine.raise(ExceptionClass::NullPointer, &message)
}

/// What must not be null is null.
#[cold]
pub(super) fn null_value(machine: &mut Machine) -> Step {
    let message = match machine.variable(machine.code().a()) {
        Some((name, _)) => format!("`{name}` is null"),
        None => "the reference is null".into(),
    };
    machine.raise(ExceptionClass::NullPointer, &message)
}

/// An index that an array does not have.
#[cold]
pub(super) fn array_index(machine: &mut Machine) -> Step {
    let array = machine.register(machine.container_register());
    // SAFETY: the handler has seen that it is an array.
    let length = unsafe { object::array_length(array) };
    index(machine, length, "array")
}

/// An index that a list does not have.
#[cold]
pub(super) fn list_index(machine: &mut Machine) -> Step {
    let list = machine.register(machine.container_register());
    // SAFETY: the handler has seen that it is a list.
    let length = unsafe { object::list_length(list) };
    index(machine, length, "list")
}

/// An index that a string does not have.
#[cold]
pub(super) fn text_index(machine: &mut Machine) -> Step {
    let string = machine.register(machine.code().b());
    // SAFETY: the register holds a string or null.
    let length = u64::from(unsafe { object::string_length(string) });
    index(machine, length, "string")
}

fn index(machine: &mut Machine, length: u64, what: &str) -> Step {
    let code = machine.code();
    // The index is the second of the registers that are read: `c` after a written `a`, else `b`.
    let register = if writes_register(code.op()) { code.c() } else { code.b() };
    let word = machine.register(register);
    let message =
        format!("index {} is out of bounds for {what} of length {length}", as_index(word));
    machine.raise(ExceptionClass::IndexOutOfBounds, &message)
}

/// An index as the script wrote it: negative `int`s lie in a word as large numbers.
fn as_index(word: Word) -> i64 {
    if word >> 32 == 0 { i64::from(word as i32) } else { word as i64 }
}

fn writes_register(op: Option<Op>) -> bool {
    op.is_some_and(|op| {
        op.operands().iter().any(|&(operand, place)| {
            place == Place::A && matches!(operand, Operand::DW | Operand::DR | Operand::DS)
        })
    })
}

impl Machine {
    /// The register with the container that the current instruction works on.
    fn container_register(&self) -> u16 {
        let code = self.code();
        let counts = matches!(code.op(), Some(Op::LoopIncLtArray | Op::LoopIncLtList));
        if counts || writes_register(code.op()) { code.b() } else { code.a() }
    }

    /// Name and type of the variable that a register holds at the current instruction.
    fn variable(&self, register: u16) -> Option<(String, crate::vm::types::TypeId)> {
        let at = self.image.program.locate(self.pc.addr())?;
        let function = self.image.program.source(at.function);
        let local = function.locals.iter().rev().find(|local| {
            local.register == register
                && (local.first as usize..local.end as usize).contains(&at.instruction)
        })?;
        let module = self.image.program.functions[at.function.0 as usize].module;
        Some((local.name.clone(), self.image.program.module(module).ty(local.ty)))
    }
}
