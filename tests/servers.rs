//! The servers among the examples, as a client sees them that means no good.

mod child;
mod server;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use server::Server;

fn start(name: &str) -> Server {
    start_with(name, &[])
}

fn start_with(name: &str, env: &[(&str, &str)]) -> Server {
    let mut command = child::example(name);
    // One carrier, whatever this test runs with: each has descriptors of its own, when it needs them.
    command.envs(env.iter().copied()).env("PIRN_CARRIERS", "1");
    Server::start(command)
}

/// Reads one answer: its head and its body.
fn answer(stream: &mut BufReader<&TcpStream>) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "an end within {head:?}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Asks with all of this, and reads one answer.
fn ask(server: &Server, request: &str) -> (String, Vec<u8>) {
    let stream = server.connect();
    // It may have answered and gone before it has read all.
    let _ = (&stream).write_all(request.as_bytes());
    answer(&mut BufReader::new(&stream))
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const HELLO: &[u8] = b"Hello from a fiber.\n";

#[test]
fn the_echo_server_echoes_to_many_at_once() {
    let server = start("echo");
    let clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for (number, client) in clients.iter().enumerate() {
        (&*client).write_all(&[number as u8; 3_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    for (number, mut client) in clients.iter().enumerate() {
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got.len() == 3_000 && got.iter().all(|&byte| byte == number as u8));
    }
}

#[test]
fn a_client_that_is_killed_in_mid_request_leaves_no_descriptor_with_the_server() {
    for (name, request) in [("echo", "x"), ("http_server", "POST /echo HTTP/1.1\r\nContent-Le")] {
        let server = start(name);
        // One that stays: what the server keeps for all is made by then.
        let witness = server.connect();
        (&witness).write_all(if name == "echo" { b"x" } else { GET.as_bytes() }).unwrap();
        (&witness).read_exact(&mut [0]).unwrap();
        let quiet = server.descriptors();
        // bash: it opens the connection, sends a part of a request, and is killed while it waits.
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{}; printf '{}' >&3; echo sent; read <&3; read <&3",
            server.address.port(),
            request.replace("\r\n", "\\r\\n")
        );
        for _ in 0..3 {
            let client = Command::new("bash").args(["-c", &script]).stdout(Stdio::piped()).spawn();
            let mut client = client.unwrap();
            let mut said = String::new();
            BufReader::new(client.stdout.take().unwrap()).read_line(&mut said).unwrap();
            assert_eq!(said, "sent\n");
            server.comes_to(quiet + 1);
            client.kill().unwrap();
            client.wait().unwrap();
            server.comes_to(quiet);
        }
    }
}

#[test]
fn connections_are_kept_and_requests_that_come_together_are_answered_in_order() {
    let server = start("http_server");
    let stream = server.connect();
    let mut answers = BufReader::new(&stream);
    for _ in 0..3 {
        (&stream).write_all(GET.as_bytes()).unwrap();
        let (head, body) = answer(&mut answers);
        assert_eq!((status(&head), &*body), (200, HELLO));
    }
    let post = "POST /echo HTTP/1.1\r\nContent-Length: 4\r\n\r\nwarp";
    let head_only = "HEAD / HTTP/1.1\r\n\r\n";
    let last = "GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n";
    // Cut anywhere.
    let all = format!("{GET}{post}{GET}{last}");
    let (first, second) = all.split_at(GET.len() + 20);
    (&stream).write_all(first.as_bytes()).unwrap();
    assert_eq!(answer(&mut answers).1, HELLO);
    (&stream).write_all(second.as_bytes()).unwrap();
    assert_eq!(answer(&mut answers).1, b"warp");
    assert_eq!(answer(&mut answers).1, HELLO);
    let (head, _) = answer(&mut answers);
    assert_eq!(status(&head), 404);
    assert!(head.contains("Connection: close"));
    assert_eq!(answers.read(&mut [0]).unwrap(), 0);
    // A head alone, from a client of the old kind.
    let stream = server.connect();
    (&stream).write_all(head_only.replace("1.1", "1.0").as_bytes()).unwrap();
    let mut text = String::new();
    (&stream).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"), "{text}");
}

#[test]
fn what_is_too_large_or_makes_no_sense_is_refused() {
    let server = start("http_server");
    let long = "x".repeat(10_000);
    let many = "A: b\r\n".repeat(100);
    for (request, wanted) in [
        (format!("GET / HTTP/1.1\r\nA: {long}\r\n\r\n"), 431),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), 431),
        ("POST /echo HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n".into(), 413),
        ("POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n".into(), 413),
        ("POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n".into(), 400),
        ("POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".into(), 400),
        ("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(), 501),
        ("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n".into(), 405),
        ("hello\r\n\r\n".into(), 400),
        ("\x01\x02\r\n\r\n".into(), 400),
    ] {
        let (head, _) = ask(&server, &request);
        assert_eq!(status(&head), wanted, "{request:.60}");
    }
    let (head, body) = ask(&server, GET);
    assert_eq!((status(&head), &*body), (200, HELLO));
}

#[test]
fn a_body_is_asked_for_when_the_client_waits_for_that() {
    let server = start("http_server");
    let stream = server.connect();
    let mut answers = BufReader::new(&stream);
    let head = "POST /echo HTTP/1.1\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n";
    (&stream).write_all(head.as_bytes()).unwrap();
    let (head, _) = answer(&mut answers);
    assert_eq!(status(&head), 100);
    (&stream).write_all(&[b'z'; 100_000]).unwrap();
    assert_eq!(answer(&mut answers).1, [b'z'; 100_000]);
}

#[test]
fn clients_that_are_slow_or_half_gone_hold_nobody_up() {
    let server = start("http_server");
    // They send a head byte by byte, have stopped in it, read nothing, or have shut down writing.
    let slow: Vec<_> = (0..50).map(|_| server.connect()).collect();
    let stopped = server.connect();
    (&stopped).write_all(b"GET / HT").unwrap();
    let deaf = server.connect();
    deaf.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
    let flood =
        format!("POST /echo HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{}", "y".repeat(100_000));
    while (&deaf).write_all(flood.as_bytes()).is_ok() {}
    let half = server.connect();
    (&half).write_all(GET.as_bytes()).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    for &byte in GET.as_bytes() {
        for mut stream in &slow {
            stream.write_all(&[byte]).unwrap();
        }
        let (head, body) = ask(&server, GET);
        assert_eq!((status(&head), &*body), (200, HELLO));
    }
    for stream in slow.iter().chain([&half]) {
        assert_eq!(answer(&mut BufReader::new(stream)).1, HELLO);
    }
    drop(deaf);
}

#[test]
fn an_interrupt_lets_requests_end_and_nothing_else() {
    let server = start("http_server");
    let (idle, busy) = (server.connect(), server.connect());
    for stream in [&idle, &busy] {
        (&*stream).write_all(GET.as_bytes()).unwrap();
        answer(&mut BufReader::new(stream));
    }
    let request = "POST /echo HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    (&busy).write_all(request.as_bytes()).unwrap();
    let mut answers = BufReader::new(&busy);
    // It has the head.
    assert_eq!(status(&answer(&mut answers).0), 100);
    server.interrupt();
    // The one without a request is at its end, and nobody comes in any more.
    assert_eq!((&idle).read(&mut [0]).unwrap(), 0);
    let refused = TcpStream::connect(server.address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    (&busy).write_all(b"late").unwrap();
    let (head, body) = answer(&mut answers);
    assert_eq!((&*body, head.contains("Connection: close")), (&b"late"[..], true), "{head}");
    assert_eq!(answers.read(&mut [0]).unwrap(), 0);
    let (text, status) = server.end();
    assert!(status.success(), "{status}");
    assert!(text.contains("SIGINT, stopping: 2 connections are open"), "{text}");
    assert!(text.contains("3 requests were answered, all connections have ended"), "{text}");
}

#[test]
fn a_second_interrupt_does_not_wait_for_requests_to_end() {
    // It ends in a fiber, and does not free what the runtime has.
    let mut server = start_with("http_server", child::LEAKS);
    let stream = server.connect();
    let request = "POST /echo HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    (&stream).write_all(request.as_bytes()).unwrap();
    assert_eq!(status(&answer(&mut BufReader::new(&stream)).0), 100);
    server.interrupt();
    let mut line = String::new();
    server.out.read_line(&mut line).unwrap();
    assert!(line.contains("stopping: 1 connections are open"), "{line}");
    // It has received the first one, so this is another.
    server.interrupt();
    let (text, status) = server.end();
    assert_eq!(status.code(), Some(130), "{text}");
}
