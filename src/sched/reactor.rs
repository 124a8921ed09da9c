//! The reactor: what a carrier's descriptors are ready for, by `epoll`.
//!
//! A carrier makes its reactor when the first of its tasks has to wait for a descriptor. From then on
//! it sleeps there instead of in its [mailbox](super::mailbox)'s futex, so that one call of the kernel
//! waits for descriptors, for the next timer and for other threads. Programs without sockets never
//! come here.
//!
//! # Registration
//!
//! A descriptor is registered once with each reactor whose tasks have to wait for it: with one, as a
//! rule. It is watched for edges, in both directions, so a wait needs no further system call. Where
//! the descriptor is used from several runtimes, each has a registration of its own, and its waiters
//! depend on their own carrier only.
//!
//! What an edge wakes is a [`Source`](super::source::Source). The kernel keeps a *token* for it: the
//! number of a slot, and how often that has been used. An event that was fetched before its descriptor
//! was taken out finds another count there, and is dropped.
//!
//! # Order of service
//!
//! Whenever a carrier polls, and when it wakes, it takes in mail, then what is ready, then due timers;
//! what they wake goes to the end of the run queue in that order. Then come ready tasks, and when there
//! are none, sleep. While descriptors are registered polls are about 100 µs apart, so tasks that
//! never wait do not hold up descriptors; and fibers that always find their descriptor ready give way
//! after [so many calls](TURNS) in one run, so they do not hold up others.
//!
//! # Who may do what
//!
//! Only the carrier registers, waits and hands out events. Any thread may take a descriptor out, under
//! the lock of the slots; that lock comes before the one of a source.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::clock;
use super::fork;
use super::source::Source;
use super::wakes::Wakes;
use crate::sync::spin::Spin;

/// Calls in one run of a fiber after which it gives way: they have found their descriptor ready.
pub(super) const TURNS: u32 = 16;

/// How many events are fetched at a time.
const BATCH: usize = 512;

/// How far ahead of an event its source is asked for, then the record that waits there, then whose that
/// is: each needs the one before.
const AHEAD_SOURCE: usize = 12;
const AHEAD_RECORD: usize = 8;
const AHEAD_PARTY: usize = 4;

/// What a descriptor is watched for: everything, by edges.
const INTEREST: i32 =
    libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET;

/// Names a registration: a slot, and below that how often it has been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token(u64);

impl Token {
    /// The mailbox's bell.
    const BELL: Token = Token(u64::MAX);

    fn new(index: usize, uses: u32) -> Token {
        Token((index as u64) << 32 | u64::from(uses))
    }

    fn index(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn uses(self) -> u32 {
        self.0 as u32
    }
}

/// What an event says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events(u32);

impl Events {
    fn has(self, any_of: i32) -> bool {
        self.0 & any_of.cast_unsigned() != 0
    }

    /// Reading may succeed, or say why it cannot.
    pub(super) fn readable(self) -> bool {
        self.has(libc::EPOLLIN | libc::EPOLLPRI) || self.is_exceptional()
    }

    /// Writing may succeed, or say why it cannot.
    pub(super) fn writable(self) -> bool {
        self.has(libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP)
    }

    /// The other side has ended, something has failed, or there is urgent data: that a read came back
    /// with less than it could take says nothing of what comes next.
    pub(super) fn is_exceptional(self) -> bool {
        self.has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLPRI)
    }
}

struct Slot {
    /// Null: it is free.
    source: *const Source,
    /// How often it has been used, modulo 2^32.
    uses: u32,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Where somebody was last seen to wait.
    hint: usize,
}

// SAFETY: the sources are alive as long as they stand there, and are shared between threads anyway.
unsafe impl Send for Slots {}

