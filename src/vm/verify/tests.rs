//! Each rule, with a program that keeps it and one that breaks it.

use super::{Library, Verified, VerifyError, verify};
use crate::vm::asm::assemble;
use crate::vm::module::Module;
use crate::vm::op::{Code, Op};
use crate::vm::types::{FunctionId, Type, TypeId, known};

/// Classes and functions that the tests below use.
const PRELUDE: &str = "
    class Animal { int legs; string name; }
    class Dog : Animal { Dog friend; }
    class Cat : Animal { }
    struct Pair { int a; long b; }
    struct Nest { Pair inner; }
    enum Dir { N E }
    selector int sound(int)
    interface Loud { sound }
    implements Dog Loud sound=Dog.sound
    vtable Animal native native Animal.text Animal.run
    vtable Dog native native Animal.text Dog.run
    vtable Cat native native Animal.text Animal.run
    type List<int>
    type List<Dog>
    type List<Pair>
    type Dog[]
    type int[]
    type byte[]
    type func<int, int>
    type func<int, Dog, int>
    type func<void>
    type Dict<string, int>
    native void io.print(string)
    native int List.length(List<int>)
    func string Animal.text(Animal) 1 method
        text r0, \"animal\"
        return r0
    func int Animal.run(Animal, int) 2 method
        return r1
    func int Dog.run(Dog, int) 2 method
        return r1
    func int Dog.sound(Dog, int) 2 method
        return r1
    func void Dog.init(Dog, int) 2 constructor
        set r0, 0, r1
        return.void
    func bool split(int, out string) 3
        move r2, r1
        move r1, r2
        return r0
";

fn module(code: &str) -> Module {
    assemble(&format!("{PRELUDE}\n{code}"))
}

fn check(code: &str) -> Result<Verified, VerifyError> {
    verify(module(code), &Library)
}

#[track_caller]
fn accepted(code: &str) {
    if let Err(error) = check(code) {
        panic!("{error}");
    }
}

/// Refused, with a reason that contains these words.
#[track_caller]
fn refused(code: &str, why: &str) {
    match check(code) {
        Ok(_) => panic!("accepted, though {why}"),
        Err(error) => assert!(error.to_string().contains(why), "{error}"),
    }
}

/// A `main` without result with 8 registers.
#[track_caller]
fn main_accepted(code: &str) {
    accepted(&format!("func void main() 8\n{code}\nreturn.void"));
}

#[track_caller]
fn main_refused(code: &str, why: &str) {
    refused(&format!("func void main() 8\n{code}\nreturn.void"), why);
}

#[track_caller]
fn broken(change: impl FnOnce(&mut Module), why: &str) {
    let mut module = module("func void main() 8\nreturn.void");
    change(&mut module);
    match verify(module, &Library) {
        Ok(_) => panic!("accepted, though {why}"),
        Err(error) => assert!(error.to_string().contains(why), "{error}"),
    }
}

#[test]
fn the_prelude_is_accepted() {
    main_accepted("");
}

#[test]
fn a_register_that_was_never_set_cannot_be_read() {
    main_accepted("int r0, 1\nadd.int r1, r0, r0");
    main_refused("int r0, 1\nadd.int r1, r0, r2", "r2 holds nothing that can be read");
    main_refused("move r1, r2", "r2 holds nothing");
}

#[test]
fn a_register_set_on_one_way_only_cannot_be_read() {
    main_refused(
        "int r0, 1\njump.if r0, over\nint r1, 2\nover:\nadd.int r2, r1, r1",
        "r1 holds nothing",
    );
    main_accepted(
        "int r0, 1\njump.if r0, over\nint r1, 2\njump end\nover:\nint r1, 3\nend:\nadd.int r2, r1, r1",
    );
}

#[test]
fn words_strings_and_references_are_kept_apart() {
    main_refused("new r0, Dog\nadd.int r1, r0, r0", "not a word");
    main_refused("int r0, 1\neq.ref r1, r0, r0", "not a reference");
    main_refused("new r0, Dog\ntext.length r1, r0", "not a string");
    main_refused("int r0, 1\nconcat r1, r0, r0", "not a string");
    main_accepted("text r0, \"a\"\nconcat r1, r0, r0\ntext.length r2, r1");
    main_refused(
        "int r0, 1\njump.if r0, over\nnew r1, Dog\njump end\nover:\ntext r1, \"\"\nend:\nmove r2, r1",
        "r1 holds nothing",
    );
}

