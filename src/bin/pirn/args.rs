//! The command line: what the user asked for.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use lexopt::ValueExt;
use lexopt::prelude::{Long, Short, Value};

/// What `pirn --help` prints; docs/pirn.md says the same at more length.
pub const HELP: &str = "\
Runs programs of the pirn script language.

Usage:
  pirn run    [OPTIONS] FILE [ARGS]...   run a program
  pirn check  [OPTIONS] FILE             report errors and warnings only
  pirn build  [OPTIONS] FILE             compile a program into a module file
  pirn disasm [OPTIONS] FILE             show the instructions of a program

FILE is a source file, a module file made by `pirn build`, or `-` for a source
text on standard input. ARGS are what `io.args()` gives to the program.

Options of run:
  --heap-limit SIZE   memory for the program's objects: bytes, or with K, M, G
  --depth N           how deep calls may be nested
  --fuel N            end the program after N calls and loop iterations
  --gc-stress         collect garbage as often as possible, to find bugs
  --carriers N        run the program's threads on N carriers (OS threads)
  --seed N            shuffle the order of tasks, in a way that N decides
  --virtual-time      sleeps take no time: it jumps when all tasks wait
  --stats             say on standard error what the run needed

Options of build:
  -o, --output OUT    the module file to write (default: FILE with `.nm`)

Options:
  --color WHEN        colours in messages: auto (default), always, never
  -h, --help          show this text
  -V, --version       show the version
";

/// A parsed command line.
#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    Version,
    Run { file: PathBuf, args: Vec<String>, limits: Limits, color: Color },
    Check { file: PathBuf, color: Color },
    Build { file: PathBuf, output: Option<PathBuf>, color: Color },
    Disasm { file: PathBuf, color: Color },
}

/// What bounds and watches a run.
#[derive(Debug, Default, PartialEq)]
pub struct Limits {
    pub heap: Option<usize>,
    pub depth: Option<usize>,
    pub fuel: Option<u64>,
    pub gc_stress: bool,
    pub carriers: Option<usize>,
    pub seed: Option<u64>,
    pub virtual_time: bool,
    pub stats: bool,
}

/// When messages are coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Color {
    /// On a terminal, unless the variable `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Why a command line cannot be understood.
#[derive(Debug)]
pub enum UsageError {
    Parser(lexopt::Error),
    NoCommand,
    UnknownCommand(String),
    NoFile,
    ForeignOption { option: &'static str, command: &'static str },
}

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> UsageError {
        UsageError::Parser(error)
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::Parser(error) => error.fmt(f),
            UsageError::NoCommand => f.write_str("no command was given"),
            UsageError::UnknownCommand(name) => {
                write!(f, "`{name}` is no command: run, check, build or disasm is expected")
            }
            UsageError::NoFile => f.write_str("no file was given"),
            UsageError::ForeignOption { option, command } => {
                write!(f, "`{option}` is no option of `pirn {command}`")
            }
        }
    }
}

