//! Source files and places in them.

/// A source file of a program, by its index in [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// From the beginning of this to the end of another one.
    pub fn to(self, end: Span) -> Span {
        Span { file: self.file, start: self.start, end: end.end.max(self.start) }
    }
}

/// What a file has that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Where the first one is, in the text.
    pub at: u32,
    /// How many such places there are; the text has a replacement character for each.
    pub count: u32,
}

/// One file: its text without a byte order mark, lines ended by LF.
#[derive(Clone, Debug)]
pub struct Source {
    /// As messages show it.
    pub path: String,
    pub text: String,
    /// The first place where the file was not UTF-8, if any.
    pub invalid: Option<Invalid>,
    /// The byte at which each line begins.
    lines: Vec<u32>,
}

impl Source {
    /// A file whose text has been brought into form.
    pub fn new(path: String, text: String) -> Source {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1)).collect();
        Source { path, text, invalid: None, lines }
    }

    /// A file as it is stored. A byte order mark goes, CR and CRLF become LF.
    pub fn from_bytes(path: String, bytes: &[u8]) -> Source {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let mut text = String::with_capacity(bytes.len());
        let mut invalid: Option<Invalid> = None;
        for chunk in bytes.utf8_chunks() {
            push_lines(&mut text, chunk.valid());
            if !chunk.invalid().is_empty() {
                let at = text.len() as u32;
                invalid.get_or_insert(Invalid { at, count: 0 }).count += 1;
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Source { invalid, ..Source::new(path, text) }
    }

    /// Line and column, both from 1, of a byte; the column counts chars.
    pub fn position(&self, at: u32) -> (u32, u32) {
        let line = self.line_at(at);
        let start = self.lines[line as usize - 1] as usize;
        let before = self.text.get(start..at as usize).unwrap_or("");
        (line, before.chars().count() as u32 + 1)
    }

    /// The line, from 1, on which a byte lies.
    pub fn line_at(&self, at: u32) -> u32 {
        self.lines.partition_point(|&start| start <= at).max(1) as u32
    }

    /// A line's text without its end; lines count from 1.
    pub fn line(&self, line: u32) -> &str {
        let at = (line as usize).checked_sub(1);
        let Some(&start) = at.and_then(|at| self.lines.get(at)) else { return "" };
        self.text[start as usize..].split('\n').next().unwrap_or("")
    }
}

/// Adds text with its lines ended by LF.
fn push_lines(text: &mut String, mut rest: &str) {
    while let Some(at) = rest.find('\r') {
        text.push_str(&rest[..at]);
        text.push('\n');
        rest = &rest[at + 1..];
        rest = rest.strip_prefix('\n').unwrap_or(rest);
    }
    text.push_str(rest);
}

/// All files of a program.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
}

impl Sources {
    /// Adds a file.
    pub fn add(&mut self, source: Source) -> FileId {
        self.files.push(source);
        FileId(self.files.len() as u32 - 1)
    }

    /// A file that was added.
    pub fn get(&self, id: FileId) -> &Source {
        &self.files[id.0 as usize]
    }

    /// All files, in order of their ids.
    pub fn all(&self) -> &[Source] {
        &self.files
    }

    /// The line on which a span begins.
    pub fn line_of(&self, span: Span) -> u32 {
        self.get(span.file).line_at(span.start)
    }
}
