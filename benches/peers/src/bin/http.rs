//! pirn's example of an HTTP server beside hyper and Go's net/http, under wrk.
//!
//!     cargo build --release --bins && cargo run --release --bin http    # 64 connections
//!     cargo run --release --bin http -- --rounds 9 64
//!
//! Each server is a process of its own on the first processor, and answers `GET /` with the same few
//! bytes; wrk (Debian's package) loads it from the second, with one thread. hyper runs on tokio's
//! `current_thread`, Go with `GOMAXPROCS(1)` (and is left out where it is not installed). Reported are
//! medians of the rounds: requests a second, and the time in which 99 % of them were answered.

use std::convert::Infallible;
use std::env;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

fn hyper_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let answer = |_: Request<Incoming>| async {
                    Ok::<_, Infallible>(
                        Response::builder()
                            .header("content-type", "text/plain")
                            .body(Full::new(Bytes::from_static(b"Hello from a fiber.\n")))
                            .unwrap(),
                    )
                };
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    });
}

/// pirn's example, which is built beside this program.
fn example() -> PathBuf {
    let path = env::current_exe().unwrap().with_file_name("http_server");
    assert!(path.exists(), "{} is not built: cargo build --release --bins", path.display());
    path
}

/// The contenders, and how each is begun; ratios are to the first.
fn servers() -> Vec<(&'static str, PathBuf, &'static [&'static str])> {
    let mut all: Vec<(_, _, &[&str])> = vec![
        ("hyper, current_thread", env::current_exe().unwrap(), &["--hyper"]),
        ("pirn, http_server.rs", example(), &[]),
    ];
    match option_env!("PIRN_PEERS_GO_HTTP") {
        Some(program) => all.push(("Go, net/http", program.into(), &[])),
        None => println!("Go is left out: it was not there when this was built"),
    }
    all
}

/// A server's process; it ends with this.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(program: &PathBuf, arguments: &[&str]) -> Process {
        let mut child = on_processor(0, program)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit('/').next().unwrap_or_default();
        Process { child, address: address.parse().expect("a server says where it is") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn on_processor(processor: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &processor.to_string()]).arg(program);
    command
}

/// What one round has shown.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    p99: f64,
}

/// Loads a server, and reads what wrk says of it.
fn load(server: &Process, connections: usize) -> Figures {
    let output = on_processor(1, "wrk")
        .args(["-t", "1", "-d", "2", "--latency", "-c", &connections.to_string()])
        .arg(format!("http://{}/", server.address))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let word_after = |start: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(start));
        line.unwrap_or_else(|| panic!("wrk says no {start}: {text}")).trim()
    };
    assert!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "{text}");
    Figures {
        per_second: word_after("Requests/sec:").parse().unwrap(),
        p99: milliseconds(word_after("99%")),
    }
}

/// A time as wrk writes it: `431.00us`, `1.20ms`, `2.00s`.
fn milliseconds(text: &str) -> f64 {
    let unit = text.find(char::is_alphabetic).expect("a unit");
    let scale = match &text[unit..] {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        other => panic!("wrk counts in {other}"),
    };
    text[..unit].parse::<f64>().unwrap() * scale
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(connections: usize, rounds: usize) {
    let servers = servers();
    let mut samples = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for (samples, (_, program, arguments)) in samples.iter_mut().zip(&servers) {
            samples.push(load(&Process::start(program, arguments), connections));
        }
    }
    println!("{connections} connections, {rounds} rounds");
    println!("{:<30}{:>10}  {:>9}  ratio", "", "req/s", "p99");
    let rates: Vec<f64> =
        samples.iter().map(|all| median(all.iter().map(|one| one.per_second))).collect();
    for ((samples, (name, ..)), rate) in samples.iter().zip(&servers).zip(&rates) {
        let p99 = median(samples.iter().map(|one| one.p99));
        println!("{name:<30}{rate:>10.0}  {p99:>6.2} ms  {:.2}", rate / rates[0]);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |text: &str| text.parse().ok().filter(|&number: &usize| number > 0);
    let (rounds, connections) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--hyper"] => {
            hyper_server();
            return ExitCode::SUCCESS;
        }
        [] => (Some(5), Some(64)),
        [connections] => (Some(5), number(connections)),
        ["--rounds", rounds] => (number(rounds), Some(64)),
        ["--rounds", rounds, connections] => (number(rounds), number(connections)),
        _ => (None, None),
    };
    let (Some(rounds), Some(connections)) = (rounds, connections) else {
        eprintln!("usage: http [--rounds N] [connections]");
        return ExitCode::from(2);
    };
    if Command::new("wrk").arg("-v").output().is_err() {
        eprintln!("http: there is no wrk here: install Debian's package of that name");
        return ExitCode::FAILURE;
    }
    compare(connections, rounds);
    ExitCode::SUCCESS
}
