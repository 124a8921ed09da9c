//! What each instruction asks of the registers that it reads, and what it leaves in those that it
//! writes.

use super::kind::{Kind, Kinds};
use super::tables::object_signature;
use crate::vm::module::{Function, Module};
use crate::vm::op::{Code, Op, Operand, Place};
use crate::vm::types::{
    ClassDef, ClassId, FunctionId, Method, Param, SelectorId, Signature, Type, TypeId, known,
};

/// The registers on the way through a piece of code.
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) kinds: Vec<Kind>,
    /// From here on nothing can be read.
    end_readable: usize,
    /// The registers written since [`Registers::clean`] lie between these.
    first_written: usize,
    end_written: usize,
    /// Work that instructions took beyond that of any instruction.
    work: usize,
}

impl Registers {
    pub(super) fn new(count: usize) -> Registers {
        let kinds = vec![Kind::UNREADABLE; count];
        Registers { kinds, end_readable: count, first_written: 0, end_written: count, work: 0 }
    }

    fn get(&self, register: u16) -> Kind {
        self.kinds[usize::from(register)]
    }

    fn set(&mut self, register: usize, kind: Kind) {
        self.kinds[register] = kind;
        self.end_readable = self.end_readable.max(register + 1);
        self.first_written = self.first_written.min(register);
        self.end_written = self.end_written.max(register + 1);
    }

    /// A call has been there.
    fn lose_from(&mut self, register: usize) {
        let end = self.end_readable;
        if register < end {
            self.kinds[register..end].fill(Kind::UNREADABLE);
            self.first_written = self.first_written.min(register);
            self.end_written = self.end_written.max(end);
            self.end_readable = register;
            self.work += end - register;
        }
    }

    /// Forgets which registers were written.
    pub(super) fn clean(&mut self) {
        self.first_written = self.kinds.len();
        self.end_written = 0;
    }

    /// Takes all registers as written.
    pub(super) fn soil(&mut self) {
        self.first_written = 0;
        self.end_written = self.kinds.len();
        self.end_readable = self.kinds.len();
    }

    /// The work that instructions took, beyond that of any instruction, since the last call.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// A range that has all registers that were written.
    pub(super) fn written(&self) -> std::ops::Range<usize> {
        self.first_written.min(self.end_written)..self.end_written
    }
}

/// The rules, for the instructions of one function.
pub(super) struct Rules<'m> {
    pub(super) module: &'m Module,
    pub(super) kinds: Kinds<'m>,
    pub(super) function: &'m Function,
}

type Check = Result<(), String>;

impl<'m> Rules<'m> {
    /// The registers at the function's entry.
    pub(super) fn entry(&self) -> Registers {
        let mut registers = Registers::new(self.function.registers as usize);
        for (i, param) in self.function.signature.params.iter().enumerate() {
            registers.kinds[i] = self.kinds.of(param.ty);
        }
        registers
    }

    /// Takes the registers over an instruction.
    pub(super) fn apply(&self, code: Code, registers: &mut Registers) -> Check {
        let op = code.op().expect("an operation: checked before");
        for &(operand, place) in op.operands() {
            self.check_read(code, op, operand, place, registers)?;
        }
        if op.is_special() {
            return self.apply_special(code, op, registers);
        }
        if matches!(op, Op::EqFunc | Op::NeFunc) {
            for register in [code.b(), code.c()] {
                self.ty_of(registers, register, "a function value", |ty| {
                    matches!(ty, Type::Func(_)).then_some(())
                })?;
            }
        }
        for &(operand, place) in op.operands() {
            let kind = match operand {
                Operand::DW => Kind::WORD,
                Operand::DS => Kind::STRING,
                Operand::DR => Kind::ANY,
                _ => continue,
            };
            registers.set(code.field(place) as usize, kind);
        }
        Ok(())
    }

    /// What the operand list says of a register that is read. In instructions with a rule of their
    /// own, `W` may stand for a value of any kind.
    fn check_read(
        &self,
        code: Code,
        op: Op,
        operand: Operand,
        place: Place,
        registers: &Registers,
    ) -> Check {
        let register = code.field(place) as u16;
        let fits: (&str, fn(Kind) -> bool) = match operand {
            Operand::W if takes_any(op, place) => ("a value", |kind| kind != Kind::UNREADABLE),
            Operand::W => ("a word", |kind| kind == Kind::WORD),
            Operand::R => ("a reference", Kind::is_reference),
            Operand::S => ("a string", |kind| kind == Kind::STRING),
            _ => return Ok(()),
        };
        let kind = registers.get(register);
        if fits.1(kind) {
            return Ok(());
        }
        Err(self.mismatch(register.into(), kind, fits.0))
    }

