//! What fibers wait for together: the part of a lock or channel that reports can ask.

use std::fmt::{self, Write};

use super::party::ThreadId;

/// The first field of every primitive that queues waiters.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Resource {
    kind: &'static ResourceKind,
}

/// What depends on what it is.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ResourceKind {
    /// What a waiter does, after "waits": "to lock a mutex".
    pub(crate) wish: &'static str,
    /// Who alone can end the waits now, if that is known: the holder of a lock.
    pub(crate) holder: unsafe fn(*const Resource) -> Option<ThreadId>,
}

impl ResourceKind {
    /// A kind without a holder.
    pub(crate) const fn without_holder(wish: &'static str) -> Self {
        unsafe fn nobody(_: *const Resource) -> Option<ThreadId> {
            None
        }
        ResourceKind { wish, holder: nobody }
    }
}

impl Resource {
    /// The part of a new primitive; may be made in a static.
    pub(crate) const fn new(kind: &'static ResourceKind) -> Self {
        Resource { kind }
    }

    /// The holder, if there can be one and is.
    ///
    /// # Safety
    ///
    /// `this` must be the first field of a living primitive of its kind.
    pub(crate) unsafe fn holder(this: *const Resource) -> Option<ThreadId> {
        // SAFETY: by the contract.
        unsafe { ((*this).kind.holder)(this) }
    }

    /// "to lock a mutex".
    pub(crate) fn describe(&self, to: &mut dyn Write) -> fmt::Result {
        to.write_str(self.kind.wish)
    }
}
