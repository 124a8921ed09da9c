//! What is measured: every workload, what one operation of it is, and what pirn has to reach.
//!
//! This is the one description that all contenders implement; `contenders/` holds one file or
//! folder for each of them, of the same shape. Whatever is not named as part of an operation
//! (making the runtime, warming a pool, creating the coroutine that is then switched to) is outside
//! the timed stretch, for everybody; of workloads that run by themselves once begun, such as the
//! streams through channels, a stretch includes the creation of their few tasks.

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
    /// Two tasks send a number to and fro over two channels without a buffer, or with the smallest
    /// that the library has. Operation: one message.
    ChannelRendezvous,
    /// This many tasks send on one channel with 128 places, and as many receive, all as fast as
    /// they can. Operation: one message.
    ChannelBounded { pairs: u64 },
    /// A task makes a oneshot channel, sends and receives. Operation: all of that.
    ChannelOneshot,
    /// A value is promised, eight tasks wait for it, a ninth sets it and all eight take it; see
    /// [`relay`](crate::relay). Operation: all of that.
    PromiseWaiters,
    /// A task receives from whichever of four channels is ready, which all are, and fills that one
    /// up again. Operation: one select and one send.
    SelectReady,
    /// A task waits for whichever of four channels gets a message, and answers over a fifth the
    /// task that sent it, which then sends on the next one of the four. Operation: one select, two
    /// messages, two switches.
    SelectBecomesReady,
    /// A mutex that nobody else wants is locked and unlocked. Operation: both.
    MutexUncontended,
    /// [`LOCKERS`] tasks lock one mutex, yield while they hold it and unlock it, each in a loop.
    /// Operation: one turn of a loop.
    MutexYielding,
    /// A task puts a number into a channel and receives it within a time limit of an hour.
    /// Operation: both.
    TimeoutReadyReceive,
    /// [`MILLION`] tasks are suspended two calls deep with 256 bytes of live locals.
    MemorySuspended,
    /// [`MILLION`] tasks sleep until deadlines spread evenly, in scrambled order, over the
    /// 5 seconds that begin 5 seconds after the first was created. All sleep at once, all wake.
    TimerSleeping,
}

/// The tasks of the two workloads that are about many of them.
pub const MILLION: u64 = 1_000_000;

/// The tasks of [`Workload::MutexYielding`].
pub const LOCKERS: u64 = 8;

/// The places of the channel of [`Workload::ChannelBounded`].
pub const PLACES: usize = 128;

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
    Workload::ChannelRendezvous,
    Workload::ChannelBounded { pairs: 1 },
    Workload::ChannelBounded { pairs: 4 },
    Workload::ChannelOneshot,
    Workload::PromiseWaiters,
    Workload::SelectReady,
    Workload::SelectBecomesReady,
    Workload::MutexUncontended,
    Workload::MutexYielding,
    Workload::TimeoutReadyReceive,
    Workload::MemorySuspended,
    Workload::TimerSleeping,
];

/// What pirn has to reach.
pub enum Target {
    /// pirn's median divided by that of each of these peers.
    Ratio { peers: &'static [&'static str], at_most: f64 },
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
            Workload::ChannelRendezvous => "channel/rendezvous".into(),
            Workload::ChannelBounded { pairs } => {
                format!("channel/bounded-{PLACES}-{pairs}-{pairs}")
            }
            Workload::ChannelOneshot => "channel/oneshot".into(),
            Workload::PromiseWaiters => "promise/8-waiters".into(),
            Workload::SelectReady => "select/4-ready".into(),
            Workload::SelectBecomesReady => "select/4-one-becomes-ready".into(),
            Workload::MutexUncontended => "mutex/uncontended".into(),
            Workload::MutexYielding => format!("mutex/{LOCKERS}-yielding"),
            Workload::TimeoutReadyReceive => "timeout/ready-recv".into(),
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
            Workload::ChannelRendezvous | Workload::ChannelBounded { .. } => "ns per message",
            Workload::ChannelOneshot => "ns per channel",
            Workload::PromiseWaiters => "ns per promise",
            Workload::SelectReady | Workload::SelectBecomesReady => "ns per select",
            Workload::MutexUncontended | Workload::MutexYielding => "ns per lock and unlock",
            Workload::TimeoutReadyReceive => "ns per message",
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
        let (peers, at_most): (&[&str], f64) = match self {
            Workload::SwitchEmpty => (&["corosensei"], 0.9),
            Workload::SwitchDeepDifferent | Workload::SwitchDeepBoth => (&["corosensei"], 1.0),
            Workload::SwitchDeepSame => (&["corosensei"], 0.4),
            Workload::CreateRunDrop => (&["corosensei"], 0.6),
            Workload::Yield { tasks: 2 } => (&["tokio"], 0.06),
            Workload::Yield { tasks: 1_000 } => (&["tokio"], 0.25),
            Workload::Yield { tasks: 100_000 } => (&["tokio"], 0.2),
            Workload::Yield { .. } => return None,
            Workload::SpawnJoinOne => (&["tokio"], 0.3),
            Workload::SpawnJoinMany { .. } => (&["smol"], 0.7),
            Workload::TimerCreateCancel => (&["tokio"], 0.12),
            Workload::ChannelRendezvous => (&["tokio"], 0.3),
            Workload::ChannelBounded { pairs: 1 } => (&["flume on tokio"], 0.35),
            Workload::ChannelBounded { .. } => (&["flume on tokio"], 0.4),
            Workload::ChannelOneshot | Workload::PromiseWaiters => (&["tokio"], 0.5),
            Workload::SelectReady | Workload::SelectBecomesReady => {
                (&["Go", "tokio", "crossbeam, OS threads"], 1.0)
            }
            Workload::MutexUncontended => (&["std::sync"], 1.0),
            Workload::MutexYielding => (&["may"], 0.3),
            Workload::TimeoutReadyReceive => (&["tokio"], 0.3),
            Workload::MemorySuspended => {
                return Some(Target::Limits(&[("resident", 4_300.0), ("page tables", 300.0)]));
            }
            Workload::TimerSleeping => {
                return Some(Target::Limits(&[("cpu s", 2.4), ("wall / last deadline", 1.01)]));
            }
        };
        Some(Target::Ratio { peers, at_most })
    }
}
