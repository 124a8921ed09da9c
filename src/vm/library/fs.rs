//! The package `fs`, and the functions of `io` that work on whole files.
//!
//! Paths are as the system has them; relative ones start at the process's directory. What a file
//! contains need not be UTF-8.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use super::args::{Native, bytes, io_error, path, return_bytes, return_strings};
use crate::vm::native::{Context, Outcome};

/// The largest file that `io.readFile` reads.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

pub fn exists(cx: &mut Context<'_>) -> Native {
    cx.set_bool(path(cx, 0).exists());
    Ok(Outcome::Done)
}

pub fn is_file(cx: &mut Context<'_>) -> Native {
    cx.set_bool(path(cx, 0).is_file());
    Ok(Outcome::Done)
}

pub fn is_directory(cx: &mut Context<'_>) -> Native {
    cx.set_bool(path(cx, 0).is_dir());
    Ok(Outcome::Done)
}

pub fn size(cx: &mut Context<'_>) -> Native {
    let path = path(cx, 0);
    let meta = fs::metadata(path).map_err(|error| io_error("find the size of", path, &error))?;
    cx.set_long(meta.len().try_into().unwrap_or(i64::MAX));
    Ok(Outcome::Done)
}

/// The names of the files of a directory (not of directories in it), sorted by bytes.
pub fn list_files(cx: &mut Context<'_>) -> Native {
    use std::os::unix::ffi::OsStrExt;
    let path = path(cx, 0);
    let mut names = Vec::new();
    let read = |names: &mut Vec<_>| -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // A link to a file counts as a file.
            if entry.path().is_file() {
                names.push(entry.file_name());
            }
        }
        Ok(())
    };
    read(&mut names).map_err(|error| io_error("list the files of", path, &error))?;
    names.sort();
    return_strings(cx, names.iter().map(|name| name.as_bytes()))
}

pub fn make_dirs(cx: &mut Context<'_>) -> Native {
    let path = path(cx, 0);
    fs::create_dir_all(path).map_err(|error| io_error("make the directory", path, &error))?;
    Ok(Outcome::Done)
}

/// Removes a file or an empty directory; what is missing is fine.
pub fn remove(cx: &mut Context<'_>) -> Native {
    let path = path(cx, 0);
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if !is_missing(&error) => Err(io_error("remove", path, &error)),
        _ => Ok(Outcome::Done),
    }
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
    let path = path(cx, 0);
    let content = read(path).map_err(|error| io_error("read", path, &error))?;
    return_bytes(cx, &content)
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
    let path = path(cx, 0);
    fs::write(path, bytes(cx, 1)).map_err(|error| io_error("write", path, &error))?;
    Ok(Outcome::Done)
}

pub fn append_file(cx: &mut Context<'_>) -> Native {
    let path = path(cx, 0);
    let append = || File::options().append(true).create(true).open(path)?.write_all(bytes(cx, 1));
    append().map_err(|error| io_error("append to", path, &error))?;
    Ok(Outcome::Done)
}
