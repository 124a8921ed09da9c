//! Bringing modules into a machine.

use std::fmt;
use std::sync::Arc;

use super::native::LinkedNative;
use super::tables::{SelectorCache, Tables};
use super::{Halt, Limits, Machine};
use crate::vm::heap::{self, Element, Field, HeapFull, Key, Layout, LocalHeap};
use crate::vm::link::{Program, TooMany, TypeIndex};
use crate::vm::module::NativeImport;
use crate::vm::native::{NativeBody, NativeKind, States};
use crate::vm::tasks::objects;
use crate::vm::types::{
    ClassId, ExceptionClass, Opaque, Signature, Type, TypeId, TypeTable, known,
};
use crate::vm::verify::Verified;

/// Finds the native function for an import; the table is that of the import's types.
pub(crate) type Resolve<'a> =
    dyn FnMut(&NativeImport, &TypeTable) -> Option<(NativeBody, NativeKind)> + 'a;

/// Why a module cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadError {
    TooMany(TooMany),
    /// There is no native function of this name and signature.
    UnknownNative(String),
    /// No room for the constants.
    HeapFull(HeapFull),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::TooMany(error) => error.fmt(f),
            LoadError::UnknownNative(name) => {
                write!(f, "the module needs the native function `{name}`, which nobody provides")
            }
            LoadError::HeapFull(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<HeapFull> for LoadError {
    fn from(error: HeapFull) -> LoadError {
        LoadError::HeapFull(error)
    }
}

/// A runtime type as the heap knows it.
#[inline(always)]
pub(super) fn heap_type(index: TypeIndex) -> heap::TypeIndex {
    heap::TypeIndex(index.0)
}

/// Types that lie inside values of a type: the fields' or elements' structs.
fn struct_type(types: &TypeTable, ty: TypeId) -> Option<heap::TypeIndex> {
    matches!(types.get(ty), Type::Struct(_)).then(|| heap_type(TypeIndex::of(ty)))
}

/// What objects of a type look like; none if there are none.
fn layout(types: &TypeTable, ty: TypeId) -> Option<Layout> {
    let field = |ty: TypeId| match struct_type(types, ty) {
        Some(index) => Field::Struct(index),
        None if types.is_reference(ty) => Field::Reference,
        None => Field::Word,
    };
    Some(match types.get(ty) {
        Type::Class(class) | Type::Struct(class) => {
            Layout::Instance(types.class(*class).fields.iter().map(|f| field(f.ty)).collect())
        }
        &Type::Array(element) => {
            Layout::Array(Element::of(types, element), struct_type(types, element))
        }
        &Type::List(element) => Layout::List(Element::of(types, element)),
        &Type::Dict(key, value) => Layout::Dict(Key::of(types, key), types.is_reference(value)),
        Type::Func(_) => Layout::Function,
        ty @ (Type::Channel(_) | Type::Future(_) | Type::Promise(_) | Type::Opaque(_)) => {
            objects::layout(ty).unwrap_or(Layout::Host)
        }
        Type::Bool
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
        | Type::Char => Layout::Box,
        Type::Void
        | Type::Null
        | Type::String
        | Type::Enum(_)
        | Type::Object
        | Type::Interface(_) => return None,
    })
}

impl Machine {
    /// A machine without a program.
    ///
    /// # Errors
    ///
    /// If the heap has no room for a single exception.
    pub(crate) fn new(heap: LocalHeap, limits: Limits) -> Result<Box<Machine>, HeapFull> {
        let mut program = Program::new();
        let plain = Signature { params: Vec::new(), result: known::VOID };
        let function_type = TypeIndex::of(program.types.intern(Type::Func(plain)));
        // Hosts make objects before any module names their type.
        program.types.intern(Type::Opaque(Opaque::Host));
        let mut machine = Box::new(Machine {
            limit: std::ptr::null_mut(),
            entries: std::ptr::null(),
            vtables: std::ptr::null(),
            words: std::ptr::null(),
            texts: std::ptr::null(),
            switches: std::ptr::null(),
            pc: std::ptr::null(),
            base: std::ptr::null_mut(),
            budget: 0,
            callee: std::ptr::null(),
            selector_cache: SelectorCache::new(),
            thread: std::ptr::null_mut(),
            halt: Halt::Yielded,
            granted: 0,
            fuel: limits.fuel.unwrap_or(super::UNLIMITED),
            #[cfg(test)]
            others_wait: false,
            tasks: Default::default(),
            suspender: std::ptr::null(),
            spare: Vec::new(),
            limits,
            heap,
            tables: Tables::default(),
            instances: std::ptr::null(),
            shared: false,
            program,
            natives: Vec::new(),
            constants: Vec::new(),
            emergency: 0,
            locals: Vec::new(),
            stopped: None,
            stack_floor: 0,
            function_type: heap_type(function_type),
            operand: 0,
            buffer: String::new(),
            last_thrown: None,
            origin: Default::default(),
            defined_types: 0,
            states: States::default(),
            interrupt: Arc::default(),
        });
        machine.define_types();
        machine.emergency = machine.allocate_exception(
            ExceptionClass::Exception,
            "out of memory: no room for an exception that says more",
            &[],
        )?;
        Ok(machine)
    }

    /// Brings a module in. Returns its index in the program.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]. The machine goes on as before.
    ///
    /// # Panics
    ///
    /// If a thread is running.
    pub(crate) fn load(
        &mut self,
        module: impl Into<Arc<Verified>>,
        resolve: &mut Resolve<'_>,
    ) -> Result<u32, LoadError> {
        assert!(self.thread.is_null(), "no loading while a thread runs");
        let module = module.into();
        for import in &module.module().natives {
            if resolve(import, &module.module().types).is_none() {
                return Err(LoadError::UnknownNative(import.name.clone()));
            }
        }
        let index = self.program.link(module).map_err(LoadError::TooMany);
        let loaded = index.and_then(|index| self.follow_program(resolve).map(|()| index));
        // What there was may have moved, even if there is no more of it.
        self.take_tables();
        loaded
    }

    /// Makes what the program needs that has grown.
    fn follow_program(&mut self, resolve: &mut Resolve<'_>) -> Result<(), LoadError> {
        self.define_types();
        for i in self.natives.len()..self.program.natives.len() {
            let import = &self.program.natives[i];
            let unknown = || LoadError::UnknownNative(import.name.clone());
            let (body, kind) = resolve(import, &self.program.types).ok_or_else(unknown)?;
            self.natives.push(LinkedNative::new(import, body, kind));
        }
        for i in self.constants.len()..self.program.texts.len() {
            let text = self.heap.new_string(self.program.texts[i].as_bytes())?.word();
            self.constants.push(text);
        }
        self.tables = Tables::new(&self.program, &self.heap);
        Ok(())
    }

    /// Points to what hot code reads.
    fn take_tables(&mut self) {
        self.entries = self.tables.entries.as_ptr();
        self.instances = self.tables.instances.as_ptr();
        self.vtables = self.tables.vtables.as_ptr();
        self.switches = self.tables.switches.as_ptr();
        self.words = self.program.words.as_ptr();
        self.texts = self.constants.as_ptr();
        self.selector_cache = SelectorCache::new();
    }

    /// The runtime type of a type, which need not be one of the program's yet.
    pub(crate) fn define(&mut self, ty: Type) -> heap::TypeIndex {
        let ty = self.program.types.intern(ty);
        if ty.0 as usize >= self.defined_types {
            self.define_types();
        }
        heap_type(TypeIndex::of(ty))
    }

    /// Tells the heap of the program's new types.
    fn define_types(&mut self) {
        let types = &self.program.types;
        let new = self.defined_types..types.len();
        let first = self.heap.types().reserve(new.len() as u32);
        debug_assert_eq!(first.0 as usize, TypeIndex::FIRST as usize + self.defined_types);
        for i in new {
            let ty = TypeId(i as u32);
            if let Some(layout) = layout(types, ty) {
                self.heap.types().define(heap_type(TypeIndex::of(ty)), &layout);
            }
        }
        self.defined_types = types.len();
    }

    /// The class of objects of a runtime type, if it is one.
    pub(crate) fn class_of(&self, index: u32) -> Option<ClassId> {
        match self.program.types.get(TypeIndex(index).id()?) {
            Type::Class(class) | Type::Struct(class) => Some(*class),
            _ => None,
        }
    }
}
