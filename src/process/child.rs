//! A child process that runs, or has.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read};
use std::panic;
use std::process::{self, ExitStatus, Output};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::pipes::{ChildStderr, ChildStdin, ChildStdout};
use super::{orphans, watch};
use crate::sched::carrier::Carrier;
use crate::sched::clock::Instant;
use crate::sched::source::{self, Source, Wish};
use crate::sync::select::SourceArm;
use crate::task::Context;
use crate::thread;

/// A child process; pirn's counterpart of [`std::process::Child`].
///
/// Dropping it neither ends the child nor waits for it. That goes on, and is waited for when it has
/// ended: see the [module](super). A fiber that is unwound while it waits drops its child like that;
/// one that must not go on without its parent is [killed](Self::kill) by a guard of the caller's.
///
/// ```
/// use pirn::process::Command;
/// use pirn::time::Duration;
///
/// # fn main() -> std::io::Result<()> {
/// pirn::run(|| {
///     let mut child = Command::new("sleep").arg("3600").spawn()?;
///     assert!(child.wait_timeout(Duration::from_millis(5))?.is_none());
///     child.kill()?;
///     assert!(!child.wait()?.success());
///     Ok(())
/// })
/// # }
/// ```
pub struct Child {
    /// What is written here the child reads, if that was [piped](process::Stdio::piped).
    pub stdin: Option<ChildStdin>,
    /// What the child writes, if that was piped.
    pub stdout: Option<ChildStdout>,
    /// What the child writes to its standard error, if that was piped.
    pub stderr: Option<ChildStderr>,
    /// There until the drop.
    child: Option<process::Child>,
    /// Made when somebody has to wait.
    watch: Option<Arc<Source>>,
}

/// Takes a child over that std has spawned.
impl From<process::Child> for Child {
    fn from(mut child: process::Child) -> Child {
        Child {
            stdin: child.stdin.take().map(ChildStdin::from),
            stdout: child.stdout.take().map(ChildStdout::from),
            stderr: child.stderr.take().map(ChildStderr::from),
            child: Some(child),
            watch: None,
        }
    }
}

impl Child {
    fn inner(&mut self) -> &mut process::Child {
        self.child.as_mut().expect("there until the drop")
    }

    /// The number of the process, which may be another one's once this was waited for.
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("there until the drop").id()
    }

    /// Ends the child by SIGKILL; nothing if it was waited for already. It is still to be waited for.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner().kill()
    }

    /// Waits until the child ends, after closing its standard input, so that it does not wait for this
    /// process. Once it has ended this returns the same each time.
    ///
    /// # Errors
    ///
    /// When somebody else has waited for the child; in a destructor whose waits are called off; when
    /// the process has no descriptor left to watch it.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.wait_until(Instant::FAR_FUTURE)
    }

    /// [`wait`](Self::wait), at most for this long. `None`: the time is up, and the child goes on.
    ///
    /// # Errors
    ///
    /// As for `wait`.
    pub fn wait_timeout(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        match self.wait_until(Instant::now() + limit) {
            Err(error) if source::is_time_limit(&error) => Ok(None),
            result => result.map(Some),
        }
    }

    fn wait_until(&mut self, deadline: Instant) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            self.watch()?.wait(Wish::Read, deadline)?;
        }
    }

    /// How the child has ended, if it has.
    ///
    /// # Errors
    ///
    /// When somebody else has waited for the child.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner().try_wait()
    }

    /// [`wait`](Self::wait) for a [`Resumable`](crate::task::Resumable): pending until the child has
    /// ended, which resumes the task. It leaves the child's standard input open.
    ///
    /// # Errors
    ///
    /// As for `wait`.
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        let ended = match self.try_wait() {
            Ok(None) => match self.watch().and_then(|watch| watch.register_task(cx, Wish::Read)) {
                Ok(()) => return Poll::Pending,
                Err(error) => Err(error),
            },
            Ok(Some(status)) => Ok(status),
            Err(error) => Err(error),
        };
        if let Some(watch) = &self.watch {
            watch.settle_task(cx, Wish::Read);
        }
        Poll::Ready(ended)
    }

    #[doc(hidden)]
    pub fn __wait_arm(
        &mut self,
    ) -> SourceArm<ExitStatus, impl Fn() -> Option<io::Result<ExitStatus>> + use<'_>> {
        let ended = self.try_wait().transpose();
        // Only one that was not waited for can be watched.
        let watch = match ended {
            Some(ended) => Err(ended),
            None => self.watch().cloned().map_err(Err),
        };
        let child = RefCell::new(self);
        let call = move || child.borrow_mut().try_wait().transpose();
        match watch {
            Ok(watch) => SourceArm::new(&watch, Wish::Read, call),
            Err(settled) => SourceArm::settled(settled, call),
        }
    }

    fn watch(&mut self) -> io::Result<&Arc<Source>> {
        if self.watch.is_none() {
            self.watch = Some(watch::watch(self.id())?);
        }
        Ok(self.watch.as_ref().expect("made if it was missing"))
    }

    /// Waits until the child ends, and collects what it writes: both at the same time, so it never
    /// waits for room in one pipe while the other one is read. Its standard input is closed first; who
    /// has something to write takes `stdin` before, and writes in another fiber.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Self::wait), and for reading.
    ///
    /// # Panics
    ///
    /// On a [task without a stack](crate::task), which must not wait.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = match (self.stdout.take(), self.stderr.take()) {
            (Some(out), Some(err)) => both(out, err)?,
            (Some(out), None) => (all(out)?, Vec::new()),
            (None, Some(err)) => (Vec::new(), all(err)?),
            (None, None) => Default::default(),
        };
        Ok(Output { status: self.wait()?, stdout, stderr })
    }
}

fn all(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).map(|_| bytes)
}

/// Reads both to their ends.
fn both(out: ChildStdout, err: ChildStderr) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (out, err) = if Carrier::current().is_some() {
        thread::scope(|scope| {
            let err = scope.spawn(|| all(&err));
            (all(&out), err.join())
        })
    } else {
        std::thread::scope(|scope| {
            let err = scope.spawn(|| all(&err));
            (all(&out), err.join())
        })
    };
    Ok((out?, err.unwrap_or_else(|payload| panic::resume_unwind(payload))?))
}

impl Drop for Child {
    fn drop(&mut self) {
        // Who knows that a child is gone keeps nothing of it; see `orphans`.
        if let Some(child) = self.child.take() {
            orphans::reap();
            orphans::adopt(child);
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id())
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}
