//! A runtime: its carriers and what other threads may know of them.

use std::env;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Result};
use std::time::Duration;

use super::affinity::{self, Pin};
use super::carrier::{Carrier, Plan};
use super::deadlock::Deadlock;
use super::foreign;
use super::mailbox::Mailbox;
use super::party::ThreadId;
use super::stats::{Counters, Stats};
use super::task::{self, Spec, Task, Unobserved};
use super::team::{self, Team};
use super::watchdog::Watchdog;
use super::{fork, hook, spawn};
use crate::stack::{SizeClass, StackConfig, StackError};
use crate::thread::JoinHandle;

/// What every part of a runtime, and its handles, share.
pub(crate) struct Shared {
    /// The first carrier's.
    pub(crate) mailbox: &'static Mailbox,
    /// What the carriers share, if there are several.
    team: Option<Team>,
    number: u16,
    /// The number of the next task; 0 is that of the main one, whatever is spawned before it runs.
    next_id: AtomicU64,
    /// False once the carrier has begun to close: nothing may be handed over any more.
    open: Mutex<bool>,
    /// [`Handle`]s in existence: each may bring work at any time. One more with several carriers, which
    /// never goes: several threads make ids.
    handles: AtomicUsize,
    /// [`Errand`]s that have not been run.
    errands: AtomicUsize,
    /// OS threads that belong to the runtime.
    own_threads: Mutex<Vec<u64>>,
    /// Why the last stack could not be had, until one is given back.
    shortage: Mutex<Option<StackError>>,
    /// The size of the smallest slot that could not be had then; `usize::MAX` if none is missing.
    missing_slot: AtomicUsize,
    /// Panics that nobody can observe any more: report at the end, by id.
    unobserved: Mutex<Vec<Unobserved>>,
    /// What the carrier counts.
    pub(super) counters: Counters,
    pub(crate) stack: StackConfig,
    /// The class of `stack`.
    pub(crate) stack_class: SizeClass,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// The id of the main task.
    fn main_id(&self) -> ThreadId {
        ThreadId::new(self.number, 0)
    }

