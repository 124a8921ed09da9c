//! UDP.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::task::Poll;
use std::time::Duration;

use super::bind::BindOptions;
use super::resolve::{ToSocketAddrs, each_address};
use super::socket::{Socket, common, kind, timeouts};
use crate::sched::clock::Instant;
use crate::sched::source::Wish;
use crate::task::Context;

/// A UDP socket; pirn's counterpart of [`std::net::UdpSocket`].
///
/// A datagram is received whole: what does not fit into the buffer is lost. An empty one is received
/// as 0 bytes, and does not mean that anything has ended.
///
/// ```
/// use pirn::net::UdpSocket;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let server = UdpSocket::bind("127.0.0.1:0")?;
///     let address = server.local_addr()?;
///     let echo = thread::spawn(move || {
///         let mut buf = [0; 1500];
///         let (length, from) = server.recv_from(&mut buf)?;
///         server.send_to(&buf[..length], from)
///     });
///     let client = UdpSocket::bind("127.0.0.1:0")?;
///     client.connect(address)?;
///     client.send(b"pick")?;
///     let mut buf = [0; 1500];
///     assert_eq!(client.recv(&mut buf)?, 4);
///     assert_eq!(echo.join().unwrap()?, 4);
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub struct UdpSocket {
    socket: Socket,
}

kind!("UdpSocket", "to receive from");
common!(UdpSocket, StdSocket);
timeouts!(UdpSocket);

/// Options that are std's, passed on.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl UdpSocket {$(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// When the kernel refuses.
            pub fn $name(&self, $($argument: $type),*) -> io::Result<$result> {
                self.view().$name($($argument),*)
            }
        )*}
    };
}

options! {
    /// The address of this side.
    local_addr() -> SocketAddr;
    /// The address that it is [connected](Self::connect) to.
    peer_addr() -> SocketAddr;
    /// Sets whether it may send to broadcast addresses (`SO_BROADCAST`).
    set_broadcast(on: bool) -> ();
    /// Whether it may send to broadcast addresses.
    broadcast() -> bool;
    /// Sets whether what it sends to IPv4 groups comes back to this machine.
    set_multicast_loop_v4(on: bool) -> ();
    /// Whether what it sends to IPv4 groups comes back to this machine.
    multicast_loop_v4() -> bool;
    /// Sets how many routers a packet to an IPv4 group may pass.
    set_multicast_ttl_v4(ttl: u32) -> ();
    /// How many routers a packet to an IPv4 group may pass.
    multicast_ttl_v4() -> u32;
    /// Sets whether what it sends to IPv6 groups comes back to this machine.
    set_multicast_loop_v6(on: bool) -> ();
    /// Whether what it sends to IPv6 groups comes back to this machine.
    multicast_loop_v6() -> bool;
    /// Joins an IPv4 group on the interface with this address.
    join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Joins an IPv6 group on the interface with this number.
    join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    /// Leaves an IPv4 group.
    leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Leaves an IPv6 group.
    leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    /// Sets how many routers a packet may pass (`IP_TTL`).
    set_ttl(ttl: u32) -> ();
    /// How many routers a packet may pass.
    ttl() -> u32;
}

impl UdpSocket {
    /// A socket with this address; with the first of several that can be had. Port 0: any free one.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up; why the last address could not be had.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<UdpSocket> {
        BindOptions::new().udp_socket(address)
    }

    /// Sends to this address, and receives from it only, from now on.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up; why the last address will not do.
    pub fn connect<A: ToSocketAddrs>(&self, address: A) -> io::Result<()> {
        each_address(address, Instant::FAR_FUTURE, |address| self.view().connect(address))
    }

    /// Sends a datagram to the address that it is [connected](Self::connect) to.
    ///
    /// # Errors
    ///
    /// When it is not connected; when an earlier datagram was refused.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.write(|| self.view().send(buf))
    }

    /// Sends a datagram to an address; to the first, if a name stands for several.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up; when the datagram is too long.
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], address: A) -> io::Result<usize> {
        let Some(address) = address.to_socket_addrs()?.next() else {
            let text = "the name stands for no address at all";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        self.socket.write(|| self.view().send_to(buf, address))
    }

    /// Receives a datagram from the address that it is [connected](Self::connect) to.
    ///
    /// # Errors
    ///
    /// When an earlier datagram was refused, among others.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|| self.view().recv(buf))
    }

    /// Receives a datagram, and says where it came from.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|| self.view().recv_from(buf))
    }

    /// [`recv`](Self::recv) that leaves the datagram in place.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|| self.view().peek(buf))
    }

    /// [`recv_from`](Self::recv_from) that leaves the datagram in place.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|| self.view().peek_from(buf))
    }

    /// [`recv_from`](Self::recv_from) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.socket.poll(cx, Wish::Read, false, || self.view().recv_from(buf))
    }

    /// [`send_to`](Self::send_to) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// When the datagram is too long.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        address: &SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Write, false, || self.view().send_to(buf, address))
    }

    /// [`recv`](Self::recv) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Read, false, || self.view().recv(buf))
    }

    /// [`send`](Self::send) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Write, false, || self.view().send(buf))
    }

    fn view(&self) -> std::mem::ManuallyDrop<StdSocket> {
        self.socket.view()
    }
}
