//! A TCP echo server on pirn and on its peers, under the same load, in turn.
//!
//!     cargo run --release --bin echo                         # 64 and 1,000 connections
//!     cargo run --release --bin echo -- --rounds 9 64
//!
//! Each server is a process of its own on the first processor; the load comes from this one, on the
//! second: a bare `epoll` loop, in which every connection sends 64 bytes, waits until they have come
//! back, and sends again. A runtime there would cost more than the differences that are to be seen.
//! Reported are medians of the rounds: requests a second, the time in which 99 % of the requests were
//! answered, and the processor time of the server for each request, as the kernel counts it.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Bytes of a request.
const MESSAGE: usize = 64;
/// Bytes of a server's buffer.
const BUFFER: usize = 1024;
/// How long a server is under load before it counts, and how long it counts.
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(2);

type Server = fn();

/// The contenders; ratios are to the first.
const SERVERS: &[(&str, Server)] = &[
    ("tokio, current_thread", tokio_server),
    #[cfg(feature = "pirn-side")]
    ("pirn, fibers", pirn_server),
    #[cfg(feature = "pirn-side")]
    ("pirn, tasks without a stack", pirn_task_server),
    ("may, one worker", may_server),
    ("a bare epoll loop", bare_server),
];

/// Says where the server is, to the process that began it.
fn announce(address: SocketAddr) {
    println!("{address}");
}

fn tokio_server() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        announce(listener.local_addr().unwrap());
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut buf = [0; BUFFER];
                while let Ok(read @ 1..) = stream.read(&mut buf).await {
                    if stream.write_all(&buf[..read]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
}

#[cfg(feature = "pirn-side")]
fn pirn_server() {
    pirn::run(|| {
        let listener = pirn::net::TcpListener::bind("127.0.0.1:0").unwrap();
        announce(listener.local_addr().unwrap());
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            pirn::thread::spawn(move || {
                let mut buf = [0; BUFFER];
                while let Ok(read @ 1..) = stream.read(&mut buf) {
                    if stream.write_all(&buf[..read]).is_err() {
                        break;
                    }
                }
            });
        }
    });
}

#[cfg(feature = "pirn-side")]
fn pirn_task_server() {
    use pirn::task::{self, Step};
    use std::task::Poll;
    pirn::run(|| {
        let listener = pirn::net::TcpListener::bind("127.0.0.1:0").unwrap();
        announce(listener.local_addr().unwrap());
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let (mut buf, mut from, mut to) = ([0; BUFFER], 0, 0);
            drop(task::spawn(task::from_fn(move |cx| {
                loop {
                    if from == to {
                        match stream.poll_read(cx, &mut buf) {
                            Poll::Ready(Ok(read @ 1..)) => (from, to) = (0, read),
                            Poll::Ready(_) => return Step::Done(()),
                            Poll::Pending => return Step::Parked,
                        }
                    }
                    match stream.poll_write(cx, &buf[from..to]) {
                        Poll::Ready(Ok(written)) => from += written,
                        Poll::Ready(Err(_)) => return Step::Done(()),
                        Poll::Pending => return Step::Parked,
                    }
                }
            })));
        }
    });
}

fn may_server() {
    may::config().set_workers(1);
    let listener = may::net::TcpListener::bind("127.0.0.1:0").unwrap();
    announce(listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        may::go!(move || {
            let mut buf = [0; BUFFER];
            while let Ok(read @ 1..) = stream.read(&mut buf) {
                if stream.write_all(&buf[..read]).is_err() {
                    break;
                }
            }
        });
    }
}

/// What the kernel's part costs: the calls that every server makes for a request, and nothing else. It
/// takes no heed of a send that would block.
fn bare_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    announce(listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let epoll = Epoll::new();
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    epoll.add(&listener, u64::MAX);
    let mut buf = [0; BUFFER];
    let mut events = Epoll::events();
    loop {
        for event in epoll.wait(&mut events) {
            let Some(place) = streams.get_mut(event.u64 as usize) else {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true).unwrap();
                    stream.set_nonblocking(true).unwrap();
                    epoll.add(&stream, streams.len() as u64);
                    streams.push(Some(stream));
                }
                continue;
            };
            let echoed = place.as_mut().is_some_and(|stream| {
                matches!(stream.read(&mut buf), Ok(read @ 1..) if stream.write_all(&buf[..read]).is_ok())
            });
            if !echoed {
                *place = None;
            }
        }
    }
}

/// An `epoll` that reports readable edges.
struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Epoll {
        // SAFETY: takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0);
        // SAFETY: just made, and nobody else's.
        Epoll(unsafe { OwnedFd::from_raw_fd(epoll) })
    }

    /// Room for what one wait reports.
    fn events() -> Vec<libc::epoll_event> {
        vec![libc::epoll_event { events: 0, u64: 0 }; 1024]
    }

    fn add(&self, descriptor: &impl AsRawFd, token: u64) {
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: token };
        let (epoll, descriptor) = (self.0.as_raw_fd(), descriptor.as_raw_fd());
        // SAFETY: the event is valid.
        let added =
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, descriptor, &raw mut event) };
        assert_eq!(added, 0);
    }

    /// Waits a second at most.
    fn wait<'a>(&self, events: &'a mut [libc::epoll_event]) -> &'a [libc::epoll_event] {
        let room = events.len() as i32;
        // SAFETY: the buffer is valid for its length.
        let ready =
            unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, 1000) };
        &events[..usize::try_from(ready).expect("epoll_wait")]
    }
}

