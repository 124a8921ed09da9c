//! What the carriers of a virtual machine share of its heap: memory, limits, accounts.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::arena::{self, Arena, UNIT, Unit};
use super::handles::HandleTable;
use super::host::HostTable;
use super::layout::Types;
use super::local::LocalHeap;
use super::mark::{LEAST, Lent};
use super::rendezvous::Rendezvous;
use super::size::{CLASSES, SIZES};

/// How a heap behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The most bytes that may be in use.
    pub limit: usize,
    /// No collection is due before so many bytes were allocated, however few are live. While few are,
    /// memory that is used again soon is still in the caches; a collection that has some work to do
    /// waits longer, up to eight times this.
    pub min_threshold: usize,
    /// A collection is due when the bytes in use are so many percent of those that the last one left.
    pub growth_percent: u32,
    /// Collect at every safepoint that allocates, and poison.
    pub stress: bool,
    /// The collections after which stress is over.
    pub stress_most: u64,
    /// Fill what a collection frees with [`POISON`](super::object::POISON).
    pub poison: bool,
    /// Seeds the hash of dictionaries. The same seed gives the same hashes.
    pub seed: u64,
    /// Bytes that the marking stack may take; at least a few thousand.
    pub mark_stack: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            limit: usize::MAX / 2,
            min_threshold: 1 << 20,
            growth_percent: 200,
            stress: false,
            stress_most: u64::MAX,
            poison: false,
            seed: 0,
            mark_stack: 256 << 20,
        }
    }
}

/// The heap's limit (or the system) leaves no room for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapFull {
    /// Bytes that were asked for; `usize::MAX` for a size that no object can have.
    pub requested: usize,
}

impl fmt::Display for HeapFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requested == usize::MAX {
            return f.write_str("out of memory: no object can be that large");
        }
        write!(f, "out of memory: no room for {} bytes under the heap's limit", self.requested)
    }
}

impl std::error::Error for HeapFull {}

/// What a heap did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub collections: u64,
    /// Bytes in use: live at the last collection, allocated since, reported by others.
    pub used: usize,
    /// Of these, reported by others.
    pub external: usize,
    /// The most bytes that were in use at a collection's begin, or now.
    pub peak: usize,
    /// Bytes live after the last collection.
    pub live: usize,
    /// Bytes that all allocations took, in cells.
    pub allocated: u64,
    /// Bytes of objects marked in all collections.
    pub marked: u64,
    /// Bytes of blocks and large objects that are held from the system, idle ones not counted.
    pub committed: usize,
    /// How long the world stood still, in all.
    pub pause_total: Duration,
    /// The longest of the pauses.
    pub pause_max: Duration,
    /// Collections in which the marking stack could not grow.
    pub stack_overflows: u64,
}

/// Memory and lists of blocks, behind the lock.
#[derive(Debug)]
pub(super) struct Space {
    pub arenas: Vec<Arena>,
    /// Blocks of each class with free cells, not looked through since the last collection.
    pub unswept: [Vec<u64>; CLASSES],
    /// Kept from one collection to the next.
    pub mark_stack: Vec<u64>,
    pub stats: Stats,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub types: Types,
    pub config: Config,
    limit: AtomicUsize,
    threshold: AtomicUsize,
    /// Bytes live after the last collection.
    live: AtomicUsize,
    /// Bytes handed out since then.
    fresh: AtomicUsize,
    external: AtomicUsize,
    /// Bytes of blocks and spans.
    committed: AtomicUsize,
    allocated: AtomicU64,
    wanted: AtomicBool,
    /// How many collections there were.
    collections: AtomicU64,
    pub rendezvous: Rendezvous<Lent>,
    pub space: Mutex<Space>,
    pub handles: Arc<HandleTable>,
    pub hosts: Mutex<HostTable>,
}

/// A block that a carrier takes cells from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// 0 if there is none.
    pub address: u64,
    /// Where to look for the next run.
    pub next: usize,
    /// Free cells are known to be zero.
    pub clean: bool,
}

/// Blocks of small objects may take so much more than the limit, where cells are left in most.
fn committed_limit(limit: usize) -> usize {
    limit.saturating_mul(2).saturating_add(CLASSES * UNIT)
}