#[test]
fn where_classes_meet_the_common_base_remains() {
    let meet = |then: &str| {
        format!(
            "int r0, 1\njump.if r0, over\nnew r1, Dog\njump end\nover:\nnew r1, Cat\nend:\n{then}"
        )
    };
    main_accepted(&meet("get r2, r1, 0"));
    main_refused(&meet("get r2, r1, 2"), "Animal has no field 2");
    let lists = "int r0, 1\njump.if r0, over\nnew r1, Dog\njump end\nover:\nnew.container r1, List<int>\nend:\n";
    main_accepted(&format!("{lists}ref.text r2, r1"));
    main_refused(&format!("{lists}get r2, r1, 0"), "not an object with fields");
    let other = "int r0, 1\njump.if r0, over\nfunc r1, main\njump end\nover:\nnew.container r1, List<int>\nend:\n";
    main_accepted(&format!("{other}eq.ref r2, r1, r1"));
    main_refused(&format!("{other}call.virtual r1, 2"), "no certain type");
}

#[test]
fn a_loop_is_followed_until_nothing_changes() {
    // r1 is a Dog at first, and an Animal when the loop comes round.
    main_refused(
        "int r0, 1\nnew r1, Dog\nback:\nget r2, r1, 2\nnew r1, Cat\nloop.if r0, back",
        "Animal has no field 2",
    );
    main_accepted("int r0, 1\nnew r1, Dog\nback:\nget r2, r1, 0\nnew r1, Cat\nloop.if r0, back");
}

#[test]
fn fields_have_their_types() {
    main_accepted("new r0, Dog\nget r1, r0, 2\nget r2, r1, 2\nset r0, 2, r1");
    main_refused("new r0, Dog\nget r1, r0, 3", "Dog has no field 3");
    main_refused("new r0, Dog\nget r1, r0, 0\nget r2, r1, 0", "not a reference");
    main_refused("new r0, Dog\nnew r1, Cat\nset r0, 2, r1", "not a Dog");
    main_refused("new r0, Dog\nint r1, 1\nset r0, 1, r1", "not a string");
    main_refused("text r0, \"\"\nget r1, r0, 0", "not an object with fields");
}

#[test]
fn null_is_of_every_reference_type_but_structs() {
    main_accepted("null r0, Dog\nget r1, r0, 0\nnull r1, string\ntext.length r2, r1");
    main_refused("null r0, Pair", "no null");
    main_refused("null r0, int", "no null");
    main_refused("null r0, null", "no null");
}

#[test]
fn structs_come_from_structs_only() {
    main_accepted("new r0, Nest\nget r1, r0, 0\ncopy r2, r1\nset r0, 0, r2");
    main_refused("new r0, Nest\nnew r1, Dog\nset r0, 0, r1", "not a Pair");
    main_refused("new r0, Dog\ncopy r1, r0", "not a struct");
}

#[test]
fn elements_are_read_with_their_size_and_sign() {
    let make =
        |ty: &str, then: &str| format!("int r0, 3\nint r1, 0\nnew.array r2, r0, {ty}\n{then}");
    main_accepted(&make("int[]", "array.get.32 r3, r2, r1\narray.set.32 r2, r1, r3"));
    main_refused(&make("int[]", "array.get.64 r3, r2, r1"), "not of 8 bytes");
    main_accepted(&make("byte[]", "array.get.i8 r3, r2, r1"));
    main_refused(&make("byte[]", "array.get.u8 r3, r2, r1"), "have a sign");
    main_accepted(&make("Dog[]", "array.get.64 r3, r2, r1\nget r4, r3, 2"));
    main_refused(&make("Dog[]", "array.set.64 r2, r1, r0"), "not a Dog");
    main_refused(&make("Dog[]", "list.get.64 r3, r2, r1"), "not a list");
    main_refused(&make("Dog[]", "new r4, Dog\narray.get.64 r3, r2, r4"), "not a word");
    main_refused("int r0, 1\nnew.array r1, r0, List<int>", "type that is none");
    main_refused("new.container r1, int[]", "type that is none");
    main_accepted("new.container r1, List<Dog>\nnew r2, Dog\nlist.add r1, r2");
    main_refused("new.container r1, List<Dog>\nnew r2, Cat\nlist.add r1, r2", "not a Dog");
    main_refused("new.container r1, List<Pair>\nnull r2, Dog\nlist.add r1, r2", "not a Pair");
}

