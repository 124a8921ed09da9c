//! Runs the scripts below `tests/lang/`, which say in comments what they do.
//!
//! A case is a file `tests/lang/CHAPTER/NAME.n`, or a folder there with a `main.n` and the units it
//! imports. Its comments, anywhere in these files:
//!
//! | comment | meaning |
//! |---|---|
//! | `// expect: TEXT` | the next line of standard output |
//! | `// expect-exit: N` | the exit code; 0 without |
//! | `// expect-error: FRAGMENT` | a compile error on this line whose message has the fragment |
//! | `// expect-warning: FRAGMENT` | the same for a warning |
//! | `// expect-runtime: FRAGMENT` | standard error has the fragment, behind those of the lines before |
//! | `// expect-no-runtime: FRAGMENT` | standard error does not have the fragment |
//! | `// stdin: TEXT` | a line of standard input |
//! | `// args: WORDS` | what `io.args()` gives |
//! | `// options: WORDS` | options of `pirn run`: `--virtual-time`, `--seed N`, `--fuel N`, `--heap-limit BYTES` |
//! | `// order: queue` | what comes out depends on the order of tasks, so they run first in, first out only |
//!
//! All errors must be expected ones. `LANG_FILTER=text cargo test --test lang` runs the cases whose
//! path has the text.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pirn::vm::{self, Compiler, Diagnostics, Error, Vm};

/// What a script may do before it counts as endless.
const FUEL: u64 = 300_000_000;

#[test]
fn every_script_does_what_its_comments_say() {
    run_all("", |main| check(main, false, None));
}

#[test]
fn every_script_that_does_not_need_the_order_of_a_queue_does_the_same_in_others() {
    run_all("concurrency/", |main| {
        let seeds = if promise(main).in_order { 0..0 } else { 1..5 };
        seeds.into_iter().try_for_each(|seed| {
            check(main, false, Some(seed)).map_err(|why| format!("with seed {seed}: {why}"))
        })
    });
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes in a debug build; see `--release`")]
fn every_script_does_the_same_when_garbage_is_collected_all_the_time() {
    run_all("", |main| check(main, true, None));
}

/// What a case promises.
#[derive(Default)]
struct Promise {
    output: Vec<String>,
    errors: Vec<Place>,
    warnings: Vec<Place>,
    stderr: Vec<String>,
    not_stderr: Vec<String>,
    exit: i32,
    stdin: String,
    args: Vec<String>,
    options: Options,
    in_order: bool,
}

/// Under what a script runs.
#[derive(Default)]
struct Options {
    /// No sleep takes any time.
    virtual_time: bool,
    /// Shuffles the order of tasks.
    seed: Option<u64>,
    fuel: Option<u64>,
    heap_limit: Option<usize>,
}

impl Options {
    fn read(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let mut number = || -> u64 {
                let value = words.next().expect("an option with a number");
                value.parse().expect("a number")
            };
            match word {
                "--virtual-time" => self.virtual_time = true,
                "--seed" => self.seed = Some(number()),
                "--fuel" => self.fuel = Some(number()),
                "--heap-limit" => self.heap_limit = Some(number() as usize),
                _ => panic!("`{word}` is no option that the harness knows"),
            }
        }
    }

    /// The settings of a machine with these options.
    fn builder(&self) -> vm::Builder {
        let mut runtime = pirn::Builder::new().virtual_time(self.virtual_time);
        if let Some(seed) = self.seed {
            runtime = runtime.seed(seed);
        }
        let mut builder = Vm::builder().fuel(self.fuel.unwrap_or(FUEL)).runtime(runtime);
        if let Some(bytes) = self.heap_limit {
            builder = builder.heap_limit(bytes);
        }
        builder
    }
}

struct Place {
    path: PathBuf,
    line: u32,
    fragment: String,
}

/// Checks the scripts whose path begins like this.
fn run_all(below: &str, check: fn(&Path) -> Result<(), String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lang");
    let filter = std::env::var("LANG_FILTER").unwrap_or_default();
    let mut cases = Vec::new();
    for chapter in entries(&root) {
        for entry in entries(&chapter) {
            let main = if entry.is_dir() { entry.join("main.n") } else { entry };
            let name = main.strip_prefix(&root).unwrap().display().to_string();
            let meant = name.starts_with(below) && name.contains(&filter);
            if meant && main.extension().is_some_and(|suffix| suffix == "n") {
                cases.push((name, main));
            }
        }
    }
    assert!(!cases.is_empty() || !filter.is_empty(), "no cases");

    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some((name, main)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = || check(main);
                    let result = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
                        let text = panic.downcast_ref::<String>().map_or("", |text| text);
                        let text = panic.downcast_ref::<&str>().map_or(text, |text| text);
                        Err(format!("panicked: {text}\n"))
                    });
                    if let Err(why) = result {
                        failures.lock().unwrap().push(format!("--- {name}\n{why}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} of {} scripts fail:\n{}",
        failures.len(),
        cases.len(),
        failures.concat()
    );
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// The files of a case: one, or all below the folder of a `main.n`.
fn files(main: &Path) -> Vec<PathBuf> {
    if main.file_name().unwrap() != "main.n" {
        return vec![main.to_path_buf()];
    }
    let mut all = Vec::new();
    let mut folders = vec![main.parent().unwrap().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|suffix| suffix == "n") {
                all.push(entry);
            }
        }
    }
    all
}

