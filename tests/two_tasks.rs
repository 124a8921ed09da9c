//! The program of the first article prints what the article says.

mod child;

use std::process::Command;

const EXPECTED: &str = "\
[A] step 0
[B] step 0, local=0
[A] step 1
[B] step 1, local=10
[A] step 2
[B] step 2, local=20
[A] done
[B] step 3, local=30
[B] step 4, local=40
[B] done
all done
";

#[test]
fn two_tasks_take_turns_and_keep_their_locals() {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/two_tasks");
    let mut command = if child::is_emulated() {
        let mut command = Command::new("qemu-aarch64");
        command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(&example);
        command
    } else {
        Command::new(&example)
    };
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; a plain `cargo test` builds it, and so does `cargo build --examples`",
            example.display()
        );
    });
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), EXPECTED);
}
