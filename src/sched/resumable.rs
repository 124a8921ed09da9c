//! Tasks without a stack: what runs is an object that is *resumed*, and returns to wait.
//!
//! A [`Resumable`] keeps its half-done state in itself. The carrier calls `resume` on its own stack,
//! from the loop, and never while a fiber runs. The task is otherwise a task like any other: it has
//! a [`Party`], a place in the run queue, a result that is joined.
//!
//! # Waiting
//!
//! A blocking call of a fiber has its record on the fiber's stack. A resumable has none, so whatever
//! it polls in vain leaves a *registration* with the task: a record in the primitive's queue, and a
//! share in the primitive, which keeps that alive. All registrations of one resume share one epoch,
//! which begins with the first of them.
//!
//! ```text
//!   resume ─► poll: not ready ─► registration, epoch begun ─► returns Parked
//!                                                                │ notify, timer, unpark, cancel:
//!   resume ◄── run queue ◄───────────────────────────────────────┘ claims the epoch, once
//!     └─► poll again: its record says what came of it, or is armed anew with the next epoch
//! ```
//!
//! A registration stands until it is polled again with success, or until a resume ends in which it
//! was not polled: then it is [withdrawn](Pollable::withdraw), and what had been handed over goes
//! to the next in line. One with a past epoch may still be in its queue for a while: it cannot be
//! claimed, so it counts as leaving there.
//!
//! The epochs are those of `park`: an unpark ends them, whatever the task waits for. That is a
//! resume for nothing, after which polling again is right; and it is what a
//! [waker](std::task::Waker) needs.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};

use super::carrier::Carrier;
use super::clock::Instant;
use super::fiber::Waiting;
use super::party::{Party, PartyRef};
use super::resource::Resource;
use super::task::{self, Task};
use super::timer::TimerKey;
use super::wait::{Epoch, Manner, Outcome};
use crate::sync::waiters::Record;
use crate::thread::Thread;

/// A computation that keeps its own state, and returns to its caller when it gives way: an
/// interpreter's thread, a state machine.
///
/// See the [module documentation](crate::task) for how it runs and how it waits.
pub trait Resumable {
    /// What a join returns.
    type Output;

    /// Goes on, until it has ended, gives way, or cannot go on before something happens.
    ///
    /// It must not block: a call that would have to wait panics. It polls instead, and returns
    /// [`Step::Parked`] when everything that it could do is pending. A resume may come for nothing;
    /// polling again is right then. It is not called again after it has returned [`Step::Done`] or
    /// panicked.
    fn resume(&mut self, cx: &mut Context<'_>) -> Step<Self::Output>;
}

/// A resumable whose code may go from one task to the next within a resume: it
/// [passes on](Context::pass_on) its turn, and is the next one from then on.
///
/// # Safety
///
/// Only one type is one: a task that relays is taken for one of the caller's type.
pub(crate) unsafe trait Relay: Resumable {
    /// [`Resumable::resume`], which may return on behalf of another task than it was called for: that
    /// which the context is of by then.
    ///
    /// # Safety
    ///
    /// `this` is the resumable of the context's task, and no reference to it is alive. It is not to be
    /// used once the turn was passed on.
    unsafe fn relay(this: *mut Self, cx: &mut Context<'_>) -> Step<Self::Output>;
}

/// How a [`Resumable`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// It has ended, with this value. It is dropped before a join returns that.
    Done(T),
    /// It could go on: it is resumed when every other runnable task has had its turn.
    Yielded,
    /// It waits for what it has polled in this resume, and for an
    /// [unpark](crate::thread::Thread::unpark): whichever comes first resumes it.
    Parked,
}

/// How far a task without a stack has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fresh,
    Begun,
    /// It is being resumed.
    Running,
    /// Its end is being seen to: destructors run, and may not wait.
    Ending,
    /// It has ended while somebody woke it: it is retired when its turn comes.
    Ended,
}

/// What a task without a stack has instead: lies behind its [`Task`]. There may be millions, so it is
/// small.
pub(crate) struct Stackless {
    /// What it has registered with, the newest first.
    first: Cell<Option<NonNull<Head>>>,
    aim: Cell<Aim>,
    pub(super) timer: Cell<Option<TimerKey>>,
    pub(super) phase: Cell<Phase>,
    /// Whether it is a [`Relay`].
    relays: bool,
    /// Whether it is, and has nothing to be seen to before a turn or after it but its wait: it has polled
    /// nothing, nor registered with anything, was not cancelled and has not ended.
    ready: Cell<bool>,
}

