//! Fibers: taking turns, and being spawned and joined.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pirn::thread;

/// Time for so many yields, shared out among so many fibers.
fn yields(fibers: u64, yields: u64) -> Duration {
    let each = yields.div_ceil(fibers);
    pirn::run(|| {
        let begun = Cell::new(0);
        let start = Cell::new(Instant::now());
        thread::scope(|s| {
            for _ in 0..fibers {
                s.spawn(|| {
                    begun.set(begun.get() + 1);
                    if begun.get() == fibers {
                        start.set(Instant::now());
                    }
                    for _ in 0..each {
                        thread::yield_now();
                    }
                });
            }
        });
        start.get().elapsed().mul_f64(yields as f64 / (each * fibers) as f64)
    })
}

fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("yield among");
    for fibers in [2, 1_000, 100_000] {
        group.bench_function(BenchmarkId::from_parameter(fibers), |b| {
            b.iter_custom(|iterations| yields(fibers, iterations));
        });
    }
    group.finish();
}

fn spawns(c: &mut Criterion) {
    let mut group = c.benchmark_group("spawn and join");
    group.bench_function("one at a time", |b| {
        b.iter_custom(|iterations| {
            pirn::run(|| {
                let start = Instant::now();
                for number in 0..iterations {
                    black_box(thread::spawn(move || number).join().expect("it does not panic"));
                }
                start.elapsed()
            })
        });
    });
    group.bench_function("10,000, then all joined", |b| {
        b.iter_custom(|iterations| {
            pirn::run(|| {
                let start = Instant::now();
                let mut left = iterations;
                while left > 0 {
                    let now = left.min(10_000);
                    let all: Vec<_> = (0..now).map(|n| thread::spawn(move || n)).collect();
                    for fiber in all {
                        black_box(fiber.join().expect("it does not panic"));
                    }
                    left -= now;
                }
                start.elapsed()
            })
        });
    });
    group.finish();
}

criterion_group!(benches, turns, spawns);
criterion_main!(benches);
