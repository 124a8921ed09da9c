//! A carrier: an OS thread that runs tasks, one at a time.
//!
//! It has a run queue (first in, first out), the timers of its tasks, a mailbox for other threads,
//! and a *loop* on the thread's own stack. Fibers switch to one another directly; the loop is
//! entered only when there is nothing to run, and to begin and end. It decides nothing that a fiber
//! could not decide as well, so the order of tasks does not depend on who picks the next one.
//!
//! ```text
//!        yield / park / end                       nothing runnable
//!   fiber ──────────────────► next fiber     fiber ─────────────────► loop ──► sleep
//!                             or fresh task        ◄───────────────── due timer, mail
//! ```
//!
//! # Fairness
//!
//! Every so many switches the carrier *polls*: it takes in its mail, asks its
//! [reactor](super::reactor) what is ready, and fires due timers. The interval adapts, so that polls
//! are about 100 µs apart while timers are outstanding or descriptors registered: with tasks that run
//! long it polls at each switch, with tasks that only switch every 64.
//!
//! # Closing
//!
//! When the main fiber has ended, or can never end, the carrier *closes*: tasks that never ran are
//! dropped, all others are unwound, the newest first, each to its end before the next. Tasks that a
//! scope waits for are newer than the fiber that waits, so they are gone when it is unwound. While
//! the carrier closes nothing waits: a wait unwinds the fiber, or, in a destructor during an unwind,
//! ends at once.

mod capture;
mod closing;
mod looping;
mod resuming;
mod switch;
mod teamwork;
mod waiting;
mod watching;

use std::backtrace::Backtrace;
use std::cell::{Cell, UnsafeCell};
use std::process;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::bias;
use super::blocks::Blocks;
use super::cancel::Allowance;
use super::clock::{self, Instant};
use super::deadlock::{self, Deadlock};
use super::debugger::Listing;
use super::fiber::{Fiber, Waiting};
use super::foreign;
use super::fork;
use super::mailbox::Mailbox;
use super::party::{self, Party, ThreadId};
use super::pool;
use super::queue::{Kind, RunQueue, Runnable};
use super::reactor::{self, Reactor, Watch};
use super::registry::Registry;
use super::runtime::Shared;
use super::stats::Outstanding;
use super::task::Task;
use super::timer::{TimerKey, Timers};
use super::wait::{Epoch, Manner, Outcome};
use crate::context::{self, Context, FloatControl, Side, Word};
use crate::stack::{self, SizeClass, Stack, StackError};
use teamwork::Mate;

/// What the word means that a switch carries to a fiber or to the loop.
mod arrival {
    /// Nothing: go on.
    pub(super) const RESUME: usize = 0;
    /// The word is a fiber that has ended and left its stack: reap it.
    pub(super) const REAP: usize = 1;
    /// The word is a [`Capture`](super::Capture): fill it in and switch back.
    pub(super) const CAPTURE: usize = 2;
}

/// A request to a suspended fiber for a backtrace of itself.
struct Capture {
    backtrace: Option<Backtrace>,
    asker: Context,
    asker_side: Side,
}

/// Stack that must be left on a suspended fiber for it to take its own backtrace.
const CAPTURE_ROOM: usize = 16 << 10;

/// The most switches between two polls.
const MAX_POLL_INTERVAL: u32 = 64;
/// The most switches before the first poll after a timer was set when there was none.
const FIRST_POLL: u32 = 8;
/// How far apart polls should be while timers are outstanding.
const POLL_PERIOD: Duration = Duration::from_micros(100);

/// How a carrier departs from running things in order and in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    /// Shuffles the order in which tasks run.
    pub(crate) seed: Option<u64>,
    /// Time stands still while anything can run, and then jumps to the next deadline.
    pub(crate) virtual_time: bool,
}

/// Whom a timer wakes: a task of this carrier, in this wait.
#[derive(Clone, Copy)]
struct Alarm {
    party: *const Party,
    epoch: Epoch,
    outcome: Outcome,
}

