//! Magazines: the few warm stacks that a thread keeps for itself.
//!
//! One for each class that the thread uses, last in, first out, so that a stack is reused while its
//! top is still in the cache. The fast path is a load of the magazine's address from a thread-local
//! array, a test of its length, and three words moved. Until a thread has a magazine of its own,
//! the array points to a static one that is always empty and always full, so that the fast path
//! needs no test for that.
//!
//! A full magazine gives its older half to the depot, an empty one takes half of what it can hold.
//!
//! # Without magazines
//!
//! A thread whose destructors of thread-locals have run (they may still run fibers) deals with the
//! depot *directly*, and so does every thread under valgrind, which must hear of each reuse.

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use super::config::{MAX_CLASSES, MAX_WARM};
use super::depot::{self, BATCH};
use super::pile::Pile;
use super::{SizeClass, Stack, StackError, annotate, overflow};

/// Warm stacks of one class and one thread. Only that thread changes it.
struct Magazine {
    /// How many of the items are initialised. Atomic because the statistics read it from other
    /// threads; never a read-modify-write. Relaxed throughout: the items are not shared.
    len: AtomicU32,
    /// How many it may hold.
    limit: u32,
    items: [UnsafeCell<MaybeUninit<Stack>>; MAX_WARM],
    class: Option<SizeClass>,
    /// Neighbours in the [`List`], changed under the depot's lock.
    next: Cell<*const Magazine>,
    previous: Cell<*const Magazine>,
}

// SAFETY: `items` is used by the owning thread only, the links only under the depot's lock.
unsafe impl Sync for Magazine {}

/// Stands for all magazines that do not exist: nothing in it, no room in it, so it is never
/// changed.
static ABSENT: Magazine = Magazine::new(None, 0);

impl Magazine {
    const fn new(class: Option<SizeClass>, limit: u32) -> Magazine {
        Magazine {
            len: AtomicU32::new(0),
            limit,
            items: [const { UnsafeCell::new(MaybeUninit::uninit()) }; MAX_WARM],
            class,
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        }
    }

