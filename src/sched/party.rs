//! Whoever can wait and be woken: a task of a runtime, or an OS thread.
//!
//! Both have the same header, so that everything that wakes (a finished task, an unpark, later a
//! channel or a lock) needs to know only that. Handles to it are counted references.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::task::Waker;

use super::awaiting::Awaiting;
use super::carrier::Carrier;
use super::mailbox::Mailbox;
use super::registry::NO_PLACE;
use super::task::Task;
use super::wait::{Claim, Epoch, Manner, Outcome, Waiter};
use super::wakes::Wakes;

/// Identifies a fiber or an OS thread, uniquely in the process.
///
/// The upper bits number the runtime (0: none, an OS thread), the lower ones count within it: the
/// main fiber is number 0, the others follow in the order in which they were spawned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(u64);

const NUMBER_BITS: u32 = 48;

impl ThreadId {
    pub(crate) fn new(runtime: u16, number: u64) -> Self {
        ThreadId(u64::from(runtime) << NUMBER_BITS | number)
    }

    /// All of it, never 0; see [`from_bits`](Self::from_bits).
    pub(crate) fn to_bits(self) -> u64 {
        // The main fiber of a runtime has number 0, but no runtime has; OS threads begin with 1.
        self.0
    }

    /// The inverse of [`to_bits`](Self::to_bits); 0 is nobody.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits != 0).then_some(ThreadId(bits))
    }

    /// Whether both are fibers of the same runtime, or neither is one.
    pub(crate) fn is_of_the_same_runtime(self, other: ThreadId) -> bool {
        self.0 >> NUMBER_BITS == other.0 >> NUMBER_BITS
    }

    /// The number within the runtime, as reports and the debugger show it.
    pub fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadId({})", self.number())
    }
}

/// The common header of tasks and OS threads.
#[repr(C)]
pub(crate) struct Party {
    pub(crate) waiter: Waiter,
    refs: AtomicU32,
    /// Of a task: its place in its carrier's registry. It is here because there is room.
    pub(crate) registered: Cell<u32>,
    /// Where a task that was parked is handed over; null for an OS thread, which is never parked.
    ///
    /// That of a task which may still be taken by any carrier is one that no carrier has, and
    /// changes once, when one of them takes it: so it is that of the calling thread's carrier only if
    /// the task is there for good.
    home: AtomicPtr<Mailbox>,
    pub(crate) id: ThreadId,
    /// A thin pointer: most have none.
    pub(crate) name: Option<Box<Box<str>>>,
    pub(crate) kind: &'static Kind,
}

/// What depends on what a party is. Tasks continue this with a table of their own.
#[repr(C)]
pub(crate) struct Kind {
    /// Frees it, when the last reference is gone.
    pub(super) destroy: unsafe fn(NonNull<Party>),
}

impl Party {
    /// A header with so many references, which belong to the caller.
    pub(crate) fn new(
        refs: u32,
        id: ThreadId,
        name: Option<Box<str>>,
        home: Option<&'static Mailbox>,
        kind: &'static Kind,
    ) -> Self {
        let home = home.map_or(ptr::null_mut(), |home| ptr::from_ref(home).cast_mut());
        Party {
            waiter: Waiter::new(),
            refs: AtomicU32::new(refs),
            registered: Cell::new(NO_PLACE),
            home: AtomicPtr::new(home),
            id,
            name: name.map(Box::new),
            kind,
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|name| &***name)
    }

