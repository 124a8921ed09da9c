//! Random operations and collections, beside the same on structures of the standard library.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum ListOp {
    Add(u64),
    Set(usize, u64),
    Remove(usize),
    Clear,
    Reserve(usize),
    Collect,
}

fn list_op() -> impl Strategy<Value = ListOp> {
    prop_oneof![
        20 => any::<u64>().prop_map(ListOp::Add),
        4 => (0..80usize, any::<u64>()).prop_map(|(i, word)| ListOp::Set(i, word)),
        4 => (0..80usize).prop_map(ListOp::Remove),
        1 => Just(ListOp::Clear),
        1 => (0..100usize).prop_map(ListOp::Reserve),
        1 => Just(ListOp::Collect),
    ]
}

#[derive(Clone, Debug)]
enum DictOp {
    Set(u64, u64),
    Remove(u64),
    Get(u64),
    Clear,
    Collect,
}

fn dict_op(keys: u64) -> impl Strategy<Value = DictOp> {
    prop_oneof![
        200 => (0..keys, any::<u64>()).prop_map(|(key, value)| DictOp::Set(key, value)),
        150 => (0..keys).prop_map(DictOp::Remove),
        100 => (0..keys).prop_map(DictOp::Get),
        1 => Just(DictOp::Clear),
        5 => Just(DictOp::Collect),
    ]
}

/// A dictionary beside a vector of pairs.
fn check_dict(
    ops: Vec<DictOp>,
    ty: fn(&TestTypes) -> TypeIndex,
    key: impl Fn(&World, u64) -> u64,
    text: impl Fn(&World, u64) -> u64,
    references: bool,
) {
    let mut world = World::strict();
    let dict = world.container(ty(&world.types));
    world.roots = vec![dict];
    let mut model: Vec<(u64, u64)> = Vec::new();
    for op in ops {
        // SAFETY: keys and values are made for the dictionary's types.
        unsafe {
            match op {
                DictOp::Set(k, value) => {
                    let (value, word) =
                        if references { (value, world.node(value, 0, 0)) } else { (value, value) };
                    world.dict(dict).set(key(&world, k), word).unwrap();
                    match model.iter_mut().find(|pair| pair.0 == k) {
                        Some(pair) => pair.1 = value,
                        None => model.push((k, value)),
                    }
                }
                DictOp::Remove(k) => {
                    let place = model.iter().position(|pair| pair.0 == k);
                    assert_eq!(world.dict(dict).remove(key(&world, k)), place.is_some());
                    place.map(|place| model.remove(place));
                }
                DictOp::Get(k) => {
                    let word = world.dict(dict).get(key(&world, k));
                    let value = word.map(|w| if references { field(w, 0) } else { w });
                    assert_eq!(value, model.iter().find(|pair| pair.0 == k).map(|pair| pair.1));
                }
                DictOp::Clear => {
                    world.dict(dict).clear();
                    model.clear();
                }
                DictOp::Collect => {
                    world.collect();
                }
            }
        }
        assert_eq!(world.dict(dict).len(), model.len());
    }
    world.collect();
    let (mut position, mut pairs) = (0, Vec::new());
    while let Some((next, key, value)) = world.dict(dict).entry_from(position) {
        pairs.push((text(&world, key), if references { field(value, 0) } else { value }));
        position = next;
    }
    assert_eq!(pairs, model);
}

#[derive(Clone, Debug)]
enum TextOp {
    Literal(Vec<u8>),
    /// Joins strings of the pool.
    Join(Vec<usize>),
    /// A part of one, in thousandths.
    Cut(usize, usize, usize),
    Drop(usize),
    Collect,
}

