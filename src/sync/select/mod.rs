//! Waiting for whichever comes first: `select!` and [`Select`].
//!
//! Each operation is an *arm*. A select completes exactly one: the others consume nothing and lose
//! nothing. The protocol, for arms over any number of channels:
//!
//! 1. **Try.** Each arm in turn tries to complete at once, under its own channel's lock alone. The
//!    turn is drawn by lot, or, in a biased select, as written. Nobody knows of us yet, so nothing
//!    can come in between.
//! 2. **Queue up.** The locks of all channels are taken, in the order of their addresses, each once.
//!    Every arm tries again; if one completes, that is it. Else a wait is begun, and each arm puts a
//!    record of it into its channel's queue. Only then are the locks given back.
//! 3. **Wait.** All records share one epoch, so whoever claims it first (a peer by one of the
//!    records, a deadline, a cancellation) decides the winner, and every later claim fails.
//! 4. **Withdraw.** Each arm takes its record out under its channel's lock. One may find that it was
//!    the one by which the wait was ended; a value that a failed claimer had put into another record
//!    is out of it again by then, since that happens under the same lock.
//!
//! Two selects that face each other cannot both miss each other, nor lock each other out: while one
//! looks for a peer, in step 1 or 2, it has no record in any queue, so it cannot be claimed itself,
//! and claims the peer's epoch as any plain operation does. By the time that its own records can be
//! seen, it looks no more: whoever comes later finds them. All locks at once make that one step;
//! their order keeps two that lock from waiting for each other, and all others hold one lock at a
//! time. No select ever pairs with itself: pairs are made by whoever looks, with those that queue.
//!
//! An arm that waits for a descriptor has a lock of its own for its queue, which it takes while it queues
//! up: readiness is nothing that two could both take, and edges are handed out by our own carrier, so
//! not between the last try and that. What an edge has brought may be gone by the time that we look;
//! then everything begins anew, with the same deadline.
//!
//! A deadline is an arm without a channel: it belongs to the wait. So does a cancellation. The end of
//! a fiber is announced by the task itself, without a lock: it may come while we queue up, and is then
//! as good as a notification.

mod arms;
mod builder;
mod fibers;
mod lots;
mod macros;
mod sources;

use std::ptr;

use self::lots::Lots;
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::party::Party;
use crate::sched::wait::{Epoch, Outcome};
use crate::sched::wakes::Wakes;
use crate::sched::{self, Resource, ResourceKind, Waiting};

pub(crate) use sources::SourceArm;

pub use builder::{Select, SelectTimeoutError, SelectedOperation, TrySelectError};

/// What [`select!`](crate::select) expands to.
#[doc(hidden)]
pub mod __private {
    pub use super::arms::{OneshotArm, ReceiveArm, SendArm, TimerArm};
    pub use super::fibers::{CancellationArm, JoinArm};
    pub use super::macros::{Choice, Erased, Nobody, choose, nobody};
    pub use super::sources::SourceArm;
}

static SELECT: ResourceKind = ResourceKind::without_holder("in a select");
static NOTHING: ResourceKind = ResourceKind::without_holder("in a select without arms");

/// An operation that can win a select. It keeps what came of it.
trait Arm {
    /// Completes if that can be done at once.
    fn attempt(&self) -> bool;

    /// Makes ready to queue up, before any lock is taken. True: that failed, and so it has completed.
    fn prepare(&self) -> bool {
        false
    }

    /// Where its lock lies; 0 if it has none.
    fn lock_address(&self) -> usize {
        0
    }

    /// Takes the lock, which may be that of other arms as well.
    fn lock(&self) {}

    /// Gives it back.
    ///
    /// # Safety
    ///
    /// By the arm that took it.
    unsafe fn unlock(&self) {}

    /// [`attempt`](Self::attempt) under the lock.
    ///
    /// # Safety
    ///
    /// This arm, or another one with that lock address, must have taken the lock.
    unsafe fn attempt_locked(&self, _wakes: &mut Wakes) -> bool {
        false
    }

    /// Queues up for this wait of the calling party.
    ///
    /// # Safety
    ///
    /// As for [`attempt_locked`](Self::attempt_locked). The arm must not be moved until it is
    /// withdrawn.
    unsafe fn enqueue(&self, _party: &Party, _epoch: Epoch) {}

    /// Leaves the queue again, after the wait.
    fn withdraw(&self) -> Withdrawn {
        Withdrawn::Lost
    }

    /// When it completes by itself.
    fn deadline(&self) -> Instant {
        Instant::FAR_FUTURE
    }

    /// Completes as if disconnected, or as if due. False: it cannot even that.
    fn call_off(&self) -> bool {
        false
    }

    /// Whether it completes when the wait is called off for this reason, instead of an unwind.
    fn takes_cancellation(&self) -> bool {
        false
    }

    /// Which operation it is, and the address of its channel.
    fn operation(&self) -> (Operation, *const ()) {
        (Operation::None, ptr::null())
    }

