//! gdb sees through the switches, and shows suspended fibers.
//!
//! Each test runs `examples/step` under `gdb -batch`, with the commands that the program itself
//! carries (`tools/gdb/pirn.py`). Without a gdb a test says so and does nothing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

const AARCH64: &str = "aarch64-unknown-linux-gnu";
const AARCH64_ROOT: &str = "/usr/aarch64-linux-gnu";

/// What the breakpoint of most tests stands at; see `examples/step.rs`.
const EVERYBODY_WAITS: &str = "println!(\"fibers: everybody waits\")";

/// Every fiber that waits there, with a function that must be among its frames.
const WAITING: [(&str, &str); 4] = [
    ("'weaver' (id 1)", "weave ("),
    ("'sleeper' (id 2)", "{closure#2} ()"),
    ("'joiner' (id 3)", "{closure#3} ()"),
    ("(id 4)", "spin ("),
];

// Where things are.

/// The directory that cargo built this test in, of which `deps` is a part.
fn build_directory() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().to_owned()
}

/// The target directory, above the directories of targets and profiles. Cargo tags the former too.
fn target_directory() -> PathBuf {
    let built = build_directory();
    let tagged = built.ancestors().filter(|path| path.join("CACHEDIR.TAG").exists());
    tagged.last().unwrap().to_owned()
}

/// The example with all debug information.
fn example() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build_example("dev", None))
}

/// The example in release, where there are line tables only.
fn release_example() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build_example("release", None))
}

/// Builds the example, which takes no time if it is there already.
fn build_example(profile: &str, triple: Option<&str>) -> PathBuf {
    let target = target_directory();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--example", "step", "--profile", profile, "--target-dir"])
        .arg(&target)
        .env_remove("CARGO_BUILD_TARGET")
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(triple) = triple {
        cargo.args(["--target", triple]);
    }
    let status = cargo.status().unwrap();
    assert!(status.success(), "{cargo:?}: {status}");
    let directory = if profile == "dev" { "debug" } else { profile };
    target.join(triple.unwrap_or("")).join(directory).join("examples/step")
}

/// A breakpoint at the one line of a file that holds this text.
fn line_of(file: &str, text: &str) -> String {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let line = source.lines().position(|line| line.contains(text)).unwrap();
    format!("{}:{}", Path::new(file).file_name().unwrap().display(), line + 1)
}

/// The breakpoints that `tests/gdb/step.py` asks for.
fn places() -> String {
    format!(
        "python places = {{'coroutine': '{}', 'fibers': '{}'}}",
        line_of("examples/step.rs", "    resumer();"),
        line_of("examples/step.rs", "pirn::run(fibers)"),
    )
}

// Running gdb.

