//! Allocation: what one carrier does without asking the others.

use std::cell::Cell;
use std::sync::Arc;

use super::arena::free_run;
use super::layout::{LIST_BUFFER, TypeIndex, TypeInfo, Types};
use super::object::{self, ELEMENTS, Header, Kind};
use super::rendezvous::Station;
use super::shared::{Block, Config, Heap, HeapFull, Shared, Stats};
use super::size::{self, CLASSES, LARGE, SIZES};
use crate::vm::types::STRUCT_DEPTH;

/// Bytes of free cells that are zeroed and counted at a time.
const RUN: usize = 4096;
/// The most elements of an array: lengths are `int`s for scripts.
pub(super) const MAX_LENGTH: u64 = i32::MAX as u64;

/// Free cells of one class, zeroed: an allocation takes the cell at `cursor` if that is below
/// `limit`.
#[derive(Debug, Default)]
#[repr(C)]
struct Run {
    cursor: Cell<u64>,
    limit: Cell<u64>,
}

/// One carrier's end of the heap: it allocates and works on objects through it.
///
/// Everything but collecting takes it by shared reference; collecting takes it mutably, so that what
/// borrows it ([`Str`](super::Str) and the like) does not outlive the objects.
#[derive(Debug)]
pub struct LocalHeap {
    runs: [Run; CLASSES],
    blocks: [Cell<Block>; CLASSES],
    /// Bytes that were counted as in use ahead of the runs to come.
    budget: Cell<usize>,
    /// How many collections there were when runs and blocks were taken: they are good until the next one.
    collections: Cell<u64>,
    /// Whether it has [entered](LocalHeap::enter).
    inside: Cell<bool>,
    pub(super) station: Arc<Station>,
    pub(super) shared: Arc<Shared>,
}

impl LocalHeap {
    pub(super) fn new(shared: Arc<Shared>) -> LocalHeap {
        LocalHeap {
            runs: [const { Run { cursor: Cell::new(0), limit: Cell::new(0) } }; CLASSES],
            blocks: [const { Cell::new(Block { address: 0, next: 0, clean: false }) }; CLASSES],
            budget: Cell::new(0),
            collections: Cell::new(shared.collections()),
            inside: Cell::new(false),
            station: shared.rendezvous.join(),
            shared,
        }
    }

    /// The shared part.
    pub fn heap(&self) -> Heap {
        Heap { shared: self.shared.clone() }
    }

    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// The table of runtime types.
    pub fn types(&self) -> &Types {
        &self.shared.types
    }

