use super::*;

#[test]
fn no_bytes_are_the_null_reference() {
    let world = World::strict();
    let empty = world.local.new_string(b"").unwrap();
    assert_eq!((empty.word(), empty.len(), empty.bytes()), (0, 0, &b""[..]));
    let object = world.local.new_string_object(b"").unwrap();
    assert!(object.word() != 0 && object == empty);
    assert_eq!(world.local.hash_string(object), world.local.hash_string(empty));
    let text = world.local.new_string(b"text").unwrap();
    assert_eq!(world.local.concat(empty, text).unwrap().word(), text.word());
    assert_eq!(world.local.concat(text, object).unwrap().word(), text.word());
    // SAFETY: strings that live.
    let nothing = unsafe { world.local.concat_words(&[0, object.word(), 0]) };
    assert_eq!(world.str(nothing.unwrap()).len(), 0);
}

#[test]
fn building_a_string_by_pieces_is_linear() {
    let mut world = World::new(Config::default());
    let piece = world.local.new_string(b"piece of text, ").unwrap().word();
    let mut word = 0;
    let mut expected = Vec::new();
    for _ in 0..100_000 {
        word = world.local.concat(world.str(word), world.str(piece)).unwrap().word();
        expected.extend_from_slice(b"piece of text, ");
    }
    assert_eq!(world.str(word).bytes(), expected);
    // A view for each piece, buffers of doubling size, and what the runs hold in reserve.
    let allocated = world.local.stats().allocated as usize;
    assert!(allocated < 100_000 * 32 + 8 * expected.len() + (1 << 16), "{allocated}");
    world.roots = vec![word];
    world.collect();
    assert_eq!(world.str(word).bytes(), expected);
}

#[test]
fn strings_with_a_common_beginning_do_not_disturb_each_other() {
    let world = World::strict();
    let string = |bytes: &[u8]| world.local.new_string(bytes).unwrap();
    let mut base = string(&[b'a'; 60]);
    for _ in 0..10 {
        base = world.local.concat(base, string(b"bbbb")).unwrap();
    }
    let before = base.bytes().to_vec();
    let left = world.local.concat(base, string(b"left")).unwrap();
    let right = world.local.concat(base, string(b"right")).unwrap();
    let more = world.local.concat(left, string(b"more")).unwrap();
    assert_eq!(base.bytes(), before);
    assert_eq!(left.bytes(), [&before[..], b"left"].concat());
    assert_eq!(right.bytes(), [&before[..], b"right"].concat());
    assert_eq!(more.bytes(), [&before[..], b"leftmore"].concat());
    let twice = world.local.concat(more, more).unwrap();
    assert_eq!(twice.bytes(), [more.bytes(), more.bytes()].concat());
}

#[test]
fn a_small_part_does_not_keep_the_whole() {
    let mut world = World::strict();
    let whole = world.local.new_string(&[b'x'; 1 << 20]).unwrap();
    let small = world.local.substring(whole, 1000, 1200).unwrap().word();
    let all = world.local.substring(whole, 0, 1 << 20).unwrap();
    assert_eq!(all.word(), whole.word());
    world.roots = vec![small];
    assert!(world.collect().live < 1024);
    assert_eq!(world.str(small).bytes(), [b'x'; 200]);
    let whole = world.local.new_string(&[b'x'; 1 << 20]).unwrap();
    let part = world.local.substring(whole, 1, 1 << 19).unwrap().word();
    world.roots = vec![part];
    assert!(world.collect().live > 1 << 20);
    assert_eq!(world.str(part).len(), (1 << 19) - 1);
}

#[test]
fn strings_compare_by_bytes() {
    let world = World::strict();
    let string = |bytes: &[u8]| world.local.new_string(bytes).unwrap();
    let (a, b) = (string("zürich".as_bytes()), string("zürich".as_bytes()));
    assert!(a == b && a.word() != b.word());
    assert_eq!(world.local.hash_string(a), world.local.hash_string(b));
    assert_eq!(world.local.hash_string(a), world.local.hash_string(a));
    assert_eq!(a.len(), 7);
    assert!(string(b"ab") < string(b"abc") && string(b"b") > string(b"abc"));
    assert!(string(b"") < string(b"\0"));
    assert_eq!(string(b"a\xffb").to_text(), "a\u{fffd}b");
}

#[test]
fn a_string_longer_than_any_is_refused() {
    let world = World::new(Config::default());
    let mut string = world.local.new_string(&[b'x'; 1 << 20]).unwrap();
    let error = loop {
        match world.local.concat(string, string) {
            Ok(longer) => string = longer,
            Err(error) => break error,
        }
    };
    assert_eq!(error.requested, usize::MAX);
    assert_eq!(string.len(), 1 << 30);
}

#[test]
fn joining_near_the_limit_takes_no_more_than_needed() {
    let mut world = World::new(Config { limit: 1 << 20, ..Config::default() });
    let mut word = world.local.new_string(&[b'x'; 150_000]).unwrap().word();
    for expected in [300_000, 600_000] {
        let string = world.str(word);
        word = world.local.concat(string, string).unwrap().word();
        world.roots = vec![word];
        world.collect();
        assert_eq!(world.str(word).len(), expected);
    }
    let string = world.str(word);
    assert!(world.local.concat(string, string).is_err());
}
