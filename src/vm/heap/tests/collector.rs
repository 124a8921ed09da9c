use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

#[test]
fn what_roots_reach_stays_and_the_rest_goes() {
    let mut world = World::strict();
    let leaf = world.node(7, 0, 0);
    let kept = world.node(1, leaf, 0);
    let lost = world.node(2, kept, 0);
    world.roots = vec![0, kept];
    let collected = world.collect();
    assert_eq!((collected.objects, collected.live), (2, 64));
    assert_eq!((field(kept, 1), field(leaf, 0)), (leaf, 7));
    assert_eq!(field(lost, 0), object::POISON);
    // The cell is used again, and zero.
    let again = world.local.new_instance(world.types.node).unwrap();
    assert_eq!((again, field(again, 0), field(again, 1)), (lost, 0, 0));
}

#[test]
#[should_panic(expected = "a reference to a freed object")]
fn a_stale_reference_is_noticed() {
    let mut world = World::strict();
    let stale = world.node(1, 0, 0);
    let other = world.node(2, 0, 0);
    world.roots = vec![other];
    world.collect();
    world.roots.push(stale);
    world.collect();
}

#[test]
fn every_kind_of_reference_is_followed() {
    let mut world = World::strict();
    let types = world.types;
    let mut live = 0;
    let mut leaves = Vec::new();
    let mut leaf = |world: &World, value| {
        let leaf = world.node(value, 0, 0);
        leaves.push((leaf, value));
        leaf
    };
    let wide = world.local.new_instance(types.wide).unwrap();
    for slot in [30, 31, 200, 329] {
        let leaf = leaf(&world, slot as u64);
        // SAFETY: reference fields of the wide type.
        unsafe { object::set_field(wide, slot, leaf) };
    }
    let array = world.local.new_array(types.references, 1000).unwrap();
    for i in [0, 255, 256, 999] {
        let leaf = leaf(&world, i);
        // SAFETY: elements of the array.
        unsafe { object::set_element(array, i, leaf) };
    }
    let list = world.container(types.list);
    let dict = world.container(types.by_reference);
    let named = world.container(types.by_string);
    for i in 0..600 {
        let (element, key, value) = (leaf(&world, i), leaf(&world, i), leaf(&world, i));
        let name = world.local.new_string(format!("name {i}").as_bytes()).unwrap().word();
        // SAFETY: objects of this heap.
        unsafe {
            world.list(list).add(element).unwrap();
            world.dict(dict).set(key, value).unwrap();
            world.dict(named).set(name, i).unwrap();
        }
        live += 1;
    }
    let receiver = leaf(&world, 5);
    let function = world.local.new_function(types.function, 3, receiver).unwrap();
    let boxed = world.local.new_box(types.boxed, 0x1234_5671).unwrap();
    world.roots = vec![wide, array, list, dict, named, function, boxed];
    for _ in 0..3 {
        let collected = world.collect();
        // The strings, the seven, two buffers of the list and dictionaries each, two indices.
        let parts = live + 7 + 1 + 2 + 2;
        assert_eq!(collected.objects, leaves.len() as u64 + parts);
        for &(leaf, value) in &leaves {
            assert_eq!(field(leaf, 0), value);
        }
        // SAFETY: the strings live.
        let name = world.local.new_string(b"name 599").unwrap().word();
        // SAFETY: as above.
        assert_eq!(unsafe { world.dict(named).get(name) }, Some(599));
    }
}