impl Slots {
    fn insert(&mut self, source: *const Source) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { source: ptr::null(), uses: 0 });
            self.slots.len() - 1
        });
        self.slots[index].source = source;
        Token::new(index, self.slots[index].uses)
    }

    /// False: it is out already.
    fn remove(&mut self, token: Token) -> bool {
        // There are none when the carrier has ended meanwhile.
        let Some(slot) = self.slots.get_mut(token.index()) else { return false };
        let is_in = slot.uses == token.uses() && !slot.source.is_null();
        if is_in {
            slot.source = ptr::null();
            slot.uses = slot.uses.wrapping_add(1);
            self.free.push(token.index());
        }
        is_in
    }

    fn get(&self, token: Token) -> Option<&Source> {
        let slot = self.slots.get(token.index())?;
        if slot.uses != token.uses() {
            return None;
        }
        // SAFETY: a source takes itself out before it is gone, for which it needs the lock.
        unsafe { slot.source.as_ref() }
    }
}

/// See the [module documentation](self).
pub(crate) struct Reactor {
    epoll: OwnedFd,
    /// The process that it was made in.
    made_in: u32,
    /// How many descriptors are registered.
    registered: AtomicUsize,
    slots: Spin<Slots>,
}

impl Reactor {
    /// A reactor that this bell wakes.
    pub(super) fn new(bell: RawFd) -> io::Result<Arc<Reactor>> {
        // SAFETY: takes no pointers.
        let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let reactor = Reactor {
            // SAFETY: made just now.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            made_in: fork::generation(),
            registered: AtomicUsize::new(0),
            slots: Spin::default(),
        };
        reactor.control(libc::EPOLL_CTL_ADD, bell, libc::EPOLLIN | libc::EPOLLET, Token::BELL)?;
        Ok(Arc::new(reactor))
    }

    fn control(&self, operation: i32, fd: RawFd, interest: i32, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.cast_unsigned(), u64: token.0 };
        // SAFETY: the event is valid.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) })
            .map(drop)
    }

    /// Whether any descriptor is registered.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.registered() > 0
    }

    /// How many descriptors are registered.
    #[inline]
    pub(super) fn registered(&self) -> usize {
        // Relaxed: the carrier sees what it has registered itself.
        self.registered.load(Ordering::Relaxed)
    }

    /// Watches a descriptor of a source. If it is ready already, that is the first event.
    ///
    /// The source must [take itself out](Self::deregister) before it is gone.
    pub(super) fn register(&self, source: &Source, fd: RawFd) -> io::Result<Token> {
        let token = self.slots.lock().insert(source);
        self.registered.fetch_add(1, Ordering::Relaxed);
        self.control(libc::EPOLL_CTL_ADD, fd, INTEREST, token).inspect_err(|_| {
            self.forget(token);
        })?;
        Ok(token)
    }

    fn forget(&self, token: Token) -> bool {
        let was_in = self.slots.lock().remove(token);
        if was_in {
            self.registered.fetch_sub(1, Ordering::Relaxed);
        }
        was_in
    }

    /// Takes a descriptor out, before it is closed: a duplicate would keep it in the kernel's set.
    /// Afterwards nobody refers to the source from here.
    pub(super) fn deregister(&self, token: Token, fd: RawFd) {
        // After a fork the set is the parent's as well, and so is the lock's holder.
        if self.made_in == fork::generation() && self.forget(token) {
            let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, token);
        }
    }

    /// Hands events out.
    fn signal(&self, events: &[libc::epoll_event], wakes: &mut Wakes) {
        let slots = self.slots.lock();
        let source = |event: &libc::epoll_event| slots.get(Token(event.u64));
        for (index, event) in events.iter().enumerate() {
            let ahead = |places: usize| events.get(index + places).and_then(source);
            ahead(AHEAD_SOURCE).into_iter().for_each(|source| Source::prefetch(source));
            ahead(AHEAD_RECORD).into_iter().for_each(Source::prefetch_reader);
            ahead(AHEAD_PARTY).into_iter().for_each(Source::prefetch_party);
            // None for the bell, which has done its work.
            if let Some(source) = source(event) {
                source.signal(self, Events(event.events), wakes);
            }
        }
    }

    /// Whether somebody waits for a descriptor that is registered here.
    pub(super) fn is_waited_for(&self) -> bool {
        let mut slots = self.slots.lock();
        let count = slots.slots.len();
        let hint = slots.hint;
        let found = (hint..count).chain(0..hint.min(count)).find(|&index| {
            // SAFETY: as in `get`.
            unsafe { slots.slots[index].source.as_ref() }.is_some_and(Source::is_waited_for)
        });
        slots.hint = found.unwrap_or(0);
        found.is_some()
    }

    /// The carrier ends: no source refers to the reactor any more.
    pub(super) fn retire(&self) {
        let mut slots = self.slots.lock();
        for slot in std::mem::take(&mut slots.slots) {
            // SAFETY: as in `get`.
            if let Some(source) = unsafe { slot.source.as_ref() } {
                source.forget(self);
            }
        }
        slots.free.clear();
    }
}

