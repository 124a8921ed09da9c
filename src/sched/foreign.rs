//! OS threads that are not the runtime's, as far as the deadlock detector must know of them.

use std::fs;
use std::path::Path;

/// Whether the process has more threads than the `own` ones of the runtime.
///
/// When the kernel cannot be asked the answer is yes: no false alarm.
pub(crate) fn threads_besides(own: usize) -> bool {
    match fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.count() > own,
        Err(_) => true,
    }
}

/// A point in time as the kernel notes the start of threads: in ticks since it booted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is valid; the clock exists on every Linux, and so does the setting.
        let ticks = unsafe {
            libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
            libc::sysconf(libc::_SC_CLK_TCK)
        };
        let ticks = u64::try_from(ticks).unwrap_or(100);
        Moment(now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000)
    }
}

/// How many threads of the process, besides the calling one, began at that moment or later.
///
/// A tick is 10 ms: a thread that began just before counts as well. When the kernel cannot be asked
/// the answer is that there are many: no false alarm.
pub(crate) fn threads_since(Moment(moment): Moment) -> usize {
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::syscall(libc::SYS_gettid) }.to_string();
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return usize::MAX };
    let is_young = |thread: &fs::DirEntry| {
        thread.file_name() != *own && started(&thread.path()).is_none_or(|start| start >= moment)
    };
    threads.flatten().filter(is_young).count()
}

/// When a thread began, in ticks since boot.
fn started(thread: &Path) -> Option<u64> {
    let stat = fs::read_to_string(thread.join("stat")).ok()?;
    // The second field, the name, is in parentheses and may hold anything; the start is the 22nd.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}
