//! The interpreter: runs the threads of a linked program.
//!
//! | file | owns |
//! |---|---|
//! | `image` | what is loaded, for all machines that run it |
//! | `tables` | the linked program as the handlers read it |
//! | `load` | bringing modules in |
//! | `thread` | the segment of frames of a thread, and how to walk it |
//! | `state` | the registers of the machine, as handlers pass them on |
//! | `dispatch` | from one instruction to the next |
//! | `arithmetic`, `jumps`, `calls`, `objects` | the hot code of the instructions |
//! | `slow` | what they do outside the hot code |
//! | `targets` | what calls find out late: interface methods, function values |
//! | `raise`, `throw` | exceptions that instructions raise; the search for handlers |
//! | `native` | calls of native functions, and their calls back |
//! | `collect` | the roots of a collection |
//! | `text` | values as text |
//!
//! # How it runs
//!
//! [`Machine::run`] takes a [`Thread`] and executes it until it ends or something else must happen
//! first: then it returns an [`Exit`], with the thread complete in its segment, and may be called again
//! later. Calls between script functions push frames onto the segment; only a native function that
//! calls back into the script stands on the native stack.
//!
//! Hot code holds the state in the processor's registers. Everything that may collect, throw, grow
//! the segment or end the run is a slow path: it finds the state in the machine, with `pc` at the
//! instruction that needs it, and leaves there how to go on. So at each slow path a collection is
//! possible, with the registers as they were before the instruction.
//!
//! # One counter
//!
//! `budget` is decremented by back-edges and calls. Below zero, [`tick`] looks for what is to be done:
//! a stop request, the end of the fuel, a pause, a collection, another thread's turn; then a new slice
//! of [`SLICE`] begins.

#[allow(non_snake_case)]
mod arithmetic;
#[allow(non_snake_case)]
mod calls;
mod collect;
mod dispatch;
mod image;
#[allow(non_snake_case)]
mod jumps;
mod load;
mod native;
#[allow(non_snake_case)]
mod objects;
mod raise;
mod slow;
mod state;
mod tables;
mod targets;
#[cfg(test)]
mod tests;
mod text;
mod thread;
mod throw;

use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) use load::LoadError;
pub(crate) use native::LinkedNative;
pub(crate) use state::Step;
pub(crate) use targets::{Entered, Started};
pub(crate) use thread::{Begin, Thread};
pub(crate) use throw::Thrown;

use self::image::{Image, heap_type};
use self::tables::{Entry, Instance, SelectorCache, SwitchTable, stub};
use self::thread::Segment;
use super::heap::LocalHeap;
use super::native::{Interrupt, States, Word};
use super::op::Code;
use super::tasks::Tasks;
use super::tasks::common::Common;
use super::tasks::crew::{Crew, Held};
use super::types::FunctionId;
use crate::coroutine::Suspender;
use crate::task;

/// Back-edges and calls of one slice.
pub(crate) const SLICE: u64 = 1000;

/// Frames of a thread, if the host says nothing else.
pub(crate) const DEFAULT_DEPTH: usize = 200_000;

/// As much fuel as nobody uses up.
const UNLIMITED: u64 = u64::MAX;

/// Segments that are kept for new threads, and the longest one that is.
const SPARE: usize = 64;
const SPARE_WORDS: usize = 512;

/// The most words of a segment, whatever the depth: 512 MiB.
const MOST_WORDS: usize = 1 << 26;

/// So many words a segment may have, however small the heap is.
const LEAST_WORDS: usize = 1 << 17;

/// Why a thread no longer runs.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Its function returned this word.
    Done(Word),
    /// Its slice is over, and others can run.
    Yielded,
    /// A native function waits: the thread's [`wait`](Thread::wait) says for what.
    Parked,
    /// A native function needs a task to wait in, or to spawn another: the run goes on by
    /// [`Machine::resume`], where the call is made again.
    NeedsTask,
    /// Somebody asked for a pause.
    Paused,
    /// An exception that nobody caught.
    Thrown(Thrown),
    /// It was ended from outside.
    Stopped(Stop),
}

