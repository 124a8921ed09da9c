//! The package `thread`, and the methods of `Thread`, `Future` and `Promise`.

use std::time::Duration;

use super::args::{Native, return_element};
use crate::sched::clock::Instant;
use crate::vm::heap::object;
use crate::vm::interp::Started;
use crate::vm::native::{Context, Outcome, Trap, Waiting, Word};
use crate::vm::tasks::future::{self, Future, Status};
use crate::vm::tasks::queue::Queue;
use crate::vm::tasks::wait::{Timeout, What};
use crate::vm::types::{ExceptionClass, Type};

/// The word of a reference argument, which must not be null.
pub(super) fn reference(cx: &Context<'_>, index: usize, what: &str) -> Result<Word, Trap> {
    match cx.word(index) {
        0 => Err(Trap::null(what)),
        word => Ok(word),
    }
}

fn future(cx: &Context<'_>, index: usize, what: &str) -> Result<Future, Trap> {
    let word = reference(cx, index, what)?;
    // SAFETY: the argument's type is a future or thread, and it is not null.
    Ok(unsafe { Future::from_word(word) })
}

/// When so many milliseconds have passed; none in the past.
pub(super) fn deadline(milliseconds: i64) -> Instant {
    let wait = Duration::from_millis(milliseconds.max(0) as u64);
    Instant::now().checked_add(wait).unwrap_or(Instant::FAR_FUTURE)
}

/// `thread.spawn`: of a function value without parameters.
pub fn spawn(cx: &mut Context<'_>) -> Native {
    let function = reference(cx, 0, "the function")?;
    cx.needs_task()?;
    cx.tasks().has_room(cx.heap())?;
    let result = cx.signature().result;
    let ty = cx.heap_type(result);
    // SAFETY: the result is a thread, or a future of what the function returns.
    let future = unsafe { Future::new(cx.heap(), ty)? };
    let references = match cx.types().get(result) {
        &Type::Future(of) => cx.types().is_reference(of),
        _ => false,
    };
    match cx.machine().start_value(function)? {
        Started::Thread(begin) => cx.machine().spawn(begin, future, references),
        Started::Done(word) => future.complete(word, references),
    }
    cx.set_word(future.word());
    Ok(Outcome::Done)
}

/// `thread.yield`
pub fn give_way(cx: &mut Context<'_>) -> Native {
    if cx.machine().tasks.is_task() {
        return Ok(Outcome::Yield);
    }
    // The thread runs on its caller's own stack.
    match cx.machine().tasks.others_can_run() {
        true => Err(Trap::NeedsTask),
        false => Ok(Outcome::Done),
    }
}

fn sleep_for(cx: &mut Context<'_>, milliseconds: i64) -> Native {
    if milliseconds <= 0 {
        return give_way(cx);
    }
    cx.park(Waiting::sleep(deadline(milliseconds)))
}

/// `thread.sleep` of an `int`.
pub fn sleep(cx: &mut Context<'_>) -> Native {
    sleep_for(cx, cx.int(0).into())
}

/// `thread.sleep` of a `long`.
pub fn sleep_long(cx: &mut Context<'_>) -> Native {
    sleep_for(cx, cx.long(0))
}

/// Waits for a future to be settled, as one who observes how.
fn settled(
    cx: &mut Context<'_>,
    future: Future,
    until: Option<Instant>,
) -> Result<Option<Word>, Trap> {
    match future.status() {
        Status::Pending => {
            let waiting = Waiting::on(What::Future, future.queue());
            // A struct is copied for each who gets it. Where a join leaves the word nobody reads it.
            let result = cx.types().get(cx.signature().result);
            let takes = !matches!(result, Type::Struct(_));
            let waiting = if takes { waiting.with(Queue::TAKES, false) } else { waiting };
            cx.park(until.map_or(waiting, |until| waiting.until(until)))?;
            Ok(None)
        }
        Status::Done(word) => Ok(Some(word)),
        Status::Failed(exception) => {
            cx.machine().tasks.observe(future);
            Err(Trap::Thrown(exception))
        }
    }
}

