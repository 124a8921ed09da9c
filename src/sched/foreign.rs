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
