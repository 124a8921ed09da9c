//! The methods of `Select`.

use super::args::Native;
use super::channel::{channel_at, closed};
use super::thread::{deadline, new_object, reference};
use crate::sched::clock::Instant;
use crate::vm::native::{Context, Outcome, Trap};
use crate::vm::tasks::channel::Refused;
use crate::vm::tasks::select::{Arm, Select};
use crate::vm::tasks::wait::{Timeout, What};

fn select(cx: &Context<'_>) -> Result<Select, Trap> {
    let word = reference(cx, 0, "the Select")?;
    // SAFETY: the argument's type is `Select`, and it is not null.
    Ok(unsafe { Select::from_word(word) })
}

/// `Select.new`
pub fn new(cx: &mut Context<'_>) -> Native {
    let select = new_object(cx)?;
    cx.set_word(select);
    Ok(Outcome::Done)
}

fn add(cx: &mut Context<'_>, arm: Arm) -> Native {
    let index = select(cx)?.add(cx.heap(), arm)?;
    cx.set_int(index as i32);
    Ok(Outcome::Done)
}

/// `Select.recv`: an arm that receives.
pub fn recv(cx: &mut Context<'_>) -> Native {
    let channel = channel_at(cx, 1)?;
    add(cx, Arm::Receive(channel))
}

/// `Select.send`: an arm that sends.
pub fn send(cx: &mut Context<'_>) -> Native {
    let (channel, value) = (channel_at(cx, 1)?, cx.word(2));
    add(cx, Arm::Send(channel, value))
}

/// The first arm that needs no waiting is done. False: there is none.
fn try_arms(cx: &mut Context<'_>, select: Select) -> Result<bool, Trap> {
    select.forget();
    for (index, arm) in select.arms().enumerate() {
        match arm.attempt(cx.heap())? {
            Ok(received) => {
                select.end(index, received);
                cx.set_int(index as i32);
                return Ok(true);
            }
            Err(Refused::Closed) => return Err(closed()),
            Err(Refused::Now) => {}
        }
    }
    Ok(false)
}

fn wait_until(cx: &mut Context<'_>, until: Instant) -> Native {
    let select = select(cx)?;
    if select.len() == 0 && until.is_far_future() {
        return Err(Trap::exception("there is nothing to wait for: the Select has no arms"));
    }
    if try_arms(cx, select)? {
        return Ok(Outcome::Done);
    }
    let arms: Vec<_> = select.arms().map(Arm::place).collect();
    cx.park_on_any(What::Select, &arms, until, Timeout::MinusOne)
}

/// `Select.wait`
pub fn wait(cx: &mut Context<'_>) -> Native {
    wait_until(cx, Instant::FAR_FUTURE)
}

/// `Select.waitTimeout`
pub fn wait_timeout(cx: &mut Context<'_>) -> Native {
    match cx.int(1) {
        milliseconds if milliseconds > 0 => wait_until(cx, deadline(milliseconds.into())),
        _ => poll(cx),
    }
}

/// `Select.poll`
pub fn poll(cx: &mut Context<'_>) -> Native {
    let select = select(cx)?;
    if !try_arms(cx, select)? {
        cx.set_int(-1);
    }
    Ok(Outcome::Done)
}

/// `Select.value`: what the last wait has received from a channel.
pub fn value(cx: &mut Context<'_>) -> Native {
    let (select, channel) = (select(cx)?, channel_at(cx, 1)?);
    match select.value(channel) {
        Some(word) => {
            cx.set_word(word);
            Ok(Outcome::Done)
        }
        None => Err(Trap::exception("the last wait did not receive from this channel")),
    }
}

/// `Select.clear`
pub fn clear(cx: &mut Context<'_>) -> Native {
    select(cx)?.clear();
    Ok(Outcome::Done)
}
