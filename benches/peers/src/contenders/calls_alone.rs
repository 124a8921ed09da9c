//! No library: the calls and returns of the deep workloads without any switch at the bottom, to show
//! how much of everybody's figure they are when all returns are predicted.

use std::hint::black_box;

use crate::depth::{Step, time_in_depth};
use crate::measure::{Entry, Sample};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        // One side is deep, so a round trip has one chain of calls.
        Workload::SwitchDeepDifferent => Entry::runs(|wish| time_in_depth(Nothing, wish)),
        Workload::SwitchDeepBoth | Workload::SwitchDeepSame => Entry::runs(one_chain_each_way),
        _ => Entry::Absent,
    }
}

struct Nothing;

impl Step for Nothing {
    #[inline(always)]
    fn step(&mut self) {
        black_box(());
    }
}

fn one_chain_each_way(wish: u64) -> Sample {
    let round_trips = time_in_depth(Nothing, wish);
    Sample { operations: round_trips.operations / 2, ..round_trips }
}
