//! Fibers and OS threads of the host at the queues of a machine.
//!
//! A *guest* is a fiber on the carrier of the machine's tasks that waits in one of their queues, with
//! a node of its own; the machine knows its guests, so that the collector sees what is handed to them,
//! and lets them go when the call of the host ends. Whoever runs elsewhere sends a fiber over.
//!
//! The *gate* says where a machine's tasks run, if they do:
//!
//! ```text
//!   Idle ──call──► Inline ──needs a task──► Open ──end──► Idle
//! ```
//!
//! While the function that the host has called runs inline, on its caller's stack, nobody else can use
//! the machine; whoever comes meanwhile waits for the gate.

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::core::Core;
use super::wait::{GuestWait, State, Wait};
use crate::sched::carrier::{Carrier, current_party};
use crate::sched::clock::Instant;
use crate::sched::party::ThreadId;
use crate::sched::wakeup::Wakeup;
use crate::sched::{Handle, Mailbox, SharedRuntime};
use crate::thread;
use crate::vm::native::{Waiting, Word};

/// Where the tasks of a machine run.
#[derive(Default)]
enum Place {
    /// No call is under way.
    #[default]
    Idle,
    /// On the stack of this party.
    Inline(ThreadId),
    /// As tasks of this runtime, on the carrier with this mailbox.
    Open(Arc<SharedRuntime>, &'static Mailbox),
}

#[derive(Default)]
pub(super) struct Gate {
    place: Place,
    /// How many things the host holds by which other OS threads come to the machine.
    exported: usize,
    /// Tells the runtime of them, while there are any.
    handle: Option<Handle>,
}

/// The gate with those who wait for it.
#[derive(Default)]
pub(super) struct Entrance {
    gate: Mutex<Gate>,
    moved: Condvar,
}

/// How somebody gets to the machine.
pub(crate) enum Way {
    /// It runs where the tasks run.
    Here,
    /// It sends a fiber.
    There(Messenger),
}

/// Spawns fibers on the carrier where the tasks of a machine run.
pub(crate) struct Messenger {
    handle: Handle,
    carrier: &'static Mailbox,
}

impl Messenger {
    /// As [`Handle::spawn`].
    #[track_caller]
    pub(crate) fn spawn<F, T>(&self, f: F) -> thread::JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle.spawn_at(self.carrier, f)
    }
}

/// Why nobody gets to the machine, or not any more: no call of it is under way, or only this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotRunning;

/// How a guest's wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// With this word, which is to be used at once: it is a root no more.
    Served(Word),
    /// It is to be tried again.
    Again,
    Closed,
    TimedOut,
}

impl Entrance {
    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_inline(&self) {
        self.gate().place = Place::Inline(current_party().id);
    }

    pub(super) fn open(&self, carrier: &Carrier) {
        let gate = &mut *self.gate();
        if gate.exported > 0 {
            gate.handle = Some(Handle::of(&carrier.shared));
        }
        gate.place = Place::Open(carrier.shared.clone(), carrier.mailbox());
        self.moved.notify_all();
    }

    pub(super) fn close(&self) {
        let mut gate = self.gate();
        let (place, handle) = (mem::take(&mut gate.place), gate.handle.take());
        self.moved.notify_all();
        // A handle wakes its runtime: not under the lock.
        drop(gate);
        drop((place, handle));
    }

    /// Whether the host holds something by which other OS threads come to the machine.
    pub(super) fn is_exported(&self) -> bool {
        self.gate().exported > 0
    }

    /// The host gets something by which other OS threads may come.
    fn export(&self) {
        let gate = &mut *self.gate();
        gate.exported += 1;
        if let (None, Place::Open(shared, _)) = (&gate.handle, &gate.place) {
            gate.handle = Some(Handle::of(shared));
        }
    }

    fn unexport(&self) {
        let mut gate = self.gate();
        gate.exported -= 1;
        let handle = if gate.exported == 0 { gate.handle.take() } else { None };
        drop(gate);
        drop(handle);
    }

