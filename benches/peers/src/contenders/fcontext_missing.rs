//! Stands in for `fcontext.rs` where the build script found no Boost.Context.

use crate::measure::Entry;
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::SwitchEmpty
        | Workload::SwitchDeepDifferent
        | Workload::SwitchDeepSame
        | Workload::CreateRunDrop => {
            Entry::Skipped("no Boost.Context at build time (Debian: libboost-context-dev)".into())
        }
        _ => Entry::Absent,
    }
}
