//! Coroutines that borrow: the scope owns the stacks, the handles only resume.
//!
//! The scope keeps a list of the coroutines that have not ended, threaded through their control
//! blocks. When it ends it unwinds them, the newest first. A handle may be dropped earlier, which
//! unwinds its coroutine at once, or be forgotten, which changes nothing.
//!
//! One coroutine may hold another's handle on its stack. Unwinding the one drops the other's handle
//! when the other may already have been unwound by the scope: so the scope releases no stack before
//! all have been unwound, and a handle first looks whether its coroutine has ended.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;

use crate::stack::StackError;

use super::block::{self, Block, Header};
use super::{Builder, CoroutineState, ResumeError, Suspender, no_stack, unwind};

type Discard = unsafe fn(Block) -> Result<(), Box<dyn Any + Send>>;

/// A coroutine's place in its scope's list.
pub(super) struct Links {
    previous: Cell<Option<NonNull<Header>>>,
    next: Cell<Option<NonNull<Header>>>,
    /// Unwinds the coroutine; knows its types.
    discard: Discard,
    /// Unwound by the scope, which will release the stack.
    ended: Cell<bool>,
}

impl Links {
    fn new(discard: Discard) -> Self {
        Links { previous: Cell::new(None), next: Cell::new(None), discard, ended: Cell::new(false) }
    }
}

/// The links of a block that belongs to a scope.
fn links<'a>(header: NonNull<Header>) -> &'a Links {
    // SAFETY: blocks are in the list, or in a handle that has not ended, only while they are alive;
    // `build_scoped` wrote the links; blocks never leave their thread.
    unsafe { (*header.as_ptr()).links.assume_init_ref() }
}

/// Makes coroutines that borrow from their surroundings; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    /// The newest coroutine that has not ended.
    newest: Cell<Option<NonNull<Header>>>,
    /// Unwound, waiting to be released.
    unwound: Cell<Option<NonNull<Header>>>,
    scope: PhantomData<Cell<&'scope ()>>,
    env: PhantomData<Cell<&'env ()>>,
}

/// Runs `f` with a [`Scope`], in which coroutines may borrow whatever outlives the call.
///
/// When `f` returns or panics, every coroutine of the scope that has not ended is unwound, the
/// newest first; only then does `scope` return.
///
/// ```
/// use pirn::coroutine::{self, CoroutineState::Yield, Suspender};
///
/// let words = vec!["warp".to_string(), "weft".to_string()];
/// let mut lengths = Vec::new();
/// coroutine::scope(|s| {
///     let mut walk = s.coroutine(|s: &Suspender<(), &str>, ()| {
///         for word in &words {
///             lengths.push(word.len());
///             s.suspend(word);
///         }
///     });
///     assert_eq!(walk.resume(()), Ok(Yield("warp")));
/// });
/// assert_eq!(lengths, [4]);
/// ```
///
/// A handle cannot leave its scope:
///
/// ```compile_fail
/// use pirn::coroutine::{self, Suspender};
/// let escaped = coroutine::scope(|s| s.coroutine(|_: &Suspender<(), ()>, ()| ()));
/// ```
///
/// # Panics
///
/// With the payload of `f`; else with the first payload of a body that panicked while it was
/// unwound.
///
/// # Aborts
///
/// When a body refuses to be unwound (see [`UNWIND_ATTEMPTS`](super::UNWIND_ATTEMPTS)), and with
/// `panic = "abort"` when a body is still suspended: its borrows would dangle.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope {
        newest: Cell::new(None),
        unwound: Cell::new(None),
        scope: PhantomData,
        env: PhantomData,
    };
    let end = EndScope(&scope);
    let value = f(&scope);
    drop(end);
    value
}

