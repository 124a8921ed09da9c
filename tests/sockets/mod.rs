//! What the tests of sockets share.

// Every test program takes what it needs.
#![allow(dead_code)]

use std::cell::Cell;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

use pirn::net::{SocketAddr, TcpListener, TcpStream};
use pirn::thread;

/// Runs `main` where time stands still while anything runs.
pub fn in_virtual_time(main: impl FnOnce()) {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap();
}

/// Two ends of a connection.
pub fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (two, from) = listener.accept().unwrap();
    assert_eq!(from, one.local_addr().unwrap());
    (one, two)
}

/// Waits until this holds, which it will: what it waits for is under way in the kernel.
pub fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_micros(100));
        thread::yield_now();
    }
}

/// How many descriptors the process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// The address of a listener that answers nobody any more, as its queue is full; it lives as long as
/// what comes with it.
pub fn full_listener() -> (SocketAddr, impl Sized) {
    let listener = pirn::net::BindOptions::new().backlog(0).tcp_listener("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    // The kernel takes one more than it was told to.
    for _ in 0..2 {
        held.push(begin_to_connect(address));
    }
    (address, (listener, held))
}

/// A socket that connects, or tries to.
fn begin_to_connect(address: SocketAddr) -> std::net::TcpStream {
    let SocketAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
    let raw = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: the address is valid for its length, and the socket is ours.
    unsafe {
        let fd = libc::socket(
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            0,
        );
        let socket = std::net::TcpStream::from_raw_fd(fd);
        libc::connect(socket.as_raw_fd(), (&raw const raw).cast(), size_of_val(&raw) as _);
        socket
    }
}

/// Allows the process so many descriptors.
pub fn raise_descriptor_limit(count: u64) {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits are valid.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits), 0);
        limits.rlim_cur = limits.rlim_cur.max(count);
        limits.rlim_max = limits.rlim_max.max(count);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits), 0);
    }
}

/// A small generator of numbers: the same in every run.
pub fn random(state: &Cell<u64>) -> u64 {
    state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    state.get() >> 33
}
