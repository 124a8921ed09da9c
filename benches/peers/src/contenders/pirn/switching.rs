//! Coroutines, without a runtime.

use std::hint::black_box;

use pirn::coroutine::{Coroutine, CoroutineState, Suspender};

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
type SilentSuspender = Suspender<(), ()>;

/// The side that resumes.
struct Resumer<'a>(&'a mut Silent);

/// The side that suspends.
struct Inside<'a>(&'a SilentSuspender);

impl Step for Resumer<'_> {
    #[inline(always)]
    fn step(&mut self) {
        let Ok(CoroutineState::Yield(())) = self.0.resume(()) else {
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
fn started(body: impl Fn(&SilentSuspender) + 'static) -> Silent {
    let mut coroutine = Silent::new(move |suspender: &SilentSuspender, ()| body(suspender));
    Resumer(&mut coroutine).step();
    coroutine
}

fn switch_empty(wish: u64) -> Sample {
    let mut coroutine = started(|suspender| loop_forever(Inside(suspender)));
    time_in_loop(Resumer(&mut coroutine), wish)
}

fn switch_deep_different(wish: u64) -> Sample {
    let mut coroutine = started(|suspender| drive_forever(Inside(suspender)));
    time_in_loop(Resumer(&mut coroutine), wish)
}

fn switch_deep_both(wish: u64) -> Sample {
    let mut coroutine = started(|suspender| drive_forever(Inside(suspender)));
    time_in_depth(Resumer(&mut coroutine), wish)
}

fn switch_deep_same(wish: u64) -> Sample {
    let mut coroutine = started(|suspender| {
        drive_forever(Side::<Resumer, Inside>::Inside(Inside(suspender)));
    });
    let resumer = Side::<Resumer, Inside>::Resumer(Resumer(&mut coroutine));
    time_in_depth(resumer, wish)
}

fn create_run_drop(wish: u64) -> Sample {
    Sample::time(wish, || {
        for number in 0..wish {
            let mut coroutine =
                Coroutine::new(|_: &Suspender<u64, ()>, number: u64| black_box(number) + 1);
            let Ok(CoroutineState::Return(answer)) = coroutine.resume(number) else {
                unreachable!("the body does not suspend");
            };
            black_box(answer);
        }
    })
}
