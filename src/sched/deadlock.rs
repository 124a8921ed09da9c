//! The report that nothing can ever run again, and the listing of fibers that it is made of.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::mpsc;

use super::carrier::Carrier;
use super::clock::Instant;
use super::fiber::{Fiber, Waiting};
use super::party::ThreadId;
use super::resource::Resource;
use super::resumable::{Context, Step};
use super::spawn;
use super::task::Task;
use super::wait::Epoch;
use crate::stack::Stack;
use crate::task;

/// Fibers listed by `Display`; a report of a million is of no use.
const LISTED: usize = 1_000;

/// One fiber that has not ended: who it is, where it came from, what it waits for.
#[derive(Debug)]
#[non_exhaustive]
pub struct FiberReport {
    id: ThreadId,
    description: String,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    state: String,
    /// The wait that it is in.
    wait: Option<Epoch>,
    /// Who alone can end its wait, if that is known.
    waits_for: Option<ThreadId>,
    /// Who holds what it waits for: to be named in `state` when all fibers are known.
    holder: Option<ThreadId>,
    stack_size: usize,
    stack_high_water: usize,
    backtrace: Option<Backtrace>,
}

impl FiberReport {
    /// The fiber's id.
    pub fn id(&self) -> ThreadId {
        self.id
    }

    /// The fiber's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where it was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// What it does or waits for, as a phrase: "is runnable", "waits to join fiber 'x' (id 3)".
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Bytes of stack that it may use; 0 while it has not begun and has no stack.
    pub fn stack_size(&self) -> usize {
        self.stack_size
    }

    /// Bytes of stack in use at the deepest so far, rounded up to pages.
    ///
    /// The mark is the stack's: a pooled stack starts with what earlier users touched.
    pub fn stack_high_water(&self) -> usize {
        self.stack_high_water
    }

    /// Where it is suspended, if that was asked for and its stack had room to find out.
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.backtrace.as_ref()
    }
}

impl fmt::Display for FiberReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.description, self.state)?;
        match &self.backtrace {
            Some(backtrace) if backtrace.status() == BacktraceStatus::Captured => {
                write!(f, "\n{backtrace}")
            }
            _ => Ok(()),
        }
    }
}

/// Fibers that nothing can ever wake: who waits for what.
///
/// [`Runtime::run`](crate::Runtime::run) returns it as an error when nothing can ever run again
/// although the main fiber has not ended; [`find_deadlock`](crate::find_deadlock) finds one among
/// some of the fibers while others go on. With `RUST_BACKTRACE` set it holds
/// a backtrace of each fiber.
#[derive(Debug)]
pub struct Deadlock {
    fibers: Vec<FiberReport>,
    cycles: Vec<Vec<ThreadId>>,
}

impl Deadlock {
    pub(crate) fn of(carrier: &Carrier) -> Self {
        Deadlock::among(list_from_loop(carrier, wants_backtraces()))
    }

    /// Of one carrier, even if there are several.
    pub(crate) fn of_one(carrier: &Carrier) -> Self {
        Deadlock::among(in_order(list_own(carrier, wants_backtraces())))
    }

    fn among(fibers: Vec<FiberReport>) -> Self {
        Deadlock { cycles: cycles(&fibers), fibers }
    }

    /// The fibers that had not ended, in the order in which they were spawned.
    pub fn fibers(&self) -> &[FiberReport] {
        &self.fibers
    }

    /// The cycles among them: each fiber waits for the next, and the last for the first.
    ///
    /// A fiber waits for another if it joins it, or if that holds the lock that it wants.
    pub fn cycles(&self) -> &[Vec<ThreadId>] {
        &self.cycles
    }

    fn label(&self, id: ThreadId) -> String {
        let fiber = self.fibers.iter().find(|fiber| fiber.id == id);
        match fiber.and_then(FiberReport::name) {
            Some(name) => format!("'{name}' (id {})", id.number()),
            None => format!("id {}", id.number()),
        }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.fibers.len();
        let (fibers, wait) = if count == 1 { ("fiber", "waits") } else { ("fibers", "wait") };
        write!(f, "deadlock: {count} {fibers} {wait}, and nothing can wake any of them")?;
        for fiber in self.fibers.iter().take(LISTED) {
            write!(f, "\n  {fiber}")?;
        }
        if count > LISTED {
            write!(f, "\n  … and {} more", count - LISTED)?;
        }
        for cycle in &self.cycles {
            write!(f, "\n  cycle: ")?;
            for &id in cycle {
                write!(f, "{} waits for ", self.label(id))?;
            }
            write!(f, "{}", self.label(cycle[0]))?;
        }
        Ok(())
    }
}

impl Error for Deadlock {}

/// The same rule as for panics: backtraces if `RUST_BACKTRACE` asks for them.
fn wants_backtraces() -> bool {
    std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
}

