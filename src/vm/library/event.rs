//! The scheduler's loop as scripts see it: the native functions of the package `event`, of which
//! `scripts/event.n` makes timers and handlers.

use super::args::Native;
use crate::sched::carrier::Carrier;
use crate::sched::clock::Instant;
use crate::vm::native::{Context, Outcome, Waiting};

/// The time by the clock of the runtime, in nanoseconds since some instant.
pub fn clock(cx: &mut Context<'_>) -> Native {
    // The clock is that of the runtime, which may not be there yet.
    cx.needs_task()?;
    cx.set_long(Instant::now().nanos() as i64);
    Ok(Outcome::Done)
}

/// Waits for an instant of that clock; what is past is a yield.
pub fn sleep_until(cx: &mut Context<'_>) -> Native {
    cx.needs_task()?;
    let until = Instant::from_nanos(cx.long(0).max(0) as u64);
    if until <= Instant::now() { Ok(Outcome::Yield) } else { cx.park(Waiting::sleep(until)) }
}

/// Whether anything else is ready, after a look at descriptors and timers: if not, it is time for idle
/// work.
pub fn busy(cx: &mut Context<'_>) -> Native {
    cx.needs_task()?;
    cx.set_bool(Carrier::current().is_some_and(Carrier::others_can_run_now));
    Ok(Outcome::Done)
}

/// The loop that belongs to the present call of the host: the given one, if there was none.
pub fn default_loop(cx: &mut Context<'_>) -> Native {
    let given = cx.word(0);
    let table = &mut *cx.machine().tasks.table;
    if table.event_loop == 0 {
        table.event_loop = given;
    }
    let word = table.event_loop;
    cx.set_word(word);
    Ok(Outcome::Done)
}
