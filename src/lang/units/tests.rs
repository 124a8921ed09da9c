use super::*;
use crate::lang::diagnostic::Style;
use crate::lang::loader::Memory;

fn program(root: &str, others: &[(&str, &str)]) -> ParsedProgram {
    let add = |memory: Memory, &(name, text): &(&str, &str)| memory.with(name, text);
    load(Root::new("main.n", root), &others.iter().fold(Memory::default(), add))
}

fn packages(program: &ParsedProgram) -> Vec<&str> {
    program.units.iter().map(|unit| unit.package.as_str()).collect()
}

fn imports(program: &ParsedProgram, unit: usize) -> Vec<&str> {
    program.units[unit].imports.iter().map(|import| import.name.as_str()).collect()
}

fn messages(program: &ParsedProgram) -> Vec<String> {
    program.diagnostics.sorted().iter().map(|found| found.message.clone()).collect()
}

#[test]
fn what_imports_name_is_loaded_once_breadth_first_and_nothing_else() {
    let program = program(
        "import b; import a; import io;",
        &[("a", "import c; import b;"), ("b", "import a; import main;"), ("c", ""), ("d", "")],
    );
    assert_eq!(messages(&program), [""; 0]);
    assert_eq!(packages(&program), ["main", "b", "a", "c"]);
    assert_eq!(imports(&program, 0), ["a", "b", "io"]);
    assert_eq!(program.units[0].imports[2].target, ImportTarget::Library);
    assert_eq!(program.units[1].imports[1].target, ImportTarget::Unit(UnitId(0)));
    assert_eq!(imports(&program, 2), ["b", "c"]);
    assert_eq!(imports(&program, 3), [""; 0]);
}

#[test]
fn a_prefix_opens_everything_below_it() {
    let program = program(
        "import lib.*; import lib.a;",
        &[("lib.a", ""), ("lib.x.y.z", ""), ("library.b", ""), ("lib", "")],
    );
    assert_eq!(imports(&program, 0), ["lib.a", "lib.x.y.z"]);
    assert_eq!(packages(&program), ["main", "lib.a", "lib.x.y.z"]);
}

#[test]
fn neighbours_are_the_loaded_units_of_the_same_directory() {
    let program = program(
        "import a; import lib.x; import lib.y;",
        &[("a", ""), ("lib.x", ""), ("lib.y", ""), ("b", "")],
    );
    let of = |id| program.neighbours(UnitId(id)).map(|UnitId(other)| other).collect::<Vec<_>>();
    assert_eq!((of(0), of(1), of(2), of(3)), (vec![1], vec![0], vec![3], vec![2]));
}

#[test]
fn what_is_not_there_is_reported_where_it_is_imported() {
    let program = program(
        "import nothing; import lib; import Helper; import x.*; import io.print; import io.*;",
        &[("lib.a", ""), ("helper", "")],
    );
    assert_eq!(packages(&program), ["main"]);
    let shown = program.diagnostics.render(&program.sources, Style::default());
    let lines: Vec<&str> =
        shown.lines().filter(|line| line.contains("error") || line.contains("hint")).collect();
    assert_eq!(
        lines,
        [
            "main.n:1:8: error: there is no package `nothing`",
            "  = hint: it would be the file `nothing.n` beside the root unit",
            "main.n:1:24: error: there is no package `lib`",
            "  = hint: all packages below it: `import lib.*;`",
            "main.n:1:36: error: there is no package `Helper`",
            "  = hint: there is `helper`",
            "main.n:1:44: error: there are no packages below `x`",
            "main.n:1:63: error: there is no package `io.print`",
            "  = hint: a package is imported as a whole: `import io;`",
            "main.n:1:73: error: there are no packages below `io`",
            "  = hint: a single package: `import io;`",
        ]
    );
}

#[test]
fn packages_that_differ_in_letter_case_clash() {
    let program = program("import a; import A;", &[("a", ""), ("A", "")]);
    assert_eq!(messages(&program), ["packages `a` and `A` differ in the case of letters"]);
    assert_eq!(packages(&program), ["main", "a"]);
}

/// A loader that has every package twice and cannot read either.
struct Broken;

impl Loader for Broken {
    fn find(&self, package: &[&str]) -> Vec<Found> {
        let found =
            |root| Found { path: format!("{root}/{}.n", package[0]), bytes: Err("no".into()) };
        vec![found("x"), found("y")]
    }

    fn below(&self, _: &[&str]) -> std::collections::BTreeSet<String> {
        Default::default()
    }