    /// How the caller gets to the machine; waits while that runs inline.
    fn way(&self) -> Result<Way, NotRunning> {
        let mut gate = self.gate();
        loop {
            match &gate.place {
                Place::Idle => return Err(NotRunning),
                Place::Open(shared, at) => {
                    let is_it = |carrier: &Carrier| {
                        Arc::ptr_eq(&carrier.shared, shared) && ptr::eq(carrier.mailbox(), *at)
                    };
                    return Ok(if Carrier::current().is_some_and(is_it) {
                        Way::Here
                    } else {
                        Way::There(Messenger { handle: Handle::of(shared), carrier: at })
                    });
                }
                Place::Inline(who) if *who == current_party().id => return Err(NotRunning),
                Place::Inline(_) if Carrier::current().is_some() => {
                    drop(gate);
                    thread::yield_now();
                    gate = self.gate();
                }
                Place::Inline(_) => {
                    gate = self.moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Core {
    /// Whether guests may come.
    pub(crate) fn has_passes(&self) -> bool {
        self.entrance.is_exported()
    }

    /// How the caller gets to the machine.
    ///
    /// # Errors
    ///
    /// If no call of the machine is under way, or if the caller is its plain native function.
    pub(crate) fn way(&self) -> Result<Way, NotRunning> {
        self.entrance.way()
    }

    /// Waits in a queue of the machine, as a fiber on the carrier of its tasks.
    ///
    /// # Errors
    ///
    /// If the call ends meanwhile.
    ///
    /// # Panics
    ///
    /// In a native function that is not on a fiber, as any call that waits.
    ///
    /// # Safety
    ///
    /// The caller has found the [way](Core::way) to be [here](Way::Here), and has not waited since.
    pub(crate) unsafe fn visit(&self, waiting: Waiting) -> Result<Visit, NotRunning> {
        let Some(task) = Carrier::current().and_then(Carrier::current_task) else {
            return Err(NotRunning);
        };
        let mut wait = Box::new(GuestWait::new(Wakeup::new(task)));
        if wait.wait.park(waiting).is_err() {
            return Err(NotRunning);
        }
        // SAFETY: on the carrier, between the runs of the tasks.
        unsafe { self.machine() }.tasks.guests.push(NonNull::from(&mut *wait));
        let guest = Guest { core: self, wait };
        loop {
            match guest.wait().state() {
                State::Waiting => {}
                // Let go: the machine may be elsewhere by now.
                State::Idle | State::Cancelled => return Err(NotRunning),
                State::Served => return Ok(Visit::Served(guest.wait().node.value)),
                State::Again => return Ok(Visit::Again),
                State::Closed => return Ok(Visit::Closed),
            }
            if guest.wait().is_due() {
                return Ok(Visit::TimedOut);
            }
            // SAFETY: it has not been let go, so the call is under way, on this carrier.
            if self.stopped().is_some() || unsafe { self.machine() }.interrupt.stop_requested() {
                return Err(NotRunning);
            }
            match guest.wait().deadline() {
                far if far.is_far_future() => thread::park(),
                soon => thread::park_timeout(soon.saturating_duration_since(Instant::now())),
            }
        }
    }

    /// Lets all guests go: the call ends.
    pub(super) fn dismiss_guests(&self) {
        // SAFETY: by the call that ends, on the carrier of its tasks.
        let guests = mem::take(unsafe { &mut self.machine().tasks.guests });
        for guest in guests {
            let wait = guest.cast::<Wait>().as_ptr();
            // SAFETY: a guest takes itself out before it goes; its wait comes first.
            unsafe {
                (*wait).leave();
                Wait::wake(wait);
            }
        }
    }
}

/// A wait of a guest, which the machine knows.
struct Guest<'a> {
    core: &'a Core,
    wait: Box<GuestWait>,
}

impl Guest<'_> {
    fn wait(&self) -> &Wait {
        &self.wait.wait
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        if self.wait().state() == State::Idle {
            return;
        }
        // SAFETY: it has not been let go, so the call is under way, on this carrier.
        let guests = unsafe { &mut self.core.machine().tasks.guests };
        let own = ptr::from_ref(&*self.wait);
        guests.retain(|guest| !ptr::eq(guest.as_ptr(), own));
        self.wait.wait.leave();
    }
}

/// What the host holds by which other OS threads may come to the machine: as long as there is one, a
/// deadlock is found only if they all sleep for good.
pub(crate) struct Pass {
    core: std::sync::Weak<Core>,
}

impl Pass {
    pub(crate) fn new(core: &Arc<Core>) -> Pass {
        core.entrance.export();
        Pass { core: Arc::downgrade(core) }
    }

    /// The machine, while it is there.
    pub(crate) fn core(&self) -> Result<Arc<Core>, NotRunning> {
        self.core.upgrade().ok_or(NotRunning)
    }
}

impl Clone for Pass {
    fn clone(&self) -> Pass {
        if let Ok(core) = self.core() {
            core.entrance.export();
        }
        Pass { core: self.core.clone() }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Ok(core) = self.core() {
            core.entrance.unexport();
        }
    }
}
