//! Boost.Context's `fcontext`: a bare switch in assembly, called as a C function, without types,
//! panics or a stack pool. What C++ users get is built on it, so this is Boost at its fastest.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use corosensei::stack::{DefaultStack, Stack};

use crate::depth::{Step, drive_forever, loop_forever, time_in_depth, time_in_loop};
use crate::measure::{Entry, Sample};
use crate::workload::Workload;

pub fn enter(workload: Workload) -> Entry {
    match workload {
        Workload::SwitchEmpty => Entry::runs(switch_empty),
        Workload::SwitchDeepDifferent => Entry::runs(switch_deep_different),
        Workload::SwitchDeepSame => Entry::runs(switch_deep_same),
        Workload::CreateRunDrop => Entry::runs(create_run_drop),
        _ => Entry::Absent,
    }
}

/// A suspended context: the address of its saved registers, on its own stack.
type Context = *mut c_void;

/// What a switch hands over; `transfer_t` in Boost's header.
#[repr(C)]
struct Transfer {
    from: Context,
    data: *mut c_void,
}

unsafe extern "C" {
    fn make_fcontext(top: *mut c_void, size: usize, entry: extern "C" fn(Transfer) -> !)
    -> Context;
    fn jump_fcontext(to: Context, data: *mut c_void) -> Transfer;
}

/// The context on the other side, which changes with every switch.
struct Other(Context);

impl Step for Other {
    #[inline(always)]
    fn step(&mut self) {
        // SAFETY: the context was suspended by the latest switch and is resumed once.
        self.0 = unsafe { jump_fcontext(self.0, ptr::null_mut()) }.from;
    }
}

/// A context that begins at `entry` on `stack`, which must outlive it.
#[inline(always)]
fn create(stack: &DefaultStack, entry: extern "C" fn(Transfer) -> !) -> Other {
    let top = stack.base().get() as *mut c_void;
    let size = stack.base().get() - stack.limit().get();
    // SAFETY: the stack is mapped memory that nothing else runs on.
    Other(unsafe { make_fcontext(top, size, entry) })
}

extern "C" fn empty_body(arrival: Transfer) -> ! {
    loop_forever(Other(arrival.from))
}

extern "C" fn deep_body(arrival: Transfer) -> ! {
    drive_forever(Other(arrival.from))
}

/// Answers the number behind `data` plus one and is never resumed.
extern "C" fn adding_body(arrival: Transfer) -> ! {
    let number = black_box(arrival.data as usize as u64) + 1;
    // SAFETY: as in `step`; the context of the resumer waits for this answer.
    unsafe { jump_fcontext(arrival.from, number as usize as *mut c_void) };
    unreachable!("a finished body is not resumed");
}

/// A context that has switched back for the first time.
fn started(stack: &DefaultStack, entry: extern "C" fn(Transfer) -> !) -> Other {
    let mut other = create(stack, entry);
    other.step();
    other
}

fn switch_empty(wish: u64) -> Sample {
    let stack = DefaultStack::default();
    time_in_loop(started(&stack, empty_body), wish)
}

fn switch_deep_different(wish: u64) -> Sample {
    let stack = DefaultStack::default();
    time_in_loop(started(&stack, deep_body), wish)
}

/// The two ends are of one type already.
fn switch_deep_same(wish: u64) -> Sample {
    let stack = DefaultStack::default();
    time_in_depth(started(&stack, deep_body), wish)
}

fn create_run_drop(wish: u64) -> Sample {
    let mut pool = vec![DefaultStack::default()];
    Sample::time(wish, || {
        for number in 0..wish {
            let stack = pool.pop().unwrap_or_default();
            let Other(context) = create(&stack, adding_body);
            // SAFETY: a fresh context on a stack of its own.
            let answer = unsafe { jump_fcontext(context, number as usize as *mut c_void) };
            black_box(answer.data);
            pool.push(stack);
        }
    })
}
