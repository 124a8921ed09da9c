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

/// One file: its text without a byte order mark, lines ended by LF.
#[derive(Clone, Debug)]
pub struct Source {
    /// As messages show it.
    pub path: String,
    pub text: String,
    /// The byte at which each line begins.
    lines: Vec<u32>,
}

impl Source {
    /// A file whose text has been brought into form.
    pub fn new(path: String, text: String) -> Source {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1)).collect();
        Source { path, text, lines }
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