    #[inline]
    fn push(&self, stack: Stack) -> Result<(), Stack> {
        let len = self.len.load(Ordering::Relaxed);
        if len >= self.limit {
            return Err(stack);
        }
        // SAFETY: `len < limit <= MAX_WARM`, and only this thread uses the items.
        unsafe { (*self.items.get_unchecked(len as usize).get()).write(stack) };
        self.len.store(len + 1, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn pop(&self) -> Option<Stack> {
        let len = self.len.load(Ordering::Relaxed).checked_sub(1)?;
        self.len.store(len, Ordering::Relaxed);
        // SAFETY: the item below the old length is initialised, and now no longer counted.
        Some(unsafe { (*self.items.get_unchecked(len as usize).get()).assume_init_read() })
    }

    /// Moves the `count` oldest stacks out.
    fn shift(&self, count: usize) -> Pile<BATCH> {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let count = count.min(len);
        let mut out = Pile::EMPTY;
        for item in &self.items[..count] {
            // SAFETY: it is initialised; the copy below or the new length makes sure it is not read
            // again.
            out.push(unsafe { (*item.get()).assume_init_read() });
        }
        let items = self.items.as_ptr().cast::<MaybeUninit<Stack>>().cast_mut();
        // SAFETY: within the array; only this thread uses it. `UnsafeCell` has its content's
        // layout.
        unsafe { ptr::copy(items.add(count), items, len - count) };
        self.len.store((len - count) as u32, Ordering::Relaxed);
        out
    }
}

/// What a thread has. It has no destructor, so that access is an address and nothing else.
struct Local {
    magazines: [Cell<&'static Magazine>; MAX_CLASSES],
    /// This thread makes no magazines (any more).
    direct: Cell<bool>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            magazines: [const { Cell::new(&ABSENT) }; MAX_CLASSES],
            direct: Cell::new(false),
        }
    };
    /// Registered when the thread gets its first magazine.
    static AT_EXIT: AtExit = const { AtExit };
}

/// Takes this thread's warmest stack of a class.
#[inline]
pub(super) fn pop(class: SizeClass) -> Option<Stack> {
    LOCAL.with(|local| local.magazines[class.index()].get().pop())
}

/// Whether [`push`] would keep a stack of this class.
#[inline]
pub(super) fn has_room(class: SizeClass) -> bool {
    LOCAL.with(|local| {
        let magazine = local.magazines[class.index()].get();
        magazine.len.load(Ordering::Relaxed) < magazine.limit
    })
}

/// Keeps a stack for this thread, if there is room.
#[inline]
pub(super) fn push(stack: Stack) -> Result<(), Stack> {
    LOCAL.with(|local| local.magazines[stack.slot.class().index()].get().push(stack))
}

/// Gets stacks from the depot: one to return, and some for the magazine.
#[cold]
#[inline(never)]
pub(super) fn acquire_slow(class: SizeClass) -> Result<Stack, StackError> {
    // Whoever runs on a stack of ours has its overflows reported.
    overflow::install_overflow_handler();
    LOCAL.with(|local| {
        let magazine = local.magazine(class);
        let mut stacks = depot::take(class, magazine.limit.div_ceil(2).max(1) as usize)?;
        let stack = stacks.pop().expect("the depot gives at least one stack");
        // The pile's top is to be used first, so it goes in last.
        stacks.as_mut_slice().reverse();
        while let Some(stack) = stacks.pop() {
            magazine.push(stack).expect("an empty magazine holds half of what it may hold");
        }
        annotate::reused_on_valgrind(&stack);
        Ok(stack)
    })
}

/// Releases a stack when the magazine is full or there is none.
#[cold]
#[inline(never)]
pub(super) fn release_slow(stack: Stack) {
    let class = stack.slot.class();
    LOCAL.with(|local| {
        let magazine = local.magazine(class);
        if magazine.limit > 0 {
            if magazine.len.load(Ordering::Relaxed) == magazine.limit {
                depot::put(class, magazine.shift(magazine.limit.div_ceil(2) as usize));
            }
            magazine.push(stack).expect("there is room now");
        } else {
            put_one(stack);
        }
    });
}

/// Gives all that this thread keeps to the depot.
pub(super) fn flush_all() {
    LOCAL.with(|local| {
        for class in SizeClass::all() {
            let magazine = local.magazines[class.index()].get();
            while magazine.len.load(Ordering::Relaxed) > 0 {
                depot::put(class, magazine.shift(BATCH));
            }
        }
    });
}

fn put_one(stack: Stack) {
    let class = stack.slot.class();
    let mut pile = Pile::EMPTY;
    pile.push(stack);
    depot::put(class, pile);
}

impl Local {
    /// This thread's magazine for a class, made now if it may have one; else [`ABSENT`].
    fn magazine(&self, class: SizeClass) -> &'static Magazine {
        let entry = &self.magazines[class.index()];
        if !ptr::eq(entry.get(), &ABSENT) || self.direct.get() {
            return entry.get();
        }
        if annotate::on_valgrind() || AT_EXIT.try_with(|_| ()).is_err() {
            self.direct.set(true);
            return &ABSENT;
        }
        // Freed by `AtExit`, after the entry was reset.
        let magazine = Box::leak(Box::new(Magazine::new(Some(class), class.warm_limit() as u32)));
        depot::lock().magazines.add(magazine);
        entry.set(magazine);
        magazine
    }
}

/// Gives a thread's magazines back when it ends.
struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        flush_all();
        LOCAL.with(|local| {
            local.direct.set(true);
            for entry in &local.magazines {
                let magazine = entry.replace(&ABSENT);
                if !ptr::eq(magazine, &ABSENT) {
                    depot::lock().magazines.remove(magazine);
                    // SAFETY: it came from `Box::leak`, is empty, and neither the list nor the
                    // thread knows it any more.
                    drop(unsafe { Box::from_raw(ptr::from_ref(magazine).cast_mut()) });
                }
            }
        });
    }
}

/// All magazines of the process, linked. It is part of the depot, under its lock.
pub(super) struct List {
    head: *const Magazine,
}

// SAFETY: the list is used under the depot's lock, and magazines leave it before they are freed.
unsafe impl Send for List {}

impl List {
    pub(super) const EMPTY: List = List { head: ptr::null() };

    fn add(&mut self, magazine: &'static Magazine) {
        magazine.next.set(self.head);
        // SAFETY: what is in the list is alive.
        if let Some(head) = unsafe { self.head.as_ref() } {
            head.previous.set(magazine);
        }
        self.head = magazine;
    }

    fn remove(&mut self, magazine: &Magazine) {
        let (previous, next) = (magazine.previous.get(), magazine.next.get());
        // SAFETY: what is in the list is alive.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.head = next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }

    /// How many stacks of a class are in magazines.
    pub(super) fn count(&self, class: SizeClass) -> usize {
        let mut count = 0;
        let mut at = self.head;
        // SAFETY: what is in the list is alive.
        while let Some(magazine) = unsafe { at.as_ref() } {
            if magazine.class == Some(class) {
                count += magazine.len.load(Ordering::Relaxed) as usize;
            }
            at = magazine.next.get();
        }
        count
    }
}
