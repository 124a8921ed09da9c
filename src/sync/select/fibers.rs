//! The arms that are about fibers: the end of another one, and the cancellation of this one.

use std::cell::{Cell, RefCell};
use std::thread::Result;

use super::macros::Erased;
use super::{Arm, Withdrawn};
use crate::sched::cancel::is_calling_off;
use crate::sched::party::Party;
use crate::sched::wait::{Epoch, Outcome};
use crate::thread::{Cancelled, Joinable};

/// Joins a fiber; the handle goes back to where it came from if another arm wins.
pub struct JoinArm<'a, H: Joinable> {
    handle: RefCell<Option<H>>,
    origin: &'a mut Option<H>,
    /// Whether the fiber is to wake us.
    registered: Cell<bool>,
    result: Cell<Option<Result<H::Output>>>,
}

impl<'a, H: Joinable> JoinArm<'a, H> {
    #[inline]
    pub fn new(origin: &'a mut Option<H>) -> Self {
        let handle = RefCell::new(origin.take());
        JoinArm { handle, origin, registered: Cell::new(false), result: Cell::new(None) }
    }

    #[inline]
    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    /// What came of it, after it has won.
    pub fn finish(&self) -> Result<H::Output> {
        self.result.take().expect("an arm that has won has a result")
    }

    fn has_ended(&self) -> bool {
        self.handle.borrow().as_ref().is_some_and(|handle| handle.__handle().is_finished())
    }
}

impl<H: Joinable> Drop for JoinArm<'_, H> {
    fn drop(&mut self) {
        *self.origin = self.handle.take();
    }
}

impl<H: Joinable> Arm for JoinArm<'_, H> {
    fn attempt(&self) -> bool {
        let ended = self.has_ended();
        if ended {
            self.result.set(self.handle.take().map(Joinable::__join));
        }
        ended
    }

    unsafe fn enqueue(&self, party: &Party, epoch: Epoch) {
        let handle = self.handle.borrow();
        let Some(task) = handle.as_ref().map(|handle| handle.__handle().task()) else { return };
        // One that goes on in the process that forked this one never ends here.
        if task.party.is_left_behind() {
            return;
        }
        // SAFETY: the handle is in this arm; `withdraw` follows.
        if unsafe { task.set_joiner(party, epoch, false) } {
            self.registered.set(true);
        } else {
            // It has just ended. The wait goes on to where it sleeps, so that it has to be woken like
            // any other; if something else has ended it already, that will do.
            party.notify(epoch, Outcome::Notified);
        }
    }

    fn withdraw(&self) -> Withdrawn {
        if self.registered.take()
            && let Some(handle) = &*self.handle.borrow()
        {
            // SAFETY: registered by this party.
            unsafe { handle.__handle().task().clear_joiner() };
        }
        if self.has_ended() { Withdrawn::Ready } else { Withdrawn::Lost }
    }

    fn call_off(&self) -> bool {
        let Some(handle) = self.handle.take() else { return false };
        drop(handle);
        self.result.set(Some(Err(Box::new(Cancelled::NEW))));
        true
    }
}

/// Completes when the calling fiber is cancelled.
pub struct CancellationArm;

impl CancellationArm {
    #[inline]
    pub fn erase(&self) -> Erased<'_> {
        Erased(self)
    }

    #[inline]
    pub fn finish(&self) {}
}

impl Arm for CancellationArm {
    fn attempt(&self) -> bool {
        is_calling_off()
    }

    fn takes_cancellation(&self) -> bool {
        is_calling_off()
    }

    fn call_off(&self) -> bool {
        true
    }
}
