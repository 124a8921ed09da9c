//! The carriers on which the threads of one call run, where these are several.
//!
//! Each carrier has a machine of its own: the one that called has the machine of the host, and makes the
//! others before the first thread can go elsewhere. They run one image on one heap. The table of the
//! threads, and the states that natives keep, are those of the host's machine, to which the others point.
//!
//! What belongs to all of them, and lies in no object that has a lock of its own, is touched under one lock,
//! that of the [crew](Crew): the table, the waits of the threads, the queues in which these lie, and what
//! natives keep. A native function has it for as long as it runs, but for [those](super::super::interp) that
//! touch nothing but their own arguments. So what is said of a machine that "belongs to whoever runs" is said
//! here of the lock.
//!
//! Under the lock nobody comes to a safepoint, nor enters the heap: so who collects waits for one who waits
//! for the lock, and the other way round nobody does.
//!
//! A thread that has begun stays on its carrier: all that runs, ends or drops it does so there. From elsewhere
//! it is woken, by the parking primitive, and cancelled, by its wait; both under the lock, in the table: so it
//! has not ended.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{hint, ptr};

use super::core::Core;
use crate::sched::SharedRuntime;
use crate::sched::carrier::Carrier;
use crate::vm::interp::{Machine, Thread};

/// How often one who finds the lock taken looks again before it sleeps.
const SPINS: u32 = 100;

/// See the [module documentation](self).
pub(crate) struct Crew {
    lock: Mutex<()>,
    /// The number of the carrier that has the lock, and 1; 0 for nobody.
    owner: AtomicUsize,
    seats: Box<[Seat]>,
    /// The runtime whose carriers these are.
    runtime: *const SharedRuntime,
    /// Somebody has told what all have in common, in the present collection.
    told: AtomicBool,
}

/// What a carrier has.
struct Seat {
    /// Its machine. That of the carrier which called is the host's.
    machine: NonNull<Machine>,
    /// The thread that runs, while the carrier collects or stands still.
    running: AtomicPtr<Thread>,
}

// SAFETY: a machine is used by its carrier alone; the rest is atomic, or a lock.
unsafe impl Send for Crew {}
// SAFETY: as above.
unsafe impl Sync for Crew {}

