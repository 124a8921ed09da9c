//! What the ends of pipes have in common, whoever made the pipe: macros for types with a field
//! `descriptor`.
//!
//! A short read says nothing of what is left: the kernel stops at the borders of packets if the other
//! side has asked for that. Hence no `read_stream`.
//!
//! # SIGPIPE
//!
//! A write to a pipe that nobody reads fails with an error, and raises a signal, which ends the process
//! unless that ignores it. A program with a `main` in Rust does; a host of another language may not, and
//! a program may have changed its mind. So a write here never raises it: by a flag of the call where
//! the kernel has that (Linux 6.18). Elsewhere each write first looks what the signal would do, and if
//! it would end the process, keeps it off the thread and takes it back.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most pieces that a vectored call takes.
const MOST: usize = 1024;

/// Writes to a pipe without a SIGPIPE.
pub(crate) fn write(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    static MISSING: AtomicBool = AtomicBool::new(false);
    // Relaxed: the answer is all there is.
    if !MISSING.load(Ordering::Relaxed) {
        match write_without_signal(fd, bufs) {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::EPERM)
                ) =>
            {
                MISSING.store(true, Ordering::Relaxed);
            }
            result => return result,
        }
    }
    if would_kill()? { write_masked(fd, bufs) } else { write_plainly(fd, bufs) }
}

/// The arguments of a vectored call.
fn pieces(bufs: &[IoSlice<'_>]) -> (*const libc::iovec, libc::c_int) {
    // Guaranteed by std: the same in memory.
    (bufs.as_ptr().cast(), bufs.len().min(MOST) as libc::c_int)
}

fn write_without_signal(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    const RWF_NOSIGNAL: libc::c_int = 0x100;
    let (pieces, count) = pieces(bufs);
    // SAFETY: the pieces are valid; -1 stands for where the file is, and a pipe is nowhere. (The C
    // library would put another call in the place of one that is missing, hence not by it.)
    let written = unsafe {
        libc::syscall(
            libc::SYS_pwritev2,
            fd.as_raw_fd(),
            pieces,
            libc::c_long::from(count),
            -1_i64,
            -1_i64,
            RWF_NOSIGNAL,
        )
    };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

fn write_plainly(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let (pieces, count) = pieces(bufs);
    // SAFETY: the pieces are valid.
    let written = unsafe { libc::writev(fd.as_raw_fd(), pieces, count) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Whether a SIGPIPE would end the process.
fn would_kill() -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: there is room for what it tells, and nothing is changed.
    if unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was told.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_DFL)
}

/// Writes while the calling thread does not take the signal, and takes it back if it came.
fn write_masked(fd: BorrowedFd<'_>, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: sets of signals may be zero before they are made empty, and are valid throughout.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let (mut before, mut pending) = (pipe, pipe);
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        libc::sigpending(&raw mut pending);
        let result = write_plainly(fd, bufs);
        let came = result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPIPE));
        // One that was there before is somebody else's.
        if came && libc::sigismember(&raw const pending, libc::SIGPIPE) == 0 {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while libc::sigtimedwait(&raw const pipe, ptr::null_mut(), &raw const now) < 0
                && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
            {}
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        result
    }
}