    /// The id of a task that any thread makes.
    pub(crate) fn new_id(&self) -> ThreadId {
        // Relaxed: only uniqueness matters.
        ThreadId::new(self.number, self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// The id of a task that the carrier itself makes.
    #[inline]
    pub(crate) fn new_local_id(&self) -> ThreadId {
        // Acquire: pairs with the drop of a handle, so that the ids that it used are seen. Without
        // handles only this thread makes ids, and only this thread could make a handle.
        if self.handles.load(Ordering::Acquire) > 0 {
            return self.new_id();
        }
        let id = self.next_id.load(Ordering::Relaxed);
        self.next_id.store(id + 1, Ordering::Relaxed);
        ThreadId::new(self.number, id)
    }

    pub(crate) fn has_handles(&self) -> bool {
        // Relaxed: a stale answer is corrected when the carrier looks again.
        self.handles.load(Ordering::Relaxed) > usize::from(self.team.is_some())
    }

    /// What the carriers share, if there are several.
    #[inline]
    pub(crate) fn team(&self) -> Option<&Team> {
        self.team.as_ref()
    }

    /// Whether other threads do something for the runtime, during which virtual time stands still.
    pub(crate) fn has_errands(&self) -> bool {
        // Acquire: pairs with the drop of an errand, so that what it brought is in the mailbox.
        self.errands.load(Ordering::Acquire) > 0
    }

    /// The kernel's numbers of the threads that belong to the runtime, besides its carrier.
    pub(crate) fn own_threads(&self) -> Vec<u64> {
        lock(&self.own_threads).clone()
    }

    /// The calling thread belongs to the runtime.
    pub(crate) fn add_own_thread(&self) {
        lock(&self.own_threads).push(foreign::own_number());
    }

    /// A stack of this class could not be had.
    pub(crate) fn begin_stack_shortage(&self, class: SizeClass, error: StackError) {
        let mut shortage = lock(&self.shortage);
        // Relaxed: a hint; the error itself is under the lock.
        if class.slot_size() <= self.missing_slot.load(Ordering::Relaxed) {
            self.missing_slot.store(class.slot_size(), Ordering::Relaxed);
            *shortage = Some(error);
        }
    }

    /// A stack has been given back.
    pub(crate) fn end_stack_shortage(&self) {
        let mut shortage = lock(&self.shortage);
        self.missing_slot.store(usize::MAX, Ordering::Relaxed);
        *shortage = None;
    }

    /// Why no further fiber could get a stack of this class now, for all that is known: smaller ones
    /// than were missing may be there.
    #[inline(always)]
    pub(crate) fn stack_shortage(&self, class: SizeClass) -> io::Result<()> {
        if self.missing_slot.load(Ordering::Relaxed) == usize::MAX {
            return Ok(());
        }
        self.stack_shortage_of(class)
    }

    #[cold]
    fn stack_shortage_of(&self, class: SizeClass) -> io::Result<()> {
        if class.slot_size() < self.missing_slot.load(Ordering::Relaxed) {
            return Ok(());
        }
        match &*lock(&self.shortage) {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    /// What the carrier has done so far.
    pub(super) fn stats(&self) -> Stats {
        // Relaxed: a count.
        let mut stats = self.counters.read(self.next_id.load(Ordering::Relaxed));
        for counters in self.team.iter().flat_map(Team::further_counters) {
            stats.add(&counters.read(0));
        }
        stats
    }

    /// From now on nothing is handed over from outside.
    pub(crate) fn close(&self) {
        *lock(&self.open) = false;
    }

    /// Hands a new task over, from any thread: to the carrier with this mailbox, unless any may take
    /// it. False: the runtime is closed.
    pub(crate) fn send(&self, task: NonNull<Task>, at: &'static Mailbox) -> bool {
        let open = lock(&self.open);
        if *open {
            // SAFETY: alive by the runtime's reference, which is handed over.
            match &self.team {
                Some(team) if unsafe { task.as_ref() }.is_movable() => team.inject(task),
                _ => at.send(task.as_ptr()),
            }
        }
        *open
    }

    /// Notes a panic that nobody can observe any more.
    pub(crate) fn report_unobserved(&self, report: Unobserved) {
        if *lock(&self.open) {
            lock(&self.unobserved).push(report);
        } else {
            eprintln!("pirn: {report}");
        }
    }

    fn print_unobserved(&self) {
        let mut reports = std::mem::take(&mut *lock(&self.unobserved));
        reports.sort();
        for report in reports {
            eprintln!("pirn: {report}");
        }
    }
}

/// Something that another thread does for a runtime with a virtual clock: exists until it is done.
pub(crate) struct Errand(Arc<Shared>);

impl Errand {
    /// One for the runtime of the calling fiber, if it has one with such a clock.
    pub(crate) fn begin() -> Option<Errand> {
        let shared = &Carrier::current().filter(|carrier| carrier.has_virtual_time())?.shared;
        // Relaxed: a count.
        shared.errands.fetch_add(1, Ordering::Relaxed);
        Some(Errand(shared.clone()))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        // Release: what it brought is in the mailbox before it is over.
        self.0.errands.fetch_sub(1, Ordering::Release);
        // Time may go on.
        self.0.mailbox.wake();
    }
}

/// Settings of a [`Runtime`].
///
/// ```
/// use std::time::Duration;
///
/// let runtime = pirn::Builder::new()
///     .stack_size(64 * 1024)
///     .watchdog(Duration::from_millis(200))
///     .build()?;
/// assert_eq!(runtime.run(|| 6 * 7).unwrap(), 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    stack: StackConfig,
    main_stack: usize,
    watchdog: Option<Duration>,
    carriers: Option<usize>,
    /// The CPUs that carriers are pinned to, in turn.
    cpus: Option<Vec<usize>>,
    plan: Plan,
}

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

/// The main fiber's stack: as much as an ordinary main thread has. Only what is touched counts.
const MAIN_STACK: usize = 8 << 20;

impl Builder {
    /// The default stacks, no watchdog, and as many carriers as the environment variable
    /// `PIRN_CARRIERS` says: one, if there is none.
    pub const fn new() -> Self {
        Builder {
            stack: StackConfig::DEFAULT,
            main_stack: MAIN_STACK,
            watchdog: None,
            carriers: None,
            cpus: None,
            plan: Plan { seed: None, virtual_time: false },
        }
    }

    /// Usable bytes of stack of a fiber that does not ask for its own; rounded up.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = self.stack.with_size(bytes);
        self
    }

    /// Bytes of guard below each stack; rounded up to pages. See [`pirn::stack`](crate::stack).
    pub fn guard_size(mut self, bytes: usize) -> Self {
        self.stack = self.stack.with_guard(bytes);
        self
    }

    /// Usable bytes of stack of the main fiber; the default is 8 MiB.
    pub fn main_stack_size(mut self, bytes: usize) -> Self {
        self.main_stack = bytes;
        self
    }

    /// Watches the carrier: a task that runs for longer than `limit` without once coming back to
    /// the scheduler is reported on stderr with a backtrace, once for each such stretch.
    ///
    /// The watch is an OS thread that looks every half of the limit. It takes the backtrace by
    /// sending the carrier a signal (`SIGURG`), for which it installs a handler.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }

    /// Runs tasks on so many OS threads at a time.
    ///
    /// The first carrier is the thread that calls [`run`](Runtime::run), and the main fiber runs
    /// there; the others are named `pirn-carrier-1` and so on. A fiber that was made by
    /// [`thread::spawn`](crate::thread::spawn) or [`Handle::spawn`] is begun by any of them, and stays
    /// there. Those of [`spawn_local`](crate::thread::spawn_local) and of a
    /// [scope](crate::thread::scope), and [tasks without a stack](crate::task) run on their parent's
    /// carrier; threads of a script as well, unless they are to [spread](crate::vm::Builder::carriers).
    ///
    /// With several carriers the order in which fibers run is not determined, so there is neither a
    /// [seed](Self::seed) nor [virtual time](Self::virtual_time); without a call of this method the
    /// number is one then, whatever the environment says.
    ///
    /// ```
    /// use pirn::thread;
    ///
    /// let runtime = pirn::Builder::new().carriers(2).build()?;
    /// let sum = runtime.run(|| {
    ///     let parts: Vec<_> = (0..4).map(|n| thread::spawn(move || n * n)).collect();
    ///     parts.into_iter().map(|part| part.join().unwrap()).sum::<i32>()
    /// });
    /// assert_eq!(sum.unwrap(), 14);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn carriers(mut self, count: usize) -> Self {
        self.carriers = Some(count);
        self
    }

    /// Pins each carrier to one of these CPUs, given by the system's numbers: the first carrier to the
    /// first, and so on, beginning again if there are more carriers than CPUs.
    ///
    /// The thread that calls [`run`](Runtime::run) is pinned until that returns, and then may use what
    /// it could before. Threads that the runtime starts for itself, as for
    /// [blocking calls](mod@crate::blocking), are not pinned. Threads and processes that the program starts
    /// on a fiber inherit the CPU of its carrier, as the system has it.
    ///
    /// [`build`](Self::build) fails if one of the CPUs does not exist or may not be used. If it is
    /// taken from the process later, `run` says so on stderr, and that carrier is not pinned.
    ///
    /// ```
    /// use std::io::ErrorKind;
    ///
    /// let runtime = pirn::Builder::new().carriers(2).pin_carriers([0, 1]).build();
    /// # let runtime = runtime.or_else(|_| pirn::Runtime::new());
    /// runtime?.run(|| println!("on CPU 0")).unwrap();
    ///
    /// let error = pirn::Builder::new().pin_carriers([1 << 20]).build().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidInput);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pin_carriers(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// Pins the calling thread, which is about to become this carrier, if that is asked for.
    fn pin(&self, carrier: usize) -> Option<Pin> {
        let cpus = self.cpus.as_ref()?;
        let cpu = cpus[carrier % cpus.len()];
        Pin::to(cpu)
            .inspect_err(|error| {
                eprintln!("pirn: carrier {carrier} could not be pinned to CPU {cpu}: {error}");
            })
            .ok()
    }

    /// Shuffles the order in which fibers run, by a generator with this seed: the same seed gives
    /// the same order again.
    ///
    /// For tests: what holds for every seed does not depend on the order. See
    /// [`explore`](crate::explore).
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = Some(seed);
        self
    }

