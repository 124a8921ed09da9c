//! When stacks run out that is an error that names the limit, and everything goes on.

mod child;

use std::io;

use child::{is_native, isolated};
use pirn::stack::{GuardKind, guard_kind};
use pirn::thread::{self, JoinHandle};

/// Limits and mappings are counted here, of which every further thread has some.
const ONE_CARRIER: (&str, &str) = ("PIRN_CARRIERS", "1");

/// A fiber that is suspended on a stack of this size.
fn suspended(size: usize) -> io::Result<JoinHandle<()>> {
    let child = thread::Builder::new().stack_size(size).spawn(thread::park)?;
    // It finds a stack when it first runs, which is now.
    thread::yield_now();
    Ok(child)
}

/// Suspended fibers, until no more can be had or there are so many.
fn exhaust(size: usize, most: usize) -> (Vec<JoinHandle<()>>, Option<io::Error>) {
    let mut children = Vec::with_capacity(most);
    while children.len() < most {
        match suspended(size) {
            Ok(child) => children.push(child),
            Err(error) => return (children, Some(error)),
        }
    }
    (children, None)
}

/// Lets fibers end.
fn release(children: impl Iterator<Item = JoinHandle<()>>) {
    for child in children {
        child.thread().unpark();
        child.join().unwrap();
    }
}

/// After `exhaust`: when ten have ended spawning works again, and those that were there go on.
fn goes_on(mut children: Vec<JoinHandle<()>>, size: usize) {
    // The last one was spawned, and found no stack: it waits for one.
    let waiting = children.pop().unwrap();
    let state = |fiber: &JoinHandle<()>| {
        let id = fiber.thread().id();
        pirn::fibers(false).iter().find(|fiber| fiber.id() == id).unwrap().state().to_owned()
    };
    assert_eq!(state(&waiting), "waits for a stack");
    release(children.drain(..10));
    thread::yield_now();
    assert_eq!(state(&waiting), "is parked until somebody unparks it");
    children.extend((0..5).map(|_| suspended(size).unwrap()));
    children.push(waiting);
    assert!(children.iter().all(|child| !child.is_finished()));
    release(children.into_iter());
}

#[cfg(target_pointer_width = "64")]
#[test]
fn an_exhausted_address_space_fails_a_spawn_with_the_limit_and_no_more() {
    let test = "an_exhausted_address_space_fails_a_spawn_with_the_limit_and_no_more";
    isolated(test, &[ONE_CARRIER], || {
        if !is_native() {
            println!("SKIPPED: emulators and sanitizers do not live within RLIMIT_AS");
            return;
        }
        let limit = libc::rlimit { rlim_cur: 512 << 20, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: lowers a limit of this process, which is a test's child.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        pirn::run(|| {
            let (children, error) = exhaust(64 << 10, 100_000);
            let error = error.expect("512 MiB do not hold 100,000 stacks");
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
            let text = error.to_string();
            assert!(text.contains("RLIMIT_AS") && text.contains("536870912"), "{text}");
            assert!(children.len() > 3_000, "{}", children.len());
            let caught = std::panic::catch_unwind(|| drop(thread::spawn(|| ()))).unwrap_err();
            let caught = caught.downcast::<String>().unwrap();
            assert!(caught.starts_with("failed to spawn a fiber: cannot create a stack"));
            goes_on(children, 64 << 10);
        });
    });
}

#[test]
fn a_stack_that_never_fits_keeps_nobody_else_from_spawning() {
    let test = "a_stack_that_never_fits_keeps_nobody_else_from_spawning";
    isolated(test, &[ONE_CARRIER], || {
        if !is_native() {
            println!("SKIPPED: emulators and sanitizers do not live within RLIMIT_AS");
            return;
        }
        let limit = libc::rlimit { rlim_cur: 512 << 20, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: lowers a limit of this process, which is a test's child.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        pirn::run(|| {
            const TERABYTE: usize = 1 << 40;
            let first = suspended(TERABYTE).unwrap();
            let error = suspended(TERABYTE).unwrap_err();
            // Stacks are at least as large as was asked for.
            let size = error.to_string().split(' ').find_map(|word| word.parse::<usize>().ok());
            assert!(size.is_some_and(|size| size >= TERABYTE), "{error}");
            assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
            // Ordinary stacks are to be had.
            for _ in 0..100 {
                thread::Builder::new().spawn(thread::yield_now).unwrap().join().unwrap();
            }
            assert!(!first.is_finished());
        });
    });
}

