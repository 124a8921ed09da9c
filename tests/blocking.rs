//! Calls that block keep only whoever makes them; see `pirn::blocking`.

mod child;

use std::cell::RefCell;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::task::Poll;

use child::{child, isolated};
use pirn::blocking::{self, blocking};
use pirn::sync::channel;
use pirn::task::{self, Context, Step};
use pirn::thread::{self, Cancelled};
use pirn::time::{Duration, Instant};
use pirn::{Builder, Runtime};

#[test]
fn other_fibers_run_while_one_waits_for_a_blocking_call() {
    pirn::run(|| {
        let (sender, receiver) = mpsc::channel();
        let waits = thread::spawn(move || blocking(move || receiver.recv().unwrap()));
        // On the same carrier: were that blocked, nobody would send.
        let sends = thread::spawn(move || sender.send(42).unwrap());
        assert_eq!(waits.join().unwrap(), 42);
        sends.join().unwrap();
    });
}

#[test]
fn a_panic_of_the_closure_goes_on_in_the_caller() {
    let caught = || {
        let call = || blocking(|| panic::resume_unwind(Box::new("no file")));
        let payload = panic::catch_unwind(call).unwrap_err();
        *payload.downcast_ref::<&str>().unwrap()
    };
    assert_eq!(pirn::run(caught), "no file");
    assert_eq!(caught(), "no file", "on an OS thread");
    let job = blocking::spawn(|| panic::resume_unwind(Box::new(7)));
    let end: std::thread::Result<()> = job.join();
    assert!(end.unwrap_err().is::<i32>());
}

#[test]
fn the_pool_grows_as_long_as_jobs_wait_for_one_another() {
    pirn::run(|| {
        let meet = Arc::new(Barrier::new(40));
        let fibers: Vec<_> = (0..40)
            .map(|_| {
                let meet = meet.clone();
                thread::spawn(move || blocking(move || meet.wait().is_leader()))
            })
            .collect();
        let leaders = fibers.into_iter().map(|fiber| fiber.join().unwrap());
        assert_eq!(leaders.filter(|&leads| leads).count(), 1);
    });
}

#[test]
fn the_pool_has_no_more_threads_than_it_may_and_serves_the_others_in_order() {
    isolated(
        "the_pool_has_no_more_threads_than_it_may_and_serves_the_others_in_order",
        &[],
        || {
            blocking::set_max_threads(NonZero::new(2).unwrap());
            let (started, starts) = mpsc::channel();
            let (finish, gate) = mpsc::channel::<()>();
            let gate = Arc::new(std::sync::Mutex::new(gate));
            let jobs: Vec<_> = (0..6)
                .map(|n| {
                    let (started, gate) = (started.clone(), gate.clone());
                    blocking::spawn(move || {
                        started.send(n).unwrap();
                        gate.lock().unwrap().recv().unwrap();
                    })
                })
                .collect();
            let mut order = vec![starts.recv().unwrap(), starts.recv().unwrap()];
            let stats = blocking::stats();
            assert_eq!((stats.threads, stats.idle, stats.queued), (2, 0, 4));
            for _ in 0..4 {
                finish.send(()).unwrap();
                order.push(starts.recv().unwrap());
                assert_eq!(blocking::stats().threads, 2);
            }
            (0..2).for_each(|_| finish.send(()).unwrap());
            jobs.into_iter().for_each(|job| job.join().unwrap());
            order[..2].sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);

            // With more to be had, those that wait get them.
            let meet = Arc::new(Barrier::new(5));
            let jobs: Vec<_> = (0..5)
                .map(|_| {
                    let meet = meet.clone();
                    blocking::spawn(move || meet.wait().is_leader())
                })
                .collect();
            blocking::set_max_threads(NonZero::new(5).unwrap());
            let leaders = jobs.into_iter().map(|job| job.join().unwrap());
            assert_eq!(leaders.filter(|&leads| leads).count(), 1);
        },
    );
}

