//! How a value crosses from one stack to the other.
//!
//! A switch carries one word. A value that fits travels in it; a larger one stays where it is, on
//! the stack of the side that switches away, and the word is its address: the other side moves it
//! out first thing, before anything else can touch that stack.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use crate::context::Word;

/// Whether values of type `T` travel in the word itself.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<*mut u8>() && align_of::<T>() <= align_of::<*mut u8>()
}

/// Turns a value into the word that carries it.
///
/// The value must stay in place until the other side has [received](receive) it, and must not be
/// dropped here afterwards: hence `ManuallyDrop`.
#[inline(always)]
pub(super) fn send<T>(value: &mut ManuallyDrop<T>) -> Word {
    let address: *mut T = &mut **value;
    let mut word = Word::uninit();
    if fits::<T>() {
        // SAFETY: T fits into the word in size and alignment.
        unsafe { word.as_mut_ptr().cast::<T>().copy_from_nonoverlapping(address, 1) };
    } else {
        word = MaybeUninit::new(address.cast());
    }
    word
}

/// Takes over the value that a word carries.
///
/// # Safety
///
/// `word` must come from [`send::<T>`](send), whose value must still be in place and not received
/// before.
#[inline(always)]
pub(super) unsafe fn receive<T>(word: Word) -> T {
    if fits::<T>() {
        // SAFETY: the word holds the bytes of a T.
        unsafe { ptr::from_ref(&word).cast::<T>().read() }
    } else {
        // SAFETY: the word is the address of a T that nobody else will read.
        unsafe { word.assume_init().cast::<T>().read() }
    }
}