/// See the [module documentation](self).
pub(crate) struct Carrier {
    /// What runs now; null: the loop. This and the next three are atomic for the watchdog, which sees
    /// by them that the carrier makes progress; only this thread writes.
    pub(super) current: AtomicPtr<Fiber>,
    /// The task without a stack whose code the loop runs; null: none.
    resumed: AtomicPtr<Task>,
    /// Switches left until the next poll.
    budget: AtomicU32,
    /// Polls so far.
    polls: AtomicU32,
    queue: UnsafeCell<RunQueue>,
    mailbox: &'static Mailbox,
    timers: UnsafeCell<Timers<Alarm>>,
    /// The reactor, when a task has had to wait for a descriptor.
    watch: UnsafeCell<Option<Watch>>,
    /// Calls for descriptors left until the fiber that makes them gives way, and by polls and budget
    /// the run in which it made the last one.
    turns: Cell<u32>,
    turns_of: Cell<u64>,
    poll_interval: Cell<u32>,
    last_poll: Cell<Instant>,
    /// The loop, while a fiber runs.
    idle: UnsafeCell<Context>,
    idle_side: UnsafeCell<Side>,
    pub(super) registry: UnsafeCell<Registry>,
    /// Memory for records of tasks.
    pub(super) blocks: Blocks,
    /// Tasks that wait for a stack.
    pub(super) starved: UnsafeCell<Vec<NonNull<Task>>>,
    /// Whether a stack was given back since all of them last tried.
    fed: Cell<bool>,
    closing: Cell<bool>,
    /// What a call in `resume` would have waited for.
    refused: Cell<Option<String>>,
    main: Cell<*const Task>,
    /// The run is over: `main` has ended, or the other carriers close.
    main_ended: Cell<bool>,
    /// Where lots begin.
    seed: u64,
    /// The time of the virtual clock, if there is one.
    virtual_now: Cell<Option<Instant>>,
    /// What it has besides if it is one of several.
    mate: Option<Mate>,
    pub(crate) shared: Arc<Shared>,
}

thread_local! {
    /// The carrier that this OS thread is.
    static CARRIER: Cell<*const Carrier> = const { Cell::new(ptr::null()) };
}

impl Carrier {
    /// The carrier of a runtime with this number; the first is 0.
    pub(crate) fn new(shared: Arc<Shared>, plan: Plan, number: usize) -> Self {
        let mate = shared.team().map(|team| Mate::new(team, number));
        Carrier {
            mate,
            current: AtomicPtr::new(ptr::null_mut()),
            resumed: AtomicPtr::new(ptr::null_mut()),
            refused: Cell::new(None),
            budget: AtomicU32::new(MAX_POLL_INTERVAL),
            polls: AtomicU32::new(0),
            queue: UnsafeCell::new(RunQueue::new(plan.seed)),
            mailbox: shared.team().map_or(shared.mailbox, |team| team.mailbox(number)),
            timers: UnsafeCell::new(Timers::new()),
            watch: UnsafeCell::new(None),
            turns: Cell::new(reactor::TURNS),
            turns_of: Cell::new(0),
            poll_interval: Cell::new(MAX_POLL_INTERVAL),
            last_poll: Cell::new(Instant::from_nanos(0)),
            idle: UnsafeCell::new(Context::empty()),
            idle_side: UnsafeCell::new(Side::thread()),
            registry: UnsafeCell::new(Registry::new()),
            blocks: Blocks::new(),
            starved: UnsafeCell::new(Vec::new()),
            fed: Cell::new(false),
            closing: Cell::new(false),
            main: Cell::new(ptr::null()),
            main_ended: Cell::new(false),
            seed: plan.seed.unwrap_or(0),
            virtual_now: Cell::new(plan.virtual_time.then(clock::monotonic)),
            shared,
        }
    }

    /// The present, of the real clock or of the virtual one.
    pub(crate) fn now(&self) -> Instant {
        self.virtual_now.get().unwrap_or_else(clock::monotonic)
    }

    /// The carrier that the calling thread is.
    ///
    /// The reference is good for as long as the caller runs on this carrier, which for code on a
    /// fiber is always: a started fiber never changes its thread.
    #[inline(always)]
    pub(crate) fn current<'a>() -> Option<&'a Carrier> {
        let carrier = CARRIER.get();
        // SAFETY: set by `Carrier::run` for as long as the carrier lives there.
        unsafe { carrier.as_ref() }
    }

