//! Pipes within the process, or into another one.

use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

use super::descriptor::Descriptor;
use super::end::{reading, writing};

/// Makes a pipe: what is written to one end is read from the other; pirn's counterpart of
/// [`std::io::pipe`].
///
/// Reading finds the end when all writing ends are closed and the pipe is empty. Writing fails with
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe) when all reading ends are closed; no signal is raised.
/// The system keeps 64 KiB for what was written and not read, as a rule; a write waits when that is full.
///
/// Both are closed when another program is executed. For a child's standard input or output an end is
/// turned into a [`Stdio`](std::process::Stdio), or into an [`OwnedFd`]; it blocks again then.
///
/// ```
/// use pirn::{io, thread};
/// use std::io::{BufRead, BufReader, Write};
///
/// pirn::run(|| {
///     let (reader, mut writer) = io::pipe()?;
///     thread::spawn(move || writeln!(writer, "one\ntwo"));
///     let lines: Result<Vec<_>, _> = BufReader::new(reader).lines().collect();
///     assert_eq!(lines?, ["one", "two"]);
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
///
/// # Errors
///
/// When the process has no descriptors left.
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let mut fds = [0; 2];
    // SAFETY: there is room for two.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made just now.
    let [reader, writer] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((PipeReader::of(reader), PipeWriter::of(writer)))
}

/// The end of a [`pipe`] that is read from; pirn's counterpart of [`std::io::PipeReader`].
///
/// `&PipeReader` reads as well. When several wait, all are woken when something comes, and each gets
/// what is there in its turn.
pub struct PipeReader {
    descriptor: Descriptor,
}

/// The end of a [`pipe`] that is written to; pirn's counterpart of [`std::io::PipeWriter`].
///
/// `&PipeWriter` writes as well. Up to 4 KiB in one call are not torn apart by what others write.
pub struct PipeWriter {
    descriptor: Descriptor,
}

mod reader {
    use super::*;
    reading!(PipeReader, io::PipeReader, "PipeReader");

    impl PipeReader {
        pub(super) fn of(fd: OwnedFd) -> PipeReader {
            PipeReader { descriptor: Descriptor::new(fd, &KIND) }
        }
    }
}

mod writer {
    use super::*;
    writing!(PipeWriter, io::PipeWriter, "PipeWriter");

    impl PipeWriter {
        pub(super) fn of(fd: OwnedFd) -> PipeWriter {
            PipeWriter { descriptor: Descriptor::new(fd, &KIND) }
        }
    }
}
