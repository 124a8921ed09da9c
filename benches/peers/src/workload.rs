//! What is measured: every workload, what one operation of it is, and what pirn has to reach.
//!
//! This is the one description that all contenders implement; `contenders/` holds one file for
//! each of them, of the same shape. Whatever is not named as part of an operation (making the
//! runtime, warming a pool, creating the coroutine that is then switched to) is outside the timed
//! stretch, for everybody.

/// A workload that every contender implements if its library can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// A coroutine with nothing in its body but a loop that suspends, resumed in a loop.
    /// Operation: one switch in one direction.
    SwitchEmpty,
    /// The coroutine suspends from eight frames below its loop and
    /// returns through all of them each time; the resumer is a plain loop.
    /// Operation: one switch in one direction, with half of those calls and returns.
    SwitchDeepDifferent,
    /// Both sides switch from eight frames deep, each in functions of
    /// its own. Operation: one switch in one direction, with one side's calls and returns.
    SwitchDeepBoth,
    /// Both sides switch from eight frames deep in the very same
    /// functions. Operation: one switch in one direction, with one side's calls and returns.
    SwitchDeepSame,
    /// A coroutine is created on a stack from a warm pool, is handed a number, returns it plus
    /// one without having suspended, and is dropped. Operation: all of that.
    CreateRunDrop,
    /// This many tasks on one thread each yield in a loop, see [`ring`](crate::ring).
    /// Operation: one yield.
    Yield { tasks: u64 },
    /// A task spawns another one and joins it, over and over. Operation: one task.
    SpawnJoinOne,
    /// A task spawns this many tasks, then joins them all in order. Operation: one task.
    SpawnJoinMany { tasks: u64 },
    /// A timer that would fire in an hour is armed and then cancelled. Operation: both.
    TimerCreateCancel,
    /// [`MILLION`] tasks are suspended two calls deep with 256 bytes of live locals.
    MemorySuspended,
    /// [`MILLION`] tasks sleep until deadlines spread evenly, in scrambled order, over the
    /// 5 seconds that begin 5 seconds after the first was created. All sleep at once, all wake.
    TimerSleeping,
}

/// The tasks of the two workloads that are about many of them.
pub const MILLION: u64 = 1_000_000;

/// The order in which the tables are printed.
pub const ALL: &[Workload] = &[
    Workload::SwitchEmpty,
    Workload::SwitchDeepDifferent,
    Workload::SwitchDeepBoth,
    Workload::SwitchDeepSame,
    Workload::CreateRunDrop,
    Workload::Yield { tasks: 2 },
    Workload::Yield { tasks: 1_000 },
    Workload::Yield { tasks: 100_000 },
    Workload::SpawnJoinOne,
    Workload::SpawnJoinMany { tasks: 10_000 },
    Workload::TimerCreateCancel,
    Workload::MemorySuspended,
    Workload::TimerSleeping,
];

/// What pirn has to reach.
pub enum Target {
    /// pirn's median divided by this peer's.
    Ratio { peer: &'static str, at_most: f64 },
    /// Limits on pirn's own figures, by the name under which the child process reports them.
    Limits(&'static [(&'static str, f64)]),
}

impl Workload {
    /// The name on the command line and above the table.
    pub fn name(self) -> String {
        match self {
            Workload::SwitchEmpty => "switch/empty".into(),
            Workload::SwitchDeepDifferent => "switch/deep-different".into(),
            Workload::SwitchDeepBoth => "switch/deep-both".into(),
            Workload::SwitchDeepSame => "switch/deep-same".into(),
            Workload::CreateRunDrop => "coroutine/create-run-drop".into(),
            Workload::Yield { tasks } => format!("yield/{tasks}"),
            Workload::SpawnJoinOne => "spawn-join/one".into(),
            Workload::SpawnJoinMany { tasks } => format!("spawn-join/{tasks}"),
            Workload::TimerCreateCancel => "timer/create-cancel".into(),
            Workload::MemorySuspended => format!("memory/{MILLION}-suspended"),
            Workload::TimerSleeping => format!("timer/{MILLION}-sleeping"),
        }
    }

    /// What a figure in the table counts.
    pub fn unit(self) -> &'static str {
        match self {
            Workload::SwitchEmpty
            | Workload::SwitchDeepDifferent
            | Workload::SwitchDeepBoth
            | Workload::SwitchDeepSame => "ns per one-way switch",
            Workload::CreateRunDrop => "ns per coroutine",
            Workload::Yield { .. } => "ns per yield",
            Workload::SpawnJoinOne | Workload::SpawnJoinMany { .. } => "ns per task",
            Workload::TimerCreateCancel => "ns per timer",
            Workload::MemorySuspended => "bytes per suspended task",
            Workload::TimerSleeping => "seconds, and wall time over the last deadline",
        }
    }

    /// Whether a measurement takes gigabytes or many seconds, so that it runs only on request
    /// and in a process of its own.
    pub fn is_big(self) -> bool {
        matches!(self, Workload::MemorySuspended | Workload::TimerSleeping)
    }

    /// What pirn has to reach here.
    pub fn target(self) -> Option<Target> {
        let (peer, at_most) = match self {
            Workload::SwitchEmpty => ("corosensei", 0.9),
            Workload::SwitchDeepDifferent | Workload::SwitchDeepBoth => ("corosensei", 1.0),
            Workload::SwitchDeepSame => ("corosensei", 0.4),
            Workload::CreateRunDrop => ("corosensei", 0.6),
            Workload::Yield { tasks: 2 } => ("tokio", 0.06),
            Workload::Yield { tasks: 1_000 } => ("tokio", 0.25),
            Workload::Yield { tasks: 100_000 } => ("tokio", 0.2),
            Workload::Yield { .. } => return None,
            Workload::SpawnJoinOne => ("tokio", 0.3),
            Workload::SpawnJoinMany { .. } => ("smol", 0.7),
            Workload::TimerCreateCancel => ("tokio", 0.12),
            Workload::MemorySuspended => {
                return Some(Target::Limits(&[("resident", 4_300.0), ("page tables", 300.0)]));
            }
            Workload::TimerSleeping => {
                return Some(Target::Limits(&[("cpu s", 2.4), ("wall / last deadline", 1.01)]));
            }
        };
        Some(Target::Ratio { peer, at_most })
    }
}
