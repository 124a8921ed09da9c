//! TCP: std's calls on fibers, which wait without holding their carrier up.

mod child;
mod sockets;

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use child::isolated;
use pirn::net::{BindOptions, Shutdown, SocketAddr, TcpConnecting, TcpListener, TcpStream};
use pirn::sync::channel;
use pirn::task::{self, Step};
use pirn::thread::{self, Cancelled};
use pirn::time::{self, Instant};
use sockets::{descriptors, in_virtual_time, tcp_pair, until};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn what_is_written_on_one_side_is_read_on_the_other() {
    pirn::run(|| {
        let (mut one, mut two) = tcp_pair();
        let echo = thread::spawn(move || {
            let mut all = Vec::new();
            two.read_to_end(&mut all).unwrap();
            two.write_all(&all).unwrap();
        });
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        one.write_all(&sent).unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        one.read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} bytes came back", got.len());
        echo.join().unwrap();
    });
}

#[test]
fn a_reader_waits_while_others_run_and_is_woken_by_what_comes() {
    pirn::run(|| {
        let (one, two) = tcp_pair();
        let order = Rc::new(RefCell::new(Vec::new()));
        let reader = thread::spawn_local({
            let order = order.clone();
            move || {
                let mut buf = [0; 8];
                let read = (&two).read(&mut buf).unwrap();
                order.borrow_mut().push("read");
                buf[..read].to_vec()
            }
        });
        thread::yield_now();
        order.borrow_mut().push("write");
        (&one).write_all(b"weft").unwrap();
        assert_eq!(reader.join().unwrap(), b"weft");
        assert_eq!(*order.borrow(), ["write", "read"]);
    });
}

#[test]
fn the_end_of_the_other_side_is_seen_behind_the_last_data_whenever_it_comes() {
    pirn::run(|| {
        // Data and end at once, before and after the reader waits; with a buffer that is not filled.
        for turns in 0..4 {
            let (one, two) = tcp_pair();
            let reader = thread::spawn(move || {
                let mut got = Vec::new();
                let mut buf = [0; 64];
                loop {
                    match (&two).read(&mut buf).unwrap() {
                        0 => return got,
                        read => got.extend_from_slice(&buf[..read]),
                    }
                }
            });
            (0..turns).for_each(|_| thread::yield_now());
            (&one).write_all(b"last").unwrap();
            if turns % 2 == 0 {
                one.shutdown(Shutdown::Write).unwrap();
            } else {
                drop(one);
            }
            assert_eq!(reader.join().unwrap(), b"last");
        }
    });
}

