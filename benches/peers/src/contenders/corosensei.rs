//! corosensei: stackful coroutines with an inline-assembly switch. It has no pool of its own, so
//! finished coroutines give their stacks to a hand-made one.

use std::hint::black_box;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::depth::{Side, Step, drive_forever, loop_forever, time_in_depth, time_in_loop};
use crate::measure::{Entry, Sample};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::SwitchEmpty => Entry::runs(switch_empty),
        Workload::SwitchDeepDifferent => Entry::runs(switch_deep_different),
        Workload::SwitchDeepBoth => Entry::runs(switch_deep_both),
        Workload::SwitchDeepSame => Entry::runs(switch_deep_same),
        Workload::CreateRunDrop => Entry::runs(create_run_drop),
        _ => Entry::Absent,
    }
}

type Silent = Coroutine<(), (), ()>;
type SilentYielder = Yielder<(), ()>;

/// The side that resumes.
struct Resumer<'a>(&'a mut Silent);

/// The side that suspends.
struct Inside<'a>(&'a SilentYielder);

impl Step for Resumer<'_> {
    #[inline(always)]
    fn step(&mut self) {
        let CoroutineResult::Yield(()) = self.0.resume(()) else {
            unreachable!("the body suspends for ever");
        };
    }
}

impl Step for Inside<'_> {
    #[inline(always)]
    fn step(&mut self) {
        self.0.suspend(());
    }
}

/// A coroutine that has suspended for the first time.
fn started(body: impl Fn(&SilentYielder) + 'static) -> Silent {
    let mut coroutine = Silent::new(move |yielder: &SilentYielder, ()| body(yielder));
    Resumer(&mut coroutine).step();
    coroutine
}

fn switch_empty(wish: u64) -> Sample {
    let mut coroutine = started(|yielder| loop_forever(Inside(yielder)));
    time_in_loop(Resumer(&mut coroutine), wish)
}

fn switch_deep_different(wish: u64) -> Sample {
    let mut coroutine = started(|yielder| drive_forever(Inside(yielder)));
    time_in_loop(Resumer(&mut coroutine), wish)
}

fn switch_deep_both(wish: u64) -> Sample {
    let mut coroutine = started(|yielder| drive_forever(Inside(yielder)));
    time_in_depth(Resumer(&mut coroutine), wish)
}

fn switch_deep_same(wish: u64) -> Sample {
    let mut coroutine = started(|yielder| {
        drive_forever(Side::<Resumer, Inside>::Inside(Inside(yielder)));
    });
    let resumer = Side::<Resumer, Inside>::Resumer(Resumer(&mut coroutine));
    time_in_depth(resumer, wish)
}

fn create_run_drop(wish: u64) -> Sample {
    let mut pool = vec![DefaultStack::default()];
    Sample::time(wish, || {
        for number in 0..wish {
            let stack = pool.pop().unwrap_or_default();
            let mut coroutine =
                Coroutine::with_stack(stack, |_: &Yielder<u64, ()>, number: u64| {
                    black_box(number) + 1
                });
            let CoroutineResult::Return(answer) = coroutine.resume(number) else {
                unreachable!("the body does not suspend");
            };
            black_box(answer);
            pool.push(coroutine.into_stack());
        }
    })
}
