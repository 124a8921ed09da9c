//! The heap of the virtual machine: allocation with its share of collecting, marking, containers.
//!
//! The heap is no public part of the library, so its source is compiled into the bench.

use std::hint::black_box;

use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

// The unit tests are compiled without their test functions.
#[allow(dead_code, unused_imports)]
#[path = "../src/vm"]
mod vm {
    pub mod heap;
    pub mod types;
}

use vm::heap::{
    Config, Dict, Element, Field, Heap, Key, Layout, List, LocalHeap, Tracer, TypeIndex,
};
use vm::heap::{Str, object};

/// Time that this thread computes, so that others on the machine count less.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the function writes the structure, which is valid.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

struct World {
    local: LocalHeap,
    node: TypeIndex,
    references: TypeIndex,
    roots: Vec<u64>,
}

impl World {
    fn new() -> World {
        let heap = Heap::new(Config::default());
        let fields = vec![Field::Word, Field::Reference, Field::Reference];
        let node = heap.types().add(&Layout::Instance(fields));
        let references = heap.types().add(&Layout::Array(Element::Reference, None));
        World { local: heap.local(), node, references, roots: Vec::new() }
    }

    fn collect(&mut self) {
        let roots = &self.roots;
        // SAFETY: what is used afterwards is in the roots; there is one carrier.
        unsafe { self.local.collect(&mut |tracer: &mut Tracer<'_>| tracer.references(roots)) };
    }

    fn node(&self, left: u64, right: u64) -> u64 {
        let node = self.local.new_instance(self.node).unwrap();
        // SAFETY: the fields of the new object.
        unsafe {
            object::set_field(node, 1, left);
            object::set_field(node, 2, right);
        }
        node
    }

    fn tree(&self, depth: u32) -> u64 {
        if depth == 0 {
            return self.node(0, 0);
        }
        let (left, right) = (self.tree(depth - 1), self.tree(depth - 1));
        self.node(left, right)
    }

    /// An array of nodes, each of which refers to two others at random.
    fn graph(&self, nodes: u64) -> u64 {
        let array = self.local.new_array(self.references, nodes).unwrap();
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % nodes
        };
        // SAFETY: elements and fields of these objects.
        unsafe {
            for i in 0..nodes {
                object::set_element64(array, i, self.node(0, 0));
            }
            for i in 0..nodes {
                let node = object::element64(array, i);
                object::set_field(node, 1, object::element64(array, random()));
                object::set_field(node, 2, object::element64(array, random()));
            }
        }
        array
    }
}

const BATCH: u64 = 10_000;

fn allocation(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("allocation");
    group.throughput(Throughput::Elements(BATCH));
    let mut world = World::new();
    group.bench_function("32 bytes, all die", |b| {
        b.iter(|| {
            for _ in 0..BATCH {
                black_box(world.node(0, 0));
                if world.local.wants_collection() {
                    world.collect();
                }
            }
        });
    });
    // 64 MiB are live.
    world.roots = vec![world.tree(20)];
    group.bench_function("32 bytes, all die, beside 64 MiB", |b| {
        b.iter(|| {
            for _ in 0..BATCH {
                black_box(world.node(0, 0));
                if world.local.wants_collection() {
                    world.collect();
                }
            }
        });
    });
    let mut world = World::new();
    world.roots = vec![0; 100_000];
    let mut at = 0;
    group.bench_function("32 bytes, every fourth lives for a while", |b| {
        b.iter(|| {
            for i in 0..BATCH {
                let node = black_box(world.node(0, 0));
                if i % 4 == 0 {
                    world.roots[at] = node;
                    at = (at + 7919) % 100_000;
                }
                if world.local.wants_collection() {
                    world.collect();
                }
            }
        });
    });
    group.finish();
}

fn collection(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("collection of 256 MiB");
    group.sample_size(10);
    let mut run = |name: &str, build: &dyn Fn(&World) -> u64| {
        let mut built = None;
        group.throughput(Throughput::Bytes(256 << 20));
        group.bench_function(name, |b| {
            let world = built.get_or_insert_with(|| {
                let mut world = World::new();
                world.roots = vec![build(&world)];
                world
            });
            b.iter(|| world.collect());
        });
    };
    run("a tree of 8 million nodes", &|world| world.tree(22));
    run("7 million nodes, referring to others at random", &|world| world.graph(6_710_886));
    run("arrays of 1,000 references to one node", &|world| {
        let (arrays, node) =
            (world.local.new_array(world.references, 33_000).unwrap(), world.node(0, 0));
        for i in 0..33_000 {
            let array = world.local.new_array(world.references, 1000).unwrap();
            // SAFETY: elements of the arrays.
            unsafe {
                for j in 0..1000 {
                    object::set_element64(array, j, node);
                }
                object::set_element64(arrays, i, array);
            }
        }
        arrays
    });
    run("strings of 1,000 bytes", &|world| {
        let array = world.local.new_array(world.references, 256_000).unwrap();
        for i in 0..256_000 {
            let string = world.local.new_string(&[b'x'; 1000]).unwrap().word();
            // SAFETY: an element of the array.
            unsafe { object::set_element64(array, i, string) };
        }
        array
    });
    group.finish();
}

fn containers(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("containers");
    group.throughput(Throughput::Elements(BATCH));
    let heap = Heap::new(Config::default());
    let ints = heap.types().add(&Layout::List(Element::Bits32));
    let by_word = heap.types().add(&Layout::Dict(Key::Word, false));
    let by_string = heap.types().add(&Layout::Dict(Key::String, false));
    let mut world = World { local: heap.local(), node: ints, references: ints, roots: Vec::new() };
    let fresh = |world: &mut World, ty| {
        world.collect();
        world.local.new_container(ty).unwrap()
    };
    group.bench_function("add to a list of int", |b| {
        b.iter(|| {
            let list = fresh(&mut world, ints);
            for i in 0..BATCH {
                // SAFETY: a new list, no references.
                unsafe { world.local.list_add(list, i).unwrap() };
            }
            list
        });
    });
    group.bench_function("Dict<int, int>, set of new keys", |b| {
        b.iter(|| {
            let dict = fresh(&mut world, by_word);
            // SAFETY: a new dictionary, no references.
            let dict = unsafe { Dict::from_word(&world.local, dict) };
            for i in 0..BATCH {
                // SAFETY: as above.
                unsafe { dict.set(i * 31, i).unwrap() };
            }
            dict.len()
        });
    });
    let words: Vec<u64> = (0..BATCH)
        .map(|i| world.local.new_string(format!("word {}", i % 1000).as_bytes()).unwrap().word())
        .collect();
    world.roots = words.clone();
    let counts = world.local.new_container(by_string).unwrap();
    world.roots.push(counts);
    group.bench_function("Dict<string, int>, get and set", |b| {
        // SAFETY: the dictionary and its keys are in the roots.
        let dict = unsafe { Dict::from_word(&world.local, counts) };
        b.iter(|| {
            for &word in &words {
                // SAFETY: as above.
                unsafe {
                    let count = dict.get(word).unwrap_or(0);
                    dict.set(word, count + 1).unwrap();
                }
            }
        });
    });
    group.bench_function("a string built of pieces of 5 bytes", |b| {
        b.iter(|| {
            world.collect();
            let piece = world.local.new_string(b"piece").unwrap();
            let mut string = Str::EMPTY;
            for _ in 0..BATCH {
                string = world.local.concat(string, piece).unwrap();
            }
            string.len()
        });
    });
    let list = world.local.new_container(ints).unwrap();
    // SAFETY: a new list; it is used before anything is collected.
    let list = unsafe { List::from_word(&world.local, list) };
    for i in 0..BATCH {
        // SAFETY: no references.
        unsafe { list.add(i).unwrap() };
    }
    group.bench_function("sum of a list of int", |b| {
        b.iter_batched(|| list, |list| list.iter().sum::<u64>(), BatchSize::SmallInput);
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = allocation, collection, containers
}
criterion_main!(benches);
