//! Parking: the token, who may give it, and what it disturbs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use pirn::thread::{self, Thread};
use pirn::time::{Duration, Instant, Timer, interval};

const MS: Duration = Duration::from_millis(1);

/// What takes longer hangs: everything here that is slower on purpose takes an hour.
const SOON: Duration = Duration::from_secs(600);

/// Parks until the counter gets there: `park` may return without an unpark.
fn park_until(reached: impl Fn() -> bool) {
    while !reached() {
        thread::park();
    }
}

/// Parks, and returns whether that gave way to others, which a token does not.
fn parking_gives_way() -> bool {
    let ran = Rc::new(Cell::new(false));
    let me = thread::current();
    let other = thread::spawn_local({
        let ran = ran.clone();
        move || {
            ran.set(true);
            me.unpark();
        }
    });
    thread::park();
    let gave_way = ran.get();
    other.join().unwrap();
    if !gave_way {
        // The other's token: not the next test's.
        thread::park();
    }
    gave_way
}

#[test]
fn three_unparks_are_one_token() {
    pirn::run(|| {
        let passed = Rc::new(Cell::new(0));
        let child = thread::spawn_local({
            let passed = passed.clone();
            move || {
                thread::park();
                passed.set(1);
                thread::park();
                passed.set(2);
            }
        });
        for _ in 0..3 {
            child.thread().unpark();
        }
        for _ in 0..10 {
            thread::yield_now();
        }
        // The first park returned at once, the second waits.
        assert_eq!(passed.get(), 1);
        child.thread().unpark();
        child.join().unwrap();
        assert_eq!(passed.get(), 2);
    });
}

#[test]
fn an_unpark_that_comes_first_is_not_lost() {
    pirn::run(|| {
        thread::current().unpark();
        assert!(!parking_gives_way());
        assert!(parking_gives_way());
    });
}

/// A name, and a wait that returns whether it took as long as it should.
type Wait = (&'static str, fn() -> bool);

/// Every wait that is not a park, as a fiber would use it.
const OTHER_WAITS: [Wait; 8] = [
    ("yield", || {
        thread::yield_now();
        true
    }),
    ("sleep", || {
        let start = Instant::now();
        thread::sleep(5 * MS);
        start.elapsed() >= 5 * MS
    }),
    ("sleep_until", || {
        let deadline = Instant::now() + 5 * MS;
        thread::sleep_until(deadline);
        Instant::now() >= deadline
    }),
    ("timer", || {
        let start = Instant::now();
        Timer::after(5 * MS).wait();
        start.elapsed() >= 5 * MS
    }),
    ("interval", || {
        let start = Instant::now();
        let mut beat = interval(5 * MS);
        beat.tick();
        beat.tick();
        start.elapsed() >= 5 * MS
    }),
    ("join", || {
        let other = thread::spawn(|| (0..5).for_each(|_| thread::yield_now()));
        let id = other.thread().id();
        other.join().unwrap();
        pirn::fibers(false).iter().all(|fiber| fiber.id() != id)
    }),
    ("join of a sleeper", || thread::spawn(|| thread::sleep(5 * MS)).join().is_ok()),
    ("scope", || {
        let mut done = false;
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(5 * MS);
                done = true;
            });
        });
        done
    }),
];

#[test]
fn an_unpark_disturbs_no_other_wait_and_is_kept_through_it() {
    pirn::run(|| {
        for (name, wait) in OTHER_WAITS {
            let child = thread::spawn_local(move || {
                assert!(wait(), "{name} was disturbed");
                assert!(!parking_gives_way(), "{name} has eaten the token");
                assert!(parking_gives_way());
            });
            // It waits by now.
            thread::yield_now();
            child.thread().unpark();
            child.thread().unpark();
            child.join().unwrap();
        }
    });
}

#[test]
fn the_token_outlasts_all_other_waits() {
    pirn::run(|| {
        thread::current().unpark();
        for (name, wait) in OTHER_WAITS {
            assert!(wait(), "{name}");
        }
        assert!(!parking_gives_way());
    });
}

#[test]
fn a_fiber_does_not_see_the_token_of_another() {
    pirn::run(|| {
        thread::current().unpark();
        thread::spawn(|| assert!(parking_gives_way())).join().unwrap();
        assert!(!parking_gives_way());
    });
}

#[test]
fn park_timeout_of_zero_returns_and_takes_the_token() {
    pirn::run(|| {
        thread::park_timeout(Duration::ZERO);
        thread::current().unpark();
        thread::park_timeout(Duration::ZERO);
        assert!(parking_gives_way());
    });
}

#[test]
fn park_timeout_ends_by_unpark_or_by_the_deadline_whichever_comes_first() {
    pirn::run(|| {
        let start = Instant::now();
        thread::park_timeout(10 * MS);
        assert!(start.elapsed() >= 10 * MS);
        let me = thread::current();
        thread::spawn(move || me.unpark());
        let start = Instant::now();
        thread::park_timeout(Duration::from_secs(3_600));
        assert!(start.elapsed() < SOON);
    });
}

#[test]
fn unparking_a_fiber_that_has_ended_does_nothing() {
    let ended: Thread = pirn::run(|| {
        let child = thread::spawn(|| {});
        let thread = child.thread();
        child.join().unwrap();
        thread.unpark();
        thread
    });
    ended.unpark();
}

