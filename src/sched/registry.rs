//! All tasks of a carrier that have not ended: for reports, the debugger and the end.

use std::ptr::{self, NonNull};

use super::task::Task;

/// A dense table; each task knows its place. The debugger walks it as well.
pub(crate) struct Registry {
    pub(super) tasks: Vec<*const Task>,
    /// Places that are free.
    free: Vec<u32>,
}

/// The place of a task that is in no registry yet.
pub(crate) const NO_PLACE: u32 = u32::MAX;

impl Registry {
    pub(crate) fn new() -> Self {
        Registry { tasks: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn add(&mut self, task: NonNull<Task>) {
        let place = match self.free.pop() {
            Some(place) => {
                self.tasks[place as usize] = task.as_ptr();
                place
            }
            None => {
                self.tasks.push(task.as_ptr());
                u32::try_from(self.tasks.len() - 1).expect("fewer than 2^32 tasks")
            }
        };
        // SAFETY: the caller hands over a living task.
        unsafe { task.as_ref().party.registered.set(place) };
    }

    #[inline]
    pub(crate) fn remove(&mut self, task: &Task) {
        let place = task.party.registered.get();
        debug_assert!(ptr::eq(self.tasks[place as usize], task));
        self.tasks[place as usize] = ptr::null();
        self.free.push(place);
    }

    /// The tasks, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        // SAFETY: a task is removed before the runtime's reference to it is given up.
        self.tasks.iter().filter_map(|&task| unsafe { task.as_ref() })
    }
}
