//! The storage of a task behind its record: the closure first, the result later, and what depends on
//! their types.
//!
//! ```text
//!   | Joiner | Task | Stackless, or Fibered | Stage: closure, then result |
//! ```
//!
//! One allocation; what is behind the record is reached by its table, since only this module knows the
//! types. Who owns the stage when, the [record](super) says. A task that is made without a join handle
//! has no joiner in front of it.
//!
//! A closure of a task without a stack stays where it was put, and is dropped there: what its code has
//! told others of may be inside.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::mem::{self, ManuallyDrop};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU8};
use std::thread::Result;

use super::super::blocks;
use super::super::cancel::is_call_off;
use super::super::party::{Kind, Party};
use super::super::resumable::{Context, Relay, Resumable, Stackless, Step};
use super::super::scope::Tally;
use super::{
    Cancelled, DETACHED, Holds, Joiner, MOVABLE, SCOPED, STACKLESS, Spec, Task,
    drop_in_place_quietly, message,
};
use crate::thread::Locals;

/// What depends on the types of closure and result.
#[repr(C)]
pub(super) struct VTable {
    /// First: the party's part.
    kind: Kind,
    /// Runs the closure and stores the result.
    pub(super) run: unsafe fn(*const Task, &Locals),
    /// Resumes a resumable, and stores the result if it has ended.
    pub(super) resume: unsafe fn(*const Task, &mut Context<'_>) -> Step<()>,
    /// Drops the closure of a task that never ran.
    pub(super) abandon: unsafe fn(*const Task),
    /// Stores `Cancelled` as the result of a task that will not come to its end.
    pub(super) give_up: unsafe fn(*const Task),
    /// Whether the stored result is a panic: its message.
    pub(super) panic_message: unsafe fn(*const Task) -> Option<String>,
    /// How far behind the beginning of the record the stage lies, and so closure or result.
    pub(super) stage: usize,
    /// Drops the result, if it is still there.
    pub(super) discard: unsafe fn(*const Task),
}

/// What a task has that runs on a fiber: lies behind its [`Task`].
pub(super) struct Fibered {
    /// The scope to count the task out of when it has ended. The carrier's.
    pub(super) scope: Cell<Option<Rc<Tally>>>,
}

/// A task with what belongs to it: `X` is the [`Stackless`] of a task without a stack, else [`Fibered`].
#[repr(C)]
struct TaskCell<F, T, X> {
    task: Task,
    extra: X,
    stage: UnsafeCell<Stage<F, T>>,
}

/// A cell of a task that has a join handle.
#[repr(C)]
struct Joinable<C> {
    joiner: Joiner,
    cell: C,
}

// Where `Task::joiner` looks for it.
const _: () = assert!(size_of::<Joiner>().is_multiple_of(align_of::<Task>()));
// Where `Task::stackless` and `Task::fibered` look for it.
const _: () = assert!(size_of::<Task>().is_multiple_of(align_of::<Stackless>()));
const _: () = assert!(size_of::<Task>().is_multiple_of(align_of::<Fibered>()));

/// First the closure, then the result; `Task::holds` says which. Both lie at its beginning.
#[repr(C)]
pub(super) union Stage<F, T> {
    pub(super) closure: ManuallyDrop<F>,
    result: ManuallyDrop<Result<T>>,
}

/// Makes a task with two references: the runtime's and the join handle's.
///
/// # Safety
///
/// The lifetimes of `F` and `T` are forgotten: the caller sees to it that the task has ended, and
/// the result is gone, before they end.
pub(crate) unsafe fn create<F, T>(spec: Spec, closure: F) -> NonNull<Task>
where
    F: FnOnce() -> T,
{
    let vtable: &'static VTable = &const {
        VTable {
            kind: Kind { destroy: destroy::<F, T, Fibered, true> },
            run: run::<F, T>,
            resume: |_, _| unreachable!("a closure is not resumed"),
            abandon: abandon::<F, T, Fibered>,
            give_up: give_up::<F, T, Fibered>,
            panic_message: panic_message::<F, T, Fibered>,
            stage: mem::offset_of!(TaskCell<F, T, Fibered>, stage),
            discard: discard::<F, T, Fibered>,
        }
    };
    let flags = if spec.scoped { SCOPED } else { 0 };
    place::<F, T, Fibered>(spec, flags, vtable, closure, Fibered { scope: Cell::new(None) })
}

