//! How a test's child process must end.

#![allow(dead_code, reason = "each test program uses some of it")]

use crate::child::{Child, child};

const QUIET: &[(&str, &str)] = &[("RUST_BACKTRACE", "0")];

/// Runs `body` in a child process, which must succeed; returns what it wrote to stderr.
#[track_caller]
pub fn succeeds(test: &str, body: impl FnOnce()) -> String {
    // A test here has one child, which does not come back.
    let child = child(test, "alone", QUIET, body).unwrap();
    assert!(child.code == Some(0), "{test}: {child:?}");
    child.err
}

/// Like [`succeeds`], for a body that leaks on purpose: AddressSanitizer would object.
#[track_caller]
pub fn succeeds_leaking(test: &str, body: impl FnOnce()) -> String {
    let env = [QUIET[0], ("ASAN_OPTIONS", "detect_leaks=0")];
    let child = child(test, "alone", &env, body).unwrap();
    assert!(child.code == Some(0), "{test}: {child:?}");
    child.err
}

/// Runs `body` in a child process, which must be killed by this signal; returns what it wrote to
/// stderr.
#[track_caller]
pub fn is_killed_by(signal: i32, test: &str, body: impl FnOnce()) -> String {
    // A test here has one child, which does not come back.
    let child = child(test, "alone", QUIET, body).unwrap();
    let Child { signal: killed_by, code, .. } = child;
    // AddressSanitizer catches faults and exits. An emulator may pass a signal on as an exit code.
    let died = killed_by == Some(signal)
        || code == Some(128 + signal)
        || has_sanitizer() && code.is_some_and(|code| code != 0);
    assert!(died, "{test}: {child:?}");
    child.err
}

/// Whether the program was built with AddressSanitizer or ThreadSanitizer.
pub const fn has_sanitizer() -> bool {
    cfg!(any(pirn_asan, pirn_tsan))
}
