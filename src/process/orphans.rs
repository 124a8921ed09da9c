//! Children whose handles were dropped while they ran: once they have ended somebody must wait for them,
//! or they remain zombies.
//!
//! Nothing here waits, for a child or for the lock. A fork may leave the lock taken for ever in its
//! child, which has none of these children anyway.

use std::process::Child;
use std::sync::Mutex;

static ORPHANS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Takes over a child that nobody waits for.
pub(super) fn adopt(mut child: Child) {
    if goes_on(&mut child)
        && let Ok(mut orphans) = ORPHANS.try_lock()
    {
        orphans.push(child);
    }
}

/// Lets those go that have ended.
pub(super) fn reap() {
    if let Ok(mut orphans) = ORPHANS.try_lock() {
        orphans.retain_mut(goes_on);
    }
}

/// An error means that there is no such child any more.
fn goes_on(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}
