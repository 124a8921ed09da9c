//! Several carriers on one heap.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::*;

/// A carrier as a test drives it: its end of the heap, and its roots.
struct Driver {
    local: LocalHeap,
    node: TypeIndex,
    roots: Vec<u64>,
}

impl Driver {
    fn new(heap: &Heap, node: TypeIndex) -> Driver {
        let local = heap.local();
        local.enter();
        Driver { local, node, roots: Vec::new() }
    }

    /// What interpreters do where they may collect. True: this one has.
    fn safepoint(&mut self) -> bool {
        self.local.wants_collection() && self.collect().is_some()
    }

    fn collect(&mut self) -> Option<Collected> {
        let roots = &self.roots;
        // SAFETY: what is used is in the roots, of all carriers that are inside.
        unsafe { self.local.collect(&mut |tracer: &mut Tracer<'_>| tracer.references(roots)) }
    }

    /// Puts a node in front of the list that is the only root.
    fn prepend(&mut self, value: u64) {
        let node = self.local.new_instance(self.node).unwrap();
        // SAFETY: a node has these fields; the list is alive, or null.
        unsafe {
            object::set_field(node, 0, value);
            object::set_field(node, 1, self.roots.pop().unwrap_or(0));
        }
        self.roots.push(node);
    }

    /// The values of that list.
    fn values(&self) -> impl Iterator<Item = u64> {
        let next = |&node: &u64| Some(field(node, 1)).filter(|&node| node != 0);
        std::iter::successors(self.roots.last().copied(), next).map(|node| field(node, 0))
    }
}

#[test]
fn two_carriers_allocate_apart() {
    let mut world = World::strict();
    let heap = world.local.heap();
    let node = world.types.node;
    let spawn = |value| {
        let heap = heap.clone();
        std::thread::spawn(move || {
            let driver = Driver::new(&heap, node);
            let objects: Vec<u64> = (0..50_000)
                .map(|_| {
                    let object = driver.local.new_instance(node).unwrap();
                    // SAFETY: the new object's field.
                    unsafe { object::set_field(object, 0, value) };
                    object
                })
                .collect();
            objects
        })
    };
    let threads = [spawn(1), spawn(2)];
    let [ones, twos] = threads.map(|thread| thread.join().unwrap());
    assert!(ones.iter().all(|&object| field(object, 0) == 1));
    assert!(twos.iter().all(|&object| field(object, 0) == 2));
    world.roots = ones;
    assert_eq!(world.collect().objects, 50_000);
}

/// Carriers that make lists and lose them, collect whenever one of them wants to, and leave now and then.
/// What is wrongly freed is poisoned, and found when the list is read or traced.
fn work_side_by_side(config: Config, rounds: u64, length: u64) -> Stats {
    let world = World::new(Config { poison: true, ..config });
    let (heap, node) = (world.local.heap(), world.types.node);
    let carriers: Vec<_> = (0..4)
        .map(|n| {
            let heap = heap.clone();
            std::thread::spawn(move || {
                let mut driver = Driver::new(&heap, node);
                for round in 0..rounds {
                    for i in 0..length {
                        driver.safepoint();
                        driver.prepend(n << 32 | round << 16 | i);
                    }
                    let expected = (0..length).rev().map(|i| n << 32 | round << 16 | i);
                    assert!(driver.values().eq(expected), "carrier {n}, round {round}");
                    driver.roots.clear();
                    driver.local.leave();
                    driver.local.enter();
                }
            })
        })
        .collect();
    carriers.into_iter().for_each(|carrier| carrier.join().unwrap());
    world.local.stats()
}

#[test]
fn each_collection_sees_the_roots_of_all_carriers() {
    let stressed = work_side_by_side(Config { stress: true, ..Config::default() }, 10, 60);
    // Each safepoint is one of a collection; four carriers can share it.
    assert!(stressed.collections >= 600, "{stressed:?}");
    let config = Config { min_threshold: 16 << 10, ..Config::default() };
    let often = work_side_by_side(config, 60, 500);
    assert!(often.collections > 10, "{often:?}");
    assert!(often.used < 4 << 20, "{often:?}");
}

#[test]
fn a_carrier_that_is_away_does_not_hold_up_a_collection() {
    let mut world = World::strict();
    let (heap, node) = (world.local.heap(), world.types.node);
    let mut away = Driver::new(&heap, node);
    away.prepend(1);
    away.local.leave();
    world.local.enter();
    // What it has is told by somebody else meanwhile; the cells that it has not used are free for others.
    world.roots.clone_from(&away.roots);
    assert_eq!(world.collect().objects, 1);
    let others: Vec<u64> = (0..200).map(|i| world.node(i, 0, 0)).collect();
    away.local.enter();
    away.prepend(2);
    assert!(away.values().eq([2, 1]));
    assert!(others.iter().zip(0..).all(|(&other, i)| field(other, 0) == i));
}

#[test]
fn a_carrier_comes_back_when_the_collection_is_over() {
    let mut world = World::strict();
    let heap = world.local.heap();
    world.local.enter();
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let back = scope.spawn(|| {
            let local = heap.local();
            while !begun.load(Acquire) {
                std::thread::yield_now();
            }
            local.enter();
            over.load(Relaxed)
        });
        while !world.local.is_shared() {
            std::thread::yield_now();
        }
        let mut roots = |_: &mut Tracer<'_>| {
            begun.store(true, Release);
            // It has the time to come back too early.
            (0..1000).for_each(|_| std::thread::yield_now());
            over.store(true, Relaxed);
        };
        // SAFETY: there are no objects.
        assert!(unsafe { world.local.collect(&mut roots) }.is_some());
        world.local.leave();
        assert!(back.join().unwrap());
    });
}

#[test]
fn a_carrier_that_goes_for_good_is_not_waited_for() {
    let mut world = World::strict();
    let (heap, node) = (world.local.heap(), world.types.node);
    let mut gone = Driver::new(&heap, node);
    gone.prepend(1);
    assert!(world.local.is_shared());
    drop(gone);
    assert!(!world.local.is_shared());
    assert_eq!(world.collect().objects, 0);
}
