//! The three descriptors that a process begins with, which others have as well.
//!
//! Whether a descriptor blocks is kept with its *description*, which the shell shares, and whoever else
//! was started with the same terminal or pipe: were it switched here, their reads would begin to fail.
//! So it is never touched:
//!
//! * A pipe or a terminal is opened once more (`/proc/self/fd/0`), which makes a description of our
//!   own, in the mode that does not block, for the same pipe or terminal.
//! * A socket cannot be opened again, but has calls of its own, which are told each time not to block.
//! * Anything else, such as a file, is never waited for by the kernel's means: it is read and written
//!   by [blocking calls](mod@crate::blocking); and so is what could not be opened again.
//!
//! What it is, is looked at when a stream is first used.

use std::fs::File;
use std::io::{self, IoSlice, IsTerminal, Read};
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::descriptor::Descriptor;
use super::end;
use crate::blocking;
use crate::sched::source::SourceKind;

/// How much a blocking call reads or writes at most.
const CHUNK: usize = 64 << 10;

/// One of the three.
pub(super) struct Stream {
    number: RawFd,
    way: OnceLock<Way>,
}

/// How calls are made.
enum Way {
    /// A description of our own.
    Reopened(Descriptor),
    /// A duplicate of the descriptor of a socket.
    Socket(Descriptor),
    /// On other threads.
    Apart(Arc<Ahead>),
}

macro_rules! kind {
    ($name:ident, $says:literal) => {
        static $name: SourceKind =
            SourceKind::new("to read from", |_, _, to| to.write_str($says)).without_shutdown();
    };
}

kind!(INPUT, "standard input");
kind!(OUTPUT, "standard output");
kind!(ERROR, "standard error");

impl Stream {
    pub(super) const fn new(number: RawFd) -> Stream {
        Stream { number, way: OnceLock::new() }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'static> {
        // SAFETY: these three are open as long as the process is; std relies on that as well.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.fd().is_terminal()
    }

    fn way(&self) -> &Way {
        self.way.get_or_init(|| self.find_way().unwrap_or_else(|_| Way::Apart(Arc::default())))
    }

    fn find_way(&self) -> io::Result<Way> {
        let kind = match self.number {
            libc::STDIN_FILENO => &INPUT,
            libc::STDOUT_FILENO => &OUTPUT,
            _ => &ERROR,
        };
        let mode = status(self.fd())?.st_mode & libc::S_IFMT;
        if mode == libc::S_IFSOCK {
            return Ok(Way::Socket(Descriptor::new(self.fd().try_clone_to_owned()?, kind)));
        }
        if mode == libc::S_IFIFO || self.is_terminal() {
            return Ok(Way::Reopened(Descriptor::new(self.reopen()?, kind)));
        }
        Ok(Way::Apart(Arc::default()))
    }

    fn reopen(&self) -> io::Result<OwnedFd> {
        let access = if self.number == 0 { libc::O_RDONLY } else { libc::O_WRONLY };
        let path = format!("/proc/self/fd/{}\0", self.number);
        let flags = access | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr().cast(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: made just now.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let (own, theirs) = (status(fd.as_fd())?, status(self.fd())?);
        let same = (own.st_dev, own.st_ino) == (theirs.st_dev, theirs.st_ino);
        if same { Ok(fd) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Reads, waiting for something to come.
    pub(super) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let result = match self.way() {
            Way::Reopened(own) => own.read(|| (&*own.view::<File>()).read(buf)),
            Way::Socket(socket) => socket.read(|| receive(socket.fd(), buf)),
            Way::Apart(ahead) => ahead.read(self.number, buf),
        };
        tolerate_closed(result, 0)
    }

    /// Writes, waiting for room.
    pub(super) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        let result = match self.way() {
            Way::Reopened(own) => own.write(|| end::write(own.fd(), &[IoSlice::new(buf)])),
            Way::Socket(socket) => socket.write(|| send(socket.fd(), buf)),
            Way::Apart(_) => {
                let (fd, bytes) = (self.fd(), buf[..buf.len().min(CHUNK)].to_vec());
                blocking::io(move || uninterrupted(|| end::write(fd, &[IoSlice::new(&bytes)])))
            }
        };
        tolerate_closed(result, buf.len())
    }

    /// Writes on the calling thread, which nobody else needs any more.
    pub(super) fn write_in_place(&self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            let written = uninterrupted(|| end::write(self.fd(), &[IoSlice::new(buf)]))?;
            buf = &buf[written..];
        }
        Ok(())
    }
}

/// As std: where a host has closed the descriptor there is nothing to read, and nobody to write to.
fn tolerate_closed(result: io::Result<usize>, instead: usize) -> io::Result<usize> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(instead),
        result => result,
    }
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn status(fd: BorrowedFd<'_>) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::uninit();
    // SAFETY: there is room for the answer.
    if unsafe { libc::fstat(fd.as_raw_fd(), status.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was answered.
    Ok(unsafe { status.assume_init() })
}

fn receive(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let read = unsafe {
        libc::recv(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_DONTWAIT)
    };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

fn send(fd: BorrowedFd<'_>, buf: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is valid for its length.
    let sent = unsafe { libc::send(fd.as_raw_fd(), buf.as_ptr().cast(), buf.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// What blocking calls have read.
///
/// A fiber that is unwound while it waits leaves its call behind, which takes something from the stream
/// in the end: it is kept here for the next one.
#[derive(Default)]
struct Ahead {
    /// Held by the call that reads.
    turn: Mutex<()>,
    bytes: Mutex<Vec<u8>>,
}

impl Ahead {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(self: &Arc<Self>, fd: RawFd, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(read) = self.take(buf) {
                return Ok(read);
            }
            let (ahead, wanted) = (self.clone(), buf.len().min(CHUNK));
            let ended = blocking::io(move || ahead.fill(fd, wanted))?;
            if ended {
                return Ok(0);
            }
        }
    }

    fn take(&self, buf: &mut [u8]) -> Option<usize> {
        let mut bytes = self.bytes();
        let count = bytes.len().min(buf.len());
        buf[..count].copy_from_slice(&bytes[..count]);
        bytes.drain(..count);
        (count > 0).then_some(count)
    }

    /// Reads something unless there is something already. Whether the stream has ended.
    fn fill(&self, fd: RawFd, wanted: usize) -> io::Result<bool> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.bytes().is_empty() {
            return Ok(false);
        }
        // SAFETY: it is not closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let mut buf = vec![0; wanted];
        let read = uninterrupted(|| (&*file).read(&mut buf))?;
        buf.truncate(read);
        *self.bytes() = mem::take(&mut buf);
        Ok(read == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;
    use std::io::Write;

    #[test]
    fn what_a_call_reads_for_a_fiber_that_was_cancelled_is_there_for_the_next() {
        crate::run(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            let ahead = Arc::new(Ahead::default());
            let read = |most: usize| {
                let (ahead, fd) = (ahead.clone(), reader.as_raw_fd());
                move || {
                    let mut buf = vec![0; most];
                    ahead.read(fd, &mut buf).map(|read| buf[..read].to_vec()).unwrap()
                }
            };
            let first = thread::spawn(read(4));
            thread::yield_now();
            first.cancel();
            assert!(first.join().is_err());
            writer.write_all(b"warp and weft").unwrap();
            drop(writer);
            let mut all = Vec::new();
            loop {
                let part = thread::spawn(read(3)).join().unwrap();
                if part.is_empty() {
                    break;
                }
                all.extend(part);
            }
            assert_eq!(all, b"warp and weft");
        });
    }
}
