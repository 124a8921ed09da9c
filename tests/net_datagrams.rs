//! Datagrams, over UDP and within the machine.

mod child;
mod sockets;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pirn::net::{BindOptions, Shutdown, UdpSocket, UnixDatagram};
use pirn::task::{self, Step};
use pirn::thread;
use pirn::time::Instant;
use sockets::{TempDir, in_virtual_time};

const HOUR: Duration = Duration::from_secs(3600);

/// Two sockets of which each knows the other.
fn udp_pair() -> (UdpSocket, UdpSocket) {
    let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    one.connect(two.local_addr().unwrap()).unwrap();
    two.connect(one.local_addr().unwrap()).unwrap();
    (one, two)
}

/// C098: what three datagrams of which two are empty do, whatever carries them.
fn empty_ones_count(
    send: impl Fn(&[u8]) -> io::Result<usize> + 'static,
    receive: impl Fn(&mut [u8]) -> io::Result<usize> + 'static,
) {
    pirn::run(move || {
        let receiver = thread::spawn_local(move || {
            let mut lengths = Vec::new();
            let mut buf = [0; 16];
            for _ in 0..3 {
                lengths.push(receive(&mut buf).unwrap());
            }
            // A buffer that is too small cuts one datagram, and no other; an empty one takes one.
            lengths.push(receive(&mut buf[..2]).unwrap());
            lengths.push(receive(&mut []).unwrap());
            lengths.push(receive(&mut buf).unwrap());
            assert_eq!(buf[0], b'9');
            lengths
        });
        thread::yield_now();
        for datagram in ["", "1", "", "345", "678", "9"] {
            assert_eq!(send(datagram.as_bytes()).unwrap(), datagram.len());
        }
        assert_eq!(receiver.join().unwrap(), [0, 1, 0, 2, 0, 1]);
    });
}

#[test]
fn empty_datagrams_are_datagrams_on_a_connected_udp_socket() {
    let (one, two) = udp_pair();
    empty_ones_count(move |bytes| one.send(bytes), move |buf| two.recv(buf));
}

#[test]
fn empty_datagrams_are_datagrams_on_a_udp_socket_that_is_not_connected() {
    let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let (from, to) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    let receive = move |buf: &mut [u8]| {
        let (length, sender) = two.recv_from(buf)?;
        assert_eq!(sender, from);
        Ok(length)
    };
    empty_ones_count(move |bytes| one.send_to(bytes, to), receive);
}

#[test]
fn empty_datagrams_are_datagrams_on_a_unix_socket() {
    let (one, two) = UnixDatagram::pair().unwrap();
    empty_ones_count(move |bytes| one.send(bytes), move |buf| two.recv(buf));
}

