//! A task: what is to be run, and what came of it.
//!
//! The record is made by `spawn` and lives on the heap as long as anybody refers to it: the runtime
//! until the task has ended, the join handle, `Thread` handles. It holds the closure first and the
//! result later. The stack that a fiber runs on is bound when the task is first dispatched, and is
//! given back when it ends: many tasks that are spawned and then run in turn need one stack.
//!
//! Flags, one word:
//!
//! | bit | set | by |
//! |---|---|---|
//! | `DONE` | the result is in place, or nobody wants it | the task, once |
//! | `JOINER` | `joiner` holds the party to wake | the owner of the join handle |
//! | `HERE` | the joiner is a fiber of the task's own carrier, which waits for nothing else | as above |
//! | `DETACHED` | the join handle is gone: nobody will take the result | its drop |
//! | `CANCELLED` | somebody has cancelled it; its fiber, if it has one, knows | its carrier |
//! | `SCOPED` | the closure may hold borrows of a scope | `spawn`, before it is shared |
//! | `STACKLESS` | it is a [`Resumable`], with a [`Stackless`] behind the record | as above |
//! | `EXPOSED` | a reference that is not counted may be used on other threads | its carrier |
//!
//! A task that any carrier may begin is *movable*, and in a few more bits, apart from those:
//!
//! | bit | set | by |
//! |---|---|---|
//! | `MOVABLE` | it is not placed when it is made | `spawn`, before it is shared |
//! | `PLACED` | a carrier has taken it, which `Party::home` names | that carrier, once |
//! | `UNWANTED` | it was cancelled before it was placed, maybe | whoever cancels |
//!
//! Of `PLACED` and `UNWANTED`, whoever comes second sees to the cancellation.
//!
//! The *joiner* lies in front of the record, where that has a join handle to begin with. It belongs to
//! the handle's owner before `JOINER` is set, afterwards to the task. The result
//! belongs to the task before `DONE`, afterwards to the handle's owner; of `DONE` and `DETACHED`,
//! whoever comes second drops a result that nobody took.

mod cell;

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::thread::Result;

use super::cancel::is_call_off;
use super::fiber::{Fiber, Waiting};
use super::mailbox::Mailbox;
use super::party::{self, Party, PartyRef, ThreadId};
use super::queue::Runnable;
use super::registry::NO_PLACE;
use super::resumable::{Context, Resumable, Stackless, Step};
use super::scope::Tally;
use super::wait::{Epoch, Outcome};
use crate::stack::SizeClass;
use crate::thread::Locals;
use cell::{Fibered, VTable, stage};
pub(crate) use cell::{create, create_relaying, create_stackless};
pub(super) use cell::{end_early, task_of};

const DONE: u8 = 1;
const JOINER: u8 = 2;
const DETACHED: u8 = 4;
const SCOPED: u8 = 8;
const CANCELLED: u8 = 16;
const HERE: u8 = 32;
const STACKLESS: u8 = 64;
const EXPOSED: u8 = 128;

const MOVABLE: u8 = 1;
const PLACED: u8 = 2;
const UNWANTED: u8 = 4;

/// What a task's [`Stage`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Holds {
    Closure,
    Result,
    Nothing,
}

/// See the [module documentation](self).
#[repr(C)]
pub(crate) struct Task {
    /// First, so that a `Party` with a home is a `Task`.
    pub(crate) party: Party,
    flags: AtomicU8,
    /// Whether a carrier has taken it, if any may: 0 for one that was made where it runs.
    placing: AtomicU8,
    /// Belongs to whoever the stage belongs to.
    holds: Cell<Holds>,
    pub(crate) stack: SizeClass,
    pub(crate) keep_float_control: bool,
    /// The stack it runs on; null before it first runs and after it ended. The carrier's.
    pub(crate) fiber: Cell<*mut Fiber>,
    pub(crate) spawned_at: &'static Location<'static>,
    /// The next task in a mailbox.
    pub(crate) mail_link: AtomicPtr<Task>,
}

