//! Child processes: `pirn::process`.

mod child;
mod sockets;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::task::Poll;
use std::time::Duration;

use pirn::process::{Child, Command, Stdio};
use pirn::task::{self, Context, Step};
use pirn::thread;
use sockets::{descriptors, until};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A child that ends when its input does.
fn patient() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn one_fiber_waits_for_a_child_and_the_others_run() {
    pirn::run(|| {
        let mut child = patient();
        let input = child.stdin.take().unwrap();
        let waits = thread::spawn(move || child.wait().unwrap());
        thread::yield_now();
        assert!(!waits.is_finished());
        drop(input);
        assert!(waits.join().unwrap().success());
    });
}

#[test]
fn the_status_says_how_a_child_has_ended_and_stays() {
    pirn::run(|| {
        let mut child = shell("exit 7").spawn().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
        assert_eq!(shell("exit 3").status().unwrap().code(), Some(3));
        let mut child = patient();
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        child.kill().unwrap();
    });
}

#[test]
fn a_program_that_is_missing_is_an_error() {
    if child::is_emulated() {
        // Its `vfork` is a `fork`, after which nobody hears of the error.
        let _ = writeln!(std::io::stderr(), "SKIPPED: an emulator does not tell of a failed exec");
        return;
    }
    let missing = pirn::run(|| Command::new("/nowhere/at all").spawn().unwrap_err());
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_wait_with_a_limit_leaves_the_child_alone() {
    pirn::run(|| {
        let mut child = Command::new("sleep").arg("3600").spawn().unwrap();
        assert_eq!(child.wait_timeout(Duration::from_millis(1)).unwrap(), None);
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        let status = child.wait_timeout(Duration::MAX).unwrap().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
    });
}

#[test]
fn waiting_closes_what_the_child_reads() {
    pirn::run(|| assert!(patient().wait().unwrap().success()));
}

#[test]
fn much_output_on_both_pipes_and_much_input_do_not_lock_up() {
    fn check(spawn: impl FnOnce(Box<dyn FnOnce() + Send>)) {
        let script = "cat; i=0; while [ $i -lt 4000 ]; do \
            echo 'a line of errors that is fifty bytes long or less' >&2; \
            echo 'and one of output, which takes its own pipe, too'; i=$((i+1)); done";
        let mut child = shell(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        spawn(Box::new(move || input.write_all(&vec![b'x'; 1 << 20]).unwrap()));
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'x').count(), 1 << 20);
        assert_eq!(output.stdout.len(), (1 << 20) + 4000 * 49);
        assert_eq!(output.stderr.len(), 4000 * 50);
    }
    pirn::run(|| check(|writes| drop(thread::spawn(writes))));
    // And on a thread without a runtime.
    check(|writes| drop(std::thread::spawn(writes)));
}

#[test]
fn output_is_collected_and_later_calls_find_the_streams_as_they_were() {
    pirn::run(|| {
        let mut command = shell("echo out; echo err >&2; read line; exit $?");
        for _ in 0..2 {
            let output = command.output().unwrap();
            assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
            assert_eq!(output.status.code(), Some(1), "there is nothing to read");
        }
        let mut spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        assert!(spawned.stderr.is_none() && spawned.stdout.is_none());
        spawned.wait().unwrap();
    });
}

#[test]
fn a_conversation_with_a_child_waits_for_each_answer() {
    pirn::run(|| {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut to = child.stdin.take().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        for word in ["warp", "weft"] {
            writeln!(to, "{word}").unwrap();
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), word);
        }
        from.get_ref().set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(from.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(to);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn arguments_environment_and_directory_reach_the_child() {
    pirn::run(|| {
        let mut command = shell("echo \"$0 $1 $WORD ${GONE-none} $(pwd)\"");
        command.args(["zero", "one"]).env("WORD", "heddle").env("GONE", "x").env_remove("GONE");
        command.current_dir("/");
        assert_eq!(command.get_program(), "sh");
        assert_eq!(command.get_args().count(), 4);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "zero one heddle none /\n");
        let argument_0 = shell("exit 0").arg0("another").output().unwrap();
        assert!(argument_0.status.success());
    });
}

#[test]
fn a_task_without_a_stack_waits_for_a_child() {
    pirn::run(|| {
        let mut child = patient();
        let input = child.stdin.take().unwrap();
        let waits =
            task::spawn(task::from_fn(move |cx: &mut Context<'_>| match child.poll_wait(cx) {
                Poll::Ready(status) => Step::Done(status.unwrap()),
                Poll::Pending => Step::Parked,
            }));
        thread::yield_now();
        drop(input);
        assert!(waits.join().unwrap().success());
    });
}

#[test]
fn a_fiber_that_is_cancelled_leaves_its_child_running() {
    pirn::run(|| {
        let mut child = patient();
        let pid = child.id().cast_signed();
        let input = child.stdin.take();
        let waits = thread::spawn(move || child.wait().map(drop));
        thread::yield_now();
        waits.cancel();
        assert!(waits.join().is_err());
        // SAFETY: asks only.
        assert_eq!(unsafe { libc::kill(pid, 0) }, 0);
        drop(input);
        // It does not stay a zombie.
        until(|| {
            drop(shell("exit 0").spawn().unwrap());
            // SAFETY: asks only.
            unsafe { libc::kill(pid, 0) != 0 }
        });
    });
}

/// C151.
#[test]
fn children_inherit_none_of_our_descriptors_and_leave_none() {
    let name = "children_inherit_none_of_our_descriptors_and_leave_none";
    child::isolated(name, &[], || {
        if !std::path::Path::new("/proc/self/fd").exists() {
            return println!("SKIPPED: no /proc/self/fd to look at");
        }
        pirn::run(|| {
            let signals = pirn::io::signals(&[pirn::io::Signal::User1]).unwrap();
            let (reader, writer) = pirn::io::pipe().unwrap();
            let own_pipe =
                std::fs::read_link(format!("/proc/self/fd/{}", reader.as_raw_fd())).unwrap();
            let listener = pirn::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut other = patient();
            // It would end, soon enough to be seen, if the wait closed this.
            let input = other.stdin.take();
            assert_eq!(other.wait_timeout(Duration::from_nanos(1)).unwrap(), None);
            let once = || {
                let output = shell("ls -l /proc/self/fd").output().unwrap();
                let text = String::from_utf8(output.stdout).unwrap();
                assert!(text.contains(" 0 ->") && text.contains(" 1 ->"), "{text}");
                for ours in ["anon_inode", "socket:"] {
                    assert!(!text.contains(ours), "{text}");
                }
                assert!(!text.contains(own_pipe.to_str().unwrap()), "{text}");
            };
            once();
            let before = descriptors();
            (0..5).for_each(|_| once());
            assert_eq!(descriptors(), before);
            drop((signals, reader, writer, listener, input));
        });
    });
}

#[test]
fn reports_say_who_waits_for_a_child() {
    pirn::run(|| {
        let mut child = patient();
        let input = child.stdin.take();
        let waits = thread::spawn(move || child.wait().map(drop));
        thread::yield_now();
        let state = pirn::fibers(false)[1].state().to_string();
        assert!(state.starts_with("waits for a child process to end: its fd "), "{state}");
        drop(input);
        waits.join().unwrap().unwrap();
    });
}