#[test]
fn a_refused_datagram_is_an_error_to_the_receiver_that_waits() {
    pirn::run(|| {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.connect(gone).unwrap();
        let receiver = thread::spawn({
            let socket = socket.clone();
            move || socket.recv(&mut [0; 8])
        });
        thread::yield_now();
        // The kernel reports this with an event that is an error and nothing else.
        socket.send(b"anybody?").unwrap();
        let error = receiver.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_receiver_runs_out_of_time_and_a_peek_leaves_the_datagram_in_place() {
    in_virtual_time(|| {
        let (one, two) = UnixDatagram::pair().unwrap();
        two.set_read_timeout(Some(HOUR)).unwrap();
        let start = Instant::now();
        assert_eq!(two.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), HOUR);
        one.send(b"later").unwrap();
        assert_eq!(two.recv(&mut [0; 8]).unwrap(), 5);
    });
    pirn::run(|| {
        let (one, two) = udp_pair();
        one.send(b"peek").unwrap();
        assert_eq!(two.peek(&mut [0; 8]).unwrap(), 4);
        assert_eq!(two.peek_from(&mut [0; 8]).unwrap(), (4, one.local_addr().unwrap()));
        assert_eq!(two.recv(&mut [0; 8]).unwrap(), 4);
    });
}

#[test]
fn a_sender_waits_until_a_connected_receiver_has_room() {
    pirn::run(|| {
        let (one, two) = UnixDatagram::pair().unwrap();
        let sender = thread::spawn(move || {
            (0..1_000_u32)
                .for_each(|number| assert_eq!(one.send(&number.to_le_bytes()).unwrap(), 4));
        });
        thread::yield_now();
        for number in 0..1_000_u32 {
            let mut buf = [0; 8];
            assert_eq!(two.recv(&mut buf).unwrap(), 4);
            assert_eq!(buf[..4], number.to_le_bytes());
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_sender_waits_for_a_receiver_that_it_is_not_connected_to() {
    let dir = TempDir::new("datagrams");
    let path = dir.path("receiver");
    pirn::run(|| {
        let two = UnixDatagram::bind(&path).unwrap();
        let address = two.local_addr().unwrap();
        let sender = thread::spawn({
            let path = path.clone();
            move || {
                let one = UnixDatagram::unbound().unwrap();
                for number in 0..100_u32 {
                    one.send_to(&number.to_le_bytes(), &path).unwrap();
                    one.send_to_addr(b"", &address).unwrap();
                }
            }
        });
        for number in 0..100_u32 {
            let mut buf = [0; 8];
            let (length, from) = two.recv_from(&mut buf).unwrap();
            assert!(from.is_unnamed());
            assert_eq!(buf[..length], number.to_le_bytes());
            assert_eq!(two.recv(&mut buf).unwrap(), 0);
        }
        sender.join().unwrap();
    });
    in_virtual_time(|| {
        let full = UnixDatagram::bind(dir.path("full")).unwrap();
        let one = UnixDatagram::unbound().unwrap();
        one.set_write_timeout(Some(HOUR)).unwrap();
        let start = Instant::now();
        let error = loop {
            if let Err(error) = one.send_to(b"x", dir.path("full")) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= HOUR);
        drop(full);
    });
}

#[test]
fn a_close_or_a_shutdown_wakes_a_receiver() {
    pirn::run(|| {
        let (one, _two) = UnixDatagram::pair().unwrap();
        let (one, udp) = (Arc::new(one), Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()));
        let unix_receiver = thread::spawn({
            let one = one.clone();
            move || one.recv(&mut [0; 8])
        });
        let udp_receiver = thread::spawn({
            let udp = udp.clone();
            move || udp.recv(&mut [0; 8])
        });
        thread::yield_now();
        one.shutdown(Shutdown::Both).unwrap();
        udp.close();
        assert_eq!(unix_receiver.join().unwrap().unwrap(), 0);
        let error = udp_receiver.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
    });
}

#[test]
fn tasks_without_a_stack_send_and_receive_datagrams() {
    pirn::run(|| {
        let (one, two) = udp_pair();
        let address = one.local_addr().unwrap();
        let echo = task::spawn(task::from_fn(move |cx| {
            let mut buf = [0; 16];
            match two.poll_recv_from(cx, &mut buf) {
                Poll::Ready(Ok((length, from))) => {
                    assert_eq!(from, address);
                    // There is room.
                    match two.poll_send(cx, &buf[..length]) {
                        Poll::Ready(sent) => Step::Done(sent.unwrap()),
                        Poll::Pending => panic!("the kernel has no room for a datagram"),
                    }
                }
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => Step::Parked,
            }
        }));
        thread::yield_now();
        one.send(b"shuttle").unwrap();
        assert_eq!(one.recv(&mut [0; 16]).unwrap(), 7);
        assert_eq!(echo.join().unwrap(), 7);
    });
}

#[test]
fn options_of_udp_sockets_are_those_of_std() {
    let options = BindOptions::new().reuse_port(true);
    let one = options.udp_socket("127.0.0.1:0").unwrap();
    let two = options.udp_socket(one.local_addr().unwrap()).unwrap();
    assert_eq!(one.local_addr().unwrap(), two.local_addr().unwrap());
    one.set_broadcast(true).unwrap();
    assert!(one.broadcast().unwrap());
    one.set_ttl(9).unwrap();
    assert_eq!(one.ttl().unwrap(), 9);
    one.set_multicast_ttl_v4(7).unwrap();
    assert_eq!(one.multicast_ttl_v4().unwrap(), 7);
    assert_eq!(one.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
}