/// What both ends have.
macro_rules! common {
    ($name:ident, $std:ty, $says:literal, $wish:literal) => {
        static KIND: $crate::sched::source::SourceKind =
            $crate::sched::source::SourceKind::new($wish, |fd, _, to| {
                write!(to, concat!($says, " fd {}"), std::os::fd::AsRawFd::as_raw_fd(&fd))
            })
            .without_shutdown();

        impl $name {
            /// With true, calls that would wait fail with
            /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) instead.
            pub fn set_nonblocking(&self, nonblocking: bool) {
                self.descriptor.set_nonblocking(nonblocking);
            }

            /// Ends the use of this end, for all who share this handle: whoever waits for it is woken,
            /// and his call fails with [`NotConnected`](std::io::ErrorKind::NotConnected), as do all
            /// further ones. The descriptor goes with the handle, and then the other side sees the end.
            pub fn close(&self) {
                self.descriptor.source.close();
            }

            /// A further handle to the same end, with a descriptor of its own. The time limit and
            /// [`set_nonblocking`](Self::set_nonblocking) hold for both.
            ///
            /// # Errors
            ///
            /// When the process has no descriptor left.
            pub fn try_clone(&self) -> std::io::Result<$name> {
                Ok($name { descriptor: self.descriptor.try_clone(&KIND)? })
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let fd = std::os::fd::AsRawFd::as_raw_fd(self);
                f.debug_struct(stringify!($name)).field("fd", &fd).finish()
            }
        }

        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.descriptor.fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&self.descriptor.fd())
            }
        }

        /// The end no longer blocks in the kernel; nor do duplicates of the descriptor, which share
        /// that. It must be that of a pipe, a FIFO or a terminal.
        impl From<std::os::fd::OwnedFd> for $name {
            fn from(fd: std::os::fd::OwnedFd) -> Self {
                $name { descriptor: $crate::io::descriptor::Descriptor::adopt(fd, &KIND) }
            }
        }

        /// The end blocks in the kernel again, unless `set_nonblocking` has set it not to. The time
        /// limit is not taken along.
        impl From<$name> for std::os::fd::OwnedFd {
            fn from(end: $name) -> Self {
                end.descriptor.into_fd()
            }
        }

        /// As from an [`OwnedFd`](std::os::fd::OwnedFd).
        impl From<$std> for $name {
            fn from(end: $std) -> Self {
                std::os::fd::OwnedFd::from(end).into()
            }
        }

        /// As into an [`OwnedFd`](std::os::fd::OwnedFd).
        impl From<$name> for $std {
            fn from(end: $name) -> Self {
                std::os::fd::OwnedFd::from(end).into()
            }
        }

        /// As into an [`OwnedFd`](std::os::fd::OwnedFd): for a child.
        impl From<$name> for std::process::Stdio {
            fn from(end: $name) -> Self {
                std::os::fd::OwnedFd::from(end).into()
            }
        }

        impl std::os::fd::FromRawFd for $name {
            unsafe fn from_raw_fd(fd: std::os::fd::RawFd) -> Self {
                // SAFETY: the contract is passed on.
                unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) }.into()
            }
        }

        impl std::os::fd::IntoRawFd for $name {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::IntoRawFd::into_raw_fd(std::os::fd::OwnedFd::from(self))
            }
        }
    };
}
pub(crate) use common;

/// A reading end.
macro_rules! reading {
    ($name:ident, $std:ty, $says:literal) => {
        $crate::io::end::common!($name, $std, $says, "to read from");

        impl $name {
            /// Limits the time that each read may wait; `None` takes the limit off.
            ///
            /// A read that runs out of time fails with
            /// [`WouldBlock`](std::io::ErrorKind::WouldBlock), as those of sockets do.
            ///
            /// # Errors
            ///
            /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) for a limit of zero.
            pub fn set_read_timeout(
                &self,
                limit: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.descriptor.set_read_timeout(limit)
            }

            /// The limit of a read.
            pub fn read_timeout(&self) -> Option<std::time::Duration> {
                self.descriptor.read_timeout()
            }

            #[doc(hidden)]
            pub fn __readable_arm(
                &self,
            ) -> $crate::sync::select::__private::SourceArm<
                (),
                impl Fn() -> Option<std::io::Result<()>> + use<>,
            > {
                self.descriptor.arm($crate::sched::source::Wish::Read)
            }

            /// [`read`](std::io::Read::read) for a [`Resumable`](crate::task::Resumable): pending
            /// until there is something, which resumes the task.
            ///
            /// # Errors
            ///
            /// As for reading.
            pub fn poll_read(
                &self,
                cx: &mut $crate::task::Context<'_>,
                buf: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let wish = $crate::sched::source::Wish::Read;
                self.descriptor.poll(cx, wish, false, || (&*self.view()).read(buf))
            }

            fn view(&self) -> std::mem::ManuallyDrop<std::fs::File> {
                self.descriptor.view()
            }
        }

        impl std::io::Read for &$name {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.descriptor.read(|| (&*self.view()).read(buf))
            }

            fn read_vectored(
                &mut self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                self.descriptor.read(|| (&*self.view()).read_vectored(bufs))
            }
        }

        impl std::io::Read for $name {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                (&*self).read(buf)
            }

            fn read_vectored(
                &mut self,
                bufs: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                (&*self).read_vectored(bufs)
            }
        }
    };
}
pub(crate) use reading;

