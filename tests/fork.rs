//! After `fork` the child has none of the parent's runtimes, and says so instead of hanging.

mod child;

use std::cell::Cell;
use std::panic;
use std::process::Command;
use std::rc::Rc;

use child::child;
use pirn::thread;
use pirn::time::Duration;

/// Forks; in the child runs `body` and exits with what it returns. Returns how the child ended.
fn fork(body: impl FnOnce() -> i32) -> libc::c_int {
    // SAFETY: the tests' children have one thread that does anything.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // What goes wrong must not go on as the parent would.
        let code = panic::catch_unwind(panic::AssertUnwindSafe(body)).unwrap_or(101);
        // SAFETY: ends this process.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn exited_with(status: libc::c_int, code: i32) -> bool {
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == code
}

fn aborted(status: libc::c_int) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT
}

/// A small runtime of its own; 42.
fn new_runtime() -> i32 {
    pirn::run(|| {
        let children: Vec<_> = (0..42)
            .map(|_| {
                thread::spawn(|| {
                    thread::yield_now();
                    thread::sleep(Duration::from_micros(10));
                    1
                })
            })
            .collect();
        children.into_iter().map(|child| child.join().unwrap()).sum()
    })
}

/// Runs in a child process of the test: `body` is a fiber among others, and forks.
fn forking(test: &str, body: fn() -> libc::c_int, ended_as_promised: fn(libc::c_int) -> bool) {
    let Some(result) = child(test, "alone", &[], || {
        let ended = Rc::new(Cell::new(0));
        let status = pirn::run(|| {
            let others: Vec<_> = (0..10)
                .map(|_| {
                    let ended = ended.clone();
                    thread::spawn_local(move || {
                        thread::sleep(Duration::from_millis(2));
                        ended.set(ended.get() + 1);
                    })
                })
                .collect();
            thread::yield_now();
            let status = thread::spawn(body).join().unwrap();
            // The parent goes on.
            others.into_iter().for_each(|other| other.join().unwrap());
            status
        });
        assert_eq!(ended.get(), 10);
        assert!(ended_as_promised(status), "{status:#x}");
        println!("as promised");
    }) else {
        return;
    };
    assert!(result.code == Some(0) && result.out.contains("as promised"), "{result:?}");
    if ended_as_promised(libc::SIGABRT) {
        assert!(result.err.contains("pirn: this runtime was forked"), "{result:?}");
    }
}

#[test]
fn a_fiber_that_yields_in_a_forked_child_aborts_with_a_message() {
    let yields = || {
        fork(|| {
            thread::yield_now();
            0
        })
    };
    forking("a_fiber_that_yields_in_a_forked_child_aborts_with_a_message", yields, aborted);
}

#[test]
fn a_fiber_that_waits_in_a_forked_child_aborts_with_a_message() {
    let waits = || {
        fork(|| {
            thread::sleep(Duration::from_millis(1));
            0
        })
    };
    forking("a_fiber_that_waits_in_a_forked_child_aborts_with_a_message", waits, aborted);
}

#[test]
fn a_fiber_that_waits_while_it_panics_in_a_forked_child_aborts_with_a_message() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            thread::park();
        }
    }
    let waits = || {
        fork(|| {
            let _waits = Waits;
            panic::resume_unwind(Box::new(()));
        })
    };
    let test = "a_fiber_that_waits_while_it_panics_in_a_forked_child_aborts_with_a_message";
    forking(test, waits, aborted);
}

#[test]
fn a_fiber_that_ends_in_a_forked_child_aborts_with_a_message() {
    let ends = || {
        // SAFETY: the child ends with this fiber.
        match unsafe { libc::fork() } {
            0 => 0,
            pid => {
                let mut status = 0;
                // SAFETY: our own child.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                status
            }
        }
    };
    forking("a_fiber_that_ends_in_a_forked_child_aborts_with_a_message", ends, aborted);
}