/// An [`Exit`] without what comes with it, which the machine keeps until it is [asked](Machine::exit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The word is the machine's `operand`.
    Done,
    /// A task has ended, with everything that belongs to that.
    Ended,
    Yielded,
    Parked,
    NeedsTask,
    Paused,
    /// It is what was `last_thrown`.
    Thrown,
    Stopped(Stop),
}

/// Who ended a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A stop handle.
    Requested,
    /// The fuel ran out.
    OutOfFuel,
}

/// Limits of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Frames of a thread.
    pub(crate) depth: usize,
    /// Back-edges and calls until the end; none for no end.
    pub(crate) fuel: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { depth: DEFAULT_DEPTH, fuel: None }
    }
}

/// What runs threads: the state of the one that runs, and all that they share.
///
/// The fields of the first group are read by hot code through a raw pointer.
#[repr(C)]
pub(crate) struct Machine {
    /// The end of the usable part of the current segment.
    limit: *mut Word,
    entries: *const Entry,
    vtables: *const *const *const Entry,
    instances: *const Instance,
    /// Whether other carriers run on the heap.
    shared: bool,
    /// The carriers on which the threads of the present call run, if these are several.
    crew: Option<NonNull<Crew>>,
    words: *const Word,
    texts: *const Word,
    switches: *const SwitchTable,
    natives: *const LinkedNative,
    pc: *const Code,
    base: *mut Word,
    budget: isize,
    /// What the call that found no room wanted to enter.
    callee: *const Entry,
    selector_cache: SelectorCache,

    /// The thread that runs; null between runs.
    thread: *mut Thread,
    /// Why the dispatch ended.
    halt: Halt,
    /// What the budget was at the begin of the slice.
    granted: u64,
    /// Back-edges and calls until the end; `UNLIMITED` for no end.
    fuel: u64,
    /// There is no limit, and no crew: nothing to be seen to between two threads.
    simple: bool,
    /// As if somebody else could always run.
    #[cfg(test)]
    pub(crate) others_wait: bool,
    /// The threads that are tasks.
    pub(crate) tasks: Tasks,
    /// The inside of the native stack that the run stands on; null for the caller's own.
    suspender: *const Suspender<(), Halt>,
    /// Segments of threads that have ended, for new ones.
    spare: Vec<Segment>,
    pub(crate) limits: Limits,
    pub(crate) heap: LocalHeap,
    pub(crate) image: Arc<Image>,
    /// References that native functions hold while they call the script.
    locals: Vec<Word>,
    /// Why a nested run was stopped.
    stopped: Option<Stop>,
    /// The lowest address of the native stack from which native functions may call the script.
    stack_floor: usize,
    /// What a slow path that moves to a window works on.
    operand: Word,
    /// For texts that are being put together.
    buffer: String,
    /// Where the last exception without a handler was thrown.
    last_thrown: Option<Thrown>,
    /// Where the last exception with a handler came from.
    origin: throw::Origin,
    /// What natives keep, for all machines of a call.
    pub(crate) states: Common<States>,
    /// What they keep for this machine.
    pub(crate) own: States,
    /// Which carrier of the crew it is.
    number: usize,
    pub(crate) interrupt: Arc<Interrupt>,
}

