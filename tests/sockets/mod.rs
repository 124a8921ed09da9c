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

/// Allows the process so many descriptors, or as many as it may have. Returns how many that are.
pub fn grant_descriptors(count: u64) -> u64 {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits are valid.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits), 0);
        if limits.rlim_cur < count {
            limits.rlim_cur = count.min(limits.rlim_max);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits), 0);
        }
    }
    limits.rlim_cur
}

/// A small generator of numbers: the same in every run.
pub fn random(state: &Cell<u64>) -> u64 {
    state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    state.get() >> 33
}

/// A directory that goes when this does.
pub struct TempDir(std::path::PathBuf);

impl TempDir {
    /// An empty one.
    pub fn new(name: &str) -> TempDir {
        let dir = std::env::temp_dir().join(format!("pirn-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        TempDir(dir)
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lets so many connections wait for a listener's `accept`.
pub fn set_backlog(listener: std::os::fd::RawFd, connections: i32) {
    // SAFETY: takes no pointers.
    assert_eq!(unsafe { libc::listen(listener, connections) }, 0);
}

/// A client at one path that is connected to the listener at another.
pub fn bound_unix_client(
    own: &std::path::Path,
    listener: &std::path::Path,
) -> std::os::unix::net::UnixStream {
    let address = |path: &std::path::Path| {
        let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        // SAFETY: all zeroes is a value of such plain data.
        let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        raw.sun_family = libc::AF_UNIX as _;
        raw.sun_path.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from as _);
        raw
    };
    let (own, listener) = (address(own), address(listener));
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the addresses are valid for their length, and the socket is ours.
    unsafe {
        let fd = libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let socket = std::os::unix::net::UnixStream::from_raw_fd(fd);
        assert_eq!(libc::bind(fd, (&raw const own).cast(), length), 0);
        assert_eq!(libc::connect(fd, (&raw const listener).cast(), length), 0);
        socket
    }
}

/// Sends bytes on a Unix socket together with a descriptor.
pub fn send_with_descriptor(socket: std::os::fd::RawFd, bytes: &[u8]) {
    let mut control = [0_u64; 4];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: the parts of the message are valid for the call, and the control data have room for one
    // descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(socket);
        assert_eq!(libc::sendmsg(socket, &raw const message, 0), bytes.len() as isize);
    }
}