/// What it is parked for besides its registrations, for reports. One word: null for nothing, as it runs;
/// else the task that it joins, or a number.
#[derive(Clone, Copy)]
struct Aim(*const Task);

impl Aim {
    const NOTHING: Aim = Aim(ptr::null());
    /// An unpark.
    const UNPARK: Aim = Aim(ptr::without_provenance(2));

    fn new(waits: &Waits) -> Aim {
        match waits.joins {
            Some(task) => Aim(task),
            None if waits.until.is_far_future() => Aim::UNPARK,
            None => Aim(ptr::without_provenance((waits.until.nanos() << 1 | 1) as usize)),
        }
    }

    fn waiting(self) -> Waiting {
        match self.0.addr() {
            0 => Waiting::Nothing,
            2 => Waiting::Park(Instant::FAR_FUTURE),
            until if until & 1 == 1 => Waiting::Sleep(Instant::from_nanos(until as u64 >> 1)),
            _ => Waiting::Join(self.0),
        }
    }
}

impl Stackless {
    pub(super) fn new(relays: bool) -> Self {
        Stackless {
            first: Cell::new(None),
            aim: Cell::new(Aim::NOTHING),
            timer: Cell::new(None),
            phase: Cell::new(Phase::Fresh),
            relays,
            ready: Cell::new(relays),
        }
    }

    /// What it waits for; `None` while it has not begun.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        if self.phase.get() == Phase::Fresh {
            return None;
        }
        let aim = self.aim.get();
        let mut waiting = aim.waiting();
        if !aim.0.is_null() {
            // The earliest is the last one met: the list is the newest first.
            self.each(|registered| waiting = Waiting::On(registered.resource));
        }
        Some(waiting)
    }

    /// Whether it passes its turn on, or takes over another's, with its wait alone to be seen to.
    #[inline]
    pub(super) fn can_relay(&self) -> bool {
        self.ready.get()
    }

    /// There is something to be seen to when its turn ends, or before the next one.
    #[inline]
    pub(super) fn ends_turn_itself(&self) {
        self.ready.set(false);
    }

    /// Ends what is left of the last wait: it is about to be resumed, which answers every unpark
    /// so far.
    #[inline]
    pub(super) fn wake_up(&self, task: &Task) {
        self.end_wait(&task.party);
        self.each(|registered| registered.polled.set(false));
        self.ready.set(self.relays && self.first.get().is_none() && !task.is_cancelled());
    }

    /// [`wake_up`](Self::wake_up), of one that can relay.
    #[inline]
    pub(super) fn end_wait(&self, party: &Party) {
        if party.waiter.begun().is_some() {
            self.aim.set(Aim::NOTHING);
            party.waiter.finish();
        }
        party.waiter.take_token();
    }

    /// Takes back the wait that this resume has begun, if it has. False: somebody has ended it, so
    /// the task is in the run queue, or on its way there.
    #[inline]
    pub(super) fn take_back_wait(&self, party: &Party) -> bool {
        if let Some(epoch) = party.waiter.begun() {
            if !party.waiter.retract(epoch, Outcome::Cancelled) {
                return false;
            }
            party.waiter.finish();
        }
        true
    }

    /// Begins the wait, unless a poll has; and notes what it is for. False: an unpark has come
    /// already, and the wait is over.
    #[inline]
    pub(super) fn park(&self, task: &Task, waits: &Waits) -> bool {
        let party = &task.party;
        let epoch = self.epoch(task);
        if party.waiter.has_token() && party.waiter.retract(epoch, Outcome::Notified) {
            party.waiter.finish();
            return false;
        }
        self.aim.set(Aim::new(waits));
        true
    }

    /// The wait that this resume has begun, or begins now.
    #[inline]
    pub(super) fn epoch(&self, task: &Task) -> Epoch {
        let waiter = &task.party.waiter;
        match waiter.begun() {
            Some(epoch) => epoch,
            None if task.is_private() => waiter.begin_open_here(Manner::Parked),
            None => waiter.begin_open(Manner::Parked),
        }
    }

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

    /// Withdraws what was not polled since the last [`wake_up`](Self::wake_up).
    pub(super) fn sweep(&self) {
        self.withdraw(|head| !head.polled.get());
    }

    /// It is not resumed again: from here on destructors run. Withdraws everything.
    pub(super) fn begin_to_end(&self) {
        self.phase.set(Phase::Ending);
        self.ends_turn_itself();
        self.withdraw_all();
    }

    /// Withdraws everything.
    pub(super) fn withdraw_all(&self) {
        self.withdraw(|_| true);
    }

    fn withdraw(&self, which: impl Fn(&Head) -> bool) {
        while let Some(registered) = self.unlink(&which) {
            // SAFETY: made by `register`, and out of the list.
            unsafe { (registered.as_ref().withdraw)(registered) };
        }
    }
}