    /// Gives the runtime a clock of its own, which stands still while any fiber can run, and jumps to
    /// the next deadline when all wait: an hour of sleeps runs at once, and the same way each time.
    ///
    /// [`Instant::now`](crate::time::Instant::now) reads that clock on the fibers of the runtime.
    /// What other OS threads do takes no time on it.
    ///
    /// ```
    /// use pirn::thread;
    /// use pirn::time::{Duration, Instant};
    ///
    /// let runtime = pirn::Builder::new().virtual_time(true).build()?;
    /// let slept = runtime.run(|| {
    ///     let start = Instant::now();
    ///     thread::sleep(Duration::from_secs(3600));
    ///     start.elapsed()
    /// });
    /// assert_eq!(slept.unwrap(), Duration::from_secs(3600));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn virtual_time(mut self, on: bool) -> Self {
        self.plan.virtual_time = on;
        self
    }

    /// Makes the runtime; nothing runs before [`Runtime::run`].
    ///
    /// # Errors
    ///
    /// When a stack size is beyond what an address space holds; with no carriers, or more than 56; with
    /// several carriers and a seed or virtual time; when `PIRN_CARRIERS` is used and is no such number;
    /// when carriers cannot be [pinned](Self::pin_carriers) as asked.
    pub fn build(self) -> io::Result<Runtime> {
        self.stack.with_size(self.main_stack).class()?;
        let carriers = self.carrier_count()?;
        if let Some(cpus) = &self.cpus {
            affinity::check(cpus)?;
        }
        let shared = new_shared(self.stack, self.stack.class()?, carriers);
        Ok(Runtime { shared, builder: self })
    }

    fn carrier_count(&self) -> io::Result<usize> {
        let refuse = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        let determined = match self.plan {
            Plan { seed: Some(_), .. } => Some("a seed"),
            Plan { virtual_time: true, .. } => Some("virtual time"),
            _ => None,
        };
        let (count, by) = match (self.carriers, determined) {
            (Some(count), _) => (count.to_string(), "Builder::carriers"),
            (None, Some(_)) => return Ok(1),
            (None, None) => match env::var_os(CARRIERS) {
                None => return Ok(1),
                Some(count) => (count.to_string_lossy().into_owned(), CARRIERS),
            },
        };
        match (count.parse(), determined) {
            (Ok(1), _) => Ok(1),
            (Ok(count), None) if (2..=team::MOST).contains(&count) => Ok(count),
            (Ok(2..=team::MOST), Some(what)) => refuse(format!(
                "{count} carriers were asked for by {by}, but {what} needs a single one"
            )),
            _ => refuse(format!(
                "{count:?} carriers were asked for by {by}; there may be 1 to {}",
                team::MOST
            )),
        }
    }
}

