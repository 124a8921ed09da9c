//! A fixed-size, inline pile of stacks: what batches are made of. It never allocates.

use core::mem::MaybeUninit;

use super::Stack;

/// Up to `N` stacks, last in, first out. Like a [`Stack`], a pile that is dropped leaks what it
/// holds.
pub(super) struct Pile<const N: usize> {
    len: usize,
    /// The first `len` are initialised.
    items: [MaybeUninit<Stack>; N],
}

impl<const N: usize> Pile<N> {
    pub(super) const EMPTY: Pile<N> = Pile { len: 0, items: [const { MaybeUninit::uninit() }; N] };

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a stack. Panics when the pile is full.
    pub(super) fn push(&mut self, stack: Stack) {
        self.items[self.len].write(stack);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Stack> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: this item was initialised, and is no longer counted.
        Some(unsafe { self.items[self.len].assume_init_read() })
    }

    /// Moves everything over to `other`, which has room for it.
    pub(super) fn pour<const M: usize>(&mut self, other: &mut Pile<M>) {
        while let Some(stack) = self.pop() {
            other.push(stack);
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Stack] {
        // SAFETY: the first `len` items are initialised.
        unsafe { core::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.len) }
    }
}
