//! Tests that concern a whole process run their body in a child: this test program again, running
//! only that test.

// Every test program takes what it needs.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write, stderr};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Set for a child to the name of the test whose body it runs, and its role in it.
const CHILD: &str = "PIRN_TEST_CHILD";

/// For children that leave memory behind on purpose: AddressSanitizer is not to mind.
pub const LEAKS: &[(&str, &str)] = &[("ASAN_OPTIONS", "detect_leaks=0")];

/// How a program is begun that was built like this one: an emulator has to run it as well.
pub fn program(program: &Path) -> Command {
    if is_emulated() {
        let runner = std::env::var("PIRN_TEST_RUNNER")
            .unwrap_or("qemu-aarch64 -L /usr/aarch64-linux-gnu".into());
        let mut words = runner.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// An example that `cargo test` has built beside this test.
pub fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().with_file_name("examples").join(name);
    assert!(path.exists(), "{} is not built: run `cargo build --examples`", path.display());
    let mut command = program(&path);
    command.env("RUST_BACKTRACE", "0");
    command
}

/// How a child of this program is begun for a role of a test, which it [plays](play).
pub fn command(test: &str, role: &str) -> Command {
    let mut command = program(&std::env::current_exe().unwrap());
    command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{test}/{role}"));
    command
}

/// Seconds after which a child that hangs is ended by a signal.
const PATIENCE: u32 = 600;

/// Runs `body` if this process is the child for this role of this test; does not return then.
pub fn play(test: &str, role: &str, body: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|wanted| wanted == format!("{test}/{role}")) {
        // SAFETY: always possible.
        unsafe { libc::alarm(PATIENCE) };
        body();
        std::process::exit(0);
    }
}

/// Whether this is a child that plays some other role.
pub fn is_other_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs `body` in a child process, with variables set in its environment, and returns how that
/// ended. A test with several children gives each a role; in a child with another role this returns
/// `None`, and the test goes on to the call that has the role.
pub fn child(test: &str, role: &str, env: &[(&str, &str)], body: impl FnOnce()) -> Option<Child> {
    play(test, role, body);
    if is_other_child() {
        return None;
    }
    let mut command = command(test, role);
    let output = command.envs(env.iter().copied()).output().unwrap();
    let child = Child::of(&output);
    assert!(child.out.contains("running 1 test"), "{test} is no test: {child:?}");
    if let Some(at) = child.out.find("SKIPPED") {
        // Not by `eprintln`, which the test harness would keep to itself.
        let _ = writeln!(stderr(), "{test}: {}", child.out[at..].lines().next().unwrap());
    }
    Some(child)
}

/// Runs `body` in a child process and fails unless it ends well.
pub fn isolated(test: &str, env: &[(&str, &str)], body: impl FnOnce()) {
    let child = child(test, "alone", env, body).expect("this test has one role");
    assert!(child.code == Some(0), "{test}: {child:?}");
}

/// How a child ended, and what it wrote.
pub struct Child {
    /// What it exited with; `None` if a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Child {
    fn of(output: &Output) -> Child {
        use std::os::unix::process::ExitStatusExt;
        Child {
            code: output.status.code(),
            signal: output.status.signal(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Whether it was aborted. (An emulator exits with a code of its own then, on some versions.)
    pub fn aborted(&self) -> bool {
        self.signal == Some(libc::SIGABRT) || self.code == Some(128 + libc::SIGABRT)
    }
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Child { code, signal, out, err } = self;
        write!(f, "code {code:?}, signal {signal:?}\n--- stdout\n{out}\n--- stderr\n{err}")
    }
}

/// Runs `body`, which may never end, in a child process, until what it writes to stderr satisfies
/// `enough`; then ends the child. Returns what it wrote; `None` as [`child`] does.
pub fn child_until(
    test: &str,
    role: &str,
    enough: impl Fn(&str) -> bool,
    body: impl FnOnce(),
) -> Option<String> {
    play(test, role, body);
    if is_other_child() {
        return None;
    }
    let mut process =
        command(test, role).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    while !enough(&text) && stderr.read_line(&mut text).unwrap() > 0 {}
    process.kill().unwrap();
    process.wait().unwrap();
    Some(text)
}

/// Whether a user-mode emulator runs this program, which shows by the kernel's variables missing in
/// its map.
pub fn is_emulated() -> bool {
    !std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("[vvar"))
}

/// Whether figures of memory and time are those of the program itself.
pub fn is_native() -> bool {
    !cfg!(any(pirn_asan, pirn_tsan)) && !is_emulated()
}

/// Bytes of memory that the process has resident, without pages of files, such as the code of the
/// program, which come as it runs. Counted page by page: the figure in `statm` may lag
/// behind by some pages for every processor of the machine.
pub fn resident_bytes() -> usize {
    resident_bytes_of(std::process::id())
}

/// The same of another process.
pub fn resident_bytes_of(process: u32) -> usize {
    let totals = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let resident = totals.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    resident.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() << 10
}