/// `thread.join`, of a thread or a future.
pub fn join(cx: &mut Context<'_>) -> Native {
    let future = future(cx, 0, "the task")?;
    if cx.machine().current().handle == future.word() {
        return Err(Trap::exception("a task cannot join itself"));
    }
    match settled(cx, future, None)? {
        Some(_) => Ok(Outcome::Done),
        None => Ok(Outcome::Park),
    }
}

/// `Future.get`
pub fn get(cx: &mut Context<'_>) -> Native {
    let future = future(cx, 0, "the future")?;
    if cx.machine().current().handle == future.word() {
        return Err(Trap::exception("a task cannot wait for its own result"));
    }
    match settled(cx, future, None)? {
        Some(word) => return_element(cx, word),
        None => Ok(Outcome::Park),
    }
}

/// `Future.getTimeout`. A call that is made again since the future was settled does not begin to wait.
pub fn get_timeout(cx: &mut Context<'_>) -> Native {
    let future = future(cx, 0, "the future")?;
    if cx.machine().current().handle == future.word() {
        return Err(Trap::exception("a task cannot wait for its own result"));
    }
    let milliseconds = cx.int(1);
    if milliseconds <= 0 && !future.is_settled() {
        return Err(timed_out("the future was not settled in time"));
    }
    match settled(cx, future, Some(deadline(milliseconds.into())))? {
        Some(word) => return_element(cx, word),
        None => Ok(Outcome::Park),
    }
}

pub(super) fn timed_out(message: &str) -> Trap {
    Trap::of(ExceptionClass::Timeout, message)
}

/// `isDone` of threads and futures.
pub fn is_done(cx: &mut Context<'_>) -> Native {
    let done = future(cx, 0, "the task")?.is_settled();
    cx.set_bool(done);
    Ok(Outcome::Done)
}

/// `id` of threads and futures.
pub fn id(cx: &mut Context<'_>) -> Native {
    let id = future(cx, 0, "the task")?.id();
    cx.set_int(id as i32);
    Ok(Outcome::Done)
}

/// `cancel` of threads and futures.
pub fn cancel(cx: &mut Context<'_>) -> Native {
    let future = future(cx, 0, "the task")?;
    cx.machine().cancel(future);
    Ok(Outcome::Done)
}

/// `Future.selectAny`
pub fn select_any(cx: &mut Context<'_>) -> Native {
    let futures = list_of_futures(cx)?;
    if let Some(index) = futures.iter().position(|future| future.is_settled()) {
        cx.set_int(index as i32);
        return Ok(Outcome::Done);
    }
    let arms: Vec<_> = futures.iter().map(|future| (future.queue(), 0, false)).collect();
    cx.park_on_any(What::AnyFuture, &arms, Instant::FAR_FUTURE, Timeout::Throws)
}

fn list_of_futures(cx: &Context<'_>) -> Result<Vec<Future>, Trap> {
    let list = super::args::list(cx)?;
    if list.is_empty() {
        return Err(Trap::exception("there is no future to wait for: the list is empty"));
    }
    let future = |word| match word {
        0 => Err(Trap::null("a future of the list")),
        // SAFETY: the elements are futures.
        word => Ok(unsafe { Future::from_word(word) }),
    };
    list.iter().map(future).collect()
}

/// `Promise.new`
pub fn new_promise(cx: &mut Context<'_>) -> Native {
    let ty = cx.heap_type(cx.signature().result);
    let Type::Promise(of) = *cx.types().get(cx.signature().result) else {
        return Err(Trap::exception("a promise of nothing"));
    };
    let future_type = cx.machine().define(Type::Future(of));
    // SAFETY: a future of what the promise is of; a promise has its future in its field.
    unsafe {
        let future = Future::new(cx.heap(), future_type)?;
        let promise = cx.heap().new_instance(ty)?;
        future::set_of_promise(promise, future);
        cx.set_word(promise);
    }
    Ok(Outcome::Done)
}

