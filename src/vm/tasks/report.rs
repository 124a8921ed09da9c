//! Who waits for whom, in words.

use std::fmt::Write;

use super::future::Future;
use super::lock::Mutex;
use super::wait::{State, What};
use crate::sched::cycles_among;
use crate::vm::interp::{Machine, Thread};

/// Tasks that a report lists one by one.
const LISTED: usize = 100;

/// Who alone can end the wait of a thread: a task, by its id.
fn waits_for(thread: &Thread) -> Option<u32> {
    let object = thread.wait.node.object();
    if object == 0 {
        return None;
    }
    // SAFETY: a waiting thread keeps what it waits for alive, and waits for such things in queues of
    // such objects only.
    unsafe {
        match thread.wait.node.what {
            What::Lock => Mutex::from_word(object).owner(),
            What::Future => {
                let future = Future::from_word(object);
                future.place().map(|_| future.id())
            }
            _ => None,
        }
    }
}

/// A list of the threads that wait, by id, with what each waits for and where; and the cycles among
/// them.
pub(super) fn waiting(machine: &Machine) -> String {
    // SAFETY: what is in the table is alive.
    let mut threads: Vec<&Thread> =
        machine.tasks.threads().map(|thread| unsafe { &*thread.as_ptr() }).collect();
    threads.sort_by_key(|thread| thread.id());
    let mut text = String::new();
    // Writing to a string does not fail.
    for thread in threads.iter().take(LISTED) {
        let _ = write!(text, "\n  {}", line(machine, thread, &threads));
    }
    if threads.len() > LISTED {
        let _ = write!(text, "\n  … and {} more", threads.len() - LISTED);
    }
    let waits = threads.iter().map(|thread| (thread.id(), waits_for(thread)));
    for cycle in cycles_among(waits) {
        let names: Vec<String> =
            cycle.iter().chain(cycle.first()).map(|id| format!("task {id}")).collect();
        let _ = write!(text, "\n  cycle: {}", names.join(" waits for "));
    }
    text
}

fn line(machine: &Machine, thread: &Thread, all: &[&Thread]) -> String {
    let mut text = format!("task {}", thread.id());
    if let Some(place) = machine.place_of(thread) {
        let _ = write!(text, ", {place}");
    }
    if thread.wait.state() != State::Waiting {
        text.push_str(": could run");
        return text;
    }
    let _ = match thread.wait.node.what {
        What::Sleep => write!(text, ": sleeps"),
        what => write!(text, ": waits {}", what.purpose()),
    };
    if let Some(id) = waits_for(thread) {
        let alive = all.binary_search_by_key(&id, |thread| thread.id()).is_ok();
        let _ = match (thread.wait.node.what, alive) {
            (What::Lock, true) => write!(text, " that task {id} holds"),
            (What::Lock, false) => write!(text, " that task {id} held when it ended"),
            _ => write!(text, ": task {id}"),
        };
    }
    text
}
