//! OS threads for calls that block: one pool for all runtimes, and all other threads, of the process.
//!
//! A job goes to the thread that has been idle for the shortest time, so that the others can end when
//! they have been idle for long; else to a new thread; else, when there are as many as there may be,
//! into a queue. What a thread has been given is no longer idle, even while it has yet to wake up:
//! the deadlock detector relies on that.
//!
//! The threads are never waited for. A process that ends takes them along, whatever they do.
//!
//! After a fork the child has none of the threads, so it begins with a new pool.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{affinity, foreign, fork};

/// What a thread runs.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// How many threads there may be, unless [set](set_max_threads) otherwise.
pub(crate) const MAX_THREADS: usize = 512;
/// How long a thread stays without work, unless [set](set_keep_alive) otherwise.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);

// The settings outlive a pool that stays behind in a fork. Relaxed: they are rules of thumb.
static MAX: AtomicUsize = AtomicUsize::new(MAX_THREADS);
static KEEP: AtomicU64 = AtomicU64::new(KEEP_ALIVE.as_nanos() as u64);

/// The pool, once there is one. Never freed.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

struct Pool {
    /// The process that it was made in; see [`fork`].
    generation: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Jobs that no thread has been given yet, by their tickets.
    queue: BTreeMap<u64, Work>,
    /// The next ticket: how many jobs there have been.
    next: u64,
    /// Threads without work, the one that has been idle for longest first.
    idle: Vec<Arc<Seat>>,
    /// All threads.
    threads: usize,
    /// What to do when there is no job.
    on_quiet: Vec<Work>,
}

/// A thread, as whoever has work for it sees it.
struct Seat {
    thread: thread::Thread,
    /// The kernel's number of it.
    number: u64,
    /// Given with the lock of the state held.
    work: Mutex<Option<Work>>,
}

/// How many threads and jobs there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Census {
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) queued: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of this process, if there is one already.
fn existing() -> Option<&'static Pool> {
    // Acquire: it is complete. SAFETY: pools are never freed.
    let pool = unsafe { POOL.load(Ordering::Acquire).as_ref() }?;
    (pool.generation == fork::generation()).then_some(pool)
}

