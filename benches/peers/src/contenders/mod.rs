//! One file or folder for each library, all of one shape: `enter` says which workloads the library
//! takes part in, and below it stands one function for each. Where a library offers several ways,
//! its file uses the fastest public one.

mod calls_alone;
mod corosensei;
mod crossbeam;
#[cfg_attr(not(has_fcontext), path = "fcontext_missing.rs")]
mod fcontext;
mod flume;
mod generator;
#[cfg_attr(not(has_go), path = "go_missing.rs")]
mod go;
mod may;
mod parking_lot;
#[cfg(feature = "pirn-side")]
mod pirn;
mod smol;
mod std_sync;
mod std_thread;
mod tokio;
mod ucontext;

use crate::measure::Entry;
use crate::workload::Workload;

/// A library that is measured.
pub struct Contender {
    pub name: &'static str,
    /// How it takes part in a workload.
    pub enter: fn(Workload) -> Entry,
}

/// All of them, in the order in which a round visits them.
pub const ALL: &[Contender] = &[
    #[cfg(feature = "pirn-side")]
    Contender { name: "pirn", enter: pirn::enter },
    #[cfg(feature = "pirn-side")]
    Contender { name: "pirn, receiver first", enter: pirn::enter_receiver_first },
    #[cfg(feature = "pirn-side")]
    Contender { name: "pirn, time::timeout", enter: pirn::enter_time_limit },
    Contender { name: "corosensei", enter: corosensei::enter },
    Contender { name: "generator", enter: generator::enter },
    Contender { name: "fcontext", enter: fcontext::enter },
    Contender { name: "ucontext", enter: ucontext::enter },
    Contender { name: "(calls alone)", enter: calls_alone::enter },
    Contender { name: "tokio", enter: tokio::enter },
    Contender { name: "tokio, no drivers", enter: tokio::enter_without_drivers },
    Contender { name: "tokio, one receiver", enter: tokio::enter_one_receiver },
    Contender { name: "flume on tokio", enter: flume::enter_on_tokio },
    Contender { name: "smol", enter: smol::enter },
    Contender { name: "smol, LocalExecutor", enter: smol::enter_local },
    Contender { name: "may", enter: may::enter },
    Contender { name: "Go", enter: go::enter },
    Contender { name: "std::thread", enter: std_thread::enter },
    Contender { name: "crossbeam, OS threads", enter: crossbeam::enter },
    Contender { name: "flume, OS threads", enter: flume::enter_on_threads },
    Contender { name: "std::sync", enter: std_sync::enter },
    Contender { name: "parking_lot", enter: parking_lot::enter },
];
