//! Timing: how one sample is taken, how long it should last, and how rounds are interleaved.
//!
//! Speed on a shared machine drifts by tens of per cent within seconds, so a figure means
//! something only beside another one taken at the same time. All contenders of a workload are
//! therefore measured in turn, round after round, and each is summed up by its median.

use std::time::{Duration, Instant};

/// How long one sample should take: long against timer resolution and a stray interrupt, short
/// enough that a round sees one state of the machine.
const SAMPLE_TIME: Duration = Duration::from_millis(80);

/// One timed stretch. The contender times itself, so that set-up stays outside.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Operations really done; a contender may round the wish up to whole batches.
    pub operations: u64,
    /// Wall time of just those operations.
    pub elapsed: Duration,
}

impl Sample {
    /// Times `work`, which does `operations` operations.
    pub fn time(operations: u64, work: impl FnOnce()) -> Self {
        let start = Instant::now();
        work();
        Sample { operations, elapsed: start.elapsed() }
    }

    fn nanoseconds_each(self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.operations as f64
    }
}

/// Does about the wished number of operations and reports the time they took.
pub type Run = Box<dyn FnMut(u64) -> Sample>;

/// What a contender has to offer for a workload.
pub enum Entry {
    /// Measured in rounds with the other contenders, in this process.
    Runs(Run),
    /// Measured in a process of its own, which this function ends by printing its figures.
    Alone(fn() -> !),
    /// Would take part, but cannot here; the reason is printed.
    Skipped(String),
    /// Does not offer this operation at all.
    Absent,
}

impl Entry {
    /// An entry for the common case of a plain function.
    pub fn runs(run: fn(u64) -> Sample) -> Self {
        Entry::Runs(Box::new(run))
    }
}

/// A contender's figures for one workload, in nanoseconds per operation.
pub struct Outcome {
    pub contender: &'static str,
    pub median: f64,
    pub least: f64,
}

/// Measures all runs of one workload: every contender once a round, in the same order.
pub fn interleave(mut runs: Vec<(&'static str, Run)>, rounds: usize) -> Vec<Outcome> {
    let wishes: Vec<u64> = runs.iter_mut().map(|(_, run)| calibrate(run)).collect();
    let mut figures = vec![Vec::with_capacity(rounds); runs.len()];
    for _ in 0..rounds {
        for (((_, run), wish), figures) in runs.iter_mut().zip(&wishes).zip(&mut figures) {
            figures.push(run(*wish).nanoseconds_each());
        }
    }
    runs.iter()
        .zip(figures)
        .map(|((contender, _), figures)| Outcome {
            contender,
            median: median(&figures),
            least: figures.iter().copied().fold(f64::INFINITY, f64::min),
        })
        .collect()
}

/// Finds the number of operations that takes about [`SAMPLE_TIME`]. Doubles as the warm-up.
fn calibrate(run: &mut Run) -> u64 {
    let mut wish = 1;
    loop {
        let sample = run(wish);
        let each = sample.nanoseconds_each().max(0.1);
        let scaled = (SAMPLE_TIME.as_nanos() as f64 / each).ceil().max(1.0) as u64;
        // The first few operations are far slower than the rest, so the estimate is believed
        // only when it comes from a stretch of comparable length.
        if sample.elapsed * 4 >= SAMPLE_TIME {
            return scaled;
        }
        wish = scaled.min(sample.operations.saturating_mul(32));
    }
}

/// The middle value, or the mean of the two middle ones. `values` must not be empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
