//! The arms that wait for descriptors: that one is ready, a signal, the end of a child.
//!
//! An edge stands for no certain amount of data, and wakes all who wait. So such an arm completes only
//! by trying again; when nothing is left by then, the select goes on to wait.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::arms::Place;
use super::macros::Erased;
use super::{Arm, Withdrawn};
use crate::sched::party::Party;
use crate::sched::source::{self, Source, Wish};
use crate::sched::wait::{Epoch, Outcome};

/// Completes when a call that would block on a descriptor has something to say.
pub struct SourceArm<T, F> {
    /// `None`: there is nothing to wait for.
    source: Option<Arc<Source>>,
    wish: Wish,
    /// Consumes nothing unless it has a result.
    call: F,
    place: Place<()>,
    result: Cell<Option<io::Result<T>>>,
}

impl<T, F: Fn() -> Option<io::Result<T>>> SourceArm<T, F> {
    pub(crate) fn new(source: &Arc<Source>, wish: Wish, call: F) -> Self {
        let (source, place, result) = (Some(source.clone()), Place::new(), Cell::new(None));
        SourceArm { source, wish, call, place, result }
    }

    /// An arm of which it is known what comes of it.
    pub(crate) fn settled(result: io::Result<T>, call: F) -> Self {
        let (place, result) = (Place::new(), Cell::new(Some(result)));
        SourceArm { source: None, wish: Wish::Read, call, place, result }
    }

    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    /// What came of it, after it has won.
    pub fn finish(&self) -> io::Result<T> {
        self.result.take().expect("an arm that has won has a result")
    }

    fn complete(&self, result: io::Result<T>) -> bool {
        self.result.set(Some(result));
        true
    }
}

impl<T, F: Fn() -> Option<io::Result<T>>> Arm for SourceArm<T, F> {
    fn attempt(&self) -> bool {
        match &self.source {
            None => true,
            Some(source) if source.is_closed() => self.complete(Err(source::closed())),
            Some(_) => (self.call)().is_some_and(|result| self.complete(result)),
        }
    }

    fn prepare(&self) -> bool {
        match self.source.as_ref().map(|source| source.prepare_select()) {
            Some(Err(error)) => self.complete(Err(error)),
            _ => false,
        }
    }

    unsafe fn enqueue(&self, party: &Party, epoch: Epoch) {
        let Some(source) = &self.source else { return };
        let queued = source.with_queue(self.wish, |queue| {
            // SAFETY: the queue is locked; the rest is passed on.
            unsafe { self.place.queue_up(queue, party, epoch, None) };
        });
        if !queued {
            // Just closed. The wait goes on to where it sleeps, as for a fiber that has just ended.
            party.notify(epoch, Outcome::Notified);
        }
    }

    fn withdraw(&self) -> Withdrawn {
        let Some(source) = &self.source else { return Withdrawn::Lost };
        // SAFETY: the queue is locked, and the one of `enqueue`.
        let left = source.leave_queue(self.wish, |queue| unsafe { self.place.leave(queue) });
        match left {
            Some((_, true)) => Withdrawn::Ready,
            _ if source.is_closed() => Withdrawn::Ready,
            _ => Withdrawn::Lost,
        }
    }

    fn call_off(&self) -> bool {
        self.complete(Err(source::called_off()))
    }
}
