//! What all sockets have in common: calls that are tried first and wait only when they would block.
//!
//! The descriptor never blocks in the kernel. A call on it is a call of std's type for the same
//! descriptor; what comes back as "would block" is waited for in the [`Source`].

use std::fmt::{self, Write};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use super::addr;
use crate::sched::clock::Instant;
use crate::sched::source::{self, Source, SourceKind, Wish};
use crate::task::Context;

/// A socket of whatever type.
pub(super) struct Socket {
    pub(super) source: Arc<Source>,
    /// Shared by clones, as the kernel does with those of a blocking socket.
    options: Arc<Options>,
}

#[derive(Default)]
struct Options {
    read_timeout: Limit,
    write_timeout: Limit,
    /// Calls that would wait fail instead.
    nonblocking: AtomicBool,
    /// No datagrams are received any more: there is an end behind the last one.
    read_shut: AtomicBool,
}

/// A time limit in nanoseconds; 0: none.
#[derive(Default)]
struct Limit(AtomicU64);

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
    fn deadline(&self) -> Instant {
        self.get().map_or(Instant::FAR_FUTURE, |limit| Instant::now() + limit)
    }
}

impl Socket {
    /// Takes over a descriptor that does not block.
    pub(super) fn new(fd: OwnedFd, kind: &'static SourceKind) -> Socket {
        Socket { source: Source::new(fd, kind), options: Arc::default() }
    }

    /// Takes over a descriptor that may block, and makes it not do so.
    pub(super) fn adopt(fd: OwnedFd, kind: &'static SourceKind) -> Socket {
        set_blocking(&fd, false);
        Socket::new(fd, kind)
    }

    /// A further descriptor for the same socket.
    pub(super) fn try_clone(&self, kind: &'static SourceKind) -> io::Result<Socket> {
        let fd = self.source.fd().try_clone_to_owned()?;
        Ok(Socket { source: Source::new(fd, kind), options: self.options.clone() })
    }

    /// The descriptor, in the mode that std expects.
    pub(super) fn into_fd(self) -> OwnedFd {
        let fd = self.source.into_fd();
        if !self.options.nonblocking.load(Ordering::Relaxed) {
            set_blocking(&fd, true);
        }
        fd
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.source.fd()
    }

    /// The socket as std knows it: for one call.
    #[inline]
    pub(super) fn view<S: FromRawFd>(&self) -> ManuallyDrop<S> {
        // SAFETY: the descriptor is open for as long as we are borrowed, and is not closed by what
        // is never dropped. std's types accept any descriptor; a wrong one makes calls fail.
        ManuallyDrop::new(unsafe { S::from_raw_fd(self.source.fd().as_raw_fd()) })
    }

    pub(super) fn read_timeout(&self) -> Option<Duration> {
        self.options.read_timeout.get()
    }

    pub(super) fn write_timeout(&self) -> Option<Duration> {
        self.options.write_timeout.get()
    }

