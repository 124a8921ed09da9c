//! Several carriers: who runs where, that nothing is lost between them, and how they end.
//!
//! Whether something runs elsewhere is shown by blocking an OS thread until it has happened, never by
//! time.

mod child;
mod counted;

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use child::{child, is_emulated, isolated};
use counted::Counted;
use pirn::net::{TcpListener, TcpStream};
use pirn::sync::{Mutex, Semaphore, channel};
use pirn::thread::{self, Cancelled, JoinHandle};
use pirn::time::Duration;
use pirn::{Builder, Runtime};

/// More than there are processors, often.
const CARRIERS: usize = 4;

fn runtime(carriers: usize) -> Runtime {
    Builder::new().carriers(carriers).build().unwrap()
}

fn run<T>(main: impl FnOnce() -> T) -> T {
    runtime(CARRIERS).run(main).unwrap()
}

/// Starts a fiber on each carrier but the first, and returns when all have begun; the calling thread
/// is blocked until then, so that none is begun there.
fn one_on_each<T: Send + 'static>(
    body: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<JoinHandle<T>> {
    let all_here = Arc::new(Barrier::new(CARRIERS));
    let body = Arc::new(body);
    let spawn = |number| {
        let (all_here, body) = (all_here.clone(), body.clone());
        thread::spawn(move || {
            all_here.wait();
            body(number)
        })
    };
    let fibers = (1..CARRIERS).map(spawn).collect();
    all_here.wait();
    fibers
}

#[test]
fn every_fiber_runs_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let sum = run(|| {
        let spawn = |n: usize| {
            let count = count.clone();
            thread::spawn(move || {
                count.fetch_add(1, Ordering::Relaxed);
                n
            })
        };
        let fibers: Vec<_> = (0..10_000).map(spawn).collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<usize>()
    });
    assert_eq!((count.load(Ordering::Relaxed), sum), (10_000, 10_000 * 9_999 / 2));
}

#[test]
fn a_fiber_is_begun_elsewhere_while_its_parent_blocks_its_thread() {
    let name = run(|| {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(std::thread::current().name().map(String::from)));
        receiver.recv().unwrap()
    });
    let name = name.expect("carriers are named");
    assert!(name.starts_with("pirn-carrier-"), "{name}");
}

#[test]
fn each_carrier_runs_a_fiber_at_the_same_time() {
    let here = std::thread::current().id();
    let threads = run(|| {
        let fibers = one_on_each(|_| std::thread::current().id());
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect::<Vec<_>>()
    });
    let mut names: Vec<_> = threads.iter().map(|id| format!("{id:?}")).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), CARRIERS - 1);
    assert!(!threads.contains(&here));
}