/// Whom to wake when a task has ended.
///
/// Two cells: what is written as two words and read as one has to wait for both stores.
struct Joiner {
    /// Null: nobody. The lowest bit is set if it holds a reference.
    ///
    /// A party that does not run on the task's own carrier must be kept alive: it may give up its
    /// wait while the task, elsewhere, is about to wake it.
    party: Cell<*const Party>,
    epoch: Cell<Epoch>,
}

const COUNTED: usize = 1;

impl Joiner {
    const fn nobody() -> Self {
        Joiner { party: Cell::new(ptr::null()), epoch: Cell::new(Epoch::NEVER) }
    }

    #[inline]
    fn set(&self, joiner: &Party, epoch: Epoch, counted: bool) {
        let mut party = ptr::from_ref(joiner);
        if counted {
            mem::forget(PartyRef::share(joiner));
            party = party.map_addr(|address| address | COUNTED);
        }
        self.party.set(party);
        self.epoch.set(epoch);
    }

    /// Nobody, from now on. Calls `f`, and gives back the reference, if it held one.
    ///
    /// # Safety
    ///
    /// While the party is alive: on the task's carrier, or counted.
    #[inline]
    unsafe fn done(&self, f: impl FnOnce(&Party, Epoch)) {
        let party = self.party.replace(ptr::null());
        // SAFETY: alive by the contract.
        unsafe {
            let Some(alive) = party.map_addr(|address| address & !COUNTED).as_ref() else { return };
            f(alive, self.epoch.get());
            if party.addr() & COUNTED != 0 {
                party::release(NonNull::from(alive));
            }
        }
    }
}

/// How a task is to be run.
pub(crate) struct Spec {
    pub(crate) id: ThreadId,
    pub(crate) name: Option<Box<str>>,
    pub(crate) home: &'static Mailbox,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) stack: SizeClass,
    pub(crate) keep_float_control: bool,
    pub(crate) scoped: bool,
    /// Any carrier may take it; `home` is that of no carrier then.
    pub(crate) movable: bool,
}

/// The fiber was cancelled, or its runtime ended before it did: the payload that `join` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled(());

impl Cancelled {
    pub(crate) const NEW: Cancelled = Cancelled(());
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fiber was cancelled, or its runtime ended before it did")
    }
}

impl std::error::Error for Cancelled {}

/// Drops a value that nobody wants, when there is nobody to take the panic of its destructor.
pub(crate) fn drop_quietly<V>(value: V) {
    let mut value = mem::ManuallyDrop::new(value);
    // SAFETY: it is dropped this once.
    unsafe { drop_in_place_quietly::<V>(&raw mut *value) };
}

/// [`drop_quietly`], where it lies.
///
/// # Safety
///
/// As for [`ptr::drop_in_place`].
unsafe fn drop_in_place_quietly<V>(value: *mut V) {
    if !mem::needs_drop::<V>() {
        return;
    }
    // SAFETY: the contract.
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| unsafe { ptr::drop_in_place(value) }));
    if let Err(payload) = dropped
        && !is_call_off(&*payload)
    {
        // The hook has printed its message. Its own destructor could panic as well: leak it.
        mem::forget(payload);
        eprintln!("pirn: a value that nobody wanted panicked when it was dropped");
    }
}

/// A panic that nobody can observe any more.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unobserved {
    id: ThreadId,
    text: String,
}

impl Unobserved {
    fn new(task: &Task, message: &str) -> Self {
        let mut text = String::new();
        let _ = task.describe(&mut text);
        text.push_str(", panicked, and nobody joined it: ");
        text.push_str(message);
        Unobserved { id: task.party.id, text }
    }
}

impl fmt::Display for Unobserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text of a panic payload, as the standard hook would print it.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "Box<dyn Any>".to_owned()
    }
}

