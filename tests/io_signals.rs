//! Signals as they are received: `pirn::io::signals`. Each test has signals of its own, since they are
//! the process's.

mod child;
mod sockets;

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use pirn::io::{self, Signal};
use pirn::task::{self, Context, Step};
use pirn::thread;
use sockets::{descriptors, in_virtual_time};

/// Sends a signal to the calling thread, which has taken it when this returns.
fn raise(signal: Signal) {
    // SAFETY: always possible.
    assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0, "{signal}");
}

/// What the system does at a signal.
fn handler(signal: Signal) -> libc::sighandler_t {
    // SAFETY: there is room for the answer.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action), 0);
        action.sa_sigaction
    }
}

#[test]
fn a_fiber_waits_for_a_signal_while_others_run() {
    pirn::run(|| {
        let signals = io::signals(&[Signal::User1, Signal::User2]).unwrap();
        let waits = thread::spawn(move || [signals.recv().unwrap(), signals.recv().unwrap()]);
        thread::yield_now();
        assert!(!waits.is_finished());
        raise(Signal::User2);
        thread::yield_now();
        raise(Signal::User1);
        let mut got = waits.join().unwrap();
        got.sort_by_key(|signal| signal.as_raw());
        assert_eq!(got, [Signal::User1, Signal::User2]);
    });
}

#[test]
fn every_listener_gets_every_signal_it_listens_to_and_no_other() {
    const BOTH: Signal = Signal::Hangup;
    const ONE: Signal = Signal::Urgent;
    let first = io::signals(&[BOTH]).unwrap();
    let second = io::signals(&[BOTH, ONE]).unwrap();
    raise(BOTH);
    raise(ONE);
    assert_eq!((first.try_recv(), first.try_recv()), (Some(BOTH), None));
    assert_eq!(
        [second.try_recv(), second.try_recv(), second.try_recv()],
        [Some(BOTH), Some(ONE), None]
    );
}

#[test]
fn a_signal_that_comes_again_before_it_is_received_is_received_once() {
    let signals = io::signals(&[Signal::WindowChange]).unwrap();
    for _ in 0..3 {
        raise(Signal::WindowChange);
    }
    assert_eq!(signals.recv().unwrap(), Signal::WindowChange);
    assert_eq!(signals.recv_timeout(Duration::from_millis(1)).unwrap(), None);
    raise(Signal::WindowChange);
    assert_eq!(signals.try_recv(), Some(Signal::WindowChange));
}

#[test]
fn a_signal_does_what_it_did_before_when_the_last_listener_is_gone() {
    const SIGNAL: Signal = Signal::Io;
    let before = handler(SIGNAL);
    let (one, two) = (io::signals(&[SIGNAL]).unwrap(), io::signals(&[SIGNAL]).unwrap());
    assert_ne!(handler(SIGNAL), before);
    drop(one);
    raise(SIGNAL);
    assert_eq!(two.try_recv(), Some(SIGNAL));
    drop(two);
    assert_eq!(handler(SIGNAL), before);
    // A listener that comes later knows nothing of what was.
    let third = io::signals(&[SIGNAL]).unwrap();
    assert_eq!(third.try_recv(), None);
}

#[test]
fn a_handler_that_was_there_is_called_and_comes_back() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: i32) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    const SIGNAL: Signal = Signal::Profile;
    let count: extern "C" fn(i32) = count;
    // SAFETY: the handler only counts.
    unsafe { libc::signal(SIGNAL.as_raw(), count as libc::sighandler_t) };
    let signals = io::signals(&[SIGNAL]).unwrap();
    raise(SIGNAL);
    assert_eq!((CALLS.load(Ordering::Relaxed), signals.try_recv()), (1, Some(SIGNAL)));
    drop(signals);
    raise(SIGNAL);
    assert_eq!((CALLS.load(Ordering::Relaxed), handler(SIGNAL)), (2, count as libc::sighandler_t));
}

#[test]
fn a_handler_that_was_put_over_ours_stays() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: i32) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    const SIGNAL: Signal = Signal::VirtualAlarm;
    let count: extern "C" fn(i32) = count;
    let signals = io::signals(&[SIGNAL]).unwrap();
    // SAFETY: the handler only counts.
    unsafe { libc::signal(SIGNAL.as_raw(), count as libc::sighandler_t) };
    let further = io::signals(&[SIGNAL]).unwrap();
    drop((signals, further));
    raise(SIGNAL);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

