//! Several carriers when things end: the runtime, a wait, a task that has not begun; while others steal,
//! sleep, panic, or know nothing of it.

mod child;
mod counted;

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use child::{child, is_emulated};
use counted::Counted;
use pirn::sync::{
    Mutex, MutexGuard, ReentrantMutexGuard, RwLockReadGuard, RwLockWriteGuard, channel,
};
use pirn::task::{self, Context, Step};
use pirn::thread::{self, Cancelled, JoinHandle, Scope, ScopedJoinHandle};
use pirn::time::{Duration, Timer};
use pirn::vm::{Vm, compile};
use pirn::{Builder, Handle, Runtime};

/// More than there are processors, often.
const CARRIERS: usize = 4;

fn runtime(carriers: usize) -> Runtime {
    Builder::new().carriers(carriers).build().unwrap()
}

/// How often something is tried that depends on who comes first.
fn rounds(many: usize) -> usize {
    if cfg!(any(pirn_asan, pirn_tsan)) || is_emulated() { many / 10 } else { many }
}

/// Runs `body` on a fiber of each carrier but the first, until main ends, which is as soon as all have
/// begun.
fn end_while_others(body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    runtime(CARRIERS)
        .run(|| {
            let all_here = Arc::new(Barrier::new(CARRIERS));
            for number in 1..CARRIERS {
                let (all_here, body) = (all_here.clone(), body.clone());
                thread::spawn(move || {
                    all_here.wait();
                    body(number);
                });
            }
            all_here.wait();
        })
        .unwrap();
}

#[test]
fn tasks_that_yield_for_ever_end_with_main_however_often_they_ask() {
    // Each question counts as a switch, and so does the end of a turn: in one of two runs with one
    // question all polls would fall on the questions.
    for (questions, once) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
        let alive = Arc::new(AtomicUsize::new(0));
        let held = alive.clone();
        end_while_others(move |_| {
            let (held, mut more) = (Counted::new(&held), once);
            task::spawn(task::from_fn(move |cx: &mut Context<'_>| -> Step<()> {
                let _held = &held;
                (0..questions + std::mem::take(&mut more)).for_each(|_| _ = cx.should_yield());
                Step::Yielded
            }));
            thread::park();
        });
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_script_that_never_waits_ends_with_main() {
    for script in [
        "int main() { long n = 0; while (true) { n += 1; } return 0; }",
        "import thread;
        void spin() { long n = 0; while (true) { n += 1; } }
        int main() { for (int i = 0; i < 3; i += 1) { thread.spawn(spin); } spin(); return 0; }",
    ] {
        end_while_others(|_| {
            let mut vm = Vm::new(&compile(script).unwrap()).unwrap();
            drop(vm.call::<i32>("main", ()));
        });
    }
}

#[test]
fn a_script_that_never_waits_is_cancelled_from_elsewhere() {
    // Its fiber runs alone on its carrier, and so never gives way.
    for body in ["n += 1;", "n += 1; thread.yield();"] {
        let source = format!(
            "import thread; int main() {{ long n = 0; while (true) {{ {body} }} return 0; }}"
        );
        let program = compile(&source).unwrap();
        runtime(2)
            .run(|| {
                let (begin, begun) = mpsc::channel();
                let script = thread::spawn(move || {
                    begin.send(()).unwrap();
                    drop(Vm::new(&program).unwrap().call::<i32>("main", ()));
                });
                begun.recv().unwrap();
                script.cancel();
                assert!(script.join().unwrap_err().is::<Cancelled>());
            })
            .unwrap();
    }
}

#[test]
fn fibers_that_wake_one_another_for_ever_end_with_main() {
    end_while_others(|_| {
        let (ping, pings) = channel::rendezvous::<u32>();
        let (pong, pongs) = channel::rendezvous::<u32>();
        thread::spawn_local(move || while pong.send(pings.recv().unwrap()).is_ok() {});
        let mut n = 0;
        while ping.send(n).is_ok() {
            n = pongs.recv().unwrap() + 1;
        }
    });
}

