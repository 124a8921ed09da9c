//! A million suspended fibers, each on a guarded stack, two calls deep.
//!
//! `cargo run --release --example million [COUNT]`
//!
//! Each fiber fills 256 bytes of locals with a pattern of its own, suspends, and checks them when it
//! is resumed. Prints what a suspended fiber costs in memory, and in page tables besides.

use std::cell::Cell;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use pirn::thread;

fn main() {
    let count: usize = match std::env::args().nth(1).map(|text| text.parse()) {
        None => 1_000_000,
        Some(Ok(count)) => count,
        Some(Err(error)) => {
            eprintln!("million: the number of fibers: {error}");
            std::process::exit(2);
        }
    };
    pirn::run(|| {
        let before = Memory::now();
        let start = Instant::now();
        let shared = Shared::default();
        thread::scope(|s| {
            let fibers: Vec<_> = (0..count)
                .map(|number| {
                    let shared = &shared;
                    s.spawn(move || outer(number, shared))
                })
                .collect();
            while shared.suspended.get() < count {
                thread::yield_now();
            }
            let created = start.elapsed();
            let after = Memory::now();
            println!("{count} fibers are suspended, after {:.2} s", created.as_secs_f64());
            println!("resident:    {:>6} bytes a fiber", after.resident_since(&before) / count);
            println!("page tables: {:>6} bytes a fiber", after.tables_since(&before) / count);
            println!("guards:      {:?}", pirn::stack::guard_kind());
            shared.released.set(true);
            for fiber in &fibers {
                fiber.thread().unpark();
            }
            for fiber in fibers {
                fiber.join().expect("its locals are as it left them");
            }
        });
        assert_eq!(shared.intact.get(), count);
        println!(
            "all resumed with their locals intact, after {:.2} s",
            start.elapsed().as_secs_f64()
        );
    });
}

/// What the fibers report to.
#[derive(Default)]
struct Shared {
    suspended: Cell<usize>,
    released: Cell<bool>,
    intact: Cell<usize>,
}

/// The first call.
#[inline(never)]
fn outer(number: usize, shared: &Shared) {
    inner(number, shared);
    shared.intact.set(shared.intact.get() + 1);
}

/// The second call, with the locals.
#[inline(never)]
fn inner(number: usize, shared: &Shared) {
    let mut locals = [0usize; 32];
    for (place, local) in locals.iter_mut().enumerate() {
        *local = number.wrapping_mul(31).wrapping_add(place);
    }
    black_box(&mut locals);
    shared.suspended.set(shared.suspended.get() + 1);
    while !shared.released.get() {
        thread::park();
    }
    for (place, local) in black_box(&locals).iter().enumerate() {
        assert_eq!(*local, number.wrapping_mul(31).wrapping_add(place));
    }
}

/// What the kernel says that the process holds, in bytes.
struct Memory {
    resident: usize,
    tables: usize,
}

impl Memory {
    fn now() -> Memory {
        Memory {
            resident: field("/proc/self/smaps_rollup", "Rss:"),
            tables: field("/proc/self/status", "VmPTE:"),
        }
    }

    fn resident_since(&self, before: &Memory) -> usize {
        self.resident.saturating_sub(before.resident)
    }

    fn tables_since(&self, before: &Memory) -> usize {
        self.tables.saturating_sub(before.tables)
    }
}

/// A field in kB of a file in /proc.
fn field(path: &str, name: &str) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kilobytes.unwrap_or_else(|| panic!("{path} has no field {name}")) * 1024
}
