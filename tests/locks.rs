//! Barrier, wait group, reentrant mutex, and what all primitives have in common.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pirn::sync::{
    Barrier, Condvar, Mutex, Once, OnceLock, ReentrantMutex, RwLock, Semaphore, WaitGroup, promise,
    select_any,
};
use pirn::thread;
use pirn::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs in virtual time.
fn run<T>(main: impl FnOnce() -> T) -> T {
    pirn::Builder::new().virtual_time(true).build().unwrap().run(main).unwrap()
}

#[test]
fn a_barrier_lets_each_group_pass_together_with_one_leader() {
    pirn::explore(100, || {
        let (barrier, arrived, leaders) = (Barrier::new(4), Cell::new(0), Cell::new(0));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 1..=5 {
                        arrived.set(arrived.get() + 1);
                        let is_leader = barrier.wait().is_leader();
                        leaders.set(leaders.get() + u32::from(is_leader));
                        assert!(arrived.get() >= 4 * round);
                    }
                });
            }
        });
        assert_eq!(leaders.get(), 5);
    });
}

#[test]
fn barriers_for_none_and_for_one_stop_nobody() {
    for size in [0, 1] {
        let barrier = Barrier::new(size);
        for _ in 0..3 {
            assert!(barrier.wait().is_leader());
            assert!(barrier.wait_timeout(Duration::ZERO).unwrap().is_leader());
        }
    }
}

#[test]
fn whoever_leaves_a_barrier_does_not_count_for_its_group() {
    run(|| {
        let barrier = Rc::new(Barrier::new(3));
        assert!(barrier.wait_timeout(SECOND).is_none());
        let waiter = || {
            let barrier = barrier.clone();
            thread::spawn_local(move || barrier.wait().is_leader())
        };
        let cancelled = waiter();
        thread::yield_now();
        cancelled.cancel();
        assert!(cancelled.join().is_err());
        let two = [waiter(), waiter()];
        thread::sleep(SECOND);
        assert!(two.iter().all(|one| !one.is_finished()));
        assert!(barrier.wait().is_leader());
        assert_eq!(two.map(|one| one.join().unwrap()), [false, false]);
    });
}

#[test]
fn a_group_that_is_completed_in_the_moment_of_a_timeout_has_all_its_members() {
    pirn::explore(500, || {
        let barrier = Barrier::new(2);
        let deadline = Instant::now() + SECOND;
        let passed = Cell::new(0);
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let has_passed = barrier.wait_deadline(deadline).is_some();
                    passed.set(passed.get() + u32::from(has_passed));
                });
            }
            s.spawn(|| {
                thread::sleep_until(deadline);
                let has_passed = barrier.wait_timeout(SECOND).is_some();
                passed.set(passed.get() + u32::from(has_passed));
            });
        });
        assert_eq!(passed.get() % 2, 0);
    });
}