    pub(super) fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.options.read_timeout.set(limit)
    }

    pub(super) fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.options.write_timeout.set(limit)
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.options.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Has [`read_datagram`](Self::read_datagram) find an end.
    pub(super) fn note_read_shut(&self) {
        // Relaxed: whoever waits is woken by the shutdown that comes next.
        self.options.read_shut.store(true, Ordering::Relaxed);
    }

    /// A call that reads a datagram, which the kernel has find an end only where it may block.
    pub(super) fn read_datagram<T>(
        &self,
        end: impl Fn() -> io::Result<T>,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        match call() {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && self.options.read_shut.load(Ordering::Relaxed) =>
            {
                end()
            }
            result => result,
        }
    }

    fn is_nonblocking(&self) -> bool {
        self.options.nonblocking.load(Ordering::Relaxed)
    }

    /// Ends all waits, here and in the kernel, and has further calls fail.
    pub(super) fn close(&self) {
        self.source.close();
        // Whoever waits in the kernel is woken, and the other side learns of it. It fails for what is
        // not connected, but wakes as well.
        // SAFETY: takes no pointers.
        unsafe { libc::shutdown(self.fd().as_raw_fd(), libc::SHUT_RDWR) };
    }

    // Calls that wait.

    /// Calls what reads from a stream, into a buffer of this length.
    #[inline]
    pub(super) fn read_stream(
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
    pub(super) fn read<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.source.begin_call()?;
        self.repeat(Wish::Read, &self.options.read_timeout, false, call)
    }

    /// Calls what writes.
    #[inline]
    pub(super) fn write<T>(&self, call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.source.begin_call()?;
        self.repeat(Wish::Write, &self.options.write_timeout, false, call)
    }

    /// Calls what writes, again and again while it would block: for what the kernel does not announce.
    pub(super) fn write_after_pauses<T>(
        &self,
        mut call: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut pauses = Pauses::until(self.options.write_timeout.deadline());
        loop {
            self.source.begin_call()?;
            if let Some(result) = attempt(&mut call) {
                return result;
            }
            if self.is_nonblocking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            pauses.make()?;
        }
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

    /// [`read_stream`](Self::read_stream) for a task without a stack.
    pub(super) fn poll_read_stream(
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
    pub(super) fn poll<T>(
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

/// Pauses between attempts, each twice as long as the one before, from 100 µs up to 20 ms.
pub(super) struct Pauses {
    next: Duration,
    deadline: Instant,
}

impl Pauses {
    const FIRST: Duration = Duration::from_micros(100);
    const LAST: Duration = Duration::from_millis(20);

    pub(super) fn until(deadline: Instant) -> Pauses {
        Pauses { next: Self::FIRST, deadline }
    }

    pub(super) fn make(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if now >= self.deadline {
            return Err(source::time_limit());
        }
        source::pause_until((now + self.next).min(self.deadline))?;
        self.next = (2 * self.next).min(Self::LAST);
        Ok(())
    }
}

/// The result of a call; `None`: it would block.
#[inline]
fn attempt<T>(call: &mut impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
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

/// How a type's sockets are named in reports.
pub(super) fn describe(
    name: &str,
    fd: BorrowedFd<'_>,
    wish: Wish,
    to: &mut dyn Write,
) -> fmt::Result {
    write!(to, "{name} fd {}", fd.as_raw_fd())?;
    match wish {
        Wish::Connect => match addr::wanted_peer(fd) {
            Some(address) => write!(to, " to {address}"),
            None => Ok(()),
        },
        Wish::Read | Wish::Write => match addr::peer(fd).or_else(|| addr::own(fd)) {
            Some(address) => write!(to, " ({address})"),
            None => Ok(()),
        },
    }
}

/// A static `KIND` for reports on the sockets of a type.
macro_rules! kind {
    ($name:literal, $reading:literal) => {
        static KIND: $crate::sched::source::SourceKind =
            $crate::sched::source::SourceKind::new($reading, |fd, wish, to| {
                $crate::net::socket::describe($name, fd, wish, to)
            });
    };
}
pub(super) use kind;

/// What std's type of the same name has as well, and every type alike.
macro_rules! common {
    ($name:ident, $std:ty) => {
        impl $name {
            /// A further handle to the same socket, with a descriptor of its own. Time limits and
            /// [`set_nonblocking`](Self::set_nonblocking) hold for both.
            ///
            /// # Errors
            ///
            /// When the process has no descriptor left.
            pub fn try_clone(&self) -> io::Result<$name> {
                Ok($name { socket: self.socket.try_clone(&KIND)? })
            }

            /// The error that is pending on the socket, which is consumed.
            ///
            /// # Errors
            ///
            /// When the kernel refuses to say.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.socket.view::<$std>().take_error()
            }

            /// With true, calls that would wait fail with
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) instead.
            ///
            /// # Errors
            ///
            /// Never; the signature is that of std.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.socket.set_nonblocking(nonblocking);
                Ok(())
            }

            /// Ends the use of the socket, for all who share this handle: whoever waits for it is
            /// woken, and his call fails with [`NotConnected`](io::ErrorKind::NotConnected), as do all
            /// further ones. The other side sees the end; the address of a listener is free again. The
            /// descriptor itself goes with the handle.
            pub fn close(&self) {
                self.socket.close();
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.socket.view::<$std>(), f)
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.socket.fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.socket.fd().as_raw_fd()
            }
        }

        /// The socket no longer blocks in the kernel; nor do duplicates of the descriptor, which
        /// share that.
        impl From<OwnedFd> for $name {
            fn from(fd: OwnedFd) -> Self {
                $name { socket: Socket::adopt(fd, &KIND) }
            }
        }

        /// The socket blocks in the kernel again, unless `set_nonblocking` has set it not to. Time
        /// limits are not taken along.
        impl From<$name> for OwnedFd {
            fn from(socket: $name) -> Self {
                socket.socket.into_fd()
            }
        }

        /// As from an [`OwnedFd`].
        impl From<$std> for $name {
            fn from(socket: $std) -> Self {
                OwnedFd::from(socket).into()
            }
        }

        /// As into an [`OwnedFd`].
        impl From<$name> for $std {
            fn from(socket: $name) -> Self {
                OwnedFd::from(socket).into()
            }
        }

        impl FromRawFd for $name {
            unsafe fn from_raw_fd(fd: RawFd) -> Self {
                // SAFETY: the contract is passed on.
                unsafe { OwnedFd::from_raw_fd(fd) }.into()
            }
        }

        impl IntoRawFd for $name {
            fn into_raw_fd(self) -> RawFd {
                OwnedFd::from(self).into_raw_fd()
            }
        }
    };
}
pub(super) use common;

/// Time limits, for types that have them.
macro_rules! timeouts {
    ($name:ident) => {
        impl $name {
            /// Limits the time that each call which reads may wait; `None` takes the limit off.
            ///
            /// A call that runs out of time fails with [`WouldBlock`](io::ErrorKind::WouldBlock), as
            /// std's does on Unix. The limit holds for [clones](Self::try_clone) as well. For one on a
            /// whole piece of work see [`time::timeout`](crate::time::timeout).
            ///
            /// # Errors
            ///
            /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a limit of zero.
            pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.socket.set_read_timeout(limit)
            }

            /// Limits the time that each call which writes may wait, as
            /// [`set_read_timeout`](Self::set_read_timeout) does.
            ///
            /// # Errors
            ///
            /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a limit of zero.
            pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.socket.set_write_timeout(limit)
            }

            /// The limit of calls that read.
            ///
            /// # Errors
            ///
            /// Never; the signature is that of std.
            pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.read_timeout())
            }

            /// The limit of calls that write.
            ///
            /// # Errors
            ///
            /// Never; the signature is that of std.
            pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
                Ok(self.socket.write_timeout())
            }
        }
    };
}
pub(super) use timeouts;