    #[inline(always)]
    fn home(&self) -> Option<&'static Mailbox> {
        // SAFETY: mailboxes are never freed. Relaxed: whoever has claimed a wait of the task, or has
        // seen that it was placed, sees where; others only ask whether it is here.
        unsafe { self.home.load(Ordering::Relaxed).as_ref() }
    }

    /// The task's place from now on is this carrier. Before it runs, by that carrier.
    pub(super) fn settle_at(&self, mailbox: &'static Mailbox) {
        // Relaxed: see `home`.
        self.home.store(ptr::from_ref(mailbox).cast_mut(), Ordering::Relaxed);
    }

    /// Whether this is a task of the carrier with this mailbox.
    #[inline]
    pub(crate) fn is_at_home(&self, mailbox: &'static Mailbox) -> bool {
        ptr::eq(self.home.load(Ordering::Relaxed), mailbox)
    }

    /// Whether this is a task whose carrier stayed behind in a process that forked this one.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.home().is_some_and(Mailbox::is_left_behind)
    }

    /// Whether both are tasks of the same carrier.
    #[inline]
    pub(crate) fn shares_home(&self, other: &Party) -> bool {
        self.home().zip(other.home()).is_some_and(|(ours, theirs)| ptr::eq(ours, theirs))
    }

    /// How many references there are: a hint, for the deadlock detector.
    pub(crate) fn references(&self) -> u32 {
        self.refs.load(Ordering::Relaxed)
    }

    /// Whether the runtime's reference to a task is the only one there is, which others could be
    /// made of only on its carrier.
    #[inline]
    pub(super) fn has_one_reference(&self) -> bool {
        // Acquire: what owners of further references did is visible when they are seen to be gone.
        self.refs.load(Ordering::Acquire) == 1
    }

    /// Lets one of two references go, if there are just two. The caller must know that the owner of
    /// the other one does nothing meanwhile.
    #[inline]
    pub(super) fn leave_one_of_two(&self) -> bool {
        // Acquire: what owners of further references did is visible when they are seen to be gone.
        let two = self.refs.load(Ordering::Acquire) == 2;
        if two {
            self.refs.store(1, Ordering::Relaxed);
        }
        two
    }

    /// Begins a wait of the calling party, which this must be.
    #[inline]
    pub(crate) fn begin(&self) -> Epoch {
        self.waiter.begin(self.manner())
    }

    /// How the calling party, which this must be, waits now.
    ///
    /// A fiber cannot switch away while it panics: the panic count is the thread's.
    #[inline]
    pub(crate) fn manner(&self) -> Manner {
        if self.home().is_some() && !std::thread::panicking() {
            Manner::Parked
        } else {
            Manner::Blocked
        }
    }

    /// Ends a wait with this outcome, and sees to it that the waiter runs. False: it had ended.
    pub(crate) fn notify(&self, epoch: Epoch, outcome: Outcome) -> bool {
        let claim = self.waiter.claim(epoch, outcome);
        self.wake(claim)
    }

    /// [`notify`](Self::notify) for a wait of a fiber of this carrier whose epoch nobody but this
    /// thread has been told.
    #[inline]
    pub(crate) fn notify_here(&self, epoch: Epoch, outcome: Outcome) {
        debug_assert!(Carrier::current().is_some_and(|carrier| self.is_at_home(carrier.mailbox())));
        if self.waiter.claim_here(epoch, outcome) {
            self.schedule_inline();
        } else {
            // In place, on this thread: it is not asleep, or we could not be here.
            self.notify(epoch, outcome);
        }
    }

    /// [`notify`](Self::notify) under the lock of a primitive: what takes a system call is left to
    /// `wakes`.
    #[inline]
    pub(crate) fn notify_locked(&self, epoch: Epoch, outcome: Outcome, wakes: &mut Wakes) -> bool {
        match self.waiter.claim(epoch, outcome) {
            Claim::Lost => return false,
            Claim::Parked => self.schedule_locked(wakes),
            Claim::Blocked => wakes.add_thread(&raw const self.waiter),
            Claim::Polled => {
                Awaiting::take_waker(self).into_iter().for_each(|waker| wakes.add_waker(waker))
            }
        }
        true
    }

    /// [`notify_locked`](Self::notify_locked) for a wait of which nobody but the lock's queue was told.
    #[inline(always)]
    pub(crate) fn notify_told_once(
        &self,
        epoch: Epoch,
        outcome: Outcome,
        wakes: &mut Wakes,
    ) -> bool {
        if wakes.is_unshared() && self.waiter.claim_here(epoch, outcome) {
            self.schedule_locked(wakes);
            return true;
        }
        self.notify_locked(epoch, outcome, wakes)
    }

    /// Makes a task runnable whose parked wait the caller has claimed under the lock of a primitive.
    #[inline(always)]
    fn schedule_locked(&self, wakes: &mut Wakes) {
        match self.carrier_here() {
            // SAFETY: claimed just now.
            Some(carrier) => unsafe { carrier.make_runnable(self.task_address()) },
            None => wakes.add_task(self),
        }
    }

    /// Asks the carrier of this task, which has one, to cancel it.
    pub(crate) fn send_cancel(&self, task: PartyRef) {
        self.home().expect("only tasks are cancelled").send_cancel(task);
    }

    /// This task; for parties with a home.
    pub(crate) fn as_task(&self) -> &Task {
        assert!(self.home().is_some(), "only tasks have a home");
        // SAFETY: a party with a home is the first field of a task.
        unsafe { &*ptr::from_ref(self).cast::<Task>() }
    }

    /// `unpark` for whatever this is.
    pub(crate) fn unpark(&self) {
        let claim = self.waiter.unpark();
        self.wake(claim);
    }

    #[inline]
    fn wake(&self, claim: Claim) -> bool {
        match claim {
            Claim::Lost => return false,
            Claim::Parked => self.schedule(),
            Claim::Blocked => Waiter::wake_blocked(&raw const self.waiter),
            // It is counted, or its lock held: it is there still.
            Claim::Polled => Awaiting::take_waker(self).into_iter().for_each(Waker::wake),
        }
        true
    }

    /// Makes a task runnable whose parked wait the caller has claimed.
    fn schedule(&self) {
        self.schedule_inline();
    }

    #[inline(always)]
    fn schedule_inline(&self) {
        match self.carrier_here() {
            // SAFETY: the caller has claimed it, while it was parked.
            Some(carrier) => unsafe { carrier.make_runnable(self.task_address()) },
            None => self.send_home(),
        }
    }

    /// Hands a task whose parked wait was claimed to its carrier, which is another one.
    pub(super) fn send_home(&self) {
        self.home().expect("only tasks are parked").send(self.task_address());
    }

    /// The calling thread's carrier, if this is one of its tasks.
    #[inline]
    fn carrier_here<'a>(&self) -> Option<&'a Carrier> {
        Carrier::current().filter(|carrier| self.is_at_home(carrier.mailbox()))
    }

    /// Where the task lies that this is the header of.
    #[inline]
    fn task_address(&self) -> *const Task {
        (&raw const *self).cast()
    }
}

