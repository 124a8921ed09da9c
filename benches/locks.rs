//! Locks.
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
fn mutex(c: &mut Criterion) {
    let mut group = c.benchmark_group("uncontended lock + unlock");
    group.bench_function("std", |b| {
        let m = std::sync::Mutex::new(0u64);
        b.iter(|| *black_box(&m).lock().unwrap() += 1);
    });
    group.bench_function("pirn, on a fiber", |b| {
        pirn::run(|| {
            let m = pirn::sync::Mutex::new(0u64);
            b.iter(|| *black_box(&m).lock().unwrap() += 1);
        })
    });
    group.bench_function("pirn, on a thread", |b| {
        let m = pirn::sync::Mutex::new(0u64);
        b.iter(|| *black_box(&m).lock().unwrap() += 1);
    });
}
criterion_group!(benches, mutex);
criterion_main!(benches);
