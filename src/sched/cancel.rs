//! Calling off what a fiber waits for: cancellation, time limits, and shields against both.
//!
//! A fiber has one byte of *interrupts*. While it is 0 its waits are ordinary ones. Otherwise a wait
//! looks closer: a cancelled fiber, or one whose time limit has passed, does not wait, but finds the
//! wait [called off](Outcome::Cancelled) at once; one whose limit will pass waits no longer than
//! that. A caller whose wait was called off puts its records in order and calls
//! [`check_cancelled`], which unwinds the fiber: to its end, or to the call that set the limit.
//!
//! All of this belongs to the fiber's carrier. Another thread that cancels a fiber asks the carrier
//! to, by [mail](super::mailbox).

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::ptr;
use std::thread;

use super::carrier::Carrier;
use super::clock::Instant;
use super::fiber::{Fiber, Waiting};
use super::party::PartyRef;
use super::task::{Cancelled, Task};
use super::wait::Outcome;

/// The fiber has been cancelled.
const CANCELLED: u8 = 1;
/// It runs under a time limit.
const LIMITED: u8 = 2;

/// How often a fiber is told to unwind before it is given up.
const UNWIND_ATTEMPTS: u32 = 1_000;

/// A time limit that a fiber runs under; lies in the frame of the call that set it.
pub(crate) struct Limit {
    /// The earliest deadline of this limit and those outside.
    deadline: Instant,
    /// The limit with that deadline, to which the fiber unwinds.
    expires: Cell<*const Limit>,
    outer: *const Limit,
}

/// The payload that unwinds a fiber to the call that set the limit.
struct Expired(*const Limit);

// SAFETY: the address is only compared.
unsafe impl Send for Expired {}

/// Whether a payload is one of those that unwind a fiber whose wait was called off.
pub(crate) fn is_call_off(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Cancelled>() || payload.is::<Expired>()
}

/// A time limit was reached before the work under it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time limit was reached")
    }
}

impl std::error::Error for Elapsed {}

/// Runs `f` on the calling fiber; its waits are called off when the deadline passes.
pub(crate) fn with_limit<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let fiber = Carrier::current()
        .and_then(Carrier::current_fiber)
        .expect("a time limit was set outside a fiber; call pirn::time::timeout within pirn::run");
    let outer = fiber.limit.get();
    // SAFETY: outer limits lie in frames further down this fiber's stack.
    let (deadline, expires) = match unsafe { outer.as_ref() } {
        Some(outer) if outer.deadline <= deadline => (outer.deadline, outer.expires.get()),
        _ => (deadline, ptr::null()),
    };
    let limit = Limit { deadline, expires: Cell::new(expires), outer };
    if expires.is_null() {
        limit.expires.set(&raw const limit);
    }
    let unwinds = fiber.unwinds.get();
    fiber.limit.set(&raw const limit);
    fiber.interrupts.set(fiber.interrupts.get() | LIMITED);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    fiber.limit.set(limit.outer);
    if limit.outer.is_null() {
        fiber.interrupts.set(fiber.interrupts.get() & !LIMITED);
    }
    result.or_else(|payload| match payload.downcast_ref::<Expired>() {
        Some(expired) if ptr::eq(expired.0, &raw const limit) => {
            fiber.unwinds.set(unwinds);
            Err(Elapsed)
        }
        _ => panic::resume_unwind(payload),
    })
}

/// Runs `f` on the calling fiber as if nobody had cancelled it, and without its time limits.
pub(crate) fn shielded<T>(f: impl FnOnce() -> T) -> T {
    /// Lowers the shield however `f` is left.
    struct Lower<'a>(&'a Fiber);
    impl Drop for Lower<'_> {
        fn drop(&mut self) {
            self.0.shields.set(self.0.shields.get() - 1);
        }
    }
    let fiber = Carrier::current().and_then(Carrier::current_fiber);
    let _lower = fiber.map(|fiber| {
        fiber.shields.set(fiber.shields.get() + 1);
        Lower(fiber)
    });
    f()
}

/// Cancels a task, from any thread.
pub(crate) fn cancel(task: &Task) {
    match Carrier::current() {
        Some(carrier) if task.party.is_at_home(carrier.mailbox()) => carrier.cancel(task),
        _ if task.is_done() || task.cancel_unplaced() => {}
        _ => task.party.send_cancel(PartyRef::share(&task.party)),
    }
}

/// Whether the calling fiber has been cancelled.
pub(crate) fn is_cancelled() -> bool {
    Carrier::current().and_then(Carrier::current_task).is_some_and(Task::is_cancelled)
}

/// Whether waits of the calling fiber are called off since it has been cancelled.
pub(crate) fn is_calling_off() -> bool {
    Carrier::current().is_some_and(|carrier| {
        !carrier.is_closing()
            && carrier.current_fiber().is_some_and(|fiber| {
                fiber.interrupts.get() & CANCELLED != 0 && fiber.shields.get() == 0
            })
    })
}

/// Whether a wait of the calling task would be called off as soon as it began.
pub(crate) fn cannot_wait() -> bool {
    let Some(carrier) = Carrier::current() else { return false };
    match carrier.current_fiber() {
        Some(fiber) => {
            carrier.is_closing()
                || fiber.interrupts.get() != 0
                    && fiber.allowance(Instant::FAR_FUTURE, || carrier.now()).is_none()
        }
        // A destructor that runs on the loop; but a resumable is told that it must not block.
        None => !carrier.is_resuming(),
    }
}

