//! What has to hold of each instruction by itself, and of a function's tables.
//!
//! After this, registers, indices and jumps can be followed without tests; what the registers hold
//! is the business of [`flow`](super::flow).

use super::VerifyError;
use super::kind::Kinds;
use crate::vm::module::{Function, FunctionKind, Module};
use crate::vm::op::{Code, Op, Operand, Place};
use crate::vm::types::{ClassId, ExceptionClass, Signature, Type, TypeId, known};

/// Words that the pointer maps of a module's functions take at most.
const MAP_WORDS: usize = 1 << 25;

/// Checks all functions.
pub(super) fn check(module: &Module, kinds: Kinds<'_>) -> Result<(), VerifyError> {
    let windows = Windows::new(module);
    let mut map_words = MAP_WORDS;
    for index in 0..module.functions.len() {
        check_function(module, kinds, &windows, index, &mut map_words)?;
    }
    Ok(())
}

fn check_function(
    module: &Module,
    kinds: Kinds<'_>,
    windows: &Windows,
    index: usize,
    map_words: &mut usize,
) -> Result<(), VerifyError> {
    let function = &module.functions[index];
    let checker = Checker { module, kinds, windows, function };
    checker.check_frame(map_words).map_err(|what| VerifyError::function(module, index, what))?;
    checker.check_tables().map_err(|what| VerifyError::function(module, index, what))?;
    let first_targets: Vec<u32> = function
        .switches
        .iter()
        .map(|s| s.targets.iter().copied().fold(s.default, u32::min))
        .collect();
    for (at, &code) in function.code.iter().enumerate() {
        checker
            .check_instruction(at, code, &first_targets)
            .map_err(|what| VerifyError::instruction(module, index, at, what))?;
    }
    let last = function.code.last().and_then(|code| code.op());
    if !last.is_some_and(Op::ends) {
        let what = "the last instruction goes on to a next one";
        return Err(VerifyError::instruction(module, index, function.code.len() - 1, what));
    }
    Ok(())
}

/// How many registers from `a` on calls need: for arguments, for result and outs.
struct Windows {
    functions: Vec<usize>,
    natives: Vec<usize>,
    /// Of interfaces' methods. The receiver comes first.
    selectors: Vec<usize>,
}

impl Windows {
    fn new(module: &Module) -> Windows {
        let size = |s: &Signature, receiver: usize| (receiver + s.params.len()).max(1 + outs(s));
        Windows {
            functions: module.functions.iter().map(|f| size(&f.signature, 0)).collect(),
            natives: module.natives.iter().map(|n| size(&n.signature, 0)).collect(),
            selectors: module.types.selectors.iter().map(|s| size(&s.signature, 1)).collect(),
        }
    }
}

/// How many parameters are outs.
pub(super) fn outs(signature: &Signature) -> usize {
    signature.params.iter().filter(|param| param.out).count()
}

struct Checker<'m> {
    module: &'m Module,
    kinds: Kinds<'m>,
    windows: &'m Windows,
    function: &'m Function,
}

type Check = Result<(), String>;

