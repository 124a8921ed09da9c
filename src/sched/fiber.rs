//! A fiber: a task on a stack.
//!
//! The control block lies at the top of the stack, above the first frame:
//!
//! ```text
//!   stack top ─┬─────────────────────────────┐
//!              │ Fiber                       │  first line: context, task, carrier, …
//!    fiber ───►├─────────────────────────────┤  64-byte aligned
//!              │ frames                      │
//! ```
//!
//! A fiber that ends looks for the next thing to run while it still stands on its stack: a fresh
//! task that wants a stack of the same size is run on it right away, without any switch; a suspended
//! fiber is switched to, and *that* side puts this stack back into the pool.

use std::cell::Cell;
use std::fmt::{self, Write};
use std::mem::ManuallyDrop;
use std::ptr;

use super::cancel::Limit;
use super::carrier::Carrier;
use super::clock::Instant;
use super::resource::Resource;
use super::task::Task;
use super::timer::TimerKey;
use crate::context::{Context, FloatControl, Side, Word};
use crate::stack::{Occupant, Stack};
use crate::thread::Locals;

/// What a fiber waits for, for reports and the debugger.
#[derive(Clone, Copy, Debug)]
#[repr(C, u8)]
pub(crate) enum Waiting {
    /// It runs, or could.
    Nothing,
    /// `sleep`, until then.
    Sleep(Instant),
    /// `park`, until then at most.
    Park(Instant),
    /// `join` of that task.
    Join(*const Task),
    /// The end of a scope, with so many tasks in it when the wait began.
    Scope(usize),
    /// A timer, due then if nobody changes it.
    Timer(Instant),
    /// A primitive that others wait for as well; alive as long as the wait.
    On(*const Resource),
}

/// See the [module documentation](self).
#[repr(C, align(64))]
pub(crate) struct Fiber {
    /// Where it goes on; first, for the assembly and the debugger.
    pub(crate) context: Context,
    /// What runs on this stack now.
    pub(crate) task: Cell<*const Task>,
    pub(crate) waiting: Cell<Waiting>,
    pub(crate) keep_float_control: Cell<bool>,
    /// What keeps its waits from being ordinary ones: see [`cancel`](super::cancel).
    pub(crate) interrupts: Cell<u8>,
    // Second line: what a yield does not touch.
    /// The timer of the current wait, until it fires.
    pub(crate) timer: Cell<Option<TimerKey>>,
    pub(crate) float_control: Cell<FloatControl>,
    /// The innermost time limit that it runs under.
    pub(crate) limit: Cell<*const Limit>,
    /// How many shields it runs under.
    pub(crate) shields: Cell<u32>,
    /// How often it has been told to unwind.
    pub(crate) unwinds: Cell<u32>,
    pub(crate) locals: Locals,
    occupant: Occupant,
    pub(crate) side: Side,
    stack: ManuallyDrop<Stack>,
}

impl Fiber {
    /// Binds a stack to a task that has yet to run.
    #[inline]
    pub(crate) fn start(task: *const Task, stack: Stack) -> *mut Fiber {
        // SAFETY: the stack is ours, its top 64-byte aligned, and the smallest is many times larger
        // than a control block. The runtime holds a reference to a task that has yet to run.
        unsafe {
            let block = stack.top().sub(size_of::<Fiber>());
            let fiber = block.cast::<Fiber>();
            fiber.write(Fiber {
                context: Context::new(block, entry),
                task: Cell::new(task),
                waiting: Cell::new(Waiting::Nothing),
                timer: Cell::new(None),
                keep_float_control: Cell::new((*task).keep_float_control),
                float_control: Cell::new(FloatControl::DEFAULT),
                interrupts: Cell::new(0),
                limit: Cell::new(ptr::null()),
                shields: Cell::new(0),
                unwinds: Cell::new(0),
                locals: Locals::new(),
                occupant: Occupant { describe },
                side: Side::stack(|| (stack.bottom(), stack.size())),
                stack: ManuallyDrop::new(stack),
            });
            (*fiber).stack.occupy(&raw const (*fiber).occupant);
            (*task).fiber.set(fiber);
            fiber
        }
    }

