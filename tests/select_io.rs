//! Arms of `select!` that wait for descriptors, signals and children.

mod sockets;

use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pirn::io::{self, Signal};
use pirn::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use pirn::process::{Child, Command, Stdio};
use pirn::sync::channel;
use pirn::{select, thread};
use sockets::{in_virtual_time, tcp_pair};

fn raise(signal: Signal) {
    // SAFETY: always possible.
    assert_eq!(unsafe { libc::raise(signal.as_raw()) }, 0);
}

/// A child that ends when its input does.
fn patient() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn readiness_wins_and_reads_nothing() {
    pirn::run(|| {
        let (mut one, mut two) = tcp_pair();
        let (_keep, never) = channel::bounded::<()>(0);
        let writes = thread::spawn(move || one.write_all(b"warp").map(|()| one));
        select! {
            readable(two) -> ready => ready.unwrap(),
            recv(never) -> _ => unreachable!(),
        }
        let mut text = [0; 10];
        assert_eq!(two.read(&mut text).unwrap(), 4);
        assert_eq!(&text[..4], b"warp");
        drop(writes.join().unwrap().unwrap());
        // The end can be read as well.
        select! {
            readable(two) -> ready => ready.unwrap(),
            recv(never) -> _ => unreachable!(),
        }
        assert_eq!(two.read(&mut text).unwrap(), 0);
    });
}

#[test]
fn whatever_can_be_waited_for_can_be_selected() {
    in_virtual_time(|| {
        let idle = |ready: std::io::Result<()>| ready.map(|()| true).unwrap();
        macro_rules! never {
            ($arm:ident($what:expr)) => {
                assert!(!select! {
                    $arm($what) -> ready => idle(ready),
                    after(Duration::from_secs(1)) => false,
                })
            };
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        never!(readable(listener));
        never!(readable(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let (one, two) = UnixStream::pair().unwrap();
        never!(readable(one));
        assert!(select! { writable(two) -> ready => idle(ready), default => false });
        let (one, _two) = UnixDatagram::pair().unwrap();
        never!(readable(&one));
        let path = std::env::temp_dir().join(format!("pirn-select-{}", std::process::id()));
        let unix = UnixListener::bind(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        never!(readable(unix));
        let (reader, writer) = io::pipe().unwrap();
        never!(readable(Rc::new(reader)));
        drop(writer);
        let (_reader, writer) = io::pipe().unwrap();
        writer.set_nonblocking(true);
        while (&writer).write(&[0; 4096]).is_ok() {}
        never!(writable(writer));
        let mut child = patient();
        let input = child.stdin.take();
        assert!(select! {
            wait(child) -> _ => false,
            after(Duration::from_secs(1)) => true,
        });
        drop(input);
    });
}

#[test]
fn a_select_that_came_too_late_goes_on_waiting() {
    pirn::run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let reader = Arc::new(reader);
        let (send, receive) = channel::bounded(1);
        // Both are woken by the same edge, and this one is first: it takes all there is.
        let quick = thread::spawn_local({
            let reader = reader.clone();
            move || (&*reader).read(&mut [0; 10]).unwrap()
        });
        thread::yield_now();
        let slow = thread::spawn_local({
            let reader = reader.clone();
            move || {
                select! {
                    readable(reader) -> _ => "the pipe",
                    recv(receive) -> word => word.unwrap(),
                }
            }
        });
        thread::yield_now();
        (&writer).write_all(b"x").unwrap();
        assert_eq!(quick.join().unwrap(), 1);
        thread::yield_now();
        assert!(!slow.is_finished());
        send.send("the channel").unwrap();
        assert_eq!(slow.join().unwrap(), "the channel");
    });
}

#[test]
fn a_deadline_counts_from_the_first_wait() {
    in_virtual_time(|| {
        let (reader, writer) = io::pipe().unwrap();
        let reader = Arc::new(reader);
        let start = pirn::time::Instant::now();
        let selects = thread::spawn({
            let reader = reader.clone();
            move || {
                // Nothing comes but edges: the thief is in front of us each time.
                select! {
                    readable(reader) -> _ => unreachable!(),
                    after(Duration::from_secs(10)) => start.elapsed().as_secs(),
                }
            }
        });
        for _ in 0..4 {
            thread::sleep(Duration::from_secs(2));
            (&writer).write_all(b"x").unwrap();
            (&*reader).read_exact(&mut [0]).unwrap();
        }
        assert_eq!(selects.join().unwrap(), 10);
    });
}

#[test]
fn a_losing_arm_leaves_the_signal_the_child_and_the_data() {
    const SIGNAL: Signal = Signal::RealTime(8);
    pirn::run(|| {
        let signals = io::signals(&[SIGNAL]).unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        let (send, receive) = channel::bounded(1);
        raise(SIGNAL);
        writer.write_all(b"data").unwrap();
        // Until it has ended.
        while child.try_wait().unwrap().is_none() {
            thread::yield_now();
        }
        send.send(()).unwrap();
        let mut wins = [0; 4];
        for _ in 0..100 {
            let winner = select! {
                recv(receive) -> _ => { send.send(()).unwrap(); 0 },
                recv(signals) -> signal => { raise(signal.unwrap()); 1 },
                wait(child) -> status => { assert!(status.unwrap().success()); 2 },
                readable(reader) -> ready => { ready.unwrap(); 3 },
            };
            wins[winner] += 1;
            assert_eq!(receive.len(), 1);
        }
        assert!(wins.iter().all(|&count| count > 0), "each is ready at each time: {wins:?}");
        assert_eq!((signals.try_recv(), signals.try_recv()), (Some(SIGNAL), None));
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "data");
    });
}

#[test]
fn a_signal_and_the_end_of_a_child_wake_a_select() {
    const SIGNAL: Signal = Signal::RealTime(9);
    pirn::run(|| {
        let signals = io::signals(&[SIGNAL]).unwrap();
        let mut child = patient();
        let input = child.stdin.take();
        let (_keep, never) = channel::bounded::<()>(0);
        let selects = thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.len() < 2 {
                select! {
                    // The child's end is there again and again.
                    biased;
                    recv(signals) -> signal => seen.push(signal.unwrap().to_string()),
                    wait(child) -> status => seen.push(status.unwrap().to_string()),
                    recv(never) -> _ => unreachable!(),
                }
            }
            seen
        });
        thread::yield_now();
        raise(SIGNAL);
        thread::yield_now();
        drop(input);
        let mut seen = selects.join().unwrap();
        seen.sort();
        assert_eq!(seen, ["SIGRTMIN+9", "exit status: 0"]);
    });
}

