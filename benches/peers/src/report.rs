//! The tables.

use crate::alone::Figures;
use crate::measure::{Outcome, median};
use crate::workload::{Target, Workload};

/// The contender whose ratios the tables show.
const OURS: &str = "pirn";

/// Prints the line above a table.
pub fn heading(workload: Workload, rounds: usize) {
    let rounds = match rounds {
        1 => "one round".to_owned(),
        more => format!("median of {more} rounds"),
    };
    println!("\n{}: {}, {rounds}", workload.name(), workload.unit());
}

/// Prints why a contender is missing from a table.
pub fn skipped(contender: &str, reason: &str) {
    println!("  {contender:<22} skipped: {reason}");
}

/// Prints the table of an interleaved workload.
pub fn ratios(workload: Workload, outcomes: &[Outcome]) {
    println!("  {:<22} {:>10} {:>10} {:>10}   target", "", "median", "least", "pirn is");
    let ours = outcomes.iter().find(|outcome| outcome.contender == OURS);
    let target = workload.target();
    for outcome in outcomes {
        let ratio = ours
            .filter(|ours| ours.contender != outcome.contender)
            .map(|ours| ours.median / outcome.median);
        let verdict = match (ratio, &target) {
            (Some(ratio), Some(Target::Ratio { peers, at_most }))
                if peers.contains(&outcome.contender) =>
            {
                verdict(ratio, *at_most)
            }
            _ => variant_verdict(outcome, outcomes, target.as_ref()),
        };
        let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.3} ×"));
        let line = format!(
            "  {:<22} {:>10} {:>10} {:>10}   {verdict}",
            outcome.contender,
            figure(outcome.median),
            figure(outcome.least),
            ratio,
        );
        println!("{}", line.trim_end());
    }
}

/// Prints one contender's line of a workload measured in child processes, one child a round.
pub fn alone(workload: Workload, contender: &str, rounds: &[Figures]) {
    let limits = match workload.target() {
        Some(Target::Limits(limits)) if contender == OURS => limits,
        _ => &[],
    };
    let Some(first) = rounds.first() else { return };
    for (index, (name, _)) in first.iter().enumerate() {
        let values: Vec<f64> = rounds.iter().map(|figures| figures[index].1).collect();
        let value = median(&values);
        let verdict = limits
            .iter()
            .find(|(limited, _)| limited == name)
            .map_or(String::new(), |(_, at_most)| verdict(value, *at_most));
        let contender = if index == 0 { contender } else { "" };
        let line = format!("  {contender:<22} {name:<22} {:>10}   {verdict}", figure(value));
        println!("{}", line.trim_end());
    }
}

/// What the target says of another way of ours, whose name begins with ours and a comma.
fn variant_verdict(ours: &Outcome, outcomes: &[Outcome], target: Option<&Target>) -> String {
    let Some(Target::Ratio { peers, at_most }) = target else { return String::new() };
    if !ours.contender.strip_prefix(OURS).is_some_and(|rest| rest.starts_with(',')) {
        return String::new();
    }
    let verdicts: Vec<String> = outcomes
        .iter()
        .filter(|outcome| peers.contains(&outcome.contender))
        .map(|peer| {
            let ratio = ours.median / peer.median;
            format!("{ratio:.3} × {}: {}", peer.contender, verdict(ratio, *at_most))
        })
        .collect();
    verdicts.join(", ")
}

fn verdict(value: f64, at_most: f64) -> String {
    let word = if value <= at_most { "met" } else { "MISSED" };
    format!("≤ {at_most} {word}")
}

/// Three significant digits or whole numbers, whichever says more.
fn figure(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.3}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
