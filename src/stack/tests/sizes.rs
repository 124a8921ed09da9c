//! What is asked for and what comes out.

use super::super::{COLOUR_SPAN, StackConfig, StackError, bounds_at, kernel};
use super::{Stack, call_on, class, isolated, name, stack_pointer};

#[test]
fn every_odd_size_gives_at_least_what_was_asked_for() {
    for size in
        [0, 1, 63, 4095, 4096, 4097, 16 << 10, 65_537, 112 << 10, 120 << 10, 1 << 20, (1 << 20) + 1]
    {
        for guard in [0, 1, 4096, 4097, 65_536] {
            let config = StackConfig::DEFAULT.with_size(size).with_guard(guard);
            let stack = Stack::acquire(config.class().unwrap()).unwrap();
            let span = stack.top().addr() - stack.bottom().addr();
            assert!(stack.size() >= size && stack.size() == span, "{config:?}: {span}");
            assert!(stack.size() >= kernel::least_stack());
            assert!(
                stack.class().guard_size() >= guard.max(1)
                    && stack.class().guard_size().is_multiple_of(kernel::page_size())
            );
            assert_eq!(stack.top().addr() % 64, 0);
            let bounds = bounds_at(stack.bottom().addr()).unwrap();
            assert_eq!(bounds.start, stack.bottom().addr());
            assert!(bounds.end - stack.top().addr() <= COLOUR_SPAN);
            super::touch(&stack, 1);
            stack.release();
        }
    }
}

#[test]
fn nine_tenths_of_what_was_asked_for_can_be_used() {
    extern "C" fn use_it(bytes: usize) {
        let sp = stack_pointer();
        // SAFETY: writes far enough below this frame, on a stack with room for it; the guard would
        // raise a signal.
        (0..bytes)
            .step_by(64)
            .for_each(|offset| unsafe { ((sp - 2048 - offset) as *mut u8).write_volatile(1) });
    }
    for size in [16 << 10, 65_537, 200 << 10] {
        let stack = Stack::acquire(class(size)).unwrap();
        // SAFETY: the function writes 9/10 of the stack at most.
        unsafe { call_on(stack.top(), use_it, size * 9 / 10 - 2048) };
        stack.release();
    }
}

#[test]
fn absurd_sizes_are_an_error_that_names_them() {
    for size in [usize::MAX, (1 << 46) + 1] {
        let error = StackConfig::DEFAULT.with_size(size).class().unwrap_err();
        assert!(matches!(error, StackError::TooLarge { .. }));
        assert!(error.to_string().contains(&size.to_string()), "{error}");
        assert!(StackConfig::DEFAULT.with_guard(size).class().is_err());
    }
    // It is a class, but no address space can hold it.
    let error = Stack::acquire(class(1 << 46)).unwrap_err();
    assert!(matches!(error, StackError::AddressSpace { limit: None, .. }), "{error}");
}

#[test]
fn the_default_is_the_first_choice_of_its_documentation() {
    let class = StackConfig::default().class().unwrap();
    if kernel::page_size() == 4096 {
        assert_eq!((class.slot_size(), class.guard_size()), (124 << 10, 4096));
    }
}

#[test]
fn tops_of_neighbours_differ_in_colour() {
    let class = StackConfig::DEFAULT.with_guard(5 * kernel::page_size()).class().unwrap();
    let stacks: Vec<Stack> = (0..48).map(|_| Stack::acquire(class).unwrap()).collect();
    // The line within its page; a page is no whole number of spans, but 24 lines are less than one.
    let lines = stacks.iter().map(|stack| stack.top().wrapping_sub(1).addr() % 4096 / 64);
    let different: std::collections::HashSet<usize> = lines.collect();
    assert_eq!(different.len(), 24);
    stacks.into_iter().for_each(Stack::release);
}

#[test]
fn more_classes_than_there_can_be_share_or_are_refused_by_name() {
    isolated(name!(more_classes_than_there_can_be_share_or_are_refused_by_name), &[], || {
        let config = |pages: usize| StackConfig::DEFAULT.with_guard(pages * kernel::page_size());
        for pages in 1..=64 {
            config(pages).class().unwrap();
        }
        // A smaller stack with a guard that exists fits into a class that exists.
        let small = config(3).with_size(1).class().unwrap();
        assert!(small.guard_size() >= 3 * kernel::page_size());
        let error = config(100).with_size(1 << 30).class().unwrap_err();
        assert!(matches!(error, StackError::TooManyKinds { limit: 64, .. }), "{error}");
    });
}
