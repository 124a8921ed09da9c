//! Semaphore and read-write lock do, under random requests, limits, releases and cancellations, what
//! a simple model of a queue says.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pirn::sync::{AcquireError, RwLock, Semaphore};
use pirn::thread::{self, ScopedJoinHandle};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// A new client asks for so much, for so many ticks at most.
    Ask(usize, Option<u64>),
    /// One of those that have something gives it back.
    Release(usize),
    /// One of those that wait is cancelled.
    Cancel(usize),
    /// So many ticks pass.
    Pass(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Got(usize),
    GaveUp(usize),
}

/// Permits and a queue, first come, first served.
struct Model {
    now: u64,
    available: usize,
    /// Client, how much it wants, and until when.
    queue: VecDeque<(usize, usize, Option<u64>)>,
    /// Client and what it has.
    held: Vec<(usize, usize)>,
    events: Vec<Event>,
}

impl Model {
    fn ask(&mut self, client: usize, wanted: usize, ticks: Option<u64>) {
        self.queue.push_back((client, wanted, ticks.map(|ticks| self.now + ticks)));
        self.admit();
    }

    fn admit(&mut self) {
        while let Some(&(client, wanted, _)) = self.queue.front()
            && wanted <= self.available
        {
            self.queue.pop_front();
            self.available -= wanted;
            self.held.push((client, wanted));
            self.events.push(Event::Got(client));
        }
    }

    fn release(&mut self, place: usize) -> usize {
        let (client, had) = self.held.remove(place);
        self.available += had;
        self.admit();
        client
    }

    fn cancel(&mut self, place: usize) -> usize {
        let (client, ..) = self.queue.remove(place).unwrap();
        self.admit();
        client
    }

    fn pass(&mut self, ticks: u64) {
        let end = self.now + ticks;
        while let Some(due) = self.queue.iter().filter_map(|waiter| waiter.2).min()
            && due <= end
        {
            for &(client, ..) in self.queue.iter().filter(|waiter| waiter.2 == Some(due)) {
                self.events.push(Event::GaveUp(client));
            }
            self.queue.retain(|waiter| waiter.2 != Some(due));
            self.admit();
        }
        self.now = end;
    }
}

const TICK: Duration = Duration::from_millis(10);

/// Ends between the ticks of the script, so that it is clear what comes first.
fn limit(ticks: u64) -> Duration {
    TICK * ticks as u32 - TICK / 2
}

/// Plays a script on a real lock, for which `take` waits as long as a client may, and on the model.
fn play<G>(script: &[Step], capacity: usize, take: impl Fn(usize, Option<Duration>) -> Option<G>) {
    let mut model = Model {
        now: 0,
        available: capacity,
        queue: VecDeque::new(),
        held: Vec::new(),
        events: Vec::new(),
    };
    let (events, guards) = (RefCell::new(Vec::new()), RefCell::new(BTreeMap::new()));
    let runtime = pirn::Builder::new().virtual_time(true).build().unwrap();
    let client =
        |client: usize, wanted: usize, ticks: Option<u64>| match take(wanted, ticks.map(limit)) {
            Some(guard) => {
                events.borrow_mut().push(Event::Got(client));
                guards.borrow_mut().insert(client, guard);
            }
            None => events.borrow_mut().push(Event::GaveUp(client)),
        };
    let played = runtime.run(|| {
        thread::scope(|s| {
            let mut clients: Vec<ScopedJoinHandle<()>> = Vec::new();
            for step in script {
                match *step {
                    Step::Ask(wanted, ticks) => {
                        let (client, number) = (&client, clients.len());
                        clients.push(s.spawn(move || client(number, wanted, ticks)));
                        model.ask(number, wanted, ticks);
                    }
                    Step::Release(which) if !model.held.is_empty() => {
                        let client = model.release(which % model.held.len());
                        let guard = guards.borrow_mut().remove(&client);
                        drop(guard.expect("the model says that it has something"));
                    }
                    Step::Cancel(which) if !model.queue.is_empty() => {
                        clients[model.cancel(which % model.queue.len())].cancel();
                    }
                    Step::Pass(ticks) => {
                        thread::sleep(TICK * ticks as u32);
                        model.pass(ticks);
                    }
                    Step::Release(_) | Step::Cancel(_) => {}
                }
                // Whoever was woken goes on, and whoever that wakes.
                (0..4).for_each(|_| thread::yield_now());
                assert_eq!(*events.borrow(), model.events, "after {step:?} of {script:?}");
            }
            // At the end everything comes back, and everybody is served.
            while !model.held.is_empty() {
                let client = model.release(0);
                let guard = guards.borrow_mut().remove(&client);
                drop(guard);
                (0..4).for_each(|_| thread::yield_now());
            }
            assert_eq!(*events.borrow(), model.events, "at the end of {script:?}");
            assert_eq!((model.available, model.queue.len()), (capacity, 0));
            drop(clients);
        });
    });
    played.unwrap();
}

fn script(wants: impl Strategy<Value = usize> + Clone) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => wants.clone().prop_map(|wanted| Step::Ask(wanted, None)),
        3 => (wants, 1u64..6).prop_map(|(wanted, ticks)| Step::Ask(wanted, Some(ticks))),
        4 => (0usize..8).prop_map(Step::Release),
        1 => (0usize..8).prop_map(Step::Cancel),
        2 => (1u64..4).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..60)
}

const CASES: u32 = if cfg!(target_arch = "x86_64") { 300 } else { 40 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_semaphore_serves_requests_of_any_size_in_order(script in script(1usize..=5)) {
        let semaphore = Semaphore::new(5);
        play(&script, 5, |wanted, limit| {
            let permit = match limit {
                Some(limit) => semaphore.acquire_many_timeout(wanted, limit),
                None => semaphore.acquire_many(wanted),
            };
            assert!(!matches!(permit, Err(AcquireError::TooMany { .. })));
            permit.ok()
        });
        prop_assert_eq!(semaphore.available_permits(), 5);
    }

    /// A read-write lock is a semaphore of which readers want one and writers all.
    #[test]
    fn a_read_write_lock_serves_readers_and_writers_in_order(
        script in script(prop_oneof![2 => Just(1usize), 1 => Just(100usize)])
    ) {
        enum Guard<R, W> {
            Reads { _guard: R },
            Writes { _guard: W },
        }
        let lock = RwLock::new(());
        play(&script, 100, |wanted, limit| {
            let limit = limit.unwrap_or(Duration::MAX);
            if wanted == 1 {
                lock.read_timeout(limit).ok().map(|guard| Guard::Reads { _guard: guard })
            } else {
                lock.write_timeout(limit).ok().map(|guard| Guard::Writes { _guard: guard })
            }
        });
        prop_assert!(lock.try_write().is_ok());
    }
}