#[test]
fn an_unparked_fiber_joins_the_end_of_the_run_queue() {
    pirn::run(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let note = |name: &'static str| {
            let order = order.clone();
            move || order.borrow_mut().push(name)
        };
        let parked = thread::spawn_local({
            let note = note("parked");
            move || {
                thread::park();
                note();
            }
        });
        thread::yield_now();
        let first = thread::spawn_local(note("spawned before"));
        parked.thread().unpark();
        order.borrow_mut().push("the waker goes on");
        let last = thread::spawn_local(note("spawned after"));
        last.join().unwrap();
        assert!(first.is_finished() && parked.is_finished());
        let expected = ["the waker goes on", "spawned before", "parked", "spawned after"];
        assert_eq!(*order.borrow(), expected);
    });
}

#[test]
fn a_pair_that_wakes_each_other_for_ever_starves_nobody() {
    pirn::run(|| {
        let turns = Rc::new(Cell::new(0u64));
        let partner: Rc<RefCell<Vec<Thread>>> = Rc::default();
        let players: Vec<_> = [1, 0]
            .into_iter()
            .map(|other: usize| {
                let (turns, partner) = (turns.clone(), partner.clone());
                thread::spawn_local(move || {
                    loop {
                        turns.set(turns.get() + 1);
                        partner.borrow()[other].unpark();
                        thread::park();
                    }
                })
            })
            .collect();
        partner.borrow_mut().extend(players.iter().map(|player| player.thread()));
        while turns.get() < 1_000 {
            thread::yield_now();
        }
        // One that wants a turn gets it after each of the two had one at most.
        let before = turns.get();
        let count = turns.clone();
        let third = thread::spawn_local(move || count.get());
        assert!(third.join().unwrap() <= before + 2);
        // One that sleeps wakes, and then gets its turn as well.
        let start = Instant::now();
        thread::sleep(10 * MS);
        assert!(start.elapsed() < SOON);
        // One that waits for an OS thread hears of it.
        let (me, woken) = (thread::current(), Arc::new(AtomicU64::new(0)));
        let waker = std::thread::spawn({
            let woken = woken.clone();
            move || {
                woken.store(1, Ordering::Release);
                me.unpark();
            }
        });
        park_until(|| woken.load(Ordering::Acquire) == 1);
        waker.join().unwrap();
        assert!(players.iter().all(|player| !player.is_finished()));
    });
}

#[test]
fn os_threads_park_and_are_unparked_by_fibers() {
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        sender.send(thread::current()).unwrap();
        thread::park();
        thread::current().unpark();
        thread::park();
        thread::park_timeout(MS);
    });
    let thread = receiver.recv().unwrap();
    pirn::run(move || thread::spawn(move || thread.unpark()).join().unwrap());
    waiter.join().unwrap();
}

/// A carrier that sleeps without a timer looks again by itself after half a second, which makes up for
/// a wake-up that was lost. A sleep of this age cannot have come so far yet.
const YOUNG: Duration = Duration::from_millis(400);

/// An OS thread unparks a fiber of an otherwise idle runtime, so many times, after gaps of up to
/// 200 µs; every one must arrive, and must wake the carrier.
fn unparks_from_outside(times: u64) {
    let sent = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    // The number of the last unpark that is over, and how long after the start that was, in ns.
    let done = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let origin = Instant::now();
    // Whose sleeps are counted, and nobody else's.
    let runtime = pirn::Builder::new().carriers(1).build().unwrap();
    let ended = runtime.run(|| {
        let me = thread::current();
        let (count, acknowledged, over) = (sent.clone(), seen.clone(), done.clone());
        let waker = std::thread::spawn(move || {
            let mut state = 1u64;
            for number in 1..=times {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let gap = Instant::now() + Duration::from_micros((state >> 33) % 200);
                while Instant::now() < gap {
                    std::hint::spin_loop();
                }
                count.store(number, Ordering::Release);
                me.unpark();
                over.1.store(origin.elapsed().as_nanos() as u64, Ordering::Relaxed);
                over.0.store(number, Ordering::Release);
                while acknowledged.load(Ordering::Acquire) < number {
                    assert!(origin.elapsed() < SOON, "unpark {number} was lost");
                    std::thread::yield_now();
                }
            }
        });
        for number in 1..=times {
            let slept_since = origin.elapsed();
            let timeouts = pirn::stats().unwrap().kernel_wait_timeouts;
            park_until(|| sent.load(Ordering::Acquire) >= number);
            if pirn::stats().unwrap().kernel_wait_timeouts > timeouts {
                while done.0.load(Ordering::Acquire) < number {
                    std::thread::yield_now();
                }
                let unparked = Duration::from_nanos(done.1.load(Ordering::Relaxed));
                assert!(unparked >= slept_since + YOUNG, "unpark {number} woke nobody");
            }
            seen.store(number, Ordering::Release);
        }
        waker.join().unwrap();
    });
    ended.unwrap();
}

#[test]
fn an_unpark_from_another_os_thread_is_never_lost() {
    unparks_from_outside(3_000);
}

#[test]
#[ignore = "takes a minute: the same, as often as the case asks"]
fn two_hundred_thousand_unparks_from_another_os_thread_arrive() {
    unparks_from_outside(200_000);
}
