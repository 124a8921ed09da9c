//! A descriptor that tells when a child has ended.

use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use crate::sched::affinity;
use crate::sched::source::{Source, SourceKind};

static KIND: SourceKind = SourceKind::new("for a child process to end:", |fd, _, to| {
    write!(to, "its fd {}", fd.as_raw_fd())
})
.without_shutdown();

/// What can be read from once this child, which was not waited for yet, has ended.
pub(super) fn watch(pid: u32) -> io::Result<Arc<Source>> {
    let fd = match pidfd(pid) {
        Err(error) if is_missing(&error) => by_thread(pid),
        result => result,
    };
    Ok(Source::new(fd?, &KIND))
}

/// Whether the system has no such descriptors, or does not give them away.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::ENODEV))
}

fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.cast_signed(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Has a thread wait for the child, without taking its status, and tell then.
///
/// None of the pool's: that may be full, and a virtual clock waits for its jobs.
fn by_thread(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made just now.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let told = File::from(fd.try_clone()?);
    let unpinned = affinity::unpinned();
    thread::Builder::new().name("pirn-child".into()).stack_size(64 << 10).spawn(move || {
        unpinned.begin();
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        let options = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: there is room for the answer.
        while unsafe { libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), options) } != 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        // Whatever it was: whoever waits looks now. There is room for the one.
        let _ = (&told).write_all(&1_u64.to_ne_bytes());
    })?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::clock::Instant;
    use crate::sched::source::{Wish, is_time_limit};
    use std::process::{Command, Stdio};

    fn ends_with_its_input(watch: impl Fn(u32) -> io::Result<OwnedFd>) {
        crate::run(|| {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let watched = Source::new(watch(child.id()).unwrap(), &KIND);
            let early = watched.wait(Wish::Read, Instant::now()).unwrap_err();
            assert!(is_time_limit(&early), "{early}");
            drop(child.stdin.take());
            watched.wait(Wish::Read, Instant::FAR_FUTURE).unwrap();
            // Its status was left for us.
            assert!(child.try_wait().unwrap().unwrap().success());
        });
    }

    #[test]
    fn a_thread_tells_of_the_end_where_the_system_does_not() {
        ends_with_its_input(by_thread);
    }

    #[test]
    fn the_system_tells_of_the_end() {
        let own = pidfd(std::process::id());
        if own.as_ref().is_err_and(is_missing) {
            println!("SKIPPED: {}", own.unwrap_err());
            return;
        }
        ends_with_its_input(pidfd);
    }
}