// SAFETY: the pointers point into the image, which the machine keeps, and, between `run`'s begin and end
// only, into the thread that it borrows.
unsafe impl Send for Machine {}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("modules", &self.image.program.module_count())
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// A thread that stands at the begin of a function, with its arguments; it is no task yet, and settles
    /// nothing at its end.
    pub(crate) fn start(&mut self, function: FunctionId, arguments: &[Word]) -> Thread {
        Thread::new(self.prepare(function, arguments), 0, false)
    }

    /// Where a thread stands at the begin of a function, with its arguments.
    #[inline]
    pub(crate) fn prepare(&mut self, function: FunctionId, arguments: &[Word]) -> Begin {
        let depth = self.limits.depth.min(self.most_words());
        let entry = self.image.tables.entries[function.0 as usize];
        let least = 1 + entry.bytes / size_of::<Word>();
        let mut segment = self.spare.pop().unwrap_or(Segment::empty()).with(least);
        let words = segment.words();
        words[0] = stub().expose_provenance() as Word;
        for (word, &argument) in words[1..].iter_mut().zip(arguments) {
            *word = argument;
        }
        // Both fit: see `MOST_WORDS`.
        Begin { segment, pc: entry.code, allowed: depth.max(least) as u32 }
    }

    /// Keeps what a thread has that has ended, for another one.
    pub(crate) fn recycle(&mut self, thread: &mut Thread) {
        if self.spare.len() < SPARE && thread.words().len() <= SPARE_WORDS {
            self.spare.push(thread.take_segment());
        }
    }

    /// The most words of a segment: where the heap is limited, no more than that.
    fn most_words(&self) -> usize {
        (self.heap.limit() / size_of::<Word>()).clamp(LEAST_WORDS, MOST_WORDS)
    }

    /// Back-edges and calls that are left, if they are limited.
    pub(crate) fn fuel(&self) -> Option<u64> {
        (self.fuel != UNLIMITED).then_some(self.fuel)
    }

    /// Sets or lifts the limit.
    pub(crate) fn set_fuel(&mut self, fuel: Option<u64>) {
        self.fuel = fuel.unwrap_or(UNLIMITED);
        self.simplify();
    }

    /// Runs a thread, from where it stands, with a new slice.
    ///
    /// # Panics
    ///
    /// If a native function panics. The machine goes on; the thread does not, and may only be dropped.
    #[inline(never)]
    pub(crate) fn run(&mut self, thread: &mut Thread) -> Exit {
        // SAFETY: the thread is borrowed.
        let halt = unsafe { self.go(thread) };
        self.exit(halt)
    }

    /// How a run ended, with what comes with it; once.
    #[inline]
    pub(crate) fn exit(&mut self, halt: Halt) -> Exit {
        match halt {
            Halt::Done => Exit::Done(self.operand),
            Halt::Ended => unreachable!("nothing is left to be done"),
            Halt::Yielded => Exit::Yielded,
            Halt::Parked => Exit::Parked,
            Halt::NeedsTask => Exit::NeedsTask,
            Halt::Paused => Exit::Paused,
            Halt::Thrown => Exit::Thrown(self.last_thrown.clone().expect("it was thrown just now")),
            Halt::Stopped(stop) => Exit::Stopped(stop),
        }
    }

    /// [`run`](Self::run); what comes with the reason is kept. In the end it may be another thread that
    /// has run, to which this one has given way.
    ///
    /// # Safety
    ///
    /// The thread is alive, and no reference to it is used meanwhile.
    #[inline(always)]
    unsafe fn go(&mut self, thread: *mut Thread) -> Halt {
        assert!(self.thread.is_null(), "one thread at a time");
        self.thread = thread;
        if self.last_thrown.is_some() {
            self.last_thrown = None;
        }
        self.shared = self.heap.is_shared();
        // A turn of a crew has entered already.
        let entered = self.shared && self.heap.enter_once();
        self.begin_slice();
        self.enter_thread();
        let has_crew = self.crew.is_some();
        let abandon = Abandon(self, entered);
        // SAFETY: `self` is not used before the run has ended. The thread stands between two
        // instructions of verified code: `start` put it there, or the run before left it so.
        unsafe {
            (*thread).begun = true;
            let ready = !has_crew && (*thread).is_ready();
            let step = if ready { Step::Continue } else { (*abandon.0).go_on() };
            if step == Step::Continue {
                dispatch::run(abandon.0);
            }
        }
        std::mem::forget(abandon);
        self.leave_thread();
        self.thread = std::ptr::null_mut();
        self.origin.exception = 0;
        self.end_slice();
        if entered {
            self.heap.leave();
        }
        self.halt
    }

    /// [`run`](Self::run), for a thread that is the task which is being resumed.
    ///
    /// What comes with the reason is for [`exit`](Self::exit) to say. It concerns the task that the
    /// context is of in the end.
    ///
    /// # Safety
    ///
    /// The thread is alive, and no reference to it is used meanwhile, nor one to the others that are
    /// tasks.
    #[inline(always)]
    pub(crate) unsafe fn resume(
        &mut self,
        thread: *mut Thread,
        cx: &mut task::Context<'_>,
    ) -> Halt {
        if self.interrupt.stop_requested() {
            return Halt::Stopped(Stop::Requested);
        }
        if self.fuel == 0 {
            return Halt::Stopped(Stop::OutOfFuel);
        }
        self.tasks.set_context(Some(NonNull::from(cx).cast()));
        // SAFETY: the contract.
        let halt = unsafe { self.go(thread) };
        self.tasks.set_context(None);
        halt
    }

    /// The current thread gives way, or waits: goes on with the next one, if that can go on at once, or
    /// else leaves the run for this reason.
    #[inline]
    fn give_way(&mut self, halt: Halt) -> Step {
        match self.next_thread(halt == Halt::Parked) {
            Some(next) => self.change_to(next.as_ptr()),
            None => {
                self.end_slice();
                self.leave(halt)
            }
        }
    }

    /// The current thread has returned, which is a task: ends it, and goes on with the next one, or leaves
    /// the run.
    fn end_task(&mut self) -> Step {
        self.end_slice();
        let goes_on = (self.simple || self.fuel != 0 && !self.is_to_end())
            && !self.interrupt.stop_requested();
        // SAFETY: it runs as a task, and is not the last one.
        match unsafe { self.end_and_pass_on(goes_on) } {
            Some(next) => self.enter_other(next.as_ptr()),
            None => self.leave(Halt::Ended),
        }
    }

    #[inline(always)]
    fn next_thread(&mut self, parks: bool) -> Option<NonNull<Thread>> {
        let can = match self.simple {
            true => self.can_pass_on(parks),
            false => self.can_pass_on_slowly(parks),
        };
        if can { self.tasks.pass_on(parks) } else { None }
    }

    /// Whether the run may go on with another thread, if there is one.
    #[inline(always)]
    fn can_pass_on(&mut self, parks: bool) -> bool {
        // SAFETY: the current thread is borrowed by `run`.
        let thread = unsafe { &*self.thread };
        // A thread with native functions in the middle of it leaves them on a stack; deadlines are
        // looked at between two runs, and what else ends them.
        self.suspender.is_null()
            && thread.middle.is_none()
            && !(parks && thread.wait.has_deadline())
            && !self.interrupt.stop_requested()
    }

    /// [`can_pass_on`](Self::can_pass_on), where fuel is limited, or others may be about to end the wait.
    #[inline(never)]
    fn can_pass_on_slowly(&mut self, parks: bool) -> bool {
        self.end_slice();
        // SAFETY: as there; with a crew, its wait is looked at under the lock.
        unsafe {
            self.fuel != 0
                && self.suspender.is_null()
                && (*self.thread).middle.is_none()
                && !self.interrupt.stop_requested()
                && !self.is_to_end()
                && !(parks && {
                    let _held = self.hold();
                    (*self.thread).wait.has_deadline()
                })
        }
    }

    /// Ends the run of the current thread and begins that of another, which is a task as well and does
    /// not run.
    #[inline(always)]
    fn change_to(&mut self, next: *mut Thread) -> Step {
        // SAFETY: it is borrowed by `run`, used by this pointer alone, and has no window.
        unsafe {
            (*self.thread).pc = self.pc;
            (*self.thread).base = self.base_offset() as u32;
        }
        self.enter_other(next)
    }

    /// Begins the run of a thread that is a task, in the middle of another's, which is complete or gone.
    #[inline(always)]
    fn enter_other(&mut self, next: *mut Thread) -> Step {
        // SAFETY: it is alive, as its task is, and used by this pointer alone.
        unsafe { (*next).begun = true };
        self.thread = next;
        if self.last_thrown.is_some() {
            self.last_thrown = None;
        }
        self.origin.exception = 0;
        self.begin_slice();
        self.enter_thread();
        self.go_on()
    }

    /// Takes the thread's state as the machine's.
    #[inline]
    fn enter_thread(&mut self) {
        // SAFETY: the current thread is borrowed by `run`.
        let thread = unsafe { &mut *self.thread };
        if let Some(window) = thread.window_mut() {
            std::mem::swap(&mut self.locals, &mut window.locals);
        }
        self.pc = thread.pc;
        self.base = thread.start().wrapping_add(thread.base as usize);
        self.limit = thread.limit();
    }

    /// Puts the machine's state into the thread.
    #[inline]
    fn leave_thread(&mut self) {
        let base = self.base_offset();
        // SAFETY: the current thread is borrowed by `run`.
        let thread = unsafe { &mut *self.thread };
        thread.pc = self.pc;
        thread.base = base as u32;
        if let Some(window) = thread.window_mut() {
            std::mem::swap(&mut self.locals, &mut window.locals);
        }
    }

    // The crew.

    /// A machine for another carrier of the same call.
    ///
    /// # Safety
    ///
    /// This one outlives it; its table and states are used by one of them at a time.
    pub(crate) unsafe fn beside(&self) -> Box<Machine> {
        let heap = self.heap.heap().local();
        let mut machine = Machine::of_image(heap, self.limits, self.image.clone());
        // SAFETY: the contract.
        unsafe {
            machine.tasks = self.tasks.beside();
            machine.states = self.states.share();
        }
        machine.interrupt = self.interrupt.clone();
        machine.set_fuel(self.fuel());
        machine
    }

    /// The machine is that of the carrier with this number, until it [leaves](Self::leave_crew).
    ///
    /// # Safety
    ///
    /// The crew is alive while the machine is used.
    pub(crate) unsafe fn join_crew(&mut self, crew: NonNull<Crew>, number: usize) {
        (self.crew, self.number) = (Some(crew), number);
        self.simplify();
    }

    pub(crate) fn leave_crew(&mut self) {
        self.crew = None;
        self.simplify();
    }

    fn simplify(&mut self) {
        self.simple = self.crew.is_none() && self.fuel == UNLIMITED;
    }

    pub(crate) fn crew<'a>(&self) -> Option<&'a Crew> {
        // SAFETY: as in `hold`.
        self.crew.map(|crew| unsafe { crew.as_ref() })
    }

    pub(crate) fn has_crew(&self) -> bool {
        self.crew.is_some()
    }

    /// Takes the lock of the crew, if there is one and the machine does not have it already.
    #[inline(always)]
    pub(crate) fn hold<'a>(&self) -> Option<Held<'a>> {
        // SAFETY: alive while the machine is used, and so for the guards in it.
        self.crew.and_then(|crew| unsafe { crew.as_ref() }.lock(self.number))
    }

    /// Whether the function has ended that the host called, on another carrier.
    fn is_to_end(&self) -> bool {
        self.crew.is_some() && self.tasks.is_ending()
    }

    /// Whether a thread runs: then a native function does, or asks.
    pub(crate) fn is_running(&self) -> bool {
        !self.thread.is_null()
    }

    /// The thread that runs.
    pub(crate) fn current(&mut self) -> &mut Thread {
        assert!(!self.thread.is_null(), "a thread runs");
        // SAFETY: the current thread is borrowed by `run`, which uses it through this pointer only.
        unsafe { &mut *self.thread }
    }

    /// Where a thread stands that does not run, or runs a native function.
    pub(crate) fn place_of(&self, thread: &Thread) -> Option<String> {
        let pc = if std::ptr::eq(thread, self.thread) { self.pc } else { thread.pc };
        self.place(pc.addr())
    }

    /// The place of the current frame in its segment.
    fn base_offset(&self) -> usize {
        // SAFETY: the current thread is borrowed by `run`.
        let words = unsafe { (*self.thread).start() };
        (self.base.addr() - words.addr()) / size_of::<Word>()
    }

    /// The natives that the program imports.
    pub(crate) fn natives(&self) -> &[LinkedNative] {
        &self.image.natives
    }

    /// Where an address lies in the current thread's segment.
    pub(crate) fn segment_place(&self, address: *mut Word) -> usize {
        // SAFETY: natives run while `run` borrows the current thread.
        let words = unsafe { (*self.thread).start() };
        (address.addr() - words.addr()) / size_of::<Word>()
    }

    /// The address of a place in the current thread's segment.
    pub(crate) fn segment_address(&self, place: usize) -> *mut Word {
        // SAFETY: as for `segment_place`.
        unsafe { (*self.thread).start().wrapping_add(place) }
    }

    /// Keeps a reference alive until the native that runs returns.
    #[allow(dead_code, reason = "for natives that keep references over a wait")]
    pub(crate) fn keep(&mut self, reference: Word) -> usize {
        self.locals.push(reference);
        self.locals.len() - 1
    }

    /// A reference that is kept.
    #[allow(dead_code, reason = "for natives that keep references over a wait")]
    pub(crate) fn kept(&self, index: usize) -> Word {
        self.locals[index]
    }

    /// Replaces a reference that is kept.
    #[allow(dead_code, reason = "for natives that keep references over a wait")]
    pub(crate) fn set_kept(&mut self, index: usize, reference: Word) {
        self.locals[index] = reference;
    }

    /// The current instruction.
    fn code(&self) -> Code {
        // SAFETY: at a slow path `pc` is at an instruction.
        unsafe { *self.pc }
    }

    /// A register of the current frame.
    fn register(&self, index: u16) -> Word {
        // SAFETY: the verifier has seen that instructions name registers of the frame only.
        unsafe { *self.base.add(usize::from(index)) }
    }

    /// Writes a register of the current frame.
    fn set_register(&mut self, index: u16, word: Word) {
        // SAFETY: as for `register`.
        unsafe { *self.base.add(usize::from(index)) = word }
    }

    /// Goes on behind the current instruction.
    fn advance(&mut self) -> Step {
        self.pc = self.pc.wrapping_add(1);
        Step::Continue
    }

    fn leave(&mut self, halt: Halt) -> Step {
        self.halt = halt;
        Step::Exit
    }

    fn others_can_run(&self) -> bool {
        #[cfg(test)]
        if self.others_wait {
            return true;
        }
        self.tasks.others_can_run()
    }

    fn begin_slice(&mut self) {
        self.granted = self.fuel.min(SLICE);
        self.budget = self.granted as isize;
    }

    /// Takes what was used from the fuel.
    fn end_slice(&mut self) {
        if self.fuel != UNLIMITED {
            let left = self.budget.max(0) as u64;
            self.fuel -= (self.granted - left).min(self.fuel);
        }
        self.granted = 0;
        self.budget = 0;
    }
}

