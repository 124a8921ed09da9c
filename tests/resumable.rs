//! Tasks without a stack: they keep the promises that fibers do, with the same neighbours.

#![allow(clippy::unit_arg, reason = "a step that ends is often the last thing that is done")]

mod child;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pirn::sync::channel::{self, Receiver};
use pirn::sync::{AcquireError, Mutex, Semaphore, promise};
use pirn::task::{self, Context, Step, from_fn};
use pirn::thread::{self, Cancelled, JoinHandle};
use pirn::time::Instant;

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.borrow_mut().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// A task that is parked until somebody ends it.
fn parked() -> JoinHandle<()> {
    task::spawn(from_fn(|_| Step::Parked))
}

/// A task that receives all there is.
fn collector<T: 'static>(receiver: Receiver<T>) -> JoinHandle<Vec<T>> {
    let mut all = Vec::new();
    task::spawn(from_fn(move |cx: &mut Context<'_>| {
        loop {
            match receiver.poll_recv(cx) {
                Poll::Ready(Ok(value)) => all.push(value),
                Poll::Ready(Err(_)) => return Step::Done(std::mem::take(&mut all)),
                Poll::Pending => return Step::Parked,
            }
        }
    }))
}

#[test]
fn fibers_and_resumables_take_turns_first_in_first_out() {
    let log = Log::default();
    pirn::run(|| {
        let mut joins = Vec::new();
        for number in 0..6 {
            let log = log.clone();
            joins.push(if number % 3 == 1 {
                thread::spawn_local(move || {
                    for round in 0..3 {
                        log.add(format!("{round}.{number}"));
                        thread::yield_now();
                    }
                })
            } else {
                let mut round = 0;
                task::spawn(from_fn(move |_| {
                    log.add(format!("{round}.{number}"));
                    round += 1;
                    if round < 3 { Step::Yielded } else { Step::Done(()) }
                }))
            });
        }
        joins.into_iter().for_each(|join| join.join().unwrap());
    });
    let expected: Vec<String> =
        (0..3).flat_map(|round| (0..6).map(move |number| format!("{round}.{number}"))).collect();
    assert_eq!(log.take(), expected);
}

#[test]
fn a_channel_of_any_capacity_keeps_the_order_between_the_kinds() {
    for capacity in [0, 1, 3, usize::MAX] {
        let (got, echoed) = pirn::run(|| {
            let (to_task, from_fiber) = channel::bounded(capacity);
            let (to_fiber, from_task) = channel::bounded(capacity);
            // Passes on, twice what it gets.
            let mut on_its_way = None;
            let mut sending = false;
            let doubler = task::spawn(from_fn(move |cx| {
                loop {
                    if sending {
                        match to_fiber.poll_send(cx, &mut on_its_way) {
                            Poll::Ready(sent) => sent.unwrap(),
                            Poll::Pending => return Step::Parked,
                        }
                        sending = false;
                    }
                    match from_fiber.poll_recv(cx) {
                        Poll::Ready(Ok(number)) => on_its_way = Some(2 * number),
                        Poll::Ready(Err(_)) => return Step::Done("all passed on"),
                        Poll::Pending => return Step::Parked,
                    }
                    sending = true;
                }
            }));
            let producer = thread::spawn(move || (0..100).for_each(|n| to_task.send(n).unwrap()));
            let echoed: Vec<i32> = (0..100).map(|_| from_task.recv().unwrap()).collect();
            producer.join().unwrap();
            (doubler.join().unwrap(), echoed)
        });
        assert_eq!(got, "all passed on");
        assert_eq!(echoed, (0..100).map(|n| 2 * n).collect::<Vec<_>>(), "capacity {capacity}");
    }
}

