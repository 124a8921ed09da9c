//! Futures wait for fibers and fibers for futures, whoever polls.

mod child;

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use child::isolated;
use pirn::sync::channel::{self, Receiver, RecvError, SendError};
use pirn::sync::promise;
use pirn::task::{self, Step};
use pirn::thread::{self, Cancelled};
use pirn::time::Duration;
use pirn::{Runtime, block_on, blocking};
use proptest::prelude::*;

/// A waker that counts; what somebody else's executor amounts to.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::<Count>::default();
        (count.clone(), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Polls once.
fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn a_future_is_waited_for_by_one_fiber_while_others_run() {
    pirn::run(|| {
        let (promise, answer) = promise();
        let waits = thread::spawn(move || block_on(async { answer.await.unwrap() + 1 }));
        thread::yield_now();
        assert!(!waits.is_finished());
        promise.set(41).unwrap();
        assert_eq!(waits.join().unwrap(), 42);
    });
}

#[test]
fn an_os_thread_waits_for_a_future_that_fibers_and_other_threads_complete() {
    let (sender, receiver) = channel::bounded(1);
    let waits = std::thread::spawn(move || {
        block_on(async move {
            let mut sum = 0;
            while let Ok(number) = receiver.recv_async().await {
                sum += number;
            }
            sum
        })
    });
    let other = sender.clone();
    let sends = std::thread::spawn(move || (0..1_000).for_each(|n| other.send(n).unwrap()));
    pirn::run(move || (0..1_000).for_each(|n| sender.send(n).unwrap()));
    sends.join().unwrap();
    assert_eq!(waits.join().unwrap(), 999_000);
}

#[test]
fn a_future_that_wakes_itself_is_polled_again_at_once() {
    struct Shy(u32);
    impl Future for Shy {
        type Output = u32;
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
            self.0 += 1;
            cx.waker().wake_by_ref();
            if self.0 < 10 { Poll::Pending } else { Poll::Ready(self.0) }
        }
    }
    assert_eq!(pirn::run(|| block_on(Shy(0))), 10);
    assert_eq!(block_on(Shy(0)), 10);
}

#[test]
fn waiting_for_a_future_leaves_the_token_of_park_alone() {
    pirn::run(|| {
        thread::current().unpark();
        let (promise, answer) = promise();
        thread::spawn(move || promise.set(1).unwrap());
        block_on(answer).unwrap();
        thread::park(); // returns at once, or this is a deadlock
        let (sender, receiver) = channel::rendezvous();
        let parked = thread::spawn(move || {
            block_on(receiver.recv_async()).unwrap();
            thread::park_timeout(Duration::from_secs(0));
        });
        thread::yield_now();
        parked.thread().unpark();
        thread::yield_now();
        assert!(!parked.is_finished(), "an unpark is no wake");
        sender.send(()).unwrap();
        parked.join().unwrap();
    });
}

