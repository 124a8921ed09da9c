//! The heap against a made-up type table and roots that are a plain vector.

mod carriers;
mod collector;
mod containers;
mod models;
mod text;

use super::*;

/// A heap with some types and a vector of roots.
struct World {
    local: LocalHeap,
    roots: Vec<u64>,
    types: TestTypes,
}

#[derive(Clone, Copy)]
struct TestTypes {
    /// Word, reference, reference.
    node: TypeIndex,
    /// 30 words, then 300 references.
    wide: TypeIndex,
    boxed: TypeIndex,
    function: TypeIndex,
    host: TypeIndex,
    references: TypeIndex,
    ints: TypeIndex,
    bytes: TypeIndex,
    list: TypeIndex,
    int_list: TypeIndex,
    short_list: TypeIndex,
    long_list: TypeIndex,
    by_word: TypeIndex,
    by_float: TypeIndex,
    by_double: TypeIndex,
    by_string: TypeIndex,
    by_reference: TypeIndex,
}

impl World {
    fn new(config: Config) -> World {
        let heap = Heap::new(config);
        let add = |layout: Layout| heap.types().add(&layout);
        let mut wide = vec![Field::Word; 30];
        wide.resize(330, Field::Reference);
        let types = TestTypes {
            node: add(Layout::Instance(vec![Field::Word, Field::Reference, Field::Reference])),
            wide: add(Layout::Instance(wide)),
            boxed: add(Layout::Box),
            function: add(Layout::Function),
            host: add(Layout::Host),
            references: add(Layout::Array(Element::Reference, None)),
            ints: add(Layout::Array(Element::Bits32, None)),
            bytes: add(Layout::Array(Element::I8, None)),
            list: add(Layout::List(Element::Reference)),
            int_list: add(Layout::List(Element::Bits32)),
            short_list: add(Layout::List(Element::I16)),
            long_list: add(Layout::List(Element::Bits64)),
            by_word: add(Layout::Dict(Key::Word, true)),
            by_float: add(Layout::Dict(Key::Float, false)),
            by_double: add(Layout::Dict(Key::Double, false)),
            by_string: add(Layout::Dict(Key::String, false)),
            by_reference: add(Layout::Dict(Key::Reference, true)),
        };
        World { local: heap.local(), roots: Vec::new(), types }
    }

    /// Poisons what dies, so that nothing dead is taken for alive.
    fn strict() -> World {
        World::new(Config { poison: true, ..Config::default() })
    }

    fn collect(&mut self) -> Collected {
        let roots = &self.roots;
        // SAFETY: tests keep what they use in the roots; there is one carrier.
        unsafe { self.local.collect(&mut |tracer: &mut Tracer<'_>| tracer.references(roots)) }
            .expect("nobody else collects")
    }

    fn node(&self, value: u64, left: u64, right: u64) -> u64 {
        let node = self.local.new_instance(self.types.node).unwrap();
        for (slot, word) in [value, left, right].into_iter().enumerate() {
            // SAFETY: a node has three fields; the references are of this heap.
            unsafe { object::set_field(node, slot, word) };
        }
        node
    }

    fn list(&self, word: u64) -> List<'_> {
        // SAFETY: tests pass lists that live.
        unsafe { List::from_word(&self.local, word) }
    }

    fn dict(&self, word: u64) -> Dict<'_> {
        // SAFETY: tests pass dictionaries that live.
        unsafe { Dict::from_word(&self.local, word) }
    }

    fn str(&self, word: u64) -> Str<'_> {
        // SAFETY: tests pass strings that live.
        unsafe { Str::from_word(&self.local, word) }
    }

    fn container(&self, ty: TypeIndex) -> u64 {
        self.local.new_container(ty).unwrap()
    }
}

/// A field of an object that a test knows to live.
fn field(object: u64, slot: usize) -> u64 {
    // SAFETY: tests pass objects that live, with that field.
    unsafe { object::field(object, slot) }
}
