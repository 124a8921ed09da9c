//! Exceptions: the search for a handler, and the places that backtraces name.
//!
//! A throw looks through the frames of the current run first and changes nothing until it has found
//! a handler. So where there is none, the frames are still there to be named: [`Thrown`] keeps the
//! exception together with the place it was thrown at.

use super::heap_type;
use super::state::Step;
use super::thread::Frames;
use super::{Halt, Machine, Thread};
use crate::vm::heap::{HeapFull, List, Str, object};
use crate::vm::link::{Location, TypeIndex};
use crate::vm::native::Word;
use crate::vm::types::{ClassId, ExceptionClass, Type, TypeId, known};

/// Innermost frames that a backtrace names.
const INNERMOST: usize = 100;
/// Outermost ones, if there are more frames.
const OUTERMOST: usize = 20;
/// Bytes by which exceptions may pass the heap's limit.
const RESERVE: usize = 64 << 10;

/// An exception that nobody caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thrown {
    /// The object. It is kept alive until the machine runs again.
    pub(crate) exception: Word,
    /// Where it was thrown, innermost first: `function (file:line)`.
    pub(crate) backtrace: Vec<String>,
}

/// Where the exception that was caught last came from. A `finally` or a bare `throw;` throws it again,
/// and then the frames that it left meanwhile belong to its backtrace. Exceptions that the machine made
/// have theirs with them.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The object; 0 if none was caught. It is kept alive, so that no other one takes its address.
    pub(super) exception: Word,
    /// The frame that caught it.
    base: usize,
    /// The instructions of the innermost frames, down to the one that caught it.
    places: Vec<usize>,
}

/// `throw`: a register's exception.
pub(super) fn throw(machine: &mut Machine) -> Step {
    let exception = machine.register(machine.code().a());
    if exception == 0 {
        return machine.raise(ExceptionClass::NullPointer, "the exception to throw is null");
    }
    machine.throw(exception)
}

/// `raise`: a new exception of a class with a constant message.
pub(super) fn raise(machine: &mut Machine) -> Step {
    let code = machine.code();
    let class = ExceptionClass::ALL[usize::from(code.a())];
    let message = machine.image.program.texts[code.x() as usize].clone();
    machine.raise(class, &message)
}

impl Machine {
    /// Throws an exception object at the current instruction.
    pub(super) fn throw(&mut self, exception: Word) -> Step {
        // SAFETY: the caller throws an object that lives.
        let thrown = unsafe { object::type_of(exception) };
        let class = self.class_of(thrown);
        let base = self.base_offset();
        // SAFETY: the current thread's frames, from the current one on.
        let (words, frames) = unsafe {
            let words = (*self.thread).start();
            (words, Frames::new(words, &[], self.pc, base))
        };
        let Origin { exception: caught, base: catcher, mut places } =
            std::mem::take(&mut self.origin);
        if caught != exception || catcher != base {
            places.clear();
        }
        let inherited = places.len();
        for (i, frame) in frames.enumerate() {
            let Some(location) = self.image.program.locate(frame.pc.addr()) else { continue };
            // The frame that throws again is there already, with the call that failed in it.
            if (i > 0 || inherited == 0) && places.len() < INNERMOST {
                places.push(frame.pc.addr());
            }
            let Some((target, register)) = self.handler(location, class) else { continue };
            self.origin = Origin { exception, base: frame.base, places };
            self.pc = &raw const self.image.program.code(location.function)[target];
            self.base = words.wrapping_add(frame.base);
            self.set_register(register, exception);
            self.last_thrown = None;
            return Step::Continue;
        }
        // An exception that passes through a native function was thrown where it was first.
        let thrown = match self.last_thrown.take() {
            Some(thrown) if thrown.exception == exception => thrown,
            _ => {
                // SAFETY: the caller throws an exception that lives.
                let mut backtrace = unsafe { self.kept_backtrace(exception) };
                let held = self.hold();
                let before = self.tasks.origin(exception).map(<[String]>::to_vec);
                drop(held);
                if let Some(before) = before {
                    // It ended another task first.
                    backtrace = before;
                    backtrace.push(format!("task {}, which asked for the outcome", self.task_id()));
                    backtrace.extend(self.backtrace());
                } else if backtrace.is_empty() {
                    backtrace = self.backtrace();
                    if inherited > 0 {
                        let before = places[..inherited].iter().filter_map(|&pc| self.place(pc));
                        backtrace.splice(..1, before);
                    }
                }
                Thrown { exception, backtrace }
            }
        };
        self.last_thrown = Some(thrown);
        self.leave(Halt::Thrown)
    }

    fn task_id(&self) -> u32 {
        // SAFETY: a thread throws while it runs.
        unsafe { self.thread.as_ref() }.map_or(0, Thread::id)
    }

