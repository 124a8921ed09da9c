//! Counts the fibers of a scope: what [`thread::scope`](crate::thread::scope) waits for.

use std::cell::Cell;

use super::cancel::shielded;
use super::carrier::{Carrier, current_party};
use super::clock::Instant;
use super::fiber::Waiting;
use super::party::Party;
use super::wait::{Epoch, Outcome};

/// What a scope and its fibers, all on one carrier, share.
pub(crate) struct Tally {
    running: Cell<usize>,
    /// Whether a fiber panicked whose handle was not joined.
    panicked: Cell<bool>,
    /// The fiber that waits for the others; only while it does.
    waiter: Cell<Option<(*const Party, Epoch)>>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Tally { running: Cell::new(0), panicked: Cell::new(false), waiter: Cell::new(None) }
    }

    pub(crate) fn running(&self) -> usize {
        self.running.get()
    }

    pub(crate) fn panicked(&self) -> bool {
        self.panicked.get()
    }

    /// A fiber of the scope panicked, and nobody joins it.
    pub(crate) fn note_panic(&self) {
        self.panicked.set(true);
    }

    /// Whether this party waits for the tasks of the scope.
    pub(super) fn is_awaited_by(&self, party: &Party) -> bool {
        self.waiter.get().is_some_and(|(waiter, _)| std::ptr::eq(waiter, party))
    }

    /// Cancels every task of the scope.
    pub(crate) fn cancel(&self) {
        if let Some(carrier) = Carrier::current() {
            carrier.cancel_children(|tally| std::ptr::eq(tally, self));
        }
    }

    pub(crate) fn begin_one(&self) {
        self.running.set(self.running.get() + 1);
    }

    /// A task of the scope has ended: nothing of it borrows any more.
    pub(crate) fn end_one(&self) {
        self.running.set(self.running.get() - 1);
        if self.running.get() == 0
            && let Some((waiter, epoch)) = self.waiter.take()
        {
            // SAFETY: the waiting fiber clears this before it goes on, on this same thread.
            unsafe { (*waiter).notify_here(epoch, Outcome::Notified) };
        }
    }

    /// Waits until every task of the scope has ended. Not to be called off: a fiber that is cancelled
    /// meanwhile cancels them.
    ///
    /// When the runtime closes, the tasks, being newer, have been ended before this fiber is told
    /// to unwind; so the wait is then over at once.
    pub(crate) fn wait(&self) {
        while self.running.get() > 0 {
            let party = current_party();
            let epoch = party.begin();
            self.waiter.set(Some((party, epoch)));
            let waiting = Waiting::Scope(self.running.get());
            shielded(|| super::wait(party, epoch, waiting, Instant::FAR_FUTURE));
            self.waiter.set(None);
            party.waiter.finish();
        }
    }
}
