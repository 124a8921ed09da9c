//! Floor 2: typed, asymmetric, stackful coroutines.
//!
//! A [`Coroutine`] is a closure on a stack of its own. [`resume`](Coroutine::resume) runs it until
//! it [suspends](Suspender::suspend) or returns; values of three types cross the border:
//!
//! ```text
//!           resumer                                   coroutine
//!   resume(input: I) ───────────── I ────────────►  suspend(..) returns it
//!   Yield(y)         ◄──────────── Y ─────────────  suspend(y: Y)
//!   Return(r)        ◄──────────── R ─────────────  the closure returns
//! ```
//!
//! ```
//! use pirn::coroutine::{Coroutine, CoroutineState::*, Suspender};
//!
//! let mut running_sum = Coroutine::new(|s: &Suspender<u32, u32>, first: u32| {
//!     let mut sum = first;
//!     while sum < 10 {
//!         sum += s.suspend(sum);
//!     }
//!     "enough"
//! });
//! assert_eq!(running_sum.resume(4), Ok(Yield(4)));
//! assert_eq!(running_sum.resume(5), Ok(Yield(9)));
//! assert_eq!(running_sum.resume(6), Ok(Return("enough")));
//! assert_eq!(running_sum.resume(7).unwrap_err().into_input(), 7);
//! ```
//!
//! # Two forms, both sound in safe code
//!
//! * [`Coroutine`] owns all that its closure captures (`'static`). It may be moved about, kept in a
//!   thread-local, forgotten: a forgotten one leaks its stack, and nothing ever reuses it.
//! * [`scope`] gives closures that borrow from their surroundings. The scope, not the handle,
//!   decides about memory: it does not return before every coroutine made in it has ended or has
//!   been unwound, so a forgotten handle is harmless.
//!
//! # Panics
//!
//! A panic in the body comes out of `resume` with its payload. The coroutine has then ended.
//!
//! # Dropping a suspended coroutine
//!
//! It is unwound: its `suspend` call panics with a private payload, without a message and without
//! the panic hook, so that destructors run. A body that catches the unwind is unwound again at its
//! next `suspend`, and may also just return. One that goes on suspending after
//! [`UNWIND_ATTEMPTS`] attempts is given up: the [`Coroutine`] reports it on stderr and leaks its
//! stack; in a [`scope`], where a leak would be unsound, the process aborts.
//!
//! While such an unwind runs, `std::thread::panicking()` is true in the destructors: guards on the
//! way, such as std's mutexes, take it for a panic.
//!
//! With `panic = "abort"` nothing can be unwound: dropping a suspended [`Coroutine`] leaks its
//! stack and what lies on it; leaving a [`scope`] with a suspended one aborts.
//!
//! # Suspending while panicking
//!
//! The panic count of std belongs to the thread. A `suspend` called in a destructor while a panic
//! unwinds the coroutine would leave the resumer marked as panicking, so it is refused: it panics
//! (and since it does so in a destructor during a panic, std aborts the process). A coroutine that
//! is not itself unwinding may be resumed from a destructor and suspend as usual. (One thing cannot
//! be told: that a body which was resumed from a destructor panics itself and suspends within *its*
//! destructors. Until it is resumed again, or dropped, the thread counts as panicking.)
//!
//! # What belongs to the thread
//!
//! A switch carries neither the signal mask nor, unless asked to, the floating-point control words:
//! these are the thread's, and a body that changes them must put them back before it suspends.
//! Signal handlers run on the stack of whatever coroutine runs, unless they were installed with
//! `SA_ONSTACK`; the smallest stack leaves room for one. A handler must not resume or suspend.
//!
//! Thread-locals and fiber-locals are those of whoever resumes. Rust cannot see one mistake there: a
//! coroutine that is itself kept in a `std::thread_local!`, and that the end of the thread finds
//! suspended within the `with` of another one. std destroys them in the opposite order of their
//! first use, so what the body borrows may be gone when it is unwound. Such a coroutine must not
//! suspend there. With [`pirn::thread_local!`](crate::thread_local) it may.

mod block;
mod scope;
mod transfer;
mod unwind;

use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::panic::Location;

use crate::stack::{StackConfig, StackError};