/// Chains that a recursive marker would need hundreds of megabytes of stack for, marked and freed on
/// a thread with little.
#[test]
fn deep_structures_need_no_native_stack() {
    // Elsewhere tests run under emulation.
    const DEPTH: u64 = if cfg!(target_arch = "x86_64") { 2_000_000 } else { 100_000 };
    let body = || {
        let mut world = World::new(Config::default());
        let types = world.types;
        type Link = fn(&World, u64) -> u64;
        let links: [(Link, u64); 7] = [
            (|world, next| world.node(1, next, 0), DEPTH),
            (|world, next| world.node(1, 0, next), DEPTH),
            (
                |world, next| {
                    let array = world.local.new_array(world.types.references, 1).unwrap();
                    // SAFETY: the element of the new array.
                    unsafe { object::set_element64(array, 0, next) };
                    array
                },
                DEPTH,
            ),
            (
                |world, next| {
                    let list = world.container(world.types.list);
                    // SAFETY: an object of this heap.
                    unsafe { world.list(list).add(next).unwrap() };
                    list
                },
                DEPTH,
            ),
            (
                |world, next| {
                    let dict = world.container(world.types.by_word);
                    // SAFETY: an object of this heap.
                    unsafe { world.dict(dict).set(1, next).unwrap() };
                    dict
                },
                DEPTH / 4,
            ),
            (
                |world, next| {
                    let dict = world.container(world.types.by_reference);
                    // SAFETY: an object of this heap.
                    unsafe { world.dict(dict).set(next, 0).unwrap() };
                    dict
                },
                DEPTH / 4,
            ),
            (|world, next| world.local.new_function(world.types.function, 0, next).unwrap(), DEPTH),
        ];
        for (link, depth) in links {
            let mut head = world.local.new_box(types.boxed, 9).unwrap();
            for _ in 0..depth {
                head = link(&world, head);
            }
            world.roots = vec![head];
            let objects = world.collect().objects;
            assert!(objects > depth, "{objects}");
            world.roots.clear();
            assert_eq!(world.collect().live, 0);
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap().join().unwrap();
}

/// Each object refers to hundreds of leaves and, last, to the next one, which is met first: so the
/// leaves pile up on the marking stack.
#[test]
fn marking_is_complete_when_its_stack_cannot_grow() {
    let config = Config { mark_stack: 0, poison: true, ..Config::default() };
    let mut world = World::new(config);
    let mut head = 0;
    for i in 0..300 {
        let leaf = world.node(i, 0, 0);
        let wide = world.local.new_instance(world.types.wide).unwrap();
        for slot in 30..330 {
            // SAFETY: reference fields of the wide type.
            unsafe { object::set_field(wide, slot, if slot == 329 { head } else { leaf }) };
        }
        head = wide;
    }
    let fan = world.local.new_array(world.types.references, 500).unwrap();
    for i in 0..500 {
        let inner = world.local.new_array(world.types.references, 700).unwrap();
        let node = world.node(i, head, 0);
        for j in [0, 1, 300, 699] {
            // SAFETY: elements of the arrays.
            unsafe { object::set_element64(inner, j, node) };
        }
        // SAFETY: as above.
        unsafe { object::set_element64(fan, i, inner) };
    }
    world.roots = vec![fan];
    let expected = 1 + 2 * 500 + 2 * 300;
    assert_eq!(world.collect().objects, expected);
    let passes = world.local.stats().stack_overflows;
    // Each pass through the heap works off a stack of 1,024 references at least, of 90,000.
    assert!(passes > 0 && passes < 200, "{passes}");
    assert_eq!(world.collect().objects, expected);
}

#[test]
fn the_limit_is_an_error_that_names_the_request() {
    let mut world = World::new(Config { limit: 16 << 20, ..Config::default() });
    let mut head = 0;
    let error = loop {
        match world.local.new_array(world.types.references, 10) {
            Ok(array) => {
                // SAFETY: the first element of the new array.
                unsafe { object::set_element64(array, 0, head) };
                head = array;
            }
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("out of memory"), "{error}");
    assert!(world.local.wants_collection());
    world.roots = vec![head];
    world.collect();
    let used = world.local.stats().used;
    assert!(used > 15 << 20 && used <= 16 << 20, "{used}");
    assert_eq!(
        world.local.new_array(world.types.ints, 1 << 20).unwrap_err().requested,
        (4 << 20) + 16
    );
    // Once the objects are gone there is room again.
    world.roots.clear();
    assert_eq!(world.collect().live, 0);
    world.local.new_array(world.types.ints, 1 << 20).unwrap();
}

#[test]
fn sizes_that_nothing_can_have_are_refused() {
    let world = World::new(Config::default());
    for length in [1 << 31, u64::MAX / 8, u64::MAX - 1, u64::MAX] {
        for ty in [world.types.references, world.types.ints, world.types.bytes] {
            assert!(world.local.new_array(ty, length).is_err());
        }
    }
    assert_eq!(world.local.stats().used, 0);
}

#[test]
fn a_request_that_the_system_refuses_is_an_error() {
    let heap = Heap::new(Config { limit: usize::MAX, ..Config::default() });
    let local = heap.local();
    let header = object::Header::new(object::Kind::String, STRING.0);
    assert!(local.allocate(1 << 60, header).is_err());
    assert!(local.allocate(usize::MAX, header).is_err());
    assert_eq!(local.stats().used, 0);
}

#[test]
fn what_others_hold_counts() {
    let mut world = World::new(Config { limit: 1 << 20, ..Config::default() });
    world.local.account(1 << 20);
    assert!(world.local.new_string(b"no room").is_err());
    world.local.account(-(1 << 19));
    assert!(world.local.has_room(1 << 20).is_err());
    world.local.new_string(b"room").unwrap();
    world.collect();
    assert_eq!(world.local.stats().external, 1 << 19);
    world.local.account(-(1 << 30));
    assert_eq!(world.local.stats().external, 0);
}

#[test]
fn a_collection_is_wanted_when_enough_was_allocated() {
    let mut world = World::new(Config { min_threshold: 1 << 20, ..Config::default() });
    let allocate = |world: &World| {
        let mut bytes = 0;
        while !world.local.wants_collection() {
            world.node(0, 0, 0);
            bytes += 32;
        }
        bytes
    };
    let bytes = allocate(&world);
    assert!(bytes > (1 << 20) - 8192 && bytes <= 1 << 20, "{bytes}");
    let array = world.local.new_array(world.types.ints, 1 << 20).unwrap();
    world.roots = vec![array];
    world.collect();
    assert!(!world.local.wants_collection());
    let bytes = allocate(&world);
    assert!(bytes > (8 << 20) - 8192 && bytes <= 8 << 20, "{bytes}");
    // Memory of others counts as much.
    world.collect();
    world.local.account(9 << 20);
    assert!(world.local.wants_collection());
}

#[test]
fn stress_mode_always_wants_a_collection() {
    let mut world = World::new(Config { stress: true, ..Config::default() });
    assert!(world.local.wants_collection());
    world.collect();
    assert!(world.local.wants_collection() && world.local.config().poison);
}

#[test]
fn stress_mode_is_over_after_the_collections_that_were_asked_for() {
    let mut world = World::new(Config { stress: true, stress_most: 2, ..Config::default() });
    for _ in 0..2 {
        assert!(world.local.wants_collection());
        world.collect();
    }
    assert!(!world.local.wants_collection());
    let none = World::new(Config { stress: true, stress_most: 0, ..Config::default() });
    assert!(!none.local.wants_collection());
}

#[test]
fn memory_goes_back_to_the_system() {
    let mut world = World::new(Config::default());
    let types = world.types;
    let large = world.local.new_array(types.ints, 40 << 20).unwrap();
    // SAFETY: the last element.
    unsafe { object::set_element(large, (40 << 20) - 1, 5) };
    for _ in 0..100_000 {
        world.node(0, 0, 0);
    }
    let kept = world.node(1, 0, 0);
    world.roots = vec![kept];
    assert!(world.local.stats().committed > 160 << 20);
    world.collect();
    assert_eq!(world.local.stats().committed, 64 << 10);
    assert_eq!(world.local.stats().live, 32);
    assert!(world.local.stats().peak > 160 << 20);
}

#[test]
fn a_handle_keeps_its_object() {
    let mut world = World::strict();
    let table = world.local.heap().handles().clone();
    let handles: Vec<_> = (0..1000)
        // SAFETY: a new object of this heap.
        .map(|i| unsafe { table.insert(world.node(i, 0, 0)) })
        .collect();
    for _ in 0..100 {
        assert_eq!(world.collect().objects, 1000);
    }
    for (i, &handle) in handles.iter().enumerate() {
        assert_eq!(field(table.get(handle).unwrap(), 0), i as u64);
        table.release(handle).unwrap();
    }
    assert_eq!(world.collect().objects, 0);
    let other = World::strict();
    assert_eq!(other.local.heap().handles().get(handles[0]), Err(HandleError::Foreign));
    drop(world);
    assert_eq!(table.get(handles[0]), Err(HandleError::Released));
}

#[test]
fn a_weak_reference_ends_with_its_object() {
    let mut world = World::strict();
    let (kept, lost) = (world.node(1, 0, 0), world.node(2, 0, 0));
    // SAFETY: objects that live.
    let (weak, gone) = unsafe { (world.local.new_weak(kept), world.local.new_weak(lost)) };
    world.roots = vec![kept];
    world.collect();
    assert_eq!((world.local.weak(weak), world.local.weak(gone)), (Some(kept), None));
    world.local.release_weak(weak);
    assert_eq!(world.local.weak(weak), None);
    // SAFETY: an object that lives.
    let next = unsafe { world.local.new_weak(kept) };
    assert_eq!((world.local.weak(next), world.local.weak(weak)), (Some(kept), None));
}

struct Counted {
    drops: Arc<AtomicU32>,
    reference: u64,
    heap: Option<Heap>,
}

impl HostValue for Counted {
    fn trace(&self, tracer: &mut Tracer<'_>) {
        tracer.reference(self.reference);
    }

    fn bytes(&self) -> usize {
        1000
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
        if let Some(heap) = &self.heap {
            // Whatever a value does when it is dropped, no lock of the heap is held.
            heap.local().new_string(b"made while dropping").unwrap();
            heap.shared.stats();
        }
    }
}

#[test]
fn values_of_the_host_are_dropped_once_after_their_objects_died() {
    let mut world = World::strict();
    let drops = Arc::new(AtomicU32::new(0));
    let new = |world: &World, reference| {
        let heap = Some(world.local.heap());
        let value = Arc::new(Counted { drops: drops.clone(), reference, heap });
        world.local.new_host(world.types.host, value).unwrap()
    };
    let inner = world.node(3, 0, 0);
    let (kept, _lost) = (new(&world, inner), new(&world, 0));
    assert_eq!(world.local.stats().external, 2000);
    world.roots = vec![kept];
    world.collect();
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    assert_eq!(world.local.drop_dead(), 1);
    assert_eq!((drops.load(Ordering::Relaxed), world.local.drop_dead()), (1, 0));
    assert_eq!(field(inner, 0), 3);
    assert_eq!(world.local.stats().external, 1000);
    // SAFETY: an object that lives.
    assert!(unsafe { world.local.host_value(kept) }.is_some());
    // SAFETY: as above.
    assert!(unsafe { world.local.host_value(inner) }.is_none());
    world.roots.clear();
    world.collect();
    world.local.drop_dead();
    assert_eq!(drops.load(Ordering::Relaxed), 2);
}

#[test]
fn structs_are_made_and_copied_with_those_inside() {
    let mut world = World::strict();
    let types = world.local.types();
    let point = types.add(&Layout::Instance(vec![Field::Word, Field::Word]));
    let line = types.add(&Layout::Instance(vec![
        Field::Struct(point),
        Field::Reference,
        Field::Struct(point),
    ]));
    let lines = types.add(&Layout::Array(Element::Reference, Some(line)));
    let array = world.local.new_array(lines, 3).unwrap();
    world.roots = vec![array];
    assert_eq!(world.collect().objects, 1 + 3 + 6);
    // SAFETY: elements and fields of these types.
    unsafe {
        let first = object::element(array, 0);
        object::set_field(object::field(first, 2), 1, 42);
        let copy = world.local.copy_struct(first).unwrap();
        object::set_field(object::field(first, 2), 1, 43);
        assert_eq!(object::field(object::field(copy, 2), 1), 42);
        assert_ne!(object::field(copy, 0), object::field(first, 0));
        assert_eq!(object::type_of(copy), line.0);
    }
    // A struct within itself has no end: that is an error and not a crash.
    let types = world.local.types();
    let endless = types.reserve(1);
    types.define(endless, &Layout::Instance(vec![Field::Struct(endless), Field::Struct(endless)]));
    assert!(world.local.new_instance(endless).is_err());
}