/// [`create`], for a task without a stack; one that is `detached` has no join handle, and no reference
/// for one.
pub(crate) fn create_stackless<R: Resumable + 'static>(
    spec: Spec,
    resumable: R,
    detached: bool,
) -> NonNull<Task> {
    let joined = const { &stackless_table::<R, true>(resume::<R>) };
    let alone = const { &stackless_table::<R, false>(resume::<R>) };
    place_stackless(spec, [joined, alone], resumable, detached, false)
}

/// [`create_stackless`], for one that relays.
#[inline(always)]
pub(crate) fn create_relaying<R: Relay + 'static>(
    spec: Spec,
    resumable: R,
    detached: bool,
) -> NonNull<Task> {
    let joined = const { &stackless_table::<R, true>(relay::<R>) };
    let alone = const { &stackless_table::<R, false>(relay::<R>) };
    place_stackless(spec, [joined, alone], resumable, detached, true)
}

const fn stackless_table<R: Resumable, const JOINED: bool>(
    resume: unsafe fn(*const Task, &mut Context<'_>) -> Step<()>,
) -> VTable {
    VTable {
        kind: Kind { destroy: destroy::<R, R::Output, Stackless, JOINED> },
        run: |_, _| unreachable!("a resumable is resumed, not run"),
        resume,
        abandon: abandon::<R, R::Output, Stackless>,
        give_up: give_up::<R, R::Output, Stackless>,
        panic_message: panic_message::<R, R::Output, Stackless>,
        stage: mem::offset_of!(TaskCell<R, R::Output, Stackless>, stage),
        discard: discard::<R, R::Output, Stackless>,
    }
}

#[inline(always)]
fn place_stackless<R: Resumable>(
    spec: Spec,
    [joined, alone]: [&'static VTable; 2],
    resumable: R,
    detached: bool,
    relays: bool,
) -> NonNull<Task> {
    let (flags, table) = match detached {
        true => (STACKLESS | DETACHED, alone),
        false => (STACKLESS, joined),
    };
    place::<_, R::Output, _>(spec, flags, table, resumable, Stackless::new(relays))
}

#[inline(always)]
fn place<F, T, X>(
    spec: Spec,
    flags: u8,
    vtable: &'static VTable,
    closure: F,
    extra: X,
) -> NonNull<Task> {
    let detached = flags & DETACHED != 0;
    // Room first: a record that is built before would have to be copied.
    let cell: *mut TaskCell<F, T, X> = if detached {
        blocks::allocate(Layout::new::<TaskCell<F, T, X>>()).as_ptr().cast()
    } else {
        let block = blocks::allocate(Layout::new::<Joinable<TaskCell<F, T, X>>>());
        let joinable = block.as_ptr().cast::<Joinable<TaskCell<F, T, X>>>();
        // SAFETY: the places are in the block.
        unsafe {
            (&raw mut (*joinable).joiner).write(Joiner::nobody());
            &raw mut (*joinable).cell
        }
    };
    // SAFETY: that is a place for one, in a block of its own.
    unsafe {
        cell.write(TaskCell {
            task: Task {
                // The runtime's reference and the join handle's.
                party: Party::new(
                    if detached { 1 } else { 2 },
                    spec.id,
                    spec.name,
                    Some(spec.home),
                    &vtable.kind,
                ),
                flags: AtomicU8::new(flags),
                placing: AtomicU8::new(if spec.movable { MOVABLE } else { 0 }),
                holds: Cell::new(Holds::Closure),
                stack: spec.stack,
                keep_float_control: spec.keep_float_control,
                fiber: Cell::new(ptr::null_mut()),
                spawned_at: spec.spawned_at,
                mail_link: AtomicPtr::new(ptr::null_mut()),
            },
            extra,
            stage: UnsafeCell::new(Stage { closure: ManuallyDrop::new(closure) }),
        });
        NonNull::new_unchecked(cell).cast()
    }
}

unsafe fn destroy<F, T, X, const JOINED: bool>(party: NonNull<Party>) {
    let cell = party.as_ptr().cast::<TaskCell<F, T, X>>();
    // SAFETY: the party is the first field of the cell that `place` has made, with a joiner in front or
    // without, and this was the last reference: what nobody has taken is ours to drop.
    unsafe {
        if (*cell).task.holds.get() != Holds::Nothing {
            discard::<F, T, X>(cell.cast_const().cast());
        }
        cell.drop_in_place();
        let (block, layout) = if JOINED {
            let joinable = cell.byte_sub(mem::offset_of!(Joinable<TaskCell<F, T, X>>, cell));
            (joinable.cast(), Layout::new::<Joinable<TaskCell<F, T, X>>>())
        } else {
            (cell.cast(), Layout::new::<TaskCell<F, T, X>>())
        };
        blocks::release(NonNull::new_unchecked(block), layout);
    }
}

/// The stage of a task.
///
/// # Safety
///
/// The types must be the task's.
pub(super) unsafe fn stage<F, T, X>(task: *const Task) -> *mut Stage<F, T> {
    // SAFETY: `task` is the first field of the cell.
    unsafe { (*task.cast::<TaskCell<F, T, X>>()).stage.get() }
}

/// The task without a stack that a resumable lies in.
///
/// # Safety
///
/// It lies in one.
#[inline(always)]
pub(crate) unsafe fn task_of<R: Resumable>(resumable: NonNull<R>) -> NonNull<Task> {
    let at = mem::offset_of!(TaskCell<R, R::Output, Stackless>, stage);
    // SAFETY: the stage begins with it, which lies so far behind the record.
    unsafe { resumable.byte_sub(at).cast() }
}

/// Moves the closure out.
///
/// # Safety
///
/// The types must be the task's, and the stage the caller's.
unsafe fn take_closure<F, T, X>(task: *const Task) -> F {
    // SAFETY: by the contract; what is moved out is no longer held.
    unsafe {
        let before = (*task).holds.replace(Holds::Nothing);
        assert_eq!(before, Holds::Closure, "a task runs once");
        ManuallyDrop::take(&mut (*stage::<F, T, X>(task)).closure)
    }
}

/// Drops the closure where it lies.
///
/// # Safety
///
/// As for [`take_closure`].
unsafe fn drop_closure<F, T, X>(task: *const Task) {
    // SAFETY: by the contract; what is dropped is no longer held.
    unsafe {
        let before = (*task).holds.replace(Holds::Nothing);
        assert_eq!(before, Holds::Closure, "a task runs once");
        drop_in_place_quietly::<F>((&raw mut (*stage::<F, T, X>(task)).closure).cast());
    }
}

/// Puts the result in.
///
/// # Safety
///
/// As for [`take_closure`], which must have been called, or [`drop_closure`].
unsafe fn put_result<F, T, X>(task: *const Task, result: Result<T>) {
    // SAFETY: by the contract; nothing is overwritten.
    unsafe {
        (*stage::<F, T, X>(task)).result = ManuallyDrop::new(result);
        (*task).holds.set(Holds::Result);
    }
}

unsafe fn run<F: FnOnce() -> T, T>(task: *const Task, locals: &Locals) {
    // SAFETY: the runtime runs a task once; until `DONE` the stage is the task's.
    unsafe {
        let closure = take_closure::<F, T, Fibered>(task);
        let result = panic::catch_unwind(AssertUnwindSafe(closure));
        locals.clear();
        put_result::<F, T, Fibered>(task, result);
    }
}

unsafe fn resume<R: Resumable>(task: *const Task, context: &mut Context<'_>) -> Step<()> {
    // SAFETY: the runtime resumes a task that has not ended, one at a time: the stage is the task's.
    unsafe {
        debug_assert_eq!((*task).holds.get(), Holds::Closure);
        let resumable = &mut *(*stage::<R, R::Output, Stackless>(task)).closure;
        let step = panic::catch_unwind(AssertUnwindSafe(|| resumable.resume(context)));
        end_resume::<R>(task, step)
    }
}

/// [`resume`], of one that relays: it may come back on behalf of another of its type.
unsafe fn relay<R: Relay>(task: *const Task, context: &mut Context<'_>) -> Step<()> {
    // SAFETY: as above; the other one was passed the turn in place of this one.
    unsafe {
        debug_assert_eq!((*task).holds.get(), Holds::Closure);
        let resumable = (*task).resumable_address::<R>().as_ptr();
        let step = panic::catch_unwind(AssertUnwindSafe(|| R::relay(resumable, context)));
        end_resume::<R>(context.task(), step)
    }
}

/// Ends a task of this type in the middle of its resume, which goes on on behalf of another one.
///
/// # Safety
///
/// As for [`end_resume`]; no reference to the resumable is used.
#[inline(always)]
pub(crate) unsafe fn end_early<R: Relay>(task: &Task, value: R::Output) {
    // SAFETY: the contract.
    unsafe { end_resume::<R>(task, Ok(Step::Done(value))) };
}

/// Sees to it how a resume ended.
///
/// # Safety
///
/// By the runtime; `R` is the task's, and the stage, which holds the resumable.
#[inline(always)]
unsafe fn end_resume<R: Resumable>(task: *const Task, step: Result<Step<R::Output>>) -> Step<()> {
    // SAFETY: by the contract.
    unsafe {
        let result = match step {
            Ok(Step::Yielded) => return Step::Yielded,
            Ok(Step::Parked) => return Step::Parked,
            Ok(Step::Done(value)) => Ok(value),
            Err(payload) => Err(payload),
        };
        if let Some(stackless) = (*task).stackless() {
            stackless.begin_to_end();
        }
        drop_closure::<R, R::Output, Stackless>(task);
        if result.is_err() || mem::needs_drop::<R::Output>() || !(*task).is_detached() {
            put_result::<R, R::Output, Stackless>(task, result);
        }
        Step::Done(())
    }
}

unsafe fn abandon<F, T, X>(task: *const Task) {
    // SAFETY: as in `run`, which does not happen then.
    unsafe {
        drop_closure::<F, T, X>(task);
        put_result::<F, T, X>(task, Err(Box::new(Cancelled::NEW)));
    }
}

unsafe fn give_up<F, T, X>(task: *const Task) {
    // SAFETY: the closure was taken out by `run`, which does not go on.
    unsafe { put_result::<F, T, X>(task, Err(Box::new(Cancelled::NEW))) }
}

unsafe fn panic_message<F, T, X>(task: *const Task) -> Option<String> {
    // SAFETY: the caller owns the stage.
    unsafe {
        if (*task).holds.get() != Holds::Result {
            return None;
        }
        match &*(*stage::<F, T, X>(task)).result {
            Err(payload) if !is_call_off(&**payload) => Some(message(&**payload)),
            _ => None,
        }
    }
}

unsafe fn discard<F, T, X>(task: *const Task) {
    // SAFETY: the caller owns the stage.
    unsafe {
        let stage = stage::<F, T, X>(task);
        match (*task).holds.replace(Holds::Nothing) {
            Holds::Nothing => {}
            Holds::Closure => drop_in_place_quietly::<F>((&raw mut (*stage).closure).cast()),
            Holds::Result => drop_in_place_quietly::<Result<T>>((&raw mut (*stage).result).cast()),
        }
    }
}
