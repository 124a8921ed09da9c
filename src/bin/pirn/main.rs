//! The command `pirn`: runs, checks, compiles and lists programs of the script language.
//!
//! Exit codes: what `main` returns (its low 8 bits); 1 for a program that cannot be compiled or loaded
//! and for an exception that nobody caught; 2 for a command line that cannot be understood; 141 when
//! the reader of standard output is gone, as for a process that died of SIGPIPE.

mod args;

use std::fmt;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::{Mutex, OnceLock};

use args::{Color, Command, Limits};
use pirn::vm::{Compiler, Error, Program, Vm};

fn main() {
    let code = match args::parse(std::env::args_os().skip(1)) {
        Ok(Command::Help) => say(args::HELP),
        Ok(Command::Version) => say(concat!("pirn ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Run { file, args, limits, color }) => run(&file, args, &limits, color),
        Ok(Command::Check { file, color }) => check(&file, color),
        Ok(Command::Build { file, output, color }) => build(&file, output, color),
        Ok(Command::Disasm { file, color }) => disasm(&file, color),
        Err(error) => {
            complain(format_args!("pirn: {error}\nTry `pirn --help`.\n"));
            2
        }
    };
    exit(code);
}

/// Writes to standard output; a reader that is gone ends the process quietly.
fn say(text: &str) -> i32 {
    let mut out = Stdout(io::stdout());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => 0,
        Err(error) => {
            complain(format_args!("pirn: cannot write to standard output: {error}\n"));
            1
        }
    }
}

fn complain(text: fmt::Arguments<'_>) {
    // Where standard error is gone, there is nobody to tell.
    let _ = io::stderr().write_fmt(text);
}

/// Standard output, for which a reader that is gone is the end of the process.
struct Stdout(io::Stdout);

impl Stdout {
    fn checked<T>(result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit(141),
            result => result,
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Stdout::checked(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout::checked(self.0.flush())
    }
}

/// How messages look.
fn colored(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    }
}

/// Says why nothing came of it.
fn fail(error: &Error, color: Color) -> i32 {
    complain(format_args!("{}", error.report(colored(color))));
    1
}

/// The program in a source or module file, or on standard input. Warnings are shown.
fn load(file: &Path, color: Color) -> Result<Program, Error> {
    let is_stdin = file.as_os_str() == "-";
    let bytes = if is_stdin {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes)?;
        bytes
    } else {
        fs::read(file).map_err(|error| {
            let message = format!("cannot read `{}`: {error}", file.display());
            io::Error::new(error.kind(), message)
        })?
    };
    if Program::is_module(&bytes) {
        return Program::from_bytes(&bytes);
    }
    let name = if is_stdin { "<stdin>".into() } else { file.display().to_string() };
    let folder = file.parent().unwrap_or(Path::new(""));
    let compiler = Compiler::new().natives([] as [&str; 0]).search(folder);
    let program = compiler.compile(&name, bytes)?;
    complain(format_args!("{}", program.warnings().render(colored(color))));
    Ok(program)
}

/// Keeps the machine until the process ends. All output is written, and giving the heap back piece by
/// piece would only delay the end.
static LAST: OnceLock<Mutex<Vm>> = OnceLock::new();

fn run(file: &Path, args: Vec<String>, limits: &Limits, color: Color) -> i32 {
    let mut runtime = pirn::Builder::new().virtual_time(limits.virtual_time);
    if let Some(seed) = limits.seed {
        runtime = runtime.seed(seed);
    }
    let mut builder = Vm::builder().args(args).gc_stress(limits.gc_stress).runtime(runtime);
    let out = Stdout(io::stdout());
    builder = match io::stdout().is_terminal() {
        true => builder.stdout_by_lines(out),
        false => builder.stdout(out),
    };
    if let Some(count) = limits.carriers {
        builder = builder.carriers(count);
    }
    if let Some(bytes) = limits.heap {
        builder = builder.heap_limit(bytes);
    }
    if let Some(frames) = limits.depth {
        builder = builder.call_depth(frames);
    }
    if let Some(amount) = limits.fuel {
        builder = builder.fuel(amount);
    }
    let mut vm = match load(file, color).and_then(|program| builder.load(&program)) {
        Ok(vm) => vm,
        Err(error) => return fail(&error, color),
    };
    let result = vm.run();
    if limits.stats {
        statistics(&vm);
    }
    let _ = LAST.set(Mutex::new(vm));
    match result {
        Ok(value) => value & 0xff,
        Err(Error::NoFunction(_)) => {
            complain(format_args!("pirn: `{}` has no `main`\n", file.display()));
            1
        }
        Err(error) => fail(&error, color),
    }
}

fn statistics(vm: &Vm) {
    let stats = vm.stats();
    complain(format_args!(
        "heap: {} bytes in use, {} at most, {} allocated in all\n\
         collections: {}, {:.3} ms in all, {:.3} ms the longest\n",
        stats.used,
        stats.peak,
        stats.allocated,
        stats.collections,
        stats.pause_total.as_secs_f64() * 1e3,
        stats.pause_max.as_secs_f64() * 1e3,
    ));
}

fn check(file: &Path, color: Color) -> i32 {
    match load(file, color) {
        Ok(_) => 0,
        Err(error) => fail(&error, color),
    }
}

fn build(file: &Path, output: Option<PathBuf>, color: Color) -> i32 {
    let output = match output {
        Some(output) => output,
        None if file.as_os_str() == "-" => {
            complain(format_args!(
                "pirn: `--output` says where to write the module\nTry `pirn --help`.\n"
            ));
            return 2;
        }
        None => file.with_extension("nm"),
    };
    let program = match load(file, color) {
        Ok(program) => program,
        Err(error) => return fail(&error, color),
    };
    if let Err(error) = fs::write(&output, program.to_bytes()) {
        complain(format_args!("pirn: cannot write `{}`: {error}\n", output.display()));
        return 1;
    }
    0
}

fn disasm(file: &Path, color: Color) -> i32 {
    match load(file, color) {
        Ok(program) => say(&program.disassemble()),
        Err(error) => fail(&error, color),
    }
}