use block::Block;
pub use scope::{Scope, ScopedCoroutine, scope};
pub use unwind::UNWIND_ATTEMPTS;
pub(crate) use unwind::is_forced;

/// What [`resume`](Coroutine::resume) brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoroutineState<Y, R> {
    /// The body called [`Suspender::suspend`] with this value.
    Yield(Y),
    /// The body returned this value; the coroutine has ended.
    Return(R),
}

/// The coroutine has already ended; the input comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ResumeError<I>(I);

impl<I> ResumeError<I> {
    /// The input that nobody took.
    pub fn into_input(self) -> I {
        self.0
    }
}

impl<I> fmt::Debug for ResumeError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeError(..)")
    }
}

impl<I> fmt::Display for ResumeError<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot resume a coroutine that has already ended")
    }
}

impl<I> Error for ResumeError<I> {}

/// The inside of a coroutine: the handle by which its body suspends itself.
///
/// The body gets it by reference, so it cannot outlive the body, and it is neither `Send` nor
/// `Sync`.
pub struct Suspender<I, Y> {
    block: Block,
    marker: PhantomData<fn(Y) -> I>,
}

impl<I, Y> Suspender<I, Y> {
    /// Hands `value` to the resumer and waits for the next [`resume`](Coroutine::resume).
    ///
    /// Returns that call's input. Unwinds if the coroutine is dropped meanwhile.
    ///
    /// # Panics
    ///
    /// When called from a stack other than this coroutine's own (the body of a nested coroutine,
    /// say), and when called while this coroutine is unwinding from a panic.
    #[inline]
    pub fn suspend(&self, value: Y) -> I {
        // SAFETY: `block` is the one that runs the body which was lent this suspender, and its
        // types are I and Y; `suspend` checks that it is called on the right stack.
        unsafe { self.block.suspend(value) }
    }
}

impl<I, Y> fmt::Debug for Suspender<I, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspender").finish_non_exhaustive()
    }
}

/// A closure on a stack of its own. See the [module documentation](self).
///
/// `I` goes in with each [`resume`](Self::resume), `Y` comes out with each
/// [`suspend`](Suspender::suspend), `R` at the end. A coroutine of input `()` is an [`Iterator`]
/// over its yields:
///
/// ```
/// use pirn::coroutine::{Coroutine, Suspender};
///
/// fn walk(n: u64, s: &Suspender<(), u64>) {
///     if n > 0 {
///         walk(n - 1, s); // suspending works at any depth of calls
///         s.suspend(n * n);
///     }
/// }
/// let squares = Coroutine::new(|s: &Suspender<(), u64>, ()| walk(4, s));
/// assert_eq!(squares.collect::<Vec<_>>(), [1, 4, 9, 16]);
/// ```
///
/// A coroutine stays on the thread that made it:
///
/// ```compile_fail
/// fn send<T: Send>() {}
/// send::<pirn::coroutine::Coroutine<(), (), ()>>();
/// ```
///
/// and a suspender stays in its body:
///
/// ```compile_fail
/// use pirn::coroutine::{Coroutine, Suspender};
/// let mut leaked: Option<&Suspender<(), ()>> = None;
/// Coroutine::new(|s: &Suspender<(), ()>, ()| leaked = Some(s));
/// ```
pub struct Coroutine<I, Y, R> {
    /// `None` once the coroutine has ended: its stack has gone back to the pool.
    block: Option<Block>,
    marker: PhantomData<fn(I) -> CoroutineState<Y, R>>,
}

impl<I: 'static, Y: 'static, R: 'static> Coroutine<I, Y, R> {
    /// A coroutine with default settings; nothing runs before the first
    /// [`resume`](Self::resume).
    ///
    /// # Panics
    ///
    /// When no stack can be had; [`Builder::build`] returns that as an error.
    #[track_caller]
    #[inline]
    pub fn new<F>(body: F) -> Self
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'static,
    {
        match Builder::new().build(body) {
            Ok(coroutine) => coroutine,
            Err(error) => no_stack(error),
        }
    }
}

/// A coroutine could not be made, and the caller left no room for an error.
#[cold]
#[track_caller]
fn no_stack(error: StackError) -> ! {
    panic!("cannot create a coroutine: {error}")
}