fn answers(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Whether the tests of this process can be debugged; says why not.
fn have_gdb() -> bool {
    if cfg!(any(pirn_asan, pirn_tsan)) {
        eprintln!("SKIPPED: a sanitizer's run time and gdb are in each other's way");
        return false;
    }
    let Ok(configuration) = Command::new("gdb").arg("--configuration").output() else {
        eprintln!("SKIPPED: there is no gdb");
        return false;
    };
    let configuration = String::from_utf8_lossy(&configuration.stdout).into_owned();
    if !configuration.contains(&format!("--host={}", env::consts::ARCH)) {
        eprintln!("SKIPPED: gdb cannot debug an emulated {} program", env::consts::ARCH);
        return false;
    }
    true
}

/// Whether programs for AArch64 can be built, emulated and debugged; says why not.
fn have_aarch64() -> bool {
    if cfg!(any(pirn_asan, pirn_tsan)) {
        eprintln!("SKIPPED: a sanitizer's run time is built for one architecture");
        return false;
    }
    for program in ["gdb-multiarch", "qemu-aarch64", "aarch64-linux-gnu-gcc"] {
        if !answers(program) {
            eprintln!("SKIPPED: there is no {program}");
            return false;
        }
    }
    let rustc = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", AARCH64])
        .output()
        .unwrap();
    let installed = Path::new(String::from_utf8_lossy(&rustc.stdout).trim()).exists();
    if !installed {
        eprintln!("SKIPPED: Rust's target {AARCH64} is not installed");
    }
    installed
}

struct Session {
    gdb: &'static str,
    program: PathBuf,
    core: Option<PathBuf>,
    commands: Vec<String>,
}

impl Session {
    fn new(program: &Path) -> Self {
        let commands = ["pagination off", "confirm off", "width 0", "breakpoint pending off"]
            .map(|setting| format!("set {setting}"));
        Session { gdb: "gdb", program: program.to_owned(), core: None, commands: commands.to_vec() }
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }

    fn commands(self, commands: &[&str]) -> Self {
        commands.iter().fold(self, |session, command| session.command(*command))
    }

    /// Runs a command that fails, and prints its message.
    fn failing(self, command: &str) -> Self {
        self.command("python")
            .command(format!("try: gdb.execute('{command}')"))
            .command("except gdb.error as error: print('FAILED', error)")
            .command("end")
    }

    /// Goes where everybody waits, by `run` or `continue`.
    fn everybody_waits(self, by: &str) -> Self {
        let place = line_of("examples/step.rs", EVERYBODY_WAITS);
        self.command(format!("break {place}")).command(by)
    }

    /// Runs the commands and returns everything that was printed.
    fn output(self) -> String {
        let directory = build_directory().join("gdb");
        fs::create_dir_all(&directory).unwrap();
        let test = thread::current().name().unwrap_or("test").replace("::", "-");
        let script = directory.join(format!("{test}-{}.gdb", std::process::id()));
        fs::write(&script, self.commands.join("\n")).unwrap();
        // `timeout`, so that a gdb that hangs is a failure.
        let output = Command::new("timeout")
            .args(["600", self.gdb, "-nx", "-batch"])
            .args(["-iex", "set auto-load safe-path /", "-iex", "set debuginfod enabled off", "-x"])
            .arg(&script)
            .arg(&self.program)
            .args(self.core)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            // The order of stops and fibers is that of one carrier.
            .env_remove("PIRN_CARRIERS")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        fs::remove_file(&script).unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        println!("{text}");
        assert_ne!(output.status.code(), Some(124), "gdb hangs");
        text
    }
}

/// The program under an emulator that waits for gdb.
struct Emulated {
    emulator: Child,
    socket: PathBuf,
}

impl Emulated {
    fn start(program: &Path) -> Self {
        let socket = env::temp_dir().join(format!("pirn-gdb-{}", std::process::id()));
        let emulator = Command::new("qemu-aarch64")
            .env_remove("PIRN_CARRIERS")
            .args(["-L", AARCH64_ROOT, "-g"])
            .arg(&socket)
            .arg(program)
            .spawn()
            .unwrap();
        while !socket.exists() {
            thread::sleep(Duration::from_millis(10));
        }
        Emulated { emulator, socket }
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = self.emulator.kill();
        let _ = self.emulator.wait();
        let _ = fs::remove_file(&self.socket);
    }
}

// What must be in the answers.

#[track_caller]
fn assert_steps(output: &str) {
    assert!(!output.contains("PROBLEM"), "a backtrace does not end cleanly");
    for walk in ["the reference switch", "a coroutine", "fibers"] {
        assert!(output.contains(&format!("DONE {walk}: ")), "{walk} was not walked through");
    }
}

/// The answer to `info fibers` names everybody and what each waits for.
#[track_caller]
fn assert_listed(output: &str) {
    for row in [
        "1 weaver is parked until somebody unparks it examples/step.rs:",
        "2 sleeper sleeps examples/step.rs:",
        "3 joiner waits to join fiber 'weaver' (id 1) examples/step.rs:",
        "4 is runnable examples/step.rs:",
        "5 late has not begun examples/step.rs:",
    ] {
        assert!(has_row(output, row), "there is no line like {row:?}");
    }
}

/// Whether a line begins with these words.
fn has_row(output: &str, row: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    output.lines().any(|line| words(line).starts_with(row))
}

/// The frames that `fiber apply all bt` prints for one fiber.
fn frames_of<'a>(output: &'a str, fiber: &str) -> &'a str {
    let title = format!("\nFiber {fiber} ");
    let start = output.find(&title).unwrap_or_else(|| panic!("nothing about fiber {fiber}"));
    let section = &output[start + 1..];
    section.find("\n\n").map_or(section, |end| &section[..end])
}

