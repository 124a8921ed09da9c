//! Promises of the format: exact, and safe to read from anywhere.

use proptest::prelude::*;

use super::decode::DecodeError;
use super::*;
use crate::vm::asm::assemble;
use crate::vm::types::{
    ClassDef, ClassId, EnumDef, EnumId, FieldDef, InterfaceDef, InterfaceId, Method, Opaque, Param,
    SelectorDef, SelectorId, Type,
};
use crate::vm::verify::{Library, verify};

/// A small program that uses most of the language.
pub(crate) fn sample() -> Module {
    assemble(
        "class Animal { int legs; string name; }
         class Dog : Animal { Dog friend; }
         struct Pair { int a; long b; }
         enum Dir { N E }
         interface Loud { sound }
         selector int sound(int)
         implements Dog Loud sound=Dog.sound
         vtable Animal native native native Animal.run
         vtable Dog native native native Dog.run
         type func<int, int>
         type Dict<string, int>
         native void io.print(string)
         func int Animal.run(Animal, int) 2 method
             return r1
         func int Dog.run(Dog, int) 4 method
             get r2, r0, 0
             add.int r1, r1, r2
             return r1
         func int Dog.sound(Dog, int) 2 method
             return r1
         func bool parse(string, out int) 5
             text.length r2, r0
             move r1, r2
             jump.if r2, some
             return.int 0
           some:
             return.int 1
         func int main() 10
             new r0, Dog
             int r1, 0
             const r7, 123456789012345
             new.array r3, r7, int[]
             bind r4, r0, Dog.run
           back:
             int r8, 3
             move r7, r4
             call.func r7, r4
           a:
             move r6, r0
             int r7, 4
             call.virtual r6, 3
             add.int r1, r1, r6
             array.get.32 r2, r3, r1
           b:
             switch r1, -1 one two | end
           one:
             text r6, \"one\"
             call.native r6, io.print
           two:
             loop.inc.lt.int.k r1, 10, back
             jump end
           h:
             get r6, r5, 0
             call.native r6, io.print
           end:
             return r1
             try a b h r5 Exception",
    )
}

/// A module with some of everything, taken from random bytes; it makes no sense.
fn random_module(bytes: Vec<u8>) -> Module {
    let mut bytes = bytes.into_iter();
    let mut next = move || bytes.next().unwrap_or(0);
    let mut module = sample();
    let mut types = Vec::new();
    for _ in 0..next() % 8 {
        let (a, b) = (u32::from(next()), u32::from(next()) << 9);
        let param = Param { ty: TypeId(b), out: a % 2 == 0 };
        types.push(match next() % 12 {
            0 => Type::Enum(EnumId(a)),
            1 => Type::Struct(ClassId(a)),
            2 => Type::Class(ClassId(b)),
            3 => Type::Interface(InterfaceId(a)),
            4 => Type::Array(TypeId(b)),
            5 => Type::List(TypeId(a)),
            6 => Type::Dict(TypeId(a), TypeId(b)),
            7 => Type::Func(Signature { params: vec![param; 3], result: TypeId(a) }),
            8 => Type::Channel(TypeId(a)),
            9 => Type::Future(TypeId(u32::MAX)),
            10 => Type::Promise(TypeId(b)),
            _ => Type::Opaque(Opaque::Semaphore),
        });
    }
    for ty in types {
        module.types.intern(ty);
    }
    let name = |n: u8| "é".repeat(n.into());
    module.name = name(next());
    module.main = (next() % 2 == 0).then_some(FunctionId(next().into()));
    module.words.push(u64::from(next()) << 56);
    let value = i32::from_le_bytes([next(), next(), next(), next()]);
    module.types.enums.push(EnumDef { name: name(next() % 9), members: vec![(name(1), value)] });
    module
        .types
        .interfaces
        .push(InterfaceDef { name: name(0), selectors: vec![SelectorId(next().into()); 3] });
    let signature = Signature { params: Vec::new(), result: TypeId(next().into()) };
    module.types.selectors.push(SelectorDef { name: name(2), signature });
    module.types.classes.push(ClassDef {
        name: name(3),
        base: (next() % 2 == 0).then_some(ClassId(u32::MAX)),
        is_struct: next() % 2 == 0,
        fields: vec![FieldDef { name: name(1), ty: TypeId(next().into()) }; 2],
        vtable: vec![Method::Native, Method::Script(FunctionId(u32::MAX))],
        selectors: vec![(SelectorId(1), FunctionId(next().into()))],
        interfaces: vec![InterfaceId(next().into())],
    });
    let function = &mut module.functions[0];
    function.lines = vec![(u32::from(next()), 1), (7, u32::MAX)];
    function.locals.push(Local {
        name: name(1),
        ty: TypeId(3),
        register: u16::MAX,
        first: next().into(),
        end: 1 << 20,
    });
    let first = i64::from_le_bytes([0; 8].map(|_: u8| next()));
    function.switches.push(Switch { first, targets: vec![next().into(); 4], default: 9 });
    function.code.extend((0..next() % 16).map(|i| Code(u64::from(i) << 50)));
    module
}

