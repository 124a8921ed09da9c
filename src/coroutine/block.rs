//! The control block of a coroutine, and the two switches: in and out.
//!
//! The block lies at the top of the coroutine's stack, above its first frame, so that creating a
//! coroutine allocates nothing and a suspended one touches one page:
//!
//! ```text
//!   stack top ─┬──────────────────────────────┐
//!              │ the closure, if it is small  │  until the first resume
//!              ├──────────────────────────────┤
//!              │ Header                       │
//!              │   inner, outer: Context      │  one cache line; known to asm/<arch>.S
//!              │   …                          │
//!    block ───►├──────────────────────────────┤  64-byte aligned
//!              │ frames                       │
//!              ~                              ~
//!              └──────────────────────────────┘  guard below
//! ```
//!
//! States: *fresh* (the closure waits in the block), *suspended* (`inner` is valid), *running*
//! (`outer` is valid), *ended* (the stack holds nothing any more). Whoever owns the [`Block`] knows
//! which one it is: `&mut` on the handle excludes *running*, and an ended block is given up at once.
//!
//! What a switch must mind is in one byte of *marks*: that the coroutine is fresh, or has what few have,
//! control words of its own, or a resumer that panics. So a switch looks once.

use std::any::Any;
use std::fmt::{self, Write};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;
use std::thread;

use crate::context::{self, Context, Entry, FloatControl, Side, Word};
use crate::stack::{Occupant, Stack, StackError};

use super::scope::Links;
use super::transfer::{receive, send};
use super::{Builder, CoroutineState, ResumeError, Suspender, unwind};

/// What the word means that comes *out* of a coroutine.
mod out {
    pub(super) const YIELD: usize = 0;
    pub(super) const RETURN: usize = 1;
    pub(super) const PANIC: usize = 2;
}

/// What the word means that goes *into* a coroutine.
mod into {
    pub(super) const RESUME: usize = 0;
    pub(super) const UNWIND: usize = 1;
}

/// What a switch must mind.
mod mark {
    /// The closure is still in the block.
    pub(super) const FRESH: u8 = 1;
    /// It keeps the floating-point control words.
    pub(super) const KEEPS_FLOAT: u8 = 2;
    /// The resumer was panicking already, so that `panicking()` says nothing about the body.
    pub(super) const ENTERED_PANICKING: u8 = 4;
}

/// What an entered coroutine came back with.
pub(super) enum Outcome<Y, R> {
    Yield(Y),
    Return(R),
    Panic(Box<dyn Any + Send>),
}

/// Closures up to this size live in the block; larger or more aligned ones are boxed.
const INLINE_BODY: usize = 1024;

#[repr(C, align(64))]
pub(super) struct Header {
    /// Where the coroutine goes on; written when it first suspends. The first frame finds `outer` right
    /// behind it.
    inner: MaybeUninit<Context>,
    /// Where the resumer goes on; written by the first resume.
    outer: MaybeUninit<Context>,
    /// For the overflow report.
    occupant: Occupant,
    /// How far below the block its stack can reach: a suspender must be used on it. 0 where a switch
    /// out has more to do, which is found out by that.
    extent: usize,
    /// See [`mark`].
    marks: u8,
    named: bool,
    /// Written when kept, at each switch out.
    inner_float: MaybeUninit<FloatControl>,
    /// Both sides as the sanitizers know them; empty without one.
    inner_side: Side,
    outer_side: Side,
    stack: ManuallyDrop<Stack>,
    /// Written if it is `named`.
    name: MaybeUninit<String>,
    created_at: &'static Location<'static>,
    body: &'static Body,
    /// Membership in a [`scope`](super::scope); written if it is in one.
    pub(super) links: MaybeUninit<Links>,
}

/// What depends on the type of the closure.
struct Body {
    entry: Entry,
    drop: unsafe fn(*mut u8),
}

/// Owning pointer to a coroutine's control block, and thereby to its stack.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Block(NonNull<Header>);

impl Block {
    /// Takes a stack and lays out a fresh coroutine on it.
    #[inline]
    pub(super) fn create<I, Y, R, F>(
        builder: Builder,
        created_at: &'static Location<'static>,
        body: F,
    ) -> Result<Block, StackError>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R,
    {
        if const { size_of::<F>() > INLINE_BODY || align_of::<F>() > align_of::<Header>() } {
            let body = Box::new(body);
            // The closure around the box is one pointer, so this does not recurse further.
            let boxed = move |suspender: &Suspender<I, Y>, input| body(suspender, input);
            Self::lay_out::<I, Y, R, _>(builder, created_at, boxed)
        } else {
            Self::lay_out::<I, Y, R, F>(builder, created_at, body)
        }
    }

