//! What a call finds out late: the methods of `Object`, the target of an interface call, function
//! values.
//!
//! As in [`slow`](super::slow), `pc` is at the instruction, and a collection is possible until a
//! function has changed something.

use super::state::Step;
use super::tables::Found;
use super::{Begin, Machine, slow};
use crate::vm::heap::{Str, object};
use crate::vm::link::TypeIndex;
use crate::vm::native::{Trap, Word};
use crate::vm::types::{ExceptionClass, FunctionId, Method, SelectorId, known};

/// `equals`, `getHashCode` or `toString` of an object that does not override it.
pub(super) fn object_method(machine: &mut Machine) -> Step {
    let code = machine.code();
    let receiver = machine.register(code.a());
    let word = match code.b() {
        0 => {
            let other = machine.register(code.a() + 1);
            Word::from(machine.object_equals(receiver, other))
        }
        1 => Word::from(machine.object_hash(receiver)),
        _ => return machine.reference_text_into(receiver),
    };
    machine.done(word)
}

/// A call through an interface whose target the cache does not have.
#[cold]
pub(super) fn find_selector(machine: &mut Machine) -> Step {
    let code = machine.code();
    // SAFETY: the handler has seen that the receiver is an object.
    let ty = unsafe { object::type_of(machine.register(code.a())) };
    let selector = SelectorId(code.x());
    let Some(function) = machine.implementation(ty, selector) else {
        let message = machine.missing(selector, machine.register(code.a()));
        return machine.raise(ExceptionClass::Exception, &message);
    };
    let entry = &raw const machine.image.tables.entries[function.0 as usize];
    machine.selector_cache.put(Found { ty, selector: selector.0, entry });
    Step::Continue
}

const NULL_FUNCTION: &str = "cannot call a null function value";

/// How a function value is bound: the upper half of its target; the lower half is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Form {
    /// A function, by its index.
    Plain = 0,
    /// A method, by its index, with its receiver.
    Bound = 1,
    /// The method in a virtual slot of the receiver.
    Virtual = 2,
    /// The receiver's method for a selector.
    Interface = 3,
}

fn target(form: Form, number: u32) -> u64 {
    (form as u64) << 32 | u64::from(number)
}

/// What calling a function value means.
#[derive(Debug)]
pub(crate) enum Entered {
    /// A call of this function with these arguments.
    Function(FunctionId, Vec<Word>),
    /// Nothing more: this is the result.
    Done(Word),
}

/// What a task of a function value begins with.
#[derive(Debug)]
pub(crate) enum Started {
    Thread(Begin),
    /// It has ended already, with this word.
    Done(Word),
}

/// What a call through a value or an interface finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    Function(FunctionId),
    /// A method of `Object` that the receiver does not override, by its slot.
    Object(u32),
    /// The receiver has no such method: an interface type is a promise of the compiler alone.
    Missing(SelectorId),
}

impl Machine {
    /// What implements a selector for objects of a runtime type.
    fn implementation(&self, ty: u32, selector: SelectorId) -> Option<FunctionId> {
        let class = self.class_of(ty)?;
        let selectors = &self.image.program.types.class(class).selectors;
        selectors.iter().find(|&&(s, _)| s == selector).map(|&(_, function)| function)
    }

    /// What a function value calls, and the receiver if it is bound.
    #[inline]
    pub(super) fn resolve_function_value(&self, value: Word) -> (Callee, Word) {
        // SAFETY: the caller has a function value; null was excluded.
        let (target, receiver) = unsafe { (object::field(value, 0), object::field(value, 1)) };
        let number = target as u32;
        // SAFETY: a bound receiver is an object.
        let receiver_type = || unsafe { object::type_of(receiver) };
        let callee = if target == self::target(Form::Virtual, number) {
            let class = self.class_of(receiver_type());
            match class.and_then(|c| self.image.program.types.class(c).vtable.get(number as usize))
            {
                Some(Method::Script(id)) => Callee::Function(*id),
                _ => Callee::Object(number),
            }
        } else if target == self::target(Form::Interface, number) {
            match self.implementation(receiver_type(), SelectorId(number)) {
                Some(id) => Callee::Function(id),
                None => Callee::Missing(SelectorId(number)),
            }
        } else {
            Callee::Function(FunctionId(number))
        };
        (callee, receiver)
    }

    fn missing(&self, selector: SelectorId, receiver: Word) -> String {
        let name = &self.image.program.types.selectors[selector.0 as usize].name;
        format!("{} has no method `{name}`", self.describe(receiver))
    }

    /// Whether a function value has a receiver.
    pub(super) fn is_bound(value: Word) -> bool {
        // SAFETY: the caller has a function value that is not null.
        unsafe { object::field(value, 0) >> 32 != Form::Plain as u64 }
    }
}

