//! Channels of a script in the hands of the host.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use super::call;
use super::convert::{Failure, FromScript, Scope, ScriptType, ToScript, Value};
use super::error::Error;
use super::object::Object;
use crate::sched::clock::Instant;
use crate::vm::native::{Waiting, Word};
use crate::vm::tasks::Core;
use crate::vm::tasks::channel::{self, Refused};
use crate::vm::tasks::guest::{Pass, Visit, Way};
use crate::vm::tasks::wait::What;
use crate::vm::types::{Type, TypeId};

/// A `Channel<T>` of a script, by which fibers and OS threads of the host talk to its tasks.
///
/// A native function gets it as an argument and passes it on to whoever is to use it: it may be cloned
/// and sent anywhere. It works while the call of the machine is under way that the script got it in;
/// afterwards, and before, every operation is [`Error::NotRunning`].
///
/// Fibers on the carrier of the script's tasks stand in the same queue as these, first come, first
/// served. From another OS thread each operation is done by a fiber that is sent over, so that it has
/// its place in the queue as well. As long as the host holds a channel, a deadlock is reported only if
/// every other OS thread sleeps until another one wakes it.
///
/// In a plain native function nobody can go on while it waits: there `recv` and `send` are errors or
/// panics where they would have to.
///
/// ```
/// use pirn::vm::{Channel, Vm, compile};
///
/// let program = compile(
///     "native void ask(Channel<int> questions, Channel<string> answers);
///      int main() {
///          Channel<int> questions = {};
///          Channel<string> answers = {};
///          ask(questions, answers);
///          int sum = 0;
///          try { while (true) { int n = questions.recv(); sum += n; answers.send(\"got ${n}\"); } }
///          catch (ChannelClosedException e) { }
///          return sum;
///      }",
/// )?;
/// let ask = |questions: Channel<i32>, answers: Channel<String>| {
///     std::thread::spawn(move || {
///         for n in 1..=3 {
///             questions.send(n).unwrap();
///             assert_eq!(answers.recv().unwrap(), format!("got {n}"));
///         }
///         questions.close().unwrap();
///     });
/// };
/// assert_eq!(Vm::builder().native("ask", ask).load(&program)?.run()?, 6);
/// # Ok::<(), pirn::vm::Error>(())
/// ```
pub struct Channel<T> {
    object: Object,
    pass: Pass,
    /// What travels through it, as the script calls it.
    ty: TypeId,
    marker: PhantomData<fn(T) -> T>,
}

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Channel<T> {
        Channel {
            object: self.object.clone(),
            pass: self.pass.clone(),
            ty: self.ty,
            marker: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.object).finish()
    }
}

impl<T: Value> Value for Channel<T> {
    fn describe() -> String {
        format!("Channel<{}>", T::describe())
    }

    fn fits(ty: ScriptType<'_>) -> bool {
        match ty.types.get(ty.id) {
            &Type::Channel(id) => T::fits(ScriptType { types: ty.types, id }),
            _ => false,
        }
    }
}

impl<T: Value + 'static> FromScript for Channel<T> {
    fn from_word(scope: Scope<'_>, ty: TypeId, word: Word) -> Result<Channel<T>, Failure> {
        let &Type::Channel(of) = scope.types.get(ty) else {
            return Err(scope.mismatch::<Channel<T>>(ty));
        };
        if word == 0 {
            let (rust, script) = (Channel::<T>::describe(), "null".into());
            return Err(Failure::Error(Error::Type { rust, script }));
        }
        // Nobody comes to a machine from outside whose threads run on several carriers.
        let tasks = Some(scope.tasks).filter(|tasks| !tasks.have_crew());
        let core =
            tasks.and_then(|tasks| tasks.shared_core()).ok_or(Failure::Error(Error::NotRunning))?;
        // SAFETY: the word is of the type, and not null.
        let object = unsafe { Object::new(scope.heap, ty, word) };
        Ok(Channel { object, pass: Pass::new(&core), ty: of, marker: PhantomData })
    }
}

impl<T: Value> ToScript for Channel<T> {
    fn to_word(&self, scope: Scope<'_>, _: TypeId) -> Result<Word, Failure> {
        self.object.word(scope.heap).map_err(Failure::Error)
    }
}