    fn mismatch(&self, register: usize, kind: Kind, wanted: &str) -> String {
        format!("r{register} holds {}, not {wanted}", self.kinds.describe(kind))
    }

    fn apply_special(&self, code: Code, op: Op, registers: &mut Registers) -> Check {
        let a = usize::from(code.a());
        match op {
            Op::Move => registers.set(a, registers.get(code.b())),
            Op::Move2 => {
                registers.set(a, registers.get(code.b()));
                // One after the other: what the second reads may be what the first wrote.
                self.check_read(code, op, Operand::W, Place::C, registers)?;
                registers.set(a + 1, registers.get(code.c()));
            }
            Op::Null => registers.set(a, Kind::reference(TypeId(code.x()))),
            Op::DivIntK | Op::ModIntK | Op::DivLongK | Op::ModLongK => registers.set(a, Kind::WORD),
            Op::Switch => {}
            Op::LoopIncLtInt
            | Op::LoopIncLeInt
            | Op::LoopIncLtIntK
            | Op::LoopIncLeIntK
            | Op::LoopDecGeIntK
            | Op::LoopIncLtLong
            | Op::LoopIncLtLongK
            | Op::LoopIncLtText => {}
            Op::LoopIncLtArray => self.ty_of(registers, code.b(), "an array", |ty| {
                matches!(ty, Type::Array(_)).then_some(())
            })?,
            Op::LoopIncLtList => self.ty_of(registers, code.b(), "a list", |ty| {
                matches!(ty, Type::List(_)).then_some(())
            })?,
            Op::New => {
                let ty = self.kinds.class_type(ClassId(code.x())).unwrap_or(known::OBJECT);
                registers.set(a, Kind::reference(ty));
            }
            Op::CopyStruct => {
                self.ty_of(registers, code.b(), "a struct", |ty| {
                    matches!(ty, Type::Struct(_)).then_some(())
                })?;
                registers.set(a, registers.get(code.b()));
            }
            Op::GetField => {
                let ty = self.field(registers, code.b(), code.c())?;
                registers.set(a, self.kinds.of(ty));
            }
            Op::SetField => {
                let ty = self.field(registers, code.a(), code.b())?;
                self.store(registers, code.c().into(), ty)?;
            }
            Op::AddFieldInt
            | Op::SubFieldInt
            | Op::AddFieldIntK
            | Op::AddFieldLong
            | Op::SubFieldLong
            | Op::AddFieldLongK
            | Op::AddFieldDouble
            | Op::SubFieldDouble => {
                let ty = self.field(registers, code.a(), code.b())?;
                if self.module.types.is_reference(ty) {
                    return Err(format!("a {} is no number", self.module.types.name(ty)));
                }
            }
            Op::NewArray => registers.set(a, Kind::reference(TypeId(code.c().into()))),
            Op::NewContainer => registers.set(a, Kind::reference(TypeId(code.x()))),
            Op::TextNext => {
                registers.set(a, Kind::WORD);
                registers.set(code.c().into(), Kind::WORD);
                // What lies between is taken as written.
                registers.work += code.a().abs_diff(code.c()) as usize;
            }
            Op::ConcatMany => {
                for register in code.b()..code.b() + code.c() {
                    if registers.get(register) != Kind::STRING {
                        let kind = registers.get(register);
                        return Err(self.mismatch(register.into(), kind, "a string"));
                    }
                }
                registers.set(a, Kind::STRING);
                registers.work += usize::from(code.c());
            }
            Op::WordText => registers.set(a, Kind::STRING),
            Op::Box => {
                self.store(registers, code.b().into(), TypeId(code.c().into()))?;
                registers.set(a, Kind::OBJECT);
            }
            Op::Unbox => registers.set(a, self.kinds.of(TypeId(code.c().into()))),
            Op::Cast => registers.set(a, Kind::reference(TypeId(code.c().into()))),
            Op::FuncOf | Op::Bind | Op::BindVirtual | Op::BindInterface => {
                let ty = self.function_value(code, op, registers)?;
                registers.set(a, Kind::reference(ty));
            }
            Op::Call
            | Op::CallMethod
            | Op::CallVirtual
            | Op::CallInterface
            | Op::CallFunc
            | Op::CallNative => self.call(code, op, registers)?,
            Op::Return | Op::ReturnInt | Op::ReturnVoid => self.leave(code, op, registers)?,
            Op::Throw => {
                let exception = known::EXCEPTION;
                self.store(registers, a, exception)?;
            }
            Op::Raise => {}
            _ => self.element(code, op, registers)?,
        }
        Ok(())
    }