/// The carrier's side of its reactor.
pub(super) struct Watch {
    pub(super) reactor: Arc<Reactor>,
    events: Vec<libc::epoll_event>,
    /// How many of `events` the last wait has brought.
    fetched: usize,
}

impl Watch {
    pub(super) fn new(bell: RawFd) -> io::Result<Watch> {
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; BATCH];
        Ok(Watch { reactor: Reactor::new(bell)?, events, fetched: 0 })
    }

    /// Waits for events, at most for `timeout`. May return early. Whether the time was up.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let epoll = self.reactor.epoll.as_raw_fd();
        let fetched = match timeout {
            Some(time) if !time.is_zero() => self.wait_precisely(epoll, time),
            // SAFETY: the buffer is valid for its length.
            _ => unsafe {
                let timeout = if timeout.is_some() { 0 } else { -1 };
                libc::epoll_wait(epoll, self.events.as_mut_ptr(), BATCH as i32, timeout)
            },
        };
        // An error is an interruption by a signal.
        self.fetched = usize::try_from(fetched).unwrap_or(0);
        fetched == 0
    }

    /// Waits with nanoseconds where the kernel has that, else rounded up to milliseconds.
    fn wait_precisely(&mut self, epoll: RawFd, timeout: Duration) -> i32 {
        static MISSING: AtomicBool = AtomicBool::new(false);
        // Relaxed: the answer is all there is.
        if !MISSING.load(Ordering::Relaxed) {
            let timeout = clock::timespec(timeout);
            // SAFETY: buffer and time are valid; there is no mask of signals.
            let fetched = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    self.events.as_mut_ptr(),
                    BATCH as i32,
                    &raw const timeout,
                    ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            };
            // EPERM: a filter of system calls that does not know it.
            let unknown = [Some(libc::ENOSYS), Some(libc::EPERM)];
            if fetched >= 0 || !unknown.contains(&io::Error::last_os_error().raw_os_error()) {
                return fetched as i32;
            }
            MISSING.store(true, Ordering::Relaxed);
        }
        let millis = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
        // SAFETY: the buffer is valid for its length.
        unsafe { libc::epoll_wait(epoll, self.events.as_mut_ptr(), BATCH as i32, millis) }
    }

    /// Hands out what the last wait has brought.
    pub(super) fn dispatch(&mut self) {
        let mut wakes = Wakes::new();
        self.reactor.signal(&self.events[..std::mem::take(&mut self.fetched)], &mut wakes);
    }
}

/// The result of a system call that says -1 for an error.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_used_again_does_not_answer_to_an_old_token() {
        let mut slots = Slots::default();
        let source = ptr::without_provenance::<Source>(64);
        let first = slots.insert(source);
        assert!(slots.remove(first));
        assert!(!slots.remove(first));
        let second = slots.insert(source);
        assert_eq!(first.index(), second.index());
        assert!(slots.get(first).is_none() && first != second);
        assert!(!slots.remove(first));
        assert!(slots.remove(second));
    }

    #[test]
    fn a_source_that_goes_while_the_carrier_ends_finds_nothing_to_take_out() {
        let mut slots = Slots::default();
        let token = slots.insert(ptr::without_provenance::<Source>(64));
        // As `retire` does.
        slots.slots.clear();
        slots.free.clear();
        assert!(!slots.remove(token));
    }
}
