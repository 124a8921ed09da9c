//! The package `io`, but for whole files, which are in `fs`.

use std::fs;
use std::io;

use super::args::{Native, bytes, return_bytes, return_strings};
use super::number;
use super::streams::{Pending, Streams};
use crate::vm::native::{Context, Outcome, Trap};
use crate::vm::types::ExceptionClass;

/// What the program was given on its command line.
#[derive(Default)]
pub struct Arguments(pub Vec<String>);

pub fn args(cx: &mut Context<'_>) -> Native {
    let args = std::mem::take(&mut cx.state::<Arguments>().0);
    let result = return_strings(cx, args.iter().map(|arg| arg.as_bytes()));
    cx.state::<Arguments>().0 = args;
    result
}

/// How much memory of the process is resident; 0 where the system does not tell.
pub fn resident_bytes(cx: &mut Context<'_>) -> Native {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    cx.set_long(resident_in(&status).unwrap_or(0));
    Ok(Outcome::Done)
}

/// The figure in the text of a `status` file, which is in KiB there.
fn resident_in(status: &str) -> Option<i64> {
    let figure = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = figure.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

pub fn print(cx: &mut Context<'_>) -> Native {
    output(cx, true)
}

pub fn write(cx: &mut Context<'_>) -> Native {
    output(cx, false)
}

fn output(cx: &mut Context<'_>, newline: bool) -> Native {
    let text = bytes(cx, 0);
    let written = cx.state::<Streams>().output.write(text, newline);
    written.map_err(|error| stream_error("write to standard output", &error))?;
    Ok(Outcome::Done)
}

pub fn eprint(cx: &mut Context<'_>) -> Native {
    let text = bytes(cx, 0);
    let written = cx.state::<Streams>().write_error(text);
    written.map_err(|error| stream_error("write to standard error", &error))?;
    Ok(Outcome::Done)
}

fn stream_error(what: &str, error: &io::Error) -> Trap {
    Trap::of(ExceptionClass::Io, format!("cannot {what}: {error}"))
}

fn input_error(error: &io::Error) -> Trap {
    stream_error("read standard input", error)
}

fn end_of_input() -> Trap {
    Trap::of(ExceptionClass::Io, "standard input has ended")
}

/// Sees to it that what a native function takes from the input is there: it is called again then.
/// `None`: it is there already. The output goes out before the machine waits, since it may be the
/// question that the input answers.
fn wait_for<'a>(
    cx: &mut Context<'a>,
    is_there: fn(&mut Pending) -> bool,
    native: fn(&mut Context<'a>) -> Native,
) -> Option<Native> {
    if let Some(Err(error)) = cx.take_finished::<io::Result<()>>() {
        return Some(Err(input_error(&error)));
    }
    let streams = cx.state::<Streams>();
    if is_there(&mut streams.input.pending()) {
        return None;
    }
    if let Err(error) = streams.output.flush() {
        return Some(Err(stream_error("write to standard output", &error)));
    }
    let input = streams.input.clone();
    let job = move || input.wait_for(is_there);
    Some(cx.blocking(job, |cx, waited| match waited {
        Ok(()) => native(cx),
        Err(error) => Err(input_error(error)),
    }))
}

pub fn has_input(cx: &mut Context<'_>) -> Native {
    if let Some(waits) = wait_for(cx, Pending::has_anything, has_input) {
        return waits;
    }
    let more = !cx.state::<Streams>().input.pending().is_empty();
    cx.set_bool(more);
    Ok(Outcome::Done)
}

/// The rest of the current line; `""` at the end of the input.
pub fn read_line(cx: &mut Context<'_>) -> Native {
    if let Some(waits) = wait_for(cx, Pending::has_line, read_line) {
        return waits;
    }
    let input = cx.state::<Streams>().input.clone();
    let mut pending = input.pending();
    let (line, consumed) = pending.line();
    // The string first: where the heap has no room for it, the line stays unread.
    let outcome = return_bytes(cx, line)?;
    pending.consume(consumed);
    Ok(outcome)
}

pub fn read_token(cx: &mut Context<'_>) -> Native {
    if let Some(waits) = wait_for(cx, Pending::has_token, read_token) {
        return waits;
    }
    let input = cx.state::<Streams>().input.clone();
    let mut pending = input.pending();
    let token = pending.token().ok_or_else(end_of_input)?;
    let (length, outcome) = (token.len(), return_bytes(cx, token)?);
    pending.consume(length);
    Ok(outcome)
}

pub fn read_char(cx: &mut Context<'_>) -> Native {
    if let Some(waits) = wait_for(cx, Pending::has_char, read_char) {
        return waits;
    }
    let read = cx.state::<Streams>().input.pending().take_char();
    cx.set_uint(read.ok_or_else(end_of_input)?.into());
    Ok(Outcome::Done)
}

/// Parses the next token, which is consumed whether it is good or not.
fn parsed<'a, T>(
    cx: &mut Context<'a>,
    native: fn(&mut Context<'a>) -> Native,
    parse: fn(&str) -> Result<T, number::BadText>,
    put: fn(&mut Context<'a>, T),
) -> Native {
    if let Some(waits) = wait_for(cx, Pending::has_token, native) {
        return waits;
    }
    let parsed = {
        let mut pending = cx.state::<Streams>().input.pending();
        let token = pending.token().ok_or_else(end_of_input)?;
        let (length, parsed) = (token.len(), parse(&String::from_utf8_lossy(token)));
        pending.consume(length);
        parsed
    };
    put(cx, parsed.map_err(|error| Trap::exception(error.to_string()))?);
    Ok(Outcome::Done)
}

pub fn read_int(cx: &mut Context<'_>) -> Native {
    parsed(cx, read_int, number::parse_int, |cx, value| cx.set_int(value))
}

pub fn read_long(cx: &mut Context<'_>) -> Native {
    parsed(cx, read_long, number::parse_long, |cx, value| cx.set_long(value))
}

pub fn read_float(cx: &mut Context<'_>) -> Native {
    parsed(cx, read_float, number::parse_float, |cx, value| cx.set_float(value))
}

pub fn read_double(cx: &mut Context<'_>) -> Native {
    parsed(cx, read_double, number::parse_double, |cx, value| cx.set_double(value))
}

pub fn read_bool(cx: &mut Context<'_>) -> Native {
    parsed(cx, read_bool, number::parse_bool, |cx, value| cx.set_bool(value))
}

#[cfg(test)]
mod tests {
    use super::resident_in;

    #[test]
    fn the_resident_memory_is_read_from_the_process_status() {
        let status = "Name:\tpirn\nVmHWM:\t    9999 kB\nVmRSS:\t    1234 kB\nThreads:\t1\n";
        assert_eq!(resident_in(status), Some(1234 * 1024));
        assert_eq!(resident_in("VmRSS:\t many kB\n"), None);
        assert_eq!(resident_in(""), None);
    }
}
