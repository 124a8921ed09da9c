//! Measurements in a process of their own.
//!
//! Resident memory and processor time are figures of a whole process, so the binary starts itself
//! again for one workload and one contender. The child prints its figures, one `name=value` a
//! line, and exits at once: taking a million tasks down again is not part of the measurement.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::process::{self, Command};
use std::time::{Duration, Instant};

use crate::workload::{MILLION, Workload};

/// The hidden first argument that makes the process a child.
pub const CHILD: &str = "--child";

/// Names and values, in the order in which the child printed them.
pub type Figures = Vec<(String, f64)>;

/// Runs `workload` for `contender` in a fresh process.
pub fn run_child(workload: Workload, contender: &str) -> io::Result<Figures> {
    let output = Command::new(env::current_exe()?)
        .args([CHILD, &workload.name(), contender])
        .stderr(process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("the child process ended with {}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect())
}

fn report_and_exit(figures: &[(&str, f64)]) -> ! {
    let mut text = String::new();
    for (name, value) in figures {
        text.push_str(&format!("{name}={value}\n"));
    }
    let written = io::stdout().write_all(text.as_bytes());
    process::exit(i32::from(written.is_err()));
}

/// Memory of this process at one moment, in bytes.
pub struct Memory {
    resident: u64,
    page_tables: u64,
}

impl Memory {
    /// Reads the kernel's accounts.
    pub fn now() -> Self {
        Memory {
            resident: kernel_bytes("/proc/self/smaps_rollup", "Rss:"),
            page_tables: kernel_bytes("/proc/self/status", "VmPTE:"),
        }
    }

    /// Reports what [`MILLION`] tasks added since `self` was taken, for each of them.
    pub fn report_growth(&self) -> ! {
        let now = Memory::now();
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / MILLION as f64;
        report_and_exit(&[
            ("resident", each(now.resident, self.resident)),
            ("page tables", each(now.page_tables, self.page_tables)),
        ])
    }
}

/// A line such as `Rss:   1234 kB` of a file under `/proc`.
fn kernel_bytes(file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or_else(|| panic!("{file} has no line {key}"))
        * 1024
}

/// The clock and the deadlines of [`Workload::TimerSleeping`].
#[derive(Clone, Copy)]
pub struct Night {
    start: Instant,
    cpu_before: Duration,
}

impl Night {
    /// Before the first deadline lies enough time to create every task.
    const FIRST: Duration = Duration::from_secs(5);
    const LAST: Duration = Duration::from_secs(10);

    /// Starts the clock.
    pub fn begin() -> Self {
        Night { start: Instant::now(), cpu_before: cpu_time() }
    }

    /// How long task `index` has to sleep from now on.
    pub fn time_left(&self, index: u64) -> Duration {
        // A prime that does not divide the count visits every place once, in scrambled order.
        let place = (index * 618_033_989) % MILLION;
        let spread = (Night::LAST - Night::FIRST).as_nanos() as u64;
        let offset = Duration::from_nanos(spread / (MILLION - 1) * place);
        self.left_until(Night::FIRST + offset)
    }

    /// How long it is until the last task is due.
    pub fn time_left_for_all(&self) -> Duration {
        self.left_until(Night::LAST)
    }

    /// Called when every task has been created and sleeps; complains when one has woken already.
    pub fn all_asleep(&self) -> Duration {
        let asleep = self.start.elapsed();
        if asleep > Night::FIRST {
            eprintln!(
                "  not all tasks slept at once: creating them took {:.1} s",
                asleep.as_secs_f64()
            );
        }
        asleep
    }

    /// Reports, when every task has woken.
    pub fn report(&self, asleep: Duration) -> ! {
        let wall = self.start.elapsed();
        let cpu = cpu_time() - self.cpu_before;
        report_and_exit(&[
            ("cpu s", cpu.as_secs_f64()),
            ("wall / last deadline", wall.as_secs_f64() / Night::LAST.as_secs_f64()),
            ("all asleep at s", asleep.as_secs_f64()),
        ])
    }

    fn left_until(&self, offset: Duration) -> Duration {
        (self.start + offset).saturating_duration_since(Instant::now())
    }
}

/// User and system time that this process has used.
fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid `rusage`, and `getrusage` writes only that struct.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000))
        .sum()
}