#[test]
fn a_fiber_that_has_begun_stays_on_its_thread() {
    run(|| {
        let stay = |n: u64| {
            thread::spawn(move || {
                let home = std::thread::current().id();
                for round in 0..50 {
                    match (n + round) % 3 {
                        0 => thread::yield_now(),
                        1 => thread::sleep(Duration::from_micros(n)),
                        _ => thread::spawn(thread::yield_now).join().unwrap(),
                    }
                    assert_eq!(std::thread::current().id(), home);
                }
            })
        };
        let fibers: Vec<_> = (0..40).map(stay).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn what_cannot_be_sent_runs_on_the_carrier_of_its_parent() {
    let here = std::thread::current().id();
    run(|| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let spawn = |_| {
            let seen = seen.clone();
            thread::spawn_local(move || seen.borrow_mut().push(std::thread::current().id()))
        };
        let fibers: Vec<_> = (0..100).map(spawn).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(*seen.borrow(), vec![here; 100]);
        for fiber in one_on_each(|_| {
            let home = std::thread::current().id();
            let children = [(); 10].map(|()| thread::spawn_local(|| std::thread::current().id()));
            children.into_iter().for_each(|child| assert_eq!(child.join().unwrap(), home));
            thread::scope(|scope| {
                let child = scope.spawn(|| assert_eq!(std::thread::current().id(), home));
                child.join().unwrap();
            });
        }) {
            fiber.join().unwrap();
        }
    });
}

#[test]
fn values_cross_between_carriers_in_order() {
    run(|| {
        let (ping, pings) = channel::rendezvous();
        let (pong, pongs) = channel::rendezvous();
        let fibers = one_on_each(move |number| {
            if number == 1 {
                for n in 0..5_000 {
                    assert_eq!(pings.recv(), Ok(n));
                    pong.send(n).unwrap();
                }
            }
        });
        for n in 0..5_000 {
            ping.send(n).unwrap();
            assert_eq!(pongs.recv(), Ok(n));
        }
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_mutex_excludes_fibers_of_other_carriers() {
    let total = run(|| {
        let total = Arc::new(Mutex::new(0));
        let shared = total.clone();
        let fibers = one_on_each(move |_| {
            let shared = shared.clone();
            let add = move || {
                for round in 0..1_000 {
                    let mut total = shared.lock().unwrap();
                    let before = *total;
                    if round % 50 == 0 {
                        thread::yield_now();
                    }
                    *total = before + 1;
                }
            };
            let children = [(); 3].map(|()| thread::spawn(add.clone()));
            children.into_iter().for_each(|child| child.join().unwrap());
        });
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        *total.lock().unwrap()
    });
    assert_eq!(total, (CARRIERS - 1) * 3 * 1_000);
}

#[test]
fn timers_fire_on_every_carrier() {
    run(|| {
        let fibers = one_on_each(|n| {
            let start = pirn::time::Instant::now();
            thread::sleep(Duration::from_millis(n as u64));
            start.elapsed() >= Duration::from_millis(n as u64)
        });
        assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap()));
        // One on the first carrier, which woke up for others meanwhile.
        thread::sleep(Duration::from_millis(1));
    });
}

#[test]
fn sockets_are_served_wherever_their_fiber_was_begun() {
    run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            for _ in 0..40 {
                let (mut stream, _) = listener.accept().unwrap();
                thread::spawn(move || {
                    let mut bytes = [0; 8];
                    while stream.read_exact(&mut bytes).is_ok() {
                        stream.write_all(&bytes).unwrap();
                    }
                });
            }
        });
        let client = |n: u64| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for round in 0..20 {
                    let sent = (n << 32 | round).to_le_bytes();
                    stream.write_all(&sent).unwrap();
                    let mut back = [0; 8];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, sent);
                }
            })
        };
        let clients: Vec<_> = (0..40).map(client).collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

#[test]
fn other_threads_bring_work_to_whoever_is_free() {
    let runtime = runtime(CARRIERS);
    let handle = runtime.handle();
    let early = handle.spawn(|| std::thread::current().name().map(String::from));
    let (begin, begun) = mpsc::channel();
    let other = std::thread::spawn(move || {
        begun.recv().unwrap();
        (0..100).map(|n| handle.spawn(move || n).join().unwrap()).sum::<i32>()
    });
    runtime
        .run(|| {
            begin.send(()).unwrap();
            // The first carrier is kept from doing any of it.
            assert_eq!(other.join().unwrap(), 4_950);
            let name = early.join().unwrap().expect("carriers are named");
            assert!(name.starts_with("pirn-carrier-"), "{name}");
        })
        .unwrap();
}

