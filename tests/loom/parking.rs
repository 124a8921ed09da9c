//! The waiter's word, and the inbox of a carrier.

use std::collections::HashSet;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use loom::thread;

use crate::sched::inbox::{Inbox, Node};
use crate::sched::word::{Claim, Manner, Outcome, Waiter};

#[test]
fn one_of_several_claims_of_a_wait_succeeds() {
    loom::model(|| {
        let waiter = Arc::new(Waiter::new());
        let epoch = waiter.begin(Manner::Parked);
        let claimers: Vec<_> = [Outcome::TimedOut, Outcome::Cancelled]
            .into_iter()
            .map(|outcome| {
                let waiter = waiter.clone();
                thread::spawn(move || {
                    (waiter.claim(epoch, outcome) != Claim::Lost).then_some(outcome)
                })
            })
            .collect();
        let own = waiter.retract(epoch, Outcome::Notified).then_some(Outcome::Notified);
        let mut won: Vec<_> = claimers.into_iter().filter_map(|c| c.join().unwrap()).collect();
        won.extend(own);
        assert_eq!(won.len(), 1);
        assert_eq!(waiter.finish(), won[0]);
    });
}

#[test]
fn a_late_claim_does_not_reach_the_next_wait() {
    loom::model(|| {
        let waiter = Arc::new(Waiter::new());
        let first = waiter.begin(Manner::Parked);
        let late = thread::spawn({
            let waiter = waiter.clone();
            move || waiter.claim(first, Outcome::TimedOut) != Claim::Lost
        });
        let early = waiter.retract(first, Outcome::Notified);
        waiter.finish();
        let second = waiter.begin(Manner::Parked);
        let claimed = late.join().unwrap();
        assert!(claimed != early);
        assert_eq!(waiter.outcome(), None, "the second wait goes on");
        assert!(waiter.retract(second, Outcome::Notified));
    });
}

#[test]
fn what_was_done_before_an_unpark_is_seen_after_the_park() {
    loom::model(|| {
        let waiter = Arc::new(Waiter::new());
        let data = Arc::new(AtomicUsize::new(0));
        let unparker = thread::spawn({
            let (waiter, data) = (waiter.clone(), data.clone());
            move || {
                data.store(1, Ordering::Relaxed);
                waiter.unpark() != Claim::Lost
            }
        });
        if let Some(_epoch) = waiter.begin_park(Manner::Parked) {
            // No token yet: the unpark must end the wait, or it is lost.
            assert!(unparker.join().unwrap());
            assert_eq!(waiter.finish_park(), Outcome::Notified);
        }
        assert_eq!(data.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn an_unpark_leaves_other_waits_alone_and_its_token_for_later() {
    loom::model(|| {
        let waiter = Arc::new(Waiter::new());
        let unparker = thread::spawn({
            let waiter = waiter.clone();
            move || waiter.unpark()
        });
        let epoch = waiter.begin(Manner::Parked);
        assert!(unparker.join().unwrap() == Claim::Lost);
        assert_eq!(waiter.outcome(), None);
        assert!(waiter.retract(epoch, Outcome::Notified));
        waiter.finish();
        assert!(waiter.begin_park(Manner::Parked).is_none(), "the token is there");
    });
}

#[test]
fn of_two_unparks_one_ends_the_wait_and_at_most_one_token_is_left() {
    // Three threads: all schedules with up to two preemptions.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let waiter = Arc::new(Waiter::new());
        let unparkers: Vec<_> = (0..2)
            .map(|_| {
                let waiter = waiter.clone();
                thread::spawn(move || waiter.unpark() != Claim::Lost)
            })
            .collect();
        let parked = waiter.begin_park(Manner::Parked).is_some();
        let ended: Vec<bool> = unparkers.into_iter().map(|u| u.join().unwrap()).collect();
        let ends = ended.iter().filter(|&&ended| ended).count();
        if parked {
            assert_eq!(ends, 1, "one of them ended the wait");
            assert_eq!(waiter.finish_park(), Outcome::Notified);
        } else {
            assert_eq!(ends, 0, "the token was there first");
        }
    });
}

/// A node for the inbox.
struct Letter {
    number: usize,
    link: AtomicPtr<Letter>,
}

impl Node for Letter {
    fn link(&self) -> &AtomicPtr<Letter> {
        &self.link
    }
}

fn letter(number: usize) -> *const Letter {
    Box::into_raw(Box::new(Letter { number, link: AtomicPtr::new(std::ptr::null_mut()) }))
}

/// Opens a letter that was taken out of an inbox.
fn open(letter: *const Letter) -> usize {
    // SAFETY: made by `letter`, and taken once.
    unsafe { Box::from_raw(letter.cast_mut()) }.number
}

#[test]
fn no_letter_is_lost_or_taken_twice_and_those_of_one_sender_keep_their_order() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Letter>::new());
        let sender = thread::spawn({
            let inbox = inbox.clone();
            move || {
                for number in [1, 2] {
                    // SAFETY: new, and freed only after it was taken.
                    unsafe { inbox.push(letter(number)) };
                }
            }
        });
        // SAFETY: as above.
        unsafe { inbox.push(letter(10)) };
        let mut taken = Vec::new();
        inbox.take(|letter| taken.push(open(letter)));
        sender.join().unwrap();
        inbox.take(|letter| taken.push(open(letter)));
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 3);
        let place = |number| taken.iter().position(|&taken| taken == number).unwrap();
        assert!(place(1) < place(2));
    });
}

#[test]
fn a_letter_wakes_an_owner_that_dozes_or_is_seen_by_it() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Letter>::new());
        let sender = thread::spawn({
            let inbox = inbox.clone();
            // SAFETY: new, and freed only after it was taken.
            move || unsafe { inbox.push(letter(1)) }
        });
        let asleep = inbox.doze();
        let woken = sender.join().unwrap();
        assert!(!asleep || woken, "it sleeps, and nobody wakes it");
        inbox.wake_up();
        let mut taken = Vec::new();
        inbox.take(|letter| taken.push(open(letter)));
        assert_eq!(taken, [1]);
    });
}

#[test]
fn a_mark_is_found_once_beside_any_letters() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Letter>::new());
        let marker = thread::spawn({
            let inbox = inbox.clone();
            move || {
                inbox.mark();
            }
        });
        // SAFETY: new, and freed only after it was taken.
        unsafe { inbox.push(letter(1)) };
        let mut taken = Vec::new();
        let first = inbox.take(|letter| taken.push(open(letter)));
        marker.join().unwrap();
        let second = inbox.take(|letter| taken.push(open(letter)));
        assert!(first != second);
        assert_eq!(taken, [1]);
    });
}
