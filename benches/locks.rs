//! Locks: uncontended, against std's, and among fibers that yield while they hold one.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use pirn::sync::{Condvar, Mutex, OnceLock, ReentrantMutex, RwLock, Semaphore, promise};
use pirn::thread;

fn uncontended(c: &mut Criterion) {
    let mut group = c.benchmark_group("uncontended");
    let (std_mutex, std_lock) = (std::sync::Mutex::new(0u64), std::sync::RwLock::new(0u64));
    let (mutex, lock) = (Mutex::new(0u64), RwLock::new(0u64));
    group.bench_function("Mutex, std", |b| b.iter(|| *black_box(&std_mutex).lock().unwrap() += 1));
    group.bench_function("Mutex, on a fiber", |b| {
        pirn::run(|| b.iter(|| *black_box(&mutex).lock().unwrap() += 1));
    });
    group.bench_function("Mutex, on a thread", |b| {
        b.iter(|| *black_box(&mutex).lock().unwrap() += 1);
    });
    group.bench_function("RwLock, read, std", |b| {
        b.iter(|| *black_box(&std_lock).read().unwrap());
    });
    group.bench_function("RwLock, read, on a fiber", |b| {
        pirn::run(|| b.iter(|| *black_box(&lock).read().unwrap()));
    });
    group.bench_function("RwLock, write, std", |b| {
        b.iter(|| *black_box(&std_lock).write().unwrap() += 1);
    });
    group.bench_function("RwLock, write, on a fiber", |b| {
        pirn::run(|| b.iter(|| *black_box(&lock).write().unwrap() += 1));
    });
    let semaphore = Semaphore::new(1);
    group.bench_function("Semaphore, on a fiber", |b| {
        pirn::run(|| b.iter(|| drop(black_box(&semaphore).acquire().unwrap())));
    });
    let reentrant = ReentrantMutex::new(());
    group.bench_function("ReentrantMutex, on a fiber", |b| {
        pirn::run(|| b.iter(|| drop(black_box(&reentrant).lock())));
    });
    let cell = OnceLock::from(1u64);
    group.bench_function("OnceLock, get_or_init", |b| {
        b.iter(|| *black_box(&cell).get_or_init(|| unreachable!()));
    });
    group.finish();
}

/// Time for so many turns of 8 fibers that yield while they hold the mutex.
fn yielding_holders(turns: u64) -> Duration {
    const FIBERS: u64 = 8;
    let each = turns.div_ceil(FIBERS);
    pirn::run(|| {
        let mutex = Mutex::new(0u64);
        let start = Instant::now();
        thread::scope(|s| {
            for _ in 0..FIBERS {
                s.spawn(|| {
                    for _ in 0..each {
                        let mut total = mutex.lock().unwrap();
                        thread::yield_now();
                        *total += 1;
                    }
                });
            }
        });
        start.elapsed().mul_f64(turns as f64 / (each * FIBERS) as f64)
    })
}

/// Time for so many rounds of two fibers that notify each other.
fn condvar_rounds(rounds: u64) -> Duration {
    pirn::run(|| {
        let (turn, changed) = (Mutex::new(0u64), Condvar::new());
        let play = |parity| {
            for round in 0..rounds {
                let mut now =
                    changed.wait_while(turn.lock().unwrap(), |now| *now % 2 != parity).unwrap();
                *now = 2 * round + parity + 1;
                changed.notify_one();
            }
        };
        let start = Instant::now();
        thread::scope(|s| {
            s.spawn(|| play(0));
            s.spawn(|| play(1));
        });
        start.elapsed()
    })
}

/// Time for so many promises that 8 fibers wait for.
fn promises(rounds: u64) -> Duration {
    pirn::run(|| {
        let (mut promises, mut futures) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (promise, future) = promise();
            promises.push(promise);
            futures.push(future);
        }
        let start = Instant::now();
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| futures.iter().for_each(|future| drop(future.get().copied())));
            }
            s.spawn(|| {
                for (number, promise) in promises.iter().enumerate() {
                    thread::yield_now();
                    promise.set(number).unwrap();
                }
            });
        });
        start.elapsed()
    })
}

fn contended(c: &mut Criterion) {
    let mut group = c.benchmark_group("among fibers");
    group.bench_function("8 yield while they hold a Mutex", |b| b.iter_custom(yielding_holders));
    group.bench_function("a round trip through a Condvar", |b| b.iter_custom(condvar_rounds));
    group.bench_function("a promise with 8 waiters", |b| b.iter_custom(promises));
    group.bench_function("a promise made, settled and got", |b| {
        b.iter(|| {
            let (promise, future) = promise();
            promise.set(black_box(1u64)).unwrap();
            *future.get().unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, uncontended, contended);
criterion_main!(benches);