/// The fibers that wait for one another in cycles, and those that wait for them; `None`: there are
/// none.
pub(crate) fn partial(carrier: &Carrier) -> Option<Deadlock> {
    let mut all = list(carrier, false);
    if carrier.shared.team().is_some() {
        // The carriers have not all been asked at the same time: what holds the second time as well
        // has held at once, between the two.
        let again: HashMap<ThreadId, Option<Epoch>> =
            list(carrier, false).into_iter().map(|fiber| (fiber.id, fiber.wait)).collect();
        for fiber in &mut all {
            fiber.waits_for.take_if(|_| again.get(&fiber.id) != Some(&fiber.wait));
        }
    }
    let cycles = cycles(&all);
    let mut stuck: HashSet<ThreadId> = cycles.iter().flatten().copied().collect();
    // Whoever waits for a stuck fiber is stuck, and so on.
    loop {
        let is_new = |fiber: &&FiberReport| {
            !stuck.contains(&fiber.id) && fiber.waits_for.is_some_and(|id| stuck.contains(&id))
        };
        let more: Vec<ThreadId> = all.iter().filter(is_new).map(FiberReport::id).collect();
        if more.is_empty() {
            break;
        }
        stuck.extend(more);
    }
    let fibers = all.into_iter().filter(|fiber| stuck.contains(&fiber.id)).collect();
    (!cycles.is_empty()).then_some(Deadlock { fibers, cycles })
}

/// Lists every fiber of the runtime, in the order in which they were spawned; from the loop of one of
/// several carriers, only those of that one. Those that no carrier has taken are left out.
pub(crate) fn list(carrier: &Carrier, backtraces: bool) -> Vec<FiberReport> {
    let mut fibers = list_own(carrier, backtraces);
    fibers.extend(ask_others(carrier, move || list_here(backtraces)).into_iter().flatten());
    in_order(fibers)
}

/// What the other carriers answer, each by a task without a stack that runs there; on a fiber. From a
/// loop nobody is asked.
pub(super) fn ask_others<T: Send + 'static>(
    carrier: &Carrier,
    answer: impl Fn() -> T + Clone + Send + 'static,
) -> Vec<T> {
    let Some(team) = carrier.shared.team().filter(|_| carrier.current_fiber().is_some()) else {
        return Vec::new();
    };
    let ask = |mailbox| {
        let answer = answer.clone();
        let asked = task::from_fn(move |_: &mut Context<'_>| Step::Done(answer()));
        spawn::send_stackless(&carrier.shared, mailbox, asked)
    };
    let others: Vec<_> = team.mailboxes_of_others(carrier.number()).map(ask).collect();
    // One that closes does not answer any more.
    others.into_iter().filter_map(|other| other.join().ok()).collect()
}

/// [`list`], of all carriers, by the loop of the first when all others rest.
fn list_from_loop(carrier: &Carrier, backtraces: bool) -> Vec<FiberReport> {
    let mut fibers = list_own(carrier, backtraces);
    if let Some(team) = carrier.shared.team() {
        let (sender, lists) = mpsc::channel();
        for mailbox in team.mailboxes_of_others(carrier.number()) {
            let sender = sender.clone();
            let lister = task::from_fn(move |_: &mut Context<'_>| {
                // The receiver waits until all lists have come.
                let _ = sender.send(list_here(backtraces));
                Step::Done(())
            });
            drop(spawn::send_stackless(&carrier.shared, mailbox, lister));
        }
        drop(sender);
        // Ends when the last lister is gone.
        fibers.extend(lists.into_iter().flatten());
    }
    in_order(fibers)
}

/// The fibers of the calling thread's carrier, except for the one that asks on behalf of others.
fn list_here(backtraces: bool) -> Vec<FiberReport> {
    let Some(carrier) = Carrier::current() else { return Vec::new() };
    let asking = carrier.current_task().map(|task| task.party.id);
    let mut fibers = list_own(carrier, backtraces);
    fibers.retain(|fiber| Some(fiber.id) != asking);
    fibers
}

/// The fibers of one carrier.
fn list_own(carrier: &Carrier, backtraces: bool) -> Vec<FiberReport> {
    carrier.registry().iter().map(|task| report(carrier, task, backtraces)).collect()
}

/// Sorts the fibers, and names among them who holds what others wait for.
fn in_order(mut fibers: Vec<FiberReport>) -> Vec<FiberReport> {
    fibers.sort_unstable_by_key(|fiber| fiber.id);
    for index in 0..fibers.len() {
        let Some(holder) = fibers[index].holder else { continue };
        let text = match fibers.binary_search_by_key(&holder, |fiber| fiber.id) {
            Ok(holder) => format!(" that is held by {}", fibers[holder].description),
            Err(_) => " whose holder is not a fiber of this runtime, or has ended".to_owned(),
        };
        fibers[index].state.push_str(&text);
    }
    fibers
}

/// The cycles among fibers of which each waits for at most one other.
fn cycles(fibers: &[FiberReport]) -> Vec<Vec<ThreadId>> {
    cycles_among(fibers.iter().map(|fiber| (fiber.id, fiber.waits_for)))
}