#[test]
fn receivers_of_both_kinds_are_served_in_order_of_arrival() {
    let served = pirn::run(|| {
        let (sender, receiver) = channel::rendezvous();
        let log = Log::default();
        for number in 0..4 {
            let (receiver, log) = (receiver.clone(), log.clone());
            if number % 2 == 0 {
                task::spawn(from_fn(move |cx| match receiver.poll_recv(cx) {
                    Poll::Ready(value) => Step::Done(log.add(format!("{number}:{value:?}"))),
                    Poll::Pending => Step::Parked,
                }));
            } else {
                thread::spawn_local(move || log.add(format!("{number}:{:?}", receiver.recv())));
            }
        }
        thread::yield_now();
        (0..4).for_each(|value| sender.send(value).unwrap());
        thread::yield_now();
        log.take()
    });
    assert_eq!(served, ["0:Ok(0)", "1:Ok(1)", "2:Ok(2)", "3:Ok(3)"]);
}

#[test]
fn all_kinds_join_one_another() {
    pirn::run(|| {
        let fiber = thread::spawn(|| 1);
        let mut fiber = Some(fiber);
        let joiner = task::spawn(from_fn(move |cx| {
            let join = fiber.as_mut().unwrap();
            match join.poll_join(cx) {
                Poll::Ready(result) => Step::Done(result.unwrap() + 1),
                Poll::Pending => Step::Parked,
            }
        }));
        let mut joiner = joiner;
        let second = task::spawn(from_fn(move |cx| match joiner.poll_join(cx) {
            Poll::Ready(result) => Step::Done(result.unwrap() + 1),
            Poll::Pending => Step::Parked,
        }));
        let third = thread::spawn(move || second.join().unwrap() + 1);
        assert_eq!(third.join().unwrap(), 4);

        let mut turns = 0;
        let for_a_thread = task::spawn(from_fn(move |_| {
            turns += 1;
            if turns < 10 { Step::Yielded } else { Step::Done(turns) }
        }));
        let joined = std::thread::spawn(move || for_a_thread.join().unwrap());
        while !joined.is_finished() {
            thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(joined.join().unwrap(), 10);
    });
}

#[test]
fn a_handle_that_is_given_on_wakes_the_one_who_joins_now() {
    pirn::run(|| {
        let (gate, open) = channel::rendezvous::<()>();
        let slow = thread::spawn(move || open.recv().unwrap());
        let handle = Rc::new(RefCell::new(Some(slow)));
        let first = task::spawn(from_fn({
            let handle = handle.clone();
            move |cx| match handle.borrow_mut().as_mut().map(|handle| handle.poll_join(cx)) {
                Some(Poll::Pending) => Step::Parked,
                Some(Poll::Ready(_)) => Step::Done("joined"),
                None => Step::Done("it is gone"),
            }
        }));
        thread::yield_now();
        let taken = handle.take().unwrap();
        let second = thread::spawn(move || taken.join().unwrap());
        thread::yield_now();
        gate.send(()).unwrap();
        second.join().unwrap();
        assert_eq!(first.join().unwrap(), "it is gone");
    });
}

#[test]
fn a_cancelled_task_that_is_parked_loses_no_message() {
    pirn::run(|| {
        for looks_again in [true, false] {
            let (sender, receiver) = channel::rendezvous();
            let (got, mut resumes) = (Rc::new(Cell::new(None)), 0);
            let leaving = task::spawn(from_fn({
                let (got, receiver) = (got.clone(), receiver.clone());
                move |cx| {
                    resumes += 1;
                    if (resumes == 1 || looks_again)
                        && let Poll::Ready(value) = receiver.poll_recv(cx)
                    {
                        got.set(value.ok());
                    }
                    Step::<()>::Parked
                }
            }));
            thread::yield_now();
            sender.send(7).unwrap();
            leaving.cancel();
            assert!(leaving.join().unwrap_err().is::<Cancelled>());
            // It has the message, or gave it back.
            assert_eq!(got.get(), looks_again.then_some(7));
            assert_eq!(receiver.try_recv().ok(), (!looks_again).then_some(7));
        }
    });
}

#[test]
fn a_message_that_was_handed_over_and_is_not_polled_for_goes_to_the_next() {
    for capacity in [0, 1] {
        pirn::run(|| {
            let (sender, receiver) = channel::bounded(capacity);
            // Polls once, and then never again.
            let mut polled = false;
            let fickle = task::spawn(from_fn({
                let receiver = receiver.clone();
                move |cx| {
                    if polled {
                        return Step::Done(());
                    }
                    polled = true;
                    assert!(receiver.poll_recv(cx).is_pending());
                    Step::Parked
                }
            }));
            thread::yield_now();
            sender.send("first").unwrap();
            let faithful = collector(receiver.clone());
            fickle.join().unwrap();
            sender.send("second").unwrap();
            drop((sender, receiver));
            assert_eq!(faithful.join().unwrap(), ["first", "second"]);
        });
    }
}

#[test]
fn a_message_that_nobody_else_waits_for_goes_back_to_the_head() {
    pirn::run(|| {
        let (sender, receiver) = channel::bounded(1);
        let mut polled = false;
        let fickle = task::spawn(from_fn({
            let receiver = receiver.clone();
            move |cx| {
                if std::mem::replace(&mut polled, true) {
                    return Step::Done(());
                }
                assert!(receiver.poll_recv(cx).is_pending());
                Step::Parked
            }
        }));
        thread::yield_now();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        fickle.join().unwrap();
        assert!(receiver.is_full());
        assert_eq!([receiver.recv(), receiver.recv()], [Ok(1), Ok(2)]);
        assert!(receiver.is_empty());
    });
}

#[test]
fn a_resume_for_nothing_does_no_harm() {
    pirn::run(|| {
        let (sender, receiver) = channel::rendezvous();
        let resumes = Rc::new(Cell::new(0));
        let task = task::spawn(from_fn({
            let (resumes, receiver) = (resumes.clone(), receiver.clone());
            move |cx| {
                resumes.set(resumes.get() + 1);
                match receiver.poll_recv(cx) {
                    Poll::Ready(value) => Step::Done(value.unwrap()),
                    Poll::Pending => Step::Parked,
                }
            }
        }));
        thread::yield_now();
        let late = thread::spawn(move || receiver.recv());
        for resumed in 1..=3 {
            thread::yield_now();
            assert_eq!(resumes.get(), resumed);
            task.thread().unpark();
            task.thread().unpark();
        }
        thread::yield_now();
        // It kept its place in line.
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        assert_eq!(task.join().unwrap(), 1);
        assert_eq!(late.join().unwrap(), Ok(2));
    });
}

#[test]
fn an_unpark_while_it_runs_is_not_lost() {
    pirn::run(|| {
        let mut resumes = 0;
        let task = task::spawn(from_fn(move |cx| {
            resumes += 1;
            cx.thread().unpark();
            if resumes < 3 { Step::Parked } else { Step::Done(resumes) }
        }));
        assert_eq!(task.join().unwrap(), 3);
    });
}

#[test]
fn what_is_woken_while_it_runs_ends_all_the_same() {
    pirn::run(|| {
        let (sender, receiver) = channel::unbounded();
        let task = task::spawn(from_fn(move |cx| {
            assert!(receiver.poll_recv(cx).is_pending());
            sender.send(1).unwrap();
            Step::Done(receiver.len())
        }));
        // The message had been handed over to it; that went back as it ended.
        assert_eq!(task.join().unwrap(), 0);
    });
}

#[test]
fn the_first_of_several_waits_counts_and_the_others_are_taken_back() {
    pirn::run(|| {
        let (to_one, one) = channel::rendezvous::<&str>();
        let (to_other, other) = channel::rendezvous::<&str>();
        let task = task::spawn(from_fn(move |cx| {
            if let Poll::Ready(value) = one.poll_recv(cx) {
                return Step::Done(value.unwrap());
            }
            if let Poll::Ready(value) = other.poll_recv(cx) {
                return Step::Done(value.unwrap());
            }
            let late = cx.poll_sleep(Instant::now() + Duration::from_secs(3600));
            if late.is_ready() { Step::Done("late") } else { Step::Parked }
        }));
        thread::yield_now();
        to_other.send("other").unwrap();
        assert_eq!(task.join().unwrap(), "other");
        assert!(to_one.send("too late").is_err());
    });
}

#[test]
fn a_mutex_is_handed_over_among_both_kinds_in_order() {
    pirn::run(|| {
        let mutex = Arc::new(Mutex::new(Vec::new()));
        let held = mutex.lock().unwrap();
        let mut joins = Vec::new();
        for number in 0..4 {
            let mutex = mutex.clone();
            joins.push(if number % 2 == 0 {
                let mut guard = None;
                task::spawn(from_fn(move |cx| {
                    if guard.is_none() {
                        match mutex.poll_lock(cx) {
                            Poll::Pending => return Step::Parked,
                            Poll::Ready(locked) => guard = Some(locked.unwrap()),
                        }
                        // Held over a turn of everybody else.
                        return Step::Yielded;
                    }
                    guard.take().unwrap().push(number);
                    Step::Done(())
                }))
            } else {
                thread::spawn_local(move || mutex.lock().unwrap().push(number))
            });
        }
        thread::yield_now();
        drop(held);
        joins.into_iter().for_each(|join| join.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), [0, 1, 2, 3]);
    });
}

