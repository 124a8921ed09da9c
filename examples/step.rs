//! A program to be stepped through in gdb: `docs/gdb.md` walks through it.
//!
//! It has three parts, one after the other: two stacks that switch by the reference switch, a
//! coroutine, and fibers that wait several frames deep.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::time::Duration;

use pirn::context::{StackPointer, ctx_switch};
use pirn::coroutine::{Coroutine, CoroutineState, Suspender};
use pirn::thread;

fn main() {
    left();
    resumer();
    pirn::run(fibers);
    println!("all done");
}

// Part one: the reference switch. `left` runs on main's stack, `right` on one of its own.

/// Where each of the two stacks was left.
struct Sides {
    left: UnsafeCell<StackPointer>,
    right: UnsafeCell<StackPointer>,
}

#[inline(never)]
fn left() {
    let mut stack = vec![0u128; 4096];
    let sides = Sides { left: StackPointer::empty().into(), right: StackPointer::empty().into() };
    let top = stack.as_mut_ptr_range().end.cast();
    // SAFETY: the stack is ours and outlives the last switch; `right` never returns.
    unsafe {
        let argument = (&raw const sides).cast_mut().cast();
        *sides.right.get() = StackPointer::prepare(top, right, argument);
    }
    for round in 1..=2 {
        println!("left: round {round}");
        // SAFETY: `right` is prepared, or has switched back here.
        unsafe { ctx_switch(sides.left.get(), sides.right.get()) };
    }
}

unsafe extern "C" fn right(sides: *mut u8) -> ! {
    // SAFETY: `left` keeps them alive.
    let sides = unsafe { &*sides.cast::<Sides>() };
    for round in 1.. {
        println!("right: round {round}");
        // SAFETY: `left` is suspended in its own call of `ctx_switch`.
        unsafe { ctx_switch(sides.right.get(), sides.left.get()) };
    }
    unreachable!("left switches here only so often")
}

// Part two: a coroutine.

#[inline(never)]
fn resumer() {
    let mut spool = Coroutine::new(|suspender: &Suspender<u32, u32>, first| wind(suspender, first));
    for length in [10, 20] {
        match spool.resume(length) {
            Ok(CoroutineState::Yield(total)) => println!("resumer: {total} so far"),
            other => println!("resumer: {other:?}"),
        }
    }
    println!("resumer: {:?}", spool.resume(0));
}

/// Adds up what comes in until that is zero.
#[inline(never)]
fn wind(suspender: &Suspender<u32, u32>, first: u32) -> u32 {
    let mut total = first;
    loop {
        match suspender.suspend(total) {
            0 => return total,
            more => total += more,
        }
    }
}

// Part three: fibers.

/// How many calls deep the weavers wait.
const DEPTH: u32 = 3;

fn fibers() {
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    let weaver = named("weaver").spawn(|| weave(DEPTH)).unwrap();
    let sleeper = named("sleeper").spawn(|| thread::sleep(Duration::from_millis(20))).unwrap();
    let parked = weaver.thread().clone();
    let joiner = named("joiner").spawn(move || weaver.join().unwrap()).unwrap();
    let spinner = thread::spawn(spin);
    thread::yield_now();
    let late = named("late").spawn(|| ()).unwrap();
    everybody_waits();
    // Now the carrier itself sleeps for a while, since nobody can run.
    thread::sleep(Duration::from_millis(1));
    parked.unpark();
    println!("fibers: {} picks", joiner.join().unwrap());
    for other in [sleeper, spinner, late] {
        other.join().unwrap();
    }
}

/// The place for a breakpoint: every kind of wait can be seen now.
#[inline(never)]
fn everybody_waits() {
    println!("fibers: everybody waits");
}

/// Goes `depth` calls deep and waits there.
#[inline(never)]
fn weave(depth: u32) -> u32 {
    let picks = black_box(depth * 10);
    if depth > 1 {
        picks + weave(depth - 1)
    } else {
        thread::park();
        picks
    }
}

#[inline(never)]
fn spin() {
    for _ in 0..2 {
        thread::yield_now();
    }
}