    /// Takes over a further task on the stack of one that has ended.
    pub(crate) fn rebind(&self, task: *const Task) {
        self.task.set(task);
        self.interrupts.set(0);
        self.unwinds.set(0);
        // SAFETY: the runtime holds a reference to a task that has yet to run. New fibers start
        // with the default words.
        unsafe {
            self.keep_float_control.set((*task).keep_float_control);
            (*task).fiber.set(ptr::from_ref(self).cast_mut());
            FloatControl::DEFAULT.load();
        }
    }

    /// The size class of its stack.
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Gives the stack of an ended fiber back.
    ///
    /// # Safety
    ///
    /// The fiber must have left its stack for good; it must not be used afterwards.
    #[inline]
    pub(crate) unsafe fn reap(fiber: *mut Fiber) {
        // SAFETY: nobody else uses it any more.
        unsafe {
            (*fiber).side.discard();
            let stack = ManuallyDrop::take(&mut (*fiber).stack);
            stack.vacate();
            stack.release();
        }
    }

    /// # Safety
    ///
    /// The fiber must be alive.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_block(fiber: *const Fiber) {
        prefetch(fiber.cast());
    }

    /// # Safety
    ///
    /// The fiber must be alive and suspended.
    #[inline(always)]
    pub(crate) unsafe fn prefetch_frame(fiber: *const Fiber) {
        // SAFETY: alive by the contract.
        let sp = unsafe { (*fiber).context.sp() };
        prefetch(sp);
        prefetch(sp.wrapping_add(64));
    }
}

impl Fiber {
    /// What a wait touches besides, when it is over: the rest of the block, the task, and the frames of
    /// the call that waited.
    ///
    /// # Safety
    ///
    /// The fiber must be alive and suspended.
    #[inline]
    pub(crate) unsafe fn prefetch_waiter(fiber: *const Fiber) {
        // SAFETY: alive by the contract.
        let (task, sp) = unsafe { ((*fiber).task.get(), (*fiber).context.sp()) };
        prefetch(fiber.cast::<u8>().wrapping_add(64));
        prefetch(task.cast());
        for line in 2..6 {
            prefetch(sp.wrapping_add(64 * line));
        }
    }
}

/// Asks for the cache line at an address; any address will do.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    // SAFETY: a prefetch has no effect that a program can see.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

/// The bottom of every fiber.
///
/// # Safety
///
/// Called by the first frame only, on the new stack, with its control block.
unsafe extern "C" fn entry(block: *mut u8, word: Word, tag: usize) -> ! {
    let fiber = block.cast::<Fiber>();
    // SAFETY: we are the fiber that `carrier` has just switched to.
    unsafe {
        (*fiber).side.arrive();
        let carrier = Carrier::current().expect("fibers run on carriers");
        carrier.arrived(word, tag);
        loop {
            let task = (*fiber).task.get();
            if (*task).is_cancelled() {
                (*task).abandon();
            } else {
                (*task).run(&(*fiber).locals);
            }
            match carrier.end_task(&*fiber, task) {
                Some(fresh) => (*fiber).rebind(fresh),
                None => carrier.leave_for_good(fiber),
            }
        }
    }
}

/// Describes the fiber in a report; also called from the overflow handler, hence no allocation.
unsafe fn describe(occupant: *const Occupant, to: &mut dyn Write) {
    let offset = std::mem::offset_of!(Fiber, occupant);
    // SAFETY: the occupant is the field of a live control block, whose task lives as long.
    let task = unsafe { &*(*occupant.byte_sub(offset).cast::<Fiber>()).task.get() };
    let _ = task.describe(to);
}

impl Task {
    /// "fiber 'name' (id 3), spawned at src/main.rs:7:5"; "task" if it has no stack. Does not allocate.
    pub(crate) fn describe(&self, to: &mut dyn Write) -> fmt::Result {
        to.write_str(if self.is_stackless() { "task " } else { "fiber " })?;
        if let Some(name) = self.party.name() {
            write!(to, "'{name}' ")?;
        }
        let at = self.spawned_at;
        let id = self.party.id.number();
        write!(to, "(id {id}), spawned at {}:{}:{}", at.file(), at.line(), at.column())
    }
}
