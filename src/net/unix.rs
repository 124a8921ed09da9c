//! Unix sockets.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::{
    SocketAddr, UnixDatagram as StdDatagram, UnixListener as StdListener, UnixStream as StdStream,
};
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use super::addr::RawAddr;
use super::bind;
use super::socket::{Pauses, Socket, common, kind, timeouts};
use crate::sched::clock::Instant;
use crate::sched::source::Wish;
use crate::task::Context;

/// A connection within the machine; pirn's counterpart of [`std::os::unix::net::UnixStream`].
///
/// See [`TcpStream`](super::TcpStream): what is said there holds here as well.
///
/// ```
/// use pirn::net::UnixStream;
/// use pirn::thread;
/// use std::io::{Read, Write};
///
/// pirn::run(|| {
///     let (mut one, mut two) = UnixStream::pair()?;
///     let reader = thread::spawn(move || {
///         let mut text = String::new();
///         two.read_to_string(&mut text).map(|_| text)
///     });
///     one.write_all(b"through the shed")?;
///     drop(one);
///     assert_eq!(reader.join().unwrap()?, "through the shed");
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub struct UnixStream {
    socket: Socket,
}

mod stream {
    use super::*;
    kind!("UnixStream", "to read from");
    common!(UnixStream, StdStream);

    impl UnixStream {
        /// Takes over a descriptor that does not block.
        pub(super) fn of(fd: OwnedFd) -> UnixStream {
            UnixStream { socket: Socket::new(fd, &KIND) }
        }
    }
}

timeouts!(UnixStream);

impl UnixStream {
    /// Connects to the listener at a path.
    ///
    /// While that has no room for another connection this tries again, up to 20 ms apart: the kernel
    /// does not say when there is some.
    ///
    /// # Errors
    ///
    /// When nobody listens there.
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to the listener with an address, as [`connect`](Self::connect) does.
    ///
    /// # Errors
    ///
    /// When nobody listens there.
    pub fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        let stream = UnixStream::of(bind::open_socket(libc::AF_UNIX, libc::SOCK_STREAM)?);
        let raw = RawAddr::from(address);
        let mut pauses = Pauses::until(Instant::FAR_FUTURE);
        loop {
            // SAFETY: the address is valid for its length.
            let result = unsafe { libc::connect(stream.as_raw_fd(), raw.as_ptr(), raw.length()) };
            if result == 0 {
                return Ok(stream);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => pauses.make()?,
                _ => return Err(error),
            }
        }
    }

    /// Two sockets that are connected to one another.
    ///
    /// # Errors
    ///
    /// When the process has no descriptors left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, two) = StdStream::pair()?;
        Ok((one.into(), two.into()))
    }

    /// The address of this side.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.view().local_addr()
    }

    /// The address of the other side.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.view().peer_addr()
    }

    /// Shuts one direction or both down. Whoever waits to read finds the end, whoever waits to write
    /// an error.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.view().shutdown(how)
    }

    /// [`read`](Read::read) for a [`Resumable`](crate::task::Resumable); see
    /// [`TcpStream::poll_read`](super::TcpStream::poll_read).
    ///
    /// # Errors
    ///
    /// As for reading.
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Read, false, || (&*self.view()).read(buf))
    }

    /// [`write`](Write::write) for a [`Resumable`](crate::task::Resumable); see
    /// [`TcpStream::poll_write`](super::TcpStream::poll_write).
    ///
    /// # Errors
    ///
    /// As for writing.
    pub fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Write, false, || (&*self.view()).write(buf))
    }

    fn view(&self) -> std::mem::ManuallyDrop<StdStream> {
        self.socket.view()
    }
}

// A read stops where another sender's data begin, or those that come with a descriptor: a short one
// says nothing of what is left. Hence no `read_stream`.
impl Read for &UnixStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|| (&*self.view()).read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.read(|| (&*self.view()).read_vectored(bufs))
    }
}

impl Write for &UnixStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.write(|| (&*self.view()).write(buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.write(|| (&*self.view()).write_vectored(bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for UnixStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for UnixStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self).write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What accepts connections within the machine; pirn's counterpart of
/// [`std::os::unix::net::UnixListener`].
///
/// ```
/// use pirn::net::{UnixListener, UnixStream};
/// use pirn::thread;
/// use std::io::Write;
///
/// let path = std::env::temp_dir().join(format!("pirn-doc-{}", std::process::id()));
/// pirn::run(|| {
///     let listener = UnixListener::bind(&path)?;
///     let server = thread::spawn(move || listener.accept()?.0.write_all(b"heddle"));
///     let text = std::io::read_to_string(UnixStream::connect(&path)?)?;
///     assert_eq!(text, "heddle");
///     server.join().unwrap()?;
///     std::fs::remove_file(&path)
/// }).unwrap();
/// ```
pub struct UnixListener {
    socket: Socket,
}

mod listener {
    use super::*;
    kind!("UnixListener", "to accept on");
    common!(UnixListener, StdListener);
}

impl UnixListener {
    /// Listens at a path, where nothing must be yet.
    ///
    /// # Errors
    ///
    /// When something is at the path, or nothing can be made there.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        StdListener::bind(path).map(UnixListener::from)
    }

    /// Listens on an address.
    ///
    /// # Errors
    ///
    /// When it is in use.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        StdListener::bind_addr(address).map(UnixListener::from)
    }

    /// Waits for a connection, and returns it with the address of the other side.
    ///
    /// # Errors
    ///
    /// As for [`TcpListener::accept`](super::TcpListener::accept).
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.socket.read(|| self.try_accept()).inspect_err(bind::pause_if_short)
    }

    fn try_accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let mut address = RawAddr::empty();
        let stream = UnixStream::of(bind::accept(self.as_fd(), &mut address)?);
        Ok((stream, address.to_unix()?))
    }

    /// [`accept`](Self::accept) for a [`Resumable`](crate::task::Resumable); see
    /// [`TcpListener::poll_accept`](super::TcpListener::poll_accept).
    ///
    /// # Errors
    ///
    /// As for `accept`.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        self.socket.poll(cx, Wish::Read, false, || self.try_accept())
    }

    /// Accepts one connection after the other; never ends by itself.
    pub fn incoming(&self) -> UnixIncoming<'_> {
        UnixIncoming { listener: self }
    }

    /// The address that it listens on.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.view::<StdListener>().local_addr()
    }
}

