//! Sockets for scripts: the native functions of the package `net`, which `scripts/net.n` makes classes of.
//!
//! A socket is a value of the host in an object: when the collector finds that dead, or the script has
//! closed it, the descriptor goes. Its calls poll (see [`Context::poll`]), so whoever waits is a thread
//! without a stack, and has no buffer: what is read goes through one of the machine, and stays with the
//! socket only where it is part of a line.
//!
//! # What calls give
//!
//! A code: 0 or more if all went well, else the negated number of the system's error, or one of the
//! constants below. So the script decides of which class its exceptions are ([`kind`]). Only a time that
//! is up, a cancellation and what is no socket are exceptions from here.
//!
//! A call may find the heap full after something has come that it cannot give; that stays with the
//! socket for the call that is made again.

use std::any::Any;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net as unix;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use super::args::{Native, bytes, path, return_bytes, return_strings};
use super::streams::Streams;
use crate::net::{TcpConnecting, TcpListener, TcpStream, ToSocketAddrs, UnixListener, UnixStream};
use crate::sched::clock::Instant;
use crate::sched::source::Wish;
use crate::task;
use crate::vm::heap::{Array, HostValue};
use crate::vm::native::{Context, Outcome, Trap, Word};
use crate::vm::tasks::wait::What;
use crate::vm::types::{ExceptionClass, Opaque, Type};

/// The socket was closed by the program.
const CLOSED: i32 = -100_001;
/// A line is longer than the program wants.
const TOO_LONG: i32 = -100_002;
/// The host does not let its scripts have sockets.
const REFUSED: i32 = -100_003;
/// An error that is none of the system's.
const OTHER: i32 = -100_004;

/// The most that one call reads.
const CHUNK: usize = 64 * 1024;

/// About what a socket takes outside the script's heap, which a collection gives back.
const SOCKET: usize = 640;

/// Whether scripts may have sockets.
pub struct Access(pub bool);

impl Default for Access {
    fn default() -> Access {
        Access(true)
    }
}

/// Where reads of a machine go first.
#[derive(Default)]
struct Scratch(Vec<u8>);

/// What a socket object has.
struct Socket(Mutex<Inner>);

struct Inner {
    end: End,
    ahead: Ahead,
    /// A connection that found no room in the heap.
    accepted: Option<Arc<Socket>>,
}

enum End {
    Closed,
    TcpListener(TcpListener),
    UnixListener(UnixListener),
    Connecting(TcpConnecting),
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What was read and not taken yet.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    /// So many were looked through in vain for the end of a line.
    seen: usize,
    ended: bool,
}

impl Ahead {
    fn take(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.seen = 0;
        if self.bytes.is_empty() {
            // An idle connection has no buffer.
            self.bytes = Vec::new();
        }
    }

    /// How long the first line is, with its end.
    fn line(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.bytes[self.seen..]);
        let length = found.map(|at| self.seen + at + 1);
        self.seen = length.map_or(self.bytes.len(), |_| self.seen);
        length
    }
}

impl HostValue for Socket {
    fn bytes(&self) -> usize {
        SOCKET
    }
}