/// Understands the arguments of the process, without the program's name.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut name: Option<&'static str> = None;
    let mut file: Option<PathBuf> = None;
    let mut rest: Vec<String> = Vec::new();
    let mut limits = Limits::default();
    let mut color = Color::default();
    let mut output: Option<PathBuf> = None;
    // Options of one command only, with the command, to be checked when it is known.
    let mut special: Vec<(&'static str, &'static str)> = Vec::new();

    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Short('V') | Long("version") => return Ok(Command::Version),
            Long("color") => color = parser.value()?.parse_with(parse_color)?,
            Long("heap-limit") => {
                special.push(("--heap-limit", "run"));
                limits.heap = Some(parser.value()?.parse_with(parse_size)?);
            }
            Long("depth") => {
                special.push(("--depth", "run"));
                limits.depth = Some(parser.value()?.parse()?);
            }
            Long("fuel") => {
                special.push(("--fuel", "run"));
                limits.fuel = Some(parser.value()?.parse()?);
            }
            Long("gc-stress") => {
                special.push(("--gc-stress", "run"));
                limits.gc_stress = true;
            }
            Long("carriers") => {
                special.push(("--carriers", "run"));
                limits.carriers = Some(parser.value()?.parse_with(parse_carriers)?);
            }
            Long("seed") => {
                special.push(("--seed", "run"));
                limits.seed = Some(parser.value()?.parse()?);
            }
            Long("virtual-time") => {
                special.push(("--virtual-time", "run"));
                limits.virtual_time = true;
            }
            Long("stats") => {
                special.push(("--stats", "run"));
                limits.stats = true;
            }
            Short('o') | Long("output") => {
                special.push(("--output", "build"));
                output = Some(parser.value()?.into());
            }
            Value(word) if name.is_none() => {
                let word = word.to_string_lossy().into_owned();
                let known = ["run", "check", "build", "disasm"].into_iter();
                name = Some(
                    known
                        .clone()
                        .find(|known| *known == word)
                        .ok_or_else(|| UsageError::UnknownCommand(word))?,
                );
            }
            Value(word) if file.is_none() => {
                file = Some(word.into());
                if name == Some("run") {
                    // Everything behind the file is the program's, options too.
                    for arg in parser.raw_args()? {
                        rest.push(arg.to_string_lossy().into_owned());
                    }
                }
            }
            other => return Err(other.unexpected().into()),
        }
    }

    let name = name.ok_or(UsageError::NoCommand)?;
    if let Some(&(option, _)) = special.iter().find(|(_, command)| *command != name) {
        return Err(UsageError::ForeignOption { option, command: name });
    }
    let file = file.ok_or(UsageError::NoFile)?;
    Ok(match name {
        "run" => Command::Run { file, args: rest, limits, color },
        "check" => Command::Check { file, color },
        "build" => Command::Build { file, output, color },
        _ => Command::Disasm { file, color },
    })
}

fn parse_carriers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        _ => Err("a number of carriers is expected, at least 1".into()),
    }
}

fn parse_color(text: &str) -> Result<Color, String> {
    match text {
        "auto" => Ok(Color::Auto),
        "always" => Ok(Color::Always),
        "never" => Ok(Color::Never),
        _ => Err("auto, always or never is expected".into()),
    }
}

/// `4096`, `64K`, `100M`, `2G`: factors of 1,024; `KiB` and `KB` mean the same.
fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err("a number of bytes is expected, like 4096, 64K, 100M or 2G".into()),
    };
    let number: usize = number.parse().map_err(|error| format!("{error}"))?;
    number.checked_mul(1 << shift).ok_or_else(|| "the size is out of range".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_stands_behind_the_file_belongs_to_the_program() {
        let Ok(Command::Run { file, args, limits, .. }) =
            command("run --fuel 5 --heap-limit=2M x.n -o --help -- a")
        else {
            panic!()
        };
        assert_eq!(file, PathBuf::from("x.n"));
        assert_eq!(args, ["-o", "--help", "--", "a"]);
        assert_eq!((limits.fuel, limits.heap), (Some(5), Some(2 << 20)));
    }

    #[test]
    fn a_dash_is_a_file() {
        assert!(
            matches!(command("check -"), Ok(Command::Check { file, .. }) if file.as_os_str() == "-")
        );
    }

    #[test]
    fn options_stand_before_or_behind_the_file() {
        let expected =
            Command::Build { file: "x.n".into(), output: Some("y".into()), color: Color::Never };
        assert_eq!(command("build x.n -o y --color never").unwrap(), expected);
        assert_eq!(command("--color=never build -oy x.n").unwrap(), expected);
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (line, text) in [
            ("", "no command"),
            ("run", "no file"),
            ("walk x.n", "`walk` is no command"),
            ("run --fast x.n", "--fast"),
            ("run --fuel lots x.n", "lots"),
            ("run --carriers 0 x.n", "at least 1"),
            ("check --carriers 2 x.n", "`--carriers` is no option of `pirn check`"),
            ("run --heap-limit 5X x.n", "number of bytes"),
            ("run --heap-limit 99999999999G x.n", "out of range"),
            ("check --fuel 1 x.n", "`--fuel` is no option of `pirn check`"),
            ("check x.n y.n", "y.n"),
            ("check --color blue x.n", "auto, always or never"),
        ] {
            let error = command(line).unwrap_err();
            assert!(error.contains(text), "{line}: {error}");
        }
    }
}
