//! A module as bytes.
//!
//! ```text
//! "pirn"  version  checksum  section…
//!  4 B    4 B LE   4 B LE
//! section = tag (1 B)  length (4 B LE)  contents
//! ```
//!
//! The checksum is the CRC-32 of all bytes behind it. There is one section of each [`Section`], in
//! that order. In the contents, numbers and indices are LEB128 (those that may be negative zigzag),
//! a text is its length and UTF-8, a list is its length and elements, an instruction and a word
//! constant are 8 bytes, little-endian. Everything stands in the order of the fields of [`Module`] and
//! its parts.

use super::checksum::crc32;
use super::{Function, FunctionKind, Handler, Local, Module, NativeImport, Switch};
use crate::vm::types::{ClassDef, Method, Opaque, Signature, Type};

/// What a file begins with.
pub(super) const MAGIC: [u8; 4] = *b"pirn";
/// The version that this library writes, and the only one that it reads.
pub(super) const VERSION: u32 = 2;
/// Magic, version and checksum.
pub(super) const HEADER: usize = 12;

/// The sections, by tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Section {
    Program = 1,
    Types = 2,
    Enums = 3,
    Selectors = 4,
    Interfaces = 5,
    Classes = 6,
    Texts = 7,
    Words = 8,
    Natives = 9,
    Functions = 10,
}

impl Section {
    pub(super) fn name(self) -> &'static str {
        match self {
            Section::Program => "program",
            Section::Types => "types",
            Section::Enums => "enums",
            Section::Selectors => "selectors",
            Section::Interfaces => "interfaces",
            Section::Classes => "classes",
            Section::Texts => "texts",
            Section::Words => "words",
            Section::Natives => "natives",
            Section::Functions => "functions",
        }
    }
}

/// Tags of types; those from `VOID` to `OBJECT` are the ids of the known types.
pub(super) mod tag {
    pub(crate) const ENUM: u8 = 16;
    pub(crate) const STRUCT: u8 = 17;
    pub(crate) const CLASS: u8 = 18;
    pub(crate) const INTERFACE: u8 = 19;
    pub(crate) const ARRAY: u8 = 20;
    pub(crate) const LIST: u8 = 21;
    pub(crate) const DICT: u8 = 22;
    pub(crate) const FUNC: u8 = 23;
    pub(crate) const CHANNEL: u8 = 24;
    pub(crate) const FUTURE: u8 = 25;
    pub(crate) const PROMISE: u8 = 26;
    pub(crate) const OPAQUE: u8 = 27;
}

/// The opaque types, by their number in files.
pub(super) const OPAQUE: [Opaque; 7] = [
    Opaque::Thread,
    Opaque::Mutex,
    Opaque::ReentrantMutex,
    Opaque::Semaphore,
    Opaque::AtomicInt,
    Opaque::Host,
    Opaque::Select,
];

