//! Waiting for a future in the middle of code that blocks.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::sched::cancel::check_cancelled;
use crate::sched::clock::Instant;
use crate::sched::wait::Outcome;
use crate::sched::wakes::Wakes;
use crate::sched::{Resource, ResourceKind};
use crate::sync::called_off;
use crate::sync::spin::Spin;
use crate::sync::waiters::{self, Record, Waiters};

static KIND: ResourceKind = ResourceKind::without_holder("for a future to be ready");

/// Polls a future until it is ready, and waits in between: only the calling fiber does, or OS thread.
///
/// The future is polled right here, and again when its waker is called, from whatever thread. So code
/// that is written with `async` can be used from any depth of code that is not.
///
/// A future that needs a reactor of its own, as tokio's sockets and timers do, must find that one when
/// it is polled. Either the runtime that has it polls the future, and `block_on` waits for that:
/// `block_on(tokio_handle.spawn(future))`. Or the future is wrapped into one whose `poll` enters the
/// runtime and leaves it again; not around `block_on`, since other fibers run on the thread meanwhile.
/// `examples/tokio_bridge.rs` does both.
///
/// ```
/// use pirn::sync::channel;
/// use pirn::thread;
///
/// pirn::run(|| {
///     let (sender, receiver) = channel::rendezvous();
///     thread::spawn(move || sender.send(20).unwrap());
///     let answer = pirn::block_on(async {
///         let number = receiver.recv_async().await.unwrap();
///         2 * number + 2
///     });
///     assert_eq!(answer, 42);
/// });
/// ```
///
/// To run a future beside others see [`task::spawn_future`](crate::task::spawn_future).
///
/// # Cancellation
///
/// A fiber that is cancelled, or out of time, is unwound, which drops the future.
///
/// # Panics
///
/// When the future does; in [`resume`](crate::task::Resumable::resume), if it would have to wait; in a
/// destructor while the fiber is being ended, if it would have to wait.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    let bell = Arc::new(Bell {
        resource: Resource::new(&KIND),
        state: Spin::new(State { rung: false, waiters: Waiters::new() }),
    });
    let waker = Waker::from(bell.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        bell.wait();
    }
}

/// What the waker rings. Not the token of `park`: that is the program's.
struct Bell {
    resource: Resource,
    state: Spin<State>,
}

struct State {
    /// Since the last wait, which nobody was in.
    rung: bool,
    /// The one who polls.
    waiters: Waiters<()>,
}

impl Bell {
    /// Waits until it is rung, if it has not been.
    fn wait(&self) {
        let mut state = self.state.lock();
        if mem::take(&mut state.rung) {
            return;
        }
        let record = pin!(Record::begin(None, 0));
        state.waiters.push(record.as_ref());
        drop(state);
        let outcome =
            waiters::wait(record.as_ref(), &self.resource, Instant::FAR_FUTURE, |unlink| {
                unlink(&mut self.state.lock().waiters);
            });
        check_cancelled(outcome);
        if outcome != Outcome::Notified {
            called_off("a future");
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        if !state.waiters.notify_one(|_| {}, |_| {}, &mut wakes) {
            state.rung = true;
        }
    }
}