fn promise(main: &Path) -> Promise {
    let mut promise = Promise::default();
    for path in files(main) {
        let bytes = fs::read(&path).unwrap();
        for (i, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            let Some((_, comment)) = line.split_once("// ") else { continue };
            let Some((key, text)) = comment.split_once(':') else { continue };
            let text = text.strip_prefix(' ').unwrap_or(text).to_string();
            let place =
                |fragment: String| Place { path: path.clone(), line: i as u32 + 1, fragment };
            match key {
                "expect" => promise.output.push(text),
                "expect-error" => promise.errors.push(place(text.trim().into())),
                "expect-warning" => promise.warnings.push(place(text.trim().into())),
                "expect-runtime" => promise.stderr.push(text.trim().into()),
                "expect-no-runtime" => promise.not_stderr.push(text.trim().into()),
                "order" => promise.in_order = text.trim() == "queue",
                "options" => promise.options.read(&text),
                "expect-exit" => promise.exit = text.trim().parse().expect("an exit code"),
                "stdin" => promise.stdin.push_str(&format!("{text}\n")),
                "args" => promise.args.extend(text.split_whitespace().map(String::from)),
                _ => {}
            }
        }
    }
    promise
}

/// Collects what a script writes.
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
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// Runs a case; the error says what is different.
fn check(main: &Path, stress: bool, seed: Option<u64>) -> Result<(), String> {
    let mut promise = promise(main);
    promise.options.seed = seed.or(promise.options.seed);
    let program = match Compiler::new().natives([] as [&str; 0]).compile_file(main) {
        Ok(program) => program,
        Err(Error::Compile(found)) => {
            if promise.errors.is_empty() {
                return Err(format!("does not compile:\n{found}"));
            }
            return check_places(&promise.errors, &found, false);
        }
        Err(error) => return Err(format!("cannot be loaded: {error}\n")),
    };
    if let Some(error) = promise.errors.first() {
        return Err(format!("compiles, with an error expected on line {}\n", error.line));
    }
    if !promise.warnings.is_empty() {
        check_places(&promise.warnings, program.warnings(), true)?;
    }

    let (stdout, stderr) = (Sink::default(), Sink::default());
    let mut vm = promise
        .options
        .builder()
        .gc_stress(stress)
        .args(promise.args.iter().cloned())
        .stdin(io::Cursor::new(promise.stdin.clone()))
        .stdout(stdout.clone())
        .stderr(stderr.clone())
        .load(&program)
        .map_err(|error| format!("cannot be loaded: {error}\n"))?;
    let exit = match vm.run() {
        Ok(value) => value & 0xff,
        Err(error) => {
            write!(stderr.clone(), "{}", error.report(false)).unwrap();
            1
        }
    };

    let mut different = String::new();
    let output = stdout.text();
    let lines: Vec<&str> = output.lines().collect();
    if lines != promise.output {
        different.push_str("prints (-), should print (+):\n");
        diff(&mut different, &lines, &promise.output);
    }
    let error = stderr.text();
    let mut rest = error.as_str();
    for fragment in &promise.stderr {
        match rest.split_once(fragment.as_str()) {
            Some((_, behind)) => rest = behind,
            None => writeln!(different, "standard error lacks `{fragment}` there").unwrap(),
        }
    }
    for fragment in promise.not_stderr.iter().filter(|fragment| error.contains(*fragment)) {
        writeln!(different, "standard error has `{fragment}`").unwrap();
    }
    if exit != promise.exit {
        writeln!(different, "exits with {exit} instead of {}", promise.exit).unwrap();
    }
    if different.is_empty() {
        return Ok(());
    }
    if !error.is_empty() {
        writeln!(different, "standard error:\n{error}").unwrap();
    }
    Err(different)
}

/// Compares messages of the compiler with those that are expected, both ways.
fn check_places(expected: &[Place], found: &Diagnostics, warnings: bool) -> Result<(), String> {
    let found: Vec<_> = found.iter().filter(|found| found.is_warning == warnings).collect();
    let same_file = |path: &Path, found: &str| {
        let canonical = |path: &Path| path.canonicalize().unwrap_or(path.to_path_buf());
        canonical(path) == canonical(Path::new(found))
    };
    let mut different = String::new();
    for Place { path, line, fragment } in expected {
        let fits = found.iter().any(|found| {
            found.line == *line
                && same_file(path, &found.path)
                && (found.message.contains(fragment)
                    || found.hint.as_ref().is_some_and(|hint| hint.contains(fragment)))
        });
        if !fits {
            let name = path.file_name().unwrap().display();
            writeln!(different, "nothing with `{fragment}` is found on {name}:{line}").unwrap();
        }
    }
    for found in &found {
        let fits = expected
            .iter()
            .any(|place| place.line == found.line && same_file(&place.path, &found.path));
        if !fits {
            writeln!(different, "unexpected on line {}: {}", found.line, found.message).unwrap();
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    for found in &found {
        writeln!(different, "found: {}:{}: {}", found.path, found.line, found.message).unwrap();
    }
    Err(different)
}

/// The lines from the first to the last that differ.
fn diff(out: &mut String, found: &[&str], expected: &[String]) {
    let same = |(a, b): &(&&str, &String)| **a == b.as_str();
    let start = found.iter().zip(expected).take_while(same).count();
    let longest = found.len().min(expected.len()) - start;
    let tail = found.iter().rev().zip(expected.iter().rev()).take(longest).take_while(same).count();
    if start > 0 {
        writeln!(out, "  ({start} lines alike)").unwrap();
    }
    for line in &found[start..found.len() - tail] {
        writeln!(out, "- {line}").unwrap();
    }
    for line in &expected[start..expected.len() - tail] {
        writeln!(out, "+ {line}").unwrap();
    }
}
