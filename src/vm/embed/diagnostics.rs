//! What the compiler says about a program.

use std::fmt;
use std::sync::Arc;

use crate::lang::diagnostic::{self, Style};
use crate::lang::source::{Sources, Span};

/// Errors and warnings about a program, in order of their places.
///
/// `Display` gives them as a terminal would show them, with lines of the source.
///
/// ```
/// use pirn::vm::compile;
///
/// let diagnostics = compile("int f() { return true; }").unwrap_err();
/// assert_eq!(diagnostics.iter().count(), 1);
/// let first = diagnostics.iter().next().unwrap();
/// assert_eq!((first.line, first.path.as_str()), (1, "main.n"));
/// ```
#[derive(Clone)]
pub struct Diagnostics {
    found: Arc<diagnostic::Diagnostics>,
    sources: Arc<Sources>,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Whether the program can be compiled all the same.
    pub is_warning: bool,
    /// One sentence.
    pub message: String,
    /// The source file; empty if the message is about none.
    pub path: String,
    /// The line, from 1; 0 if the message is about none.
    pub line: u32,
    /// The column in chars, from 1; 0 if the message is about none.
    pub column: u32,
    /// What to do.
    pub hint: Option<String>,
}

impl Diagnostics {
    pub(super) fn new(found: diagnostic::Diagnostics, sources: Sources) -> Diagnostics {
        Diagnostics { found: Arc::new(found), sources: Arc::new(sources) }
    }

    /// No messages.
    pub(super) fn none() -> Diagnostics {
        Diagnostics::new(diagnostic::Diagnostics::default(), Sources::default())
    }

    /// One message that points at no source.
    pub(super) fn message(message: impl Into<String>) -> Diagnostics {
        let mut found = diagnostic::Diagnostics::default();
        found.push(diagnostic::Diagnostic::without_place(message));
        Diagnostics::new(found, Sources::default())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.counts() == (0, 0)
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.found.counts().0
    }

    /// How many warnings there are.
    pub fn warnings(&self) -> usize {
        self.found.counts().1
    }

    /// The messages. Of very many only the first thousand are kept.
    pub fn iter(&self) -> impl Iterator<Item = Diagnostic> + '_ {
        self.found.sorted().into_iter().map(|found| {
            let (path, line, column) = found.span.map_or_else(Default::default, |s| self.place(s));
            Diagnostic {
                is_warning: found.severity == diagnostic::Severity::Warning,
                message: found.message.clone(),
                path,
                line,
                column,
                hint: found.hint.clone(),
            }
        })
    }

    /// The messages as text, with the source lines they point at; with ANSI colours if asked for.
    pub fn render(&self, colour: bool) -> String {
        self.found.render(&self.sources, Style { colour, ..Style::default() })
    }

    fn place(&self, span: Span) -> (String, u32, u32) {
        let source = self.sources.get(span.file);
        let (line, column) = source.position(span.start);
        (source.path.clone(), line, column)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl std::error::Error for Diagnostics {}
