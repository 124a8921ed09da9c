//! Exhaustion is an error that names the limit, and everything goes on.

use super::super::{GuardKind, StackError, guard_kind, set_guard_kind_for_test, stats, trim};
use super::{PROTECTED, Stack, class, is_native, is_readable, isolated, mappings, name, touch};

/// Acquires until that fails.
fn exhaust(size: usize) -> (Vec<Stack>, StackError) {
    let class = class(size);
    let mut stacks = Vec::with_capacity(100_000);
    loop {
        match Stack::acquire(class) {
            Ok(stack) => stacks.push(stack),
            Err(error) => return (stacks, error),
        }
    }
}

/// After `exhaust`: ten stacks come back, ten can be had again, an eleventh cannot, and all are
/// usable.
fn goes_on(stacks: &mut Vec<Stack>, size: usize) {
    stacks.drain(..10).for_each(Stack::release);
    for _ in 0..10 {
        stacks.push(Stack::acquire(class(size)).unwrap());
    }
    assert!(Stack::acquire(class(size)).is_err());
    for stack in stacks.iter() {
        touch(stack, 64);
        assert!(!is_readable(stack.bottom().wrapping_sub(8)));
    }
}

#[test]
fn exhausted_address_space_is_an_error_that_names_the_limit() {
    isolated(name!(exhausted_address_space_is_an_error_that_names_the_limit), &[], || {
        const LIMIT: usize = 512 << 20;
        if !is_native() {
            println!("SKIPPED: an emulator does not apply RLIMIT_AS to its guest");
            return;
        }
        let limit = libc::rlimit { rlim_cur: LIMIT as _, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: lowers a limit of this process, which is a test's child.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let (mut stacks, error) = exhaust(64 << 10);
        assert!(matches!(error, StackError::AddressSpace { limit: Some(LIMIT), .. }), "{error:?}");
        assert!(
            error.to_string().contains("RLIMIT_AS") && error.to_string().contains("536870912"),
            "{error}"
        );
        // Most of what the limit allows was used, and the rest of the program can still allocate.
        assert!(stacks.len() > 3_000, "{}", stacks.len());
        drop(std::hint::black_box(vec![1u8; 2 << 20]));
        goes_on(&mut stacks, 64 << 10);
        let error = Stack::acquire(class(1 << 40)).unwrap_err();
        assert!(matches!(error, StackError::AddressSpace { limit: Some(LIMIT), .. }), "{error:?}");
        let error = std::io::Error::from(error);
        assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
        stacks.into_iter().for_each(Stack::release);
        trim();
        assert_eq!(stats().reserved, 0);
        Stack::acquire(class(100 << 20)).unwrap().release();
    });
}

#[test]
fn the_mapping_limit_is_an_error_that_names_it() {
    isolated(name!(the_mapping_limit_is_an_error_that_names_it), PROTECTED, || {
        assert_eq!(guard_kind(), GuardKind::Protected);
        let allowed = super::super::kernel::read_number(c"/proc/sys/vm/max_map_count").unwrap();
        if allowed > 1 << 18 || !is_native() {
            println!("SKIPPED: vm.max_map_count is {allowed}, or this is an emulator");
            return;
        }
        let before = mappings();
        let (mut stacks, error) = exhaust(16 << 10);
        assert!(stacks.len() > allowed / 2 - 100, "{}", stacks.len());
        assert!(
            matches!(error, StackError::Mappings { limit, .. } if limit == allowed),
            "{error:?}"
        );
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
        goes_on(&mut stacks, 16 << 10);
        stacks.into_iter().for_each(Stack::release);
        trim();
        assert!(mappings().abs_diff(before) <= 10);
        // Everything is as before, so it all works again.
        (0..100).map(|_| Stack::acquire(class(16 << 10)).unwrap()).for_each(Stack::release);
    });
}

/// Locks the memory of this process; says why not if it may not.
fn lock_memory(flags: i32) -> bool {
    // SAFETY: of this process, which is a test's child.
    let locked = is_native() && unsafe { libc::mlockall(flags) == 0 };
    if !locked {
        println!("SKIPPED: memory cannot be locked here: {}", std::io::Error::last_os_error());
    }
    locked
}

fn guarded_stacks_in_locked_memory() {
    let stacks: Vec<Stack> = (0..200).map(|_| Stack::acquire(class(16 << 10)).unwrap()).collect();
    for stack in &stacks {
        touch(stack, 1024);
        assert!(!is_readable(stack.bottom().wrapping_sub(8)));
    }
    // All of it is resident, so there should not be much more of it than is used.
    assert!(stats().reserved_bytes <= 64 << 20, "{:?}", stats());
    stacks.into_iter().for_each(Stack::release);
}

#[test]
fn in_memory_that_is_locked_from_the_start_guards_are_protected_pages() {
    isolated(
        name!(in_memory_that_is_locked_from_the_start_guards_are_protected_pages),
        &[],
        || {
            if lock_memory(libc::MCL_CURRENT | libc::MCL_FUTURE) {
                assert_eq!(guard_kind(), GuardKind::Protected);
                guarded_stacks_in_locked_memory();
            }
        },
    );
}

#[test]
fn in_memory_that_is_locked_later_guards_become_protected_pages() {
    isolated(name!(in_memory_that_is_locked_later_guards_become_protected_pages), &[], || {
        let early: Vec<Stack> = (0..3).map(|_| Stack::acquire(class(16 << 10)).unwrap()).collect();
        if lock_memory(libc::MCL_CURRENT | libc::MCL_FUTURE) {
            guarded_stacks_in_locked_memory();
            assert!(early.iter().all(|stack| !is_readable(stack.bottom().wrapping_sub(8))));
        }
    });
}

#[test]
fn a_limit_on_locked_memory_is_an_error_that_names_it() {
    isolated(name!(a_limit_on_locked_memory_is_an_error_that_names_it), &[], || {
        // SAFETY: of this process, which is a test's child. The limit holds for users without
        // privileges only, and those may lock what comes, if not what is there.
        let ready = unsafe {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit);
            limit.rlim_cur = limit.rlim_max.min(64 << 20);
            is_native()
                && libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) == 0
                && (libc::getuid() != 0 || libc::setresuid(65_534, 65_534, 65_534) == 0)
                && lock_memory(libc::MCL_FUTURE)
        };
        if !ready {
            println!("SKIPPED: this user cannot be limited in locking memory");
            return;
        }
        let (mut stacks, error) = exhaust(16 << 10);
        assert!(!stacks.is_empty());
        assert!(matches!(error, StackError::LockedMemory { .. }), "{error:?}");
        assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
        goes_on(&mut stacks, 16 << 10);
    });
}

#[test]
fn guards_can_be_forced_to_be_protected_pages_at_any_time() {
    isolated(name!(guards_can_be_forced_to_be_protected_pages_at_any_time), &[], || {
        let first = Stack::acquire(class(16 << 10)).unwrap();
        set_guard_kind_for_test(GuardKind::Protected);
        let before = mappings();
        let stacks: Vec<Stack> =
            (0..100).map(|_| Stack::acquire(class(64 << 10)).unwrap()).collect();
        assert!(mappings() >= before + 200, "each has two mappings");
        assert!(
            stacks.iter().chain([&first]).all(|stack| !is_readable(stack.bottom().wrapping_sub(8)))
        );
    });
}
