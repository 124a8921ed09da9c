//! Several carriers of one runtime: what they share.
//!
//! A runtime with one carrier has no team, and nothing of this costs it anything but a look at an
//! empty `Option`, off the paths of switches. The whole protocol is in `docs/carriers.md`; in short:
//!
//! * A *movable* task lies in the deque of the carrier that has spawned it, or, spawned from outside,
//!   in the team's queue, until a carrier takes it. That carrier is its home from then on, for good.
//! * [`Idlers`] says who sleeps, and sees to it that none does while work lies about.
//! * A carrier *rests* when it sleeps and nothing of its own will wake it: no timer, no descriptor, no
//!   task that waits for a stack. When all rest, the last one judges whether anybody else could.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};

use super::idlers::{self, Idlers};
use super::mailbox::Mailbox;
use super::spawn;
use super::stats::Counters;
use super::task::Task;

/// The most carriers of a runtime.
pub(crate) const MOST: usize = idlers::MOST;

/// A movable task that nobody has taken yet.
pub(crate) struct Job(NonNull<Task>);

// SAFETY: `spawn` lets only tasks be movable whose closure and result are `Send`, or which others may begin
// by the promise of `spawn_movable`; the runtime's reference, which this is, goes with it.
unsafe impl Send for Job {}

impl Job {
    pub(super) fn new(task: NonNull<Task>) -> Job {
        Job(task)
    }

    pub(super) fn into_task(self) -> NonNull<Task> {
        self.0
    }
}

/// What the others know of a carrier.
struct Peer {
    mailbox: &'static Mailbox,
    stealer: Stealer<Job>,
    /// The carrier's end, until it begins.
    worker: Mutex<Option<Worker<Job>>>,
    counters: Counters,
    /// Its thread could not be started.
    is_missing: AtomicBool,
    /// Whom somebody besides the runtime's carriers might wake; while it rests.
    exposed: Mutex<Exposed>,
}

/// Whom of a resting carrier's tasks others might wake.
#[derive(Default)]
pub(super) struct Exposed {
    /// One that waits for a primitive, or for a fiber of another runtime.
    pub(super) surely: bool,
    /// Those that are woken by whoever has a reference, if anybody has. They are alive while their
    /// carrier rests.
    pub(super) by_reference: Vec<*const Task>,
}

// SAFETY: what is asked of these tasks elsewhere is atomic.
unsafe impl Send for Exposed {}

impl Exposed {
    fn is_exposed(&self) -> bool {
        // SAFETY: see the field. Asked for when all carriers rest, and with them all that could make
        // references, or hand them out.
        let is_known = |task: &*const Task| unsafe { (**task).has_other_references() };
        self.surely || self.by_reference.iter().any(is_known)
    }
}

/// See the [module documentation](self).
pub(crate) struct Team {
    peers: Box<[Peer]>,
    /// The home of tasks that nobody has taken.
    nowhere: &'static Mailbox,
    injected: Injector<Job>,
    idlers: Idlers,
    /// How many rest, and above [`RESTING`] how often one has ceased to.
    resting: AtomicU64,
    /// The end has come: each carrier closes.
    stopping: AtomicBool,
    /// Nothing can ever run again.
    stuck: AtomicBool,
}

const CEASED: u64 = 1 << 16;
const RESTING: u64 = CEASED - 1;

impl Team {
    /// One of `count` carriers, the first of which has this mailbox.
    pub(crate) fn new(count: usize, first: &'static Mailbox) -> Team {
        assert!((2..=MOST).contains(&count), "checked by `Builder::build`");
        let peer = |index| {
            let worker = Worker::new_fifo();
            Peer {
                mailbox: if index == 0 { first } else { Mailbox::claim() },
                stealer: worker.stealer(),
                worker: Mutex::new(Some(worker)),
                counters: Counters::default(),
                is_missing: AtomicBool::new(false),
                exposed: Mutex::default(),
            }
        };
        Team {
            peers: (0..count).map(peer).collect(),
            nowhere: Mailbox::claim(),
            injected: Injector::new(),
            idlers: Idlers::new(),
            resting: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// The mailbox of no carrier: home of the tasks that nobody has taken. Nothing is sent there, since
    /// such a task waits for nothing, and its cancellation is noted in itself.
    pub(crate) fn nowhere(&self) -> &'static Mailbox {
        self.nowhere
    }

    pub(super) fn mailbox(&self, index: usize) -> &'static Mailbox {
        self.peers[index].mailbox
    }

    pub(super) fn counters(&self, index: usize) -> &Counters {
        &self.peers[index].counters
    }

    /// The counts of all carriers but the first.
    pub(super) fn further_counters(&self) -> impl Iterator<Item = &Counters> {
        self.peers[1..].iter().map(|peer| &peer.counters)
    }

    /// The carrier's end of its deque; once.
    pub(super) fn take_worker(&self, index: usize) -> Worker<Job> {
        let mut worker = self.peers[index].worker.lock().unwrap_or_else(PoisonError::into_inner);
        worker.take().expect("each carrier begins once")
    }

    // Work.

    /// Takes a task in from a thread that is no carrier.
    pub(crate) fn inject(&self, task: NonNull<Task>) {
        self.injected.push(Job::new(task));
        self.announce();
    }

