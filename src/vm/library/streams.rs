//! Standard input, output and error of a machine.
//!
//! * Output is collected in a buffer: written out at each end of a line on a terminal, else when
//!   8 KiB are full. It is also written out before the machine waits for input, before something
//!   goes to standard error, and when the host asks, as it does after each call.
//! * Input is read ahead. Reading looks first and consumes afterwards, so that a native function
//!   that fails in between (the heap is full) can be called again.
//!
//! Strings are bytes: what is not UTF-8 passes through unchanged.
//!
//! A host may put streams of its own in the place of the process's.

use std::io::{self, ErrorKind, IsTerminal, Read, Write};

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

    /// The next line without its end (LF or CR LF), and how many bytes to consume for it. `None` at
    /// the end of the input.
    pub fn peek_line(&mut self) -> io::Result<Option<(&[u8], usize)>> {
        let Streams { input, output, .. } = self;
        let mut seen = 0;
        let end = loop {
            if let Some(at) = memchr::memchr(b'\n', &input.pending()[seen..]) {
                break Some(seen + at);
            }
            seen = input.pending().len();
            if !input.fill(output)? {
                break None;
            }
        };
        let (len, consumed) = match end {
            Some(end) => (end, end + 1),
            None => (seen, seen),
        };
        if consumed == 0 {
            return Ok(None);
        }
        let line = &input.pending()[..len];
        Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), consumed)))
    }

    /// Skips white space and gives the next token, up to white space; it is not consumed. `None` at
    /// the end of the input.
    pub fn peek_token(&mut self) -> io::Result<Option<&[u8]>> {
        let Streams { input, output, .. } = self;
        if !input.skip_space(output)? {
            return Ok(None);
        }
        let mut len = 0;
        loop {
            match input.pending()[len..].iter().position(|&byte| is_space(byte)) {
                Some(at) => {
                    len += at;
                    break;
                }
                None => len = input.pending().len(),
            }
            if !input.fill(output)? {
                break;
            }
        }
        Ok(Some(&input.pending()[..len]))
    }

    /// Skips white space and reads a char; a byte that is not UTF-8 reads as U+FFFD. `None` at the
    /// end of the input.
    pub fn read_char(&mut self) -> io::Result<Option<char>> {
        let Streams { input, output, .. } = self;
        if !input.skip_space(output)? {
            return Ok(None);
        }
        let len = match input.pending()[0] {
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
            _ => 1,
        };
        while input.pending().len() < len && input.fill(output)? {}
        let bytes = &input.pending()[..len.min(input.pending().len())];
        let read = std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next());
        input.consume(read.map_or(1, char::len_utf8));
        Ok(Some(read.unwrap_or(char::REPLACEMENT_CHARACTER)))
    }

    /// Whether a byte is left to read.
    pub fn has_input(&mut self) -> io::Result<bool> {
        let Streams { input, output, .. } = self;
        Ok(!input.pending().is_empty() || input.fill(output)?)
    }
}

/// What separates words, and what `trim` cuts off.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\x0b' | b'\x0c' | b'\r')
}

/// Input that was read ahead.
pub struct Input {
    source: Box<dyn Read + Send>,
    /// Read but not consumed: from `at` on.
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Input {
    fn new(source: Box<dyn Read + Send>) -> Input {
        Input { source, buffer: Vec::new(), at: 0, ended: false }
    }

    fn pending(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Takes bytes that were looked at.
    pub fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.buffer.len());
    }

    /// Reads more, after what is pending; false at the end. The output goes out first: it may be the
    /// question that the input answers.
    fn fill(&mut self, output: &mut Output) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.pending().len() > LONGEST {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "a line or word of standard input is longer than 64 MiB",
            ));
        }
        output.flush()?;
        self.buffer.drain(..self.at);
        self.at = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + INPUT_CHUNK.max(old), 0);
        let read = loop {
            match self.source.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        self.ended = read? == 0;
        Ok(!self.ended)
    }

    /// Consumes white space; false if the input ends before anything else.
    fn skip_space(&mut self, output: &mut Output) -> io::Result<bool> {
        loop {
            let pending = self.pending();
            match pending.iter().position(|&byte| !is_space(byte)) {
                Some(at) => {
                    self.consume(at);
                    return Ok(true);
                }
                None => self.consume(pending.len()),
            }
            if !self.fill(output)? {
                return Ok(false);
            }
        }
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
        let (text, consumed) = {
            let (text, consumed) = streams.peek_line().unwrap()?;
            (String::from_utf8_lossy(text).into_owned(), consumed)
        };
        streams.input.consume(consumed);
        Some(text)
    }

    fn token(streams: &mut Streams) -> Option<String> {
        let token = String::from_utf8_lossy(streams.peek_token().unwrap()?).into_owned();
        streams.input.consume(token.len());
        Some(token)
    }

    #[test]
    fn lines_end_with_line_feeds_and_lose_a_carriage_return() {
        let (mut streams, _) = streams("one\r\n\ntwo\rthree\nend", false);
        let lines: Vec<_> = std::iter::from_fn(|| line(&mut streams)).collect();
        assert_eq!(lines, ["one", "", "two\rthree", "end"]);
        assert!(!streams.has_input().unwrap());
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
        let (mut streams, _) = streams("word\n", false);
        assert_eq!(streams.peek_token().unwrap(), Some(&b"word"[..]));
        assert_eq!(streams.peek_line().unwrap(), Some((&b"word"[..], 5)));
        assert_eq!(line(&mut streams).as_deref(), Some("word"));
    }

    #[test]
    fn chars_are_read_whole_and_a_bad_byte_is_replaced() {
        let (mut streams, _) = streams(" é 😀", false);
        streams.input.source = Box::new(Slow(b" \xc3\xa9\xff \xf0\x9f\x98\x80".to_vec()));
        assert_eq!(streams.read_char().unwrap(), Some('é'));
        assert_eq!(streams.read_char().unwrap(), Some('\u{fffd}'));
        assert_eq!(streams.read_char().unwrap(), Some('😀'));
        assert_eq!(streams.read_char().unwrap(), None);
    }

    #[test]
    fn output_waits_in_the_buffer_until_something_needs_it() {
        let (mut streams, sink) = streams("x", false);
        streams.output.write(b"question", true).unwrap();
        assert_eq!(sink.text(), "");
        assert!(streams.has_input().unwrap());
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