    /// The handler of a function for an exception that an instruction throws.
    fn handler(&self, at: Location, class: Option<ClassId>) -> Option<(usize, u16)> {
        let types = &self.image.program.types;
        let handlers = &self.image.program.functions[at.function.0 as usize].handlers;
        let handler = handlers.iter().find(|handler| {
            (handler.first as usize..handler.end as usize).contains(&at.instruction)
                && (handler.ty == known::EXCEPTION
                    || match (types.get(handler.ty), class) {
                        (&Type::Class(caught), Some(class)) => types.derives(class, caught),
                        _ => false,
                    })
        })?;
        Some((handler.target as usize, handler.register))
    }

    /// The places of the current thread's frames, innermost first; the middle of a deep one is left
    /// out.
    pub(crate) fn backtrace(&self) -> Vec<String> {
        if self.thread.is_null() {
            return Vec::new();
        }
        let base = self.base_offset();
        // SAFETY: the current thread's frames, from the current one on.
        let (count, frames) = unsafe {
            let thread = &*self.thread;
            let frames = || Frames::new(thread.start(), thread.nested(), self.pc, base);
            (frames().count(), frames())
        };
        let mut places = Vec::new();
        for (i, frame) in frames.enumerate() {
            if count > INNERMOST + OUTERMOST && (INNERMOST..count - OUTERMOST).contains(&i) {
                if i == INNERMOST {
                    places.push(format!("… {} more …", count - INNERMOST - OUTERMOST));
                }
                continue;
            }
            places.extend(self.place(frame.pc.addr()));
        }
        places
    }

    /// The backtrace that an exception of the machine's own got when it was made.
    ///
    /// # Safety
    ///
    /// The word is the address of an exception that lives.
    unsafe fn kept_backtrace(&self, exception: Word) -> Vec<String> {
        // SAFETY: the second field of every exception is null or a list of strings.
        unsafe {
            let places = object::field(exception, 1);
            if places == 0 {
                return Vec::new();
            }
            let text = |word| Str::from_word(&self.heap, word).to_text().into_owned();
            List::from_word(&self.heap, places).iter().map(text).collect()
        }
    }

    /// An instruction as a backtrace names it.
    pub(super) fn place(&self, pc: usize) -> Option<String> {
        let location = self.image.program.locate(pc)?;
        let (line, file) = self.image.program.line(location);
        let name = &self.image.program.source(location.function).name;
        Some(format!("{name} ({file}:{line})"))
    }

    /// Throws a new exception at the current instruction, with a backtrace.
    #[cold]
    pub(super) fn raise(&mut self, class: ExceptionClass, message: &str) -> Step {
        let exception = self.new_exception(class, message);
        self.throw(exception)
    }

    /// A new exception with the backtrace of the current instruction. Where even a collection leaves
    /// no room for one, it may pass the limit a little; where that is used up, one that was made in
    /// good time stands in for it.
    pub(crate) fn new_exception(&mut self, class: ExceptionClass, message: &str) -> Word {
        let backtrace = self.backtrace();
        if let Ok(exception) = self.with_room(|m| m.allocate_exception(class, message, &backtrace))
        {
            return exception;
        }
        // The limit is changed by one at a time.
        let _held = self.hold();
        let heap = self.heap.heap();
        let limit = heap.limit();
        heap.set_limit(limit.saturating_add(RESERVE));
        let exception = self.allocate_exception(class, message, &backtrace);
        heap.set_limit(limit);
        exception.unwrap_or(self.image.emergency)
    }

    pub(super) fn allocate_exception(
        &self,
        class: ExceptionClass,
        message: &str,
        backtrace: &[String],
    ) -> Result<Word, HeapFull> {
        let heap = &self.heap;
        let ty = TypeIndex::of(TypeId(known::EXCEPTION.0 + class as u32));
        let exception = heap.new_instance(heap_type(ty))?;
        let text = heap.new_string(message.as_bytes())?.word();
        let places = heap.new_container(heap_type(TypeIndex::of(known::STRINGS)))?;
        // SAFETY: a new list of strings.
        let list = unsafe { List::from_word(heap, places) };
        for place in backtrace {
            let text = heap.new_string(place.as_bytes())?;
            // SAFETY: strings are what the list holds.
            unsafe { list.add(text.word())? };
        }
        // SAFETY: exceptions have these two fields.
        unsafe {
            object::set_field(exception, 0, text);
            object::set_field(exception, 1, places);
        }
        Ok(exception)
    }

    /// Throws for lack of memory.
    #[cold]
    pub(super) fn raise_heap_full(&mut self, full: HeapFull) -> Step {
        self.raise(ExceptionClass::Exception, &full.to_string())
    }
}