#[test]
fn a_mutex_that_was_handed_to_a_task_that_is_dropped_goes_to_the_next() {
    pirn::run(|| {
        let mutex = Arc::new(Mutex::new(()));
        let held = mutex.lock().unwrap();
        let mut polled = false;
        let fickle = task::spawn(from_fn({
            let mutex = mutex.clone();
            move |cx| {
                // Does not poll again, though it is resumed by the mutex, which is its own.
                if !std::mem::replace(&mut polled, true) {
                    assert!(mutex.poll_lock(cx).is_pending());
                }
                Step::<()>::Parked
            }
        }));
        thread::yield_now();
        let next = thread::spawn({
            let mutex = mutex.clone();
            move || mutex.lock().is_ok()
        });
        thread::yield_now();
        drop(held);
        assert!(next.join().unwrap());
        fickle.cancel();
        assert!(fickle.join().is_err());
        assert!(mutex.try_lock().is_ok());
    });
}

#[test]
fn permits_are_given_in_order_and_come_back_from_a_task_that_leaves() {
    pirn::run(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        let both = semaphore.acquire_many(2).unwrap();
        let acquirer = |permits| {
            let semaphore = semaphore.clone();
            task::spawn(from_fn(move |cx| match semaphore.poll_acquire(cx, permits) {
                Poll::Ready(permit) => Step::Done(permit),
                Poll::Pending => Step::Parked,
            }))
        };
        let (large, small) = (acquirer(2), acquirer(1));
        thread::yield_now();
        drop(both);
        let large = large.join().unwrap().unwrap();
        assert_eq!(large.permits(), 2);
        assert!(!small.is_finished());
        small.cancel();
        assert!(small.join().is_err());
        drop(large);
        assert_eq!(semaphore.available_permits(), 2);
        let too_many = acquirer(3).join().unwrap().unwrap_err();
        assert_eq!(too_many, AcquireError::TooMany { requested: 3, maximum: 2 });
    });
}