    fn near(&self, _: &[&str]) -> Option<String> {
        None
    }
}

#[test]
fn two_files_of_one_package_and_unreadable_files_are_errors() {
    let program = load(Root::new("main.n", "import a;"), &Broken);
    assert_eq!(
        messages(&program),
        ["there are two files of package `a`", "cannot read `x/a.n`: no"]
    );
}

#[test]
fn the_library_hides_files_of_the_same_name_with_a_warning() {
    let program = program("import io;", &[("io", "")]);
    assert_eq!(messages(&program), ["`io` is the package of the library, not `io.n`"]);
    assert!(!program.diagnostics.has_errors());
    assert_eq!(packages(&program), ["main"]);
    let root = load(Root::new("tests/io.n", "import io;"), &Memory::default().with("io", ""));
    assert_eq!(messages(&root), [""; 0]);
    assert_eq!(root.units[0].imports[0].target, ImportTarget::Library);
}

#[test]
fn a_package_that_the_library_has_as_a_script_is_a_unit_in_no_directory_of_the_program() {
    let program =
        program("import a; import concurrent;", &[("a", "import concurrent;"), ("b", "")]);
    assert_eq!(messages(&program), [""; 0]);
    assert_eq!(packages(&program), ["main", "a", "concurrent"]);
    assert_eq!(program.sources.get(program.units[2].file).path, "<library>/concurrent.n");
    let of = |id| program.neighbours(UnitId(id)).map(|UnitId(other)| other).collect::<Vec<_>>();
    assert_eq!((of(0), of(1), of(2)), (vec![1], vec![0], vec![]));
    for import in &program.units[2].imports {
        assert_eq!(import.target, ImportTarget::Library);
    }
}

#[test]
fn a_file_of_the_program_stands_in_for_a_script_of_the_library() {
    let program = program("import concurrent;", &[("concurrent", "")]);
    assert_eq!(messages(&program), [""; 0]);
    assert_eq!(program.sources.get(program.units[1].file).path, "concurrent.n");
    assert_eq!(program.neighbours(UnitId(0)).count(), 1);
}

#[test]
fn packages_of_the_library_are_suggested() {
    let program = program("import Io; import concurent; import concurrent.WaitGroup;", &[]);
    let shown = program.diagnostics.render(&program.sources, Style::default());
    for hint in ["has `io`", "has `concurrent`", "as a whole: `import concurrent;`"] {
        assert!(shown.contains(hint), "{shown}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_an_error_at_their_place() {
    let program = load(Root::new("m.n", b"// \xFF\xFE\nint f() { x }".as_slice()), &Broken);
    let shown = program.diagnostics.render(&program.sources, Style::default());
    let expected = "m.n:1:4: error: these bytes are not valid UTF-8
  1 | // \u{FFFD}\u{FFFD}
    |    ^
  = hint: there are 2 such places; save the file as UTF-8
";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("m.n:2:13: error: expected"), "{shown}");
    let wide = load(Root::new("m.n", b"\xFF\xFEi\0n\0t\0".as_slice()), &Broken);
    assert_eq!(messages(&wide), ["these bytes are not valid UTF-8"]);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let program = load(Root::new("m.n", vec![b' '; MAX_SOURCE + 1]), &Broken);
    assert_eq!(messages(&program), ["a source file has at most 16 MiB"]);
    assert_eq!(messages(&load(Root::new("m.n", vec![b' '; MAX_SOURCE]), &Broken)), [""; 0]);
}

#[test]
fn a_root_that_cannot_be_read_is_an_error_without_a_place() {
    let program = load_path(Path::new("/nonexistent/x.n"));
    assert!(program.units.is_empty());
    let shown = program.diagnostics.render(&program.sources, Style::default());
    assert!(shown.starts_with("error: cannot read `/nonexistent/x.n`: "), "{shown}");
}

#[test]
fn every_script_of_the_test_suite_parses_unless_it_says_what_is_wrong() {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lang")];
    let mut count = 0;
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "n") {
                let bytes = std::fs::read(&path).expect("a file");
                let says = String::from_utf8_lossy(&bytes).contains("expect-error");
                let source = Source::from_bytes(path.display().to_string(), &bytes);
                let mut sources = Sources::default();
                let file = sources.add(source);
                let mut diagnostics = Diagnostics::default();
                parser::parse(file, sources.get(file), &mut diagnostics);
                let shown = diagnostics.render(&sources, Style::default());
                assert!(says || shown.is_empty(), "{shown}");
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}
