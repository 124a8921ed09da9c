//! pirn itself: its coroutines, and its fibers on a runtime of one carrier.

mod switching;
mod waiting;

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pirn::thread;

use crate::alone::{Memory, Night};
use crate::measure::{Entry, Sample};
use crate::ring::Ring;
use crate::workload::{MILLION, Workload};

pub use waiting::{enter_receiver_first, enter_time_limit};

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::Yield { tasks } => Entry::Runs(Box::new(move |wish| yields(tasks, wish))),
        Workload::SpawnJoinOne => Entry::runs(spawn_join_one),
        Workload::SpawnJoinMany { tasks } => {
            Entry::Runs(Box::new(move |wish| spawn_join_many(tasks, wish)))
        }
        Workload::TimerCreateCancel => Entry::runs(timer_create_cancel),
        Workload::MemorySuspended => Entry::Alone(memory_suspended),
        Workload::TimerSleeping => Entry::Alone(timer_sleeping),
        Workload::SwitchEmpty
        | Workload::SwitchDeepDifferent
        | Workload::SwitchDeepBoth
        | Workload::SwitchDeepSame
        | Workload::CreateRunDrop => switching::enter(workload),
        _ => waiting::enter(workload),
    }
}

fn yields(tasks: u64, wish: u64) -> Sample {
    pirn::run(move || {
        let ring = Ring::new(tasks, wish);
        let handles: Vec<_> = (0..tasks)
            .map(|_| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    for _ in 0..ring.arrive() {
                        thread::yield_now();
                    }
                    ring.finish();
                    thread::yield_now();
                })
            })
            .collect();
        for handle in handles {
            handle.join().expect("a ring's task does not panic");
        }
        ring.sample()
    })
}

fn spawn_join_one(wish: u64) -> Sample {
    pirn::run(move || {
        Sample::time(wish, || {
            for number in 0..wish {
                let handle = thread::spawn(move || black_box(number) + 1);
                black_box(handle.join().expect("the task does not panic"));
            }
        })
    })
}

fn spawn_join_many(tasks: u64, wish: u64) -> Sample {
    pirn::run(move || {
        let mut handles = Vec::with_capacity(tasks as usize);
        Sample::time(wish.next_multiple_of(tasks), || {
            for _ in 0..wish.div_ceil(tasks) {
                handles
                    .extend((0..tasks).map(|number| thread::spawn(move || black_box(number) + 1)));
                for handle in handles.drain(..) {
                    black_box(handle.join().expect("the task does not panic"));
                }
            }
        })
    })
}

fn timer_create_cancel(wish: u64) -> Sample {
    // A timer exists while a fiber waits with a deadline and another calls the wait off. What the
    // deadline adds to that wait is what a timer costs: the same waits without one are subtracted.
    pirn::run(move || {
        let main = thread::current();
        let done = Rc::new(Cell::new(false));
        let waker = thread::spawn_local({
            let done = done.clone();
            move || {
                while !done.get() {
                    main.unpark();
                    thread::yield_now();
                }
            }
        });
        let without = Sample::time(wish, || {
            for _ in 0..wish {
                thread::park();
            }
        });
        let with = Sample::time(wish, || {
            for _ in 0..wish {
                thread::park_timeout(black_box(Duration::from_secs(3600)));
            }
        });
        done.set(true);
        waker.join().unwrap();
        Sample { operations: wish, elapsed: with.elapsed.saturating_sub(without.elapsed) }
    })
}

fn memory_suspended() -> ! {
    pirn::run(|| {
        let before = Memory::now();
        let suspended = Arc::new(AtomicU64::new(0));
        for _ in 0..MILLION {
            let suspended = Arc::clone(&suspended);
            thread::spawn(move || outer(&suspended));
        }
        while suspended.load(Ordering::Relaxed) < MILLION {
            thread::yield_now();
        }
        before.report_growth()
    })
}

#[inline(never)]
fn outer(suspended: &AtomicU64) {
    inner(suspended);
    black_box(());
}

#[inline(never)]
fn inner(suspended: &AtomicU64) {
    let mut locals = [1_u8; 256];
    black_box(&mut locals);
    suspended.fetch_add(1, Ordering::Relaxed);
    // Nobody unparks it; a loop because a park may return early.
    loop {
        thread::park();
        black_box(&mut locals);
    }
}

fn timer_sleeping() -> ! {
    pirn::run(|| {
        let night = Night::begin();
        let asleep = Arc::new(AtomicU64::new(0));
        let woken = Arc::new(AtomicU64::new(0));
        for index in 0..MILLION {
            let asleep = Arc::clone(&asleep);
            let woken = Arc::clone(&woken);
            thread::spawn(move || {
                asleep.fetch_add(1, Ordering::Relaxed);
                thread::sleep(night.time_left(index));
                woken.fetch_add(1, Ordering::Relaxed);
            });
        }
        while asleep.load(Ordering::Relaxed) < MILLION {
            thread::yield_now();
        }
        let asleep = night.all_asleep();
        thread::sleep(night.time_left_for_all());
        while woken.load(Ordering::Relaxed) < MILLION {
            thread::yield_now();
        }
        night.report(asleep)
    })
}
