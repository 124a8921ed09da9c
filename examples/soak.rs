//! Lets everything happen at random for as long as it is told to, and then looks whether all of it has
//! been put back.
//!
//! `cargo run --release --example soak -- --seconds 600 --seed 1 --carriers 4`
//!
//! Each round is a runtime whose fibers draw from a seed what they do: they spawn others, join, detach
//! and cancel them, send, lock, select, sleep, run scripts, talk through sockets, ask the pool, panic.
//! Every other round ends while they are at it. After a round everything must have gone that it made:
//! while it has a runtime, tasks, waits, timers and watched descriptors; afterwards values, stacks and
//! the process's descriptors; and at the end the heap must be as large as after the first rounds.
//! Whatever does not balance is named, and the status is 1 then.
//!
//! With one carrier the order of a round depends on timers and the kernel's sockets, too: a seed says
//! what is tried, not what happens.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use pirn::net::{TcpListener, TcpStream};
use pirn::sync::channel::{self, Receiver, Sender};
use pirn::sync::{Condvar, Mutex, RwLock, Semaphore, promise};
use pirn::task::{self, Context, Step};
use pirn::thread::{self, Cancelled, JoinHandle};
use pirn::vm::{Program, Vm, compile};
use pirn::{Builder, select};

/// Counts the bytes in use.
struct Counting;

static BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: the system's allocator, and a count beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the contract is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the heap may have grown by at the end: tables that are kept, as large as they were ever needed.
const SLACK: i64 = 256 << 10;

/// Rounds before the sizes are noted that are compared with at the end.
const WARM_UP: u64 = 6;

