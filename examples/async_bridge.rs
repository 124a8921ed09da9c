//! Blocking code and async code, of a crate that knows nothing of pirn, call each other.
//!
//!     cargo run --example async_bridge
//!
//! Orders go through three stations, joined by channels of two kinds:
//!
//! ```text
//!   fiber ──pirn channel──► async task ──async-channel──► fiber ──async-channel──► other executor
//! ```
//!
//! A fiber waits for a future by `block_on`, which parks only that fiber. An async task of the same
//! scheduler, and an executor on another OS thread, await pirn's channels and the ends of fibers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pirn::sync::channel;
use pirn::{block_on, blocking, task, thread};

/// An executor that is not pirn's: it polls one future on an OS thread.
fn run_elsewhere<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Async code that some library might have: doubles what comes in, and has never heard of fibers.
async fn double(orders: async_channel::Receiver<u32>, results: async_channel::Sender<u32>) {
    while let Ok(number) = orders.recv().await {
        results.send(2 * number).await.expect("somebody waits for the results");
    }
}

fn main() {
    let total = pirn::run(|| {
        // Blocking code into async code: a future receives what a fiber sends.
        let (orders, incoming) = channel::bounded(4);
        let (to_library, of_bridge) = async_channel::bounded(2);
        let bridge = task::spawn_future(async move {
            let mut passed = 0;
            while let Ok(number) = incoming.recv_async().await {
                to_library.send(number).await.expect("the library listens");
                passed += 1;
            }
            passed
        });

        // The library's own code, as a task among fibers.
        let (to_fiber, of_library) = async_channel::bounded(2);
        task::spawn_future(double(of_bridge, to_fiber));

        // Async code into blocking code: a fiber waits for futures in the middle of a loop.
        let (to_other, elsewhere) = async_channel::unbounded();
        let adds_one = thread::spawn(move || {
            let mut count = 0;
            while let Ok(number) = block_on(of_library.recv()) {
                block_on(to_other.send(number + 1)).expect("the other executor listens");
                count += 1;
            }
            count
        });

        // Another executor, on a thread of its own; it awaits the end of the fiber as well.
        let sums = blocking::spawn(move || {
            run_elsewhere(async move {
                let mut sum = 0;
                while let Ok(number) = elsewhere.recv().await {
                    sum += number;
                }
                sum
            })
        });

        for number in 1..=10 {
            orders.send(number).expect("the bridge listens");
        }
        drop(orders);
        let (passed, added) = block_on(async { (bridge.await.unwrap(), adds_one.await.unwrap()) });
        println!("{passed} orders went through the bridge, {added} through the fiber");
        block_on(sums).expect("the executor does not panic")
    });
    println!("their results add up to {total}");
    assert_eq!(total, 120);
}