#[test]
fn work_for_a_runtime_that_never_runs_is_dropped() {
    let runtime = runtime(2);
    let handle = runtime.handle();
    let count = Arc::new(AtomicUsize::new(0));
    let held = Counted::new(&count);
    let fiber = handle.spawn(move || drop(held));
    drop(runtime);
    assert!(fiber.join().unwrap_err().is::<Cancelled>());
    assert!(handle.spawn(|| ()).join().unwrap_err().is::<Cancelled>());
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn when_main_returns_all_others_are_unwound_wherever_they_are() {
    let count = Arc::new(AtomicUsize::new(0));
    let begun = Arc::new(AtomicUsize::new(0));
    run(|| {
        let (inner_count, inner_begun) = (count.clone(), begun.clone());
        let fibers = one_on_each(move |number| {
            let held = Counted::new(&inner_count);
            // Never begun, maybe; or in the middle of anything.
            for n in 0..20 {
                let (held, begun) = (Counted::new(&inner_count), inner_begun.clone());
                thread::spawn(move || {
                    let _held = held;
                    begun.fetch_add(1, Ordering::SeqCst);
                    match n % 3 {
                        0 => thread::park(),
                        1 => thread::sleep(Duration::MAX),
                        _ => loop {
                            thread::yield_now();
                        },
                    }
                });
            }
            thread::scope(|scope| {
                let _held = held;
                scope.spawn(|| {
                    let _held = Counted::new(&inner_count);
                    thread::park();
                });
                if number == 1 {
                    loop {
                        thread::yield_now();
                    }
                }
            });
        });
        drop(fibers);
        while begun.load(Ordering::SeqCst) < 10 {
            thread::yield_now();
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_panic_of_main_ends_all_carriers() {
    let count = Arc::new(AtomicUsize::new(0));
    let inner = count.clone();
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        run(|| {
            let fibers = one_on_each(move |_| {
                let _held = Counted::new(&inner);
                thread::park();
            });
            drop(fibers);
            panic::resume_unwind(Box::new("the end"));
        })
    }));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"the end"));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_runtime_ends_while_others_still_begin() {
    // No one waits for anything: the end meets carriers that start, search and go to sleep.
    for n in 0..100 {
        let count = Arc::new(AtomicUsize::new(0));
        run(|| {
            for _ in 0..n % 8 {
                let held = Counted::new(&count);
                thread::spawn(move || drop(held));
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_fiber_is_cancelled_wherever_it_is() {
    run(|| {
        // Running elsewhere, and waiting there.
        let count = Arc::new(AtomicUsize::new(0));
        let held = count.clone();
        let fibers = one_on_each(move |_| {
            let _held = Counted::new(&held);
            thread::park();
        });
        fibers.iter().for_each(|fiber| fiber.cancel());
        for fiber in fibers {
            assert!(fiber.join().unwrap_err().is::<Cancelled>());
        }
        assert_eq!(count.load(Ordering::SeqCst), 0);
        // Not begun, since all carriers are busy.
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let busy = one_on_each(move |_| {
            while !until.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        let held = Counted::new(&count);
        let never = thread::spawn(move || {
            let _held = held;
            unreachable!("it was cancelled before it could begin");
        });
        never.cancel();
        over.store(true, Ordering::SeqCst);
        assert!(never.join().unwrap_err().is::<Cancelled>());
        assert_eq!(count.load(Ordering::SeqCst), 0);
        busy.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn a_panic_is_the_result_of_its_fiber_on_any_carrier() {
    run(|| {
        for (number, fiber) in one_on_each(|n| {
            if n > 1 {
                panic::resume_unwind(Box::new(n));
            }
        })
        .into_iter()
        .enumerate()
        {
            match number {
                0 => fiber.join().unwrap(),
                n => assert_eq!(fiber.join().unwrap_err().downcast_ref(), Some(&(n + 1))),
            }
        }
    });
}

#[test]
fn runtimes_with_several_carriers_talk_to_each_other() {
    let (sender, receiver) = channel::bounded(4);
    let (back, answers) = channel::rendezvous();
    let other = std::thread::spawn(move || {
        run(|| {
            let fibers = one_on_each(move |_| {
                while let Ok(n) = receiver.recv() {
                    back.send(n * 2).unwrap();
                }
            });
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
    let sum = run(|| {
        let fibers = one_on_each(move |number| {
            (0..100).for_each(|n| sender.send(n * 10 + number as u64).unwrap());
        });
        let sum: u64 = (0..300).map(|_| answers.recv().unwrap()).sum();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        sum
    });
    other.join().unwrap();
    assert_eq!(sum, 2 * (3 * 10 * 4_950 + 100 * (1 + 2 + 3)));
}

#[test]
fn a_runtime_within_a_carrier_is_refused() {
    let messages = run(|| {
        let fibers = one_on_each(|_| {
            let nested = panic::catch_unwind(|| run(|| ()));
            *nested.unwrap_err().downcast::<&str>().unwrap()
        });
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(messages.iter().all(|text| text.contains("cannot be started within another one")));
}

#[test]
fn the_list_of_fibers_is_that_of_all_carriers() {
    run(|| {
        let fibers = one_on_each(|number| {
            let me = thread::Builder::new().name(format!("child {number}"));
            let child = me.spawn_local(thread::park).unwrap();
            thread::yield_now();
            let backtraces = pirn::fibers(true);
            let own = format!("child {number}");
            assert!(backtraces.iter().any(|fiber| fiber.name() == Some(&own)));
            thread::park();
            child.thread().unpark();
            child.join().unwrap();
        });
        while pirn::fibers(false).len() < 2 * CARRIERS - 1 {
            thread::yield_now();
        }
        let list = pirn::fibers(true);
        let mut names: Vec<_> = list.iter().filter_map(|fiber| fiber.name()).collect();
        names.sort();
        assert_eq!(names, ["child 1", "child 2", "child 3", "main"]);
        assert!(list.is_sorted_by_key(|fiber| fiber.id()));
        assert_eq!(list[0].state(), "is running");
        fibers.iter().for_each(|fiber| fiber.thread().unpark());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn fibers_of_several_carriers_that_all_wait_for_one_another_are_a_deadlock() {
    let test = "fibers_of_several_carriers_that_all_wait_for_one_another_are_a_deadlock";
    isolated(test, &[], || {
        let dropped = Arc::new(AtomicUsize::new(0));
        let held = dropped.clone();
        let deadlock = runtime(CARRIERS).run(|| {
            // Each joins the next, and main joins the first.
            let handles: Vec<(mpsc::Sender<JoinHandle<()>>, JoinHandle<()>)> = {
                let (senders, receivers): (Vec<_>, Vec<_>) =
                    (1..CARRIERS).map(|_| mpsc::channel::<JoinHandle<()>>()).unzip();
                let receivers = std::sync::Mutex::new(receivers.into_iter().map(Some).collect());
                let receivers: Arc<std::sync::Mutex<Vec<_>>> = Arc::new(receivers);
                let fibers = one_on_each(move |number| {
                    let _held = Counted::new(&held);
                    let next: Option<mpsc::Receiver<JoinHandle<()>>> =
                        receivers.lock().unwrap()[number - 1].take();
                    next.unwrap().recv().unwrap().join().unwrap();
                });
                senders.into_iter().zip(fibers).collect()
            };
            let (senders, mut fibers): (Vec<_>, Vec<_>) = handles.into_iter().unzip();
            fibers.rotate_left(1);
            for (sender, next) in senders.iter().zip(fibers) {
                sender.send(next).unwrap();
            }
            thread::spawn_local(|| thread::sleep(Duration::MAX)).join().unwrap();
        });
        let deadlock = deadlock.expect_err("nobody can go on");
        assert_eq!(deadlock.fibers().len(), CARRIERS + 1);
        assert_eq!(deadlock.cycles().len(), 1, "{deadlock}");
        assert_eq!(deadlock.cycles()[0].len(), CARRIERS - 1, "{deadlock}");
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn parked_fibers_that_nobody_has_a_handle_to_are_a_deadlock() {
    // While this very test's threads, and those of other tests, do anything.
    let deadlock = runtime(CARRIERS).run(|| {
        let fibers = one_on_each(|_| {
            thread::spawn_local(thread::park);
            thread::park();
        });
        fibers.into_iter().for_each(|fiber| drop(fiber.join()));
    });
    assert_eq!(deadlock.unwrap_err().fibers().len(), 1 + 2 * (CARRIERS - 1));
}

#[test]
fn locks_in_opposite_orders_on_different_carriers_are_a_deadlock() {
    let test = "locks_in_opposite_orders_on_different_carriers_are_a_deadlock";
    isolated(test, &[], || {
        if is_emulated() || cfg!(pirn_tsan) {
            // Whether other threads sleep for good cannot be known: a race detector has one that does not.
            println!("SKIPPED: the emulator, or a thread of the race detector, hides who sleeps");
            return;
        }
        static LOCKS: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
        static BOTH_HOLD_ONE: Barrier = Barrier::new(2);
        let deadlock = runtime(CARRIERS).run(|| {
            let fibers = one_on_each(|number| {
                if number < 3 {
                    let _first = LOCKS[number - 1].lock().unwrap();
                    BOTH_HOLD_ONE.wait();
                    let _second = LOCKS[2 - number].lock();
                }
            });
            while pirn::find_deadlock().is_none() {
                thread::yield_now();
            }
            fibers.into_iter().for_each(|fiber| drop(fiber.join()));
        });
        let deadlock = deadlock.expect_err("two of them cannot go on");
        assert_eq!(deadlock.cycles().len(), 1, "{deadlock}");
        assert_eq!(deadlock.cycles()[0].len(), 2, "{deadlock}");
        let text = deadlock.to_string();
        assert_eq!(text.matches("that is held by fiber (id ").count(), 2, "{text}");
    });
}

#[test]
fn a_wait_that_another_thread_can_end_is_no_deadlock() {
    let (sender, receiver) = channel::rendezvous::<u32>();
    let (begin, begun) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        begun.recv().unwrap();
        // Longer than it takes all carriers to find nothing to do.
        std::thread::sleep(Duration::from_millis(20));
        sender.send(7).unwrap();
    });
    let received = run(|| {
        let fibers = one_on_each(|_| ());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        begin.send(()).unwrap();
        receiver.recv()
    });
    assert_eq!(received, Ok(7));
    other.join().unwrap();
}

#[test]
fn the_watchdog_and_the_panic_hook_name_the_carrier() {
    let test = "the_watchdog_and_the_panic_hook_name_the_carrier";
    let stuck = || {
        let runtime = Builder::new().carriers(2).watchdog(Duration::from_millis(20));
        let runtime = runtime.build().unwrap();
        let handle = runtime.handle();
        let result = runtime.run(|| {
            let (sender, receiver) = mpsc::channel();
            let sitter = thread::spawn(move || {
                // Until it has been reported.
                while handle.stats().stalls == 0 {
                    std::hint::spin_loop();
                }
                sender.send(()).unwrap();
                panic!("on purpose");
            });
            receiver.recv().unwrap();
            sitter.join().is_err()
        });
        assert!(result.unwrap());
    };
    if let Some(child) = child(test, "stuck", &[], stuck) {
        assert_eq!(child.code, Some(0), "{child:?}");
        let says = |text| assert!(child.err.contains(text), "{text} is missing: {child:?}");
        says("has not given way to the scheduler of carrier 1");
        says("panicked on carrier 1:");
    }
}

#[test]
fn the_number_of_carriers_is_checked() {
    let refused = |builder: Builder, why: &str| {
        let error = builder.build().map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(Builder::new().carriers(0), "1 to 56");
    refused(Builder::new().carriers(57), "1 to 56");
    refused(Builder::new().carriers(2).seed(1), "a seed");
    refused(Builder::new().virtual_time(true).carriers(2), "virtual time");
    assert!(Builder::new().carriers(1).seed(1).build().is_ok());
    assert_eq!(runtime(56).run(|| 7).unwrap(), 7);
}

#[test]
fn the_environment_says_how_many_carriers_there_are_by_default() {
    let test = "the_environment_says_how_many_carriers_there_are_by_default";
    let elsewhere = || {
        pirn::run(|| {
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || sender.send(()));
            // With one carrier this would be for ever.
            receiver.recv().unwrap();
        });
        assert!(Builder::new().seed(1).build().is_ok());
    };
    if let Some(child) = child(test, "two", &[("PIRN_CARRIERS", "2")], elsewhere) {
        assert_eq!(child.code, Some(0), "{child:?}");
    }
    let refused = || {
        let error = Runtime::new().map(drop).unwrap_err();
        assert!(error.to_string().contains("PIRN_CARRIERS"), "{error}");
    };
    if let Some(child) = child(test, "many", &[("PIRN_CARRIERS", "many")], refused) {
        assert_eq!(child.code, Some(0), "{child:?}");
    }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the fibers of the stress test share.
struct Shared {
    alive: Arc<AtomicUsize>,
    total: Mutex<u64>,
    permits: Semaphore,
}

/// Does a few things at random, and spawns others that do.
fn disturb(shared: Arc<Shared>, mut seed: u64, depth: u32) -> u64 {
    let _held = Counted::new(&shared.alive);
    let mut children = Vec::new();
    let mut done = 0;
    for _ in 0..next(&mut seed) % 6 {
        let draw = next(&mut seed);
        match draw % 8 {
            0..=2 if depth > 0 => {
                let (shared, seed) = (shared.clone(), draw);
                children.push(thread::spawn(move || disturb(shared, seed, depth - 1)));
            }
            3 => {
                let (sender, receiver) = channel::bounded(draw as usize >> 3 & 1);
                let receiver = thread::spawn(move || receiver.recv());
                sender.send(draw).unwrap();
                assert_eq!(receiver.join().unwrap(), Ok(draw));
            }
            4 => {
                let mut total = shared.total.lock().unwrap();
                thread::yield_now();
                *total += 1;
                done += 1;
            }
            5 => {
                let _permit = shared.permits.acquire();
                thread::sleep(Duration::from_nanos(draw % 20_000));
            }
            6 => {
                let alive = shared.alive.clone();
                let sleeper = thread::spawn(move || {
                    let _held = Counted::new(&alive);
                    thread::sleep(Duration::MAX);
                });
                if draw & 64 != 0 {
                    thread::yield_now();
                }
                sleeper.cancel();
                assert!(sleeper.join().unwrap_err().is::<Cancelled>());
            }
            _ => {
                let local = Rc::new(draw);
                let inner = local.clone();
                assert_eq!(thread::spawn_local(move || *inner).join().unwrap(), *local);
            }
        }
    }
    done + children.into_iter().map(|child| child.join().unwrap()).sum::<u64>()
}

#[test]
fn nothing_is_lost_between_more_carriers_than_processors() {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let rounds = if cfg!(any(pirn_asan, pirn_tsan)) || is_emulated() { 5 } else { 30 };
    for round in 0..rounds {
        let alive = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            alive: alive.clone(),
            total: Mutex::new(0),
            permits: Semaphore::new(3),
        });
        let (done, total) = runtime(processors * 2)
            .run(|| {
                let spawn = |n| {
                    let shared = shared.clone();
                    thread::spawn(move || disturb(shared, n, 5))
                };
                let fibers: Vec<_> = (round * 100..round * 100 + 20).map(spawn).collect();
                let done: u64 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
                let total = *shared.total.lock().unwrap();
                (done, total)
            })
            .unwrap();
        assert_eq!(done, total, "round {round}");
        assert_eq!(alive.load(Ordering::SeqCst), 0, "round {round}");
    }
}