#[test]
fn threads_and_fibers_meet_at_a_barrier() {
    const ROUNDS: usize = if cfg!(target_arch = "x86_64") { 200 } else { 30 };
    let (barrier, leaders) = (Arc::new(Barrier::new(6)), Arc::new(AtomicUsize::new(0)));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    assert!(barrier.wait_timeout(Duration::ZERO).is_none());
    let meet = {
        let (barrier, leaders) = (barrier.clone(), leaders.clone());
        move || {
            for _ in 0..ROUNDS {
                leaders.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::Relaxed);
            }
        }
    };
    let threads = [1, 1, 2, 2].map(|fibers| {
        let meet = meet.clone();
        std::thread::spawn(move || match fibers {
            1 => meet(),
            _ => pirn::run(|| {
                thread::scope(|s| {
                    s.spawn(&meet);
                    s.spawn(&meet);
                });
            }),
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(leaders.load(Ordering::Relaxed), ROUNDS);
}

#[test]
fn a_wait_group_waits_until_everything_is_done() {
    run(|| {
        let group = WaitGroup::new();
        group.wait();
        group.add(2);
        let guard = group.guard();
        assert_eq!(group.count(), 3);
        assert!(!group.wait_timeout(SECOND));
        let waiters = [(); 2].map(|()| {
            let group = group.clone();
            thread::spawn(move || group.wait())
        });
        group.done();
        group.done();
        thread::yield_now();
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        drop(guard);
        // More is added before those have their turn who waited: they go on all the same.
        group.add(1);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(!group.wait_deadline(Instant::now() + SECOND));
        group.done();
        assert!(group.wait_timeout(Duration::ZERO));
    });
}

#[test]
fn a_wait_group_is_done_with_by_a_panic_and_not_more_often_than_added_to() {
    run(|| {
        let group = WaitGroup::new();
        let guard = group.guard();
        let child = thread::spawn(move || {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("fails"));
        });
        group.wait();
        assert!(child.join().is_err());
        let too_often = std::panic::catch_unwind(|| group.done());
        assert!(too_often.is_err());
        group.add(usize::MAX);
        assert!(std::panic::catch_unwind(|| group.add(1)).is_err());
        assert_eq!(group.count(), usize::MAX);
    });
}

#[test]
fn a_thread_waits_for_the_fibers_of_a_group() {
    let group = WaitGroup::new();
    let done = Arc::new(AtomicUsize::new(0));
    let carrier = std::thread::spawn({
        let (done, guards) = (done.clone(), [(); 5].map(|()| group.guard()));
        move || {
            pirn::run(|| {
                let children = guards.map(|guard| {
                    let done = done.clone();
                    thread::spawn(move || {
                        thread::yield_now();
                        done.fetch_add(1, Ordering::Relaxed);
                        drop(guard);
                    })
                });
                children.into_iter().for_each(|child| child.join().unwrap());
            });
        }
    });
    group.wait();
    assert_eq!(done.load(Ordering::Relaxed), 5);
    carrier.join().unwrap();
}

#[test]
fn a_reentrant_mutex_is_free_when_its_last_guard_is_dropped() {
    run(|| {
        let mutex = ReentrantMutex::new(Cell::new(0));
        thread::scope(|s| {
            let one = mutex.lock();
            let two = mutex.try_lock().unwrap();
            let three = mutex.lock_timeout(SECOND).unwrap();
            s.spawn(|| assert!(mutex.try_lock().is_none()));
            s.spawn(|| assert!(mutex.lock_timeout(SECOND).is_none()));
            let waiter = s.spawn(|| mutex.lock().set(2));
            thread::sleep(2 * SECOND);
            drop(one);
            drop(three);
            thread::yield_now();
            assert!(!waiter.is_finished());
            two.set(1);
            drop(two);
            // Handed over: it is not ours any more.
            assert!(mutex.try_lock().is_none());
            waiter.join().unwrap();
        });
        assert_eq!(mutex.into_inner().get(), 2);
    });
}

#[test]
fn reentrant_mutexes_exclude_threads_and_fibers() {
    const ROUNDS: usize = if cfg!(target_arch = "x86_64") { 1_000 } else { 200 };
    let mutex = Arc::new(ReentrantMutex::new(Cell::new(0usize)));
    // As far as the deadlock detector can know, whoever has not used it yet never will.
    drop(mutex.lock());
    let work = {
        let mutex = mutex.clone();
        move || {
            for round in 0..ROUNDS {
                let outer = mutex.lock();
                let seen = outer.get();
                if round.is_multiple_of(32) {
                    thread::yield_now();
                }
                mutex.lock().set(seen + 1);
            }
        }
    };
    let threads = [false, false, true, true].map(|on_fibers| {
        let work = work.clone();
        std::thread::spawn(move || match on_fibers {
            false => work(),
            true => pirn::run(|| {
                thread::scope(|s| {
                    s.spawn(&work);
                    s.spawn(&work);
                });
            }),
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(mutex.lock().get(), 6 * ROUNDS);
}

#[test]
fn the_token_of_park_survives_every_other_wait() {
    run(|| {
        let (mutex, semaphore) = (Rc::new(Mutex::new(())), Rc::new(Semaphore::with_maximum(0, 9)));
        let (lock, condvar, cell) =
            (Rc::new(RwLock::new(())), Rc::new(Condvar::new()), Rc::new(OnceLock::new()));
        let (barrier, group, reentrant) =
            (Rc::new(Barrier::new(2)), WaitGroup::new(), Rc::new(ReentrantMutex::new(())));
        let (promise, future) = promise();
        let held = (mutex.lock().unwrap(), lock.write().unwrap(), reentrant.lock());
        group.add(1);
        let child = thread::spawn_local({
            let (mutex, semaphore, lock, condvar) =
                (mutex.clone(), semaphore.clone(), lock.clone(), condvar.clone());
            let (cell, barrier, group, reentrant) =
                (cell.clone(), barrier.clone(), group.clone(), reentrant.clone());
            move || {
                drop(mutex.lock().unwrap());
                drop(lock.read().unwrap());
                drop(reentrant.lock());
                drop(condvar.wait(mutex.lock().unwrap()).unwrap());
                semaphore.acquire().unwrap().forget();
                barrier.wait();
                group.wait();
                assert_eq!(cell.wait(), &7);
                assert_eq!(future.get().unwrap(), &8);
                let start = Instant::now();
                thread::park_timeout(HOUR);
                assert_eq!(start.elapsed(), Duration::ZERO);
                thread::park_timeout(SECOND);
                assert_eq!(start.elapsed(), SECOND);
            }
        });
        let poke = || {
            thread::sleep(SECOND);
            child.thread().unpark();
            thread::sleep(SECOND);
            assert!(!child.is_finished());
        };
        poke();
        drop(held.0);
        poke();
        drop(held.1);
        poke();
        drop(held.2);
        poke();
        condvar.notify_one();
        poke();
        semaphore.add_permits(1).unwrap();
        poke();
        barrier.wait();
        poke();
        group.done();
        poke();
        cell.set(7).unwrap();
        poke();
        promise.set(8).unwrap();
        child.join().unwrap();
    });
}

#[test]
fn waiters_of_everything_end_with_their_runtime() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    type Wait = Box<dyn FnOnce() + Send>;
    let unwound = Arc::new(AtomicUsize::new(0));
    static LOCK: RwLock<()> = RwLock::new(());
    static ONCE: Once = Once::new();
    static BARRIER: Barrier = Barrier::new(9);
    let (lock, once, barrier) = (&LOCK, &ONCE, &BARRIER);
    let (promise, future) = promise::<u32>();
    let group = WaitGroup::new();
    group.add(1);
    let reading = lock.read().unwrap();
    let waits: Vec<Wait> = vec![
        Box::new(|| drop(lock.write())),
        Box::new(|| drop(lock.read())),
        Box::new(|| once.call_once(thread::park)),
        Box::new(|| once.call_once(thread::park)),
        Box::new(|| assert!(!barrier.wait().is_leader())),
        Box::new({
            let group = group.clone();
            move || group.wait()
        }),
        Box::new({
            let future = future.clone();
            move || drop(future.get().copied())
        }),
        Box::new(move || assert_eq!(select_any(&[future.clone(), future]), 0)),
    ];
    let count = waits.len();
    pirn::run(|| {
        for wait in waits {
            let counted = Counted(unwound.clone());
            thread::spawn(move || {
                let _counted = counted;
                wait();
                unreachable!("it cannot have what it waits for");
            });
        }
        thread::yield_now();
    });
    assert_eq!(unwound.load(Ordering::Relaxed), count);
    // Nobody is left behind in a queue.
    drop(reading);
    drop(lock.try_write().unwrap());
    once.call_once(|| ());
    assert!(barrier.wait_timeout(Duration::ZERO).is_none());
    group.done();
    promise.set(1).unwrap();
}

#[test]
fn more_os_threads_than_a_waker_keeps_in_mind_are_all_woken() {
    let (barrier, group) = (Barrier::new(21), WaitGroup::new());
    group.add(1);
    std::thread::scope(|threads| {
        let waiters: Vec<_> = (0..20)
            .map(|_| {
                let (barrier, group) = (&barrier, group.clone());
                threads.spawn(move || {
                    let leads = barrier.wait().is_leader();
                    group.wait();
                    leads
                })
            })
            .collect();
        let leads = barrier.wait().is_leader();
        group.done();
        let others = waiters.into_iter().map(|waiter| waiter.join().unwrap());
        assert_eq!(others.chain([leads]).filter(|&leads| leads).count(), 1);
    });
}
