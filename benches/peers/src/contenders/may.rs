//! may: stackful coroutines on a work-stealing scheduler, here with one worker thread, which is not
//! pinned because nobody else's thread is. Its pool holds as many idle coroutines as the largest
//! spawn workload needs, so that it is not charged for making stacks.

use std::fs;
use std::hint::black_box;
use std::sync::{Arc, Once};

use may::coroutine::yield_now;
use may::go;
use may::sync::{Mutex, mpsc};

use crate::measure::{Entry, Sample};
use crate::ring::Ring;
use crate::workload::{LOCKERS, Workload};

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::Yield { tasks } => match too_many(tasks) {
            Some(reason) => Entry::Skipped(reason),
            None => Entry::Runs(Box::new(move |wish| on_worker(move || yields(tasks, wish)))),
        },
        Workload::SpawnJoinOne => Entry::runs(|wish| on_worker(move || spawn_join_one(wish))),
        Workload::SpawnJoinMany { tasks } => {
            Entry::Runs(Box::new(move |wish| on_worker(move || spawn_join_many(tasks, wish))))
        }
        Workload::ChannelRendezvous => Entry::runs(|wish| on_worker(move || ping_pong(wish))),
        Workload::MutexUncontended => {
            Entry::runs(|wish| on_worker(move || mutex_uncontended(wish)))
        }
        Workload::MutexYielding => Entry::runs(|wish| on_worker(move || mutex_yielding(wish))),
        _ => Entry::Absent,
    }
}

/// Runs the measuring code as a coroutine on may's worker.
fn on_worker(main: impl FnOnce() -> Sample + Send + 'static) -> Sample {
    static CONFIGURED: Once = Once::new();
    CONFIGURED.call_once(|| {
        may::config().set_workers(1).set_pool_capacity(10_001).set_worker_pin(false);
    });
    go!(main).join().expect("the measuring coroutine does not panic")
}

/// Each stack is two mappings, the stack and its guard, and the kernel limits their number; may
/// panics there.
fn too_many(tasks: u64) -> Option<String> {
    let limit: u64 = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    (tasks * 2 + 1_000 > limit)
        .then(|| format!("{tasks} stacks need {} mappings, vm.max_map_count is {limit}", tasks * 2))
}

fn yields(tasks: u64, wish: u64) -> Sample {
    let ring = Ring::new(tasks, wish);
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let ring = Arc::clone(&ring);
            go!(move || {
                for _ in 0..ring.arrive() {
                    yield_now();
                }
                ring.finish();
                yield_now();
            })
        })
        .collect();
    for handle in handles {
        handle.join().expect("a ring's task does not panic");
    }
    ring.sample()
}

fn spawn_join_one(wish: u64) -> Sample {
    Sample::time(wish, || {
        for number in 0..wish {
            let handle = go!(move || black_box(number) + 1);
            black_box(handle.join().expect("the task does not panic"));
        }
    })
}

fn spawn_join_many(tasks: u64, wish: u64) -> Sample {
    let mut handles = Vec::with_capacity(tasks as usize);
    Sample::time(wish.next_multiple_of(tasks), || {
        for _ in 0..wish.div_ceil(tasks) {
            handles.extend((0..tasks).map(|number| go!(move || black_box(number) + 1)));
            for handle in handles.drain(..) {
                black_box(handle.join().expect("the task does not panic"));
            }
        }
    })
}

/// Its channels are all unbounded, so a sender never waits.
fn ping_pong(wish: u64) -> Sample {
    let (ping, from_ping) = mpsc::channel();
    let (pong, from_pong) = mpsc::channel();
    let other = go!(move || {
        while let Ok(number) = from_ping.recv() {
            pong.send(number).expect("there is a receiver");
        }
    });
    let round_trips = wish.div_ceil(2);
    let sample = Sample::time(round_trips * 2, || {
        for number in 0..round_trips {
            ping.send(number).expect("there is a receiver");
            assert_eq!(from_pong.recv(), Ok(number));
        }
    });
    drop(ping);
    other.join().expect("the coroutine does not panic");
    sample
}

fn mutex_uncontended(wish: u64) -> Sample {
    let mutex = Mutex::new(0_u64);
    Sample::time(wish, || {
        for _ in 0..wish {
            *black_box(&mutex).lock().expect("nobody panics") += 1;
        }
    })
}

fn mutex_yielding(wish: u64) -> Sample {
    let each = wish.div_ceil(LOCKERS);
    let mutex = Arc::new(Mutex::new(0_u64));
    Sample::time(each * LOCKERS, || {
        let handles: Vec<_> = (0..LOCKERS)
            .map(|_| {
                let mutex = mutex.clone();
                go!(move || {
                    for _ in 0..each {
                        let mut guard = mutex.lock().expect("nobody panics");
                        *guard += 1;
                        yield_now();
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().expect("the coroutine does not panic");
        }
    })
}
