//! A task: what is to be run, and what came of it.
//!
//! The record is made by `spawn` and lives on the heap as long as anybody refers to it: the runtime
//! until the task has ended, the join handle, `Thread` handles. It holds the closure first and the
//! result later. The stack that a fiber runs on is bound when the task is first dispatched, and is
//! given back when it ends: many tasks that are spawned and then run in turn need one stack.
//!
//! Flags, one word:
//!
//! | bit | set | by |
//! |---|---|---|
//! | `DONE` | the result is in place, or nobody wants it | the task, once |
//! | `JOINER` | `joiner` holds the party to wake | the owner of the join handle |
//! | `DETACHED` | the join handle is gone: nobody will take the result | its drop |
//! | `SCOPED` | the closure may hold borrows of a scope | `spawn`, before it is shared |
//!
//! `joiner` belongs to the handle's owner before `JOINER` is set, afterwards to the task. The result
//! belongs to the task before `DONE`, afterwards to the handle's owner; of `DONE` and `DETACHED`,
//! whoever comes second drops a result that nobody took.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread::Result;

use super::fiber::Fiber;
use super::mailbox::Mailbox;
use super::party::{self, Party, PartyRef, ThreadId};
use super::scope::Tally;
use super::wait::{Epoch, Outcome};
use crate::stack::SizeClass;
use crate::thread::Locals;

const DONE: u32 = 1;
const JOINER: u32 = 2;
const DETACHED: u32 = 4;
const SCOPED: u32 = 8;

/// See the [module documentation](self).
#[repr(C)]
pub(crate) struct Task {
    /// First, so that a `Party` with a home is a `Task`.
    pub(crate) party: Party,
    flags: AtomicU32,
    /// The task's place in its carrier's registry.
    pub(crate) registered: Cell<u32>,
    vtable: &'static VTable,
    /// The stack it runs on; null before it first runs and after it ended. The carrier's.
    pub(crate) fiber: Cell<*mut Fiber>,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) stack: SizeClass,
    pub(crate) keep_float_control: bool,
    /// The scope to count the task out of when it has ended. The carrier's.
    pub(crate) scope: Cell<Option<Rc<Tally>>>,
    /// The next task in a mailbox.
    pub(crate) mail_link: AtomicPtr<Task>,
    joiner: UnsafeCell<Option<(PartyRef, Epoch)>>,
}

/// What depends on the types of closure and result.
struct VTable {
    /// Runs the closure and stores the result.
    run: unsafe fn(*const Task, &Locals),
    /// Drops the closure of a task that never ran.
    abandon: unsafe fn(*const Task),
    /// Whether the stored result is a panic: its message.
    panic_message: unsafe fn(*const Task) -> Option<String>,
    /// Moves the result out, to a `Result<T>`.
    take: unsafe fn(*const Task, *mut ()),
    /// Drops the result, if it is still there.
    discard: unsafe fn(*const Task),
}

/// How a task is to be run.
pub(crate) struct Spec {
    pub(crate) id: ThreadId,
    pub(crate) name: Option<Box<str>>,
    pub(crate) home: &'static Mailbox,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) stack: SizeClass,
    pub(crate) keep_float_control: bool,
    pub(crate) scoped: bool,
}

#[repr(C)]
struct Cell2<F, T> {
    task: Task,
    stage: UnsafeCell<Stage<F, T>>,
}

enum Stage<F, T> {
    Closure(F),
    Result(Result<T>),
    Taken,
}

/// The runtime ended before the task could; the payload that `join` then returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled(());

impl Cancelled {
    pub(crate) const NEW: Cancelled = Cancelled(());
}

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the runtime ended before the fiber did")
    }
}