impl<T: FromScript + ToScript + Send + 'static> Channel<T> {
    /// Sends a value: to the receiver that has waited longest, or into the buffer, or waits for one of
    /// these.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]; [`Error::NotRunning`], [`Error::HeapFull`], [`Error::ForeignObject`].
    pub fn send(&self, value: T) -> Result<(), Error> {
        self.at_home(move |channel, core| channel.send_here(core, &value))
    }

    /// Receives the oldest value, or waits for one.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] when it is closed and empty; [`Error::NotRunning`].
    pub fn recv(&self) -> Result<T, Error> {
        self.at_home(|channel, core| channel.recv_here(core, Instant::FAR_FUTURE))
    }

    /// As [`recv`](Self::recv), for so long at most.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]; else as there.
    pub fn recv_timeout(&self, duration: Duration) -> Result<T, Error> {
        let deadline = Instant::now().checked_add(duration).unwrap_or(Instant::FAR_FUTURE);
        self.at_home(move |channel, core| channel.recv_here(core, deadline))
    }

    /// Sends a value if that needs no waiting; else gives it back.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn try_send(&self, value: T) -> Result<Option<T>, Error> {
        self.at_home(move |channel, core| {
            Ok(channel.attempt_send(core, &value)?.err().map(|_| value))
        })
    }

    /// Receives a value if there is one.
    ///
    /// # Errors
    ///
    /// As for [`recv`](Self::recv).
    pub fn try_recv(&self) -> Result<Option<T>, Error> {
        self.at_home(|channel, core| channel.attempt_recv(core))
    }

    /// Closes it: what is buffered can still be received.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`].
    pub fn close(&self) -> Result<(), Error> {
        self.at_home(|channel, core| {
            channel.get(core)?.close();
            Ok(())
        })
    }

    /// Does something on the carrier of the machine's tasks.
    fn at_home<R: Send + 'static>(
        &self,
        f: impl FnOnce(&Channel<T>, &Core) -> Result<R, Error> + Send + 'static,
    ) -> Result<R, Error> {
        let core = self.pass.core()?;
        match core.way()? {
            Way::Here => f(self, &core),
            Way::There(handle) => {
                let channel = self.clone();
                // A runtime that has ended takes no fiber.
                handle
                    .spawn(move || f(&channel, &*channel.pass.core()?))
                    .join()
                    .unwrap_or(Err(Error::NotRunning))
            }
        }
    }

    // On the carrier of the machine's tasks.

    fn get(&self, core: &Core) -> Result<channel::Channel, Error> {
        // SAFETY: a call is under way on this carrier; no task runs meanwhile, or it is a task's
        // native function that does this.
        let machine = unsafe { core.machine() };
        let word = self.object.word(&machine.heap)?;
        // SAFETY: the handle keeps the channel alive.
        Ok(unsafe { channel::Channel::from_word(word) })
    }

    fn word(&self, core: &Core, value: &T) -> Result<Word, Error> {
        // SAFETY: as in `get`.
        let machine = unsafe { core.machine() };
        for attempt in 0..2 {
            match value.to_word(call::scope(machine), self.ty) {
                Ok(word) => return Ok(word),
                Err(Failure::Error(error)) => return Err(error),
                // A native function that runs has the machine: it cannot collect.
                Err(Failure::HeapFull(_)) if attempt == 0 && !machine.is_running() => {
                    machine.collect();
                }
                Err(Failure::HeapFull(_)) => break,
            }
        }
        Err(Error::HeapFull)
    }

    fn value(&self, core: &Core, word: Word) -> Result<T, Error> {
        // SAFETY: as in `get`.
        call::take_result(unsafe { core.machine() }, self.ty, word)
    }

    /// The inner error: it would have to wait, with this word.
    fn attempt_send(&self, core: &Core, value: &T) -> Result<Result<(), Word>, Error> {
        let word = self.word(core, value)?;
        // SAFETY: as in `get`.
        let heap = &unsafe { core.machine() }.heap;
        match self.get(core)?.try_send(heap, word).map_err(|_| Error::HeapFull)? {
            Ok(()) => Ok(Ok(())),
            Err(Refused::Closed) => Err(Error::Closed),
            Err(Refused::Now) => Ok(Err(word)),
        }
    }

    fn send_here(&self, core: &Core, value: &T) -> Result<(), Error> {
        let Err(word) = self.attempt_send(core, value)? else { return Ok(()) };
        let channel = self.get(core)?;
        let waiting = Waiting::on(What::Send, channel.senders());
        // SAFETY: we are on the carrier, and have not waited.
        match unsafe { core.visit(waiting.with(word, channel.has_references()))? } {
            Visit::Closed => Err(Error::Closed),
            Visit::TimedOut => Err(Error::TimedOut),
            Visit::Served(_) | Visit::Again => Ok(()),
        }
    }

    fn attempt_recv(&self, core: &Core) -> Result<Option<T>, Error> {
        match self.get(core)?.try_recv() {
            Ok(word) => self.value(core, word).map(Some),
            Err(Refused::Closed) => Err(Error::Closed),
            Err(Refused::Now) => Ok(None),
        }
    }

    fn recv_here(&self, core: &Core, deadline: Instant) -> Result<T, Error> {
        if let Some(value) = self.attempt_recv(core)? {
            return Ok(value);
        }
        let waiting = Waiting::on(What::Receive, self.get(core)?.receivers()).until(deadline);
        // SAFETY: we are on the carrier, and have not waited.
        match unsafe { core.visit(waiting)? } {
            Visit::Served(word) => self.value(core, word),
            Visit::Closed | Visit::Again => Err(Error::Closed),
            Visit::TimedOut => Err(Error::TimedOut),
        }
    }
}

// A channel is sent anywhere, whatever goes through it: the values go over by conversion.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Channel<i32>>();
};