    #[inline]
    fn lay_out<I, Y, R, F>(
        builder: Builder,
        created_at: &'static Location<'static>,
        body: F,
    ) -> Result<Block, StackError>
    where
        F: FnOnce(&Suspender<I, Y>, I) -> R,
    {
        let stack = Stack::acquire(builder.stack.class()?)?;
        let top = stack.top();
        let body_size = size_of::<F>().next_multiple_of(align_of::<Header>());
        // SAFETY: the stack is ours, its top is 64-byte aligned, and the smallest stack is many
        // times larger than a header and an inline body.
        unsafe {
            let block = top.sub(size_of::<Header>() + body_size);
            let header = block.cast::<Header>();
            // Field by field: what is written later is left alone.
            (&raw mut (*header).occupant).write(Occupant { describe });
            (*header).extent = stack.span();
            (*header).marks = mark::FRESH;
            if builder.keep_float_control {
                (*header).marks |= mark::KEEPS_FLOAT;
                (*header).extent = 0;
            }
            (*header).named = builder.name.is_some();
            if let Some(name) = builder.name {
                (*header).name.write(name);
            }
            (&raw mut (*header).inner_side).write(Side::stack(|| (stack.bottom(), stack.size())));
            (&raw mut (*header).outer_side).write(Side::thread());
            (&raw mut (*header).stack).write(ManuallyDrop::new(stack));
            (*header).created_at = created_at;
            (*header).body = &const { Body { entry: entry::<I, Y, R, F>, drop: drop_body::<F> } };
            body_of(block).cast::<F>().write(body);
            (*header).stack.occupy(&raw const (*header).occupant);
            Ok(Block(NonNull::new_unchecked(header)))
        }
    }

    #[inline(always)]
    pub(super) fn header(self) -> *mut Header {
        self.0.as_ptr()
    }

    pub(super) fn non_null(self) -> NonNull<Header> {
        self.0
    }

    pub(super) fn from_header(header: NonNull<Header>) -> Block {
        Block(header)
    }

    pub(super) fn stack_size(&self) -> usize {
        // SAFETY: an owned block's header is alive; no other code writes the stack field.
        unsafe { (*self.header()).stack.size() }
    }