    /// Drops what came of it, if nobody has taken that.
    fn discard(&self) {}
}

/// What an arm does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    None,
    Receive,
    Send,
}

/// What an arm finds when the wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withdrawn {
    /// Nobody has completed it.
    Lost,
    /// It was by this arm that the wait was ended, and it has completed. This is so for one at most.
    Won,
    /// Now it may complete at once; it consumes nothing before.
    Ready,
}

/// How a select was left without any arm having completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missed {
    /// None could at once.
    NoneReady,
    /// The time was up.
    TimedOut,
}

/// What a select does when no arm can complete at once.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Instant),
}

/// Completes one of the arms and says which. `order` names each once; it is left in disorder.
#[inline]
fn select(
    arms: &[&dyn Arm],
    order: &mut [usize],
    biased: bool,
    patience: Patience,
) -> Result<usize, Missed> {
    debug_assert_eq!(arms.len(), order.len());
    loop {
        let mut lots = Lots::draw_if(!biased && arms.len() > 1);
        for turn in 0..order.len() {
            if !biased {
                // Each drawn from those that are left (Fisher and Yates), as far as needed.
                order.swap(turn, turn + lots.below(order.len() - turn));
            }
            if arms[order[turn]].attempt() {
                return Ok(order[turn]);
            }
        }
        let Patience::Until(deadline) = patience else { return Err(Missed::NoneReady) };
        if let Some(result) = wait(arms, order, deadline) {
            return result;
        }
        order.iter_mut().enumerate().for_each(|(place, arm)| *arm = place);
    }
}

/// `None`: whoever ended the wait has left nothing, and everything is to be tried again.
#[inline(never)]
fn wait(
    arms: &[&dyn Arm],
    order: &mut [usize],
    deadline: Instant,
) -> Option<Result<usize, Missed>> {
    if let Some(arm) = (0..arms.len()).find(|&arm| arms[arm].prepare()) {
        return Some(Ok(arm));
    }
    let alarm = (0..arms.len()).min_by_key(|&arm| arms[arm].deadline());
    let alarm = alarm.filter(|&arm| arms[arm].deadline() < deadline);
    let deadline = alarm.map_or(deadline, |arm| arms[arm].deadline());
    let party = current_party();

    order.sort_unstable_by_key(|&arm| arms[arm].lock_address());
    let lockers = || order.chunk_by(|&a, &b| arms[a].lock_address() == arms[b].lock_address());
    let mut wakes = Wakes::new();
    lockers().for_each(|same| arms[same[0]].lock());
    // SAFETY: all locks are taken, each by the first arm that has it.
    let ready = (0..arms.len()).find(|&arm| unsafe { arms[arm].attempt_locked(&mut wakes) });
    let epoch = ready.is_none().then(|| party.begin());
    if let Some(epoch) = epoch {
        // SAFETY: as above. The arms are borrowed until they have been withdrawn below.
        arms.iter().for_each(|arm| unsafe { arm.enqueue(party, epoch) });
    }
    // SAFETY: the same arms have taken the locks.
    lockers().for_each(|same| unsafe { arms[same[0]].unlock() });
    drop(wakes);
    let Some(epoch) = epoch else { return Some(ready.ok_or(Missed::NoneReady)) };

    let resource = Resource::new(if arms.is_empty() { &NOTHING } else { &SELECT });
    sched::wait(party, epoch, Waiting::On(&raw const resource), deadline);
    let outcome = party.waiter.finish();
    let (mut winner, mut ready) = (None, None);
    for (arm, withdrawn) in arms.iter().enumerate() {
        match withdrawn.withdraw() {
            Withdrawn::Won => winner = Some(arm),
            Withdrawn::Ready => ready = ready.or(Some(arm)),
            Withdrawn::Lost => {}
        }
    }
    if outcome == Outcome::Cancelled
        && let Some(arm) = (0..arms.len()).find(|&arm| arms[arm].takes_cancellation())
    {
        return Some(Ok(arm));
    }
    check_cancelled(outcome);
    let result = match (outcome, winner.or_else(|| ready.filter(|&arm| arms[arm].attempt()))) {
        (_, Some(arm)) => Ok(arm),
        (Outcome::TimedOut, None) => match alarm {
            Some(arm) if arms[arm].call_off() => Ok(arm),
            _ => Err(Missed::TimedOut),
        },
        (Outcome::Cancelled, None) => Ok(called_off(arms)),
        // By a descriptor that was ready, and is not any more: somebody else was quicker.
        (Outcome::Notified, None) => return None,
    };
    Some(result)
}

/// In a destructor while the runtime ends: the first arm finds its channel disconnected, or its time
/// come.
#[cold]
fn called_off(arms: &[&dyn Arm]) -> usize {
    let first = (0..arms.len()).find(|&arm| arms[arm].call_off());
    first.expect("a select without arms, in a destructor while the runtime ends, cannot return")
}
