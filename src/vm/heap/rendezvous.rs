//! The rendezvous of the carriers of a heap: all the others stand still while one collects.
//!
//! A carrier is in one of three states, of which its [`Station`] tells the first from the others:
//!
//! ```text
//!              enter                    stop
//!   outside ──────────► inside ────────────────────► collecting, or standing
//!      ▲                 │  ▲                                 │
//!      └─────────────────┘  └─────────────────────────────────┘
//!              leave                 the collection is over
//! ```
//!
//! *Inside*, it may touch objects. *Outside*, it has no references but what others tell the collector, and
//! may sleep or block for as long as it likes: it counts as stopped, and `enter` waits while somebody
//! collects. Whoever comes to [`stop`](Rendezvous::stop) first collects; it has asked those inside for a
//! collection, which they look at by their counter, so each comes there as well, within a slice. It
//! then lends what the collector needs of it, and stands.
//!
//! Entering and leaving touch no word that others write, but in a collection:
//!
//! * Who enters says so in its own station, then reads `stopping`; who stops the others writes `stopping`,
//!   then reads the stations. Both orders are sequentially consistent, so one of the two sees the other:
//!   either the carrier steps back, or the collector waits for it.
//! * Who leaves says so in its station, then reads `stopping`, and wakes the collector if that is set. If
//!   it reads that it is not, the collector has not looked at the station yet.
//! * What a carrier wrote inside is seen by the collector, which has read from its station that it is
//!   outside. What the collector wrote is seen by whoever enters later: it has read that nobody stops the
//!   others, in the last word that a collector wrote before the carrier's own was seen.
//!
//! All else is under the lock. What is lent is taken back by its owner alone: so a carrier that is slow to
//! go on stands in the next collection as well.
//!
//! Only atomics and a lock here: a model checker runs this file as it stands (`tests/loom`).

use std::sync::{Arc, PoisonError};

use super::atomic::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, settle};

/// Whether a carrier is inside.
#[derive(Debug)]
pub(crate) struct Station {
    inside: AtomicBool,
}

/// See the [module documentation](self). `T` is what a standing carrier lends.
#[derive(Debug)]
pub(crate) struct Rendezvous<T> {
    /// Somebody collects, or waits for the others to stop.
    stopping: AtomicBool,
    /// How many carriers there are.
    carriers: AtomicUsize,
    world: Mutex<World<T>>,
    /// The state of a carrier has changed, or the collection is over.
    moved: Condvar,
}

#[derive(Debug)]
struct World<T> {
    members: Vec<Member<T>>,
    /// As `stopping`.
    stopped: bool,
}

#[derive(Debug)]
struct Member<T> {
    station: Arc<Station>,
    /// While it stands.
    lent: Option<T>,
}

impl<T: Copy> Rendezvous<T> {
    pub(crate) fn new() -> Rendezvous<T> {
        Rendezvous {
            stopping: AtomicBool::new(false),
            carriers: AtomicUsize::new(0),
            world: Mutex::new(World { members: Vec::new(), stopped: false }),
            moved: Condvar::new(),
        }
    }

    fn world(&self) -> MutexGuard<'_, World<T>> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, world: MutexGuard<'a, World<T>>) -> MutexGuard<'a, World<T>> {
        self.moved.wait(world).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_end<'a>(&self, mut world: MutexGuard<'a, World<T>>) -> MutexGuard<'a, World<T>> {
        while world.stopped {
            world = self.wait(world);
        }
        world
    }

    /// How many carriers there are.
    #[inline(always)]
    pub(crate) fn carriers(&self) -> usize {
        // Relaxed: nothing runs that relies on the number while it changes.
        self.carriers.load(Ordering::Relaxed)
    }

    /// One carrier more, which is outside.
    pub(crate) fn join(&self) -> Arc<Station> {
        let station = Arc::new(Station { inside: AtomicBool::new(false) });
        let mut world = self.wait_for_end(self.world());
        world.members.push(Member { station: station.clone(), lent: None });
        self.carriers.store(world.members.len(), Ordering::Relaxed);
        station
    }

    /// A carrier goes for good, which is outside.
    pub(crate) fn part(&self, station: &Arc<Station>) {
        let mut world = self.world();
        world.members.retain(|member| !Arc::ptr_eq(&member.station, station));
        self.carriers.store(world.members.len(), Ordering::Relaxed);
    }

    /// A carrier goes inside; it waits while somebody collects.
    #[inline]
    pub(crate) fn enter(&self, station: &Station) {
        // SeqCst, here and in `leave`: see the module documentation.
        station.inside.store(true, Ordering::SeqCst);
        settle();
        if self.stopping.load(Ordering::SeqCst) {
            self.enter_slowly(station);
        }
    }

    #[cold]
    fn enter_slowly(&self, station: &Station) {
        let world = self.world();
        station.inside.store(false, Ordering::SeqCst);
        self.moved.notify_all();
        let world = self.wait_for_end(world);
        // Under the lock: nobody begins to look at the stations meanwhile.
        station.inside.store(true, Ordering::SeqCst);
        drop(world);
    }

    /// A carrier goes outside.
    #[inline]
    pub(crate) fn leave(&self, station: &Station) {
        station.inside.store(false, Ordering::SeqCst);
        settle();
        if self.stopping.load(Ordering::SeqCst) {
            self.tell_collector();
        }
    }

    #[cold]
    fn tell_collector(&self) {
        // Under the lock, the collector has either not looked at the station yet, or waits.
        let world = self.world();
        self.moved.notify_all();
        drop(world);
    }

    /// Stops all other carriers, and returns when they have. If another one does that, stands still
    /// instead until it is over, with something lent to it.
    ///
    /// The caller is inside, or the only carrier.
    pub(crate) fn stop(&self, station: &Arc<Station>, lent: T) -> Option<Stopped<'_, T>> {
        let is_own = |member: &Member<T>| Arc::ptr_eq(&member.station, station);
        let mut world = self.world();
        if world.stopped {
            let lend = |world: &mut World<T>, lent: Option<T>| {
                let own = world.members.iter_mut().find(|member| is_own(member));
                own.expect("a carrier is a member").lent = lent;
            };
            lend(&mut world, Some(lent));
            station.inside.store(false, Ordering::SeqCst);
            self.moved.notify_all();
            world = self.wait_for_end(world);
            lend(&mut world, None);
            station.inside.store(true, Ordering::SeqCst);
            return None;
        }
        world.stopped = true;
        self.stopping.store(true, Ordering::SeqCst);
        settle();
        let runs =
            |member: &Member<T>| !is_own(member) && member.station.inside.load(Ordering::SeqCst);
        while world.members.iter().any(runs) {
            world = self.wait(world);
        }
        let lent = world.members.iter().filter_map(|member| member.lent).collect();
        Some(Stopped { rendezvous: self, lent })
    }
}

/// All other carriers stand still, or are outside, until this is dropped.
#[derive(Debug)]
pub(crate) struct Stopped<'a, T: Copy> {
    rendezvous: &'a Rendezvous<T>,
    lent: Vec<T>,
}

impl<T: Copy> Stopped<'_, T> {
    /// What those that stand have lent.
    pub(crate) fn lent(&self) -> &[T] {
        &self.lent
    }
}

impl<T: Copy> Drop for Stopped<'_, T> {
    fn drop(&mut self) {
        let mut world = self.rendezvous.world();
        world.stopped = false;
        self.rendezvous.stopping.store(false, Ordering::SeqCst);
        self.rendezvous.moved.notify_all();
    }
}
