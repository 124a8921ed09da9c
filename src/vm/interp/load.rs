//! Bringing modules into a machine.

use std::fmt;
use std::sync::Arc;

use super::image::{Image, heap_type};
use super::native::LinkedNative;
use super::tables::{SelectorCache, Tables};
use super::{Halt, Limits, Machine};
use crate::vm::heap::{self, HeapFull, LocalHeap};
use crate::vm::link::{TooMany, TypeIndex};
use crate::vm::module::NativeImport;
use crate::vm::native::{NativeBody, NativeKind, States};
use crate::vm::tasks::common::Common;
use crate::vm::types::{ClassId, ExceptionClass, Type, TypeTable};
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

/// Only then is anything loaded.
const ALONE: &str = "no other machine has the image";

impl Machine {
    /// A machine without a program.
    ///
    /// # Errors
    ///
    /// If the heap has no room for a single exception.
    pub(crate) fn new(heap: LocalHeap, limits: Limits) -> Result<Box<Machine>, HeapFull> {
        let mut image = Image::new();
        image.define_types(&heap);
        let mut machine = Machine::of_image(heap, limits, Arc::new(image));
        let emergency = machine.allocate_exception(
            ExceptionClass::Exception,
            "out of memory: no room for an exception that says more",
            &[],
        )?;
        machine.image_mut().emergency = emergency;
        Ok(machine)
    }

    /// A machine that runs what is loaded already.
    pub(super) fn of_image(heap: LocalHeap, limits: Limits, image: Arc<Image>) -> Box<Machine> {
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
            simple: limits.fuel.is_none(),
            #[cfg(test)]
            others_wait: false,
            tasks: Default::default(),
            suspender: std::ptr::null(),
            spare: Vec::new(),
            limits,
            heap,
            image,
            natives: std::ptr::null(),
            instances: std::ptr::null(),
            shared: false,
            crew: None,
            number: 0,
            own: States::default(),
            locals: Vec::new(),
            stopped: None,
            stack_floor: 0,
            operand: 0,
            buffer: String::new(),
            last_thrown: None,
            origin: Default::default(),
            states: Common::default(),
            interrupt: Arc::default(),
        });
        machine.take_tables();
        machine
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
        let index = self.image_mut().program.link(module).map_err(LoadError::TooMany);
        let loaded = index.and_then(|index| self.follow_program(resolve).map(|()| index));
        // What there was may have moved, even if there is no more of it.
        self.take_tables();
        loaded
    }

    /// Makes what the program needs that has grown.
    fn follow_program(&mut self, resolve: &mut Resolve<'_>) -> Result<(), LoadError> {
        let Machine { image, heap, .. } = self;
        let image = Arc::get_mut(image).expect(ALONE);
        image.foresee_types();
        image.define_types(heap);
        for i in image.natives.len()..image.program.natives.len() {
            let import = &image.program.natives[i];
            let unknown = || LoadError::UnknownNative(import.name.clone());
            let (body, kind) = resolve(import, &image.program.types).ok_or_else(unknown)?;
            image.natives.push(LinkedNative::new(import, body, kind));
        }
        for i in image.constants.len()..image.program.texts.len() {
            let text = heap.new_string(image.program.texts[i].as_bytes())?.word();
            image.constants.push(text);
        }
        image.tables = Tables::new(&image.program, heap);
        Ok(())
    }

    /// Points to what the image has for hot code.
    fn take_tables(&mut self) {
        let Image { program, tables, natives, constants, .. } = &*self.image;
        self.entries = tables.entries.as_ptr();
        self.instances = tables.instances.as_ptr();
        self.vtables = tables.vtables.as_ptr();
        self.switches = tables.switches.as_ptr();
        self.natives = natives.as_ptr();
        self.words = program.words.as_ptr();
        self.texts = constants.as_ptr();
        self.selector_cache = SelectorCache::new();
    }

    fn image_mut(&mut self) -> &mut Image {
        Arc::get_mut(&mut self.image).expect(ALONE)
    }

    /// The runtime type of a type, which need not be one of the program's yet.
    pub(crate) fn define(&mut self, ty: Type) -> heap::TypeIndex {
        if let Some(ty) = self.image.program.types.find(&ty) {
            return heap_type(TypeIndex::of(ty));
        }
        let Machine { image, heap, .. } = self;
        let image = Arc::get_mut(image).expect(ALONE);
        let ty = image.program.types.intern(ty);
        image.define_types(heap);
        heap_type(TypeIndex::of(ty))
    }

    /// The class of objects of a runtime type, if it is one.
    pub(crate) fn class_of(&self, index: u32) -> Option<ClassId> {
        match self.image.program.types.get(TypeIndex(index).id()?) {
            Type::Class(class) | Type::Struct(class) => Some(*class),
            _ => None,
        }
    }
}