#[test]
fn boxing_names_what_is_boxed() {
    main_accepted("int r0, 1\nbox r1, r0, int\nunbox r2, r1, int\nadd.int r2, r2, r2");
    main_accepted("text r0, \"\"\nbox r1, r0, string\nunbox r2, r1, string\ntext.length r2, r2");
    main_refused("text r0, \"\"\nbox r1, r0, int", "not a int");
    main_refused("new r0, Dog\nbox r1, r0, Dog", "not boxed");
    main_refused("int r0, 1\nunbox r1, r0, int", "not a reference");
}

#[test]
fn a_cast_gives_the_type_it_tests() {
    main_accepted("new r0, Dog\ncast r1, r0, Animal\ncast r2, r1, Dog\nget r3, r2, 2");
    main_accepted(
        "new r0, Dog\ncast r1, r0, Loud\nint r4, 1\nmove r3, r1\ncall.interface r3, sound",
    );
    main_refused("new r0, Dog\ncast r1, r0, Pair", "casts to such a type");
    main_refused("new r0, Dog\ncast r1, r0, int", "no reference");
}

#[test]
fn a_call_takes_what_the_signature_says_and_loses_its_window() {
    main_accepted("new r2, Dog\nint r3, 4\ncall.method r2, Dog.run\nadd.int r0, r2, r2");
    main_refused("new r2, Cat\nint r3, 4\ncall.method r2, Dog.run", "not a Dog");
    main_refused("new r2, Dog\ncall r2, Dog.run", "r3 holds nothing");
    main_refused(
        "new r2, Dog\nint r3, 4\ncall r2, Dog.run\nadd.int r0, r3, r3",
        "r3 holds nothing",
    );
    main_refused(
        "int r1, 1\nnew r2, Dog\nint r3, 4\ncall r2, Dog.run\nmove r0, r1",
        "r1 holds nothing",
    );
    main_refused("new r2, Dog\nint r3, 4\ncall r2, Dog.init\nmove r0, r2", "r2 holds nothing");
    main_refused("text r0, \"\"\ncall.native r0, io.print", "no room for the return address");
    main_accepted("text r7, \"\"\ncall.native r7, io.print");
    main_refused("new r7, Dog\ncall r7, Dog.run", "window goes beyond");
}

#[test]
fn outs_come_back_behind_the_result() {
    main_accepted(
        "int r2, 1\ntext r3, \"\"\ncall r2, split\nadd.int r0, r2, r2\ntext.length r0, r3",
    );
    refused("func void g(out string, out int) 3\nreturn.void", "r1 holds a word, not a string");
    accepted("func void f(int, out string) 3\nreturn.void");
    refused("func void f(out int) 1\nreturn.void", "no registers for its parameters");
}

#[test]
fn virtual_calls_know_the_slots_of_the_class() {
    main_accepted("new r1, Dog\nint r2, 1\ncall.virtual r1, 3\nadd.int r0, r1, r1");
    main_refused("new r1, Dog\nint r2, 1\ncall.virtual r1, 4", "no slot 4");
    main_refused("new r1, Dog\nnew r2, Dog\ncall.virtual r1, 3", "not a int");
    main_accepted("new.container r1, List<int>\ncall.virtual r1, 2\ntext.length r0, r1");
    main_refused("new.container r1, List<int>\ncall.virtual r1, 3", "no slot 3");
    main_refused("func r1, main\ncall.virtual r1, 2", "not an object with methods");
    main_accepted("new r0, Dog\nbind.virtual r1, r0, 3\nint r4, 1\ncall.func r3, r1\nmove r0, r3");
}

#[test]
fn interface_calls_take_any_object() {
    main_accepted("new r1, Dog\nint r2, 1\ncall.interface r1, sound\nadd.int r0, r1, r1");
    main_accepted("new r1, Cat\nint r2, 1\ncall.interface r1, sound");
    main_refused("text r1, \"\"\nint r2, 1\ncall.interface r1, sound", "not an object");
    main_accepted("new r0, Dog\nbind.interface r1, r0, sound\nint r4, 1\ncall.func r3, r1");
}

