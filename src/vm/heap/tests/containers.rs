use super::*;

#[test]
fn elements_are_canonical_words() {
    let world = World::strict();
    let shorts = world.list(world.container(world.types.short_list));
    for value in [0, 1, -1i32, 40_000, i32::MIN] {
        // SAFETY: no references.
        unsafe { shorts.add(value as u32 as u64).unwrap() };
    }
    let expected: Vec<u64> =
        [0, 1, -1i32, -25_536, 0].iter().map(|&value| value as u32 as u64).collect();
    assert_eq!(shorts.iter().collect::<Vec<_>>(), expected);
    let bytes = world.local.new_array(world.types.bytes, 3).unwrap();
    // SAFETY: an array that lives.
    let bytes = unsafe { Array::from_word(&world.local, bytes) };
    // SAFETY: no references.
    unsafe {
        assert!(bytes.set(2, 0x1ff) && !bytes.set(3, 0));
    }
    assert_eq!(bytes.iter().collect::<Vec<_>>(), [0, 0, 0xffff_ffff]);
    assert_eq!(bytes.get(3), None);
}

#[test]
fn a_cleared_list_forgets_its_elements() {
    let mut world = World::strict();
    let list = world.container(world.types.list);
    for i in 0..100_000 {
        // SAFETY: a new object.
        unsafe { world.list(list).add(world.node(i, 0, 0)).unwrap() };
    }
    world.roots = vec![list];
    assert_eq!(world.collect().objects, 100_002);
    assert_eq!(world.list(list).remove_at(99_999).map(|node| field(node, 0)), Some(99_999));
    assert_eq!(world.collect().objects, 100_001);
    world.list(list).clear();
    assert_eq!(world.collect().objects, 1);
    assert_eq!(world.list(list).get(0), None);
}

#[test]
fn growing_a_list_costs_no_more_than_its_size() {
    let world = World::new(Config::default());
    let list = world.list(world.container(world.types.int_list));
    for i in 0..1_000_000 {
        // SAFETY: no references.
        unsafe { list.add(i).unwrap() };
    }
    assert!(list.iter().eq(0..1_000_000));
    assert!(list.capacity() < 1_600_000, "{}", list.capacity());
    assert!(world.local.stats().allocated < 16_000_000);
}

#[test]
fn a_dictionary_keeps_the_order_of_insertion() {
    let world = World::strict();
    let dict = world.dict(world.container(world.types.by_float));
    let words = |numbers: &[f32]| numbers.iter().map(|n| n.to_bits() as u64).collect::<Vec<_>>();
    for (i, key) in words(&[3.0, 1.0, 2.0, -0.0, 1.0]).into_iter().enumerate() {
        // SAFETY: no references.
        unsafe { dict.set(key, i as u64).unwrap() };
    }
    // SAFETY: no references.
    unsafe {
        assert_eq!(dict.get(0), Some(3));
        assert!(dict.remove(words(&[3.0])[0]) && !dict.remove(words(&[3.0])[0]));
        dict.set(words(&[3.0])[0], 9).unwrap();
    }
    let keys = dict.keys(world.types.int_list).unwrap();
    assert_eq!(keys.iter().collect::<Vec<_>>(), words(&[1.0, 2.0, -0.0, 3.0]));
    let values = dict.values(world.types.int_list).unwrap();
    assert_eq!(values.iter().collect::<Vec<_>>(), [4, 2, 3, 9]);
}

#[test]
fn many_nans_are_no_burden() {
    let world = World::new(Config::default());
    let dict = world.dict(world.container(world.types.by_double));
    for i in 0..300_000 {
        // SAFETY: no references.
        unsafe {
            dict.set(f64::NAN.to_bits(), i).unwrap();
            assert_eq!(dict.get(f64::NAN.to_bits()), None);
            assert!(!dict.remove(f64::NAN.to_bits()));
        }
    }
    assert_eq!(dict.len(), 300_000);
    let zero = (-0.0f64).to_bits();
    // SAFETY: no references.
    unsafe {
        dict.set(zero, 1).unwrap();
        assert_eq!(dict.get(0), Some(1));
    }
}

#[test]
fn a_dictionary_used_as_a_queue_stays_small() {
    let world = World::new(Config::default());
    let dict = world.dict(world.container(world.types.by_double));
    for i in 0..200_000u64 {
        // SAFETY: no references.
        unsafe {
            dict.set((i as f64).to_bits(), i).unwrap();
            assert!(i < 100 || dict.remove(((i - 100) as f64).to_bits()));
        }
    }
    assert_eq!(dict.len(), 100);
    let (next, _, first) = dict.entry_from(0).unwrap();
    assert!(next < 1000 && first == 199_900, "{next} {first}");
}

#[test]
fn a_dictionary_that_was_emptied_is_walked_quickly() {
    let world = World::new(Config::default());
    let dict = world.dict(world.container(world.types.by_double));
    // SAFETY: no references.
    unsafe {
        for i in 1..100_000u64 {
            dict.set(i << 40, i).unwrap();
        }
        for i in 1..99_999u64 {
            assert!(dict.remove(i << 40));
        }
    }
    let (next, _, value) = dict.entry_from(0).unwrap();
    assert!(next <= 32 && value == 99_999, "{next}");
}

#[test]
fn a_failed_change_changes_nothing() {
    let mut world = World::new(Config { limit: 1 << 20, ..Config::default() });
    let (dict, list) =
        (world.container(world.types.by_double), world.container(world.types.long_list));
    world.roots = vec![dict, list];
    let fill = |world: &World| {
        let mut n = 1;
        // SAFETY: no references.
        while unsafe { world.dict(dict).set(n << 30, n) }.is_ok() {
            n += 1;
        }
        n
    };
    let mut n = fill(&world);
    world.collect();
    while fill(&world) > n {
        n = fill(&world);
        world.collect();
    }
    assert!(n > 8000, "{n}");
    for i in 1..n {
        // SAFETY: no references.
        assert_eq!(unsafe { world.dict(dict).get(i << 30) }, Some(i));
    }
    assert_eq!(world.dict(dict).len() as u64, n - 1);
    world.dict(dict).clear();
    world.collect();
    let mut n = 0;
    // SAFETY: no references.
    while unsafe { world.list(list).add(n) }.is_ok() {
        n += 1;
    }
    assert!(world.list(list).iter().eq(0..n));
}

#[test]
fn containers_stay_whole_under_several_carriers() {
    let world = World::new(Config::default());
    let heap = world.local.heap();
    let (list, dict) =
        (world.container(world.types.int_list), world.container(world.types.by_double));
    let threads: Vec<_> = (0..4u64)
        .map(|n| {
            let heap = heap.clone();
            std::thread::spawn(move || {
                let local = heap.local();
                local.enter();
                // SAFETY: both live: nothing is collected; no references.
                unsafe {
                    let (list, dict) =
                        (List::from_word(&local, list), Dict::from_word(&local, dict));
                    for i in 0..10_000 {
                        list.add(n * 10_000 + i).unwrap();
                        list.get(list.len() - 1).unwrap();
                        dict.set((i * 4 + n) << 20, n).unwrap();
                        if i % 3 == 0 {
                            assert!(dict.remove((i * 4 + n) << 20));
                        }
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut elements: Vec<u64> = world.list(list).iter().collect();
    elements.sort_unstable();
    assert!(elements.into_iter().eq(0..40_000));
    assert_eq!(world.dict(dict).len(), 4 * 6666);
}
