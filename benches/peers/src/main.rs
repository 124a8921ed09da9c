//! The same workloads on pirn and on its peers, interleaved in one run.
//!
//! `workload.rs` says what is measured, `contenders/` has one file for each library that does it,
//! `measure.rs` takes the samples and `report.rs` prints them. A missed target is a line in a
//! table and never a failing exit code: a speed measured on a shared machine proves nothing alone.

mod alone;
mod contenders;
mod depth;
mod measure;
mod os_threads;
mod relay;
mod report;
mod ring;
mod workload;

use std::env;
use std::process::ExitCode;

use contenders::Contender;
use measure::Entry;
use workload::Workload;

const USAGE: &str = "\
usage: pirn-peers [options] [filter]...
  filter       run only workloads whose name contains one of these
  --rounds N   how often every contender is measured (7; big workloads 3)
  --big        also run the big workloads (gigabytes of memory, many seconds)
  --list       print the names of all workloads";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, workload, contender] = arguments.as_slice()
        && flag == alone::CHILD
    {
        be_child(workload, contender);
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for &workload in workload::ALL {
        if options.list {
            println!("{}", workload.name());
        } else if options.wants(workload) {
            if workload.is_big() {
                run_alone(workload, options.rounds.unwrap_or(3));
            } else {
                run_interleaved(workload, options.rounds.unwrap_or(7));
            }
        }
    }
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Options {
    filters: Vec<String>,
    rounds: Option<usize>,
    big: bool,
    list: bool,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut options = Options::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--big" => options.big = true,
                "--list" => options.list = true,
                "--rounds" => {
                    let rounds = arguments.next().and_then(|number| number.parse().ok());
                    options.rounds = Some(
                        rounds
                            .filter(|&rounds| rounds > 0)
                            .ok_or("--rounds wants a number of at least 1")?,
                    );
                }
                flag if flag.starts_with('-') => return Err(format!("unknown option {flag}")),
                filter => options.filters.push(filter.to_owned()),
            }
        }
        Ok(options)
    }

    /// A big workload is run when `--big` is given or when a filter is its whole name.
    fn wants(&self, workload: Workload) -> bool {
        let name = workload.name();
        let named = self.filters.contains(&name);
        let matched = self.filters.is_empty()
            || self.filters.iter().any(|filter| name.contains(filter.as_str()));
        named || (matched && (self.big || !workload.is_big()))
    }
}

fn run_interleaved(workload: Workload, rounds: usize) {
    let mut runs = Vec::new();
    report::heading(workload, rounds);
    for contender in contenders::ALL {
        match (contender.enter)(workload) {
            Entry::Runs(run) => runs.push((contender.name, run)),
            Entry::Skipped(reason) => report::skipped(contender.name, &reason),
            Entry::Alone(_) | Entry::Absent => {}
        }
    }
    report::ratios(workload, &measure::interleave(runs, rounds));
}

fn run_alone(workload: Workload, rounds: usize) {
    let entrants: Vec<&Contender> = contenders::ALL
        .iter()
        .filter(|contender| matches!((contender.enter)(workload), Entry::Alone(_)))
        .collect();
    report::heading(workload, rounds);
    let mut figures = vec![Ok(Vec::new()); entrants.len()];
    for _ in 0..rounds {
        for (contender, figures) in entrants.iter().zip(&mut figures) {
            if let Ok(rounds) = figures {
                match alone::run_child(workload, contender.name) {
                    Ok(round) => rounds.push(round),
                    Err(error) => *figures = Err(error.to_string()),
                }
            }
        }
    }
    for (contender, figures) in entrants.iter().zip(figures) {
        match figures {
            Ok(rounds) => report::alone(workload, contender.name, &rounds),
            Err(error) => report::skipped(contender.name, &error),
        }
    }
}

fn be_child(workload: &str, contender: &str) -> ! {
    let workload = workload::ALL.iter().find(|known| known.name() == workload);
    let contender = contenders::ALL.iter().find(|known| known.name == contender);
    match (workload, contender) {
        (Some(&workload), Some(contender)) => match (contender.enter)(workload) {
            Entry::Alone(measure) => measure(),
            _ => panic!("{} does not run {workload:?} alone", contender.name),
        },
        _ => panic!("no such workload or contender"),
    }
}
