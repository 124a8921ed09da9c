//! The threads of a machine that are tasks, and how those ended that failed.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;

use super::common::Common;
use super::core::Core;
use super::future::{self, Future};
use super::wait::{GuestWait, State, Timeout, What};
use crate::blocking::Job;
use crate::sched::carrier::Carrier;
use crate::task::Context;
use crate::vm::heap::{HeapFull, LocalHeap, Tracer};
use crate::vm::interp::{Thread, Thrown};
use crate::vm::native::Word;

/// Bytes of a task besides its segment: its record, in which the thread lies, and its places in tables.
pub(super) const TASK: usize = 256;

/// Bytes by which the heap's account of tasks may be wrong.
const PORTION: usize = 64 << 10;

/// What a thread has left to the pool.
#[derive(Debug)]
enum Left {
    Job(Job<Finished>),
    /// It was done before the thread had begun to wait.
    Done(Option<Finished>),
}

/// What a job gave.
pub(crate) type Finished = Box<dyn Any + Send>;

/// A task that ended with an exception which nobody has observed yet, or which was observed last.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) id: u32,
    future: Word,
    pub(crate) thrown: Thrown,
}

/// The threads of a call, and what belongs to all of them: the same for all machines of the call.
#[derive(Debug, Default)]
pub(crate) struct Table {
    threads: Vec<Option<NonNull<Thread>>>,
    free: Vec<u32>,
    /// How many there are.
    pub(crate) live: usize,
    next_id: u32,
    /// Ended by exceptions that nobody has observed, by id.
    failures: BTreeMap<u32, Failure>,
    /// The last failure that somebody observed: where the exception came from, should it go on.
    observed: Option<Thrown>,
    /// The loop of the package `event` that belongs to the present call; 0 until it is asked for.
    pub(crate) event_loop: Word,
    /// What the function has given that the host called, until the next call: a reference, or 0.
    result: Word,
    /// Keeps the core alive while there are tasks: a call of the host may be unwound before they are gone.
    keeper: Option<Arc<Core>>,
}

/// What a machine knows of its tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) table: Common<Table>,
    /// Bytes of tasks that the heap has not been told of yet, or too many.
    owed: isize,
    /// Fibers of the host that wait in queues of the machine.
    pub(super) guests: Vec<NonNull<GuestWait>>,
    /// What threads have left to the pool, by their places.
    jobs: HashMap<u32, Left>,
    /// What a job gave, for the call that is made again.
    pub(crate) finished: Option<Finished>,
    /// The task that has the machine.
    context: Option<NonNull<Context<'static>>>,
    /// Whose tasks these are; set before there are any.
    core: Option<NonNull<Core>>,
}

// SAFETY: the pointers are to threads, contexts and the core of this machine's tasks, which are used
// only on the carrier that runs them; while there are none a machine may move.
unsafe impl Send for Tasks {}

impl Tasks {
    /// Takes a thread in, which becomes a task. Returns its id, which is the next one, and its place.
    #[inline]
    pub(super) fn add(&mut self, thread: &mut Thread) -> (u32, u32) {
        if self.table.live == 0 {
            self.table.keeper = self.shared_core();
        }
        let table = &mut *self.table;
        let id = table.next_id;
        table.next_id += 1;
        table.live += 1;
        let entry = Some(NonNull::from(&mut *thread));
        let place = match table.free.pop() {
            Some(place) => {
                table.threads[place as usize] = entry;
                place
            }
            None => {
                assert!(table.threads.len() < future::MOST_PLACES, "too many tasks");
                table.threads.push(entry);
                (table.threads.len() - 1) as u32
            }
        };
        (id, place)
    }

    /// Takes a thread out that will not go on. With the last one comes what keeps the core alive, and
    /// with that the machine: it is to be dropped after everything else.
    #[must_use]
    #[inline]
    pub(super) fn remove(&mut self, thread: &mut Thread) -> Option<Arc<Core>> {
        thread.wait.end();
        let place = thread.place();
        if !self.jobs.is_empty() {
            self.jobs.remove(&place);
        }
        debug_assert_eq!(self.at(place as usize), Some(NonNull::from(&mut *thread)));
        let table = &mut *self.table;
        table.threads[place as usize] = None;
        table.free.push(place);
        table.live -= 1;
        if table.live == 0 { table.keeper.take() } else { None }
    }

    /// Bytes that tasks take or have given back, for the heap, which is told of them in portions.
    pub(crate) fn charge(&mut self, heap: &LocalHeap, bytes: isize) {
        self.owed += bytes;
        if self.owed.unsigned_abs() >= PORTION {
            heap.account(std::mem::take(&mut self.owed));
        }
    }

