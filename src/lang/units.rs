//! Which files a program has: the root unit, and what it and its imports import.
//!
//! A file `lib/geo.n` below a search root is the package `lib.geo`. No file is loaded without an
//! import. `import lib.geo;` opens the qualified names of one package, `import lib.*;` of all below
//! `lib`. The units of one directory see each other's names unqualified once they are loaded,
//! whoever imported them; see [`ParsedProgram::neighbours`]. Packages of the built-in library have
//! no file.
//!
//! Where sources come from is a [`Loader`]'s business, so that hosts can keep them in memory.

use super::ast;
use super::diagnostic::Diagnostics;
use super::source::{FileId, Sources, Span};

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
    /// The package without its last part, `lib` or empty: units with the same one are neighbours.
    pub directory: String,
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
