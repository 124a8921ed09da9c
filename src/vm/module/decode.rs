//! A module from bytes that come from anywhere.
//!
//! Decoding establishes the form only: what indices name is the verifier's business. Memory grows
//! with what has been read, never with what a length claims.

use std::fmt;

use super::checksum::crc32;
use super::encode::{HEADER, MAGIC, OPAQUE, Section, VERSION, tag};
use super::{Function, FunctionKind, Handler, Local, Module, NativeImport, Switch};
use crate::vm::op::Code;
use crate::vm::types::{
    ClassDef, ClassId, EnumDef, EnumId, FieldDef, FunctionId, InterfaceDef, InterfaceId, Method,
    Param, SelectorDef, SelectorId, Signature, Type, TypeId, TypeTable,
};

/// Why bytes are no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They do not begin as a module does.
    NoModule,
    /// They are of a version that this library does not read.
    Version { found: u32, supported: u32 },
    /// The checksum is not that of the contents: the file is damaged.
    Checksum { found: u32, computed: u32 },
    /// The contents are not as they should be.
    Malformed {
        section: &'static str,
        /// Where, in bytes from the beginning.
        offset: usize,
        what: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::NoModule => f.write_str("this is no compiled program"),
            DecodeError::Version { found, supported } => write!(
                f,
                "the compiled program is of version {found}, but only version {supported} can be \
                 read: compile it again"
            ),
            DecodeError::Checksum { found, computed } => write!(
                f,
                "the compiled program is damaged: its checksum is {computed:08x}, not {found:08x}"
            ),
            DecodeError::Malformed { section, offset, what } => write!(
                f,
                "the compiled program is malformed at byte {offset}, in its {section}: {what}"
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

type Decoded<T> = Result<T, DecodeError>;

impl Module {
    /// Whether bytes begin as a module does.
    pub fn is_module(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads what [`Module::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// [`DecodeError`], with section and offset where the contents are malformed.
    pub fn from_bytes(bytes: &[u8]) -> Decoded<Module> {
        let (Some(header), true) = (bytes.get(..HEADER), bytes.starts_with(&MAGIC)) else {
            return Err(DecodeError::NoModule);
        };
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
        let found = field(4);
        if found != VERSION {
            return Err(DecodeError::Version { found, supported: VERSION });
        }
        let (found, computed) = (field(8), crc32(&bytes[HEADER..]));
        if found != computed {
            return Err(DecodeError::Checksum { found, computed });
        }
        Reader { bytes, at: HEADER, end: bytes.len(), section: "header" }.module()
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Of the section.
    end: usize,
    section: &'static str,
}

impl<'b> Reader<'b> {
    fn module(mut self) -> Decoded<Module> {
        let (name, files, main) = self.section(Section::Program, |r| {
            let (name, files) = (r.text()?, r.list(1, Reader::text)?);
            Ok((name, files, r.optional()?.map(FunctionId)))
        })?;
        let at = self.at;
        let types = self.section(Section::Types, |r| r.list(1, Reader::ty))?;
        let Some(mut types) = TypeTable::from_types(types) else {
            self.at = at;
            return self.malformed("a type is there twice");
        };
        types.enums = self.section(Section::Enums, |r| r.list(2, Reader::enumeration))?;
        types.selectors = self.section(Section::Selectors, |r| {
            r.list(3, |r| Ok(SelectorDef { name: r.text()?, signature: r.signature()? }))
        })?;
        types.interfaces = self.section(Section::Interfaces, |r| {
            r.list(2, |r| {
                let (name, selectors) = (r.text()?, r.list(1, |r| r.index().map(SelectorId))?);
                Ok(InterfaceDef { name, selectors })
            })
        })?;
        types.classes = self.section(Section::Classes, |r| r.list(7, Reader::class))?;
        let strings = self.section(Section::Texts, |r| r.list(1, Reader::text))?;
        let words = self.section(Section::Words, |r| r.list(8, Reader::word))?;
        let natives = self.section(Section::Natives, |r| {
            r.list(3, |r| Ok(NativeImport { name: r.text()?, signature: r.signature()? }))
        })?;
        let functions = self.section(Section::Functions, |r| r.list(11, Reader::function))?;
        if self.at != self.bytes.len() {
            return self.malformed("more follows behind the last section");
        }
        Ok(Module { name, types, functions, strings, words, natives, main, files })
    }

    fn malformed<T>(&self, what: &'static str) -> Decoded<T> {
        Err(DecodeError::Malformed { section: self.section, offset: self.at, what })
    }

    fn section<T>(
        &mut self,
        section: Section,
        read: impl FnOnce(&mut Reader<'b>) -> Decoded<T>,
    ) -> Decoded<T> {
        self.section = section.name();
        self.end = self.bytes.len();
        if self.byte()? != section as u8 {
            self.at -= 1;
            return self.malformed("another section stands here");
        }
        let length = self.take(4)?;
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if length > self.end - self.at {
            return self.malformed("the section is cut off");
        }
        self.end = self.at + length;
        let value = read(self)?;
        if self.at != self.end {
            return self.malformed("the section does not end where it should");
        }
        Ok(value)
    }

    fn take(&mut self, count: usize) -> Decoded<&'b [u8]> {
        if count > self.end - self.at {
            return self.malformed("the section ends too early");
        }
        let bytes = &self.bytes[self.at..][..count];
        self.at += count;
        Ok(bytes)
    }

    fn byte(&mut self) -> Decoded<u8> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Decoded<u64> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
    }

    fn number(&mut self) -> Decoded<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        self.malformed("a number is too large")
    }

    fn signed(&mut self) -> Decoded<i64> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Decoded<T> {
        match T::try_from(self.number()?) {
            Ok(value) => Ok(value),
            Err(_) => self.malformed("a number is too large"),
        }
    }

    fn index(&mut self) -> Decoded<u32> {
        self.narrow()
    }

    /// An index plus 1, or 0 for none.
    fn optional(&mut self) -> Decoded<Option<u32>> {
        match self.number()?.checked_sub(1).map(u32::try_from) {
            None => Ok(None),
            Some(Ok(index)) => Ok(Some(index)),
            Some(Err(_)) => self.malformed("a number is too large"),
        }
    }

    fn flag(&mut self) -> Decoded<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => self.malformed("a flag is neither 0 nor 1"),
        }
    }

    fn text(&mut self) -> Decoded<String> {
        let length = self.narrow::<usize>()?;
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(text.into()),
            Err(_) => self.malformed("a text is not UTF-8"),
        }
    }

    /// A list of elements that take `least` bytes or more each.
    fn list<T>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut Reader<'b>) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        let count = self.narrow::<usize>()?;
        if count > (self.end - self.at) / least {
            return self.malformed("a list is longer than its section");
        }
        // What is there justifies as many bytes in memory as in the file; more has to be earned.
        let mut list = Vec::with_capacity(count.min((self.end - self.at) / size_of::<T>().max(1)));
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    fn signature(&mut self) -> Decoded<Signature> {
        let params = self.list(2, |r| Ok(Param { ty: TypeId(r.index()?), out: r.flag()? }))?;
        Ok(Signature { params, result: TypeId(self.index()?) })
    }

    fn ty(&mut self) -> Decoded<Type> {
        Ok(match self.byte()? {
            0 => Type::Void,
            1 => Type::Null,
            2 => Type::Bool,
            3 => Type::Byte,
            4 => Type::Short,
            5 => Type::Int,
            6 => Type::Long,
            7 => Type::Ubyte,
            8 => Type::Ushort,
            9 => Type::Uint,
            10 => Type::Ulong,
            11 => Type::Float,
            12 => Type::Double,
            13 => Type::Char,
            14 => Type::String,
            15 => Type::Object,
            tag::ENUM => Type::Enum(EnumId(self.index()?)),
            tag::STRUCT => Type::Struct(ClassId(self.index()?)),
            tag::CLASS => Type::Class(ClassId(self.index()?)),
            tag::INTERFACE => Type::Interface(InterfaceId(self.index()?)),
            tag::ARRAY => Type::Array(TypeId(self.index()?)),
            tag::LIST => Type::List(TypeId(self.index()?)),
            tag::DICT => Type::Dict(TypeId(self.index()?), TypeId(self.index()?)),
            tag::FUNC => Type::Func(self.signature()?),
            tag::CHANNEL => Type::Channel(TypeId(self.index()?)),
            tag::FUTURE => Type::Future(TypeId(self.index()?)),
            tag::PROMISE => Type::Promise(TypeId(self.index()?)),
            tag::OPAQUE => match OPAQUE.get(self.index()? as usize) {
                Some(&opaque) => Type::Opaque(opaque),
                None => return self.malformed("there is no such built-in type"),
            },
            _ => return self.malformed("there is no such form of type"),
        })
    }

    fn enumeration(&mut self) -> Decoded<EnumDef> {
        let name = self.text()?;
        let members = self.list(2, |r| {
            let name = r.text()?;
            match i32::try_from(r.signed()?) {
                Ok(value) => Ok((name, value)),
                Err(_) => r.malformed("a number is too large"),
            }
        })?;
        Ok(EnumDef { name, members })
    }

    fn class(&mut self) -> Decoded<ClassDef> {
        Ok(ClassDef {
            name: self.text()?,
            base: self.optional()?.map(ClassId),
            is_struct: self.flag()?,
            fields: self.list(2, |r| Ok(FieldDef { name: r.text()?, ty: TypeId(r.index()?) }))?,
            vtable: self.list(1, |r| {
                Ok(match r.optional()? {
                    None => Method::Native,
                    Some(function) => Method::Script(FunctionId(function)),
                })
            })?,
            selectors: self.list(2, |r| Ok((SelectorId(r.index()?), FunctionId(r.index()?))))?,
            interfaces: self.list(1, |r| r.index().map(InterfaceId))?,
        })
    }

    fn function(&mut self) -> Decoded<Function> {
        Ok(Function {
            name: self.text()?,
            signature: self.signature()?,
            registers: self.index()?,
            code: self.list(8, |r| r.word().map(Code))?,
            handlers: self.list(5, |r| {
                Ok(Handler {
                    first: r.index()?,
                    end: r.index()?,
                    target: r.index()?,
                    register: r.narrow()?,
                    ty: TypeId(r.index()?),
                })
            })?,
            switches: self.list(3, |r| {
                Ok(Switch {
                    first: r.signed()?,
                    targets: r.list(1, Reader::index)?,
                    default: r.index()?,
                })
            })?,
            file: self.index()?,
            lines: self.list(2, |r| Ok((r.index()?, r.index()?)))?,
            locals: self.list(5, |r| {
                Ok(Local {
                    name: r.text()?,
                    ty: TypeId(r.index()?),
                    register: r.narrow()?,
                    first: r.index()?,
                    end: r.index()?,
                })
            })?,
            kind: match self.byte()? {
                0 => FunctionKind::Free,
                1 => FunctionKind::Method,
                2 => FunctionKind::Constructor,
                _ => return self.malformed("there is no such kind of function"),
            },
        })
    }
}
