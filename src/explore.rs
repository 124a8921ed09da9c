//! Running a test under many schedules.

use std::env;
use std::panic::{self, AssertUnwindSafe};

use crate::sched::{Builder, Deadlock};

/// Runs `test` as the main fiber of a fresh runtime once for each of so many seeds, with shuffled
/// schedules and virtual time.
///
/// A test that holds for every order of its fibers passes. One that does not is likely to meet an
/// order in which it fails; the seed is then printed, and with `PIRN_SEED` set to it in the
/// environment that schedule alone is run again, and fails in the same way.
///
/// ```
/// use pirn::thread;
///
/// pirn::explore(100, || {
///     let child = thread::spawn(|| 1);
///     thread::yield_now();
///     assert_eq!(child.join().unwrap(), 1);
/// });
/// ```
///
/// # Panics
///
/// With the panic of the first seed that fails; with the report when that is a
/// [`Deadlock`](crate::Deadlock); when `PIRN_SEED` is not a number.
pub fn explore(seeds: u64, test: impl Fn()) {
    let seeds = match env::var("PIRN_SEED") {
        Ok(text) => {
            let seed = text.parse().unwrap_or_else(|error| panic!("PIRN_SEED={text}: {error}"));
            seed..seed + 1
        }
        Err(_) => 0..seeds,
    };
    for seed in seeds {
        let run = || -> Result<(), Deadlock> {
            let builder = Builder::new().seed(seed).virtual_time(true);
            builder.build().expect("the default settings are valid").run(&test)
        };
        let outcome = panic::catch_unwind(AssertUnwindSafe(run));
        if !matches!(outcome, Ok(Ok(()))) {
            eprintln!("pirn: seed {seed} fails; run it alone with PIRN_SEED={seed}");
        }
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(deadlock)) => panic!("{deadlock}"),
            Err(payload) => panic::resume_unwind(payload),
        }
    }
}
