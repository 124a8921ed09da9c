//! OS threads that are not the runtime's, as far as the deadlock detector must know of them.
//!
//! What they hold cannot be known: any of them may unpark a fiber, send into a channel or give back
//! a lock some day. Unless it sleeps for good: in a futex without a timeout, which only another
//! thread of the process can end. If all of them sleep like that while the carrier has nothing to do,
//! nobody is left to wake anybody.

use std::fs;

/// Whether every thread of the process, besides the calling one and the runtime's `own`, sleeps
/// until another one wakes it.
///
/// When the kernel cannot be asked the answer is no: no false alarm.
pub(crate) fn all_sleep_for_good(own: &[u64]) -> bool {
    // Twice: one may have gone to sleep after it woke another that had been looked at already. Who
    // has not been on a processor in between has slept all the while.
    sleepers(own).is_some_and(|first| sleepers(own).is_some_and(|second| first == second))
}

/// The threads, each with the number of times that it has been taken off a processor; `None` if one
/// of them does not sleep for good.
fn sleepers(own: &[u64]) -> Option<Vec<(u64, u64)>> {
    let this = own_number();
    let futex = futex_number(this)?;
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let mut sleepers = Vec::new();
    for thread in threads {
        let number: u64 = thread.ok()?.file_name().to_str()?.parse().ok()?;
        if number == this || own.contains(&number) {
            continue;
        }
        // A thread that ends meanwhile makes the answer `None`.
        let call = fs::read_to_string(format!("/proc/self/task/{number}/syscall")).ok()?;
        if !waits_for_good(&call, futex) {
            return None;
        }
        // One that has been woken, but has yet to get to a processor, is in that call still.
        let status = fs::read_to_string(format!("/proc/self/task/{number}/status")).ok()?;
        sleepers.push((number, switches_of_sleeper(&status)?));
    }
    sleepers.sort_unstable();
    Some(sleepers)
}

/// Whether a line of `/proc/…/syscall` shows a wait in a futex without a timeout.
fn waits_for_good(call: &str, futex: u64) -> bool {
    let mut fields = call.split_whitespace();
    let is_futex = fields.next().and_then(|field| field.parse().ok()) == Some(futex);
    let mut arguments = fields.map(|field| u64::from_str_radix(field.trim_start_matches("0x"), 16));
    // The address, the operation, the value, the timeout.
    let operation = arguments.nth(1).and_then(Result::ok);
    let timeout = arguments.nth(1).and_then(Result::ok);
    let flags = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64;
    let waits = [libc::FUTEX_WAIT as u64, libc::FUTEX_WAIT_BITSET as u64];
    is_futex && timeout == Some(0) && operation.is_some_and(|op| waits.contains(&(op & !flags)))
}

/// How often a thread has been taken off a processor, from its `/proc/…/status`; `None` if it does
/// not sleep.
fn switches_of_sleeper(status: &str) -> Option<u64> {
    let mut sleeps = false;
    let mut switches = 0;
    for line in status.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        if key == "State" {
            sleeps = value.trim_start().starts_with('S');
        } else if key.ends_with("ctxt_switches") {
            switches += value.trim().parse::<u64>().ok()?;
        }
    }
    sleeps.then_some(switches)
}

/// The kernel's number of the calling thread.
pub(crate) fn own_number() -> u64 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

/// The number of the futex call in `/proc/…/syscall`: the machine's, which under an emulator is not
/// the program's. It is told by the call that this thread makes while it looks.
fn futex_number(this: u64) -> Option<u64> {
    let own = fs::read_to_string(format!("/proc/self/task/{this}/syscall")).ok()?;
    match own.split_whitespace().next()? {
        "0" => Some(202), // read on x86-64
        "63" => Some(98), // read on AArch64
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_a_timeout_is_told_from_all_others() {
        let good = "202 0x7f01 0x80 0x2 0x0 0x0 0xffffffff 0x7ffe 0x7f02";
        assert!(waits_for_good(good, 202));
        assert!(waits_for_good(&good.replace("0x80", "0x189"), 202), "a wait with a bit set");
        assert!(!waits_for_good(&good.replace("0x2 0x0", "0x2 0x7ffd"), 202), "with a timeout");
        assert!(!waits_for_good(&good.replace("0x80", "0x81"), 202), "a wake");
        assert!(!waits_for_good(good, 98), "another call");
        assert!(!waits_for_good("running", 202));
    }

    #[test]
    fn a_thread_that_was_woken_but_has_not_run_yet_does_not_sleep() {
        let sleeps = "Name:\tmain\nState:\tS (sleeping)\nTgid:\t7\n\
                      voluntary_ctxt_switches:\t20\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(switches_of_sleeper(sleeps), Some(23));
        assert_eq!(switches_of_sleeper(&sleeps.replace("S (sleeping)", "R (running)")), None);
        assert_eq!(switches_of_sleeper(""), None);
    }
}
