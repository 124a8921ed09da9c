//! std::thread: an operating system thread for every task. Here for scale.

use std::hint::black_box;
use std::thread;

use crate::measure::{Entry, Sample};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::SpawnJoinOne => Entry::runs(spawn_join_one),
        _ => Entry::Absent,
    }
}

fn spawn_join_one(wish: u64) -> Sample {
    Sample::time(wish, || {
        for number in 0..wish {
            let handle = thread::spawn(move || black_box(number) + 1);
            black_box(handle.join().expect("the task does not panic"));
        }
    })
}
