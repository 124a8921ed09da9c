//! Which files a program has: the root unit, and what it and its imports import.
//!
//! A file `lib/geo.n` below a search root is the package `lib.geo`. No file is loaded without an
//! import. `import lib.geo;` opens the qualified names of one package, `import lib.*;` of all below
//! `lib`. The units of one directory see each other's names unqualified once they are loaded,
//! whoever imported them; see [`ParsedProgram::neighbours`].
//!
//! Packages of the built-in library have no file. Most have no unit either; those that are written in
//! the language are units of a [directory of their own](LIBRARY), for programs without a file of that
//! name.
//!
//! Where sources come from is a [`Loader`]'s business, so that hosts can keep them in memory.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::ast;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::loader::{Found, Loader, nearest};
use super::parser;
use super::source::{FileId, Source, Sources, Span};
use crate::vm::library::decl::PACKAGES;
use crate::vm::library::scripts;

/// How many bytes a source file can have.
pub const MAX_SOURCE: usize = 16 << 20;

/// The directory of the library's units. No package of a program can be in it.
const LIBRARY: &str = "<library>";

/// A unit of a program, by its index in [`ParsedProgram::units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// A parsed program: what the checker works on.
#[derive(Clone, Debug, Default)]
pub struct ParsedProgram {
    pub sources: Sources,
    /// The root unit first (none at all if it cannot be read), the others in the order of their
    /// imports, breadth first.
    pub units: Vec<ParsedUnit>,
    /// What was wrong so far. A unit with errors has a tree all the same, with `Error` nodes where
    /// something was left out.
    pub diagnostics: Diagnostics,
}

/// One file of a program.
#[derive(Clone, Debug)]
pub struct ParsedUnit {
    /// The qualified name: `lib.geo`; of the root unit, the name of its file without the suffix (so
    /// it need not be an identifier).
    pub package: String,
    /// The package without its last part, `lib` or empty, or [`LIBRARY`]: units with the same one are
    /// neighbours.
    pub directory: String,
    #[allow(dead_code, reason = "tests ask where a unit comes from")]
    pub file: FileId,
    pub ast: ast::Unit,
    /// The packages whose qualified names this unit may use, sorted by name, each once. Those that
    /// were not found (and reported) are left out.
    pub imports: Vec<ImportedPackage>,
}

/// A package that a unit imports, by name or by prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPackage {
    /// `io`, `lib.geo`.
    pub name: String,
    pub target: ImportTarget,
    /// The import that opens it.
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportTarget {
    /// Another file of the program.
    Unit(UnitId),
    /// A package of the built-in library, by its name.
    Library,
}

impl ParsedProgram {
    /// A unit that was loaded.
    pub fn unit(&self, id: UnitId) -> &ParsedUnit {
        &self.units[id.0 as usize]
    }

    /// The other units of a unit's directory, whose names it may use unqualified.
    pub fn neighbours(&self, id: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        let directory = &self.unit(id).directory;
        (0..self.units.len() as u32)
            .map(UnitId)
            .filter(move |&other| other != id && self.unit(other).directory == *directory)
    }
}

/// The unit in which a program begins.
#[derive(Clone, Debug)]
pub struct Root {
    package: String,
    path: String,
    bytes: Vec<u8>,
}

impl Root {
    /// A file as it is stored; its package is called as the file.
    pub fn new(path: &str, bytes: impl Into<Vec<u8>>) -> Root {
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let package = stem.unwrap_or_else(|| path.to_owned());
        Root { package, path: path.to_owned(), bytes: bytes.into() }
    }
}

/// Loads the program that a file is the root of; its search root is the folder of the file.
#[cfg(test)]
pub fn load_path(path: &Path) -> ParsedProgram {
    match std::fs::read(path) {
        Ok(bytes) => load(
            Root::new(&path.display().to_string(), bytes),
            &super::loader::Folders::beside(path),
        ),
        Err(error) => {
            let mut program = ParsedProgram::default();
            let message = format!("cannot read `{}`: {error}", path.display());
            program.diagnostics.push(Diagnostic::without_place(message));
            program
        }
    }
}

