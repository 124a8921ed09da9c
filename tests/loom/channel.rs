//! Channels: what is sent arrives once, with all that was done before, or comes back.

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::check;
use crate::sched::bias;
use crate::sync::channel::{self, RecvTimeoutError, SendTimeoutError, TryRecvError};

/// Any: the model's time is over at once.
const MOMENT: Duration = Duration::ZERO;

/// A number that is written and read without order: whoever gets it by a channel must see it whole.
#[derive(Debug)]
struct Letter(Arc<AtomicUsize>);

impl Letter {
    fn write(number: usize) -> Letter {
        let letter = Arc::new(AtomicUsize::new(0));
        letter.store(number, Ordering::Relaxed);
        Letter(letter)
    }

    fn read(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn what_is_sent_over_a_channel_of_any_capacity_arrives_once_and_in_order() {
    for capacity in [0, 1, usize::MAX] {
        check(2, move || {
            // The thread that makes the channel is a carrier's.
            bias::admit_thread(1);
            let (sender, receiver) = channel::bounded(capacity);
            let other = thread::spawn(move || {
                for number in [1, 2] {
                    sender.send(Letter::write(number)).unwrap();
                }
            });
            let received: Vec<usize> = receiver.iter().map(|letter| letter.read()).collect();
            assert_eq!(received, [1, 2]);
            other.join().unwrap();
        });
    }
}

#[test]
fn of_two_receivers_each_letter_reaches_one() {
    check(2, || {
        let (sender, receiver) = channel::bounded(1);
        let other = thread::spawn({
            let receiver = receiver.clone();
            move || receiver.recv().map_or(0, |letter: Letter| letter.read())
        });
        sender.send(Letter::write(1)).unwrap();
        drop(sender);
        let own = receiver.recv().map_or(0, |letter: Letter| letter.read());
        assert_eq!(own + other.join().unwrap(), 1);
    });
}

#[test]
fn a_letter_for_a_receiver_that_gives_up_is_received_or_stays_with_the_sender() {
    check(3, || {
        let (sender, receiver) = channel::rendezvous();
        let other = thread::spawn(move || sender.send_timeout(Letter::write(1), MOMENT));
        let received = receiver.recv_timeout(MOMENT);
        match (received, other.join().unwrap()) {
            (Ok(letter), Ok(())) => assert_eq!(letter.read(), 1),
            (
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected),
                Err(SendTimeoutError::Timeout(letter)),
            ) => assert_eq!(letter.read(), 1),
            fates => panic!("{fates:?}"),
        }
    });
}

#[test]
fn whoever_waits_when_the_last_peer_goes_is_woken() {
    check(3, || {
        let (sender, receiver) = channel::rendezvous::<Letter>();
        let other = thread::spawn(move || drop(sender));
        assert!(receiver.recv().is_err());
        other.join().unwrap();
        let (sender, receiver) = channel::rendezvous();
        let other = thread::spawn(move || drop(receiver));
        assert_eq!(sender.send(Letter::write(1)).unwrap_err().0.read(), 1);
        other.join().unwrap();
    });
}

#[test]
fn a_oneshot_value_arrives_whole_however_its_ends_meet() {
    loom::model(|| {
        let (sender, receiver) = channel::oneshot();
        let other = thread::spawn(move || sender.send(Letter::write(1)).is_ok());
        assert_eq!(receiver.recv().unwrap().read(), 1);
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_oneshot_value_is_received_or_comes_back_and_is_dropped_once() {
    loom::model(|| {
        let (sender, mut receiver) = channel::oneshot();
        let letter = Letter::write(1);
        let copy = letter.0.clone();
        let other = thread::spawn(move || sender.send(letter).map_err(|back| back.0.read()));
        let received = receiver.try_recv();
        drop(receiver);
        match (received, other.join().unwrap()) {
            (Ok(letter), Ok(())) => assert_eq!(letter.read(), 1),
            (Err(TryRecvError::Empty), Err(number)) => assert_eq!(number, 1),
            // It was there too late, and went with the receiver.
            (Err(TryRecvError::Empty), Ok(())) => {}
            fates => panic!("{fates:?}"),
        }
        assert_eq!(Arc::strong_count(&copy), 1, "nobody keeps it");
    });
}

#[test]
fn a_oneshot_receiver_that_gives_up_and_comes_again_misses_nothing() {
    loom::model(|| {
        let (sender, mut receiver) = channel::oneshot();
        let other = thread::spawn(move || sender.send(Letter::write(1)).is_ok());
        let letter = match receiver.recv_timeout(MOMENT) {
            Ok(letter) => letter,
            Err(RecvTimeoutError::Timeout) => receiver.recv().unwrap(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(letter.read(), 1);
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_oneshot_sender_that_goes_ends_the_wait() {
    loom::model(|| {
        let (sender, receiver) = channel::oneshot::<Letter>();
        let other = thread::spawn(move || drop(sender));
        assert!(receiver.recv().is_err());
        other.join().unwrap();
    });
}
