//! The servers among the scripts, as clients see them: run by the command, with real sockets.

mod child;
mod server;
mod sockets;

use std::io::{BufRead, BufReader, Read, Write, stderr};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use server::Server;
use sockets::grant_descriptors;

/// A script that serves.
fn start(script: &str, options: &[&str]) -> Server {
    let mut command = pirn();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scripts").join(script);
    command.arg("run").args(options).arg(path);
    Server::start(command)
}

/// The command, under an emulator if this test is.
fn pirn() -> Command {
    child::program(Path::new(env!("CARGO_BIN_EXE_pirn")))
}

/// Somebody in the chat.
struct Member {
    from: BufReader<TcpStream>,
}

impl Member {
    fn join(server: &Server, name: &str) -> Member {
        let mut member = Member { from: BufReader::new(server.connect()) };
        member.hears("What is your name?");
        member.says(name);
        member
    }

    fn says(&mut self, line: &str) {
        self.from.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn hears(&mut self, expected: &str) {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end_matches('\n'), expected);
    }
}

#[test]
fn members_of_the_chat_hear_each_other_come_talk_and_go() {
    let server = start("chat.n", &[]);
    let mut ada = Member::join(&server, "ada");
    ada.hears("Welcome, ada. Here are: ada");
    let mut bob = Member::join(&server, "ada");
    bob.hears("ada is here already");
    bob.says("two words");
    bob.hears("a name is one word of up to 20 letters");
    bob.says("bob\r");
    bob.hears("Welcome, bob. Here are: ada, bob");
    ada.hears("* bob has joined");
    ada.says("good morning");
    bob.hears("ada: good morning");
    bob.says("/nick robert");
    for member in [&mut ada, &mut bob] {
        member.hears("* bob is now robert");
    }
    let mut eve = Member::join(&server, "eve");
    eve.hears("Welcome, eve. Here are: ada, robert, eve");
    for member in [&mut ada, &mut bob] {
        member.hears("* eve has joined");
    }
    // Without a word.
    drop(eve);
    for member in [&mut ada, &mut bob] {
        member.hears("* eve has left");
    }
    ada.says("/quit");
    assert_eq!(ada.from.read_line(&mut String::new()).unwrap(), 0);
    bob.hears("* ada has left");
    bob.says("/who");
    bob.hears("Here are: robert");
}

#[test]
fn a_member_who_does_not_listen_holds_up_nobody_and_is_sent_away() {
    let server = start("chat.n", &[]);
    let mut ada = Member::join(&server, "ada");
    ada.hears("Welcome, ada. Here are: ada");
    let mut bob = Member::join(&server, "bob");
    bob.hears("Welcome, bob. Here are: ada, bob");
    ada.hears("* bob has joined");
    let mut deaf = Member::join(&server, "deaf");
    deaf.hears("Welcome, deaf. Here are: ada, bob, deaf");
    for member in [&mut ada, &mut bob] {
        member.hears("* deaf has joined");
    }
    let size: libc::c_int = 16 * 1024;
    // SAFETY: the option is an int. It keeps the kernel from taking in all that is sent.
    let set = unsafe {
        let (fd, size) = (deaf.from.get_ref().as_raw_fd(), (&raw const size).cast());
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, size, 4)
    };
    assert_eq!(set, 0);
    // Far more than the kernel keeps for one who does not read.
    let line = "x".repeat(60_000);
    let mut gone = false;
    for _ in 0..400 {
        ada.says(&line);
        let mut heard = String::new();
        bob.from.read_line(&mut heard).unwrap();
        if heard == "* deaf has left\n" {
            gone = true;
            break;
        }
        assert_eq!(heard.trim_end(), format!("ada: {line}"));
    }
    assert!(gone, "24 MB were kept for a member who does not listen");
}

#[test]
fn clients_of_the_echo_script_get_what_they_said_whatever_others_do() {
    for options in [&[][..], &["--gc-stress"]] {
        let server = start("echo.n", options);
        let idle = server.connect();
        let mut begun = server.connect();
        begun.write_all(b"half").unwrap();
        let clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for (number, client) in clients.iter().enumerate() {
            (&*client).write_all(&[number as u8; 3_000]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
        for (number, mut client) in clients.iter().enumerate() {
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            assert!(got.len() == 3_000 && got.iter().all(|&byte| byte == number as u8));
        }
        let mut half = [0; 4];
        begun.read_exact(&mut half).unwrap();
        assert_eq!(&half, b"half");
        drop(idle);
    }
}

#[test]
fn the_echo_script_gives_descriptors_back_without_a_collection() {
    if child::is_emulated() {
        let _ = writeln!(stderr(), "SKIPPED: an emulator has descriptors of its own");
        return;
    }
    let server = start("echo.n", &[]);
    // The first one makes the reactor.
    drop(server.connect());
    let mut first = server.connect();
    first.write_all(b"x").unwrap();
    first.read_exact(&mut [0]).unwrap();
    let with_one = server.descriptors();
    let clients: Vec<_> = (0..30).map(|_| server.connect()).collect();
    server.comes_to(with_one + 30);
    drop(clients);
    server.comes_to(with_one);
}

#[test]
fn an_idle_client_of_the_echo_script_costs_little() {
    if child::is_emulated() {
        let _ = writeln!(stderr(), "SKIPPED: memory under an emulator is the emulator's");
        return;
    }
    let wanted = 10_000;
    let count = (grant_descriptors(wanted + 64).saturating_sub(64)).min(wanted) as usize;
    let server = start("echo.n", &[]);
    let client = || {
        let mut client = server.connect();
        client.write_all(b"pick").unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        client
    };
    // What is needed once is there.
    let first = client();
    let before = child::resident_bytes_of(server.child.id());
    let clients: Vec<_> = (0..count).map(|_| client()).collect();
    let each = (child::resident_bytes_of(server.child.id()) - before) as f64 / count as f64;
    let _ = writeln!(stderr(), "{count} idle connections of a script: {each:.0} bytes each");
    assert!(!child::is_native() || each < 2048.0, "{each} bytes for each of {count} connections");
    drop((first, clients));
}