const SCRIPT: &str = "
    import thread;
    class Worker {
        public Channel<int> c;
        public int n;
        public void run() { for (int i = 0; i < n; i += 1) { c.send(i); thread.yield(); } }
    }
    int sum(int workers, int n) {
        Channel<int> c = {};
        for (int i = 0; i < workers; i += 1) {
            Worker w = Worker(); w.c = c; w.n = n;
            thread.spawn(w.run);
        }
        int total = 0;
        for (int i = 0; i < workers * n; i += 1) { total += c.recv(); }
        return total;
    }
    int forever() {
        while (true) { List<string> l = {}; l.add(\"x\"); thread.yield(); }
        return 0;
    }";

/// SplitMix64.
struct Lots(u64);

impl Lots {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

static VALUES: AtomicI64 = AtomicI64::new(0);

/// A value that must not be left behind.
struct Token;

impl Token {
    fn new() -> Token {
        VALUES.fetch_add(1, Ordering::Relaxed);
        Token
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        VALUES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the fibers of a round share.
struct Loom {
    program: Program,
    total: Mutex<u64>,
    table: RwLock<u64>,
    permits: Semaphore,
    open: Mutex<bool>,
    opened: Condvar,
    sender: Sender<Token>,
    receiver: Receiver<Token>,
    server: std::net::SocketAddr,
    /// What was done, for the report.
    done: AtomicU64,
}

/// Cancels a fiber that would never end by itself, also where the one that has spawned it is cancelled.
struct Doomed<T>(Option<JoinHandle<T>>);

impl<T> Doomed<T> {
    fn new(fiber: JoinHandle<T>) -> Doomed<T> {
        Doomed(Some(fiber))
    }

    /// Cancels it, and waits until it has ended.
    fn join(mut self) -> Option<T> {
        let fiber = self.0.take()?;
        fiber.cancel();
        may_fail(fiber.join())
    }
}

impl<T> Drop for Doomed<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::cancel);
    }
}

/// How a fiber ends that panics on purpose: without a message.
struct OnPurpose;

/// Joins a fiber that may have been cancelled, or panics on purpose.
fn may_fail<T>(result: thread::Result<T>) -> Option<T> {
    result
        .map_err(|payload| {
            if !payload.is::<Cancelled>() && !payload.is::<OnPurpose>() {
                panic::resume_unwind(payload);
            }
        })
        .ok()
}

/// [`weave`]; a panic on purpose ends here, so that it is not reported where nobody joins.
fn weave_or_panic(loom: &Arc<Loom>, lots: Lots, depth: u32) {
    let result = panic::catch_unwind(AssertUnwindSafe(|| weave(loom, lots, depth)));
    if let Err(payload) = result
        && !payload.is::<OnPurpose>()
    {
        panic::resume_unwind(payload);
    }
}

/// Does a few things at random, and lets others do.
fn weave(loom: &Arc<Loom>, mut lots: Lots, depth: u32) {
    let _held = Token::new();
    let mut children = Vec::new();
    for _ in 0..lots.below(16) {
        loom.done.fetch_add(1, Ordering::Relaxed);
        let draw = lots.next();
        let some = Duration::from_micros(draw >> 32 & 63);
        match lots.below(20) {
            0..=2 if depth > 0 => {
                let (loom, lots) = (loom.clone(), Lots(draw));
                children.push(thread::spawn(move || weave_or_panic(&loom, lots, depth - 1)));
            }
            3 => {
                let token = Token::new();
                let sleeper = Doomed::new(thread::spawn(move || {
                    let _token = token;
                    thread::sleep(Duration::MAX);
                }));
                if draw & 1 == 0 {
                    thread::yield_now();
                }
                if draw & 2 == 0 {
                    assert!(sleeper.join().is_none());
                }
            }
            4 => {
                let token = Token::new();
                let failing = thread::spawn(move || {
                    let _token = token;
                    thread::yield_now();
                    panic::resume_unwind(Box::new(OnPurpose))
                });
                assert!(may_fail::<()>(failing.join()).is_none());
            }
            5 => {
                let (sender, receiver) = channel::bounded((draw & 3) as usize);
                let other = thread::spawn(move || {
                    // The receiver goes when its fiber is cancelled.
                    let _ = (0..8).try_for_each(|n| sender.send((n, Token::new())));
                });
                // All of them, unless its runtime has ended on another carrier.
                let received = receiver.iter().zip(0..).map(|((n, _), next)| assert_eq!(n, next));
                let received = received.count();
                assert!(may_fail(other.join()).is_none() || received == 8);
            }
            6 => {
                let mut total = loom.total.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                thread::yield_now();
                *total += 1;
            }
            7 => {
                if draw & 3 == 0 {
                    *loom.table.write().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
                } else {
                    let _table = loom.table.read().unwrap_or_else(|poisoned| poisoned.into_inner());
                    thread::yield_now();
                }
            }
            8 => {
                let _permit = loom.permits.acquire_timeout(some);
                thread::sleep(some);
            }
            9 => {
                let guard = loom.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let waited = loom.opened.wait_timeout(guard, some);
                drop(waited);
                loom.opened.notify_all();
            }
            10 => {
                let _ = loom.sender.try_send(Token::new());
                select! {
                    recv(loom.receiver) -> token => drop(token),
                    after(some) => {}
                }
            }
            11 => drop(pirn::time::timeout(some, || thread::sleep(Duration::MAX))),
            12 => {
                let (promise, answer) = promise();
                let future = task::spawn_future(async move { answer.await.map(|n: u64| n + 1) });
                promise.set(draw >> 1).unwrap();
                let sum = may_fail(future.join());
                assert!(sum.is_none_or(|sum| sum.is_ok_and(|sum| sum == (draw >> 1) + 1)));
            }
            13 => {
                let (mut left, token) = (draw & 7, Token::new());
                let counter = task::spawn(task::from_fn(move |cx: &mut Context<'_>| {
                    let _token = &token;
                    if left == 0 {
                        return Step::Done(());
                    }
                    left -= 1;
                    if cx.should_yield() {
                        Step::Yielded
                    } else {
                        cx.thread().unpark();
                        Step::Parked
                    }
                }));
                may_fail(counter.join());
            }
            14 => {
                let local = Rc::new(Cell::new(0));
                let child = local.clone();
                let child = thread::spawn_local(move || child.set(draw)).join();
                assert!(may_fail(child).is_none() || local.get() == draw);
            }
            15 => {
                let mut vm = Vm::new(&loom.program).unwrap();
                let (workers, n) = ((draw & 3) as i32, (draw >> 2 & 7) as i32);
                // An error where the runtime has ended meanwhile.
                let sum = vm.call::<i32>("sum", (workers, n));
                assert!(sum.is_err() || sum.is_ok_and(|sum| sum == workers * n * (n - 1) / 2));
            }
            16 => {
                let (program, token) = (loom.program.clone(), Token::new());
                let script = Doomed::new(thread::spawn(move || {
                    let _token = token;
                    drop(Vm::new(&program).unwrap().call::<i32>("forever", ()));
                }));
                thread::sleep(some);
                script.join();
            }
            17 => talk(loom, draw),
            18 => assert_eq!(pirn::blocking(move || (draw, Token::new())).0, draw),
            _ => {
                let local = Cell::new(0);
                let add = |n| {
                    thread::yield_now();
                    local.set(local.get() + n);
                };
                let add = &add;
                thread::scope(|scope| {
                    (0..draw & 3).for_each(|n| drop(scope.spawn(move || add(n))))
                });
            }
        }
    }
    for child in children {
        if lots.below(8) == 0 {
            child.cancel();
        }
        match lots.below(4) {
            0 => drop(child),
            _ => drop(may_fail(child.join())),
        }
    }
    if lots.below(16) == 0 {
        panic::resume_unwind(Box::new(OnPurpose));
    }
}

/// Sends something to the server, and gets it back; or gives up waiting for what was never sent.
fn talk(loom: &Loom, draw: u64) {
    let Ok(mut stream) = TcpStream::connect(loom.server) else { return };
    if draw & 3 == 0 {
        let reader = Doomed::new(thread::spawn(move || (&stream).read(&mut [0])));
        thread::yield_now();
        reader.join();
        return;
    }
    let sent = draw.to_le_bytes();
    let mut back = [0; 8];
    // The server may have been ended already.
    if stream.write_all(&sent).is_ok() && stream.read_exact(&mut back).is_ok() {
        assert_eq!(back, sent);
    }
}

/// Answers with what it gets, until it is cancelled.
fn serve(listener: &TcpListener) {
    while let Ok((mut stream, _)) = listener.accept() {
        thread::spawn(move || {
            let _held = Token::new();
            let mut bytes = [0; 8];
            while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
        });
    }
}

/// One runtime and all that happens in it. What was left over while it had one; how much was done.
fn round(program: &Program, carriers: usize, mut lots: Lots) -> (Vec<String>, u64) {
    let runtime = Builder::new().carriers(carriers).build().expect("some carriers");
    let handle = runtime.handle();
    let ends_early = lots.below(2) == 0;
    let result = runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let (sender, receiver) = channel::bounded(4);
        let loom = Arc::new(Loom {
            program: program.clone(),
            total: Mutex::new(0),
            table: RwLock::new(0),
            permits: Semaphore::new(3),
            open: Mutex::new(false),
            opened: Condvar::new(),
            sender,
            receiver,
            server: listener.local_addr().expect("it is bound"),
            done: AtomicU64::new(0),
        });
        // All reactors are there, so that their descriptors are not taken for left over.
        let all_here = Arc::new(Barrier::new(carriers));
        let peeks: Vec<_> = (1..carriers)
            .map(|_| {
                let (all_here, server) = (all_here.clone(), loom.server);
                thread::spawn(move || {
                    all_here.wait();
                    peek(server);
                })
            })
            .collect();
        all_here.wait();
        peek(loom.server);
        peeks.into_iter().for_each(|peek| peek.join().unwrap());
        let server = thread::spawn(move || serve(&listener));
        let outside = {
            let (handle, mut lots) = (handle, Lots(lots.next()));
            let loom = loom.clone();
            std::thread::spawn(move || {
                for _ in 0..lots.below(4) {
                    let (loom, lots) = (loom.clone(), Lots(lots.next()));
                    let fiber = handle.spawn(move || weave_or_panic(&loom, lots, 2));
                    may_fail(fiber.join());
                }
            })
        };
        let fibers: Vec<_> = (0..8)
            .map(|_| {
                let (loom, lots) = (loom.clone(), Lots(lots.next()));
                thread::spawn(move || weave_or_panic(&loom, lots, 4))
            })
            .collect();
        if ends_early {
            (0..lots.below(200)).for_each(|_| thread::yield_now());
            return (Vec::new(), loom.done.load(Ordering::Relaxed), outside);
        }
        for fiber in fibers {
            may_fail(fiber.join());
        }
        while !outside.is_finished() {
            thread::sleep(Duration::from_micros(100));
        }
        server.cancel();
        may_fail(server.join());
        // Some were detached; they come to their ends.
        let mut left = pirn::outstanding().expect("on a fiber");
        for _ in 0..20_000 {
            if (left.tasks, left.waits, left.timers, left.descriptors) == (1, 0, 0, 0) {
                break;
            }
            thread::sleep(Duration::from_micros(500));
            left = pirn::outstanding().expect("on a fiber");
        }
        let mut wrong = Vec::new();
        let mut check = |what: &str, is: usize, should: usize| {
            if is != should {
                wrong.push(format!("{what}: {is}, not {should}"));
            }
        };
        check("tasks", left.tasks, 1);
        check("waits", left.waits, 0);
        check("timers", left.timers, 0);
        check("watched descriptors", left.descriptors, 0);
        if !wrong.is_empty() {
            wrong.extend(pirn::fibers(false).iter().map(ToString::to_string));
        }
        (wrong, loom.done.load(Ordering::Relaxed), outside)
    });
    match result {
        Ok((wrong, done, outside)) => {
            if outside.join().is_err() {
                return (vec!["the thread outside has panicked".to_owned()], done);
            }
            (wrong, done)
        }
        Err(deadlock) => (vec![deadlock.to_string()], 0),
    }
}

