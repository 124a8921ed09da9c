//! Standard output and error.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::stream::Stream;
use crate::sync::{ReentrantMutex, ReentrantMutexGuard};

/// How much output is collected.
const COLLECTED: usize = 8 << 10;

static OUTPUT: Stream = Stream::new(libc::STDOUT_FILENO);
static ERROR: Stream = Stream::new(libc::STDERR_FILENO);

/// Whose turn it is to write.
static OUTPUT_TURN: ReentrantMutex<()> = ReentrantMutex::new(());
static ERROR_TURN: ReentrantMutex<()> = ReentrantMutex::new(());

/// Output that was not written out: that of the turn's holder, or what is left for the end. Locked for
/// a moment only, never over a wait.
static COLLECTION: Mutex<Vec<u8>> = Mutex::new(Vec::new());

fn collection() -> MutexGuard<'static, Vec<u8>> {
    COLLECTION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes this much of the collection out.
fn write_out(mut count: usize) -> io::Result<()> {
    while count > 0 {
        // It stays there meanwhile: a fiber that is unwound in its wait has written nothing.
        let part = collection().iter().copied().take(count).collect::<Vec<u8>>();
        if part.is_empty() {
            // At the end of the process, which has written it meanwhile.
            return Ok(());
        }
        match OUTPUT.write(&part) {
            Ok(written) => {
                let mut all = collection();
                let written = written.min(all.len());
                all.drain(..written);
                count -= written;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // What could not be written once is not offered again.
                collection().clear();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// At the end of the process: what no end of a line has sent out. No locks of fibers, whose thread may
/// be gone for the most part.
extern "C" fn write_the_rest() {
    if let Ok(mut collection) = COLLECTION.try_lock() {
        // Nobody is left to hear of a failure.
        let _ = OUTPUT.write_in_place(&collection);
        collection.clear();
    }
}

/// The standard output of the process; pirn's counterpart of [`std::io::stdout`].
///
/// What is written is collected until a line ends, as with std; and written out then, or when it is
/// [flushed](Write::flush), when 8 KiB are there, and when the process ends. Whoever waits for room
/// blocks the fiber; how, is said [there](super::Stdin#what-it-is). A pipe that nobody reads is an error,
/// and no signal.
///
/// What `print!` writes goes by std's buffer, which is another one: lines do not get mixed up, but
/// parts of lines may.
///
/// ```
/// use std::io::Write;
///
/// pirn::run(|| writeln!(pirn::io::stdout(), "warp and weft")).unwrap();
/// ```
pub fn stdout() -> Stdout {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function may be called at the end. Without memory for it the last part of a line
        // is lost if it is not flushed.
        unsafe { libc::atexit(write_the_rest) };
    });
    Stdout { _private: () }
}

/// The standard error of the process; pirn's counterpart of [`std::io::stderr`]. Nothing is collected.
///
/// ```
/// use std::io::Write;
///
/// pirn::run(|| writeln!(pirn::io::stderr(), "a thread broke")).unwrap();
/// ```
pub fn stderr() -> Stderr {
    Stderr { _private: () }
}

macro_rules! output {
    ($name:ident, $lock:ident, $function:literal, $stream:ident, $turn:ident) => {
        #[doc = concat!("A handle to it; made by [`", $function, "`](", $function, "()).")]
        ///
        /// Each call of `write_fmt`, and so of `write!`, is one piece to other fibers and threads.
        #[derive(Clone, Copy)]
        pub struct $name {
            _private: (),
        }

        impl $name {
            /// Takes the output for itself, until the guard is dropped; waits while others have it.
            /// Who has it may take it again.
            pub fn lock(&self) -> $lock<'static> {
                $lock { _turn: $turn.lock() }
            }

            /// Whether it is a terminal.
            pub fn is_terminal(&self) -> bool {
                $stream.is_terminal()
            }
        }

        impl Write for $name {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.lock().write(buf)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.lock().flush()
            }

            fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
                self.lock().write_all(buf)
            }

            fn write_fmt(&mut self, args: fmt::Arguments<'_>) -> io::Result<()> {
                self.lock().write_fmt(args)
            }
        }

        impl Write for &$name {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.lock().write(buf)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.lock().flush()
            }

            fn write_all(&mut self, buf: &[u8]) -> io::Result<()> {
                self.lock().write_all(buf)
            }

            fn write_fmt(&mut self, args: fmt::Arguments<'_>) -> io::Result<()> {
                self.lock().write_fmt(args)
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                $stream.fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                $stream.fd().as_raw_fd()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        #[doc = concat!("The output, as its only writer; made by [`", stringify!($name), "::lock`].")]
        pub struct $lock<'a> {
            _turn: ReentrantMutexGuard<'a, ()>,
        }

        impl fmt::Debug for $lock<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($lock)).finish_non_exhaustive()
            }
        }
    };
}

output!(Stdout, StdoutLock, "stdout", OUTPUT, OUTPUT_TURN);
output!(Stderr, StderrLock, "stderr", ERROR, ERROR_TURN);

impl Write for StdoutLock<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if collection().len() >= COLLECTED {
            self.flush()?;
        }
        let mut all = collection();
        let taken = buf.len().min(COLLECTED - all.len());
        let end = memchr::memrchr(b'\n', &buf[..taken]).map(|end| all.len() + end + 1);
        all.extend_from_slice(&buf[..taken]);
        drop(all);
        write_out(end.unwrap_or(0))?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let all = collection().len();
        write_out(all)
    }
}

impl Write for StderrLock<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        ERROR.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
