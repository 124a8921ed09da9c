//! References that the host holds.
//!
//! A [`Handle`] is a number, not an address: it names the virtual machine and a place in that machine's
//! table, with the place's generation. So a handle that was released, or that belongs to another
//! machine, is an error and never another object.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mark::Tracer;

/// A reference held by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    machine: u64,
    place: u32,
    generation: u32,
}

/// Why a handle names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleError {
    /// It belongs to another virtual machine.
    Foreign,
    /// It was released.
    Released,
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandleError::Foreign => "the handle belongs to another virtual machine",
            HandleError::Released => "the handle was released before",
        })
    }
}

impl std::error::Error for HandleError {}

#[derive(Debug, Default)]
struct Place {
    generation: u32,
    used: bool,
    word: u64,
}

#[derive(Debug, Default)]
struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
}

/// The handles of a virtual machine. Any thread may release one.
#[derive(Debug)]
pub struct HandleTable {
    machine: u64,
    table: Mutex<Table>,
}

impl HandleTable {
    pub(super) fn new() -> HandleTable {
        static MACHINES: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only the number matters.
        let machine = MACHINES.fetch_add(1, Ordering::Relaxed);
        HandleTable { machine, table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle for a reference, which stays alive until the handle is released.
    ///
    /// # Safety
    ///
    /// The word is 0 or the address of an object of this table's heap that lives.
    pub unsafe fn insert(&self, word: u64) -> Handle {
        let table = &mut *self.table();
        let place = table.free.pop().unwrap_or_else(|| {
            table.places.push(Place::default());
            (table.places.len() - 1) as u32
        });
        let entry = &mut table.places[place as usize];
        (entry.used, entry.word) = (true, word);
        Handle { machine: self.machine, place, generation: entry.generation }
    }

    fn entry<'a>(
        &self,
        table: &'a mut Table,
        handle: Handle,
    ) -> Result<&'a mut Place, HandleError> {
        if handle.machine != self.machine {
            return Err(HandleError::Foreign);
        }
        let entry = table.places.get_mut(handle.place as usize);
        entry
            .filter(|entry| entry.used && entry.generation == handle.generation)
            .ok_or(HandleError::Released)
    }

    /// The reference.
    pub fn get(&self, handle: Handle) -> Result<u64, HandleError> {
        Ok(self.entry(&mut self.table(), handle)?.word)
    }

    /// Ends a handle.
    pub fn release(&self, handle: Handle) -> Result<(), HandleError> {
        let table = &mut *self.table();
        let entry = self.entry(table, handle)?;
        (entry.used, entry.word) = (false, 0);
        entry.generation = entry.generation.wrapping_add(1);
        // A place whose generations are used up is not used again: no old handle may fit it.
        if entry.generation != 0 {
            table.free.push(handle.place);
        }
        Ok(())
    }

    /// How many handles there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.table().places.iter().filter(|place| place.used).count()
    }

    pub(super) fn trace(&self, tracer: &mut Tracer<'_>) {
        for place in self.table().places.iter().filter(|place| place.used) {
            tracer.reference(place.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_its_object_until_it_is_released() {
        let (table, other) = (HandleTable::new(), HandleTable::new());
        // SAFETY: the table is not traced; the word stands for an address.
        let handle = unsafe { table.insert(64) };
        assert_eq!(table.get(handle), Ok(64));
        assert_eq!(other.get(handle), Err(HandleError::Foreign));
        assert_eq!(table.release(handle), Ok(()));
        // SAFETY: as above.
        let next = unsafe { table.insert(72) };
        assert_eq!(next.place, handle.place);
        assert_eq!(table.get(handle), Err(HandleError::Released));
        assert_eq!(table.release(handle), Err(HandleError::Released));
        assert_eq!((table.get(next), table.len()), (Ok(72), 1));
    }
}