    pub(crate) fn mailbox(&self) -> &'static Mailbox {
        self.mailbox
    }

    // The cells below belong to this thread, and no reference into them is kept across a switch or
    // a call of user code: hence these accessors are used for one expression at a time.

    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "one expression at a time, on one thread")]
    fn queue(&self) -> &mut RunQueue {
        // SAFETY: see above.
        unsafe { &mut *self.queue.get() }
    }

    #[allow(clippy::mut_from_ref, reason = "one expression at a time, on one thread")]
    fn timers(&self) -> &mut Timers<Alarm> {
        // SAFETY: see above.
        unsafe { &mut *self.timers.get() }
    }

    #[allow(clippy::mut_from_ref, reason = "one expression at a time, on one thread")]
    pub(crate) fn registry(&self) -> &mut Registry {
        // SAFETY: see above.
        unsafe { &mut *self.registry.get() }
    }

    #[allow(clippy::mut_from_ref, reason = "one expression at a time, on one thread")]
    fn starved(&self) -> &mut Vec<NonNull<Task>> {
        // SAFETY: see above.
        unsafe { &mut *self.starved.get() }
    }

    #[inline(always)]
    fn running(&self) -> *mut Fiber {
        // Relaxed: our own.
        self.current.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set_running(&self, fiber: *mut Fiber) {
        self.current.store(fiber, Ordering::Relaxed);
    }

    /// Something that changes with every switch, for the watchdog; `None` on the loop.
    pub(crate) fn progress(&self) -> Option<(usize, u32, u32)> {
        let fiber = self.current.load(Ordering::Relaxed).addr();
        let running = fiber | self.resumed.load(Ordering::Relaxed).addr();
        (running != 0).then(|| {
            (running, self.budget.load(Ordering::Relaxed), self.polls.load(Ordering::Relaxed))
        })
    }

    /// The task that runs now, on a fiber or resumed; `None` on the loop.
    #[inline(always)]
    pub(crate) fn current_task<'a>(&self) -> Option<&'a Task> {
        // SAFETY: the running fiber and its task are alive.
        match unsafe { self.running().as_ref() } {
            // SAFETY: as above.
            Some(fiber) => Some(unsafe { &*fiber.task.get() }),
            None => self.resumed_task(),
        }
    }

    /// The task without a stack whose code the loop runs, if no fiber runs.
    #[inline]
    fn resumed_task<'a>(&self) -> Option<&'a Task> {
        // SAFETY: it is alive as long as it stands here.
        unsafe { self.resumed.load(Ordering::Relaxed).as_ref() }
    }

    /// The fiber that runs now; `None` on the loop.
    pub(crate) fn current_fiber<'a>(&self) -> Option<&'a Fiber> {
        // SAFETY: the running fiber is alive.
        unsafe { self.running().as_ref() }
    }

    // Making things runnable.

    /// Takes a new task, which runs after all that are runnable now.
    #[inline]
    pub(crate) fn adopt(&self, task: NonNull<Task>) {
        self.registry().add(task);
        self.queue().push(Runnable::fresh(task.as_ptr()));
    }

    /// [`adopt`](Self::adopt), for a task without a stack.
    #[inline]
    pub(crate) fn adopt_stackless(&self, task: NonNull<Task>) {
        self.registry().add(task);
        self.queue().push(Runnable::resumable(task.as_ptr()));
    }

    /// Puts a task that was parked at the end of the queue.
    ///
    /// # Safety
    ///
    /// The caller must have claimed the task's parked wait.
    #[inline]
    pub(crate) unsafe fn make_runnable(&self, task: *const Task) {
        // SAFETY: a parked task is alive.
        let runnable = unsafe { (*task).runnable() };
        self.queue().push(runnable);
    }

    // Switching.

    /// Counts a switch, and polls when it is time.
    #[inline(always)]
    fn tick(&self) {
        if self.is_poll_due() {
            self.poll();
        } else {
            self.count_tick();
        }
    }

    /// Whether the next tick polls.
    #[inline(always)]
    fn is_poll_due(&self) -> bool {
        // Relaxed: only this thread writes; the watchdog samples.
        self.budget.load(Ordering::Relaxed) == 1 || !self.mailbox.is_empty()
    }

    /// Counts a tick that does not poll.
    #[inline(always)]
    fn count_tick(&self) {
        // Relaxed: as above.
        self.budget.store(self.budget.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Whether another task could run, asked by one that runs on; or the asking fiber may not go on. Counts
    /// as a switch would, so that whoever asks instead of switching keeps neither mail nor timers waiting.
    pub(crate) fn others_can_run(&self) -> bool {
        self.tick();
        !self.queue().is_empty() || self.is_wanted_on_loop() || self.is_called_off()
    }

    /// [`others_can_run`](Self::others_can_run), after a look at mail, descriptors and timers.
    pub(crate) fn others_can_run_now(&self) -> bool {
        self.poll_at_next_switch();
        self.others_can_run()
    }

    /// Whether the carrier stayed behind in a process that forked this one.
    pub(crate) fn is_left_behind(&self) -> bool {
        self.mailbox.is_left_behind()
    }

    /// Aborts if the carrier has been left behind. Wherever it switches or waits, except where a
    /// tick is counted: see [`fork`].
    #[inline]
    fn check_fork(&self) {
        fork::check(self.mailbox.generation());
    }

    /// Makes the next tick poll.
    pub(super) fn poll_at_next_switch(&self) {
        self.budget.store(1, Ordering::Relaxed);
    }

    /// Takes in mail, what is ready, and due timers.
    #[cold]
    #[inline(never)]
    fn poll(&self) {
        self.check_fork();
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.take_mail();
        self.mingle();
        self.poll_descriptors();
        if self.timers().len() == 0 && !self.watches() {
            self.poll_interval.set(MAX_POLL_INTERVAL);
        } else {
            let now = self.now();
            self.fire_timers(now);
            let elapsed = now.saturating_duration_since(self.last_poll.get()).as_nanos().max(1);
            // Shorter at once, longer by doubling: a late timer is worse than a poll too many.
            let switches = u128::from(self.poll_interval.get());
            let interval = (switches * POLL_PERIOD.as_nanos() / elapsed).min(switches * 2);
            self.poll_interval.set(interval.clamp(1, MAX_POLL_INTERVAL.into()) as u32);
            self.last_poll.set(now);
        }
        // When the end has come every tick polls, and so sets aside what has become runnable since: who
        // yields for ever is not resumed for ever.
        let budget = if self.main_ended.get() { 1 } else { self.poll_interval.get() };
        self.budget.store(budget, Ordering::Relaxed);
    }

    fn take_mail(&self) {
        let cancels = self.mailbox.take(|task| {
            // SAFETY: mailed tasks are alive: they have yet to run.
            let sent = unsafe { &*task };
            if sent.is_registered() {
                self.queue().push(sent.runnable());
            } else if sent.is_stackless() {
                self.adopt_stackless(NonNull::from(sent));
            } else {
                self.adopt(NonNull::from(sent));
            }
        });
        for task in cancels {
            self.cancel(task.as_task());
        }
    }

    fn fire_timers(&self, now: Instant) {
        while let Some(alarm) = self.timers().pop_due(now) {
            self.counters().count_timer();
            // SAFETY: a task takes its timer out before it goes on, so it is still in that wait; and
            // so is its fiber, if it has one.
            unsafe {
                let task = (*alarm.party).as_task();
                match task.fiber.get().as_ref() {
                    Some(fiber) => fiber.timer.set(None),
                    None => drop(task.stackless().and_then(|stackless| stackless.timer.take())),
                }
                task.party.notify(alarm.epoch, alarm.outcome);
            }
        }
    }

    /// Sets a timer.
    fn set_alarm(&self, deadline: Instant, alarm: Alarm) -> TimerKey {
        let timer = self.timers().insert(deadline, alarm);
        if self.timers().len() == 1 {
            // The first one: see soon how fast time passes.
            let budget = self.budget.load(Ordering::Relaxed).min(FIRST_POLL);
            self.budget.store(budget, Ordering::Relaxed);
        }
        timer
    }

    /// The next fiber to switch to, from a fiber; starts fresh tasks. `None`: switch to the loop.
    ///
    /// The loop is needed when nothing is runnable, to resume tasks without a stack, and to get
    /// stacks that this thread does not have at hand: both may take more stack than a small fiber has
    /// left.
    #[inline(always)]
    fn next(&self) -> Option<*mut Fiber> {
        let fiber = match self.queue().peek()?.kind() {
            Kind::Started(fiber) => fiber,
            // SAFETY: a queued task is alive.
            Kind::Fresh(task) => Fiber::start(task, unsafe { Stack::acquire_warm((*task).stack) }?),
            Kind::Resumable(_) => return None,
        };
        self.queue().pop();
        Some(fiber)
    }

    /// The next fiber to switch to, from the loop, which gives tasks without a stack their turns
    /// meanwhile. `None`: nothing is runnable.
    fn next_on_loop(&self) -> Option<*mut Fiber> {
        loop {
            match self.queue().pop()?.kind() {
                Kind::Started(fiber) => return Some(fiber),
                // SAFETY: from a reference.
                Kind::Resumable(task) => {
                    self.resume(unsafe { NonNull::new_unchecked(task.cast_mut()) });
                }
                // SAFETY: a queued task is alive.
                Kind::Fresh(task) => match Stack::acquire(unsafe { (*task).stack }) {
                    Ok(stack) => return Some(Fiber::start(task, stack)),
                    Err(error) => self.starve(task, error),
                },
            }
        }
    }

    /// Lets a fresh task that cannot have a stack wait until one is given back.
    #[cold]
    fn starve(&self, task: *const Task, error: StackError) {
        // SAFETY: the task is alive.
        self.shared.begin_stack_shortage(unsafe { (*task).stack }, error);
        // SAFETY: from a reference.
        self.starved().push(unsafe { NonNull::new_unchecked(task.cast_mut()) });
    }

    /// A stack of this class has been given back: lets one of those that wait for one try again,
    /// the first that wants just this class, or else the first of all.
    #[cold]
    fn feed(&self, class: SizeClass) {
        self.shared.end_stack_shortage();
        // SAFETY: starved tasks are alive.
        let fits = self.starved().iter().position(|task| unsafe { task.as_ref() }.stack == class);
        let task = self.starved().remove(fits.unwrap_or(0));
        self.queue().push(Runnable::fresh(task.as_ptr()));
        self.fed.set(true);
    }

    /// Nothing else can run: lets all that wait for a stack try again, if any was given back since
    /// they last did. False: there is nobody, or no use.
    fn feed_all(&self) -> bool {
        if self.starved().is_empty() || !self.fed.take() {
            return false;
        }
        for task in std::mem::take(self.starved()) {
            self.queue().push(Runnable::fresh(task.as_ptr()));
        }
        true
    }

    /// What this carrier has under way.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let waits = |task: &&Task| task.party.waiter.parked_epoch().is_some();
        Outstanding {
            tasks: self.registry().iter().count(),
            waits: self.registry().iter().filter(waits).count(),
            timers: self.timers().len(),
            descriptors: self.watch().map_or(0, |watch| watch.reactor.registered()),
        }
    }

    /// Whether a task waits for a stack.
    pub(crate) fn is_starved(&self, task: &Task) -> bool {
        self.starved().iter().any(|starved| ptr::eq(starved.as_ptr(), task))
    }

    /// The seed of the runtime; 0 without one.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }
}

/// Whether the running fiber is being unwound because its runtime ends: no panic of its own.
pub(crate) fn is_ending() -> bool {
    Carrier::current().is_some_and(|carrier| {
        carrier.is_closing() && carrier.current_fiber().is_some_and(|fiber| fiber.unwinds.get() > 0)
    })
}

/// The calling fiber or OS thread, as a party. The reference is good for as long as it runs.
#[inline]
pub(crate) fn current_party<'a>() -> &'a Party {
    match Carrier::current().and_then(Carrier::current_task) {
        Some(task) => &task.party,
        None => party::os_thread(),
    }
}

/// Makes the calling thread a carrier for as long as it lives.
struct Enter {
    /// One that stayed behind when the process was forked, on one of whose fibers this one runs.
    outer: *const Carrier,
    _listing: Listing,
}

impl Enter {
    fn new(carrier: &Carrier) -> Self {
        bias::admit_thread();
        Enter { outer: CARRIER.replace(carrier), _listing: Listing::new(carrier) }
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        CARRIER.set(self.outer);
    }
}
