//! Go's goroutines, channels, select and mutex, on one processor: a program of its own (`go/main.go`,
//! built by the build script), which runs and times one stretch each time it is started.

use std::process::Command;
use std::time::Duration;

use crate::measure::{Entry, Sample};
use crate::workload::Workload;

/// Where the build script has put the program.
const PROGRAM: &str = env!("PIRN_PEERS_GO");

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::ChannelRendezvous
        | Workload::ChannelBounded { pairs: 1 | 4 }
        | Workload::SelectReady
        | Workload::SelectBecomesReady
        | Workload::MutexUncontended
        | Workload::MutexYielding => Entry::Runs(Box::new(move |wish| run(workload, wish))),
        _ => Entry::Absent,
    }
}

fn run(workload: Workload, wish: u64) -> Sample {
    let output = Command::new(PROGRAM)
        .args([workload.name(), wish.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("{PROGRAM}, which was built, does not start: {error}"));
    let (text, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{PROGRAM} ended with {}: {complaints}", output.status);
    let mut numbers = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(operations), Some(nanoseconds)) => {
            Sample { operations, elapsed: Duration::from_nanos(nanoseconds) }
        }
        _ => panic!("{PROGRAM} printed no figures: {text}"),
    }
}
