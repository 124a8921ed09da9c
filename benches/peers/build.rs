//! Looks for Boost.Context, the one peer that no Rust registry has, and links it when it is there.
//!
//! Nothing here may fail the build: a machine without Boost measures one contender less.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=probe/fcontext.cpp");

    // The target's own compiler is asked, so that a cross build does not find the host's library.
    let compiler = cc::Build::new().cpp(true).get_compiler();
    let Ok(answer) = compiler.to_command().arg("-print-file-name=libboost_context.a").output()
    else {
        return;
    };
    let answer = String::from_utf8_lossy(&answer.stdout);
    // The compiler answers with the bare name when it finds no such file.
    let Some(folder) = Path::new(answer.trim()).parent().filter(|folder| folder.is_absolute())
    else {
        return;
    };

    // The header states the signatures that `src/contenders/fcontext.rs` declares by hand.
    let shim = cc::Build::new()
        .cpp(true)
        .cpp_link_stdlib(None)
        .file("probe/fcontext.cpp")
        .warnings(false)
        .cargo_warnings(false)
        .try_compile("pirn_peers_fcontext_probe");
    if shim.is_err() {
        return;
    }

    // Static: a call through the dynamic linker's table would be charged to Boost's switch.
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static=boost_context");
    println!("cargo:rustc-cfg=has_fcontext");
}
