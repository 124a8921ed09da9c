//! A job in stages: read, split, count, report, with channels between the stages.
//!
//! `cargo run --release --example pipeline [FILE...]` counts the words of the files, or of the
//! sources of this example when none are named, and prints the ten most frequent.
//!
//! * The *reader* sends lines into a bounded channel: it waits when the others fall behind.
//! * Four *splitters* take lines and send words on.
//! * The *counter* selects: a batch of words, a tick of progress, or the end of its patience; when
//!   that is over it cancels the others and reports what it has.

use std::collections::HashMap;
use std::time::Duration;
use std::{env, fs};

use pirn::select;
use pirn::sync::channel::{Receiver, Sender, bounded, oneshot};
use pirn::thread;
use pirn::time::Instant;

const SPLITTERS: usize = 4;
/// How long the whole job may take.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(200);

fn main() {
    let mut files: Vec<String> = env::args().skip(1).collect();
    if files.is_empty() {
        files.push(file!().to_owned());
    }
    pirn::run(|| {
        let (lines_out, lines_in) = bounded(64);
        let (words_out, words_in) = bounded(64);
        let (missing_out, missing_in) = oneshot();

        let reader = thread::Builder::new()
            .name("reader")
            .spawn(move || {
                let missing = read(&files, &lines_out);
                // Nobody minds if the counter has given up.
                let _ = missing_out.send(missing);
            })
            .expect("a stack for the reader");
        let splitters: Vec<_> = (0..SPLITTERS)
            .map(|number| {
                let (lines, words) = (lines_in.clone(), words_out.clone());
                thread::Builder::new()
                    .name(format!("splitter {number}"))
                    .spawn(move || split(&lines, &words))
                    .expect("a stack for a splitter")
            })
            .collect();
        // The stages hold the other ends: the channel of words closes when the last splitter ends.
        drop((lines_in, words_out));

        match count(&words_in) {
            Counted::All(counts) => {
                report(&counts);
                for file in missing_in.recv().unwrap_or_default() {
                    eprintln!("pipeline: {file} could not be read");
                }
            }
            Counted::OutOfPatience(counts) => {
                reader.cancel();
                splitters.iter().for_each(|splitter| splitter.cancel());
                println!("after {PATIENCE:?}, so far:");
                report(&counts);
            }
        }
        for stage in splitters.into_iter().chain([reader]) {
            let _ = stage.join();
        }
    });
}

/// Sends every line of the files; returns the files that could not be read.
fn read(files: &[String], lines: &Sender<String>) -> Vec<String> {
    let mut missing = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(file) else {
            missing.push(file.clone());
            continue;
        };
        for line in text.lines() {
            if lines.send(line.to_owned()).is_err() {
                return missing;
            }
        }
    }
    missing
}

/// Sends the words of each line on, in a batch.
fn split(lines: &Receiver<String>, words: &Sender<Vec<String>>) {
    for line in lines {
        let batch: Vec<String> = line
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        if words.send(batch).is_err() {
            return;
        }
    }
}

/// How the counting ended.
enum Counted {
    All(HashMap<String, usize>),
    OutOfPatience(HashMap<String, usize>),
}

fn count(words: &Receiver<Vec<String>>) -> Counted {
    let mut counts = HashMap::new();
    let mut batches = 0;
    let deadline = Instant::now() + PATIENCE;
    let mut tick = Instant::now() + TICK;
    loop {
        select! {
            recv(words) -> batch => match batch {
                Ok(batch) => {
                    batches += 1;
                    for word in batch {
                        *counts.entry(word).or_insert(0) += 1;
                    }
                }
                Err(_) => return Counted::All(counts),
            },
            at(tick) => {
                eprintln!("pipeline: {batches} lines so far");
                tick += TICK;
            },
            at(deadline) => return Counted::OutOfPatience(counts),
        }
    }
}

/// Prints the ten most frequent words; equally frequent ones in alphabetical order.
fn report(counts: &HashMap<String, usize>) {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (word, count) in counts.into_iter().take(10) {
        println!("{count:>6} {word}");
    }
}