fn text_op() -> impl Strategy<Value = TextOp> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..100).prop_map(TextOp::Literal),
        12 => prop::collection::vec(0..8usize, 1..5).prop_map(TextOp::Join),
        4 => (0..8usize, 0..1000usize, 0..1000usize).prop_map(|(i, a, b)| TextOp::Cut(i, a, b)),
        1 => (0..8usize).prop_map(TextOp::Drop),
        2 => Just(TextOp::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lists_behave_like_vectors(ops in prop::collection::vec(list_op(), 0..300), wide: bool) {
        let mut world = World::strict();
        let mask = if wide { u64::MAX } else { 0x7fff };
        let list = world.container(if wide { world.types.long_list } else { world.types.short_list });
        world.roots = vec![list];
        let mut model: Vec<u64> = Vec::new();
        for op in ops {
            match op {
                ListOp::Add(word) => {
                    // SAFETY: no references.
                    unsafe { world.list(list).add(word & mask).unwrap() };
                    model.push(word & mask);
                }
                ListOp::Set(i, word) => {
                    // SAFETY: no references.
                    let set = unsafe { world.list(list).set(i, word & mask) };
                    prop_assert_eq!(set, i < model.len());
                    if set {
                        model[i] = word & mask;
                    }
                }
                ListOp::Remove(i) => {
                    let removed = (i < model.len()).then(|| model.remove(i));
                    prop_assert_eq!(world.list(list).remove_at(i), removed);
                }
                ListOp::Clear => {
                    world.list(list).clear();
                    model.clear();
                }
                ListOp::Reserve(more) => world.list(list).reserve(more).unwrap(),
                ListOp::Collect => {
                    world.collect();
                }
            }
            prop_assert!(world.list(list).capacity() >= model.len());
        }
        prop_assert_eq!(world.list(list).iter().collect::<Vec<_>>(), model.clone());
        if let Some(&last) = model.last() {
            let found = world.list(list).position(|word| word == last);
            prop_assert_eq!(found, model.iter().position(|&word| word == last));
        }
    }

    #[test]
    fn dictionaries_of_words_behave_like_pairs(ops in prop::collection::vec(dict_op(40), 0..600)) {
        check_dict(ops, |types| types.by_word, |_, k| k << 7, |_, k| k >> 7, true);
    }

    #[test]
    fn dictionaries_of_doubles_behave_like_pairs(ops in prop::collection::vec(dict_op(300), 0..900)) {
        let key = |_: &World, k: u64| (k as f64 / 8.0).to_bits();
        let back = |_: &World, k: u64| (f64::from_bits(k) * 8.0) as u64;
        check_dict(ops, |types| types.by_double, key, back, false);
    }

    #[test]
    fn dictionaries_of_strings_behave_like_pairs(ops in prop::collection::vec(dict_op(60), 0..600)) {
        let key = |world: &World, k: u64| {
            let text = if k == 0 { String::new() } else { k.to_string() };
            world.local.new_string(text.as_bytes()).unwrap().word()
        };
        let back = |world: &World, k: u64| world.str(k).to_text().parse().unwrap_or(0);
        check_dict(ops, |types| types.by_string, key, back, false);
    }

    #[test]
    fn strings_behave_like_vectors_of_bytes(ops in prop::collection::vec(text_op(), 0..200)) {
        let mut world = World::strict();
        world.roots = vec![0; 8];
        let mut model: Vec<Vec<u8>> = vec![Vec::new(); 8];
        for (n, op) in ops.into_iter().enumerate() {
            let (word, bytes) = match op {
                TextOp::Literal(bytes) => (world.local.new_string(&bytes).unwrap().word(), bytes),
                TextOp::Join(pieces) => {
                    let bytes: Vec<u8> = pieces.iter().flat_map(|&i| model[i].clone()).collect();
                    if bytes.len() > 100_000 {
                        continue;
                    }
                    let words: Vec<u64> = pieces.iter().map(|&i| world.roots[i]).collect();
                    // SAFETY: the roots are strings that live.
                    (unsafe { world.local.concat_words(&words).unwrap() }, bytes)
                }
                TextOp::Cut(i, a, b) => {
                    let length = model[i].len();
                    let (a, b) = (a.min(b) * length / 1000, a.max(b) * length / 1000);
                    let word = world.local.substring(world.str(world.roots[i]), a, b).unwrap().word();
                    (word, model[i][a..b].to_vec())
                }
                TextOp::Drop(i) => {
                    world.roots[i] = 0;
                    model[i].clear();
                    continue;
                }
                TextOp::Collect => {
                    world.collect();
                    continue;
                }
            };
            world.roots[n % 8] = word;
            model[n % 8] = bytes;
            for (&word, bytes) in world.roots.iter().zip(&model) {
                prop_assert_eq!(world.str(word).bytes(), &bytes[..]);
            }
        }
    }
}

/// Many objects that refer to each other at random, beside a model of what is reachable.
#[test]
fn exactly_the_reachable_objects_survive() {
    let mut world = World::strict();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut live: Vec<u64> = Vec::new();
    for round in 0..30 {
        for _ in 0..3000 {
            let mut pick = || if live.is_empty() { 0 } else { live[random(live.len())] };
            let (left, right) = (pick(), pick());
            live.push(world.node(live.len() as u64 ^ 0x5555, left, right));
        }
        world.roots = (0..10 + round).map(|_| live[random(live.len())]).collect();
        let mut reached = std::collections::HashSet::new();
        let mut todo = world.roots.clone();
        while let Some(node) = todo.pop() {
            if node != 0 && reached.insert(node) {
                todo.extend([field(node, 1), field(node, 2)]);
            }
        }
        let values: Vec<_> = reached.iter().map(|&node| (node, field(node, 0))).collect();
        assert_eq!(world.collect().objects, reached.len() as u64);
        for (node, value) in values {
            assert_eq!(field(node, 0), value);
        }
        live = reached.into_iter().collect();
        live.sort_unstable();
    }
}