impl Checker<'_> {
    fn check_frame(&self, map_words: &mut usize) -> Check {
        let Function { signature, registers, .. } = self.function;
        let registers = *registers as usize;
        if registers > u16::MAX.into() {
            return Err(format!("has more than {} registers", u16::MAX));
        }
        let outs = outs(signature);
        if registers < signature.params.len() || (outs > 0 && registers < 1 + outs) {
            return Err("has no registers for its parameters, result and outs".into());
        }
        let receiver = signature.params.first();
        match self.function.kind {
            FunctionKind::Free => {}
            FunctionKind::Method if receiver.is_some() => {}
            FunctionKind::Constructor
                if signature.result == known::VOID
                    && receiver.is_some_and(|r| {
                        matches!(self.module.types.get(r.ty), Type::Class(_) | Type::Struct(_))
                    }) => {}
            _ => return Err("has no receiver, or is a constructor with a result".into()),
        }
        if self.function.code.is_empty() || self.function.code.len() > i32::MAX as usize {
            return Err("has no code, or too much".into());
        }
        // What its pointer maps could take.
        let words = (registers / 64 + 1) * self.function.code.len();
        let left = map_words.checked_sub(words);
        *map_words = left.ok_or("has too much code for so many registers, with those before it")?;
        Ok(())
    }

    fn check_tables(&self) -> Check {
        let Function { code, handlers, switches, file, lines, locals, .. } = self.function;
        let len = code.len() as u32;
        if *file as usize >= self.module.files.len() {
            return Err("is of a file that does not exist".into());
        }
        if !lines.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("has lines that are not in ascending order".into());
        }
        for (i, handler) in handlers.iter().enumerate() {
            let range = handler.first < handler.end && handler.end <= len;
            if !range || handler.target < handler.end || handler.target >= len {
                return Err(format!("handler {i} does not stand behind a range of the code"));
            }
            if u32::from(handler.register) >= self.function.registers {
                return Err(format!("handler {i} has no register"));
            }
            if !self.is_exception(handler.ty) {
                return Err(format!("handler {i} catches what is no exception"));
            }
        }
        for (i, switch) in switches.iter().enumerate() {
            if switch.default >= len || switch.targets.iter().any(|&target| target >= len) {
                return Err(format!("switch {i} goes to an instruction that does not exist"));
            }
        }
        for local in locals {
            let register = u32::from(local.register) < self.function.registers;
            let ty = (local.ty.0 as usize) < self.module.types.len();
            if !register || !ty || local.first > local.end || local.end > len {
                return Err(format!("local {} lies outside the function", local.name));
            }
        }
        Ok(())
    }

    fn is_exception(&self, ty: TypeId) -> bool {
        let types = &self.module.types;
        (ty.0 as usize) < types.len()
            && matches!(types.get(ty), &Type::Class(class)
                if self.kinds.lineage.derives(class, ExceptionClass::Exception.class()))
    }

    fn check_instruction(&self, at: usize, code: Code, first_targets: &[u32]) -> Check {
        let Some(op) = code.op() else {
            return Err(format!("there is no operation {}", code.number()));
        };
        for &(operand, place) in op.operands() {
            self.check_operand(at, code, op, (operand, place), first_targets)?;
        }
        self.check_special(code, op)
    }

    fn check_operand(
        &self,
        at: usize,
        code: Code,
        op: Op,
        (operand, place): (Operand, Place),
        first_targets: &[u32],
    ) -> Check {
        let value = code.field(place) as usize;
        let types = &self.module.types;
        let (count, what) = match operand {
            Operand::DW
            | Operand::DR
            | Operand::DS
            | Operand::W
            | Operand::R
            | Operand::S
            | Operand::Call => (self.function.registers as usize, "register"),
            Operand::Str => (self.module.strings.len(), "text constant"),
            Operand::Word => (self.module.words.len(), "word constant"),
            Operand::Ty => (types.len(), "type"),
            Operand::Cls => (types.classes.len(), "class"),
            Operand::Fun => (self.module.functions.len(), "function"),
            Operand::Nat => (self.module.natives.len(), "native"),
            Operand::Sel => (types.selectors.len(), "selector"),
            Operand::Exc => (ExceptionClass::ALL.len(), "exception"),
            Operand::Sw => (first_targets.len(), "switch"),
            // The kind of a register decides.
            Operand::Fld | Operand::Slot | Operand::K | Operand::U => return Ok(()),
            Operand::J => return self.check_jump(at, code, op, place),
        };
        if value >= count {
            return Err(format!("there is no {what} {value}"));
        }
        if operand == Operand::Sw && first_targets[value] as usize <= at {
            return Err("the switch goes back".into());
        }
        Ok(())
    }

    fn check_jump(&self, at: usize, code: Code, op: Op, place: Place) -> Check {
        if op.is_loop() != (code.signed(place) < 0) {
            return Err("only loops go back, and they must".into());
        }
        match code.jump_target(at) {
            Some(target) if target < self.function.code.len() => Ok(()),
            _ => Err("the jump leaves the function".into()),
        }
    }

    fn check_special(&self, code: Code, op: Op) -> Check {
        let types = &self.module.types;
        let ty = |place| types.get(TypeId(code.field(place)));
        let x = code.x() as usize;
        match op {
            Op::DivIntK | Op::ModIntK | Op::DivLongK | Op::ModLongK if code.c() == 0 => {
                Err("divides by the constant 0".into())
            }
            Op::New => match self.kinds.class_type(ClassId(code.x())) {
                Some(_) => Ok(()),
                None => Err("the table has no type for the class".into()),
            },
            Op::NewArray if !matches!(ty(Place::C), Type::Array(_)) => {
                Err("makes an array of a type that is none".into())
            }
            Op::NewContainer if !matches!(ty(Place::X), Type::List(_) | Type::Dict(..)) => {
                Err("makes a list or dictionary of a type that is none".into())
            }
            Op::Null => match ty(Place::X) {
                Type::Null | Type::Struct(_) => Err("there is no null of the type".into()),
                _ if types.is_reference(TypeId(code.x())) => Ok(()),
                _ => Err("there is no null of the type".into()),
            },
            Op::Cast => match ty(Place::C) {
                Type::Null | Type::Struct(_) | Type::String => Err("casts to such a type".into()),
                _ if types.is_reference(TypeId(code.c().into())) => Ok(()),
                _ => Err("casts to a type that is no reference".into()),
            },
            Op::Box | Op::Unbox => match ty(Place::C) {
                Type::String => Ok(()),
                Type::Void => Err("there are no values of the type".into()),
                _ if !types.is_reference(TypeId(code.c().into())) => Ok(()),
                _ => Err("values of the type are not boxed".into()),
            },
            Op::WordText => match ty(Place::C) {
                Type::Void => Err("there are no values of the type".into()),
                _ if !types.is_reference(TypeId(code.c().into())) => Ok(()),
                _ => Err("values of the type are no words".into()),
            },
            Op::Move2 => self.check_registers(usize::from(code.a()) + 2),
            Op::ConcatMany => {
                let end = usize::from(code.b()) + usize::from(code.c());
                self.check_registers(end)
            }
            Op::Call | Op::CallMethod => self.check_window(code, self.windows.functions[x]),
            Op::CallInterface => self.check_window(code, self.windows.selectors[x]),
            Op::CallNative => self.check_window(code, self.windows.natives[x]),
            Op::CallVirtual | Op::CallFunc => self.check_window(code, 1),
            _ => Ok(()),
        }
        .and_then(|()| match op {
            Op::CallMethod => self.check_receiver(code.x()),
            Op::Bind => self.check_receiver(code.c().into()),
            Op::ReturnInt => self.check_word_result(),
            Op::ReturnVoid if self.function.signature.result != known::VOID => {
                Err("returns nothing from a function with a result".into())
            }
            _ => Ok(()),
        })
    }

    fn signature(&self, function: u32) -> &Signature {
        &self.module.functions[function as usize].signature
    }

    /// The word below the window takes the return address.
    fn check_window(&self, code: Code, size: usize) -> Check {
        if code.a() == 0 {
            return Err("there is no room for the return address below the window".into());
        }
        self.check_registers(usize::from(code.a()) + size)
    }

    fn check_registers(&self, end: usize) -> Check {
        if end > self.function.registers as usize {
            return Err("the window goes beyond the registers".into());
        }
        Ok(())
    }

    /// A receiver is tested for null, and kept in function values, where the collector looks.
    fn check_receiver(&self, function: u32) -> Check {
        match self.signature(function).params.first() {
            Some(param) if !param.out && self.module.types.is_reference(param.ty) => Ok(()),
            _ => Err("the function has no receiver".into()),
        }
    }

    /// For a constant word as result.
    fn check_word_result(&self) -> Check {
        let result = self.function.signature.result;
        if result == known::VOID || self.module.types.is_reference(result) {
            return Err("returns a word from a function without such a result".into());
        }
        Ok(())
    }
}
