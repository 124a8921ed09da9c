//! Reports of deadlocks name the locks, their holders and the cycles.

mod child;

use std::cell::RefCell;

use pirn::Runtime;
use pirn::sync::{
    Barrier, Condvar, Mutex, Once, ReentrantMutex, RwLock, Semaphore, WaitGroup, promise,
};
use pirn::thread::{self, ThreadId};

/// Runs `body`, which makes a deadlock, in a process without younger threads, which might end it.
fn alone(test: &str, body: impl FnOnce()) {
    child::isolated(test, &[("RUST_BACKTRACE", "0")], body);
}

#[test]
fn a_deadlock_of_two_fibers_and_two_mutexes_is_reported_with_its_cycle() {
    let test = "a_deadlock_of_two_fibers_and_two_mutexes_is_reported_with_its_cycle";
    alone(test, || {
        let ids: RefCell<Vec<ThreadId>> = RefCell::default();
        let deadlock = Runtime::new().unwrap().run(|| {
            let (one, two) = (Mutex::new(()), Mutex::new(()));
            thread::scope(|s| {
                for (name, first, second) in [("left", &one, &two), ("right", &two, &one)] {
                    let both = move || {
                        let _first = first.lock().unwrap();
                        thread::yield_now();
                        let _second = second.lock().unwrap();
                    };
                    let child = thread::Builder::new().name(name).spawn_scoped(s, both).unwrap();
                    ids.borrow_mut().push(child.thread().id());
                }
            });
        });
        let deadlock = deadlock.unwrap_err();
        assert_eq!(deadlock.cycles(), [ids.into_inner()]);
        let text = deadlock.to_string();
        for expected in [
            "waits to lock a mutex that is held by fiber 'right'",
            "waits to lock a mutex that is held by fiber 'left'",
            "cycle: 'left' (id 1) waits for 'right' (id 2) waits for 'left' (id 1)",
        ] {
            assert!(text.contains(expected), "no '{expected}' in {text}");
        }
    });
}

#[test]
fn locking_a_mutex_twice_is_reported_as_a_deadlock_with_itself() {
    let test = "locking_a_mutex_twice_is_reported_as_a_deadlock_with_itself";
    alone(test, || {
        let deadlock = Runtime::new().unwrap().run(|| {
            let mutex = Mutex::new(());
            let _held = mutex.lock().unwrap();
            let _again = mutex.lock().unwrap();
        });
        let deadlock = deadlock.unwrap_err();
        assert_eq!(deadlock.cycles(), [[deadlock.fibers()[0].id()]]);
        assert!(deadlock.to_string().contains("cycle: 'main' (id 0) waits for 'main' (id 0)"));
    });
}

#[test]
fn a_holder_that_was_handed_a_mutex_is_named() {
    let test = "a_holder_that_was_handed_a_mutex_is_named";
    alone(test, || {
        let deadlock = Runtime::new().unwrap().run(|| {
            static MUTEX: Mutex<()> = Mutex::new(());
            let mutex = &MUTEX;
            let held = mutex.lock().unwrap();
            thread::Builder::new()
                .name("heir")
                .spawn(|| {
                    let _held = mutex.lock().unwrap();
                    thread::park();
                })
                .unwrap();
            thread::yield_now();
            drop(held);
            drop(mutex.lock());
        });
        let text = deadlock.unwrap_err().to_string();
        assert!(
            text.contains("waits to lock a mutex that is held by fiber 'heir' (id 1)"),
            "{text}"
        );
    });
}

#[test]
fn a_reader_that_reads_again_behind_a_writer_is_reported_with_the_cycle() {
    let test = "a_reader_that_reads_again_behind_a_writer_is_reported_with_the_cycle";
    alone(test, || {
        let deadlock = Runtime::new().unwrap().run(|| {
            let lock = RwLock::new(());
            thread::scope(|s| {
                let _held = lock.read().unwrap();
                s.spawn(|| drop(lock.write()));
                thread::yield_now();
                drop(lock.read());
            });
        });
        let deadlock = deadlock.unwrap_err();
        let text = deadlock.to_string();
        let expected = "waits to lock a read-write lock that is held by fiber 'main' (id 0)";
        assert!(text.contains(expected), "{text}");
        assert_eq!(deadlock.cycles(), [[deadlock.fibers()[0].id()]]);
    });
}

#[test]
fn a_writer_that_waits_for_itself_is_reported_and_the_one_of_two_readers_that_stays() {
    let test = "a_writer_that_waits_for_itself_is_reported_and_the_one_of_two_readers_that_stays";
    alone(test, || {
        let deadlock = Runtime::new().unwrap().run(|| {
            let lock = RwLock::new(());
            let _held = lock.write().unwrap();
            drop(lock.read());
        });
        let deadlock = deadlock.unwrap_err();
        assert_eq!(deadlock.cycles(), [[deadlock.fibers()[0].id()]]);
        let deadlock = Runtime::new().unwrap().run(|| {
            static LOCK: RwLock<()> = RwLock::new(());
            let lock = &LOCK;
            let short = lock.read().unwrap();
            let stays = || {
                let _held = lock.read().unwrap();
                thread::park();
            };
            thread::Builder::new().name("stays").spawn(stays).unwrap();
            thread::yield_now();
            drop(short);
            drop(lock.write());
        });
        let text = deadlock.unwrap_err().to_string();
        assert!(
            text.contains("waits to lock a read-write lock that is held by fiber 'stays'"),
            "{text}"
        );
    });
}

#[test]
fn a_longer_way_back_shows_in_the_report() {
    let test = "a_longer_way_back_shows_in_the_report";
    alone(test, || {
        let deadlock = Runtime::new().unwrap().run(|| {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| {
                let child = thread::Builder::new().name("child");
                child.spawn(|| ONCE.call_once(|| ())).unwrap().join().unwrap();
            });
        });
        let deadlock = deadlock.unwrap_err();
        assert_eq!(deadlock.cycles().len(), 1);
        let text = deadlock.to_string();
        let expected = "waits for a one-time initialisation that is held by fiber 'main' (id 0)";
        assert!(text.contains(expected), "{text}");
    });
}

#[test]
fn reports_say_what_is_waited_for() {
    let test = "reports_say_what_is_waited_for";
    alone(test, || {
        let waits: [(&str, fn()); 6] = [
            ("waits for a notification", || {
                let (mutex, condvar) = (Mutex::new(()), Condvar::new());
                drop(condvar.wait(mutex.lock().unwrap()));
            }),
            ("waits for permits of a semaphore", || {
                drop(Semaphore::with_maximum(0, 1).acquire());
            }),
            ("waits at a barrier", || assert!(Barrier::new(2).wait().is_leader())),
            ("waits for a wait group to be done", || {
                let group = WaitGroup::new();
                group.add(1);
                group.wait();
            }),
            ("waits for a promise to be settled", || {
                let (_promise, future) = promise::<u32>();
                drop(future.get().copied());
            }),
            ("waits to lock a reentrant mutex that is held by fiber 'main' (id 0)", || {
                let mutex = ReentrantMutex::new(());
                let _held = mutex.lock();
                thread::scope(|s| drop(s.spawn(|| drop(mutex.lock()))));
            }),
        ];
        for (expected, wait) in waits {
            let deadlock = Runtime::new().unwrap().run(wait).unwrap_err();
            let text = deadlock.to_string();
            assert!(text.contains(expected), "no '{expected}' in {text}");
        }
    });
}
