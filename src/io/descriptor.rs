//! What sockets and pipes have in common: calls that are tried first and wait only when they would block.
//!
//! The descriptor never blocks in the kernel. A call on it is a call of std's type for the same
//! descriptor; what comes back as "would block" is waited for in the [`Source`].

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::sched::clock::Instant;
use crate::sched::source::{self, Source, SourceKind, Wish};
use crate::sync::select::SourceArm;
use crate::task::Context;

/// See the [module documentation](self).
pub(crate) struct Descriptor {
    pub(crate) source: Arc<Source>,
    /// Shared by clones, as the kernel does with those of a blocking socket.
    pub(crate) options: Arc<Options>,
}

/// What holds for all clones.
#[derive(Default)]
pub(crate) struct Options {
    read_timeout: Limit,
    pub(crate) write_timeout: Limit,
    /// Calls that would wait fail instead.
    nonblocking: AtomicBool,
    /// No datagrams are received any more: there is an end behind the last one.
    pub(crate) read_shut: AtomicBool,
}

/// A time limit in nanoseconds; 0: none.
#[derive(Default)]
pub(crate) struct Limit(AtomicU64);

impl Limit {
    fn get(&self) -> Option<Duration> {
        // Relaxed: nothing depends on when another thread's change is seen.
        Some(self.0.load(Ordering::Relaxed)).filter(|&nanos| nanos > 0).map(Duration::from_nanos)
    }

    fn set(&self, limit: Option<Duration>) -> io::Result<()> {
        let nanos = match limit.map(|limit| limit.as_nanos()) {
            None => 0,
            Some(0) => {
                let text = "a time limit of zero: use `set_nonblocking`, or `None` for no limit";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            Some(nanos) => u64::try_from(nanos).unwrap_or(u64::MAX),
        };
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }

    /// When a call that begins now runs out of time.
    pub(crate) fn deadline(&self) -> Instant {
        self.get().map_or(Instant::FAR_FUTURE, |limit| Instant::now() + limit)
    }
}

impl Descriptor {
    /// Takes over a descriptor that does not block.
    pub(crate) fn new(fd: OwnedFd, kind: &'static SourceKind) -> Descriptor {
        Descriptor { source: Source::new(fd, kind), options: Arc::default() }
    }

    /// Takes over a descriptor that may block, and makes it not do so.
    pub(crate) fn adopt(fd: OwnedFd, kind: &'static SourceKind) -> Descriptor {
        set_blocking(&fd, false);
        Descriptor::new(fd, kind)
    }

    /// A further one for the same description.
    pub(crate) fn try_clone(&self, kind: &'static SourceKind) -> io::Result<Descriptor> {
        let fd = self.source.fd().try_clone_to_owned()?;
        Ok(Descriptor { source: Source::new(fd, kind), options: self.options.clone() })
    }

    /// The descriptor, in the mode that std expects.
    pub(crate) fn into_fd(self) -> OwnedFd {
        let fd = self.source.into_fd();
        if !self.options.nonblocking.load(Ordering::Relaxed) {
            set_blocking(&fd, true);
        }
        fd
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.source.fd()
    }

    /// What std knows it as: for one call.
    #[inline]
    pub(crate) fn view<S: FromRawFd>(&self) -> ManuallyDrop<S> {
        // SAFETY: the descriptor is open for as long as we are borrowed, and is not closed by what
        // is never dropped. std's types accept any descriptor; a wrong one makes calls fail.
        ManuallyDrop::new(unsafe { S::from_raw_fd(self.source.fd().as_raw_fd()) })
    }

    pub(crate) fn read_timeout(&self) -> Option<Duration> {
        self.options.read_timeout.get()
    }

    pub(crate) fn write_timeout(&self) -> Option<Duration> {
        self.options.write_timeout.get()
    }

    pub(crate) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.options.read_timeout.set(limit)
    }

    pub(crate) fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.options.write_timeout.set(limit)
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.options.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.options.nonblocking.load(Ordering::Relaxed)
    }

    // Calls that wait.

    /// Calls what reads from a stream, into a buffer of this length.
    #[inline]
    pub(crate) fn read_stream(
        &self,
        length: usize,
        call: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.source.begin_call()?;
        let is_dry = !self.is_nonblocking() && self.source.is_dry();
        let read = self.repeat(Wish::Read, &self.options.read_timeout, is_dry, call)?;
        if 0 < read && read < length {
            self.source.note_short_read();
        }
        Ok(read)
    }

    /// Calls what reads a datagram, accepts, or peeks.
    pub(crate) fn read<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.source.begin_call()?;
        self.repeat(Wish::Read, &self.options.read_timeout, false, call)
    }

    /// Calls what writes.
    #[inline]
    pub(crate) fn write<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.source.begin_call()?;
        self.repeat(Wish::Write, &self.options.write_timeout, false, call)
    }

    #[inline]
    fn repeat<T>(
        &self,
        wish: Wish,
        limit: &Limit,
        would_block: bool,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        if !would_block && let Some(result) = attempt(&mut call) {
            return result;
        }
        if self.is_nonblocking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let deadline = limit.deadline();
        loop {
            self.source.wait(wish, deadline)?;
            if let Some(result) = attempt(&mut call) {
                return result;
            }
        }
    }

    /// Completes a select when a call may go on without waiting.
    pub(crate) fn arm(
        &self,
        wish: Wish,
    ) -> SourceArm<(), impl Fn() -> Option<io::Result<()>> + use<>> {
        let source = self.source.clone();
        SourceArm::new(&self.source, wish, move || match source.is_ready(wish) {
            Ok(ready) => ready.then_some(Ok(())),
            Err(error) => Some(Err(error)),
        })
    }

    /// [`read_stream`](Self::read_stream) for a task without a stack.
    pub(crate) fn poll_read_stream(
        &self,
        cx: &mut Context<'_>,
        length: usize,
        call: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let is_dry = self.source.is_dry();
        let result = self.poll(cx, Wish::Read, is_dry, call);
        if matches!(result, Poll::Ready(Ok(read)) if 0 < read && read < length) {
            self.source.note_short_read();
        }
        result
    }

    /// Makes a call for a task without a stack; pending while it would block.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        wish: Wish,
        would_block: bool,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if self.source.is_closed() {
            self.source.settle_task(cx, wish);
            return Poll::Ready(Err(source::closed()));
        }
        if !would_block && let Some(result) = attempt(&mut call) {
            self.source.settle_task(cx, wish);
            return Poll::Ready(result);
        }
        match self.source.register_task(cx, wish) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// The result of a call; `None`: it would block.
#[inline]
pub(crate) fn attempt<T>(call: &mut impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return Some(result),
        }
    }
}

/// Sets the mode of an open descriptor, which cannot fail.
fn set_blocking(fd: &OwnedFd, blocking: bool) {
    let mut nonblocking = libc::c_int::from(!blocking);
    // SAFETY: the argument is valid.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONBIO, &raw mut nonblocking) };
    debug_assert_eq!(result, 0, "the descriptor is open");
}
