//! Which signals there are.

use std::fmt;

macro_rules! signals {
    ($($(#[$doc:meta])* $variant:ident = $raw:ident,)*) => {
        /// A signal of the system, for [`signals`](super::signals()).
        ///
        /// ```
        /// use pirn::io::Signal;
        ///
        /// assert_eq!(Signal::Interrupt.to_string(), "SIGINT");
        /// assert_eq!(Signal::from_raw(15), Some(Signal::Terminate));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Signal {
            $($(#[$doc])* $variant,)*
            /// One of the signals without a meaning of their own, by its distance from `SIGRTMIN`.
            RealTime(u8),
        }

        impl Signal {
            /// The number that the system knows it by; for a [`RealTime`](Self::RealTime) that does
            /// not exist, one that the system does not know.
            pub fn as_raw(self) -> i32 {
                match self {
                    $(Signal::$variant => libc::$raw,)*
                    Signal::RealTime(distance) => libc::SIGRTMIN() + i32::from(distance),
                }
            }

            /// The signal with this number, if there is one. Those that the C library keeps for itself
            /// are none.
            pub fn from_raw(number: i32) -> Option<Signal> {
                match number {
                    $(libc::$raw => Some(Signal::$variant),)*
                    _ if number > libc::SIGRTMAX() => None,
                    _ => u8::try_from(number - libc::SIGRTMIN()).ok().map(Signal::RealTime),
                }
            }
        }

        /// "SIGINT"
        impl fmt::Display for Signal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Signal::$variant => f.write_str(stringify!($raw)),)*
                    Signal::RealTime(distance) => write!(f, "SIGRTMIN+{distance}"),
                }
            }
        }
    };
}

signals! {
    /// SIGHUP: the terminal is gone; to a server, read your settings again.
    Hangup = SIGHUP,
    /// SIGINT: Ctrl-C.
    Interrupt = SIGINT,
    /// SIGQUIT: Ctrl-\.
    Quit = SIGQUIT,
    /// SIGILL: no such instruction. It cannot be listened to.
    Illegal = SIGILL,
    /// SIGTRAP: a breakpoint. It cannot be listened to.
    Trap = SIGTRAP,
    /// SIGABRT: the process gives up. It cannot be listened to.
    Abort = SIGABRT,
    /// SIGBUS: no memory at an address. It cannot be listened to.
    Bus = SIGBUS,
    /// SIGFPE: a division by zero. It cannot be listened to.
    Arithmetic = SIGFPE,
    /// SIGKILL: the end. It cannot be listened to.
    Kill = SIGKILL,
    /// SIGUSR1: whatever the program says.
    User1 = SIGUSR1,
    /// SIGSEGV: an access to memory that is not the process's. It cannot be listened to.
    Segmentation = SIGSEGV,
    /// SIGUSR2: whatever the program says.
    User2 = SIGUSR2,
    /// SIGPIPE: nobody reads the pipe that was written to.
    Pipe = SIGPIPE,
    /// SIGALRM: a timer of the process.
    Alarm = SIGALRM,
    /// SIGTERM: please end.
    Terminate = SIGTERM,
    /// SIGSTKFLT: nothing any more.
    StackFault = SIGSTKFLT,
    /// SIGCHLD: a child has ended or stopped.
    Child = SIGCHLD,
    /// SIGCONT: go on after a stop.
    Continue = SIGCONT,
    /// SIGSTOP: stop. It cannot be listened to.
    Stop = SIGSTOP,
    /// SIGTSTP: Ctrl-Z.
    TerminalStop = SIGTSTP,
    /// SIGTTIN: a process in the background reads from its terminal.
    TerminalInput = SIGTTIN,
    /// SIGTTOU: a process in the background writes to its terminal.
    TerminalOutput = SIGTTOU,
    /// SIGURG: a socket has urgent data.
    Urgent = SIGURG,
    /// SIGXCPU: the limit on the processor's time is reached.
    CpuLimit = SIGXCPU,
    /// SIGXFSZ: the limit on the size of files is reached.
    FileLimit = SIGXFSZ,
    /// SIGVTALRM: a timer of the process's own time.
    VirtualAlarm = SIGVTALRM,
    /// SIGPROF: a profiler's timer.
    Profile = SIGPROF,
    /// SIGWINCH: the terminal's window has another size.
    WindowChange = SIGWINCH,
    /// SIGIO: a descriptor is ready.
    Io = SIGIO,
    /// SIGPWR: the power fails.
    Power = SIGPWR,
    /// SIGSYS: no such system call. It cannot be listened to.
    SystemCall = SIGSYS,
}

impl Signal {
    /// Why nobody may listen to it, if nobody may.
    pub(super) fn refusal(self) -> Option<&'static str> {
        match self {
            Signal::Kill | Signal::Stop => Some("the system lets no process handle it"),
            Signal::Illegal
            | Signal::Trap
            | Signal::Bus
            | Signal::Arithmetic
            | Signal::Segmentation
            | Signal::SystemCall => Some("what has raised it would be tried again for ever"),
            Signal::Abort => Some("a process that aborts does not go on"),
            Signal::RealTime(_) if self.as_raw() > libc::SIGRTMAX() => Some("there is none"),
            _ => None,
        }
    }
}
