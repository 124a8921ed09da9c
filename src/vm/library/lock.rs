//! The methods of `Mutex`, `ReentrantMutex` and `Semaphore`.

use super::args::Native;
use super::thread::{new_object, reference};
use crate::vm::native::{Context, Outcome, Trap, Waiting};
use crate::vm::tasks::lock::{Mutex, Semaphore};
use crate::vm::tasks::wait::What;

fn mutex(cx: &Context<'_>) -> Result<Mutex, Trap> {
    let word = reference(cx, 0, "the mutex")?;
    // SAFETY: the argument's type is a mutex, and it is not null.
    Ok(unsafe { Mutex::from_word(word) })
}

/// The id of the task that calls.
fn caller(cx: &mut Context<'_>) -> u32 {
    cx.machine().current().id()
}

/// `Mutex.new`, and `ReentrantMutex.new`.
pub fn new(cx: &mut Context<'_>) -> Native {
    let mutex = new_object(cx)?;
    cx.set_word(mutex);
    Ok(Outcome::Done)
}

fn take(cx: &mut Context<'_>, mutex: Mutex) -> Native {
    let caller = caller(cx);
    if mutex.try_lock(caller) {
        return Ok(Outcome::Done);
    }
    cx.park(Waiting::on(What::Lock, mutex.queue()).with(caller.into(), false))
}

/// `Mutex.lock`
pub fn lock(cx: &mut Context<'_>) -> Native {
    let mutex = mutex(cx)?;
    if mutex.owner() == Some(caller(cx)) {
        return Err(Trap::exception("the task holds the mutex already"));
    }
    take(cx, mutex)
}

/// `ReentrantMutex.lock`
pub fn lock_again(cx: &mut Context<'_>) -> Native {
    let mutex = mutex(cx)?;
    take(cx, mutex)
}

/// `Mutex.tryLock`
pub fn try_lock(cx: &mut Context<'_>) -> Native {
    let (mutex, caller) = (mutex(cx)?, caller(cx));
    let locked = mutex.owner().is_none() && mutex.try_lock(caller);
    cx.set_bool(locked);
    Ok(Outcome::Done)
}

/// `ReentrantMutex.tryLock`
pub fn try_lock_again(cx: &mut Context<'_>) -> Native {
    let (mutex, caller) = (mutex(cx)?, caller(cx));
    let locked = mutex.try_lock(caller);
    cx.set_bool(locked);
    Ok(Outcome::Done)
}

/// `unlock` of both.
pub fn unlock(cx: &mut Context<'_>) -> Native {
    let mutex = mutex(cx)?;
    match mutex.owner() {
        Some(owner) if owner == caller(cx) => {
            mutex.unlock();
            Ok(Outcome::Done)
        }
        Some(owner) => Err(Trap::exception(format!(
            "task {owner} holds the mutex, not the one that unlocks it"
        ))),
        None => Err(Trap::exception("the mutex is not locked")),
    }
}

/// The methods of `Semaphore`.
pub mod semaphore {
    use super::*;

    fn semaphore(cx: &Context<'_>) -> Result<Semaphore, Trap> {
        let word = reference(cx, 0, "the semaphore")?;
        // SAFETY: the argument's type is a semaphore, and it is not null.
        Ok(unsafe { Semaphore::from_word(word) })
    }

    /// `Semaphore.new`
    pub fn new(cx: &mut Context<'_>) -> Native {
        let permits = cx.int(0);
        let Ok(permits) = u32::try_from(permits) else {
            return Err(Trap::exception(format!("a semaphore cannot have {permits} permits")));
        };
        let word = new_object(cx)?;
        // SAFETY: a new semaphore.
        unsafe { Semaphore::from_word(word) }.set_permits(permits);
        cx.set_word(word);
        Ok(Outcome::Done)
    }

    /// `Semaphore.acquire`
    pub fn acquire(cx: &mut Context<'_>) -> Native {
        let semaphore = semaphore(cx)?;
        if semaphore.try_acquire() {
            return Ok(Outcome::Done);
        }
        cx.park(Waiting::on(What::Permit, semaphore.queue()))
    }

    /// `Semaphore.tryAcquire`
    pub fn try_acquire(cx: &mut Context<'_>) -> Native {
        let acquired = semaphore(cx)?.try_acquire();
        cx.set_bool(acquired);
        Ok(Outcome::Done)
    }

    /// `Semaphore.release`
    pub fn release(cx: &mut Context<'_>) -> Native {
        match semaphore(cx)?.release() {
            true => Ok(Outcome::Done),
            false => Err(Trap::exception("the semaphore has as many permits as it can have")),
        }
    }
}
