//! What the machines of a call have in common: one of them owns it, and the others point to it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A box, or a pointer to what is in another one.
pub(crate) struct Common<T> {
    value: NonNull<T>,
    owns: bool,
}

// SAFETY: as a box; who shares it says that it is used by one at a time.
unsafe impl<T: Send> Send for Common<T> {}

impl<T> Common<T> {
    pub(crate) fn new(value: T) -> Common<T> {
        Common { value: NonNull::from(Box::leak(Box::new(value))), owns: true }
    }

    /// Another one of the same value.
    ///
    /// # Safety
    ///
    /// The owner outlives it, and no two of them are used at once.
    pub(crate) unsafe fn share(&self) -> Common<T> {
        Common { value: self.value, owns: false }
    }
}

impl<T: Default> Default for Common<T> {
    fn default() -> Common<T> {
        Common::new(T::default())
    }
}

impl<T> Deref for Common<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: it is there while this is, and not used by others meanwhile: see `share`.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Common<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Common<T> {
    fn drop(&mut self) {
        if self.owns {
            // SAFETY: it came from a box, and goes with its owner.
            drop(unsafe { Box::from_raw(self.value.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Common<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