fn promised(cx: &Context<'_>) -> Result<Future, Trap> {
    let promise = reference(cx, 0, "the promise")?;
    // SAFETY: the argument's type is a promise, and it is not null.
    Ok(unsafe { future::of_promise(promise) })
}

/// `Promise.future`
pub fn promised_future(cx: &mut Context<'_>) -> Native {
    let future = promised(cx)?;
    cx.set_word(future.word());
    Ok(Outcome::Done)
}

fn unsettled(cx: &Context<'_>) -> Result<Future, Trap> {
    let future = promised(cx)?;
    if future.is_settled() {
        return Err(Trap::exception("the promise is settled already"));
    }
    Ok(future)
}

/// `Promise.complete`
pub fn complete(cx: &mut Context<'_>) -> Native {
    let future = unsettled(cx)?;
    let references = cx.types().is_reference(cx.signature().params[1].ty);
    future.complete(cx.word(1), references);
    Ok(Outcome::Done)
}

/// `Promise.fail`
pub fn fail(cx: &mut Context<'_>) -> Native {
    let future = unsettled(cx)?;
    let exception = reference(cx, 1, "the exception")?;
    future.fail(exception);
    Ok(Outcome::Done)
}

/// `AtomicInt` and the locks need no more than fields.
pub(super) fn new_object(cx: &Context<'_>) -> Result<Word, Trap> {
    Ok(cx.heap().new_instance(cx.heap_type(cx.signature().result))?)
}

/// `AtomicInt.new`
pub mod atomic {
    use super::*;
    use crate::vm::tasks::objects::atomic::VALUE;

    fn load(cx: &Context<'_>) -> Result<(Word, i32), Trap> {
        let atomic = reference(cx, 0, "the AtomicInt")?;
        // SAFETY: the argument's type is AtomicInt, which has this field; it is not null.
        Ok((atomic, unsafe { object::field(atomic, VALUE) } as i32))
    }

    fn store(atomic: Word, value: i32) {
        // SAFETY: as above.
        unsafe { object::set_field(atomic, VALUE, (value as u32).into()) }
    }

    /// `AtomicInt.new`
    pub fn new(cx: &mut Context<'_>) -> Native {
        let value = cx.int(0);
        let atomic = new_object(cx)?;
        store(atomic, value);
        cx.set_word(atomic);
        Ok(Outcome::Done)
    }

    /// `AtomicInt.new` without an argument.
    pub fn new_zero(cx: &mut Context<'_>) -> Native {
        let atomic = new_object(cx)?;
        cx.set_word(atomic);
        Ok(Outcome::Done)
    }

    /// `AtomicInt.get`
    pub fn get(cx: &mut Context<'_>) -> Native {
        let (_, value) = load(cx)?;
        cx.set_int(value);
        Ok(Outcome::Done)
    }

    /// `AtomicInt.set`
    pub fn set(cx: &mut Context<'_>) -> Native {
        let (atomic, _) = load(cx)?;
        store(atomic, cx.int(1));
        Ok(Outcome::Done)
    }

    /// `AtomicInt.add`: the new value.
    pub fn add(cx: &mut Context<'_>) -> Native {
        let (atomic, value) = load(cx)?;
        let value = value.wrapping_add(cx.int(1));
        store(atomic, value);
        cx.set_int(value);
        Ok(Outcome::Done)
    }

    /// `AtomicInt.compareAndSet`
    pub fn compare_and_set(cx: &mut Context<'_>) -> Native {
        let (atomic, value) = load(cx)?;
        let (expected, new) = (cx.int(1), cx.int(2));
        if value == expected {
            store(atomic, new);
        }
        cx.set_bool(value == expected);
        Ok(Outcome::Done)
    }
}
