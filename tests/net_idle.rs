//! What connections cost that are open and do nothing.
//!
//! The server is a process of its own, so that its memory is that of one side. It measures itself when
//! every client has had an answer and is waited for again.

mod child;
mod sockets;

use std::cell::RefCell;
use std::io::{Read, Write, stderr};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use child::{child_until, is_emulated, is_native, resident_bytes};
use pirn::net::{TcpListener, TcpStream};
use pirn::sync::{WaitGroup, WaitGroupGuard};
use pirn::task::{self, Step};
use pirn::thread;
use sockets::grant_descriptors;

/// Connections at a time.
const CONNECTIONS: usize = 10_000;
/// The same under an emulator.
const FEW: usize = 300;
/// Descriptors that are needed for other things.
const OTHERS: usize = 64;
/// Bytes of the buffer that a fiber has on its stack, and of that of a task that has none.
const BUFFER: usize = 1024;
const SMALL: usize = 64;

/// How many connections a process can have, here.
fn connections() -> usize {
    let wanted = if is_emulated() { FEW } else { CONNECTIONS };
    grant_descriptors((wanted + OTHERS) as u64).saturating_sub(OTHERS as u64).min(wanted as u64)
        as usize
}

/// Serves, in a child, as many clients as this process can have; they stay. Returns the bytes that
/// are resident in the server for each of them.
fn bytes_each(test: &str, serve: fn(TcpStream, Answered)) -> Option<f64> {
    // One test has all descriptors at a time. (That one has failed is no concern of the other.)
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let count = connections();
    let clients = RefCell::new(Vec::with_capacity(count));
    let text = child_until(
        test,
        "server",
        |text| {
            if let Some(address) = text.lines().find_map(|line| line.strip_prefix("LISTENING "))
                && text.ends_with('\n')
                && clients.borrow().is_empty()
            {
                clients.borrow_mut().extend((0..count).map(|_| client(address)));
            }
            text.lines().any(|line| line.starts_with("RESIDENT ")) && text.ends_with('\n')
        },
        || server(count, serve),
    )?;
    let each = text.lines().find_map(|line| line.strip_prefix("RESIDENT ")).expect(&text);
    let each = each.parse().unwrap();
    let scale = if count < CONNECTIONS { ", SCALED DOWN from 10,000" } else { "" };
    // Not by `eprintln`, which the test harness would keep to itself.
    let _ = writeln!(stderr(), "{test}: {count} connections{scale}, {each:.0} bytes each");
    Some(each)
}

/// A client that has had an answer.
fn client(address: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"pick").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pick");
    stream
}

/// What each connection holds until its client has had an answer.
type Answered = WaitGroupGuard;

fn server(count: usize, serve: fn(TcpStream, Answered)) {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let unanswered = Rc::new(WaitGroup::new());
        let before = resident_bytes();
        eprintln!("LISTENING {}", listener.local_addr().unwrap());
        for _ in 0..count {
            let (stream, _) = listener.accept().unwrap();
            serve(stream, unanswered.guard());
        }
        unanswered.wait();
        eprintln!("RESIDENT {}", (resident_bytes() - before) as f64 / count as f64);
        thread::park();
    });
}

/// A task whose state is what it has in hand.
fn serve_without_a_stack(stream: TcpStream, answered: Answered) {
    let (mut buf, mut from, mut to) = ([0; SMALL], 0, 0);
    let mut answered = Some(answered);
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
            drop(answered.take());
        }
    })));
}

fn serve_by_a_fiber(mut stream: TcpStream, answered: Answered) {
    let mut answered = Some(answered);
    thread::spawn(move || {
        let mut buf = [0; BUFFER];
        while let Ok(read @ 1..) = stream.read(&mut buf) {
            if stream.write_all(&buf[..read]).is_err() {
                break;
            }
            drop(answered.take());
        }
    });
}

#[test]
fn ten_thousand_idle_connections_cost_a_page_each_and_little_more_with_a_fiber() {
    let test = "ten_thousand_idle_connections_cost_a_page_each_and_little_more_with_a_fiber";
    let Some(each) = bytes_each(test, serve_by_a_fiber) else { return };
    if is_native() {
        // The frames of a debug build reach into the next pages.
        let pages = if cfg!(debug_assertions) { 3.0 } else { 1.0 };
        assert!(each <= pages * 4096.0 + 2048.0, "{each} bytes");
    }
}

#[test]
fn ten_thousand_idle_connections_cost_a_kilobyte_each_without_a_stack() {
    let test = "ten_thousand_idle_connections_cost_a_kilobyte_each_without_a_stack";
    let Some(each) = bytes_each(test, serve_without_a_stack) else { return };
    if is_native() {
        assert!(each <= 1024.0, "{each} bytes");
    }
}
