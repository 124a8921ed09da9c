//! TCP.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::task::Poll;
use std::time::Duration;

use super::addr::RawAddr;
use super::bind::{self, BindOptions};
use super::resolve::{ToSocketAddrs, each_address};
use super::socket::{Socket, common, kind, timeouts};
use crate::sched::clock::Instant;
use crate::sched::source::{self, Wish};
use crate::task::Context;

/// A TCP connection; pirn's counterpart of [`std::net::TcpStream`].
///
/// A call that has to wait blocks the fiber, not its carrier. `&TcpStream` reads and writes as well, so
/// fibers share a stream by reference or in an `Arc`: one reads while another one writes. When several
/// wait to read, all are woken when something comes, and each gets what is there in its turn.
///
/// Dropping the last handle closes the connection.
///
/// ```
/// use std::io::{Read, Write};
/// use pirn::net::{TcpListener, TcpStream};
/// use pirn::thread;
///
/// pirn::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let echo = thread::spawn(move || {
///         let (stream, _) = listener.accept()?;
///         std::io::copy(&mut &stream, &mut &stream)
///     });
///     let mut stream = TcpStream::connect(address)?;
///     stream.write_all(b"warp and weft")?;
///     stream.shutdown(pirn::net::Shutdown::Write)?;
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer)?;
///     assert_eq!(answer, "warp and weft");
///     assert_eq!(echo.join().unwrap()?, 13);
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
pub struct TcpStream {
    socket: Socket,
}

mod stream {
    use super::*;
    kind!("TcpStream", "to read from");
    common!(TcpStream, StdStream);

    impl TcpStream {
        /// Takes over a connected descriptor that does not block.
        pub(super) fn of(fd: OwnedFd) -> TcpStream {
            TcpStream { socket: Socket::new(fd, &KIND) }
        }
    }
}

timeouts!(TcpStream);

impl TcpStream {
    /// Connects to an address; to the first of several that answers.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up; what the last address said, when none could be connected to.
    pub fn connect<A: ToSocketAddrs>(address: A) -> io::Result<TcpStream> {
        Self::connect_until(address, Instant::FAR_FUTURE)
    }

    /// Connects to an address, which may take so long at most.
    ///
    /// # Errors
    ///
    /// [`TimedOut`](io::ErrorKind::TimedOut) when the time is up;
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a limit of zero; what the address said.
    pub fn connect_timeout(address: &SocketAddr, limit: Duration) -> io::Result<TcpStream> {
        Self::connect_within(address, limit)
    }

    /// [`connect`](Self::connect) in so much time at most: the look-up and all addresses together.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect) and [`connect_timeout`](Self::connect_timeout).
    ///
    /// ```
    /// use pirn::net::TcpStream;
    /// use std::time::Duration;
    ///
    /// // Nobody listens on port 1 of this machine, under any of its addresses.
    /// let refused = pirn::run(|| TcpStream::connect_within("localhost:1", Duration::from_secs(9)));
    /// assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    /// ```
    pub fn connect_within<A: ToSocketAddrs>(address: A, limit: Duration) -> io::Result<TcpStream> {
        if limit.is_zero() {
            let text = "a time limit of zero would let no connection stand";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Self::connect_until(address, Instant::now() + limit)
    }

    fn connect_until<A: ToSocketAddrs>(address: A, deadline: Instant) -> io::Result<TcpStream> {
        each_address(address, deadline, |address| {
            let (stream, stands) = TcpStream::begin_to_connect(address)?;
            if !stands {
                stream.await_connection(deadline)?;
            }
            Ok(stream)
        })
    }

    /// A socket that connects. True: it has.
    fn begin_to_connect(address: &SocketAddr) -> io::Result<(TcpStream, bool)> {
        let stream = TcpStream::of(bind::new_socket(address, libc::SOCK_STREAM)?);
        let raw = RawAddr::from(address);
        // SAFETY: the address is valid for its length.
        let result = unsafe { libc::connect(stream.as_raw_fd(), raw.as_ptr(), raw.length()) };
        if result == 0 {
            return Ok((stream, true));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Interrupted, it goes on by itself.
            Some(libc::EINPROGRESS | libc::EINTR) => Ok((stream, false)),
            _ => Err(error),
        }
    }

    fn await_connection(&self, deadline: Instant) -> io::Result<()> {
        loop {
            self.socket
                .source
                .wait(Wish::Connect, deadline)
                .map_err(|error| if source::is_time_limit(&error) { timed_out() } else { error })?;
            if self.is_connected()? {
                return Ok(());
            }
        }
    }

    /// Whether the connection stands.
    fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.take_error()? {
            return Err(error);
        }
        match self.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The address of the other side.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.view().peer_addr()
    }

    /// The address of this side.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.view().local_addr()
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

    /// [`read`](Read::read) that leaves in place what it reads.
    ///
    /// # Errors
    ///
    /// As for reading.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read(|| self.view().peek(buf))
    }

    /// Sets whether small packets are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.view().set_nodelay(nodelay)
    }

    /// Whether small packets are sent at once.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.view().nodelay()
    }

    /// Sets how many routers a packet may pass (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.view().set_ttl(ttl)
    }

    /// How many routers a packet may pass.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn ttl(&self) -> io::Result<u32> {
        self.view().ttl()
    }

    /// [`read`](Read::read) for a [`Resumable`](crate::task::Resumable): pending while there is
    /// nothing, and what comes resumes the task, which polls again. [Time
    /// limits](Self::set_read_timeout) do not count: the task polls a
    /// [sleep](Context::poll_sleep) beside.
    ///
    /// # Errors
    ///
    /// As for reading.
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_read_stream(cx, buf.len(), || (&*self.view()).read(buf))
    }

    /// [`write`](Write::write) for a [`Resumable`](crate::task::Resumable): pending while there is no
    /// room. Nothing of `buf` has been taken then.
    ///
    /// # Errors
    ///
    /// As for writing.
    pub fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll(cx, Wish::Write, false, || (&*self.view()).write(buf))
    }

    #[inline]
    fn view(&self) -> std::mem::ManuallyDrop<StdStream> {
        self.socket.view()
    }
}

