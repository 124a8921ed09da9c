//! Asking a suspended fiber for a backtrace of itself.

use super::*;

impl Carrier {
    /// Takes this fiber's backtrace for somebody else, and goes back to being suspended.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn answer(&self, capture: &mut Capture) -> (*mut u8, usize) {
        let fiber = self.running();
        capture.backtrace = Some(Backtrace::force_capture());
        // SAFETY: the asker is suspended in `backtrace_of`.
        unsafe {
            (*fiber).side.leave(&capture.asker_side);
            let (word, tag) = context::switch(
                &raw mut (*fiber).context,
                &raw const capture.asker,
                Word::new(ptr::null_mut()),
                arrival::RESUME,
            );
            (*fiber).side.arrive();
            // RESUME's word may be undefined: nobody looks at it.
            (if tag == arrival::RESUME { ptr::null_mut() } else { word.assume_init() }, tag)
        }
    }

    /// The backtrace of a suspended fiber; `None` when there is too little stack left on it, or it
    /// has not begun.
    pub(crate) fn backtrace_of(&self, task: &Task) -> Option<Backtrace> {
        let fiber = NonNull::new(task.fiber.get())?.as_ptr();
        let here = self.running();
        if fiber == here {
            return Some(Backtrace::force_capture());
        }
        // SAFETY: the task is alive, and so is its fiber, which is suspended: it is not the running
        // one. It was started, since it has a stack and does not run.
        unsafe {
            let sp = (*fiber).context.sp().addr();
            if stack::bounds_at(sp).is_none_or(|bounds| sp - bounds.start < CAPTURE_ROOM) {
                return None;
            }
            let mut capture =
                Capture { backtrace: None, asker: Context::empty(), asker_side: Side::thread() };
            let request: *mut Capture = &raw mut capture;
            self.set_running(fiber);
            (*request).asker_side.leave(&(*fiber).side);
            context::switch(
                &raw mut (*request).asker,
                &raw const (*fiber).context,
                Word::new(request.cast()),
                arrival::CAPTURE,
            );
            (*request).asker_side.arrive();
            self.set_running(here);
            capture.backtrace
        }
    }
}
