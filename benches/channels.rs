//! Channels and selects between fibers of one carrier: time a message.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pirn::select;
use pirn::sync::channel::{self, Receiver, Sender};
use pirn::thread;

/// Two fibers send a number to and fro; a message is one way.
fn ping_pong(messages: u64) -> Duration {
    pirn::run(move || {
        let (ping, from_ping) = channel::rendezvous();
        let (pong, from_pong) = channel::rendezvous();
        let other = thread::spawn(move || {
            for number in from_ping {
                if pong.send(number).is_err() {
                    break;
                }
            }
        });
        let start = Instant::now();
        for number in 0..messages.div_ceil(2) {
            ping.send(number).expect("the other one receives");
            assert_eq!(from_pong.recv(), Ok(number));
        }
        let elapsed = start.elapsed();
        drop(ping);
        other.join().expect("it does not panic");
        elapsed
    })
}

/// So many producers and as many consumers on one channel.
fn stream(make: fn() -> (Sender<u64>, Receiver<u64>), pairs: u64, messages: u64) -> Duration {
    pirn::run(move || {
        let (sender, receiver) = make();
        let each = messages.div_ceil(pairs);
        let start = Instant::now();
        thread::scope(|s| {
            for _ in 0..pairs {
                let (sender, receiver) = (sender.clone(), receiver.clone());
                s.spawn(move || (0..each).for_each(|n| sender.send(n).expect("some receive")));
                s.spawn(move || receiver.iter().for_each(|n| assert!(black_box(n) < each)));
            }
            drop((sender, receiver));
        });
        start.elapsed().mul_f64(messages as f64 / (each * pairs) as f64)
    })
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("message");
    group.bench_function("rendezvous, to and fro", |b| b.iter_custom(ping_pong));
    for pairs in [1, 4] {
        group.bench_function(BenchmarkId::new("bounded(128), pairs", pairs), |b| {
            b.iter_custom(|messages| stream(|| channel::bounded(128), pairs, messages));
        });
    }
    group.bench_function("rendezvous, one way", |b| {
        b.iter_custom(|messages| stream(channel::rendezvous, 1, messages));
    });
    group.bench_function("oneshot, made, sent, received", |b| {
        b.iter_custom(|messages| {
            pirn::run(move || {
                let start = Instant::now();
                for number in 0..messages {
                    let (sender, receiver) = channel::oneshot();
                    sender.send(black_box(number)).expect("the receiver is there");
                    assert_eq!(receiver.recv(), Ok(number));
                }
                start.elapsed()
            })
        });
    });
    group.bench_function("within a time limit that is not needed", |b| {
        b.iter_custom(|messages| {
            pirn::run(move || {
                let (sender, receiver) = channel::bounded(1);
                let start = Instant::now();
                for number in 0..messages {
                    sender.send(number).expect("the receiver is there");
                    assert_eq!(receiver.recv_timeout(Duration::from_secs(1)), Ok(number));
                }
                start.elapsed()
            })
        });
    });
    group.finish();
}

/// A select over four channels, of which all have a value, or one gets one.
fn choices(c: &mut Criterion) {
    let mut group = c.benchmark_group("select of 4");
    group.bench_function("all are ready", |b| {
        b.iter_custom(|selects| {
            pirn::run(move || {
                let ends: [_; 4] = std::array::from_fn(|_| channel::bounded(1));
                let [(to_a, a), (to_b, b), (to_c, c), (to_d, d)] = &ends;
                for (sender, _) in &ends {
                    sender.send(0_u64).expect("the receiver is there");
                }
                let start = Instant::now();
                for _ in 0..selects {
                    select! {
                        recv(a) -> n => to_a.send(n.expect("a value")).expect("room"),
                        recv(b) -> n => to_b.send(n.expect("a value")).expect("room"),
                        recv(c) -> n => to_c.send(n.expect("a value")).expect("room"),
                        recv(d) -> n => to_d.send(n.expect("a value")).expect("room"),
                    }
                }
                start.elapsed()
            })
        });
    });
    group.bench_function("one becomes ready", |b| {
        b.iter_custom(|selects| {
            pirn::run(move || {
                let ends: [_; 4] = std::array::from_fn(|_| channel::rendezvous());
                let [a, b, c, d] = ends.each_ref().map(|(_, receiver)| receiver.clone());
                let senders = ends.map(|(sender, _)| sender);
                let feeder = thread::spawn(move || {
                    for number in 0..selects {
                        senders[number as usize % 4].send(number).expect("somebody selects");
                    }
                });
                let start = Instant::now();
                for _ in 0..selects {
                    let number = select! {
                        recv(a) -> n => n,
                        recv(b) -> n => n,
                        recv(c) -> n => n,
                        recv(d) -> n => n,
                    };
                    black_box(number.expect("the feeder lives"));
                    // So that the feeder comes when nobody is ready.
                    thread::yield_now();
                }
                let elapsed = start.elapsed();
                feeder.join().expect("it does not panic");
                elapsed
            })
        });
    });
    group.finish();
}

criterion_group!(benches, messages, choices);
criterion_main!(benches);