    /// Takes over what another machine owes.
    pub(super) fn take_debt(&mut self, other: &mut Tasks) {
        self.owed += std::mem::take(&mut other.owed);
    }

    /// Fails if a task would pass the limit of the heap.
    ///
    /// # Errors
    ///
    /// Where it would.
    pub(crate) fn has_room(&self, heap: &LocalHeap) -> Result<(), HeapFull> {
        heap.has_room(TASK.saturating_add_signed(self.owed))
    }

    /// The next call of the host counts its tasks from 0.
    pub(super) fn begin(&mut self, core: NonNull<Core>) {
        self.core = Some(core);
        let table = &mut *self.table;
        debug_assert_eq!(table.live, 0);
        table.next_id = 0;
        table.event_loop = 0;
        table.result = 0;
        table.observed = None;
        table.threads.clear();
        table.free.clear();
    }

    /// There is no task of a function that the host called: the others count from 1.
    pub(super) fn skip_main(&mut self) {
        self.table.next_id = 1;
    }

    /// Those of another machine of the same call.
    ///
    /// # Safety
    ///
    /// As for [`Common::share`].
    pub(crate) unsafe fn beside(&self) -> Tasks {
        // SAFETY: the contract.
        let table = unsafe { self.table.share() };
        Tasks { table, core: self.core, ..Tasks::default() }
    }

    /// Keeps what the function gives that the host called.
    pub(super) fn keep_result(&mut self, reference: Word) {
        self.table.result = reference;
    }

    /// What the tasks share; `None` before the first call.
    pub(crate) fn shared_core(&self) -> Option<Arc<Core>> {
        // SAFETY: a core lives in an `Arc`, and has this machine.
        self.core.map(|core| unsafe {
            Arc::increment_strong_count(core.as_ptr());
            Arc::from_raw(core.as_ptr())
        })
    }

    /// [`shared_core`](Self::shared_core), which is alive while there are tasks.
    #[inline(always)]
    pub(super) fn core(&self) -> Option<NonNull<Core>> {
        self.core
    }

    /// [`core`](Self::core), for a task.
    pub(super) fn core_of_tasks(&self) -> NonNull<Core> {
        self.core.expect("a task runs, and has a core")
    }

