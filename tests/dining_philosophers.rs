//! The example of the dining philosophers ends with a report that names the cycle.

mod child;

use std::process::Command;

#[test]
fn five_philosophers_with_a_fork_each_are_reported_as_a_cycle() {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().parent().unwrap().join("examples/dining_philosophers");
    let mut command = if child::is_emulated() {
        let mut command = Command::new("qemu-aarch64");
        command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(&example);
        command
    } else {
        Command::new(&example)
    };
    let output = command.env("RUST_BACKTRACE", "0").output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; a plain `cargo test` builds it, and so does `cargo build --examples`",
            example.display()
        );
    });
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("deadlock: 6 fibers wait"), "{text}");
    let names = ["Baruch", "Gilles", "Karl", "Friedrich", "Michel"];
    for (seat, name) in names.into_iter().enumerate() {
        let neighbour = names[(seat + 1) % names.len()];
        let start = format!("  fiber '{name}' (id");
        let line = text.lines().find(|line| line.starts_with(&start)).unwrap();
        let waits = format!("waits to lock a mutex that is held by fiber '{neighbour}'");
        assert!(line.contains(&waits), "{line}");
    }
    let cycle = "  cycle: 'Baruch' (id 1) waits for 'Gilles' (id 2) waits for 'Karl' (id 3) waits for \
                 'Friedrich' (id 4) waits for 'Michel' (id 5) waits for 'Baruch' (id 1)";
    assert_eq!(text.lines().last(), Some(cycle));
}
