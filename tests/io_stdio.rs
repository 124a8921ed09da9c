//! Standard input, output and error: `pirn::io::stdin` and the others, each in a process of its own.

mod child;

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use pirn::{io, thread};

/// Reads all of the standard input in one fiber, while another one says that it goes on.
fn copy() {
    pirn::run(|| {
        let reads = thread::spawn(|| {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        });
        // It waits then, or has read.
        thread::yield_now();
        writeln!(io::stdout(), "\nalive").unwrap();
        writeln!(io::stdout(), "read {:?}", reads.join().unwrap().unwrap()).unwrap();
    });
}

/// A child that plays this role.
struct Actor {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Actor {
    fn begin(test: &str, role: &str, input: Stdio) -> Actor {
        let mut child =
            child::command(test, role).stdin(input).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Actor { child, out }
    }

    /// Waits for a line that it writes, behind what the test harness has to say.
    fn says(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim_end() != wanted {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ends without {wanted:?}");
        }
    }

    fn ends(mut self) {
        std::io::copy(&mut self.out, &mut std::io::sink()).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

fn does_not_block(fd: &impl AsRawFd) -> bool {
    // SAFETY: asks only.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

/// A terminal: the side of whoever types, and the other one.
fn terminal() -> (File, OwnedFd) {
    // SAFETY: the calls take a descriptor that is open, and there is room for the name.
    unsafe {
        let typing = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(typing >= 0, "{}", std::io::Error::last_os_error());
        let typing = File::from_raw_fd(typing);
        assert_eq!(libc::grantpt(typing.as_raw_fd()), 0);
        assert_eq!(libc::unlockpt(typing.as_raw_fd()), 0);
        let mut name = [0; 100];
        assert_eq!(libc::ptsname_r(typing.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
        let fd = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        (typing, OwnedFd::from_raw_fd(fd))
    }
}

/// C094.
#[test]
fn input_is_read_to_its_end_whatever_it_is_and_holds_nobody_up() {
    let name = "input_is_read_to_its_end_whatever_it_is_and_holds_nobody_up";
    child::play(name, "copy", copy);
    if child::is_other_child() {
        return;
    }
    let begin = |input: Stdio| Actor::begin(name, "copy", input);

    // A pipe, a socket, and a terminal: nothing comes before the other fiber has run.
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut actor = begin(reader.try_clone().unwrap().into());
    actor.says("alive");
    assert!(!does_not_block(&reader), "the mode is shared with us");
    writer.write_all(b"by a pipe").unwrap();
    drop(writer);
    actor.says("read \"by a pipe\"");
    assert!(!does_not_block(&reader));
    actor.ends();

    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut actor = begin(OwnedFd::from(theirs.try_clone().unwrap()).into());
    actor.says("alive");
    assert!(!does_not_block(&theirs), "the mode is shared with us");
    (&ours).write_all(b"by a socket").unwrap();
    drop(ours);
    actor.says("read \"by a socket\"");
    actor.ends();

    let (mut typing, end) = terminal();
    let mut actor = begin(end.try_clone().unwrap().into());
    actor.says("alive");
    assert!(!does_not_block(&end), "the mode is shared with us");
    // Ctrl-D, at the beginning of a line.
    typing.write_all(b"by hand\n\x04").unwrap();
    actor.says("read \"by hand\\n\"");
    actor.ends();

    // A file, from where it stands; nothing; and no descriptor at all.
    let path = std::env::temp_dir().join(format!("pirn-stdio-{}", std::process::id()));
    std::fs::write(&path, "skipped from a file").unwrap();
    let mut file = File::open(&path).unwrap();
    file.read_exact(&mut [0; 8]).unwrap();
    let mut actor = begin(file.into());
    actor.says("read \"from a file\"");
    actor.ends();
    std::fs::remove_file(&path).unwrap();

    let mut actor = begin(Stdio::null());
    actor.says("read \"\"");
    actor.ends();

    let mut command = child::command(name, "copy");
    command.stdout(Stdio::piped());
    // SAFETY: `close` may be called there.
    unsafe {
        command.pre_exec(|| {
            libc::close(0);
            Ok(())
        })
    };
    let mut child = command.spawn().unwrap();
    let mut actor = Actor { out: BufReader::new(child.stdout.take().unwrap()), child };
    actor.says("read \"\"");
    actor.ends();
}

#[test]
fn lines_go_to_whoever_reads_and_a_reader_that_is_cancelled_takes_none() {
    let name = "lines_go_to_whoever_reads_and_a_reader_that_is_cancelled_takes_none";
    child::play(name, "reader", || {
        pirn::run(|| {
            let line = || {
                let mut line = String::new();
                io::stdin().read_line(&mut line).map(|_| line).unwrap()
            };
            let cancelled = thread::spawn(line);
            thread::yield_now();
            cancelled.cancel();
            assert!(cancelled.join().is_err());
            writeln!(io::stdout(), "\ncancelled").unwrap();
            assert_eq!(thread::spawn(line).join().unwrap(), "one\n");
            let rest: Vec<_> = io::stdin().lines().map(|line| line.unwrap()).collect();
            assert_eq!(rest, ["two", "three"]);
        });
    });
    if child::is_other_child() {
        return;
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut actor = Actor::begin(name, "reader", reader.into());
    actor.says("cancelled");
    writer.write_all(b"one\ntwo\nthree").unwrap();
    drop(writer);
    actor.ends();
}

/// C100.
#[test]
fn a_fiber_that_waits_for_input_does_not_keep_the_process() {
    let name = "a_fiber_that_waits_for_input_does_not_keep_the_process";
    child::play(name, "waits", || {
        pirn::run(|| {
            let waits = thread::spawn(|| io::stdin().read(&mut [0]).map(drop));
            thread::yield_now();
            assert!(!waits.is_finished());
        });
    });
    if child::is_other_child() {
        return;
    }
    let (reader, _idle) = std::io::pipe().unwrap();
    Actor::begin(name, "waits", reader.into()).ends();
    let (_typing, end) = terminal();
    Actor::begin(name, "waits", end.into()).ends();
}

#[test]
fn output_waits_for_room_and_the_other_fibers_go_on() {
    let name = "output_waits_for_room_and_the_other_fibers_go_on";
    child::play(name, "writer", || {
        pirn::run(|| {
            let writes = thread::spawn(|| {
                let line = [[b'x'; 99].as_slice(), b"\n"].concat();
                (0..10_000).for_each(|_| io::stdout().write_all(&line).unwrap());
            });
            thread::yield_now();
            assert!(!writes.is_finished(), "the pipe is full");
            writeln!(io::stderr(), "alive").unwrap();
            writes.join().unwrap();
        });
    });
    if child::is_other_child() {
        return;
    }
    let mut child = child::command(name, "writer")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while line.trim_end() != "alive" {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0);
    }
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.matches(&"x".repeat(99)).count(), 10_000);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_ends_no_line_is_written_when_the_process_ends() {
    let name = "what_ends_no_line_is_written_when_the_process_ends";
    for role in ["returns", "exits in a fiber"] {
        // What a runtime has is not freed where one of its fibers ends the process.
        let ended = child::child(name, role, child::LEAKS, || {
            pirn::run(move || {
                write!(io::stdout(), "\nfirst\nthe last part of ").unwrap();
                write!(io::stdout(), "a line").unwrap();
                if role == "exits in a fiber" {
                    std::process::exit(0);
                }
            });
        });
        if let Some(ended) = ended {
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert!(ended.out.ends_with("\nfirst\nthe last part of a line"), "{ended:?}");
        }
    }
}

#[test]
fn output_that_nobody_reads_is_an_error_and_no_signal() {
    let name = "output_that_nobody_reads_is_an_error_and_no_signal";
    child::play(name, "writer", || {
        // SAFETY: the default action, as a host of another language has it.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        pirn::run(|| {
            writeln!(io::stdout(), "\nready").unwrap();
            let mut line = String::new();
            io::stdin().read_line(&mut line).unwrap();
            // A child of another test has the other end as well, until it becomes its program.
            let mut written = Ok(());
            for _ in 0..1000 {
                written = writeln!(io::stdout(), "to nobody");
                if written.is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            let error = written.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            // And it was not kept for a second try.
            io::stdout().flush().unwrap();
            writeln!(io::stderr(), "told").unwrap();
            // The harness would panic on its way out.
            std::process::exit(0);
        });
    });
    if child::is_other_child() {
        return;
    }
    let mut child = child::command(name, "writer")
        .envs(child::LEAKS.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut actor = Actor { out: BufReader::new(child.stdout.take().unwrap()), child };
    actor.says("ready");
    let Actor { mut child, out } = actor;
    drop(out);
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() && errors.contains("told"), "{status} {errors}");
}

#[test]
fn a_lock_keeps_lines_together() {
    let name = "a_lock_keeps_lines_together";
    let ended = child::child(name, "writers", &[], || {
        pirn::run(|| {
            writeln!(io::stdout()).unwrap();
            let writers = (0..3).map(|n| {
                thread::spawn(move || {
                    let mut out = io::stdout().lock();
                    for part in ["warp", "weft"] {
                        writeln!(out, "{n} {part}").unwrap();
                        // Who has it may take it again.
                        io::stdout().flush().unwrap();
                        thread::yield_now();
                    }
                })
            });
            let writers: Vec<_> = writers.collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
    });
    if let Some(ended) = ended {
        let lines: Vec<_> = ended.out.lines().filter(|line| line.contains("w")).collect();
        assert!(
            ended.out.contains("\n0 warp\n0 weft\n1 warp\n1 weft\n2 warp\n2 weft"),
            "{lines:?}"
        );
    }
}
