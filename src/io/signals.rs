//! Signals, received like values from a channel.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::signal::Signal;
use crate::sched::clock::Instant;
use crate::sched::signals::{self, Listener, SignalSet};
use crate::sched::source::{self, Source, SourceKind, Wish};
use crate::sync::select::SourceArm;
use crate::task::Context;

static KIND: SourceKind = SourceKind::new("to receive a signal from", |fd, _, to| {
    write!(to, "Signals fd {}", fd.as_raw_fd())
})
.without_shutdown();

/// Begins to listen to signals: from here on they no longer do what they did before, which is to end
/// the process, as a rule, but are [received](Signals::recv).
///
/// ```no_run
/// use pirn::io::{self, Signal};
///
/// pirn::run(|| {
///     let signals = io::signals(&[Signal::Interrupt, Signal::Terminate])?;
///     println!("Ctrl-C ends this");
///     let which = signals.recv()?;
///     println!("{which}: good bye");
///     Ok::<(), std::io::Error>(())
/// }).unwrap();
/// ```
///
/// In a [`select!`](crate::select) it is an arm like a channel: `recv(signals) -> signal => …`.
///
/// # What comes and what does not
///
/// * Each listener gets each signal, whoever else listens to it.
/// * A signal that comes again before it was received is received once: the system itself keeps no
///   count. Of several the one with the lowest number comes first.
/// * Only what comes from now on is received; and only if a thread of the process takes the signal: one
///   that all of them block waits in the system.
///
/// # Handlers of others
///
/// A handler that was installed before, by a C library for instance, is called as well, each time. What
/// the signal did before, ending the process or nothing, it does not do while somebody listens, and
/// does again when the last listener is dropped. A handler that is installed over this one meanwhile
/// stays; it decides whether this one is called.
///
/// # Processes
///
/// Children that [execute](crate::process) another program begin with the actions of the system. After
/// a `fork` the child's listeners go on, with what the child itself is sent.
///
/// # Errors
///
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for an empty list, and for signals that nobody can
/// listen to: SIGKILL and SIGSTOP, which the system keeps, and those that say that a thread cannot go
/// on, as SIGSEGV does. The error names the signal. Others when the process has no descriptor left.
pub fn signals(signals: &[Signal]) -> io::Result<Signals> {
    let refused = |signal, reason| {
        Err(io::Error::new(io::ErrorKind::InvalidInput, CannotListen { signal, reason }))
    };
    let mut set = SignalSet::default();
    for &signal in signals {
        if let Some(reason) = signal.refusal() {
            return refused(signal, reason);
        }
        if !set.insert(signal.as_raw()) {
            return refused(signal, "there is none");
        }
    }
    if signals.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no signals to listen to"));
    }
    match signals::listen(set) {
        Ok(listener) => {
            // SAFETY: it is the listener's, which is ours alone; `drop` gives it back to that.
            let bell = unsafe { OwnedFd::from_raw_fd(listener.bell()) };
            Ok(Signals { listener, source: Some(Source::new(bell, &KIND)) })
        }
        Err((Some(signal), error)) => {
            let signal = Signal::from_raw(signal).map_or_else(String::new, |one| one.to_string());
            Err(io::Error::new(error.kind(), format!("cannot listen to {signal}: {error}")))
        }
        Err((None, error)) => Err(error),
    }
}

/// Why a signal cannot be listened to.
#[derive(Debug)]
struct CannotListen {
    signal: Signal,
    reason: &'static str,
}

impl fmt::Display for CannotListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen to {}: {}", self.signal, self.reason)
    }
}

impl Error for CannotListen {}

/// Receives signals; made by [`signals`](signals()).
///
/// Fibers, threads outside runtimes and [tasks without a stack](crate::task) receive. Of several who
/// receive from the same listener one gets the signal. While somebody waits for a signal nothing is a
/// deadlock.
pub struct Signals {
    listener: &'static Listener,
    /// There until the drop.
    source: Option<Arc<Source>>,
}

impl Signals {
    pub(crate) fn source(&self) -> &Arc<Source> {
        self.source.as_ref().expect("there until the drop")
    }

    /// Waits for a signal.
    ///
    /// # Errors
    ///
    /// When it is [closed](Self::close), in a destructor whose waits are called off, and when the
    /// system has no room to watch for signals.
    pub fn recv(&self) -> io::Result<Signal> {
        self.recv_until(Instant::FAR_FUTURE)
    }

    /// Waits for a signal, at most for this long. `None`: the time is up.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn recv_timeout(&self, limit: Duration) -> io::Result<Option<Signal>> {
        match self.recv_until(Instant::now() + limit) {
            Err(error) if source::is_time_limit(&error) => Ok(None),
            result => result.map(Some),
        }
    }

    fn recv_until(&self, deadline: Instant) -> io::Result<Signal> {
        self.source().begin_call()?;
        loop {
            if let Some(signal) = self.try_recv() {
                return Ok(signal);
            }
            self.source().wait(Wish::Read, deadline)?;
        }
    }

    /// Takes a signal that has come.
    pub fn try_recv(&self) -> Option<Signal> {
        // Those that came were wanted, and so are known.
        self.listener.take().and_then(Signal::from_raw)
    }

    /// [`recv`](Self::recv) for a [`Resumable`](crate::task::Resumable): pending until a signal comes,
    /// which resumes the task.
    ///
    /// # Errors
    ///
    /// As for `recv`.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Signal>> {
        let source = self.source();
        let ready =
            if source.is_closed() { Some(Err(source::closed())) } else { self.try_recv().map(Ok) };
        if let Some(result) = ready {
            source.settle_task(cx, Wish::Read);
            return Poll::Ready(result);
        }
        match source.register_task(cx, Wish::Read) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    #[doc(hidden)]
    pub fn __receive_arm(
        &self,
    ) -> SourceArm<Signal, impl Fn() -> Option<io::Result<Signal>> + use<'_>> {
        SourceArm::new(self.source(), Wish::Read, || self.try_recv().map(Ok))
    }

    /// Receives one signal after the other; ends when [`recv`](Self::recv) fails.
    ///
    /// ```no_run
    /// use pirn::{io::{self, Signal}, thread};
    ///
    /// pirn::run(|| {
    ///     let hangups = io::signals(&[Signal::Hangup])?;
    ///     thread::spawn(move || {
    ///         for _ in &hangups {
    ///             println!("reading the settings again");
    ///         }
    ///     });
    ///     // … what the program does …
    ///     Ok::<(), std::io::Error>(())
    /// }).unwrap();
    /// ```
    pub fn iter(&self) -> SignalsIter<'_> {
        SignalsIter { signals: self }
    }

    /// Ends its use, for all who share it: whoever waits is woken, and his call fails with
    /// [`NotConnected`](io::ErrorKind::NotConnected), as do all further ones. The signals do what they
    /// did before when it is dropped.
    pub fn close(&self) {
        self.source().close();
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(source) = self.source.take() {
            // The bell stays with the listener.
            let _ = source.into_fd().into_raw_fd();
            signals::unlisten(self.listener);
        }
    }
}

/// Can be read from when there may be a signal. Nobody else may read from it, or write to it.
impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source().fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.source().fd().as_raw_fd()
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Signals {
    type Item = Signal;
    type IntoIter = SignalsIter<'a>;

    fn into_iter(self) -> SignalsIter<'a> {
        self.iter()
    }
}

/// Waits for each signal; made by [`Signals::iter`].
#[derive(Debug)]
pub struct SignalsIter<'a> {
    signals: &'a Signals,
}

impl Iterator for SignalsIter<'_> {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        self.signals.recv().ok()
    }
}
