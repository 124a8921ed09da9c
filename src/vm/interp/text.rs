//! Values as text: chapter 3 of the language.
//!
//! Containers are written with an explicit stack, so nesting costs no native stack. A container inside
//! itself is written as `[...]` or `{...}`. A script's `toString` is called back; what is being written
//! stays alive meanwhile, and containers may even change: each element is read when its turn comes.

use std::fmt::Write;

use super::Machine;
use super::state::Step;
use crate::vm::heap::{Dict, HeapFull, object};
use crate::vm::library::number::{write_double, write_float};
use crate::vm::link::TypeIndex;
use crate::vm::native::{Trap, Word};
use crate::vm::types::{Method, Type, TypeId, object_slot};

/// Elements between two looks at whether the host asked for an end.
const POLL: u32 = 1000;

/// A container that is being written.
struct Level {
    /// Where it is among the machine's locals.
    local: usize,
    ty: TypeId,
    /// The element, or a dictionary's position, that comes next.
    next: usize,
    first: bool,
}

impl Machine {
    /// Writes a word that is no reference.
    ///
    /// # Errors
    ///
    /// A message, for an enum value without a name.
    pub(crate) fn write_word(
        &self,
        text: &mut String,
        ty: TypeId,
        word: Word,
    ) -> Result<(), String> {
        // Writing to a string does not fail.
        let _ = match self.image.program.types.get(ty) {
            Type::Bool => {
                text.push_str(if word as u8 != 0 { "true" } else { "false" });
                Ok(())
            }
            Type::Byte | Type::Short | Type::Int => write!(text, "{}", word as i32),
            Type::Ubyte | Type::Ushort | Type::Uint => write!(text, "{}", word as u32),
            Type::Long => write!(text, "{}", word as i64),
            Type::Ulong => write!(text, "{word}"),
            Type::Float => {
                write_float(text, f32::from_bits(word as u32));
                Ok(())
            }
            Type::Double => {
                write_double(text, f64::from_bits(word));
                Ok(())
            }
            Type::Char => {
                text.push(char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                Ok(())
            }
            Type::Enum(id) => {
                let def = &self.image.program.types.enums[id.0 as usize];
                let value = word as i32;
                let Some((name, _)) = def.members.iter().find(|&&(_, v)| v == value) else {
                    return Err(format!("{value} is no value of the enum {}", def.name));
                };
                text.push_str(name);
                Ok(())
            }
            _ => write!(text, "{word:#x}"),
        };
        Ok(())
    }

    /// Puts the text of a reference into register `a` of the current instruction and goes on.
    pub(super) fn reference_text_into(&mut self, word: Word) -> Step {
        if word != 0 {
            // SAFETY: an object that lives.
            let ty = unsafe { object::type_of(word) };
            if ty == TypeIndex::STRING.0 {
                self.set_register(self.code().a(), word);
                return self.advance();
            }
        }
        // SAFETY: an object that lives, or null.
        if word != 0 && self.may_call_script(unsafe { object::type_of(word) }) {
            self.operand = word;
            return self.in_window(Machine::text_here);
        }
        self.write_text_into(word)
    }

    /// What [`reference_text_into`](Self::reference_text_into) does, for what may call a `toString`
    /// of the script.
    fn text_here(&mut self) -> Step {
        self.write_text_into(self.operand)
    }

    /// Whether writing an object of a runtime type may call a `toString` of the script.
    fn may_call_script(&self, ty: u32) -> bool {
        let Some(ty) = TypeIndex(ty).id() else { return false };
        match self.image.program.types.get(ty) {
            &Type::Class(class) => {
                let to_string =
                    self.image.program.types.class(class).vtable[object_slot::TO_STRING as usize];
                matches!(to_string, Method::Script(_))
            }
            &Type::Array(of) | &Type::List(of) => self.may_hold_objects(of),
            &Type::Dict(key, value) => self.may_hold_objects(key) || self.may_hold_objects(value),
            _ => false,
        }
    }

    /// Whether a value of a type may have a `toString` of the script in it.
    fn may_hold_objects(&self, ty: TypeId) -> bool {
        match self.image.program.types.get(ty) {
            Type::Object | Type::Class(_) | Type::Interface(_) => true,
            &Type::Array(of) | &Type::List(of) => self.may_hold_objects(of),
            &Type::Dict(key, value) => self.may_hold_objects(key) || self.may_hold_objects(value),
            _ => false,
        }
    }

    fn write_text_into(&mut self, word: Word) -> Step {
        let mut text = std::mem::take(&mut self.buffer);
        text.clear();
        let written = self.write_reference(&mut text, word);
        let step = match written {
            Ok(()) => {
                let made = self.with_room(|m| Ok(m.heap.new_string(text.as_bytes())?.word()));
                match made {
                    Ok(word) => {
                        self.set_register(self.code().a(), word);
                        self.advance()
                    }
                    Err(full) => self.raise_heap_full(full),
                }
            }
            Err(trap) => self.trap(trap),
        };
        self.buffer = text;
        step
    }

    /// Writes a reference as it stands alone: strings bare.
    ///
    /// # Errors
    ///
    /// What a `toString` throws; [`Trap::HeapFull`] for a text that the heap has no room for.
    pub(crate) fn write_reference(&mut self, text: &mut String, word: Word) -> Result<(), Trap> {
        if word == 0 {
            text.push_str("null");
            return Ok(());
        }
        // SAFETY: an object that lives.
        unsafe {
            if object::type_of(word) == TypeIndex::STRING.0 {
                push_bytes(text, object::string_bytes(word));
                return Ok(());
            }
        }
        let floor = self.locals.len();
        let mut levels = Vec::new();
        let written = self
            .begin(text, &mut levels, None, word)
            .and_then(|()| self.write_levels(text, &mut levels));
        self.locals.truncate(floor);
        written
    }

    fn write_levels(&mut self, text: &mut String, levels: &mut Vec<Level>) -> Result<(), Trap> {
        let mut polled = 0;
        while let Some(level) = levels.last() {
            polled += 1;
            if polled % POLL == 0 && self.interrupt.stop_requested() {
                return Err(Trap::Stop);
            }
            self.has_room_for_text(text)?;
            let container = self.locals[level.local];
            match *self.image.program.types.get(level.ty) {
                Type::Array(element) | Type::List(element) => {
                    self.write_element(text, levels, container, element)?;
                }
                Type::Dict(key, value) => self.write_entry(text, levels, container, key, value)?,
                _ => drop(levels.pop()),
            }
        }
        Ok(())
    }

    /// A text counts as if it were in the heap already.
    fn has_room_for_text(&self, text: &str) -> Result<(), Trap> {
        if text.len() > i32::MAX as usize {
            return Err(Trap::HeapFull(HeapFull { requested: usize::MAX }));
        }
        if text.len() > 1 << 20 {
            self.heap.has_room(text.len())?;
        }
        Ok(())
    }

    fn write_element(
        &mut self,
        text: &mut String,
        levels: &mut Vec<Level>,
        container: Word,
        element: TypeId,
    ) -> Result<(), Trap> {
        let level = levels.last_mut().expect("a container that is being written");
        let index = level.next as u64;
        // SAFETY: an array or a list, as its type says; the index is tested, and the buffer of a list
        // has room for its length.
        let word = unsafe {
            let (array, length) = if object::header(container).kind() == object::Kind::List {
                let length = object::list_length(container);
                (object::list_buffer(container), length)
            } else {
                (container, object::array_length(container))
            };
            (index < length).then(|| object::element(array, index))
        };
        let Some(word) = word else {
            text.push(']');
            self.end_level(levels);
            return Ok(());
        };
        if index > 0 {
            text.push_str(", ");
        }
        level.next += 1;
        self.write_inner(text, levels, element, word)
    }

    fn write_entry(
        &mut self,
        text: &mut String,
        levels: &mut Vec<Level>,
        container: Word,
        key_type: TypeId,
        value_type: TypeId,
    ) -> Result<(), Trap> {
        let level = levels.last_mut().expect("a container that is being written");
        // SAFETY: a dictionary, as its type says.
        let dict = unsafe { Dict::from_word(&self.heap, container) };
        let Some((next, key, value)) = dict.entry_from(level.next) else {
            text.push('}');
            self.end_level(levels);
            return Ok(());
        };
        level.next = next;
        if !std::mem::replace(&mut level.first, false) {
            text.push_str(", ");
        }
        // The value may be gone from the dictionary when a key's `toString` has run.
        let floor = self.locals.len();
        let reference = self.image.program.types.is_reference(value_type);
        if reference {
            self.locals.push(value);
        }
        self.write_key(text, key_type, key)?;
        text.push_str(": ");
        if reference {
            self.locals.truncate(floor);
        }
        self.write_inner(text, levels, value_type, value)
    }

    /// Keys are written whole: a container as a key is known by its identity.
    fn write_key(&mut self, text: &mut String, ty: TypeId, key: Word) -> Result<(), Trap> {
        let mut levels = Vec::new();
        self.write_inner(text, &mut levels, ty, key)?;
        if let Some(level) = levels.pop() {
            // The bracket is there already.
            let close = if text.ends_with('[') { ']' } else { '}' };
            text.push_str("...");
            text.push(close);
            self.locals.truncate(level.local);
        }
        Ok(())
    }

    fn end_level(&mut self, levels: &mut Vec<Level>) {
        if let Some(level) = levels.pop() {
            self.locals.truncate(level.local);
        }
    }

    /// Writes what lies in a container.
    fn write_inner(
        &mut self,
        text: &mut String,
        levels: &mut Vec<Level>,
        ty: TypeId,
        word: Word,
    ) -> Result<(), Trap> {
        match self.image.program.types.get(ty) {
            Type::Struct(_) => text.push_str("<struct>"),
            Type::String => {
                // SAFETY: a string or null.
                quote(text, unsafe { object::string_bytes(word) });
            }
            Type::Func(_) if word == 0 => text.push_str("<null>"),
            _ if !self.image.program.types.is_reference(ty) => {
                self.write_word(text, ty, word).map_err(Trap::exception)?;
            }
            _ if word == 0 => text.push_str("null"),
            _ => return self.begin(text, levels, Some(ty), word),
        }
        Ok(())
    }

    /// Writes an object, or begins to if it is a container.
    fn begin(
        &mut self,
        text: &mut String,
        levels: &mut Vec<Level>,
        inside: Option<TypeId>,
        word: Word,
    ) -> Result<(), Trap> {
        // SAFETY: an object that lives.
        let header = unsafe { object::header(word) };
        let Some(ty) = TypeIndex(header.ty()).id() else { return Ok(()) };
        match *self.image.program.types.get(ty) {
            Type::String => {
                // SAFETY: a string.
                let bytes = unsafe { object::string_bytes(word) };
                if inside.is_some() { quote(text, bytes) } else { push_bytes(text, bytes) }
            }
            Type::Array(_) | Type::List(_) | Type::Dict(..) => {
                let (open, cycle) = match self.image.program.types.get(ty) {
                    Type::Dict(..) => ("{", "{...}"),
                    _ => ("[", "[...]"),
                };
                if levels.iter().any(|level| self.locals[level.local] == word) {
                    text.push_str(cycle);
                    return Ok(());
                }
                text.push_str(open);
                self.locals.push(word);
                levels.push(Level { local: self.locals.len() - 1, ty, next: 0, first: true });
            }
            Type::Class(class) => {
                let to_string =
                    self.image.program.types.class(class).vtable[object_slot::TO_STRING as usize];
                match to_string {
                    Method::Script(function) => {
                        let string = self.call_function(function, &[word])?;
                        // SAFETY: `toString` returns a string or null.
                        push_bytes(text, unsafe { object::string_bytes(string) });
                    }
                    Method::Native => self.write_identity(text, ty, word),
                }
            }
            Type::Func(_) => self.write_function(text, word),
            _ if header.kind() == object::Kind::Box => {
                // SAFETY: a box has one field.
                let value = unsafe { object::field(word, 0) };
                self.write_word(text, ty, value).map_err(Trap::exception)?;
            }
            _ => self.write_identity(text, ty, word),
        }
        Ok(())
    }

    fn write_identity(&self, text: &mut String, ty: TypeId, word: Word) {
        let name = self.image.program.types.name(ty);
        // Writing to a string does not fail. Objects lie apart by 8 bytes at least.
        let _ = write!(text, "{name}@{:x}", word >> 3);
    }

    fn write_function(&self, text: &mut String, value: Word) {
        let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
        let (bound, name) = self.function_name(value);
        if bound {
            text.push_str("method ");
            text.push_str(&short(&name));
        } else {
            text.push_str("func ");
            text.push_str(&name);
        }
    }
}

/// Appends bytes that are UTF-8, but for slices that cut a char.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    text.push_str(&String::from_utf8_lossy(bytes));
}

fn quote(text: &mut String, bytes: &[u8]) {
    text.push('"');
    for char in String::from_utf8_lossy(bytes).chars() {
        match char {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ => text.push(char),
        }
    }
    text.push('"');
}
