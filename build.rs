//! Assembles `asm/<arch>.S` with the C compiler, so that a debugger steps it by source line,
//! and tells the crate which sanitizer it is built with.

use std::env;
use std::process;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=asm");

    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let os = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let source = match (arch.as_str(), os.as_str()) {
        ("x86_64", "linux") => "asm/x86_64.S",
        ("aarch64", "linux") => "asm/aarch64.S",
        _ => fail(&format!(
            "pirn has no stack switch for {arch}-{os}; it supports x86_64 and aarch64 on Linux"
        )),
    };

    let mut build = cc::Build::new();
    // Line information always: it costs nothing at run time and lets gdb show the source.
    build.file(source).debug(true).cargo_warnings(false);
    if let Err(error) = build.try_compile("pirn_switch") {
        fail(&format!(
            "pirn could not assemble {source}: it needs a C compiler for the target \
             (Debian: apt-get install gcc; or set CC). {error}"
        ));
    }

    // The interpreter's threaded code needs the compiler to turn calls in tail position into jumps, as
    // it does when it optimises and nothing instruments the functions.
    println!("cargo:rerun-if-env-changed=PIRN_DISPATCH");
    let optimised = matches!(env::var("OPT_LEVEL").as_deref(), Ok("2" | "3" | "s" | "z"));
    let instrumented = env::var_os("CARGO_CFG_SANITIZE").is_some_and(|list| !list.is_empty())
        || env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("instrument"));
    let wanted = env::var("PIRN_DISPATCH").map_or(true, |shape| shape != "loop");
    if optimised && !instrumented && wanted {
        println!("cargo:rustc-cfg=pirn_threaded");
    }

    // `-Zsanitizer=…` shows as a cfg that stable code cannot ask for, but a build script can.
    let sanitizers = env::var("CARGO_CFG_SANITIZE").unwrap_or_default();
    for sanitizer in sanitizers.split(',') {
        match sanitizer {
            "address" => println!("cargo:rustc-cfg=pirn_asan"),
            "thread" => println!("cargo:rustc-cfg=pirn_tsan"),
            _ => {}
        }
    }
}

/// Ends the build with one clear message.
fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    process::exit(1);
}
