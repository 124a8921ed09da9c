//! A descriptor that tasks wait for: who reads, who writes, and what is known of its readiness.
//!
//! Every call is tried first; whoever finds that it would block (`EAGAIN`) waits here, in a queue for
//! each direction, by the same records as for a lock or a channel. So cancellation, time limits,
//! reports and tasks without a stack work as they do there. An edge wakes everybody in its direction:
//! it stands for no certain amount of data, and who does not find any waits again.
//!
//! # No edge is lost
//!
//! The edges of a reactor are handed out by its carrier, and so between two of its tasks, never
//! between a call that would block and the wait after it. What comes after such a call makes an edge,
//! which is handed out when the waiter is queued. A carrier that comes later registers the descriptor
//! anew, which reports what is ready by then.
//!
//! # Calls that are not made
//!
//! A stream that gave less than was asked for is *dry*: whatever comes next makes an edge. So the next
//! read waits at once, without the call that would block. That holds for the reactor whose carrier made
//! the call, until its next edge; and only as long as it has not reported an end, an error or urgent
//! data, which may stand behind the data of the same edge.
//!
//! # Waiting elsewhere
//!
//! An OS thread outside a runtime, and a fiber that cannot switch away since it panics, wait in
//! `poll(2)`.

use std::fmt::{self, Write};
use std::io;
use std::mem::{self, offset_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use super::cancel::check_cancelled;
use super::carrier::{Carrier, current_party};
use super::clock::{self, Instant};
use super::fiber::{Waiting, prefetch};
use super::reactor::{Events, Reactor, Token};
use super::registration::Pollable;
use super::resource::{Resource, ResourceKind};
use super::resumable::Context;
use super::wait::Outcome;
use super::wakes::Wakes;
use crate::sync::spin::Spin;
use crate::sync::waiters::{self, Record, Waiters};

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Read,
    Write,
    /// To be connected: that one can write.
    Connect,
}

/// What depends on the type that a source belongs to: what reports say.
pub(crate) struct SourceKind {
    describe: Describe,
    reading: ResourceKind,
    writing: ResourceKind,
    connecting: ResourceKind,
    /// Nothing but a bell reaches those who wait in the kernel when it is closed.
    needs_bell: bool,
}