    /// The type of the reference in a register, by what `pick` makes of it.
    fn ty_of<T>(
        &self,
        registers: &Registers,
        register: u16,
        wanted: &str,
        pick: impl FnOnce(&'m Type) -> Option<T>,
    ) -> Result<T, String> {
        let kind = registers.get(register);
        kind.ty()
            .and_then(|ty| pick(self.module.types.get(ty)))
            .ok_or_else(|| self.mismatch(register.into(), kind, wanted))
    }

    /// That what a register holds may be stored as a value of a type.
    fn store(&self, registers: &Registers, register: usize, ty: TypeId) -> Check {
        let kind = registers.kinds[register];
        if self.kinds.assignable(kind, ty) {
            return Ok(());
        }
        Err(self.mismatch(register, kind, &format!("a {}", self.module.types.name(ty))))
    }

    fn field(&self, registers: &Registers, register: u16, field: u16) -> Result<TypeId, String> {
        let class = self.ty_of(registers, register, "an object with fields", |ty| match ty {
            &Type::Class(class) | &Type::Struct(class) => Some(class),
            _ => None,
        })?;
        let class: &ClassDef = self.module.types.class(class);
        match class.fields.get(usize::from(field)) {
            Some(field) => Ok(field.ty),
            None => Err(format!("{} has no field {field}", class.name)),
        }
    }

    /// Lengths, reads and writes of elements.
    fn element(&self, code: Code, op: Op, registers: &mut Registers) -> Check {
        let array = |ty: &Type| match *ty {
            Type::Array(of) => Some(of),
            _ => None,
        };
        let list = |ty: &Type| match *ty {
            Type::List(of) => Some(of),
            _ => None,
        };
        let is_list = op >= Op::ListLength;
        let container = if writes_element(op) { code.a() } else { code.b() };
        let element = if is_list {
            self.ty_of(registers, container, "a list", list)?
        } else {
            self.ty_of(registers, container, "an array", array)?
        };
        let size = match op {
            Op::ArrayLength | Op::ListLength => {
                registers.set(code.a().into(), Kind::WORD);
                return Ok(());
            }
            Op::ListAdd => return self.store(registers, code.b().into(), element),
            Op::ArrayGetI8 | Op::ArrayGetU8 | Op::ArraySet8 => 1,
            Op::ListGetI8 | Op::ListGetU8 | Op::ListSet8 => 1,
            Op::ArrayGetI16 | Op::ArrayGetU16 | Op::ArraySet16 => 2,
            Op::ListGetI16 | Op::ListGetU16 | Op::ListSet16 => 2,
            Op::ArrayGet32 | Op::ArraySet32 | Op::ListGet32 | Op::ListSet32 => 4,
            Op::ArrayGet64 | Op::ArraySet64 | Op::ListGet64 | Op::ListSet64 => 8,
            _ => return Err("the verifier has no rule for the operation".into()),
        };
        let name = || self.module.types.name(element);
        if self.module.types.element_size(element) != size {
            return Err(format!("elements of type {} are not of {size} bytes", name()));
        }
        let signed = matches!(self.module.types.get(element), Type::Byte | Type::Short);
        match op {
            Op::ArrayGetI8 | Op::ListGetI8 | Op::ArrayGetI16 | Op::ListGetI16 if !signed => {
                return Err(format!("elements of type {} have no sign", name()));
            }
            Op::ArrayGetU8 | Op::ListGetU8 | Op::ArrayGetU16 | Op::ListGetU16 if signed => {
                return Err(format!("elements of type {} have a sign", name()));
            }
            _ => {}
        }
        if writes_element(op) {
            return self.store(registers, code.c().into(), element);
        }
        registers.set(code.a().into(), self.kinds.of(element));
        Ok(())
    }

    /// The type of the value that an instruction makes of a function.
    fn function_value(
        &self,
        code: Code,
        op: Op,
        registers: &mut Registers,
    ) -> Result<TypeId, String> {
        let (params, result) = match op {
            Op::FuncOf => self.signature(FunctionId(code.x())),
            Op::Bind => {
                let (params, result) = self.signature(FunctionId(code.c().into()));
                self.store(registers, code.b().into(), params[0].ty)?;
                (&params[1..], result)
            }
            Op::BindVirtual => self.virtual_signature(registers, code.b(), code.c())?,
            _ => {
                self.object(registers, code.b())?;
                self.selector(SelectorId(code.c().into()))
            }
        };
        registers.work += params.len();
        let signature = Signature { params: params.to_vec(), result };
        let ty = self.module.types.find(&Type::Func(signature));
        ty.ok_or_else(|| "the table has no type for the function value".to_string())
    }

    fn signature(&self, function: FunctionId) -> Parts<'m> {
        parts(&self.module.functions[function.0 as usize].signature)
    }

