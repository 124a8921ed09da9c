//! Coroutines: the bare switch, the switch from a depth of calls, and a whole short life.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pirn::coroutine::{Coroutine, Suspender};

/// Calls between the body and its `suspend`.
const DEPTH: u32 = 8;

#[inline(never)]
fn suspend_below(depth: u32, s: &Suspender<(), ()>) {
    if depth == 0 {
        s.suspend(());
    } else {
        suspend_below(depth - 1, s);
        // Keeps the call from becoming a jump.
        black_box(());
    }
}

fn switches(c: &mut Criterion) {
    let mut group = c.benchmark_group("coroutine");
    // One resume is two switches, there and back.
    group.throughput(Throughput::Elements(2));
    group.bench_function("resume and suspend", |b| {
        let mut co: Coroutine<(), (), ()> = Coroutine::new(|s: &Suspender<(), ()>, ()| {
            loop {
                s.suspend(());
            }
        });
        b.iter(|| black_box(co.resume(()).is_ok()));
    });
    group.bench_function("resume and suspend, 8 calls deep", |b| {
        let mut co: Coroutine<(), (), ()> = Coroutine::new(|s: &Suspender<(), ()>, ()| {
            loop {
                suspend_below(DEPTH, s);
            }
        });
        b.iter(|| black_box(co.resume(()).is_ok()));
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("create, run and drop", |b| {
        b.iter(|| {
            let mut co = Coroutine::new(|_: &Suspender<(), ()>, ()| ());
            black_box(co.resume(()).is_ok())
        });
    });
    group.finish();
}

criterion_group!(benches, switches);
criterion_main!(benches);
