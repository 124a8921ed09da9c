//! Children whose handles were dropped while they ran: once they have ended somebody must wait for them,
//! or they remain zombies.
//!
//! They lie in a stack of links that is only pushed to and taken as a whole (R. K. Treiber, *Systems
//! Programming: Coping with Parallelism*, 1986), so there is no lock. Nobody waits for one here, no
//! child is lost because another thread held it, and none remains taken in the child of a fork.

use std::process::Child;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

static ORPHANS: AtomicPtr<Orphan> = AtomicPtr::new(ptr::null_mut());

struct Orphan {
    child: Child,
    next: *mut Orphan,
}

/// Takes over a child that nobody waits for.
pub(super) fn adopt(mut child: Child) {
    if goes_on(&mut child) {
        push(Box::new(Orphan { child, next: ptr::null_mut() }));
    }
}

/// Lets those go that have ended.
pub(super) fn reap() {
    // Acquire: pairs with the release in `push`. Whoever comes meanwhile finds none, and need not.
    let mut next = ORPHANS.swap(ptr::null_mut(), Ordering::Acquire);
    while !next.is_null() {
        // SAFETY: a link comes from a box in `push`, and the exchange has made all of them ours.
        let mut orphan = unsafe { Box::from_raw(next) };
        next = orphan.next;
        if goes_on(&mut orphan.child) {
            push(orphan);
        }
    }
}

fn push(orphan: Box<Orphan>) {
    let orphan = Box::into_raw(orphan);
    let mut first = ORPHANS.load(Ordering::Relaxed);
    loop {
        // SAFETY: nobody else knows it yet.
        unsafe { (*orphan).next = first };
        // Release: the link is written when another thread finds it. That `first` may have been taken
        // and pushed again meanwhile does no harm: it is the first of what is there all the same.
        match ORPHANS.compare_exchange_weak(first, orphan, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// An error means that there is no such child any more, as in a process that was forked since.
fn goes_on(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Whether it runs, or nobody has waited for it yet.
    fn is_there(pid: u32) -> bool {
        // SAFETY: asks only.
        unsafe { libc::kill(pid.cast_signed(), 0) == 0 }
    }

    #[test]
    fn no_child_is_lost_where_several_threads_adopt_and_reap() {
        let start = Barrier::new(3);
        let (pids, inputs): (Vec<_>, Vec<_>) = thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut children: Vec<_> = (0..8)
                            .map(|_| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
                            .collect();
                        let pids: Vec<_> = children.iter().map(Child::id).collect();
                        let inputs: Vec<_> =
                            children.iter_mut().map(|child| child.stdin.take()).collect();
                        start.wait();
                        children.into_iter().for_each(adopt);
                        (pids, inputs)
                    })
                })
                .collect();
            start.wait();
            (0..1000).for_each(|_| reap());
            threads.into_iter().map(|thread| thread.join().unwrap()).unzip()
        });
        drop(inputs);
        // Each ends soon, and then one turn waits for it.
        let mut tries = 0;
        while let Some(pid) = pids.iter().flatten().copied().find(|&pid| is_there(pid)) {
            tries += 1;
            assert!(tries < 60_000, "nobody waits for the child {pid}");
            reap();
            thread::sleep(Duration::from_millis(1));
        }
    }
}
