//! A stack on which the compiler may recurse.
//!
//! Trees are at most [`MAX_DEPTH`](super::parser::MAX_DEPTH) high, but the passes that recurse over
//! them must not depend on how much stack their caller has left: that may be a fiber with 100 KiB.

use std::convert::Infallible;

use crate::coroutine::{self, Builder, CoroutineState, Suspender};

/// 64 KiB a level; address space, of which programs that people write touch next to nothing.
const STACK: usize = 64 * 1024 * super::parser::MAX_DEPTH as usize;

/// Runs something on a stack of its own that is large enough for every tree. (If there is none to
/// be had, on the present one.) A panic goes through.
///
/// What runs must not block: it is no place to wait in.
pub(crate) fn on_deep_stack<T>(run: impl FnOnce() -> T) -> T {
    let mut run = Some(run);
    let result = coroutine::scope(|scope| {
        let body = |_: &Suspender<(), Infallible>, ()| run.take().map(|run| run());
        let builder = Builder::new().name("compiler").stack_size(STACK);
        let Ok(mut compiler) = builder.build_scoped(scope, body) else { return None };
        match compiler.resume(()) {
            Ok(CoroutineState::Return(result)) => result,
            Ok(CoroutineState::Yield(never)) => match never {},
            Err(_) => None,
        }
    });
    match (result, run) {
        (Some(result), _) => result,
        (None, Some(run)) => run(),
        (None, None) => unreachable!("what ran has given its result"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
