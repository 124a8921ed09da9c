//! Favouring one thread: fences of unequal cost, and who may be favoured.
//!
//! A lock that one thread alone uses pays for an atomic exchange that nobody needs. With a pair of
//! *asymmetric* fences (as in crossbeam-epoch and folly) that thread does with plain loads and
//! stores: its fence is [light](light_fence) and only keeps the compiler from reordering; whoever
//! comes second makes all running threads of the process pass a full fence,
//! [heavily](heavy_fence), by the system call `membarrier`. Each of them passes it either before
//! what stands after its light fence, or after what stands before it, so of two threads that write,
//! fence and read, the one lightly and the other heavily, at least one sees what the other wrote.
//!
//! Favoured are the threads of carriers: fibers mostly talk among themselves. A heavy fence costs
//! some ten microseconds. So that a program whose threads share everything does not pay for
//! each thing that they share, nobody is favoured any more once that has turned out wrong
//! [a number of times](MISTAKES).

use std::cell::Cell;
use std::process;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, compiler_fence};

/// Heavy fences after which nobody is favoured any more.
const MISTAKES: u32 = 64;

/// Heavy fences so far.
static HEAVY: AtomicU32 = AtomicU32::new(0);

/// A thread that is never favoured.
pub(crate) const NOBODY: u32 = 0;

thread_local! {
    /// This thread's token.
    static TOKEN: Cell<u32> = const { Cell::new(NOBODY) };
}

/// What tells the calling thread from all others, ever, if it may be favoured; else [`NOBODY`].
#[inline(always)]
pub(crate) fn token() -> u32 {
    TOKEN.get()
}

/// Lets the calling thread be favoured from now on.
pub(crate) fn admit_thread() {
    static NEXT: AtomicU32 = AtomicU32::new(NOBODY + 1);
    if token() != NOBODY || !is_available() {
        return;
    }
    // Relaxed: only uniqueness matters. The highest ones are not used, nor used again.
    let last = u32::MAX / 2;
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        (next < last).then_some(next + 1)
    });
    TOKEN.set(next.unwrap_or(NOBODY));
}

/// Whether it is still worth while to favour somebody.
pub(crate) fn is_worth_while() -> bool {
    // Relaxed: a rule of thumb.
    HEAVY.load(Ordering::Relaxed) < MISTAKES
}

// linux/membarrier.h
const MEMBARRIER_CMD_GLOBAL: i32 = 1;
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier(command: i32) -> bool {
    // SAFETY: touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Whether heavy fences can be had. The first call may take some milliseconds in a process that has
/// several threads already.
fn is_available() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    // No lock: the process may be forked meanwhile. Registering twice does no harm.
    static AVAILABLE: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed: the answer is all there is.
    if AVAILABLE.load(Ordering::Relaxed) == UNKNOWN {
        // A race detector knows nothing of such fences.
        let yes = !cfg!(pirn_tsan) && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        AVAILABLE.store(if yes { YES } else { NO }, Ordering::Relaxed);
    }
    AVAILABLE.load(Ordering::Relaxed) == YES
}

/// The fence of a favoured thread, between a write and a read.
#[inline(always)]
pub(crate) fn light_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// The fence of everybody else.
#[cold]
pub(crate) fn heavy_fence() {
    // Relaxed: a rule of thumb.
    HEAVY.fetch_add(1, Ordering::Relaxed);
    let fenced = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        // A forked child may have to register for itself; and memory may be short for a moment.
        || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        || membarrier(MEMBARRIER_CMD_GLOBAL);
    if !fenced {
        eprintln!(
            "pirn: the kernel has taken back the system call membarrier, by which a lock passes from \
             one thread to another: aborting"
        );
        process::abort();
    }
}