#[test]
fn function_values_carry_their_signature() {
    main_accepted("func r0, Dog.run\nnew r3, Dog\nint r4, 1\ncall.func r2, r0\nmove r1, r2");
    main_accepted("new r0, Dog\nbind r1, r0, Dog.run\nint r4, 1\ncall.func r3, r1");
    main_refused("new r0, Cat\nbind r1, r0, Dog.run", "not a Dog");
    main_refused("func r0, main\nint r3, 1\ncall.func r2, r3", "not a reference");
    main_refused("func r0, Dog.run\nint r3, 1\nint r4, 1\ncall.func r2, r0", "not a Dog");
    main_refused("func r0, split", "no type for the function value");
    main_refused("new r0, Dog\nbind r1, r0, main", "no receiver");
    main_refused("new r0, Dog\neq.func r1, r0, r0", "not a function value");
}

#[test]
fn a_return_gives_what_the_signature_says() {
    accepted("func Animal f() 1\nnew r0, Dog\nreturn r0");
    refused("func Dog f() 1\nnew r0, Cat\nreturn r0", "not a Dog");
    refused("func int f() 1\nreturn.void", "returns nothing");
    refused("func void f() 1\nint r0, 1\nreturn r0", "not a void");
    accepted("func int f() 1\nreturn.int 7");
    refused("func string f() 1\nreturn.int 7", "returns a word");
}

#[test]
fn only_exceptions_are_thrown() {
    accepted("func void f() 1\nnew r0, IOException\nthrow r0");
    refused("func void f() 1\nnew r0, Dog\nthrow r0", "not a Exception");
    accepted("func void f() 1\nraise DivByZeroException, \"x\"");
}

#[test]
fn a_handler_sees_what_every_instruction_of_its_range_leaves() {
    let with = |handler: &str| {
        format!(
            "int r0, 1\na:\nint r1, 2\nnew r1, Dog\nadd.int r0, r0, r0\nb:\njump end\nh:\n{handler}\nend:\ntry a b h r5 Exception"
        )
    };
    main_accepted(&with("add.int r0, r0, r0\nget r2, r5, 0"));
    main_refused(&with("move r2, r1"), "r1 holds nothing");
}

#[test]
fn a_handler_does_not_see_the_window_of_a_call_that_threw() {
    let with = |handler: &str| {
        format!(
            "int r0, 1\nint r2, 2\nint r4, 4\na:\nint r3, 3\ncall.method r5, Dog.run\nb:\njump end\nh:\n{handler}\nend:\ntry a b h r6 Exception"
        )
        .replace("int r3, 3", "new r5, Dog\nint r6, 1")
    };
    main_accepted(&with("add.int r0, r2, r2\nget r1, r6, 0"));
    main_refused(&with("add.int r0, r4, r4"), "r4 holds nothing");
}

#[test]
fn handlers_stand_behind_their_range() {
    main_refused("h:\nint r0, 1\na:\nint r1, 2\nb:\ntry a b h r5 Exception", "behind a range");
    main_refused("a:\nint r1, 2\nb:\nint r0, 1\ntry a b b r9 Exception", "no register");
    main_refused("a:\nint r1, 2\nb:\nint r0, 1\ntry a b b r5 Dog", "no exception");
}

#[test]
fn jumps_stay_inside_and_only_loops_go_back() {
    main_refused("back:\nint r0, 1\njump.if r0, back", "only loops go back");
    main_refused("int r0, 1\nloop.if r0, on\non:", "only loops go back");
    broken(
        |m| m.functions.last_mut().unwrap().code.insert(0, Code::ax(Op::Jump, 0, 7)),
        "leaves the function",
    );
    broken(
        |m| m.functions.last_mut().unwrap().code[0] = Code::ax(Op::Loop, 0, -2i32 as u32),
        "leaves the function",
    );
    main_refused("int r0, 1\nback:\nint r0, 1\nswitch r0, 0 back | back", "switch goes back");
    main_accepted("int r0, 1\nswitch r0, -1 one two | end\none:\nint r1, 1\ntwo:\nint r1, 2\nend:");
    broken(
        |m| m.functions.last_mut().unwrap().code = vec![Code::ax(Op::Int, 0, 1)],
        "goes on to a next one",
    );
    broken(|m| m.functions.last_mut().unwrap().code.clear(), "no code");
}

