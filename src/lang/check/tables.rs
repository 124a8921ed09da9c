//! What the checker knows of a program's declarations.
//!
//! Everything is known by an index: functions by [`FnId`], declared types first by [`DeclId`] (before
//! classes are in the order that the type table wants), then by the ids of the
//! [`TypeTable`](crate::vm::types::TypeTable), with which `classes`, `interfaces` and `enums` run in
//! parallel.

use std::collections::HashMap;

use crate::lang::ast;
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::types::{ClassId, EnumId, FunctionId, InterfaceId, SelectorId, TypeId};

/// The type of what is wrong and has been reported: it fits everywhere, so that one mistake gives
/// one message. It never gets into the type table.
pub(super) const ERROR: TypeId = TypeId(u32::MAX);

/// A function, method or constructor, by its index in [`Tables::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FnId(pub u32);

/// A declared type, by its index in [`Tables::decls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeclId(pub u32);

/// All declarations.
#[derive(Default)]
pub(super) struct Tables<'a> {
    pub units: Vec<UnitTable<'a>>,
    pub decls: Vec<TypeDecl<'a>>,
    pub classes: Vec<ClassInfo<'a>>,
    pub interfaces: Vec<InterfaceInfo<'a>>,
    pub enums: Vec<EnumInfo<'a>>,
    pub functions: Vec<FunctionInfo<'a>>,
    /// Whose code each function of the finished program is, by its [`FunctionId`].
    pub code: Vec<FnId>,
}

/// The names that one unit declares.
#[derive(Default)]
pub(super) struct UnitTable<'a> {
    pub functions: HashMap<&'a str, Vec<FnId>>,
    pub types: HashMap<&'a str, DeclId>,
    /// Where in the unit each alias is declared: which one it is.
    pub alias_places: HashMap<&'a str, usize>,
    /// Those resolved so far, in order of declaration.
    pub aliases: HashMap<&'a str, TypeId>,
}

/// A class, struct, interface or enum of the program.
pub(super) struct TypeDecl<'a> {
    pub unit: UnitId,
    pub name: &'a ast::Name,
    pub kind: DeclKind<'a>,
    /// As soon as classes are in order.
    pub ty: TypeId,
}

#[derive(Clone, Copy)]
pub(super) enum DeclKind<'a> {
    Class(&'a ast::Class),
    Struct(&'a ast::Struct),
    Interface(&'a ast::Interface),
    Enum(&'a ast::Enum),
}

/// A class or struct; beside it stands its definition in the type table.
#[derive(Default)]
pub(super) struct ClassInfo<'a> {
    /// `None` for the exception classes that every program has.
    pub decl: Option<DeclId>,
    /// Who may use each field, by slot, inherited ones included.
    pub fields: Vec<FieldInfo>,
    /// Own fields by name, counted from the first own one.
    pub own_fields: HashMap<&'a str, usize>,
    /// Own methods, by name.
    pub methods: HashMap<&'a str, Vec<FnId>>,
    pub constructors: Vec<FnId>,
    /// What stands in each virtual slot.
    pub slots: Vec<FnId>,
}

#[derive(Clone, Copy)]
pub(super) struct FieldInfo {
    pub reach: Reach,
    pub owner: ClassId,
    pub unit: UnitId,
}

pub(super) struct InterfaceInfo<'a> {
    pub methods: HashMap<&'a str, Vec<FnId>>,
    /// All methods, in order of declaration.
    pub all: Vec<FnId>,
}

pub(super) struct EnumInfo<'a> {
    pub members: HashMap<&'a str, i32>,
    pub methods: HashMap<&'a str, Vec<FnId>>,
}

/// Where a function is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Unit,
    /// One of the three methods that every object has.
    Object,
    Class(ClassId),
    Interface(InterfaceId),
    Enum(EnumId),
}

/// Who may use a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Public,
    /// The class and those below it.
    Protected,
    Private,
    /// The unit of the declaration: what has no modifier.
    Package,
}

impl Reach {
    pub fn of(access: Option<ast::Access>) -> Reach {
        match access {
            Some(ast::Access::Public) => Reach::Public,
            Some(ast::Access::Protected) => Reach::Protected,
            Some(ast::Access::Private) => Reach::Private,
            None => Reach::Package,
        }
    }
}

/// How a call reaches a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// Always this one.
    Direct,
    Virtual(u16),
    Interface(SelectorId),
    /// A native function of the host.
    Host,
}

/// A function, method or constructor.
pub(super) struct FunctionInfo<'a> {
    pub name: &'a str,
    /// As messages show it: `lib.geo.area`, `Point.length`.
    pub display: String,
    pub unit: UnitId,
    pub owner: Owner,
    /// `None` for the methods of `Object`.
    pub ast: Option<&'a ast::Function>,
    pub span: Span,
    pub reach: Reach,
    pub is_static: bool,
    pub is_constructor: bool,
    pub dispatch: Dispatch,
    /// Without the receiver.
    pub params: Vec<ParamInfo<'a>>,
    pub result: TypeId,
    /// Its code, if it has any.
    pub code: Option<FunctionId>,
}

impl FunctionInfo<'_> {
    /// Whether parameter 0 is an object (or the value of an enum).
    pub fn has_receiver(&self) -> bool {
        self.owner != Owner::Unit && !self.is_static
    }

    /// The index of a declared parameter among the function's parameters.
    pub fn param_index(&self, declared: usize) -> u16 {
        (declared + usize::from(self.has_receiver())) as u16
    }

    /// Whether both take the same parameters, so that one hides or overrides the other.
    pub fn same_params(&self, other: &FunctionInfo<'_>) -> bool {
        self.params.len() == other.params.len()
            && self.params.iter().zip(&other.params).all(|(a, b)| a.ty == b.ty && a.out == b.out)
    }
}

#[derive(Clone, Copy)]
pub(super) struct ParamInfo<'a> {
    pub name: &'a str,
    pub ty: TypeId,
    pub out: bool,
    pub default: Option<&'a ast::Expr>,
}

impl<'a> Tables<'a> {
    pub fn function(&self, id: FnId) -> &FunctionInfo<'a> {
        &self.functions[id.0 as usize]
    }

    pub fn add_function(&mut self, info: FunctionInfo<'a>) -> FnId {
        self.functions.push(info);
        FnId(self.functions.len() as u32 - 1)
    }

    /// Reserves a place among the functions of the finished program.
    pub fn add_code(&mut self, id: FnId) -> FunctionId {
        self.code.push(id);
        FunctionId(self.code.len() as u32 - 1)
    }

    pub fn decl(&self, id: DeclId) -> &TypeDecl<'a> {
        &self.decls[id.0 as usize]
    }

    pub fn class(&self, id: ClassId) -> &ClassInfo<'a> {
        &self.classes[id.0 as usize]
    }

    pub fn unit(&self, id: UnitId) -> &UnitTable<'a> {
        &self.units[id.0 as usize]
    }
}

impl DeclKind<'_> {
    /// What messages call it.
    pub fn word(self) -> &'static str {
        match self {
            DeclKind::Class(_) => "class",
            DeclKind::Struct(_) => "struct",
            DeclKind::Interface(_) => "interface",
            DeclKind::Enum(_) => "enum",
        }
    }
}
