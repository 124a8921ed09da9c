//! This side's ends of the pipes to a child.

// For the macro.
use std::io::Read;
use std::process;

use crate::io::descriptor::Descriptor;
use crate::io::end::{reading, writing};

/// What a child reads as its standard input; pirn's counterpart of [`std::process::ChildStdin`].
///
/// The child sees the end when it is dropped. If the child reads no more, writing fails with
/// [`BrokenPipe`](std::io::ErrorKind::BrokenPipe), and no signal is raised.
pub struct ChildStdin {
    descriptor: Descriptor,
}

/// What a child has written to its standard output; pirn's counterpart of
/// [`std::process::ChildStdout`].
pub struct ChildStdout {
    descriptor: Descriptor,
}

/// What a child has written to its standard error; pirn's counterpart of
/// [`std::process::ChildStderr`].
pub struct ChildStderr {
    descriptor: Descriptor,
}

mod stdin {
    use super::*;
    writing!(ChildStdin, process::ChildStdin, "ChildStdin");
}

mod stdout {
    use super::*;
    reading!(ChildStdout, process::ChildStdout, "ChildStdout");
}

mod stderr {
    use super::*;
    reading!(ChildStderr, process::ChildStderr, "ChildStderr");
}
