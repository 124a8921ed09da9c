//! Sockets and `fork`: what a child does is nothing to its parent's reactor.

mod child;
mod sockets;

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use child::isolated;
use pirn::net::Shutdown;
use pirn::thread;
use sockets::tcp_pair;

/// Forks, and has the child exit with what this returns. The child's number.
fn fork(body: impl FnOnce() -> i32) -> libc::pid_t {
    // SAFETY: the process has one thread that does anything.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(101);
        // SAFETY: ends this process.
        unsafe { libc::_exit(code) };
    }
    pid
}

/// How a child ended.
fn wait(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    libc::WEXITSTATUS(status)
}

/// C151.
#[test]
fn forks_in_the_midst_of_an_exchange_disturb_nothing() {
    isolated("forks_in_the_midst_of_an_exchange_disturb_nothing", &[], || {
        pirn::run(|| {
            let (one, two) = tcp_pair();
            let echo = thread::spawn(move || io::copy(&mut &two, &mut &two).unwrap());
            for round in 0..1_000_u32 {
                let child = fork(|| 7);
                (&one).write_all(&round.to_le_bytes()).unwrap();
                let mut buf = [0; 4];
                (&one).read_exact(&mut buf).unwrap();
                assert_eq!(u32::from_le_bytes(buf), round);
                assert_eq!(wait(child), 7);
            }
            one.shutdown(Shutdown::Write).unwrap();
            assert_eq!(echo.join().unwrap(), 4_000);
        });
    });
}

#[test]
fn a_child_that_closes_its_copies_and_runs_a_runtime_of_its_own_disturbs_nothing() {
    let test = "a_child_that_closes_its_copies_and_runs_a_runtime_of_its_own_disturbs_nothing";
    isolated(test, &[], || {
        pirn::run(|| {
            let (one, two) = tcp_pair();
            // The reactor knows it.
            one.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            assert_eq!((&one).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            one.set_read_timeout(None).unwrap();
            let mut copies = Some((one, two));
            let child = fork(|| {
                drop(copies.take());
                pirn::run(|| {
                    let (three, four) = tcp_pair();
                    let echo = thread::spawn(move || io::copy(&mut &four, &mut &four).unwrap());
                    (&three).write_all(b"child").unwrap();
                    (&three).read_exact(&mut [0; 5]).unwrap();
                    three.shutdown(Shutdown::Write).unwrap();
                    i32::try_from(echo.join().unwrap()).unwrap()
                })
            });
            assert_eq!(wait(child), 5);
            let (one, two) = copies.unwrap();
            let reader = thread::spawn(move || (&one).read_exact(&mut [0; 6]).unwrap());
            thread::yield_now();
            (&two).write_all(b"parent").unwrap();
            reader.join().unwrap();
        });
    });
}
