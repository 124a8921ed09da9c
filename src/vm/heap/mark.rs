//! Marking: finds what is reachable, in a loop over a stack of its own.

use super::arena::mark_bit;
use super::host::HostTable;
use super::layout::{TypeIndex, Types};
use super::object::{self, ELEMENTS, Header, KEY_REFERENCES, Kind, MAP_SHIFT, REFERENCES};

/// Elements of an array that are looked at before the rest goes back to the stack.
const PIECE: u64 = 256;
/// Objects that wait for their memory to arrive.
const QUEUE: usize = 16;
/// Low bit of a stack entry that says where to go on in the array below it.
const CONTINUE: u64 = 1;

/// Words that the stack always has room for: more than one piece of anything takes, so that looking
/// again at a marked object never overflows, and each pass through the heap marks something new.
pub(super) const LEAST: usize = 1024;

/// Where the references are that keep objects alive.
pub trait Roots {
    /// Tells the tracer all of them.
    fn trace(&mut self, tracer: &mut Tracer<'_>);
}

impl<F: FnMut(&mut Tracer<'_>)> Roots for F {
    fn trace(&mut self, tracer: &mut Tracer<'_>) {
        self(tracer);
    }
}

/// The roots of a carrier that stands still while another one collects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent(*mut dyn Roots);

// SAFETY: they are told to whoever collects, which `LocalHeap::collect` asks of them.
unsafe impl Send for Lent {}

impl Lent {
    /// Those of a carrier that comes to the rendezvous.
    pub(super) fn new(roots: &mut dyn Roots) -> Lent {
        let roots: *mut (dyn Roots + '_) = roots;
        // SAFETY: only the lifetime changes, which `trace` asks for.
        Lent(unsafe {
            std::mem::transmute::<*mut (dyn Roots + '_), *mut (dyn Roots + 'static)>(roots)
        })
    }

    /// Tells them.
    ///
    /// # Safety
    ///
    /// The carrier stands still, so that they are there, and used by nobody else.
    pub(super) unsafe fn trace(self, tracer: &mut Tracer<'_>) {
        // SAFETY: the contract.
        unsafe { (*self.0).trace(tracer) };
    }
}

/// Takes references during a collection.
#[derive(Debug)]
pub struct Tracer<'a> {
    /// Addresses of objects, or two words for the rest of an array: its address, then the index
    /// shifted by one with [`CONTINUE`].
    stack: Vec<u64>,
    most: usize,
    /// An object was left out since the stack was full: marked ones may have unmarked children.
    overflowed: bool,
    /// The heap is being looked through after an overflow.
    pub(super) rescanning: bool,
    /// The stack is being worked off.
    draining: bool,
    queue: [u64; QUEUE],
    at: usize,
    pub(super) objects: u64,
    /// References that were told, null or not.
    pub(super) roots: u64,
    types: &'a Types,
    hosts: &'a HostTable,
}

#[inline(always)]
fn prefetch(address: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on the caches, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address as usize));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