/// `call.func`
pub(super) fn call_function_value(machine: &mut Machine) -> Step {
    let code = machine.code();
    let value = machine.b();
    if value == 0 {
        return machine.raise(ExceptionClass::NullPointer, NULL_FUNCTION);
    }
    machine.budget -= 1;
    if machine.budget < 0 {
        return super::tick(machine);
    }
    let function = match machine.resolve_function_value(value) {
        (Callee::Function(function), _) => function,
        (Callee::Object(slot), receiver) => return machine.call_object_method(slot, receiver),
        (Callee::Missing(selector), receiver) => {
            let message = machine.missing(selector, receiver);
            return machine.raise(ExceptionClass::Exception, &message);
        }
    };
    let entry = &raw const machine.image.tables.entries[function.0 as usize];
    let a = usize::from(code.a());
    // SAFETY: the entry is one of the tables'.
    let (target, bytes) = unsafe { ((*entry).code, (*entry).bytes) };
    if machine.base.addr() + a * 8 + bytes > machine.limit.addr() {
        machine.callee = entry;
        return slow::grow(machine);
    }
    let bound = Machine::is_bound(value);
    let params = machine.image.program.source(function).signature.params.len();
    // SAFETY: the window of the call has a place for the receiver and all arguments, and there is
    // room for the callee's registers.
    unsafe {
        let base = machine.base.add(a);
        if bound {
            *base = object::field(value, 1);
        } else {
            std::ptr::copy(base.add(1), base, params);
        }
        *base.sub(1) = machine.pc.add(1).expose_provenance() as Word;
        machine.base = base;
    }
    machine.pc = target;
    Step::Continue
}

impl Machine {
    /// Calls a function value from native code.
    ///
    /// # Errors
    ///
    /// What the script throws, or a reason not to call: null, depth, a stop.
    pub(crate) fn call_value(&mut self, value: Word, arguments: &[Word]) -> Result<Word, Trap> {
        if value == 0 {
            return Err(Trap::of(ExceptionClass::NullPointer, NULL_FUNCTION));
        }
        match self.enter_value(value, arguments.to_vec())? {
            Entered::Function(function, arguments) => self.call_function(function, &arguments),
            Entered::Done(word) => Ok(word),
        }
    }

    /// What a call of a function value enters, also one that comes from outside of all threads; the
    /// value is not null.
    ///
    /// # Errors
    ///
    /// Those of a method that `Object` supplies, which is called at once; an exception where the
    /// receiver lacks the method.
    pub(crate) fn enter_value(
        &mut self,
        value: Word,
        mut arguments: Vec<Word>,
    ) -> Result<Entered, Trap> {
        match self.resolve_function_value(value) {
            (Callee::Function(function), receiver) => {
                if Machine::is_bound(value) {
                    arguments.insert(0, receiver);
                }
                Ok(Entered::Function(function, arguments))
            }
            (Callee::Object(0), receiver) => {
                let other = arguments.first().copied().unwrap_or(0);
                Ok(Entered::Done(Word::from(self.object_equals(receiver, other))))
            }
            (Callee::Object(1), receiver) => {
                Ok(Entered::Done(Word::from(self.object_hash(receiver))))
            }
            (Callee::Object(_), receiver) => {
                let mut text = String::new();
                self.write_reference(&mut text, receiver)?;
                Ok(Entered::Done(self.heap.new_string(text.as_bytes())?.word()))
            }
            (Callee::Missing(selector), receiver) => {
                Err(Trap::exception(self.missing(selector, receiver)))
            }
        }
    }

    /// A thread at the begin of what a function value without parameters calls; the value is not null.
    ///
    /// # Errors
    ///
    /// As for [`Machine::enter_value`].
    #[inline]
    pub(crate) fn start_value(&mut self, value: Word) -> Result<Started, Trap> {
        if let (Callee::Function(function), receiver) = self.resolve_function_value(value) {
            let arguments = [receiver];
            let bound = usize::from(Machine::is_bound(value));
            return Ok(Started::Thread(self.prepare(function, &arguments[..bound])));
        }
        match self.enter_value(value, Vec::new())? {
            Entered::Function(function, words) => {
                Ok(Started::Thread(self.prepare(function, &words)))
            }
            Entered::Done(word) => Ok(Started::Done(word)),
        }
    }

    /// A function's name with that of its unit, which names of the root unit lack otherwise.
    fn unit_name(&self, function: FunctionId) -> String {
        let source = self.image.program.source(function);
        let module = self.image.program.functions[function.0 as usize].module;
        let module = self.image.program.module(module).module();
        if source.file != 0 {
            return source.name.clone();
        }
        let unit = module.name.strip_suffix(".n").unwrap_or(&module.name);
        format!("{unit}.{}", source.name)
    }

