//! Carriers that are pinned to CPUs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::mem::{self, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Barrier};

use pirn::{Builder, thread};

const CARRIERS: usize = 4;

/// The CPUs that the calling thread may run on.
fn affinity() -> Vec<usize> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: there is room for the answer, and all zero is a set.
    let set = unsafe {
        let size = mem::size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, set.as_mut_ptr()), 0);
        set.assume_init()
    };
    // SAFETY: each number is within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Which carrier the calling thread is, by its name.
fn carrier() -> usize {
    let thread = std::thread::current();
    let number = thread.name().and_then(|name| name.strip_prefix("pirn-carrier-"));
    number.map_or(0, |number| number.parse().unwrap())
}

#[test]
fn each_carrier_runs_on_its_cpu_and_they_take_turns_at_few() {
    let cpus = affinity();
    let runtime = Builder::new().carriers(CARRIERS).pin_carriers(cpus.clone()).build().unwrap();
    let seen: BTreeMap<usize, Vec<usize>> = runtime
        .run(|| {
            // All are blocked until each has one.
            let all_here = Arc::new(Barrier::new(CARRIERS));
            let spawn = |_| {
                let all_here = all_here.clone();
                thread::spawn(move || {
                    all_here.wait();
                    (carrier(), affinity())
                })
            };
            let fibers: Vec<_> = (1..CARRIERS).map(spawn).collect();
            all_here.wait();
            let own = [(carrier(), affinity())];
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).chain(own).collect()
        })
        .unwrap();
    let expected = (0..CARRIERS).map(|carrier| (carrier, vec![cpus[carrier % cpus.len()]]));
    assert_eq!(seen, expected.collect());
}

#[test]
fn the_calling_thread_has_its_cpus_back_after_the_run_even_if_that_panics() {
    let before = affinity();
    let last = *before.last().unwrap();
    for panics in [false, true] {
        let runtime = Builder::new().carriers(1).pin_carriers([last]).build().unwrap();
        assert_eq!(affinity(), before, "build pins nobody");
        let main = || {
            assert_eq!(affinity(), [last]);
            if panics {
                panic::resume_unwind(Box::new("on purpose"));
            }
        };
        let result = panic::catch_unwind(AssertUnwindSafe(|| runtime.run(main)));
        assert_eq!(result.is_err(), panics);
        assert_eq!(affinity(), before);
    }
}

#[test]
fn threads_for_blocking_calls_are_not_pinned() {
    let before = affinity();
    let runtime = Builder::new().pin_carriers([before[0]]).build().unwrap();
    assert_eq!(runtime.run(|| pirn::blocking(affinity)).unwrap(), before);
}

#[test]
fn cpus_that_do_not_exist_are_refused_by_name() {
    // The first is beyond any machine, the second beyond what the system's sets hold.
    for absent in [libc::CPU_SETSIZE as usize - 1, 1 << 20] {
        let error = Builder::new().pin_carriers([affinity()[0], absent]).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("CPU {absent}: it does not exist")), "{error}");
    }
    let error = Builder::new().pin_carriers([]).build().unwrap_err();
    assert!(error.to_string().contains("no CPU was given"), "{error}");
}