/// The answer to `fiber apply all bt` shows every suspended fiber down to its entry.
#[track_caller]
fn assert_backtraces(output: &str) {
    for (fiber, function) in WAITING {
        let frames = frames_of(output, fiber);
        assert!(frames.contains(function), "{function} is not among the frames of {fiber}");
        assert!(frames.contains("pirn_fiber_entry"), "{fiber}: no entry");
        assert!(!frames.contains("??"), "{fiber}: a frame without a name");
        assert!(!frames.contains("signal handler"), "{fiber}: frames that are not its own");
    }
    assert_eq!(frames_of(output, "'weaver' (id 1)").matches("weave (").count(), 3);
    assert!(output.contains("\nFiber 'late' (id 5) has not begun"));
}

#[track_caller]
fn assert_ran_to_its_end(output: &str) {
    assert!(output.contains("fibers: 60 picks\nall done\n"), "the program went wrong");
    assert!(output.contains("exited normally"), "the program did not exit normally");
}

// The promises.

#[test]
fn a_backtrace_ends_cleanly_at_every_instruction_of_a_switch() {
    if have_gdb() {
        let session = Session::new(example()).command("break step::main").command("run");
        let output =
            session.command(places()).commands(&["source tests/gdb/step.py", "continue"]).output();
        assert_steps(&output);
        assert_ran_to_its_end(&output);
    }
}

#[test]
fn a_backtrace_ends_cleanly_at_every_instruction_of_a_switch_in_release() {
    if have_gdb() {
        let session = Session::new(release_example()).command("break main").command("run");
        let output =
            session.command(places()).commands(&["source tests/gdb/step.py", "continue"]).output();
        assert_steps(&output);
        assert_ran_to_its_end(&output);
    }
}

#[test]
fn suspended_fibers_are_listed_and_shown_and_the_program_goes_on() {
    if have_gdb() {
        let output = Session::new(example())
            .everybody_waits("run")
            .commands(&["info fibers", "fiber apply all bt", "echo \\n\\nALONE\\n"])
            .commands(&["fiber 1", "bt", "frame function step::weave", "info locals", "up"])
            .commands(&["info fibers", "fiber 3", "continue"])
            .output();
        assert_listed(&output);
        assert_backtraces(&output);
        let (_, alone) = output.split_once("ALONE").unwrap();
        assert!(alone.contains("Showing fiber 'weaver' (id 1), which is parked"));
        assert_eq!(alone.matches(" step::weave (depth=").count(), 3 + 2);
        assert!(alone.contains("\npicks = 10\n"), "the locals of the innermost call are not shown");
        assert!(alone.contains("\n*  1   weaver"), "the selected fiber is not marked");
        assert_ran_to_its_end(&output);
    }
}

#[test]
fn a_selected_fiber_changes_nothing_for_steps_calls_and_registers() {
    if have_gdb() {
        let registers = ["info registers rip rsp", "info registers pc sp"]
            [usize::from(cfg!(target_arch = "aarch64"))];
        let output = Session::new(example())
            .everybody_waits("run")
            .commands(&["frame 0", "echo BEFORE\\n", registers, "echo END\\n"])
            .commands(&["fiber 1", "frame 0", "echo BEFORE\\n", registers, "echo END\\n"])
            .commands(&["fiber 2", "fiber", "echo STEP\\n", "fiber 1", "next", "bt 2", "finish"])
            .command("continue")
            .output();
        let parts: Vec<&str> = output.split("BEFORE\n").collect();
        let of = |part: &str| part.split_once("END").unwrap().0.to_owned();
        assert_eq!(of(parts[1]), of(parts[2]), "selecting changed a register");
        assert!(output.contains("[The thread runs fiber 'main' (id 0)]"));
        let (_, step) = output.split_once("STEP").unwrap();
        assert!(step.contains("#0  step::everybody_waits"), "`next` went somewhere else");
        assert!(step.contains("#1  0x") && step.contains("in step::fibers ()"));
        assert_ran_to_its_end(&output);
    }
}

