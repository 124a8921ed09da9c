//! Standard input, output and error of a machine.
//!
//! * Output is collected in a buffer: written out at each end of a line on a terminal, else when
//!   8 KiB are full. It is also written out before the machine waits for input, before something
//!   goes to standard error, and when the host asks, as it does after each call.
//! * Input is read ahead, on the pool where other tasks can run. Reading looks first and consumes
//!   afterwards, so that a native function that fails in between (the heap is full) can be called again.
//!
//! Strings are bytes: what is not UTF-8 passes through unchanged.
//!
//! A host may put streams of its own in the place of the process's.

use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much output is collected at most.
const OUTPUT_BUFFER: usize = 8 * 1024;

/// How much is read at once.
const INPUT_CHUNK: usize = 8 * 1024;

/// The longest line or token that is read: what never ends must not take all memory.
const LONGEST: usize = 64 * 1024 * 1024;

/// The three streams.
pub struct Streams {
    pub input: Input,
    pub output: Output,
    error: Box<dyn Write + Send>,
}

impl Default for Streams {
    /// The streams of the process.
    fn default() -> Streams {
        Streams {
            input: Input::new(Box::new(io::stdin())),
            output: Output::new(Box::new(io::stdout()), io::stdout().is_terminal()),
            error: Box::new(io::stderr()),
        }
    }
}

impl Streams {
    /// Puts another source in the place of standard input.
    pub fn set_input(&mut self, source: Box<dyn Read + Send>) {
        self.input = Input::new(source);
    }

    /// Puts another sink in the place of standard output. By lines or in blocks.
    pub fn set_output(&mut self, sink: Box<dyn Write + Send>, by_lines: bool) {
        self.output = Output::new(sink, by_lines);
    }

    /// Puts another sink in the place of standard error.
    pub fn set_error(&mut self, sink: Box<dyn Write + Send>) {
        self.error = sink;
    }

    /// Writes a line to standard error, at once, behind all output so far.
    pub fn write_error(&mut self, line: &[u8]) -> io::Result<()> {
        self.output.flush()?;
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        self.error.write_all(&bytes)?;
        self.error.flush()
    }
}

/// What separates words, and what `trim` cuts off.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r')
}

/// Input, for the machine and for the threads that read it.
///
/// What was read lies in the buffer until the machine takes it, so a reader that is not wanted any more
/// loses nothing. The source is locked for as long as reading takes, the buffer never for long.
#[derive(Clone)]
pub struct Input(Arc<Shared>);

struct Shared {
    source: Mutex<Box<dyn Read + Send>>,
    pending: Mutex<Pending>,
}

impl Input {
    fn new(source: Box<dyn Read + Send>) -> Input {
        let shared = Shared { source: Mutex::new(source), pending: Mutex::default() };
        Input(Arc::new(shared))
    }

    /// What was read and not taken.
    pub fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until this holds, as it does at the end of the input.
    ///
    /// # Errors
    ///
    /// Those of the source; a line or word that is too long.
    pub fn wait_for(&self, is_there: fn(&mut Pending) -> bool) -> io::Result<()> {
        let source = &mut *self.0.source.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chunk = INPUT_CHUNK;
        // Another thread may have read it before this one got the source.
        while !is_there(&mut self.pending()) {
            if self.pending().bytes().len() > LONGEST {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "a line or word of standard input is longer than 64 MiB",
                ));
            }
            let mut bytes = vec![0; chunk];
            let read = loop {
                match source.read(&mut bytes) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            self.pending().add(&bytes[..read]);
            chunk = (2 * chunk).min(LONGEST / 64);
        }
        Ok(())
    }
}

/// Input that was read ahead.
#[derive(Default)]
pub struct Pending {
    /// Read but not consumed: from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// So many bytes were looked through in vain for the end of a line or word.
    seen: usize,
    ended: bool,
}

impl Pending {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    fn add(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
        self.ended = bytes.is_empty();
    }

