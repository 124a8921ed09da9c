//! The programs below `examples/scripts/` do what they say: what each prints is kept in
//! `tests/snapshots/`.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pirn::vm::{Compiler, Vm};

/// Collects what a program prints.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a program prints, and what it returns unless that is 0.
fn output(name: &str, args: &[&str], stdin: &str) -> String {
    output_on(1, name, args, stdin)
}

/// [`output`], with the tasks of the program on so many carriers.
fn output_on(carriers: usize, name: &str, args: &[&str], stdin: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/scripts").join(name);
    let program = Compiler::new().compile_file(&path).unwrap();
    let sink = Sink::default();
    let mut vm = Vm::builder()
        .carriers(carriers)
        .args(args.iter().copied())
        .stdin(io::Cursor::new(stdin.to_owned()))
        .stdout(sink.clone())
        .stderr(sink.clone())
        .load(&program)
        .unwrap();
    let exit = vm.run().unwrap();
    let mut text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    if exit != 0 {
        text.push_str(&format!("exit {exit}\n"));
    }
    text
}

#[test]
fn the_tour_shows_the_language() {
    insta::assert_snapshot!("tour", output("tour.n", &[], ""));
}

#[test]
fn the_json_printer_indents_and_names_errors() {
    insta::assert_snapshot!("json", output("json.n", &[], ""));
}

#[test]
fn the_spreadsheet_finds_cycles() {
    insta::assert_snapshot!("sheet", output("sheet.n", &[], ""));
}

#[test]
fn jobs_give_the_same_on_however_many_carriers() {
    for carriers in [1, 2, 4] {
        insta::allow_duplicates! {
            insta::assert_snapshot!("parallel", output_on(carriers, "parallel.n", &[], ""));
        }
    }
}

#[test]
fn six_queens_have_four_solutions() {
    insta::assert_snapshot!("queens", output("queens.n", &["6"], ""));
}

#[test]
fn the_bodies_keep_their_energy() {
    insta::assert_snapshot!("nbody", output("nbody.n", &["100"], ""));
}

#[test]
fn the_mandelbrot_set_is_drawn() {
    insta::assert_snapshot!("mandelbrot", output("mandelbrot.n", &["9"], ""));
}

#[test]
fn words_are_counted() {
    let text = "The cat and the dog.\nThe end, and so on.\n";
    insta::assert_snapshot!("wordcount", output("wordcount.n", &[], text));
}

#[test]
fn the_lisp_evaluates() {
    insta::assert_snapshot!("lisp", output("lisp.n", &["demo"], ""));
}

#[test]
fn the_adventure_can_be_won() {
    let moves = "go north\ngo up\ngo south\ntake lamp\ntake pirn\ngo north\ngo up\ntake pirn\ni\ndance\ngo down\n";
    insta::assert_snapshot!("adventure", output("adventure.n", &[], moves));
}

#[test]
fn a_glider_glides() {
    insta::assert_snapshot!("life", output("life.n", &["12"], ""));
}

#[test]
fn primes_are_sieved() {
    insta::assert_snapshot!("primes", output("primes.n", &[], ""));
}

#[test]
fn three_ways_of_sorting_agree() {
    insta::assert_snapshot!("sort", output("sort.n", &["300"], ""));
}

#[test]
fn a_producer_feeds_a_consumer() {
    insta::assert_snapshot!("producer_consumer", output("producer_consumer.n", &[], ""));
}

#[test]
fn many_tasks_wait_at_once_and_all_are_woken() {
    let text = output("million.n", &["2000"], "");
    let lines: Vec<&str> = text.lines().collect();
    let [waiting, woken] = lines[..] else { panic!("{text}") };
    let bytes = waiting.strip_prefix("2000 tasks wait on a channel, with ");
    let bytes = bytes.and_then(|rest| rest.strip_suffix(" bytes each")).map(str::parse::<i64>);
    assert!(matches!(bytes, Some(Ok(_))), "{waiting}");
    assert_eq!(woken, "all of them were woken: 1 + 2 + ... + 2000 = 2001000");
}
