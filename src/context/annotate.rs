//! What the sanitizers must be told about a switch.
//!
//! AddressSanitizer keeps the bounds of the current stack and a "fake stack" of its own;
//! ThreadSanitizer keeps a shadow call stack and a clock. Both need a call right before and, for
//! ASan, right after every switch. A [`Side`] is one stack as they know it. Built without a
//! sanitizer, a side has no size and its methods no code; build.rs sets the two cfgs.
//!
//! The order of calls, for a switch from A to B:
//!
//! ```text
//!   on A:  a.leave(&b)      the switch      on B:  b.arrive()
//! ```

#[cfg(pirn_asan)]
use core::ffi::c_void;

/// One stack, as the sanitizers know it.
#[derive(Debug)]
pub(crate) struct Side {
    #[cfg(pirn_asan)]
    fake_stack: *mut c_void,
    #[cfg(pirn_asan)]
    bottom: *const c_void,
    #[cfg(pirn_asan)]
    size: usize,
    #[cfg(pirn_tsan)]
    fiber: *mut core::ffi::c_void,
    /// Whether `fiber` was made for this side, instead of being a thread's own.
    #[cfg(pirn_tsan)]
    owned: bool,
}

#[cfg(pirn_asan)]
unsafe extern "C" {
    fn __sanitizer_start_switch_fiber(
        fake_stack_save: *mut *mut c_void,
        bottom: *const c_void,
        size: usize,
    );
    fn __sanitizer_finish_switch_fiber(
        fake_stack: *mut c_void,
        old_bottom: *mut *const c_void,
        old_size: *mut usize,
    );
}

#[cfg(pirn_asan)]
std::thread_local! {
    /// The side that is being left, between `leave` and `arrive`.
    static LEFT: core::cell::Cell<*mut Side> = const { core::cell::Cell::new(core::ptr::null_mut()) };
}

#[cfg(pirn_tsan)]
unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut core::ffi::c_void;
    fn __tsan_create_fiber(flags: core::ffi::c_uint) -> *mut core::ffi::c_void;
    fn __tsan_destroy_fiber(fiber: *mut core::ffi::c_void);
    fn __tsan_switch_to_fiber(fiber: *mut core::ffi::c_void, flags: core::ffi::c_uint);
}

impl Side {
    /// A side about to be left for the first time; what it is is learned then.
    #[inline(always)]
    pub(crate) const fn thread() -> Side {
        Side {
            #[cfg(pirn_asan)]
            fake_stack: core::ptr::null_mut(),
            #[cfg(pirn_asan)]
            bottom: core::ptr::null(),
            #[cfg(pirn_asan)]
            size: 0,
            #[cfg(pirn_tsan)]
            fiber: core::ptr::null_mut(),
            #[cfg(pirn_tsan)]
            owned: false,
        }
    }

    /// A stack of ours, about to be entered for the first time.
    #[inline(always)]
    pub(crate) fn stack(_bounds: impl FnOnce() -> (*mut u8, usize)) -> Side {
        #[cfg(pirn_asan)]
        let (_bottom, _size) = _bounds();
        Side {
            #[cfg(pirn_asan)]
            fake_stack: core::ptr::null_mut(),
            #[cfg(pirn_asan)]
            bottom: _bottom.cast_const().cast(),
            #[cfg(pirn_asan)]
            size: _size,
            // SAFETY: creating a fiber has no preconditions.
            #[cfg(pirn_tsan)]
            fiber: unsafe { __tsan_create_fiber(0) },
            #[cfg(pirn_tsan)]
            owned: true,
        }
    }

    /// Right before the switch from this side to another.
    ///
    /// # Safety
    ///
    /// Called on this side; nothing but the switch follows.
    #[inline(always)]
    pub(crate) unsafe fn leave(&mut self, _to: &Side) {
        // SAFETY: the caller switches to `to` next.
        #[cfg(pirn_asan)]
        unsafe {
            LEFT.set(self);
            __sanitizer_start_switch_fiber(&raw mut self.fake_stack, _to.bottom, _to.size);
        }
        // SAFETY: as above.
        #[cfg(pirn_tsan)]
        unsafe {
            self.fiber = __tsan_get_current_fiber();
            __tsan_switch_to_fiber(_to.fiber, 0);
        }
    }

    /// Right before the last switch away from this side, whose stack is dead after it.
    ///
    /// # Safety
    ///
    /// As for [`leave`](Self::leave), and this side must not be entered again.
    #[inline(always)]
    pub(crate) unsafe fn leave_for_good(&mut self, _to: &Side) {
        // SAFETY: null tells ASan to free the fake stack.
        #[cfg(pirn_asan)]
        unsafe {
            __sanitizer_start_switch_fiber(core::ptr::null_mut(), _to.bottom, _to.size);
        }
        // SAFETY: as above.
        #[cfg(pirn_tsan)]
        unsafe {
            __tsan_switch_to_fiber(_to.fiber, 0);
        }
    }

    /// Right after the switch to this side from another, which has called [`leave`](Self::leave).
    ///
    /// The other side's bounds are learned here: a fiber that waits inside a coroutine leaves a
    /// stack that is not its own.
    ///
    /// # Safety
    ///
    /// Called on this side.
    #[inline(always)]
    pub(crate) unsafe fn arrive(&mut self) {
        // SAFETY: ends what `leave` on the other side began; that side is alive, or null.
        #[cfg(pirn_asan)]
        unsafe {
            let (mut bottom, mut size) = (core::ptr::null(), 0);
            __sanitizer_finish_switch_fiber(self.fake_stack, &raw mut bottom, &raw mut size);
            let left = LEFT.replace(core::ptr::null_mut());
            if !left.is_null() {
                (*left).bottom = bottom;
                (*left).size = size;
            }
        }
    }

    /// Forgets a side that was left for good.
    ///
    /// # Safety
    ///
    /// Called on another side, once.
    #[inline(always)]
    pub(crate) unsafe fn discard(&mut self) {
        // SAFETY: the fiber was made in `stack` and is not the current one.
        #[cfg(pirn_tsan)]
        unsafe {
            if self.owned {
                __tsan_destroy_fiber(self.fiber);
            }
        }
    }
}
