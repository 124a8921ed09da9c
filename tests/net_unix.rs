//! Unix sockets: as TCP, within the machine.

mod child;
mod sockets;

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use child::isolated;
use pirn::net::{Shutdown, UnixListener, UnixStream};
use pirn::task::{self, Step};
use pirn::thread;
use pirn::time::{self, Instant};
use sockets::{TempDir, descriptors, in_virtual_time};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn connections_carry_both_ways_until_each_side_has_ended() {
    let dir = TempDir::new("streams");
    pirn::run(|| {
        let listener = UnixListener::bind(dir.path("listener")).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*dir.path("listener")));
        let server = thread::spawn(move || {
            let (stream, from) = listener.accept().unwrap();
            assert!(from.is_unnamed());
            io::copy(&mut &stream, &mut &stream).unwrap()
        });
        let stream = UnixStream::connect(dir.path("listener")).unwrap();
        assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(&*dir.path("listener")));
        thread::scope(|s| {
            let stream = &stream;
            s.spawn(move || {
                (&*stream).write_all(&vec![4; 3 << 20]).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            (&*stream).read_to_end(&mut got).unwrap();
            assert!(got.len() == 3 << 20 && got.iter().all(|&byte| byte == 4));
        });
        assert_eq!(server.join().unwrap(), 3 << 20);
    });
}

#[test]
fn abstract_names_and_names_that_fill_all_the_room_come_back_as_they_were() {
    pirn::run(|| {
        let number = std::process::id();
        for name in [format!("pirn {number}"), format!("{number}\0{}", "x".repeat(90))] {
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            let listener = UnixListener::bind_addr(&address).unwrap();
            let client = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
            let (server, from) = listener.accept().unwrap();
            assert!(from.is_unnamed());
            let got = server.local_addr().unwrap();
            assert_eq!(got.as_abstract_name(), Some(name.as_bytes()));
            drop(client);
            UnixStream::connect_addr(&address).unwrap();
        }
        let dir = TempDir::new("named");
        let path = dir.path("client");
        let listener = UnixListener::bind(dir.path("listener")).unwrap();
        // A client with an address of its own.
        let fd = sockets::bound_unix_client(&path, &dir.path("listener"));
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.as_pathname(), Some(&*path));
        drop(fd);
    });
}

#[test]
fn a_read_that_stops_at_a_border_is_followed_by_one_that_reads_on() {
    // Data that come with a descriptor are not read together with others: the reads are short, and
    // the rest was there before.
    pirn::run(|| {
        let (one, two) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            let mut buf = [0; 64];
            while got.len() < 12 {
                let read = (&two).read(&mut buf).unwrap();
                got.extend_from_slice(&buf[..read]);
            }
            got
        });
        thread::yield_now();
        (&one).write_all(b"warp").unwrap();
        sockets::send_with_descriptor(one.as_raw_fd(), b"weft");
        (&one).write_all(b"reed").unwrap();
        assert_eq!(reader.join().unwrap(), b"warpweftreed");
    });
}

