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
mod tests;
