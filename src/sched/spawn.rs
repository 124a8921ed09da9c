//! How a closure becomes a task.

use std::io;
use std::panic::Location;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use super::carrier::Carrier;
use super::mailbox::Mailbox;
use super::resumable::{Relay, Resumable};
use super::runtime::Shared;
use super::scope::Tally;
use super::task::{self, Spec, Task, Unobserved};
use super::team::Team;
use crate::stack::StackConfig;
use crate::thread::JoinHandle;

/// What `thread::Builder` knows.
pub(crate) struct Request {
    pub(crate) name: Option<Box<str>>,
    /// Differences from the runtime's stack settings.
    pub(crate) stack_size: Option<usize>,
    pub(crate) guard_size: Option<usize>,
    pub(crate) keep_float_control: bool,
    /// The scope that waits for the task, whose closure may hold borrows then.
    pub(crate) scope: Option<Rc<Tally>>,
    /// Any carrier may begin it: see [`movable`](Self::movable).
    pub(crate) movable: bool,
    pub(crate) spawned_at: &'static Location<'static>,
}

impl Request {
    /// A request for all defaults.
    #[inline]
    pub(crate) fn plain(spawned_at: &'static Location<'static>) -> Self {
        Request {
            name: None,
            stack_size: None,
            guard_size: None,
            keep_float_control: false,
            scope: None,
            movable: false,
            spawned_at,
        }
    }

    /// Any carrier of the runtime may begin it: closure and result can be sent to another thread.
    #[inline]
    pub(crate) fn movable(self) -> Self {
        Request { movable: true, ..self }
    }

    fn stack(&self, default: StackConfig) -> StackConfig {
        let sized = self.stack_size.map_or(default, |bytes| default.with_size(bytes));
        self.guard_size.map_or(sized, |bytes| sized.with_guard(bytes))
    }
}

/// Spawns a task on the calling fiber's runtime; on its carrier, unless the request is
/// [movable](Request::movable) and the runtime has several.
///
/// # Errors
///
/// Outside a runtime; when the stack size is beyond reason; while stacks are exhausted.
///
/// # Safety
///
/// The lifetimes of `F` and `T` are forgotten: the caller sees to it that the task has ended, and
/// its result is gone, before they end. Both are `Send` if the request is movable.
pub(crate) unsafe fn spawn_fiber<F, T>(request: Request, f: F) -> io::Result<NonNull<Task>>
where
    F: FnOnce() -> T,
{
    let Some(carrier) = Carrier::current() else {
        return Err(io::Error::other(
            "pirn::thread::spawn was called outside a runtime; call it within pirn::run, \
             or use a pirn::Handle",
        ));
    };
    let shared = &carrier.shared;
    let stack = if request.stack_size.is_none() && request.guard_size.is_none() {
        shared.stack_class
    } else {
        request.stack(shared.stack).class()?
    };
    shared.stack_shortage(stack)?;
    let team = if request.movable { shared.team() } else { None };
    let spec = Spec {
        id: shared.new_local_id(),
        name: request.name,
        home: team.map_or(carrier.mailbox(), Team::nowhere),
        spawned_at: request.spawned_at,
        stack,
        keep_float_control: request.keep_float_control,
        scoped: request.scope.is_some(),
        movable: team.is_some(),
    };
    // SAFETY: the contract is passed on.
    let task = unsafe { task::create::<F, T>(spec, f) };
    if let Some(tally) = request.scope {
        tally.begin_one();
        // SAFETY: nobody else has seen the task yet.
        unsafe { task.as_ref().set_scope(tally) };
    }
    if carrier.is_closing() {
        refuse(task);
    } else if team.is_some() {
        carrier.offer(task);
    } else {
        carrier.adopt(task);
    }
    Ok(task)
}

/// Spawns a task without a stack on the calling task's runtime.
///
/// # Errors
///
/// Outside a runtime.
pub(crate) fn spawn_stackless<R: Resumable + 'static>(
    name: Option<Box<str>>,
    spawned_at: &'static Location<'static>,
    resumable: R,
) -> io::Result<JoinHandle<R::Output>> {
    let create = |spec, resumable| task::create_stackless(spec, resumable, false);
    let task = begin_stackless(name, spawned_at, resumable, create, |_| {})?;
    // SAFETY: the handle's reference, for the output that the task was made with.
    Ok(unsafe { JoinHandle::new(task) })
}

/// [`spawn_stackless`], of a task that relays. `prepare` is called with the resumable in its place,
/// where it stays while it has not ended.
///
/// # Errors
///
/// As above.
pub(crate) fn spawn_relaying<R: Relay + 'static>(
    spawned_at: &'static Location<'static>,
    resumable: R,
    prepare: impl FnOnce(&mut R),
) -> io::Result<JoinHandle<R::Output>> {
    let create = |spec, resumable| task::create_relaying(spec, resumable, false);
    let task = begin_stackless(None, spawned_at, resumable, create, prepare)?;
    // SAFETY: as above.
    Ok(unsafe { JoinHandle::new(task) })
}

