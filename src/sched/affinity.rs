//! Which CPUs the carriers run on, if they are *pinned*: each to one.
//!
//! A new thread inherits the affinity of the thread that starts it. What a pinned carrier starts for the
//! runtime (threads for blocking calls, watchdogs) is not meant to share its CPU, so such a thread first
//! takes on what the carrier had [before](unpinned).

use std::cell::Cell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::thread;

/// A set of CPUs, as the system writes it down.
#[derive(Clone, Copy)]
pub(crate) struct CpuSet(libc::cpu_set_t);

const SIZE: usize = mem::size_of::<libc::cpu_set_t>();

impl CpuSet {
    fn of_one(cpu: usize) -> io::Result<CpuSet> {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: all zero is the empty set; `cpu` is within it.
        unsafe {
            let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
            libc::CPU_SET(cpu, &mut set);
            Ok(CpuSet(set))
        }
    }

    /// Those on which the calling thread may run.
    fn of_this_thread() -> io::Result<CpuSet> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: there is room for the answer, which initialises it.
        unsafe {
            match libc::sched_getaffinity(0, SIZE, set.as_mut_ptr()) {
                0 => Ok(CpuSet(set.assume_init())),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Has the calling thread run on these only.
    fn apply(&self) -> io::Result<()> {
        // SAFETY: reads the set.
        match unsafe { libc::sched_setaffinity(0, SIZE, &raw const self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

std::thread_local! {
    /// What the calling thread might use before it was pinned.
    static BEFORE: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// What a thread that the calling one starts is to begin with.
pub(crate) fn unpinned() -> Unpinned {
    Unpinned(BEFORE.get())
}

/// See [`unpinned`].
pub(crate) struct Unpinned(Option<CpuSet>);

impl Unpinned {
    /// On the new thread. If the CPUs may not be used any more, it stays where it is.
    pub(crate) fn begin(&self) {
        if let Some(before) = &self.0 {
            let _ = before.apply();
        }
    }
}

/// The calling thread is pinned while this exists.
pub(super) struct Pin {
    before: CpuSet,
}

impl Pin {
    pub(super) fn to(cpu: usize) -> io::Result<Pin> {
        let before = CpuSet::of_this_thread()?;
        CpuSet::of_one(cpu)?.apply()?;
        BEFORE.set(Some(before));
        Ok(Pin { before })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        BEFORE.set(None);
        // What was allowed before and is not any more cannot be had back.
        let _ = self.before.apply();
    }
}

/// Whether threads of this process can be pinned to each of these CPUs, found out by trying.
pub(super) fn check(cpus: &[usize]) -> io::Result<()> {
    let Some(_) = cpus.first() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "carriers cannot be pinned: no CPU was given to Builder::pin_carriers",
        ));
    };
    let attempt = || {
        let refused =
            |&cpu: &usize| Some((cpu, CpuSet::of_one(cpu).and_then(|set| set.apply()).err()?));
        cpus.iter().find_map(refused)
    };
    // On a thread of its own, whose affinity matters to nobody afterwards.
    let refused = thread::scope(|scope| {
        let trial = thread::Builder::new().name("pirn-affinity".into());
        let trial = trial.spawn_scoped(scope, attempt)?;
        io::Result::Ok(trial.join().expect("the attempt does not panic"))
    })?;
    refused.map_or(Ok(()), |(cpu, error)| Err(refusal(cpu, &error)))
}

/// Says what is wrong with this CPU.
fn refusal(cpu: usize, error: &io::Error) -> io::Error {
    let why = match error.kind() {
        io::ErrorKind::InvalidInput => {
            "it does not exist, is offline, or is none of those that this process may use"
                .to_owned()
        }
        _ => format!("the system refuses it: {error}"),
    };
    io::Error::new(error.kind(), format!("carriers cannot be pinned to CPU {cpu}: {why}"))
}
