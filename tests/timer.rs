//! Sleeping, deadlines and timers: by the monotonic clock, never early, nothing left behind.

mod child;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use child::{is_native, isolated, resident_bytes};
use pirn::thread;
use pirn::time::{Duration, Instant, Timer, interval};

const MS: Duration = Duration::from_millis(1);

/// What takes longer hangs: everything here that is slower on purpose takes an hour.
const SOON: Duration = Duration::from_secs(600);

/// A small generator of numbers: the same in every run.
fn random(state: &Cell<u64>) -> u64 {
    state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    state.get() >> 33
}

/// How often the calling fiber's carrier has slept in the kernel.
fn kernel_waits() -> u64 {
    pirn::stats().unwrap().kernel_waits
}

#[test]
fn a_sleep_never_ends_early_and_costs_few_kernel_waits() {
    pirn::run(|| {
        const SLEEPS: u64 = 10;
        let duration = Duration::from_micros(100_900);
        for _ in 0..SLEEPS {
            let start = Instant::now();
            thread::sleep(duration);
            assert!(start.elapsed() >= duration);
        }
        assert!((1..=2 * SLEEPS).contains(&kernel_waits()), "{:?}", pirn::stats());
    });
}

#[test]
fn sleeps_below_a_millisecond_do_not_spin() {
    pirn::run(|| {
        const SLEEPS: u64 = 1_000;
        for _ in 0..SLEEPS {
            thread::sleep(Duration::from_micros(900));
        }
        // On a busy machine a deadline may pass before the carrier gets so far as to wait for it.
        assert!((SLEEPS / 10..=2 * SLEEPS).contains(&kernel_waits()), "{:?}", pirn::stats());
    });
}

#[test]
fn a_zero_wait_does_not_sleep() {
    pirn::run(|| {
        for _ in 0..10_000 {
            thread::sleep(Duration::ZERO);
            thread::park_timeout(Duration::ZERO);
            thread::sleep_until(Instant::now());
        }
        assert_eq!(kernel_waits(), 0);
    });
}

/// Runs `main` where time stands still while anything runs: nothing is late.
fn in_virtual_time(main: impl FnOnce()) {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap();
}

#[test]
fn fibers_wake_in_the_order_of_their_deadlines() {
    in_virtual_time(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = Instant::now() + 5 * MS;
        let sleepers: Vec<_> = [3u32, 1, 2, 1, 0, 3]
            .into_iter()
            .enumerate()
            .map(|(number, after)| {
                let order = order.clone();
                thread::spawn_local(move || {
                    thread::sleep_until(start + after * MS);
                    order.borrow_mut().push((after, number));
                })
            })
            .collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        // Equal deadlines: in the order of the calls.
        assert_eq!(*order.borrow(), [(0, 4), (1, 1), (1, 3), (2, 2), (3, 0), (3, 5)]);
    });
}

/// What is longer than the clock can hold, or nearly.
const ETERNITIES: [Duration; 4] = [
    Duration::MAX,
    Duration::MAX.saturating_sub(Duration::from_nanos(1)),
    Duration::from_secs(600 * 365 * 86_400),
    Duration::from_millis(u64::MAX),
];

#[test]
fn a_wait_beyond_the_clock_is_a_wait_without_a_deadline() {
    /// Counts the unwinds of those that still wait at the end.
    struct Unwound(Rc<Cell<usize>>);
    impl Drop for Unwound {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let unwound = Rc::new(Cell::new(0));
    let count = unwound.clone();
    pirn::run(move || {
        let woken = Rc::new(Cell::new(0));
        for eternity in ETERNITIES {
            let waits: [fn(Duration); 4] = [
                thread::sleep,
                |eternity| thread::sleep_until(Instant::now() + eternity),
                |eternity| Timer::after(eternity).wait(),
                |eternity| {
                    let mut beat = interval(eternity);
                    beat.tick();
                    beat.tick();
                },
            ];
            for wait in waits {
                let (unwound, woken) = (Unwound(count.clone()), woken.clone());
                thread::spawn_local(move || {
                    let _unwound = unwound;
                    wait(eternity);
                    woken.set(woken.get() + 1);
                });
            }
            // Others' timers fire, and an unpark ends a park at once.
            let parked = thread::spawn(move || thread::park_timeout(eternity));
            let start = Instant::now();
            thread::sleep(2 * MS);
            assert!(!parked.is_finished());
            parked.thread().unpark();
            parked.join().unwrap();
            assert!(start.elapsed() < SOON);
        }
        assert_eq!(woken.get(), 0);
    });
    // The end of the runtime calls all of them off.
    assert_eq!(unwound.get(), 4 * ETERNITIES.len());
}

#[test]
fn a_wait_beyond_the_clock_works_on_a_plain_os_thread() {
    for eternity in ETERNITIES {
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            sender.send(thread::current()).unwrap();
            thread::park_timeout(eternity);
        });
        receiver.recv().unwrap().unpark();
        waiter.join().unwrap();
    }
}

