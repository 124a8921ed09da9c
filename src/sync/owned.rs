//! Mutexes and semaphores as [resumables](crate::task) see them: polled, and held by guards that own
//! a share in what they guard, since a resumable keeps them from one resume to the next.
//!
//! The records are those of every waiter, so a resumable has its place among fibers and OS threads.

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LockResult, PoisonError};
use std::task::Poll;

use super::mutex::{Mutex, MutexGuard};
use super::semaphore::{AcquireError, Semaphore, SemaphorePermit};
use super::waiters::Record;
use crate::sched::Resource;
use crate::sched::party::ThreadId;
use crate::sched::registration::Pollable;
use crate::task::Context;

/// A parked task's share in a mutex.
struct Locking<T>(Arc<Mutex<T>>);

impl<T: 'static> Pollable for Locking<T> {
    type Item = ThreadId;

    fn resource(&self) -> *const Resource {
        self.0.raw().resource()
    }

    fn withdraw(&self, record: &Record<ThreadId>) {
        self.0.raw().withdraw(record);
    }
}

impl<T: 'static> Mutex<T> {
    /// [`lock`](Self::lock) for a [`Resumable`](crate::task::Resumable): pending while somebody else
    /// holds the mutex. It is handed to the task in its turn, which resumes it.
    ///
    /// A mutex that was handed to the task and is not taken, since the task does not poll again
    /// before its next resume is over, goes to the next who waits. As with `lock`, a task that holds
    /// the mutex and polls for it again waits for itself.
    ///
    /// # Errors
    ///
    /// When the mutex is poisoned; the error holds the guard.
    pub fn poll_lock(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
    ) -> Poll<LockResult<OwnedMutexGuard<T>>> {
        if self.raw().poll_lock(cx, || Locking(self.clone())).is_pending() {
            return Poll::Pending;
        }
        let (guard, poisoned) = match self.guard() {
            Ok(guard) => (guard, false),
            Err(error) => (error.into_inner(), true),
        };
        // SAFETY: the guard is dropped, or forgotten, before the share that keeps the mutex.
        let guard = unsafe { mem::transmute::<MutexGuard<'_, T>, MutexGuard<'static, T>>(guard) };
        let owned = OwnedMutexGuard { guard: ManuallyDrop::new(guard), _mutex: self.clone() };
        Poll::Ready(if poisoned { Err(PoisonError::new(owned)) } else { Ok(owned) })
    }
}

/// Gives the value out, and the mutex back when it is dropped; owns a share in the mutex. From
/// [`Mutex::poll_lock`].
#[must_use = "if unused the mutex is given back at once"]
pub struct OwnedMutexGuard<T: 'static> {
    guard: ManuallyDrop<MutexGuard<'static, T>>,
    _mutex: Arc<Mutex<T>>,
}

impl<T> Deref for OwnedMutexGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for OwnedMutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for OwnedMutexGuard<T> {
    fn drop(&mut self) {
        // SAFETY: dropped here, once.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
    }
}

impl<T: fmt::Debug> fmt::Debug for OwnedMutexGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A parked task's share in a semaphore.
struct Acquiring(Arc<Semaphore>);

impl Pollable for Acquiring {
    type Item = ();

    fn resource(&self) -> *const Resource {
        self.0.resource()
    }

    fn withdraw(&self, record: &Record<()>) {
        self.0.withdraw(record);
    }
}

impl Semaphore {
    /// [`acquire_many`](Self::acquire_many) for a [`Resumable`](crate::task::Resumable): pending
    /// while the permits are not available. The task has its turn among all who wait, and is resumed
    /// when they are its own.
    ///
    /// Permits that the task was given and does not take, since it does not poll again before its
    /// next resume is over, are given back. To ask for another number is to ask anew.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TooMany`].
    pub fn poll_acquire(
        self: &Arc<Self>,
        cx: &mut Context<'_>,
        permits: usize,
    ) -> Poll<Result<OwnedSemaphorePermit, AcquireError>> {
        let mut earlier = cx.find::<Acquiring>(self.resource());
        if let Some(other) = earlier.take_if(|earlier| earlier.record().kind != permits) {
            cx.withdraw(other);
        }
        match self.poll_take(cx, permits, earlier, || Acquiring(self.clone())) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let semaphore = self.clone();
                Poll::Ready(Ok(OwnedSemaphorePermit { semaphore, permits }))
            }
        }
    }
}

/// Permits of a [`Semaphore`], given back when it is dropped; owns a share in the semaphore. From
/// [`Semaphore::poll_acquire`].
#[derive(Debug)]
#[must_use = "if unused the permits are given back at once"]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl OwnedSemaphorePermit {
    /// How many permits these are.
    pub fn permits(&self) -> usize {
        self.permits
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        drop(SemaphorePermit::of(&self.semaphore, self.permits));
    }
}
