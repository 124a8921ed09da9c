//! The linked program as the handlers read it: plain tables behind pointers.
//!
//! Tables are derived from a [`Program`] and made anew when it grew. What they hold comes from verified
//! modules, so the handlers index them without tests.

use super::dispatch::EXIT;
use super::heap_type;
use crate::vm::heap::LocalHeap;
use crate::vm::heap::object::Header;
use crate::vm::link::{Program, TypeIndex};
use crate::vm::op::Code;
use crate::vm::types::{FunctionId, Method, Type, TypeId};

/// A function, ready to be called.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Entry {
    /// Its first instruction.
    pub(super) code: *const Code,
    /// Bytes that its registers take; a result needs one.
    pub(super) bytes: usize,
}

/// A table of a `Switch` instruction.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct SwitchTable {
    pub(super) first: i64,
    pub(super) count: u64,
    pub(super) targets: *const *const Code,
    pub(super) default: *const Code,
}

/// What a new object of a type is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Instance {
    /// The size class, or none that exists: then there is more to do.
    pub(super) class: usize,
    pub(super) header: Header,
}

/// The tables of a program. They point into each other and into the program's code.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) entries: Box<[Entry]>,
    pub(super) switches: Box<[SwitchTable]>,
    /// By runtime type.
    pub(super) instances: Box<[Instance]>,
    /// By runtime type.
    pub(super) vtables: Box<[*const *const Entry]>,
    /// What the pointers of `switches` point to.
    _targets: Vec<Box<[*const Code]>>,
    /// What the pointers of `vtables` point to.
    _slots: Vec<Box<[*const Entry]>>,
}

/// What the lowest frame of a run returns to: the second instruction. A return reads the field `a` of
/// the one before: 0, so the base stays.
static STUB: [Code; 2] = [Code(EXIT as u64), Code(EXIT as u64)];

/// The address that the lowest frame of a run returns to.
pub(super) fn stub() -> *const Code {
    &raw const STUB[1]
}

impl Tables {
    /// The tables of a program.
    pub(super) fn new(program: &Program, heap: &LocalHeap) -> Tables {
        let code = |function| program.code(function).as_ptr();
        let entries: Box<[Entry]> = (0..program.functions.len())
            .map(|id| Entry {
                code: code(FunctionId(id as u32)),
                bytes: program.functions[id].registers.max(1) as usize * size_of::<u64>(),
            })
            .collect();

        let mut lists = Vec::new();
        let mut switches = Vec::new();
        for switch in &program.switches {
            // The verifier has seen that the targets are instructions of the function.
            let at = |target: u32| code(switch.function).wrapping_add(target as usize);
            let list: Box<[*const Code]> = switch.table.targets.iter().map(|&t| at(t)).collect();
            switches.push(SwitchTable {
                first: switch.table.first,
                count: list.len() as u64,
                targets: list.as_ptr(),
                default: at(switch.table.default),
            });
            lists.push(list);
        }

        // What is no class has the methods of `Object` alone.
        let object: Box<[*const Entry]> = Box::new([std::ptr::null(); 3]);
        let count = TypeIndex::FIRST as usize + program.types.len();
        let mut vtables = vec![object.as_ptr(); count];
        let mut slots = vec![object];
        // Structs inside of an object are made with it, and stress asks for a collection each time.
        let slowly = Instance { class: usize::MAX, header: Header(0) };
        let mut instances = vec![slowly; count];
        for (i, ty) in program.types.types().iter().enumerate() {
            let index = TypeIndex::of(TypeId(i as u32));
            if matches!(ty, Type::Class(_) | Type::Struct(_)) && !heap.config().stress {
                let info = heap.types().get(heap_type(index));
                if info.is_plain() {
                    instances[index.0 as usize] =
                        Instance { class: info.class, header: info.header };
                }
            }
            let Type::Class(class) = ty else { continue };
            let vtable = &program.types.class(*class).vtable;
            let entry = |method: &Method| match method {
                Method::Native => std::ptr::null(),
                Method::Script(id) => &raw const entries[id.0 as usize],
            };
            let table: Box<[*const Entry]> = vtable.iter().map(entry).collect();
            vtables[index.0 as usize] = table.as_ptr();
            slots.push(table);
        }
        Tables {
            entries,
            switches: switches.into_boxed_slice(),
            instances: instances.into_boxed_slice(),
            vtables: vtables.into_boxed_slice(),
            _targets: lists,
            _slots: slots,
        }
    }
}

/// What implements a selector for objects of a type, as the last calls through interfaces found out.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Found {
    pub(super) ty: u32,
    pub(super) selector: u32,
    pub(super) entry: *const Entry,
}

/// The last findings, by a hash of type and selector.
#[derive(Debug)]
#[repr(C)]
pub(super) struct SelectorCache {
    found: [Found; SelectorCache::SIZE],
}

impl SelectorCache {
    const SIZE: usize = 256;

    pub(super) fn new() -> SelectorCache {
        // Type 0 is no object's, so nothing is found in an empty place.
        SelectorCache {
            found: [Found { ty: 0, selector: 0, entry: std::ptr::null() }; SelectorCache::SIZE],
        }
    }

    #[inline(always)]
    fn place(ty: u32, selector: u32) -> usize {
        (ty ^ selector.wrapping_mul(29)) as usize % SelectorCache::SIZE
    }

    /// The place for a type and a selector.
    #[inline(always)]
    pub(super) fn at(&self, ty: u32, selector: u32) -> *const Found {
        &self.found[SelectorCache::place(ty, selector)]
    }

    /// Remembers a finding.
    pub(super) fn put(&mut self, found: Found) {
        self.found[SelectorCache::place(found.ty, found.selector)] = found;
    }
}