/// A counted reference to a [`Party`].
pub(crate) struct PartyRef(NonNull<Party>);

// SAFETY: parties are made to be woken from anywhere: the waiter and the count are atomic, the rest
// does not change.
unsafe impl Send for PartyRef {}
// SAFETY: as above.
unsafe impl Sync for PartyRef {}

impl PartyRef {
    /// A further reference to a living party.
    pub(crate) fn share(party: &Party) -> Self {
        // Relaxed: a new reference comes from an existing one.
        party.refs.fetch_add(1, Ordering::Relaxed);
        PartyRef(NonNull::from(party))
    }

    /// The reference as an address, to be turned back by [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(self) -> *const Party {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// # Safety
    ///
    /// `party` must come from [`into_raw`](Self::into_raw), and own its reference.
    pub(crate) unsafe fn from_raw(party: *const Party) -> Self {
        // SAFETY: it came from a `NonNull`.
        PartyRef(unsafe { NonNull::new_unchecked(party.cast_mut()) })
    }
}

impl Clone for PartyRef {
    fn clone(&self) -> Self {
        PartyRef::share(self)
    }
}

impl Deref for PartyRef {
    type Target = Party;

    fn deref(&self) -> &Party {
        // SAFETY: the reference keeps it alive.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for PartyRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this gives the reference back.
        unsafe { release(self.0) }
    }
}

/// Gives a reference back, and frees the party with the last one.
///
/// # Safety
///
/// The caller must own a reference.
#[inline]
pub(crate) unsafe fn release(party: NonNull<Party>) {
    // SAFETY: alive by the caller's reference; after the decrement only the last one touches it.
    unsafe {
        let refs = &party.as_ref().refs;
        // Acquire: if ours is the only reference, nobody can make another, and what the others did
        // with theirs happens before we free it. Saves the decrement in the common case.
        if refs.load(Ordering::Acquire) == 1 {
            return (party.as_ref().kind.destroy)(party);
        }
        // Release: what we did with it happens before it is freed.
        if refs.fetch_sub(1, Ordering::Release) == 1 {
            // Acquire: … and what the others did as well.
            fence(Ordering::Acquire);
            (party.as_ref().kind.destroy)(party);
        }
    }
}

thread_local! {
    /// This OS thread as a party, made when it first waits.
    static THREAD: OnceCell<PartyRef> = const { OnceCell::new() };
}

/// The calling OS thread. The reference is good for as long as the thread runs.
pub(crate) fn os_thread<'a>() -> &'a Party {
    let own = THREAD.try_with(|thread| NonNull::from(&**thread.get_or_init(new_os_thread)));
    // While thread-locals are being destroyed, a party that is leaked serves each call.
    let party = own.unwrap_or_else(|_| std::mem::ManuallyDrop::new(new_os_thread()).0);
    // SAFETY: kept alive by the thread-local, or leaked.
    unsafe { party.as_ref() }
}

fn new_os_thread() -> PartyRef {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = ThreadId::new(0, NEXT.fetch_add(1, Ordering::Relaxed));
    let name = std::thread::current().name().map(Box::from);
    // SAFETY: made by the box below, and this is called for the last reference.
    const KIND: &Kind = &Kind { destroy: |party| drop(unsafe { Box::from_raw(party.as_ptr()) }) };
    let party = Box::new(Party::new(1, id, name, None, KIND));
    PartyRef(NonNull::from(Box::leak(party)))
}