    /// Work has been published: wakes somebody for it, if need be.
    pub(super) fn announce(&self) {
        if let Some(chosen) = self.idlers.choose() {
            self.peers[chosen].mailbox.nudge();
        }
    }

    /// Whether any work lies about.
    pub(super) fn has_work(&self) -> bool {
        !self.injected.is_empty() || self.peers.iter().any(|peer| !peer.stealer.is_empty())
    }

    pub(super) fn begin_search(&self) {
        self.idlers.begin_search();
    }

    /// The calling carrier has found work, and searches no more.
    pub(super) fn end_search(&self) {
        if self.idlers.find() && self.has_work() {
            self.announce();
        }
    }

    pub(super) fn lie_down(&self, index: usize) {
        self.idlers.lie_down(index);
    }

    pub(super) fn get_up(&self, index: usize) -> bool {
        self.idlers.get_up(index)
    }

    /// Takes work that was brought from outside.
    pub(super) fn take_injected(&self) -> Option<Job> {
        retry(|| self.injected.steal())
    }

    /// Takes work from another carrier than this one.
    pub(super) fn steal(&self, own: usize) -> Option<Job> {
        let others = (1..self.len()).map(|offset| (own + offset) % self.len());
        others.into_iter().find_map(|other| retry(|| self.peers[other].stealer.steal()))
    }

    // Rest.

    fn exposed(&self, index: usize) -> MutexGuard<'_, Exposed> {
        self.peers[index].exposed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling carrier begins to rest.
    pub(super) fn rest(&self, index: usize, exposed: Exposed) {
        *self.exposed(index) = exposed;
        // SeqCst: what it sent before is seen by whoever sees it rest.
        self.resting.fetch_add(1, Ordering::SeqCst);
    }

    /// The calling carrier rests no more. Before it takes in its mail: whoever finds that gone must
    /// not see it rest.
    pub(super) fn cease_to_rest(&self, index: usize) {
        // Whoever judges now finds nobody exposed here, but also what has woken this carrier: in its
        // mailbox, or by the word.
        *self.exposed(index) = Exposed::default();
        self.resting.fetch_add(CEASED - 1, Ordering::SeqCst);
    }

    /// A carrier does not exist, since its thread could not be started.
    pub(super) fn do_without(&self, index: usize) {
        // Relaxed: settled before the main task runs.
        self.peers[index].is_missing.store(true, Ordering::Relaxed);
        self.resting.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether all carriers rest.
    pub(super) fn all_rest(&self) -> bool {
        self.resting.load(Ordering::SeqCst) & RESTING == self.len() as u64
    }

    /// Whether nothing can ever run again, asked by a carrier that rests. `quiet`: whether nobody
    /// outside does anything that could wake a task; asked if somebody might.
    ///
    /// All rested at one time, and none has ceased to since: so none has sent anything that is not in
    /// a mailbox, or that was taken out.
    pub(super) fn is_stuck(&self, has_handles: bool, quiet: impl FnOnce() -> bool) -> bool {
        let seen = self.resting.load(Ordering::SeqCst);
        let idle = || {
            !self.has_work()
                && self.peers.iter().all(|peer| peer.mailbox.is_empty())
                && self.resting.load(Ordering::SeqCst) == seen
        };
        if seen & RESTING != self.len() as u64 || !idle() {
            return false;
        }
        if has_handles || (0..self.len()).any(|index| self.exposed(index).is_exposed()) {
            if !quiet() {
                return false;
            }
            // Whoever is found to sleep, or to be gone, may just have brought something before.
            // Acquire: pairs with the release by which a handle, or a reference, was given up.
            fence(Ordering::Acquire);
        }
        let stuck = idle();
        if stuck {
            // Release: the first carrier, which reports it, sees what the others have done.
            self.stuck.store(true, Ordering::Release);
            self.peers[0].mailbox.nudge();
        }
        stuck
    }

    /// Whether it was found that nothing can ever run again.
    pub(crate) fn was_found_stuck(&self) -> bool {
        // Acquire: see `is_stuck`.
        self.stuck.load(Ordering::Acquire)
    }

    // The end.

    /// Has all carriers close.
    pub(super) fn stop(&self) {
        // SeqCst: before the looks of those that are about to sleep.
        self.stopping.store(true, Ordering::SeqCst);
        for peer in &self.peers {
            peer.mailbox.nudge();
        }
    }

    /// Ends what was brought from outside and no carrier took.
    pub(super) fn drop_injected(&self) {
        while let Some(job) = self.take_injected() {
            spawn::refuse(job.into_task());
        }
    }

    /// Those of all other carriers.
    pub(super) fn mailboxes_of_others(&self, own: usize) -> impl Iterator<Item = &'static Mailbox> {
        let others = self.peers.iter().enumerate().filter(move |&(index, peer)| {
            // Relaxed: it is settled before the main task runs.
            index != own && !peer.is_missing.load(Ordering::Relaxed)
        });
        others.map(|(_, peer)| peer.mailbox)
    }

    /// Those of the carriers, and the one of none.
    pub(super) fn mailboxes(&self) -> impl Iterator<Item = &'static Mailbox> {
        self.peers.iter().map(|peer| peer.mailbox).chain([self.nowhere])
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

fn retry(mut attempt: impl FnMut() -> Steal<Job>) -> Option<Job> {
    loop {
        match attempt() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