impl Drop for Stackless {
    fn drop(&mut self) {
        debug_assert!(self.first.get().is_none(), "an ended task has withdrawn everything");
    }
}

/// What a poll has seen in this resume, besides what is registered.
pub(super) struct Waits {
    /// The earliest instant that it polled.
    pub(super) until: Instant,
    /// A task whose end it polled. That wakes it before it is gone.
    joins: Option<*const Task>,
}

impl Waits {
    /// It has polled nothing.
    pub(super) const NONE: Waits = Waits { until: Instant::FAR_FUTURE, joins: None };
}

/// What a [`Resumable`] may ask of the scheduler while it runs, and what it polls with.
pub struct Context<'a> {
    task: &'a Task,
    carrier: &'a Carrier,
    pub(super) waits: Waits,
    /// It stays on the carrier.
    stays: PhantomData<*mut ()>,
}

impl<'a> Context<'a> {
    /// For one resume of a task without a stack.
    pub(super) fn new(task: &'a Task, carrier: &'a Carrier) -> Self {
        Context { task, carrier, waits: Waits::NONE, stays: PhantomData }
    }

    /// The task that is being resumed.
    #[inline(always)]
    pub(super) fn task(&self) -> &'a Task {
        self.task
    }

    /// The task itself: its name, its id, and [`unpark`](Thread::unpark), which resumes it.
    pub fn thread(&self) -> Thread {
        Thread::of(&self.task.party)
    }

    /// A waker that resumes the task, from any OS thread, for futures that it polls: see
    /// [`spawn_future`](crate::task::spawn_future).
    pub fn waker(&self) -> Waker {
        waker(PartyRef::share(&self.task.party))
    }

    /// Whether the task has been [cancelled](crate::thread::JoinHandle::cancel): it may come to an
    /// end in its own way, but not park any more.
    pub fn is_cancelled(&self) -> bool {
        self.task.is_cancelled()
    }

    /// Whether it is time to give way: another task could run now. Mail from other threads and due
    /// timers are looked at on the way, every so often.
    ///
    /// An interpreter asks at the end of each time slice, and returns [`Step::Yielded`] if so. Else it
    /// goes on: there is nobody to be kept waiting.
    ///
    /// ```
    /// use pirn::task::{self, Context, Step};
    ///
    /// pirn::run(|| {
    ///     let alone = task::spawn(task::from_fn(|cx: &mut Context<'_>| Step::Done(cx.should_yield())));
    ///     assert_eq!(alone.join().unwrap(), false);
    /// });
    /// ```
    pub fn should_yield(&self) -> bool {
        self.carrier.others_can_run()
    }

    /// Ready when this instant has come; else the task is resumed then at the latest.
    ///
    /// ```
    /// use pirn::task::{self, Context, Resumable, Step};
    /// use pirn::time::{Duration, Instant};
    ///
    /// struct Nap(Instant);
    ///
    /// impl Resumable for Nap {
    ///     type Output = ();
    ///     fn resume(&mut self, cx: &mut Context<'_>) -> Step<()> {
    ///         if cx.poll_sleep(self.0).is_ready() { Step::Done(()) } else { Step::Parked }
    ///     }
    /// }
    ///
    /// pirn::run(|| {
    ///     let start = Instant::now();
    ///     task::spawn(Nap(start + Duration::from_millis(2))).join().unwrap();
    ///     assert!(start.elapsed() >= Duration::from_millis(2));
    /// });
    /// ```
    pub fn poll_sleep(&mut self, until: Instant) -> Poll<()> {
        if until <= Instant::now() {
            return Poll::Ready(());
        }
        self.waits.until = self.waits.until.min(until);
        self.stackless().ends_turn_itself();
        Poll::Pending
    }

    // For those that relay.

    /// Gives way to the next task in the queue, or `parks` until an unpark, as if this resume had
    /// ended so and the next one begun: from now on the context is of that task, whose resumable is
    /// returned. `None`: the next one is none that `fits`, or there is something to be seen to in
    /// between; nothing has changed, and the resume is to end.
    #[inline]
    pub(crate) fn pass_on<R: Relay>(
        &mut self,
        parks: bool,
        fits: impl FnOnce(NonNull<R>) -> bool,
    ) -> Option<NonNull<R>> {
        let next = self.carrier.next_to_relay(self.task)?;
        // SAFETY: it relays, and so is of the one type that does.
        let resumable = unsafe { next.resumable_address() };
        if !fits(resumable) {
            return None;
        }
        // SAFETY: it is the next one, as was seen just now.
        unsafe { self.carrier.relay(self.task, parks, next) };
        self.task = next;
        Some(resumable)
    }

    /// [`pass_on`](Self::pass_on), where this task has ended with a value: as if its resume had returned
    /// [`Step::Done`].
    ///
    /// # Safety
    ///
    /// The task's resumable is of this type, and no reference to it is used.
    #[inline]
    pub(crate) unsafe fn pass_on_at_end<R: Relay>(
        &mut self,
        value: R::Output,
        fits: impl FnOnce(NonNull<R>) -> bool,
    ) -> Option<NonNull<R>> {
        let next = self.carrier.next_to_relay(self.task)?;
        // SAFETY: as in `pass_on`; this task is resumed, and has not ended.
        unsafe {
            let resumable = next.resumable_address();
            if !fits(resumable) {
                return None;
            }
            let ended = mem::replace(&mut self.task, next);
            task::end_early::<R>(ended, value);
            self.carrier.relay_from_ended(NonNull::from(ended), next);
            Some(resumable)
        }
    }

    /// Where the resumable of the task is.
    #[inline]
    pub(crate) fn resumable<R: Relay>(&self) -> NonNull<R> {
        debug_assert!(self.stackless().relays);
        // SAFETY: as in `pass_on`.
        unsafe { self.task.resumable_address() }
    }

    // For the polls of primitives.

    fn stackless(&self) -> &'a Stackless {
        self.task.stackless().expect("a context is made for a task without a stack")
    }

    pub(crate) fn party(&self) -> &'a Party {
        &self.task.party
    }

    /// The wait that this resume has begun, or begins now.
    pub(crate) fn epoch(&self) -> Epoch {
        self.stackless().epoch(self.task)
    }

    /// It waits for the end of this task, or no longer does.
    pub(crate) fn note_join(&mut self, task: *const Task, pending: bool) {
        if pending {
            self.waits.joins = Some(task);
            self.stackless().ends_turn_itself();
        } else if self.waits.joins.is_some_and(|noted| ptr::eq(noted, task)) {
            self.waits.joins = None;
        }
    }

    /// What an earlier poll has registered with this resource.
    pub(crate) fn find<P: Pollable>(&self, resource: *const Resource) -> Option<Registration<P>> {
        let mut found = None;
        let mut at = self.stackless().first.get();
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

    /// Registers with a primitive; the record is in no queue yet. There must be no other
    /// registration with its resource.
    pub(crate) fn register<P: Pollable>(
        &self,
        primitive: P,
        value: Option<P::Item>,
        kind: usize,
    ) -> Registration<P> {
        let stackless = self.stackless();
        stackless.ends_turn_itself();
        let entry = Box::new(Entry {
            head: Head {
                next: Cell::new(stackless.first.get()),
                resource: primitive.resource(),
                withdraw: withdraw::<P>,
                polled: Cell::new(true),
            },
            record: Record::sharing(self.party(), Epoch::NEVER, value, kind),
            primitive,
        });
        let entry = NonNull::from(Box::leak(entry));
        stackless.first.set(Some(entry.cast()));
        Registration { entry }
    }

    /// Gives a registration up whose record is in no queue and holds nothing.
    pub(crate) fn settle<P: Pollable>(&self, registration: Registration<P>) {
        let resource = registration.primitive().resource();
        if let Some(entry) = self.stackless().unlink(|head| ptr::eq(head.resource, resource)) {
            // SAFETY: made by `register` for such a primitive, which the resource stands for, and out of
            // the list; the handle is consumed.
            drop(unsafe { Box::from_raw(entry.cast::<Entry<P>>().as_ptr()) });
        }
    }

    /// Gives a registration up that has not come to its end.
    pub(crate) fn withdraw<P: Pollable>(&self, registration: Registration<P>) {
        let resource = registration.primitive().resource();
        self.stackless().withdraw(|head| ptr::eq(head.resource, resource));
    }
}

