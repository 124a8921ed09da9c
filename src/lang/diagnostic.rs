//! What the compiler has to say about a program, and how it is shown.
//!
//! A [`Diagnostic`] points at a place, says in one sentence what is wrong there, and may add labels
//! (other places that matter) and a hint (what to write instead). [`Diagnostics`] collects them from
//! all parts of the front end. They are shown in order of file and place, whichever part found them
//! first, so that the same program always gives the same text; of equal ones only the first counts.
//!
//! ```text
//! main.n:3:14: error: expected `;`
//!   3 |     int x = 1
//!     |              ^
//!   = hint: …
//! ```
//!
//! The renderer decides nothing about terminals: colours come only when they are asked for. What a
//! source file contains cannot reach the terminal as a control sequence, and neither a long line
//! nor many errors flood it.

use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

use super::source::{Sources, Span};

/// How many diagnostics of each severity are kept; the others are only counted.
const KEPT: usize = 1000;

/// How many columns of a source line an excerpt shows.
const EXCERPT: usize = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is not compiled.
    Error,
    /// The program is legal but probably not what was meant.
    Warning,
}

/// Another place that matters to a diagnostic, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// One sentence without a full stop; names and source text in backquotes.
    pub message: String,
    /// `None` if there is no source to point at (the root file cannot be read).
    pub span: Option<Span>,
    pub labels: Vec<Label>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Something that makes the program illegal.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            span: Some(span),
            labels: Vec::new(),
            hint: None,
        }
    }

    /// Something suspicious.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// An error that no source file contains.
    pub fn without_place(message: impl Into<String>) -> Diagnostic {
        Diagnostic { span: None, ..Diagnostic::error(Span::default(), message) }
    }

    /// Points at another place too.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}

/// All findings about a program.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

/// How diagnostics are shown.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to emit ANSI colours.
    pub colour: bool,
    /// How many diagnostics are shown in full.
    pub limit: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style { colour: false, limit: 20 }
    }
}

impl Diagnostics {
    /// Adds one, unless the same has been said of the same place.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if *count < KEPT {
            let same =
                |old: &Diagnostic| old.span == diagnostic.span && old.message == diagnostic.message;
            if self.kept.iter().any(same) {
                return;
            }
            self.kept.push(diagnostic);
        }
        *count += 1;
    }

    /// Adds an error; see [`Diagnostic`] for more than a message.
    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::error(span, message));
    }

    /// Adds a warning.
    #[allow(dead_code, reason = "no rule of the language warns yet")]
    pub fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::warning(span, message));
    }

    /// Takes over what another part has found.
    pub fn append(&mut self, other: Diagnostics) {
        let kept = |severity| other.kept.iter().filter(|d| d.severity == severity).count();
        // Those that the other one had only counted must not take the place of those it kept.
        let errors = other.errors - kept(Severity::Error);
        let warnings = other.warnings - kept(Severity::Warning);
        for diagnostic in other.kept {
            self.push(diagnostic);
        }
        self.errors += errors;
        self.warnings += warnings;
    }

    /// Whether the program must not be compiled.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// How many errors and warnings there are, kept or not.
    pub fn counts(&self) -> (usize, usize) {
        (self.errors, self.warnings)
    }

    /// The findings by file and place, those without a place first.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut all: Vec<_> = self.kept.iter().collect();
        // A stable sort: at one place in the order in which they were found.
        all.sort_by_key(|found| found.span.map(|span| (span.file, span.start)));
        all
    }

    /// All findings as text, each line ended, with a closing line if not all are shown. Empty if
    /// there are none.
    pub fn render(&self, sources: &Sources, style: Style) -> String {
        let mut out = String::new();
        for diagnostic in self.sorted().into_iter().take(style.limit) {
            render(&mut out, diagnostic, sources, style);
        }
        let hidden = (self.errors + self.warnings).saturating_sub(style.limit.min(self.kept.len()));
        if hidden > 0 {
            let _ = writeln!(out, "… and {hidden} more");
        }
        out
    }
}

