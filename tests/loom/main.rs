//! Model-checks the lock-free parts: every interleaving of a few threads, under the memory model.
//!
//!     RUSTFLAGS="--cfg loom" cargo test --release --test loom
//!
//! The files under test are included as they stand, with loom's atomics in place of std's. `parking`
//! is about the waiter's word and the inbox, `lock` about the lock inside a primitive, `channel` about
//! channels; what those stand on is modelled in `sched` below. `rendezvous` is about the carriers of a heap.
#![cfg(loom)]
#![allow(dead_code, unused_imports, reason = "the product uses more of them than the models do")]

mod channel;
mod idlers;
mod lock;
mod parking;
mod rendezvous;

/// What the files under test take from `src/sched`: the real word and inbox, and models of what waits.
#[path = "../../src/sched"]
mod sched {
    pub mod idlers;
    pub mod inbox;
    pub mod resource;
    pub mod word;

    pub(crate) use resource::{Resource, ResourceKind};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{
            AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        };

        pub(super) fn settle() {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }

        pub(crate) fn back_off(_spins: &mut u32) {
            loom::thread::yield_now();
        }

        macro_rules! const_unless_modelled {
            ($($function:tt)*) => { $($function)* };
        }
        pub(crate) use const_unless_modelled;
    }

    /// Fences of equal cost: the model checker knows no others. Each thread of a model says which
    /// token it has.
    pub(crate) mod bias {
        use std::cell::Cell;

        pub(crate) const NOBODY: u32 = 0;

        loom::thread_local! {
            static TOKEN: Cell<u32> = Cell::new(NOBODY);
        }

        pub(crate) fn admit_thread(token: u32) {
            TOKEN.with(|own| own.set(token));
        }

        pub(crate) fn token() -> u32 {
            TOKEN.with(Cell::get)
        }

        pub(crate) fn is_worth_while() -> bool {
            true
        }

        pub(crate) fn light_fence() {
            loom::sync::atomic::fence(super::atomic::Ordering::SeqCst);
        }

        pub(crate) use light_fence as heavy_fence;
    }

    /// Whoever waits is a thread, which looks again and again.
    pub(crate) mod party {
        use super::wait::{Claim, Epoch, Manner, Outcome, Waiter};
        use super::wakes::Wakes;

        #[derive(Clone, Copy)]
        pub(crate) struct ThreadId;

        pub(crate) struct Party {
            pub(crate) waiter: Waiter,
        }

        impl Party {
            pub(crate) fn begin(&self) -> Epoch {
                self.waiter.begin(Manner::Blocked)
            }

            pub(crate) fn notify_locked(
                &self,
                epoch: Epoch,
                outcome: Outcome,
                _: &mut Wakes,
            ) -> bool {
                self.waiter.claim(epoch, outcome) != Claim::Lost
            }

            /// Of the tasks of one thread alone, of which there are none here.
            pub(crate) fn notify_told_once(
                &self,
                epoch: Epoch,
                outcome: Outcome,
                wakes: &mut Wakes,
            ) -> bool {
                self.notify_locked(epoch, outcome, wakes)
            }
        }
    }

    /// All memory is the allocator's.
    pub(crate) mod blocks {
        use std::alloc::{self, Layout};
        use std::ptr::NonNull;

        pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
            // SAFETY: the layouts that are asked for have a size.
            NonNull::new(unsafe { alloc::alloc(layout) }).expect("there is memory")
        }

        /// # Safety
        ///
        /// Once, for what `allocate` has returned for this layout.
        pub(crate) unsafe fn release(block: NonNull<u8>, layout: Layout) {
            // SAFETY: the contract.
            unsafe { alloc::dealloc(block.as_ptr(), layout) };
        }
    }

    pub(crate) mod carrier {
        use super::party::Party;
        use super::wait::Waiter;

        loom::thread_local! {
            static OWN: Party = Party { waiter: Waiter::new() };
        }

        pub(crate) fn current_party<'a>() -> &'a Party {
            // SAFETY: it stays where it is for as long as the thread runs.
            OWN.with(|own| unsafe { &*std::ptr::from_ref(own) })
        }
    }

    pub(crate) mod wait {
        pub(crate) use super::word::{Claim, Epoch, Manner, Outcome, Waiter};
    }

    /// Nobody sleeps, so nobody need be woken.
    pub(crate) mod wakes {
        pub(crate) struct Wakes;

        impl Wakes {
            pub(crate) fn new() -> Self {
                Wakes
            }

            pub(crate) fn set_unshared(&mut self, _: bool) {}
        }
    }

    pub(crate) mod cancel {
        pub(crate) fn check_cancelled(_: super::wait::Outcome) {}
    }

    /// Any time but the far future is over as soon as the waiter has looked once.
    pub(crate) mod clock {
        #[derive(Clone, Copy, PartialEq)]
        pub struct Instant(bool);

        impl Instant {
            pub(crate) const FAR_FUTURE: Instant = Instant(true);

            pub(crate) fn now() -> Instant {
                Instant(false)
            }
        }

        impl std::ops::Add<std::time::Duration> for Instant {
            type Output = Instant;

            fn add(self, _: std::time::Duration) -> Instant {
                self
            }
        }
    }

    pub(crate) enum Waiting {
        On(*const Resource),
    }

    pub(crate) use wait as wait_inlined;

    pub(crate) fn wait(
        party: &party::Party,
        epoch: wait::Epoch,
        _: Waiting,
        deadline: clock::Instant,
    ) {
        if deadline != clock::Instant::FAR_FUTURE {
            loom::thread::yield_now();
            let _ = party.waiter.claim(epoch, wait::Outcome::TimedOut);
        }
        while party.waiter.outcome().is_none() {
            loom::thread::yield_now();
        }
    }
}

#[path = "../../src/vm/heap"]
mod heap {
    pub mod rendezvous;

    mod atomic {
        pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
        pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

        pub(super) fn settle() {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }
}

#[path = "../../src/sync"]
mod sync {
    pub mod channel;
    pub mod spin;
    pub mod waiters;
}

/// A model of several threads: all schedules with so many preemptions at most.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
