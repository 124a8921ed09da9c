//! Files, with std's names: while the system is at it only the calling fiber waits.
//!
//! The kernel has no way to tell when a file is ready, as it has for sockets: reading from a disk, or
//! over a network, blocks the thread. So each operation is a [blocking call](mod@crate::blocking), made by
//! a thread of that pool; what holds there of cancellation, virtual time and the end of a runtime holds
//! here. On an OS thread that is no carrier the call is made in place.
//!
//! ```
//! use pirn::fs;
//!
//! # fn main() -> std::io::Result<()> {
//! let path = std::env::temp_dir().join(format!("pirn-doc-{}", std::process::id()));
//! pirn::run(|| {
//!     fs::write(&path, "warp and weft")?;
//!     assert_eq!(fs::read_to_string(&path)?, "warp and weft");
//!     fs::remove_file(&path)
//! })
//! # }
//! ```
//!
//! Functions and types stand for those of [`std::fs`] with the same name, and return the same errors;
//! besides, any of them fails if no thread can be had. They differ in this:
//!
//! * A call costs a trip to another thread and back, some ten microseconds. Whoever reads or writes
//!   little at a time wraps a [`File`] into a `BufReader` or `BufWriter`.
//! * What is read and written goes through a buffer that the thread owns, at most a mebibyte at a time:
//!   the fiber may be unwound before the call returns, and its memory gone. Then what was read is lost,
//!   although the file has moved on, and what was to be written may still be.
//! * [`ReadDir`] fetches some dozens of entries at a time.
//! * Closing a file happens in place.

mod dir;
mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions};

pub use dir::{DirBuilder, DirEntry, ReadDir, read_dir};
pub use file::{File, OpenOptions};

use crate::blocking::io as apart;

/// Calls a function of `std::fs` that takes a path.
fn with_path<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_path_buf();
    apart(move || call(&path))
}

/// Calls a function of `std::fs` that takes two paths.
fn with_paths<T: Send + 'static>(
    from: &Path,
    to: &Path,
    call: impl FnOnce(&Path, &Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (from, to) = (from.to_path_buf(), to.to_path_buf());
    apart(move || call(&from, &to))
}

/// See [`std::fs::read`].
///
/// # Errors
///
/// As std's: when the file cannot be opened or read.
pub fn read<P: AsRef<Path>>(path: P) -> io::Result<Vec<u8>> {
    with_path(path.as_ref(), |path| std::fs::read(path))
}

/// See [`std::fs::read_to_string`].
///
/// # Errors
///
/// As std's: when the file cannot be opened or read, or is not UTF-8.
pub fn read_to_string<P: AsRef<Path>>(path: P) -> io::Result<String> {
    with_path(path.as_ref(), |path| std::fs::read_to_string(path))
}

/// See [`std::fs::write`].
///
/// # Errors
///
/// As std's: when the file cannot be created or written.
pub fn write<P: AsRef<Path>, C: AsRef<[u8]>>(path: P, contents: C) -> io::Result<()> {
    let contents: Arc<[u8]> = contents.as_ref().into();
    with_path(path.as_ref(), move |path| std::fs::write(path, contents))
}

/// See [`std::fs::metadata`].
///
/// # Errors
///
/// As std's: when there is nothing, or it cannot be looked at.
pub fn metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    with_path(path.as_ref(), |path| std::fs::metadata(path))
}

/// See [`std::fs::symlink_metadata`].
///
/// # Errors
///
/// As for [`metadata`].
pub fn symlink_metadata<P: AsRef<Path>>(path: P) -> io::Result<Metadata> {
    with_path(path.as_ref(), |path| std::fs::symlink_metadata(path))
}

/// See [`std::fs::exists`].
///
/// # Errors
///
/// As std's: when that cannot be found out.
pub fn exists<P: AsRef<Path>>(path: P) -> io::Result<bool> {
    with_path(path.as_ref(), |path| std::fs::exists(path))
}

/// See [`std::fs::set_permissions`].
///
/// # Errors
///
/// As std's: when there is nothing, or it belongs to somebody else.
pub fn set_permissions<P: AsRef<Path>>(path: P, permissions: Permissions) -> io::Result<()> {
    with_path(path.as_ref(), |path| std::fs::set_permissions(path, permissions))
}

/// See [`std::fs::canonicalize`].
///
/// # Errors
///
/// As std's: when a part of the path does not exist, or is no directory.
pub fn canonicalize<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    with_path(path.as_ref(), |path| std::fs::canonicalize(path))
}

/// See [`std::fs::read_link`].
///
/// # Errors
///
/// As std's: when it is no link.
pub fn read_link<P: AsRef<Path>>(path: P) -> io::Result<PathBuf> {
    with_path(path.as_ref(), |path| std::fs::read_link(path))
}

/// See [`std::fs::create_dir`].
///
/// # Errors
///
/// As std's: when it exists, or what is to contain it does not.
pub fn create_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    with_path(path.as_ref(), |path| std::fs::create_dir(path))
}

/// See [`std::fs::create_dir_all`].
///
/// # Errors
///
/// As std's: when one of them cannot be made, and is not there.
pub fn create_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    with_path(path.as_ref(), |path| std::fs::create_dir_all(path))
}

/// See [`std::fs::remove_dir`].
///
/// # Errors
///
/// As std's: when it is no directory, or not empty.
pub fn remove_dir<P: AsRef<Path>>(path: P) -> io::Result<()> {
    with_path(path.as_ref(), |path| std::fs::remove_dir(path))
}

/// See [`std::fs::remove_dir_all`].
///
/// # Errors
///
/// As std's: when something in it cannot be removed.
pub fn remove_dir_all<P: AsRef<Path>>(path: P) -> io::Result<()> {
    with_path(path.as_ref(), |path| std::fs::remove_dir_all(path))
}

/// See [`std::fs::remove_file`].
///
/// # Errors
///
/// As std's: when there is no such file, or it is a directory.
pub fn remove_file<P: AsRef<Path>>(path: P) -> io::Result<()> {
    with_path(path.as_ref(), |path| std::fs::remove_file(path))
}

/// See [`std::fs::rename`].
///
/// # Errors
///
/// As std's: when there is nothing of that name, or the new one is on another file system.
pub fn rename<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<()> {
    with_paths(from.as_ref(), to.as_ref(), |from, to| std::fs::rename(from, to))
}

/// See [`std::fs::copy`].
///
/// # Errors
///
/// As std's: when the one cannot be read, or the other not written.
pub fn copy<P: AsRef<Path>, Q: AsRef<Path>>(from: P, to: Q) -> io::Result<u64> {
    with_paths(from.as_ref(), to.as_ref(), |from, to| std::fs::copy(from, to))
}

/// See [`std::fs::hard_link`].
///
/// # Errors
///
/// As std's: when there is no such file, or the link exists, or is on another file system.
pub fn hard_link<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    with_paths(original.as_ref(), link.as_ref(), |from, to| std::fs::hard_link(from, to))
}
