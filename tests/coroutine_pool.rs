//! The stacks that coroutines and fibers share: one owner at a time, and given back.

mod child;
mod fate;

use std::cell::Cell;
use std::hint::black_box;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::channel;

use pirn::coroutine::CoroutineState::{Return, Yield};
use pirn::coroutine::{Builder, Coroutine, Suspender};
use pirn::{stack, thread};

/// Writes its number over much of its stack, and reads it back after `pause`.
fn stamps(number: u64, pause: impl FnOnce()) {
    let stamp = black_box([number; 128]);
    pause();
    assert!(black_box(&stamp).iter().all(|&read| read == number), "somebody wrote on our stack");
}

#[test]
fn runtimes_on_many_threads_never_share_a_stack() {
    let tasks = if child::is_native() { 4_000 } else { 200 };
    let (hand_over, handles) = channel();
    let threads: Vec<_> = (0..8)
        .map(|owner: u64| {
            let hand_over = hand_over.clone();
            std::thread::spawn(move || {
                pirn::run(|| {
                    for number in 0..tasks {
                        let number = owner << 32 | number;
                        let fiber = thread::spawn_local(move || stamps(number, thread::yield_now));
                        let mut coroutine = Coroutine::new(move |s: &Suspender<(), ()>, ()| {
                            stamps(number, || s.suspend(()));
                        });
                        assert_eq!(coroutine.resume(()), Ok(Yield(())));
                        // Some fibers are joined or detached here, and some elsewhere.
                        match number % 4 {
                            0 => fiber.join().unwrap(),
                            1 => drop(fiber),
                            _ => hand_over.send(fiber).unwrap(),
                        }
                        assert_eq!(coroutine.resume(()), Ok(Return(())));
                    }
                    (0..4).for_each(|_| thread::yield_now());
                });
            })
        })
        .collect();
    drop(hand_over);
    for (number, handle) in handles.into_iter().enumerate() {
        if number % 2 == 0 {
            handle.join().unwrap();
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn touch(bytes: usize) {
    let frame = black_box([1u8; 4096]);
    if bytes > 4096 {
        touch(bytes - 4096);
    }
    black_box(&frame);
}

#[test]
fn a_burst_of_deep_coroutines_gives_its_memory_back() {
    fate::succeeds("a_burst_of_deep_coroutines_gives_its_memory_back", || {
        if !child::is_native() {
            return eprintln!("SKIPPED: figures of memory need a native build");
        }
        let burst = || -> usize {
            let mut coroutines = Vec::new();
            for _ in 0..2_000 {
                let body = |s: &Suspender<(), ()>, ()| {
                    touch(200 << 10);
                    s.suspend(());
                };
                let mut coroutine = Builder::new().stack_size(500 << 10).build(body).unwrap();
                coroutine.resume(()).unwrap();
                coroutines.push(coroutine);
            }
            assert_eq!(stack::stats().in_use, 2_000);
            child::resident_bytes()
        };
        let start = child::resident_bytes();
        assert!(burst() > start + 2_000 * (200 << 10));
        let stats = stack::stats();
        assert_eq!(stats.in_use, 0);
        assert!(stats.idle_warm_bytes <= 16 << 20, "{stats:?}");
        assert!(child::resident_bytes() < start + (32 << 20));
        stack::trim();
        assert_eq!(stack::stats().idle_warm, 0);
        assert!(child::resident_bytes() < start + (8 << 20));
    });
}

#[test]
fn a_stack_that_went_deep_is_reported_by_its_high_water_mark() {
    if fate::has_sanitizer() {
        return eprintln!("SKIPPED: the sanitizer moves locals to the heap");
    }
    let water = Rc::new(Cell::new(0));
    for bytes in [4_096, 64 << 10, 400 << 10] {
        let body = move |s: &Suspender<(), ()>, ()| {
            touch(bytes);
            s.suspend(());
        };
        let mut coroutine = Builder::new().stack_size(900 << 10).build(body).unwrap();
        coroutine.resume(()).unwrap();
        assert!(coroutine.stack_high_water() >= bytes);
        assert!(coroutine.stack_high_water() >= water.get(), "the mark is the stack's");
        water.set(coroutine.stack_high_water());
    }
}

/// Uses coroutines and fibers in all ways that leave and enter stacks.
fn exercise() {
    for round in 0..2 {
        let mut coroutines: Vec<_> = (0..500u64)
            .map(|number| {
                Coroutine::new(move |s: &Suspender<u64, u64>, input: u64| {
                    let local = Box::new([number; 10]);
                    let sum: u64 = local.iter().sum::<u64>() + s.suspend(input + round);
                    s.suspend(sum)
                })
            })
            .collect();
        for (number, coroutine) in coroutines.iter_mut().enumerate() {
            assert_eq!(coroutine.resume(1), Ok(Yield(1 + round)));
            assert_eq!(coroutine.resume(2), Ok(Yield(10 * number as u64 + 2)));
            if number % 2 == 0 {
                assert_eq!(coroutine.resume(3), Ok(Return(3)));
            }
        }
        drop(coroutines);
        stack::trim();
    }
    pirn::run(|| {
        let fibers: Vec<_> =
            (0..100).map(|n| thread::spawn(move || stamps(n, thread::yield_now))).collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
    stack::trim();
    assert_eq!(stack::stats().in_use, 0);
}

#[test]
fn valgrind_finds_nothing_to_object_to() {
    const ON_VALGRIND: &str = "PIRN_TEST_ON_VALGRIND";
    if std::env::var_os(ON_VALGRIND).is_some() {
        return exercise();
    }
    // It does not know AVX-512.
    let known = child::is_native() && !cfg!(target_feature = "avx512f");
    let usable = known && Command::new("valgrind").arg("--version").output().is_ok();
    if !usable {
        return eprintln!("SKIPPED: this needs valgrind and a native build");
    }
    let mut command = Command::new("valgrind");
    command.args(["--error-exitcode=9", "--quiet"]).arg(std::env::current_exe().unwrap());
    command.args(["valgrind_finds_nothing_to_object_to", "--exact", "--test-threads=1"]);
    let output = command.env(ON_VALGRIND, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(!text.contains("client switching stacks"), "{text}");
}