/// The cycles among those of which each waits for at most one other.
pub(crate) fn cycles_among<K: Copy + Eq + Hash>(
    waits: impl Iterator<Item = (K, Option<K>)> + Clone,
) -> Vec<Vec<K>> {
    let next: HashMap<K, K> = waits.clone().filter_map(|(id, to)| Some((id, to?))).collect();
    let mut seen = HashSet::new();
    let mut cycles = Vec::new();
    for (id, _) in waits {
        // Follow the waits until they end or come to where somebody has been: on this very path,
        // that is a cycle.
        let mut path = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at.filter(|&id| seen.insert(id)) {
            path.push(id);
            at = next.get(&id).copied();
        }
        if let Some(start) = at.and_then(|id| path.iter().position(|&on_path| on_path == id)) {
            cycles.push(path.split_off(start));
        }
    }
    cycles
}

fn report(carrier: &Carrier, task: &Task, backtrace: bool) -> FiberReport {
    let mut description = String::new();
    let _ = task.describe(&mut description);
    // SAFETY: a registered task's fiber is alive.
    let stack = unsafe { task.fiber.get().as_ref() }.map(Fiber::stack);
    FiberReport {
        id: task.party.id,
        description,
        name: task.party.name().map(String::from),
        spawned_at: task.spawned_at,
        state: state(carrier, task),
        wait: task.party.waiter.parked_epoch(),
        waits_for: waits_for(task),
        holder: holder(carrier, task),
        stack_size: stack.map_or(0, Stack::size),
        stack_high_water: stack.map_or(0, Stack::high_water),
        backtrace: if backtrace { carrier.backtrace_of(task) } else { None },
    }
}

fn state(carrier: &Carrier, task: &Task) -> String {
    let waiting = match task.waiting() {
        None if carrier.is_starved(task) => return "waits for a stack".to_owned(),
        None => return "has not begun".to_owned(),
        Some(waiting) => waiting,
    };
    if carrier.current_task().is_some_and(|current| std::ptr::eq(current, task)) {
        return "is running".to_owned();
    }
    if task.party.waiter.outcome().is_some() {
        // Woken, and waiting for its turn to find out.
        return "is runnable".to_owned();
    }
    match waiting {
        Waiting::Nothing => "is runnable".to_owned(),
        Waiting::Sleep(deadline) if deadline.is_far_future() => "sleeps for ever".to_owned(),
        Waiting::Sleep(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            format!("sleeps for another {} ms", left.as_millis())
        }
        Waiting::Park(deadline) if deadline.is_far_future() => {
            "is parked until somebody unparks it".to_owned()
        }
        Waiting::Park(_) => "is parked until somebody unparks it or its time is up".to_owned(),
        Waiting::Join(other) => {
            let mut text = "waits to join ".to_owned();
            // SAFETY: the one that joins holds the handle, and with it a reference.
            let _ = unsafe { (*other).describe(&mut text) };
            text
        }
        Waiting::Scope(1) => "waits for 1 fiber of its scope".to_owned(),
        Waiting::Scope(count) => format!("waits for {count} fibers of its scope"),
        Waiting::Timer(deadline) if deadline.is_far_future() => {
            "waits for a timer that is not set".to_owned()
        }
        Waiting::Timer(_) => "waits for a timer".to_owned(),
        Waiting::On(resource) => {
            let mut text = "waits ".to_owned();
            // SAFETY: what a parked fiber waits for is alive.
            let _ = unsafe { Resource::describe(resource, &mut text) };
            text
        }
    }
}

/// Who holds what it waits for, if that can be held, and its state says so.
fn holder(carrier: &Carrier, task: &Task) -> Option<ThreadId> {
    let is_current = carrier.current_task().is_some_and(|current| std::ptr::eq(current, task));
    let waits = matches!(task.waiting(), Some(Waiting::On(_))) && !is_current;
    if waits { waits_for(task) } else { None }
}

/// What a call would wait for, as a phrase: "waits to lock a mutex".
pub(super) fn wish(waiting: Waiting) -> String {
    let wish = match waiting {
        Waiting::Nothing => "waits",
        Waiting::Sleep(_) => "sleeps",
        Waiting::Park(_) => "parks",
        Waiting::Join(_) => "waits to join",
        Waiting::Scope(_) => "waits for the fibers of a scope",
        Waiting::Timer(_) => "waits for a timer",
        Waiting::On(resource) => {
            let mut text = "waits ".to_owned();
            // SAFETY: the caller has it in use.
            let _ = unsafe { Resource::describe(resource, &mut text) };
            return text;
        }
    };
    wish.to_owned()
}

/// Who alone can end the wait of a parked fiber, if that is known.
fn waits_for(task: &Task) -> Option<ThreadId> {
    task.party.waiter.parked_epoch()?;
    // SAFETY: a registered task's fiber is alive, and so is what it waits for.
    unsafe {
        match task.waiting()? {
            Waiting::Join(other) => Some((*other).party.id),
            Waiting::On(resource) => Resource::holder(resource),
            _ => None,
        }
    }
}