    pub(super) fn stack_high_water(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.header()).stack.high_water() }
    }

    /// Whether the body has begun.
    pub(super) fn started(self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.header()).marks & mark::FRESH == 0 }
    }

    /// Drops the closure of a fresh coroutine.
    ///
    /// # Safety
    ///
    /// The coroutine must be fresh; the closure is gone afterwards.
    pub(super) unsafe fn drop_body(self) {
        let header = self.header();
        // SAFETY: the closure is there, by the contract. It is noted first that it is gone, so that a
        // closure whose destructor panics is not dropped twice.
        unsafe {
            (*header).marks &= !mark::FRESH;
            ((*header).body.drop)(body_of(header.cast()));
        }
    }

    /// Gives the stack back to the pool.
    ///
    /// # Safety
    ///
    /// The coroutine must have ended, or be fresh with its closure dropped: nothing on the stack
    /// is alive. The block must not be used again.
    #[inline]
    pub(super) unsafe fn release(self) {
        let header = self.header();
        // SAFETY: nobody uses the header any more, by the contract.
        unsafe {
            if (*header).named {
                (*header).name.assume_init_drop();
            }
            (*header).inner_side.discard();
            let stack = ManuallyDrop::take(&mut (*header).stack);
            stack.vacate();
            stack.release();
        }
    }

    /// Names the coroutine, for reports.
    pub(super) fn describe(self, to: &mut dyn Write) {
        // SAFETY: the occupant belongs to a live header.
        unsafe { describe(&raw const (*self.header()).occupant, to) }
    }

    /// Switches in, and comes back with what the body switched out with.
    ///
    /// # Safety
    ///
    /// The coroutine must be fresh (only with [`into::RESUME`]) or suspended, and `word` must be
    /// what its side expects for the tag: an `I` for `RESUME`.
    #[inline(always)]
    unsafe fn enter(self, word: Word, tag: usize) -> (Word, usize) {
        let header = self.header();
        // SAFETY: `inner` is valid for a suspended coroutine; its stack belongs to this thread, since
        // blocks are not Send.
        unsafe {
            (*header).outer_side.leave(&(*header).inner_side);
            let (inner, outer) = ((*header).inner.as_ptr(), (*header).outer.as_mut_ptr());
            let back = match (*header).marks {
                0 => context::switch(outer, inner, word, tag),
                mark::FRESH => {
                    context::start(outer, header.cast(), (*header).body.entry, word, tag)
                }
                marks => self.enter_in_full(marks, word, tag),
            };
            (*header).outer_side.arrive();
            back
        }
    }

    /// [`enter`](Self::enter), whatever the marks. (The sanitizers know of the switch already.)
    ///
    /// # Safety
    ///
    /// As above.
    #[inline(never)]
    unsafe fn enter_in_full(self, marks: u8, word: Word, tag: usize) -> (Word, usize) {
        let header = self.header();
        let (fresh, keep) = (marks & mark::FRESH != 0, marks & mark::KEEPS_FLOAT != 0);
        // SAFETY: as above; the words of a coroutine that has begun were kept when it suspended.
        unsafe {
            let (inner, outer) = ((*header).inner.as_ptr(), (*header).outer.as_mut_ptr());
            let ours = keep.then(FloatControl::save);
            if keep && !fresh {
                (*header).inner_float.assume_init().load();
            }
            let back = if fresh {
                context::start(outer, header.cast(), (*header).body.entry, word, tag)
            } else {
                context::switch(outer, inner, word, tag)
            };
            if let Some(ours) = ours {
                ours.load();
            }
            back
        }
    }

    /// Switches in with an input, or with the order to unwind.
    ///
    /// # Safety
    ///
    /// The coroutine must have been made for these types, and be suspended or (with an input)
    /// fresh. After `Return` and `Panic` it has ended and must be [released](Self::release).
    #[inline(always)]
    pub(super) unsafe fn run<I, Y, R>(self, input: Option<I>) -> Outcome<Y, R> {
        // SAFETY: the contract is passed on. What comes out was sent by `suspend` or `entry` of
        // the same types.
        unsafe {
            let (word, tag) = match input {
                Some(input) => {
                    let mut input = ManuallyDrop::new(input);
                    self.enter(send(&mut input), into::RESUME)
                }
                None => self.enter(Word::uninit(), into::UNWIND),
            };
            match tag {
                out::YIELD => Outcome::Yield(receive(word)),
                out::RETURN => Outcome::Return(receive(word)),
                _ => Outcome::Panic(receive(word)),
            }
        }
    }

    /// The switch out: see [`Suspender::suspend`].
    ///
    /// # Safety
    ///
    /// The block's coroutine must have been made for these types and must not have ended.
    #[inline(always)]
    pub(super) unsafe fn suspend<I, Y>(self, value: Y) -> I {
        let header = self.header();
        // SAFETY: the header is alive while the body is. We stand on its stack, as checked first,
        // hence `outer` is the resumer's.
        unsafe {
            if header.addr().wrapping_sub(context::stack_pointer()) >= (*header).extent {
                self.prepare_to_suspend();
            }
            if thread::panicking() && (*header).marks & mark::ENTERED_PANICKING == 0 {
                suspended_while_panicking();
            }
            let mut value = ManuallyDrop::new(value);
            (*header).inner_side.leave(&(*header).outer_side);
            let (word, tag) = context::switch(
                (*header).inner.as_mut_ptr(),
                (*header).outer.as_ptr(),
                send(&mut value),
                out::YIELD,
            );
            (*header).inner_side.arrive();
            if tag == into::UNWIND {
                unwind::raise(self);
            }
            receive(word)
        }
    }

    /// By a suspender that seems to be used on another stack. Keeps the control words of one that has
    /// words of its own.
    ///
    /// # Safety
    ///
    /// The block's coroutine must not have ended.
    #[cold]
    #[inline(never)]
    unsafe fn prepare_to_suspend(self) {
        let header = self.header();
        // SAFETY: the header is alive while the body is.
        unsafe {
            if header.addr().wrapping_sub(context::stack_pointer()) >= (*header).stack.span() {
                panic!("a suspender was used on a stack other than its own coroutine's");
            }
            if (*header).marks & mark::KEEPS_FLOAT != 0 {
                (*header).inner_float.write(FloatControl::save());
            }
        }
    }
}

