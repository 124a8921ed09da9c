//! The roots of a collection: the frames of the thread that runs, and of those that are tasks, through
//! their pointer maps; what these wait for; the constants, and what native functions keep.
//!
//! The map of a frame is that of the instruction it executes, with the registers as they were before
//! it: in the top frame the one that needs the collection, in the others a call. From the call's
//! window on, the words of a caller belong to the callee; below a native function that calls the
//! script they are its arguments, which stay alive.

use std::ptr::NonNull;

use super::thread::Frames;
use super::{Machine, Thread};
use crate::vm::heap::Tracer;
use crate::vm::link::Program;
use crate::vm::native::Word;
use crate::vm::op::Code;

impl Machine {
    /// Collects, at the current instruction.
    #[cold]
    #[inline(never)]
    pub(crate) fn collect(&mut self) {
        let current = (!self.thread.is_null()).then(|| (self.pc, self.base_offset()));
        let thread = self.thread;
        let (number, crew) = (self.number, self.crew());
        if let Some(crew) = crew {
            crew.set_running(number, thread);
        }
        let Machine { heap, image, locals, last_thrown, origin, tasks, .. } = self;
        let mut roots = |tracer: &mut Tracer<'_>| {
            tracer.references(locals);
            tracer.reference(origin.exception);
            if let Some(thrown) = last_thrown {
                tracer.reference(thrown.exception);
            }
            if let Some((pc, base)) = current {
                // SAFETY: the current thread is borrowed by `run`, and stands at the instruction.
                unsafe {
                    trace_frames(&*thread, pc, base, &image.program, tracer);
                    trace_rest(&*thread, tracer);
                }
            }
            tasks.trace(tracer);
            if crew.is_some_and(|crew| !crew.tells_common()) {
                return;
            }
            image.trace(tracer);
            tasks.trace_common(tracer);
            let runs = |other: NonNull<Thread>| match crew {
                Some(crew) => crew.runs(other),
                None => other.as_ptr() == thread,
            };
            for parked in tasks.threads().filter(|&parked| !runs(parked)) {
                // SAFETY: what is in the table is alive; what does not run is complete in its segment.
                unsafe {
                    let parked = parked.as_ref();
                    trace_frames(parked, parked.pc, parked.base as usize, &image.program, tracer);
                    trace_rest(parked, tracer);
                }
            }
        };
        // SAFETY: the roots are all that the machine reads later, apart from what the host's handles
        // keep, of which the heap knows; they may be told on another thread, as a machine may be sent to one.
        // On a shared heap, `run` has entered.
        let collected = unsafe { heap.collect(&mut roots) };
        if let Some(crew) = crew {
            if collected.is_some() {
                crew.end_collection();
            }
            crew.set_running(number, std::ptr::null_mut());
        }
        // Values of the host go now that the collection is over; one may be the last to hold another.
        while heap.drop_dead() > 0 {}
    }
}

/// Hands over what a thread holds outside its frames.
fn trace_rest(thread: &Thread, tracer: &mut Tracer<'_>) {
    tracer.reference(thread.handle);
    thread.wait.trace(tracer);
    if let Some(window) = thread.window() {
        tracer.references(&window.locals);
    }
}

/// Hands over the references in the frames of a thread that stands at an instruction.
///
/// # Safety
///
/// The place is the thread's top frame, with the registers as before the instruction.
unsafe fn trace_frames(
    thread: &Thread,
    pc: *const Code,
    base: usize,
    program: &Program,
    tracer: &mut Tracer<'_>,
) {
    // SAFETY: the caller's promise.
    for frame in unsafe { Frames::new(thread.start(), thread.nested(), pc, base) } {
        let Some(location) = program.locate(frame.pc.addr()) else { continue };
        for (i, &bits) in program.references(location).iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let register = 64 * i + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if register < frame.registers {
                    let word: Word = thread.words()[frame.base + register];
                    tracer.reference(word);
                }
            }
        }
    }
}