/// Panics if a resumable makes this call in `resume`: one that blocks, if the answer does not happen to
/// be there at once.
pub(crate) fn refuse_in_resume(call: &'static str) {
    if let Some(carrier) = Carrier::current().filter(|carrier| carrier.is_resuming()) {
        carrier.refuse(call);
    }
}

/// How long a fiber may wait, and what it means when that time is up.
pub(super) struct Allowance {
    pub(super) until: Instant,
    pub(super) outcome: Outcome,
}

impl Fiber {
    /// What is left of a wait until `deadline`, under the fiber's interrupts. `None`: it is called
    /// off at once.
    #[cold]
    pub(super) fn allowance(
        &self,
        deadline: Instant,
        now: impl Fn() -> Instant,
    ) -> Option<Allowance> {
        let ordinary = Allowance { until: deadline, outcome: Outcome::TimedOut };
        if self.shields.get() > 0 {
            return Some(ordinary);
        }
        if self.interrupts.get() & CANCELLED != 0 {
            return None;
        }
        // SAFETY: limits lie in frames of this fiber.
        match unsafe { self.limit.get().as_ref() } {
            Some(limit) if limit.deadline <= now() => None,
            Some(limit) if limit.deadline < deadline => {
                Some(Allowance { until: limit.deadline, outcome: Outcome::Cancelled })
            }
            _ => Some(ordinary),
        }
    }
}

impl Carrier {
    /// Cancels a task of this carrier: calls off what it waits for, and what it will wait for.
    ///
    /// One that waits for the fibers of its scope passes that on to them.
    pub(super) fn cancel(&self, task: &Task) {
        if task.is_done() || task.is_cancelled() {
            return;
        }
        task.set_cancelled();
        // SAFETY: the fiber of a task that has not ended is alive.
        let Some(fiber) = (unsafe { task.fiber.get().as_ref() }) else {
            // One without a stack is resumed, so that it can come to an end.
            if let Some(epoch) = task.party.waiter.parked_epoch() {
                task.party.notify(epoch, Outcome::Cancelled);
            }
            return;
        };
        fiber.interrupts.set(fiber.interrupts.get() | CANCELLED);
        if matches!(fiber.waiting.get(), Waiting::Scope(_)) {
            self.cancel_children(|tally| tally.is_awaited_by(&task.party));
        } else if fiber.shields.get() == 0
            && let Some(epoch) = task.party.waiter.parked_epoch()
        {
            task.party.notify(epoch, Outcome::Cancelled);
        }
    }

    /// Cancels the tasks of a scope.
    pub(super) fn cancel_children(&self, of: impl Fn(&super::scope::Tally) -> bool) {
        let children: Vec<&Task> =
            self.registry().iter().filter(|task| task.with_scope(&of).unwrap_or(false)).collect();
        for child in children {
            self.cancel(child);
        }
    }

    /// Unwinds the running fiber: something that it waited for was called off.
    ///
    /// During a panic it returns: one unwind is under way already.
    #[cold]
    #[inline(never)]
    pub(super) fn unwind(&self) {
        if thread::panicking() {
            return;
        }
        let Some(fiber) = self.current_fiber() else {
            if self.is_resuming() {
                self.refuse_to_block();
            }
            return;
        };
        fiber.unwinds.set(fiber.unwinds.get() + 1);
        if fiber.unwinds.get() > UNWIND_ATTEMPTS {
            self.give_up(fiber);
        }
        // SAFETY: limits lie in frames of this fiber.
        match unsafe { fiber.limit.get().as_ref() } {
            Some(limit) if !self.is_closing() && fiber.interrupts.get() & CANCELLED == 0 => {
                panic::resume_unwind(Box::new(Expired(limit.expires.get())))
            }
            _ => panic::resume_unwind(Box::new(Cancelled::NEW)),
        }
    }

    /// Leaves a fiber that catches every unwind and waits again.
    fn give_up(&self, fiber: &Fiber) -> ! {
        // SAFETY: the running fiber's task is alive.
        let task = unsafe { &*fiber.task.get() };
        let mut name = String::new();
        let _ = task.describe(&mut name);
        name.push_str(&format!(", caught {UNWIND_ATTEMPTS} unwinds and waited again each time"));
        if task.is_scoped() {
            eprintln!("pirn: {name}; its borrows end with its scope: aborting");
            process::abort();
        }
        eprintln!("pirn: {name}; its stack is leaked");
        // SAFETY: the task has begun, and does not go on: nobody switches to this fiber again. Its
        // stack, and with it whatever it owns, is leaked.
        unsafe {
            task.give_up();
            task.fiber.set(ptr::null_mut());
            self.retire(task.into());
            self.switch_to_loop(ptr::from_ref(fiber).cast_mut());
        }
        unreachable!("a fiber that was given up was resumed")
    }
}

/// After a wait: unwinds the running fiber if the wait was called off.
#[inline]
pub(crate) fn check_cancelled(outcome: Outcome) {
    if outcome == Outcome::Cancelled
        && let Some(carrier) = Carrier::current()
    {
        carrier.unwind();
    }
}