/// [`spawn_relaying`], without a join handle.
///
/// # Errors
///
/// As above.
#[inline(always)]
pub(crate) fn spawn_detached<R: Relay + 'static>(
    spawned_at: &'static Location<'static>,
    resumable: R,
    prepare: impl FnOnce(&mut R),
) -> io::Result<()> {
    let create = |spec, resumable| task::create_relaying(spec, resumable, true);
    begin_stackless(None, spawned_at, resumable, create, prepare).map(drop)
}

#[inline(always)]
fn begin_stackless<R: Resumable + 'static>(
    name: Option<Box<str>>,
    spawned_at: &'static Location<'static>,
    resumable: R,
    create: impl FnOnce(Spec, R) -> NonNull<Task>,
    prepare: impl FnOnce(&mut R),
) -> io::Result<NonNull<Task>> {
    let Some(carrier) = Carrier::current() else {
        return Err(io::Error::other(
            "pirn::task::spawn was called outside a runtime; call it within pirn::run",
        ));
    };
    let shared = &carrier.shared;
    let spec = Spec {
        id: shared.new_local_id(),
        name,
        home: carrier.mailbox(),
        spawned_at,
        stack: shared.stack_class,
        keep_float_control: false,
        scoped: false,
        movable: false,
    };
    let task = create(spec, resumable);
    // SAFETY: nobody else has seen the task yet.
    unsafe { prepare(task.as_ref().resumable()) };
    if carrier.is_closing() {
        refuse(task);
    } else {
        carrier.adopt_stackless(task);
    }
    Ok(task)
}

/// [`spawn_detached`], for a resumable that any carrier of the team may begin, where it stays; it begins
/// with a turn of its own, and is woken from everywhere.
///
/// # Errors
///
/// If the caller is no task of a runtime with several carriers.
///
/// # Safety
///
/// The resumable may be begun, or dropped, on another thread.
pub(crate) unsafe fn spawn_movable<R: Relay + 'static>(
    spawned_at: &'static Location<'static>,
    resumable: R,
    prepare: impl FnOnce(&mut R),
) -> io::Result<()> {
    let carrier = Carrier::current();
    let Some((carrier, team)) = carrier.and_then(|it| Some((it, it.shared.team()?))) else {
        return Err(io::Error::other("there are no other carriers"));
    };
    let spec = Spec {
        id: carrier.shared.new_local_id(),
        name: None,
        home: team.nowhere(),
        spawned_at,
        stack: carrier.shared.stack_class,
        keep_float_control: false,
        scoped: false,
        movable: true,
    };
    let task = task::create_relaying(spec, resumable, true);
    // SAFETY: nobody else has seen the task yet.
    unsafe {
        let task = task.as_ref();
        task.expose();
        task.stackless_unchecked().ends_turn_itself();
        prepare(task.resumable());
    }
    if carrier.is_closing() {
        refuse(task);
    } else {
        carrier.offer(task);
    }
    Ok(())
}

/// Spawns a task from any thread; on the carrier with this mailbox, or on any.
pub(crate) fn spawn_remote<F, T>(
    shared: &Arc<Shared>,
    at: Option<&'static Mailbox>,
    spawned_at: &'static Location<'static>,
    f: F,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let team = if at.is_none() { shared.team() } else { None };
    let at = at.unwrap_or(shared.mailbox);
    let spec = Spec {
        id: shared.new_id(),
        name: None,
        home: team.map_or(at, Team::nowhere),
        spawned_at,
        stack: shared.stack_class,
        keep_float_control: false,
        scoped: false,
        movable: team.is_some(),
    };
    // SAFETY: F and T are 'static.
    let task = unsafe { task::create::<F, T>(spec, f) };
    if shared.mailbox.is_left_behind() || !shared.send(task, at) {
        refuse(task);
    }
    // SAFETY: the handle's reference, for the T that the task was made with.
    unsafe { JoinHandle::new(task) }
}

/// Spawns a task without a stack from any thread, on the carrier with this mailbox.
#[track_caller]
pub(super) fn send_stackless<R>(
    shared: &Arc<Shared>,
    at: &'static Mailbox,
    resumable: R,
) -> JoinHandle<R::Output>
where
    R: Resumable<Output: Send> + Send + 'static,
{
    let spec = Spec {
        id: shared.new_id(),
        name: None,
        home: at,
        spawned_at: Location::caller(),
        stack: shared.stack_class,
        keep_float_control: false,
        scoped: false,
        movable: false,
    };
    let task = task::create_stackless(spec, resumable, false);
    if !shared.send(task, at) {
        refuse(task);
    }
    // SAFETY: the handle's reference, for the output that the task was made with.
    unsafe { JoinHandle::new(task) }
}

/// Ends a task that the runtime does not take any more.
#[cold]
pub(super) fn refuse(task: NonNull<Task>) {
    // SAFETY: nobody has seen the task yet: it never runs, and the runtime's reference is unused.
    unsafe {
        task.as_ref().abandon();
        let scope = task.as_ref().take_scope();
        Task::complete(task);
        if let Some(tally) = scope {
            tally.end_one();
        }
    }
}

/// A join handle is dropped, and with it the last chance to see this panic.
#[cold]
pub(crate) fn report_unobserved(task: &Task, report: Box<Unobserved>) {
    match Carrier::current() {
        Some(carrier) if task.party.is_at_home(carrier.mailbox()) => {
            carrier.shared.report_unobserved(*report);
        }
        _ => eprintln!("pirn: {report}"),
    }
}
