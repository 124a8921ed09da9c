//! The packages of the library that are written in the script language itself.
//!
//! They are compiled with every program that imports them, as its own units are. A program that has
//! a file of the same name gets that one.

/// A package: its name, and the text of its only unit.
const PACKAGES: &[(&str, &str)] = &[
    ("concurrent", include_str!("concurrent.n")),
    ("event", include_str!("event.n")),
    ("net", include_str!("net.n")),
];

/// The text of a package, if the library has one of this name.
pub fn text(package: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(name, _)| *name == package).map(|&(_, text)| text)
}

/// The names of all packages.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    PACKAGES.iter().map(|&(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::compile;

    #[test]
    fn every_package_compiles_without_a_warning() {
        for package in names() {
            let program = compile(&format!("import {package}; int main() {{ return 0; }}"));
            let program = program.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(program.warnings().iter().count(), 0, "{}", program.warnings());
        }
    }
}
