//! Sockets that block the fiber, not its carrier, with std's names and signatures: `use pirn::net`
//! may stand where `use std::net` stood.
//!
//! ```
//! use std::io::{BufRead, BufReader, Write};
//! use pirn::net::{TcpListener, TcpStream};
//! use pirn::thread;
//!
//! fn shout(stream: TcpStream) -> std::io::Result<()> {
//!     for line in BufReader::new(&stream).lines() {
//!         writeln!(&stream, "{}", line?.to_uppercase())?;
//!     }
//!     Ok(())
//! }
//!
//! pirn::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     thread::spawn(move || {
//!         for stream in listener.incoming() {
//!             let stream = stream.unwrap();
//!             thread::spawn(move || shout(stream)); // a fiber for each connection
//!         }
//!     });
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"who is there?\n")?;
//!     let mut answer = String::new();
//!     BufReader::new(stream).read_line(&mut answer)?;
//!     assert_eq!(answer, "WHO IS THERE?\n");
//!     Ok::<(), std::io::Error>(())
//! }).unwrap();
//! ```
//!
//! # How a call waits
//!
//! Each call is tried first; only one that would block waits, in the runtime's reactor, in which one
//! `epoll` serves all sockets, all timers and other threads. A socket is made known to it once, when
//! a fiber first has to wait for it. A request and its answer cost one `recv` and one `send`, and
//! nothing else for the connection: a read that follows one which did not fill its buffer waits without
//! asking the kernel. A fiber whose sockets are always ready gives way after 16 calls.
//!
//! # Whoever calls
//!
//! * A fiber waits as for a lock or a channel: it can be [cancelled](crate::thread::JoinHandle::cancel),
//!   stands under [time limits](crate::time::timeout), and reports say what it waits for: "waits to
//!   read from TcpStream fd 7 (127.0.0.1:80)". While somebody waits for a socket nothing is a deadlock.
//! * A [task without a stack](crate::task) calls the `poll_` forms.
//! * A thread outside a runtime waits in `poll(2)`. Sockets are made, used and passed on anywhere.
//! * Fibers of several runtimes may use one socket: each runtime's reactor knows it then, and
//!   depends on no other one. A socket outlives the runtime that it was made in.
//! * In a destructor, while a fiber is cancelled or its runtime ends, a call that would wait fails.
//!
//! With [virtual time](crate::Builder::virtual_time) a time limit counts by that clock, on which
//! other processes take no time: if nothing is ready and nobody can run, it is over.
//!
//! # Descriptors
//!
//! All are closed when another program is executed. They do not block: std's types get them back
//! in the mode that they expect.

mod addr;
mod bind;
mod resolve;
mod socket;
mod tcp;
mod udp;
mod unix;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

pub use bind::BindOptions;
pub use resolve::{ToSocketAddrs, set_resolver};
pub use tcp::{Incoming, TcpConnecting, TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixIncoming, UnixListener, UnixStream};