#[test]
fn a_fiber_that_is_cancelled_or_out_of_time_drops_the_future() {
    struct Never(#[expect(dead_code, reason = "only dropped")] Rc<()>);
    impl Future for Never {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    pirn::run(|| {
        let token = Rc::new(());
        let never = Never(token.clone());
        let waits = thread::spawn_local(move || block_on(never));
        thread::yield_now();
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        assert_eq!(Rc::strong_count(&token), 1);
        let never = Never(token.clone());
        assert!(pirn::time::timeout(Duration::from_millis(1), || block_on(never)).is_err());
        assert_eq!(Rc::strong_count(&token), 1);
    });
}

#[test]
fn a_wait_for_a_future_that_nobody_can_wake_is_a_deadlock() {
    isolated("a_wait_for_a_future_that_nobody_can_wake_is_a_deadlock", &[], || {
        let report = Runtime::new().unwrap().run(|| block_on(std::future::pending::<()>()));
        let report = report.unwrap_err().to_string();
        assert!(report.contains("waits for a future to be ready"), "{report}");
    });
}

#[test]
fn a_task_without_a_stack_may_ask_for_a_future_that_is_ready_and_no_other() {
    pirn::run(|| {
        let asks = task::spawn(task::from_fn(|_: &mut task::Context<'_>| {
            assert_eq!(block_on(async { 1 }), 1);
            block_on(std::future::pending::<()>());
            Step::Done(())
        }));
        let payload = asks.join().unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert!(message.contains("waits for a future to be ready"), "{message}");
    });
}

#[test]
fn futures_receive_in_their_turn_among_fibers_and_are_woken_once() {
    pirn::run(|| {
        let (sender, receiver) = channel::rendezvous();
        let (count, waker) = Count::new();
        let mut first = receiver.recv_async();
        assert!(poll(&mut first, &waker).is_pending());
        let fiber = thread::spawn({
            let receiver = receiver.clone();
            move || receiver.recv().unwrap()
        });
        thread::yield_now();
        let mut last = receiver.recv_async();
        assert!(poll(&mut last, &waker).is_pending());
        assert_eq!(count.get(), 0);
        for n in 0..3 {
            sender.send(n).unwrap(); // never waits: there are three who do
        }
        assert_eq!(count.get(), 2);
        assert_eq!(poll(&mut last, &waker), Poll::Ready(Ok(2)));
        assert_eq!(poll(&mut first, &waker), Poll::Ready(Ok(0)));
        assert_eq!(fiber.join().unwrap(), 1);
        drop(sender);
        assert_eq!(poll(&mut receiver.recv_async(), &waker), Poll::Ready(Err(RecvError)));
    });
}

#[test]
fn a_value_that_was_handed_to_a_future_which_is_dropped_goes_to_the_next() {
    let (count, waker) = Count::new();
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        let mut left = receiver.recv_async();
        let mut next = receiver.recv_async();
        assert!(poll(&mut left, &waker).is_pending());
        assert!(poll(&mut next, &waker).is_pending());
        sender.try_send(7).unwrap();
        drop(left);
        assert_eq!(poll(&mut next, &waker), Poll::Ready(Ok(7)));
        // … or back into the channel.
        let mut left = receiver.recv_async();
        assert!(poll(&mut left, &waker).is_pending());
        sender.try_send(8).unwrap();
        drop(left);
        assert_eq!(receiver.try_recv(), Ok(8));
        // One that was given nothing is just gone.
        let mut left = receiver.recv_async();
        assert!(poll(&mut left, &waker).is_pending());
        drop(left);
        assert_eq!(sender.try_send(9).is_ok(), capacity == 1);
    }
    assert_eq!(count.get(), 6);
}

#[test]
fn a_value_that_a_dropped_future_would_have_sent_is_dropped_unless_it_has_gone() {
    let (count, waker) = Count::new();
    let token = Arc::new(());
    let (sender, receiver) = channel::bounded(1);
    assert_eq!(poll(&mut sender.send_async(token.clone()), &waker), Poll::Ready(Ok(())));
    let mut unpolled = sender.send_async(token.clone());
    let mut left = sender.send_async(token.clone());
    let mut gone = sender.send_async(token.clone());
    assert!(poll(&mut left, &waker).is_pending());
    assert!(poll(&mut gone, &waker).is_pending());
    assert_eq!(Arc::strong_count(&token), 5);
    drop(left);
    assert_eq!(Arc::strong_count(&token), 4);
    drop(receiver.recv().unwrap());
    assert_eq!(count.get(), 1, "there is room for the next one");
    drop(gone);
    drop(receiver.try_recv().unwrap());
    assert_eq!(Arc::strong_count(&token), 2, "the value had gone");
    drop(receiver);
    let back = poll(&mut unpolled, &waker);
    assert!(matches!(back, Poll::Ready(Err(SendError(_)))));
}

