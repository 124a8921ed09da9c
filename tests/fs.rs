//! `pirn::fs` does what `std::fs` does, and keeps only whoever calls.

use std::ffi::CString;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use pirn::fs::{self, DirBuilder, File, OpenOptions};
use pirn::thread::{self, Cancelled};

/// A directory of its own for a test; gone with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pirn-fs-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Place(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A named pipe: opening it blocks until the other side does too.
fn fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

#[test]
fn fibers_of_one_carrier_talk_through_a_pipe_whose_ends_block() {
    let place = Place::new();
    let path = place.at("pipe");
    fifo(&path);
    pirn::run(|| {
        let reads = thread::spawn({
            let path = path.clone();
            // Blocks until somebody opens the pipe for writing, and then until he writes.
            move || BufReader::new(File::open(path).unwrap()).lines().map(Result::unwrap).collect()
        });
        let mut writes = OpenOptions::new().write(true).open(&path).unwrap();
        for line in ["warp", "weft"] {
            writeln!(writes, "{line}").unwrap();
            thread::yield_now();
        }
        drop(writes);
        let lines: Vec<String> = reads.join().unwrap();
        assert_eq!(lines, ["warp", "weft"]);
    });
}

#[test]
fn a_fiber_that_is_cancelled_in_a_read_is_unwound_and_the_file_closed_when_that_returns() {
    let place = Place::new();
    let path = place.at("pipe");
    fifo(&path);
    pirn::run(|| {
        let reads = thread::spawn({
            let path = path.clone();
            move || fs::read(path)
        });
        let mut writes = OpenOptions::new().write(true).open(&path).unwrap();
        reads.cancel();
        assert!(reads.join().unwrap_err().is::<Cancelled>());
        // The read is still under way, or this would fail.
        writes.write_all(b"late").unwrap();
    });
}

/// Everything that paths can be used for; in the same words for both.
macro_rules! work_on_paths {
    ($fs:ident, $root:expr) => {{
        let root: &Path = $root;
        let mut log: Vec<String> = Vec::new();
        macro_rules! note {
            ($call:expr) => {{
                let result: std::io::Result<_> = $call;
                log.push(match result {
                    Ok(value) => format!("{value:?}").replace(root.to_str().unwrap(), "ROOT"),
                    Err(error) => format!("{:?} {:?}", error.kind(), error.raw_os_error()),
                });
            }};
        }
        let (one, two) = (root.join("one"), root.join("two"));
        note!($fs::read(&one));
        note!($fs::write(&one, "first"));
        note!($fs::read(&one));
        note!($fs::read_to_string(&one));
        note!($fs::write(&two, [0xff, 0xfe]));
        note!($fs::read_to_string(&two));
        note!($fs::exists(&two));
        note!($fs::copy(&one, &two));
        note!($fs::read_to_string(&two));
        note!($fs::metadata(&two).map(|data| (data.len(), data.is_file(), data.is_dir())));
        note!($fs::rename(&two, root.join("three")));
        note!($fs::exists(&two));
        note!($fs::rename(&two, root.join("four")));
        note!($fs::hard_link(&one, &two));
        note!($fs::hard_link(&one, &two));
        note!($fs::remove_file(&two));
        note!($fs::remove_file(&two));
        note!($fs::create_dir(root.join("dir")));
        note!($fs::create_dir(root.join("dir")));
        note!($fs::create_dir(root.join("no/dir")));
        note!($fs::create_dir_all(root.join("deep/er/still")));
        note!($fs::remove_dir(root.join("deep")));
        note!($fs::canonicalize(root.join("deep/../dir")));
        note!($fs::canonicalize(root.join("nowhere")));
        note!($fs::read_link(&one));
        note!(std::os::unix::fs::symlink("one", root.join("link")));
        note!($fs::read_link(root.join("link")));
        note!($fs::symlink_metadata(root.join("link")).map(|data| data.is_symlink()));
        let listing = $fs::read_dir(root).map(|entries| {
            let mut names: Vec<_> = entries
                .map(|entry| {
                    let entry = entry.unwrap();
                    let kind = entry.file_type().unwrap();
                    let length = entry.metadata().unwrap().len();
                    (entry.file_name(), kind.is_dir(), kind.is_symlink(), length, entry.path())
                })
                .filter(|entry| !entry.1 || entry.3 > 0)
                .map(|entry| (entry.0, entry.1, entry.2, entry.4))
                .collect();
            names.sort();
            names
        });
        note!(listing);
        note!($fs::read_dir(&one).map(drop));
        let mut permissions = $fs::metadata(&one).unwrap().permissions();
        permissions.set_readonly(true);
        note!($fs::set_permissions(&one, permissions));
        note!($fs::metadata(&one).map(|data| data.permissions().readonly()));
        note!($fs::remove_dir_all(root.join("deep")));
        note!($fs::remove_dir_all(root.join("deep")));
        note!($fs::metadata("with\0zero").map(drop));
        log
    }};
}

#[test]
fn what_is_done_with_paths_has_the_results_and_errors_of_std() {
    let (ours, theirs) = (Place::new(), Place::new());
    let root = ours.0.clone();
    let log = pirn::run(move || work_on_paths!(fs, &root));
    let model = {
        use std::fs;
        work_on_paths!(fs, &theirs.0)
    };
    assert_eq!(log, model);
    assert!(log.iter().any(|line| line.starts_with("NotFound")));
}

