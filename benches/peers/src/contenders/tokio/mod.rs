//! tokio: futures on its `current_thread` scheduler. The contender proper is built as
//! `#[tokio::main]` builds it, with timers and I/O, which pirn has too; a second one without either
//! shows what they cost. The measuring code itself is a spawned task, which wakes faster than the
//! future given to `block_on`.

mod waiting;

use std::future::{self, Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task;
use tokio::time;

use crate::alone::{Memory, Night};
use crate::measure::{Entry, Sample};
use crate::ring::Ring;
use crate::workload::{MILLION, Workload};

pub use waiting::enter_one_receiver;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::TimerCreateCancel => {
            Entry::runs(|wish| run(Drivers::All, timer_create_cancel(wish)))
        }
        Workload::MemorySuspended => Entry::Alone(|| run(Drivers::All, memory_suspended())),
        Workload::TimerSleeping => Entry::Alone(|| run(Drivers::All, timer_sleeping())),
        _ => enter_scheduling(workload, Drivers::All),
    }
}

pub fn enter_without_drivers(workload: Workload) -> Entry {
    enter_scheduling(workload, Drivers::None)
}

/// What the runtime looks after beside its run queue.
#[derive(Clone, Copy, PartialEq)]
pub enum Drivers {
    All,
    None,
}

fn enter_scheduling(workload: Workload, drivers: Drivers) -> Entry {
    match workload {
        Workload::Yield { tasks } => {
            Entry::Runs(Box::new(move |wish| run(drivers, yields(tasks, wish))))
        }
        Workload::SpawnJoinOne => {
            Entry::Runs(Box::new(move |wish| run(drivers, spawn_join_one(wish))))
        }
        Workload::SpawnJoinMany { tasks } => {
            Entry::Runs(Box::new(move |wish| run(drivers, spawn_join_many(tasks, wish))))
        }
        _ => waiting::enter(workload, drivers),
    }
}

pub fn run<T: Send + 'static>(
    drivers: Drivers,
    main: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut builder = Builder::new_current_thread();
    if drivers == Drivers::All {
        builder.enable_all();
    }
    let runtime = builder.build().expect("tokio can make a runtime");
    runtime.block_on(async { task::spawn(main).await }).expect("the measuring task does not panic")
}

async fn yields(tasks: u64, wish: u64) -> Sample {
    let ring = Ring::new(tasks, wish);
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let ring = Arc::clone(&ring);
            task::spawn(async move {
                for _ in 0..ring.arrive() {
                    task::yield_now().await;
                }
                ring.finish();
                task::yield_now().await;
            })
        })
        .collect();
    for handle in handles {
        handle.await.expect("a ring's task does not panic");
    }
    ring.sample()
}

async fn spawn_join_one(wish: u64) -> Sample {
    let start = Instant::now();
    for number in 0..wish {
        let handle = task::spawn(async move { black_box(number) + 1 });
        black_box(handle.await.expect("the task does not panic"));
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}

async fn spawn_join_many(tasks: u64, wish: u64) -> Sample {
    let mut handles = Vec::with_capacity(tasks as usize);
    let start = Instant::now();
    for _ in 0..wish.div_ceil(tasks) {
        handles.extend((0..tasks).map(|number| task::spawn(async move { black_box(number) + 1 })));
        for handle in handles.drain(..) {
            black_box(handle.await.expect("the task does not panic"));
        }
    }
    Sample { operations: wish.next_multiple_of(tasks), elapsed: start.elapsed() }
}

/// A sleep arms its timer when it is polled first. Without `unconstrained` only the first 128 polls
/// of a task would: the others would find the task's budget used up and do nothing.
async fn timer_create_cancel(wish: u64) -> Sample {
    task::unconstrained(poll_fn(move |context| {
        Poll::Ready(Sample::time(wish, || {
            for _ in 0..wish {
                let mut sleep = pin!(time::sleep(Duration::from_secs(3600)));
                assert!(black_box(sleep.as_mut().poll(context)).is_pending());
            }
        }))
    }))
    .await
}

async fn memory_suspended() -> ! {
    let before = Memory::now();
    let suspended = Arc::new(AtomicU64::new(0));
    for _ in 0..MILLION {
        task::spawn(outer(Arc::clone(&suspended)));
    }
    while suspended.load(Ordering::Relaxed) < MILLION {
        task::yield_now().await;
    }
    before.report_growth()
}

async fn outer(suspended: Arc<AtomicU64>) {
    inner(&suspended).await;
    black_box(());
}

async fn inner(suspended: &AtomicU64) {
    let mut locals = [1_u8; 256];
    black_box(&mut locals);
    suspended.fetch_add(1, Ordering::Relaxed);
    future::pending::<()>().await;
    black_box(&mut locals);
}

async fn timer_sleeping() -> ! {
    let night = Night::begin();
    let asleep = Arc::new(AtomicU64::new(0));
    let woken = Arc::new(AtomicU64::new(0));
    for index in 0..MILLION {
        let asleep = Arc::clone(&asleep);
        let woken = Arc::clone(&woken);
        task::spawn(async move {
            asleep.fetch_add(1, Ordering::Relaxed);
            time::sleep(night.time_left(index)).await;
            woken.fetch_add(1, Ordering::Relaxed);
        });
    }
    while asleep.load(Ordering::Relaxed) < MILLION {
        task::yield_now().await;
    }
    let asleep = night.all_asleep();
    time::sleep(night.time_left_for_all()).await;
    while woken.load(Ordering::Relaxed) < MILLION {
        task::yield_now().await;
    }
    night.report(asleep)
}