/// Resumes the coroutine in `slot`, and empties the slot when it ends.
///
/// `on_end` sees the block for a last time before its stack goes back to the pool.
///
/// # Safety
///
/// The block must have been made for these types, and be fresh or suspended.
#[inline(always)]
pub(super) unsafe fn resume<I, Y, R>(
    slot: &mut Option<Block>,
    input: I,
    on_end: impl FnOnce(Block),
) -> Result<CoroutineState<Y, R>, ResumeError<I>> {
    let Some(block) = *slot else {
        return Err(ResumeError(input));
    };
    // SAFETY: the contract is passed on; after an end the block is released once.
    unsafe {
        let outcome = if thread::panicking() {
            run_while_panicking(block, Some(input))
        } else {
            block.run(Some(input))
        };
        match outcome {
            Outcome::Yield(value) => Ok(CoroutineState::Yield(value)),
            Outcome::Return(value) => {
                *slot = None;
                on_end(block);
                block.release();
                Ok(CoroutineState::Return(value))
            }
            Outcome::Panic(payload) => {
                *slot = None;
                on_end(block);
                block.release();
                panic::resume_unwind(payload)
            }
        }
    }
}

/// Switches in from a destructor during a panic: the body may suspend nevertheless, since the panic
/// is not its own.
///
/// # Safety
///
/// As for [`Block::run`].
#[cold]
pub(super) unsafe fn run_while_panicking<I, Y, R>(block: Block, input: Option<I>) -> Outcome<Y, R> {
    // SAFETY: the header stays readable after an end: the stack has not been released yet.
    unsafe {
        (*block.header()).marks |= mark::ENTERED_PANICKING;
        let outcome = block.run(input);
        (*block.header()).marks &= !mark::ENTERED_PANICKING;
        outcome
    }
}

/// The bottom of every coroutine: runs the body and switches out for good.
///
/// # Safety
///
/// Called by the first frame only, with the fresh block and an `I`.
unsafe extern "C" fn entry<I, Y, R, F>(block: *mut u8, word: Word, _tag: usize) -> !
where
    F: FnOnce(&Suspender<I, Y>, I) -> R,
{
    // SAFETY: the block is ours, and fresh. The value sent stays in place on this stack, which is
    // released only after the other side has received it.
    unsafe {
        let header = block.cast::<Header>();
        (*header).inner_side.arrive();
        let body = body_of(block).cast::<F>().read();
        (*header).marks &= !mark::FRESH;
        let suspender =
            Suspender { block: Block(NonNull::new_unchecked(header)), marker: Default::default() };
        let input = receive::<I>(word);
        let result = panic::catch_unwind(AssertUnwindSafe(|| body(&suspender, input)));
        let outer = (*header).outer.as_ptr();
        (*header).inner_side.leave_for_good(&(*header).outer_side);
        match result {
            Ok(value) => {
                let mut value = ManuallyDrop::new(value);
                context::leave(outer, send(&mut value), out::RETURN)
            }
            Err(payload) => {
                let mut payload = ManuallyDrop::new(payload);
                context::leave(outer, send(&mut payload), out::PANIC)
            }
        }
    }
}

/// Where an inline closure lies.
unsafe fn body_of(block: *mut u8) -> *mut u8 {
    // SAFETY: `create` made room behind the header.
    unsafe { block.add(size_of::<Header>()) }
}

unsafe fn drop_body<F>(body: *mut u8) {
    // SAFETY: called once, for the F that `create` wrote.
    unsafe { body.cast::<F>().drop_in_place() }
}

/// Describes the coroutine in a report; also called from the overflow handler, hence no allocation.
unsafe fn describe(occupant: *const Occupant, to: &mut dyn Write) {
    let offset = std::mem::offset_of!(Header, occupant);
    // SAFETY: the occupant is the field of a live header.
    let header = unsafe { &*occupant.byte_sub(offset).cast::<Header>() };
    let _ = describe_header(header, to);
}

fn describe_header(header: &Header, to: &mut dyn Write) -> fmt::Result {
    to.write_str("coroutine ")?;
    if header.named {
        // SAFETY: it is there then.
        write!(to, "'{}' ", unsafe { header.name.assume_init_ref() })?;
    }
    let at = header.created_at;
    write!(to, "created at {}:{}:{}", at.file(), at.line(), at.column())
}

#[cold]
#[inline(never)]
fn suspended_while_panicking() -> ! {
    panic!("a coroutine cannot suspend while a panic unwinds it")
}
