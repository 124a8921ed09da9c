//! What a machine has loaded: the same for all the machines that run it, each on a carrier of its own.
//!
//! Nothing changes in it while one of them runs.

use super::native::LinkedNative;
use super::tables::Tables;
use crate::vm::heap::{self, Element, Field, Key, Layout, LocalHeap, Tracer};
use crate::vm::link::{Program, TypeIndex};
use crate::vm::native::Word;
use crate::vm::tasks::objects;
use crate::vm::types::{Opaque, Signature, Type, TypeId, TypeTable, known};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) program: Program,
    pub(super) tables: Tables,
    pub(super) natives: Vec<LinkedNative>,
    /// The text constants.
    pub(super) constants: Vec<Word>,
    /// Thrown where there is no memory for an exception.
    pub(super) emergency: Word,
    /// The type of all function values.
    pub(super) function_type: heap::TypeIndex,
    /// How many of the types the heap knows.
    pub(super) defined_types: usize,
}

// SAFETY: the pointers are those of the tables, which point into each other and into the program; both are
// the image's own, and nothing is written through them.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    /// Without modules.
    pub(super) fn new() -> Image {
        let mut program = Program::new();
        let plain = Signature { params: Vec::new(), result: known::VOID };
        let function_type = TypeIndex::of(program.types.intern(Type::Func(plain)));
        // Hosts make objects before any module names their type.
        program.types.intern(Type::Opaque(Opaque::Host));
        Image {
            program,
            tables: Tables::default(),
            natives: Vec::new(),
            constants: Vec::new(),
            emergency: 0,
            function_type: heap_type(function_type),
            defined_types: 0,
        }
    }

    /// Tells the references that it holds.
    pub(super) fn trace(&self, tracer: &mut Tracer<'_>) {
        tracer.references(&self.constants);
        tracer.reference(self.emergency);
    }

    /// Takes in the types that natives ask for while a script runs, which on several carriers is too late: a
    /// promise is made with its future.
    pub(super) fn foresee_types(&mut self) {
        let types = &mut self.program.types;
        for i in self.defined_types..types.len() {
            if let Type::Promise(of) = *types.get(TypeId(i as u32)) {
                types.intern(Type::Future(of));
            }
        }
    }

    /// Tells the heap of the program's new types.
    pub(super) fn define_types(&mut self, heap: &LocalHeap) {
        let types = &self.program.types;
        let new = self.defined_types..types.len();
        let first = heap.types().reserve(new.len() as u32);
        debug_assert_eq!(first.0 as usize, TypeIndex::FIRST as usize + self.defined_types);
        for i in new {
            let ty = TypeId(i as u32);
            if let Some(layout) = layout(types, ty) {
                heap.types().define(heap_type(TypeIndex::of(ty)), &layout);
            }
        }
        self.defined_types = types.len();
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
