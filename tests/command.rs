//! The command `pirn`, run as users run it.

mod child;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn pirn() -> Command {
    let program = env!("CARGO_BIN_EXE_pirn");
    // An emulator that runs this test has to run the program as well.
    let mut command = if child::is_emulated() {
        let runner = std::env::var("PIRN_TEST_RUNNER")
            .unwrap_or("qemu-aarch64 -L /usr/aarch64-linux-gnu".into());
        let mut words = runner.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.env_remove("NO_COLOR");
    command
}

/// A folder of its own for a test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("pirn-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn output(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

fn with_input(command: &mut Command, input: &str) -> (i32, String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

#[test]
fn tasks_run_on_so_many_carriers() {
    let folder = Folder::new("carriers");
    let file = folder.file(
        "x.n",
        "import thread;
         class Meeting {
             public AtomicInt there; public Meeting() { there = AtomicInt(0); }
             public int come() { there.add(1); while (there.get() < 4) { } return 10; }
         }
         int main() {
             Meeting meeting = Meeting();
             List<Future<int>> all = {};
             for (int i = 0; i < 4; i += 1) { all.add(thread.spawn(meeting.come)); }
             int sum = 0;
             foreach (Future<int> one in all) { sum += one.get(); }
             return sum;
         }",
    );
    for carriers in ["1", "2", "4"] {
        let run = output(pirn().args(["run", "--carriers", carriers]).arg(&file));
        assert_eq!(run, (40, String::new(), String::new()), "{carriers} carriers");
    }
    let refused = output(pirn().args(["run", "--carriers=2", "--seed=1"]).arg(&file));
    assert_ne!(refused.0, 40, "{refused:?}");
    assert!(!refused.2.is_empty());
}

#[test]
fn the_exit_code_is_the_low_eight_bits_of_mains_value() {
    let folder = Folder::new("exit");
    for (value, code) in [("0", 0), ("7", 7), ("256", 0), ("300", 44), ("-1", 255)] {
        let file = folder.file("x.n", &format!("int main() {{ return {value}; }}"));
        assert_eq!(output(pirn().arg("run").arg(&file)), (code, String::new(), String::new()));
    }
    let file = folder.file("x.n", "void main() { }");
    assert_eq!(output(pirn().arg("run").arg(&file)).0, 0);
}

#[test]
fn an_uncaught_exception_is_reported_with_a_backtrace_behind_all_output() {
    let folder = Folder::new("uncaught");
    let file = folder.file(
        "x.n",
        "import io;\n\
         int deep(List<int> l) { return l[3]; }\n\
         int main() {\n    io.write(\"before\");\n    return deep([1]);\n}\n",
    );
    let (code, out, error) = output(pirn().arg("run").arg(&file));
    assert_eq!((code, out.as_str()), (1, "before"));
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("Runtime error: IndexOutOfBoundsException: "), "{error}");
    assert!(lines[1].starts_with("    at deep (") && lines[1].ends_with("x.n:2)"), "{error}");
    assert!(lines[2].starts_with("    at main (") && lines[2].ends_with("x.n:5)"), "{error}");
}

#[test]
fn compile_errors_go_to_standard_error_with_file_and_line() {
    let folder = Folder::new("errors");
    let file = folder.file("x.n", "int main() {\n    return true;\n}\n");
    for command in ["run", "check", "build", "disasm"] {
        let (code, out, error) = output(pirn().arg(command).arg(&file));
        assert_eq!((code, out.as_str()), (1, ""), "{command}");
        assert!(error.contains("x.n:2:") && error.contains("error"), "{error}");
        assert!(!error.contains('\x1b'), "no colours in a pipe: {error}");
    }
    let (_, _, error) = output(pirn().args(["check", "--color=always"]).arg(&file));
    assert!(error.contains("\x1b["), "{error}");
    assert!(!folder.0.join("x.nm").exists());
}

#[test]
fn a_missing_file_is_named() {
    let (code, _, error) = output(pirn().args(["run", "no/such.n"]));
    assert_eq!(code, 1);
    assert!(error.contains("no/such.n") && error.contains("No such file"), "{error}");
}

#[test]
fn a_usage_error_gives_two_and_points_at_the_help() {
    for args in [&[][..], &["walk"], &["run"], &["run", "--fast", "x.n"], &["check", "a", "b"]] {
        let (code, out, error) = output(pirn().args(args));
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(error.starts_with("pirn: ") && error.contains("pirn --help"), "{error}");
    }
}

#[test]
fn arguments_behind_the_file_reach_the_program() {
    let folder = Folder::new("args");
    let file = folder.file("x.n", "import io; void main() { io.print(io.args()); }");
    let (code, out, _) = output(pirn().arg("run").arg(&file).args(["a b", "--stats", "-h", "é"]));
    assert_eq!((code, out.as_str()), (0, "[\"a b\", \"--stats\", \"-h\", \"é\"]\n"));
}

#[test]
fn a_dash_reads_the_program_from_standard_input() {
    let program = "import io; int main() { io.print(\"hi\"); return 3; }";
    assert_eq!(with_input(pirn().args(["run", "-"]), program), (3, "hi\n".into(), "".into()));
    let (code, _, error) = with_input(pirn().args(["check", "-"]), "int main() { return x; }");
    assert!(code == 1 && error.contains(":1:"), "{error}");
}

#[test]
fn imports_are_found_beside_the_file() {
    let folder = Folder::new("imports");
    folder.file("lib/geo.n", "int area(int a, int b) { return a * b; }");
    let file = folder.file("x.n", "import lib.geo; int main() { return lib.geo.area(6, 7); }");
    assert_eq!(output(pirn().arg("run").arg(&file)).0, 42);
    // A relative path too, from anywhere.
    assert_eq!(output(pirn().args(["run", "x.n"]).current_dir(&folder.0)).0, 42);
}

#[test]
fn a_module_file_runs_without_its_sources() {
    let folder = Folder::new("build");
    folder.file("lib/geo.n", "int area(int a, int b) { return a * b; }");
    let file = folder.file("x.n", "import lib.geo; int main() { return lib.geo.area(6, 7); }");
    assert_eq!(output(pirn().arg("build").arg(&file)).0, 0);
    let module = folder.0.join("elsewhere/y");
    fs::create_dir_all(module.parent().unwrap()).unwrap();
    fs::rename(folder.0.join("x.nm"), &module).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(output(pirn().arg("run").arg(&module)).0, 42);
    let (code, listing, _) = output(pirn().arg("disasm").arg(&module));
    assert!(code == 0 && listing.contains("lib.geo.area"), "{listing}");

    let mut bytes = fs::read(&module).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&module, bytes).unwrap();
    let (code, _, error) = output(pirn().arg("run").arg(&module));
    assert_eq!(code, 1);
    assert!(error.contains("cannot be loaded"), "{error}");
}