fn pool() -> &'static Pool {
    loop {
        if let Some(pool) = existing() {
            return pool;
        }
        fork::install();
        let old = POOL.load(Ordering::Relaxed);
        let new = Pool { generation: fork::generation(), state: Mutex::default() };
        let new = Box::into_raw(Box::new(new));
        // Release: see `existing`.
        if POOL.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

impl State {
    fn census(&self) -> Census {
        Census { threads: self.threads, idle: self.idle.len(), queued: self.queue.len() }
    }

    /// Adds a thread for the first job in the queue, if there may be more. Under the lock, so that
    /// whoever finds none knows that none is being made either.
    fn grow(&mut self, pool: &'static Pool) -> io::Result<()> {
        if self.threads >= MAX.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Some((ticket, work)) = self.queue.pop_first() else { return Ok(()) };
        let first = Arc::new(Mutex::new(Some(work)));
        let builder = thread::Builder::new().name("pirn-blocking".into());
        let spawned = builder.spawn({
            let (first, unpinned) = (first.clone(), affinity::unpinned());
            move || {
                unpinned.begin();
                serve(pool, &first);
            }
        });
        match spawned {
            Ok(_) => self.threads += 1,
            Err(error) => {
                self.queue.extend(lock(&first).take().map(|work| (ticket, work)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// What is to be done now that there may be no job any more.
    fn take_on_quiet(&mut self) -> Vec<Work> {
        let quiet = self.queue.is_empty() && self.threads == self.idle.len();
        if quiet { mem::take(&mut self.on_quiet) } else { Vec::new() }
    }
}

/// Has a job run by some thread. By the ticket it can be [withdrawn](withdraw).
///
/// # Errors
///
/// When there is no thread and none can be had.
pub(crate) fn submit(work: Work) -> io::Result<u64> {
    let pool = pool();
    let mut state = lock(&pool.state);
    let ticket = state.next;
    state.next += 1;
    if let Some(seat) = state.idle.pop() {
        *lock(&seat.work) = Some(work);
        drop(state);
        seat.thread.unpark();
        return Ok(ticket);
    }
    state.queue.insert(ticket, work);
    let grown = state.grow(pool);
    // With one thread at least it waits for that.
    if state.threads == 0
        && let Err(error) = grown
    {
        let work = state.queue.remove(&ticket);
        drop(state);
        drop(work);
        return Err(error);
    }
    Ok(ticket)
}

/// Takes a job back that no thread has been given yet.
pub(crate) fn withdraw(ticket: u64) -> Option<Work> {
    let mut state = lock(&existing()?.state);
    let work = state.queue.remove(&ticket);
    let on_quiet = state.take_on_quiet();
    drop(state);
    on_quiet.into_iter().for_each(|call| call());
    work
}

/// What a thread of the pool does, beginning with this job.
fn serve(pool: &'static Pool, first: &Mutex<Option<Work>>) {
    let seat = Arc::new(Seat {
        thread: thread::current(),
        number: foreign::own_number(),
        work: Mutex::new(None),
    });
    let mut work = lock(first).take();
    while let Some(job) = work {
        // A job catches its own panics; what is left are destructors of results that nobody wants.
        let _ = panic::catch_unwind(AssertUnwindSafe(job));
        work = next(pool, &seat);
    }
}

/// The thread's next job. `None`: it has ended.
fn next(pool: &Pool, seat: &Arc<Seat>) -> Option<Work> {
    let mut state = lock(&pool.state);
    if state.threads <= MAX.load(Ordering::Relaxed) {
        if let Some((_, work)) = state.queue.pop_first() {
            return Some(work);
        }
        state.idle.push(seat.clone());
    } else {
        // There are to be fewer now.
        state.threads -= 1;
    }
    let ends = !state.idle.last().is_some_and(|last| Arc::ptr_eq(last, seat));
    let on_quiet = state.take_on_quiet();
    drop(state);
    on_quiet.into_iter().for_each(|call| call());
    if ends { None } else { wait_for_work(pool, seat) }
}

fn wait_for_work(pool: &Pool, seat: &Arc<Seat>) -> Option<Work> {
    let since = Instant::now();
    loop {
        let keep = Duration::from_nanos(KEEP.load(Ordering::Relaxed));
        thread::park_timeout(keep.saturating_sub(since.elapsed()));
        let mut state = lock(&pool.state);
        if let Some(work) = lock(&seat.work).take() {
            return Some(work);
        }
        let keep = Duration::from_nanos(KEEP.load(Ordering::Relaxed));
        if since.elapsed() >= keep || state.threads > MAX.load(Ordering::Relaxed) {
            state.idle.retain(|idle| !Arc::ptr_eq(idle, seat));
            state.threads -= 1;
            return None;
        }
    }
}

/// Sets how many threads there may be. Those that are too many end when they have no work.
pub(crate) fn set_max_threads(threads: NonZero<usize>) {
    MAX.store(threads.get(), Ordering::Relaxed);
    rouse();
    let Some(pool) = existing() else { return };
    let mut state = lock(&pool.state);
    for _ in 0..state.queue.len().min(threads.get()) {
        // A queued job waits for a thread that there is.
        if state.grow(pool).is_err() {
            break;
        }
    }
}

/// Sets how long a thread stays without work.
pub(crate) fn set_keep_alive(keep: Duration) {
    KEEP.store(u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    rouse();
}

/// Has idle threads look at the settings.
fn rouse() {
    if let Some(pool) = existing() {
        lock(&pool.state).idle.iter().for_each(|seat| seat.thread.unpark());
    }
}

pub(crate) fn census() -> Census {
    existing().map(|pool| lock(&pool.state).census()).unwrap_or_default()
}

/// Has this done when there is no job, or returns how it stands if there is none now.
pub(crate) fn when_quiet(call: Work) -> bool {
    let Some(pool) = existing() else { return false };
    let mut state = lock(&pool.state);
    let busy = !state.queue.is_empty() || state.threads > state.idle.len();
    if busy {
        state.on_quiet.push(call);
    }
    busy
}

/// The kernel's numbers of the threads without work, and how many jobs there have been so far: as long
/// as that is so, those have done nothing.
pub(crate) fn idle_threads() -> (Vec<u64>, u64) {
    let Some(pool) = existing() else { return (Vec::new(), 0) };
    let state = lock(&pool.state);
    (state.idle.iter().map(|seat| seat.number).collect(), state.next)
}
