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
