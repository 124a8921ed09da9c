//! Promises and futures.

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pirn::sync::{
    Future, Promise, PromiseError, join_all, join_all_timeout, promise, select_any,
    select_any_deadline, select_any_timeout,
};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn a_value_reaches_all_waiters_in_order_and_stays() {
    run(|| {
        let (promise, future) = promise();
        let order = Rc::new(RefCell::new(Vec::new()));
        let waiters: Vec<_> = (0..10)
            .map(|number| {
                let (future, order) = (future.clone(), order.clone());
                thread::spawn_local(move || {
                    assert_eq!(future.get().unwrap(), "value");
                    order.borrow_mut().push(number);
                })
            })
            .collect();
        thread::yield_now();
        assert!(!future.is_done() && !promise.is_settled() && future.try_get().is_none());
        promise.set("value".to_owned()).unwrap();
        assert!(future.is_done() && promise.is_settled());
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(*order.borrow(), (0..10).collect::<Vec<_>>());
        assert_eq!(future.get().unwrap(), "value");
        assert_eq!(promise.future().try_get().unwrap().unwrap(), "value");
    });
}

#[test]
fn the_second_settlement_is_an_error_that_holds_what_came_too_late() {
    let (promise, future) = promise();
    promise.set(1).unwrap();
    assert_eq!(promise.set(2).unwrap_err().0, 2);
    assert_eq!(promise.fail("late").unwrap_err().0.to_string(), "late");
    assert_eq!(*future.get().unwrap(), 1);
    assert_eq!(promise.set(3).unwrap_err().to_string(), "the promise is settled already");
    drop(promise);
    assert_eq!(*future.get().unwrap(), 1);
}

#[test]
fn a_dropped_promise_is_broken_for_everybody_whatever_the_panic() {
    run(|| {
        let payloads: Vec<fn() -> Box<dyn std::any::Any + Send>> = vec![
            || Box::new("text"),
            || Box::new("string".to_owned()),
            || Box::new(vec![1]),
            || Box::new(()),
        ];
        for payload in payloads {
            let (promise, future) = promise::<u32>();
            let waiter = thread::spawn({
                let future = future.clone();
                move || matches!(future.get(), Err(PromiseError::Broken))
            });
            thread::yield_now();
            let producer = thread::spawn(move || {
                let _promise = promise;
                std::panic::resume_unwind(payload());
            });
            assert!(waiter.join().unwrap());
            assert!(producer.join().is_err());
            assert!(matches!(future.get(), Err(PromiseError::Broken)));
        }
        let (promise, future) = promise::<u32>();
        drop(promise);
        let error = future.try_get().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the promise was dropped before it was settled");
    });
}

#[test]
fn a_failure_reaches_the_waiters_with_its_cause() {
    let (promise, future) = promise::<u32>();
    promise.fail(std::io::Error::other("no route")).unwrap();
    let error = future.get().unwrap_err();
    assert_eq!(error.to_string(), "the promise failed: no route");
    let cause = std::error::Error::source(&error).unwrap();
    assert!(cause.downcast_ref::<std::io::Error>().is_some());
    assert!(promise.set(1).is_err());
}

#[test]
fn a_wait_with_a_limit_gives_up_and_the_next_one_gets_the_value() {
    run(|| {
        let (promise, future) = promise();
        let start = Instant::now();
        assert!(future.get_timeout(Duration::ZERO).is_none());
        assert!(future.get_timeout(SECOND).is_none());
        assert!(future.get_deadline(start + 2 * SECOND).is_none());
        assert_eq!(start.elapsed(), 2 * SECOND);
        let setter = thread::spawn(move || {
            thread::sleep(SECOND);
            promise.set(4).unwrap();
        });
        assert_eq!(future.get_timeout(5 * SECOND).unwrap().unwrap(), &4);
        assert_eq!(start.elapsed(), 3 * SECOND);
        setter.join().unwrap();
    });
}