    fn selector(&self, selector: SelectorId) -> Parts<'m> {
        parts(&self.module.types.selectors[selector.0 as usize].signature)
    }

    /// That methods can be looked up in what a register holds.
    fn object(&self, registers: &Registers, register: u16) -> Result<TypeId, String> {
        let kind = registers.get(register);
        match kind.ty() {
            Some(ty) if self.kinds.is_object(ty) => Ok(ty),
            _ => Err(self.mismatch(register.into(), kind, "an object with methods")),
        }
    }

    /// The signature of a virtual slot of the object in a register, without the receiver.
    fn virtual_signature(
        &self,
        registers: &Registers,
        register: u16,
        slot: u16,
    ) -> Result<Parts<'m>, String> {
        let ty = self.object(registers, register)?;
        let slot = usize::from(slot);
        if slot < 3 {
            return Ok(object_signature(slot));
        }
        let &Type::Class(class) = self.module.types.get(ty) else {
            return Err(format!("{} has no slot {slot}", self.module.types.name(ty)));
        };
        let class = self.module.types.class(class);
        match class.vtable.get(slot) {
            Some(&Method::Script(function)) => {
                let (params, result) = self.signature(function);
                Ok((&params[1..], result))
            }
            _ => Err(format!("{} has no slot {slot}", class.name)),
        }
    }

    fn call(&self, code: Code, op: Op, registers: &mut Registers) -> Check {
        let a = usize::from(code.a());
        // The first register that the signature speaks of: it may not name the receiver.
        let (first, (params, result)) = match op {
            Op::Call | Op::CallMethod => (a, self.signature(FunctionId(code.x()))),
            Op::CallNative => (a, parts(&self.module.natives[code.x() as usize].signature)),
            Op::CallVirtual => (a + 1, self.virtual_signature(registers, code.a(), code.b())?),
            Op::CallInterface => {
                self.object(registers, code.a())?;
                (a + 1, self.selector(SelectorId(code.x())))
            }
            _ => (a + 1, parts(self.ty_of(registers, code.b(), "a function value", func)?)),
        };
        registers.work += params.len();
        let outs = || params.iter().filter(|param| param.out);
        let end = (first + params.len()).max(a + 1 + outs().count());
        if end > registers.kinds.len() {
            return Err("the window goes beyond the registers".into());
        }
        for (i, param) in params.iter().enumerate() {
            self.store(registers, first + i, param.ty)?;
        }
        registers.lose_from(a - 1);
        if result != known::VOID {
            registers.set(a, self.kinds.of(result));
        }
        for (i, param) in outs().enumerate() {
            registers.set(a + 1 + i, self.kinds.of(param.ty));
        }
        Ok(())
    }

    fn leave(&self, code: Code, op: Op, registers: &mut Registers) -> Check {
        let signature = &self.function.signature;
        registers.work += signature.params.len();
        if op == Op::Return {
            self.store(registers, code.a().into(), signature.result)?;
        }
        for (i, param) in signature.params.iter().filter(|param| param.out).enumerate() {
            self.store(registers, 1 + i, param.ty)?;
        }
        Ok(())
    }
}

/// Whether the register is read as a value whose kind the operation's own rule judges.
fn takes_any(op: Op, place: Place) -> bool {
    match op {
        Op::Move | Op::Move2 | Op::Return | Op::Box | Op::ListAdd => true,
        Op::SetField => true,
        Op::ArraySet64 | Op::ListSet64 => place == Place::C,
        _ => false,
    }
}

fn writes_element(op: Op) -> bool {
    matches!(
        op,
        Op::ArraySet8
            | Op::ArraySet16
            | Op::ArraySet32
            | Op::ArraySet64
            | Op::ListSet8
            | Op::ListSet16
            | Op::ListSet32
            | Op::ListSet64
            | Op::ListAdd
    )
}

fn func(ty: &Type) -> Option<&Signature> {
    match ty {
        Type::Func(signature) => Some(signature),
        _ => None,
    }
}

/// Parameters and result of a signature, where it may be without the receiver.
type Parts<'m> = (&'m [Param], TypeId);

fn parts(signature: &Signature) -> Parts<'_> {
    (&signature.params, signature.result)
}