/// What files can be used for; in the same words for both.
macro_rules! work_on_a_file {
    ($file:ident, $path:expr) => {{
        let path: &Path = $path;
        let mut log: Vec<String> = Vec::new();
        macro_rules! note {
            ($call:expr) => {{
                let result: std::io::Result<_> = $call;
                log.push(match result {
                    Ok(value) => format!("{value:?}"),
                    Err(error) => format!("{:?} {:?}", error.kind(), error.raw_os_error()),
                });
            }};
        }
        note!($file::open(path).map(drop));
        note!($file::options().append(true).open(path).map(drop));
        note!($file::options().open(path).map(drop));
        let mut file = $file::create_new(path).unwrap();
        note!($file::create_new(path).map(drop));
        note!(file.write(b"0123456789"));
        note!(file.read(&mut [0; 4]));
        drop(file);
        let mut file = $file::options().read(true).write(true).open(path).unwrap();
        let mut buf = [0; 4];
        note!(file.read(&mut buf).map(|n| (n, buf)));
        note!(file.seek(SeekFrom::Current(-1)));
        note!((&file).read_exact(&mut buf).map(|()| buf));
        note!(file.seek(SeekFrom::End(-2)));
        note!(file.seek(SeekFrom::Current(-20)));
        note!(file.stream_position());
        let mut rest = Vec::new();
        note!(file.read_to_end(&mut rest).map(|n| (n, rest)));
        note!(file.read(&mut buf));
        note!(file.rewind());
        note!(file.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]));
        let mut text = String::from("kept ");
        note!(file.read_to_string(&mut text).map(|n| (n, text)));
        note!(file.write_all(&[0xff]));
        note!(file.rewind());
        let mut text = String::from("kept ");
        let end = file.read_to_string(&mut text).map_err(|error| error.kind());
        log.push(format!("{end:?} {text}"));
        note!(file.set_len(3));
        note!(file.metadata().map(|data| data.len()));
        note!((&file).flush());
        note!(file.sync_all());
        note!(file.sync_data());
        let mut other = file.try_clone().unwrap();
        note!(file.seek(SeekFrom::Start(1)));
        note!(other.stream_position());
        note!(other.read(&mut []));
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        note!(file.set_modified(time));
        note!(file.metadata().and_then(|data| data.modified()).map(|found| found == time));
        log
    }};
}

#[test]
fn what_is_done_with_a_file_has_the_results_and_errors_of_std() {
    let place = Place::new();
    let (ours, theirs) = (place.at("ours"), place.at("theirs"));
    let path = ours.clone();
    let log = pirn::run(move || work_on_a_file!(File, &path));
    let model = {
        use std::fs::File;
        work_on_a_file!(File, &theirs)
    };
    assert_eq!(log, model);
    // On an OS thread as well.
    std::fs::remove_file(&ours).unwrap();
    assert_eq!(work_on_a_file!(File, &ours), model);
}

#[test]
fn more_than_one_call_takes_is_read_and_written_in_several() {
    let place = Place::new();
    let path = place.at("long");
    let long: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    pirn::run(|| {
        let mut file = File::create(&path).unwrap();
        file.write_all(&long).unwrap();
        let mut back = vec![0; long.len()];
        let file = File::open(&path).unwrap();
        let first = (&file).read(&mut back).unwrap();
        assert!(first > 0 && first < long.len());
        (&file).read_exact(&mut back[first..]).unwrap();
        assert!(back == long);
        let halves = [IoSlice::new(&long[..3_000_000]), IoSlice::new(&long[3_000_000..])];
        let taken = File::create(&path).unwrap().write_vectored(&halves).unwrap();
        assert!(taken > 0 && fs::read(&path).unwrap() == long[..taken]);
        let mut at = [0; 3];
        assert_eq!(file.read_at(&mut at, 250).unwrap(), 3);
        assert_eq!(at, [250, 0, 1]);
        assert_eq!(file.write_at(&at, 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
    });
}

#[test]
fn a_long_directory_is_listed_whole() {
    let place = Place::new();
    pirn::run(|| {
        for n in 0..200 {
            fs::write(place.at(&format!("{n:03}")), []).unwrap();
        }
        DirBuilder::new().recursive(true).mode(0o700).create(place.at("sub/dir")).unwrap();
        let kind = DirBuilder::new().create(place.at("sub")).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::AlreadyExists);
        let mut names: Vec<_> = fs::read_dir(&place.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected: Vec<_> = (0..200).map(|n| format!("{n:03}")).chain(["sub".into()]).collect();
        assert_eq!(names, expected);
    });
}

#[test]
fn files_come_from_std_and_go_back() {
    let place = Place::new();
    let path = place.at("file");
    pirn::run(|| {
        let mut file = File::from(std::fs::File::create(&path).unwrap());
        file.write_all(b"one").unwrap();
        let mut file = file.into_std().unwrap();
        file.write_all(b" two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
        let options: OpenOptions = std::fs::File::options().read(true).clone().into();
        let mut copy = Vec::new();
        std::io::copy(&mut options.open(&path).unwrap(), &mut copy).unwrap();
        assert_eq!(copy, b"one two");
    });
}