/// A connection that a [`Resumable`](crate::task::Resumable) makes; see [`TcpConnecting::new`].
///
/// ```
/// use pirn::net::{TcpConnecting, TcpListener};
/// use pirn::task::{self, Step};
/// use std::task::Poll;
///
/// pirn::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     let mut connecting = TcpConnecting::new(&listener.local_addr().unwrap()).unwrap();
///     let task = task::spawn(task::from_fn(move |cx| match connecting.poll(cx) {
///         Poll::Ready(stream) => Step::Done(stream.unwrap().peer_addr().unwrap()),
///         Poll::Pending => Step::Parked,
///     }));
///     assert_eq!(task.join().unwrap(), listener.local_addr().unwrap());
/// });
/// ```
#[derive(Debug)]
pub struct TcpConnecting {
    /// `None` when it was taken.
    stream: Option<TcpStream>,
}

impl TcpConnecting {
    /// Begins to connect to an address.
    ///
    /// # Errors
    ///
    /// When the kernel says at once that it cannot be done.
    pub fn new(address: &SocketAddr) -> io::Result<TcpConnecting> {
        TcpStream::begin_to_connect(address)
            .map(|(stream, _)| TcpConnecting { stream: Some(stream) })
    }

    /// The connection when it stands, which resumes the task.
    ///
    /// # Errors
    ///
    /// What the address said.
    ///
    /// # Panics
    ///
    /// When it was ready already.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let stream = self.stream.as_ref().expect("polled after it was ready");
        let stands = stream.socket.poll(cx, Wish::Connect, false, || match stream.is_connected() {
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        });
        stands.map(|stands| {
            let stream = self.stream.take().expect("looked at just now");
            stands.map(|_| stream)
        })
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.read_stream(buf.len(), || (&*self.view()).read(buf))
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let length = bufs.iter().map(|buf| buf.len()).sum();
        self.socket.read_stream(length, || (&*self.view()).read_vectored(bufs))
    }
}

impl Write for &TcpStream {
    #[inline]
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

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for TcpStream {
    #[inline]
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

fn timed_out() -> io::Error {
    let text = "the time limit passed before the connection stood";
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// What accepts TCP connections; pirn's counterpart of [`std::net::TcpListener`].
///
/// A fiber may accept while others do: each connection goes to one of them.
///
/// ```
/// use pirn::net::{TcpListener, TcpStream};
/// use pirn::thread;
/// use std::io::Write;
///
/// pirn::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     let server = thread::spawn(move || {
///         for stream in listener.incoming().take(2) {
///             let mut stream = stream?;
///             thread::spawn(move || stream.write_all(b"hello"));
///         }
///         Ok::<(), std::io::Error>(())
///     });
///     for _ in 0..2 {
///         let text = std::io::read_to_string(TcpStream::connect(address)?)?;
///         assert_eq!(text, "hello");
///     }
///     server.join().unwrap()
/// }).unwrap();
/// ```
pub struct TcpListener {
    socket: Socket,
}

mod listener {
    use super::*;
    kind!("TcpListener", "to accept on");
    common!(TcpListener, StdListener);
}

impl TcpListener {
    /// Listens on an address; on the first of several that can be had. Port 0: any free one.
    ///
    /// The address may have been in use until just now (`SO_REUSEADDR`), as with std. See
    /// [`BindOptions`] for more.
    ///
    /// # Errors
    ///
    /// When the name cannot be looked up; why the last address could not be had.
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        BindOptions::new().tcp_listener(address)
    }

    /// Waits for a connection, and returns it with the address of the other side.
    ///
    /// # Errors
    ///
    /// When the process has no descriptor left, among others: such a call takes 10 ms, in which others
    /// run, so that a loop may simply try again.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.socket.read(|| self.try_accept()).inspect_err(bind::pause_if_short)
    }

    /// Accepts a connection without waiting.
    fn try_accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let mut address = RawAddr::empty();
        let stream = TcpStream::of(bind::accept(self.as_fd(), &mut address)?);
        Ok((stream, address.to_ip()?))
    }

    /// [`accept`](Self::accept) for a [`Resumable`](crate::task::Resumable): pending until there is a
    /// connection, which resumes the task.
    ///
    /// # Errors
    ///
    /// As for `accept`; the call does not take any time, so a task that tries again does well to
    /// [sleep](Context::poll_sleep) before.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.socket.poll(cx, Wish::Read, false, || self.try_accept())
    }

    /// Accepts one connection after the other; never ends by itself.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address that it listens on.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.view::<StdListener>().local_addr()
    }

    /// Sets how many routers a packet may pass (`IP_TTL`).
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.socket.view::<StdListener>().set_ttl(ttl)
    }

    /// How many routers a packet may pass.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to say.
    pub fn ttl(&self) -> io::Result<u32> {
        self.socket.view::<StdListener>().ttl()
    }
}

/// Connections of a [`TcpListener`]; made by [`incoming`](TcpListener::incoming).
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}

impl std::iter::FusedIterator for Incoming<'_> {}