/// Loads and parses a program.
pub fn load(root: Root, loader: &dyn Loader) -> ParsedProgram {
    let mut units = Units {
        program: ParsedProgram::default(),
        loader,
        by_name: HashMap::new(),
        by_folded_name: HashMap::new(),
        library: HashMap::new(),
    };
    let directory = directory_of(&root.package);
    units.add(root.package, directory, root.path, &root.bytes);
    // Units that are added by the way are looked at in their turn.
    let mut next = 0;
    while next < units.program.units.len() {
        let imports = units.imports(next);
        units.program.units[next].imports = imports;
        next += 1;
    }
    units.program
}

/// A program while it is loaded.
struct Units<'a> {
    program: ParsedProgram,
    loader: &'a dyn Loader,
    by_name: HashMap<String, UnitId>,
    /// The name by which a package is known, by that in small letters.
    by_folded_name: HashMap<String, String>,
    /// The units of the library, which the program may have files beside that are called the same.
    library: HashMap<String, UnitId>,
}

impl Units<'_> {
    fn report(&mut self, span: Span, message: String, hint: Option<String>) {
        let diagnostic = Diagnostic::error(span, message);
        self.program.diagnostics.push(match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    /// Parses a file and adds it.
    fn add(&mut self, package: String, directory: String, path: String, bytes: &[u8]) -> UnitId {
        let too_large = bytes.len() > MAX_SOURCE;
        let source = Source::from_bytes(path, if too_large { &[] } else { bytes });
        let file = self.program.sources.add(source);
        let ParsedProgram { sources, diagnostics, .. } = &mut self.program;
        let source = sources.get(file);
        if too_large {
            let message = format!("a source file has at most {} MiB", MAX_SOURCE >> 20);
            diagnostics.error(Span { file, start: 0, end: 0 }, message);
        }
        let ast = if report_invalid(file, source, diagnostics) {
            parser::parse(file, source, diagnostics)
        } else {
            ast::Unit::default()
        };
        let id = UnitId(self.program.units.len() as u32);
        if directory == LIBRARY {
            self.library.insert(package.clone(), id);
        } else {
            self.by_name.insert(package.clone(), id);
            self.by_folded_name.insert(package.to_ascii_lowercase(), package.clone());
        }
        let unit = ParsedUnit { package, directory, file, ast, imports: Vec::new() };
        self.program.units.push(unit);
        id
    }

    /// What a unit imports, loaded.
    fn imports(&mut self, unit: usize) -> Vec<ImportedPackage> {
        let by_library = self.program.units[unit].directory == LIBRARY;
        let mut imports = BTreeMap::new();
        for import in self.program.units[unit].ast.imports.clone() {
            let parts: Vec<&str> =
                import.path.parts.iter().map(|part| part.text.as_str()).collect();
            let names = if import.recursive {
                self.below(&parts, import.span)
            } else {
                vec![parts.join(".")]
            };
            for name in names {
                let span = import.span;
                let target = match by_library {
                    // Files of the program are nothing to the library.
                    true => Some(self.library_unit(&name).unwrap_or(ImportTarget::Library)),
                    false => self.package(&name, import.path.span),
                };
                if let Some(target) = target {
                    let package = ImportedPackage { name: name.clone(), target, span };
                    imports.entry(name).or_insert(package);
                }
            }
        }
        imports.into_values().collect()
    }

    /// The packages that a prefix stands for.
    fn below(&mut self, prefix: &[&str], span: Span) -> Vec<String> {
        let names = self.loader.below(prefix);
        if names.is_empty() {
            let prefix = prefix.join(".");
            let message = format!("there are no packages below `{prefix}`");
            let is_package =
                PACKAGES.contains(&prefix.as_str()) || scripts::text(&prefix).is_some();
            let hint = is_package.then(|| format!("a single package: `import {prefix};`"));
            self.report(span, message, hint);
        }
        names.into_iter().collect()
    }

    /// A package by its name, loaded if it is not yet.
    fn package(&mut self, name: &str, span: Span) -> Option<ImportTarget> {
        let parts: Vec<&str> = name.split('.').collect();
        if PACKAGES.contains(&name) {
            self.warn_of_hidden_file(name, span);
            return Some(ImportTarget::Library);
        }
        if let Some(&id) = self.by_name.get(name) {
            return Some(ImportTarget::Unit(id));
        }
        if let Some(other) = self.by_folded_name.get(&name.to_ascii_lowercase()) {
            let message = format!("packages `{other}` and `{name}` differ in the case of letters");
            self.report(span, message, Some("no program can have both".to_owned()));
            return None;
        }
        let mut found = self.loader.find(&parts);
        if found.len() > 1 {
            let message = format!("there are two files of package `{name}`");
            let hint = format!("`{}` and `{}`", found[0].path, found[1].path);
            self.report(span, message, Some(hint));
        }
        if found.is_empty() {
            if let Some(unit) = self.library_unit(name) {
                return Some(unit);
            }
            let hint = self.hint_for_missing(&parts);
            self.report(span, format!("there is no package `{name}`"), Some(hint));
            return None;
        }
        let Found { path, bytes } = found.swap_remove(0);
        match bytes {
            Ok(bytes) => {
                let directory = directory_of(name);
                Some(ImportTarget::Unit(self.add(name.to_owned(), directory, path, &bytes)))
            }
            Err(error) => {
                self.report(span, format!("cannot read `{path}`: {error}"), None);
                None
            }
        }
    }

    /// A package of the library that is written in the language, loaded if it is not yet.
    fn library_unit(&mut self, name: &str) -> Option<ImportTarget> {
        if let Some(&id) = self.library.get(name) {
            return Some(ImportTarget::Unit(id));
        }
        let text = scripts::text(name)?;
        let path = format!("{LIBRARY}/{name}.n");
        let id = self.add(name.to_owned(), LIBRARY.to_owned(), path, text.as_bytes());
        Some(ImportTarget::Unit(id))
    }

    /// A file that is called as a package of the library cannot be imported.
    fn warn_of_hidden_file(&mut self, name: &str, span: Span) {
        let is_root = self.program.units[0].package == name;
        if is_root || name.contains('.') {
            return;
        }
        if let Some(file) = self.loader.find(&[name]).first() {
            let message = format!("`{name}` is the package of the library, not `{}`", file.path);
            let warning = Diagnostic::warning(span, message).hint("give the file another name");
            self.program.diagnostics.push(warning);
        }
    }

    fn hint_for_missing(&self, parts: &[&str]) -> String {
        if let Some(near) = self.loader.near(parts) {
            return format!("there is `{near}`");
        }
        let library = PACKAGES.iter().copied().chain(scripts::names()).map(String::from);
        if let Some(near) = nearest(&parts.join("."), library.clone()) {
            return format!("the library has `{near}`");
        }
        if parts.len() > 1 && library.clone().any(|name| name == parts[0]) {
            return format!("a package is imported as a whole: `import {};`", parts[0]);
        }
        if !self.loader.below(parts).is_empty() {
            return format!("all packages below it: `import {}.*;`", parts.join("."));
        }
        format!("it would be the file `{}.n` beside the root unit", parts.join("/"))
    }
}

/// A qualified name without its last part.
fn directory_of(package: &str) -> String {
    package.rsplit_once('.').map_or("", |(directory, _)| directory).to_owned()
}

/// Reports what is not UTF-8; whether the rest can be parsed all the same.
fn report_invalid(file: FileId, source: &Source, diagnostics: &mut Diagnostics) -> bool {
    let Some(invalid) = source.invalid else { return true };
    let end = invalid.at + char::REPLACEMENT_CHARACTER.len_utf8() as u32;
    let span = Span { file, start: invalid.at, end };
    let is_binary = source.text.contains('\0');
    let hint = match invalid.count {
        _ if is_binary => "this is no text in UTF-8: save it as such".to_owned(),
        1 => "save the file as UTF-8".to_owned(),
        count => format!("there are {count} such places; save the file as UTF-8"),
    };
    diagnostics.push(Diagnostic::error(span, "these bytes are not valid UTF-8").hint(hint));
    !is_binary
}

#[cfg(test)]
mod tests;