    /// Takes bytes that were looked at.
    pub fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.buffer.len());
        self.seen = 0;
    }

    fn skip_space(&mut self) {
        let space = self.bytes().iter().take_while(|&&byte| is_space(byte)).count();
        if space > 0 {
            self.consume(space);
        }
    }

    /// Whether a byte for which this holds is there; what was looked through before is not again.
    fn look_for(&mut self, wanted: impl Fn(&[u8]) -> Option<usize>) -> bool {
        let seen = self.seen.min(self.bytes().len());
        let found = wanted(&self.bytes()[seen..]).is_some();
        if !found {
            self.seen = self.bytes().len();
        }
        found || self.ended
    }

    /// Whether a line can be taken.
    pub fn has_line(&mut self) -> bool {
        self.look_for(|bytes| memchr::memchr(b'\n', bytes))
    }

    /// Whether a token can be taken. White space before it is skipped.
    pub fn has_token(&mut self) -> bool {
        self.skip_space();
        self.look_for(|bytes| bytes.iter().position(|&byte| is_space(byte)))
    }

    /// Whether a char can be taken. White space before it is skipped.
    pub fn has_char(&mut self) -> bool {
        self.skip_space();
        self.ended || self.bytes().len() >= self.char_length()
    }

    /// Whether it is known if anything is left.
    pub fn has_anything(&mut self) -> bool {
        self.ended || !self.bytes().is_empty()
    }

    /// Whether nothing is left, once that is known.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// The next line without its end (LF or CR LF), and how many bytes to consume for it.
    pub fn line(&self) -> (&[u8], usize) {
        let bytes = self.bytes();
        let (line, consumed) = match memchr::memchr(b'\n', bytes) {
            Some(end) => (&bytes[..end], end + 1),
            None => (bytes, bytes.len()),
        };
        (line.strip_suffix(b"\r").unwrap_or(line), consumed)
    }

    /// The next token, up to white space. `None` at the end of the input.
    pub fn token(&self) -> Option<&[u8]> {
        let bytes = self.bytes();
        let len = bytes.iter().position(|&byte| is_space(byte)).unwrap_or(bytes.len());
        (len > 0).then(|| &bytes[..len])
    }

    /// Bytes that the next char should have.
    fn char_length(&self) -> usize {
        match self.bytes().first() {
            Some(0xc0..0xe0) => 2,
            Some(0xe0..0xf0) => 3,
            Some(0xf0..) => 4,
            _ => 1,
        }
    }

    /// Takes a char; a byte that is not UTF-8 reads as U+FFFD. `None` at the end of the input.
    pub fn take_char(&mut self) -> Option<char> {
        let bytes = self.bytes();
        let bytes = &bytes[..self.char_length().min(bytes.len())];
        if bytes.is_empty() {
            return None;
        }
        let read = std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next());
        self.consume(read.map_or(1, char::len_utf8));
        Some(read.unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

/// Output that was not written out yet.
pub struct Output {
    sink: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    by_lines: bool,
}

impl Output {
    fn new(sink: Box<dyn Write + Send>, by_lines: bool) -> Output {
        Output { sink, buffer: Vec::new(), by_lines }
    }

    /// Writes a text, and the end of a line if asked for.
    pub fn write(&mut self, text: &[u8], newline: bool) -> io::Result<()> {
        if self.buffer.len() + text.len() >= OUTPUT_BUFFER {
            self.drain()?;
        }
        if text.len() >= OUTPUT_BUFFER {
            self.sink.write_all(text)?;
        } else {
            self.buffer.extend_from_slice(text);
        }
        if newline {
            self.buffer.push(b'\n');
        }
        if self.by_lines && (newline || text.contains(&b'\n')) { self.flush() } else { Ok(()) }
    }

    /// Whether something waits to be written out.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Hands everything to the sink and flushes it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.sink.flush()
    }

    fn drain(&mut self) -> io::Result<()> {
        // Cleared first: what a broken sink refused once is not offered again.
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.sink.write_all(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Shares what was written with the test.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    /// Gives its bytes one at a time.
    struct Slow(Vec<u8>);

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            to[0] = self.0.remove(0);
            Ok(1)
        }
    }

    fn streams(input: &str, by_lines: bool) -> (Streams, Sink) {
        let sink = Sink::default();
        let mut streams = Streams::default();
        streams.set_input(Box::new(Slow(input.as_bytes().to_vec())));
        streams.set_output(Box::new(sink.clone()), by_lines);
        streams.set_error(Box::new(sink.clone()));
        (streams, sink)
    }

    fn line(streams: &mut Streams) -> Option<String> {
        streams.input.wait_for(Pending::has_line).unwrap();
        let mut pending = streams.input.pending();
        let (text, consumed) = pending.line();
        let text = String::from_utf8_lossy(text).into_owned();
        pending.consume(consumed);
        (consumed > 0).then_some(text)
    }

    fn token(streams: &mut Streams) -> Option<String> {
        streams.input.wait_for(Pending::has_token).unwrap();
        let mut pending = streams.input.pending();
        let token = String::from_utf8_lossy(pending.token()?).into_owned();
        pending.consume(token.len());
        Some(token)
    }

    #[test]
    fn lines_end_with_line_feeds_and_lose_a_carriage_return() {
        let (mut streams, _) = streams("one\r\n\ntwo\rthree\nend", false);
        let lines: Vec<_> = std::iter::from_fn(|| line(&mut streams)).collect();
        assert_eq!(lines, ["one", "", "two\rthree", "end"]);
        streams.input.wait_for(Pending::has_anything).unwrap();
        assert!(streams.input.pending().is_empty());
    }

    #[test]
    fn a_line_after_a_token_is_the_rest_of_its_line() {
        let (mut streams, _) = streams("  12 rest of it\n\n x", false);
        assert_eq!(token(&mut streams).as_deref(), Some("12"));
        assert_eq!(line(&mut streams).as_deref(), Some(" rest of it"));
        assert_eq!(token(&mut streams).as_deref(), Some("x"));
        assert_eq!(line(&mut streams), None);
        assert_eq!(token(&mut streams), None);
    }

    #[test]
    fn what_was_only_looked_at_is_read_again() {
        let (mut streams, _) = streams("word\nnext", false);
        streams.input.wait_for(Pending::has_line).unwrap();
        assert_eq!(streams.input.pending().token(), Some(&b"word"[..]));
        assert_eq!(streams.input.pending().line(), (&b"word"[..], 5));
        assert_eq!(line(&mut streams).as_deref(), Some("word"));
        assert_eq!(line(&mut streams).as_deref(), Some("next"));
    }

    #[test]
    fn chars_are_read_whole_and_a_bad_byte_is_replaced() {
        let source = Slow(b" \xc3\xa9\xff \xf0\x9f\x98\x80".to_vec());
        let input = Input::new(Box::new(source));
        let next = || {
            input.wait_for(Pending::has_char).unwrap();
            input.pending().take_char()
        };
        let chars: Vec<_> = std::iter::from_fn(next).collect();
        assert_eq!(chars, ['é', '\u{fffd}', '😀']);
    }

    #[test]
    fn output_waits_in_the_buffer_until_something_needs_it() {
        let (mut streams, sink) = streams("x", false);
        streams.output.write(b"question", true).unwrap();
        assert_eq!(sink.text(), "");
        streams.output.flush().unwrap();
        assert_eq!(sink.text(), "question\n");
        streams.output.write(b"a", false).unwrap();
        streams.write_error(b"b").unwrap();
        assert_eq!(sink.text(), "question\nab\n");
        streams.output.write(&[b'c'; OUTPUT_BUFFER], false).unwrap();
        streams.output.write(b"d", false).unwrap();
        assert!(sink.text().ends_with("cc"));
        drop(streams);
        assert!(sink.text().ends_with("ccd"));
    }

    #[test]
    fn a_terminal_sees_each_line_when_it_ends() {
        let (mut streams, sink) = streams("", true);
        streams.output.write(b"a", false).unwrap();
        assert_eq!(sink.text(), "");
        streams.output.write(b"b", true).unwrap();
        assert_eq!(sink.text(), "ab\n");
    }

    #[test]
    fn a_broken_sink_is_an_error_at_every_write_and_loses_only_its_own_text() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut output = Output::new(Box::new(Broken), true);
        for _ in 0..2 {
            assert_eq!(output.write(b"x", true).unwrap_err().kind(), ErrorKind::BrokenPipe);
        }
        assert_eq!(output.flush().map_err(|error| error.kind()), Ok(()));
    }
}
