//! Guards: what makes the low end of a slot inaccessible, and which of two ways this machine has.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, Ordering};

use super::{annotate, kernel};

/// How the guards below stacks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardKind {
    /// By `MADV_GUARD_INSTALL` (Linux 6.13 and later): a mark in the page tables. The mapping stays
    /// whole, so any number of stacks fits below `vm.max_map_count`.
    Light,
    /// By `mprotect`: two mappings for each stack, so about 32,700 stacks fit below the default
    /// `vm.max_map_count` of 65,530.
    Protected,
}

/// The process-wide choice: 0 before it is made, then one more than the kind.
static KIND: AtomicU8 = AtomicU8::new(0);

/// Which way new regions of stacks are guarded in this process.
///
/// It is found out by trying, at first use. The environment variable `PIRN_GUARD=mprotect` forces
/// [`GuardKind::Protected`]. Memory locked with `mlockall` cannot have light guards, nor can a
/// process under valgrind: [`GuardKind::Protected`] is used there too (for locked memory slot by
/// slot, if it is locked later on).
///
/// ```
/// println!("stacks are guarded by {:?}", pirn::stack::guard_kind());
/// ```
pub fn guard_kind() -> GuardKind {
    // Relaxed: the value is all there is; choosing twice gives the same.
    match KIND.load(Ordering::Relaxed) {
        1 => GuardKind::Light,
        2 => GuardKind::Protected,
        _ => {
            let kind = choose();
            set_guard_kind_for_test(kind);
            kind
        }
    }
}

/// Forces the way in which regions made from now on are guarded.
pub(crate) fn set_guard_kind_for_test(kind: GuardKind) {
    KIND.store(kind as u8 + 1, Ordering::Relaxed);
}

fn choose() -> GuardKind {
    let forced = std::env::var_os("PIRN_GUARD").is_some_and(|value| value == "mprotect");
    // Valgrind itself reads what its client passes to system calls, and dies of light guards.
    if !forced && !annotate::on_valgrind() && light_guards_work() {
        GuardKind::Light
    } else {
        GuardKind::Protected
    }
}

/// Tries a light guard on a page of its own.
///
/// That the call succeeds is not enough: emulators take unknown advice for a hint and answer
/// "done". So the guard is touched, by a system call that answers `EFAULT` instead of raising a
/// signal: "block the signals in the set at this address". If the page can be read after all, it is
/// zero, and that blocks none.
fn light_guards_work() -> bool {
    let page = kernel::page_size();
    let Ok(probe) = kernel::reserve(page) else {
        return false;
    };
    // SAFETY: the page was just reserved and holds nothing.
    let installed = unsafe { libc::madvise(probe.cast(), page, kernel::MADV_GUARD_INSTALL) } == 0;
    let works = installed && {
        // SAFETY: the kernel reads eight bytes from the probe page, or fails to.
        let result = unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, probe, 0usize, 8usize)
        };
        result == -1 && kernel::errno() == libc::EFAULT
    };
    // SAFETY: nobody else knows the page.
    unsafe { kernel::unreserve(probe, page) };
    works
}

/// The most guards that are installed by one call.
pub(super) const BATCH: usize = 64;

/// Installs the guards of `count` slots (at most [`BATCH`]) from `first` on, `stride` bytes apart.
///
/// Falls back from light guards to protected ones, and remembers that in `kind`, where the kernel
/// refuses them for this memory. Returns how many slots are guarded now; `Err(errno)` if not even
/// one.
///
/// # Safety
///
/// The guards lie in a reservation, in slots that nobody uses.
pub(super) unsafe fn install(
    kind: &mut GuardKind,
    first: *mut u8,
    stride: usize,
    guard: usize,
    count: usize,
) -> Result<usize, c_int> {
    let count = count.min(BATCH);
    let mut done = 0;
    let mut error = 0;
    if *kind == GuardKind::Light {
        let mut ranges = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: guard }; BATCH];
        for (index, range) in ranges[..count].iter_mut().enumerate() {
            range.iov_base = first.wrapping_add(index * stride).cast();
        }
        // SAFETY: the caller's contract.
        (done, error) = unsafe { kernel::advise(&ranges[..count], kernel::MADV_GUARD_INSTALL) };
        if error == libc::EINVAL {
            *kind = GuardKind::Protected;
        }
    }
    if *kind == GuardKind::Protected {
        while done < count {
            // SAFETY: the caller's contract.
            match unsafe { kernel::protect(first.wrapping_add(done * stride), guard) } {
                Ok(()) => done += 1,
                Err(errno) => {
                    error = errno;
                    break;
                }
            }
        }
    }
    if done > 0 { Ok(done) } else { Err(error) }
}
