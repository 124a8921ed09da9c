//! Directories: making and listing them.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use super::{FileType, Metadata, apart, with_path};

/// Entries that are fetched at a time.
const BATCH: usize = 64;

/// See [`std::fs::read_dir`].
///
/// # Errors
///
/// As std's: when it is no directory, or may not be read.
///
/// ```
/// pirn::run(|| {
///     let mut names = pirn::fs::read_dir("/proc/self")?.map(|entry| Ok(entry?.file_name()));
///     assert!(names.any(|name: std::io::Result<_>| name.is_ok_and(|name| name == "status")));
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub fn read_dir<P: AsRef<Path>>(path: P) -> io::Result<ReadDir> {
    let (entries, rest) = with_path(path.as_ref(), |path| Ok(fetch(std::fs::read_dir(path)?)))?;
    Ok(ReadDir { entries: entries.into_iter(), rest })
}

type Batch = Vec<io::Result<DirEntry>>;

/// The next entries, and the rest if there may be more.
fn fetch(mut entries: std::fs::ReadDir) -> (Batch, Option<std::fs::ReadDir>) {
    let own = |entry: io::Result<std::fs::DirEntry>| {
        // Most file systems say it with the name.
        entry.map(|entry| DirEntry { file_type: entry.file_type().ok(), entry: Arc::new(entry) })
    };
    let batch: Batch = entries.by_ref().take(BATCH).map(own).collect();
    let rest = (batch.len() == BATCH).then_some(entries);
    (batch, rest)
}

/// The entries of a directory; from [`read_dir`]. See [`std::fs::ReadDir`].
pub struct ReadDir {
    entries: vec::IntoIter<io::Result<DirEntry>>,
    /// `None`: there is nothing beyond these.
    rest: Option<std::fs::ReadDir>,
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        if let Some(entry) = self.entries.next() {
            return Some(entry);
        }
        let rest = self.rest.take()?;
        match apart(move || Ok(fetch(rest))) {
            Ok((entries, rest)) => {
                self.entries = entries.into_iter();
                self.rest = rest;
                self.entries.next()
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").finish_non_exhaustive()
    }
}

/// An entry of a directory. See [`std::fs::DirEntry`].
pub struct DirEntry {
    entry: Arc<std::fs::DirEntry>,
    /// What it was when it was listed.
    file_type: Option<FileType>,
}

impl DirEntry {
    /// See [`std::fs::DirEntry::path`].
    pub fn path(&self) -> PathBuf {
        self.entry.path()
    }

    /// See [`std::fs::DirEntry::file_name`].
    pub fn file_name(&self) -> OsString {
        self.entry.file_name()
    }

    /// See [`std::fs::DirEntry::metadata`].
    ///
    /// # Errors
    ///
    /// When it is gone, or cannot be looked at.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let entry = self.entry.clone();
        apart(move || entry.metadata())
    }

    /// See [`std::fs::DirEntry::file_type`].
    ///
    /// # Errors
    ///
    /// As for [`metadata`](Self::metadata).
    pub fn file_type(&self) -> io::Result<FileType> {
        if let Some(file_type) = self.file_type {
            return Ok(file_type);
        }
        let entry = self.entry.clone();
        apart(move || entry.file_type())
    }

    /// The number of the file in its file system; see [`DirEntryExt::ino`].
    pub fn ino(&self) -> u64 {
        self.entry.ino()
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}

/// How a directory is to be made. See [`std::fs::DirBuilder`].
#[derive(Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: u32,
}

impl Default for DirBuilder {
    fn default() -> Self {
        DirBuilder::new()
    }
}

impl DirBuilder {
    /// See [`std::fs::DirBuilder::new`].
    pub const fn new() -> DirBuilder {
        DirBuilder { recursive: false, mode: 0o777 }
    }

    /// See [`std::fs::DirBuilder::recursive`].
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// See [`DirBuilderExt::mode`].
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// See [`std::fs::DirBuilder::create`].
    ///
    /// # Errors
    ///
    /// As for [`create_dir`](super::create_dir), or, if it is recursive,
    /// [`create_dir_all`](super::create_dir_all).
    pub fn create<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        let DirBuilder { recursive, mode } = *self;
        with_path(path.as_ref(), move |path| {
            std::fs::DirBuilder::new().recursive(recursive).mode(mode).create(path)
        })
    }
}
