//! A script thread: its segment of frames, and where it stands.
//!
//! ```text
//!  segment   0      1            base[-1]  base[0] …
//!          | stub | frame of f … | return  | frame of g …      | room …      |
//!                                                              ^ grows     limit
//! ```
//!
//! A frame is found from the one above it: the word below the base is the address behind the call
//! instruction, whose field `a` says by how much the base moved. The lowest frame of a run returns to
//! a stub. Where a native function called back into the script, a record says where the frames below
//! the native go on.
//!
//! # Depth
//!
//! The number of frames is limited exactly without counting calls: a frame is one word at least, so
//! a segment may be used up to as many words as the limit has frames without further ado. A call that
//! would go beyond counts the frames there are and gets so many more words as frames are left.

use std::ptr::NonNull;
use std::slice;

use super::native::Window;
use super::tables::stub;
use crate::vm::native::Word;
use crate::vm::op::Code;
use crate::vm::tasks::Wait;
use crate::vm::tasks::future::Future;

/// A thread of a script, complete while it does not run.
///
/// There may be millions, so it is small: places in the segment have 32 bits, what only threads with
/// native functions in the middle of them have lies apart, and what its future knows is asked of that.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The segment: a boxed slice of `length` words. Nothing outside the running machine points into
    /// it.
    start: NonNull<Word>,
    length: u32,
    /// The place of the frame's register 0 in the segment.
    pub(super) base: u32,
    /// Words that may be used: see "Depth".
    pub(super) allowed: u32,
    /// The instruction that is executed next.
    pub(super) pc: *const Code,
    pub(super) middle: Option<Box<Middle>>,
    /// What the thread waits for, at the instruction where it stands.
    pub(crate) wait: Wait,
    /// The future that it settles at its end; 0 for none.
    pub(crate) handle: Word,
    /// Whether what it returns is a reference.
    pub(crate) gives_reference: bool,
    /// Whether it has run.
    pub(crate) begun: bool,
    /// Whether it will not run any more.
    pub(crate) ended: bool,
}

/// Native functions in the middle of a thread. Stays with it when they have returned.
#[derive(Debug, Default)]
pub(super) struct Middle {
    /// Those that called back into the script and have not returned, lowest first.
    pub(super) nested: Vec<Nested>,
    /// Their native stack, while the thread does not run.
    pub(super) window: Option<Box<Window>>,
}

/// A native function that is calling the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nested {
    /// The instruction that called the native.
    pub(super) pc: *const Code,
    /// The frame with that instruction.
    pub(super) base: usize,
}

impl Thread {
    /// A thread that settles a future at its end, or none: see [`handle`](Self::handle).
    #[inline(always)]
    pub(crate) fn new(begin: Begin, handle: Word, gives_reference: bool) -> Thread {
        let Begin { segment: Segment { start, length }, pc, allowed } = begin;
        std::mem::forget(begin);
        Thread {
            start,
            length,
            base: 1,
            allowed,
            pc,
            middle: None,
            wait: Wait::new(),
            handle,
            gives_reference,
            begun: false,
            ended: false,
        }
    }

    /// The future that it settles; none for that of the function which the host called.
    #[inline]
    pub(crate) fn future(&self) -> Option<Future> {
        // SAFETY: the handle is a future, which the thread keeps alive.
        (self.handle != 0).then(|| unsafe { Future::from_word(self.handle) })
    }

    /// Its number among the tasks of a call of the host.
    pub(crate) fn id(&self) -> u32 {
        self.future().map_or(0, Future::id)
    }

    /// Its place in the table of the tasks, while it has not ended: the first one is that of the
    /// function which the host called.
    pub(crate) fn place(&self) -> u32 {
        self.future().and_then(Future::place).unwrap_or(0) as u32
    }

    /// Whether it is one of the tasks that were spawned.
    #[inline]
    pub(super) fn is_task(&self) -> bool {
        self.wait.is_of_task() && !self.is_main()
    }

    /// Whether it is that of the function which the host called.
    #[inline]
    pub(crate) fn is_main(&self) -> bool {
        self.handle == 0
    }