impl std::error::Error for Cancelled {}

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
    let cell = Box::new(Cell2::<F, T> {
        task: Task {
            party: Party::new(spec.id, spec.name, Some(spec.home), destroy::<F, T>),
            flags: AtomicU32::new(if spec.scoped { SCOPED } else { 0 }),
            registered: Cell::new(u32::MAX),
            vtable: &const {
                VTable {
                    run: run::<F, T>,
                    abandon: abandon::<F, T>,
                    panic_message: panic_message::<F, T>,
                    take: take::<F, T>,
                    discard: discard::<F, T>,
                }
            },
            fiber: Cell::new(ptr::null_mut()),
            spawned_at: spec.spawned_at,
            stack: spec.stack,
            keep_float_control: spec.keep_float_control,
            scope: Cell::new(None),
            mail_link: AtomicPtr::new(ptr::null_mut()),
            joiner: UnsafeCell::new(None),
        },
        stage: UnsafeCell::new(Stage::Closure(closure)),
    });
    mem::forget(PartyRef::share(&cell.task.party));
    NonNull::from(Box::leak(cell)).cast()
}

unsafe fn destroy<F, T>(party: NonNull<Party>) {
    // SAFETY: the party is the first field of the cell that `create` boxed, and this was the last
    // reference. Nobody has taken the result: its drop is the last word on it.
    unsafe {
        discard::<F, T>(party.as_ptr().cast_const().cast());
        drop(Box::from_raw(party.as_ptr().cast::<Cell2<F, T>>()));
    }
}

/// The stage of a task.
///
/// # Safety
///
/// The types must be the task's, and the caller the one to whom the stage belongs now.
unsafe fn stage<'a, F, T>(task: *const Task) -> &'a mut Stage<F, T> {
    // SAFETY: `task` is the first field of the cell.
    unsafe { &mut *(*task.cast::<Cell2<F, T>>()).stage.get() }
}

unsafe fn run<F: FnOnce() -> T, T>(task: *const Task, locals: &Locals) {
    // SAFETY: the runtime runs a task once; until `DONE` the stage is the task's.
    unsafe {
        let Stage::Closure(closure) = mem::replace(stage::<F, T>(task), Stage::Taken) else {
            unreachable!("a task runs once");
        };
        let result = panic::catch_unwind(AssertUnwindSafe(closure));
        locals.clear();
        *stage::<F, T>(task) = Stage::Result(result);
    }
}

unsafe fn abandon<F, T>(task: *const Task) {
    // SAFETY: as in `run`, which does not happen then.
    let closure =
        unsafe { mem::replace(stage::<F, T>(task), Stage::Result(Err(Box::new(Cancelled::NEW)))) };
    drop_quietly(closure);
}

unsafe fn panic_message<F, T>(task: *const Task) -> Option<String> {
    // SAFETY: the caller owns the stage.
    match unsafe { stage::<F, T>(task) } {
        Stage::Result(Err(payload)) if !is_cancellation(&**payload) => Some(message(&**payload)),
        _ => None,
    }
}

unsafe fn take<F, T>(task: *const Task, to: *mut ()) {
    // SAFETY: the caller owns the stage, and `to` is a place for a Result<T>.
    unsafe {
        let Stage::Result(result) = mem::replace(stage::<F, T>(task), Stage::Taken) else {
            unreachable!("a result is taken once, after the end");
        };
        to.cast::<Result<T>>().write(result);
    }
}

unsafe fn discard<F, T>(task: *const Task) {
    // SAFETY: the caller owns the stage.
    let stage = unsafe { mem::replace(stage::<F, T>(task), Stage::Taken) };
    drop_quietly(stage);
}

/// Drops a value that nobody wants, when there is nobody to take the panic of its destructor.
pub(crate) fn drop_quietly<V>(value: V) {
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
    if let Err(payload) = dropped
        && !is_cancellation(&*payload)
    {
        // The hook has printed its message. Its own destructor could panic as well: leak it.
        mem::forget(payload);
        eprintln!("pirn: a value that nobody wanted panicked when it was dropped");
    }
}

/// The text of a panic payload, as the standard hook would print it.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "Box<dyn Any>".to_owned()
    }
}

/// Whether the payload is the runtime's own, thrown to unwind what is left at its end.
fn is_cancellation(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Cancelled>()
}

impl Task {
    /// Runs the closure and stores its result. On the task's own fiber.
    ///
    /// # Safety
    ///
    /// Once, by the runtime.
    pub(crate) unsafe fn run(&self, locals: &Locals) {
        // SAFETY: the vtable was made for this task.
        unsafe { (self.vtable.run)(self, locals) }
    }

