//! What was made to take long is refused or done in little work, which is counted.

use super::flow::Budget;
use super::kind::{Kind, Kinds, Lineage};
use super::maps::liveness_work;
use super::{Library, VerifyError, verify, verify_within};
use crate::vm::asm::assemble;
use crate::vm::module::{Handler, Module};
use crate::vm::op::{Code, Op};
use crate::vm::types::{CLASS_DEPTH, ClassId, FunctionId, TypeId, known};

/// Verifies a module and tells the work that it took, and for how many instructions.
fn measure(module: Module) -> (Result<(), VerifyError>, u64, u64) {
    let instructions = module.functions.iter().map(|f| f.code.len() as u64).sum();
    let mut budget = Budget::new(instructions);
    let begin = budget.left();
    let result = verify_within(module, &Library, &mut budget).map(drop);
    (result, begin - budget.left(), instructions)
}

#[test]
fn the_work_that_is_allowed_is_in_proportion_to_the_code() {
    let [none, thousand, million] = [0, 1000, 1_000_000].map(|n| Budget::new(n).left());
    assert!(thousand - none < 1 << 23);
    assert!(million <= 1 << 28, "half a second");
    assert!(none < 1 << 23);
}

#[test]
fn code_that_takes_ever_more_rounds_is_refused() {
    // Each round through the loop brings the more general class one register further.
    let mut text = String::from("class A { }\nclass B : A { }\nfunc void f(int, A, B) 1000\n");
    for i in 3..1000 {
        text += &format!("move r{i}, r2\n");
    }
    text += "back:\n";
    for i in (4..1000).rev() {
        text += &format!("move r{i}, r{}\njump.if r0, l{i}\nl{i}:\n", i - 1);
    }
    text += "move r3, r1\nloop.if r0, back\nreturn.void";
    let (result, work, _) = measure(assemble(&text));
    let error = result.unwrap_err().to_string();
    assert!(error.contains("too intricate"), "{error}");
    assert!(work < 1 << 25, "{work}");
}

#[test]
fn many_handlers_cost_where_they_stand_and_maps_stay_exact() {
    const HANDLERS: u32 = 3000;
    let mut text = String::from("func void f(string, string) 4\n");
    for _ in 0..HANDLERS {
        text += "concat r2, r0, r0\n";
    }
    text += "return.void\ncaught:\nref.text r2, r1\nreturn.void\n";
    let mut module = assemble(&text);
    let handler = |i| Handler {
        first: i,
        end: i + 1,
        target: HANDLERS + 1,
        register: 3,
        ty: known::EXCEPTION,
    };
    module.functions[0].handlers = (0..HANDLERS).map(handler).collect();
    let (result, work, instructions) = measure(module.clone());
    assert_eq!(result, Ok(()));
    assert!(work < 20 * instructions, "{work} for {instructions}");
    assert!(liveness_work(&module, 0) < 20 * instructions as usize);
    let verified = verify(module, &Library).unwrap();
    let map = |at| verified.maps(FunctionId(0)).references(at)[0];
    assert_eq!([map(0), map(HANDLERS as usize - 1)], [0b11, 0b11]);
    assert_eq!(map(HANDLERS as usize), 0);
}

#[test]
fn liveness_gives_up_on_what_takes_long_and_keeps_everything() {
    // Each handler covers one instruction more than the one before it.
    const HANDLERS: u32 = 200;
    let mut text = String::from("func void f(string, string) 20000\n");
    for _ in 0..HANDLERS {
        text += "concat r2, r0, r0\n";
    }
    text += "return.void\ncaught:\nreturn.void\n";
    let mut module = assemble(&text);
    let handler = |i| Handler {
        first: i,
        end: HANDLERS,
        target: HANDLERS + 1,
        register: 3,
        ty: known::EXCEPTION,
    };
    module.functions[0].handlers = (0..HANDLERS).map(handler).collect();
    let work = liveness_work(&module, 0);
    let instruction = (HANDLERS as usize + 2) * 20_000_usize.div_ceil(64);
    assert!(work < (HANDLERS as usize + 2) * 4096 + instruction, "{work}");
    let verified = verify(module, &Library).unwrap();
    let map = verified.maps(FunctionId(0)).references(HANDLERS as usize + 1);
    assert_eq!(map[0] & 0b11, 0b11, "nothing reads them any more");
}

