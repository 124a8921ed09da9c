//! Who of several carriers sleeps, and who wakes whom.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use loom::thread;

use crate::sched::idlers::Idlers;

/// Work that anybody may take, and the carriers that are to be woken for it.
struct Team {
    idlers: Idlers,
    work: AtomicUsize,
    /// How often each was woken and has not noticed; below zero, how often it has noticed already.
    woken: [AtomicIsize; 2],
}

impl Team {
    fn new() -> Arc<Team> {
        Arc::new(Team {
            idlers: Idlers::new(),
            work: AtomicUsize::new(0),
            woken: [AtomicIsize::new(0), AtomicIsize::new(0)],
        })
    }

    fn has_work(&self) -> bool {
        // Relaxed: what orders it is the idlers' word.
        self.work.load(Ordering::Relaxed) > 0
    }

    fn publish(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
        self.announce();
    }

    fn announce(&self) {
        if let Some(chosen) = self.idlers.choose() {
            self.woken[chosen].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take(&self) -> bool {
        let less = |work: usize| work.checked_sub(1);
        self.work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// What a carrier does from one sleep to the next: takes what there is, and lies down.
    fn work_until_asleep(&self, who: usize, mut searching: bool) {
        loop {
            if !searching {
                self.idlers.begin_search();
            }
            if self.take() {
                if self.idlers.find() && self.has_work() {
                    self.announce();
                }
                searching = false;
                continue;
            }
            self.idlers.lie_down(who);
            if !self.has_work() {
                return;
            }
            searching = self.get_up(who);
        }
    }

    fn get_up(&self, who: usize) -> bool {
        let chosen = self.idlers.get_up(who);
        if chosen {
            self.woken[who].fetch_sub(1, Ordering::Relaxed);
        }
        chosen
    }

    /// When nobody does anything any more: what lies about will be found by somebody who was woken.
    fn check(&self) {
        let woken = self.woken.iter().map(|woken| woken.load(Ordering::Relaxed)).sum::<isize>();
        assert!(self.work.load(Ordering::Relaxed) == 0 || woken > 0, "work lies about");
    }
}

#[test]
fn no_work_lies_about_while_its_only_carrier_goes_to_sleep() {
    loom::model(|| {
        let team = Team::new();
        let carrier = thread::spawn({
            let team = team.clone();
            move || team.work_until_asleep(0, false)
        });
        team.publish();
        team.publish();
        carrier.join().unwrap();
        team.check();
    });
}

#[test]
fn no_work_lies_about_while_two_carriers_go_to_sleep() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let team = Team::new();
        let carriers = [0, 1].map(|who| {
            let team = team.clone();
            thread::spawn(move || team.work_until_asleep(who, false))
        });
        team.publish();
        team.publish();
        carriers.into_iter().for_each(|carrier| carrier.join().unwrap());
        team.check();
    });
}

#[test]
fn one_that_gets_up_by_itself_knows_whether_it_was_chosen() {
    loom::model(|| {
        let team = Team::new();
        team.idlers.begin_search();
        team.idlers.lie_down(1);
        let publisher = thread::spawn({
            let team = team.clone();
            move || team.publish()
        });
        let chosen = team.get_up(1);
        team.work_until_asleep(1, chosen);
        publisher.join().unwrap();
        // Woken for what is there, and for nothing else.
        let woken = team.woken[1].load(Ordering::Relaxed);
        assert!((0..=1).contains(&woken));
        team.check();
    });
}

#[test]
fn no_more_are_woken_than_there_is_work_for() {
    loom::model(|| {
        let team = Team::new();
        for who in [0, 1] {
            team.idlers.begin_search();
            team.idlers.lie_down(who);
        }
        let other = thread::spawn({
            let team = team.clone();
            move || team.publish()
        });
        team.publish();
        other.join().unwrap();
        // The first is on its way, and will see to the second.
        let woken = team.woken.each_ref().map(|woken| woken.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 0]);
    });
}
