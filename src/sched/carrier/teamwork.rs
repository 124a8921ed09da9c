//! What a carrier does that is one of several: offering movable tasks, looking for them, and sleeping
//! so that somebody wakes it.

use std::hint;

use crossbeam_deque::Worker;

use super::super::spawn;
use super::super::stats::Counters;
use super::super::team::{Exposed, Job, Team};
use super::*;

/// How long a carrier that finds work elsewhere leaves it to whoever has spawned it.
const COURTESY: u32 = 200;

/// The most movable tasks that are taken in at a time.
const MOST_AT_ONCE: usize = 16;

/// How long a carrier that is never idle leaves tasks without a stack to others which it has spawned, for
/// each task that can run there. What begins here cannot go there any more, and a thread that computes
/// keeps its carrier for long.
const LEAVE: Duration = Duration::from_millis(100);

/// How often a carrier looks whether anybody could wake it, when all rest.
const JUDGE_PERIOD: Duration = Duration::from_millis(500);

/// How often a carrier tries whether a stack has been given back elsewhere.
const STARVED_PERIOD: Duration = Duration::from_millis(10);

/// What a carrier has besides if it is one of several.
pub(super) struct Mate {
    number: usize,
    /// Its end of the deque in which its movable tasks lie.
    own: Worker<Job>,
    /// Whether it counts as searching.
    searching: Cell<bool>,
    /// Whether it has spawned tasks without a stack that any carrier may begin.
    patient: Cell<bool>,
    /// Since when something lies in the deque, as polls have found.
    since: Cell<Option<Instant>>,
}

impl Mate {
    pub(super) fn new(team: &Team, number: usize) -> Mate {
        Mate {
            number,
            own: team.take_worker(number),
            searching: Cell::new(false),
            patient: Cell::new(false),
            since: Cell::new(None),
        }
    }
}

impl Carrier {
    /// Its number within the runtime.
    pub(crate) fn number(&self) -> usize {
        self.mate.as_ref().map_or(0, |mate| mate.number)
    }

    pub(super) fn counters(&self) -> &Counters {
        match (&self.mate, self.shared.team()) {
            (Some(mate), Some(team)) if mate.number > 0 => team.counters(mate.number),
            _ => &self.shared.counters,
        }
    }

    fn mate_and_team(&self) -> Option<(&Mate, &Team)> {
        self.mate.as_ref().zip(self.shared.team())
    }

    /// Lets any carrier take a movable task.
    pub(in crate::sched) fn offer(&self, task: NonNull<Task>) {
        if let Some((mate, team)) = self.mate_and_team() {
            // SAFETY: nobody else has it yet.
            if unsafe { task.as_ref() }.is_stackless() {
                mate.patient.set(true);
            }
            mate.own.push(Job::new(task));
            team.announce();
        }
    }

    /// A task has been taken: this is its place.
    fn take_job(&self, job: Job) {
        let task = job.into_task();
        // SAFETY: the runtime's reference came with the job.
        let taken = unsafe { task.as_ref() };
        if taken.place(self.mailbox) {
            taken.set_cancelled();
        }
        match taken.is_stackless() {
            true => self.adopt_stackless(task),
            false => self.adopt(task),
        }
    }

    /// Takes own movable tasks in: some, so that others find the rest. False: there are none.
    fn take_own(&self, mate: &Mate, team: &Team) -> bool {
        let share = if mate.patient.get() { 1 } else { mate.own.len() / (2 * team.len()) };
        let jobs = (0..share.clamp(1, MOST_AT_ONCE)).map_while(|_| mate.own.pop());
        jobs.map(|job| self.take_job(job)).count() > 0
    }

    fn courtesy(&self) -> Duration {
        LEAVE * (1 + self.queue().len() as u32)
    }

    /// Takes own movable tasks in; or one, if there may be some without a stack, and nobody else has come for
    /// them for a while.
    fn take_own_in_time(&self, mate: &Mate, team: &Team) {
        if !mate.patient.get() {
            self.take_own(mate, team);
            return;
        }
        if mate.own.is_empty() {
            return mate.since.set(None);
        }
        let now = self.now();
        match mate.since.get() {
            None => mate.since.set(Some(now)),
            Some(since) if now.saturating_duration_since(since) < self.courtesy() => {}
            Some(_) => {
                mate.since.set(None);
                self.take_own(mate, team);
            }
        }
    }

    /// Takes all own movable tasks in: they are to end.
    pub(crate) fn take_all_offered(&self) {
        if let Some((mate, team)) = self.mate_and_team() {
            while self.take_own(mate, team) {}
        }
    }

    /// Takes own movable tasks in, where nobody else can run.
    pub(in crate::sched) fn take_offered(&self) {
        if let Some((mate, team)) = self.mate_and_team()
            && self.queue().is_empty()
        {
            self.take_own(mate, team);
        }
    }

    /// [`others_can_run`](Self::others_can_run), without what nobody has begun yet: who only looks whether
    /// its slice is over leaves that to others until the next poll.
    pub(in crate::sched) fn others_are_queued(&self) -> bool {
        self.tick();
        !self.queue().is_empty() || self.main_ended.get() || self.is_called_off()
    }

