//! What a native function is: how it gets its arguments, what it may do, and how it ends.
//!
//! # The protocol
//!
//! A native function sees its arguments as words (see `docs/vm.md`, "Words") and leaves its result
//! as a word; the compiler has made sure of the types. Outs follow the calling convention of script
//! functions: result first, then the final values of the outs.
//!
//! * **No collection runs while native code runs**, so references may be held in plain variables. The
//!   one exception is [`Context::call`]: whatever must survive it lives in a [`Local`] (the native's
//!   own arguments are kept alive anyway).
//! * **Allocate before you change anything.** A native that finds the heap full answers
//!   [`Trap::HeapFull`]; the interpreter collects and calls it once more with the same arguments. The
//!   second time it becomes an exception.
//! * **Waiting** is answered, not done: [`Context::park`] puts the thread into the queue of what it
//!   waits for, and [`Outcome::Park`] leaves it complete in its segment. When it is resumed, the wait
//!   says how the call ends, or that it is to be made again.
//! * What needs the scheduler asks for it first ([`Context::needs_task`]): a thread that runs on its
//!   caller's stack becomes a task then, and makes the call again.
//! * **A stop request** is noticed by polling [`Context::stop_requested`] in long loops and answered
//!   with [`Trap::Stop`], which no script can catch.
//! * A native runs to its end on the native stack, with unwinding panics becoming a failure of the
//!   whole machine: no native should panic.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use super::heap::{self, HeapFull, LocalHeap};
use super::interp::Machine;
use super::link::TypeIndex;
use super::tasks::queue::Queue;
use super::tasks::table::Finished;
use super::tasks::wait::{Timeout, What};
use super::tasks::{Tasks, Wait};
use super::types::{ExceptionClass, FunctionId, Signature, TypeId, TypeTable};
use crate::blocking;
use crate::sched::carrier::Carrier;
use crate::sched::clock::Instant;
use crate::sched::wakeup::Wakeup;
use crate::task;

/// A native function as the library writes it.
pub(crate) type NativeFn = fn(&mut Context<'_>) -> Result<Outcome, Trap>;

/// A native function with captured state, as a host registers it.
pub(crate) type NativeClosure =
    Arc<dyn Fn(&mut Context<'_>) -> Result<Outcome, Trap> + Send + Sync>;

/// What an import is linked to.
#[derive(Clone)]
pub(crate) enum NativeBody {
    Function(NativeFn),
    Closure(NativeClosure),
}

impl fmt::Debug for NativeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NativeBody::Function(_) => "function",
            NativeBody::Closure(_) => "closure",
        })
    }
}

/// How a native function behaves, for those who schedule threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeKind {
    /// Ends soon, never waits, never calls the script.
    Plain,
    /// May wait in the operating system: with other threads to run it leaves their carrier. It uses
    /// nothing of the machine but its arguments' contents while it waits.
    Blocking,
    /// May call back into the script through [`Context::call`].
    Reentrant,
    /// Gives way, and does nothing else: in a task it is not even called.
    GivesWay,
}

/// How a native function ended, if not with a [`Trap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The result is in its place.
    Done,
    /// The thread waits: its wait says how the call ends.
    Park,
    /// The result is in its place, and others have their turn first.
    Yield,
}

/// Why a native function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    /// A new exception of a class, with a message and the backtrace of the call.
    Exception(ExceptionClass, String),
    /// An exception object that exists already.
    Thrown(Word),
    /// No room in the heap: collect and call again, once. The `?` operator makes it of what the heap's
    /// operations answer.
    HeapFull(HeapFull),
    /// The host asked the script to end.
    Stop,
    /// The thread is no task yet: it becomes one, and makes the call again.
    NeedsTask,
}

impl Trap {
    /// A plain `Exception`.
    pub(crate) fn exception(message: impl Into<String>) -> Trap {
        Trap::Exception(ExceptionClass::Exception, message.into())
    }

    /// An exception of a class.
    pub(crate) fn of(class: ExceptionClass, message: impl Into<String>) -> Trap {
        Trap::Exception(class, message.into())
    }

    /// A `NullPointerException` that names what was null.
    pub(crate) fn null(what: &str) -> Trap {
        Trap::Exception(ExceptionClass::NullPointer, format!("{what} is null"))
    }

