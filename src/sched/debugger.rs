//! What a debugger reads: one symbol, `PIRN_DEBUG`, that leads to every fiber.
//!
//! `tools/gdb/pirn.py` must work where the program has no type information (release builds have line
//! tables only), and in core files, where no code can be called. So it reads memory, and this table
//! tells it how: it lists the carriers, and says at which offsets they and their tasks keep what a
//! debugger asks for.
//!
//! ```text
//!   PIRN_DEBUG ──► Carrier ──► registry: Vec ──► Task ──► id, box with name, Location of its spawn
//!                    │ current                     │ fiber (null: has not begun)
//!                    ▼                             ▼
//!                  Fiber                         Fiber ──► context: sp, base, frame, pc; waiting
//! ```
//!
//! The script knows the order of the fields of [`Table`], which are words, and checks the version.
//! Types of std keep the order of *their* fields to themselves; it is found out by looking, when the
//! first carrier begins, so that a release of Rust that changes it breaks nothing. What could not
//! be found is [`UNKNOWN`], and the script shows a question mark.
//!
//! The debugger looks only while all threads stand still, so no ordering is needed here. One that
//! stops a thread in the middle of a change of a table may see the table torn, as with every
//! container.

use std::mem::offset_of;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::carrier::Carrier;
use super::fiber::{Fiber, Waiting};
use super::party::Party;
use super::registry::Registry;
use super::task::Task;
use super::wait::Waiter;
use crate::context::pirn_coroutine_entry;

/// How many carriers can be listed at once. Those beyond are only counted.
const CARRIERS: usize = 64;

/// An offset that is not known.
const UNKNOWN: usize = usize::MAX;

/// Offsets, in bytes, of what the script reads in pirn's own types.
#[repr(C)]
struct Offsets {
    carrier_current: usize,
    carrier_tasks: usize,
    carrier_starved: usize,
    task_id: usize,
    task_name: usize,
    task_wait: usize,
    task_fiber: usize,
    task_spawned_at: usize,
    fiber_context: usize,
    fiber_waiting: usize,
}

/// Offsets in std's types, found out by [`Found::look`].
#[repr(C)]
struct Found {
    vec_pointer: AtomicUsize,
    vec_len: AtomicUsize,
    name_pointer: AtomicUsize,
    name_len: AtomicUsize,
    location_file: AtomicUsize,
    location_file_len: AtomicUsize,
    location_line: AtomicUsize,
    location_column: AtomicUsize,
}

/// A running carrier; unused while `carrier` is null.
#[repr(C)]
struct Entry {
    carrier: AtomicPtr<Carrier>,
    /// The kernel's number of its thread; 0 while it is not known.
    thread: AtomicUsize,
}

impl Entry {
    const fn unused() -> Entry {
        Entry { carrier: AtomicPtr::new(ptr::null_mut()), thread: AtomicUsize::new(0) }
    }
}

/// What stands at `PIRN_DEBUG`. Every field is made of words; the script knows their order.
#[repr(C)]
pub(crate) struct Table {
    /// "pirn-gdb".
    magic: [u8; 8],
    /// Changes with every change of this layout or of what the numbers in it mean.
    version: usize,
    /// A frame of this function, with the base register 32 bytes below a fiber's context, unwinds
    /// to that fiber; see `asm/<arch>.S`.
    coroutine_entry: unsafe extern "C" fn(),
    offsets: Offsets,
    found: Found,
    /// Carriers that run but had no room below.
    unlisted: AtomicUsize,
    /// The number of `carriers`.
    capacity: usize,
    carriers: [Entry; CARRIERS],
}

/// See the [module documentation](self).
#[unsafe(no_mangle)]
#[used]
pub(crate) static PIRN_DEBUG: Table = Table {
    magic: *b"pirn-gdb",
    version: 2,
    coroutine_entry: pirn_coroutine_entry,
    offsets: Offsets {
        carrier_current: offset_of!(Carrier, current),
        carrier_tasks: offset_of!(Carrier, registry) + offset_of!(Registry, tasks),
        carrier_starved: offset_of!(Carrier, starved),
        task_id: offset_of!(Task, party) + offset_of!(Party, id),
        task_name: offset_of!(Task, party) + offset_of!(Party, name),
        task_wait: offset_of!(Task, party) + offset_of!(Party, waiter) + offset_of!(Waiter, word),
        task_fiber: offset_of!(Task, fiber),
        task_spawned_at: offset_of!(Task, spawned_at),
        fiber_context: offset_of!(Fiber, context),
        fiber_waiting: offset_of!(Fiber, waiting),
    },
    found: Found {
        vec_pointer: AtomicUsize::new(UNKNOWN),
        vec_len: AtomicUsize::new(UNKNOWN),
        name_pointer: AtomicUsize::new(UNKNOWN),
        name_len: AtomicUsize::new(UNKNOWN),
        location_file: AtomicUsize::new(UNKNOWN),
        location_file_len: AtomicUsize::new(UNKNOWN),
        location_line: AtomicUsize::new(UNKNOWN),
        location_column: AtomicUsize::new(UNKNOWN),
    },
    unlisted: AtomicUsize::new(0),
    capacity: CARRIERS,
    carriers: [const { Entry::unused() }; CARRIERS],
};

