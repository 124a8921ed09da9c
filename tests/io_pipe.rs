//! Pipes: `pirn::io::pipe`.

mod child;
mod sockets;

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Stdio;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pirn::io::{self, PipeReader, PipeWriter};
use pirn::task::{self, Context, Step};
use pirn::thread;
use sockets::{descriptors, in_virtual_time};

#[test]
fn more_than_the_pipe_holds_goes_through_while_others_run() {
    pirn::run(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
        let expected = sent.clone();
        let sender = thread::spawn(move || writer.write_all(&sent));
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        assert!(got == expected);
        sender.join().unwrap().unwrap();
    });
}

#[test]
fn a_read_waits_and_the_fiber_that_writes_runs_meanwhile() {
    pirn::run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let reads = thread::spawn_local({
            let order = order.clone();
            move || {
                order.borrow_mut().push("asks");
                let mut byte = [0];
                (&reader).read_exact(&mut byte).unwrap();
                order.borrow_mut().push("has");
            }
        });
        thread::yield_now();
        order.borrow_mut().push("writes");
        (&writer).write_all(b"x").unwrap();
        reads.join().unwrap();
        assert_eq!(*order.borrow(), ["asks", "writes", "has"]);
    });
}

#[test]
fn vectored_calls_fill_and_send_all_pieces() {
    pirn::run(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let pieces = [IoSlice::new(b"warp"), IoSlice::new(b""), IoSlice::new(b" and weft")];
        assert_eq!(writer.write_vectored(&pieces).unwrap(), 13);
        let (mut one, mut two) = ([0; 5], [0; 10]);
        let read =
            reader.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]);
        assert_eq!(read.unwrap(), 13);
        assert_eq!((&one, &two[..8]), (b"warp ", &b"and weft"[..]));
    });
}

#[test]
fn a_time_limit_ends_a_read_and_a_write_that_wait() {
    in_virtual_time(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        reader.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        writer.set_write_timeout(Some(Duration::from_secs(7))).unwrap();
        assert_eq!(reader.read_timeout(), Some(Duration::from_secs(5)));
        assert_eq!(writer.write_timeout(), Some(Duration::from_secs(7)));
        let start = pirn::time::Instant::now();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(writer.write_all(&[0; 1 << 20]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed().as_secs(), 12);
        let zero = reader.set_read_timeout(Some(Duration::ZERO)).unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidInput);
        // Nothing was lost.
        reader.set_read_timeout(None).unwrap();
        drop(writer);
        assert!(std::io::copy(&mut reader, &mut std::io::sink()).unwrap() >= 4096);
    });
}

#[test]
fn without_a_reader_a_write_fails_even_where_the_signal_would_end_the_process() {
    let name = "without_a_reader_a_write_fails_even_where_the_signal_would_end_the_process";
    child::isolated(name, &[], || {
        // SAFETY: the default action, as a host of another language has it.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        pirn::run(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            let (full, mut waiting) = io::pipe().unwrap();
            let waits = thread::spawn(move || waiting.write_all(&[0; 1 << 20]));
            thread::yield_now();
            drop((reader, full));
            assert_eq!(writer.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
            assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    });
}

#[test]
fn closing_wakes_who_waits_for_it_fibers_and_threads() {
    pirn::run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let (reader, writer) = (Arc::new(reader), Arc::new(writer));
        writer.set_nonblocking(true);
        while (&*writer).write(&[0; 4096]).is_ok() {}
        writer.set_nonblocking(false);
        let (empty, _keep) = io::pipe().unwrap();
        let empty = Arc::new(empty);
        let reads = |end: &Arc<PipeReader>| {
            let end = end.clone();
            move || (&*end).read(&mut [0]).map_err(|error| error.kind())
        };
        let writes = |end: &Arc<PipeWriter>| {
            let end = end.clone();
            move || (&*end).write(&[0; 4096]).map_err(|error| error.kind())
        };
        let fibers = [thread::spawn(reads(&empty)), thread::spawn(writes(&writer))];
        let threads = [std::thread::spawn(reads(&empty)), std::thread::spawn(writes(&writer))];
        thread::yield_now();
        empty.close();
        writer.close();
        for fiber in fibers {
            assert_eq!(fiber.join().unwrap(), Err(ErrorKind::NotConnected));
        }
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Err(ErrorKind::NotConnected));
        }
        assert_eq!((&*empty).read(&mut [0]).unwrap_err().kind(), ErrorKind::NotConnected);
        // The other side sees the end when the handle is gone.
        drop(writer);
        assert!(std::io::copy(&mut &*reader, &mut std::io::sink()).unwrap() >= 4096);
    });
}