/// Keeps the calling thread, and what it begins, on one processor.
fn stay_on(processor: usize) {
    // SAFETY: the set is valid for its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// A server's process; it ends with this.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(name: &str) -> Process {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--serve", name])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Process { child, address: line.trim().parse().expect("a server says where it is") }
    }

    /// Processor time that its threads have had.
    fn processor_time(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanos = threads.map(|thread| {
            let path = thread.unwrap().path().join("schedstat");
            let text = fs::read_to_string(path).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
        });
        Duration::from_nanos(nanos.sum())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one round has shown.
#[derive(Clone, Copy, Default)]
struct Figures {
    per_second: f64,
    p99: Duration,
    processor: Duration,
}

/// One connection of the load.
struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// Bytes of the answer that are missing.
    missing: usize,
}

impl Connection {
    fn send(&mut self) {
        self.sent = Instant::now();
        self.missing = MESSAGE;
        // A message always fits.
        assert_eq!(self.stream.write(&[b'x'; MESSAGE]).unwrap(), MESSAGE);
    }
}

/// Loads a server, and measures it.
fn load(server: &Process, connections: usize) -> Figures {
    let epoll = Epoll::new();
    let mut all: Vec<Connection> = (0..connections)
        .map(|number| {
            let stream = TcpStream::connect(server.address).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            epoll.add(&stream, number as u64);
            Connection { stream, sent: Instant::now(), missing: 0 }
        })
        .collect();
    all.iter_mut().for_each(Connection::send);
    let mut events = Epoll::events();
    let mut times: Vec<u32> = Vec::new();
    let begin = Instant::now();
    let mut measured: Option<(Instant, Duration)> = None;
    let mut buf = [0; BUFFER];
    loop {
        let ready = epoll.wait(&mut events);
        let now = Instant::now();
        match measured {
            None if now - begin >= WARM_UP => {
                times.clear();
                measured = Some((now, server.processor_time()));
            }
            Some((since, processor)) if now - since >= MEASURED => {
                let spent = server.processor_time() - processor;
                return figures(&mut times, now - since, spent);
            }
            _ => {}
        }
        for event in ready {
            let connection = &mut all[event.u64 as usize];
            // An answer may come in parts; one that is whole leaves nothing behind it.
            if let Ok(read) = connection.stream.read(&mut buf) {
                assert!(read > 0, "the server has hung up");
                connection.missing -= read;
                if connection.missing == 0 {
                    times.push(connection.sent.elapsed().as_nanos() as u32);
                    connection.send();
                }
            }
        }
    }
}

fn figures(times: &mut [u32], elapsed: Duration, spent: Duration) -> Figures {
    times.sort_unstable();
    Figures {
        per_second: times.len() as f64 / elapsed.as_secs_f64(),
        p99: Duration::from_nanos(times[times.len() * 99 / 100].into()),
        processor: spent / times.len() as u32,
    }
}

fn median<T: Copy + PartialOrd>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_by(|one, other| one.partial_cmp(other).unwrap());
    values[values.len() / 2]
}

fn compare(connections: usize, rounds: usize) {
    let mut samples = vec![Vec::new(); SERVERS.len()];
    for _ in 0..rounds {
        for (samples, (name, _)) in samples.iter_mut().zip(SERVERS) {
            samples.push(load(&Process::start(name), connections));
        }
    }
    println!("{connections} connections, {rounds} rounds");
    println!("{:<30}{:>10}  {:>9}  {:>12}  ratio", "", "req/s", "p99", "CPU a request");
    let rates: Vec<f64> =
        samples.iter().map(|all| median(all.iter().map(|one| one.per_second))).collect();
    for ((samples, (name, _)), rate) in samples.iter().zip(SERVERS).zip(&rates) {
        let p99 = median(samples.iter().map(|one| one.p99));
        let processor = median(samples.iter().map(|one| one.processor));
        let ratio = rate / rates[0];
        println!(
            "{name:<30}{rate:>10.0}  {:>6.2} ms  {:>9.2} µs  {ratio:.2}",
            p99.as_secs_f64() * 1e3,
            processor.as_secs_f64() * 1e6,
        );
    }
    println!();
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--serve"
    {
        stay_on(0);
        let server = SERVERS.iter().find(|(server, _)| server == name);
        server.expect("the name of a server").1();
        return ExitCode::SUCCESS;
    }
    let (mut rounds, mut counts) = (5, Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let number = |text: Option<&String>| text.and_then(|text| text.parse().ok());
        match (argument.as_str(), number(Some(argument))) {
            ("--rounds", _) => match number(arguments.next()) {
                Some(number @ 1..) => rounds = number,
                _ => return usage(),
            },
            (_, Some(count @ 1..)) => counts.push(count),
            _ => return usage(),
        }
    }
    if counts.is_empty() {
        counts = vec![64, 1000];
    }
    stay_on(1);
    counts.into_iter().for_each(|count| compare(count, rounds));
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: echo [--rounds N] [connections]...");
    ExitCode::from(2)
}
