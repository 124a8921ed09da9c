//! A channel for one value: one allocation, and one atomic exchange if the value is there in time.
//!
//! One byte of state says who may touch what:
//!
//! | state | the value | the waiter | the next step |
//! |---|---|---|---|
//! | `OPEN` | the sender's | whoever locks | either end locks |
//! | `LOCKED` | the sender's | the locking end's | it unlocks, or ends the matter |
//! | `SENT` | there, the receiver's | nobody | the receiver frees the block |
//! | `TAKEN` | gone | nobody | the receiver frees the block |
//! | `HUNG_UP`: the sender is gone | none | nobody | the receiver frees the block |
//! | `DEAF`: the receiver is gone | the sender's | nobody | the sender frees the block |
//!
//! Only OPEN and LOCKED alternate. An end that leaves one of the other states does not touch the
//! block again.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::{self, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::time::Duration;

use super::error::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use crate::sched::atomic::{AtomicU8, Ordering, back_off};
use crate::sched::blocks;
use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::party::Party;
use crate::sched::wait::{Epoch, Outcome};
use crate::sched::wakes::Wakes;
use crate::sched::{self, Resource, ResourceKind, Waiting};

const OPEN: u8 = 0;
const LOCKED: u8 = 1;
const SENT: u8 = 2;
const TAKEN: u8 = 3;
const HUNG_UP: u8 = 4;
const DEAF: u8 = 5;

static RECEIVE: ResourceKind = ResourceKind::without_holder("to receive from a oneshot channel");

/// What both ends share.
pub(crate) struct Oneshot<T> {
    pub(crate) resource: Resource,
    state: AtomicU8,
    /// The receiver, while it waits.
    waiter: Cell<Option<(NonNull<Party>, Epoch)>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Oneshot<T> {
    /// LOCKED if the caller has the lock now, or else the final state.
    #[inline]
    fn lock(&self) -> u8 {
        // Acquire: what was done under the lock, or before the end, is visible.
        match self.state.compare_exchange(OPEN, LOCKED, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => LOCKED,
            Err(LOCKED) => self.lock_contended(),
            Err(end) => end,
        }
    }

    #[cold]
    fn lock_contended(&self) -> u8 {
        let mut spins = 0;
        loop {
            // Acquire: as above.
            match self.state.compare_exchange(OPEN, LOCKED, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return LOCKED,
                Err(LOCKED) => back_off(&mut spins),
                Err(end) => return end,
            }
        }
    }

    /// Gives back the lock for a state that is final, or for OPEN.
    #[inline]
    fn unlock(&self, state: u8) {
        // Release: what we did is visible to whoever sees this.
        self.state.store(state, Ordering::Release);
    }

    /// By the sender, under the lock: ends the wait of the receiver, if it waits.
    #[inline]
    fn notify(&self, wakes: &mut Wakes) {
        if let Some((party, epoch)) = self.waiter.take() {
            // SAFETY: a receiver that leaves takes its entry out first, for which it needs the lock.
            unsafe { party.as_ref() }.notify_locked(epoch, Outcome::Notified, wakes);
        }
    }

    /// Takes the value if it is there.
    ///
    /// # Safety
    ///
    /// By the receiver, one at a time.
    #[inline]
    pub(crate) unsafe fn try_take(&self) -> Result<T, TryRecvError> {
        // Acquire: what the sender did is visible.
        match self.state.load(Ordering::Acquire) {
            SENT => {
                // Relaxed: the sender does not look any more.
                self.state.store(TAKEN, Ordering::Relaxed);
                // SAFETY: SENT: it is there, and the receiver's.
                Ok(unsafe { (*self.value.get()).assume_init_read() })
            }
            OPEN | LOCKED => Err(TryRecvError::Empty),
            _ => Err(TryRecvError::Disconnected),
        }
    }

    // What a select needs.

    /// True: the lock is the caller's. False: the matter has ended.
    pub(crate) fn lock_for_select(&self) -> bool {
        self.lock() == LOCKED
    }

    /// By the receiver, which holds the lock.
    pub(crate) fn unlock_after_select(&self) {
        self.unlock(OPEN);
    }

    /// By the receiver, which holds the lock.
    pub(crate) fn enqueue(&self, party: &Party, epoch: Epoch) {
        self.waiter.set(Some((NonNull::from(party), epoch)));
    }

    /// By the receiver, after a wait. True: the matter has ended.
    pub(crate) fn withdraw(&self) -> bool {
        if self.lock() != LOCKED {
            return true;
        }
        self.waiter.set(None);
        self.unlock(OPEN);
        false
    }
}

/// A channel for a single value. Both ends are used up by it.
///
/// ```
/// use pirn::sync::channel;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let (reply_to, reply) = channel::oneshot();
///     thread::spawn(move || reply_to.send(6 * 7).unwrap());
///     assert_eq!(reply.recv(), Ok(42));
/// });
/// ```
#[inline]
pub fn oneshot<T>() -> (OneshotSender<T>, OneshotReceiver<T>) {
    let block = blocks::allocate(Layout::new::<Oneshot<T>>()).cast::<Oneshot<T>>();
    // SAFETY: there is room for one.
    unsafe {
        block.write(Oneshot {
            resource: Resource::new(&RECEIVE),
            state: AtomicU8::new(OPEN),
            waiter: Cell::new(None),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        });
    }
    (OneshotSender { block }, OneshotReceiver { block })
}

/// Frees the block. Its value, if there is one, must have been moved out.
///
/// # Safety
///
/// By the end that the state names, as the last thing.
#[inline]
unsafe fn free<T>(block: NonNull<Oneshot<T>>) {
    // SAFETY: it was allocated for one, and nobody else refers to it.
    unsafe {
        block.drop_in_place();
        blocks::release(block.cast(), Layout::new::<Oneshot<T>>());
    }
}

/// The sending end of a [`oneshot`] channel.
pub struct OneshotSender<T> {
    block: NonNull<Oneshot<T>>,
}

/// The receiving end of a [`oneshot`] channel.
pub struct OneshotReceiver<T> {
    block: NonNull<Oneshot<T>>,
}

// SAFETY: the value moves from one end to the other; everything else is under the lock.
unsafe impl<T: Send> Send for OneshotSender<T> {}
// SAFETY: as above; a shared end gives nothing away but whether the other is there.
unsafe impl<T: Send> Sync for OneshotSender<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OneshotReceiver<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for OneshotReceiver<T> {}

impl<T> UnwindSafe for OneshotSender<T> {}
impl<T> RefUnwindSafe for OneshotSender<T> {}
impl<T> UnwindSafe for OneshotReceiver<T> {}
impl<T> RefUnwindSafe for OneshotReceiver<T> {}

impl<T> OneshotSender<T> {
    #[inline]
    fn block(&self) -> &Oneshot<T> {
        // SAFETY: freed by us, or after we have hung up.
        unsafe { self.block.as_ref() }
    }

