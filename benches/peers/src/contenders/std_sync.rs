//! std::sync: the mutex that everybody knows, on whichever thread there is.

use std::hint::black_box;
use std::sync::Mutex;

use crate::measure::{Entry, Sample};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::MutexUncontended => Entry::runs(mutex_uncontended),
        _ => Entry::Absent,
    }
}

fn mutex_uncontended(wish: u64) -> Sample {
    let mutex = Mutex::new(0_u64);
    Sample::time(wish, || {
        for _ in 0..wish {
            *black_box(&mutex).lock().expect("nobody panics") += 1;
        }
    })
}