    /// An `IndexOutOfBoundsException` that names index and length.
    pub(crate) fn index(index: i64, length: usize) -> Trap {
        Trap::Exception(
            ExceptionClass::IndexOutOfBounds,
            format!("index {index} is out of bounds for length {length}"),
        )
    }
}

/// A word of the machine.
pub(crate) type Word = u64;

/// What a native function waits for, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) what: What,
    pub(crate) queue: Option<Queue>,
    /// What it brings into the queue, and whether that is a reference.
    pub(crate) value: Word,
    pub(crate) reference: bool,
    pub(crate) deadline: Instant,
    pub(crate) timeout: Timeout,
}

impl Waiting {
    /// In a queue, for as long as it takes, with nothing.
    pub(crate) fn on(what: What, queue: Queue) -> Waiting {
        Waiting {
            what,
            queue: Some(queue),
            value: 0,
            reference: false,
            deadline: Instant::FAR_FUTURE,
            timeout: Timeout::Throws,
        }
    }

    /// Brings a word.
    pub(crate) fn with(self, value: Word, reference: bool) -> Waiting {
        Waiting { value, reference, ..self }
    }

    /// In no queue, until an instant.
    pub(crate) fn sleep(deadline: Instant) -> Waiting {
        Waiting {
            what: What::Sleep,
            queue: None,
            value: 0,
            reference: false,
            deadline,
            timeout: Timeout::Nothing,
        }
    }

    /// Until an instant at most.
    pub(crate) fn until(self, deadline: Instant) -> Waiting {
        Waiting { deadline, ..self }
    }
}

/// A reference that the collector sees, by its number among those of the running natives. It ends
/// with the native call that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(dead_code, reason = "for natives that keep references over a wait")]
pub(crate) struct Local(usize);

/// A request to end, from any thread. Shared by a machine and its stop handles.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    flags: AtomicU32,
    /// The task that is to hear of it, while there is one.
    wakeup: Mutex<Option<Wakeup>>,
}

impl Interrupt {
    const STOP: u32 = 1;
    const BREAK: u32 = 2;

    /// Asks the script to end: the interpreter sees it within 1,000 back-edges and calls.
    pub(crate) fn stop(&self) {
        // Relaxed: nothing is handed over along with the wish.
        self.flags.fetch_or(Interrupt::STOP, Ordering::Relaxed);
        if let Some(wakeup) = *self.wakeup.lock().unwrap_or_else(PoisonError::into_inner) {
            // SAFETY: the task takes it out before it ends, under the lock.
            unsafe { wakeup.wake() };
        }
    }

    /// Whom a request to end resumes, if it waits; or nobody any more.
    pub(crate) fn set_wakeup(&self, wakeup: Option<Wakeup>) {
        *self.wakeup.lock().unwrap_or_else(PoisonError::into_inner) = wakeup;
    }

    /// Asks the interpreter to return to its caller at the next safepoint, for a debugger.
    pub(crate) fn pause(&self) {
        // Relaxed: as above.
        self.flags.fetch_or(Interrupt::BREAK, Ordering::Relaxed);
    }

    /// Whether an end was asked for.
    pub(crate) fn stop_requested(&self) -> bool {
        // Relaxed: as above.
        self.flags.load(Ordering::Relaxed) & Interrupt::STOP != 0
    }

    /// Takes a wish to pause.
    pub(crate) fn take_pause(&self) -> bool {
        // Relaxed: as above.
        self.flags.load(Ordering::Relaxed) & Interrupt::BREAK != 0
            && self.flags.fetch_and(!Interrupt::BREAK, Ordering::Relaxed) & Interrupt::BREAK != 0
    }

    /// Forgets a request to end, before the next run.
    pub(crate) fn clear(&self) {
        // Relaxed: as above.
        self.flags.store(0, Ordering::Relaxed);
    }
}

/// State that a part of the library (or the host) keeps per machine, one value per Rust type:
/// streams, generators of random numbers, registered host objects.
#[derive(Default)]
pub(crate) struct States {
    values: Vec<Box<dyn Any + Send>>,
}

impl States {
    /// The value of a type, made on first use.
    pub(crate) fn get<T: Any + Send + Default>(&mut self) -> &mut T {
        let index = match self.values.iter().position(|value| value.is::<T>()) {
            Some(index) => index,
            None => {
                self.values.push(Box::new(T::default()));
                self.values.len() - 1
            }
        };
        self.values[index].downcast_mut().expect("found by its type")
    }

