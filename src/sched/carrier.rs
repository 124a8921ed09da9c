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
//! Every so many switches the carrier *polls*: it takes in its mail and fires due timers. The
//! interval adapts, so that polls are about 100 µs apart while timers are outstanding: with tasks
//! that run long it polls at each switch, with tasks that only switch every 64.
//!
//! # Closing
//!
//! When the main fiber has ended, or can never end, the carrier *closes*: tasks that never ran are
//! dropped, all others are unwound, the newest first, each to its end before the next. Tasks that a
//! scope waits for are newer than the fiber that waits, so they are gone when it is unwound. While
//! the carrier closes nothing waits: a wait unwinds the fiber, or, in a destructor during an unwind,
//! ends at once.

use std::backtrace::Backtrace;
use std::cell::{Cell, UnsafeCell};
use std::panic;
use std::process;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::clock::{self, Instant};
use super::deadlock::Deadlock;
use super::debugger::Listing;
use super::fiber::{Fiber, Waiting};
use super::foreign;
use super::fork;
use super::mailbox::Mailbox;
use super::party::{self, Party, ThreadId};
use super::queue::{Kind, RunQueue, Runnable};
use super::registry::Registry;
use super::runtime::Shared;
use super::task::{Cancelled, Task};
use super::timer::Timers;
use super::wait::{Epoch, Outcome};
use crate::context::{self, Context, FloatControl, Side, Word};
use crate::stack::{self, Stack, StackError};

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

/// How often a fiber is told to unwind before it is given up.
const UNWIND_ATTEMPTS: u32 = 1_000;

/// How a carrier departs from running things in order and in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    /// Shuffles the order in which tasks run.
    pub(crate) seed: Option<u64>,
    /// Time stands still while anything can run, and then jumps to the next deadline.
    pub(crate) virtual_time: bool,
}

/// Whom a timer wakes: a fiber, in this wait.
#[derive(Clone, Copy)]
struct Alarm {
    fiber: *const Fiber,
    epoch: Epoch,
}

/// See the [module documentation](self).
pub(crate) struct Carrier {
    /// What runs now; null: the loop. This and the next two are atomic for the watchdog, which sees
    /// by them that the carrier makes progress; only this thread writes.
    pub(super) current: AtomicPtr<Fiber>,
    /// Switches left until the next poll.
    budget: AtomicU32,
    /// Polls so far.
    polls: AtomicU32,
    queue: UnsafeCell<RunQueue>,
    mailbox: &'static Mailbox,
    timers: UnsafeCell<Timers<Alarm>>,
    poll_interval: Cell<u32>,
    last_poll: Cell<Instant>,
    /// The loop, while a fiber runs.
    idle: UnsafeCell<Context>,
    idle_side: UnsafeCell<Side>,
    pub(super) registry: UnsafeCell<Registry>,
    /// Tasks that wait for a stack.
    pub(super) starved: UnsafeCell<Vec<NonNull<Task>>>,
    closing: Cell<bool>,
    main: Cell<*const Task>,
    main_ended: Cell<bool>,
    /// The time of the virtual clock, if there is one.
    virtual_now: Cell<Option<Instant>>,
    /// When it was made; for telling older OS threads from younger ones.
    began: foreign::Moment,
    pub(crate) shared: Arc<Shared>,
}

thread_local! {
    /// The carrier that this OS thread is.
    static CARRIER: Cell<*const Carrier> = const { Cell::new(ptr::null()) };
}