#[test]
fn a_reader_that_is_cancelled_consumes_nothing() {
    pirn::run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let reader = Rc::new(reader);
        let waits = thread::spawn_local({
            let reader = reader.clone();
            move || (&*reader).read(&mut [0; 10]).map(drop)
        });
        thread::yield_now();
        waits.cancel();
        writer.write_all(b"kept").unwrap();
        assert!(waits.join().is_err());
        let mut text = [0; 10];
        assert_eq!((&*reader).read(&mut text).unwrap(), 4);
        assert_eq!(&text[..4], b"kept");
    });
}

#[test]
fn an_end_that_is_given_away_blocks_as_others_expect() {
    pirn::run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let flags = |fd: i32| {
            // SAFETY: asks only.
            let (status, own) =
                unsafe { (libc::fcntl(fd, libc::F_GETFL), libc::fcntl(fd, libc::F_GETFD)) };
            (status & libc::O_NONBLOCK != 0, own & libc::FD_CLOEXEC != 0)
        };
        assert_eq!(flags(reader.as_raw_fd()), (true, true));
        let theirs: std::io::PipeReader = reader.into();
        assert_eq!(flags(theirs.as_raw_fd()), (false, true));
        let mut back = PipeReader::from(theirs);
        assert_eq!(flags(back.as_raw_fd()), (true, true));
        let mut further = writer.try_clone().unwrap();
        drop(OwnedFd::from(writer));
        further.write_all(b"weft").unwrap();
        drop(further);
        let mut text = String::new();
        back.read_to_string(&mut text).unwrap();
        assert_eq!(text, "weft");
    });
}

#[test]
fn a_child_writes_into_a_pipe() {
    pirn::run(|| {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut child = std::process::Command::new("echo")
            .arg("from afar")
            .stdout(Stdio::from(writer))
            .spawn()
            .unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "from afar\n");
        child.wait().unwrap();
    });
}

#[test]
fn a_task_without_a_stack_reads_and_writes() {
    pirn::run(|| {
        let (reader, writer) = io::pipe().unwrap();
        let mut got = Vec::new();
        let reads = task::spawn(task::from_fn(move |cx: &mut Context<'_>| {
            let mut part = [0; 3];
            loop {
                match reader.poll_read(cx, &mut part) {
                    Poll::Ready(Ok(0)) => return Step::Done(std::mem::take(&mut got)),
                    Poll::Ready(read) => got.extend_from_slice(&part[..read.unwrap()]),
                    Poll::Pending => return Step::Parked,
                }
            }
        }));
        let mut left: &[u8] = b"without a stack";
        let writes = task::spawn(task::from_fn(move |cx: &mut Context<'_>| {
            while !left.is_empty() {
                match writer.poll_write(cx, &left[..left.len().min(4)]) {
                    Poll::Ready(written) => left = &left[written.unwrap()..],
                    Poll::Pending => return Step::Parked,
                }
            }
            Step::Done(())
        }));
        writes.join().unwrap();
        assert_eq!(reads.join().unwrap(), b"without a stack");
    });
}

#[test]
fn reports_say_who_waits_for_which_pipe() {
    pirn::run(|| {
        let (reader, _writer) = io::pipe().unwrap();
        let fd = reader.as_raw_fd();
        let waits = thread::spawn(move || (&reader).read(&mut [0]).map(drop));
        thread::yield_now();
        let fibers = pirn::fibers(false);
        assert_eq!(fibers[1].state(), format!("waits to read from PipeReader fd {fd}"));
        waits.cancel();
        assert!(waits.join().is_err());
    });
}

#[test]
fn pipes_leave_no_descriptor_behind() {
    // Each carrier that waits for a descriptor has a reactor of its own.
    let one_carrier = [("PIRN_CARRIERS", "1")];
    child::isolated("pipes_leave_no_descriptor_behind", &one_carrier, || {
        if !std::path::Path::new("/proc/self/fd").exists() {
            return println!("SKIPPED: no /proc/self/fd to count in");
        }
        pirn::run(|| {
            // The reactor's own.
            let (mut warm, _keep) = io::pipe().unwrap();
            warm.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
            assert!(warm.read(&mut [0]).is_err());
            let before = descriptors();
            for _ in 0..10 {
                let (mut reader, mut writer) = io::pipe().unwrap();
                let reads = thread::spawn(move || reader.read(&mut [0]).unwrap());
                thread::yield_now();
                writer.write_all(b"x").unwrap();
                assert_eq!(reads.join().unwrap(), 1);
            }
            assert_eq!(descriptors(), before);
        });
    });
}
