//! Whole programs: the scripts that state the language's promises, and the examples.

use std::fs;
use std::path::{Path, PathBuf};

use super::try_compile;
use crate::vm::verify::{Library, verify};

fn scripts(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "n") {
            found.push(path);
        }
    }
}

#[test]
fn the_verifier_takes_every_program_of_the_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    scripts(&root.join("tests/lang"), &mut paths);
    scripts(&root.join("examples/scripts"), &mut paths);
    let mut verified = 0;
    let mut refused = Vec::new();
    for path in &paths {
        let Ok(text) = fs::read_to_string(path) else { continue };
        // Not legal: a test of messages, or one unit of several.
        let Ok(module) = try_compile(&text.replace("\r\n", "\n")) else { continue };
        match verify(module, &Library) {
            Ok(_) => verified += 1,
            Err(error) => refused.push(format!("{}: {error}", path.display())),
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(verified >= 150, "only {verified} of {} scripts are legal", paths.len());
}