// The script has the words for each kind of waiting, by its number: a new kind needs some there. It
// also knows what the lowest bits of a waiter's word mean.
const _: fn(Waiting) = |waiting| match waiting {
    Waiting::Nothing
    | Waiting::Sleep(_)
    | Waiting::Park(_)
    | Waiting::Join(_)
    | Waiting::Scope(_)
    | Waiting::Timer(_)
    | Waiting::On(_) => {}
};

/// Keeps a carrier listed for as long as it lives.
pub(super) struct Listing(Option<&'static Entry>);

impl Listing {
    /// Lists a carrier that runs on the calling thread.
    pub(super) fn new(carrier: &Carrier) -> Self {
        PIRN_DEBUG.found.look();
        let carrier = ptr::from_ref(carrier).cast_mut();
        // Relaxed, here and below: see the module documentation.
        let entry = PIRN_DEBUG.carriers.iter().find(|entry| {
            let free = ptr::null_mut();
            entry
                .carrier
                .compare_exchange(free, carrier, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        });
        match entry {
            Some(entry) => {
                // SAFETY: no preconditions.
                let thread = unsafe { libc::gettid() };
                entry.thread.store(thread as usize, Ordering::Relaxed);
            }
            None => {
                PIRN_DEBUG.unlisted.fetch_add(1, Ordering::Relaxed);
            }
        }
        Listing(entry)
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        match self.0 {
            Some(entry) => {
                entry.thread.store(0, Ordering::Relaxed);
                entry.carrier.store(ptr::null_mut(), Ordering::Relaxed);
            }
            None => {
                PIRN_DEBUG.unlisted.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Found {
    /// Finds the offsets by looking at specimens whose parts are known: two of each type, since one
    /// part may happen to equal another, but not twice.
    fn look(&self) {
        let tasks = [3, 4].map(|len| {
            let mut tasks: Vec<*const Task> = Vec::with_capacity(2 * len);
            tasks.resize(len, ptr::null());
            tasks
        });
        let names = ["weft", "shuttle"].map(Box::<str>::from);
        let locations = [*Location::caller(), {
            // On a line and in a column of its own.
            *Location::caller()
        }];
        // SAFETY: none of the three types has padding: each is as large as its parts together.
        unsafe {
            set(&self.vec_pointer, find(&tasks, |tasks| tasks.as_ptr().addr()));
            set(&self.vec_len, find(&tasks, Vec::len));
            set(&self.name_pointer, find(&names, |name| name.as_ptr().addr()));
            set(&self.name_len, find(&names, |name| name.len()));
            set(&self.location_file, find(&locations, |at| at.file().as_ptr().addr()));
            set(&self.location_file_len, find(&locations, |at| at.file().len()));
            set(&self.location_line, find(&locations, Location::line));
            set(&self.location_column, find(&locations, Location::column));
        }
    }
}

fn set(offset: &AtomicUsize, found: usize) {
    offset.store(found, Ordering::Relaxed);
}

/// The offset at which each of the objects holds this part of it, or [`UNKNOWN`].
///
/// # Safety
///
/// The objects must have no padding, and V must be an integer type.
unsafe fn find<T, V: Copy + PartialEq>(objects: &[T], part: impl Fn(&T) -> V) -> usize {
    let count = size_of::<T>() / size_of::<V>();
    let holds = |object: &T, index: usize| {
        // SAFETY: within the object, all of whose bytes are initialised.
        let value = unsafe { ptr::from_ref(object).cast::<V>().add(index).read_unaligned() };
        value == part(object)
    };
    (0..count)
        .find(|&index| objects.iter().all(|object| holds(object, index)))
        .map_or(UNKNOWN, |index| index * size_of::<V>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_is_known_with_this_release_of_rust() {
        let found = &PIRN_DEBUG.found;
        found.look();
        for offset in [
            &found.vec_pointer,
            &found.vec_len,
            &found.name_pointer,
            &found.name_len,
            &found.location_file,
            &found.location_file_len,
            &found.location_line,
            &found.location_column,
        ] {
            assert_ne!(offset.load(Ordering::Relaxed), UNKNOWN);
        }
    }

    #[test]
    fn a_carrier_is_listed_while_it_runs() {
        let listed = || {
            let carrier = Carrier::current().map_or(ptr::null(), ptr::from_ref);
            PIRN_DEBUG
                .carriers
                .iter()
                .filter(|_| !carrier.is_null())
                .filter(|entry| entry.carrier.load(Ordering::Relaxed).cast_const() == carrier)
                .count()
        };
        assert_eq!(listed(), 0);
        assert_eq!(crate::run(listed), 1);
    }
}
