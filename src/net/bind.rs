//! Making sockets, and giving them addresses.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::addr::RawAddr;
use super::resolve::{ToSocketAddrs, each_address};
use super::tcp::TcpListener;
use super::udp::UdpSocket;
use crate::sched::clock::Instant;

/// How a socket gets its address, where the ordinary way will not do.
///
/// ```
/// use pirn::net::BindOptions;
///
/// // Two listeners share a port: the kernel spreads connections over them.
/// let options = BindOptions::new().reuse_port(true);
/// let one = options.tcp_listener("127.0.0.1:0")?;
/// let two = options.tcp_listener(one.local_addr()?)?;
/// assert_eq!(one.local_addr()?, two.local_addr()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a socket is made with them"]
pub struct BindOptions {
    reuse_address: Option<bool>,
    reuse_port: bool,
    only_v6: Option<bool>,
    backlog: u32,
}

impl Default for BindOptions {
    fn default() -> Self {
        BindOptions::new()
    }
}

impl BindOptions {
    /// What `bind` of the types does.
    pub const fn new() -> Self {
        let backlog = libc::SOMAXCONN.unsigned_abs();
        BindOptions { reuse_address: None, reuse_port: false, only_v6: None, backlog }
    }

    /// Whether an address may be had that was in use until just now (`SO_REUSEADDR`); by default a
    /// listener's may.
    pub fn reuse_address(mut self, reuse: bool) -> Self {
        self.reuse_address = Some(reuse);
        self
    }

    /// Whether several sockets may have the same address, if all ask for that (`SO_REUSEPORT`). The
    /// kernel spreads over them what comes in.
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.reuse_port = reuse;
        self
    }

    /// Whether an IPv6 address stands for IPv6 only (`IPV6_V6ONLY`); by default that is the system's
    /// decision.
    pub fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = Some(only);
        self
    }

    /// How many connections may wait to be accepted; the system may allow less.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Listens on an address; on the first of several that can be had.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up; why the last address could not be had.
    pub fn tcp_listener<A: ToSocketAddrs>(&self, address: A) -> io::Result<TcpListener> {
        each_address(address, Instant::FAR_FUTURE, |address| {
            let fd = self.bind(address, libc::SOCK_STREAM, true)?;
            let backlog = self.backlog.min(i32::MAX as u32).cast_signed();
            // SAFETY: takes no pointers.
            check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
            Ok(TcpListener::from(fd))
        })
    }

    /// A UDP socket with this address; with the first of several that can be had.
    ///
    /// # Errors
    ///
    /// As for [`tcp_listener`](Self::tcp_listener).
    pub fn udp_socket<A: ToSocketAddrs>(&self, address: A) -> io::Result<UdpSocket> {
        each_address(address, Instant::FAR_FUTURE, |address| {
            Ok(UdpSocket::from(self.bind(address, libc::SOCK_DGRAM, false)?))
        })
    }

    /// A socket with this address.
    fn bind(&self, address: &SocketAddr, style: i32, reuse_address: bool) -> io::Result<OwnedFd> {
        let fd = new_socket(address, style)?;
        if self.reuse_address.unwrap_or(reuse_address) {
            set_flag(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, true)?;
        }
        if self.reuse_port {
            set_flag(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, true)?;
        }
        if let (Some(only), SocketAddr::V6(_)) = (self.only_v6, address) {
            set_flag(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
        }
        let raw = RawAddr::from(address);
        // SAFETY: the address is valid for its length.
        check(unsafe { libc::bind(fd.as_raw_fd(), raw.as_ptr(), raw.length()) })?;
        Ok(fd)
    }
}

fn set_flag(fd: &OwnedFd, level: i32, option: i32, on: bool) -> io::Result<()> {
    let value = libc::c_int::from(on);
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is valid for its length.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    check(result).map(drop)
}

/// A socket of the address's family, that does not block and is not inherited.
pub(super) fn new_socket(address: &SocketAddr, style: i32) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    open_socket(family, style)
}

pub(super) fn open_socket(family: i32, style: i32) -> io::Result<OwnedFd> {
    let style = style | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::socket(family, style, 0) })?;
    // SAFETY: made just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Accepts a connection, that does not block and is not inherited; `address` gets the other side's.
pub(super) fn accept(listener: BorrowedFd<'_>, address: &mut RawAddr) -> io::Result<OwnedFd> {
    let (storage, length) = address.as_mut();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the storage is valid for the length.
    let fd = check(unsafe { libc::accept4(listener.as_raw_fd(), storage, length, flags) })?;
    // SAFETY: made just now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How long an `accept` that fails for want of descriptors or memory takes, so that a loop which tries
/// again does not keep a processor busy.
const PAUSE: Duration = Duration::from_millis(10);

/// After an `accept`: waits for a moment if something is short in the process or the system.
pub(super) fn pause_if_short(error: &io::Error) {
    let short = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    if error.raw_os_error().is_some_and(|number| short.contains(&number)) {
        crate::thread::sleep(PAUSE);
    }
}

/// The result of a system call that says -1 for an error.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
