//! A list that any thread adds to and one takes from, and that one's sleep.
//!
//! The list is a Treiber stack of nodes, linked through themselves; the owner takes the whole list
//! with one exchange and turns it round, which makes it first in, first out.
//!
//! No lost wake-up: a sender publishes its node and then looks whether the owner sleeps; the owner
//! declares that it sleeps and then looks at the list. Both with sequentially consistent accesses,
//! so one of the two sees the other.
//!
//! Only atomics here: a model checker runs this file as it stands (`tests/loom.rs`).

use std::ptr;

use super::atomic::{AtomicPtr, AtomicU32, Ordering, settle};

/// What can stand in an inbox, in one at a time.
pub(crate) trait Node: Sized {
    /// Where the next node is kept.
    fn link(&self) -> &AtomicPtr<Self>;
}

/// Set in the head by [`Inbox::mark`].
const MARK: usize = 1;

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Inbox<N> {
    /// The newest node, and the mark.
    head: AtomicPtr<N>,
    /// 1 while the owner sleeps, or is about to.
    pub(super) sleeping: AtomicU32,
}

impl<N: Node> Inbox<N> {
    pub(crate) fn new() -> Self {
        Inbox { head: AtomicPtr::new(ptr::null_mut()), sleeping: AtomicU32::new(0) }
    }

    /// Adds a node. True: the owner must be woken.
    ///
    /// # Safety
    ///
    /// The node must be in no inbox, and stay alive until it is taken; its link is the caller's.
    pub(crate) unsafe fn push(&self, node: *const N) -> bool {
        // SAFETY: alive by the contract.
        let link = unsafe { (*node).link() };
        self.change_head(|head| {
            // Relaxed: published by the exchange.
            link.store(head.map_addr(|address| address & !MARK), Ordering::Relaxed);
            node.cast_mut().map_addr(|address| address | head.addr() & MARK)
        });
        self.rouse()
    }

    /// Leaves a mark for the owner to find. True: the owner must be woken.
    pub(crate) fn mark(&self) -> bool {
        self.change_head(|head| head.map_addr(|address| address | MARK));
        self.rouse()
    }

    fn change_head(&self, change: impl Fn(*mut N) -> *mut N) {
        let mut head = self.head.load(Ordering::Relaxed);
        // SeqCst: before the look at `sleeping`; includes the release of what we did so far.
        while let Err(now) =
            self.head.compare_exchange_weak(head, change(head), Ordering::SeqCst, Ordering::Relaxed)
        {
            head = now;
        }
    }

    /// Ends the owner's sleep. True: it did sleep, and the caller must wake it.
    pub(crate) fn rouse(&self) -> bool {
        settle();
        self.sleeping.load(Ordering::SeqCst) == 1 && self.sleeping.swap(0, Ordering::Relaxed) == 1
    }

    /// Whether there is nothing to take.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a stale answer is corrected by the next look, or by the look before sleeping.
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all nodes, the earliest first. True: there was a mark.
    pub(crate) fn take(&self, mut each: impl FnMut(*const N)) -> bool {
        // Acquire: what the senders did before is visible.
        let head = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut newest = head.map_addr(|address| address & !MARK);
        let mut earliest: *mut N = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: the list is ours now; its nodes are alive, by the contract of `push`.
            unsafe {
                let next = (*newest).link().load(Ordering::Relaxed);
                (*newest).link().store(earliest, Ordering::Relaxed);
                earliest = newest;
                newest = next;
            }
        }
        while !earliest.is_null() {
            // SAFETY: as above; the link is read before the node is given away.
            let next = unsafe { (*earliest).link().load(Ordering::Relaxed) };
            each(earliest);
            earliest = next;
        }
        head.addr() & MARK != 0
    }

    /// Declares that the owner is about to sleep. False: there is something to take.
    pub(crate) fn doze(&self) -> bool {
        self.sleeping.store(1, Ordering::SeqCst);
        settle();
        // SeqCst: after the declaration; pairs with `change_head`.
        self.head.load(Ordering::SeqCst).is_null()
    }

    /// The owner is awake.
    pub(crate) fn wake_up(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
    }
}
