//! Signals of the system, handed on to whoever listens.
//!
//! # How a signal gets out of its handler
//!
//! A handler may call next to nothing. Ours sets a bit in each *listener* that wants the signal, and
//! adds to the listener's event descriptor, its *bell*: two atomic operations and one `write`. So a
//! listener waits for its bell as for any descriptor, in a reactor or in `poll(2)`; and a signal that
//! comes again before it is taken is one signal, as it is in the kernel.
//!
//! Of the other ways, `signalfd` needs the signal to be blocked in each thread of the process, also in
//! those that others start, and the children inherit that; a pipe needs two descriptors and can be full.
//! One bell for all would need somebody who listens to it and passes on.
//!
//! # Listeners are never freed
//!
//! A handler may be anywhere in the list at any time, on any thread, so a listener that is not needed
//! any more stays in it, with its bell, until somebody needs one again. There are as many as there have
//! been at one time.
//!
//! # Who was there before
//!
//! Our handler calls the one that it has replaced, and gives the signal back when the last listener
//! goes. A handler that was put over ours by others is left alone; it decides whether ours is called.
//! So ours is never put over one that may call it.
//!
//! # Fork
//!
//! The child's listeners get bells of their own, so neither process rings the other's, and none of the
//! signals that the parent has not taken.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fork;

/// Signals are numbered from 1 on.
const SIGNALS: usize = 64;

/// All listeners there are; grows at its head only.
static LISTENERS: AtomicPtr<Listener> = AtomicPtr::new(ptr::null_mut());

/// What our handler has replaced, by the number of the signal less one.
static REPLACED: [Replaced; SIGNALS] = [const { Replaced::nothing() }; SIGNALS];

static TABLE: Mutex<Table> =
    Mutex::new(Table { unused: Vec::new(), places: [const { Place::new() }; SIGNALS] });

/// Who listens and who was there before. Handlers do not look here.
pub(super) struct Table {
    unused: Vec<&'static Listener>,
    places: [Place; SIGNALS],
}

struct Place {
    listeners: usize,
    /// What is to be put back, if our handler was installed.
    before: Option<libc::sigaction>,
}

impl Place {
    const fn new() -> Place {
        Place { listeners: 0, before: None }
    }
}

/// Keeps others from changing the table.
pub(super) type Lock = MutexGuard<'static, Table>;

pub(super) fn lock() -> Lock {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    /// Adds the signal with this number; false: there is no such.
    pub(crate) fn insert(&mut self, signal: i32) -> bool {
        let bit = usize::try_from(signal - 1).ok().filter(|&bit| bit < SIGNALS);
        self.0 |= bit.map_or(0, |bit| 1 << bit);
        bit.is_some()
    }

    fn numbers(self) -> impl Iterator<Item = i32> {
        (0..SIGNALS as i32).filter(move |bit| self.0 & (1 << bit) != 0).map(|bit| bit + 1)
    }
}

/// See the [module documentation](self).
pub(crate) struct Listener {
    wanted: AtomicU64,
    pending: AtomicU64,
    bell: RawFd,
    next: *mut Listener,
}

// SAFETY: all that changes is atomic.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

impl Listener {
    /// Makes one that wants nothing, and adds it to the list, under the lock of the table.
    fn new() -> io::Result<&'static Listener> {
        let listener = Box::leak(Box::new(Listener {
            wanted: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            bell: new_bell()?.into_raw_fd(),
            next: LISTENERS.load(Ordering::Relaxed),
        }));
        // Release: a handler that sees it finds it whole.
        LISTENERS.store(listener, Ordering::Release);
        Ok(listener)
    }

    /// The descriptor that can be read from when there may be signals; it belongs to the listener.
    pub(crate) fn bell(&self) -> RawFd {
        self.bell
    }

    /// Called in a handler.
    fn note(&self, bit: u64) {
        // Acquire: pairs with `listen`, whose bits of old are gone when a new one can come.
        if self.wanted.load(Ordering::Acquire) & bit != 0 {
            // Release: whoever is woken by the bell sees the bit.
            self.pending.fetch_or(bit, Ordering::Release);
            self.ring();
        }
    }

    fn ring(&self) {
        // SAFETY: eight bytes are valid. It fails only when the count is full, and then it is rung.
        unsafe { libc::write(self.bell, ptr::from_ref(&1_u64).cast(), 8) };
    }

    fn silence(&self) {
        let mut count = 0_u64;
        // SAFETY: there is room for eight bytes. It fails when it was not rung.
        unsafe { libc::read(self.bell, ptr::from_mut(&mut count).cast(), 8) };
    }

    /// Takes one of the signals that have come: the one with the lowest number.
    ///
    /// When there is none the bell is silent, or is rung by what comes next.
    pub(crate) fn take(&self) -> Option<i32> {
        self.take_pending().or_else(|| {
            self.silence();
            let taken = self.take_pending();
            // The bell was rung for others as well, who may not have heard it.
            if taken.is_some() && self.pending.load(Ordering::Relaxed) != 0 {
                self.ring();
            }
            taken
        })
    }

    fn take_pending(&self) -> Option<i32> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let mut pending = self.pending.load(Ordering::Acquire) & wanted;
        while pending != 0 {
            let bit = pending & pending.wrapping_neg();
            // Acquire: pairs with `note`.
            pending = self.pending.fetch_and(!bit, Ordering::Acquire) & wanted;
            if pending & bit != 0 {
                return Some(bit.trailing_zeros() as i32 + 1);
            }
        }
        None
    }
}

