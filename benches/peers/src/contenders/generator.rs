//! generator: the coroutines under may. A finished generator can be given a new body, which is how
//! may pools them, so creating means taking a finished one from a pool.

use std::hint::black_box;

use generator::{Gn, LocalGenerator, Scope};

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

type Silent = LocalGenerator<'static, (), ()>;

type SilentScope<'s, 'g> = Scope<'s, 'g, (), ()>;

/// The side that resumes.
struct Resumer<'a>(&'a mut Silent);

/// The side that suspends.
struct Inside<'s, 'g>(SilentScope<'s, 'g>);

impl Step for Resumer<'_> {
    #[inline(always)]
    fn step(&mut self) {
        let Some(()) = self.0.resume() else {
            unreachable!("the body yields for ever");
        };
    }
}

impl Step for Inside<'_, '_> {
    #[inline(always)]
    fn step(&mut self) {
        self.0.yield_with(());
    }
}

/// A generator that has yielded for the first time.
fn started(body: impl FnOnce(SilentScope) + 'static) -> Silent {
    let mut generator: Silent = Gn::new_scoped_local(body);
    Resumer(&mut generator).step();
    generator
}

fn switch_empty(wish: u64) -> Sample {
    let mut generator = started(|scope| loop_forever(Inside(scope)));
    time_in_loop(Resumer(&mut generator), wish)
}

fn switch_deep_different(wish: u64) -> Sample {
    let mut generator = started(|scope| drive_forever(Inside(scope)));
    time_in_loop(Resumer(&mut generator), wish)
}

fn switch_deep_both(wish: u64) -> Sample {
    let mut generator = started(|scope| drive_forever(Inside(scope)));
    time_in_depth(Resumer(&mut generator), wish)
}

fn switch_deep_same(wish: u64) -> Sample {
    let mut generator = started(|scope| {
        drive_forever(Side::<Resumer, Inside>::Inside(Inside(scope)));
    });
    let resumer = Side::<Resumer, Inside>::Resumer(Resumer(&mut generator));
    time_in_depth(resumer, wish)
}

fn create_run_drop(wish: u64) -> Sample {
    let first: LocalGenerator<'static, (), u64> = Gn::new_scoped_local(|_| 0);
    let mut pool = vec![first];
    Sample::time(wish, || {
        for number in 0..wish {
            let mut generator = pool.pop().expect("one generator is always there");
            generator.scoped_init(move |_| black_box(number) + 1);
            black_box(generator.resume().expect("the body returns a number"));
            pool.push(generator);
        }
    })
}