#[test]
fn the_sample_is_verified() {
    verify(sample(), &Library).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn bytes_that_are_no_module_are_called_so() {
    for bytes in [&b""[..], b"pirn", b"PK\x03\x04 and so on and on"] {
        assert_eq!(Module::from_bytes(bytes), Err(DecodeError::NoModule));
    }
}

#[test]
fn another_version_is_refused_by_its_number() {
    let mut bytes = sample().to_bytes();
    bytes[4] = 7;
    let error = Module::from_bytes(&bytes).unwrap_err();
    assert_eq!(error, DecodeError::Version { found: 7, supported: 2 });
    assert!(error.to_string().contains("version 7"));
}

#[test]
fn a_flipped_bit_is_noticed() {
    let bytes = sample().to_bytes();
    for at in [12, bytes.len() / 2, bytes.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        let error = Module::from_bytes(&bytes).unwrap_err();
        assert!(matches!(error, DecodeError::Checksum { .. }), "{error}");
    }
}

#[test]
fn what_is_cut_off_is_named_by_section_and_offset() {
    let mut bytes = sample().to_bytes();
    bytes.truncate(bytes.len() - 9);
    Module::seal(&mut bytes);
    let error = Module::from_bytes(&bytes).unwrap_err();
    let DecodeError::Malformed { section, offset, .. } = error else { panic!("{error}") };
    assert_eq!(section, "functions");
    assert!(offset > 12 && offset < bytes.len());
}

#[test]
fn a_length_without_contents_reserves_no_memory() {
    // The first section's first text claims 2^60 bytes, or a list as many elements.
    let mut bytes = b"pirn\x02\0\0\0\0\0\0\0\x01".to_vec();
    bytes.extend(11u32.to_le_bytes());
    bytes.push(0);
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
    Module::seal(&mut bytes);
    let error = Module::from_bytes(&bytes).unwrap_err();
    assert!(error.to_string().contains("longer than its section"), "{error}");
}

#[test]
fn every_prefix_of_a_module_is_refused() {
    let whole = sample().to_bytes();
    for length in 0..whole.len() {
        let mut bytes = whole[..length].to_vec();
        Module::seal(&mut bytes);
        assert!(Module::from_bytes(&bytes).is_err(), "{length}");
    }
}

proptest! {
    #[test]
    fn a_module_comes_back_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let module = random_module(bytes);
        let read = Module::from_bytes(&module.to_bytes());
        prop_assert_eq!(read.as_ref(), Ok(&module));
    }

    #[test]
    fn changed_bytes_are_read_or_refused_and_verified_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = sample().to_bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes[..8].copy_from_slice(b"pirn\x02\0\0\0");
        Module::seal(&mut bytes);
        if let Ok(module) = Module::from_bytes(&bytes) {
            let read = Module::from_bytes(&module.to_bytes());
        prop_assert_eq!(read.as_ref(), Ok(&module));
            let _ = verify(module, &Library);
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut whole = b"pirn\x02\0\0\0\0\0\0\0".to_vec();
        whole.extend(bytes);
        Module::seal(&mut whole);
        let _ = Module::from_bytes(&whole);
    }
}