/// The lock of a crew is held.
pub(crate) struct Held<'a> {
    owner: &'a AtomicUsize,
    _guard: MutexGuard<'a, ()>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Relaxed: see `Crew::lock`.
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl Crew {
    /// For so many carriers, of which the calling one has the host's machine.
    ///
    /// # Safety
    ///
    /// Of the machine's tasks there are none yet, and it does not run. It outlives the crew, and its table
    /// and states are touched under the lock only, once another carrier runs.
    pub(super) unsafe fn new(machine: &mut Machine, carriers: usize, here: &Carrier) -> Arc<Crew> {
        let own = here.number();
        let seat = |number| Seat {
            machine: match number == own {
                true => NonNull::from(&mut *machine),
                // SAFETY: the contract is passed on.
                false => NonNull::from(Box::leak(unsafe { machine.beside() })),
            },
            running: AtomicPtr::new(ptr::null_mut()),
        };
        let crew = Arc::new(Crew {
            lock: Mutex::new(()),
            owner: AtomicUsize::new(0),
            seats: (0..carriers).map(seat).collect(),
            runtime: Arc::as_ptr(&here.shared),
            told: AtomicBool::new(false),
        });
        for (number, seat) in crew.seats.iter().enumerate() {
            // SAFETY: nobody runs yet. A machine that points to the crew is used by tasks only while the
            // core keeps it, or one of them does.
            unsafe { (*seat.machine.as_ptr()).join_crew(NonNull::from(&*crew), number) };
        }
        crew
    }

    /// Takes the crew apart, when no task is left: the host's machine is alone again.
    ///
    /// # Safety
    ///
    /// The machine is the one that the crew was made with, and nobody uses another one.
    pub(super) unsafe fn dissolve(self, machine: &mut Machine) {
        machine.leave_crew();
        for seat in &self.seats {
            if seat.machine.as_ptr() != ptr::from_mut(machine) {
                // SAFETY: it came from a box, and is the crew's.
                let mut other = unsafe { Box::from_raw(seat.machine.as_ptr()) };
                other.leave_crew();
                machine.tasks.take_debt(&mut other.tasks);
                machine.own.add(std::mem::take(&mut other.own));
            }
        }
    }

    /// Takes the lock, as the carrier with this number. `None`: it has it already.
    #[inline]
    pub(crate) fn lock(&self, number: usize) -> Option<Held<'_>> {
        // Relaxed: only the carrier itself writes its number, so it reads that exactly if it has the lock.
        if self.owner.load(Ordering::Relaxed) == number + 1 {
            return None;
        }
        let mut spins = 0;
        let guard = loop {
            if let Ok(guard) = self.lock.try_lock() {
                break guard;
            }
            if spins == SPINS {
                break self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            }
            spins += 1;
            hint::spin_loop();
        };
        self.owner.store(number + 1, Ordering::Relaxed);
        Some(Held { owner: &self.owner, _guard: guard })
    }

    /// The number of the calling carrier.
    ///
    /// # Panics
    ///
    /// If it is none of the crew: within a native function that has made a runtime of its own.
    pub(crate) fn number_here(&self) -> usize {
        let is_one = |carrier: &&Carrier| ptr::eq(Arc::as_ptr(&carrier.shared), self.runtime);
        let carrier = Carrier::current().filter(is_one);
        carrier.expect("threads of a script run and spawn on the carriers of its call").number()
    }

    /// The machine of the calling carrier.
    pub(super) fn machine_here(&self) -> NonNull<Machine> {
        self.seats[self.number_here()].machine
    }

    // Collections.

    /// A carrier comes to a collection with this thread running, or goes on.
    pub(crate) fn set_running(&self, number: usize, thread: *mut Thread) {
        // Relaxed: the rendezvous orders it.
        self.seats[number].running.store(thread, Ordering::Relaxed);
    }

    /// Whether a thread runs: then its carrier tells its frames. In a collection.
    pub(crate) fn runs(&self, thread: NonNull<Thread>) -> bool {
        let is_it = |seat: &Seat| seat.running.load(Ordering::Relaxed) == thread.as_ptr();
        self.seats.iter().any(is_it)
    }

    /// Whether the caller is the first to tell what all have in common. In a collection.
    pub(crate) fn tells_common(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// A collection is over. By who has made it.
    pub(crate) fn end_collection(&self) {
        self.told.store(false, Ordering::Relaxed);
    }
}

/// A turn of a thread: while it lasts, its carrier is inside the heap, and core and crew are kept.
pub(super) struct Turn {
    /// Whether it has entered: not if the carrier was inside already.
    entered: bool,
    machine: NonNull<Machine>,
    crew: Arc<Crew>,
    _core: Arc<Core>,
}

impl Turn {
    /// # Safety
    ///
    /// The core is alive.
    pub(super) unsafe fn begin(core: NonNull<Core>, crew: &Arc<Crew>) -> Turn {
        let crew = crew.clone();
        // SAFETY: the contract; a core lives in an `Arc`.
        let core = unsafe {
            Arc::increment_strong_count(core.as_ptr());
            Arc::from_raw(core.as_ptr())
        };
        let machine = crew.machine_here();
        // SAFETY: that of this carrier, which is not used by a reference across this.
        let entered = unsafe { (*machine.as_ptr()).heap.enter_once() };
        Turn { entered, machine, crew, _core: core }
    }

    pub(super) fn machine(&self) -> NonNull<Machine> {
        self.machine
    }

    pub(super) fn lock(&self) -> Option<Held<'_>> {
        self.crew.lock(self.crew.number_here())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.entered {
            // SAFETY: as in `begin`.
            unsafe { (*self.machine.as_ptr()).heap.leave() };
        }
    }
}