/// Connections of a [`UnixListener`]; made by [`incoming`](UnixListener::incoming).
#[derive(Debug)]
pub struct UnixIncoming<'a> {
    listener: &'a UnixListener,
}

impl Iterator for UnixIncoming<'_> {
    type Item = io::Result<UnixStream>;

    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl std::iter::FusedIterator for UnixIncoming<'_> {}

/// A socket for datagrams within the machine; pirn's counterpart of
/// [`std::os::unix::net::UnixDatagram`].
///
/// ```
/// use pirn::net::UnixDatagram;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let (one, two) = UnixDatagram::pair()?;
///     let receiver = thread::spawn(move || {
///         let mut buf = [0; 100];
///         Ok::<_, std::io::Error>((two.recv(&mut buf)?, two.recv(&mut buf)?))
///     });
///     one.send(b"")?;
///     one.send(b"reed")?;
///     assert_eq!(receiver.join().unwrap()?, (0, 4));
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub struct UnixDatagram {
    socket: Socket,
}

mod datagram {
    use super::*;
    kind!("UnixDatagram", "to receive from");
    common!(UnixDatagram, StdDatagram);
}

timeouts!(UnixDatagram);

impl UnixDatagram {
    /// A socket at a path, where nothing must be yet.
    ///
    /// # Errors
    ///
    /// When something is at the path, or nothing can be made there.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        StdDatagram::bind(path).map(UnixDatagram::from)
    }

    /// A socket with this address.
    ///
    /// # Errors
    ///
    /// When it is in use.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        StdDatagram::bind_addr(address).map(UnixDatagram::from)
    }

    /// A socket without an address.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left.
    pub fn unbound() -> io::Result<UnixDatagram> {
        StdDatagram::unbound().map(UnixDatagram::from)
    }

    /// Two sockets that are connected to one another.
    ///
    /// # Errors
    ///
    /// When the process has no descriptors left.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (one, two) = StdDatagram::pair()?;
        Ok((one.into(), two.into()))
    }

    /// Sends to the socket at this path from now on.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.view().connect(path)
    }

    /// Sends to the socket with this address from now on.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        self.view().connect_addr(address)
    }

    /// The address of this side.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.view().local_addr()
    }

    /// The address of the other side.
    ///
    /// # Errors
    ///
    /// When it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.view().peer_addr()
    }

    /// Receives a datagram.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|| self.try_recv(buf))
    }

    /// Receives a datagram, and says where it came from.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.read(|| self.try_recv_from(buf))
    }

    /// Sends a datagram to the socket that it is connected to, when that has room.
    ///
    /// # Errors
    ///
    /// When it is not connected; when the other side is gone.
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.write(|| self.view().send(buf))
    }

    /// Sends a datagram to the socket at a path, when that has room.
    ///
    /// While it has none this tries again, up to 20 ms apart: for a socket that it is not connected to
    /// the kernel does not say when there is some.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.socket.write_after_pauses(|| self.view().send_to(buf, path.as_ref()))
    }

    /// Sends a datagram to the socket with an address, as [`send_to`](Self::send_to) does.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn send_to_addr(&self, buf: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.socket.write_after_pauses(|| self.view().send_to_addr(buf, address))
    }

    /// Shuts one direction or both down.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how != Shutdown::Write {
            self.socket.note_read_shut();
        }
        self.view().shutdown(how)
    }

    /// [`recv_from`](Self::recv_from) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.socket.poll(cx, Wish::Read, false, || self.try_recv_from(buf))
    }

    /// [`recv`](Self::recv) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Read, false, || self.try_recv(buf))
    }

    /// [`send`](Self::send) for a [`Resumable`](crate::task::Resumable).
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Write, false, || self.view().send(buf))
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read_datagram(|| Ok(0), || self.view().recv(buf))
    }

    fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let end = || Ok((0, SocketAddr::from_pathname("")?));
        self.socket.read_datagram(end, || self.view().recv_from(buf))
    }

    fn view(&self) -> std::mem::ManuallyDrop<StdDatagram> {
        self.socket.view()
    }
}
