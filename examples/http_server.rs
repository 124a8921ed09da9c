//! An HTTP/1.1 server: a fiber for each connection, plain blocking code, and a limit on everything.
//!
//! `cargo run --release --example http_server -- 127.0.0.1:8080` listens on that address, or on a free
//! port of this machine if there is no argument, and prints where. Try it:
//!
//! ```console
//! $ curl http://127.0.0.1:8080/
//! Hello from a fiber.
//! $ curl -d 'to and fro' http://127.0.0.1:8080/echo
//! to and fro
//! $ wrk -c 64 -d 5 http://127.0.0.1:8080/
//! ```
//!
//! * Connections are kept, and requests that come in one go are answered in one go.
//! * Head, body, connections, and the time that each may take are limited. Who is slow on purpose
//!   costs a page of memory, for as long as a head may take, and holds nobody up.
//! * Ctrl-C: no further connection is accepted, those without a request are closed, and the others
//!   get their answer, within a limit again. A second Ctrl-C ends the process.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;
use std::rc::Rc;

use pirn::io::Signal;
use pirn::net::{Shutdown, TcpListener, TcpStream};
use pirn::sync::{Semaphore, WaitGroup};
use pirn::thread;
use pirn::time::{Duration, Instant};

/// Connections at a time; others wait to be accepted.
const CONNECTIONS: usize = 10_000;
/// Bytes of a head, and headers in it.
const HEAD: usize = 8 << 10;
const HEADERS: usize = 64;
/// Bytes of a body.
const BODY: usize = 1 << 20;
/// Bytes of answers that are put off until those to all requests that have come can be sent together.
const ANSWERS: usize = 64 << 10;
/// How long a connection may be without a request.
const IDLE: Duration = Duration::from_secs(30);
/// How long a request may take to come, from its first byte on.
const REQUEST: Duration = Duration::from_secs(10);
/// How long a client may not take anything of an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long connections may go on after Ctrl-C.
const FAREWELL: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    match pirn::run(|| serve(&address)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("http_server: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What all connections share.
struct Server {
    /// One for each connection that may be.
    places: Semaphore,
    /// One for each connection that is.
    open: WaitGroup,
    /// Those that wait for a request.
    idle: RefCell<HashMap<u64, Rc<TcpStream>>>,
    stopping: Cell<bool>,
    served: Cell<u64>,
}

fn serve(address: &str) -> io::Result<()> {
    let listener = Rc::new(TcpListener::bind(address)?);
    let server = Rc::new(Server {
        places: Semaphore::new(CONNECTIONS),
        open: WaitGroup::new(),
        idle: RefCell::default(),
        stopping: Cell::new(false),
        served: Cell::new(0),
    });
    let interrupts = pirn::io::signals(&[Signal::Interrupt, Signal::Terminate])?;
    println!("listening on http://{}", listener.local_addr()?);
    let acceptor = thread::spawn_local({
        let (listener, server) = (listener.clone(), server.clone());
        move || accept(&listener, &server)
    });
    let signal = interrupts.recv()?;
    println!("{signal}, stopping: {} connections are open", server.open.count());
    server.stopping.set(true);
    listener.close();
    // One that waits for a place.
    acceptor.cancel();
    for stream in server.idle.borrow().values() {
        let _ = stream.shutdown(Shutdown::Read);
    }
    let stopped = thread::spawn_local({
        let server = server.clone();
        move || server.open.wait_timeout(FAREWELL)
    });
    thread::spawn(move || {
        // A second one.
        let _ = interrupts.recv();
        std::process::exit(130);
    });
    let all = stopped.join().unwrap_or(false);
    let how = if all { "all connections have ended" } else { "gave up the rest" };
    println!("stopped: {} requests were answered, {how}", server.served.get());
    Ok(())
}

fn accept(listener: &TcpListener, server: &Rc<Server>) {
    for number in 0.. {
        let Ok(place) = server.places.acquire() else { return };
        match listener.accept() {
            Ok((stream, _)) => {
                // The permit would borrow; its place is given back by hand.
                place.forget();
                let (server, open) = (server.clone(), server.open.guard());
                thread::spawn_local(move || {
                    // A client that goes away ends its own fiber, and nothing else.
                    let _ = Connection::new(number, Rc::new(stream), &server).run();
                    let _ = server.places.add_permits(1);
                    drop(open);
                });
            }
            Err(_) if server.stopping.get() => return,
            Err(error) => eprintln!("http_server: accept: {error}"),
        }
    }
}

/// A request, as far as it matters here.
struct Request {
    method: String,
    path: String,
    /// Bytes of its head.
    head: usize,
    /// Bytes of its body.
    body: usize,
    keep: bool,
    /// Whether the client waits for a word before it sends the body.
    expects: bool,
}

/// Why a request gets no proper answer; the connection ends with it.
type Refusal = (u16, &'static str);

struct Connection<'a> {
    number: u64,
    stream: Rc<TcpStream>,
    server: &'a Server,
    /// What has come and was not used yet.
    input: Vec<u8>,
    /// What is to be sent.
    output: Vec<u8>,
}

impl<'a> Connection<'a> {
    fn new(number: u64, stream: Rc<TcpStream>, server: &'a Server) -> Connection<'a> {
        Connection { number, stream, server, input: Vec::new(), output: Vec::new() }
    }

    fn run(&mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        self.stream.set_write_timeout(Some(ANSWER))?;
        while self.wait_for_request()? {
            let keep = match self.request() {
                Ok(Some(request)) => self.answer(&request)? && !self.server.stopping.get(),
                Ok(None) => false,
                Err((status, reason)) => {
                    respond(&mut self.output, status, reason, reason.as_bytes(), true, false);
                    false
                }
            };
            if !keep {
                break;
            }
        }
        self.flush()?;
        // The other side is to see the answer, and not a reset because of what it still sends.
        self.stream.shutdown(Shutdown::Write)
    }

    /// Waits for the first byte of a request. False: there is none.
    fn wait_for_request(&mut self) -> io::Result<bool> {
        if !self.input.is_empty() {
            return Ok(true);
        }
        self.flush()?;
        if self.server.stopping.get() {
            return Ok(false);
        }
        // A connection that waits keeps no buffers.
        self.input = Vec::new();
        self.output = Vec::new();
        self.server.idle.borrow_mut().insert(self.number, self.stream.clone());
        let read = self.read(IDLE);
        self.server.idle.borrow_mut().remove(&self.number);
        match read {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads what there is, after a wait if there is nothing.
    fn read(&mut self, limit: Duration) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(limit))?;
        let mut part = [0; 1024];
        let read = (&*self.stream).read(&mut part)?;
        self.input.extend_from_slice(&part[..read]);
        Ok(read)
    }

    /// Reads on, for a request that has begun to come. False: the client has gone.
    fn read_on(&mut self, deadline: Instant) -> Result<bool, Refusal> {
        // What was asked before need not wait for this.
        if self.flush().is_err() {
            return Ok(false);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.read(left.max(Duration::from_nanos(1))) {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err((408, "Request Timeout")),
            Err(_) => Ok(false),
        }
    }

    /// The next request, with all of its body behind it. `None`: the client has gone.
    fn request(&mut self) -> Result<Option<Request>, Refusal> {
        let deadline = Instant::now() + REQUEST;
        let request = loop {
            match parse(&self.input)? {
                Some(request) => break request,
                None if self.input.len() >= HEAD => {
                    return Err((431, "Request Header Fields Too Large"));
                }
                None if self.read_on(deadline)? => {}
                None => return Ok(None),
            }
        };
        if request.body > BODY {
            return Err((413, "Content Too Large"));
        }
        if request.expects && self.input.len() < request.head + request.body {
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        while self.input.len() < request.head + request.body {
            if !self.read_on(deadline)? {
                return Ok(None);
            }
        }
        Ok(Some(request))
    }

    /// Answers a request, and takes it out of the input. Whether the connection goes on.
    fn answer(&mut self, request: &Request) -> io::Result<bool> {
        let end = request.head + request.body;
        let body = &self.input[request.head..end];
        let (method, path) = (request.method.as_str(), request.path.as_str());
        let is_read = matches!(method, "GET" | "HEAD");
        let keep = request.keep && !self.server.stopping.get();
        self.server.served.set(self.server.served.get() + 1);
        let mut say = |status, reason, body: &[u8]| {
            respond(&mut self.output, status, reason, body, method != "HEAD", keep);
        };
        match path {
            "/" if is_read => say(200, "OK", b"Hello from a fiber.\n"),
            "/stats" if is_read => {
                let (open, served) = (self.server.open.count(), self.server.served.get());
                say(200, "OK", format!("{open} connections, {served} requests\n").as_bytes());
            }
            "/echo" if method == "POST" => say(200, "OK", body),
            "/" | "/stats" | "/echo" => say(405, "Method Not Allowed", b"Method Not Allowed"),
            _ => say(404, "Not Found", b"Not Found"),
        }
        self.input.drain(..end);
        if self.output.len() >= ANSWERS {
            self.flush()?;
        }
        Ok(keep)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            (&*self.stream).write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }
}

/// The request that the input begins with. `None`: its head has not come to its end.
fn parse(input: &[u8]) -> Result<Option<Request>, Refusal> {
    const BAD: Refusal = (400, "Bad Request");
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head = match parsed.parse(&input[..input.len().min(HEAD)]) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err((431, "Request Header Fields Too Large"));
        }
        Err(_) => return Err(BAD),
    };
    let (Some(method), Some(path)) = (parsed.method, parsed.path) else { return Err(BAD) };
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        head,
        body: 0,
        keep: parsed.version == Some(1),
        expects: false,
    };
    let mut length = None;
    for header in &*parsed.headers {
        let value = str::from_utf8(header.value).map_err(|_| BAD)?.trim();
        match header.name {
            name if name.eq_ignore_ascii_case("content-length") => {
                // Digits only, and the same whenever it is said.
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let number = digits.then(|| value.parse().unwrap_or(usize::MAX)).ok_or(BAD)?;
                if length.replace(number).is_some_and(|before| before != number) {
                    return Err(BAD);
                }
            }
            name if name.eq_ignore_ascii_case("transfer-encoding") => {
                return Err((501, "Not Implemented"));
            }
            name if name.eq_ignore_ascii_case("connection") => {
                let has = |word| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(word));
                request.keep = has("keep-alive") || request.keep && !has("close");
            }
            name if name.eq_ignore_ascii_case("expect") => {
                request.expects = value.eq_ignore_ascii_case("100-continue");
            }
            _ => {}
        }
    }
    request.body = length.unwrap_or(0);
    Ok(Some(request))
}

/// Adds an answer to what is to be sent.
fn respond(
    output: &mut Vec<u8>,
    status: u16,
    reason: &str,
    body: &[u8],
    with_body: bool,
    keep: bool,
) {
    let connection = if keep { "keep-alive" } else { "close" };
    // Into memory: it cannot fail.
    let _ = write!(
        output,
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: {connection}\r\n\r\n",
        body.len(),
    );
    if with_body {
        output.extend_from_slice(body);
    }
}