    /// At a poll: takes in what nobody else has taken, so that it has its turn among those that are
    /// never idle. When the end has come, nothing here runs any more.
    #[inline]
    pub(super) fn mingle(&self) {
        if let Some((mate, team)) = self.mate_and_team() {
            if team.is_stopping() {
                self.main_ended.set(true);
                self.queue().set_aside();
            } else {
                self.take_own_in_time(mate, team);
                // If all are busy for good, nobody searches.
                team.take_injected().into_iter().for_each(|job| self.take_job(job));
            }
        }
    }

    /// A fiber that nobody in the run queue follows gives way. True: now somebody does.
    #[cold]
    pub(super) fn yield_in_team(&self, fiber: *mut Fiber) -> bool {
        let Some((mate, team)) = self.mate_and_team() else { return false };
        if self.closing.get() {
            // It is dispatched once, to be unwound: nobody would come back to it.
            return false;
        }
        if self.main_ended.get() {
            self.queue().push(Runnable::started(fiber));
            // SAFETY: it is queued.
            unsafe { self.switch_to_loop(fiber) };
            return false;
        }
        self.take_own(mate, team)
    }

    /// Whether there is something for the loop to do that the run queue does not show.
    #[inline]
    pub(super) fn is_wanted_on_loop(&self) -> bool {
        self.mate.as_ref().is_some_and(|mate| self.main_ended.get() || !mate.own.is_empty())
    }

    /// Runs tasks until the end has come, and closes.
    pub(in crate::sched) fn work(&self) {
        let _current = Enter::new(self);
        while !self.main_ended.get() {
            match self.next_on_loop() {
                Some(fiber) => self.dispatch(fiber),
                None => drop(self.idle()),
            }
        }
        self.close();
    }

    /// [`idle`](Self::idle), for one of several.
    pub(super) fn idle_in_team(&self) -> bool {
        let Some((mate, team)) = self.mate_and_team() else { return false };
        self.check_fork();
        if team.is_stopping() {
            self.main_ended.set(true);
            self.stop_searching();
            return true;
        }
        if mate.number == 0 && team.was_found_stuck() {
            return false;
        }
        self.take_mail();
        let mut now = Instant::from_nanos(0);
        if self.timers().len() > 0 {
            now = self.now();
            self.fire_timers(now);
        }
        let is_starved = !self.starved().is_empty();
        if is_starved {
            // Others may have given a stack back.
            self.fed.set(true);
        }
        if !self.queue().is_empty() || self.take_own(mate, team) || self.search(mate, team) {
            self.stop_searching();
            return true;
        }
        mate.searching.set(false);
        team.lie_down(mate.number);
        if team.has_work() || team.is_stopping() {
            mate.searching.set(team.get_up(mate.number));
            return true;
        }
        let until = self.timers().next_deadline();
        let timeout = until.map(|until| until.saturating_duration_since(now));
        let timeout = if is_starved {
            Some(timeout.map_or(STARVED_PERIOD, |timeout| timeout.min(STARVED_PERIOD)))
        } else {
            timeout
        };
        if timeout.is_none() && !self.waits_for_descriptors() {
            self.rest(mate, team);
        } else {
            self.sleep(timeout);
        }
        mate.searching.set(team.get_up(mate.number));
        if is_starved {
            self.feed_all();
        }
        if self.watches() {
            // That was a poll.
            let now = self.now();
            self.fire_timers(now);
            self.last_poll.set(now);
            self.budget.store(self.poll_interval.get(), Ordering::Relaxed);
        }
        if !self.queue().is_empty() {
            self.stop_searching();
        }
        true
    }

    /// It has found something to do, and counts as searching no more.
    fn stop_searching(&self) {
        if let Some((mate, team)) = self.mate_and_team()
            && mate.searching.take()
        {
            team.end_search();
        }
    }

    /// Looks for work elsewhere. False: there is none, and it counts as searching.
    ///
    /// What others have spawned is left to them for a moment: a task that its parent is about to wait
    /// for costs less where that is.
    fn search(&self, mate: &Mate, team: &Team) -> bool {
        if !mate.searching.replace(true) {
            team.begin_search();
        }
        let mut job = team.take_injected();
        if job.is_none() && team.has_work() {
            (0..COURTESY).for_each(|_| hint::spin_loop());
            job = team.take_injected().or_else(|| team.steal(mate.number));
        }
        job.map(|job| self.take_job(job)).is_some()
    }

    /// Sleeps until another thread brings something. If all carriers do, it looks whether any could.
    fn rest(&self, mate: &Mate, team: &Team) {
        let tasks = || self.registry().iter();
        let by_reference = |task: &&Task| {
            // An unpark resumes a task without a stack, whatever it waits for.
            matches!(task.waiting(), Some(Waiting::Park(_))) || task.is_stackless()
        };
        let surely = tasks().any(Task::waits_for_anybody);
        let by_reference = if surely {
            Vec::new()
        } else {
            tasks().filter(by_reference).map(ptr::from_ref).collect()
        };
        team.rest(mate.number, Exposed { surely, by_reference });
        let stuck = || team.is_stuck(self.shared.has_handles(), || self.all_others_sleep());
        let timeout = (team.all_rest() && !stuck()).then_some(JUDGE_PERIOD);
        self.sleep_until_awake(timeout, || team.cease_to_rest(mate.number));
    }

    /// The end: nothing is taken any more.
    pub(super) fn drop_offered(&self) {
        if let Some((mate, team)) = self.mate_and_team() {
            while let Some(job) = mate.own.pop() {
                spawn::refuse(job.into_task());
            }
            team.drop_injected();
        }
    }
}
