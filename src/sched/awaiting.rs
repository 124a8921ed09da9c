//! A party that does not wait itself: a future that somebody's executor polls. Whoever ends its wait
//! calls its waker.

use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::party::{Kind, Party, PartyRef, ThreadId};
use super::wait::{Epoch, Manner};
use crate::sync::waiters::Record;

/// See the [module documentation](self). Shared with whoever may end its wait.
#[repr(C)]
pub(crate) struct Awaiting {
    /// First: a party with its kind is one of these.
    party: Party,
    waker: Mutex<Option<Waker>>,
}

static KIND: Kind = Kind {
    // SAFETY: made by the box in `new`, and this is called for the last reference.
    destroy: |party| drop(unsafe { Box::from_raw(party.cast::<Awaiting>().as_ptr()) }),
};

impl Awaiting {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The waker of a party whose wait, begun by [`Await::begin`], the caller has claimed.
    pub(super) fn take_waker(party: &Party) -> Option<Waker> {
        debug_assert!(ptr::eq(party.kind, &KIND), "only these are polled");
        // SAFETY: only an `Await` begins such waits, and its party is the first field of this.
        unsafe { &*ptr::from_ref(party).cast::<Awaiting>() }.waker().take()
    }
}

/// A wait of a future.
pub(crate) struct Await {
    party: PartyRef,
}

impl Await {
    /// Nothing that it waits for yet; the waker is called when that has come.
    pub(crate) fn new(waker: &Waker) -> Await {
        // Such a party is nobody to be named.
        let nobody = ThreadId::new(0, 0);
        let party = Party::new(1, nobody, None, None, &KIND);
        let awaiting = Box::new(Awaiting { party, waker: Mutex::new(Some(waker.clone())) });
        // SAFETY: it owns its reference, which this takes over.
        Await { party: unsafe { PartyRef::from_raw(Box::into_raw(awaiting).cast()) } }
    }

    pub(crate) fn party(&self) -> &Party {
        &self.party
    }

    /// It is polled with this waker now. To be followed by a look at what it waits for: that may have
    /// come while the waker was another. Not under a lock.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        // SAFETY: an `Await` has such a party.
        let awaiting = unsafe { &*ptr::from_ref(&*self.party).cast::<Awaiting>() };
        let mut place = awaiting.waker();
        if place.as_ref().is_some_and(|old| old.will_wake(waker)) {
            return;
        }
        drop(place);
        let new = Some(waker.clone());
        place = awaiting.waker();
        let old = mem::replace(&mut *place, new);
        drop(place);
        drop(old);
    }

    /// Begins the wait. Once.
    pub(crate) fn begin(&self) -> Epoch {
        self.party.waiter.begin(Manner::Polled)
    }
}

/// A wait of a future in the queue of a primitive.
pub(crate) struct Queued<T> {
    pub(crate) record: Pin<Box<Record<T>>>,
    wait: Await,
}

// SAFETY: what is in a record is used under the lock of the primitive, or once its wait is over; the
// values that travel through it are Send.
unsafe impl<T: Send> Send for Queued<T> {}

impl<T> Queued<T> {
    /// A record that is in no queue yet, to be pushed once.
    pub(crate) fn new(waker: &Waker, value: Option<T>) -> Self {
        let wait = Await::new(waker);
        let record = Box::pin(Record::sharing(wait.party(), wait.begin(), value, 0));
        Queued { record, wait }
    }

    /// See [`Await::set_waker`].
    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.wait.set_waker(waker);
    }
}
