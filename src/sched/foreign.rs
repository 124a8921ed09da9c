//! OS threads that are not the runtime's, as far as the deadlock detector must know of them.

use std::fs;

/// Whether the process has more threads than the `own` ones of the runtime.
///
/// When the kernel cannot be asked the answer is yes: no false alarm.
pub(crate) fn threads_besides(own: usize) -> bool {
    match fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.count() > own,
        Err(_) => true,
    }
}

/// The threads that a process had at some moment: those that came later can be told from them.
#[derive(Debug)]
pub(crate) struct Elders(Vec<u64>);

impl Elders {
    /// The threads of the process now.
    pub(crate) fn now() -> Self {
        Elders(threads().unwrap_or_default())
    }

    /// How many threads there are that were not there then.
    ///
    /// When the kernel cannot be asked the answer is that there are many: no false alarm.
    pub(crate) fn younger(&self) -> usize {
        match threads() {
            Some(threads) => threads.iter().filter(|thread| !self.0.contains(thread)).count(),
            None => usize::MAX,
        }
    }
}

/// The kernel's numbers of the threads of the process.
fn threads() -> Option<Vec<u64>> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    threads.map(|thread| thread.ok()?.file_name().to_str()?.parse().ok()).collect()
}
