//! Values of the host that objects own, and weak references.
//!
//! An object of kind `Host` holds the index of a slot here. When a collection finds such an object
//! dead, the value moves to a list of the dead; it is dropped when the interpreter asks for that list
//! at a safe point, outside of any lock: a value's `Drop` may do what it likes.

use std::any::Any;
use std::fmt;

use super::layout::TypeIndex;
use super::local::LocalHeap;
use super::mark::Tracer;
use super::object::{self, Kind};
use super::shared::HeapFull;
use super::size;

/// A value of the host inside an object.
///
/// Its `Drop` runs after the collection that found the object dead, once, on the carrier that
/// collected; the objects that it referred to may be gone by then.
pub trait HostValue: Any + Send + Sync {
    /// Tells the references that the value holds. Must not take locks that code waiting for a
    /// safepoint may hold.
    fn trace(&self, tracer: &mut Tracer<'_>) {
        let _ = tracer;
    }

    /// Bytes that the value holds when its object is made, to be counted.
    fn bytes(&self) -> usize {
        0
    }
}

/// A reference that keeps nothing alive.
#[allow(dead_code, reason = "for weak references of the library")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeakRef {
    place: u32,
    generation: u32,
}

struct Slot {
    owner: u64,
    bytes: usize,
    value: std::sync::Arc<dyn HostValue>,
}

#[allow(dead_code, reason = "for weak references of the library")]
#[derive(Debug, Default, Clone, Copy)]
struct Weak {
    word: u64,
    generation: u32,
    used: bool,
}

#[derive(Default)]
pub(super) struct HostTable {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    dead: Vec<Slot>,
    weak: Vec<Weak>,
    #[allow(dead_code, reason = "for weak references of the library")]
    free_weak: Vec<u32>,
}

impl fmt::Debug for HostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.slots.iter().flatten().count();
        f.debug_struct("HostTable").field("live", &live).field("dead", &self.dead.len()).finish()
    }
}

impl HostTable {
    /// Tells the references of the value in a slot.
    pub fn trace(&self, slot: u64, tracer: &mut Tracer<'_>) {
        if let Some(Some(slot)) = self.slots.get(slot as usize) {
            slot.value.trace(tracer);
        }
    }

    /// After marking: moves values whose objects are dead, clears weak references to dead objects.
    pub fn bury(&mut self, is_marked: impl Fn(u64) -> bool) {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if let Some(dead) = slot.take_if(|slot| !is_marked(slot.owner)) {
                self.dead.push(dead);
                self.free.push(i as u32);
            }
        }
        for weak in &mut self.weak {
            if weak.word != 0 && !is_marked(weak.word) {
                weak.word = 0;
            }
        }
    }
}

impl LocalHeap {
    /// An object that owns a value of the host, of a type with the layout
    /// [`Layout::Host`](super::Layout::Host).
    pub fn new_host(
        &self,
        ty: TypeIndex,
        value: std::sync::Arc<dyn HostValue>,
    ) -> Result<u64, HeapFull> {
        let info = self.types().get(ty);
        debug_assert_eq!(info.header.kind(), Kind::Host);
        let bytes = value.bytes();
        self.has_room(bytes)?;
        let object = self.allocate_class(size::class_of(16), info.header)?;
        self.account(bytes as isize);
        let mut hosts = self.shared.hosts();
        let slot = Some(Slot { owner: object, bytes, value });
        let index = match hosts.free.pop() {
            Some(free) => {
                hosts.slots[free as usize] = slot;
                free
            }
            None => {
                hosts.slots.push(slot);
                (hosts.slots.len() - 1) as u32
            }
        };
        // SAFETY: the second word of such an object is its slot.
        unsafe { object::set_field(object, 0, index as u64) };
        Ok(object)
    }

    /// The value that an object owns.
    ///
    /// # Safety
    ///
    /// The address is that of an object of this heap that lives.
    pub unsafe fn host_value(&self, object: u64) -> Option<std::sync::Arc<dyn HostValue>> {
        // SAFETY: the caller's contract; an object has a header, this kind a slot too.
        let slot = unsafe {
            if object::header(object).kind() != Kind::Host {
                return None;
            }
            object::field(object, 0)
        };
        let hosts = self.shared.hosts();
        hosts.slots.get(slot as usize)?.as_ref().map(|slot| slot.value.clone())
    }

    /// Drops the values whose objects were found dead; to be called at a safe point after a
    /// collection, when anything may happen. Returns how many they were.
    ///
    /// Values that are dropped may leave more behind; the caller calls until it gets 0, or next time.
    pub fn drop_dead(&self) -> usize {
        let dead = std::mem::take(&mut self.shared.hosts().dead);
        let count = dead.len();
        for slot in dead {
            self.account(-(slot.bytes as isize));
            drop(slot.value);
        }
        count
    }

    /// A weak reference to an object.
    ///
    /// # Safety
    ///
    /// The address is that of an object of this heap that lives.
    #[allow(dead_code, reason = "for weak references of the library")]
    pub unsafe fn new_weak(&self, object: u64) -> WeakRef {
        let hosts = &mut *self.shared.hosts();
        let place = hosts.free_weak.pop().unwrap_or_else(|| {
            hosts.weak.push(Weak::default());
            (hosts.weak.len() - 1) as u32
        });
        let weak = &mut hosts.weak[place as usize];
        (weak.word, weak.used) = (object, true);
        WeakRef { place, generation: weak.generation }
    }

    /// The object of a weak reference, while it lives.
    #[allow(dead_code, reason = "for weak references of the library")]
    pub fn weak(&self, weak: WeakRef) -> Option<u64> {
        let hosts = self.shared.hosts();
        let entry = hosts.weak.get(weak.place as usize)?;
        (entry.used && entry.generation == weak.generation && entry.word != 0).then_some(entry.word)
    }

    /// Ends a weak reference.
    #[allow(dead_code, reason = "for weak references of the library")]
    pub fn release_weak(&self, weak: WeakRef) {
        let hosts = &mut *self.shared.hosts();
        let Some(entry) = hosts.weak.get_mut(weak.place as usize) else { return };
        if entry.used && entry.generation == weak.generation {
            *entry = Weak { word: 0, generation: entry.generation.wrapping_add(1), used: false };
            if entry.generation != 0 {
                hosts.free_weak.push(weak.place);
            }
        }
    }
}