/// A writing end.
macro_rules! writing {
    ($name:ident, $std:ty, $says:literal) => {
        $crate::io::end::common!($name, $std, $says, "to read from");

        impl $name {
            /// Limits the time that each write may wait; `None` takes the limit off.
            ///
            /// A write that runs out of time fails with
            /// [`WouldBlock`](std::io::ErrorKind::WouldBlock), as those of sockets do.
            ///
            /// # Errors
            ///
            /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) for a limit of zero.
            pub fn set_write_timeout(
                &self,
                limit: Option<std::time::Duration>,
            ) -> std::io::Result<()> {
                self.descriptor.set_write_timeout(limit)
            }

            /// The limit of a write.
            pub fn write_timeout(&self) -> Option<std::time::Duration> {
                self.descriptor.write_timeout()
            }

            #[doc(hidden)]
            pub fn __writable_arm(
                &self,
            ) -> $crate::sync::select::__private::SourceArm<
                (),
                impl Fn() -> Option<std::io::Result<()>> + use<>,
            > {
                self.descriptor.arm($crate::sched::source::Wish::Write)
            }

            /// [`write`](std::io::Write::write) for a [`Resumable`](crate::task::Resumable): pending
            /// until there is room, which resumes the task.
            ///
            /// # Errors
            ///
            /// As for writing.
            pub fn poll_write(
                &self,
                cx: &mut $crate::task::Context<'_>,
                buf: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                let wish = $crate::sched::source::Wish::Write;
                self.descriptor.poll(cx, wish, false, || {
                    $crate::io::end::write(self.descriptor.fd(), &[std::io::IoSlice::new(buf)])
                })
            }
        }

        impl std::io::Write for &$name {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.write_vectored(&[std::io::IoSlice::new(buf)])
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.descriptor.write(|| $crate::io::end::write(self.descriptor.fd(), bufs))
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl std::io::Write for $name {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                (&*self).write(buf)
            }

            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                (&*self).write_vectored(bufs)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}
pub(crate) use writing;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Whether a SIGPIPE waits for the calling thread, which does not take it.
    fn is_pending() -> bool {
        // SAFETY: the set is valid.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
        }
    }

    #[test]
    fn a_write_that_keeps_the_signal_off_takes_it_back() {
        let (reader, writer) = io::pipe().unwrap();
        let slices = [IoSlice::new(b"over "), IoSlice::new(b"and out")];
        assert_eq!(write_masked(writer.as_fd(), &slices).unwrap(), 12);
        drop(reader);
        // A signal that is blocked is kept even if it is ignored.
        // SAFETY: the set is valid; this concerns the thread of this test.
        unsafe {
            let mut pipe: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, ptr::null_mut());
        }
        let error = write_masked(writer.as_fd(), &slices).unwrap_err();
        assert_eq!((error.kind(), is_pending()), (io::ErrorKind::BrokenPipe, false));
        write_plainly(writer.as_fd(), &slices).unwrap_err();
        assert!(is_pending(), "the signal does come where nothing is done about it");
        // And that one is not ours to take.
        write_masked(writer.as_fd(), &slices).unwrap_err();
        assert!(is_pending());
    }
}