impl Carrier {
    pub(crate) fn new(shared: Arc<Shared>, plan: Plan) -> Self {
        Carrier {
            current: AtomicPtr::new(ptr::null_mut()),
            budget: AtomicU32::new(MAX_POLL_INTERVAL),
            polls: AtomicU32::new(0),
            queue: UnsafeCell::new(RunQueue::new(plan.seed)),
            mailbox: shared.mailbox,
            timers: UnsafeCell::new(Timers::new()),
            poll_interval: Cell::new(MAX_POLL_INTERVAL),
            last_poll: Cell::new(Instant::from_nanos(0)),
            idle: UnsafeCell::new(Context::empty()),
            idle_side: UnsafeCell::new(Side::thread()),
            registry: UnsafeCell::new(Registry::new()),
            starved: UnsafeCell::new(Vec::new()),
            closing: Cell::new(false),
            main: Cell::new(ptr::null()),
            main_ended: Cell::new(false),
            virtual_now: Cell::new(plan.virtual_time.then(clock::monotonic)),
            began: foreign::Moment::now(),
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
        let fiber = self.current.load(Ordering::Relaxed);
        (!fiber.is_null()).then(|| {
            (fiber.addr(), self.budget.load(Ordering::Relaxed), self.polls.load(Ordering::Relaxed))
        })
    }

    /// The task that runs now; `None` on the loop.
    #[inline(always)]
    pub(crate) fn current_task<'a>(&self) -> Option<&'a Task> {
        // SAFETY: the running fiber and its task are alive.
        unsafe { Some(&*self.running().as_ref()?.task.get()) }
    }

    /// The fiber that runs now; `None` on the loop.
    pub(crate) fn current_fiber<'a>(&self) -> Option<&'a Fiber> {
        // SAFETY: the running fiber is alive.
        unsafe { self.running().as_ref() }
    }

    // Making things runnable.

    /// Takes a new task, which runs after all that are runnable now.
    pub(crate) fn adopt(&self, task: NonNull<Task>) {
        self.registry().add(task);
        self.queue().push(Runnable::fresh(task.as_ptr()));
    }

    /// Puts a fiber that was parked at the end of the queue.
    ///
    /// # Safety
    ///
    /// The caller must have claimed the task's parked wait.
    #[inline]
    pub(crate) unsafe fn make_runnable(&self, task: *const Task) {
        // SAFETY: a parked task is alive.
        let fiber = unsafe { (*task).fiber.get() };
        self.queue().push(Runnable::started(fiber));
    }

    // Switching.

    /// Counts a switch, and polls when it is time.
    #[inline(always)]
    fn tick(&self) {
        // Relaxed: only this thread writes; the watchdog samples.
        let budget = self.budget.load(Ordering::Relaxed) - 1;
        self.budget.store(budget, Ordering::Relaxed);
        if budget == 0 || !self.mailbox.is_empty() {
            self.poll();
        }
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

    /// Takes in mail and fires due timers.
    #[cold]
    #[inline(never)]
    fn poll(&self) {
        self.check_fork();
        self.polls.store(self.polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.take_mail();
        if self.timers().len() == 0 {
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
        self.budget.store(self.poll_interval.get(), Ordering::Relaxed);
    }

    fn take_mail(&self) {
        self.mailbox.take(|task| {
            // SAFETY: mailed tasks are alive: they have yet to run.
            let sent = unsafe { &*task };
            if sent.fiber.get().is_null() {
                self.adopt(NonNull::from(sent));
            } else {
                self.queue().push(Runnable::started(sent.fiber.get()));
            }
        });
    }

    fn fire_timers(&self, now: Instant) {
        while let Some(alarm) = self.timers().pop_due(now) {
            // SAFETY: a fiber takes its timer out before it goes on, so it is still in that wait.
            unsafe {
                (*alarm.fiber).timer.set(None);
                (*(*alarm.fiber).task.get()).party.notify(alarm.epoch, Outcome::TimedOut);
            }
        }
    }

    /// The next fiber to switch to, from a fiber; starts fresh tasks. `None`: switch to the loop.
    ///
    /// The loop is needed when nothing is runnable, and to get stacks that this thread does not have
    /// at hand: that takes more stack than a small fiber may have left.
    #[inline(always)]
    fn next(&self) -> Option<*mut Fiber> {
        let fiber = match self.queue().peek()?.kind() {
            Kind::Started(fiber) => fiber,
            // SAFETY: a queued task is alive.
            Kind::Fresh(task) => Fiber::start(task, unsafe { Stack::acquire_warm((*task).stack) }?),
        };
        self.queue().pop();
        Some(fiber)
    }

    /// The next fiber to switch to, from the loop. `None`: nothing is runnable.
    fn next_on_loop(&self) -> Option<*mut Fiber> {
        loop {
            match self.queue().pop()?.kind() {
                Kind::Started(fiber) => return Some(fiber),
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

    /// A stack has been given back: let those that wait for one try again.
    #[cold]
    fn feed(&self) {
        self.shared.end_stack_shortage();
        for task in std::mem::take(self.starved()) {
            self.queue().push(Runnable::fresh(task.as_ptr()));
        }
    }

    /// Switches from the running fiber to another, and comes back when somebody switches to it.
    ///
    /// # Safety
    ///
    /// `from` must be the running fiber, and have been put where somebody will find it.
    #[inline(always)]
    unsafe fn switch(&self, from: *mut Fiber, to: *mut Fiber) {
        // SAFETY: `to` is suspended, or about to begin; both are alive.
        unsafe {
            self.set_running(to);
            let keep = (*from).keep_float_control.get();
            if keep {
                (*from).float_control.set(FloatControl::save());
                FloatControl::DEFAULT.load();
            }
            (*from).side.leave(&(*to).side);
            let (word, tag) = context::switch(
                &raw mut (*from).context,
                &raw const (*to).context,
                Word::uninit(),
                arrival::RESUME,
            );
            (*from).side.arrive();
            if keep {
                (*from).float_control.get().load();
            }
            self.arrived(word, tag);
        }
    }

    /// Does what the side that was left asks for.
    ///
    /// # Safety
    ///
    /// Word and tag must be those of a switch that has just ended.
    #[inline(always)]
    pub(crate) unsafe fn arrived(&self, word: Word, tag: usize) {
        if tag == arrival::RESUME {
            return;
        }
        // SAFETY: the contract is passed on.
        unsafe { self.arrived_with_task(word, tag) }
    }

    #[inline]
    unsafe fn arrived_with_task(&self, word: Word, mut tag: usize) {
        // SAFETY: the words other than RESUME's are pointers.
        let mut word = unsafe { word.assume_init() };
        while tag == arrival::CAPTURE {
            // SAFETY: sent by `backtrace_of`, which waits for the answer.
            (word, tag) = unsafe { self.answer(&mut *word.cast::<Capture>()) };
        }
        if tag == arrival::REAP {
            // SAFETY: sent by `leave_for_good`, which has left that stack.
            unsafe { Fiber::reap(word.cast()) };
            if !self.starved().is_empty() {
                self.feed();
            }
        }
    }

    /// Takes this fiber's backtrace for somebody else, and goes back to being suspended.
    #[cold]
    #[inline(never)]
    unsafe fn answer(&self, capture: &mut Capture) -> (*mut u8, usize) {
        let fiber = self.running();
        capture.backtrace = Some(Backtrace::force_capture());
        // SAFETY: the asker is suspended in `backtrace_of`.
        unsafe {
            (*fiber).side.leave(&capture.asker_side);
            let (word, tag) = context::switch(
                &raw mut (*fiber).context,
                &raw const capture.asker,
                Word::new(ptr::null_mut()),
                arrival::RESUME,
            );
            (*fiber).side.arrive();
            // RESUME's word may be undefined: nobody looks at it.
            (if tag == arrival::RESUME { ptr::null_mut() } else { word.assume_init() }, tag)
        }
    }

    /// The backtrace of a suspended fiber; `None` when there is too little stack left on it, or it
    /// has not begun.
    pub(crate) fn backtrace_of(&self, task: &Task) -> Option<Backtrace> {
        let fiber = NonNull::new(task.fiber.get())?.as_ptr();
        let here = self.running();
        if fiber == here {
            return Some(Backtrace::force_capture());
        }
        // SAFETY: the task is alive, and so is its fiber, which is suspended: it is not the running
        // one. It was started, since it has a stack and does not run.
        unsafe {
            let sp = (*fiber).context.sp().addr();
            if stack::bounds_at(sp).is_none_or(|bounds| sp - bounds.start < CAPTURE_ROOM) {
                return None;
            }
            let mut capture =
                Capture { backtrace: None, asker: Context::empty(), asker_side: Side::thread() };
            let request: *mut Capture = &raw mut capture;
            self.set_running(fiber);
            (*request).asker_side.leave(&(*fiber).side);
            context::switch(
                &raw mut (*request).asker,
                &raw const (*fiber).context,
                Word::new(request.cast()),
                arrival::CAPTURE,
            );
            (*request).asker_side.arrive();
            self.set_running(here);
            capture.backtrace
        }
    }

    /// Switches from the running fiber to the loop.
    ///
    /// # Safety
    ///
    /// As for [`switch`](Self::switch).
    #[inline(never)]
    unsafe fn switch_to_loop(&self, from: *mut Fiber) {
        // SAFETY: the loop is suspended while a fiber runs.
        unsafe {
            self.set_running(ptr::null_mut());
            let keep = (*from).keep_float_control.get();
            if keep {
                (*from).float_control.set(FloatControl::save());
                FloatControl::DEFAULT.load();
            }
            (*from).side.leave(&*self.idle_side.get());
            let (word, tag) = context::switch(
                &raw mut (*from).context,
                self.idle.get(),
                Word::uninit(),
                arrival::RESUME,
            );
            (*from).side.arrive();
            if keep {
                (*from).float_control.get().load();
            }
            self.arrived(word, tag);
        }
    }

    /// Ends a task on its own fiber. Returns a fresh task that can go on with the same stack.
    ///
    /// # Safety
    ///
    /// By the fiber, after its task has run.
    pub(crate) unsafe fn end_task(&self, fiber: &Fiber, task: *const Task) -> Option<*const Task> {
        // SAFETY: the runtime's reference is still there.
        unsafe {
            (*task).fiber.set(ptr::null_mut());
            self.retire(NonNull::new_unchecked(task.cast_mut()));
        }
        if self.closing.get() || self.main_ended.get() {
            return None;
        }
        self.tick();
        if let Some(Kind::Fresh(task)) = self.queue().peek().map(Runnable::kind)
            // SAFETY: a queued task is alive.
            && unsafe { (*task).stack } == fiber.stack().class()
        {
            self.queue().pop();
            return Some(task);
        }
        None
    }

    /// Publishes the end of a task and gives up the runtime's reference.
    ///
    /// # Safety
    ///
    /// Once, after the task has run or was abandoned.
    unsafe fn retire(&self, task: NonNull<Task>) {
        // SAFETY: the contract is passed on.
        unsafe {
            let ended = task.as_ref();
            self.registry().remove(ended);
            if ptr::eq(task.as_ptr(), self.main.get()) {
                self.main_ended.set(true);
            }
            let scope = ended.scope.take();
            let unobserved = Task::complete(task);
            match (scope, unobserved) {
                (None, None) => {}
                (None, Some(report)) => self.shared.report_unobserved(report),
                (Some(tally), unobserved) => {
                    if unobserved.is_some() {
                        tally.note_panic();
                    }
                    tally.end_one();
                }
            }
        }
    }

    /// The last switch of a fiber whose task has ended: somebody else reaps it.
    ///
    /// # Safety
    ///
    /// `fiber` must be the running one, with nothing left on its stack.
    ///
    /// Inlined into the first frame: a call that never returns would leave the processor's return
    /// predictor one off for the side that is switched to.
    #[inline(always)]
    pub(crate) unsafe fn leave_for_good(&self, fiber: *mut Fiber) -> ! {
        let over = self.closing.get() || self.main_ended.get();
        // SAFETY: the running fiber's control block is alive.
        let at_hand = unsafe { (*fiber).stack().stays_warm() };
        // Where the stack cannot simply be put back, the loop has room to give others back first.
        let next = if over || !at_hand { None } else { self.next() };
        self.set_running(next.unwrap_or(ptr::null_mut()));
        let word = Word::new(fiber.cast());
        // SAFETY: the next fiber, or the loop, is suspended or about to begin.
        unsafe {
            let (side, to) = match next {
                Some(next) => (&raw const (*next).side, &raw const (*next).context),
                None => (self.idle_side.get().cast_const(), self.idle.get().cast_const()),
            };
            (*fiber).side.leave_for_good(&*side);
            context::leave(to, word, arrival::REAP)
        }
    }

    // What a fiber calls.

    /// Lets every other runnable task run once.
    #[inline]
    pub(crate) fn yield_now(&self) {
        let fiber = self.running();
        if fiber.is_null() || thread::panicking() {
            return;
        }
        self.tick();
        if self.queue().is_empty() {
            return self.check_closing();
        }
        self.queue().push(Runnable::started(fiber));
        // SAFETY: the fiber is queued.
        unsafe {
            match self.next() {
                Some(next) if next == fiber => {}
                Some(next) => self.switch(fiber, next),
                None => self.switch_to_loop(fiber),
            }
        }
        self.check_closing();
    }

    /// Unwinds the running fiber if the carrier is closing.
    #[inline(always)]
    fn check_closing(&self) {
        if self.closing.get() {
            self.unwind();
        }
    }

    /// Waits until the epoch, begun by the running task, is claimed.
    ///
    /// Never unwinds: the caller puts its own records in order first and then calls
    /// [`check_cancelled`]. The caller finishes the epoch.
    pub(crate) fn wait(&self, epoch: Epoch, waiting: Waiting, deadline: Instant) {
        let fiber = self.running();
        // SAFETY: the running fiber and its task are alive; null means the loop.
        let Some((fiber_ref, task)) =
            (unsafe { fiber.as_ref().map(|fiber| (fiber, &*fiber.task.get())) })
        else {
            // A destructor that runs on the loop while the carrier closes.
            party::os_thread().waiter.retract(epoch, Outcome::Cancelled);
            return;
        };
        let waiter = &task.party.waiter;
        if self.closing.get() {
            waiter.retract(epoch, Outcome::Cancelled);
            return;
        }
        let limit = (!deadline.is_far_future()).then_some(deadline);
        if thread::panicking() {
            // The panic count is the thread's: nobody else may run here now. Wait in place.
            self.check_fork();
            fiber_ref.waiting.set(waiting);
            if limit.is_none() && !self.may_be_woken_from_outside() {
                self.stuck_in_place(task);
            }
            match (limit, self.virtual_now.get()) {
                (Some(deadline), Some(now)) => {
                    self.virtual_now.set(Some(now.max(deadline)));
                    waiter.retract(epoch, Outcome::TimedOut);
                }
                _ => waiter.block(epoch, limit),
            }
            fiber_ref.waiting.set(Waiting::Nothing);
            return;
        }
        if let Some(deadline) = limit {
            let timer = self.timers().insert(deadline, Alarm { fiber, epoch });
            fiber_ref.timer.set(Some(timer));
            if self.timers().len() == 1 {
                // The first one: see soon how fast time passes.
                let budget = self.budget.load(Ordering::Relaxed).min(FIRST_POLL);
                self.budget.store(budget, Ordering::Relaxed);
            }
        }
        fiber_ref.waiting.set(waiting);
        self.tick();
        // SAFETY: whoever claims the wait finds the fiber.
        unsafe {
            match self.next() {
                Some(next) if next == fiber => {}
                Some(next) => self.switch(fiber, next),
                None => self.switch_to_loop(fiber),
            }
        }
        fiber_ref.waiting.set(Waiting::Nothing);
        if let Some(timer) = fiber_ref.timer.take() {
            self.timers().cancel(timer);
        }
    }

    // The loop.

    /// Runs `main` and everything that it spawns, until it has ended.
    ///
    /// Returns the deadlock that kept it from ending, if one did.
    pub(crate) fn run(&self, main: NonNull<Task>) -> Option<Deadlock> {
        let _current = Enter::new(self);
        self.main.set(main.as_ptr());
        self.adopt(main);
        let mut deadlock = None;
        while !self.main_ended.get() {
            match self.next_on_loop() {
                Some(fiber) => self.dispatch(fiber),
                None if self.idle() => {}
                None => {
                    deadlock = Some(Deadlock::of(self));
                    break;
                }
            }
        }
        self.close();
        deadlock
    }

    /// Switches from the loop to a fiber, and comes back when there is nothing to run.
    #[inline(always)]
    fn dispatch(&self, fiber: *mut Fiber) {
        self.check_fork();
        self.set_running(fiber);
        // SAFETY: the fiber is suspended or about to begin. The loop's own context is read only
        // while it is suspended here.
        unsafe {
            (*self.idle_side.get()).leave(&(*fiber).side);
            let (word, tag) = context::switch(
                self.idle.get(),
                &raw const (*fiber).context,
                Word::uninit(),
                arrival::RESUME,
            );
            (*self.idle_side.get()).arrive();
            self.arrived(word, tag);
        }
    }

    /// With nothing to run: fires timers and takes in mail, or sleeps until there is some.
    ///
    /// False: nothing can ever become runnable.
    fn idle(&self) -> bool {
        self.check_fork();
        self.take_mail();
        let next = self.timers().next_deadline();
        let mut now = Instant::from_nanos(0);
        if next.is_some() {
            now = self.now();
            self.fire_timers(now);
        }
        if !self.queue().is_empty() {
            return true;
        }
        let timeout = match self.timers().next_deadline() {
            Some(next) if self.virtual_now.get().is_some() => {
                // Nobody can do anything before then: it is then. All timers of that instant are due.
                self.virtual_now.set(Some(next));
                return true;
            }
            Some(next) => Some(next.saturating_duration_since(now)),
            None if self.may_be_woken_from_outside() => Some(Duration::from_millis(500)),
            None => return false,
        };
        self.mailbox.sleep(timeout);
        true
    }

    /// Whether a task waits for a stack.
    pub(crate) fn is_starved(&self, task: &Task) -> bool {
        self.starved().iter().any(|starved| ptr::eq(starved.as_ptr(), task))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Whether some OS thread could still make a task of this carrier runnable.
    ///
    /// It could through a runtime handle; by unparking a parked task whose `Thread` handle it holds;
    /// and through a primitive that tasks wait for, if it has to do with it: which is known of
    /// threads that have used it, and must be feared of threads that began after this carrier did.
    /// Two references to a task are the runtime's and the join handle's, not a `Thread` handle.
    fn may_be_woken_from_outside(&self) -> bool {
        if !self.mailbox.is_empty() || self.shared.has_handles() {
            return true;
        }
        let (mut by_any, mut by_a_new_one) = (false, false);
        for task in self.registry().iter() {
            // SAFETY: registered tasks are alive, the fiber is theirs, and what it waits for exists.
            unsafe {
                match task.fiber.get().as_ref().map(|fiber| fiber.waiting.get()) {
                    Some(Waiting::Park(_)) => by_any |= task.party.references() > 2,
                    Some(Waiting::On(resource)) if (*resource).is_foreign() => by_any = true,
                    Some(Waiting::On(_)) => by_a_new_one = true,
                    _ => {}
                }
            }
        }
        // The first of the runtime's own threads is this one; the others began after it did.
        let own = self.shared.own_threads();
        (by_any && foreign::threads_besides(own))
            || (by_a_new_one && foreign::threads_since(self.began) > own - 1)
    }

    // Closing.

    /// Ends everything that has not ended.
    fn close(&self) {
        self.check_fork();
        self.shared.close();
        self.closing.set(true);
        self.take_mail();
        self.queue().drain();
        self.starved().clear();
        let mut tasks: Vec<(ThreadId, NonNull<Task>)> =
            self.registry().iter().map(|task| (task.party.id, NonNull::from(task))).collect();
        // First all waits: what an unwinding fiber gives back must not be handed to one that is about
        // to be unwound as well.
        for &(_, task) in &tasks {
            // SAFETY: registered tasks are alive until they are retired.
            self.call_off(unsafe { task.as_ref() });
        }
        // The newest first: see the module documentation.
        tasks.sort_unstable_by_key(|&(id, _)| std::cmp::Reverse(id));
        for (_, task) in tasks {
            self.queue().drain();
            self.finish_off(task);
        }
        self.take_mail();
        self.queue().drain();
    }

    /// Ends the wait of a parked task, whatever it was for.
    fn call_off(&self, task: &Task) {
        let Some(epoch) = task.party.waiter.parked_epoch() else { return };
        if task.party.notify(epoch, Outcome::Cancelled) {
            return;
        }
        // Another thread claimed it first and is about to say so: wait for its mail, so that nobody
        // refers to the task when it is gone.
        loop {
            self.take_mail();
            if self.queue().drain().contains(&Runnable::started(task.fiber.get())) {
                return;
            }
            self.mailbox.sleep(Some(Duration::from_millis(1)));
        }
    }

    /// Ends one task: drops its closure, or unwinds its stack.
    fn finish_off(&self, task: NonNull<Task>) {
        // SAFETY: registered tasks are alive until they are retired, here or on their own fiber.
        unsafe {
            let ended = task.as_ref();
            let fiber = ended.fiber.get();
            if fiber.is_null() {
                ended.abandon();
                self.retire(task);
                return;
            }
            if cfg!(panic = "abort") {
                // Nothing can be unwound: the stack and what it owns are leaked.
                ended.fiber.set(ptr::null_mut());
                self.registry().remove(ended);
                return;
            }
            self.dispatch(fiber);
        }
    }

    /// Unwinds the running fiber: the carrier is closing.
    #[cold]
    #[inline(never)]
    pub(crate) fn unwind(&self) {
        let fiber = self.running();
        if fiber.is_null() || thread::panicking() {
            return;
        }
        // SAFETY: the running fiber and its task are alive.
        unsafe {
            let unwinds = (*fiber).unwinds.get() + 1;
            (*fiber).unwinds.set(unwinds);
            if unwinds > UNWIND_ATTEMPTS {
                self.give_up(fiber);
            }
        }
        panic::resume_unwind(Box::new(Cancelled::NEW));
    }

    /// Leaves a fiber that catches every unwind and waits again.
    unsafe fn give_up(&self, fiber: *mut Fiber) -> ! {
        // SAFETY: the fiber and its task are alive; the stack is leaked, and with it the task.
        unsafe {
            let task = &*(*fiber).task.get();
            let mut name = String::new();
            let _ = task.describe(&mut name);
            if task.is_scoped() {
                eprintln!(
                    "pirn: {name} caught {UNWIND_ATTEMPTS} unwinds and waited again each time; \
                     its borrows end with its scope: aborting"
                );
                process::abort();
            }
            eprintln!(
                "pirn: {name} caught {UNWIND_ATTEMPTS} unwinds and waited again each time; \
                 its stack is leaked"
            );
            self.registry().remove(task);
            self.switch_to_loop(fiber);
        }
        unreachable!("a fiber that was given up was resumed")
    }

    /// A fiber that unwinds waits for something that only a fiber of this carrier could bring.
    #[cold]
    fn stuck_in_place(&self, task: &Task) -> ! {
        let mut name = String::new();
        let _ = task.describe(&mut name);
        eprintln!(
            "pirn: deadlock: {name} waits while a panic unwinds it; meanwhile nothing else can run \
             on its carrier, and nobody else can wake it: aborting\n{}",
            Deadlock::of(self)
        );
        process::abort();
    }
}

/// Whether the running fiber is being unwound because its runtime ends: no panic of its own.
pub(crate) fn is_being_cancelled() -> bool {
    let fiber = Carrier::current().and_then(Carrier::current_fiber);
    fiber.is_some_and(|fiber| fiber.unwinds.get() > 0)
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
        Enter { outer: CARRIER.replace(carrier), _listing: Listing::new(carrier) }
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        CARRIER.set(self.outer);
    }
}