#[test]
fn a_promise_wakes_those_that_poll_for_it() {
    pirn::run(|| {
        let (promise, answer) = promise();
        let waiter = |future: pirn::sync::Future<i32>| {
            task::spawn(from_fn(move |cx| match future.poll_get(cx) {
                Poll::Ready(value) => Step::Done(value.copied().ok()),
                Poll::Pending => Step::Parked,
            }))
        };
        let (one, two) = (waiter(answer.clone()), waiter(answer));
        thread::yield_now();
        promise.set(42).unwrap();
        assert_eq!((one.join().unwrap(), two.join().unwrap()), (Some(42), Some(42)));
    });
}

#[test]
fn futures_are_woken_from_other_threads() {
    let (promise, answer) = promise();
    let sum = pirn::run(|| {
        let task = task::spawn_future(async move { answer.await.unwrap() + 1 });
        thread::yield_now();
        let other = std::thread::spawn(move || promise.set(41).unwrap());
        let sum = task.join().unwrap();
        other.join().unwrap();
        sum
    });
    assert_eq!(sum, 42);
}

#[test]
fn an_os_thread_and_a_resumable_share_a_channel() {
    let (sender, receiver) = channel::rendezvous();
    let producer = std::thread::spawn(move || (0..1_000).for_each(|n| sender.send(n).unwrap()));
    let all = pirn::run(|| collector(receiver).join().unwrap());
    producer.join().unwrap();
    assert_eq!(all, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_panic_in_resume_is_the_payload_of_join_and_drops_the_task() {
    pirn::run(|| {
        let dropped = Rc::new(Cell::new(false));
        struct Note(Rc<Cell<bool>>);
        impl Drop for Note {
            fn drop(&mut self) {
                self.0.set(true);
            }
        }
        let note = Note(dropped.clone());
        let (sender, receiver) = channel::rendezvous::<i32>();
        let mut resumes = 0;
        let task = task::spawn(from_fn(move |cx| -> Step<()> {
            let _ = (&note, receiver.poll_recv(cx));
            resumes += 1;
            if resumes == 1 { Step::Yielded } else { panic!("out of yarn") }
        }));
        let payload = task.join().unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "out of yarn");
        assert!(dropped.get());
        assert!(sender.send(1).is_err());
    });
}

#[test]
fn a_call_that_would_block_is_refused_and_one_that_need_not_wait_is_not() {
    pirn::run(|| {
        let (sender, receiver) = channel::rendezvous::<i32>();
        let (full, _full) = channel::bounded(1);
        full.send(Rc::new(())).unwrap();
        let (ready, there) = channel::unbounded();
        ready.send(5).unwrap();
        assert_eq!(task::spawn(from_fn(move |_| Step::Done(there.recv()))).join().unwrap(), Ok(5));
        let held = Arc::new(Mutex::new(()));
        let _guard = held.lock().unwrap();
        let mutex = held.clone();
        let again = receiver.clone();
        type Call = Box<dyn FnMut(&mut Context<'_>)>;
        let calls: [(&str, Call); 7] = [
            ("waits to receive from channel", Box::new(move |_| assert!(receiver.recv().is_ok()))),
            ("waits to send into channel", Box::new(move |_| drop(full.send(Rc::new(()))))),
            ("waits to lock a mutex", Box::new(move |_| drop(mutex.lock()))),
            ("sleeps", Box::new(|_| thread::sleep(Duration::from_secs(1)))),
            ("parks", Box::new(|_| thread::park())),
            ("yields", Box::new(|_| thread::yield_now())),
            (
                "after a poll that is pending",
                Box::new(move |cx| {
                    assert!(again.poll_recv(cx).is_pending());
                    assert!(again.recv().is_ok());
                }),
            ),
        ];
        for (what, mut call) in calls {
            let task = task::spawn(from_fn(move |cx| Step::Done(call(cx))));
            let payload = task.join().unwrap_err();
            let message = payload
                .downcast::<String>()
                .map(|text| *text)
                .unwrap_or_else(|other| (*other.downcast::<&str>().expect("a message")).to_owned());
            assert!(message.contains(what), "{message}");
            assert!(message.contains("poll_"), "{message}");
        }
        // Nothing was left in the queue.
        assert!(sender.try_send(1).is_err());
        let scope = task::spawn(from_fn(|_| Step::Done(thread::scope(|_| ()))));
        assert!(scope.join().is_err());
    });
}

#[test]
fn a_cancelled_task_may_come_to_its_end_in_its_own_way() {
    pirn::run(|| {
        let mut turns_left = 3;
        let tidy = task::spawn(from_fn(move |cx| {
            if !cx.is_cancelled() {
                return Step::Parked;
            }
            assert!(thread::is_cancelled());
            turns_left -= 1;
            if turns_left > 0 { Step::Yielded } else { Step::Done("tidied up") }
        }));
        let (careless, fresh) = (parked(), parked());
        thread::yield_now();
        tidy.cancel();
        careless.cancel();
        fresh.cancel();
        assert_eq!(tidy.join().unwrap(), "tidied up");
        assert!(careless.join().unwrap_err().is::<Cancelled>());
        assert!(fresh.join().unwrap_err().is::<Cancelled>());
        let other_thread = parked();
        let handle = std::thread::spawn(move || {
            other_thread.cancel();
            other_thread.join().unwrap_err().is::<Cancelled>()
        });
        while !handle.is_finished() {
            thread::sleep(Duration::from_micros(100));
        }
        assert!(handle.join().unwrap());
    });
}

#[test]
fn what_has_not_ended_is_dropped_with_the_runtime_the_newest_first() {
    struct Note(Log, u32);
    impl Drop for Note {
        fn drop(&mut self) {
            self.0.add(self.1.to_string());
        }
    }
    let log = Log::default();
    pirn::run(|| {
        let (_sender, receiver) = channel::rendezvous::<i32>();
        for number in 0..6 {
            let note = Note(log.clone(), number);
            let receiver = receiver.clone();
            if number % 2 == 0 {
                task::spawn(from_fn(move |cx| {
                    let _ = (&note, receiver.poll_recv(cx), cx.poll_sleep(Instant::FAR_FUTURE));
                    Step::<()>::Parked
                }));
            } else {
                thread::spawn_local(move || {
                    let _note = note;
                    let _ = receiver.recv();
                });
            }
        }
        thread::yield_now();
    });
    assert_eq!(log.take(), ["5", "4", "3", "2", "1", "0"]);
}

#[test]
fn a_deadlock_report_names_the_task_and_the_cycle() {
    let test = "a_deadlock_report_names_the_task_and_the_cycle";
    // In a process without younger threads, which might end it.
    child::isolated(test, &[("RUST_BACKTRACE", "0")], make_a_deadlock);
}

fn make_a_deadlock() {
    let runtime = pirn::Builder::new().build().unwrap();
    let deadlock = runtime
        .run(|| {
            let (_sender, receiver) = channel::bounded::<i32>(2);
            let _lonely = task::Builder::new().name("lonely").spawn(from_fn(move |cx| {
                let _ = receiver.poll_recv(cx);
                Step::<()>::Parked
            }));
            let handle: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
            let inner = handle.clone();
            let weaver =
                task::Builder::new().name("weaver").spawn(from_fn(move |cx| {
                    match inner.borrow_mut().as_mut().map(|handle| handle.poll_join(cx)) {
                        Some(Poll::Ready(_)) => Step::Done(()),
                        _ => Step::Parked,
                    }
                }));
            let weaver = weaver.unwrap();
            let spinner = thread::Builder::new().name("spinner").spawn(move || weaver.join());
            let joined = thread::spawn(move || drop(spinner.unwrap().join()));
            *handle.borrow_mut() = Some(joined);
            thread::park();
        })
        .unwrap_err();
    let text = deadlock.to_string();
    assert!(text.contains("task 'lonely' (id 1), spawned at tests/resumable.rs"), "{text}");
    assert!(text.contains("waits to receive from channel"), "{text}");
    assert!(text.contains("waits to join fiber (id 4)"), "{text}");
    assert!(text.contains("waits to join task 'weaver' (id 2)"), "{text}");
    let cycle: Vec<u64> = deadlock.cycles()[0].iter().map(|id| id.number()).collect();
    assert_eq!((deadlock.cycles().len(), cycle.len()), (1, 3), "{text}");
}

#[test]
fn a_listing_says_what_each_waits_for() {
    pirn::run(|| {
        let _sleeper = task::spawn(from_fn(|cx| {
            let _ = cx.poll_sleep(Instant::now() + Duration::from_secs(10));
            Step::<()>::Parked
        }));
        let _parked = parked();
        let listed = pirn::fibers(true);
        assert_eq!(listed[1].state(), "has not begun");
        thread::yield_now();
        let listed = pirn::fibers(true);
        assert!(listed[1].state().starts_with("sleeps for another"), "{}", listed[1]);
        assert_eq!(listed[2].state(), "is parked until somebody unparks it");
        assert_eq!(listed[2].stack_size(), 0);
        let own = task::spawn(from_fn(|cx| {
            let id = cx.thread().id();
            assert_eq!(thread::current().id(), id);
            let listed = pirn::fibers(true);
            Step::Done(listed.iter().find(|one| one.id() == id).unwrap().state().to_owned())
        }));
        assert_eq!(own.join().unwrap(), "is running");
    });
}

#[test]
fn virtual_time_jumps_over_the_sleeps_of_both_kinds() {
    let runtime = pirn::Builder::new().virtual_time(true).build().unwrap();
    let log = Log::default();
    let slept = runtime.run(|| {
        let start = Instant::now();
        let mut joins = Vec::new();
        for (name, hours) in [("three", 3), ("one", 1), ("two", 2)] {
            let (log, until) = (log.clone(), start + Duration::from_secs(3600 * hours));
            joins.push(if hours == 1 {
                thread::spawn_local(move || {
                    thread::sleep_until(until);
                    log.add(name);
                })
            } else {
                task::spawn(from_fn(move |cx| match cx.poll_sleep(until) {
                    Poll::Ready(()) => Step::Done(log.add(name)),
                    Poll::Pending => Step::Parked,
                }))
            });
        }
        joins.into_iter().for_each(|join| join.join().unwrap());
        start.elapsed()
    });
    assert_eq!(slept.unwrap(), Duration::from_secs(3 * 3600));
    assert_eq!(log.take(), ["one", "two", "three"]);
}

#[test]
fn a_seed_shuffles_resumables_as_well_and_the_same_way_again() {
    let order = |seed| {
        let log = Log::default();
        let runtime = pirn::Builder::new().seed(seed).build().unwrap();
        runtime
            .run(|| {
                let joins: Vec<_> = (0..20)
                    .map(|number| {
                        let log = log.clone();
                        task::spawn(from_fn(move |_| Step::Done(log.add(number.to_string()))))
                    })
                    .collect();
                joins.into_iter().for_each(|join| join.join().unwrap());
            })
            .unwrap();
        log.take()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn a_timer_fires_beside_resumables_that_only_yield() {
    pirn::run(|| {
        let stop = Rc::new(Cell::new(false));
        let busy: Vec<_> = (0..3)
            .map(|_| {
                let stop = stop.clone();
                task::spawn(from_fn(
                    move |_| {
                        if stop.get() { Step::Done(()) } else { Step::Yielded }
                    },
                ))
            })
            .collect();
        thread::sleep(Duration::from_millis(1));
        stop.set(true);
        busy.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
#[ignore = "takes a while without optimisation, and half a gigabyte"]
fn a_million_resumables_wait_in_a_few_hundred_bytes_each() {
    const TASKS: u64 = 1_000_000;
    let (bytes, sum) = pirn::run(|| {
        let (sender, receiver) = channel::rendezvous::<u64>();
        let before = resident();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let receiver = receiver.clone();
                task::spawn(from_fn(move |cx| match receiver.poll_recv(cx) {
                    Poll::Ready(value) => Step::Done(value.unwrap()),
                    Poll::Pending => Step::Parked,
                }))
            })
            .collect();
        thread::yield_now();
        let bytes = (resident() - before) / TASKS;
        (0..TASKS).for_each(|number| sender.send(number).unwrap());
        (bytes, tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>())
    });
    println!("{bytes} bytes for each of {TASKS} parked resumables");
    assert_eq!(sum, TASKS * (TASKS - 1) / 2);
    assert!(bytes < 400, "{bytes} bytes each");
}

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