/// The environment variable that says how many carriers a runtime has.
const CARRIERS: &str = "PIRN_CARRIERS";

fn new_shared(stack: StackConfig, stack_class: SizeClass, carriers: usize) -> Arc<Shared> {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    fork::install();
    let mailbox = Mailbox::claim();
    let team = (carriers > 1).then(|| Team::new(carriers, mailbox));
    Arc::new(Shared {
        mailbox,
        // Wraps after 65,535 runtimes; ids need to differ among those that exist at once.
        number: NEXT.fetch_add(1, Ordering::Relaxed).max(1),
        next_id: AtomicU64::new(1),
        open: Mutex::new(true),
        handles: AtomicUsize::new(usize::from(team.is_some())),
        team,
        errands: AtomicUsize::new(0),
        own_threads: Mutex::new(Vec::new()),
        shortage: Mutex::new(None),
        missing_slot: AtomicUsize::new(usize::MAX),
        unobserved: Mutex::new(Vec::new()),
        counters: Counters::default(),
        stack,
        stack_class,
    })
}

/// A scheduler, which runs a main fiber and everything that it spawns.
///
/// With one carrier, as it has unless it is asked for [more](Builder::carriers), it is deterministic:
/// runnable fibers take turns first in, first out, and the same program with the same input gives the
/// same interleaving, timers aside.
pub struct Runtime {
    shared: Arc<Shared>,
    builder: Builder,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("builder", &self.builder).finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime with default settings.
    ///
    /// # Errors
    ///
    /// None with today's settings; see [`Builder::build`].
    pub fn new() -> io::Result<Runtime> {
        Builder::new().build()
    }

