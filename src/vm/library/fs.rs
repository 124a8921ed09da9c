//! The package `fs`, and the functions of `io` that work on whole files.
//!
//! Paths are as the system has them; relative ones start at the process's directory. What a file
//! contains need not be UTF-8. What asks the system is left to the pool, where other tasks can run.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use super::args::{Native, bytes, io_error, path, return_bytes, return_strings};
use crate::vm::native::{Context, Outcome, Trap};

/// The largest file that `io.readFile` reads.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

/// Does something with the path that is the first argument, on the pool; an error says what it was.
fn with_path<T: Send + 'static>(
    cx: &mut Context<'_>,
    what: &'static str,
    job: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    finish: impl FnOnce(&mut Context<'_>, &T) -> Native,
) -> Native {
    let path = path(cx, 0).to_owned();
    cx.blocking(
        move || job(&path).map_err(|error| io_error(what, &path, &error)),
        |cx, done| finish(cx, done.as_ref().map_err(Trap::clone)?),
    )
}

fn ask(cx: &mut Context<'_>, question: fn(&Path) -> bool) -> Native {
    with_path(
        cx,
        "look at",
        move |path| Ok(question(path)),
        |cx, &answer| {
            cx.set_bool(answer);
            Ok(Outcome::Done)
        },
    )
}

pub fn exists(cx: &mut Context<'_>) -> Native {
    ask(cx, Path::exists)
}

pub fn is_file(cx: &mut Context<'_>) -> Native {
    ask(cx, Path::is_file)
}

pub fn is_directory(cx: &mut Context<'_>) -> Native {
    ask(cx, Path::is_dir)
}

pub fn size(cx: &mut Context<'_>) -> Native {
    with_path(
        cx,
        "find the size of",
        |path| Ok(fs::metadata(path)?.len()),
        |cx, &len| {
            cx.set_long(len.try_into().unwrap_or(i64::MAX));
            Ok(Outcome::Done)
        },
    )
}

/// The names of the files of a directory (not of directories in it), sorted by bytes.
pub fn list_files(cx: &mut Context<'_>) -> Native {
    use std::os::unix::ffi::OsStrExt;
    let list = |path: &Path| {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // A link to a file counts as a file.
            if entry.path().is_file() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        Ok(names)
    };
    with_path(cx, "list the files of", list, |cx, names| {
        return_strings(cx, names.iter().map(|name| name.as_bytes()))
    })
}

fn nothing(_: &mut Context<'_>, (): &()) -> Native {
    Ok(Outcome::Done)
}

pub fn make_dirs(cx: &mut Context<'_>) -> Native {
    with_path(cx, "make the directory", |path| fs::create_dir_all(path), nothing)
}

/// Removes a file or an empty directory; what is missing is fine.
pub fn remove(cx: &mut Context<'_>) -> Native {
    let remove = |path: &Path| {
        let removed = match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir(path),
            Ok(_) => fs::remove_file(path),
            Err(error) => Err(error),
        };
        removed.or_else(|error| if is_missing(&error) { Ok(()) } else { Err(error) })
    };
    with_path(cx, "remove", remove, nothing)
}

/// A path below a file does not exist either.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Joins two paths by a slash; a rooted right side wins.
pub fn join(cx: &mut Context<'_>) -> Native {
    let (left, right) = (bytes(cx, 0), bytes(cx, 1));
    if left.is_empty() || right.starts_with(b"/") {
        return return_bytes(cx, right);
    }
    let mut joined = left.to_vec();
    if !left.ends_with(b"/") && !right.is_empty() {
        joined.push(b'/');
    }
    joined.extend_from_slice(right);
    return_bytes(cx, &joined)
}

pub fn read_file(cx: &mut Context<'_>) -> Native {
    with_path(cx, "read", read, |cx, content| return_bytes(cx, content))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // A file's length may be no truth (/proc, devices, growing files): the limit is on what is read.
    File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST_FILE {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "the file is larger than 16 MiB"));
    }
    Ok(content)
}

pub fn write_file(cx: &mut Context<'_>) -> Native {
    let content = bytes(cx, 1).to_vec();
    with_path(cx, "write", move |path| fs::write(path, content), nothing)
}

pub fn append_file(cx: &mut Context<'_>) -> Native {
    let content = bytes(cx, 1).to_vec();
    let append = move |path: &Path| {
        File::options().append(true).create(true).open(path)?.write_all(&content)
    };
    with_path(cx, "append to", append, nothing)
}