#[test]
fn idle_threads_end_after_their_time_or_when_there_may_be_fewer() {
    isolated("idle_threads_end_after_their_time_or_when_there_may_be_fewer", &[], || {
        let meet = Arc::new(Barrier::new(8));
        let jobs: Vec<_> = (0..8)
            .map(|_| {
                let meet = meet.clone();
                blocking::spawn(move || meet.wait().is_leader())
            })
            .collect();
        let leaders = jobs.into_iter().map(|job| job.join().unwrap());
        assert_eq!(leaders.filter(|&leads| leads).count(), 1);
        blocking::drain(Duration::MAX).unwrap();
        assert_eq!((blocking::stats().threads, blocking::stats().idle), (8, 8));
        let until = |threads| {
            while blocking::stats().threads > threads {
                std::thread::yield_now();
            }
        };
        blocking::set_max_threads(NonZero::new(3).unwrap());
        until(3);
        assert_eq!(blocking::stats().threads, 3);
        blocking::set_keep_alive(Duration::from_millis(1));
        until(0);
        assert_eq!(blocking(|| 1), 1, "one is made when it is needed");
    });
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_cancelled_fiber_is_unwound_and_its_job_dropped_or_left_to_end() {
    isolated("a_cancelled_fiber_is_unwound_and_its_job_dropped_or_left_to_end", &[], || {
        blocking::set_max_threads(NonZero::new(1).unwrap());
        pirn::run(|| {
            let dropped = Arc::new(AtomicUsize::new(0));
            let (begun, begins) = mpsc::channel();
            let (finish, gate) = mpsc::channel::<()>();
            let counted = Counted(dropped.clone());
            let begun_with = thread::spawn_local(move || {
                blocking(move || {
                    begun.send(()).unwrap();
                    gate.recv().unwrap();
                    drop(counted);
                });
            });
            thread::yield_now();
            begins.recv().unwrap();
            let counted = Counted(dropped.clone());
            let queued = thread::spawn_local(move || blocking(move || drop(counted)));
            thread::yield_now();
            assert_eq!(blocking::stats().queued, 1);

            queued.cancel();
            assert!(queued.join().unwrap_err().is::<Cancelled>());
            assert_eq!(dropped.load(Ordering::SeqCst), 1, "it had not begun");
            assert_eq!(blocking::stats().queued, 0);

            begun_with.cancel();
            assert!(begun_with.join().unwrap_err().is::<Cancelled>());
            assert_eq!(dropped.load(Ordering::SeqCst), 1, "it goes on");
            finish.send(()).unwrap();
            blocking::drain(Duration::MAX).unwrap();
            assert_eq!(dropped.load(Ordering::SeqCst), 2);

            // A fiber that is cancelled already does not even ask.
            let late = thread::spawn_local(move || {
                thread::yield_now();
                blocking(|| unreachable!("the fiber was cancelled"));
            });
            late.cancel();
            assert!(late.join().unwrap_err().is::<Cancelled>());
        });
    });
}

#[test]
fn a_time_limit_ends_the_wait_and_not_the_job() {
    pirn::run(|| {
        let (done, ends) = mpsc::channel();
        // A job that no thread has begun when the time is up never will: then give it more time.
        let finish = (0..).find_map(|doublings| {
            let (finish, gate) = mpsc::channel::<()>();
            let (begun, begins) = mpsc::channel();
            let done = done.clone();
            let limited = pirn::time::timeout(Duration::from_millis(1 << doublings), || {
                blocking(move || {
                    begun.send(()).unwrap();
                    gate.recv().unwrap();
                    done.send("done").unwrap();
                });
            });
            assert!(limited.is_err());
            begins.recv().is_ok().then_some(finish)
        });
        finish.unwrap().send(()).unwrap();
        assert_eq!(blocking(move || ends.recv().unwrap()), "done");
    });
}

#[test]
fn a_job_that_was_spawned_can_be_taken_back_before_it_begins() {
    isolated("a_job_that_was_spawned_can_be_taken_back_before_it_begins", &[], || {
        blocking::set_max_threads(NonZero::new(1).unwrap());
        let (finish, gate) = mpsc::channel::<()>();
        let first = blocking::spawn(move || gate.recv().unwrap());
        assert!(!first.cancel(), "a thread has it");
        let second = blocking::spawn(|| 2);
        assert!(!first.is_finished() && !second.is_finished());
        assert!(second.cancel());
        assert!(second.is_finished() && !second.cancel(), "once");
        assert!(second.join().unwrap_err().is::<Cancelled>());
        finish.send(()).unwrap();
        first.join().unwrap();
    });
}

#[test]
fn a_task_without_a_stack_waits_for_a_job_by_polling() {
    pirn::run(|| {
        let (sender, receiver) = mpsc::channel();
        let mut job = blocking::spawn(move || receiver.recv().unwrap());
        let waits =
            task::spawn(task::from_fn(move |cx: &mut Context<'_>| match job.poll_join(cx) {
                Poll::Ready(result) => Step::Done(result.unwrap()),
                Poll::Pending => Step::Parked,
            }));
        thread::yield_now();
        sender.send("polled").unwrap();
        assert_eq!(waits.join().unwrap(), "polled");

        let awaited = task::spawn_future(async { blocking::spawn(|| "awaited").await.unwrap() });
        assert_eq!(awaited.join().unwrap(), "awaited");
    });
}