/// Asserts that the process has hardly more memory resident than before.
fn assert_flat(before: usize) {
    if !is_native() {
        println!("SKIPPED: the memory of a sanitizer or an emulator grows by itself");
    } else {
        let growth = resident_bytes().saturating_sub(before);
        assert!(growth < 1 << 20, "{growth} bytes");
    }
}

#[test]
fn a_deadline_that_was_not_reached_leaves_nothing_behind() {
    isolated("a_deadline_that_was_not_reached_leaves_nothing_behind", &[], || {
        let rounds = if is_native() { 1_000_000 } else { 50_000 };
        pirn::run(move || {
            let timer = Rc::new(Timer::after(Duration::from_secs(3_600)));
            let done = Rc::new(Cell::new(false));
            let waiter = thread::spawn_local({
                let done = done.clone();
                move || {
                    while !done.get() {
                        thread::park_timeout(Duration::from_secs(3_600));
                    }
                }
            });
            let other = thread::spawn_local({
                let timer = timer.clone();
                move || timer.wait()
            });
            let mut before = 0;
            for round in 0..rounds + 1_000 {
                if round == 1_000 {
                    before = resident_bytes();
                }
                waiter.thread().unpark();
                timer.reset(Duration::from_secs(3_600) + Duration::from_nanos(round));
                thread::yield_now();
            }
            assert_flat(before);
            done.set(true);
            waiter.thread().unpark();
            waiter.join().unwrap();
            timer.reset(Duration::ZERO);
            other.join().unwrap();
        });
    });
}

#[test]
fn a_sleep_that_the_end_of_the_runtime_calls_off_leaves_nothing_behind() {
    isolated("a_sleep_that_the_end_of_the_runtime_calls_off_leaves_nothing_behind", &[], || {
        let rounds = if is_native() { 20_000 } else { 1_000 };
        let mut before = 0;
        for round in 0..rounds + 100 {
            if round == 100 {
                before = resident_bytes();
            }
            pirn::run(|| {
                for _ in 0..3 {
                    thread::spawn(|| thread::sleep(Duration::from_secs(3_600)));
                }
                thread::yield_now();
            });
        }
        assert_flat(before);
    });
}

#[test]
fn a_reset_timer_expires_at_its_new_time_only() {
    in_virtual_time(|| {
        let timer = Timer::after(5 * MS);
        thread::sleep(10 * MS);
        // It is due, and nobody has waited: that expiry is never seen.
        assert!(timer.is_due());
        let start = Instant::now();
        timer.reset(50 * MS);
        assert!(!timer.is_due());
        timer.wait();
        assert_eq!(start.elapsed(), 50 * MS);
        assert!(!timer.is_due());
        assert!(!timer.stop());
    });
}

#[test]
fn a_stopped_timer_expires_never() {
    in_virtual_time(|| {
        let timer = Rc::new(Timer::after(5 * MS));
        thread::sleep(10 * MS);
        assert!(timer.stop());
        assert!(!timer.stop());
        let waiter = thread::spawn_local({
            let timer = timer.clone();
            move || timer.wait()
        });
        thread::sleep(20 * MS);
        assert!(!waiter.is_finished());
        assert!(
            pirn::fibers(false).iter().any(|f| f.state() == "waits for a timer that is not set")
        );
        // Until somebody sets it, while a fiber waits.
        timer.reset(Duration::ZERO);
        waiter.join().unwrap();
    });
}