/// One diagnostic as text.
pub fn render(out: &mut String, diagnostic: &Diagnostic, sources: &Sources, style: Style) {
    let (word, colour) = match diagnostic.severity {
        Severity::Error => ("error", "\x1b[1;31m"),
        Severity::Warning => ("warning", "\x1b[1;35m"),
    };
    entry(out, word, colour, &diagnostic.message, diagnostic.span, sources, style);
    for label in &diagnostic.labels {
        entry(out, "note", "\x1b[1;36m", &label.text, Some(label.span), sources, style);
    }
    if let Some(hint) = &diagnostic.hint {
        let (on, off) = if style.colour { ("\x1b[1;32m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(out, "  = {on}hint{off}: {}", printable(hint));
    }
}

/// A place, a message, and the line of source.
fn entry(
    out: &mut String,
    word: &str,
    colour: &str,
    message: &str,
    span: Option<Span>,
    sources: &Sources,
    style: Style,
) {
    let (on, bold, off) = if style.colour { (colour, "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
    let message = printable(message);
    let Some(span) = span else {
        let _ = writeln!(out, "{on}{word}{off}: {message}");
        return;
    };
    let source = sources.get(span.file);
    let (line, column) = source.position(span.start);
    let path = printable(&source.path);
    let _ = writeln!(out, "{bold}{path}:{line}:{column}{off}: {on}{word}{off}: {message}");
    let (last, end_column) = source.position(span.end);
    let text = source.line(line);
    let end = if last == line { end_column } else { text.chars().count() as u32 + 1 };
    let excerpt = Excerpt::of(text, column as usize - 1, end as usize - 1);
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(out, "  {number} | {}", excerpt.text);
    let _ = writeln!(out, "  {margin} | {}{on}{}{off}", excerpt.pad, excerpt.marker);
}

/// The part of a line that is shown, and the marker below it.
struct Excerpt {
    text: String,
    pad: String,
    marker: String,
}

impl Excerpt {
    /// From the line and the range of chars to mark.
    fn of(line: &str, start: usize, end: usize) -> Excerpt {
        // What does not fit is cut off, at the left only if the marker would be out of sight.
        let first = if start + 20 > EXCERPT { start - EXCERPT / 3 } else { 0 };
        let mut excerpt =
            Excerpt { text: String::new(), pad: String::new(), marker: String::new() };
        let mut before = 0;
        if first > 0 {
            excerpt.text.push('…');
            before = 1;
        }
        let mut width = before;
        let mut marked = 0;
        for (at, c) in line.chars().enumerate().skip(first) {
            if width >= EXCERPT {
                excerpt.text.push('…');
                break;
            }
            let cells = show(&mut excerpt.text, c);
            width += cells;
            if at < start {
                before += cells;
            } else if at < end {
                marked += cells;
            }
        }
        excerpt.text.truncate(excerpt.text.trim_end().len());
        excerpt.pad = " ".repeat(before);
        excerpt.marker = "^".repeat(marked.max(1));
        excerpt
    }
}

/// Puts a char into shown source and says how many columns it takes.
fn show(out: &mut String, c: char) -> usize {
    if c == '\t' {
        out.push_str("    ");
        return 4;
    }
    if is_hidden(c) {
        out.push('\u{FFFD}');
        return 1;
    }
    out.push(c);
    c.width().unwrap_or(1)
}

/// Text without anything that would command the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{FFFD}' } else { c }).collect()
}

/// Whether a char is a control char or changes the direction of what surrounds it, so that a reader
/// would see another program than the compiler.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::source::{FileId, Source};

    fn file(text: &str) -> Sources {
        let mut sources = Sources::default();
        sources.add(Source::new("a.n".to_owned(), text.to_owned()));
        sources
    }

    fn span(start: usize, end: usize) -> Span {
        Span { file: FileId(0), start: start as u32, end: end as u32 }
    }

    #[track_caller]
    fn shown(text: &str, diagnostic: Diagnostic) -> String {
        let mut all = Diagnostics::default();
        all.push(diagnostic);
        all.render(&file(text), Style::default())
    }

    #[test]
    fn a_diagnostic_shows_place_message_source_labels_and_hint() {
        let found = Diagnostic::warning(span(10, 12), "odd")
            .label(span(0, 1), "because of this")
            .hint("do that");
        let expected = "\
a.n:3:3: warning: odd
  3 | z zz
    |   ^^
a.n:1:1: note: because of this
  1 | x
    | ^
  = hint: do that
";
        assert_eq!(shown("x\ny    \nz zz\n", found), expected);
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        let mut all = Diagnostics::default();
        all.push(Diagnostic::error(span(0, 1), "wrong").hint("h"));
        assert!(!all.render(&file("x"), Style::default()).contains('\x1b'));
        let coloured = all.render(&file("x"), Style { colour: true, ..Style::default() });
        let expected = "\x1b[1ma.n:1:1\x1b[0m: \x1b[1;31merror\x1b[0m: wrong\n  1 | x\n    | \
                        \x1b[1;31m^\x1b[0m\n  = \x1b[1;32mhint\x1b[0m: h\n";
        assert_eq!(coloured, expected);
    }

    #[test]
    fn the_marker_stands_below_what_it_marks_whatever_the_chars_take() {
        let text = "\t\u{65E5}\u{672C} e\u{301} x";
        let at = text.len() - 1;
        let lines = shown(text, Diagnostic::error(span(at, at + 1), "here"));
        let marker = lines.lines().nth(2).expect("three lines");
        // Four columns of the tab, four of the two wide chars, a blank, one of the accented letter.
        assert_eq!(marker, format!("    | {}^", " ".repeat(4 + 4 + 1 + 1 + 1)));
        let wide = shown(text, Diagnostic::error(span(1, 7), "here"));
        assert_eq!(wide.lines().nth(2), Some("    |     ^^^^"));
    }

    #[test]
    fn a_place_over_several_lines_is_marked_to_the_end_of_the_first() {
        let lines = shown("ab cd\nef\n", Diagnostic::error(span(3, 8), "here"));
        assert_eq!(lines.lines().nth(2), Some("    |    ^^"));
        let end = shown("ab\n", Diagnostic::error(span(3, 3), "here"));
        assert_eq!(end, "a.n:2:1: error: here\n  2 | \n    | ^\n");
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let text = format!("{}!{}", "a".repeat(100_000), "b".repeat(100_000));
        let lines = shown(&text, Diagnostic::error(span(100_000, 100_001), "here"));
        let (source, marker) =
            (lines.lines().nth(1).expect("a line"), lines.lines().nth(2).expect("a line"));
        assert!(source.chars().count() < 140, "{source}");
        assert!(source.starts_with("  1 | …a") && source.ends_with("b…"), "{source}");
        let column = marker.chars().position(|c| c == '^');
        assert_eq!(source.chars().position(|c| c == '!'), column);
    }

    #[test]
    fn source_text_cannot_command_the_terminal() {
        let text = "\x1b[2J\u{202E}x\u{7}";
        let lines = shown(text, Diagnostic::error(span(0, 1), format!("bad {text}")));
        assert!(lines.chars().all(|c| c == '\n' || !is_hidden(c)), "{lines:?}");
    }

    #[test]
    fn findings_are_shown_by_place_and_equal_ones_once() {
        let mut all = Diagnostics::default();
        all.error(span(2, 3), "third");
        all.warning(span(0, 1), "first");
        all.error(span(2, 3), "fourth");
        all.error(span(2, 3), "third");
        all.push(Diagnostic::without_place("zeroth"));
        let messages: Vec<&str> = all.sorted().iter().map(|found| &*found.message).collect();
        assert_eq!(messages, ["zeroth", "first", "third", "fourth"]);
        assert_eq!(all.counts(), (3, 1));
        assert!(all.render(&file("abc"), Style::default()).starts_with("error: zeroth\na.n:1:1: "));
    }

    #[test]
    fn many_findings_are_counted_not_shown() {
        let mut all = Diagnostics::default();
        for at in 0..5000 {
            all.error(span(0, at), format!("number {at}"));
        }
        let shown = all.render(&file("abc"), Style { colour: false, limit: 2 });
        assert_eq!(shown.matches("error").count(), 2);
        assert!(shown.ends_with("… and 4998 more\n"), "{shown}");
        assert!(all.sorted().len() <= KEPT);
        let mut others = Diagnostics::default();
        others.error(span(1, 1), "one more");
        others.append(all);
        assert_eq!(others.counts(), (5001, 0));
        let shown = others.render(&file("abc"), Style { colour: false, limit: 3 });
        assert_eq!(shown.matches("error").count(), 3, "{shown}");
    }
}