#[test]
fn a_blocking_call_of_a_task_without_a_stack_is_refused_by_name() {
    pirn::run(|| {
        let asks = task::spawn(task::from_fn(|_: &mut Context<'_>| {
            blocking(|| ());
            Step::Done(())
        }));
        let payload = asks.join().unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert!(message.contains("waits for a blocking call to return"), "{message}");
    });
}

#[test]
fn a_runtime_ends_while_a_job_is_stuck() {
    let (finish, gate) = mpsc::channel::<()>();
    let (done, ends) = mpsc::channel();
    let unwound = Arc::new(AtomicUsize::new(0));
    let counted = Counted(unwound.clone());
    pirn::run(move || {
        thread::spawn(move || {
            let _counted = counted;
            blocking(move || {
                let _ = gate.recv();
                done.send("it went on").unwrap();
            });
        });
        thread::yield_now();
    });
    assert_eq!(unwound.load(Ordering::SeqCst), 1, "its fiber was unwound");
    drop(finish);
    assert_eq!(ends.recv().unwrap(), "it went on");
}

#[test]
fn a_job_that_never_returns_does_not_keep_the_process() {
    const TEST: &str = "a_job_that_never_returns_does_not_keep_the_process";
    let ended = child(TEST, "alone", &[], || {
        pirn::run(|| {
            let mut ends = [0; 2];
            // SAFETY: there is room for two descriptors.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            let idle_input = ends[0];
            thread::spawn(move || {
                blocking(move || {
                    let mut byte = 0_u8;
                    // SAFETY: there is room for a byte.
                    unsafe { libc::read(idle_input, (&raw mut byte).cast(), 1) };
                    unreachable!("nobody writes");
                });
            });
            while blocking::stats().threads == 0 {
                thread::yield_now();
            }
            let left = blocking::drain(Duration::from_millis(1)).unwrap_err();
            assert_eq!((left.running(), left.queued()), (1, 0));
            println!("{left}");
        });
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("blocking calls: 1 have not returned, 0 have not begun"));
}

#[test]
fn a_process_that_exits_among_suspended_fibers_and_jobs_has_the_status_that_it_asked_for() {
    const TEST: &str =
        "a_process_that_exits_among_suspended_fibers_and_jobs_has_the_status_that_it_asked_for";
    for (role, by_a_fiber) in [("main", false), ("fiber", true), ("job", true)] {
        let ended = child(TEST, role, child::LEAKS, || {
            pirn::run(|| {
                (0..1_000).for_each(|_| drop(thread::spawn(thread::park)));
                thread::spawn(|| blocking(std::thread::park));
                thread::yield_now();
                if role == "job" {
                    blocking(|| std::process::exit(3));
                } else if by_a_fiber {
                    thread::spawn(|| std::process::exit(3)).join().unwrap();
                }
                std::process::exit(3);
            });
        });
        if let Some(ended) = ended {
            assert_eq!(ended.code, Some(3), "{role}: {ended:?}");
        }
    }
}

#[test]
fn a_job_that_runs_is_no_deadlock_and_threads_without_one_hide_none() {
    isolated("a_job_that_runs_is_no_deadlock_and_threads_without_one_hide_none", &[], || {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle();
        let deadlock = runtime.run(move || {
            let (sender, receiver) = channel::unbounded();
            drop(blocking::spawn(move || {
                // Not before the carrier has looked for a deadlock, and has gone to sleep.
                while handle.stats().kernel_waits == 0 {
                    std::thread::yield_now();
                }
                sender.send(1).unwrap();
                // With the handle goes the last one that might bring something.
            }));
            assert_eq!(receiver.recv(), Ok(1));
            // The pool's thread is still there.
            blocking::drain(Duration::MAX).unwrap();
            assert_eq!(blocking::stats().idle, 1);
            thread::park();
        });
        assert!(deadlock.unwrap_err().to_string().contains("is parked"));
    });
}

#[test]
fn a_job_that_waits_for_a_fiber_that_waits_for_the_job_is_a_deadlock() {
    isolated("a_job_that_waits_for_a_fiber_that_waits_for_the_job_is_a_deadlock", &[], || {
        let deadlock = Runtime::new().unwrap().run(|| {
            let (sender, receiver) = channel::unbounded::<()>();
            blocking(move || receiver.recv().unwrap());
            sender.send(()).unwrap();
        });
        let report = deadlock.unwrap_err().to_string();
        assert!(report.contains("waits for a blocking call to return"), "{report}");
    });
}

#[test]
fn virtual_time_stands_still_while_a_job_runs() {
    let runtime = Builder::new().virtual_time(true).build().unwrap();
    let handle = runtime.handle();
    let log = Rc::new(RefCell::new(Vec::new()));
    let seen = log.clone();
    runtime
        .run(move || {
            let start = Instant::now();
            let sleeper = thread::spawn_local({
                let log = log.clone();
                move || {
                    thread::sleep(Duration::from_secs(3600));
                    log.borrow_mut().push(("slept", start.elapsed().as_secs()));
                }
            });
            // Nobody waits for it.
            let detached = Arc::new(AtomicUsize::new(0));
            let counted = Counted(detached.clone());
            let other = handle.clone();
            drop(blocking::spawn(move || {
                while other.stats().kernel_waits < 2 {
                    std::thread::yield_now();
                }
                drop(counted);
            }));
            blocking(move || {
                // Not before the carrier has nothing to do but to wait.
                while handle.stats().kernel_waits == 0 {
                    std::thread::yield_now();
                }
            });
            log.borrow_mut().push(("called", start.elapsed().as_secs()));
            sleeper.join().unwrap();
            assert_eq!(detached.load(Ordering::SeqCst), 1);
        })
        .unwrap();
    assert_eq!(*seen.borrow(), [("called", 0), ("slept", 3600)]);
}

#[test]
fn virtual_time_goes_on_when_the_job_waits_for_what_time_brings() {
    isolated("virtual_time_goes_on_when_the_job_waits_for_what_time_brings", &[], || {
        let runtime = Builder::new().virtual_time(true).build().unwrap();
        runtime
            .run(|| {
                let (sender, receiver) = channel::unbounded();
                thread::spawn(move || {
                    thread::sleep(Duration::from_secs(60));
                    sender.send("a minute").unwrap();
                });
                assert_eq!(blocking(move || receiver.recv().unwrap()), "a minute");
            })
            .unwrap();
    });
}

#[test]
fn a_destructor_makes_its_call_in_place_when_its_fiber_is_ended() {
    struct CleansUp(Arc<AtomicUsize>);
    impl Drop for CleansUp {
        fn drop(&mut self) {
            let done = self.0.clone();
            blocking(move || done.fetch_add(1, Ordering::SeqCst));
        }
    }
    let done = Arc::new(AtomicUsize::new(0));
    pirn::run(|| {
        let cancelled = CleansUp(done.clone());
        let fiber = thread::spawn(move || {
            let _cancelled = cancelled;
            thread::park();
        });
        thread::yield_now();
        fiber.cancel();
        assert!(fiber.join().is_err());
        assert_eq!(done.load(Ordering::SeqCst), 1);

        // While a panic unwinds it there is time to wait.
        let panics = CleansUp(done.clone());
        let end = panic::catch_unwind(AssertUnwindSafe(move || {
            let _panics = panics;
            panic::resume_unwind(Box::new(()));
        }));
        assert!(end.is_err());
        assert_eq!(done.load(Ordering::SeqCst), 2);

        let left = CleansUp(done.clone());
        thread::spawn(move || {
            let _left = left;
            thread::park();
        });
        thread::yield_now();
        // Dropped on the loop, without ever having a fiber.
        let unborn = CleansUp(done.clone());
        thread::spawn(move || drop(unborn));
    });
    assert_eq!(done.load(Ordering::SeqCst), 4);
}

#[test]
fn a_forked_child_has_a_pool_of_its_own() {
    isolated("a_forked_child_has_a_pool_of_its_own", &[], || {
        if child::is_emulated() {
            println!("SKIPPED: the emulator lets no child of threads have threads of its own");
            return;
        }
        assert_eq!(pirn::run(|| blocking(|| 1)), 1);
        // SAFETY: what the child does is sound with one thread; it ends by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let code = pirn::run(|| blocking(|| 42));
            // SAFETY: ends this process.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42);
    });
}