#[test]
fn the_parameters_of_every_call_are_paid_for() {
    const CALLS: usize = 300;
    const PARAMS: usize = 300;
    let params = vec!["int"; PARAMS].join(", ");
    let mut text = format!("func void g({params}) {PARAMS}\nreturn.void\nfunc void f() 301\n");
    for _ in 0..CALLS {
        for i in 1..=PARAMS {
            text += &format!("int r{i}, 1\n");
        }
        text += "call r1, g\n";
    }
    text += "return.void";
    let (result, work, _) = measure(assemble(&text));
    assert_eq!(result, Ok(()));
    // Made, handed over, lost.
    assert!(work > (3 * CALLS * PARAMS) as u64, "{work}");
    assert!(work < (4 * CALLS * PARAMS) as u64, "{work}");
}

#[test]
fn a_call_loses_only_registers_that_were_readable() {
    const CALLS: u64 = 500;
    let mut text = String::from("func void g() 1\nreturn.void\nfunc void f() 65535\n");
    text += &"call r1, g\n".repeat(CALLS as usize);
    text += "return.void";
    let (result, work, _) = measure(assemble(&text));
    assert_eq!(result, Ok(()));
    assert!(work < 3 * 65535, "{work}: the frame was gone through at each call");
}

#[test]
fn classes_are_compared_without_climbing_from_one_to_another() {
    let mut text = String::from("class C0 { int x; }\n");
    for i in 1..=CLASS_DEPTH {
        text += &format!("class C{i} : C{} {{ }}\n", i - 1);
    }
    text += &format!("class D : C{} {{ }}\n", CLASS_DEPTH - 1);
    let module = assemble(&text);
    let types = &module.types;
    let lineage = Lineage::new(types);
    let kinds = Kinds { types, lineage: &lineage };
    let of = |name: &str| {
        let found = (0..types.len() as u32).map(TypeId);
        Kind::reference(found.into_iter().find(|&ty| types.name(ty) == name).unwrap())
    };
    let (top, middle, low, beside) = (of("C0"), of("C100"), of("C255"), of("D"));
    let mut work = 0;
    assert_eq!(kinds.join(top, low, &mut work), top);
    assert_eq!(kinds.join(middle, beside, &mut work), middle);
    assert_eq!(work, 0, "what has risen already is not climbed again");
    assert_eq!(kinds.join(low, beside, &mut work), of("C254"));
    assert_eq!(work, 1);
    assert_eq!(kinds.join(low, of("Exception"), &mut work), Kind::OBJECT);
    assert!(kinds.assignable(low, top.ty().unwrap()));
    assert!(!kinds.assignable(top, low.ty().unwrap()));
    assert!(!kinds.assignable(low, beside.ty().unwrap()));
}

#[test]
fn related_classes_are_those_that_their_bases_lead_to() {
    // A tree that is not numbered in the order of its branches.
    let bases = [0, 1, 0, 3, 1, 2, 0, 5, 4, 7, 0, 1];
    let mut text = String::from("class K0 { int x; }\n");
    for (i, base) in bases.iter().enumerate().skip(1) {
        let above = if i == 6 { String::new() } else { format!(": K{}", base % i) };
        text += &format!("class K{i} {above} {{ }}\n");
    }
    let module = assemble(&text);
    let lineage = Lineage::new(&module.types);
    let classes = || (0..module.types.classes.len() as u32).map(ClassId);
    for class in classes() {
        for from in classes() {
            let expected = module.types.derives(class, from);
            assert_eq!(lineage.derives(class, from), expected, "{class:?} from {from:?}");
        }
    }
}

#[test]
fn pointer_maps_take_no_more_than_all_functions_together_may() {
    let mut text = String::new();
    for i in 0..9 {
        text += &format!("func void f{i}() 65535\nreturn.void\n");
    }
    let mut module = assemble(&text);
    for function in &mut module.functions[..8] {
        function.code = vec![Code::abc(Op::ReturnVoid, 0, 0, 0); 4000];
    }
    assert!(verify(module.clone(), &Library).is_ok());
    module.functions[8].code = vec![Code::abc(Op::ReturnVoid, 0, 0, 0); 4000];
    let error = verify(module, &Library).unwrap_err().to_string();
    assert!(error.contains("too much code for so many registers"), "{error}");
}
