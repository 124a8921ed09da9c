//! A server in a process of its own, as its clients see it.

// Every test program takes what it needs.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The process ends with this.
pub struct Server {
    pub child: Child,
    pub out: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

impl Server {
    /// Starts what takes its address as its last argument, and first says where it listens.
    pub fn start(mut command: Command) -> Server {
        let mut child = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("listening on ").trim_start_matches("http://");
        Server { child, address: address.parse().expect(&line), out }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        // What takes longer hangs.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Descriptors that it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Waits until it has so many descriptors open.
    pub fn comes_to(&self, descriptors: usize) {
        let mut tries = 0;
        while self.descriptors() != descriptors {
            tries += 1;
            assert!(tries < 60_000, "{} descriptors, not {descriptors}", self.descriptors());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn interrupt(&self) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) }, 0);
    }

    /// What it says until it ends, and how it does.
    pub fn end(mut self) -> (String, ExitStatus) {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
