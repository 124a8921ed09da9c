//! Somebody else's interpreter, whose threads run on pirn's scheduler without a stack of their own.
//!
//! The language is as small as can be: a program is a list of words for a machine with a stack of
//! numbers. What counts is where the half-done state of a thread lives: in the fields of
//! [`Interpreter`], not on a native stack. So it can return in the middle of its program, and go on
//! later; a million of them wait in a few hundred bytes each.
//!
//! Three threads make a pipeline with a fiber at either end:
//!
//! ```text
//!   fiber: 1 … 10 ──► square each ──► keep every other ──► add all up ──► fiber: prints
//! ```
//!
//! `cargo run --example interpreter`

use std::task::Poll;

use pirn::sync::channel::{self, Receiver, Sender};
use pirn::task::{self, Context, Resumable, Step};
use pirn::thread;

/// A word of the language.
#[derive(Clone, Copy)]
enum Word {
    Push(i64),
    Duplicate,
    Drop,
    Add,
    Multiply,
    /// Waits for a number from the input; at its end, jumps there.
    Receive(usize),
    /// Waits until the number on top is taken by the output.
    Send,
    Jump(usize),
    Print,
}

/// How many words a thread runs before it lets others run.
const SLICE: usize = 16;

/// A thread of the language: all that there is of it between two resumes.
struct Interpreter {
    name: &'static str,
    program: &'static [Word],
    position: usize,
    numbers: Vec<i64>,
    input: Receiver<i64>,
    output: Sender<i64>,
    /// Whether a number is on its way to the output.
    is_sending: bool,
}

impl Interpreter {
    fn pop(&mut self) -> i64 {
        self.numbers.pop().expect("a program takes no more than it has put there")
    }

    /// Runs one word. `Pending`: it is to be run again when what it waits for has happened.
    fn step(&mut self, word: Word, cx: &mut Context<'_>) -> Poll<()> {
        let mut next = self.position + 1;
        match word {
            Word::Push(number) => self.numbers.push(number),
            Word::Duplicate => self.numbers.extend(self.numbers.last().copied()),
            Word::Drop => drop(self.numbers.pop()),
            Word::Add => {
                let sum = self.pop() + self.pop();
                self.numbers.push(sum);
            }
            Word::Multiply => {
                let product = self.pop() * self.pop();
                self.numbers.push(product);
            }
            Word::Receive(at_end) => match self.input.poll_recv(cx) {
                Poll::Ready(Ok(number)) => self.numbers.push(number),
                Poll::Ready(Err(_)) => next = at_end,
                Poll::Pending => return Poll::Pending,
            },
            Word::Send => {
                // The first time it takes the number along; when it comes back, it asks what has
                // become of it.
                let mut number = (!self.is_sending).then(|| self.pop());
                self.is_sending = true;
                match self.output.poll_send(cx, &mut number) {
                    Poll::Ready(sent) => sent.expect("the next thread receives until the end"),
                    Poll::Pending => return Poll::Pending,
                }
                self.is_sending = false;
            }
            Word::Jump(to) => next = to,
            Word::Print => println!("{}: {}", self.name, self.numbers[self.numbers.len() - 1]),
        }
        self.position = next;
        Poll::Ready(())
    }
}

impl Resumable for Interpreter {
    /// What is on top of its stack at the end of the program.
    type Output = i64;

    fn resume(&mut self, cx: &mut Context<'_>) -> Step<i64> {
        for _ in 0..SLICE {
            let Some(&word) = self.program.get(self.position) else {
                return Step::Done(self.numbers.pop().unwrap_or(0));
            };
            if self.step(word, cx).is_pending() {
                return Step::Parked;
            }
        }
        Step::Yielded
    }
}

use Word::{Add, Drop, Duplicate, Jump, Multiply, Print, Push, Receive, Send};

static SQUARES: &[Word] = &[Receive(5), Duplicate, Multiply, Send, Jump(0)];
static EVERY_OTHER: &[Word] = &[Receive(5), Drop, Receive(5), Send, Jump(0)];
static SUM: &[Word] = &[Push(0), Receive(5), Add, Print, Jump(1), Duplicate, Send];

fn main() {
    pirn::run(|| {
        let (numbers, mut input) = channel::bounded(2);
        let mut threads = Vec::new();
        for (name, program) in [("squares", SQUARES), ("every other", EVERY_OTHER), ("sum", SUM)] {
            let (output, next_input) = channel::rendezvous();
            let interpreter = Interpreter {
                name,
                program,
                position: 0,
                numbers: Vec::new(),
                input: std::mem::replace(&mut input, next_input),
                output,
                is_sending: false,
            };
            threads.push(task::Builder::new().name(name).spawn(interpreter).unwrap());
        }
        thread::spawn(move || (1..=10).for_each(|number| numbers.send(number).unwrap()));
        println!("a fiber received {}", input.recv().unwrap());
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        println!("joined: {:?}", results.collect::<Vec<_>>());
    });
}