/// Describes a descriptor for which somebody waits like that: "TcpStream fd 7 (127.0.0.1:80)".
pub(crate) type Describe = fn(BorrowedFd<'_>, Wish, &mut dyn Write) -> fmt::Result;

impl SourceKind {
    /// For a type whose readers wait "to read from", or whatever that is called there.
    pub(crate) const fn new(reading: &'static str, describe: Describe) -> SourceKind {
        SourceKind {
            describe,
            reading: ResourceKind::without_holder(reading).detailed(detail_reading),
            writing: ResourceKind::without_holder("to write to").detailed(detail_writing),
            connecting: ResourceKind::without_holder("to connect").detailed(detail_connecting),
            needs_bell: false,
        }
    }

    /// The same, for what cannot be shut down as sockets can.
    pub(crate) const fn without_shutdown(self) -> SourceKind {
        SourceKind { needs_bell: true, ..self }
    }
}

/// See the [module documentation](self).
#[repr(C)]
pub(crate) struct Source {
    /// What an edge touches comes first.
    state: Spin<State>,
    /// The descriptor, which it owns; -1 after it was given away.
    fd: AtomicI32,
    closed: AtomicBool,
    kind: &'static SourceKind,
    reading: Resource,
    writing: Resource,
    connecting: Resource,
}

#[derive(Default)]
struct State {
    readers: Waiters<()>,
    writers: Waiters<()>,
    /// With the reactor that came first.
    home: Option<Registration>,
    others: Vec<Registration>,
    /// Can be read from when the source is closed: for those who wait in the kernel.
    bell: Option<OwnedFd>,
}

struct Registration {
    reactor: Arc<Reactor>,
    token: Token,
    /// Nothing can be read before the next edge.
    dry: bool,
    /// An edge was exceptional: the end of the data shows in no other way than by reading.
    exceptional: bool,
}

impl State {
    fn registration(&mut self, reactor: *const Reactor) -> Option<&mut Registration> {
        self.home
            .iter_mut()
            .chain(&mut self.others)
            .find(|registration| ptr::eq(&raw const *registration.reactor, reactor))
    }

    fn queue(&mut self, wish: Wish) -> &mut Waiters<()> {
        match wish {
            Wish::Read => &mut self.readers,
            Wish::Write | Wish::Connect => &mut self.writers,
        }
    }
}

// What is behind the lock is whole whenever it is free; nothing of it runs user code.
impl UnwindSafe for Source {}
impl RefUnwindSafe for Source {}

impl Source {
    /// Takes a descriptor over, which must be in the mode that does not block.
    pub(crate) fn new(fd: OwnedFd, kind: &'static SourceKind) -> Arc<Source> {
        Arc::new(Source {
            reading: Resource::new(&kind.reading),
            writing: Resource::new(&kind.writing),
            connecting: Resource::new(&kind.connecting),
            kind,
            fd: AtomicI32::new(fd.into_raw_fd()),
            closed: AtomicBool::new(false),
            state: Spin::default(),
        })
    }

    /// The descriptor.
    #[inline]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open for as long as the source is used: `into_fd` consumes the last user.
        unsafe { BorrowedFd::borrow_raw(self.raw_fd()) }
    }

    #[inline]
    fn raw_fd(&self) -> RawFd {
        // Relaxed: changed by `into_fd` only.
        self.fd.load(Ordering::Relaxed)
    }

    /// Gives the descriptor away. What tasks without a stack still have registered is without effect
    /// from here on.
    pub(crate) fn into_fd(self: Arc<Self>) -> OwnedFd {
        self.deregister();
        // Nobody else uses it: the others that share the source only take themselves out.
        let fd = self.fd.swap(-1, Ordering::Relaxed);
        // SAFETY: it was ours, and is not any more.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    fn deregister(&self) {
        let mut state = self.state.lock();
        let (home, others) = (state.home.take(), mem::take(&mut state.others));
        drop(state);
        for Registration { reactor, token, .. } in home.into_iter().chain(others) {
            reactor.deregister(token, self.raw_fd());
        }
    }

    /// Ends all waits, and has all further ones fail.
    pub(crate) fn close(&self) {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        // Relaxed: waiters look under the lock; others may be late.
        self.closed.store(true, Ordering::Relaxed);
        state.readers.notify_all(|_| {}, &mut wakes);
        state.writers.notify_all(|_| {}, &mut wakes);
        if let Some(bell) = &state.bell {
            // SAFETY: eight bytes are valid. There is room for some 2^64 of them.
            unsafe { libc::write(bell.as_raw_fd(), ptr::from_ref(&1_u64).cast(), 8) };
        }
    }

    /// Whether it was [closed](Self::close).
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn resource(&self, wish: Wish) -> &Resource {
        match wish {
            Wish::Read => &self.reading,
            Wish::Write => &self.writing,
            Wish::Connect => &self.connecting,
        }
    }

    // What the reactor calls.

    /// There was an edge.
    pub(super) fn signal(&self, reactor: *const Reactor, events: Events, wakes: &mut Wakes) {
        let mut state = self.state.lock();
        if let Some(registration) = state.registration(reactor) {
            registration.exceptional |= events.is_exceptional();
            registration.dry &= !events.readable();
        }
        if events.readable() {
            state.readers.notify_all(|_| {}, wakes);
        }
        if events.writable() {
            state.writers.notify_all(|_| {}, wakes);
        }
    }

    // With many descriptors the misses of the cache cost more than all else that an edge costs: these
    // are called for edges further on, each for what the one before has brought.

    /// Asks for the source itself.
    #[inline]
    pub(super) fn prefetch(this: *const Source) {
        let state = this.cast::<u8>();
        prefetch(state);
        prefetch(state.wrapping_add(64));
    }

    /// Asks for the record of the first reader.
    #[inline]
    pub(super) fn prefetch_reader(&self) {
        if let Some(record) = self.state.lock().readers.peek() {
            prefetch(ptr::from_ref(record).cast());
        }
    }

    /// Asks for the first reader.
    #[inline]
    pub(super) fn prefetch_party(&self) {
        if let Some(record) = self.state.lock().readers.peek() {
            prefetch(record.party_address().cast());
        }
    }

    /// Whether anybody waits.
    pub(super) fn is_waited_for(&self) -> bool {
        let state = self.state.lock();
        !state.readers.is_empty() || !state.writers.is_empty()
    }

    /// The reactor is no more.
    pub(super) fn forget(&self, reactor: *const Reactor) {
        let is_it = |one: &Registration| ptr::eq(&raw const *one.reactor, reactor);
        let mut state = self.state.lock();
        state.home.take_if(|home| is_it(home));
        state.others.retain(|other| !is_it(other));
    }

    // Readiness.

    /// Before each call: gives way every so often.
    ///
    /// # Errors
    ///
    /// When it is closed.
    #[inline]
    pub(crate) fn begin_call(&self) -> io::Result<()> {
        if let Some(carrier) = Carrier::current() {
            carrier.take_turn();
        }
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Whether a read would block, for all that the calling carrier knows.
    #[inline]
    pub(crate) fn is_dry(&self) -> bool {
        let Some(reactor) = Carrier::current().and_then(Carrier::reactor_if_made) else {
            return false;
        };
        self.state.lock().registration(reactor).is_some_and(|registration| registration.dry)
    }

    /// A read of a stream gave less than it could have.
    #[inline]
    pub(crate) fn note_short_read(&self) {
        if let Some(reactor) = Carrier::current().and_then(Carrier::reactor_if_made)
            && let Some(registration) = self.state.lock().registration(reactor)
        {
            registration.dry = !registration.exceptional;
        }
    }

    /// Sees to it that the carrier's reactor watches the descriptor.
    fn ensure_registered(&self, carrier: &Carrier) -> io::Result<()> {
        let reactor = carrier.reactor()?;
        if self.state.lock().registration(&raw const **reactor).is_some() {
            return Ok(());
        }
        let token = reactor.register(self, self.raw_fd())?;
        carrier.poll_soon();
        let (dry, exceptional) = (false, false);
        let registration = Registration { reactor: reactor.clone(), token, dry, exceptional };
        let mut state = self.state.lock();
        if state.home.is_none() {
            state.home = Some(registration);
        } else {
            state.others.push(registration);
        }
        Ok(())
    }

    // Waiting.

    /// Waits until a call may succeed that would have blocked; it is to be tried again then.
    ///
    /// Unwinds if the wait is called off.
    ///
    /// # Errors
    ///
    /// When the time is up ([`is_time_limit`]), in a destructor whose waits are called off, when the
    /// source is closed, and when the kernel has no room to watch the descriptor.
    pub(crate) fn wait(&self, wish: Wish, deadline: Instant) -> io::Result<()> {
        let outcome = match Carrier::current() {
            Some(carrier) if !carrier.must_wait_in_place() => {
                self.wait_registered(carrier, wish, deadline)?
            }
            carrier => self.wait_in_place(carrier, wish, deadline)?,
        };
        match outcome {
            Outcome::Notified if self.is_closed() => Err(closed()),
            Outcome::Notified => Ok(()),
            Outcome::TimedOut => Err(time_limit()),
            Outcome::Cancelled => Err(called_off()),
        }
    }

    fn wait_registered(
        &self,
        carrier: &Carrier,
        wish: Wish,
        deadline: Instant,
    ) -> io::Result<Outcome> {
        self.ensure_registered(carrier)?;
        let mut state = self.state.lock();
        if self.is_closed() {
            return Err(closed());
        }
        let record = pin!(Record::begin(None, 0));
        state.queue(wish).push(record.as_ref());
        drop(state);
        let outcome = waiters::wait(record.as_ref(), self.resource(wish), deadline, |unlink| {
            unlink(self.state.lock().queue(wish));
        });
        check_cancelled(outcome);
        Ok(outcome)
    }

    /// Whether a call may succeed now that would have blocked.
    pub(crate) fn is_ready(&self, wish: Wish) -> io::Result<bool> {
        poll(self.raw_fd(), -1, wish, Some(Duration::ZERO))
    }

    // For a select, which begins and ends the wait by itself.

    /// Before it queues up.
    ///
    /// # Errors
    ///
    /// Where the caller has no reactor to wait in, or that has no room.
    pub(crate) fn prepare_select(&self) -> io::Result<()> {
        match Carrier::current() {
            Some(carrier) if !carrier.must_wait_in_place() => self.ensure_registered(carrier),
            _ => Err(no_reactor()),
        }
    }

    /// Lets it queue up. False: it is closed.
    pub(crate) fn with_queue(&self, wish: Wish, queue_up: impl FnOnce(&mut Waiters<()>)) -> bool {
        let mut state = self.state.lock();
        if self.is_closed() {
            return false;
        }
        queue_up(state.queue(wish));
        true
    }

    /// Lets it leave.
    pub(crate) fn leave_queue<R>(
        &self,
        wish: Wish,
        leave: impl FnOnce(&mut Waiters<()>) -> R,
    ) -> R {
        leave(self.state.lock().queue(wish))
    }

    /// Waits in the kernel, where nobody else can run meanwhile.
    fn wait_in_place(
        &self,
        carrier: Option<&Carrier>,
        wish: Wish,
        deadline: Instant,
    ) -> io::Result<Outcome> {
        let bell = self.bell()?;
        if self.is_closed() {
            return Err(closed());
        }
        let (mut until, mut late) = (deadline, Outcome::TimedOut);
        let mut is_virtual = false;
        if let Some(carrier) = carrier {
            let Some(patience) = carrier.patience(deadline) else { return Ok(Outcome::Cancelled) };
            (until, late) = (patience.until, patience.outcome);
            is_virtual = carrier.has_virtual_time();
        }
        loop {
            let left = match until {
                Instant::FAR_FUTURE => None,
                // Nothing that happens meanwhile takes any time on a virtual clock.
                _ if is_virtual => Some(Duration::ZERO),
                until => Some(until.saturating_duration_since(clock::monotonic())),
            };
            if poll(self.raw_fd(), bell, wish, left)? {
                return Ok(Outcome::Notified);
            }
            if left.is_some_and(|left| left.is_zero()) {
                carrier.into_iter().for_each(|carrier| carrier.pass_time_until(until));
                return Ok(late);
            }
        }
    }

    /// What [`close`](Self::close) rings from here on; -1: not needed.
    fn bell(&self) -> io::Result<RawFd> {
        if !self.kind.needs_bell {
            return Ok(-1);
        }
        let mut state = self.state.lock();
        if state.bell.is_none() {
            // SAFETY: takes no pointers.
            let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if bell < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: made just now.
            state.bell = Some(unsafe { OwnedFd::from_raw_fd(bell) });
        }
        Ok(state.bell.as_ref().map_or(-1, AsRawFd::as_raw_fd))
    }

    /// [`wait`](Self::wait) for a task without a stack: has it resumed.
    pub(crate) fn register_task(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        wish: Wish,
    ) -> io::Result<()> {
        let carrier = Carrier::current().expect("a task is resumed by a carrier");
        self.ensure_registered(carrier)?;
        let earlier = cx.find::<Pending>(self.resource(wish));
        let mut state = self.state.lock();
        if self.is_closed() {
            drop(state);
            earlier.into_iter().for_each(|registration| cx.withdraw(registration));
            return Err(closed());
        }
        let registration =
            earlier.unwrap_or_else(|| cx.register(Pending { source: self.clone(), wish }, None, 0));
        state.queue(wish).arm(registration.record(), cx.epoch());
        Ok(())
    }

    /// A task without a stack need not wait any more.
    pub(crate) fn settle_task(&self, cx: &mut Context<'_>, wish: Wish) {
        if let Some(registration) = cx.find::<Pending>(self.resource(wish)) {
            cx.withdraw(registration);
        }
    }
}

/// Waits for a while, for what the kernel does not announce.
///
/// # Errors
///
/// In a destructor whose waits are called off.
pub(crate) fn pause_until(deadline: Instant) -> io::Result<()> {
    let party = current_party();
    let epoch = party.begin();
    super::wait(party, epoch, Waiting::Sleep(deadline), deadline);
    let outcome = party.waiter.finish();
    check_cancelled(outcome);
    if outcome == Outcome::Cancelled { Err(called_off()) } else { Ok(()) }
}

impl Drop for Source {
    fn drop(&mut self) {
        let fd = self.raw_fd();
        if fd >= 0 {
            self.deregister();
            // SAFETY: it is ours.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.kind.describe)(self.fd(), Wish::Read, f)
    }
}

/// A parked task's share in what it waits for.
struct Pending {
    source: Arc<Source>,
    wish: Wish,
}

impl Pollable for Pending {
    type Item = ();

    fn resource(&self) -> *const Resource {
        self.source.resource(self.wish)
    }

    fn withdraw(&self, record: &Record<()>) {
        self.source.state.lock().queue(self.wish).withdraw(record);
    }
}

/// Whether a descriptor is ready just now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, wish: Wish) -> io::Result<bool> {
    poll(fd.as_raw_fd(), -1, wish, Some(Duration::ZERO))
}

/// Waits for a descriptor in the kernel, or for a bell, which a negative number is not. False: the time
/// is up, or a signal came.
fn poll(fd: RawFd, bell: RawFd, wish: Wish, timeout: Option<Duration>) -> io::Result<bool> {
    let events = if wish == Wish::Read { libc::POLLIN | libc::POLLRDHUP } else { libc::POLLOUT };
    let mut watched = [(fd, events), (bell, libc::POLLIN)].map(|(fd, events)| libc::pollfd {
        fd,
        events,
        revents: 0,
    });
    let timeout = timeout.map(clock::timespec);
    let timeout = timeout.as_ref().map_or(ptr::null(), |timeout| timeout as *const libc::timespec);
    // SAFETY: descriptor records and time are valid; there is no mask of signals.
    let ready = unsafe { libc::ppoll(watched.as_mut_ptr(), 2, timeout, ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    Ok(ready > 0)
}

// Errors.

/// An error that is told from others by its type.
macro_rules! plain_error {
    ($(#[$doc:meta])* $function:ident, $name:ident, $kind:ident, $text:literal) => {
        #[derive(Debug)]
        struct $name;

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($text)
            }
        }

        impl std::error::Error for $name {}

        $(#[$doc])*
        pub(crate) fn $function() -> io::Error {
            io::Error::new(io::ErrorKind::$kind, $name)
        }
    };
}

plain_error! {
    /// The kind is that of std on Unix.
    time_limit, TimeLimit, WouldBlock, "the time limit of the call passed before it could go on"
}
plain_error! {
    called_off, CalledOff, Other,
    "the wait was called off: the fiber is cancelled, or its runtime ends"
}
plain_error! {
    no_reactor, NoReactor, Unsupported,
    "a select waits for descriptors in a fiber of a runtime only, and not while that panics"
}
plain_error! {
    closed, Closed, NotConnected, "it was closed while it was in use"
}

/// Whether an error is that of a call whose time was up.
pub(crate) fn is_time_limit(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<TimeLimit>())
}

// Reports.

impl Source {
    fn describe(&self, wish: Wish, to: &mut dyn Write) -> fmt::Result {
        to.write_str(" ")?;
        (self.kind.describe)(self.fd(), wish, to)
    }
}

/// # Safety
///
/// The resource must be at this offset in a living source.
unsafe fn source_of<'a>(resource: *const Resource, offset: usize) -> &'a Source {
    // SAFETY: by the contract.
    unsafe { &*resource.byte_sub(offset).cast::<Source>() }
}

unsafe fn detail_reading(resource: *const Resource, to: &mut dyn Write) -> fmt::Result {
    // SAFETY: the kind is that of this field.
    unsafe { source_of(resource, offset_of!(Source, reading)) }.describe(Wish::Read, to)
}

unsafe fn detail_writing(resource: *const Resource, to: &mut dyn Write) -> fmt::Result {
    // SAFETY: as above.
    unsafe { source_of(resource, offset_of!(Source, writing)) }.describe(Wish::Write, to)
}

unsafe fn detail_connecting(resource: *const Resource, to: &mut dyn Write) -> fmt::Result {
    // SAFETY: as above.
    unsafe { source_of(resource, offset_of!(Source, connecting)) }.describe(Wish::Connect, to)
}
