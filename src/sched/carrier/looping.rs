//! The loop on the thread's own stack: runs what there is, or sleeps until there is something.

use std::sync::atomic::fence;

use super::*;

/// How often a carrier whose clock stands still looks whether what it waits for can ever come.
const ERRAND_PERIOD: Duration = Duration::from_millis(20);

impl Carrier {
    /// Runs `main` and everything that it spawns, until it has ended.
    ///
    /// Returns the deadlock that kept it from ending, if one did.
    pub(crate) fn run(&self, main: NonNull<Task>) -> Option<Deadlock> {
        let _current = Enter::new(self);
        // Fibers start with the default words; the caller gets its own back.
        let float_control = FloatControl::save();
        self.main.set(main.as_ptr());
        self.adopt(main);
        let mut deadlock = None;
        while !self.main_ended.get() {
            match self.next_on_loop() {
                Some(fiber) => self.dispatch(fiber),
                None if self.idle() => {}
                None => {
                    deadlock = Some(Deadlock::of(self));
                    break;
                }
            }
        }
        if let Some(team) = self.shared.team() {
            team.stop();
        }
        self.close();
        // SAFETY: they were in force when the caller called.
        unsafe { float_control.load() };
        deadlock
    }

    /// With nothing to run: fires timers and takes in mail, or sleeps until there is some.
    ///
    /// False: nothing can ever become runnable.
    pub(super) fn idle(&self) -> bool {
        if self.mate.is_some() {
            return self.idle_in_team();
        }
        self.check_fork();
        self.take_mail();
        let next = self.timers().next_deadline();
        let mut now = Instant::from_nanos(0);
        if next.is_some() {
            now = self.now();
            self.fire_timers(now);
        }
        if !self.queue().is_empty() || self.feed_all() {
            return true;
        }
        let timeout = match self.timers().next_deadline() {
            Some(next) if self.virtual_now.get().is_some() => {
                self.poll_descriptors();
                if !self.queue().is_empty() {
                    return true;
                }
                if self.shared.has_errands() && !self.all_others_sleep() {
                    self.sleep(Some(ERRAND_PERIOD));
                    return true;
                }
                if !self.mailbox.is_empty() {
                    return true;
                }
                // Nobody can do anything before then: it is then. All timers of that instant are due.
                self.virtual_now.set(Some(next));
                return true;
            }
            Some(next) => Some(next.saturating_duration_since(now)),
            // A descriptor may wake somebody.
            None if self.waits_for_descriptors() => None,
            None if self.may_be_woken_from_outside() => Some(Duration::from_millis(500)),
            None => return false,
        };
        self.sleep(timeout);
        if self.watches() {
            // That was a poll.
            let now = self.now();
            self.fire_timers(now);
            self.last_poll.set(now);
            self.budget.store(self.poll_interval.get(), Ordering::Relaxed);
        }
        true
    }

    /// Sleeps in the kernel until there is mail or a descriptor is ready, at most for `timeout`. May
    /// return early.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        self.sleep_until_awake(timeout, || {});
    }

    /// [`sleep`](Self::sleep); calls `awake` before it takes anything in.
    pub(super) fn sleep_until_awake(&self, timeout: Option<Duration>, awake: impl FnOnce()) {
        let slept = match self.watch() {
            None => {
                let slept = self.mailbox.sleep(timeout);
                awake();
                slept
            }
            Some(watch) => {
                let slept = self.mailbox.sleep_in(|| watch.wait(timeout));
                awake();
                self.take_mail();
                watch.dispatch();
                slept
            }
        };
        self.counters().count_sleep(slept);
    }

    /// Whether some OS thread could still make a task of this carrier runnable.
    ///
    /// It could through a runtime handle, by unparking a parked task whose `Thread` handle exists,
    /// through any primitive, and as the carrier of another runtime, of which a fiber is joined here; but
    /// not if it [sleeps for good](foreign).
    pub(super) fn may_be_woken_from_outside(&self) -> bool {
        // Of the other carriers' tasks nothing is known here.
        if !self.mailbox.is_empty() || self.mate.is_some() {
            return true;
        }
        let by_somebody = |task: &Task| {
            match task.waiting() {
                _ if task.waits_for_anybody() => true,
                Some(Waiting::Park(_)) => task.has_other_references(),
                // An unpark resumes it, whatever it waits for.
                Some(_) if task.is_stackless() => task.has_other_references(),
                _ => false,
            }
        };
        if (self.shared.has_handles() || self.registry().iter().any(by_somebody))
            && !self.all_others_sleep()
        {
            return true;
        }
        // Whoever is found to sleep, or to be gone, may just have brought something before.
        // Acquire: pairs with the release by which a handle, or a reference, was given up.
        fence(Ordering::Acquire);
        !self.mailbox.is_empty()
    }

    /// Whether no other thread of the process does anything, nor will unless it is woken.
    pub(super) fn all_others_sleep(&self) -> bool {
        let (mut own, jobs) = pool::idle_threads();
        own.extend(self.shared.own_threads());
        foreign::all_sleep_for_good(&own) && pool::idle_threads().1 == jobs
    }
}