#[test]
fn limits_end_a_program_that_goes_too_far() {
    let folder = Folder::new("limits");
    let spin = folder.file("spin.n", "void main() { while (true) { } }");
    let (code, _, error) = output(pirn().args(["run", "--fuel", "10000"]).arg(&spin));
    assert!(code == 1 && error.contains("fuel"), "{error}");

    let deep =
        folder.file("deep.n", "int f(int n) { return f(n + 1); } int main() { return f(0); }");
    let (code, _, error) = output(pirn().args(["run", "--depth=100"]).arg(&deep));
    assert!(code == 1 && error.contains("depth"), "{error}");

    let grow = folder.file(
        "grow.n",
        "void main() { List<string> l = {}; while (true) { l.add(\"x\" + l.length()); } }",
    );
    let (code, _, error) = output(pirn().args(["run", "--heap-limit", "1M"]).arg(&grow));
    assert!(code == 1 && error.contains("memory"), "{error}");
}

#[test]
fn statistics_go_to_standard_error() {
    let folder = Folder::new("stats");
    let file = folder.file("x.n", "import io; void main() { io.print(1); }");
    let (code, out, error) = output(pirn().args(["run", "--stats", "--gc-stress"]).arg(&file));
    assert_eq!((code, out.as_str()), (0, "1\n"));
    assert!(error.contains("collections: ") && error.contains("heap: "), "{error}");
}

#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    let folder = Folder::new("pipe");
    let file = folder.file("x.n", "import io; void main() { while (true) { io.print(\"y\"); } }");
    let mut child =
        pirn().arg("run").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"y\n");
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(141));
    assert_eq!(String::from_utf8(stderr).unwrap(), "");
}

#[test]
fn a_question_is_seen_before_its_answer_is_read() {
    let folder = Folder::new("prompt");
    let file = folder.file(
        "x.n",
        "import io; void main() { io.write(\"name? \"); io.print(\"hi \" + io.readLine()); }",
    );
    let mut child =
        pirn().arg("run").arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut question = [0; 6];
    out.read_exact(&mut question).unwrap();
    assert_eq!(&question, b"name? ");
    child.stdin.take().unwrap().write_all(b"Ada\r\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "hi Ada\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn help_and_version_go_to_standard_output() {
    let (code, help, error) = output(pirn().arg("--help"));
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(help.contains("Usage:"), "{help}");
    assert_eq!(output(pirn().args(["run", "--help"])).1, help);
    let version = format!("pirn {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(output(pirn().arg("-V")), (0, version, String::new()));
}

#[test]
fn the_manual_describes_what_the_help_lists() {
    let manual = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pirn.md"));
    let (manual, help) = (manual.unwrap(), output(pirn().arg("--help")).1);
    let options = |text: &str| {
        let mut options: Vec<String> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with('-') && word.len() > 1)
            .map(String::from)
            .collect();
        options.sort();
        options.dedup();
        options
    };
    let described: String = manual
        .lines()
        .filter(|line| line.starts_with("`-"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(options(&described), options(&help.replace("`--help`", "")));
    let usage = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| line.starts_with("pirn "));
        lines.filter(|line| line.contains("   ")).map(String::from).collect()
    };
    assert_eq!(usage(&manual), usage(&help));
}
