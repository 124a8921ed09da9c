//! What a switch, a yield and a spawn cost on this machine.
//!
//! `cargo run --release --example ping_pong`

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pirn::coroutine::{Coroutine, Suspender};
use pirn::thread;

fn main() {
    let rows = [
        ("one-way switch of a coroutine", median_of_five(switch)),
        ("create, run and drop a coroutine", median_of_five(create)),
        ("yield between 2 fibers", median_of_five(|| yields(2))),
        ("yield among 1,000 fibers", median_of_five(|| yields(1_000))),
        ("yield among 100,000 fibers", median_of_five(|| yields(100_000))),
        ("spawn and join a fiber", median_of_five(spawn_and_join)),
        ("spawn 10,000 fibers, then join all", median_of_five(spawn_many)),
    ];
    println!("{:<36}{:>12}", "", "ns each");
    for (what, nanos) in rows {
        println!("{what:<36}{nanos:>12.2}");
    }
}

/// The median of five measurements, in nanoseconds for one operation.
fn median_of_five(mut measure: impl FnMut() -> f64) -> f64 {
    let mut measured: Vec<f64> = (0..5).map(|_| measure()).collect();
    measured.sort_by(f64::total_cmp);
    measured[2]
}

fn per_operation(start: Instant, operations: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / operations as f64
}

fn switch() -> f64 {
    const RESUMES: u64 = 10_000_000;
    let mut partner: Coroutine<(), (), ()> = Coroutine::new(|s: &Suspender<(), ()>, ()| {
        loop {
            s.suspend(());
        }
    });
    let start = Instant::now();
    for _ in 0..RESUMES {
        black_box(partner.resume(()).is_ok());
    }
    per_operation(start, RESUMES * 2)
}

fn create() -> f64 {
    const COROUTINES: u64 = 2_000_000;
    let start = Instant::now();
    for number in 0..COROUTINES {
        let mut short = Coroutine::new(move |_: &Suspender<(), ()>, ()| number);
        black_box(short.resume(()).is_ok());
    }
    per_operation(start, COROUTINES)
}

/// The time from when all fibers have begun to when the first has finished its yields.
fn yields(fibers: u64) -> f64 {
    let rounds = 10_000_000 / fibers;
    pirn::run(|| {
        let start = Cell::new(None);
        let end = Cell::new(None);
        let ready = Cell::new(0);
        thread::scope(|s| {
            for _ in 0..fibers {
                s.spawn(|| {
                    ready.set(ready.get() + 1);
                    if ready.get() == fibers {
                        start.set(Some(Instant::now()));
                    }
                    for _ in 0..rounds {
                        thread::yield_now();
                    }
                    end.set(end.get().or_else(|| Some(start.get()?.elapsed())));
                });
            }
        });
        let elapsed: Duration = end.get().expect("every fiber has run");
        elapsed.as_nanos() as f64 / (rounds * fibers) as f64
    })
}

fn spawn_and_join() -> f64 {
    const TASKS: u64 = 1_000_000;
    pirn::run(|| {
        let start = Instant::now();
        for number in 0..TASKS {
            black_box(thread::spawn(move || number).join().expect("it does not panic"));
        }
        per_operation(start, TASKS)
    })
}

fn spawn_many() -> f64 {
    const ROUNDS: u64 = 50;
    const TASKS: u64 = 10_000;
    pirn::run(|| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let handles: Vec<_> = (0..TASKS).map(|number| thread::spawn(move || number)).collect();
            for handle in handles {
                black_box(handle.join().expect("it does not panic"));
            }
        }
        per_operation(start, ROUNDS * TASKS)
    })
}
