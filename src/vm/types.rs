//! The types of the script language, as checker, verifier, heap and library share them.
//!
//! Types are interned: equal types have equal [`TypeId`]s within one [`TypeTable`]. Classes, structs,
//! interfaces and enums are known by their index in the table's lists; structure (fields, methods) is
//! with their definitions.

use std::collections::HashMap;

/// The most classes above a class.
pub const CLASS_DEPTH: u32 = 255;
/// The most structs in an object, those in its structs included: all are made by one instruction.
pub const STRUCTS: u32 = 1 << 16;
/// So deep structs may lie in one another: the heap makes and copies them by recursion.
pub const STRUCT_DEPTH: u32 = 64;

/// A type, by its index in a [`TypeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

/// A class or struct, by its index in [`TypeTable::classes`]. A class comes after its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// An interface, by its index in [`TypeTable::interfaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// An enum, by its index in [`TypeTable::enums`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnumId(pub u32);

/// A function of a module, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// A method's name and signature as interfaces call it, by its index in [`TypeTable::selectors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorId(pub u32);

/// One type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// No value: only what a function returns.
    Void,
    /// The type of the literal `null`, below every reference type.
    Null,
    Bool,
    Byte,
    Short,
    Int,
    Long,
    Ubyte,
    Ushort,
    Uint,
    Ulong,
    Float,
    Double,
    Char,
    /// Immutable bytes of UTF-8; null reads as the empty string.
    String,
    Enum(EnumId),
    /// A value type: [`ClassDef::is_struct`] holds.
    Struct(ClassId),
    /// The root of all classes; also what boxed scalars and strings are.
    Object,
    Class(ClassId),
    Interface(InterfaceId),
    Array(TypeId),
    List(TypeId),
    Dict(TypeId, TypeId),
    Func(Signature),
    Channel(TypeId),
    Future(TypeId),
    Promise(TypeId),
    /// A built-in type without parameters and without fields that scripts see: `Thread`, `Mutex`,
    /// `ReentrantMutex`, `Semaphore`, `AtomicInt`, ….
    Opaque(Opaque),
}

/// The built-in reference types without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opaque {
    Thread,
    Mutex,
    ReentrantMutex,
    Semaphore,
    AtomicInt,
    Select,
    /// An object of the host.
    Host,
}

/// Parameters and result of a function value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    pub params: Vec<Param>,
    /// [`Type::Void`] if nothing is returned.
    pub result: TypeId,
}

/// One parameter of a [`Signature`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    pub ty: TypeId,
    pub out: bool,
}

/// Layout and methods of a class or struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassDef {
    /// Qualified: `lib.geo.Point`; classes of the root unit have no prefix.
    pub name: String,
    /// `None` for structs and for classes right below `Object`.
    pub base: Option<ClassId>,
    pub is_struct: bool,
    /// All fields, inherited ones first: a field's index is its slot.
    pub fields: Vec<FieldDef>,
    /// By virtual slot; the first three are `equals`, `getHashCode`, `toString`. Empty for structs.
    pub vtable: Vec<Method>,
    /// What implements each selector of each interface of this class (inherited ones included).
    pub selectors: Vec<(SelectorId, FunctionId)>,
    pub interfaces: Vec<InterfaceId>,
}

/// What a virtual slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `Object`'s own `equals`, `getHashCode` or `toString`, by the slot it stands in.
    Native,
    Script(FunctionId),
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDef {
    pub name: String,
    pub ty: TypeId,
}

/// Methods that an interface promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceDef {
    pub name: String,
    pub selectors: Vec<SelectorId>,
}

/// A selector's name and the signature that every implementation has (without the receiver).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorDef {
    pub name: String,
    pub signature: Signature,
}

/// Members of an enum, by value, in order of declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnumDef {
    pub name: String,
    pub members: Vec<(String, i32)>,
}

/// Slots of the methods that every class has from `Object`.
pub mod object_slot {
    pub const EQUALS: u16 = 0;
    pub const GET_HASH_CODE: u16 = 1;
    pub const TO_STRING: u16 = 2;
}

/// The classes that every table begins with: the exceptions, in this order. Their fields are
/// `message` (string, slot 0) and `backtrace` (`List<string>`, slot 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ExceptionClass {
    Exception = 0,
    NullPointer = 1,
    DivByZero = 2,
    IndexOutOfBounds = 3,
    Assertion = 4,
    Io = 5,
    ChannelClosed = 6,
    Timeout = 7,
    Cancelled = 8,
}

impl ExceptionClass {
    pub const ALL: [ExceptionClass; 9] = [
        ExceptionClass::Exception,
        ExceptionClass::NullPointer,
        ExceptionClass::DivByZero,
        ExceptionClass::IndexOutOfBounds,
        ExceptionClass::Assertion,
        ExceptionClass::Io,
        ExceptionClass::ChannelClosed,
        ExceptionClass::Timeout,
        ExceptionClass::Cancelled,
    ];

