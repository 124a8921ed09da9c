//! What fibers wait for together: the part of a lock or channel that reports can ask.

use std::fmt::{self, Write};

use super::party::ThreadId;

/// A field of every primitive that queues waiters; its kind knows where.
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
    /// Adds to that what is known of this very resource: " #3 (capacity 8, full)".
    pub(crate) detail: unsafe fn(*const Resource, &mut dyn Write) -> fmt::Result,
    /// Who alone can end the waits now, if that is known: the holder of a lock.
    pub(crate) holder: unsafe fn(*const Resource) -> Option<ThreadId>,
}

unsafe fn nothing(_: *const Resource, _: &mut dyn Write) -> fmt::Result {
    Ok(())
}

impl ResourceKind {
    /// A kind without a holder.
    pub(crate) const fn without_holder(wish: &'static str) -> Self {
        unsafe fn nobody(_: *const Resource) -> Option<ThreadId> {
            None
        }
        ResourceKind { wish, detail: nothing, holder: nobody }
    }

    /// A kind that can be held.
    pub(crate) const fn with_holder(
        wish: &'static str,
        holder: unsafe fn(*const Resource) -> Option<ThreadId>,
    ) -> Self {
        ResourceKind { wish, detail: nothing, holder }
    }

    /// The same, with what can be said of each.
    pub(crate) const fn detailed(
        self,
        detail: unsafe fn(*const Resource, &mut dyn Write) -> fmt::Result,
    ) -> Self {
        ResourceKind { detail, ..self }
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
    /// `this` must be part of a living primitive of its kind.
    pub(crate) unsafe fn holder(this: *const Resource) -> Option<ThreadId> {
        // SAFETY: by the contract.
        unsafe { ((*this).kind.holder)(this) }
    }

    /// "to lock a mutex".
    ///
    /// # Safety
    ///
    /// As for [`holder`](Self::holder).
    pub(crate) unsafe fn describe(this: *const Resource, to: &mut dyn Write) -> fmt::Result {
        // SAFETY: by the contract.
        unsafe {
            to.write_str((*this).kind.wish)?;
            ((*this).kind.detail)(this, to)
        }
    }
}