impl Module {
    /// The module as bytes, which [`Module::from_bytes`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer { bytes: Vec::new() };
        out.bytes.extend(MAGIC);
        out.bytes.extend(VERSION.to_le_bytes());
        out.bytes.extend([0; 4]);
        out.section(Section::Program, |out| {
            out.text(&self.name);
            out.list(&self.files, |out, file| out.text(file));
            // 0 for none.
            out.number(self.main.map_or(0, |main| u64::from(main.0) + 1));
        });
        out.section(Section::Types, |out| out.list(self.types.types(), Writer::ty));
        out.section(Section::Enums, |out| {
            out.list(&self.types.enums, |out, def| {
                out.text(&def.name);
                out.list(&def.members, |out, (name, value)| {
                    out.text(name);
                    out.signed((*value).into());
                });
            });
        });
        out.section(Section::Selectors, |out| {
            out.list(&self.types.selectors, |out, selector| {
                out.text(&selector.name);
                out.signature(&selector.signature);
            });
        });
        out.section(Section::Interfaces, |out| {
            out.list(&self.types.interfaces, |out, interface| {
                out.text(&interface.name);
                out.list(&interface.selectors, |out, selector| out.index(selector.0));
            });
        });
        out.section(Section::Classes, |out| out.list(&self.types.classes, Writer::class));
        out.section(Section::Texts, |out| out.list(&self.strings, |out, text| out.text(text)));
        out.section(Section::Words, |out| out.list(&self.words, |out, word| out.word(*word)));
        out.section(Section::Natives, |out| {
            out.list(&self.natives, |out, NativeImport { name, signature }| {
                out.text(name);
                out.signature(signature);
            });
        });
        out.section(Section::Functions, |out| out.list(&self.functions, Writer::function));
        Module::seal(&mut out.bytes);
        out.bytes
    }

    /// Puts the checksum in that the contents ask for.
    pub(crate) fn seal(bytes: &mut [u8]) {
        if bytes.len() >= HEADER {
            let checksum = crc32(&bytes[HEADER..]);
            bytes[HEADER - 4..HEADER].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn section(&mut self, section: Section, write: impl FnOnce(&mut Writer)) {
        self.bytes.push(section as u8);
        let length = self.bytes.len();
        self.bytes.extend([0; 4]);
        write(self);
        let size = (self.bytes.len() - length - 4) as u32;
        self.bytes[length..length + 4].copy_from_slice(&size.to_le_bytes());
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    fn index(&mut self, index: u32) {
        self.number(index.into());
    }

    fn flag(&mut self, flag: bool) {
        self.bytes.push(flag.into());
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend(word.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut Writer, &T)) {
        self.number(list.len() as u64);
        for element in list {
            write(self, element);
        }
    }

    fn signature(&mut self, signature: &Signature) {
        self.list(&signature.params, |out, param| {
            out.index(param.ty.0);
            out.flag(param.out);
        });
        self.index(signature.result.0);
    }

    fn ty(&mut self, ty: &Type) {
        let (tag, index) = match ty {
            Type::Void => (0, None),
            Type::Null => (1, None),
            Type::Bool => (2, None),
            Type::Byte => (3, None),
            Type::Short => (4, None),
            Type::Int => (5, None),
            Type::Long => (6, None),
            Type::Ubyte => (7, None),
            Type::Ushort => (8, None),
            Type::Uint => (9, None),
            Type::Ulong => (10, None),
            Type::Float => (11, None),
            Type::Double => (12, None),
            Type::Char => (13, None),
            Type::String => (14, None),
            Type::Object => (15, None),
            Type::Enum(id) => (tag::ENUM, Some(id.0)),
            Type::Struct(id) => (tag::STRUCT, Some(id.0)),
            Type::Class(id) => (tag::CLASS, Some(id.0)),
            Type::Interface(id) => (tag::INTERFACE, Some(id.0)),
            Type::Array(of) => (tag::ARRAY, Some(of.0)),
            Type::List(of) => (tag::LIST, Some(of.0)),
            Type::Dict(key, _) => (tag::DICT, Some(key.0)),
            Type::Func(_) => (tag::FUNC, None),
            Type::Channel(of) => (tag::CHANNEL, Some(of.0)),
            Type::Future(of) => (tag::FUTURE, Some(of.0)),
            Type::Promise(of) => (tag::PROMISE, Some(of.0)),
            Type::Opaque(opaque) => {
                let number = OPAQUE.iter().position(|other| other == opaque);
                (tag::OPAQUE, number.map(|number| number as u32))
            }
        };
        self.bytes.push(tag);
        if let Some(index) = index {
            self.index(index);
        }
        match ty {
            Type::Dict(_, value) => self.index(value.0),
            Type::Func(signature) => self.signature(signature),
            _ => {}
        }
    }

    fn class(&mut self, class: &ClassDef) {
        self.text(&class.name);
        // 0 for none.
        self.number(class.base.map_or(0, |base| u64::from(base.0) + 1));
        self.flag(class.is_struct);
        self.list(&class.fields, |out, field| {
            out.text(&field.name);
            out.index(field.ty.0);
        });
        self.list(&class.vtable, |out, method| match method {
            Method::Native => out.number(0),
            Method::Script(function) => out.number(u64::from(function.0) + 1),
        });
        self.list(&class.selectors, |out, (selector, function)| {
            out.index(selector.0);
            out.index(function.0);
        });
        self.list(&class.interfaces, |out, interface| out.index(interface.0));
    }

    fn function(&mut self, function: &Function) {
        self.text(&function.name);
        self.signature(&function.signature);
        self.index(function.registers);
        self.list(&function.code, |out, code| out.word(code.0));
        self.list(&function.handlers, |out, handler| {
            let &Handler { first, end, target, register, ty } = handler;
            for index in [first, end, target, register.into(), ty.0] {
                out.index(index);
            }
        });
        self.list(&function.switches, |out, Switch { first, targets, default }| {
            out.signed(*first);
            out.list(targets, |out, target| out.index(*target));
            out.index(*default);
        });
        self.index(function.file);
        self.list(&function.lines, |out, &(first, line)| {
            out.index(first);
            out.index(line);
        });
        self.list(&function.locals, |out, Local { name, ty, register, first, end }| {
            out.text(name);
            for index in [ty.0, (*register).into(), *first, *end] {
                out.index(index);
            }
        });
        self.bytes.push(match function.kind {
            FunctionKind::Free => 0,
            FunctionKind::Method => 1,
            FunctionKind::Constructor => 2,
        });
    }
}