#[test]
fn a_fiber_that_was_woken_just_before_the_end_and_gives_way_is_unwound() {
    let alive = Arc::new(AtomicUsize::new(0));
    let woken = Arc::new(AtomicUsize::new(0));
    runtime(2)
        .run(|| {
            let (sender, receiver) = channel::bounded(1);
            let (held, woken) = (Counted::new(&alive), woken.clone());
            thread::spawn_local(move || {
                let _held = held;
                receiver.recv().unwrap();
                woken.fetch_add(1, Ordering::SeqCst);
                loop {
                    thread::yield_now();
                }
            });
            thread::yield_now();
            sender.send(()).unwrap();
        })
        .unwrap();
    assert_eq!(woken.load(Ordering::SeqCst), 1, "it goes on to where it gives way");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn main_ends_while_others_steal_and_spawn() {
    for round in 0..rounds(200) {
        let alive = Arc::new(AtomicUsize::new(0));
        fn grow(alive: Arc<AtomicUsize>, depth: usize) {
            let _held = Counted::new(&alive);
            for n in 0..3 {
                let (held, alive) = (Counted::new(&alive), alive.clone());
                thread::spawn(move || {
                    let _held = held;
                    if depth > 0 {
                        grow(alive, depth - 1);
                    }
                });
                if n == 1 {
                    thread::yield_now();
                }
            }
        }
        let inner = alive.clone();
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            runtime(CARRIERS).run(|| {
                let root = thread::spawn(move || grow(inner, 6));
                (0..round % 50).for_each(|_| thread::yield_now());
                if round % 3 == 0 {
                    panic::resume_unwind(Box::new(round));
                }
                drop(root);
            })
        }));
        match result {
            Ok(ended) => ended.unwrap(),
            Err(payload) => assert_eq!(payload.downcast_ref(), Some(&round)),
        }
        assert_eq!(alive.load(Ordering::SeqCst), 0, "round {round}");
    }
}

#[test]
fn main_ends_while_others_panic() {
    let test = "main_ends_while_others_panic";
    let panics = || {
        for _ in 0..20 {
            let alive = Arc::new(AtomicUsize::new(0));
            struct Waits;
            impl Drop for Waits {
                fn drop(&mut self) {
                    thread::yield_now();
                    thread::sleep(Duration::from_micros(50));
                }
            }
            let inner = alive.clone();
            runtime(CARRIERS)
                .run(|| {
                    for n in 0..40 {
                        let held = Counted::new(&inner);
                        thread::spawn(move || {
                            let _held = (held, Waits);
                            (0..n % 5).for_each(|_| thread::yield_now());
                            panic!("on purpose");
                        });
                    }
                    (0..10).for_each(|_| thread::yield_now());
                })
                .unwrap();
            assert_eq!(alive.load(Ordering::SeqCst), 0);
        }
    };
    if let Some(child) = child(test, "panics", &[], panics) {
        assert_eq!(child.code, Some(0), "{child:?}");
    }
}

