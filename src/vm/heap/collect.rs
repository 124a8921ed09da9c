//! One collection, from its begin to the point where allocation goes on.

use std::time::{Duration, Instant};

use super::local::LocalHeap;
use super::mark::{LEAST, Lent, Roots, Tracer};
use super::shared::Space;

/// Memory of the marking stack that is kept between collections.
const KEPT_STACK: usize = 1 << 16;
const _: () = assert!(KEPT_STACK >= LEAST);

/// What a collection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Bytes of objects that are live.
    pub live: usize,
    /// Objects that are live.
    pub objects: u64,
    /// How long the world stood still.
    pub pause: Duration,
}

impl LocalHeap {
    /// Frees all objects that the roots (and the heap's handles) do not reach. Values of the host
    /// that died are to be dropped afterwards: see [`LocalHeap::drop_dead`].
    ///
    /// If another carrier collects already, stands still instead until that is over, while its own roots
    /// are told there: `None`.
    ///
    /// # Panics
    ///
    /// If a reference to a freed object is met.
    ///
    /// # Safety
    ///
    /// The roots of all carriers that are [inside](LocalHeap::enter) tell every reference that will be used
    /// afterwards. They may be told on another thread, while this one stands still. If the heap is shared,
    /// this carrier is inside.
    pub unsafe fn collect(&mut self, roots: &mut dyn Roots) -> Option<Collected> {
        let begin = Instant::now();
        let shared = self.shared.clone();
        if shared.is_shared() {
            // For the others, which look at that.
            shared.want_collection();
        }
        let lent = Lent::new(roots);
        let Some(stopped) = shared.rendezvous.stop(&self.station, lent) else {
            self.retire();
            return None;
        };
        let used = shared.used();
        let mut space = shared.space();
        let mut hosts = shared.hosts();
        let space = &mut *space;
        space.arenas.iter_mut().for_each(|arena| arena.clear_marks());

        let stack = std::mem::take(&mut space.mark_stack);
        let mut tracer = Tracer::new(stack, shared.config.mark_stack, &shared.types, &hosts);
        shared.handles.trace(&mut tracer);
        roots.trace(&mut tracer);
        for lent in stopped.lent() {
            // SAFETY: their carriers stand still until `stopped` is dropped.
            unsafe { lent.trace(&mut tracer) };
        }
        tracer.drain();
        while tracer.take_overflow() {
            space.stats.stack_overflows += 1;
            rescan(space, &mut tracer);
        }
        let (objects, told) = (tracer.objects, tracer.roots);
        let mut stack = tracer.into_stack();
        stack.shrink_to(KEPT_STACK);
        space.mark_stack = stack;

        hosts.bury(Tracer::is_marked);
        let (live, committed) = space.sort_out(shared.config.poison);
        let stats = &mut space.stats;
        stats.collections += 1;
        shared.settle(live, committed, told, stats.collections);
        self.retire();

        let pause = begin.elapsed();
        stats.peak = stats.peak.max(used);
        stats.marked += live as u64;
        stats.pause_total += pause;
        stats.pause_max = stats.pause_max.max(pause);
        Some(Collected { live, objects, pause })
    }
}

/// After the stack overflowed: pushes the children of all marked objects again. The ones that are
/// marked already are met and left.
fn rescan(space: &Space, tracer: &mut Tracer<'_>) {
    tracer.rescanning = true;
    for arena in &space.arenas {
        for (unit, _) in arena.used() {
            arena.for_each_marked(unit, |address| {
                // SAFETY: only objects are marked.
                unsafe { tracer.scan(address) };
                tracer.drain();
            });
        }
    }
}