impl<I, Y, R> Coroutine<I, Y, R> {
    /// Runs the body until it suspends or returns.
    ///
    /// # Errors
    ///
    /// [`ResumeError`], with the input, when the coroutine has already ended.
    ///
    /// # Panics
    ///
    /// A panic of the body goes on here, with its payload.
    #[inline]
    pub fn resume(&mut self, input: I) -> Result<CoroutineState<Y, R>, ResumeError<I>> {
        // SAFETY: the block was made for I, Y, R, and `&mut self` excludes that it runs already.
        unsafe { block::resume(&mut self.block, input, |_| {}) }
    }

    /// Whether the body has returned or panicked.
    pub fn is_done(&self) -> bool {
        self.block.is_none()
    }

    /// Bytes of stack that the body may use; 0 once it has ended.
    pub fn stack_size(&self) -> usize {
        self.block.as_ref().map_or(0, Block::stack_size)
    }

    /// Bytes of stack in use at the deepest so far, rounded up to pages; 0 once it has ended.
    ///
    /// The mark is the stack's: a pooled stack starts with what earlier users touched.
    pub fn stack_high_water(&self) -> usize {
        self.block.as_ref().map_or(0, Block::stack_high_water)
    }
}

impl<I, Y, R> Drop for Coroutine<I, Y, R> {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            // SAFETY: the block was made for Y and R, and is not running, since `&mut self`.
            unsafe { unwind::discard::<Y, R>(block) }
        }
    }
}

impl<I, Y, R> fmt::Debug for Coroutine<I, Y, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Yields become items; the return value is dropped.
impl<Y, R> Iterator for Coroutine<(), Y, R> {
    type Item = Y;

    #[inline]
    fn next(&mut self) -> Option<Y> {
        match self.resume(()) {
            Ok(CoroutineState::Yield(item)) => Some(item),
            Ok(CoroutineState::Return(_)) | Err(_) => None,
        }
    }
}

impl<Y, R> FusedIterator for Coroutine<(), Y, R> {}

/// Settings of a coroutine: name, stack, guard, floating-point control.
///
/// ```
/// use pirn::coroutine::{Builder, Suspender};
///
/// let coroutine = Builder::new()
///     .name("parser")
///     .stack_size(512 * 1024)
///     .build(|s: &Suspender<(), char>, ()| {
///         s.suspend('a');
///     })?;
/// assert!(coroutine.stack_size() >= 512 * 1024);
/// # Ok::<(), pirn::stack::StackError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    name: Option<String>,
    stack: StackConfig,
    keep_float_control: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The default settings: no name, the default stack, float control not kept.
    #[inline]
    pub const fn new() -> Self {
        Builder { name: None, stack: StackConfig::DEFAULT, keep_float_control: false }
    }

    /// Names the coroutine; the name appears in overflow reports and in the debugger.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Asks for at least so many usable bytes of stack.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = self.stack.with_size(bytes);
        self
    }

    /// Asks for a guard of at least so many bytes below the stack.
    ///
    /// One page, the default, is enough for Rust code, whose stack probes touch every page. Raise
    /// it when the body calls foreign code with large frames that was compiled without probes.
    pub fn guard_size(mut self, bytes: usize) -> Self {
        self.stack = self.stack.with_guard(bytes);
        self
    }

    /// Keeps the floating-point control words (rounding, flush to zero, traps; MXCSR and the x87
    /// control word, or FPCR) per coroutine, at a few nanoseconds a switch.
    ///
    /// Off by default: a new coroutine starts with the default words (and leaves them to its
    /// resumer); from then on the words are the thread's, and a body that changes them must put
    /// them back before it suspends.
    pub fn keep_float_control(mut self, keep: bool) -> Self {
        self.keep_float_control = keep;
        self
    }

    /// Makes the coroutine; nothing runs before the first [`resume`](Coroutine::resume).
    ///
    /// # Errors
    ///
    /// When no stack can be had: the error names the limit that was hit.
    #[track_caller]
    #[inline]
    pub fn build<I, Y, R, F>(self, body: F) -> Result<Coroutine<I, Y, R>, StackError>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'static,
        I: 'static,
        Y: 'static,
        R: 'static,
    {
        let block = Block::create(self, Location::caller(), body)?;
        Ok(Coroutine { block: Some(block), marker: PhantomData })
    }
}
