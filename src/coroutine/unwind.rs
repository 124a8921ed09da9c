//! All panic policy of coroutines: the payload that unwinds a dropped one, and who gives up when.

use std::any::Any;
use std::panic;
use std::process;
use std::thread;

use super::block::{Block, Outcome, run_while_panicking};
use crate::sched::drop_quietly;

/// How often a dropped coroutine is told to unwind before it is given up.
///
/// A body that catches the unwind and suspends again uses up one attempt each time.
pub const UNWIND_ATTEMPTS: u32 = 1_000;

/// The payload that unwinds the coroutine of this block.
struct Unwind(Block);

// SAFETY: the block is only compared, never followed.
unsafe impl Send for Unwind {}

/// Starts to unwind the coroutine that is told to, without a message.
#[cold]
pub(super) fn raise(block: Block) -> ! {
    panic::resume_unwind(Box::new(Unwind(block)))
}

/// Whether a payload is the one that [`raise`] threw for this block.
fn is_ours(payload: &(dyn Any + Send), block: Block) -> bool {
    payload.downcast_ref::<Unwind>().is_some_and(|unwind| unwind.0 == block)
}

/// Whether a payload is that of a coroutine's being dropped: whoever catches it for his own purposes
/// lets it go on.
pub(crate) fn is_forced(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Unwind>()
}

/// How [`unwind`] ended.
pub(super) enum Unwound {
    /// The stack is empty.
    Done,
    /// The stack is empty, but the body panicked on its way with this payload.
    Panicked(Box<dyn Any + Send>),
    /// The body would not end: its stack is still in use.
    Refused,
}

/// Empties the stack of a fresh or suspended coroutine; does not release it. Never unwinds itself:
/// a scope has others to see to.
///
/// # Safety
///
/// The block must have been made for `Y` and `R`, and be fresh or suspended.
pub(super) unsafe fn unwind<Y, R>(block: Block) -> Unwound {
    // SAFETY: the contract is passed on.
    unsafe {
        if !block.started() {
            return ended(dropped(|| block.drop_body()));
        }
        if cfg!(panic = "abort") {
            return Unwound::Refused;
        }
        let mut first_panic = None;
        for _ in 0..UNWIND_ATTEMPTS {
            let outcome = if thread::panicking() {
                run_while_panicking::<(), Y, R>(block, None)
            } else {
                block.run::<(), Y, R>(None)
            };
            match outcome {
                // It caught the unwind and suspended again: once more.
                Outcome::Yield(value) => keep_first(&mut first_panic, dropped(|| drop(value))),
                Outcome::Return(value) => {
                    keep_first(&mut first_panic, dropped(|| drop(value)));
                    return ended(first_panic);
                }
                Outcome::Panic(payload) => {
                    let theirs = !is_ours(&*payload, block);
                    keep_first(&mut first_panic, theirs.then_some(payload));
                    return ended(first_panic);
                }
            }
        }
        drop_quietly(first_panic);
        Unwound::Refused
    }
}

fn ended(first_panic: Option<Box<dyn Any + Send>>) -> Unwound {
    first_panic.map_or(Unwound::Done, Unwound::Panicked)
}

/// Drops something that the body left; returns the panic of its destructor.
fn dropped(drop: impl FnOnce()) -> Option<Box<dyn Any + Send>> {
    panic::catch_unwind(panic::AssertUnwindSafe(drop)).err()
}

/// Of several panics the first goes on. The others end here, also if their payloads panic in turn.
pub(super) fn keep_first(
    first: &mut Option<Box<dyn Any + Send>>,
    next: Option<Box<dyn Any + Send>>,
) {
    match first {
        Some(_) => drop_quietly(next),
        None => *first = next,
    }
}

/// Unwinds an owning coroutine and releases its stack, or leaks it.
///
/// # Safety
///
/// As for [`unwind`]; the block must not be used afterwards.
#[cold]
#[inline(never)]
pub(super) unsafe fn discard<Y, R>(block: Block) {
    // SAFETY: the contract is passed on. A coroutine that refused to end keeps its stack for ever:
    // what it owns is 'static, so nothing that it holds can dangle.
    unsafe {
        match unwind::<Y, R>(block) {
            Unwound::Done => block.release(),
            Unwound::Panicked(payload) => {
                block.release();
                pass_on(payload);
            }
            Unwound::Refused if cfg!(panic = "abort") => {}
            Unwound::Refused => eprintln!("pirn: {}; its stack is leaked", Refusal(block)),
        }
    }
}

/// Unwinds a coroutine that may hold borrows; does not release its stack.
///
/// # Safety
///
/// As for [`unwind`].
pub(super) unsafe fn discard_scoped<Y, R>(block: Block) -> Result<(), Box<dyn Any + Send>> {
    // SAFETY: the contract is passed on.
    match unsafe { unwind::<Y, R>(block) } {
        Unwound::Done => Ok(()),
        Unwound::Panicked(payload) => Err(payload),
        Unwound::Refused => {
            eprintln!("pirn: {}; its borrows end with the scope: aborting", Refusal(block));
            process::abort()
        }
    }
}

/// Lets a panic go on that came up while a coroutine was dropped.
///
/// During another panic it is dropped: the hook has printed its message, and a second unwind would
/// abort the process.
pub(super) fn pass_on(payload: Box<dyn Any + Send>) {
    if !thread::panicking() {
        panic::resume_unwind(payload);
    }
}

/// The complaint about a body that goes on suspending.
struct Refusal(Block);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.describe(f);
        if cfg!(panic = "abort") {
            f.write_str(" is suspended, and with panic=abort it cannot be unwound")
        } else {
            write!(f, " caught {UNWIND_ATTEMPTS} unwinds and suspended again each time")
        }
    }
}