impl Socket {
    fn new(end: End) -> Arc<Socket> {
        Arc::new(Socket(Mutex::new(Inner { end, ahead: Ahead::default(), accepted: None })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The socket of an argument, kept for the call.
struct Held(Arc<dyn HostValue>);

impl Held {
    fn of(cx: &Context<'_>, index: usize) -> Result<Held, Trap> {
        // What the script calls a socket has one since its constructor.
        let word = super::thread::reference(cx, index, "the socket")?;
        // SAFETY: an `Object` that is not null is a living object of this heap.
        let value = unsafe { cx.heap().host_value(word) };
        match value.filter(|value| (&**value as &dyn Any).is::<Socket>()) {
            Some(value) => Ok(Held(value)),
            None => Err(Trap::exception("this object is no socket")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref::<Socket>().expect("looked at when it was taken").lock()
    }
}

// Errors and times.

fn code(error: &io::Error) -> i32 {
    match error.raw_os_error() {
        Some(number) => -number,
        // As a closed source has its calls end.
        None if error.kind() == ErrorKind::NotConnected => CLOSED,
        None => OTHER,
    }
}

/// What kind of failure a code is, for the script's choice of a class.
pub fn kind(cx: &mut Context<'_>) -> Native {
    let code = cx.int(0);
    let kind = match code {
        CLOSED => 5,
        TOO_LONG => 6,
        REFUSED => 7,
        _ => match io::Error::from_raw_os_error(code.wrapping_neg()).kind() {
            ErrorKind::ConnectionRefused => 1,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => 2,
            ErrorKind::AddrInUse => 3,
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::TimedOut => 4,
            _ if is_shortage(code) => 8,
            _ => 0,
        },
    };
    cx.set_int(kind);
    Ok(Outcome::Done)
}

fn is_shortage(code: i32) -> bool {
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].contains(&-code)
}

/// The words for a code.
pub fn message(cx: &mut Context<'_>) -> Native {
    let text = match cx.int(0) {
        CLOSED => "the socket was closed".into(),
        TOO_LONG => "the line is longer than the socket takes".into(),
        REFUSED => "the host of this program does not let it use the network".into(),
        OTHER => "it cannot be done".into(),
        code => io::Error::from_raw_os_error(code.wrapping_neg()).to_string(),
    };
    return_bytes(cx, text.as_bytes())
}

/// When so many milliseconds have passed; -1 for 0 or less: never.
pub fn deadline(cx: &mut Context<'_>) -> Native {
    // The clock is that of the runtime, which may not be there yet.
    cx.needs_task()?;
    let at = match u64::try_from(cx.int(0)) {
        Ok(limit @ 1..) => (Instant::now() + Duration::from_millis(limit)).nanos() as i64,
        _ => -1,
    };
    cx.set_long(at);
    Ok(Outcome::Done)
}

fn instant(nanos: i64) -> Instant {
    u64::try_from(nanos).map_or(Instant::FAR_FUTURE, Instant::from_nanos)
}

/// Polls; if that is pending, what was printed goes out: it may be what the other side waits for.
fn wait<T>(
    cx: &mut Context<'_>,
    what: What,
    deadline: Instant,
    poll: impl FnOnce(&mut task::Context<'_>) -> Poll<T>,
) -> Result<Option<T>, Trap> {
    let polled = cx.poll(what, deadline, poll)?;
    if polled.is_none() {
        let output = &mut cx.state::<Streams>().output;
        if !output.is_empty() {
            // What cannot be written out is said to the next one who writes.
            let _ = output.flush();
        }
    }
    Ok(polled)
}

// Sockets are made.

/// Ends with a socket, or the code of an error in the out.
fn give(cx: &mut Context<'_>, made: Result<Arc<Socket>, i32>) -> Native {
    let (word, code) = match made {
        Ok(socket) => (new_object(cx, socket)?, 0),
        Err(code) => (0, code),
    };
    cx.set_word(word);
    cx.set_out(0, (code as u32).into());
    Ok(Outcome::Done)
}

fn new_object(cx: &mut Context<'_>, socket: Arc<Socket>) -> Result<Word, Trap> {
    let ty = cx.machine().define(Type::Opaque(Opaque::Host));
    Ok(cx.heap().new_host(ty, socket)?)
}

/// Makes a socket, unless the host is against it.
fn make(cx: &mut Context<'_>, make: impl FnOnce() -> io::Result<End>) -> Native {
    if !cx.state::<Access>().0 {
        return give(cx, Err(REFUSED));
    }
    let made = make().map(Socket::new).map_err(|error| code(&error));
    give(cx, made)
}

/// The address of an argument, as [`resolve`] gives them.
fn address(cx: &Context<'_>, index: usize) -> io::Result<SocketAddr> {
    let text = String::from_utf8_lossy(bytes(cx, index));
    text.parse().map_err(|_| io::Error::from(ErrorKind::InvalidInput))
}

pub fn bind(cx: &mut Context<'_>) -> Native {
    let address = address(cx, 0);
    make(cx, || TcpListener::bind(address?).map(End::TcpListener))
}

pub fn bind_path(cx: &mut Context<'_>) -> Native {
    let path = path(cx, 0).to_owned();
    make(cx, || UnixListener::bind(path).map(End::UnixListener))
}

/// Begins to connect.
pub fn connect(cx: &mut Context<'_>) -> Native {
    let address = address(cx, 0);
    make(cx, || TcpConnecting::new(&address?).map(End::Connecting))
}

/// Waits until a connection stands.
pub fn connected(cx: &mut Context<'_>) -> Native {
    let (socket, until) = (Held::of(cx, 0)?, instant(cx.long(1)));
    let polled = wait(cx, What::Connect, until, |task| {
        let mut inner = socket.lock();
        let End::Connecting(connecting) = &mut inner.end else { return Poll::Ready(CLOSED) };
        connecting.poll(task).map(|stream| {
            let (end, code) = match stream {
                Ok(stream) => (End::Tcp(stream), 0),
                Err(error) => (End::Closed, code(&error)),
            };
            inner.end = end;
            code
        })
    })?;
    finish(cx, polled)
}

/// The kernel does not say when a listener with a path has room again, so that is waited for elsewhere.
pub fn connect_path(cx: &mut Context<'_>) -> Native {
    if !cx.state::<Access>().0 {
        return give(cx, Err(REFUSED));
    }
    let path: PathBuf = path(cx, 0).to_owned();
    let connect = move || match UnixStream::connect(path) {
        Ok(stream) => Ok(Socket::new(End::Unix(stream))),
        Err(error) => Err(code(&error)),
    };
    cx.blocking(connect, |cx, made| give(cx, made.clone()))
}

/// The addresses that a text names.
pub fn resolve(cx: &mut Context<'_>) -> Native {
    if !cx.state::<Access>().0 {
        // The call that comes next says why not.
        return return_strings(cx, [&b"0.0.0.0:0"[..]]);
    }
    let name = String::from_utf8_lossy(bytes(cx, 0)).into_owned();
    let look_up = move || match name.as_str().to_socket_addrs() {
        Ok(addresses) => Ok(addresses.map(|address| address.to_string()).collect::<Vec<_>>()),
        Err(error) => Err(format!("cannot look up {name:?}: {error}")),
    };
    cx.blocking(look_up, |cx, found| match found {
        Ok(addresses) => return_strings(cx, addresses.iter().map(|address| address.as_bytes())),
        Err(message) => Err(Trap::of(ExceptionClass::Io, message.clone())),
    })
}

pub fn accept(cx: &mut Context<'_>) -> Native {
    let (listener, until) = (Held::of(cx, 0)?, instant(cx.long(1)));
    let polled = wait(cx, What::Accept, until, |task| {
        let mut inner = listener.lock();
        if let Some(accepted) = inner.accepted.take() {
            return Poll::Ready(Ok(accepted));
        }
        let accepted = match &inner.end {
            End::TcpListener(one) => one.poll_accept(task).map_ok(|(stream, _)| End::Tcp(stream)),
            End::UnixListener(one) => one.poll_accept(task).map_ok(|(stream, _)| End::Unix(stream)),
            _ => return Poll::Ready(Err(CLOSED)),
        };
        accepted.map(|end| end.map(Socket::new).map_err(|error| code(&error)))
    })?;
    let Some(accepted) = polled else { return Ok(Outcome::Park) };
    let given = give(cx, accepted.clone());
    if given.is_err() {
        listener.lock().accepted = accepted.ok();
    }
    given
}

// Sockets are used.

/// Ends with a code.
fn finish(cx: &mut Context<'_>, polled: Option<i32>) -> Native {
    match polled {
        Some(code) => {
            cx.set_int(code);
            Ok(Outcome::Done)
        }
        None => Ok(Outcome::Park),
    }
}

/// Ends with a text and a code.
fn finish_text(cx: &mut Context<'_>, text: &[u8], code: i32) -> Native {
    let outcome = return_bytes(cx, text)?;
    cx.set_out(0, (code as u32).into());
    Ok(outcome)
}

impl End {
    fn poll_read(&self, cx: &mut task::Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, i32>> {
        let read = match self {
            End::Tcp(stream) => stream.poll_read(cx, buffer),
            End::Unix(stream) => stream.poll_read(cx, buffer),
            _ => return Poll::Ready(Err(CLOSED)),
        };
        read.map(|read| read.map_err(|error| code(&error)))
    }
}

/// Does something with the buffer of the machine.
fn with_scratch<T>(cx: &mut Context<'_>, work: impl FnOnce(&mut Context<'_>, &mut [u8]) -> T) -> T {
    let mut scratch = std::mem::take(&mut cx.state::<Scratch>().0);
    scratch.resize(CHUNK, 0);
    let result = work(cx, &mut scratch);
    cx.state::<Scratch>().0 = scratch;
    result
}

/// Reads what there is, up to a number of bytes; `""` at the end.
pub fn read(cx: &mut Context<'_>) -> Native {
    let (socket, until) = (Held::of(cx, 0)?, instant(cx.long(2)));
    let most = usize::try_from(cx.int(1)).unwrap_or(0).min(CHUNK);
    {
        let inner = &mut *socket.lock();
        let there = most.min(inner.ahead.bytes.len());
        if there > 0 || most == 0 || inner.ahead.ended {
            let outcome = finish_text(cx, &inner.ahead.bytes[..there], there as i32)?;
            inner.ahead.take(there);
            return Ok(outcome);
        }
    }
    with_scratch(cx, |cx, scratch| {
        let buffer = &mut scratch[..most];
        let read = wait(cx, What::Read, until, |task| socket.lock().end.poll_read(task, buffer))?;
        match read {
            None => Ok(Outcome::Park),
            Some(Err(code)) => finish_text(cx, b"", code),
            Some(Ok(count)) => {
                let given = finish_text(cx, &buffer[..count], count as i32);
                if given.is_err() {
                    socket.lock().ahead.bytes.extend_from_slice(&buffer[..count]);
                }
                given
            }
        }
    })
}

/// Reads a line of so many bytes at most. The code is 1; 0 at the end, when nothing is left.
pub fn read_line(cx: &mut Context<'_>) -> Native {
    let (socket, until) = (Held::of(cx, 0)?, instant(cx.long(2)));
    let most = usize::try_from(cx.int(1)).unwrap_or(0);
    with_scratch(cx, |cx, scratch| {
        loop {
            {
                let inner = &mut *socket.lock();
                if matches!(inner.end, End::Closed) {
                    return finish_text(cx, b"", CLOSED);
                }
                let ahead = &mut inner.ahead;
                let line = ahead.line();
                let count = line.unwrap_or(ahead.bytes.len());
                let text = &ahead.bytes[..count];
                let text = text.strip_suffix(b"\n").unwrap_or(text);
                if text.len() > most {
                    return finish_text(cx, b"", TOO_LONG);
                }
                if line.is_some() || ahead.ended {
                    let text = text.strip_suffix(b"\r").unwrap_or(text);
                    let outcome = finish_text(cx, text, i32::from(count > 0))?;
                    ahead.take(count);
                    return Ok(outcome);
                }
            }
            let read = wait(cx, What::Read, until, |task| {
                let inner = &mut *socket.lock();
                inner.end.poll_read(task, scratch).map_ok(|count| {
                    inner.ahead.bytes.extend_from_slice(&scratch[..count]);
                    inner.ahead.ended = count == 0;
                })
            })?;
            match read {
                None => return Ok(Outcome::Park),
                Some(Err(code)) => return finish_text(cx, b"", code),
                Some(Ok(())) => {}
            }
        }
    })
}

/// Writes what is behind a place in a text, or the beginning of that: how much.
pub fn write(cx: &mut Context<'_>) -> Native {
    let (socket, until) = (Held::of(cx, 0)?, instant(cx.long(3)));
    let from = usize::try_from(cx.int(2)).unwrap_or(usize::MAX);
    let Some(rest) = bytes(cx, 1).get(from..) else {
        return Err(Trap::index(cx.int(2).into(), bytes(cx, 1).len()));
    };
    let polled = wait(cx, What::Write, until, |task| {
        let written = match &socket.lock().end {
            End::Tcp(stream) => stream.poll_write(task, rest),
            End::Unix(stream) => stream.poll_write(task, rest),
            _ => return Poll::Ready(CLOSED),
        };
        written.map(|written| match written {
            Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
            Err(error) => code(&error),
        })
    })?;
    finish(cx, polled)
}

/// Waits until something can be read, accepted, or written: then it is 1.
pub fn ready(cx: &mut Context<'_>) -> Native {
    let (socket, until) = (Held::of(cx, 0)?, instant(cx.long(2)));
    let (what, wish) = match cx.bool(1) {
        true => (What::Write, Wish::Write),
        false => (What::Read, Wish::Read),
    };
    let polled = wait(cx, what, until, |task| {
        let inner = socket.lock();
        let waits = inner.accepted.is_some() || !inner.ahead.bytes.is_empty() || inner.ahead.ended;
        let ready = match &inner.end {
            End::Closed | End::Connecting(_) => return Poll::Ready(CLOSED),
            _ if wish == Wish::Read && waits => return Poll::Ready(1),
            End::TcpListener(listener) => listener.poll_ready(task, wish),
            End::UnixListener(listener) => listener.poll_ready(task, wish),
            End::Tcp(stream) => stream.poll_ready(task, wish),
            End::Unix(stream) => stream.poll_ready(task, wish),
        };
        ready.map(|ready| ready.map_or_else(|error| code(&error), |()| 1))
    })?;
    finish(cx, polled)
}

/// Closes the descriptor; whoever waits for it is told.
pub fn close(cx: &mut Context<'_>) -> Native {
    let socket = Held::of(cx, 0)?;
    let mut inner = socket.lock();
    // First for those who wait, then the handle, and with the last one of them the descriptor.
    match &inner.end {
        End::Closed | End::Connecting(_) => {}
        End::TcpListener(listener) => listener.close(),
        End::UnixListener(listener) => listener.close(),
        End::Tcp(stream) => stream.close(),
        End::Unix(stream) => stream.close(),
    }
    *inner = Inner { end: End::Closed, ahead: Ahead::default(), accepted: None };
    Ok(Outcome::Done)
}

/// Says that nothing more is written.
pub fn shutdown(cx: &mut Context<'_>) -> Native {
    let shut = match &Held::of(cx, 0)?.lock().end {
        End::Tcp(stream) => stream.shutdown(Shutdown::Write),
        End::Unix(stream) => stream.shutdown(Shutdown::Write),
        _ => return finish(cx, Some(CLOSED)),
    };
    finish(cx, Some(shut.map_or_else(|error| code(&error), |()| 0)))
}

/// The address of this side.
pub fn local(cx: &mut Context<'_>) -> Native {
    let address = match &Held::of(cx, 0)?.lock().end {
        End::TcpListener(listener) => listener.local_addr().map(|address| address.to_string()),
        End::Tcp(stream) => stream.local_addr().map(|address| address.to_string()),
        End::UnixListener(listener) => listener.local_addr().map(|address| unix_text(&address)),
        End::Unix(stream) => stream.local_addr().map(|address| unix_text(&address)),
        End::Closed | End::Connecting(_) => return finish_text(cx, b"", CLOSED),
    };
    give_address(cx, address)
}

/// The address of the other side.
pub fn peer(cx: &mut Context<'_>) -> Native {
    let address = match &Held::of(cx, 0)?.lock().end {
        End::Tcp(stream) => stream.peer_addr().map(|address| address.to_string()),
        End::Unix(stream) => stream.peer_addr().map(|address| unix_text(&address)),
        _ => return finish_text(cx, b"", CLOSED),
    };
    give_address(cx, address)
}

fn give_address(cx: &mut Context<'_>, address: io::Result<String>) -> Native {
    match address {
        Ok(address) => finish_text(cx, address.as_bytes(), 0),
        Err(error) => finish_text(cx, b"", code(&error)),
    }
}

/// As scripts write it; what has no path is nothing but `unix:`.
fn unix_text(address: &unix::SocketAddr) -> String {
    let path = address.as_pathname().map(|path| path.display().to_string());
    format!("unix:{}", path.unwrap_or_default())
}

// Bytes.

fn array<'c>(cx: &'c Context<'_>, index: usize) -> Result<Array<'c>, Trap> {
    let word = super::thread::reference(cx, index, "the array")?;
    // SAFETY: the argument's type is an array, and it is not null.
    Ok(unsafe { Array::from_word(cx.heap(), word) })
}

/// The part of an array that begins at one `int` argument and is as long as another one says.
fn range(from: i32, count: i32, length: usize) -> Result<std::ops::Range<usize>, Trap> {
    let part = usize::try_from(from).ok().zip(usize::try_from(count).ok());
    let part = part.and_then(|(from, count)| Some(from..from.checked_add(count)?));
    part.filter(|part| part.end <= length).ok_or_else(|| {
        let message = format!("{count} bytes from {from} are not within {length}");
        Trap::of(ExceptionClass::IndexOutOfBounds, message)
    })
}

/// Puts the bytes of a text into an array, from a place on.
pub fn bytes_into(cx: &mut Context<'_>) -> Native {
    let (text, array) = (bytes(cx, 0), array(cx, 1)?);
    let part = range(cx.int(2), text.len().try_into().unwrap_or(i32::MAX), array.len())?;
    for (at, &byte) in part.zip(text) {
        // SAFETY: the elements are bytes, which are no references.
        unsafe { array.set(at, byte.into()) };
    }
    Ok(Outcome::Done)
}

/// Makes a text of a part of an array.
pub fn string_of(cx: &mut Context<'_>) -> Native {
    let text: Vec<u8> = {
        let array = array(cx, 0)?;
        let part = range(cx.int(1), cx.int(2), array.len())?;
        part.filter_map(|at| array.get(at)).map(|byte| byte as u8).collect()
    };
    return_bytes(cx, &text)
}