    /// Drops the closure of a task that never ran; a join then returns [`Cancelled`].
    ///
    /// # Safety
    ///
    /// Once, by the runtime, instead of [`run`](Self::run).
    pub(crate) unsafe fn abandon(&self) {
        // SAFETY: the vtable was made for this task.
        unsafe { (self.vtable.abandon)(self) }
    }

    /// Publishes the end: wakes the joiner; without one, sees to an unwanted result.
    ///
    /// Returns the message of a panic that nobody can observe any more. The runtime's reference
    /// stays the caller's.
    ///
    /// # Safety
    ///
    /// Once, by the runtime, after [`run`](Self::run) or [`abandon`](Self::abandon).
    pub(crate) unsafe fn complete(&self) -> Option<String> {
        // AcqRel: the result is visible to the joiner, and the joiner's registration to us.
        let before = self.flags.fetch_or(DONE, Ordering::AcqRel);
        debug_assert_eq!(before & DONE, 0, "a task ends once");
        if before & JOINER != 0 {
            // SAFETY: with JOINER set before DONE the field is ours.
            if let Some((joiner, epoch)) = unsafe { (*self.joiner.get()).take() } {
                joiner.notify(epoch, Outcome::Notified);
            }
        }
        if before & DETACHED == 0 {
            return None;
        }
        // SAFETY: DETACHED before DONE leaves the result to us.
        unsafe { self.bury() }
    }

    /// Drops a result that nobody will take. Returns the message of a panic among them.
    ///
    /// # Safety
    ///
    /// By the one of complete and detach that came second.
    unsafe fn bury(&self) -> Option<String> {
        // SAFETY: the stage belongs to the caller.
        unsafe {
            let message = (self.vtable.panic_message)(self);
            (self.vtable.discard)(self);
            message
        }
    }

    /// Whether the result is there.
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: the result is visible if so.
        self.flags.load(Ordering::Acquire) & DONE != 0
    }

    pub(crate) fn is_scoped(&self) -> bool {
        // Relaxed: never changes.
        self.flags.load(Ordering::Relaxed) & SCOPED != 0
    }

    /// Registers whom to wake at the end. False: it has come already.
    ///
    /// # Safety
    ///
    /// By the owner of the join handle, once.
    pub(crate) unsafe fn set_joiner(&self, joiner: PartyRef, epoch: Epoch) -> bool {
        // SAFETY: before JOINER is set the field is the handle's.
        unsafe { *self.joiner.get() = Some((joiner, epoch)) };
        // AcqRel: publishes the field, or makes the result visible.
        let before = self.flags.fetch_or(JOINER, Ordering::AcqRel);
        if before & DONE == 0 {
            return true;
        }
        // SAFETY: JOINER came second: the field stays ours.
        unsafe { *self.joiner.get() = None };
        false
    }

    /// Moves the result out.
    ///
    /// # Safety
    ///
    /// By the owner of the join handle, once, after [`is_done`](Self::is_done); `T` must be the
    /// task's.
    pub(crate) unsafe fn take<T>(&self) -> Result<T> {
        let mut result = mem::MaybeUninit::<Result<T>>::uninit();
        // SAFETY: `take` writes a Result<T>.
        unsafe {
            (self.vtable.take)(self, result.as_mut_ptr().cast());
            result.assume_init()
        }
    }

    /// The join handle goes away without a join. Returns the message of a panic that nobody has
    /// observed.
    ///
    /// # Safety
    ///
    /// By the owner of the join handle, once.
    pub(crate) unsafe fn detach(&self) -> Option<String> {
        // AcqRel: as in `complete`.
        let before = self.flags.fetch_or(DETACHED, Ordering::AcqRel);
        if before & DONE == 0 {
            return None;
        }
        // SAFETY: DONE before DETACHED leaves the result to the handle.
        unsafe { self.bury() }
    }

    /// Gives the runtime's or the handle's reference back.
    ///
    /// # Safety
    ///
    /// The caller must own a reference; `this` must not be used afterwards.
    #[inline]
    pub(crate) unsafe fn release(this: NonNull<Task>) {
        // SAFETY: the party is the first field.
        unsafe { party::release(this.cast()) }
    }
}