    /// Whether a function value has a receiver, and the name of its function.
    pub(super) fn function_name(&self, value: Word) -> (bool, String) {
        let name = match self.resolve_function_value(value).0 {
            Callee::Function(function) => self.unit_name(function),
            Callee::Object(slot) => ["equals", "getHashCode", "toString"][slot as usize % 3].into(),
            Callee::Missing(id) => self.image.program.types.selectors[id.0 as usize].name.clone(),
        };
        (Machine::is_bound(value), name)
    }

    /// Calls a value bound to a method that `Object` supplies.
    fn call_object_method(&mut self, slot: u32, receiver: Word) -> Step {
        match slot {
            0 => {
                let other = self.register(self.code().a() + 1);
                let equal = self.object_equals(receiver, other);
                self.done(Word::from(equal))
            }
            1 => {
                let hash = self.object_hash(receiver);
                self.done(Word::from(hash))
            }
            _ => self.reference_text_into(receiver),
        }
    }

    /// `Object.equals`: identity, but boxed values compare type and value.
    pub(crate) fn object_equals(&self, a: Word, b: Word) -> bool {
        if a == b {
            return true;
        }
        if a == 0 || b == 0 {
            return false;
        }
        // SAFETY: both are objects that live.
        unsafe {
            let (ta, tb) = (object::header(a), object::header(b));
            if ta.ty() != tb.ty() {
                return false;
            }
            if ta.ty() == TypeIndex::STRING.0 {
                return object::string_bytes(a) == object::string_bytes(b);
            }
            if ta.kind() != object::Kind::Box {
                return false;
            }
            let (x, y) = (object::field(a, 0), object::field(b, 0));
            match TypeIndex(ta.ty()).id() {
                Some(known::FLOAT) => f32::from_bits(x as u32) == f32::from_bits(y as u32),
                Some(known::DOUBLE) => f64::from_bits(x) == f64::from_bits(y),
                _ => x == y,
            }
        }
    }

    /// `Object.getHashCode`: equal objects have equal ones.
    pub(crate) fn object_hash(&self, object: Word) -> u32 {
        let mix = |word: u64| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32;
        // SAFETY: an object that lives.
        unsafe {
            let header = object::header(object);
            if header.ty() == TypeIndex::STRING.0 {
                return self.heap.hash_string(Str::from_word(&self.heap, object));
            }
            if header.kind() != object::Kind::Box {
                return mix(object >> 3);
            }
            let word = object::field(object, 0);
            match TypeIndex(header.ty()).id() {
                // Both zeros are equal.
                Some(known::FLOAT) if f32::from_bits(word as u32) == 0.0 => mix(0),
                Some(known::DOUBLE) if f64::from_bits(word) == 0.0 => mix(0),
                _ => mix(word),
            }
        }
    }
}

/// `func`
pub(super) fn func_of(machine: &mut Machine) -> Step {
    let function = FunctionId(machine.code().x());
    let ty = machine.image.function_type;
    machine.allocate(|m| m.heap.new_function(ty, target(Form::Plain, function.0), 0))
}

/// `bind`
pub(super) fn bind(machine: &mut Machine) -> Step {
    let function = machine.image.program.bound[usize::from(machine.code().c())];
    bound(machine, Form::Bound, function.0)
}

/// `bind.virtual`
pub(super) fn bind_virtual(machine: &mut Machine) -> Step {
    let slot = machine.code().c();
    bound(machine, Form::Virtual, slot.into())
}

/// `bind.interface`
pub(super) fn bind_interface(machine: &mut Machine) -> Step {
    let selector = machine.code().c();
    bound(machine, Form::Interface, selector.into())
}

fn bound(machine: &mut Machine, form: Form, number: u32) -> Step {
    if machine.b() == 0 {
        return machine.raise(ExceptionClass::NullPointer, "cannot bind a method to null");
    }
    let ty = machine.image.function_type;
    // Read again at each attempt: the register is a root, a variable here is not.
    machine.allocate(|m| m.heap.new_function(ty, target(form, number), m.b()))
}

/// `eq.func`
pub(super) fn func_eq(machine: &mut Machine) -> Step {
    let equal = same_function(machine);
    machine.done(Word::from(equal))
}

/// `ne.func`
pub(super) fn func_ne(machine: &mut Machine) -> Step {
    let equal = same_function(machine);
    machine.done(Word::from(!equal))
}

fn same_function(machine: &Machine) -> bool {
    let (a, b) = (machine.b(), machine.c());
    // SAFETY: both are function values or null.
    a == b
        || a != 0
            && b != 0
            && unsafe {
                object::field(a, 0) == object::field(b, 0)
                    && object::field(a, 1) == object::field(b, 1)
            }
}