impl Shared {
    pub fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn hosts(&self) -> MutexGuard<'_, HostTable> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn used(&self) -> usize {
        let own = self.live.load(Relaxed).saturating_add(self.fresh.load(Relaxed));
        own.saturating_add(self.external.load(Relaxed))
    }

    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.rendezvous.carriers() > 1
    }

    pub fn wants_collection(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    pub fn want_collection(&self) {
        self.wanted.store(true, Relaxed);
    }

    /// Counts bytes as in use, unless they would pass the limit.
    pub fn charge(&self, bytes: usize) -> Result<(), HeapFull> {
        let fresh = self.fresh.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let used = self.used();
        if used > self.limit() {
            self.fresh.fetch_sub(bytes, Relaxed);
            self.want_collection();
            return Err(HeapFull { requested: bytes });
        }
        self.allocated.fetch_add(bytes as u64, Relaxed);
        if fresh.saturating_add(self.external.load(Relaxed)) >= self.threshold.load(Relaxed) {
            self.want_collection();
        }
        Ok(())
    }

    /// Takes back a charge for what could not be had.
    pub fn uncharge(&self, bytes: usize) {
        self.fresh.fetch_sub(bytes, Relaxed);
        self.allocated.fetch_sub(bytes as u64, Relaxed);
    }

    /// Counts bytes that lie elsewhere. Never fails: [`Shared::charge`] will.
    pub fn account(&self, delta: isize) {
        let add = |old: usize| Some(old.saturating_add_signed(delta));
        // The closure never refuses.
        let old = self.external.fetch_update(Relaxed, Relaxed, add).unwrap_or_default();
        let external = old.saturating_add_signed(delta);
        let fresh = self.fresh.load(Relaxed);
        if delta > 0
            && (fresh.saturating_add(external) >= self.threshold.load(Relaxed)
                || self.used() > self.limit())
        {
            self.want_collection();
        }
    }

    fn take(&self, space: &mut Space, what: Unit) -> Result<(u64, bool), HeapFull> {
        let requested = match what {
            Unit::Span { bytes } => bytes,
            _ => UNIT,
        };
        let bytes = requested.next_multiple_of(UNIT);
        let committed = self.committed.load(Relaxed).saturating_add(bytes);
        if committed > committed_limit(self.limit()) {
            self.want_collection();
            return Err(HeapFull { requested });
        }
        if arena::shares_arena(requested) {
            let shared = |arena: &&mut Arena| arena.reserved() == arena::ARENA;
            let mut arenas = space.arenas.iter_mut().filter(shared);
            if let Some(taken) = arenas.find_map(|arena| arena.take(what)) {
                self.committed.store(committed, Relaxed);
                return Ok(taken);
            }
        }
        let mut arena = Arena::new(requested).map_err(|_| HeapFull { requested })?;
        let taken = arena.take(what).ok_or(HeapFull { requested })?;
        if !space.arenas.is_empty() {
            arena.prefer_huge_pages();
        }
        space.arenas.push(arena);
        self.committed.store(committed, Relaxed);
        Ok(taken)
    }

    /// A block with free cells of a class: one that the last collection left, or a new one.
    pub fn take_block(&self, class: usize) -> Result<Block, HeapFull> {
        let mut space = self.space();
        if let Some(address) = space.unswept[class].pop() {
            return Ok(Block { address, next: 0, clean: false });
        }
        let (address, clean) = self.take(&mut space, Unit::Block { class: class as u8 })?;
        Ok(Block { address, next: 0, clean })
    }

    /// Memory for a large object, already charged; tells whether it is zero.
    pub fn take_span(&self, bytes: usize) -> Result<(u64, bool), HeapFull> {
        self.take(&mut self.space(), Unit::Span { bytes })
    }

    /// After the so-manieth collection, which was told so many roots: what is live, and when the next
    /// one is due.
    pub fn settle(&self, live: usize, committed: usize, roots: u64, collections: u64) {
        self.collections.store(collections, Relaxed);
        self.live.store(live, Relaxed);
        self.fresh.store(0, Relaxed);
        self.committed.store(committed, Relaxed);
        let external = self.external.load(Relaxed);
        let base = live.saturating_add(external);
        let growth = self.config.growth_percent.saturating_sub(100).max(1) as u128;
        let share = (base as u128 * growth / 100).min(usize::MAX as u128 / 2) as usize;
        // A root costs about as much as 64 bytes of objects.
        let work = live.saturating_add((roots as usize).saturating_mul(64));
        let least = self.config.min_threshold;
        let small = work.saturating_mul(4).clamp(least, least.saturating_mul(8));
        let threshold = share.max(small);
        // `external` is compared together with what is fresh.
        self.threshold.store(threshold.saturating_add(external), Relaxed);
        let stressed = self.config.stress && collections < self.config.stress_most;
        self.wanted.store(stressed, Relaxed);
    }

    /// How many collections there were. Exact for a carrier that is inside.
    pub fn collections(&self) -> u64 {
        // Relaxed: the rendezvous orders it.
        self.collections.load(Relaxed)
    }

    pub fn stats(&self) -> Stats {
        let used = self.used();
        let stats = self.space().stats;
        Stats {
            used,
            external: self.external.load(Relaxed),
            peak: stats.peak.max(used),
            live: self.live.load(Relaxed),
            allocated: self.allocated.load(Relaxed),
            committed: self.committed.load(Relaxed),
            ..stats
        }
    }
}

