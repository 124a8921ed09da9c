//! Open files.

use std::fmt;
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::{FileTimes, Metadata, Permissions, apart, with_path};

/// The most that one call reads or writes.
const CHUNK: usize = 1 << 20;

/// An open file. See [`std::fs::File`].
///
/// ```
/// use pirn::fs::{self, File};
/// use std::io::{Read, Seek, SeekFrom, Write};
///
/// # fn main() -> std::io::Result<()> {
/// let path = std::env::temp_dir().join(format!("pirn-doc-file-{}", std::process::id()));
/// pirn::run(|| {
///     let mut file = File::options().read(true).write(true).create(true).open(&path)?;
///     file.write_all(b"warp and weft")?;
///     file.seek(SeekFrom::Start(9))?;
///     let mut rest = String::new();
///     file.read_to_string(&mut rest)?;
///     assert_eq!(rest, "weft");
///     fs::remove_file(&path)
/// })
/// # }
/// ```
///
/// As with std's, what is done by a shared file, or by a [clone](Self::try_clone), moves the one
/// position that they have. When several fibers use it at a time, each call is one call of the system.
pub struct File {
    /// Shared with the calls that are under way, even if their fibers are gone.
    file: Arc<std::fs::File>,
}

impl File {
    /// See [`std::fs::File::open`].
    ///
    /// # Errors
    ///
    /// As std's: when there is no such file, or it may not be read.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        with_path(path.as_ref(), |path| std::fs::File::open(path)).map(File::from)
    }

    /// See [`std::fs::File::create`].
    ///
    /// # Errors
    ///
    /// As std's: when it cannot be made, or may not be written.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        with_path(path.as_ref(), |path| std::fs::File::create(path)).map(File::from)
    }

    /// See [`std::fs::File::create_new`].
    ///
    /// # Errors
    ///
    /// As std's: when it exists, or cannot be made.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        with_path(path.as_ref(), |path| std::fs::File::create_new(path)).map(File::from)
    }

    /// See [`std::fs::File::options`].
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// The file for use with std. A second descriptor of it, if a call is still under way whose fiber
    /// was unwound.
    ///
    /// # Errors
    ///
    /// When there are no more descriptors to be had.
    pub fn into_std(self) -> io::Result<std::fs::File> {
        Arc::try_unwrap(self.file).or_else(|shared| shared.try_clone())
    }

    /// Makes a call with the file.
    fn call<T: Send + 'static>(
        &self,
        f: impl FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.file.clone();
        apart(move || f(&file))
    }

    /// See [`std::fs::File::sync_all`].
    ///
    /// # Errors
    ///
    /// When the system could not write it out.
    pub fn sync_all(&self) -> io::Result<()> {
        self.call(std::fs::File::sync_all)
    }

    /// See [`std::fs::File::sync_data`].
    ///
    /// # Errors
    ///
    /// As for [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> io::Result<()> {
        self.call(std::fs::File::sync_data)
    }

    /// See [`std::fs::File::set_len`].
    ///
    /// # Errors
    ///
    /// As std's: when it is not open for writing, or there is no room.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.call(move |file| file.set_len(size))
    }

    /// See [`std::fs::File::metadata`].
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.call(std::fs::File::metadata)
    }

    /// See [`std::fs::File::try_clone`].
    ///
    /// # Errors
    ///
    /// When there are no more descriptors to be had.
    pub fn try_clone(&self) -> io::Result<File> {
        self.file.try_clone().map(File::from)
    }

    /// See [`std::fs::File::set_permissions`].
    ///
    /// # Errors
    ///
    /// As std's: when it belongs to somebody else.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.call(move |file| file.set_permissions(permissions))
    }

    /// See [`std::fs::File::set_times`].
    ///
    /// # Errors
    ///
    /// As std's: when it belongs to somebody else.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.call(move |file| file.set_times(times))
    }

    /// See [`std::fs::File::set_modified`].
    ///
    /// # Errors
    ///
    /// As std's: when it belongs to somebody else.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.call(move |file| file.set_modified(time))
    }

    /// Reads from this offset, wherever the position is. See [`FileExt::read_at`].
    ///
    /// # Errors
    ///
    /// As std's: when it is not open for reading, or is no file that has offsets.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_by(buf, move |file, buf| file.read_at(buf, offset))
    }

    /// Writes at this offset, wherever the position is. See [`FileExt::write_at`].
    ///
    /// # Errors
    ///
    /// As std's: when it is not open for writing, or is no file that has offsets.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.write_by(chunk(buf), move |file, buf| file.write_at(buf, offset))
    }

    fn read_by(
        &self,
        buf: &mut [u8],
        read: impl FnOnce(&std::fs::File, &mut [u8]) -> io::Result<usize> + Send + 'static,
    ) -> io::Result<usize> {
        let wish = buf.len().min(CHUNK);
        let got = self.call(move |file| {
            let mut got = vec![0; wish];
            let length = read(file, &mut got)?;
            got.truncate(length);
            Ok(got)
        })?;
        buf[..got.len()].copy_from_slice(&got);
        Ok(got.len())
    }

    fn write_by(
        &self,
        buf: Vec<u8>,
        write: impl FnOnce(&std::fs::File, &[u8]) -> io::Result<usize> + Send + 'static,
    ) -> io::Result<usize> {
        self.call(move |file| write(file, &buf))
    }

    /// Reads to the end in one call. What was read before an error is there as well.
    fn read_rest(&self) -> (Vec<u8>, io::Result<()>) {
        let read = |mut file: &std::fs::File| {
            let mut got = Vec::new();
            let end = file.read_to_end(&mut got);
            Ok((got, end.map(drop)))
        };
        self.call(read).unwrap_or_else(|error| (Vec::new(), Err(error)))
    }
}