/// Waits for a descriptor for a moment.
fn peek(server: std::net::SocketAddr) {
    let stream = TcpStream::connect(server).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_micros(1))).expect("that is long enough");
    let _ = (&stream).read(&mut [0]);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

struct Settings {
    seconds: u64,
    rounds: u64,
    seed: u64,
    carriers: usize,
}

fn settings() -> Result<Settings, String> {
    let mut settings = Settings { seconds: 10, rounds: u64::MAX, seed: 1, carriers: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number: u64 = value.parse().map_err(|_| format!("{name} {value}: no number"))?;
        match name.as_str() {
            "--seconds" => settings.seconds = number,
            "--rounds" => (settings.rounds, settings.seconds) = (number, u64::MAX),
            "--seed" => settings.seed = number,
            "--carriers" => settings.carriers = number as usize,
            _ => return Err(format!("{name}: it is --seconds, --rounds, --seed or --carriers")),
        }
    }
    Ok(settings)
}

fn main() -> ExitCode {
    let settings = match settings() {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("soak: {error}");
            return ExitCode::from(2);
        }
    };
    let program = compile(SCRIPT).expect("it is a program");
    let start = Instant::now();
    let mut lots = Lots(settings.seed);
    let (mut wrong, mut done, mut number) = (Vec::new(), 0, 0);
    let (mut files, mut bytes) = (0, 0);
    let is_on = |number| {
        number < WARM_UP
            || number - WARM_UP < settings.rounds && start.elapsed().as_secs() < settings.seconds
    };
    while wrong.is_empty() && is_on(number) {
        let seed = lots.next();
        let (left, things) = round(&program, settings.carriers, Lots(seed));
        wrong = left;
        done += things;
        number += 1;
        // Threads of the pool are the process's, and what they own.
        if pirn::blocking::drain(Duration::from_secs(60)).is_err() {
            wrong.push("jobs of the pool do not end".to_owned());
        }
        let values = VALUES.load(Ordering::Relaxed);
        if values != 0 {
            wrong.push(format!("values: {values} are left"));
        }
        let stacks = pirn::stack::stats().in_use;
        if stacks != 0 {
            wrong.push(format!("stacks: {stacks} are in use"));
        }
        if number <= WARM_UP {
            (files, bytes) = (descriptors(), BYTES.load(Ordering::Relaxed));
        } else if descriptors() != files {
            wrong.push(format!("descriptors: {}, not {files}", descriptors()));
        }
        if !wrong.is_empty() {
            wrong.push(format!("in round {number}, whose seed was {seed}"));
        }
    }
    let grown = BYTES.load(Ordering::Relaxed) - bytes;
    if wrong.is_empty() && grown > SLACK {
        wrong.push(format!("heap: {grown} bytes more than after {WARM_UP} rounds"));
    }
    println!(
        "{number} rounds, {done} things done on {} carriers; the heap grew by {grown} bytes",
        settings.carriers
    );
    if wrong.is_empty() {
        println!("everything balances");
        return ExitCode::SUCCESS;
    }
    for what in wrong {
        println!("does not balance: {what}");
    }
    ExitCode::FAILURE
}
