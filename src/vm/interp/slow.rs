//! What instructions do outside the hot code: allocation, strings, casts. What calls find out late is
//! in [`targets`](super::targets).
//!
//! Each function here is a [`Slow`](super::Slow): it finds the state in the machine with `pc` at the
//! instruction, and a collection is possible until it has changed something.

use super::state::Step;
use super::{Machine, heap_type};
use crate::vm::heap::{HeapFull, object};
use crate::vm::link::TypeIndex;
use crate::vm::native::Word;
use crate::vm::types::{ExceptionClass, Type, known};

impl Machine {
    /// Allocates at the current instruction, after a collection if one is due or if there is no room
    /// without.
    pub(super) fn with_room<T>(
        &mut self,
        make: impl Fn(&Machine) -> Result<T, HeapFull>,
    ) -> Result<T, HeapFull> {
        if self.heap.wants_collection() {
            self.collect();
        }
        make(self).or_else(|_| {
            self.collect();
            make(self)
        })
    }

    /// As [`Machine::with_room`]: puts the word into register `a` and goes on.
    pub(super) fn allocate(&mut self, make: impl Fn(&Machine) -> Result<Word, HeapFull>) -> Step {
        match self.with_room(make) {
            Ok(word) => {
                self.set_register(self.code().a(), word);
                self.advance()
            }
            Err(full) => self.raise_heap_full(full),
        }
    }

    /// Puts a word into register `a` and goes on.
    pub(super) fn done(&mut self, word: Word) -> Step {
        self.set_register(self.code().a(), word);
        self.advance()
    }

    pub(super) fn b(&self) -> Word {
        self.register(self.code().b())
    }

    pub(super) fn c(&self) -> Word {
        self.register(self.code().c())
    }

    /// The bytes of a string that a register holds.
    pub(super) fn text_of(&self, word: Word) -> &[u8] {
        // SAFETY: the verifier has seen that the register holds a string or null; it lives as long as
        // nothing collects, which takes the machine mutably.
        unsafe { object::string_bytes(word) }
    }
}

/// A call found no room in the segment: makes some, or finds the thread too deep.
#[cold]
pub(super) fn grow(machine: &mut Machine) -> Step {
    // SAFETY: the call left there what it wanted to enter.
    let bytes = unsafe { (*machine.callee).bytes };
    let end = machine.base_offset() + usize::from(machine.code().a()) + bytes / 8;
    machine.budget += 1;
    match machine.make_room(end) {
        Ok(()) => Step::Continue,
        Err(depth) => machine.raise(ExceptionClass::Exception, &depth.to_string()),
    }
}

/// `mod.float`
pub(super) fn mod_float(machine: &mut Machine) -> Step {
    let (b, c) = (f32::from_bits(machine.b() as u32), f32::from_bits(machine.c() as u32));
    if c == 0.0 {
        return super::raise::division_by_zero(machine);
    }
    machine.done(Word::from((b % c).to_bits()))
}

/// `mod.double`
pub(super) fn mod_double(machine: &mut Machine) -> Step {
    let (b, c) = (f64::from_bits(machine.b()), f64::from_bits(machine.c()));
    if c == 0.0 {
        return super::raise::division_by_zero(machine);
    }
    machine.done((b % c).to_bits())
}

/// `long.char`
pub(super) fn long_to_char(machine: &mut Machine) -> Step {
    let value = machine.b() as i64;
    match u32::try_from(value).ok().and_then(char::from_u32) {
        Some(char) => machine.done(Word::from(u32::from(char))),
        None => machine.raise(
            ExceptionClass::Exception,
            &format!("{value} is no character: not a Unicode scalar value"),
        ),
    }
}

/// `new`
pub(super) fn new_object(machine: &mut Machine) -> Step {
    let ty = heap_type(TypeIndex(machine.code().x()));
    machine.allocate(|m| m.heap.new_instance(ty))
}

/// `copy`
pub(super) fn copy_struct(machine: &mut Machine) -> Step {
    // SAFETY: the verifier has seen that the register holds a struct.
    machine.allocate(|m| unsafe { m.heap.copy_struct(m.b()) })
}

/// `new.array`
pub(super) fn new_array(machine: &mut Machine) -> Step {
    let length = machine.b() as i64;
    let ty = heap_type(TypeIndex(machine.code().c().into()));
    match u64::try_from(length) {
        Ok(length) => machine.allocate(|m| m.heap.new_array(ty, length)),
        Err(_) => machine
            .raise(ExceptionClass::Exception, &format!("an array cannot have the length {length}")),
    }
}