#[test]
fn operands_name_what_exists() {
    let last = |m: &mut Module, code: Code| m.functions.last_mut().unwrap().code.insert(0, code);
    broken(|m| last(m, Code::ax(Op::Int, 8, 1)), "no register 8");
    broken(|m| last(m, Code::ax(Op::Text, 0, 1000)), "no text constant 1000");
    broken(|m| last(m, Code::ax(Op::Const, 0, 0)), "no word constant");
    broken(|m| last(m, Code::ax(Op::New, 0, 1000)), "no class");
    broken(|m| last(m, Code::ax(Op::Call, 1, 1000)), "no function");
    broken(|m| last(m, Code::ax(Op::CallNative, 1, 2)), "no native");
    broken(|m| last(m, Code::ax(Op::CallInterface, 1, 1)), "no selector");
    broken(|m| last(m, Code::ax(Op::Null, 0, 1000)), "no type");
    broken(|m| last(m, Code::ax(Op::Raise, 9, 0)), "no exception");
    broken(|m| last(m, Code::ax(Op::Switch, 0, 0)), "no switch");
    broken(|m| last(m, Code(0xffff)), "no operation 65535");
    main_refused("int r0, 1\ndiv.int.k r1, r0, 0", "constant 0");
    main_refused("text r6, \"\"\ntext r7, \"\"\nconcat.many r0, r6, 3", "beyond the registers");
    main_refused("text r6, \"\"\nint r7, 1\nconcat.many r0, r6, 2", "not a string");
}

#[test]
fn the_known_types_and_exceptions_come_first() {
    broken(|m| m.types.classes[0].fields.truncate(1), "do not begin with the exceptions");
}

#[test]
fn types_consist_of_earlier_ones_of_which_there_are_values() {
    broken(|m| _ = m.types.intern(Type::List(TypeId(9999))), "do not come before it");
    broken(|m| _ = m.types.intern(Type::List(known::VOID)), "part of type void");
    broken(|m| _ = m.types.intern(Type::Array(known::NULL)), "part of type null");
    broken(
        |m| {
            let func = m.types.intern(Type::Func(m.functions[0].signature.clone()));
            m.types.intern(Type::Dict(func, known::INT));
        },
        "function values as keys",
    );
    use crate::vm::types::{ClassId, EnumId, InterfaceId};
    broken(|m| _ = m.types.intern(Type::Struct(ClassId(0))), "mistakes");
    broken(|m| _ = m.types.intern(Type::Class(ClassId(999))), "class that does not exist");
    broken(|m| _ = m.types.intern(Type::Enum(EnumId(9))), "enum that does not exist");
    broken(|m| _ = m.types.intern(Type::Interface(InterfaceId(9))), "does not exist");
}

#[test]
fn a_class_begins_as_its_base_does() {
    use crate::vm::types::{ClassId, Method};
    broken(|m| m.types.classes[10].fields.swap(0, 1), "fields of its base");
    broken(|m| m.types.classes[10].vtable.truncate(3), "lacks virtual methods");
    broken(|m| m.types.classes[10].base = Some(ClassId(10)), "after its base");
    broken(|m| m.types.classes[11].base = Some(ClassId(12)), "after its base");
    broken(|m| m.types.classes[12].base = Some(ClassId(9)), "struct with base");
    let script = |id| Method::Script(FunctionId(id));
    broken(|m| m.types.classes[10].vtable[3] = script(0), "another signature");
    broken(|m| m.types.classes[11].vtable[3] = script(2), "takes no such receiver");
    broken(|m| m.types.classes[10].vtable[0] = script(0), "another signature");
    broken(|m| m.types.classes[10].vtable[3] = script(99), "does not exist");
    broken(|m| m.types.classes[10].vtable[3] = Method::Native, "nothing in slot 3");
    broken(|m| m.types.classes[10].selectors[0].1 = FunctionId(0), "another signature");
}

