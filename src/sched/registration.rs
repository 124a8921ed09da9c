//! What a task without a stack has registered with: records in the queues of primitives, each with a
//! share in its primitive, in a list of the task's.
//!
//! [`resumable`](super::resumable) tells when they come and go.

use std::cell::Cell;
use std::pin::Pin;
use std::ptr::{self, NonNull};

use super::resource::Resource;
use crate::sync::waiters::Record;

/// A share in a primitive, by which a parked task waits for it.
pub(crate) trait Pollable: 'static {
    /// What travels through the records of its queue.
    type Item: 'static;

    /// What reports ask. Its address stands for this kind of wait for this primitive.
    fn resource(&self) -> *const Resource;

    /// Takes a record out that may be queued, chosen, or neither, and passes on what had been
    /// handed over.
    fn withdraw(&self, record: &Record<Self::Item>);
}

/// The part of an entry that does not depend on the primitive.
struct Head {
    next: Cell<Option<NonNull<Head>>>,
    resource: *const Resource,
    /// Withdraws an entry from its primitive, and frees it.
    ///
    /// # Safety
    ///
    /// It must be this one, come from a box, and be in no list.
    withdraw: unsafe fn(NonNull<Head>),
    /// In the present resume, or the last one.
    polled: Cell<bool>,
}

/// One registration: on the heap, where its record stays.
#[repr(C)]
struct Entry<P: Pollable> {
    /// First: lists hold its address.
    head: Head,
    record: Record<P::Item>,
    primitive: P,
}

/// See [`Head::withdraw`].
unsafe fn withdraw<P: Pollable>(head: NonNull<Head>) {
    // SAFETY: by the contract. Once withdrawn, the record is in no queue, so nobody else refers to it.
    unsafe {
        let entry = head.cast::<Entry<P>>();
        entry.as_ref().primitive.withdraw(&entry.as_ref().record);
        drop(Box::from_raw(entry.as_ptr()));
    }
}

/// Refers to an entry of the task that is being resumed, which lives until it is settled, withdrawn,
/// or the resume is over.
pub(crate) struct Registration<P: Pollable> {
    entry: NonNull<Entry<P>>,
}

impl<P: Pollable> Registration<P> {
    fn entry(&self) -> &Entry<P> {
        // SAFETY: the handle does not outlive the poll that got it, and giving the entry up takes it.
        unsafe { self.entry.as_ref() }
    }

    pub(crate) fn record(&self) -> Pin<&Record<P::Item>> {
        // SAFETY: it stays in its box until it is dropped there.
        unsafe { Pin::new_unchecked(&self.entry().record) }
    }

    fn primitive(&self) -> &P {
        &self.entry().primitive
    }
}

/// The registrations of a task, the newest first.
pub(super) struct Registrations {
    first: Cell<Option<NonNull<Head>>>,
}

impl Registrations {
    #[inline]
    pub(super) const fn new() -> Self {
        Registrations { first: Cell::new(None) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// What the task registered with first.
    pub(super) fn earliest(&self) -> Option<*const Resource> {
        let mut resource = None;
        self.each(|registered| resource = Some(registered.resource));
        resource
    }

    /// From here on what is polled counts.
    #[inline]
    pub(super) fn begin_resume(&self) {
        self.each(|registered| registered.polled.set(false));
    }

    /// Withdraws what was not polled since [`begin_resume`](Self::begin_resume).
    #[inline]
    pub(super) fn sweep(&self) {
        self.withdraw_those(|head| !head.polled.get());
    }

    #[inline]
    pub(super) fn withdraw_all(&self) {
        self.withdraw_those(|_| true);
    }

    /// The one with this resource, which is polled.
    pub(super) fn find<P: Pollable>(&self, resource: *const Resource) -> Option<Registration<P>> {
        let mut found = None;
        let mut at = self.first.get();
        while let Some(registered) = at {
            // SAFETY: what is in the list is alive.
            let head = unsafe { registered.as_ref() };
            if ptr::eq(head.resource, resource) {
                head.polled.set(true);
                found = Some(registered);
                break;
            }
            at = head.next.get();
        }
        // The resource belongs to a living primitive, which the registration shares: it is this
        // one, and a resource stands for one kind of wait, hence one type.
        found.map(|registered| Registration { entry: registered.cast() })
    }

    /// The record is in no queue yet; nothing is registered with this resource.
    pub(super) fn add<P: Pollable>(
        &self,
        primitive: P,
        record: Record<P::Item>,
    ) -> Registration<P> {
        let entry = Box::new(Entry {
            head: Head {
                next: Cell::new(self.first.get()),
                resource: primitive.resource(),
                withdraw: withdraw::<P>,
                polled: Cell::new(true),
            },
            record,
            primitive,
        });
        let entry = NonNull::from(Box::leak(entry));
        self.first.set(Some(entry.cast()));
        Registration { entry }
    }

    /// Frees one whose record is in no queue and holds nothing.
    pub(super) fn settle<P: Pollable>(&self, registration: Registration<P>) {
        let resource = registration.primitive().resource();
        if let Some(entry) = self.unlink(|head| ptr::eq(head.resource, resource)) {
            // SAFETY: made by `add` for such a primitive, which the resource stands for, and out of
            // the list; the handle is consumed.
            drop(unsafe { Box::from_raw(entry.cast::<Entry<P>>().as_ptr()) });
        }
    }

    /// Withdraws one that has not come to its end.
    pub(super) fn withdraw<P: Pollable>(&self, registration: Registration<P>) {
        let resource = registration.primitive().resource();
        self.withdraw_those(|head| ptr::eq(head.resource, resource));
    }

    #[inline]
    fn each(&self, mut f: impl FnMut(&Head)) {
        let mut at = self.first.get();
        while let Some(registered) = at {
            // SAFETY: what is in the list is alive.
            let head = unsafe { registered.as_ref() };
            at = head.next.get();
            f(head);
        }
    }

    /// Takes the first registration out for which this holds.
    #[inline]
    fn unlink(&self, which: impl Fn(&Head) -> bool) -> Option<NonNull<Head>> {
        let mut place = &self.first;
        while let Some(registered) = place.get() {
            // SAFETY: what is in the list is alive, and stays so while `place` is in use.
            let head = unsafe { registered.as_ref() };
            if which(head) {
                place.set(head.next.take());
                return Some(registered);
            }
            place = &head.next;
        }
        None
    }

    #[inline]
    fn withdraw_those(&self, which: impl Fn(&Head) -> bool) {
        while let Some(registered) = self.unlink(&which) {
            // SAFETY: made by `add`, and out of the list.
            unsafe { (registered.as_ref().withdraw)(registered) };
        }
    }
}

impl Drop for Registrations {
    #[inline]
    fn drop(&mut self) {
        debug_assert!(self.is_empty(), "an ended task has withdrawn everything");
    }
}