impl Space {
    /// After marking: frees what is not marked and lists blocks with free cells. Returns the bytes
    /// that are live and those of blocks and spans.
    pub fn sort_out(&mut self, poison: bool) -> (usize, usize) {
        self.unswept.iter_mut().for_each(Vec::clear);
        let (mut live, mut committed) = (0, 0);
        for arena in &mut self.arenas {
            let used: Vec<_> = arena.used().collect();
            for (unit, what) in used {
                let marked = arena.marked(unit);
                if poison {
                    arena.poison(unit);
                }
                match what {
                    _ if marked == 0 => arena.free(unit),
                    Unit::Block { class } => {
                        let cell = SIZES[class as usize];
                        live += marked * cell;
                        committed += UNIT;
                        if marked < UNIT / cell {
                            self.unswept[class as usize].push(arena.address(unit));
                        }
                    }
                    Unit::Span { bytes } => {
                        live += bytes;
                        committed += bytes.next_multiple_of(UNIT);
                    }
                    Unit::Free { .. } | Unit::Tail => unreachable!("units in use"),
                }
            }
            arena.give_back();
        }
        // Low addresses first, so that the others empty.
        self.unswept.iter_mut().for_each(|blocks| blocks.reverse());
        // One empty arena stays; mappings for one object go with it.
        let mut spare = 1;
        self.arenas.retain(|arena| {
            if !arena.is_empty() {
                return true;
            }
            let keep = spare > 0 && arena.reserved() == arena::ARENA;
            spare -= u32::from(keep);
            keep
        });
        (live, committed)
    }
}

/// The heap of a virtual machine: the part that its carriers share. Cloning gives another reference
/// to the same heap.
#[derive(Clone, Debug)]
pub struct Heap {
    pub(super) shared: Arc<Shared>,
}

impl Heap {
    /// An empty heap. Takes no memory from the system until something is allocated.
    pub fn new(config: Config) -> Heap {
        let space = Space {
            arenas: Vec::new(),
            unswept: [const { Vec::new() }; CLASSES],
            mark_stack: Vec::with_capacity(LEAST),
            stats: Stats::default(),
        };
        let config = Config { poison: config.poison || config.stress, ..config };
        let shared = Shared {
            types: Types::new(),
            limit: AtomicUsize::new(config.limit),
            threshold: AtomicUsize::new(config.min_threshold),
            live: AtomicUsize::new(0),
            fresh: AtomicUsize::new(0),
            external: AtomicUsize::new(0),
            committed: AtomicUsize::new(0),
            allocated: AtomicU64::new(0),
            wanted: AtomicBool::new(config.stress && config.stress_most > 0),
            collections: AtomicU64::new(0),
            rendezvous: Rendezvous::new(),
            space: Mutex::new(space),
            handles: Arc::new(HandleTable::new()),
            hosts: Mutex::new(HostTable::default()),
            config,
        };
        Heap { shared: Arc::new(shared) }
    }

    /// The allocating end for one carrier more. To be called while none runs that was the only one: what
    /// one carrier does alone, it does without locks.
    pub fn local(&self) -> LocalHeap {
        LocalHeap::new(self.shared.clone())
    }

    /// The table of runtime types.
    #[cfg(test)]
    pub fn types(&self) -> &Types {
        &self.shared.types
    }

    /// References that the host holds.
    pub fn handles(&self) -> &Arc<HandleTable> {
        &self.shared.handles
    }

    /// Changes the limit. What is in use already stays.
    pub fn set_limit(&self, bytes: usize) {
        self.shared.limit.store(bytes, Relaxed);
    }

    /// The most bytes that may be in use.
    pub fn limit(&self) -> usize {
        self.shared.limit()
    }

    /// Counts bytes that others hold on behalf of scripts: see [`LocalHeap::account`].
    #[allow(dead_code, reason = "for what other threads hold")]
    pub fn account(&self, delta: isize) {
        self.shared.account(delta);
    }
}