fn new_bell() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if bell < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: made just now.
    Ok(unsafe { OwnedFd::from_raw_fd(bell) })
}

/// Begins to listen to these signals.
///
/// # Errors
///
/// When the process has no descriptor left, and when the system refuses a signal, which comes with it.
pub(crate) fn listen(signals: SignalSet) -> Result<&'static Listener, (Option<i32>, io::Error)> {
    fork::install();
    let mut table = lock();
    let listener = match table.unused.pop() {
        Some(listener) => listener,
        None => Listener::new().map_err(|error| (None, error))?,
    };
    listener.pending.store(0, Ordering::Relaxed);
    listener.silence();
    // Release: pairs with `note`.
    listener.wanted.store(signals.0, Ordering::Release);
    for signal in signals.numbers() {
        if let Err(error) = table.begin(signal) {
            signals.numbers().take_while(|&one| one != signal).for_each(|one| table.end(one));
            listener.wanted.store(0, Ordering::Relaxed);
            table.unused.push(listener);
            return Err((Some(signal), error));
        }
    }
    Ok(listener)
}

/// Ends that. The listener must not be used any more.
pub(crate) fn unlisten(listener: &'static Listener) {
    let mut table = lock();
    // Relaxed: what comes just now comes too late, or is cleared when it is used again.
    let signals = SignalSet(listener.wanted.swap(0, Ordering::Relaxed));
    signals.numbers().for_each(|signal| table.end(signal));
    table.unused.push(listener);
}

impl Table {
    fn place(&mut self, signal: i32) -> &mut Place {
        &mut self.places[signal as usize - 1]
    }

    /// There is one more listener to a signal.
    fn begin(&mut self, signal: i32) -> io::Result<()> {
        let place = self.place(signal);
        if place.before.is_none() {
            // First what is called from the very first signal on.
            REPLACED[signal as usize - 1].set(&action(signal, None)?);
            let before = action(signal, Some(&ours()))?;
            REPLACED[signal as usize - 1].set(&before);
            place.before = Some(before);
        }
        place.listeners += 1;
        Ok(())
    }

    /// There is one less.
    fn end(&mut self, signal: i32) {
        let place = self.place(signal);
        place.listeners -= 1;
        if place.listeners == 0
            && action(signal, None).is_ok_and(|now| now.sa_sigaction == handler())
            && let Some(before) = place.before.take()
        {
            // It was accepted once.
            let _ = action(signal, Some(&before));
        }
    }
}

/// What the system does at a signal; on request, changed to something else.
fn action(signal: i32, change: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    let change = change.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the change is valid or null, and there is room for the answer.
    if unsafe { libc::sigaction(signal, change, before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was answered.
    Ok(unsafe { before.assume_init() })
}

fn handler() -> libc::sighandler_t {
    handle as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as libc::sighandler_t
}

fn ours() -> libc::sigaction {
    // SAFETY: zero is a valid value, with an empty set of signals.
    let mut ours: libc::sigaction = unsafe { mem::zeroed() };
    ours.sa_sigaction = handler();
    // On the stack for signals: that of a fiber may be nearly used up. Calls go on where they can.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    ours
}

/// A handler that ours calls.
struct Replaced {
    /// Its address, or what stands for none.
    handler: AtomicUsize,
    flags: AtomicI32,
}

impl Replaced {
    const fn nothing() -> Replaced {
        Replaced { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0) }
    }

    fn set(&self, action: &libc::sigaction) {
        // Relaxed: a handler is not ours to publish, and what it takes goes before its address.
        self.flags.store(action.sa_flags, Ordering::Relaxed);
        self.handler.store(action.sa_sigaction, Ordering::Release);
    }

    /// Calls it, in a handler. What would end the process, or do nothing, is what was replaced.
    fn call(&self, signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let handler = self.handler.load(Ordering::Acquire);
        if [libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR].contains(&handler) {
            return;
        }
        if self.flags.load(Ordering::Relaxed) & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: by its flags it is a function of this type, and was a handler of this signal.
            let handler: Handler = unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        } else {
            // SAFETY: by its flags it is a function of this type, and was a handler of this signal.
            let handler: extern "C" fn(i32) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: this thread's own, which whoever was interrupted may be about to read.
    let (errno, kept) = unsafe { (libc::__errno_location(), *libc::__errno_location()) };
    // Acquire: pairs with `Listener::new`.
    let mut next = LISTENERS.load(Ordering::Acquire);
    // SAFETY: they are never freed.
    while let Some(listener) = unsafe { next.as_ref() } {
        listener.note(1 << (signal - 1));
        next = listener.next;
    }
    if let Some(replaced) = REPLACED.get(signal as usize - 1) {
        replaced.call(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// In the child of a fork, under the lock of the table: gives each listener a bell of its own.
pub(super) fn separate() {
    let mut next = LISTENERS.load(Ordering::Relaxed);
    // SAFETY: they are never freed.
    while let Some(listener) = unsafe { next.as_ref() } {
        listener.pending.store(0, Ordering::Relaxed);
        // Without a descriptor to spare the child shares the parent's bell: it may wake for nothing.
        if let Ok(bell) = new_bell() {
            // SAFETY: both are open. Whoever has the old number has the new bell then.
            unsafe { libc::dup3(bell.as_raw_fd(), listener.bell, libc::O_CLOEXEC) };
        }
        next = listener.next;
    }
}