#[test]
fn a_value_that_nobody_wants_is_dropped_once() {
    struct Counted(Rc<Cell<u32>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Rc::new(Cell::new(0));
    let (promise, future) = promise();
    drop(future.clone());
    drop(future);
    promise.set(Counted(drops.clone())).unwrap();
    drop(promise.set(Counted(drops.clone())));
    assert_eq!(drops.get(), 1);
    drop(promise);
    assert_eq!(drops.get(), 2);
}

#[test]
fn select_any_returns_the_lowest_that_is_settled_and_consumes_nothing() {
    run(|| {
        let (promises, futures): (Vec<_>, Vec<_>) = (0..4).map(|_| promise()).unzip();
        assert_eq!(select_any_timeout(&futures, SECOND), None);
        let selector = thread::spawn({
            let futures = futures.clone();
            move || (select_any(&futures), Instant::now())
        });
        thread::sleep(SECOND);
        promises[2].set(2).unwrap();
        promises[1].fail("none").unwrap();
        // Both are settled when the selector has its turn.
        assert_eq!(selector.join().unwrap(), (1, Instant::now()));
        assert_eq!(select_any(&futures), 1);
        assert_eq!(select_any(&futures[2..]), 0);
        assert_eq!(select_any_deadline(&futures, Instant::now()), Some(1));
        assert!(futures[1].get().is_err());
        assert_eq!(futures[2].get().unwrap(), &2);
        // The same one twice, and one that is broken.
        drop(promises);
        assert_eq!(select_any(&[futures[3].clone(), futures[3].clone()]), 0);
        assert!(std::panic::catch_unwind(|| select_any::<u32>(&[])).is_err());
    });
}

#[test]
fn selections_and_settlements_miss_nothing_in_any_order() {
    pirn::explore(500, || {
        let (promises, futures): (Vec<_>, Vec<_>) = (0..3).map(|_| promise()).unzip();
        thread::scope(|s| {
            let selectors: Vec<_> = (0..3)
                .map(|limit| {
                    let futures = &futures;
                    s.spawn(move || match limit {
                        0 => Some(select_any(futures)),
                        limit => select_any_timeout(futures, SECOND * limit),
                    })
                })
                .collect();
            for (number, promise) in promises.into_iter().enumerate() {
                s.spawn(move || {
                    thread::sleep(SECOND);
                    promise.set(number).unwrap();
                });
            }
            let selected: Vec<_> =
                selectors.into_iter().map(|selector| selector.join().unwrap()).collect();
            assert!(selected[0].is_some() && selected[2].is_some());
        });
        let values: Vec<_> = join_all(&futures).into_iter().map(|value| *value.unwrap()).collect();
        assert_eq!(values, [0, 1, 2]);
    });
}

#[test]
fn join_all_waits_for_all_and_keeps_their_order() {
    run(|| {
        let (promises, futures): (Vec<_>, Vec<_>) = (0..3).map(|_| promise()).unzip();
        assert!(join_all_timeout(&futures, SECOND).is_none());
        let start = Instant::now();
        thread::scope(|s| {
            for (number, promise) in promises.into_iter().enumerate() {
                s.spawn(move || {
                    thread::sleep(SECOND * (3 - number as u32));
                    if number == 1 {
                        drop(promise);
                    } else {
                        promise.set(number).unwrap();
                    }
                });
            }
            let values = join_all(&futures);
            assert_eq!(start.elapsed(), 3 * SECOND);
            assert_eq!((values[0].as_ref().ok(), values[2].as_ref().ok()), (Some(&&0), Some(&&2)));
            assert!(matches!(values[1], Err(PromiseError::Broken)));
        });
        assert!(join_all::<u32>(&[]).is_empty());
    });
}

#[test]
fn threads_and_fibers_settle_and_wait_for_one_another() {
    const ROUNDS: usize = if cfg!(target_arch = "x86_64") { 300 } else { 40 };
    let (promises, futures): (Vec<Promise<usize>>, Vec<Future<usize>>) =
        (0..2 * ROUNDS).map(|_| promise()).unzip();
    let mut of_threads = promises;
    let of_fibers = of_threads.split_off(ROUNDS);
    let sum = |futures: &[Future<usize>]| -> usize {
        futures.iter().map(|future| *future.get().unwrap()).sum()
    };
    let expected = 2 * (0..ROUNDS).sum::<usize>();
    std::thread::scope(|s| {
        s.spawn(|| {
            for (number, promise) in of_threads.into_iter().enumerate() {
                promise.set(number).unwrap();
            }
        });
        s.spawn(|| assert_eq!(sum(&futures), expected));
        s.spawn(|| {
            pirn::run(|| {
                thread::scope(|s| {
                    s.spawn(|| assert_eq!(sum(&futures), expected));
                    s.spawn(|| {
                        for (number, promise) in of_fibers.into_iter().enumerate() {
                            promise.set(number).unwrap();
                            thread::yield_now();
                        }
                    });
                    s.spawn(|| {
                        for window in futures.windows(2) {
                            let any = select_any(window);
                            assert!(window[any].is_done());
                        }
                    });
                });
            });
        });
    });
}

/// Counts its calls, and uses the future in them.
struct Counts {
    calls: AtomicUsize,
    future: Future<u32>,
}

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Called when the value is there, and with no lock held.
        assert!(self.future.clone().get().is_ok());
    }
}

