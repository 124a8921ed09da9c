//! Carriers that stop each other to look at what all of them have.

use std::sync::Arc as StdArc;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::heap::rendezvous::{Rendezvous, Station};

/// What each carrier has, which its carrier touches inside, and who has stopped the others.
struct World<const N: usize> {
    rendezvous: Rendezvous<usize>,
    own: [UnsafeCell<u32>; N],
}

// SAFETY: the rendezvous says who may touch what, which the model checker watches.
unsafe impl<const N: usize> Sync for World<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Send for World<N> {}

impl<const N: usize> World<N> {
    fn new() -> (Arc<Self>, [StdArc<Station>; N]) {
        let own = std::array::from_fn(|_| UnsafeCell::new(0));
        let world = World { rendezvous: Rendezvous::new(), own };
        let stations = std::array::from_fn(|_| world.rendezvous.join());
        (Arc::new(world), stations)
    }

    fn count(&self, who: usize) {
        // SAFETY: as above.
        self.own[who].with_mut(|own| unsafe { *own += 1 });
    }

    /// A safepoint of a carrier that wants a collection. True: it has made it.
    fn collect(&self, who: usize, station: &StdArc<Station>) -> bool {
        let Some(stopped) = self.rendezvous.stop(station, who) else { return false };
        assert!(!stopped.lent().contains(&who));
        (0..N).for_each(|who| self.count(who));
        true
    }

    fn run(&self, who: usize, station: &StdArc<Station>, collects: bool) -> bool {
        self.rendezvous.enter(station);
        self.count(who);
        let collected = collects && self.collect(who, station);
        self.count(who);
        self.rendezvous.leave(station);
        collected
    }

    fn total(&self) -> u32 {
        // SAFETY: as above; all have ended.
        self.own.iter().map(|own| own.with(|own| unsafe { *own })).sum()
    }
}

#[test]
fn nobody_is_inside_while_one_collects() {
    crate::check(4, || {
        let (world, [first, second]) = World::<2>::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                world.run(1, &second, false);
                world.run(1, &second, false);
                world.rendezvous.part(&second);
            })
        };
        assert!(world.run(0, &first, true), "nobody else collects");
        other.join().unwrap();
        assert_eq!(world.total(), 2 + 4 + 2);
    });
}

#[test]
fn of_several_that_want_to_collect_the_others_stand() {
    crate::check(3, || {
        let (world, [first, second]) = World::<2>::new();
        let other = {
            let world = world.clone();
            thread::spawn(move || {
                u32::from(world.run(1, &second, true)) + u32::from(world.run(1, &second, true))
            })
        };
        let collected = u32::from(world.run(0, &first, true));
        let collected = collected + other.join().unwrap();
        assert!(collected >= 1);
        assert_eq!(world.total(), 6 + 2 * collected);
    });
}

#[test]
fn a_third_one_comes_and_goes_while_two_collect() {
    crate::check(2, || {
        let (world, [first, second, third]) = World::<3>::new();
        let spawn = |who: usize, station: StdArc<Station>, collects: bool| {
            let world = world.clone();
            thread::spawn(move || u32::from(world.run(who, &station, collects)))
        };
        let others = [spawn(1, second, true), spawn(2, third, false)];
        let mut collected = u32::from(world.run(0, &first, true));
        for other in others {
            collected += other.join().unwrap();
        }
        assert!(collected >= 1);
        assert_eq!(world.total(), 6 + 3 * collected);
    });
}
