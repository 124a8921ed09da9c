use super::*;
use crate::lang::compile;
use crate::lang::diagnostic::Style;
use crate::lang::loader::Memory;
use crate::lang::units::{Root, load};

fn depth_of(levels: usize) -> usize {
    let here = std::hint::black_box([levels; 128]);
    if levels == 0 { 0 } else { depth_of(levels - 1) + usize::from(here[0] == levels) }
}

#[test]
fn a_megabyte_of_frames_fits_whatever_stack_the_caller_has() {
    let text = "borrowed".to_owned();
    let small = || assert_eq!(on_deep_stack(|| (depth_of(8000), text.len())), (8000, 8));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        thread.spawn_scoped(scope, small).expect("a thread").join().expect("no panic");
    });
    let fiber = crate::run(|| crate::thread::spawn(|| on_deep_stack(|| depth_of(8000))).join());
    assert_eq!(fiber.expect("no panic"), 8000);
}

#[test]
fn a_panic_comes_out() {
    let caught = std::panic::catch_unwind(|| on_deep_stack(|| panic!("inside")));
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"inside"));
}

/// Statements that are so deep, in a way each, and right.
const DEEP: [fn(usize) -> String; 19] = [
    |n| format!("a = {}1{};", "(".repeat(n), ")".repeat(n)),
    |n| format!("a = a{};", " + a".repeat(n)),
    |n| format!("a = a{};", " * a - a".repeat(n / 2)),
    |n| format!("b = b{};", " && b || b".repeat(n / 2)),
    |n| format!("s = s{};", " + a + s".repeat(n / 2)),
    |n| format!("a = {}a;", "- ".repeat(n)),
    |n| format!("b = {}b;", "!".repeat(n)),
    |n| format!("a = a{};", " as int".repeat(n)),
    |n| format!("a = {}a{};", "id(".repeat(n), ")".repeat(n)),
    |n| format!("o = o{};", ".next".repeat(n)),
    |n| format!("o = o{};", ".self()".repeat(n)),
    |n| format!("a = {}0{};", "xs[".repeat(n), "]".repeat(n)),
    |n| format!("o = {}null{};", "new C{next: ".repeat(n), "}".repeat(n)),
    |n| format!("{}int{} x = null;", "List<".repeat(n), ">".repeat(n)),
    |n| format!("{}{}", "{ int x = a; ".repeat(n), "}".repeat(n)),
    |n| format!("{}a = 1;", "if (b) while (b) ".repeat(n / 2)),
    |n| format!("if (b) a = 1;{}", " else if (b) a = 2;".repeat(n)),
    |n| format!("{}{}", "switch (a) { case 1: ".repeat(n), "}".repeat(n)),
    |n| format!("{}a = 1;{}", "try { ".repeat(n), " } finally { }".repeat(n)),
];

#[test]
fn the_deepest_programs_compile_on_the_stack_of_a_fiber() {
    let compiled = |statements: &str| {
        let text = format!(
            "class C {{ public C next; public C self() {{ return this; }} }}
            int id(int x) {{ return x; }}
            int main() {{ int a; bool b; string s; C o; int[] xs = [0];\n{statements}\nreturn a; }}"
        );
        // What the compiler makes on the way is taken apart on its stack, too.
        on_deep_stack(|| {
            let program = load(Root::new("main.n", text), &Memory::default());
            let (module, diagnostics) = compile(&program, &|_| false);
            let style = Style { colour: false, limit: 1 };
            (module.is_some(), diagnostics.render(&program.sources, style))
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(112 * 1024);
        let all = || {
            for program in DEEP {
                let (is_right, shown) = compiled(&program(100));
                assert!(is_right, "{shown}");
                // As deep as the parser lets them be, whatever the other passes say.
                for levels in [120, 240, 250, 300] {
                    compiled(&program(levels));
                }
            }
        };
        thread.spawn_scoped(scope, all).expect("a thread").join().expect("no panic");
    });
}