/// `new.container`
pub(super) fn new_container(machine: &mut Machine) -> Step {
    let ty = heap_type(TypeIndex(machine.code().x()));
    machine.allocate(|m| m.heap.new_container(ty))
}

/// `list.add`
pub(super) fn list_add(machine: &mut Machine) -> Step {
    let code = machine.code();
    if machine.register(code.a()) == 0 {
        return super::raise::null_list(machine);
    }
    let added = machine.with_room(|m| {
        // SAFETY: the verifier has seen that the register holds a list or null.
        unsafe { m.heap.list_add(m.register(code.a()), m.register(code.b())) }
    });
    match added {
        Ok(()) => machine.advance(),
        Err(full) => machine.raise_heap_full(full),
    }
}

/// `text.next`
pub(super) fn text_next(machine: &mut Machine) -> Step {
    let position = machine.c() as usize;
    let bytes = machine.text_of(machine.b());
    let Some(rest) = bytes.get(position..).filter(|rest| !rest.is_empty()) else {
        return super::raise::text_index(machine);
    };
    let (char, length) = next_char(rest);
    machine.set_register(machine.code().c(), (position + length) as Word);
    machine.done(Word::from(u32::from(char)))
}

/// The char that bytes begin with, and its length; a byte that begins none counts as U+FFFD.
fn next_char(bytes: &[u8]) -> (char, usize) {
    if bytes[0] < 0x80 {
        return (char::from(bytes[0]), 1);
    }
    let window = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) => {
            // SAFETY: valid up to there, as the error says.
            unsafe { std::str::from_utf8_unchecked(&window[..error.valid_up_to()]) }
        }
    };
    match valid.chars().next() {
        Some(char) => (char, char.len_utf8()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

/// `eq.text`
pub(super) fn text_eq(machine: &mut Machine) -> Step {
    let equal = machine.text_of(machine.b()) == machine.text_of(machine.c());
    machine.done(Word::from(equal))
}

/// `ne.text`
pub(super) fn text_ne(machine: &mut Machine) -> Step {
    let equal = machine.text_of(machine.b()) == machine.text_of(machine.c());
    machine.done(Word::from(!equal))
}

/// `lt.text`
pub(super) fn text_lt(machine: &mut Machine) -> Step {
    let less = machine.text_of(machine.b()) < machine.text_of(machine.c());
    machine.done(Word::from(less))
}

/// `le.text`
pub(super) fn text_le(machine: &mut Machine) -> Step {
    let less = machine.text_of(machine.b()) <= machine.text_of(machine.c());
    machine.done(Word::from(less))
}

/// `concat`
pub(super) fn concat(machine: &mut Machine) -> Step {
    // SAFETY: both registers hold strings or null.
    machine.allocate(|m| unsafe { m.heap.concat_words(&[m.b(), m.c()]) })
}

/// `concat.many`
pub(super) fn concat_many(machine: &mut Machine) -> Step {
    let code = machine.code();
    // SAFETY: the verifier has seen that these registers are of the frame and hold strings or null.
    machine.allocate(|m| unsafe {
        let pieces =
            std::slice::from_raw_parts(m.base.add(usize::from(code.b())), usize::from(code.c()));
        m.heap.concat_words(pieces)
    })
}

/// `word.text`
pub(super) fn word_text(machine: &mut Machine) -> Step {
    let code = machine.code();
    let word = machine.b();
    let ty = TypeIndex(code.c().into()).id().unwrap_or(known::INT);
    let mut text = std::mem::take(&mut machine.buffer);
    text.clear();
    let step = match machine.write_word(&mut text, ty, word) {
        Ok(()) => machine.allocate(|m| Ok(m.heap.new_string(text.as_bytes())?.word())),
        Err(message) => machine.raise(ExceptionClass::Exception, &message),
    };
    machine.buffer = text;
    step
}

/// `ref.text`
pub(super) fn reference_text(machine: &mut Machine) -> Step {
    let word = machine.b();
    machine.reference_text_into(word)
}

/// `box`
pub(super) fn box_word(machine: &mut Machine) -> Step {
    let ty = TypeIndex(machine.code().c().into());
    if ty == TypeIndex::STRING {
        if machine.b() != 0 {
            let word = machine.b();
            return machine.done(word);
        }
        return machine.allocate(|m| Ok(m.heap.new_string_object(b"")?.word()));
    }
    machine.allocate(|m| m.heap.new_box(heap_type(ty), m.b()))
}

/// `unbox`
pub(super) fn unbox(machine: &mut Machine) -> Step {
    let object = machine.b();
    let wanted = TypeIndex(machine.code().c().into());
    if object != 0 {
        // SAFETY: an object that lives; a box has one field.
        unsafe {
            if object::type_of(object) == wanted.0 {
                let word =
                    if wanted == TypeIndex::STRING { object } else { object::field(object, 0) };
                return machine.done(word);
            }
        }
    }
    let message =
        format!("cannot unbox {} as {}", machine.describe(object), machine.type_name(wanted));
    machine.raise(ExceptionClass::Exception, &message)
}

/// `cast`
pub(super) fn cast(machine: &mut Machine) -> Step {
    let object = machine.b();
    let wanted = TypeIndex(machine.code().c().into());
    if object == 0 || machine.is_instance(object, wanted) {
        return machine.done(object);
    }
    let message =
        format!("cannot cast {} to {}", machine.describe(object), machine.type_name(wanted));
    machine.raise(ExceptionClass::Exception, &message)
}

impl Machine {
    /// Whether an object is of a class, interface or other reference type.
    pub(crate) fn is_instance(&self, object: Word, wanted: TypeIndex) -> bool {
        // SAFETY: an object that lives.
        let ty = unsafe { object::type_of(object) };
        if ty == wanted.0 {
            return true;
        }
        let types = &self.image.program.types;
        let Some(wanted) = wanted.id() else { return false };
        match *types.get(wanted) {
            Type::Object => true,
            Type::Class(class) => self.class_of(ty).is_some_and(|c| types.derives(c, class)),
            Type::Interface(interface) => self.class_of(ty).is_some_and(|mut class| {
                loop {
                    let def = types.class(class);
                    if def.interfaces.contains(&interface) {
                        break true;
                    }
                    match def.base {
                        Some(base) => class = base,
                        None => break false,
                    }
                }
            }),
            _ => false,
        }
    }

    fn type_name(&self, ty: TypeIndex) -> String {
        ty.id().map_or_else(|| "an inner object".into(), |id| self.image.program.types.name(id))
    }

    /// An object for messages: its type.
    pub(super) fn describe(&self, object: Word) -> String {
        if object == 0 {
            return "null".into();
        }
        // SAFETY: an object that lives.
        let (ty, kind) = unsafe { (object::type_of(object), object::header(object).kind()) };
        let name = self.type_name(TypeIndex(ty));
        if kind == object::Kind::Box { format!("a boxed {name}") } else { name }
    }

    /// Makes the segment's usable part reach to a place at least.
    pub(super) fn make_room(&mut self, end: usize) -> Result<(), TooDeep> {
        let limit = self.limits.depth;
        let most = self.most_words();
        let base = self.base_offset();
        // SAFETY: the current thread is borrowed by `run`.
        let thread = unsafe { &mut *self.thread };
        if end > thread.allowed as usize {
            // SAFETY: the current thread's frames.
            let depth = unsafe {
                super::thread::Frames::new(thread.start(), thread.nested(), self.pc, base)
            }
            .count();
            if depth >= limit || end > most {
                return Err(TooDeep { depth });
            }
            // One more frame fits; those that may follow take a word each at least.
            thread.allowed = end.max(base + limit - depth).min(most) as u32;
        }
        let before = thread.bytes();
        thread.reserve(end);
        if thread.wait.is_of_task() {
            let more = thread.bytes() - before;
            self.tasks.charge(&self.heap, more as isize);
        }
        self.base = thread.start().wrapping_add(base);
        self.limit = thread.limit();
        Ok(())
    }

    /// Takes back what a thread was allowed when its frames were larger ones.
    pub(super) fn bound_depth(&mut self) {
        let limit = self.limits.depth.min(self.most_words());
        let base = self.base_offset();
        // SAFETY: the current thread is borrowed by `run`.
        let thread = unsafe { &mut *self.thread };
        if thread.allowed as usize > limit && base < limit / 2 {
            thread.allowed = limit as u32;
            self.limit = thread.limit();
        }
    }
}

/// A thread has as many frames as it may have.
pub(super) struct TooDeep {
    depth: usize,
}

impl std::fmt::Display for TooDeep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "call depth exceeded: {} calls have not returned", self.depth)
    }
}