#[test]
fn finish_waits_for_a_call_of_a_suspended_fiber_to_return() {
    if have_gdb() {
        let output = Session::new(example())
            .everybody_waits("run")
            .commands(&["fiber 1", "frame function step::weave", "finish", "info fibers"])
            .command("continue")
            .output();
        assert!(output.contains("Value returned is $1 = 10\n"), "`finish` went somewhere else");
        assert!(has_row(&output, "* 1 weaver is running"));
        assert_ran_to_its_end(&output);
    }
}

#[test]
fn a_core_file_shows_suspended_fibers() {
    if have_gdb() {
        let core = build_directory().join("gdb-test.core");
        let live = Session::new(example())
            .everybody_waits("run")
            .command(format!("fiber core {}", core.display()))
            .command("continue")
            .output();
        assert_ran_to_its_end(&live);
        let mut session = Session::new(example());
        session.core = Some(core.clone());
        let output = session
            .commands(&["info fibers", "fiber apply all bt", "echo \\n\\nALONE\\n"])
            .commands(&["fiber 1", "frame function step::weave", "info locals"])
            .output();
        fs::remove_file(core).unwrap();
        assert_listed(&output);
        assert_backtraces(&output);
        let (_, alone) = output.split_once("ALONE").unwrap();
        assert!(alone.contains("\npicks = 10\n"), "the locals of the innermost call are not shown");
    }
}

#[test]
fn fibers_are_shown_while_the_thread_stands_in_libc_in_release() {
    if have_gdb() {
        let output = Session::new(release_example())
            .command("set debug-file-directory /nonexistent")
            .everybody_waits("run")
            .commands(&["catch syscall write", "continue", "bt 1", "info fibers"])
            .commands(&["fiber apply all bt", "echo \\n\\nIDLE\\n", "delete"])
            .commands(&["catch syscall futex", "continue", "info fibers", "fiber 0", "bt"])
            .commands(&["delete", "continue"])
            .output();
        assert!(output.contains("write"), "the breakpoint in libc was not reached");
        assert_listed(&output);
        assert_backtraces(&output);
        let (_, idle) = output.split_once("IDLE").unwrap();
        assert!(has_row(idle, "0 main sleeps"), "the carrier does not idle");
        assert!(idle.contains("fibers ()"), "the sleeper's frames are not shown");
        assert_ran_to_its_end(&output);
    }
}

#[test]
fn what_cannot_be_shown_is_named() {
    if have_gdb() {
        let output = Session::new(example())
            .failing("info fibers")
            .command("break step::left")
            .command("run")
            .command("info fibers")
            .everybody_waits("continue")
            .failing("fiber 77")
            .failing("fiber warp")
            .failing("fiber 5")
            .failing("fiber apply all")
            .command("continue")
            .output();
        for message in [
            "FAILED pirn: there is no process here",
            "There are no fibers: no runtime is running.",
            "FAILED pirn: there is no fiber 77; `info fibers` lists those there are",
            "FAILED pirn: 'warp' is no fiber's id",
            "FAILED pirn: fiber 'late' (id 5) has not begun: it has no frames",
            "FAILED pirn: which command?",
        ] {
            assert!(output.contains(message), "not said: {message}");
        }
        assert_ran_to_its_end(&output);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/gdb/pirn.py");
        let other = Session::new(Path::new("/bin/true"))
            .command(format!("source {}", script.display()))
            .commands(&["starti"])
            .failing("info fibers")
            .output();
        assert!(other.contains("FAILED pirn: there is no runtime in this process"));
    }
}

#[test]
fn gdb_steps_and_shows_fibers_on_aarch64() {
    if !have_aarch64() {
        return;
    }
    let program = build_example("dev", Some(AARCH64));
    let emulated = Emulated::start(&program);
    let mut session = Session::new(&program);
    session.gdb = "gdb-multiarch";
    let output = session
        .command(format!("set sysroot {AARCH64_ROOT}"))
        .command(format!("target remote {}", emulated.socket.display()))
        .commands(&["break step::main", "continue"])
        .command(places())
        .command("source tests/gdb/step.py")
        .everybody_waits("continue")
        .commands(&["info fibers", "fiber apply all bt", "fiber 1", "continue"])
        .output();
    assert_steps(&output);
    assert_listed(&output);
    assert_backtraces(&output);
    assert!(output.contains("exited normally"), "the program did not exit normally");
}
