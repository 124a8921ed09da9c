//! Machines on several carriers that run one program on one heap.

use std::sync::Barrier;

use super::*;
use crate::vm::heap::{Handle, Stats};
use crate::vm::library::decl;

const CARRIERS: usize = 4;

/// What all carriers change, and what they check of it: races may show old values, never others.
const PROGRAM: &str = "
    class Pair {
        public int a;
        public Pair twin;
        public Pair(int a, Pair twin) { this.a = a; this.twin = twin; }
        public int value() { return a; }
    }
    class Negative : Pair {
        public Negative(int a, Pair twin) { super(a, twin); }
        public int value() { return -a; }
    }
    class Shared {
        public List<int> list;
        public Dict<string, int> dict;
        public Pair newest;
        public string text;
        public Shared() { list = {}; dict = {}; newest = Pair(0, Pair(0, null)); text = \"0=0\"; }
    }
    Shared make() { return Shared(); }

    int work(Shared shared, int who, int rounds) {
        int wrong = 0;
        List<string> own = {};
        for (int i = 0; i < rounds; i += 1) {
            shared.list.add(who * rounds + i);
            shared.dict[\"${who}-${i}\"] = i;
            own.add(\"${who}:\" + \"${i}\");

            Pair twin = Pair(i, null);
            if (i % 2 == 0) { shared.newest = Negative(i, twin); } else { shared.newest = Pair(i, twin); }
            Pair seen = shared.newest;
            int value = seen.value();
            if (value != seen.twin.a && -value != seen.twin.a) { wrong += 1; }

            shared.text = \"${i}=${i}\";
            string text = shared.text;
            List<string> halves = text.split(\"=\");
            if (halves[0] != halves[1]) { wrong += 1; }

            try {
                if (i % 5 == 0) { throw Exception(\"${who}\"); }
            } catch (Exception e) {
                if (e.message != \"${who}\") { wrong += 1; }
            }
        }
        for (int i = 0; i < rounds; i += 1) {
            if (own[i] != \"${who}:${i}\") { wrong += 1; }
        }
        return wrong;
    }

    int check(Shared shared, int carriers, int rounds) {
        int wrong = 0;
        List<int> list = shared.list;
        Dict<int, bool> seen = {};
        foreach (int n in list) { seen[n] = true; }
        if (list.length() != carriers * rounds || seen.count() != carriers * rounds) { wrong += 1; }
        for (int who = 0; who < carriers; who += 1) {
            for (int i = 0; i < rounds; i += 1) {
                if (shared.dict[\"${who}-${i}\"] != i) { wrong += 1; }
            }
        }
        return wrong;
    }";

/// A machine with a program in the language, and the library.
fn compiled(source: &str, config: Config) -> Box<Machine> {
    let program = crate::vm::compile(source).unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(Heap::new(config).local(), Limits::default()).unwrap();
    let mut resolve = |import: &NativeImport, types: &TypeTable| {
        let native = decl::import(import, types)?;
        Some((NativeBody::Function(native.function), native.kind))
    };
    machine.load(program.verified(), &mut resolve).unwrap();
    machine
}

/// A machine for another carrier.
fn beside(machine: &Machine) -> Box<Machine> {
    Machine::of_image(machine.heap.heap().local(), machine.limits, machine.image.clone())
}

/// What a handle holds, to be used at once.
fn held(machine: &Machine, handle: Handle) -> Word {
    machine.heap.heap().handles().get(handle).unwrap()
}

/// All carriers work on one object at once, so many rounds.
fn work_at_once(config: Config, rounds: i32) -> Stats {
    let mut machine = compiled(PROGRAM, config);
    let shared = word(&mut machine, "make", &[]);
    // SAFETY: nothing has been collected since it was made.
    let handle = unsafe { machine.heap.heap().handles().insert(shared) };
    let begin = Barrier::new(CARRIERS);
    std::thread::scope(|scope| {
        let carriers: Vec<_> = (0..CARRIERS as u64)
            .map(|who| {
                let mut machine = beside(&machine);
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    let shared = held(&machine, handle);
                    word(&mut machine, "work", &[shared, who, rounds as Word])
                })
            })
            .collect();
        for carrier in carriers {
            assert_eq!(carrier.join().unwrap(), 0, "{:?}", machine.heap.stats());
        }
    });
    assert!(!machine.heap.is_shared(), "the others have gone");
    let shared = held(&machine, handle);
    assert_eq!(word(&mut machine, "check", &[shared, CARRIERS as Word, rounds as Word]), 0);
    machine.heap.stats()
}

#[test]
fn carriers_run_one_program_on_the_same_objects() {
    let stats = work_at_once(Config { min_threshold: 64 << 10, ..Config::default() }, 2000);
    assert!(stats.collections > 3, "{stats:?}");
}

#[test]
fn carriers_collect_wherever_they_can() {
    let stats = work_at_once(Config { stress: true, ..Config::default() }, 40);
    assert!(stats.collections > 100, "{stats:?}");
}

#[test]
fn a_carrier_that_only_computes_comes_to_a_collection() {
    let source = "
        class Flag { public bool up; }
        Flag make() { return Flag(); }
        int spin(Flag flag) { int trips = 0; while (!flag.up) { trips = 1; } return trips; }
        int allocate(Flag flag, int n) {
            int length = 0;
            for (int i = 0; i < n; i += 1) { length += \"${i}\".length(); }
            flag.up = true;
            return length;
        }";
    let mut machine = compiled(source, Config { stress: true, ..Config::default() });
    let flag = word(&mut machine, "make", &[]);
    // SAFETY: nothing has been collected since it was made.
    let handle = unsafe { machine.heap.heap().handles().insert(flag) };
    let mut other = beside(&machine);
    std::thread::scope(|scope| {
        // It allocates nothing, and goes on until the collections of the other one are over.
        let spinning = scope.spawn(move || {
            let flag = held(&other, handle);
            word(&mut other, "spin", &[flag])
        });
        let flag = held(&machine, handle);
        assert_eq!(word(&mut machine, "allocate", &[flag, 1000]), 10 + 90 * 2 + 900 * 3);
        spinning.join().unwrap();
    });
    assert!(machine.heap.stats().collections >= 1000);
}
