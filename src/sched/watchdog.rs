//! Finds tasks that sit on their carrier: an OS thread that looks whether it makes progress.
//!
//! The carrier counts its switches anyway. The watchdog looks twice within the limit; when the count
//! has not moved while a fiber was running, it sends the carrier a signal. The handler, which runs
//! on top of the stuck code, writes down where that stands, and who it is; the watchdog then makes
//! names of the addresses and prints them. The handler neither allocates nor locks: the code that it
//! interrupts may be inside the allocator.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::affinity;
use super::carrier::Carrier;
use super::stats::Counters;

/// The signal by which a carrier is asked for its backtrace: ignored by default, and hardly used.
const SIGNAL: libc::c_int = libc::SIGURG;

/// The deepest backtrace taken.
const FRAMES: usize = 128;

/// How long the handler may take to begin. Where signals are blocked the report comes this much later;
/// on a busy machine the thread may not be on a processor for a while.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for the name of the stuck fiber.
const NAME: usize = 256;

/// Stops its thread when dropped.
pub(crate) struct Watchdog {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What the watchdog looks at.
struct Watched {
    carrier: *const Carrier,
    thread: libc::pthread_t,
    number: usize,
}

// SAFETY: the carrier outlives its watchdog, which reads its atomic fields only.
unsafe impl Send for Watched {}

impl Watchdog {
    /// Watches a carrier that the calling thread is about to become.
    ///
    /// The carrier must outlive the watchdog.
    pub(crate) fn start(limit: Duration, carrier: &Carrier) -> Watchdog {
        install_handler();
        let shared = carrier.shared.clone();
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        // SAFETY: always succeeds.
        let watched =
            Watched { carrier, thread: unsafe { libc::pthread_self() }, number: carrier.number() };
        let number = carrier.number();
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("pirn-watchdog".into())
            .spawn({
                let (shared, unpinned) = (shared.clone(), affinity::unpinned());
                move || {
                    unpinned.begin();
                    shared.add_own_thread();
                    let counters = match shared.team() {
                        Some(team) if number > 0 => team.counters(number),
                        _ => &shared.counters,
                    };
                    watch(limit, &watched, counters, &stopped);
                }
            })
            .inspect_err(|error| eprintln!("pirn: the watchdog could not be started: {error}"))
            .ok();
        Watchdog { stop, thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The watchdog's thread.
fn watch(limit: Duration, watched: &Watched, counts: &Counters, stop: &(Mutex<bool>, Condvar)) {
    let interval = (limit / 2).max(Duration::from_micros(500));
    let mut stopped = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut seen, mut since, mut reported) = (None, Instant::now(), false);
    while !*stopped {
        // SAFETY: the carrier outlives the watchdog.
        let now = unsafe { (*watched.carrier).progress() };
        if now != seen || now.is_none() {
            (seen, since, reported) = (now, Instant::now(), false);
        } else if since.elapsed() >= limit && !reported {
            reported = true;
            report(since.elapsed(), watched);
            counts.count_stall();
        }
        stopped = stop.1.wait_timeout(stopped, interval).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// What the handler writes down; one request at a time, by `requests`.
struct Notes {
    requested: AtomicBool,
    done: AtomicBool,
    frames: [AtomicUsize; FRAMES],
    count: AtomicUsize,
    name: [AtomicUsize; NAME],
    name_length: AtomicUsize,
}

static NOTES: Notes = Notes {
    requested: AtomicBool::new(false),
    done: AtomicBool::new(false),
    frames: [const { AtomicUsize::new(0) }; FRAMES],
    count: AtomicUsize::new(0),
    name: [const { AtomicUsize::new(0) }; NAME],
    name_length: AtomicUsize::new(0),
};

/// Serialises requests of several watchdogs.
static REQUEST: Mutex<()> = Mutex::new(());

impl Write for &Notes {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let length = self.name_length.load(Ordering::Relaxed);
            if length == NAME {
                return Err(fmt::Error);
            }
            self.name[length].store(byte.into(), Ordering::Relaxed);
            self.name_length.store(length + 1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Asks the carrier where it stands, and prints that.
fn report(stuck_for: Duration, watched: &Watched) {
    let _one = REQUEST.lock().unwrap_or_else(PoisonError::into_inner);
    NOTES.count.store(0, Ordering::Relaxed);
    NOTES.name_length.store(0, Ordering::Relaxed);
    NOTES.done.store(false, Ordering::Relaxed);
    // Release: the handler sees empty notes.
    NOTES.requested.store(true, Ordering::Release);
    // SAFETY: the carrier's thread joins the watchdog before it ends.
    unsafe { libc::pthread_kill(watched.thread, SIGNAL) };
    let patience = Instant::now() + PATIENCE;
    // Acquire: what the handler wrote is visible.
    while !NOTES.done.load(Ordering::Acquire) && Instant::now() < patience {
        thread::sleep(Duration::from_micros(100));
    }
    // Whoever clears the request owns the notes: a handler that comes late finds none.
    let late = NOTES.requested.swap(false, Ordering::AcqRel);
    let mut text = String::new();
    if late {
        let _ = write!(text, "a fiber");
    } else {
        while !NOTES.done.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let length = NOTES.name_length.load(Ordering::Relaxed);
        let name: Vec<u8> =
            NOTES.name[..length].iter().map(|b| b.load(Ordering::Relaxed) as u8).collect();
        text.push_str(&String::from_utf8_lossy(&name));
    }
    let _ = write!(
        text,
        ", has not given way to the scheduler of carrier {} for {} ms",
        watched.number,
        stuck_for.as_millis()
    );
    if late {
        text.push_str("; its thread does not take signals, so there is no backtrace");
    } else {
        for (number, frame) in
            NOTES.frames[..NOTES.count.load(Ordering::Relaxed)].iter().enumerate()
        {
            describe_frame(&mut text, number, frame.load(Ordering::Relaxed));
        }
    }
    eprintln!("pirn: {text}");
}

/// One line of the backtrace, or more where functions were inlined.
fn describe_frame(text: &mut String, number: usize, address: usize) {
    let mut named = false;
    // The address is one to return to: look up the call before it.
    backtrace::resolve((address - 1) as *mut _, |symbol| {
        named = true;
        let name = symbol.name().map(|name| format!("{name:#}"));
        let _ = write!(text, "\n  {number:>3}: {}", name.as_deref().unwrap_or("?"));
        if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
            let _ = write!(text, "\n           at {}:{line}", file.display());
        }
    });
    if !named {
        let _ = write!(text, "\n  {number:>3}: {address:#x}");
    }
}

/// Runs on the carrier's thread, on top of whatever it does.
extern "C" fn on_signal(_: libc::c_int) {
    // Acquire: pairs with the request. The swap makes this request ours.
    if !NOTES.requested.swap(false, Ordering::Acquire) {
        return;
    }
    if let Some(task) = Carrier::current().and_then(Carrier::current_task) {
        let _ = task.describe(&mut &NOTES);
    } else {
        let _ = (&NOTES).write_str("a fiber");
    }
    // SAFETY: unsynchronised tracing only unwinds; the other user is kept away by REQUEST.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            // The outermost frame of a fiber returns to nowhere.
            if frame.ip().is_null() {
                return false;
            }
            let count = NOTES.count.load(Ordering::Relaxed);
            NOTES.frames[count].store(frame.ip().addr(), Ordering::Relaxed);
            NOTES.count.store(count + 1, Ordering::Relaxed);
            count + 1 < FRAMES
        });
    }
    // Release: the notes are complete.
    NOTES.done.store(true, Ordering::Release);
}

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is async-signal-safe: see the module documentation.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
        }
    });
}
