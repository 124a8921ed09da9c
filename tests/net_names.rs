//! Names are looked up off the carrier. These tests change what looks them up, for the whole process.

mod child;
mod sockets;

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use child::isolated;
use pirn::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket, set_resolver};
use pirn::thread::{self, Cancelled};
use pirn::time;

/// Whether the resolver may answer.
static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

fn open_gate() {
    *GATE.0.lock().unwrap() = true;
    GATE.1.notify_all();
}

/// "slow" is this machine, once the gate is open; "both" has two addresses; nothing else is anywhere.
fn resolver(host: &str) -> io::Result<Vec<IpAddr>> {
    let local: IpAddr = [127, 0, 0, 1].into();
    match host {
        "slow" => {
            let mut open = GATE.0.lock().unwrap();
            while !*open {
                open = GATE.1.wait(open).unwrap();
            }
            Ok(vec![local])
        }
        // Nobody is at the first one: it is not on this machine's loopback interface.
        "both" => Ok(vec![[127, 0, 0, 2].into(), local]),
        "empty" => Ok(vec![]),
        _ => Err(io::Error::new(ErrorKind::NotFound, "no such host")),
    }
}

/// C064.
#[test]
fn a_slow_look_up_does_not_hold_others_up_and_is_left_at_once() {
    isolated("a_slow_look_up_does_not_hold_others_up_and_is_left_at_once", &[], || {
        set_resolver(resolver);
        pirn::run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let ticks = Rc::new(Cell::new(0));
            thread::spawn_local({
                let ticks = ticks.clone();
                move || {
                    loop {
                        thread::sleep(Duration::from_micros(100));
                        ticks.set(ticks.get() + 1);
                    }
                }
            });
            // Given up: by a time limit of its own, by one on a piece of work, and by cancellation.
            let error = TcpStream::connect_within("slow:1", Duration::from_millis(2)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(error.to_string().contains("\"slow\""), "{error}");
            let limited = time::timeout(Duration::from_millis(2), || TcpStream::connect("slow:1"));
            assert!(limited.is_err());
            let cancelled = thread::spawn(|| TcpStream::connect("slow:1").map(drop));
            thread::yield_now();
            cancelled.cancel();
            assert!(cancelled.join().unwrap_err().is::<Cancelled>());
            // Waited for, while others run.
            let connect = thread::spawn(move || TcpStream::connect(("slow", port)).unwrap());
            let before = ticks.get();
            sockets::until(|| ticks.get() >= before + 10);
            assert!(!connect.is_finished());
            open_gate();
            let stream = connect.join().unwrap();
            assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
        });
    });
}

/// C073.
#[test]
fn the_second_address_of_a_name_is_tried_when_the_first_refuses() {
    isolated("the_second_address_of_a_name_is_tried_when_the_first_refuses", &[], || {
        set_resolver(resolver);
        pirn::run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let stream = TcpStream::connect(("both", address.port())).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), address);
            let found: Vec<SocketAddr> = "both:7".to_socket_addrs().unwrap().collect();
            assert_eq!(found, ["127.0.0.2:7".parse().unwrap(), "127.0.0.1:7".parse().unwrap()]);
        });
    });
}

#[test]
fn what_cannot_be_looked_up_is_an_error_that_says_so() {
    isolated("what_cannot_be_looked_up_is_an_error_that_says_so", &[], || {
        set_resolver(resolver);
        let look = || {
            let error = TcpStream::connect("nowhere:80").unwrap_err();
            assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::NotFound, "no such host"));
            assert_eq!(TcpStream::connect("empty:80").unwrap_err().kind(), ErrorKind::InvalidInput);
            for text in ["no port", "host:", "host:70000", ""] {
                let error = TcpListener::bind(text).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
                assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
            }
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            assert!(socket.send_to(b"x", "nowhere:80").is_err());
        };
        // On a fiber, and on a thread without a runtime.
        pirn::run(look);
        look();
    });
}