    /// The class's name in scripts.
    pub fn name(self) -> &'static str {
        match self {
            ExceptionClass::Exception => "Exception",
            ExceptionClass::NullPointer => "NullPointerException",
            ExceptionClass::DivByZero => "DivByZeroException",
            ExceptionClass::IndexOutOfBounds => "IndexOutOfBoundsException",
            ExceptionClass::Assertion => "AssertionException",
            ExceptionClass::Io => "IOException",
            ExceptionClass::ChannelClosed => "ChannelClosedException",
            ExceptionClass::Timeout => "TimeoutException",
            ExceptionClass::Cancelled => "CancelledException",
        }
    }

    /// Its index in [`TypeTable::classes`].
    pub fn class(self) -> ClassId {
        ClassId(self as u32)
    }
}

/// All types of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeTable {
    types: Vec<Type>,
    ids: HashMap<Type, TypeId>,
    pub classes: Vec<ClassDef>,
    pub interfaces: Vec<InterfaceDef>,
    pub selectors: Vec<SelectorDef>,
    pub enums: Vec<EnumDef>,
}

/// Ids of the types that every table begins with.
pub mod known {
    use super::TypeId;

    pub const VOID: TypeId = TypeId(0);
    pub const NULL: TypeId = TypeId(1);
    pub const BOOL: TypeId = TypeId(2);
    pub const BYTE: TypeId = TypeId(3);
    pub const SHORT: TypeId = TypeId(4);
    pub const INT: TypeId = TypeId(5);
    pub const LONG: TypeId = TypeId(6);
    pub const UBYTE: TypeId = TypeId(7);
    pub const USHORT: TypeId = TypeId(8);
    pub const UINT: TypeId = TypeId(9);
    pub const ULONG: TypeId = TypeId(10);
    pub const FLOAT: TypeId = TypeId(11);
    pub const DOUBLE: TypeId = TypeId(12);
    pub const CHAR: TypeId = TypeId(13);
    pub const STRING: TypeId = TypeId(14);
    pub const OBJECT: TypeId = TypeId(15);
    /// `List<string>`.
    pub const STRINGS: TypeId = TypeId(16);
    /// The first of the nine exception classes, in the order of
    /// [`ExceptionClass`](super::ExceptionClass).
    pub const EXCEPTION: TypeId = TypeId(17);
    /// How many types every table begins with.
    pub const COUNT: u32 = 26;
}

impl Default for TypeTable {
    fn default() -> TypeTable {
        TypeTable::new()
    }
}

impl TypeTable {
    /// The table with the types of [`known`] and the exception classes.
    pub fn new() -> TypeTable {
        let mut table = TypeTable {
            types: Vec::new(),
            ids: HashMap::new(),
            classes: Vec::new(),
            interfaces: Vec::new(),
            selectors: Vec::new(),
            enums: Vec::new(),
        };
        let scalars = [
            Type::Void,
            Type::Null,
            Type::Bool,
            Type::Byte,
            Type::Short,
            Type::Int,
            Type::Long,
            Type::Ubyte,
            Type::Ushort,
            Type::Uint,
            Type::Ulong,
            Type::Float,
            Type::Double,
            Type::Char,
            Type::String,
            Type::Object,
            Type::List(known::STRING),
        ];
        for ty in scalars {
            table.intern(ty);
        }
        for exception in ExceptionClass::ALL {
            table.classes.push(ClassDef {
                name: exception.name().into(),
                base: (exception != ExceptionClass::Exception).then_some(ClassId(0)),
                is_struct: false,
                fields: vec![
                    FieldDef { name: "message".into(), ty: known::STRING },
                    FieldDef { name: "backtrace".into(), ty: known::STRINGS },
                ],
                vtable: vec![Method::Native; 3],
                selectors: Vec::new(),
                interfaces: Vec::new(),
            });
            table.intern(Type::Class(exception.class()));
        }
        debug_assert_eq!(table.types.len(), known::COUNT as usize);
        table
    }

    /// A table with these types and nothing else; `None` if one is there twice.
    pub fn from_types(types: Vec<Type>) -> Option<TypeTable> {
        let ids: HashMap<Type, TypeId> = types.iter().cloned().zip((0..).map(TypeId)).collect();
        (ids.len() == types.len()).then(|| TypeTable {
            types,
            ids,
            classes: Vec::new(),
            interfaces: Vec::new(),
            selectors: Vec::new(),
            enums: Vec::new(),
        })
    }

    /// The id of a type; a new one if it was not in the table.
    pub fn intern(&mut self, ty: Type) -> TypeId {
        if let Some(&id) = self.ids.get(&ty) {
            return id;
        }
        let id = TypeId(self.types.len() as u32);
        self.types.push(ty.clone());
        self.ids.insert(ty, id);
        id
    }

    /// The id of a type that is in the table.
    pub fn find(&self, ty: &Type) -> Option<TypeId> {
        self.ids.get(ty).copied()
    }