#[test]
fn time_limits_and_cancellation_hold_for_unix_sockets() {
    let dir = TempDir::new("limits");
    in_virtual_time(|| {
        let (one, _two) = UnixStream::pair().unwrap();
        one.set_read_timeout(Some(HOUR)).unwrap();
        let start = Instant::now();
        assert_eq!((&one).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), HOUR);
        one.set_write_timeout(Some(HOUR)).unwrap();
        assert_eq!((&one).write_all(&vec![0; 9 << 20]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let listener = UnixListener::bind(dir.path("nobody")).unwrap();
        assert!(time::timeout(HOUR, || listener.accept()).is_err());
        let acceptor = thread::spawn(move || listener.accept().map(drop));
        thread::yield_now();
        acceptor.cancel();
        assert!(acceptor.join().is_err());
        assert_eq!(
            UnixStream::connect(dir.path("nobody")).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
    });
}

#[test]
fn a_listener_whose_queue_is_full_is_waited_for() {
    isolated("a_listener_whose_queue_is_full_is_waited_for", &[], || {
        let dir = TempDir::new("full");
        sockets::raise_descriptor_limit(12_000);
        pirn::run(|| {
            let listener = UnixListener::bind(dir.path("listener")).unwrap();
            sockets::set_backlog(listener.as_raw_fd(), 2);
            let clients: Vec<_> = (0..10)
                .map(|_| {
                    let path = dir.path("listener");
                    thread::spawn(move || UnixStream::connect(path).unwrap())
                })
                .collect();
            thread::sleep(Duration::from_millis(1));
            let served: Vec<_> = (0..10).map(|_| listener.accept().unwrap()).collect();
            clients.into_iter().for_each(|client| drop(client.join().unwrap()));
            drop(served);
            let before = descriptors();
            // One that is given up leaves nothing.
            let patient: Vec<_> =
                (0..3).map(|_| UnixStream::connect(dir.path("listener"))).collect();
            let connect = || UnixStream::connect(dir.path("listener"));
            assert!(time::timeout(Duration::from_millis(5), connect).is_err());
            drop(patient);
            assert_eq!(descriptors(), before);
        });
    });
}

#[test]
fn a_close_wakes_who_reads_and_who_accepts() {
    let dir = TempDir::new("close");
    pirn::run(|| {
        let listener = Arc::new(UnixListener::bind(dir.path("listener")).unwrap());
        let (one, _two) = UnixStream::pair().unwrap();
        let one = Arc::new(one);
        let acceptor = thread::spawn({
            let listener = listener.clone();
            move || listener.accept().map(drop)
        });
        let reader = thread::spawn({
            let one = one.clone();
            move || (&*one).read(&mut [0; 8])
        });
        thread::yield_now();
        listener.close();
        one.close();
        assert_eq!(acceptor.join().unwrap().unwrap_err().kind(), ErrorKind::NotConnected);
        assert_eq!(reader.join().unwrap().unwrap_err().kind(), ErrorKind::NotConnected);
        let names = format!("{listener:?} {one:?}");
        assert!(names.contains("UnixListener") && names.contains("UnixStream"), "{names}");
    });
}

#[test]
fn tasks_without_a_stack_use_unix_sockets() {
    let dir = TempDir::new("tasks");
    pirn::run(|| {
        let listener = UnixListener::bind(dir.path("listener")).unwrap();
        let mut stream: Option<UnixStream> = None;
        let server = task::spawn(task::from_fn(move |cx| {
            loop {
                let Some(stream) = &stream else {
                    match listener.poll_accept(cx) {
                        Poll::Ready(accepted) => stream = Some(accepted.unwrap().0),
                        Poll::Pending => return Step::Parked,
                    }
                    continue;
                };
                let mut buf = [0; 8];
                match stream.poll_read(cx, &mut buf) {
                    Poll::Ready(read) => {
                        let read = read.unwrap();
                        assert!(stream.poll_write(cx, &buf[..read]).is_ready());
                        return Step::Done(read);
                    }
                    Poll::Pending => return Step::Parked,
                }
            }
        }));
        let stream = UnixStream::connect(dir.path("listener")).unwrap();
        assert_eq!(
            (&stream).write_vectored(&[IoSlice::new(b"he"), IoSlice::new(b"ddle")]).unwrap(),
            6
        );
        let mut text = String::new();
        (&stream).read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), server.join().unwrap()), ("heddle", 6));
    });
}

#[test]
fn reports_name_unix_sockets_by_their_paths() {
    let dir = TempDir::new("report");
    pirn::run(|| {
        let path = dir.path("listener");
        let listener = UnixListener::bind(&path).unwrap();
        let acceptor = thread::spawn_local(move || listener.accept().map(drop));
        let (one, two) = UnixStream::pair().unwrap();
        let reader = thread::spawn_local(move || (&one).read(&mut [0; 8]));
        thread::yield_now();
        let states: Vec<_> =
            pirn::fibers(false)[1..].iter().map(|f| f.state().to_owned()).collect();
        assert!(states[0].starts_with("waits to accept on UnixListener fd "), "{states:?}");
        assert!(states[0].ends_with(&format!(" ({})", path.display())), "{states:?}");
        // Without a name.
        assert!(states[1].starts_with("waits to read from UnixStream fd "), "{states:?}");
        assert!(states[1].ends_with(|last: char| last.is_ascii_digit()), "{states:?}");
        acceptor.cancel();
        drop(two);
        assert_eq!(reader.join().unwrap().unwrap(), 0);
    });
}
