//! The methods of `Channel`.

use super::args::Native;
use super::thread::{deadline, reference, timed_out};
use crate::sched::clock::Instant;
use crate::vm::native::{Context, Outcome, Trap, Waiting};
use crate::vm::tasks::channel::{Channel, Refused};
use crate::vm::tasks::wait::What;
use crate::vm::types::{ExceptionClass, Type};

pub(super) fn channel_at(cx: &Context<'_>, index: usize) -> Result<Channel, Trap> {
    let word = reference(cx, index, "the channel")?;
    // SAFETY: the argument's type is a channel, and it is not null.
    Ok(unsafe { Channel::from_word(word) })
}

fn channel(cx: &Context<'_>) -> Result<Channel, Trap> {
    channel_at(cx, 0)
}

pub(super) fn closed() -> Trap {
    Trap::of(ExceptionClass::ChannelClosed, "the channel is closed")
}

fn make(cx: &mut Context<'_>, capacity: i32) -> Native {
    let Ok(capacity) = u32::try_from(capacity) else {
        return Err(Trap::exception(format!("a channel cannot have the capacity {capacity}")));
    };
    let ty = cx.signature().result;
    let references = match cx.types().get(ty) {
        &Type::Channel(of) => cx.types().is_reference(of),
        _ => false,
    };
    // SAFETY: the type is that of the channel.
    let channel = unsafe { Channel::new(cx.heap(), cx.heap_type(ty), capacity, references)? };
    cx.set_word(channel.word());
    Ok(Outcome::Done)
}

/// `Channel.new()`
pub fn new(cx: &mut Context<'_>) -> Native {
    make(cx, 0)
}

/// `Channel.new(n)`
pub fn with_capacity(cx: &mut Context<'_>) -> Native {
    make(cx, cx.int(0))
}

/// `Channel.send`
pub fn send(cx: &mut Context<'_>) -> Native {
    let (channel, value) = (channel(cx)?, cx.word(1));
    match channel.try_send(cx.heap(), value)? {
        Ok(()) => Ok(Outcome::Done),
        Err(Refused::Closed) => Err(closed()),
        Err(Refused::Now) => {
            let waiting = Waiting::on(What::Send, channel.senders());
            cx.park(waiting.with(value, channel.has_references()))
        }
    }
}

/// `Channel.trySend`
pub fn try_send(cx: &mut Context<'_>) -> Native {
    match channel(cx)?.try_send(cx.heap(), cx.word(1))? {
        Err(Refused::Closed) => Err(closed()),
        sent => {
            cx.set_bool(sent.is_ok());
            Ok(Outcome::Done)
        }
    }
}

fn receive(cx: &mut Context<'_>, until: Instant) -> Native {
    let channel = channel(cx)?;
    match channel.try_recv() {
        Ok(value) => {
            cx.set_word(value);
            Ok(Outcome::Done)
        }
        Err(Refused::Closed) => Err(closed()),
        Err(Refused::Now) => cx.park(Waiting::on(What::Receive, channel.receivers()).until(until)),
    }
}

/// `Channel.recv`
pub fn recv(cx: &mut Context<'_>) -> Native {
    receive(cx, Instant::FAR_FUTURE)
}

/// `Channel.recvTimeout`
pub fn recv_timeout(cx: &mut Context<'_>) -> Native {
    let milliseconds = cx.int(1);
    if milliseconds > 0 {
        return receive(cx, deadline(milliseconds.into()));
    }
    match channel(cx)?.try_recv() {
        Ok(value) => {
            cx.set_word(value);
            Ok(Outcome::Done)
        }
        Err(Refused::Closed) => Err(closed()),
        Err(Refused::Now) => Err(timed_out("nothing was there to be received")),
    }
}

/// `Channel.tryRecv`
pub fn try_recv(cx: &mut Context<'_>) -> Native {
    let kept = cx.word(1);
    match channel(cx)?.try_recv() {
        Err(Refused::Closed) => Err(closed()),
        received => {
            cx.set_bool(received.is_ok());
            cx.set_out(0, received.unwrap_or(kept));
            Ok(Outcome::Done)
        }
    }
}

/// `Channel.close`
pub fn close(cx: &mut Context<'_>) -> Native {
    channel(cx)?.close();
    Ok(Outcome::Done)
}

/// `Channel.isClosed`
pub fn is_closed(cx: &mut Context<'_>) -> Native {
    let closed = channel(cx)?.is_closed();
    cx.set_bool(closed);
    Ok(Outcome::Done)
}

/// `Channel.length`
pub fn length(cx: &mut Context<'_>) -> Native {
    let length = channel(cx)?.len();
    cx.set_int(length as i32);
    Ok(Outcome::Done)
}