    /// The type with an id.
    ///
    /// # Panics
    ///
    /// If the id is not of this table.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Never: a table begins with the types of [`known`].
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// All types, in order of their ids.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The definition of a class or struct.
    pub fn class(&self, id: ClassId) -> &ClassDef {
        &self.classes[id.0 as usize]
    }

    /// Whether a class is another one or derives from it.
    pub fn derives(&self, mut class: ClassId, from: ClassId) -> bool {
        loop {
            if class == from {
                return true;
            }
            match self.class(class).base {
                Some(base) => class = base,
                None => return false,
            }
        }
    }

    /// Whether a word of this type is the address of an object (or null).
    pub fn is_reference(&self, id: TypeId) -> bool {
        !matches!(
            self.get(id),
            Type::Void
                | Type::Bool
                | Type::Byte
                | Type::Short
                | Type::Int
                | Type::Long
                | Type::Ubyte
                | Type::Ushort
                | Type::Uint
                | Type::Ulong
                | Type::Float
                | Type::Double
                | Type::Char
                | Type::Enum(_)
        )
    }

    /// Bytes that an element of this type takes in an array or list.
    pub fn element_size(&self, id: TypeId) -> usize {
        match self.get(id) {
            Type::Bool | Type::Byte | Type::Ubyte => 1,
            Type::Short | Type::Ushort => 2,
            Type::Int | Type::Uint | Type::Float | Type::Char | Type::Enum(_) => 4,
            _ => 8,
        }
    }

    /// The type as a script would write it. Total: ids that are not of this table show as `?`, and
    /// what is nested deeper or is longer than any program needs is cut.
    pub fn name(&self, id: TypeId) -> String {
        let mut text = String::new();
        self.write_name(id, 0, &mut text);
        text
    }

    fn write_name(&self, id: TypeId, depth: usize, text: &mut String) {
        const DEPTH: usize = 64;
        const LENGTH: usize = 4096;
        if depth > DEPTH || text.len() > LENGTH {
            text.push('…');
            return;
        }
        let generic = |text: &mut String, name: &str, args: &[TypeId]| {
            text.push_str(name);
            text.push('<');
            for (i, &arg) in args.iter().enumerate() {
                if i > 0 {
                    text.push_str(", ");
                }
                self.write_name(arg, depth + 1, text);
            }
            text.push('>');
        };
        let known = |text: &mut String, name: Option<&str>| text.push_str(name.unwrap_or("?"));
        let Some(ty) = self.types.get(id.0 as usize) else {
            text.push('?');
            return;
        };
        match ty {
            Type::Void => text.push_str("void"),
            Type::Null => text.push_str("null"),
            Type::Bool => text.push_str("bool"),
            Type::Byte => text.push_str("byte"),
            Type::Short => text.push_str("short"),
            Type::Int => text.push_str("int"),
            Type::Long => text.push_str("long"),
            Type::Ubyte => text.push_str("ubyte"),
            Type::Ushort => text.push_str("ushort"),
            Type::Uint => text.push_str("uint"),
            Type::Ulong => text.push_str("ulong"),
            Type::Float => text.push_str("float"),
            Type::Double => text.push_str("double"),
            Type::Char => text.push_str("char"),
            Type::String => text.push_str("string"),
            Type::Object => text.push_str("Object"),
            Type::Enum(id) => known(text, self.enums.get(id.0 as usize).map(|e| &*e.name)),
            Type::Struct(id) | Type::Class(id) => {
                known(text, self.classes.get(id.0 as usize).map(|c| &*c.name));
            }
            Type::Interface(id) => {
                known(text, self.interfaces.get(id.0 as usize).map(|i| &*i.name));
            }
            &Type::Array(element) => {
                self.write_name(element, depth + 1, text);
                text.push_str("[]");
            }
            &Type::List(t) => generic(text, "List", &[t]),
            &Type::Dict(k, v) => generic(text, "Dict", &[k, v]),
            &Type::Channel(t) => generic(text, "Channel", &[t]),
            &Type::Future(t) => generic(text, "Future", &[t]),
            &Type::Promise(t) => generic(text, "Promise", &[t]),
            Type::Opaque(opaque) => text.push_str(&format!("{opaque:?}")),
            Type::Func(signature) => {
                text.push_str("func<");
                self.write_name(signature.result, depth + 1, text);
                for param in &signature.params {
                    text.push_str(if param.out { ", out " } else { ", " });
                    self.write_name(param.ty, depth + 1, text);
                    if text.len() > LENGTH {
                        break;
                    }
                }
                text.push('>');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_begins_with_the_known_types() {
        let mut table = TypeTable::new();
        assert_eq!(table.get(known::STRING), &Type::String);
        assert_eq!(table.get(known::STRINGS), &Type::List(known::STRING));
        assert_eq!(
            table.intern(Type::Class(ExceptionClass::Cancelled.class())).0,
            known::COUNT - 1
        );
        let dict = table.intern(Type::Dict(known::STRING, known::STRINGS));
        assert_eq!(table.name(dict), "Dict<string, List<string>>");
        assert!(table.derives(ExceptionClass::Io.class(), ExceptionClass::Exception.class()));
    }
}