#[test]
fn a_main_fiber_that_returns_in_a_forked_child_unwinds_nobody() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            println!("unwound in process {}", std::process::id());
        }
    }
    let test = "a_main_fiber_that_returns_in_a_forked_child_unwinds_nobody";
    let Some(result) = child(test, "alone", &[], || {
        pirn::run(|| {
            thread::spawn(|| {
                let _loud = Loud;
                thread::park();
            });
            thread::yield_now();
            // SAFETY: as above.
            let pid = unsafe { libc::fork() };
            if pid != 0 {
                let mut status = 0;
                // SAFETY: our own child.
                assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
                assert!(aborted(status), "{status:#x}");
            }
        });
    }) else {
        return;
    };
    assert_eq!(result.code, Some(0), "{result:?}");
    assert_eq!(result.out.matches("unwound in process").count(), 1, "{result:?}");
}

#[test]
fn a_forked_child_runs_a_new_runtime_on_the_fiber_that_forked() {
    let runs = || {
        fork(|| {
            let inner = new_runtime();
            // Afterwards it is again what it was.
            assert_eq!(new_runtime(), inner);
            inner
        })
    };
    let test = "a_forked_child_runs_a_new_runtime_on_the_fiber_that_forked";
    forking(test, runs, |status| exited_with(status, 42));
}

#[test]
fn a_child_forked_outside_a_carrier_runs_a_new_runtime() {
    child::isolated("a_child_forked_outside_a_carrier_runs_a_new_runtime", &[], || {
        assert_eq!(new_runtime(), 42);
        let status = fork(new_runtime);
        assert!(exited_with(status, 42), "{status:#x}");
        assert_eq!(new_runtime(), 42);
    });
}

#[test]
fn for_a_forked_child_the_fibers_of_its_parent_have_been_cancelled() {
    let test = "for_a_forked_child_the_fibers_of_its_parent_have_been_cancelled";
    child::isolated(test, &[], || {
        let runtime = pirn::Runtime::new().unwrap();
        let handle = runtime.handle();
        let started = handle.spawn(|| 1);
        let other = std::thread::spawn(move || {
            let status = fork(|| {
                let started = started.join().unwrap_err();
                assert!(started.is::<thread::Cancelled>());
                let late = handle.spawn(|| 2).join().unwrap_err();
                assert!(late.is::<thread::Cancelled>());
                let in_new = pirn::run(move || handle.spawn(|| 3).join().unwrap_err());
                i32::from(in_new.is::<thread::Cancelled>()) * 7
            });
            assert!(exited_with(status, 7), "{status:#x}");
        });
        other.join().unwrap();
        runtime.run(|| thread::sleep(Duration::from_millis(1))).unwrap();
    });
}

#[test]
fn a_command_run_by_a_fiber_is_like_any_other() {
    pirn::run(|| {
        let other = thread::spawn(|| (0..100).for_each(|_| thread::yield_now()));
        thread::yield_now();
        let status = Command::new("/bin/sh").args(["-c", "exit 5"]).status().unwrap();
        assert_eq!(status.code(), Some(5));
        other.join().unwrap();
    });
}

#[test]
fn forks_while_other_threads_run_their_runtimes_leave_no_lock_taken() {
    let test = "forks_while_other_threads_run_their_runtimes_leave_no_lock_taken";
    // Runtimes that start no threads: std takes a lock of its own at the begin and the end of each, which
    // a fork just then leaves taken in the child, for good.
    child::isolated(test, &[("PIRN_CARRIERS", "1")], || {
        if !child::is_native() {
            println!("SKIPPED: the emulator's or sanitizer's own locks do not survive a fork");
            return;
        }
        // The first runtime of a process installs the panic hook, under a lock of std's.
        assert_eq!(new_runtime(), 42);
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let busy = [(); 2].map(|()| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    assert_eq!(new_runtime(), 42);
                    // New regions, so that the depot is busy.
                    pirn::stack::trim();
                }
            })
        });
        for _ in 0..100 {
            let status = fork(|| new_runtime() + new_runtime());
            assert!(exited_with(status, 84), "{status:#x}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