    /// Puts the value of a type, in place of the former one.
    pub(crate) fn set<T: Any + Send>(&mut self, value: T) {
        self.values.retain(|value| !value.is::<T>());
        self.values.push(Box::new(value));
    }

    /// Takes the value of a type out, if there is one; of several that were [added](Self::add), any.
    pub(crate) fn take<T: Any + Send>(&mut self) -> Option<T> {
        let index = self.values.iter().position(|value| value.is::<T>())?;
        self.values.swap_remove(index).downcast().ok().map(|value| *value)
    }

    /// Takes over what another machine has kept.
    pub(crate) fn add(&mut self, others: States) {
        self.values.extend(others.values);
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states", self.values.len())
    }
}

/// What a native function works with: its arguments, and the machine.
pub(crate) struct Context<'a> {
    machine: &'a mut Machine,
    /// The call's window in the thread's segment: arguments, then result and outs.
    window: *mut Word,
    size: usize,
    /// Which native function this is.
    index: usize,
}

impl<'a> Context<'a> {
    /// # Safety
    ///
    /// The window lies in the segment of the machine's current thread, which moves only while the
    /// context calls the script.
    #[inline(always)]
    pub(super) unsafe fn new(
        machine: &'a mut Machine,
        window: *mut Word,
        size: usize,
        index: usize,
    ) -> Context<'a> {
        Context { machine, window, size, index }
    }

    /// The word of an argument; the receiver is argument 0.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> Word {
        assert!(index < self.size, "an argument that the signature does not have");
        // SAFETY: inside the window.
        unsafe { *self.window.add(index) }
    }

    /// An `int`, enum, or narrower signed argument.
    #[inline]
    pub(crate) fn int(&self, index: usize) -> i32 {
        self.word(index) as i32
    }

    /// A `uint`, `char` or narrower unsigned argument.
    #[inline]
    pub(crate) fn uint(&self, index: usize) -> u32 {
        self.word(index) as u32
    }

    /// A `long` argument.
    #[inline]
    pub(crate) fn long(&self, index: usize) -> i64 {
        self.word(index) as i64
    }

    /// A `float` argument.
    #[allow(dead_code, reason = "arguments of all types can be read")]
    #[inline]
    pub(crate) fn float(&self, index: usize) -> f32 {
        f32::from_bits(self.word(index) as u32)
    }

    /// A `double` argument.
    #[inline]
    pub(crate) fn double(&self, index: usize) -> f64 {
        f64::from_bits(self.word(index))
    }

    /// A `bool` argument.
    #[allow(dead_code, reason = "arguments of all types can be read")]
    #[inline]
    pub(crate) fn bool(&self, index: usize) -> bool {
        self.word(index) as u8 != 0
    }

    /// A `char` argument; what is no scalar value reads as U+FFFD.
    #[inline]
    pub(crate) fn char(&self, index: usize) -> char {
        char::from_u32(self.uint(index)).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Puts the result. Arguments are read before: result and outs lie where they were.
    #[inline]
    pub(crate) fn set_word(&mut self, word: Word) {
        // SAFETY: every window has a word.
        unsafe { *self.window = word }
    }

    /// Puts an `int`, enum or narrower signed result.
    #[inline]
    pub(crate) fn set_int(&mut self, value: i32) {
        self.set_word(u64::from(value as u32));
    }

    /// Puts a `uint`, `char`, or narrower unsigned result.
    #[inline]
    pub(crate) fn set_uint(&mut self, value: u32) {
        self.set_word(u64::from(value));
    }

    /// Puts a `long` result.
    #[inline]
    pub(crate) fn set_long(&mut self, value: i64) {
        self.set_word(value as u64);
    }

    /// Puts a `float` result.
    #[inline]
    pub(crate) fn set_float(&mut self, value: f32) {
        self.set_word(u64::from(value.to_bits()));
    }

    /// Puts a `double` result.
    #[inline]
    pub(crate) fn set_double(&mut self, value: f64) {
        self.set_word(value.to_bits());
    }

    /// Puts a `bool` result.
    #[inline]
    pub(crate) fn set_bool(&mut self, value: bool) {
        self.set_word(u64::from(value));
    }

    /// Puts the final value of an out, by its place among the outs (from 0).
    pub(crate) fn set_out(&mut self, index: usize, word: Word) {
        assert!(1 + index < self.size, "an out that the signature does not have");
        // SAFETY: inside the window.
        unsafe { *self.window.add(1 + index) = word }
    }

    /// The heap. What is allocated is safe until the native returns or calls the script.
    #[inline]
    pub(crate) fn heap(&self) -> &LocalHeap {
        &self.machine.heap
    }

    /// The tasks of the machine.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.machine.tasks
    }

    /// All types.
    pub(crate) fn types(&self) -> &TypeTable {
        &self.machine.image.program.types
    }

    /// The native's own signature, with types of [`Context::types`].
    pub(crate) fn signature(&self) -> &Signature {
        &self.machine.natives()[self.index].signature
    }

    /// The machine.
    pub(crate) fn machine(&mut self) -> &mut Machine {
        self.machine
    }

    /// The per-machine state of a type, made on first use.
    pub(crate) fn state<T: Any + Send + Default>(&mut self) -> &mut T {
        self.machine.states.get()
    }

    /// As [`state`](Self::state), of the machine that runs alone, where a call has several.
    pub(crate) fn own_state<T: Any + Send + Default>(&mut self) -> &mut T {
        self.machine.own.get()
    }

    /// Whether the host asked the script to end: long natives poll it and answer [`Trap::Stop`].
    #[allow(dead_code, reason = "for natives that take long")]
    pub(crate) fn stop_requested(&self) -> bool {
        self.machine.interrupt.stop_requested()
    }

    /// Makes sure that the thread is a task, before anything is done that needs the scheduler.
    ///
    /// # Errors
    ///
    /// A trap by which it becomes one.
    pub(crate) fn needs_task(&self) -> Result<(), Trap> {
        if self.machine.tasks.is_task() { Ok(()) } else { Err(Trap::NeedsTask) }
    }

    /// Waits: in a queue, with what it brings there; or for the deadline alone.
    ///
    /// # Errors
    ///
    /// A trap by which the thread becomes a task; the exception of one that has been cancelled.
    pub(crate) fn park(&mut self, waiting: Waiting) -> Result<Outcome, Trap> {
        self.needs_task()?;
        self.machine.current().wait.park(waiting)?;
        Ok(Outcome::Park)
    }

    /// Waits in several queues at once, with what it brings into each: a word, and whether that is a
    /// reference. The queues may be of one object.
    ///
    /// # Errors
    ///
    /// As for [`Context::park`].
    pub(crate) fn park_on_any(
        &mut self,
        what: What,
        arms: &[(Queue, Word, bool)],
        deadline: Instant,
        timeout: Timeout,
    ) -> Result<Outcome, Trap> {
        self.needs_task()?;
        let waiting = Waiting { what, timeout, ..Waiting::sleep(deadline) };
        self.machine.current().wait.park_on_any(&waiting, arms)?;
        Ok(Outcome::Park)
    }

    /// Polls something of the scheduler for the thread. `None`: it is pending; the call is to end with
    /// [`Outcome::Park`], and is made again when what it waits for is there, or the deadline has passed.
    ///
    /// # Errors
    ///
    /// A `TimeoutException` if it is pending after the deadline; otherwise as for [`Context::park`].
    pub(crate) fn poll<T>(
        &mut self,
        what: What,
        deadline: Instant,
        poll: impl FnOnce(&mut task::Context<'_>) -> Poll<T>,
    ) -> Result<Option<T>, Trap> {
        self.needs_task()?;
        if let Poll::Ready(value) = self.machine.tasks.poll(poll) {
            return Ok(Some(value));
        }
        if !deadline.is_far_future() && deadline <= Instant::now() {
            let message = format!("the time was up that was given {}", what.purpose());
            return Err(Trap::of(ExceptionClass::Timeout, message));
        }
        self.park(Waiting { what, ..Waiting::sleep(deadline) })?;
        Ok(None)
    }

    /// Does something that may take long in the operating system: on the pool, while other tasks go on;
    /// or at once, where there is nobody else. `finish` makes the result of the call of it, and may
    /// find the heap full: then it is called once more.
    ///
    /// # Errors
    ///
    /// Those of `finish`.
    pub(crate) fn blocking<T: Any + Send>(
        &mut self,
        job: impl FnOnce() -> T + Send + 'static,
        finish: impl FnOnce(&mut Context<'a>, &T) -> Result<Outcome, Trap>,
    ) -> Result<Outcome, Trap> {
        let earlier = self.machine.tasks.finished.take().and_then(|it| it.downcast::<T>().ok());
        let done = match earlier {
            Some(done) => done,
            None if !self.machine.tasks.is_task() => {
                if Carrier::current().is_some() {
                    // The fiber's carrier is not the script's to block.
                    return Err(Trap::NeedsTask);
                }
                Box::new(job())
            }
            None => {
                let forever = Waiting::sleep(Instant::FAR_FUTURE);
                let outcome = self.park(Waiting { what: What::Job, ..forever })?;
                let place = self.machine.current().place();
                let job = blocking::spawn(move || Box::new(job()) as Finished);
                if self.machine.tasks.leave_to_pool(place, job) {
                    // SAFETY: of the running thread, which is a task, and lies in it.
                    unsafe { Wait::wake(&raw const self.machine.current().wait) };
                }
                return Ok(outcome);
            }
        };
        let result = finish(self, &done);
        if let Err(Trap::HeapFull(_)) = result {
            self.machine.tasks.finished = Some(done);
        }
        result
    }

    /// What a job of this call gave, which is made again.
    pub(crate) fn take_finished<T: Any>(&mut self) -> Option<T> {
        let finished = self.machine.tasks.finished.take()?;
        finished.downcast().ok().map(|done| *done)
    }

    /// The runtime type of objects of a type of the program.
    pub(crate) fn heap_type(&self, ty: TypeId) -> heap::TypeIndex {
        heap::TypeIndex(TypeIndex::of(ty).0)
    }

    /// Keeps a reference alive until this native returns, calls of the script included.
    #[allow(dead_code, reason = "for natives that keep references over a wait")]
    pub(crate) fn keep(&mut self, reference: Word) -> Local {
        Local(self.machine.keep(reference))
    }

    /// A reference that is kept.
    #[allow(dead_code, reason = "for natives that keep references over a wait")]
    pub(crate) fn kept(&self, local: Local) -> Word {
        self.machine.kept(local.0)
    }

    /// Puts another reference in place of a kept one.
    #[allow(dead_code, reason = "for natives that keep references over a wait")]
    pub(crate) fn set_kept(&mut self, local: Local, reference: Word) {
        self.machine.set_kept(local.0, reference);
    }

    /// Calls a function value with argument words; gives the word of its result.
    ///
    /// A collection may happen: references that are needed later are kept ([`Context::keep`]) or are
    /// arguments of this native, as long as it has not put its result.
    ///
    /// # Errors
    ///
    /// What the function throws; an exception for null or where calls are nested too deep; a stop. All
    /// of them go on to the native's caller.
    pub(crate) fn call(&mut self, function: Word, arguments: &[Word]) -> Result<Word, Trap> {
        let place = self.machine.segment_place(self.window);
        let result = self.machine.call_value(function, arguments);
        self.window = self.machine.segment_address(place);
        result
    }

    /// Calls a function of the program with argument words; see [`Context::call`].
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn call_function(
        &mut self,
        function: FunctionId,
        arguments: &[Word],
    ) -> Result<Word, Trap> {
        let place = self.machine.segment_place(self.window);
        let result = self.machine.call_function(function, arguments);
        self.window = self.machine.segment_address(place);
        result
    }

    /// Appends the text of a reference, as the language writes it; may call `toString` of the script:
    /// see [`Context::call`].
    ///
    /// # Errors
    ///
    /// As for [`Context::call`].
    pub(crate) fn write_text(&mut self, text: &mut String, reference: Word) -> Result<(), Trap> {
        let place = self.machine.segment_place(self.window);
        let result = self.machine.write_reference(text, reference);
        self.window = self.machine.segment_address(place);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_taken_once_and_a_stop_stays() {
        let interrupt = Interrupt::default();
        interrupt.pause();
        interrupt.stop();
        assert!(interrupt.take_pause());
        assert!(!interrupt.take_pause());
        assert!(interrupt.stop_requested());
        interrupt.clear();
        assert!(!interrupt.stop_requested());
    }
}
