//! Timers: waits that are called off, and a million that come due.

use std::cell::Cell;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use pirn::thread;

const HOUR: Duration = Duration::from_secs(3600);

/// Time for so many waits with a deadline that end by an unpark, with others outstanding.
fn cancelled(outstanding: usize, waits: u64) -> Duration {
    pirn::run(|| {
        for number in 0..outstanding {
            thread::spawn(move || thread::sleep(HOUR + Duration::from_millis(number as u64)));
        }
        thread::yield_now();
        let main = thread::current();
        let done = std::rc::Rc::new(Cell::new(false));
        let waker = thread::spawn_local({
            let done = done.clone();
            move || {
                while !done.get() {
                    main.unpark();
                    thread::yield_now();
                }
            }
        });
        let start = Instant::now();
        for _ in 0..waits {
            thread::park_timeout(HOUR);
        }
        let elapsed = start.elapsed();
        done.set(true);
        waker.join().expect("it does not panic");
        elapsed
    })
}

fn timers(c: &mut Criterion) {
    let mut group = c.benchmark_group("timers");
    group.bench_function("set and called off", |b| b.iter_custom(|waits| cancelled(0, waits)));
    group.bench_function("set and called off, 10,000 outstanding", |b| {
        b.iter_custom(|waits| cancelled(10_000, waits));
    });
    group.sample_size(10);
    group.bench_function("a sleeper, of 1,000,000 outstanding, until it is joined", |b| {
        b.iter_custom(|iterations| {
            // Whole runs of a million only: the time of one sleeper is a share of that.
            let start = Instant::now();
            sleepers(1_000_000);
            start.elapsed().mul_f64(iterations as f64 / 1e6)
        });
    });
    group.finish();
}

/// So many fibers that sleep at once, for 3 seconds from the start or a little longer.
fn sleepers(count: u64) {
    pirn::run(|| {
        let deadline = pirn::time::Instant::now() + Duration::from_secs(3);
        thread::scope(|s| {
            for number in 0..count {
                // In no order: 2^20 different nanoseconds, stepped through by an odd number.
                let at = deadline + Duration::from_nanos(number.wrapping_mul(611_953) & 0xf_ffff);
                s.spawn(move || thread::sleep_until(at));
            }
        });
    });
}

criterion_group!(benches, timers);
criterion_main!(benches);