/// Lets go of the thread where the panic of a native function passes through a run.
struct Abandon(*mut Machine, bool);

impl Drop for Abandon {
    fn drop(&mut self) {
        // SAFETY: `run` borrows the machine, and nothing of the run that panicked uses it any more.
        let machine = unsafe { &mut *self.0 };
        machine.thread = std::ptr::null_mut();
        machine.locals.clear();
        machine.suspender = std::ptr::null();
        machine.tasks.set_context(None);
        if self.1 {
            machine.heap.leave();
        }
    }
}

/// What happens when the budget is used up; the instruction is executed (again) afterwards.
#[cold]
fn tick(machine: &mut Machine) -> Step {
    machine.end_slice();
    if machine.interrupt.stop_requested() {
        return machine.leave(Halt::Stopped(Stop::Requested));
    }
    if machine.fuel == 0 {
        return machine.leave(Halt::Stopped(Stop::OutOfFuel));
    }
    if machine.interrupt.take_pause() {
        return machine.leave(Halt::Paused);
    }
    if machine.heap.wants_collection() {
        machine.collect();
    }
    if machine.others_can_run() || machine.is_to_end() {
        return machine.leave(Halt::Yielded);
    }
    machine.bound_depth();
    machine.begin_slice();
    Step::Continue
}

/// The lowest frame of a run returned.
fn finished(machine: &mut Machine) -> Step {
    machine.operand = machine.register(0);
    // SAFETY: the current thread is borrowed by `run`.
    let thread = unsafe { &*machine.thread };
    // Where a native function has called the script, that goes on. With the last task goes what keeps the
    // machine, which is at work here.
    if thread.is_task()
        && thread.middle.is_none()
        && machine.suspender.is_null()
        // With a crew, the turn keeps the machine.
        && (machine.crew.is_some() || machine.tasks.table.live > 1)
    {
        return machine.end_task();
    }
    machine.leave(Halt::Done)
}