/// As much as one call takes.
fn chunk(buf: &[u8]) -> Vec<u8> {
    buf[..buf.len().min(CHUNK)].to_vec()
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_by(buf, |mut file, buf| file.read(buf))
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let (mut got, end) = self.read_rest();
        let length = got.len();
        buf.append(&mut got);
        end.map(|()| length)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        let (got, end) = self.read_rest();
        // As std's: nothing is kept of what is not UTF-8.
        match String::from_utf8(got) {
            Ok(text) => {
                buf.push_str(&text);
                end.map(|()| text.len())
            }
            Err(_) => Err(end.err().unwrap_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "the file is not valid UTF-8")
            })),
        }
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_by(chunk(buf), |mut file, buf| file.write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut all = Vec::new();
        for buf in bufs {
            all.extend_from_slice(&buf[..buf.len().min(CHUNK - all.len())]);
        }
        self.write_by(all, |mut file, buf| file.write(buf))
    }

    /// Nothing is kept back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            // Over a network it takes asking where that is.
            SeekFrom::End(_) => self.call(move |mut file| file.seek(to)),
            _ => (&*self.file).seek(to),
        }
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        (&*self).read_to_end(buf)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        (&*self).read_to_string(buf)
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File { file: Arc::new(file) }
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File::from(std::fs::File::from(descriptor))
    }
}

impl FromRawFd for File {
    unsafe fn from_raw_fd(descriptor: RawFd) -> File {
        // SAFETY: the contract is passed on.
        File::from(unsafe { std::fs::File::from_raw_fd(descriptor) })
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

/// How a file is to be opened. See [`std::fs::OpenOptions`].
#[derive(Clone, Debug)]
pub struct OpenOptions {
    options: std::fs::OpenOptions,
}

impl OpenOptions {
    /// See [`std::fs::OpenOptions::new`].
    #[expect(clippy::new_without_default, reason = "std's has none either")]
    pub fn new() -> OpenOptions {
        OpenOptions { options: std::fs::OpenOptions::new() }
    }

    /// See [`std::fs::OpenOptions::read`].
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.options.read(read);
        self
    }

    /// See [`std::fs::OpenOptions::write`].
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.options.write(write);
        self
    }

    /// See [`std::fs::OpenOptions::append`].
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.options.append(append);
        self
    }

    /// See [`std::fs::OpenOptions::truncate`].
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.options.truncate(truncate);
        self
    }

    /// See [`std::fs::OpenOptions::create`].
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.options.create(create);
        self
    }

    /// See [`std::fs::OpenOptions::create_new`].
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.options.create_new(create_new);
        self
    }

    /// See [`OpenOptionsExt::mode`].
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.options.mode(mode);
        self
    }

    /// See [`OpenOptionsExt::custom_flags`].
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.options.custom_flags(flags);
        self
    }

    /// See [`std::fs::OpenOptions::open`].
    ///
    /// # Errors
    ///
    /// As std's: when the file is not there, or may not be opened so, or the options do not agree.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let options = self.options.clone();
        with_path(path.as_ref(), move |path| options.open(path)).map(File::from)
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> OpenOptions {
        OpenOptions { options }
    }
}