#[test]
fn a_task_is_cancelled_before_it_has_a_place_or_runs_to_its_end() {
    for _ in 0..rounds(100) {
        let alive = Arc::new(AtomicUsize::new(0));
        let inner = alive.clone();
        runtime(CARRIERS)
            .run(move || {
                let (handles, to_cancel) = mpsc::channel::<JoinHandle<u32>>();
                // One that is no carrier.
                let canceller = std::thread::spawn(move || {
                    let handles: Vec<_> =
                        to_cancel.into_iter().inspect(JoinHandle::cancel).collect();
                    handles.into_iter().for_each(|handle| match handle.join() {
                        Ok(value) => assert_eq!(value, 7),
                        Err(payload) => assert!(payload.is::<Cancelled>()),
                    });
                });
                for n in 0..100 {
                    let held = Counted::new(&inner);
                    let fiber = thread::spawn(move || {
                        let _held = held;
                        if n % 2 == 0 {
                            thread::yield_now();
                        }
                        7
                    });
                    match n % 3 {
                        0 => handles.send(fiber).unwrap(),
                        1 => {
                            fiber.cancel();
                            match fiber.join() {
                                Ok(value) => assert_eq!(value, 7),
                                Err(payload) => assert!(payload.is::<Cancelled>()),
                            }
                        }
                        _ => fiber.cancel(),
                    }
                }
                drop(handles);
                while !canceller.is_finished() {
                    thread::yield_now();
                }
                canceller.join().unwrap();
            })
            .unwrap();
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn another_thread_cancels_while_the_runtime_ends() {
    for _ in 0..rounds(300) {
        let (handles, to_cancel) = mpsc::channel::<Vec<JoinHandle<()>>>();
        let canceller = std::thread::spawn(move || {
            let handles = to_cancel.recv().unwrap();
            handles.iter().for_each(JoinHandle::cancel);
            handles
                .into_iter()
                .for_each(|handle| assert!(handle.join().unwrap_err().is::<Cancelled>()));
        });
        runtime(2)
            .run(|| {
                let park = |_| thread::spawn(thread::park);
                handles.send((0..4).map(park).collect()).unwrap();
            })
            .unwrap();
        canceller.join().unwrap();
    }
}

#[test]
fn a_handle_outlives_its_runtime_and_is_used_meanwhile() {
    let alive = Arc::new(AtomicUsize::new(0));
    for round in 0..rounds(100) {
        let runtime = runtime(CARRIERS);
        let over = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (handle, over, alive) = (runtime.handle(), over.clone(), alive.clone());
                std::thread::spawn(move || {
                    let mut refused = 0;
                    while refused < 3 {
                        let held = Counted::new(&alive);
                        let fiber = handle.spawn(move || drop(held));
                        match fiber.join() {
                            Ok(()) => {}
                            Err(payload) => {
                                assert!(payload.is::<Cancelled>());
                                refused += 1;
                            }
                        }
                    }
                    while !over.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    assert!(handle.stats().spawned > 0);
                    assert!(handle.spawn(|| ()).join().unwrap_err().is::<Cancelled>());
                })
            })
            .collect();
        runtime.run(|| (0..round).for_each(|_| thread::yield_now())).unwrap();
        over.store(true, Ordering::SeqCst);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_runtime_and_its_handles_are_dropped_on_other_threads() {
    let alive = Arc::new(AtomicUsize::new(0));
    for _ in 0..rounds(50) {
        let runtime = runtime(CARRIERS);
        let handle = runtime.handle();
        let held = Counted::new(&alive);
        let fiber = handle.spawn(move || drop(held));
        let other = std::thread::spawn(move || drop(runtime));
        let last = std::thread::spawn(move || drop(handle));
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
        other.join().unwrap();
        last.join().unwrap();
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_fiber_of_another_runtime_can_be_joined() {
    let other = runtime(2);
    let handle = other.handle();
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        other
            .run(|| {
                while stopped.try_recv().is_err() {
                    thread::sleep(Duration::from_millis(1));
                }
            })
            .unwrap();
    });
    for carriers in [1, CARRIERS] {
        let handle = handle.clone();
        let joined = runtime(carriers).run(move || {
            // Longer than it takes to find that nothing here can go on.
            let fiber = handle.spawn(|| {
                thread::sleep(Duration::from_millis(30));
                7
            });
            drop(handle);
            fiber.join().unwrap()
        });
        assert_eq!(joined.unwrap(), 7);
    }
    stop.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_fiber_starts_a_runtime_on_another_thread() {
    let sum = runtime(CARRIERS)
        .run(|| {
            let nested = |n: u64| {
                thread::spawn(move || {
                    let other = std::thread::spawn(move || {
                        runtime(2).run(|| thread::spawn(move || n * n).join().unwrap()).unwrap()
                    });
                    other.join().unwrap()
                })
            };
            let fibers: Vec<_> = (0..8).map(nested).collect();
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<u64>()
        })
        .unwrap();
    assert_eq!(sum, (0..8).map(|n| n * n).sum());
}

/// Has an item of that name for every type, and another for those that can be sent: so naming it compiles
/// for types that cannot.
trait StaysHere<Marker> {
    const HERE: () = ();
}
impl<T: ?Sized> StaysHere<()> for T {}
struct CanBeSent;
impl<T: ?Sized + Send> StaysHere<CanBeSent> for T {}

#[test]
fn what_belongs_to_a_carrier_cannot_be_sent() {
    // All of this is settled when it compiles.
    let () = <JoinHandle<Rc<()>> as StaysHere<_>>::HERE;
    let () = <&JoinHandle<Cell<Rc<()>>> as StaysHere<_>>::HERE;
    let () = <Scope<'_, '_> as StaysHere<_>>::HERE;
    let () = <&Scope<'_, '_> as StaysHere<_>>::HERE;
    let () = <ScopedJoinHandle<'_, ()> as StaysHere<_>>::HERE;
    let () = <&ScopedJoinHandle<'_, ()> as StaysHere<_>>::HERE;
    let () = <MutexGuard<'_, ()> as StaysHere<_>>::HERE;
    let () = <ReentrantMutexGuard<'_, ()> as StaysHere<_>>::HERE;
    let () = <RwLockReadGuard<'_, ()> as StaysHere<_>>::HERE;
    let () = <RwLockWriteGuard<'_, ()> as StaysHere<_>>::HERE;
    let () = <Timer as StaysHere<_>>::HERE;
    let () = <&Timer as StaysHere<_>>::HERE;
    let () = <Context<'_> as StaysHere<_>>::HERE;
    let () = <&Context<'_> as StaysHere<_>>::HERE;
    let () = <Arc<Mutex<Rc<()>>> as StaysHere<_>>::HERE;
    // These may.
    fn can_be_sent<T: Send + Sync>() {}
    can_be_sent::<JoinHandle<u32>>();
    can_be_sent::<Handle>();
    can_be_sent::<thread::Thread>();
    can_be_sent::<Arc<Mutex<Cell<u32>>>>();
}
