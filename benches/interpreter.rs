//! The six programs of `benches/peers/scripts`, which other interpreters run there as well:
//! `benches/peers/scripts/compare.py` puts them beside each other.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use pirn::vm::{Vm, compile};

const PROGRAMS: [(&str, &str); 6] = [
    ("fib(32)", include_str!("peers/scripts/fib.n")),
    ("64 million rounds of nested loops", include_str!("peers/scripts/loops.n")),
    ("20 million method calls", include_str!("peers/scripts/methods.n")),
    ("500,000 steps of n-body", include_str!("peers/scripts/nbody.n")),
    ("sorting 1,000,000 ints", include_str!("peers/scripts/sort.n")),
    ("2 million pieces of strings", include_str!("peers/scripts/strings.n")),
];

fn programs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("interpreter");
    group.sample_size(10).warm_up_time(Duration::from_millis(500));
    for (name, source) in PROGRAMS {
        let program = compile(source).expect("the program is right");
        let mut vm = Vm::builder().stdout(std::io::sink()).load(&program).expect("it loads");
        group.bench_function(name, |bencher| bencher.iter(|| vm.run().expect("it ends well")));
    }
    group.finish();
}

criterion_group!(benches, programs);
criterion_main!(benches);