    /// Whether it stands between two instructions, and nowhere else.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.middle.is_none() && self.wait.is_idle()
    }

    /// The segment.
    #[inline]
    pub(super) fn words(&self) -> &[Word] {
        // SAFETY: the words of the segment are the thread's, and initialised.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }

    #[inline]
    pub(super) fn words_mut(&mut self) -> &mut [Word] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length as usize) }
    }

    /// The address of the segment.
    #[inline]
    pub(super) fn start(&self) -> *mut Word {
        self.start.as_ptr()
    }

    /// Where the usable part of the segment ends.
    #[inline]
    pub(super) fn limit(&self) -> *mut Word {
        self.start.as_ptr().wrapping_add(self.length.min(self.allowed) as usize)
    }

    /// Makes the segment so large at least.
    pub(super) fn reserve(&mut self, words: usize) {
        if words > self.length as usize {
            self.grow(words.max(2 * self.length as usize));
        }
    }

    #[inline(never)]
    fn grow(&mut self, length: usize) {
        let grown = self.take_segment().grown(length);
        (self.start, self.length) = (grown.start, grown.length);
        std::mem::forget(grown);
    }

    /// Takes the segment from a thread that will not run any more, or gets another one.
    pub(super) fn take_segment(&mut self) -> Segment {
        let start = std::mem::replace(&mut self.start, NonNull::dangling());
        Segment { start, length: std::mem::take(&mut self.length) }
    }

    /// Lets go of all that a thread has which will not run any more: of what unwinds through its frames
    /// first.
    pub(crate) fn clear(&mut self) {
        self.middle = None;
        drop(self.take_segment());
    }

    /// Bytes that the segment takes.
    pub(crate) fn bytes(&self) -> usize {
        self.length as usize * size_of::<Word>()
    }

    /// Natives that called back into the script and have not returned, lowest first.
    pub(super) fn nested(&self) -> &[Nested] {
        self.middle.as_ref().map_or(&[], |middle| &middle.nested)
    }

    /// The native stack of these, while the thread does not run.
    pub(super) fn window(&self) -> Option<&Window> {
        self.middle.as_ref()?.window.as_deref()
    }

    pub(super) fn window_mut(&mut self) -> Option<&mut Window> {
        self.middle.as_mut()?.window.as_deref_mut()
    }

    pub(super) fn middle(&mut self) -> &mut Middle {
        self.middle.get_or_insert_default()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Where a thread begins: at an instruction, with its one frame at the begin of a segment.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(super) segment: Segment,
    pub(super) pc: *const Code,
    /// Words of the segment that it may use.
    pub(super) allowed: u32,
}

/// The words of a segment: those of a boxed slice.
#[derive(Debug)]
pub(super) struct Segment {
    start: NonNull<Word>,
    length: u32,
}

// SAFETY: a segment owns its words.
unsafe impl Send for Segment {}

impl Segment {
    /// One without words.
    pub(super) const fn empty() -> Segment {
        Segment { start: NonNull::dangling(), length: 0 }
    }

    /// So many words at least. The first ones are no more than that: many threads never need more.
    #[inline]
    pub(super) fn with(self, words: usize) -> Segment {
        if words <= self.len() {
            return self;
        }
        let length = words.max(2 * self.len());
        self.grown(length)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.length as usize
    }

    /// The first words of at least so many.
    #[inline]
    pub(super) fn words(&mut self) -> &mut [Word] {
        // SAFETY: the words are the segment's, and initialised.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }

    /// With the words that it has, and zeroes.
    #[inline(never)]
    fn grown(self, length: usize) -> Segment {
        let mut words = self.into_words().into_vec();
        words.reserve_exact(length - words.len());
        words.resize(length, 0);
        let words = words.into_boxed_slice();
        let length = u32::try_from(words.len()).expect("a segment is limited");
        Segment { start: NonNull::from(Box::leak(words)).cast(), length }
    }

    fn into_words(self) -> Box<[Word]> {
        let words = NonNull::slice_from_raw_parts(self.start, self.len());
        std::mem::forget(self);
        // SAFETY: the segment is a leaked box of this length, which it owned; an empty one may dangle.
        unsafe { Box::from_raw(words.as_ptr()) }
    }
}

impl Drop for Segment {
    #[inline]
    fn drop(&mut self) {
        if self.length > 0 {
            drop(std::mem::replace(self, Segment::empty()).into_words());
        }
    }
}

/// One frame of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The instruction that the frame executes: the next one in the top frame, the call in others.
    pub(super) pc: *const Code,
    /// The place of register 0.
    pub(super) base: usize,
    /// Registers that belong to the frame, `usize::MAX` for all: those from the call's `a` on belong
    /// to the callee.
    pub(super) registers: usize,
    /// Whether this frame is the lowest one of its run.
    pub(super) lowest: bool,
}

/// The frames of a thread from the innermost outwards.
pub(super) struct Frames<'a> {
    words: *const Word,
    nested: &'a [Nested],
    next: Option<Frame>,
}

impl<'a> Frames<'a> {
    /// The frames below a place.
    ///
    /// # Safety
    ///
    /// The words are those of a segment in which, from this place on, frames lie as described above.
    pub(super) unsafe fn new(
        words: *const Word,
        nested: &'a [Nested],
        pc: *const Code,
        base: usize,
    ) -> Frames<'a> {
        let mut frames = Frames { words, nested, next: None };
        frames.next = Some(frames.frame(pc, base, usize::MAX));
        frames
    }

    fn return_address(&self, base: usize) -> *const Code {
        // SAFETY: the promise of `new`: below each base is a return address.
        std::ptr::with_exposed_provenance(unsafe { *self.words.add(base - 1) } as usize)
    }

    fn frame(&self, pc: *const Code, base: usize, registers: usize) -> Frame {
        let lowest = self.return_address(base) == stub();
        Frame { pc, base, registers, lowest }
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let frame = self.next?;
        self.next = if frame.lowest {
            self.nested.split_last().map(|(nested, rest)| {
                self.nested = rest;
                self.frame(nested.pc, nested.base, usize::MAX)
            })
        } else {
            let pc = self.return_address(frame.base).wrapping_sub(1);
            // SAFETY: before a return address stands the call instruction.
            let a = usize::from(unsafe { (*pc).a() });
            Some(self.frame(pc, frame.base - a, a - 1))
        };
        Some(frame)
    }
}