impl<'a> Tracer<'a> {
    /// With a stack (its memory is used again) of at most so many bytes.
    pub(super) fn new(
        stack: Vec<u64>,
        most: usize,
        types: &'a Types,
        hosts: &'a HostTable,
    ) -> Tracer<'a> {
        Tracer {
            stack,
            most: (most / 8).max(LEAST),
            rescanning: false,
            overflowed: false,
            draining: false,
            queue: [0; QUEUE],
            at: 0,
            objects: 0,
            roots: 0,
            types,
            hosts,
        }
    }

    pub(super) fn into_stack(self) -> Vec<u64> {
        self.stack
    }

    /// Takes a root: 0, or the address of an object of this heap, which stays alive.
    #[inline]
    pub fn reference(&mut self, word: u64) {
        self.roots += 1;
        if word != 0 {
            // The roots are told once only, so none of them may be left out.
            if !self.draining && self.stack.len() >= LEAST / 2 {
                self.drain();
            }
            // A value of the host may have more references than the stack has room for: those that
            // were left out are met when it is looked at again.
            if !(self.draining && self.rescanning && Tracer::is_marked(word)) {
                self.push(word);
            }
        }
    }

    /// Takes several roots.
    pub fn references(&mut self, words: &[u64]) {
        for &word in words {
            self.reference(word);
        }
    }

    #[inline(always)]
    fn push(&mut self, word: u64) {
        if self.stack.len() < self.stack.capacity() {
            self.stack.push(word);
        } else {
            self.push_slowly(word);
        }
    }

    #[cold]
    fn push_slowly(&mut self, word: u64) {
        let more = self.stack.len().max(LEAST).min(self.most.saturating_sub(self.stack.len()));
        if more == 0 || self.stack.try_reserve_exact(more).is_err() {
            self.overflowed = true;
            return;
        }
        self.stack.push(word);
    }

    /// Whether something was left out; resets that.
    pub(super) fn take_overflow(&mut self) -> bool {
        std::mem::take(&mut self.overflowed)
    }

    /// Marks all that is reachable from the stack.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        loop {
            let Some(entry) = self.stack.pop() else {
                // The stack is empty: what waits in the queue is next.
                let Some(waiting) = self.queue.iter().position(|&address| address != 0) else {
                    break;
                };
                let address = std::mem::take(&mut self.queue[waiting]);
                self.visit(address);
                continue;
            };
            if entry & CONTINUE != 0 {
                let array = self.stack.pop().unwrap_or_default();
                self.piece(array, entry >> 1);
                continue;
            }
            prefetch(entry);
            prefetch(mark_bit(entry).0);
            let address = std::mem::replace(&mut self.queue[self.at], entry);
            self.at = (self.at + 1) % QUEUE;
            if address != 0 {
                self.visit(address);
            }
        }
        self.draining = false;
    }

    /// Marks an object if it is not yet, and pushes its children.
    #[inline(always)]
    fn visit(&mut self, address: u64) {
        let (word, bit) = mark_bit(address);
        // SAFETY: roots and fields hold addresses of objects, whose bits are mapped; the world stands.
        unsafe {
            let marks = object::load(word);
            if marks & bit != 0 {
                return;
            }
            object::store(word, marks | bit);
        }
        self.objects += 1;
        // SAFETY: the address is that of an object, see above.
        unsafe { self.scan(address) };
    }

    /// Whether the object at an address is marked.
    pub(super) fn is_marked(address: u64) -> bool {
        let (word, bit) = mark_bit(address);
        // SAFETY: the bit of an object of the heap.
        unsafe { object::load(word) & bit != 0 }
    }

    /// Pushes the children of an object.
    ///
    /// # Safety
    ///
    /// The address is that of an object.
    #[inline(always)]
    pub(super) unsafe fn scan(&mut self, address: u64) {
        // SAFETY: what is read lies in the object, as its header says.
        unsafe {
            let header = object::header(address);
            match header.kind() {
                Kind::Instance => {
                    let mut map = header.0 >> MAP_SHIFT;
                    while map != 0 {
                        self.child(address + 8 + 8 * map.trailing_zeros() as u64);
                        map &= map - 1;
                    }
                }
                Kind::Wide => self.piece(address, 0),
                Kind::Box => {
                    if header.has(REFERENCES) {
                        self.child(address + 8);
                    }
                }
                Kind::Array => {
                    if header.has(REFERENCES) {
                        self.piece(address, 0);
                    }
                }
                Kind::List | Kind::Function | Kind::View => self.child(address + 16),
                Kind::String | Kind::Buffer => {}
                Kind::Dict => {
                    self.child(address + 24);
                    self.child(address + 32);
                }
                Kind::Entries => {
                    if header.0 & (REFERENCES | KEY_REFERENCES) != 0 {
                        self.piece(address, 0);
                    }
                }
                Kind::Host => {
                    let hosts = self.hosts;
                    hosts.trace(object::load(address + 8), self);
                }
                Kind::None | Kind::Poison => dead_object(address, header),
            }
        }
    }

    /// # Safety
    ///
    /// The address is that of a reference word of an object.
    #[inline(always)]
    unsafe fn child(&mut self, place: u64) {
        // SAFETY: the caller's contract.
        let word = unsafe { object::load(place) };
        if word != 0 {
            self.push(word);
        }
    }

    /// Pushes some elements of an array of references, entries of a dictionary or fields of a wide
    /// object, and where to go on.
    fn piece(&mut self, array: u64, from: u64) {
        // SAFETY: only `scan` and this function make such entries, for objects of these kinds.
        unsafe {
            let header = object::header(array);
            if header.kind() == Kind::Wide {
                let types = self.types;
                let slots = &types.get(TypeIndex(header.ty())).wide;
                let to = slots.len().min((from + PIECE) as usize);
                if to < slots.len() {
                    self.push_rest(array, to as u64);
                }
                for &slot in &slots[from as usize..to] {
                    self.child(array + 8 + 8 * slot as u64);
                }
                return;
            }
            let length = object::array_length(array);
            let to = length.min(from + PIECE);
            if to < length {
                self.push_rest(array, to);
            }
            if header.kind() == Kind::Array {
                for i in from..to {
                    self.child(array + ELEMENTS + 8 * i);
                }
                return;
            }
            for i in from..to {
                let entry = array + ELEMENTS + 24 * i;
                if header.has(KEY_REFERENCES) {
                    self.child(entry + 8);
                }
                if header.has(REFERENCES) {
                    self.child(entry + 16);
                }
            }
        }
    }

    /// Both words or none.
    fn push_rest(&mut self, array: u64, from: u64) {
        self.push(array);
        if self.overflowed && self.stack.last() != Some(&array) {
            return;
        }
        let length = self.stack.len();
        self.push(from << 1 | CONTINUE);
        if self.stack.len() == length {
            // Left on the stack it would be taken for an object, which is marked already.
            self.stack.pop();
        }
    }
}

#[cold]
#[inline(never)]
fn dead_object(address: u64, header: Header) -> ! {
    panic!("a reference to a freed object at {address:#x} (header {:#x})", header.0)
}
