//! A oneshot channel hands over one value, and tells each end when the other is gone.

mod child;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::channel::{
    self, OneshotReceiver, RecvError, RecvTimeoutError, SendError, TryRecvError,
};
use pirn::time::Instant;
use pirn::{Builder, select, thread};

#[test]
fn a_value_is_received_before_and_after_it_is_sent() {
    pirn::run(|| {
        let (sender, receiver) = channel::oneshot();
        sender.send("before").unwrap();
        assert_eq!(receiver.recv(), Ok("before"));
        let (sender, receiver) = channel::oneshot();
        thread::spawn(move || sender.send("after").unwrap());
        assert_eq!(receiver.recv(), Ok("after"));
    });
}

#[test]
fn each_end_learns_that_the_other_is_gone() {
    pirn::run(|| {
        let (sender, mut receiver) = channel::oneshot::<u8>();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let waiter = thread::spawn(move || receiver.recv());
        thread::yield_now();
        drop(sender);
        assert_eq!(waiter.join().unwrap(), Err(RecvError));
        let (sender, receiver) = channel::oneshot();
        assert!(!sender.is_closed());
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(7), Err(SendError(7)));
    });
}

#[test]
fn a_value_is_received_once() {
    let (sender, mut receiver) = channel::oneshot();
    sender.send(1).unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(receiver.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
    assert_eq!(receiver.recv(), Err(RecvError));
}

#[test]
fn a_receiver_whose_time_is_up_can_wait_again() {
    let runtime = Builder::new().virtual_time(true).build().unwrap();
    let received = runtime.run(|| {
        let (sender, mut receiver) = channel::oneshot();
        let start = Instant::now();
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(2));
            sender.send(1).unwrap();
        });
        let second = Duration::from_secs(1);
        assert_eq!(receiver.recv_timeout(second), Err(RecvTimeoutError::Timeout));
        assert_eq!(receiver.recv_deadline(start), Err(RecvTimeoutError::Timeout));
        (receiver.recv_timeout(Duration::MAX), start.elapsed())
    });
    assert_eq!(received.unwrap(), (Ok(1), Duration::from_secs(2)));
}

#[test]
fn whatever_becomes_of_the_ends_the_value_is_dropped_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped: Arc<AtomicUsize> = Arc::default();
    let rounds = if child::is_native() { 20_000 } else { 300 };
    let (to_other, from_main) = std::sync::mpsc::sync_channel::<OneshotReceiver<Counted>>(1);
    let other = std::thread::spawn(move || {
        for (number, receiver) in from_main.into_iter().enumerate() {
            match number % 3 {
                0 => drop(receiver),
                1 => drop(receiver.recv()),
                _ => drop({ receiver }.recv_timeout(Duration::from_nanos(500))),
            }
        }
    });
    for _ in 0..rounds {
        let (sender, receiver) = channel::oneshot();
        to_other.send(receiver).unwrap();
        let _ = sender.send(Counted(dropped.clone()));
    }
    drop(to_other);
    other.join().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), rounds);
}

#[test]
fn a_select_waits_for_it_and_leaves_what_it_does_not_take() {
    pirn::run(|| {
        let (sender, mut reply) = channel::oneshot();
        let (others, from_others) = channel::bounded(1);
        others.send(1).unwrap();
        sender.send("reply").unwrap();
        // Both are ready: whichever is not chosen is still there for the next one.
        let mut seen = (0, 0);
        for _ in 0..2 {
            select! {
                recv(reply) -> value => match value {
                    Ok(value) => {
                        assert_eq!(value, "reply");
                        seen.0 += 1;
                        (_, reply) = channel::oneshot();
                    }
                    Err(RecvError) => assert_eq!(seen.0, 1),
                },
                recv(from_others) -> value => {
                    assert_eq!(value, Ok(1));
                    seen.1 += 1;
                }
            }
        }
        assert_eq!(seen.0, 1);

        let (sender, mut reply) = channel::oneshot();
        let waiter = thread::spawn(move || {
            select! {
                recv(reply) -> value => value,
                recv(from_others) -> _ => Err(RecvError),
                after(Duration::from_secs(600)) => Err(RecvError),
            }
        });
        if seen.1 == 0 {
            drop(waiter.join());
            return;
        }
        thread::yield_now();
        sender.send("later").unwrap();
        assert_eq!(waiter.join().unwrap(), Ok("later"));
    });
}