    /// A handle by which other threads bring work.
    ///
    /// While one exists, a [`Deadlock`] is reported only if every other OS thread sleeps until
    /// another one wakes it: somebody may yet spawn the fiber that wakes the others.
    pub fn handle(&self) -> Handle {
        Handle::new(self.shared.clone())
    }

    /// Runs `main` as the first fiber, on the calling thread, and returns its value.
    ///
    /// The thread is the carrier meanwhile. When `main` returns, whatever still waits is unwound:
    /// destructors run, the newest fiber first, and fibers that never began just drop their
    /// closures. (See [`pirn::thread`](crate::thread) for what a destructor may do then.) A panic
    /// in a fiber that nobody joined is reported on stderr, in order of ids.
    ///
    /// # Errors
    ///
    /// [`Deadlock`] when nothing can ever run again and `main` has not returned: no fiber is
    /// runnable, no timer is outstanding, and no other OS thread can wake one: there is none that
    /// could, or each sleeps until another one wakes it. It lists every fiber. `main` is unwound
    /// then.
    ///
    /// # Panics
    ///
    /// With the payload of `main` if it panics, and when called within a runtime. (After a fork on
    /// a fiber the child is not within one any more: see [`pirn::thread`](crate::thread).)
    ///
    /// # Aborts
    ///
    /// With `panic = "abort"`, on a deadlock: `main` cannot be unwound. And always when `main`, or a
    /// fiber of a scope, catches every unwind and waits again, a thousand times over.
    #[track_caller]
    pub fn run<F, T>(self, main: F) -> std::result::Result<T, Deadlock>
    where
        F: FnOnce() -> T,
    {
        assert!(
            Carrier::current().is_none_or(Carrier::is_left_behind),
            "a pirn runtime cannot be started within another one on the same thread"
        );
        hook::install();
        let config = self.builder.stack.with_size(self.builder.main_stack);
        let class = config.class().expect("checked by `build`");
        let spec = Spec {
            id: self.shared.main_id(),
            name: Some("main".into()),
            home: self.shared.mailbox,
            spawned_at: Location::caller(),
            stack: class,
            keep_float_control: false,
            scoped: true,
            movable: false,
        };
        // SAFETY: `Carrier::run` does not return before the main fiber has ended, or aborts.
        let main = unsafe { task::create::<F, T>(spec, main) };
        let carrier = Carrier::new(self.shared.clone(), self.builder.plan, 0);
        let watchdog = self.builder.watchdog.map(|limit| Watchdog::start(limit, &carrier));
        let mates = self.start_mates();
        // After the others, which would inherit it.
        let pin = self.builder.pin(0);
        let deadlock = carrier.run(main);
        for mate in mates {
            // One that panicked has said so.
            let _ = mate.join();
        }
        drop((watchdog, carrier, pin));
        self.shared.print_unobserved();
        if cfg!(panic = "abort")
            && let Some(deadlock) = deadlock
        {
            // `main` cannot be unwound, and must not be left behind with its borrows.
            eprintln!("pirn: {deadlock}");
            std::process::abort();
        }
        // SAFETY: the handle's reference is ours, and the main task has ended.
        let result: Result<T> = unsafe {
            let result = main.as_ref().take();
            Task::release(main);
            result
        };
        match (deadlock, result) {
            (None, Ok(value)) => Ok(value),
            (None, Err(payload)) => panic::resume_unwind(payload),
            (Some(deadlock), result) => {
                // Usually the unwind that ended `main`; a value if it caught that.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(result)));
                Err(deadlock)
            }
        }
    }
}