/// Ends the scope, whichever way its function is left.
struct EndScope<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for EndScope<'_, '_, '_> {
    fn drop(&mut self) {
        let mut first_panic = None;
        // A destructor may make further coroutines: go on until there are none.
        while let Some(header) = self.0.newest.get() {
            self.0.unlink(header);
            links(header).ended.set(true);
            links(header).next.set(self.0.unwound.replace(Some(header)));
            let discard = links(header).discard;
            // SAFETY: listed blocks are fresh or suspended: a running one would have a resumer
            // inside `f`, which is over. `discard` was made for the block's types.
            let unwound = unsafe { discard(Block::from_header(header)) };
            unwind::keep_first(&mut first_panic, unwound.err());
        }
        while let Some(header) = self.0.unwound.get() {
            self.0.unwound.set(links(header).next.get());
            // SAFETY: unwound above; handles that still exist are forgotten ones.
            unsafe { Block::from_header(header).release() }
        }
        if let Some(payload) = first_panic {
            unwind::pass_on(payload);
        }
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// A coroutine with default settings, which may borrow anything that outlives the scope.
    ///
    /// # Panics
    ///
    /// When no stack can be had; [`Builder::build_scoped`] returns that as an error.
    #[track_caller]
    pub fn coroutine<I, Y, R, F>(&'scope self, body: F) -> ScopedCoroutine<'scope, I, Y, R>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'scope,
        I: 'scope,
        Y: 'scope,
        R: 'scope,
    {
        match Builder::new().build_scoped(self, body) {
            Ok(coroutine) => coroutine,
            Err(error) => no_stack(error),
        }
    }

    fn link(&self, header: NonNull<Header>) {
        let next = self.newest.replace(Some(header));
        links(header).next.set(next);
        if let Some(next) = next {
            links(next).previous.set(Some(header));
        }
    }

    fn unlink(&self, header: NonNull<Header>) {
        let (previous, next) = (links(header).previous.take(), links(header).next.take());
        match previous {
            Some(previous) => links(previous).next.set(next),
            None => self.newest.set(next),
        }
        if let Some(next) = next {
            links(next).previous.set(previous);
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl Builder {
    /// Like [`build`](Self::build), for a body that borrows from outside the scope.
    ///
    /// # Errors
    ///
    /// When no stack can be had: the error names the limit that was hit.
    #[track_caller]
    pub fn build_scoped<'scope, 'env, I, Y, R, F>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        body: F,
    ) -> Result<ScopedCoroutine<'scope, I, Y, R>, StackError>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R + 'scope,
        I: 'scope,
        Y: 'scope,
        R: 'scope,
    {
        let block = Block::create(self, Location::caller(), body)?;
        let header = block.non_null();
        // SAFETY: the block is ours, and fresh.
        unsafe { (*header.as_ptr()).links.write(Links::new(unwind::discard_scoped::<Y, R>)) };
        scope.link(header);
        // The list of the scope knows nothing of 'env; one list serves all lifetimes.
        let list: *const Scope<'scope, 'env> = scope;
        Ok(ScopedCoroutine { block: Some(block), list: list.cast(), marker: PhantomData })
    }
}

/// A coroutine whose body borrows from outside its [`scope`].
///
/// Like [`Coroutine`](super::Coroutine), except that the scope decides how long its stack lives.
pub struct ScopedCoroutine<'scope, I, Y, R> {
    block: Option<Block>,
    list: *const Scope<'scope, 'scope>,
    marker: PhantomData<fn(I) -> CoroutineState<Y, R>>,
}

impl<'scope, I, Y, R> ScopedCoroutine<'scope, I, Y, R> {
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
        if self.is_done() {
            return Err(ResumeError(input));
        }
        let list = self.list;
        // SAFETY: made for these types; it is not running, since `&mut self`, and has not ended.
        unsafe { block::resume(&mut self.block, input, |block| (*list).unlink(block.non_null())) }
    }

    /// Whether the body has returned or panicked.
    pub fn is_done(&self) -> bool {
        self.live().is_none()
    }

    /// The header, unless the coroutine has ended.
    fn live(&self) -> Option<NonNull<Header>> {
        let header = self.block?.non_null();
        // The stack of a coroutine that the scope has unwound is kept while a handle may look.
        (!links(header).ended.get()).then_some(header)
    }

    fn scope(&self) -> &Scope<'scope, 'scope> {
        // SAFETY: handles are used only inside `scope`'s call, whose frame holds the Scope: their
        // lifetime parameter does not let them out, and unwinding happens before it is gone.
        unsafe { &*self.list }
    }
}

impl<I, Y, R> Drop for ScopedCoroutine<'_, I, Y, R> {
    fn drop(&mut self) {
        if let Some(header) = self.live() {
            self.scope().unlink(header);
            let block = Block::from_header(header);
            // SAFETY: fresh or suspended, of these types, and out of the list: released once.
            unsafe {
                let unwound = unwind::discard_scoped::<Y, R>(block);
                block.release();
                if let Err(payload) = unwound {
                    unwind::pass_on(payload);
                }
            }
        }
    }
}

impl<I, Y, R> fmt::Debug for ScopedCoroutine<'_, I, Y, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedCoroutine").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Yields become items; the return value is dropped.
impl<Y, R> Iterator for ScopedCoroutine<'_, (), Y, R> {
    type Item = Y;

    #[inline]
    fn next(&mut self) -> Option<Y> {
        match self.resume(()) {
            Ok(CoroutineState::Yield(item)) => Some(item),
            Ok(CoroutineState::Return(_)) | Err(_) => None,
        }
    }
}

impl<Y, R> FusedIterator for ScopedCoroutine<'_, (), Y, R> {}
