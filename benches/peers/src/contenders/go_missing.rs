//! Stands in for `go.rs` where the build script found no Go.

use crate::measure::Entry;
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelRendezvous
        | Workload::ChannelBounded { .. }
        | Workload::SelectReady
        | Workload::SelectBecomesReady
        | Workload::MutexUncontended
        | Workload::MutexYielding => {
            Entry::Skipped("no Go at build time (Debian: golang-go)".into())
        }
        _ => Entry::Absent,
    }
}