    /// Whether several carriers run on this heap, so that operations on containers must lock.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.shared.is_shared()
    }

    /// Whether the interpreter should collect at its next safepoint: the threshold was passed, an
    /// allocation failed, or stress mode holds.
    #[inline(always)]
    pub fn wants_collection(&self) -> bool {
        self.shared.wants_collection()
    }

    /// The most bytes that may be in use.
    pub fn limit(&self) -> usize {
        self.shared.limit()
    }

    /// Counts bytes that others hold on behalf of scripts, such as stacks of threads: they count
    /// against the limit and bring the next collection nearer. Negative to take back. Never fails; what
    /// must not pass the limit asks [`LocalHeap::has_room`] before.
    pub fn account(&self, delta: isize) {
        self.shared.account(delta);
    }

    /// Fails, and asks for a collection, if so many more bytes would pass the limit.
    pub fn has_room(&self, bytes: usize) -> Result<(), HeapFull> {
        if self.shared.used().saturating_add(bytes) > self.shared.limit() {
            self.shared.want_collection();
            return Err(HeapFull { requested: bytes });
        }
        Ok(())
    }

    /// What the heap did so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The carrier begins to run on a heap that is [shared](LocalHeap::is_shared): from here on it may
    /// touch objects. Waits while another one collects.
    pub fn enter(&self) {
        debug_assert!(!self.inside.get());
        self.shared.rendezvous.enter(&self.station);
        self.inside.set(true);
        if self.collections.get() != self.shared.collections() {
            self.retire();
        }
    }

    /// [`enter`](LocalHeap::enter), if it has not. True: now it has.
    pub fn enter_once(&self) -> bool {
        let enters = !self.inside.get();
        if enters {
            self.enter();
        }
        enters
    }

    /// The carrier runs no more, if it has [entered](LocalHeap::enter): it may sleep, or block. References
    /// that it still needs are to be told by others.
    #[inline]
    pub fn leave(&self) {
        if self.inside.replace(false) {
            self.shared.rendezvous.leave(&self.station);
        }
    }

    /// Gives up the runs and blocks that allocation goes on from: cells in them that nothing has been put
    /// into belong to nobody after a collection.
    pub(super) fn retire(&self) {
        self.collections.set(self.shared.collections());
        for (run, block) in self.runs.iter().zip(&self.blocks) {
            run.cursor.set(0);
            run.limit.set(0);
            block.set(Block::default());
        }
        self.budget.set(0);
    }

    /// Counts a run, from what was counted ahead if that suffices: where free cells lie scattered, runs
    /// are short.
    #[inline]
    fn charge(&self, bytes: usize) -> Result<(), HeapFull> {
        let budget = self.budget.get();
        if bytes <= budget {
            self.budget.set(budget - bytes);
            return Ok(());
        }
        if bytes < RUN && self.shared.charge(RUN).is_ok() {
            self.budget.set(budget + RUN - bytes);
            return Ok(());
        }
        self.shared.charge(bytes)
    }

    /// A new object of a size class, zero but for the header.
    #[inline(always)]
    pub fn allocate_class(&self, class: usize, header: Header) -> Result<u64, HeapFull> {
        let run = &self.runs[class];
        let address = run.cursor.get();
        if address < run.limit.get() {
            run.cursor.set(address + SIZES[class] as u64);
            // SAFETY: the cell belongs to this carrier alone.
            unsafe { object::store(address, header.0) };
            return Ok(address);
        }
        self.allocate_slowly(class, header)
    }

    /// As [`LocalHeap::allocate_class`], if a cell is at hand; there is none of classes that do not
    /// exist.
    #[inline(always)]
    pub fn take_cell(&self, class: usize, header: Header) -> Option<u64> {
        let run = self.runs.get(class)?;
        let address = run.cursor.get();
        if address >= run.limit.get() {
            return None;
        }
        run.cursor.set(address + SIZES[class] as u64);
        // SAFETY: the cell belongs to this carrier alone.
        unsafe { object::store(address, header.0) };
        Some(address)
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self, class: usize, header: Header) -> Result<u64, HeapFull> {
        let cell = SIZES[class];
        let mut block = self.blocks[class].get();
        let (start, end) = loop {
            if block.address != 0
                && let Some(run) = free_run(block.address, cell, block.next, RUN)
            {
                break run;
            }
            block = self.shared.take_block(class)?;
            // Kept even if the charge fails: it must not be lost to the next attempt.
            self.blocks[class].set(block);
        };
        self.charge(end - start)?;
        let address = block.address + start as u64;
        if !block.clean {
            // SAFETY: free cells of a block that belongs to this carrier.
            unsafe { object::zero(address, end - start) };
        }
        self.blocks[class].set(Block { next: end, ..block });
        self.runs[class].cursor.set(address + cell as u64);
        self.runs[class].limit.set(block.address + end as u64);
        // SAFETY: the first cell of the new run.
        unsafe { object::store(address, header.0) };
        Ok(address)
    }

    /// A new object of so many bytes with its header, zero but for that.
    #[inline]
    pub fn allocate(&self, bytes: usize, header: Header) -> Result<u64, HeapFull> {
        match size::class_of(bytes) {
            LARGE => self.allocate_large(bytes, header),
            class => self.allocate_class(class, header),
        }
    }

    #[cold]
    fn allocate_large(&self, bytes: usize, header: Header) -> Result<u64, HeapFull> {
        if bytes > isize::MAX as usize / 4 {
            return Err(HeapFull { requested: usize::MAX });
        }
        let bytes = bytes.next_multiple_of(8);
        self.shared.charge(bytes)?;
        let (address, clean) =
            self.shared.take_span(bytes).inspect_err(|_| self.shared.uncharge(bytes))?;
        if !clean {
            // SAFETY: the span belongs to nobody else yet.
            unsafe { object::zero(address, bytes) };
        }
        // SAFETY: as above. Release is not needed: the address has not been shown to anybody.
        unsafe { object::store(address, header.0) };
        Ok(address)
    }

    /// A new object of a class or struct: fields zero, but those of struct types new structs.
    #[inline]
    pub fn new_instance(&self, ty: TypeIndex) -> Result<u64, HeapFull> {
        self.new_instance_of(self.types().get(ty))
    }

    /// [`LocalHeap::new_instance`] for a type that was looked up before.
    ///
    /// # Panics
    ///
    /// If the type is none of class, struct, list, dictionary.
    #[inline]
    pub fn new_instance_of(&self, info: &TypeInfo) -> Result<u64, HeapFull> {
        if !info.structs.is_empty() || info.class == LARGE || info.bytes == 0 {
            return self.new_nested(info, 0);
        }
        self.allocate_class(info.class, info.header)
    }

    fn new_nested(&self, info: &TypeInfo, depth: u32) -> Result<u64, HeapFull> {
        assert!(info.bytes != 0, "a type without a fixed size");
        if depth > STRUCT_DEPTH {
            return Err(HeapFull { requested: usize::MAX });
        }
        let object = self.allocate(info.bytes, info.header)?;
        for &(slot, ty) in &info.structs {
            let inner = self.new_nested(self.types().get(ty), depth + 1)?;
            // SAFETY: a field of the new object, as its type says.
            unsafe { object::set_field(object, slot as usize, inner) };
        }
        Ok(object)
    }

    /// A copy of a struct, with copies of the structs inside.
    ///
    /// # Safety
    ///
    /// The address is that of a class or struct object of this heap that lives.
    pub unsafe fn copy_struct(&self, from: u64) -> Result<u64, HeapFull> {
        // SAFETY: the same contract.
        unsafe { self.copy_nested(from, 0) }
    }

    /// # Safety
    ///
    /// As for [`LocalHeap::copy_struct`].
    unsafe fn copy_nested(&self, from: u64, depth: u32) -> Result<u64, HeapFull> {
        if depth > STRUCT_DEPTH {
            return Err(HeapFull { requested: usize::MAX });
        }
        // SAFETY: the caller's contract.
        let info = self.types().get(TypeIndex(unsafe { object::type_of(from) }));
        let to = self.allocate(info.bytes, info.header)?;
        for slot in 0..info.bytes / 8 - 1 {
            // SAFETY: both objects have the type's fields.
            unsafe { object::set_field(to, slot, object::field(from, slot)) };
        }
        for &(slot, _) in &info.structs {
            // SAFETY: the field holds a struct of its own, never 0.
            unsafe {
                let inner = self.copy_nested(object::field(from, slot as usize), depth + 1)?;
                object::set_field(to, slot as usize, inner);
            }
        }
        Ok(to)
    }

    /// A scalar as `Object`, of a type with the layout [`Layout::Box`](super::Layout::Box).
    #[inline]
    pub fn new_box(&self, ty: TypeIndex, word: u64) -> Result<u64, HeapFull> {
        let info = self.types().get(ty);
        debug_assert_eq!(info.header.kind(), Kind::Box);
        let object = self.allocate_class(size::class_of(16), info.header)?;
        // SAFETY: a box has one word.
        unsafe { object::set_field(object, 0, word) };
        Ok(object)
    }

    /// A function value of a type with the layout [`Layout::Function`](super::Layout::Function).
    /// What `target` means is the interpreter's affair; the receiver is a reference, or 0.
    #[inline]
    pub fn new_function(&self, ty: TypeIndex, target: u64, receiver: u64) -> Result<u64, HeapFull> {
        let info = self.types().get(ty);
        debug_assert_eq!(info.header.kind(), Kind::Function);
        let object = self.allocate_class(size::class_of(24), info.header)?;
        // SAFETY: a function value has two words.
        unsafe {
            object::set_field(object, 0, target);
            object::set_field(object, 1, receiver);
        }
        Ok(object)
    }

    /// A new array: elements zero, or new structs if the type says so.
    pub fn new_array(&self, ty: TypeIndex, length: u64) -> Result<u64, HeapFull> {
        let info = self.types().get(ty);
        debug_assert_eq!(info.header.kind(), Kind::Array);
        let array = self.new_elements(info.header, length)?;
        if let Some(&(_, ty)) = info.structs.first() {
            let element = self.types().get(ty);
            // Refused early, where the elements cannot fit.
            self.has_room((length as usize).saturating_mul(element.bytes))?;
            for i in 0..length {
                let inner = self.new_instance_of(element)?;
                // SAFETY: an element of the new array, whose elements are references.
                unsafe { object::set_element64(array, i, inner) };
            }
        }
        Ok(array)
    }

    /// A new array with a header, elements zero.
    pub(super) fn new_elements(&self, header: Header, length: u64) -> Result<u64, HeapFull> {
        if length > MAX_LENGTH {
            return Err(HeapFull { requested: usize::MAX });
        }
        let bytes = ELEMENTS as usize + ((length as usize) << header.size_log2());
        let array = self.allocate(bytes, header)?;
        // SAFETY: the second word of an array is its length.
        unsafe { object::store(array + 8, length) };
        Ok(array)
    }

    /// A new array of words, all zero, that no script sees: references, or none.
    pub fn new_words(&self, length: u64, references: bool) -> Result<u64, HeapFull> {
        let header = Header::new(Kind::Array, LIST_BUFFER.0).with_size(3);
        let traits = if references { object::REFERENCES } else { 0 };
        self.new_elements(header.with(traits), length)
    }

    /// An empty list or dictionary.
    pub fn new_container(&self, ty: TypeIndex) -> Result<u64, HeapFull> {
        let info = self.types().get(ty);
        debug_assert!(matches!(info.header.kind(), Kind::List | Kind::Dict));
        self.allocate_class(info.class, info.header)
    }
}

impl Drop for LocalHeap {
    fn drop(&mut self) {
        self.leave();
        self.shared.rendezvous.part(&self.station);
    }
}
