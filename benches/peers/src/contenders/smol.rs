//! smol: futures on its single-threaded executor (the crate async-executor). The contender proper
//! is the leaked `StaticLocalExecutor`, its fastest; a second one is the `LocalExecutor` that most
//! programs use. The measuring code itself is a spawned task, as everywhere.

use std::future::Future;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use async_executor::{LocalExecutor, StaticLocalExecutor, Task};
use futures_lite::future::{block_on, yield_now};

use crate::measure::{Entry, Sample};
use crate::ring::Ring;
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    thread_local! {
        // One for all samples, as it can never be freed.
        static EXECUTOR: &'static StaticLocalExecutor = LocalExecutor::new().leak();
    }
    enter_scheduling(workload, || EXECUTOR.with(|executor| *executor))
}

pub fn enter_local(workload: Workload) -> Entry {
    enter_scheduling(workload, || Rc::new(LocalExecutor::new()))
}

/// What both executors can do.
trait Executor: Clone + 'static {
    fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T>;
    fn run<T>(&self, future: impl Future<Output = T>) -> T;
}

impl Executor for &'static StaticLocalExecutor {
    fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        StaticLocalExecutor::spawn(self, future)
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(StaticLocalExecutor::run(self, future))
    }
}

impl Executor for Rc<LocalExecutor<'static>> {
    fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        LocalExecutor::spawn(self, future)
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(LocalExecutor::run(self, future))
    }
}

fn enter_scheduling<E: Executor>(workload: Workload, executor: fn() -> E) -> Entry {
    match workload {
        Workload::Yield { tasks } => Entry::Runs(Box::new(move |wish| {
            let executor = executor();
            executor.run(executor.spawn(yields(executor.clone(), tasks, wish)))
        })),
        Workload::SpawnJoinOne => Entry::Runs(Box::new(move |wish| {
            let executor = executor();
            executor.run(executor.spawn(spawn_join_one(executor.clone(), wish)))
        })),
        Workload::SpawnJoinMany { tasks } => Entry::Runs(Box::new(move |wish| {
            let executor = executor();
            executor.run(executor.spawn(spawn_join_many(executor.clone(), tasks, wish)))
        })),
        _ => Entry::Absent,
    }
}

async fn yields(executor: impl Executor, tasks: u64, wish: u64) -> Sample {
    let ring = Ring::new(tasks, wish);
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let ring = Arc::clone(&ring);
            executor.spawn(async move {
                for _ in 0..ring.arrive() {
                    yield_now().await;
                }
                ring.finish();
                yield_now().await;
            })
        })
        .collect();
    for handle in handles {
        handle.await;
    }
    ring.sample()
}

async fn spawn_join_one(executor: impl Executor, wish: u64) -> Sample {
    let start = Instant::now();
    for number in 0..wish {
        black_box(executor.spawn(async move { black_box(number) + 1 }).await);
    }
    Sample { operations: wish, elapsed: start.elapsed() }
}

async fn spawn_join_many(executor: impl Executor, tasks: u64, wish: u64) -> Sample {
    let mut handles = Vec::with_capacity(tasks as usize);
    let start = Instant::now();
    for _ in 0..wish.div_ceil(tasks) {
        handles
            .extend((0..tasks).map(|number| executor.spawn(async move { black_box(number) + 1 })));
        for handle in handles.drain(..) {
            black_box(handle.await);
        }
    }
    Sample { operations: wish.next_multiple_of(tasks), elapsed: start.elapsed() }
}