    /// Sends the value. Never waits.
    ///
    /// # Errors
    ///
    /// When the receiver is gone; the error holds the value.
    #[inline]
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        let block = self.block();
        // SAFETY: until SENT the value is ours.
        unsafe { (*block.value.get()).write(value) };
        if block.lock() != LOCKED {
            // SAFETY: written above. The block is freed as `self` is dropped.
            return Err(SendError(unsafe { (*block.value.get()).assume_init_read() }));
        }
        let mut wakes = Wakes::new();
        block.notify(&mut wakes);
        block.unlock(SENT);
        mem::forget(self);
        Ok(())
    }

    /// Whether the receiver is gone: a value would come back.
    pub fn is_closed(&self) -> bool {
        // Relaxed: only a look.
        self.block().state.load(Ordering::Relaxed) == DEAF
    }
}

impl<T> Drop for OneshotSender<T> {
    fn drop(&mut self) {
        let block = self.block();
        if block.lock() == LOCKED {
            let mut wakes = Wakes::new();
            block.notify(&mut wakes);
            block.unlock(HUNG_UP);
        } else {
            // SAFETY: the receiver is gone: it was for us to free it.
            unsafe { free(self.block) };
        }
    }
}

impl<T> OneshotReceiver<T> {
    #[inline]
    pub(crate) fn block(&self) -> &Oneshot<T> {
        // SAFETY: freed by us, or after we have gone.
        unsafe { self.block.as_ref() }
    }

    /// Waits for the value.
    ///
    /// # Errors
    ///
    /// When the sender is dropped without sending; and, in a destructor while the runtime ends, when
    /// the value is not there.
    #[inline]
    pub fn recv(mut self) -> Result<T, RecvError> {
        match self.try_recv() {
            Ok(value) => {
                let block = mem::ManuallyDrop::new(self).block;
                // SAFETY: the sender has sent and is gone. What `drop` would find out is known here.
                unsafe { free(block) };
                Ok(value)
            }
            Err(TryRecvError::Empty) => self.wait(Instant::FAR_FUTURE).map_err(|_| RecvError),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }

    /// Takes the value if it is there.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] when it is not there yet; [`TryRecvError::Disconnected`] when it never
    /// will be, since the sender is gone or the value has been taken.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        // SAFETY: borrowed uniquely.
        unsafe { self.block().try_take() }
    }

    /// Waits for the value, at most for this long.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError::Timeout`] when the time is up; the value may still come. Else as for
    /// [`recv`](Self::recv).
    pub fn recv_timeout(&mut self, duration: Duration) -> Result<T, RecvTimeoutError> {
        match self.try_recv() {
            Err(TryRecvError::Empty) => self.wait(Instant::now() + duration),
            received => received.map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Waits for the value, at most until this instant.
    ///
    /// # Errors
    ///
    /// As for [`recv_timeout`](Self::recv_timeout).
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        match self.try_recv() {
            Err(TryRecvError::Empty) => self.wait(deadline),
            received => received.map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    #[inline(never)]
    fn wait(&mut self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        let block = self.block();
        let party = current_party();
        if block.lock() == LOCKED {
            let epoch = party.begin();
            block.enqueue(party, epoch);
            block.unlock(OPEN);
            sched::wait(party, epoch, Waiting::On(&raw const block.resource), deadline);
            let outcome = party.waiter.finish();
            // The sender may still be about to unlock, also when it has woken us.
            let ended = block.withdraw();
            check_cancelled(outcome);
            if !ended {
                return Err(match outcome {
                    Outcome::TimedOut => RecvTimeoutError::Timeout,
                    _ => RecvTimeoutError::Disconnected,
                });
            }
        }
        self.try_recv().map_err(|_| RecvTimeoutError::Disconnected)
    }
}

impl<T> Drop for OneshotReceiver<T> {
    #[inline]
    fn drop(&mut self) {
        let block = self.block();
        // Relaxed: TAKEN is our own.
        if block.state.load(Ordering::Relaxed) != TAKEN {
            if block.lock() == LOCKED {
                // The sender frees it.
                return block.unlock(DEAF);
            }
            // The value is dropped after the block is freed: it may panic.
            let _value = self.try_recv();
            // SAFETY: the sender is gone.
            return unsafe { free(self.block) };
        }
        // SAFETY: as above.
        unsafe { free(self.block) };
    }
}

impl<T> fmt::Debug for OneshotSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotSender").field("closed", &self.is_closed()).finish()
    }
}

impl<T> fmt::Debug for OneshotReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotReceiver").finish_non_exhaustive()
    }
}
