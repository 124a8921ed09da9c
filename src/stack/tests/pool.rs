//! Reuse, bounds of what is kept, and that nobody shares a stack.

use std::collections::HashSet;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{
    GuardKind, Occupant, StackConfig, bounds_at, guard_kind, occupant_at, stats, trim,
};
use super::{
    PROTECTED, Stack, class, is_native, is_readable, isolated, mappings, name, resident_bytes,
    touch,
};

/// Both ways to make guards; the first is whatever the machine has.
const BOTH: [&[(&str, &str)]; 2] = [&[], PROTECTED];

/// How much may stay resident. An emulator's own memory counts as ours, and so do a sanitizer's
/// notes on what we touch.
fn allowance(bytes: usize) -> usize {
    if is_native() {
        bytes
    } else {
        bytes + (24 << 20) + if cfg!(any(pirn_asan, pirn_tsan)) { 400 << 20 } else { 0 }
    }
}

fn acquire(count: usize, size: usize) -> Vec<Stack> {
    let class = class(size);
    (0..count).map(|_| Stack::acquire(class).unwrap()).collect()
}

#[test]
fn the_stack_released_last_is_reused_first() {
    let stacks = acquire(3, 16 << 10);
    let tops: Vec<_> = stacks.iter().map(Stack::top).collect();
    stacks.into_iter().for_each(Stack::release);
    for &top in tops.iter().rev() {
        assert_eq!(Stack::acquire(class(16 << 10)).unwrap().top(), top);
    }
}

#[test]
fn two_thousand_stacks_are_all_different_and_usable() {
    let stacks = acquire(2_000, 16 << 10);
    let mut slots = HashSet::new();
    for stack in &stacks {
        assert!(slots.insert(bounds_at(stack.bottom().addr()).unwrap().start));
        touch(stack, 1024);
    }
    stacks.into_iter().for_each(Stack::release);
}

#[test]
fn guards_stay_when_pages_are_given_back_and_when_stacks_are_reused() {
    for variables in BOTH {
        isolated(
            name!(guards_stay_when_pages_are_given_back_and_when_stacks_are_reused),
            variables,
            || {
                for round in 0..3 {
                    let stacks = acquire(300, 64 << 10);
                    for stack in &stacks {
                        touch(stack, 64);
                        assert!(is_readable(stack.bottom()));
                        assert!(!is_readable(stack.bottom().wrapping_sub(8)), "round {round}");
                        assert!(
                            !is_readable(stack.bottom().wrapping_sub(stack.class().guard_size())),
                            "round {round}"
                        );
                    }
                    stacks.into_iter().for_each(Stack::release);
                }
            },
        );
    }
}

#[test]
fn an_address_on_a_stack_leads_to_its_occupant() {
    unsafe fn describe(_: *const Occupant, out: &mut dyn std::fmt::Write) {
        let _ = out.write_str("somebody");
    }
    let somebody = Occupant { describe };
    let stack = Stack::acquire(class(16 << 10)).unwrap();
    stack.occupy(&somebody);
    for address in [stack.bottom(), stack.top().wrapping_sub(1), stack.bottom().wrapping_sub(1)] {
        assert_eq!(occupant_at(address.addr()), Some(ptr::from_ref(&somebody)));
    }
    stack.vacate();
    assert_eq!(occupant_at(stack.bottom().addr()), None);
    stack.release();
    let local = 0u8;
    assert_eq!(occupant_at((&raw const local).addr()), None);
    assert_eq!(bounds_at(0), None);
}

#[test]
fn the_high_water_mark_tells_how_deep_a_stack_was_used() {
    isolated(name!(the_high_water_mark_tells_how_deep_a_stack_was_used), &[], || {
        let stack = Stack::acquire(class(400 << 10)).unwrap();
        assert_eq!(stack.high_water(), 0);
        // SAFETY: usable bytes of a stack that is owned.
        unsafe { stack.top().sub(100_000).write(1) };
        let page = super::super::kernel::page_size();
        assert!((100_000..100_000 + page).contains(&stack.high_water()), "{}", stack.high_water());
        stack.release();
    });
}

#[test]
fn a_thread_that_ends_gives_back_what_it_kept() {
    isolated(name!(a_thread_that_ends_gives_back_what_it_kept), &[], || {
        std::thread::spawn(|| acquire(100, 64 << 10).into_iter().for_each(Stack::release))
            .join()
            .unwrap();
        let stats = stats();
        assert_eq!(stats.in_use, 0, "{stats:?}");
        assert!(stats.idle_warm <= 32, "{stats:?}");
    });
}

#[test]
fn destructors_of_thread_locals_may_still_use_stacks() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            acquire(10, 64 << 10).into_iter().for_each(Stack::release);
        }
    }
    thread_local!(static LATE: Late = const { Late });
    isolated(name!(destructors_of_thread_locals_may_still_use_stacks), &[], || {
        std::thread::spawn(|| {
            // Destructors run in the reverse order of registration: this one comes after the
            // magazines'.
            LATE.with(|_| ());
            Stack::acquire(class(64 << 10)).unwrap().release();
        })
        .join()
        .unwrap();
        assert_eq!(stats().in_use, 0, "{:?}", stats());
    });
}