impl Task {
    #[inline(always)]
    fn vtable(&self) -> &'static VTable {
        // SAFETY: a task's kind is the first field of its table.
        unsafe { &*ptr::from_ref(self.party.kind).cast() }
    }

    /// Runs the closure and stores its result. On the task's own fiber.
    ///
    /// # Safety
    ///
    /// Once, by the runtime.
    pub(crate) unsafe fn run(&self, locals: &Locals) {
        // SAFETY: the vtable was made for this task.
        unsafe { (self.vtable().run)(self, locals) }
    }

    /// Resumes a task without a stack. `Done`: its result is in place. Whatever the step, it is that of
    /// the task which the context is of by then; one that has passed its turn on may be gone.
    ///
    /// # Safety
    ///
    /// By the runtime, for one that has not ended, on the loop.
    #[inline(always)]
    pub(crate) unsafe fn resume(this: NonNull<Task>, context: &mut Context<'_>) -> Step<()> {
        // SAFETY: the vtable was made for this task.
        unsafe { (this.as_ref().vtable().resume)(this.as_ptr(), context) }
    }

    /// What a task without a stack has instead; `None` for a closure, which runs on a fiber.
    #[inline]
    pub(crate) fn stackless(&self) -> Option<&Stackless> {
        // SAFETY: it lies behind the record of such a task, in the same allocation.
        self.is_stackless().then(|| unsafe { &*ptr::from_ref(self).add(1).cast::<Stackless>() })
    }

    /// [`stackless`](Self::stackless), where that is known.
    ///
    /// # Safety
    ///
    /// It is a task without a stack.
    #[inline(always)]
    pub(super) unsafe fn stackless_unchecked(&self) -> &Stackless {
        debug_assert!(self.is_stackless(), "it has a stack");
        // SAFETY: as above.
        unsafe { &*ptr::from_ref(self).add(1).cast::<Stackless>() }
    }

    #[inline]
    pub(crate) fn is_stackless(&self) -> bool {
        // Relaxed: never changes.
        self.flags.load(Ordering::Relaxed) & STACKLESS != 0
    }

    /// How it stands in the run queue after its first turn.
    #[inline]
    pub(crate) fn runnable(&self) -> Runnable {
        let fiber = self.fiber.get();
        if fiber.is_null() { Runnable::resumable(self) } else { Runnable::started(fiber) }
    }

    /// What it waits for; `None` while it has not begun.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        match self.stackless() {
            Some(stackless) => stackless.waiting(),
            // SAFETY: the fiber of a task that has not ended is alive.
            None => unsafe { self.fiber.get().as_ref() }.map(|fiber| fiber.waiting.get()),
        }
    }

    /// Whether it waits for something that any thread might do: with a primitive, or as a fiber of another
    /// runtime that it joins.
    pub(crate) fn waits_for_anybody(&self) -> bool {
        match self.waiting() {
            Some(Waiting::On(_)) => true,
            // What a task without a stack joins has a reference to it, and counts by that.
            Some(Waiting::Join(other)) if !self.is_stackless() => {
                // SAFETY: the one that joins holds the handle, and with it a reference.
                !unsafe { (*other).party.id }.is_of_the_same_runtime(self.party.id)
            }
            _ => false,
        }
    }

    /// Whether its carrier has taken it in.
    pub(crate) fn is_registered(&self) -> bool {
        self.party.registered.get() != NO_PLACE
    }

    /// Whom to wake at the end.
    ///
    /// # Safety
    ///
    /// The task was made with a join handle.
    #[inline(always)]
    unsafe fn joiner(&self) -> &Joiner {
        // SAFETY: it lies in front of such a record, in the same allocation.
        unsafe { &*ptr::from_ref(self).cast::<Joiner>().sub(1) }
    }

    /// Whether the join handle is gone: then it stays so.
    fn is_detached(&self) -> bool {
        // Relaxed: nothing is read that the handle's owner has written.
        self.flags.load(Ordering::Relaxed) & DETACHED != 0
    }

    /// The closure of a task that has just been made.
    ///
    /// # Safety
    ///
    /// `R` must be the task's, which nobody else has seen yet.
    #[allow(clippy::mut_from_ref, reason = "exclusive by the contract")]
    pub(crate) unsafe fn resumable<R: Resumable>(&self) -> &mut R {
        // SAFETY: the contract.
        unsafe { &mut (*stage::<R, R::Output, Stackless>(self)).closure }
    }

    /// Where the resumable of a task that has not ended lies.
    ///
    /// # Safety
    ///
    /// `R` must be the task's.
    #[inline]
    pub(super) unsafe fn resumable_address<R: Resumable>(&self) -> NonNull<R> {
        // SAFETY: the contract; it lies in the task's allocation.
        unsafe { NonNull::new_unchecked(stage::<R, R::Output, Stackless>(self)).cast() }
    }

    /// Whether anybody besides the runtime and the join handle refers to it: could unpark it.
    pub(crate) fn has_other_references(&self) -> bool {
        self.party.references() > if self.is_detached() { 1 } else { 2 }
    }

    /// Notes that other threads may wake it by a reference that is not counted. On its carrier.
    pub(crate) fn expose(&self) {
        // Relaxed: read by its carrier.
        self.flags.fetch_or(EXPOSED, Ordering::Relaxed);
    }

    /// Whether it is a task without a stack that nobody on another thread knows of, now. On its
    /// carrier.
    #[inline]
    pub(crate) fn is_private(&self) -> bool {
        // Relaxed: of these flags one never changes, and the other is set here.
        let flags = self.flags.load(Ordering::Relaxed);
        flags & (STACKLESS | EXPOSED) == STACKLESS && self.party.has_one_reference()
    }

    /// Drops the closure of a task that never ran; a join then returns [`Cancelled`].
    ///
    /// # Safety
    ///
    /// Once, by the runtime, instead of [`run`](Self::run).
    pub(crate) unsafe fn abandon(&self) {
        // SAFETY: the vtable was made for this task.
        unsafe { (self.vtable().abandon)(self) }
    }

    /// Makes [`Cancelled`] the result of a task that will not come to its end.
    ///
    /// # Safety
    ///
    /// By the runtime, after [`run`](Self::run) began, which must not go on.
    pub(crate) unsafe fn give_up(&self) {
        // SAFETY: the vtable was made for this task.
        unsafe { (self.vtable().give_up)(self) }
    }

    /// Publishes the end: wakes the joiner; without one, sees to an unwanted result.
    ///
    /// Gives up the runtime's reference. Returns a report of a panic that nobody can observe any
    /// more.
    ///
    /// # Safety
    ///
    /// Once, by the runtime, after [`run`](Self::run) or [`abandon`](Self::abandon).
    pub(crate) unsafe fn complete(this: NonNull<Task>) -> Option<Box<Unobserved>> {
        // SAFETY: alive by the runtime's reference.
        let task = unsafe { this.as_ref() };
        let seen = task.flags.load(Ordering::Acquire);
        let joined_here = seen & HERE != 0;
        let before = if joined_here || seen & (DETACHED | JOINER) == DETACHED {
            // The handle's owner waits on this same thread, or is gone and has left no joiner that it
            // would take back: nobody else changes the flags.
            task.flags.store(seen | DONE, Ordering::Release);
            seen
        } else {
            // AcqRel: the result is visible to the joiner, and the joiner's registration to us.
            task.flags.fetch_or(DONE, Ordering::AcqRel)
        };
        debug_assert_eq!(before & DONE, 0, "a task ends once");
        if before & JOINER != 0 {
            // SAFETY: with JOINER set before DONE the field is there, and ours. On our own carrier the
            // joiner waits, or has cleared this; from elsewhere it is kept alive.
            unsafe {
                task.joiner().done(|joiner, epoch| {
                    if joined_here {
                        joiner.notify_here(epoch, Outcome::Notified);
                    } else {
                        joiner.notify(epoch, Outcome::Notified);
                    }
                });
            }
        }
        // SAFETY: DETACHED before DONE leaves the result to us. The reference is the caller's, who
        // gives it up.
        unsafe {
            let unwanted = before & DETACHED != 0 && task.holds.get() != Holds::Nothing;
            let unobserved = if unwanted { task.bury() } else { None };
            if !(joined_here && task.party.leave_one_of_two()) {
                Task::release(this);
            }
            unobserved
        }
    }

    /// Drops a result that nobody will take. Reports a panic among them.
    ///
    /// # Safety
    ///
    /// By the one of complete and detach that came second.
    unsafe fn bury(&self) -> Option<Box<Unobserved>> {
        // SAFETY: the stage belongs to the caller.
        unsafe {
            let message = (self.vtable().panic_message)(self);
            (self.vtable().discard)(self);
            message.map(|message| Box::new(Unobserved::new(self, &message)))
        }
    }

    /// Whether the result is there.
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: the result is visible if so.
        self.flags.load(Ordering::Acquire) & DONE != 0
    }

    #[inline]
    fn fibered(&self) -> Option<&Fibered> {
        // SAFETY: it lies behind the record of such a task, in the same allocation.
        (!self.is_stackless()).then(|| unsafe { &*ptr::from_ref(self).add(1).cast::<Fibered>() })
    }

    /// Takes the scope that the task belongs to. By its carrier.
    #[inline]
    pub(crate) fn take_scope(&self) -> Option<Rc<Tally>> {
        self.fibered()?.scope.take()
    }

    /// Puts the task into a scope. By its carrier; only tasks with a stack are in scopes.
    pub(crate) fn set_scope(&self, scope: Rc<Tally>) {
        debug_assert!(!self.is_stackless());
        if let Some(fibered) = self.fibered() {
            fibered.scope.set(Some(scope));
        }
    }

    /// Looks at the scope that the task belongs to. By its carrier.
    pub(crate) fn with_scope<R>(&self, f: impl FnOnce(&Tally) -> R) -> Option<R> {
        let scope = self.take_scope()?;
        let result = f(&scope);
        self.set_scope(scope);
        Some(result)
    }

    /// Whether it has been cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        // Relaxed: set and read by its carrier.
        self.flags.load(Ordering::Relaxed) & CANCELLED != 0
    }

    /// Notes that it has been cancelled. By its carrier.
    pub(crate) fn set_cancelled(&self) {
        // Relaxed: as above; atomic, since a handle elsewhere may set other flags.
        self.flags.fetch_or(CANCELLED, Ordering::Relaxed);
        if let Some(stackless) = self.stackless() {
            stackless.ends_turn_itself();
        }
    }

    /// Whether any carrier may take it, or might have.
    pub(crate) fn is_movable(&self) -> bool {
        // Relaxed: never changes.
        self.placing.load(Ordering::Relaxed) & MOVABLE != 0
    }

    /// The carrier with this mailbox, which calls this, has taken it. True: it has been cancelled.
    pub(crate) fn place(&self, mailbox: &'static Mailbox) -> bool {
        debug_assert!(self.placing.load(Ordering::Relaxed) & (MOVABLE | PLACED) == MOVABLE);
        self.party.settle_at(mailbox);
        // Release: whoever sees it placed sees where.
        self.placing.fetch_or(PLACED, Ordering::Release) & UNWANTED != 0
    }

    /// Notes for the carrier that will take it that it has been cancelled. False: it has one that is
    /// to be asked.
    pub(crate) fn cancel_unplaced(&self) -> bool {
        if !self.is_movable() {
            return false;
        }
        // Acquire: pairs with `place`.
        self.placing.fetch_or(UNWANTED, Ordering::Acquire) & PLACED == 0
    }

    pub(crate) fn is_scoped(&self) -> bool {
        // Relaxed: never changes.
        self.flags.load(Ordering::Relaxed) & SCOPED != 0
    }

    /// Registers the calling party, to be woken at the end. False: it has come already. `alone`: it
    /// waits for nothing else besides.
    ///
    /// # Safety
    ///
    /// By the owner of the join handle, once at a time. If the wait is given up, `clear_joiner` must
    /// follow; unless it is not `alone`, when a registration may be left behind.
    #[inline]
    pub(crate) unsafe fn set_joiner(&self, joiner: &Party, epoch: Epoch, alone: bool) -> bool {
        if self.flags.load(Ordering::Relaxed) & JOINER != 0 {
            self.displace_joiner();
        }
        let here = alone && joiner.shares_home(&self.party);
        // SAFETY: there is a handle, whose the field is before JOINER is set.
        unsafe { self.joiner() }.set(joiner, epoch, !here);
        let before = if here {
            // We are on the task's own carrier, where it ends: nobody else changes the flags now.
            let before = self.flags.load(Ordering::Relaxed);
            self.flags.store(before | JOINER | HERE, Ordering::Relaxed);
            before
        } else {
            // AcqRel: publishes the field, or makes the result visible.
            self.flags.fetch_or(JOINER, Ordering::AcqRel)
        };
        if before & DONE == 0 {
            return true;
        }
        // SAFETY: JOINER came second: the field stays ours.
        unsafe { self.joiner().done(|_, _| {}) };
        false
    }

    /// Takes a registration back that a poll has left, maybe of somebody who had the handle before.
    /// Who still waits by it is told to look again.
    #[cold]
    fn displace_joiner(&self) {
        // AcqRel: as in `set_joiner`.
        let before = self.flags.fetch_and(!JOINER, Ordering::AcqRel);
        if before & DONE == 0 {
            // SAFETY: as in `clear_joiner`; registrations that are left behind are counted.
            unsafe {
                self.joiner().done(|joiner, epoch| {
                    joiner.notify(epoch, Outcome::Notified);
                });
            }
        }
    }

    /// Takes a registration back whose wait was given up.
    ///
    /// # Safety
    ///
    /// By the party that registered.
    pub(crate) unsafe fn clear_joiner(&self) {
        // AcqRel: as in `set_joiner`.
        let before = self.flags.fetch_and(!(JOINER | HERE), Ordering::AcqRel);
        if before & DONE == 0 {
            // SAFETY: the task has not ended and will not look at the field any more, and was made with
            // a handle.
            unsafe { self.joiner().done(|_, _| {}) };
        }
    }

    /// Moves the result out.
    ///
    /// # Safety
    ///
    /// By the owner of the join handle, once, after [`is_done`](Self::is_done); `T` must be the
    /// task's.
    ///
    /// # Panics
    ///
    /// When it has been taken.
    #[inline]
    pub(crate) unsafe fn take<T>(&self) -> Result<T> {
        let before = self.holds.replace(Holds::Nothing);
        assert_eq!(before, Holds::Result, "a result is taken once, after the end");
        // SAFETY: it is there, in the stage, which is the caller's; and read this once.
        unsafe { ptr::from_ref(self).byte_add(self.vtable().stage).cast::<Result<T>>().read() }
    }

    /// The join handle goes away without a join. Returns a report of a panic that nobody has
    /// observed.
    ///
    /// # Safety
    ///
    /// By the owner of the join handle, once.
    pub(crate) unsafe fn detach(&self) -> Option<Box<Unobserved>> {
        // AcqRel: as in `complete`.
        let before = self.flags.fetch_or(DETACHED, Ordering::AcqRel);
        if before & DONE == 0 {
            if before & JOINER != 0 {
                self.displace_joiner();
            }
            return None;
        }
        // SAFETY: DONE before DETACHED leaves the result to the handle.
        unsafe { self.bury() }
    }

    /// Gives the runtime's or the handle's reference back.
    ///
    /// # Safety
    ///
    /// The caller must own a reference; `this` must not be used afterwards.
    #[inline]
    pub(crate) unsafe fn release(this: NonNull<Task>) {
        // SAFETY: the party is the first field.
        unsafe { party::release(this.cast()) }
    }
}