#[test]
fn a_closed_channel_wakes_every_future_and_never_under_its_lock() {
    /// Looks at the channel as it is woken: that would never end under the lock.
    struct Looks(Receiver<u32>, Mutex<Vec<bool>>);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0.try_recv().is_err());
        }
    }
    let (sender, receiver) = channel::rendezvous();
    let looks = Arc::new(Looks(receiver.clone(), Mutex::default()));
    let waker = Waker::from(looks.clone());
    let mut futures: Vec<_> = (0..50).map(|_| receiver.recv_async()).collect();
    assert!(futures.iter_mut().all(|future| poll(future, &waker).is_pending()));
    sender.close();
    assert_eq!(*looks.1.lock().unwrap(), [true; 50]);
    for future in &mut futures {
        assert_eq!(poll(future, &waker), Poll::Ready(Err(RecvError)));
    }
    let mut sends = sender.send_async(5);
    assert_eq!(poll(&mut sends, &waker), Poll::Ready(Err(SendError(5))));
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_called() {
    let ((old, old_waker), (new, new_waker)) = (Count::new(), Count::new());
    let (sender, receiver) = channel::rendezvous();
    let mut receives = receiver.recv_async();
    assert!(poll(&mut receives, &old_waker).is_pending());
    assert!(poll(&mut receives, &new_waker).is_pending());
    sender.send(1).unwrap();
    assert_eq!((old.get(), new.get()), (0, 1));
    assert_eq!(poll(&mut receives, &old_waker), Poll::Ready(Ok(1)));

    let (sender, receiver) = channel::oneshot();
    let mut receives = receiver.into_future();
    assert!(poll(&mut receives, &old_waker).is_pending());
    assert!(poll(&mut receives, &new_waker).is_pending());
    sender.send(2).unwrap();
    assert_eq!((old.get(), new.get()), (0, 2));
    assert_eq!(poll(&mut receives, &old_waker), Poll::Ready(Ok(2)));

    pirn::run(|| {
        let mut joins = thread::spawn_local(|| 3).into_future();
        assert!(poll(&mut joins, &old_waker).is_pending());
        assert!(poll(&mut joins, &new_waker).is_pending());
        thread::yield_now();
        assert_eq!((old.get(), new.get()), (0, 3));
        assert!(matches!(poll(&mut joins, &old_waker), Poll::Ready(Ok(3))));
    });
}

#[test]
fn a_oneshot_future_learns_of_the_value_and_of_a_sender_that_is_gone() {
    let (count, waker) = Count::new();
    let (sender, receiver) = channel::oneshot();
    sender.send(1).unwrap();
    assert_eq!(poll(&mut receiver.into_future(), &waker), Poll::Ready(Ok(1)));
    let (sender, receiver) = channel::oneshot::<u32>();
    let mut receives = receiver.into_future();
    assert!(poll(&mut receives, &waker).is_pending());
    drop(sender);
    assert_eq!(count.get(), 1);
    assert_eq!(poll(&mut receives, &waker), Poll::Ready(Err(RecvError)));
    // One that is dropped while it waits sends the value back.
    let (sender, receiver) = channel::oneshot();
    let mut receives = receiver.into_future();
    assert!(poll(&mut receives, &waker).is_pending());
    drop(receives);
    assert_eq!(sender.send(3), Err(SendError(3)));
    assert_eq!(count.get(), 1);
}

#[test]
fn another_executor_joins_fibers_wherever_it_runs() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let (count, waker) = Count::new();
    let other = std::thread::spawn(move || {
        let (go, gate) = channel::rendezvous::<()>();
        let panics = handle.spawn(move || {
            gate.recv().unwrap();
            std::panic::resume_unwind(Box::new(5));
        });
        let mut panics = panics.into_future();
        let quick = handle.spawn(|| 2);
        assert_eq!(block_on(async { quick.await.unwrap() }), 2);
        // A future that has been polled by one may be polled by the next.
        assert!(poll(&mut panics, &waker).is_pending());
        go.send(()).unwrap();
        let panicked: std::thread::Result<()> = block_on(&mut panics);
        let sleeper = handle.spawn(thread::park);
        let mut joins = sleeper.into_future();
        assert!(poll(&mut joins, &waker).is_pending());
        let sleeper = joins.into_handle();
        sleeper.cancel();
        (panicked.unwrap_err().is::<i32>(), block_on(sleeper).unwrap_err().is::<Cancelled>())
    });
    let ends = runtime.run(|| block_on(blocking::spawn(|| other.join().unwrap())).unwrap());
    assert_eq!(ends.unwrap(), (true, true));
    drop(count);
}

