//! The package `io`, but for whole files, which are in `fs`.

use std::fs;
use std::io;

use super::args::{Native, bytes, return_bytes, return_strings};
use super::number;
use super::streams::Streams;
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

pub fn has_input(cx: &mut Context<'_>) -> Native {
    let more = cx.state::<Streams>().has_input().map_err(|error| input_error(&error))?;
    cx.set_bool(more);
    Ok(Outcome::Done)
}

/// The rest of the current line; `""` at the end of the input.
pub fn read_line(cx: &mut Context<'_>) -> Native {
    let (line, consumed) = {
        let found = cx.state::<Streams>().peek_line().map_err(|error| input_error(&error))?;
        found.map_or((Vec::new(), 0), |(line, consumed)| (line.to_vec(), consumed))
    };
    // The string first: where the heap has no room for it, the line stays unread.
    let outcome = return_bytes(cx, &line)?;
    cx.state::<Streams>().input.consume(consumed);
    Ok(outcome)
}

pub fn read_token(cx: &mut Context<'_>) -> Native {
    let token = cx.state::<Streams>().peek_token().map_err(|error| input_error(&error))?;
    let token = token.ok_or_else(end_of_input)?.to_vec();
    let outcome = return_bytes(cx, &token)?;
    cx.state::<Streams>().input.consume(token.len());
    Ok(outcome)
}

pub fn read_char(cx: &mut Context<'_>) -> Native {
    let read = cx.state::<Streams>().read_char().map_err(|error| input_error(&error))?;
    cx.set_uint(read.ok_or_else(end_of_input)?.into());
    Ok(Outcome::Done)
}

/// Parses the next token, which is consumed whether it is good or not.
fn parsed<T>(
    cx: &mut Context<'_>,
    parse: fn(&str) -> Result<T, number::BadText>,
) -> Result<T, Trap> {
    let streams = cx.state::<Streams>();
    let token = streams.peek_token().map_err(|error| input_error(&error))?;
    let token = token.ok_or_else(end_of_input)?;
    let parsed = parse(&String::from_utf8_lossy(token));
    let len = token.len();
    streams.input.consume(len);
    parsed.map_err(|error| Trap::exception(error.to_string()))
}

pub fn read_int(cx: &mut Context<'_>) -> Native {
    let value = parsed(cx, number::parse_int)?;
    cx.set_int(value);
    Ok(Outcome::Done)
}

pub fn read_long(cx: &mut Context<'_>) -> Native {
    let value = parsed(cx, number::parse_long)?;
    cx.set_long(value);
    Ok(Outcome::Done)
}

pub fn read_float(cx: &mut Context<'_>) -> Native {
    let value = parsed(cx, number::parse_float)?;
    cx.set_float(value);
    Ok(Outcome::Done)
}

pub fn read_double(cx: &mut Context<'_>) -> Native {
    let value = parsed(cx, number::parse_double)?;
    cx.set_double(value);
    Ok(Outcome::Done)
}

pub fn read_bool(cx: &mut Context<'_>) -> Native {
    let value = parsed(cx, number::parse_bool)?;
    cx.set_bool(value);
    Ok(Outcome::Done)
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
