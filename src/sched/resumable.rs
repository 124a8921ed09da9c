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
//! was not polled: then it is [withdrawn](super::registration::Pollable::withdraw), and what had been handed over goes
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
use std::ptr::{self, NonNull};
use std::task::{Poll, Waker};

use super::carrier::Carrier;
use super::clock::Instant;
use super::fiber::Waiting;
use super::party::{Party, PartyRef};
use super::registration::{Pollable, Registration, Registrations};
use super::resource::Resource;
use super::task::{self, Task};
use super::timer::TimerKey;
use super::wait::{Epoch, Manner, Outcome};
use super::wakeup::waker;
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
    /// What it has registered with.
    registrations: Registrations,
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
            registrations: Registrations::new(),
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
        if !aim.0.is_null()
            && let Some(resource) = self.registrations.earliest()
        {
            waiting = Waiting::On(resource);
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
        self.registrations.begin_resume();
        self.ready.set(self.relays && self.registrations.is_empty() && !task.is_cancelled());
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

    /// Withdraws what was not polled since the last [`wake_up`](Self::wake_up).
    pub(super) fn sweep(&self) {
        self.registrations.sweep();
    }

    /// It is not resumed again: from here on destructors run. Withdraws everything.
    pub(super) fn begin_to_end(&self) {
        self.phase.set(Phase::Ending);
        self.ends_turn_itself();
        self.withdraw_all();
    }

    /// Withdraws everything.
    pub(super) fn withdraw_all(&self) {
        self.registrations.withdraw_all();
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

    /// Whether somebody else could run now who has begun, or has a place here.
    pub(crate) fn others_are_queued(&self) -> bool {
        self.carrier.others_are_queued()
    }

    /// Takes in what nobody has begun yet of what was spawned here, if nobody else can run.
    pub(crate) fn take_offered(&self) {
        self.carrier.take_offered();
    }

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
        self.stackless().registrations.find(resource)
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
        let record = Record::sharing(self.party(), Epoch::NEVER, value, kind);
        stackless.registrations.add(primitive, record)
    }

    /// Gives a registration up whose record is in no queue and holds nothing.
    pub(crate) fn settle<P: Pollable>(&self, registration: Registration<P>) {
        self.stackless().registrations.settle(registration);
    }

    /// Gives a registration up that has not come to its end.
    pub(crate) fn withdraw<P: Pollable>(&self, registration: Registration<P>) {
        self.stackless().registrations.withdraw(registration);
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