#[test]
fn no_stack_is_handed_to_two_owners() {
    const THREADS: usize = 8;
    const ROUNDS: usize = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    let class = StackConfig::DEFAULT.with_size(16 << 10).with_guard(12 << 10).class().unwrap();
    let (give, take) = std::sync::mpsc::channel::<Stack>();
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let give = give.clone();
            scope.spawn(move || {
                let mut held: Vec<Stack> = Vec::new();
                let mut random = thread;
                for round in 0..ROUNDS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if random % 5 < 2 && !held.is_empty() {
                        let stack = held.swap_remove(random / 8 % held.len());
                        // SAFETY: the words below the top belong to whoever owns the stack.
                        let stamp =
                            unsafe { stack.top().cast::<AtomicUsize>().sub(1).as_ref().unwrap() };
                        assert_eq!(stamp.swap(0, Ordering::Relaxed), thread);
                        if random % 3 == 0 { give.send(stack).unwrap() } else { stack.release() }
                    } else if held.len() < 100 {
                        let stack = Stack::acquire(class).unwrap();
                        // SAFETY: as above.
                        let stamp =
                            unsafe { stack.top().cast::<AtomicUsize>().sub(1).as_ref().unwrap() };
                        assert_eq!(stamp.swap(thread, Ordering::Relaxed), 0, "round {round}");
                        held.push(stack);
                    }
                }
                for stack in held {
                    // SAFETY: as above.
                    unsafe { stack.top().cast::<usize>().sub(1).write(0) };
                    stack.release();
                }
            });
        }
        drop(give);
        // Stacks also come back on another thread than the one that took them.
        take.into_iter().for_each(Stack::release);
    });
}

#[test]
fn the_statistics_add_up() {
    isolated(name!(the_statistics_add_up), &[], || {
        let stacks = acquire(1_000, 64 << 10);
        assert_eq!(stats().in_use, 1_000);
        stacks.into_iter().for_each(Stack::release);
        let now = stats();
        assert_eq!(now.in_use, 0);
        assert!(now.idle_warm <= 64 && now.idle_warm > 0, "{now:?}");
        assert_eq!(now.idle_warm_bytes, now.idle_warm * (124 << 10));
        trim();
        let now = stats();
        assert_eq!(
            (now.in_use, now.idle_warm, now.idle_cold, now.regions),
            (0, 0, 0, 0),
            "{now:?}"
        );
        assert_eq!(now.reserved_bytes, 0);
    });
}

#[test]
fn memory_and_mappings_return_to_where_they_started() {
    for variables in BOTH {
        isolated(name!(memory_and_mappings_return_to_where_they_started), variables, || {
            trim();
            let (memory, maps) = (resident_bytes(), mappings());
            for order in 0..3 {
                let mut stacks = acquire(5_000, 100 << 10);
                for stack in &stacks {
                    touch(stack, 8 << 10);
                }
                match order {
                    0 => {}
                    1 => stacks.reverse(),
                    _ => (0..5_000).for_each(|index| stacks.swap(index, index * 2_971 % 5_000)),
                }
                stacks.into_iter().for_each(Stack::release);
                let kept = resident_bytes().saturating_sub(memory);
                assert!(kept < allowance(8 << 20), "{kept} bytes stay resident");
                trim();
                let now = mappings();
                assert!(
                    !is_native() || now.abs_diff(maps) <= 10,
                    "{maps} mappings before, {now} after, {:?}",
                    guard_kind()
                );
            }
        });
    }
}

fn burst(count: usize) {
    let start = resident_bytes();
    for _ in 0..2 {
        let stacks = acquire(count, 250 << 10);
        for stack in &stacks {
            // SAFETY: usable bytes of a stack that is owned.
            unsafe { stack.top().sub(200 << 10).write_bytes(1, 200 << 10) };
        }
        assert!(resident_bytes() > start + count * (200 << 10));
        stacks.into_iter().for_each(Stack::release);
        let kept = resident_bytes().saturating_sub(start);
        assert!(kept < allowance(32 << 20), "{kept} bytes stay resident");
    }
    trim();
    let kept = resident_bytes().saturating_sub(start);
    assert!(kept < allowance(2 << 20), "{kept} bytes stay resident after trim");
}

#[test]
fn a_burst_of_deep_stacks_does_not_keep_its_memory() {
    isolated(name!(a_burst_of_deep_stacks_does_not_keep_its_memory), &[], || burst(1_000));
}

#[test]
#[ignore = "needs 4 GiB of memory"]
fn a_burst_of_twenty_thousand_deep_stacks_does_not_keep_its_memory() {
    isolated(name!(a_burst_of_twenty_thousand_deep_stacks_does_not_keep_its_memory), &[], || {
        burst(20_000)
    });
}

#[test]
#[ignore = "takes a few seconds in a debug build"]
fn a_hundred_thousand_stacks_fit_where_guards_are_light() {
    isolated(name!(a_hundred_thousand_stacks_fit_where_guards_are_light), &[], || {
        if guard_kind() != GuardKind::Light {
            println!("SKIPPED: this kernel has no light guards");
            return;
        }
        let maps = mappings();
        let stacks = acquire(100_000, 16 << 10);
        for stack in &stacks {
            // SAFETY: usable bytes of a stack that is owned.
            unsafe { stack.top().sub(8).write(1) };
        }
        println!("{} mappings more for 100,000 stacks", mappings() - maps);
        assert!(mappings() < maps + 100);
        stacks.into_iter().for_each(Stack::release);
        let now = mappings();
        assert!(now.abs_diff(maps) <= 10, "{maps} mappings before, {now} after, without trim");
        trim();
        assert!(mappings().abs_diff(maps) <= 10);
    });
}
