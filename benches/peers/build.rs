//! Looks for the peers that no Rust registry has: links Boost.Context, and builds the Go programs, when
//! they are there.
//!
//! Nothing here may fail the build: a machine without one of them measures one contender less, and
//! the tables say so.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    look_for_fcontext();
    look_for_go();
}

/// The programs are built for the machine at hand, and started there.
fn look_for_go() {
    println!("cargo:rerun-if-changed=go");
    println!("cargo:rerun-if-env-changed=PATH");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let build = |source: &str, program: &Path| {
        Command::new("go")
            .args(["build", "-o"])
            .arg(program)
            .arg(source)
            // Nothing outside the build's own folder, and nothing from the net.
            .env("GOCACHE", folder.join("go-cache"))
            .env("GOPATH", folder.join("go-path"))
            .envs([
                ("GO111MODULE", "off"),
                ("GOFLAGS", ""),
                ("GOTOOLCHAIN", "local"),
                ("CGO_ENABLED", "0"),
            ])
            .stdout(Stdio::null())
            .status()
    };
    let (peer, http) = (folder.join("peer-go"), folder.join("peer-go-http"));
    let both = build("go/main.go", &peer)
        .and_then(|first| Ok(first.success() && build("go/http/main.go", &http)?.success()));
    match both {
        Ok(true) => {
            println!("cargo:rustc-env=PIRN_PEERS_GO={}", peer.display());
            println!("cargo:rustc-env=PIRN_PEERS_GO_HTTP={}", http.display());
            println!("cargo:rustc-cfg=has_go");
        }
        Ok(false) => {
            println!("cargo:warning=the Go programs could not be built: Go is not measured")
        }
        Err(_) => println!("cargo:warning=there is no Go: it is not measured"),
    }
}

fn look_for_fcontext() {
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