#[test]
fn closing_wakes_a_select_with_the_error() {
    pirn::run(|| {
        let (reader, _writer) = io::pipe().unwrap();
        let reader = Arc::new(reader);
        let selects = thread::spawn({
            let reader = reader.clone();
            move || select! { readable(reader) -> ready => ready.map_err(|error| error.kind()) }
        });
        thread::yield_now();
        reader.close();
        assert_eq!(selects.join().unwrap(), Err(ErrorKind::NotConnected));
        let again = select! { readable(reader) -> ready => ready.unwrap_err().kind() };
        assert_eq!(again, ErrorKind::NotConnected);
    });
}

#[test]
fn cancelling_leaves_no_waiter_behind() {
    pirn::run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = Arc::new(reader);
        let selects = thread::spawn({
            let reader = reader.clone();
            move || select! { readable(reader) -> _ => () }
        });
        thread::yield_now();
        selects.cancel();
        assert!(selects.join().is_err());
        writer.write_all(b"x").unwrap();
        assert_eq!((&*reader).read(&mut [0; 2]).unwrap(), 1);
    });
}

#[test]
fn outside_a_runtime_only_what_is_ready_at_once_can_be_selected() {
    let (reader, mut writer) = io::pipe().unwrap();
    let error = select! { readable(reader) -> ready => ready.unwrap_err() };
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("in a fiber of a runtime"), "{error}");
    writer.write_all(b"x").unwrap();
    select! { readable(reader) -> ready => ready.unwrap() }
}

#[test]
fn a_client_is_served_until_the_signal_comes() {
    const SIGNAL: Signal = Signal::RealTime(10);
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let signals = io::signals(&[SIGNAL]).unwrap();
        let server = thread::spawn(move || {
            let mut served = 0;
            loop {
                select! {
                    readable(listener) -> ready => {
                        ready.unwrap();
                        listener.accept().unwrap().0.write_all(b"hello").unwrap();
                        served += 1;
                    },
                    recv(signals) -> signal => break (served, signal.unwrap()),
                }
            }
        });
        for _ in 0..3 {
            let text = std::io::read_to_string(TcpStream::connect(address).unwrap()).unwrap();
            assert_eq!(text, "hello");
        }
        raise(SIGNAL);
        assert_eq!(server.join().unwrap(), (3, SIGNAL));
    });
}