#[test]
fn signals_that_nobody_can_listen_to_are_named_in_the_error() {
    use Signal::{Abort, Arithmetic, Bus, Illegal, Kill, Segmentation, Stop, SystemCall, Trap};
    for signal in [Kill, Stop, Segmentation, Bus, Arithmetic, Illegal, Trap, SystemCall, Abort] {
        let before = handler(signal);
        let error = io::signals(&[Signal::Alarm, signal]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot listen to {signal}: ")), "{text}");
        assert!(text.contains("SIG"), "{text}");
        assert_eq!(handler(signal), before);
    }
    let error = io::signals(&[Signal::RealTime(200)]).unwrap_err();
    assert_eq!(error.to_string(), "cannot listen to SIGRTMIN+200: there is none");
    assert_eq!(io::signals(&[]).unwrap_err().kind(), ErrorKind::InvalidInput);
    // Nothing was changed by half of a list.
    assert_eq!(handler(Signal::Alarm), libc::SIG_DFL);
}

#[test]
fn numbers_and_signals_stand_for_one_another() {
    let mut names = std::collections::HashSet::new();
    for number in -1..70 {
        if let Some(signal) = Signal::from_raw(number) {
            assert_eq!(signal.as_raw(), number);
            assert!(names.insert(signal.to_string()), "{signal} twice");
        }
    }
    assert_eq!(Signal::from_raw(0), None);
    assert_eq!(Signal::from_raw(1), Some(Signal::Hangup));
    assert!(names.len() >= 31 + 30, "{names:?}");
}

#[test]
fn a_time_limit_counts_by_the_clock_of_the_runtime() {
    in_virtual_time(|| {
        let signals = io::signals(&[Signal::Power]).unwrap();
        let start = pirn::time::Instant::now();
        assert_eq!(signals.recv_timeout(Duration::from_secs(3600)).unwrap(), None);
        assert_eq!(start.elapsed().as_secs(), 3600);
        raise(Signal::Power);
        assert_eq!(signals.recv_timeout(Duration::ZERO).unwrap(), Some(Signal::Power));
    });
}

#[test]
fn a_fiber_that_is_cancelled_or_closed_out_takes_no_signal_along() {
    pirn::run(|| {
        let signals = Rc::new(io::signals(&[Signal::RealTime(7)]).unwrap());
        let waits = |signals: &Rc<io::Signals>| {
            let signals = signals.clone();
            thread::spawn_local(move || signals.recv().map_err(|error| error.kind()))
        };
        let cancelled = waits(&signals);
        thread::yield_now();
        cancelled.cancel();
        raise(Signal::RealTime(7));
        assert!(cancelled.join().is_err());
        assert_eq!(signals.try_recv(), Some(Signal::RealTime(7)));
        let closed = waits(&signals);
        thread::yield_now();
        signals.close();
        assert_eq!(closed.join().unwrap(), Err(ErrorKind::NotConnected));
        assert!(signals.iter().next().is_none());
    });
}

#[test]
fn threads_outside_a_runtime_share_a_listener_and_none_misses_a_signal() {
    const ONE: Signal = Signal::RealTime(3);
    const OTHER: Signal = Signal::RealTime(4);
    let signals = Arc::new(io::signals(&[ONE, OTHER]).unwrap());
    for _ in 0..50 {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn({
                    let signals = signals.clone();
                    move || signals.recv().unwrap()
                })
            })
            .collect();
        raise(ONE);
        raise(OTHER);
        let mut got: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        got.sort_by_key(|signal| signal.as_raw());
        assert_eq!(got, [ONE, OTHER]);
    }
}

#[test]
fn a_task_without_a_stack_receives_signals() {
    const SIGNAL: Signal = Signal::RealTime(5);
    pirn::run(|| {
        let signals = io::signals(&[SIGNAL]).unwrap();
        let waits =
            task::spawn(task::from_fn(move |cx: &mut Context<'_>| match signals.poll_recv(cx) {
                Poll::Ready(signal) => Step::Done(signal.unwrap()),
                Poll::Pending => Step::Parked,
            }));
        thread::yield_now();
        raise(SIGNAL);
        assert_eq!(waits.join().unwrap(), SIGNAL);
    });
}

#[test]
fn listeners_come_and_go_without_leaving_descriptors() {
    child::isolated("listeners_come_and_go_without_leaving_descriptors", &[], || {
        if !std::path::Path::new("/proc/self/fd").exists() {
            return println!("SKIPPED: no /proc/self/fd to count in");
        }
        pirn::run(|| {
            let once = || {
                let signals = io::signals(&[Signal::User1]).unwrap();
                assert_eq!(signals.recv_timeout(Duration::from_nanos(1)).unwrap(), None);
                raise(Signal::User1);
                assert_eq!(signals.recv().unwrap(), Signal::User1);
            };
            once();
            let before = descriptors();
            (0..10).for_each(|_| once());
            assert_eq!(descriptors(), before);
        });
    });
}

#[test]
fn the_child_of_a_fork_gets_its_own_signals_and_the_parent_none_of_them() {
    let name = "the_child_of_a_fork_gets_its_own_signals_and_the_parent_none_of_them";
    child::isolated(name, &[], || {
        let signals = io::signals(&[Signal::User1, Signal::User2]).unwrap();
        raise(Signal::User2);
        // SAFETY: this thread is the only one that uses pirn, and the child exits without unwinding.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let good = signals.try_recv().is_none() && {
                raise(Signal::User1);
                let got = pirn::run(|| {
                    thread::spawn(move || (signals.recv().unwrap(), signals.try_recv()))
                        .join()
                        .unwrap()
                });
                got == (Signal::User1, None)
            };
            // SAFETY: ends the child.
            unsafe { libc::_exit(if good { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the child is ours.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
        assert_eq!((signals.recv().unwrap(), signals.try_recv()), (Signal::User2, None));
        // What the child has taken does not ring here, nor silence us.
        raise(Signal::User1);
        assert_eq!(signals.recv().unwrap(), Signal::User1);
    });
}

#[test]
fn an_interrupt_from_another_process_is_received() {
    child::isolated("an_interrupt_from_another_process_is_received", &[], || {
        pirn::run(|| {
            let signals = io::signals(&[Signal::Interrupt]).unwrap();
            let pid = std::process::id().to_string();
            let kill = std::process::Command::new("sh").args(["-c", "kill -INT $0", &pid]).status();
            assert!(kill.unwrap().success());
            assert_eq!(signals.recv().unwrap(), Signal::Interrupt);
        });
    });
}

#[test]
fn reports_say_who_waits_for_a_signal() {
    pirn::run(|| {
        let signals = io::signals(&[Signal::RealTime(6)]).unwrap();
        let fd = signals.as_raw_fd();
        let waits = thread::spawn(move || signals.recv().map(drop));
        thread::yield_now();
        let state = format!("waits to receive a signal from Signals fd {fd}");
        assert_eq!(pirn::fibers(false)[1].state(), state);
        waits.cancel();
        assert!(waits.join().is_err());
    });
}