fn poll<F: std::future::Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn as_a_std_future_it_calls_the_last_waker_of_each_once_outside_its_lock() {
    let (promise, future) = promise::<u32>();
    let wakers =
        [(); 3].map(|()| Arc::new(Counts { calls: AtomicUsize::new(0), future: future.clone() }));
    let [one, two, three] = wakers.clone().map(Waker::from);
    let (mut first, mut second) = (pin!(future.clone()), Box::pin(future.clone()));
    assert!(poll(first.as_mut(), &one).is_pending());
    assert!(poll(first.as_mut(), &two).is_pending());
    assert!(poll(second.as_mut(), &three).is_pending());
    let mut gone = Box::pin(future.clone());
    assert!(poll(gone.as_mut(), &three).is_pending());
    drop(gone);
    promise.set(9).unwrap();
    let calls = wakers.map(|waker| waker.calls.load(Ordering::Relaxed));
    assert_eq!(calls, [0, 1, 1]);
    assert!(matches!(poll(first, &one), Poll::Ready(Ok(9))));
    assert!(matches!(poll(second.as_mut(), &one), Poll::Ready(Ok(9))));
}

#[test]
fn values_and_wakers_whose_destructors_use_the_future_find_no_lock_held() {
    thread_local! {
        static FUTURE: RefCell<Option<Future<u32>>> = const { RefCell::new(None) };
    }
    struct Looks;
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Looks {
        fn drop(&mut self) {
            FUTURE.with_borrow(|future| {
                if let Some(future) = future {
                    assert!(future.clone().get_timeout(Duration::ZERO).is_none());
                }
            });
        }
    }
    let (promise, future) = promise::<u32>();
    FUTURE.set(Some(future.clone()));
    let mut polled = Box::pin(future);
    // Replaced, then removed.
    for _ in 0..2 {
        assert!(poll(polled.as_mut(), &Waker::from(Arc::new(Looks))).is_pending());
    }
    drop(polled);
    FUTURE.set(None);
    drop(promise);
    // A value whose destructor settles and reads another promise.
    struct Settles(Promise<u32>, Future<u32>);
    impl Drop for Settles {
        fn drop(&mut self) {
            let _ = self.0.set(5);
            assert_eq!(self.1.get().unwrap(), &5);
        }
    }
    let (inner, seen) = pirn::sync::promise();
    let (outer, future) = pirn::sync::promise();
    outer.set(Settles(inner, seen.clone())).ok().unwrap();
    drop(outer);
    drop(future);
    assert_eq!(seen.get().unwrap(), &5);
}

#[test]
fn a_waiter_that_leaves_is_not_woken_and_the_others_are() {
    pirn::explore(200, || {
        let (promise, future) = promise::<u32>();
        let waiters = [(); 3].map(|()| {
            let future = future.clone();
            thread::spawn(move || future.get().copied())
        });
        let selector = thread::spawn({
            let futures = [future.clone(), future.clone()];
            move || select_any(&futures)
        });
        thread::yield_now();
        waiters[1].cancel();
        selector.cancel();
        let setter = thread::spawn(move || promise.set(1).unwrap());
        let [first, _, third] = waiters;
        assert_eq!(first.join().unwrap().unwrap(), 1);
        assert_eq!(third.join().unwrap().unwrap(), 1);
        let _ = selector.join();
        setter.join().unwrap();
    });
}

#[test]
fn a_wait_that_is_called_off_in_a_destructor_is_an_error() {
    struct Gets(Arc<AtomicUsize>, Future<u32>);
    impl Drop for Gets {
        fn drop(&mut self) {
            assert!(matches!(self.1.get(), Err(PromiseError::Cancelled)));
            assert!(self.1.get_timeout(SECOND).is_none());
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let (_promise, future) = promise();
    pirn::run(|| {
        let gets = Gets(drops.clone(), future.clone());
        thread::spawn(move || {
            let _gets = gets;
            thread::park();
        });
        thread::yield_now();
    });
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}