#[test]
fn a_join_future_that_is_dropped_detaches_the_fiber() {
    let (count, waker) = Count::new();
    let ended = Rc::new(());
    pirn::run(|| {
        let own = ended.clone();
        let mut joins = thread::spawn_local(move || {
            thread::yield_now();
            drop(own);
        })
        .into_future();
        assert!(poll(&mut joins, &waker).is_pending());
        drop(joins);
        thread::yield_now();
        thread::yield_now();
        assert_eq!(Rc::strong_count(&ended), 1, "it has come to its end");
    });
    assert!(count.get() <= 1);
}

#[test]
fn a_job_of_the_blocking_pool_is_a_future() {
    assert_eq!(block_on(async { 1 + blocking::spawn(|| 1).await.unwrap() }), 2);
    let mut panics = pin!(blocking::spawn(|| -> () { std::panic::resume_unwind(Box::new(())) }));
    assert!(block_on(panics.as_mut()).is_err());
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Send,
    PollSend(usize),
    DropSend(usize),
    PollRecv(usize),
    DropRecv(usize),
    Recv,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Send),
        (0..4_usize).prop_map(Act::PollSend),
        (0..4_usize).prop_map(Act::DropSend),
        (0..4_usize).prop_map(Act::PollRecv),
        (0..4_usize).prop_map(Act::DropRecv),
        Just(Act::Recv),
    ]
}

proptest! {
    #[test]
    fn whatever_is_polled_and_dropped_each_value_that_went_is_received_once(
        capacity in 0..3_usize,
        acts in proptest::collection::vec(act(), 1..60),
    ) {
        let (_, waker) = Count::new();
        let (sender, receiver) = channel::bounded(capacity);
        let mut sends = [const { None }; 4];
        let mut receives = [const { None }; 4];
        let mut next = 0;
        let mut got = Vec::new();
        // Sent for sure; of those whose future was dropped it is not known.
        let (mut sent, mut unknown) = (Vec::new(), Vec::new());
        let mut new = || { next += 1; next };
        for act in acts {
            match act {
                Act::Send => {
                    let value = new();
                    if sender.try_send(value).is_ok() {
                        sent.push(value);
                    }
                }
                Act::PollSend(at) => {
                    let (value, future) = sends[at].get_or_insert_with(|| {
                        let value = new();
                        (value, sender.send_async(value))
                    });
                    if poll(future, &waker).is_ready() {
                        sent.push(*value);
                        sends[at] = None;
                    }
                }
                Act::DropSend(at) => unknown.extend(sends[at].take().map(|(value, _)| value)),
                Act::PollRecv(at) => {
                    let future = receives[at].get_or_insert_with(|| receiver.recv_async());
                    if let Poll::Ready(value) = poll(future, &waker) {
                        got.push(value.unwrap());
                        receives[at] = None;
                    }
                }
                Act::DropRecv(at) => receives[at] = None,
                Act::Recv => got.extend(receiver.try_recv().ok()),
            }
        }
        for future in receives.iter_mut().flatten() {
            if let Poll::Ready(value) = poll(future, &waker) {
                got.push(value.unwrap());
            }
        }
        receives = [const { None }; 4];
        got.extend(receiver.try_iter());
        unknown.extend(sends.into_iter().flatten().map(|(value, _)| value));
        drop(receives);
        let mut seen = got.clone();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), got.len(), "none twice");
        prop_assert!(sent.iter().all(|value| got.contains(value)), "none lost");
        prop_assert!(got.iter().all(|value| sent.contains(value) || unknown.contains(value)));
    }
}