    /// The threads, in no order.
    pub(crate) fn threads(&self) -> impl Iterator<Item = NonNull<Thread>> + '_ {
        self.table.threads.iter().flatten().copied()
    }

    /// The thread at a place.
    pub(super) fn at(&self, place: usize) -> Option<NonNull<Thread>> {
        self.table.threads.get(place).copied().flatten()
    }

    /// Whether they run on several carriers.
    pub(crate) fn have_crew(&self) -> bool {
        // SAFETY: by a task, or while there are none.
        self.core.is_some_and(|core| unsafe { core.as_ref().crew() }.is_some())
    }

    /// Whether the function has ended that the host called.
    pub(crate) fn is_ending(&self) -> bool {
        // SAFETY: with a crew, which asks, the turn keeps the core.
        self.core.is_some_and(|core| unsafe { core.as_ref() }.is_ending())
    }

    /// A task is resumed, or gives the machine back.
    pub(crate) fn set_context(&mut self, context: Option<NonNull<Context<'static>>>) {
        self.context = context;
    }

    /// That of the task which has the machine.
    #[inline]
    pub(super) fn context(&self) -> Option<NonNull<Context<'static>>> {
        self.context
    }

    /// Whether a task has the machine: else it runs on its caller's own stack.
    pub(crate) fn is_task(&self) -> bool {
        self.context.is_some()
    }

    /// Polls something for the running thread; pending where none is a task.
    pub(crate) fn poll<T>(&mut self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        match self.context {
            // SAFETY: the context is that of the resume which is under way.
            Some(mut context) => poll(unsafe { context.as_mut() }),
            None => Poll::Pending,
        }
    }

    /// Leaves something to the pool for the running thread, which then waits for it. True: it is done
    /// already; so that others have their turn all the same, the thread is to wake itself.
    pub(crate) fn leave_to_pool(&mut self, place: u32, job: Job<Finished>) -> bool {
        self.jobs.insert(place, Left::Job(job));
        let done = self.has_finished(place);
        if done {
            self.jobs.insert(place, Left::Done(self.finished.take()));
        }
        done
    }

    /// Whether the running thread's job is done: then the call is to be made again, and finds what it
    /// gave. Else the task is resumed when it is.
    pub(crate) fn has_finished(&mut self, place: u32) -> bool {
        let job = match self.jobs.get_mut(&place) {
            Some(Left::Job(job)) => job,
            Some(Left::Done(done)) => {
                self.finished = done.take();
                self.jobs.remove(&place);
                return true;
            }
            None => return true,
        };
        // SAFETY: the context is that of the resume which is under way.
        let Some(context) = self.context.map(|mut context| unsafe { context.as_mut() }) else {
            return false;
        };
        let Poll::Ready(result) = job.poll_join(context) else { return false };
        self.jobs.remove(&place);
        // A job that was taken back, which nobody does, would be left to the pool once more.
        self.finished = result.ok();
        true
    }

    /// The running thread does not wait for its job any more.
    pub(crate) fn forget_job(&mut self, place: u32) {
        self.jobs.remove(&place);
    }

    /// Whether somebody else could run now.
    pub(crate) fn others_can_run(&self) -> bool {
        match self.context {
            // SAFETY: the context is that of the resume which is under way.
            Some(context) if self.have_crew() => unsafe { context.as_ref() }.others_are_queued(),
            // SAFETY: as above.
            Some(context) => unsafe { context.as_ref() }.should_yield(),
            None => Carrier::current().is_some_and(Carrier::others_can_run),
        }
    }

    /// A task has failed, and its future holds the exception.
    pub(super) fn note_failure(&mut self, future: Future, thrown: Thrown) {
        let id = future.id();
        self.table.failures.insert(id, Failure { id, future: future.word(), thrown });
    }

    /// Somebody observes how a future ended.
    pub(crate) fn observe(&mut self, future: Future) {
        if future.is_seen() {
            return;
        }
        future.see();
        if let Some(failure) = self.table.failures.remove(&future.id()) {
            self.table.observed = Some(failure.thrown);
        }
    }

    /// Where an exception came from that passed from one task to another.
    pub(crate) fn origin(&self, exception: Word) -> Option<&[String]> {
        let observed = self.table.observed.as_ref()?;
        (observed.exception == exception).then_some(&observed.backtrace)
    }

    /// What nobody has observed, by id.
    pub(super) fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.table.failures).into_values().collect()
    }

    /// Tells the references in what all machines of the call have; the threads are the interpreter's to tell.
    pub(crate) fn trace_common(&self, tracer: &mut Tracer<'_>) {
        tracer.reference(self.table.event_loop);
        tracer.reference(self.table.result);
        for failure in self.table.failures.values() {
            tracer.reference(failure.future);
            tracer.reference(failure.thrown.exception);
        }
        if let Some(observed) = &self.table.observed {
            tracer.reference(observed.exception);
        }
    }

    /// Tells the references of the machine's guests.
    pub(crate) fn trace(&self, tracer: &mut Tracer<'_>) {
        for guest in &self.guests {
            // SAFETY: a guest takes itself out before it goes.
            unsafe { guest.as_ref() }.wait.trace(tracer);
        }
    }
}

/// How a thread goes on whose wait is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoOn {
    /// It was not waiting, or makes its call again.
    Run,
    /// The call gives this word.
    Give(Word),
    /// An arm of a select is done, and has received this.
    Selected(usize, Word),
    /// It waits still.
    Wait,
    // The call throws an exception, which is to be made.
    Closed(What),
    TimedOut(What),
    Cancelled,
}

impl Thread {
    /// How the thread's wait stands; ends it unless it goes on.
    pub(crate) fn look(&mut self) -> GoOn {
        let wait = &mut self.wait;
        let go_on = match wait.node.state {
            State::Idle => return GoOn::Run,
            State::Again => GoOn::Run,
            State::Served if wait.node.what == What::Select => {
                GoOn::Selected(wait.served() as usize, wait.node.value)
            }
            State::Served => GoOn::Give(wait.node.value),
            State::Closed => GoOn::Closed(wait.node.what),
            State::Cancelled => GoOn::Cancelled,
            // The call looks itself, at what it waits for and at the time.
            State::Waiting if wait.node.what.is_polled() => GoOn::Run,
            State::Waiting if !wait.is_due() => return GoOn::Wait,
            State::Waiting => match wait.node.timeout {
                Timeout::Throws => GoOn::TimedOut(wait.node.what),
                Timeout::Nothing => GoOn::Give(0),
                Timeout::MinusOne => GoOn::Give(Word::from(u32::MAX)),
            },
        };
        wait.leave();
        go_on
    }
}
