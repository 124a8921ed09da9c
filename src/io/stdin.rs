//! Standard input.

use std::fmt;
use std::io::{self, BufRead, BufReader, Lines, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{OnceLock, PoisonError};

use super::stream::Stream;
use crate::sync::{Mutex, MutexGuard};

static STREAM: Stream = Stream::new(libc::STDIN_FILENO);

/// What has been read ahead, for all who read.
static BUFFER: OnceLock<Mutex<BufReader<Raw>>> = OnceLock::new();

struct Raw;

impl Read for Raw {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        STREAM.read(buf)
    }
}

/// The standard input of the process; pirn's counterpart of [`std::io::stdin`]. Whoever waits for it
/// blocks the fiber, whatever it is: see [below](Stdin#what-it-is).
///
/// ```no_run
/// use pirn::{io, thread};
/// use pirn::time::Duration;
///
/// pirn::run(|| {
///     thread::spawn(|| loop {
///         thread::sleep(Duration::from_secs(1));
///         eprintln!("still there?"); // also while nothing is typed
///     });
///     for line in io::stdin().lines() {
///         println!("you said: {}", line?);
///     }
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub fn stdin() -> Stdin {
    let buffer = BUFFER.get_or_init(|| Mutex::new(BufReader::new(Raw)));
    Stdin { buffer }
}

/// A handle to the standard input; made by [`stdin`].
///
/// All handles share a buffer. It is not that of [`std::io::stdin`]: a program reads by one of the two.
///
/// # What it is
///
/// Whether reads of a terminal or pipe block is a setting that is shared with other processes, the
/// shell for one; it is not touched. A pipe or a terminal is opened a second time, and is waited for in
/// the reactor. So is a socket. From anything else, such as a file, threads of the [pool for blocking
/// calls](mod@crate::blocking) read; and from a terminal of somebody else, which may not be opened
/// again. What such a call reads for a fiber that is cancelled meanwhile is there for the next one.
///
/// The second opening lasts: a pipe counts as read from here on, even if descriptor 0 is closed. What it
/// is, is looked at when something is first read. A program that puts another file in its place
/// (`dup2`) does so before.
#[derive(Clone, Copy)]
pub struct Stdin {
    buffer: &'static Mutex<BufReader<Raw>>,
}

impl Stdin {
    /// Takes the input for itself, until the guard is dropped; waits while others have it.
    pub fn lock(&self) -> StdinLock<'static> {
        // The buffer is whole at any time.
        StdinLock { inner: self.buffer.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Reads a line, with its end, and appends it. Nothing at the end of the input.
    ///
    /// # Errors
    ///
    /// As for reading; and when it is not UTF-8.
    pub fn read_line(&self, buf: &mut String) -> io::Result<usize> {
        self.lock().read_line(buf)
    }

    /// Reads one line after the other, without their ends.
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }

    /// Whether it is a terminal.
    pub fn is_terminal(&self) -> bool {
        STREAM.is_terminal()
    }
}

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buf)
    }
}

impl Read for &Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.lock().read(buf)
    }
}

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        STREAM.fd()
    }
}

impl AsRawFd for Stdin {
    fn as_raw_fd(&self) -> RawFd {
        STREAM.fd().as_raw_fd()
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
}

/// The standard input, as its only reader; made by [`Stdin::lock`].
pub struct StdinLock<'a> {
    inner: MutexGuard<'a, BufReader<Raw>>,
}

impl Read for StdinLock<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

impl BufRead for StdinLock<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
    }
}

impl fmt::Debug for StdinLock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdinLock").finish_non_exhaustive()
    }
}
