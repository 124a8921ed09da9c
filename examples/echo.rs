//! An echo server: a fiber for each connection, written as if it had a thread.
//!
//! `cargo run --release --example echo -- 127.0.0.1:7777` listens on that address, or on a free port
//! of this machine if there is no argument, and prints where. Try it:
//!
//! ```console
//! $ nc 127.0.0.1 7777
//! weft
//! weft
//! ```
//!
//! Accepting goes on when the process has no descriptor left: `accept` takes a moment then.

use std::env;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use pirn::net::{TcpListener, TcpStream};
use pirn::thread;

/// Small enough that a connection which waits costs one page, its fiber's.
const BUFFER: usize = 1024;

fn main() -> ExitCode {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    match pirn::run(|| serve(&address)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        match stream {
            // A client that goes away in the middle ends its own fiber, and nothing else.
            Ok(stream) => drop(thread::spawn(move || echo(stream))),
            Err(error) => eprintln!("echo: accept: {error}"),
        }
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; BUFFER];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read])?,
        }
    }
}
