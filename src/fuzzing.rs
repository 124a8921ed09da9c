//! What the targets in `fuzz/` call. Only there with `--cfg fuzzing`, and no part of the interface.

use crate::lang::check::check;
use crate::lang::diagnostic::Style;
use crate::lang::loader::Memory;
use crate::lang::lower::lower;
use crate::lang::on_deep_stack;
use crate::lang::units::{Root, load};

/// Compiles bytes as the source of a program.
///
/// # Panics
///
/// When the front end has a mistake.
pub fn front_end(bytes: &[u8]) {
    on_deep_stack(|| {
        let others = Memory::default().with("helper", "int twice(int n) { return n * 2; }");
        let program = load(Root::new("main.n", bytes), &others);
        let (checked, found) = check(&program, &|_| true);
        let mut diagnostics = program.diagnostics;
        diagnostics.append(found);
        let shown = diagnostics.render(&program.sources, Style { colour: false, limit: 100 });
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert_eq!(checked.is_none(), diagnostics.has_errors(), "{shown}");
        if let Some(checked) = checked {
            let _ = lower(checked, &program.sources);
        }
    });
}
