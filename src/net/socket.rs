//! What sockets have in common beyond what [descriptors](crate::io::descriptor) have.

use std::fmt::{self, Write};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use super::addr;
pub(super) use crate::io::descriptor::Descriptor as Socket;
use crate::io::descriptor::attempt;
use crate::sched::clock::Instant;
use crate::sched::source::{self, Wish};
use crate::task::Context;

impl Socket {
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

    /// Ends all waits, here and in the kernel, and has further calls fail.
    pub(super) fn close(&self) {
        self.source.close();
        // Whoever waits in the kernel is woken, and the other side learns of it. It fails for what is
        // not connected, but wakes as well.
        // SAFETY: takes no pointers.
        unsafe { libc::shutdown(self.fd().as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Whether something can be read or written, for a task without a stack; pending while it cannot.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>, wish: Wish) -> Poll<io::Result<()>> {
        self.poll(cx, wish, false, || match source::is_ready(self.source.fd(), wish) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        })
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

            #[doc(hidden)]
            pub fn __readable_arm(
                &self,
            ) -> $crate::sync::select::__private::SourceArm<
                (),
                impl Fn() -> Option<std::io::Result<()>> + use<>,
            > {
                self.socket.arm($crate::sched::source::Wish::Read)
            }

            #[doc(hidden)]
            pub fn __writable_arm(
                &self,
            ) -> $crate::sync::select::__private::SourceArm<
                (),
                impl Fn() -> Option<std::io::Result<()>> + use<>,
            > {
                self.socket.arm($crate::sched::source::Wish::Write)
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

            /// Whether something can be read or written, for a task without a stack.
            #[allow(dead_code, reason = "for those that scripts have")]
            pub(crate) fn poll_ready(
                &self,
                cx: &mut Context<'_>,
                wish: Wish,
            ) -> Poll<io::Result<()>> {
                self.socket.poll_ready(cx, wish)
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
