//! Timers that can be stopped and set anew, and intervals.
//!
//! A timer is a deadline and the list of those who wait for it now. Nothing runs in the background:
//! only a wait puts an entry into the carrier's heap of deadlines, and takes it out again when it
//! ends, however it ends. So there is no expiry that could be under way while the timer is changed,
//! and hence no stale one: whoever wakes looks at the deadline as it is then. A change wakes those
//! who wait, so that they look.
//!
//! The far future stands for "not set", which a wait takes for "no deadline" by itself.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr;
use std::time::Duration;

use crate::sched::cancel::check_cancelled;
use crate::sched::carrier::current_party;
use crate::sched::clock::Instant;
use crate::sched::party::Party;
use crate::sched::wait::{Epoch, Outcome};
use crate::sched::{self, Waiting};
use crate::thread::{sleep_until, yield_now};

/// An alarm that can be waited for, stopped, and set to another time.
///
/// It is *set* from when it is made or [`reset`](Self::reset) until it is [`stop`](Self::stop)ped or
/// a [`wait`](Self::wait) has consumed its expiry. After a stop or a reset an earlier expiry is never
/// seen: expiring is nothing that happens to a timer; it only becomes due.
///
/// Fibers share a timer by reference or in an `Rc`. It stays on its OS thread, with the fibers that
/// use it: it is neither `Send` nor `Sync`.
///
/// ```
/// use std::rc::Rc;
/// use pirn::thread;
/// use pirn::time::{Duration, Instant, Timer};
///
/// pirn::run(|| {
///     let start = Instant::now();
///     let patience = Rc::new(Timer::after(Duration::from_millis(1)));
///     let waiter = thread::spawn_local({
///         let patience = patience.clone();
///         move || patience.wait()
///     });
///     patience.reset(Duration::from_millis(20));
///     waiter.join().unwrap();
///     assert!(start.elapsed() >= Duration::from_millis(20));
///     assert!(!patience.stop()); // its expiry was consumed
/// });
/// ```
///
/// ```compile_fail
/// let timer = pirn::time::Timer::after(pirn::time::Duration::from_secs(1));
/// std::thread::spawn(move || timer.wait());
/// ```
pub struct Timer {
    /// The far future when it is not set.
    deadline: Cell<Instant>,
    /// Who waits now. Each entry is its waiter's, who takes it out before it goes on.
    waiters: RefCell<Vec<(*const Party, Epoch)>>,
}

impl Timer {
    /// A timer that is due when so much time has passed; with a duration beyond the range of the
    /// clock, such as `Duration::MAX`, never.
    pub fn after(duration: Duration) -> Timer {
        Timer::at(Instant::now() + duration)
    }

    /// A timer that is due at this instant; at [`Instant::FAR_FUTURE`] it is not set.
    pub fn at(deadline: Instant) -> Timer {
        Timer { deadline: Cell::new(deadline), waiters: RefCell::default() }
    }

    /// Waits until the timer is due, and consumes that: it is not set afterwards.
    ///
    /// On a timer that is not set this waits until somebody resets it. When several fibers wait, one
    /// of them gets the expiry, the first come the first, and the others wait on. When the timer is
    /// due already, other runnable fibers still get their turn first, as in
    /// [`yield_now`](crate::thread::yield_now).
    ///
    /// Never returns early, except in a destructor while the runtime ends: there it returns at once.
    pub fn wait(&self) {
        let mut gave_way = false;
        loop {
            if self.is_due() {
                if gave_way {
                    self.deadline.set(Instant::FAR_FUTURE);
                    return;
                }
                yield_now();
            } else if self.wait_for_change() == Outcome::Cancelled {
                return;
            }
            gave_way = true;
        }
    }

    /// Waits until the present deadline, or until it is changed.
    fn wait_for_change(&self) -> Outcome {
        let deadline = self.deadline.get();
        let party = current_party();
        let epoch = party.begin();
        self.waiters.borrow_mut().push((party, epoch));
        sched::wait(party, epoch, Waiting::Timer(deadline), deadline);
        self.waiters.borrow_mut().retain(|&(waiter, _)| !ptr::eq(waiter, party));
        let outcome = party.waiter.finish();
        check_cancelled(outcome);
        outcome
    }

    /// Stops the timer. Returns whether it was set, which includes a timer that was due but whose
    /// expiry nobody had consumed. Whoever waits goes on waiting, for a reset.
    pub fn stop(&self) -> bool {
        !self.set(Instant::FAR_FUTURE).is_far_future()
    }

    /// Sets the timer, or sets it anew: it is due when so much time has passed from now.
    pub fn reset(&self, duration: Duration) {
        self.reset_at(Instant::now() + duration);
    }

    /// Sets the timer, or sets it anew: it is due at this instant.
    pub fn reset_at(&self, deadline: Instant) {
        self.set(deadline);
    }

    /// Whether a wait would get the expiry now.
    pub fn is_due(&self) -> bool {
        let deadline = self.deadline.get();
        !deadline.is_far_future() && deadline <= Instant::now()
    }

    /// Changes the deadline and lets those look who wait. Returns the old one.
    fn set(&self, deadline: Instant) -> Instant {
        let before = self.deadline.replace(deadline);
        if before != deadline {
            for &(waiter, epoch) in self.waiters.borrow().iter() {
                // SAFETY: a waiter takes its entry out before it goes on, on this same thread; one
                // that never goes on is never freed.
                unsafe { (*waiter).notify(epoch, Outcome::Notified) };
            }
        }
        before
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deadline = self.deadline.get();
        f.debug_struct("Timer")
            .field("deadline", &(!deadline.is_far_future()).then_some(deadline))
            .field("waiting", &self.waiters.borrow().len())
            .finish()
    }
}

/// Ticks at once, and then at multiples of `period` from now.
///
/// # Panics
///
/// When `period` is zero.
///
/// ```
/// use pirn::time::{Duration, interval};
///
/// pirn::run(|| {
///     let period = Duration::from_millis(2);
///     let mut beat = interval(period);
///     let first = beat.tick();
///     assert_eq!(beat.tick(), first + period);
///     assert_eq!(beat.tick(), first + 2 * period);
/// });
/// ```
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval needs a period greater than zero");
    Interval { next: Instant::now(), period }
}

/// A regular beat; made by [`interval`].
///
/// The beat does not drift: a tick that is noticed late does not put off the next. Ticks that were
/// missed altogether are skipped: when one comes after the next was due, the following one is the
/// first multiple of the period that lies ahead.
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick and returns the instant at which it was due.
    ///
    /// Other runnable fibers get their turn even when it is due already.
    pub fn tick(&mut self) -> Instant {
        if self.next <= Instant::now() {
            yield_now();
        } else {
            sleep_until(self.next);
        }
        let due = self.next;
        let late = Instant::now().saturating_duration_since(due).as_nanos();
        let missed = late / self.period.as_nanos();
        let ahead = u64::try_from((missed + 1) * self.period.as_nanos());
        self.next = due + ahead.map_or(Duration::MAX, Duration::from_nanos);
        due
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}