/// How many mappings the process has.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn exhausted_mappings_fail_a_spawn_with_the_limit_and_come_back() {
    let test = "exhausted_mappings_fail_a_spawn_with_the_limit_and_come_back";
    isolated(test, &[ONE_CARRIER, ("PIRN_GUARD", "mprotect")], || {
        assert_eq!(guard_kind(), GuardKind::Protected);
        let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(usize::MAX);
        if !is_native() || limit > 200_000 {
            println!("SKIPPED: vm.max_map_count is {limit}, or does not count our mappings alone");
            return;
        }
        let before = mappings();
        pirn::run(|| {
            let (children, error) = exhaust(16 << 10, 100_000);
            let text = error.expect("two mappings a stack exceed the limit").to_string();
            assert!(text.contains("vm.max_map_count allows"), "{text}");
            assert!(text.contains(&limit.to_string()), "{text}");
            assert!(children.len() > limit / 2 - 1_000, "{}", children.len());
            goes_on(children, 16 << 10);
        });
        pirn::stack::trim();
        let after = mappings();
        assert!(after <= before + 10, "{before} mappings before, {after} after");
    });
}

/// So many suspended fibers with light guards.
fn suspended_with_light_guards(test: &str, count: usize) {
    isolated(test, &[ONE_CARRIER], || {
        if guard_kind() != GuardKind::Light || !is_native() {
            println!("SKIPPED: the kernel has no light guards, or the program is not alone");
            return;
        }
        let before = mappings();
        pirn::run(|| {
            let (children, error) = exhaust(16 << 10, count);
            assert!(error.is_none(), "{error:?} after {}", children.len());
            release(children.into_iter());
        });
        pirn::stack::trim();
        let after = mappings();
        assert!(after <= before + 10, "{before} mappings before, {after} after");
    });
}

#[test]
fn more_fibers_than_the_kernel_has_mappings_for_are_suspended_at_once() {
    let test = "more_fibers_than_the_kernel_has_mappings_for_are_suspended_at_once";
    suspended_with_light_guards(test, 40_000);
}

#[test]
#[ignore = "takes a gigabyte: the same, with as many as the case asks"]
fn a_hundred_thousand_fibers_are_suspended_at_once() {
    suspended_with_light_guards("a_hundred_thousand_fibers_are_suspended_at_once", 100_000);
}

#[test]
fn a_suspended_fiber_has_two_resident_pages_and_none_at_the_low_end() {
    use std::cell::RefCell;
    use std::os::unix::fs::FileExt;
    use std::rc::Rc;

    const FIBERS: usize = 10_000;
    const STACK: usize = 64 << 10;
    let test = "a_suspended_fiber_has_two_resident_pages_and_none_at_the_low_end";
    isolated(test, &[ONE_CARRIER], || {
        if !is_native() {
            println!("SKIPPED: emulators and sanitizers touch memory of their own");
            return;
        }
        // SAFETY: always possible.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        pirn::run(|| {
            let places = Rc::new(RefCell::new(Vec::with_capacity(FIBERS)));
            for _ in 0..FIBERS {
                let places = places.clone();
                let builder = thread::Builder::new().stack_size(STACK);
                builder
                    .spawn_local(move || {
                        let local = std::hint::black_box([0u8; 256]);
                        places.borrow_mut().push((&raw const local).addr());
                        thread::park();
                    })
                    .unwrap();
            }
            thread::yield_now();
            let places = places.borrow();
            assert_eq!(places.len(), FIBERS);
            let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
            // Bit 63: present.
            let resident = |at: usize| {
                let mut entry = [0; 8];
                pagemap.read_exact_at(&mut entry, (at / page * 8) as u64).unwrap();
                u64::from_ne_bytes(entry) >> 63 == 1
            };
            let (mut total, mut low) = (0, 0);
            for &place in places.iter() {
                // The local lies a little below the top; a page above it is the stack's at most.
                let pages = (STACK / page) as isize - 2;
                let near =
                    (-1..4).filter(|&n| resident(place.wrapping_add_signed(-n * page as isize)));
                total += near.count();
                low += (4..pages).filter(|&n| resident(place - n as usize * page)).count();
            }
            assert_eq!(low, 0, "pages at the low ends");
            // Frames of a debug build are larger.
            let most = if cfg!(debug_assertions) { 3 } else { 2 };
            assert!(total <= most * FIBERS, "{total} pages of {FIBERS} fibers");
            println!("{total} pages of {FIBERS} fibers");
        });
    });
}
