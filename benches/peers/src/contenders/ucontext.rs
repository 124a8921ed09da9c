//! ucontext: `swapcontext` of the C library, which makes a system call for the signal mask at
//! every switch. Here for scale.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;

use corosensei::stack::{DefaultStack, Stack};

use crate::depth::{Step, loop_forever, time_in_loop};
use crate::measure::{Entry, Sample};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::SwitchEmpty => Entry::runs(switch_empty),
        _ => Entry::Absent,
    }
}

/// The saved registers of both sides. They stay in one place, because glibc stores pointers from a
/// context into itself.
struct Pair {
    resumer: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
    body: UnsafeCell<MaybeUninit<libc::ucontext_t>>,
}

/// The side that resumes.
struct Resumer<'a>(&'a Pair);

/// The side that suspends.
struct Inside<'a>(&'a Pair);

impl Step for Resumer<'_> {
    #[inline(always)]
    fn step(&mut self) {
        swap(&self.0.resumer, &self.0.body);
    }
}

impl Step for Inside<'_> {
    #[inline(always)]
    fn step(&mut self) {
        swap(&self.0.body, &self.0.resumer);
    }
}

#[inline(always)]
fn swap(
    from: &UnsafeCell<MaybeUninit<libc::ucontext_t>>,
    to: &UnsafeCell<MaybeUninit<libc::ucontext_t>>,
) {
    // SAFETY: `to` holds a context saved by the opposite swap, or made by `switch_empty`.
    let failed = unsafe { libc::swapcontext(from.get().cast(), to.get().cast()) };
    assert_eq!(failed, 0);
}

/// Receives the address of the pair in two halves, as `makecontext` passes `int` arguments only.
extern "C" fn body(low: u32, high: u32) {
    let address = (u64::from(high) << 32 | u64::from(low)) as usize;
    // SAFETY: `switch_empty` passes its own pair, which outlives every resume.
    let pair = unsafe { &*ptr::with_exposed_provenance::<Pair>(address) };
    loop_forever(Inside(pair))
}

fn switch_empty(wish: u64) -> Sample {
    let stack = DefaultStack::default();
    let pair = Box::new(Pair {
        resumer: UnsafeCell::new(MaybeUninit::zeroed()),
        body: UnsafeCell::new(MaybeUninit::zeroed()),
    });
    let address = (&raw const *pair).expose_provenance() as u64;
    // SAFETY: `getcontext` fills in the context, whose stack is mapped memory that lives until the
    // end of this function; `makecontext` is variadic in spirit and passes the two `int`s on.
    unsafe {
        let context: *mut libc::ucontext_t = pair.body.get().cast();
        assert_eq!(libc::getcontext(context), 0);
        (*context).uc_stack.ss_sp = stack.limit().get() as *mut libc::c_void;
        (*context).uc_stack.ss_size = stack.base().get() - stack.limit().get();
        (*context).uc_link = ptr::null_mut();
        let entry = std::mem::transmute::<extern "C" fn(u32, u32), extern "C" fn()>(body);
        libc::makecontext(context, entry, 2, address as u32, (address >> 32) as u32);
    }
    let mut resumer = Resumer(&pair);
    resumer.step();
    time_in_loop(resumer, wish)
}