/// Refers to a task without counting as a reference: whoever keeps one sees to it that the task has
/// not ended when it is used. So it does not keep a deadlock from being found, as a
/// [`Thread`] would, by which anybody might wake the task.
///
/// One that stays on the task's carrier costs less there: see [`of`](Self::of).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakeup(NonNull<Task>);

// SAFETY: a task is woken from any thread; `cancel` asks for its carrier.
unsafe impl Send for Wakeup {}
// SAFETY: as above.
unsafe impl Sync for Wakeup {}

impl Wakeup {
    /// For any thread. Made on the task's carrier.
    pub(crate) fn new(task: &Task) -> Wakeup {
        task.expose();
        Wakeup(NonNull::from(task))
    }

    /// Of the task that a resumable lies in. To be used on its carrier only.
    ///
    /// # Safety
    ///
    /// It lies in one, and has not been dropped.
    #[inline(always)]
    pub(crate) unsafe fn of<R: Resumable>(resumable: NonNull<R>) -> Wakeup {
        // SAFETY: the contract.
        Wakeup(unsafe { task::task_of(resumable) })
    }

    /// Resumes the task, as an unpark does.
    ///
    /// # Safety
    ///
    /// The task has not ended. On its carrier, if the reference was made by [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn wake(self) {
        // SAFETY: the contract.
        let task = unsafe { self.0.as_ref() };
        match Carrier::current() {
            // Nobody knows of it on another thread: so this is its carrier.
            Some(carrier) if task.is_private() => {
                debug_assert!(task.party.is_at_home(carrier.mailbox()));
                if task.party.waiter.unpark_here() {
                    // SAFETY: its parked wait was ended just now.
                    unsafe { carrier.make_runnable(task) };
                }
            }
            _ => task.party.unpark(),
        }
    }

    /// There is something to be seen to before the task's next turn: it is not
    /// [passed](Context::pass_on) that by another one.
    ///
    /// # Safety
    ///
    /// As for [`wake`](Self::wake); and the caller runs on the task's carrier.
    pub(crate) unsafe fn hold(self) {
        // SAFETY: the contract.
        if let Some(stackless) = unsafe { self.0.as_ref() }.stackless() {
            stackless.ends_turn_itself();
        }
    }

    /// Cancels the task.
    ///
    /// # Safety
    ///
    /// As for [`wake`](Self::wake); and the caller runs on the task's carrier.
    pub(crate) unsafe fn cancel(self) {
        if let Some(carrier) = Carrier::current() {
            // SAFETY: the contract.
            carrier.cancel(unsafe { self.0.as_ref() });
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("thread", &self.thread())
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

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

/// A waker that unparks, and owns the reference.
fn waker(party: PartyRef) -> Waker {
    fn party_of(data: *const ()) -> mem::ManuallyDrop<PartyRef> {
        // SAFETY: the data of such a waker is a reference that it owns.
        mem::ManuallyDrop::new(unsafe { PartyRef::from_raw(data.cast()) })
    }
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| RawWaker::new(PartyRef::clone(&party_of(data)).into_raw().cast(), &VTABLE),
        |data| mem::ManuallyDrop::into_inner(party_of(data)).unpark(),
        |data| party_of(data).unpark(),
        |data| drop(mem::ManuallyDrop::into_inner(party_of(data))),
    );
    // SAFETY: the functions keep the contract: a waker is a counted reference, and parties are woken
    // from any thread.
    unsafe { Waker::from_raw(RawWaker::new(party.into_raw().cast(), &VTABLE)) }
}
