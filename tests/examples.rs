//! The examples do what their documentation says.

mod child;

use std::process::Output;

/// Runs an example.
fn example(name: &str, arguments: &[&str]) -> Output {
    child::example(name).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What the article prints.
const TWO_TASKS: &str = "\
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
    // One carrier, whatever this test runs with: with more they do not take turns.
    let output = child::example("two_tasks").env("PIRN_CARRIERS", "1").output().unwrap();
    assert_eq!(stdout(&output), TWO_TASKS);
}

#[test]
fn blocking_and_async_code_pass_orders_on_to_each_other() {
    let text = stdout(&example("async_bridge", &[]));
    assert!(text.contains("10 orders went through the bridge, 10 through the fiber"), "{text}");
    assert!(text.contains("their results add up to 120"), "{text}");
}

#[test]
fn fibers_use_the_sockets_and_timers_of_tokio_beside_their_own() {
    let text = stdout(&example("tokio_bridge", &[]));
    assert!(text.contains("tokio's server answered: WARP, WEFT"), "{text}");
    assert!(text.contains("tokio's client got: warp, weft"), "{text}");
    assert!(text.contains("another fiber ran while one waited"), "{text}");
}

#[test]
fn everything_balances_after_a_short_soak_on_one_carrier_and_on_several() {
    for carriers in ["1", "4"] {
        let output = example("soak", &["--rounds", "2", "--seed", "7", "--carriers", carriers]);
        let text = stdout(&output);
        assert!(text.contains("8 rounds") && text.contains("everything balances"), "{text}");
    }
    assert_eq!(example("soak", &["--forever", "1"]).status.code(), Some(2));
}

#[test]
fn a_few_thousand_fibers_keep_their_locals_through_a_suspension() {
    let text = stdout(&example("million", &["3000"]));
    assert!(text.contains("3000 fibers are suspended"), "{text}");
    assert!(text.contains("all resumed with their locals intact"), "{text}");
    let output = example("million", &["many"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_pipeline_counts_the_words_of_a_file() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/LICENSE-MIT");
    let text = stdout(&example("pipeline", &[manifest, "no such file"]));
    let first = text.lines().next().unwrap();
    assert_eq!(first.trim(), "15 the", "{text}");
    assert_eq!(text.lines().count(), 10);
}

#[test]
fn the_threads_of_an_interpreter_share_channels_with_fibers() {
    let text = stdout(&example("interpreter", &[]));
    let sums = "sum: 4\nsum: 20\nsum: 56\nsum: 120\nsum: 220\n";
    assert_eq!(text, format!("{sums}a fiber received 220\njoined: [0, 0, 220]\n"));
}

#[test]
fn the_philosophers_learn_who_waits_for_whom() {
    let text = stdout(&example("dining_philosophers", &[]));
    let cycle = text.lines().last().unwrap();
    assert!(cycle.trim().starts_with("cycle: 'Baruch' (id 1) waits for 'Gilles' (id 2)"), "{text}");
    assert!(cycle.ends_with("'Michel' (id 5) waits for 'Baruch' (id 1)"), "{text}");
}

#[test]
fn a_host_gives_a_script_natives_and_limits() {
    let out = stdout(&example("embed", &[]));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[1], "four apples cost 12; the ledger: {\"apple\": 4}");
    assert_eq!(lines[2], "one of each: 17");
    assert!(lines[3].starts_with("pear: Exception: there are no 5 pears in order ("), "{out}");
    assert!(lines[4].starts_with("plum: IOException: no shelf for \"plum\" in order ("), "{out}");
    assert_eq!(lines[6], "forever: the script was stopped");
    assert_eq!(lines[7], "forever: the script ran out of fuel");
    assert!(lines[8].starts_with("hungry: Exception: out of memory"), "{out}");
    assert_eq!(lines[9..], ["five apples cost 15"]);
}