impl Runtime {
    /// Starts the carriers besides the first.
    fn start_mates(&self) -> Vec<thread::JoinHandle<()>> {
        let Some(team) = self.shared.team() else { return Vec::new() };
        self.shared.add_own_thread();
        let start = |number: usize| {
            let (shared, builder) = (self.shared.clone(), self.builder.clone());
            let thread = thread::Builder::new().name(format!("pirn-carrier-{number}"));
            let started = thread.spawn(move || {
                shared.add_own_thread();
                // First, so that what it uses is from memory near that CPU.
                let _pin = builder.pin(number);
                let carrier = Carrier::new(shared, builder.plan, number);
                let watchdog = builder.watchdog.map(|limit| Watchdog::start(limit, &carrier));
                carrier.work();
                drop(watchdog);
            });
            started
                .inspect_err(|error| {
                    eprintln!("pirn: carrier {number} could not be started: {error}");
                    team.do_without(number);
                })
                .ok()
        };
        (1..team.len()).filter_map(start).collect()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // After a run there is hardly anything left to do here; without one, handles may have brought
        // work.
        self.shared.close();
        let drop_mail = |mailbox: &'static Mailbox| {
            let _cancels = mailbox.take(|task| {
                // SAFETY: mailed tasks are alive; these never ran.
                spawn::refuse(unsafe { NonNull::new_unchecked(task.cast_mut()) });
            });
            mailbox.free();
        };
        match self.shared.team() {
            None => drop_mail(self.shared.mailbox),
            Some(team) => {
                team.drop_injected();
                team.mailboxes().for_each(drop_mail);
            }
        }
    }
}

/// Runs `main` on a default [`Runtime`] and returns its value.
///
/// ```
/// let sum = pirn::run(|| {
///     let other = pirn::thread::spawn(|| 2);
///     1 + other.join().unwrap()
/// });
/// assert_eq!(sum, 3);
/// ```
///
/// # Panics
///
/// With the payload of `main` if it panics; with a listing of all fibers if they deadlock
/// ([`Runtime::run`] returns that as an error); when called within a runtime.
#[track_caller]
pub fn run<F, T>(main: F) -> T
where
    F: FnOnce() -> T,
{
    let runtime = Runtime::new().expect("the default settings are valid");
    match runtime.run(main) {
        Ok(value) => value,
        Err(deadlock) => panic!("{deadlock}"),
    }
}

/// Brings work to a [`Runtime`] from any thread.
///
/// ```
/// let runtime = pirn::Runtime::new()?;
/// let handle = runtime.handle();
/// let other = std::thread::spawn(move || handle.spawn(|| 20 + 1).join().unwrap() * 2);
/// runtime.run(|| {
///     while !other.is_finished() {
///         pirn::thread::sleep(std::time::Duration::from_millis(1));
///     }
///     assert_eq!(other.join().unwrap(), 42);
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// A handle to a runtime that exists.
    pub(crate) fn of(shared: &Arc<Shared>) -> Handle {
        Handle::new(shared.clone())
    }

    fn new(shared: Arc<Shared>) -> Self {
        // Relaxed: a count.
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Handle { shared }
    }

    /// Spawns a fiber on the runtime.
    ///
    /// If the runtime has ended, or ends before the fiber does, `join` returns an error whose
    /// payload is [`Cancelled`](crate::thread::Cancelled). A runtime that has not been run yet
    /// keeps the fiber until it is.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn::spawn_remote(&self.shared, None, Location::caller(), f)
    }

    /// [`spawn`](Self::spawn), on the carrier with this mailbox.
    #[track_caller]
    pub(crate) fn spawn_at<F, T>(&self, carrier: &'static Mailbox, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn::spawn_remote(&self.shared, Some(carrier), Location::caller(), f)
    }

    /// What the runtime has done so far.
    ///
    /// ```
    /// let runtime = pirn::Runtime::new()?;
    /// let handle = runtime.handle();
    /// runtime.run(|| (0..10).for_each(|_| drop(pirn::thread::spawn(|| ())))).unwrap();
    /// assert_eq!(handle.stats().spawned, 11);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Handle::new(self.shared.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Release: what this handle brought is in the mailbox before it is gone.
        self.shared.handles.fetch_sub(1, Ordering::Release);
        // The carrier may now find itself deadlocked.
        self.shared.mailbox.wake();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