#[test]
fn a_change_reaches_whoever_waits() {
    in_virtual_time(|| {
        let timer = Rc::new(Timer::after(Duration::from_secs(3_600)));
        let waiter = thread::spawn_local({
            let timer = timer.clone();
            move || timer.wait()
        });
        thread::yield_now();
        let start = Instant::now();
        timer.reset(5 * MS);
        thread::yield_now();
        timer.reset_at(start + 20 * MS);
        waiter.join().unwrap();
        assert_eq!(start.elapsed(), 20 * MS);
    });
}

#[test]
fn one_expiry_wakes_one_waiter_and_the_others_wait_on() {
    in_virtual_time(|| {
        let timer = Rc::new(Timer::after(2 * MS));
        let woken = Rc::new(RefCell::new(Vec::new()));
        for number in 0..3 {
            let (timer, woken) = (timer.clone(), woken.clone());
            thread::spawn_local(move || {
                timer.wait();
                woken.borrow_mut().push(number);
            });
        }
        for round in 1..=3 {
            thread::sleep(5 * MS);
            assert_eq!(woken.borrow().len(), round);
            timer.reset(2 * MS);
        }
        // The first come was the first.
        assert_eq!(woken.borrow()[0], 0);
    });
}

#[test]
fn no_expiry_is_stale_and_none_is_missed_when_changes_race_with_it() {
    pirn::run(|| {
        let rounds = if is_native() { 100_000 } else { 20_000 };
        let timer = Rc::new(Timer::at(Instant::FAR_FUTURE));
        // The model: when the timer is due, if it is set.
        let set: Rc<Cell<Option<Instant>>> = Rc::default();
        let seen = Rc::new(Cell::new(0u64));
        let waiter = thread::spawn_local({
            let (timer, set, seen) = (timer.clone(), set.clone(), seen.clone());
            move || {
                loop {
                    timer.wait();
                    let due = set.take().expect("a timer that is not set does not expire");
                    assert!(due <= Instant::now(), "a timer does not expire early");
                    seen.set(seen.get() + 1);
                }
            }
        });
        let (state, mut expected) = (Cell::new(7), 0);
        for _ in 0..rounds {
            match random(&state) % 4 {
                0 => {
                    let was_set = timer.stop();
                    assert_eq!(was_set, set.take().is_some());
                }
                1 => thread::yield_now(),
                choice => {
                    let due = Instant::now() + Duration::from_nanos(random(&state) % 3_000);
                    timer.reset_at(due);
                    set.set(Some(due));
                    if choice == 3 {
                        // Not changed again before it is seen.
                        expected = expected.max(seen.get()) + 1;
                        let start = Instant::now();
                        while set.get().is_some() {
                            assert!(start.elapsed() < SOON, "an expiry was missed");
                            thread::yield_now();
                        }
                    }
                }
            }
        }
        assert!(seen.get() >= expected && !waiter.is_finished());
    });
}

#[test]
fn an_interval_does_not_drift_and_skips_what_it_missed() {
    in_virtual_time(|| {
        let period = 2 * MS;
        let mut beat = interval(period);
        let start = Instant::now();
        assert_eq!(beat.tick(), start, "the first tick is due at once");
        for number in 1..5 {
            // What a round takes does not add up.
            thread::sleep(period / 3);
            let due = start + number * period;
            assert_eq!((beat.tick(), Instant::now()), (due, due));
        }
        thread::sleep(5 * period + period / 2);
        // The one that was due first comes at once, and the others that were missed do not.
        assert_eq!((beat.tick(), start.elapsed()), (start + 5 * period, 9 * period + period / 2));
        assert_eq!((beat.tick(), start.elapsed()), (start + 10 * period, 10 * period));
    });
}

#[test]
fn an_interval_is_never_early_by_the_real_clock() {
    pirn::run(|| {
        let period = 2 * MS;
        let mut beat = interval(period);
        let first = beat.tick();
        let mut last = first;
        for _ in 0..10 {
            let due = beat.tick();
            assert!(due <= Instant::now() && due > last);
            assert_eq!((due - first).as_nanos() % period.as_nanos(), 0, "ticks are multiples");
            last = due;
        }
    });
}