#[test]
fn urgent_data_does_not_hide_what_comes_behind_it() {
    pirn::run(|| {
        use std::os::fd::AsRawFd;
        let (one, two) = tcp_pair();
        let send = |bytes: &[u8], flags| {
            // SAFETY: the bytes are valid for their length.
            let sent =
                unsafe { libc::send(one.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
            assert_eq!(sent, bytes.len() as isize);
        };
        // The reader is known to the reactor, and finds its stream dry.
        let reader = thread::spawn(move || {
            let mut got = Vec::new();
            let mut buf = [0; 64];
            while got.len() < 7 {
                let read = (&two).read(&mut buf).unwrap();
                got.extend_from_slice(&buf[..read]);
            }
            got
        });
        thread::yield_now();
        send(b"a", 0);
        (0..3).for_each(|_| thread::yield_now());
        send(b"bcd", 0);
        send(b"!", libc::MSG_OOB);
        send(b"efg", 0);
        // A read stops before the urgent byte, and nothing comes after that.
        assert_eq!(reader.join().unwrap(), b"abcdefg");
    });
}

/// C102.
#[test]
fn a_side_that_has_shut_down_writing_still_gets_what_is_written_to_it() {
    const ONE_MIB: usize = 1 << 20;
    pirn::run(|| {
        let (ours, theirs) = tcp_pair();
        let peer = thread::spawn(move || {
            (&theirs).write_all(&vec![7; ONE_MIB]).unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
            let mut left = 64 * ONE_MIB;
            let mut buf = vec![0; 100_000];
            while left > 0 {
                let read = (&theirs).read(&mut buf).unwrap();
                assert!(read > 0, "{left} bytes are missing");
                left -= read;
                thread::yield_now();
            }
            assert_eq!((&theirs).read(&mut buf).unwrap(), 0);
        });
        thread::scope(|s| {
            let ours = &ours;
            s.spawn(move || {
                let block = vec![8; ONE_MIB];
                (0..64).for_each(|_| (&*ours).write_all(&block).unwrap());
                ours.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            (&*ours).read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), ONE_MIB);
        });
        peer.join().unwrap();
        // Who waits sleeps: a waiter that spins would have polled without an end.
        let stats = pirn::stats().unwrap();
        assert!(stats.kernel_waits < 100_000, "{stats:?}");
    });
}

#[test]
fn a_read_that_runs_out_of_time_fails_and_the_next_one_works() {
    in_virtual_time(|| {
        let (one, two) = tcp_pair();
        two.set_read_timeout(Some(HOUR)).unwrap();
        assert_eq!(two.read_timeout().unwrap(), Some(HOUR));
        let start = Instant::now();
        let error = (&two).read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(start.elapsed(), HOUR);
        two.set_read_timeout(None).unwrap();
        (&one).write_all(b"late").unwrap();
        let mut buf = [0; 4];
        (&two).read_exact(&mut buf).unwrap();
        assert_eq!(&buf, b"late");
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn a_write_that_runs_out_of_time_fails_after_it_has_filled_what_room_there_was() {
    in_virtual_time(|| {
        let (one, _two) = tcp_pair();
        one.set_write_timeout(Some(HOUR)).unwrap();
        let start = Instant::now();
        let error = (&one).write_all(&vec![0; 64 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        // It may have found some room again after a while.
        assert!(start.elapsed() >= HOUR);
    });
}

#[test]
fn a_time_limit_of_zero_is_refused() {
    let (one, _two) = tcp_pair();
    let error = one.set_read_timeout(Some(Duration::ZERO)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let address = "127.0.0.1:1".parse().unwrap();
    let error = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn time_limits_hold_for_clones_as_well() {
    in_virtual_time(|| {
        let (one, _two) = tcp_pair();
        let clone = one.try_clone().unwrap();
        one.set_read_timeout(Some(HOUR)).unwrap();
        let error = (&clone).read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        one.set_read_timeout(None).unwrap();
        clone.set_nonblocking(true).unwrap();
        assert_eq!((&one).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_limit_on_a_piece_of_work_calls_its_reads_and_accepts_off() {
    in_virtual_time(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (one, _two) = tcp_pair();
        assert!(time::timeout(HOUR, || listener.accept()).is_err());
        assert!(time::timeout(HOUR, || (&one).read(&mut [0; 8])).is_err());
        assert!(time::timeout(HOUR, || (&one).write_all(&vec![0; 64 << 20])).is_err());
    });
}

#[test]
fn a_call_that_must_not_wait_says_so() {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let (one, two) = tcp_pair();
        two.set_nonblocking(true).unwrap();
        assert_eq!((&two).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        (&one).write_all(b"x").unwrap();
        until(|| two.peek(&mut [0; 8]).is_ok());
        assert_eq!((&two).read(&mut [0; 8]).unwrap(), 1);
        assert_eq!((&two).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_cancelled_fiber_leaves_its_read_accept_write_or_connect_and_its_descriptor_is_closed() {
    isolated(
        "a_cancelled_fiber_leaves_its_read_accept_write_or_connect_and_its_descriptor_is_closed",
        &[],
        || {
            pirn::run(|| {
                let (busy, _never_accepted) = sockets::full_listener();
                let (_held, held) = tcp_pair();
                warm_up();
                let before = descriptors();
                let waits: [Box<dyn FnOnce()>; 4] = [
                    Box::new(|| drop((&tcp_pair().0).read(&mut [0; 8]))),
                    Box::new(|| drop(TcpListener::bind("127.0.0.1:0").unwrap().accept())),
                    Box::new(|| {
                        let pair = tcp_pair();
                        drop((&pair.0).write_all(&vec![0; 64 << 20]))
                    }),
                    Box::new(move || drop(TcpStream::connect(busy))),
                ];
                for wait in waits {
                    let fiber = thread::spawn_local(wait);
                    // Whether it waits by now or not.
                    (0..5).for_each(|_| thread::yield_now());
                    fiber.cancel();
                    assert!(fiber.join().unwrap_err().is::<Cancelled>());
                }
                assert_eq!(descriptors(), before);
                drop(held);
            });
        },
    );
}

/// Has the runtime make what it keeps.
fn warm_up() {
    let (_one, two) = tcp_pair();
    two.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let _ = (&two).read(&mut [0; 8]);
}

/// C011.
#[test]
fn a_shutdown_or_a_close_wakes_whoever_waits_and_numbers_are_used_again() {
    pirn::run(|| {
        for close in [true, false] {
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
            let (one, two) = tcp_pair();
            let one = Arc::new(one);
            let reader = thread::spawn({
                let one = one.clone();
                move || (&*one).read(&mut [0; 8])
            });
            let writer = thread::spawn({
                let one = one.clone();
                move || (&*one).write_all(&vec![0; 64 << 20])
            });
            let acceptor = thread::spawn({
                let listener = listener.clone();
                move || listener.accept().map(drop)
            });
            (0..5).for_each(|_| thread::yield_now());
            listener.close();
            if close {
                one.close();
            } else {
                one.shutdown(Shutdown::Both).unwrap();
            }
            let read = reader.join().unwrap();
            if close {
                assert_eq!(read.unwrap_err().kind(), ErrorKind::NotConnected);
            } else {
                assert_eq!(read.unwrap(), 0);
            }
            assert!(writer.join().unwrap().is_err());
            assert_eq!(acceptor.join().unwrap().unwrap_err().kind(), ErrorKind::NotConnected);
            let address = listener.local_addr();
            drop((one, two, listener, address));
            let pairs: Vec<_> = (0..50).map(|_| tcp_pair()).collect();
            for (one, two) in &pairs {
                (&*one).write_all(b"1").unwrap();
                (&*two).read_exact(&mut [0]).unwrap();
            }
        }
    });
}

#[test]
fn the_address_of_a_closed_listener_is_free_again() {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(TcpListener::bind(address).is_err());
        listener.close();
        TcpListener::bind(address).unwrap();
    });
}

/// C032.
#[test]
fn what_one_direction_does_never_disarms_the_other() {
    pirn::run(|| {
        let (one, two) = tcp_pair();
        thread::scope(|s| {
            let (one, two) = (&one, &two);
            let writer = s.spawn(move || (&*one).write_all(&vec![3; 8 << 20]));
            let reader = s.spawn(move || {
                one.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                // Woken by what comes, then out of time.
                (&*one).read_exact(&mut [0]).unwrap();
                (&*one).read(&mut [0; 8]).unwrap_err()
            });
            (0..10).for_each(|_| thread::yield_now());
            (&*two).write_all(b"r").unwrap();
            assert_eq!(reader.join().unwrap().kind(), ErrorKind::WouldBlock);
            // Now it can write.
            let mut got = vec![0; 8 << 20];
            (&*two).read_exact(&mut got).unwrap();
            writer.join().unwrap().unwrap();
        });
    });
}

/// C032, at random.
#[test]
fn no_waiter_is_ready_in_the_kernel_but_parked_whatever_the_order() {
    const BYTES: usize = 200_000;
    for seed in 1..6 {
        let runtime = pirn::Builder::new().seed(seed).build().unwrap();
        runtime
            .run(move || {
                let (one, two) = tcp_pair();
                let (one, two) = (Arc::new(one), Arc::new(two));
                let mut fibers = Vec::new();
                for (near, far) in [(&one, &two), (&two, &one)] {
                    let (writing, reading) = (near.clone(), far.clone());
                    let state = Cell::new(seed);
                    fibers.push(thread::spawn(move || {
                        let mut sent = 0;
                        while sent < BYTES {
                            let some = (sockets::random(&state) as usize % 3_000).min(BYTES - sent);
                            (&*writing).write_all(&vec![1; some]).unwrap();
                            sent += some;
                            if sockets::random(&state).is_multiple_of(4) {
                                thread::yield_now();
                            }
                        }
                    }));
                    let state = Cell::new(seed + 100);
                    fibers.push(thread::spawn(move || {
                        let mut got = 0;
                        let mut buf = vec![0; 5_000];
                        while got < BYTES {
                            let room = 1 + sockets::random(&state) as usize % buf.len();
                            // Reads that are given up leave everything as it was.
                            let limit = Duration::from_micros(sockets::random(&state) % 50);
                            let patient = sockets::random(&state).is_multiple_of(2);
                            let mut read = || (&*reading).read(&mut buf[..room]).unwrap();
                            got += if patient {
                                read()
                            } else {
                                time::timeout(limit, read).unwrap_or(0)
                            };
                        }
                        assert_eq!(got, BYTES);
                    }));
                }
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            })
            .unwrap();
    }
}

/// C068.
#[test]
fn accepting_without_descriptors_left_does_not_keep_the_carrier_busy() {
    isolated("accepting_without_descriptors_left_does_not_keep_the_carrier_busy", &[], || {
        const CLIENTS: usize = 20;
        in_virtual_time(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            warm_up();
            let limit = descriptors() as u64 + 40;
            let limits = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            // SAFETY: the limits are valid.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) }, 0);
            let (failures, accepted) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
            let mut held = Vec::new();
            while let Ok(file) = std::fs::File::open("/dev/null") {
                held.push(file);
            }
            thread::spawn_local({
                let (failures, accepted) = (failures.clone(), accepted.clone());
                move || {
                    loop {
                        match listener.accept() {
                            Ok((stream, _)) => accepted.borrow_mut().push(stream),
                            Err(error) => {
                                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                                failures.set(failures.get() + 1);
                            }
                        }
                    }
                }
            });
            thread::sleep(Duration::from_secs(1));
            assert!((10..=101).contains(&failures.get()), "{} failures", failures.get());
            assert!(accepted.borrow().is_empty());
            held.clear();
            thread::sleep(Duration::from_secs(1));
            assert_eq!(accepted.borrow().len(), CLIENTS);
            drop(clients);
        });
    });
}

/// C073.
#[test]
fn a_connection_that_is_refused_is_an_error_for_every_family() {
    isolated("a_connection_that_is_refused_is_an_error_for_every_family", &[], || {
        pirn::run(|| {
            warm_up();
            let before = descriptors();
            let mut addresses = vec![];
            for name in ["127.0.0.1:0", "[::1]:0"] {
                // One that was listened on until just now.
                match TcpListener::bind(name) {
                    Ok(listener) => addresses.push(listener.local_addr().unwrap()),
                    Err(_) => println!("no {name} here"),
                }
            }
            assert!(!addresses.is_empty());
            for &address in &addresses {
                let error = TcpStream::connect(address).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
                let error = TcpStream::connect_timeout(&address, HOUR).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{address}");
            }
            // The second of two answers.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let second = listener.local_addr().unwrap();
            let stream = TcpStream::connect(&[addresses[0], second][..]).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), second);
            assert!(TcpStream::connect(&[][..]).is_err());
            drop((stream, listener));
            assert_eq!(descriptors(), before);
        });
    });
}

/// C073, C146.
#[test]
fn a_connection_that_does_not_stand_in_time_fails_and_leaves_nothing_behind() {
    isolated(
        "a_connection_that_does_not_stand_in_time_fails_and_leaves_nothing_behind",
        &[],
        || {
            in_virtual_time(|| {
                let (busy, _held) = sockets::full_listener();
                warm_up();
                let before = descriptors();
                let start = Instant::now();
                for _ in 0..1_000 {
                    let error =
                        TcpStream::connect_timeout(&busy, Duration::from_millis(1)).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                }
                assert_eq!(start.elapsed(), Duration::from_secs(1));
                assert_eq!(descriptors(), before);
            });
        },
    );
}

/// C146.
#[test]
fn clients_that_go_at_once_are_errors_to_their_server_and_nothing_worse() {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let echoes: Vec<_> = (0..30)
                .map(|_| {
                    let (stream, _) = listener.accept().unwrap();
                    thread::spawn(move || io::copy(&mut &stream, &mut &stream).unwrap_or(0))
                })
                .collect();
            echoes.into_iter().map(|echo| echo.join().unwrap()).sum::<u64>()
        });
        for round in 0..30 {
            let stream = TcpStream::connect(address).unwrap();
            match round % 3 {
                0 => {}
                1 => (&stream).write_all(&[0; 1000]).unwrap(),
                _ => {
                    // Data that nobody reads: the connection is reset.
                    (&stream).write_all(&[0; 100]).unwrap();
                    until(|| stream.peek(&mut [0]).is_ok());
                }
            }
        }
        assert!(server.join().unwrap() >= 1_000);
    });
}

/// C120.
#[test]
fn several_wait_for_one_socket_and_all_are_served() {
    in_virtual_time(|| {
        let (one, two) = tcp_pair();
        let (one, two) = (Arc::new(one), Arc::new(two));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let one = one.clone();
                thread::spawn(move || (&*one).read_exact(&mut [0]).unwrap())
            })
            .collect();
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let one = one.clone();
                thread::spawn(move || (&*one).write_all(&vec![1; 3 << 20]).unwrap())
            })
            .collect();
        let hasty = thread::spawn({
            let one = one.clone();
            move || time::timeout(Duration::from_secs(1), || (&*one).read(&mut [0])).is_err()
        });
        thread::yield_now();
        thread::sleep(Duration::from_secs(2));
        assert!(hasty.join().unwrap());
        (&*two).write_all(b"123").unwrap();
        let mut got = vec![0; 9 << 20];
        (&*two).read_exact(&mut got).unwrap();
        readers.into_iter().chain(writers).for_each(|fiber| fiber.join().unwrap());

        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let acceptors: Vec<_> = (0..2)
            .map(|_| {
                let listener = listener.clone();
                thread::spawn(move || listener.accept().unwrap().1)
            })
            .collect();
        thread::yield_now();
        let clients = [(); 2].map(|()| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let mut seen: Vec<_> = acceptors.into_iter().map(|one| one.join().unwrap()).collect();
        let mut sent = clients.each_ref().map(|client| client.local_addr().unwrap());
        seen.sort();
        sent.sort();
        assert_eq!(seen, sent);
    });
}

/// C134.
#[test]
fn streams_that_nobody_waits_for_cost_nothing_when_their_peers_reset_them() {
    pirn::run(|| {
        let mut streams = Vec::new();
        let mut peers = Vec::new();
        for _ in 0..50 {
            let (one, two) = tcp_pair();
            // Known to the reactor, by a read and by a write that had to wait.
            one.set_read_timeout(Some(Duration::from_micros(1))).unwrap();
            (&one).read(&mut [0; 8]).unwrap_err();
            one.set_read_timeout(None).unwrap();
            (&one).write_all(b"unread").unwrap();
            streams.push(one);
            peers.push(two);
        }
        // Unread data: a reset.
        drop(peers);
        let before = pirn::stats().unwrap().kernel_waits;
        (0..10).for_each(|_| thread::sleep(Duration::from_millis(1)));
        let waits = pirn::stats().unwrap().kernel_waits - before;
        assert!(waits <= 50 + 3 * 10, "{waits} sleeps in the kernel");
        for stream in streams {
            assert_eq!((&stream).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn a_busy_connection_does_not_hold_up_timers_other_connections_or_fibers() {
    pirn::run(|| {
        let stop = Rc::new(Cell::new(false));
        let (one, two) = tcp_pair();
        // Two fibers of which one of them always can go on.
        let pump = thread::spawn_local({
            let stop = stop.clone();
            move || {
                let block = [0; 4_096];
                while !stop.get() {
                    (&one).write_all(&block).unwrap();
                }
            }
        });
        let drain = thread::spawn(move || {
            let mut buf = [0; 4_096];
            while (&two).read(&mut buf).unwrap() > 0 {}
        });
        let (three, four) = tcp_pair();
        let other = thread::spawn(move || {
            for _ in 0..20 {
                (&four).read_exact(&mut [0]).unwrap();
                (&four).write_all(b"y").unwrap();
            }
        });
        for _ in 0..20 {
            (&three).write_all(b"x").unwrap();
            (&three).read_exact(&mut [0]).unwrap();
            thread::sleep(Duration::from_micros(100));
        }
        other.join().unwrap();
        stop.set(true);
        pump.join().unwrap();
        drain.join().unwrap();
    });
}

#[test]
fn fibers_that_only_yield_do_not_hold_up_connections() {
    pirn::run(|| {
        let done = Rc::new(Cell::new(false));
        let spinners: Vec<_> = (0..3)
            .map(|_| {
                let done = done.clone();
                thread::spawn_local(move || {
                    while !done.get() {
                        thread::yield_now();
                    }
                })
            })
            .collect();
        let (one, two) = tcp_pair();
        let echo = thread::spawn(move || io::copy(&mut &two, &mut &two).unwrap());
        for _ in 0..50 {
            (&one).write_all(b"ping").unwrap();
            (&one).read_exact(&mut [0; 4]).unwrap();
        }
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(echo.join().unwrap(), 200);
        done.set(true);
        spinners.into_iter().for_each(|spinner| spinner.join().unwrap());
    });
}

#[test]
fn another_thread_wakes_a_carrier_that_sleeps_in_its_reactor() {
    pirn::run(|| {
        warm_up();
        for _ in 0..100 {
            let (sender, receiver) = channel::rendezvous();
            let (back, forth) = channel::rendezvous();
            let thread = std::thread::spawn(move || {
                while let Ok(number) = receiver.recv() {
                    back.send(number + 1).unwrap();
                }
            });
            for number in 0..10 {
                sender.send(number).unwrap();
                assert_eq!(forth.recv().unwrap(), number + 1);
            }
            drop(sender);
            thread.join().unwrap();
        }
    });
}

#[test]
fn threads_without_a_runtime_use_the_same_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        io::copy(&mut &stream, &mut &stream).unwrap()
    });
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    assert_eq!((&stream).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_read_timeout(None).unwrap();
    // A fiber sends, this thread receives.
    let (stream, sent) = pirn::run(move || {
        let sent = vec![5; 100_000];
        thread::scope(|s| {
            s.spawn(|| (&stream).write_all(&sent).unwrap());
            let mut first = [0; 10];
            (&stream).read_exact(&mut first).unwrap();
            assert_eq!(first, [5; 10]);
        });
        (stream, sent)
    });
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    (&stream).read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), sent.len() - 10);
    assert_eq!(server.join().unwrap(), sent.len() as u64);
}

#[test]
fn a_close_wakes_a_thread_without_a_runtime() {
    let (one, _two) = tcp_pair();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    std::thread::scope(|s| {
        let reader = s.spawn(|| (&one).read(&mut [0; 8]));
        let acceptor = s.spawn(|| listener.accept());
        one.close();
        listener.close();
        // Whether it waited or had yet to: an end or an error, and no hang.
        assert!(!matches!(reader.join().unwrap(), Ok(1..)));
        assert!(acceptor.join().unwrap().is_err());
    });
}

#[test]
fn a_socket_is_used_by_several_runtimes_and_outlives_each() {
    let (one, two) = tcp_pair();
    let (one, two) = (Arc::new(one), Arc::new(two));
    // One after the other: the second runtime registers it anew.
    for _ in 0..3 {
        pirn::run(|| {
            let reader = thread::spawn({
                let two = two.clone();
                move || (&*two).read_exact(&mut [0; 4]).unwrap()
            });
            thread::yield_now();
            (&*one).write_all(b"next").unwrap();
            reader.join().unwrap();
        });
    }
    // At a time: one reads, the other writes, on the same socket.
    std::thread::scope(|s| {
        for (near, far) in [(&one, &two), (&two, &one)] {
            s.spawn(|| {
                pirn::run(|| {
                    thread::scope(|s| {
                        s.spawn(|| (&**near).write_all(&vec![6; 1 << 20]).unwrap());
                        let mut got = vec![0; 1 << 20];
                        (&**far).read_exact(&mut got[..1 << 19]).unwrap();
                    });
                });
            });
        }
    });
}

#[test]
fn a_socket_goes_to_std_and_comes_back_in_the_mode_that_each_expects() {
    let (one, two) = tcp_pair();
    pirn::run(|| {
        let reader = thread::spawn(move || {
            (&two).read_exact(&mut [0]).unwrap();
            two
        });
        thread::yield_now();
        (&one).write_all(b"1").unwrap();
        let two = std::net::TcpStream::from(reader.join().unwrap());
        let sender = std::thread::spawn(move || {
            // Blocks until something is there.
            (&two).read_exact(&mut [0]).unwrap();
            (&two).write_all(b"2").unwrap();
            two
        });
        (&one).write_all(b"1").unwrap();
        (&one).read_exact(&mut [0]).unwrap();
        let two = TcpStream::from(sender.join().unwrap());
        let reader = thread::spawn(move || (&two).read_exact(&mut [0]).unwrap());
        thread::yield_now();
        (&one).write_all(b"3").unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn parts_are_gathered_and_scattered_and_a_peek_leaves_all_in_place() {
    pirn::run(|| {
        let (one, two) = tcp_pair();
        let parts = [IoSlice::new(b"warp"), IoSlice::new(b"weft")];
        assert_eq!((&one).write_vectored(&parts).unwrap(), 8);
        until(|| two.peek(&mut [0; 16]).unwrap() == 8);
        let (mut first, mut second) = ([0; 2], [0; 30]);
        let mut to = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!((&two).read_vectored(&mut to).unwrap(), 8);
        assert_eq!((&first, &second[..6]), (b"wa", &b"rpweft"[..]));
    });
}

#[test]
fn options_are_those_of_std() {
    let (one, two) = tcp_pair();
    assert!(!one.nodelay().unwrap());
    one.set_nodelay(true).unwrap();
    assert!(one.nodelay().unwrap());
    one.set_ttl(33).unwrap();
    assert_eq!(one.ttl().unwrap(), 33);
    assert_eq!(one.peer_addr().unwrap(), two.local_addr().unwrap());
    assert!(one.take_error().unwrap().is_none());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_ttl(44).unwrap();
    assert_eq!(listener.ttl().unwrap(), 44);
}

#[test]
fn listeners_share_a_port_if_both_ask_for_it() {
    pirn::run(|| {
        let options = BindOptions::new().reuse_port(true);
        let one = options.tcp_listener("127.0.0.1:0").unwrap();
        let address = one.local_addr().unwrap();
        let two = options.tcp_listener(address).unwrap();
        assert!(TcpListener::bind(address).is_err());
        let served = Rc::new(Cell::new(0));
        let servers: Vec<_> = [one, two]
            .into_iter()
            .map(|listener| {
                let served = served.clone();
                thread::spawn_local(move || {
                    while listener.accept().is_ok() {
                        served.set(served.get() + 1);
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        until(|| served.get() == clients.len());
        servers.iter().for_each(|server| server.cancel());
    });
}

#[test]
fn tasks_without_a_stack_accept_connect_read_and_write() {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = task::spawn(echo_task(listener));
        let mut connecting = TcpConnecting::new(&address).unwrap();
        let connect = task::spawn(task::from_fn(move |cx| match connecting.poll(cx) {
            Poll::Ready(stream) => Step::Done(stream.unwrap()),
            Poll::Pending => Step::Parked,
        }));
        let stream = connect.join().unwrap();
        for _ in 0..10 {
            (&stream).write_all(b"to and fro").unwrap();
            let mut buf = [0; 10];
            (&stream).read_exact(&mut buf).unwrap();
            assert_eq!(&buf, b"to and fro");
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.join().unwrap(), 100);
    });
}

/// Accepts one connection and echoes what comes; the number of bytes.
fn echo_task(listener: TcpListener) -> impl task::Resumable<Output = usize> {
    let (mut stream, mut pending, mut total) = (None, Vec::new(), 0);
    task::from_fn(move |cx| {
        loop {
            let Some(stream) = &stream else {
                match listener.poll_accept(cx) {
                    Poll::Ready(accepted) => stream = Some(accepted.unwrap().0),
                    Poll::Pending => return Step::Parked,
                }
                continue;
            };
            if !pending.is_empty() {
                match stream.poll_write(cx, &pending) {
                    Poll::Ready(written) => drop(pending.drain(..written.unwrap())),
                    Poll::Pending => return Step::Parked,
                }
                continue;
            }
            let mut buf = [0; 64];
            match stream.poll_read(cx, &mut buf) {
                Poll::Ready(Ok(0)) => return Step::Done(total),
                Poll::Ready(read) => {
                    let read = read.unwrap();
                    total += read;
                    pending.extend_from_slice(&buf[..read]);
                }
                Poll::Pending => return Step::Parked,
            }
        }
    })
}

#[test]
fn a_task_without_a_stack_waits_for_a_socket_and_something_else_at_once() {
    in_virtual_time(|| {
        let (one, two) = tcp_pair();
        let until = Instant::now() + HOUR;
        let reader = task::spawn(task::from_fn(move |cx| {
            let mut buf = [0; 8];
            match two.poll_read(cx, &mut buf) {
                Poll::Ready(read) => Step::Done(read.unwrap()),
                Poll::Pending if cx.poll_sleep(until).is_ready() => Step::Done(77),
                Poll::Pending => Step::Parked,
            }
        }));
        assert_eq!(reader.join().unwrap(), 77);
        assert_eq!(Instant::now(), until);
        drop(one);
    });
}

#[test]
fn a_blocking_call_in_a_task_without_a_stack_is_refused_by_name() {
    pirn::run(|| {
        let (_one, two) = tcp_pair();
        let reader = task::spawn(task::from_fn(move |_| match (&two).read(&mut [0; 8]) {
            Ok(_) => Step::Done(()),
            Err(_) => Step::Parked,
        }));
        let payload = reader.join().unwrap_err();
        let text = payload.downcast_ref::<String>().unwrap();
        assert!(text.contains("waits to read from TcpStream fd"), "{text}");
    });
}

#[test]
fn reports_say_which_socket_a_fiber_waits_for() {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listener.local_addr().unwrap();
        let (one, two) = tcp_pair();
        let (peer, two) = (two.local_addr().unwrap(), Rc::new(two));
        let (busy, _held) = sockets::full_listener();
        let one = Arc::new(one);
        let writing = one.clone();
        let fibers = [
            thread::spawn(move || drop(listener.accept())),
            thread::spawn(move || drop((&*one).read(&mut [0; 8]))),
            thread::spawn(move || drop((&*writing).write_all(&vec![0; 64 << 20]))),
            thread::spawn(move || drop(TcpStream::connect(busy))),
        ];
        (0..20).for_each(|_| thread::yield_now());
        let states: Vec<_> =
            pirn::fibers(false)[1..].iter().map(|fiber| fiber.state().to_owned()).collect();
        let numbered = |text: &str, state: &str| {
            let (before, after) = text.split_once('#').unwrap();
            let rest = state.strip_prefix(before).unwrap_or_else(|| panic!("{state}"));
            assert_eq!(rest.trim_start_matches(|c: char| c.is_ascii_digit()), after, "{state}");
        };
        numbered(&format!("waits to accept on TcpListener fd # ({listening})"), &states[0]);
        numbered(&format!("waits to read from TcpStream fd # ({peer})"), &states[1]);
        numbered(&format!("waits to write to TcpStream fd # ({peer})"), &states[2]);
        // Emulators do not know by which option one asks whom a socket is still connecting to.
        let to = if child::is_emulated() { String::new() } else { format!(" to {busy}") };
        numbered(&format!("waits to connect TcpStream fd #{to}"), &states[3]);
        fibers.iter().for_each(|fiber| fiber.cancel());
        drop(two);
    });
}

#[test]
fn a_fiber_that_waits_for_a_socket_is_not_deadlocked_and_others_still_are() {
    // The other side is another process, as far as the runtime knows.
    let (one, two) = tcp_pair();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        (&two).write_all(b"x").unwrap();
        two
    });
    let deadlock = pirn::Runtime::new().unwrap().run(move || {
        (&one).read_exact(&mut [0]).unwrap();
        // Now nobody waits for it, although it is registered.
        thread::park();
    });
    drop(writer.join().unwrap());
    assert_eq!(deadlock.unwrap_err().fibers().len(), 1);
}

#[test]
fn a_runtime_that_ends_calls_waits_for_sockets_off() {
    let unwound = Rc::new(Cell::new(0));
    struct Count(Rc<Cell<u32>>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    pirn::run(|| {
        for _ in 0..10 {
            let count = Count(unwound.clone());
            thread::spawn_local(move || {
                let (one, _two) = tcp_pair();
                let _count = count;
                let _ = (&one).read(&mut [0; 8]);
            });
        }
        thread::yield_now();
    });
    assert_eq!(unwound.get(), 10);
}

#[test]
fn a_destructor_that_would_have_to_wait_gets_an_error_while_its_fiber_is_called_off() {
    struct Farewell(TcpStream, Rc<Cell<Option<ErrorKind>>>);
    impl Drop for Farewell {
        fn drop(&mut self) {
            (&self.0).write_all(b"bye").unwrap();
            self.1.set((&self.0).read(&mut [0; 8]).err().map(|error| error.kind()));
        }
    }
    pirn::run(|| {
        let (one, two) = tcp_pair();
        let seen = Rc::new(Cell::new(None));
        let fiber = thread::spawn_local({
            let seen = seen.clone();
            move || {
                let farewell = Farewell(one, seen);
                let _ = (&farewell.0).read(&mut [0; 8]);
            }
        });
        thread::yield_now();
        fiber.cancel();
        assert!(fiber.join().is_err());
        assert_eq!(seen.get(), Some(ErrorKind::Other));
        let mut got = String::new();
        (&two).read_to_string(&mut got).unwrap();
        assert_eq!(got, "bye");
    });
}

#[test]
fn a_fiber_that_panics_may_still_wait_for_its_socket() {
    struct Ask(TcpStream);
    impl Drop for Ask {
        fn drop(&mut self) {
            (&self.0).write_all(b"?").unwrap();
            (&self.0).read_exact(&mut [0]).unwrap();
        }
    }
    let answered = Arc::new(AtomicBool::new(false));
    let (one, two) = tcp_pair();
    let other = std::thread::spawn({
        let answered = answered.clone();
        move || {
            (&two).read_exact(&mut [0]).unwrap();
            answered.store(true, Ordering::SeqCst);
            (&two).write_all(b"!").unwrap();
        }
    });
    pirn::run(|| {
        let fiber = thread::spawn(|| {
            let _ask = Ask(one);
            panic!("on purpose");
        });
        assert!(fiber.join().is_err());
        assert!(answered.load(Ordering::SeqCst));
    });
    other.join().unwrap();
}

/// C166.
fn many_pairs(count: usize) {
    pirn::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let woken = Rc::new(RefCell::new(vec![0; count]));
        let open = |number: usize| {
            let client = TcpStream::connect(address).unwrap();
            let (server, _) = listener.accept().unwrap();
            let woken = woken.clone();
            let reader = thread::spawn_local(move || {
                let mut buf = [0; 16];
                let read = (&server).read(&mut buf).unwrap();
                if read > 0 {
                    woken.borrow_mut()[number] += 1;
                    assert_eq!(buf[..read], (number as u64).to_le_bytes());
                }
            });
            (client, reader)
        };
        let mut pairs: Vec<_> = (0..count).map(open).collect();
        thread::yield_now();
        for number in (0..count).step_by(3) {
            let (_, reader) = std::mem::replace(&mut pairs[number], open(number));
            reader.cancel();
            let _ = reader.join();
        }
        thread::yield_now();
        for (number, (client, _)) in pairs.iter().enumerate() {
            (&*client).write_all(&(number as u64).to_le_bytes()).unwrap();
        }
        pairs.into_iter().for_each(|(_, reader)| reader.join().unwrap());
        assert!(woken.borrow().iter().all(|&times| times == 1));
    });
}

#[test]
fn hundreds_and_thousands_of_sockets_wake_each_its_own_reader_once() {
    isolated("hundreds_and_thousands_of_sockets_wake_each_its_own_reader_once", &[], || {
        sockets::raise_descriptor_limit(10_200);
        [300, 1_100, 5_000].into_iter().for_each(many_pairs);
    });
}

#[test]
fn a_thousand_connections_leave_no_descriptor_behind() {
    // Each carrier has two descriptors of its own, when it first needs them.
    let one_carrier = [("PIRN_CARRIERS", "1")];
    isolated("a_thousand_connections_leave_no_descriptor_behind", &one_carrier, || {
        let before = descriptors();
        pirn::run(|| {
            warm_up();
            let warm = descriptors();
            for _ in 0..1_000 {
                let (one, two) = tcp_pair();
                let echo = thread::spawn(move || io::copy(&mut &two, &mut &two).unwrap());
                thread::yield_now();
                (&one).write_all(b"x").unwrap();
                (&one).read_exact(&mut [0]).unwrap();
                drop(one);
                echo.join().unwrap();
            }
            assert_eq!(descriptors(), warm);
        });
        // The bell stays with what later runtimes use again.
        assert_eq!(descriptors(), before + 1);
        pirn::run(warm_up);
        assert_eq!(descriptors(), before + 1);
    });
}

/// C151.
#[test]
fn a_child_process_inherits_no_descriptor() {
    isolated("a_child_process_inherits_no_descriptor", &[], || {
        pirn::run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let pair = tcp_pair();
            let clone = pair.0.try_clone().unwrap();
            warm_up();
            let out = std::process::Command::new("ls").arg("-l").arg("/proc/self/fd").output();
            let out = String::from_utf8(out.unwrap().stdout).unwrap();
            let ours = ["socket:", "eventpoll", "eventfd"];
            assert!(!ours.iter().any(|what| out.contains(what)), "{out}");
            drop((listener, pair, clone));
        });
    });
}

#[test]
fn a_listener_binds_to_the_first_address_that_can_be_had() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses: [SocketAddr; 2] = [taken.local_addr().unwrap(), "127.0.0.1:0".parse().unwrap()];
    let listener = TcpListener::bind(&addresses[..]).unwrap();
    assert_ne!(listener.local_addr().unwrap(), addresses[0]);
}