#[test]
fn classes_are_not_piled_up_without_end() {
    let mut text = String::from("class C0 { int x; }\n");
    for i in 1..=255 {
        text += &format!("class C{i} : C{} {{ }}\n", i - 1);
    }
    accepted(&text);
    text += "class C256 : C255 { }\n";
    refused(&text, "too many classes above it");
}

#[test]
fn a_struct_contains_neither_itself_nor_too_many_others() {
    refused("struct A { B b; }\nstruct B { A a; }", "contains itself");
    refused("struct A { A a; }", "contains itself");
    accepted("struct A { A[] a; }");
    let mut text = String::from("struct S0 { int x; }\n");
    for i in 1..=20 {
        text += &format!("struct S{i} {{ S{0} a; S{0} b; }}\n", i - 1);
    }
    refused(&text, "consists of more than");
}

#[test]
fn natives_are_those_of_the_library() {
    refused("native void io.print(int)", "no native of this name");
    refused("native void io.destroy()", "no native of this name");
    accepted("native Dog List.get(List<Dog>, int)");
    refused("native Cat List.get(List<Dog>, int)", "no native of this name");
}

#[test]
fn main_takes_nothing_and_returns_int_or_nothing() {
    accepted("func int main() 1\nreturn.int 0");
    refused("func int main(int) 1\nreturn.int 0", "has parameters");
    refused("func string main() 1\nnull r0, string\nreturn r0", "neither int nor nothing");
    broken(|m| m.main = Some(FunctionId(99)), "does not exist");
}

#[test]
fn what_no_way_leads_to_is_not_looked_at() {
    accepted("func void f() 2\nreturn.void\nadd.int r0, r1, r1\nreturn.void");
}

fn map(code: &str, local: bool) -> (Verified, FunctionId) {
    let mut module = module(code);
    let function = FunctionId(module.functions.len() as u32 - 1);
    if local {
        module.functions.last_mut().unwrap().locals.push(crate::vm::module::Local {
            name: "d".into(),
            ty: known::OBJECT,
            register: 1,
            first: 1,
            end: 3,
        });
    }
    let verified = verify(module, &Library).unwrap_or_else(|error| panic!("{error}"));
    (if local { verified.keep_locals() } else { verified }, function)
}

#[test]
fn a_map_has_the_references_that_are_still_read() {
    let code = "func void f(int, Dog) 6
        new r2, Cat
        new r3, Dog
        set r1, 2, r3
        ref.text r4, r2
        return.void";
    let (verified, f) = map(code, false);
    let map = |at| verified.maps(f).references(at)[0];
    assert_eq!([map(0), map(1), map(2), map(3), map(4)], [0b10, 0b110, 0b1110, 0b100, 0]);
}

#[test]
fn a_debugger_finds_local_variables_that_nothing_reads_any_more() {
    let code = "func void f(int, Dog) 6
        new r2, Cat
        ref.text r3, r2
        int r4, 1
        return.void";
    let (plain, f) = map(code, false);
    assert_eq!(plain.maps(f).references(2)[0], 0);
    let (kept, f) = map(code, true);
    assert_eq!(kept.maps(f).references(2)[0], 0b10);
    assert_eq!(kept.maps(f).references(3)[0], 0);
}

#[test]
fn what_a_loop_or_a_handler_reads_later_stays_in_the_map() {
    let code = "func void f(int, Dog) 8
      back:
        int r6, 1
        new r5, Dog
      a:
        call.method r5, Dog.run
      b:
        loop.if r0, back
        return.void
      h:
        get r2, r1, 0
        return.void
        try a b h r3 Exception";
    let (verified, f) = map(code, false);
    let map = |at| verified.maps(f).references(at)[0];
    assert_eq!(map(2), 0b100010, "receiver, and what the handler reads");
    assert_eq!(map(3), 0b10, "the next round may throw");
    assert_eq!(map(4), 0);
    assert_eq!(map(5), 0b10);
}

#[test]
fn maps_reach_beyond_sixty_four_registers() {
    let code = "func void f(Dog) 200
        move r130, r0
        int r0, 1
        ref.text r1, r130
        return.void";
    let (verified, f) = map(code, false);
    assert_eq!(verified.maps(f).references(2), [0, 0, 0b100, 0]);
}
