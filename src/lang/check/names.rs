//! What a name means in a unit: types, functions, packages.
//!
//! A unit sees its own names first, then those of its neighbours (the units of its directory), and by
//! their qualified names those of the packages that it imports.

use crate::lang::ast;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::source::Span;
use crate::lang::units::{ImportTarget, UnitId};
use crate::vm::library::decl as library;
use crate::vm::types::{ExceptionClass, Opaque, TypeId, known};

use super::Checker;
use super::tables::{DeclId, FnId};

/// What the name of a type stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum TypeName {
    Known(TypeId),
    /// A built-in type with this many parameters.
    Generic(Generic),
    Opaque(Opaque),
    Decl(DeclId),
    Alias(TypeId),
}

/// The built-in types that take type arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generic {
    List,
    Dict,
    Channel,
    Future,
    Promise,
}

/// Why a name could not be found.
#[derive(Clone, Debug)]
pub(super) enum Unknown {
    /// No type of this name.
    Type,
    /// Two neighbours declare it.
    Ambiguous(UnitId, UnitId),
    Package(PackageError),
    /// The package has no such type.
    InPackage(String),
}

#[derive(Clone, Debug)]
pub(super) enum PackageError {
    /// It is part of the program or the library, but this unit does not import it.
    NotImported(String),
    Unknown(String),
}

/// A package that a unit may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Package {
    Unit(UnitId),
    Library(&'static str),
    /// Not a package itself, but the beginning of the name of one.
    Prefix,
}

fn generic(name: &str) -> Option<Generic> {
    Some(match name {
        "List" => Generic::List,
        "Dict" => Generic::Dict,
        "Channel" => Generic::Channel,
        "Future" => Generic::Future,
        "Promise" => Generic::Promise,
        _ => return None,
    })
}

fn known_type(name: &str) -> Option<TypeId> {
    if name == "Object" {
        return Some(known::OBJECT);
    }
    let exception = ExceptionClass::ALL.iter().position(|class| class.name() == name)?;
    Some(TypeId(known::EXCEPTION.0 + exception as u32))
}

/// Whether no declaration may have this name.
pub(super) fn is_reserved_type(name: &str) -> bool {
    known_type(name).is_some() || generic(name).is_some()
}

impl<'a> Checker<'a> {
    /// What a path means where a type is expected.
    pub(super) fn find_type_name(
        &self,
        unit: UnitId,
        path: &ast::Path,
    ) -> Result<TypeName, Unknown> {
        let Some((last, prefix)) = path.parts.split_last() else { return Err(Unknown::Type) };
        if prefix.is_empty() {
            return self.find_simple_type(unit, &last.text);
        }
        let package = join(prefix);
        match self.find_package(unit, &package) {
            Ok(Package::Unit(id)) => match self.tables.unit(id).types.get(last.text.as_str()) {
                Some(&decl) => Ok(TypeName::Decl(decl)),
                None => Err(Unknown::InPackage(package)),
            },
            Ok(Package::Library(_) | Package::Prefix) => Err(Unknown::InPackage(package)),
            Err(error) => Err(Unknown::Package(error)),
        }
    }

    pub(super) fn find_simple_type(&self, unit: UnitId, name: &str) -> Result<TypeName, Unknown> {
        let table = self.tables.unit(unit);
        if let Some(&ty) = table.aliases.get(name) {
            return Ok(TypeName::Alias(ty));
        }
        if let Some(&decl) = table.types.get(name) {
            return Ok(TypeName::Decl(decl));
        }
        if let Some(ty) = known_type(name) {
            return Ok(TypeName::Known(ty));
        }
        if let Some(generic) = generic(name) {
            return Ok(TypeName::Generic(generic));
        }
        let mut found = None;
        for other in self.program.neighbours(unit) {
            if let Some(&decl) = self.tables.unit(other).types.get(name) {
                if let Some((first, _)) = found {
                    return Err(Unknown::Ambiguous(first, other));
                }
                found = Some((other, decl));
            }
        }
        if let Some((_, decl)) = found {
            return Ok(TypeName::Decl(decl));
        }
        crate::vm::library::pattern::opaque(name).map(TypeName::Opaque).ok_or(Unknown::Type)
    }

    /// The package of a qualified name, if the unit may use it.
    pub(super) fn find_package(&self, unit: UnitId, name: &str) -> Result<Package, PackageError> {
        let this = self.program.unit(unit);
        if let Some(import) = this.imports.iter().find(|import| import.name == name) {
            return Ok(match import.target {
                ImportTarget::Unit(id) => Package::Unit(id),
                ImportTarget::Library => match library::PACKAGES.iter().find(|p| **p == name) {
                    Some(package) => Package::Library(package),
                    None => Package::Prefix,
                },
            });
        }
        let units = &self.program.units;
        let is_near = |at: usize| at == unit.0 as usize || units[at].directory == this.directory;
        if let Some(at) = (0..units.len()).find(|&at| units[at].package == name && is_near(at)) {
            return Ok(Package::Unit(UnitId(at as u32)));
        }
        let below =
            |package: &str| package.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        if this.imports.iter().any(|import| below(&import.name)) {
            return Ok(Package::Prefix);
        }
        if units.iter().any(|unit| unit.package == name) || library::PACKAGES.contains(&name) {
            return Err(PackageError::NotImported(name.into()));
        }
        // Of the whole name it can be said what is not imported.
        if units.iter().any(|unit| below(&unit.package)) {
            return Ok(Package::Prefix);
        }
        Err(PackageError::Unknown(name.into()))
    }

    /// The functions that a simple name means: the unit's own, and those of its neighbours that do
    /// not take the same parameters as one of them.
    pub(super) fn find_functions(&self, unit: UnitId, name: &str) -> Vec<FnId> {
        let own = self.tables.unit(unit).functions.get(name);
        let mut found = own.cloned().unwrap_or_default();
        let count = found.len();
        for other in self.program.neighbours(unit) {
            for &id in self.tables.unit(other).functions.get(name).into_iter().flatten() {
                let function = self.tables.function(id);
                if !found[..count].iter().any(|&f| self.tables.function(f).same_params(function)) {
                    found.push(id);
                }
            }
        }
        found
    }

    /// Reports that a path names no type.
    pub(super) fn unknown_type(&mut self, unit: UnitId, path: &ast::Path, unknown: &Unknown) {
        let name = join(&path.parts);
        let diagnostic = match unknown {
            Unknown::Type => {
                let diagnostic = Diagnostic::error(path.span, format!("unknown type `{name}`"));
                if let Some(hint) = crate::lang::parser::for_unknown_type(&name) {
                    diagnostic.hint(hint)
                } else if let Some(other) = self.suggestion(&name, self.visible_types(unit)) {
                    diagnostic.hint(format!("did you mean `{other}`?"))
                } else if let Some(package) = self.elsewhere(&name) {
                    diagnostic.hint(format!("write `{package}.{name}`"))
                } else {
                    diagnostic
                }
            }
            &Unknown::Ambiguous(first, second) => Diagnostic::error(
                path.span,
                format!(
                    "`{name}` is declared in `{}` and in `{}`",
                    self.program.unit(first).package,
                    self.program.unit(second).package
                ),
            )
            .hint("write the qualified name"),
            Unknown::Package(error) => package_error(path.span, error),
            Unknown::InPackage(package) => {
                let last = path.parts.last().map_or("", |last| &last.text);
                Diagnostic::error(path.span, format!("package `{package}` has no type `{last}`"))
            }
        };
        self.report(diagnostic);
    }

    fn visible_types(&self, unit: UnitId) -> Vec<String> {
        if !self.may_suggest() {
            return Vec::new();
        }
        let mut names: Vec<String> = ["List", "Dict", "Object", "string", "Channel", "Future"]
            .into_iter()
            .chain([
                "Promise",
                "Mutex",
                "Thread",
                "Semaphore",
                "AtomicInt",
                "ReentrantMutex",
                "Select",
            ])
            .chain(["int", "bool", "byte", "char", "double", "float", "long", "short"])
            .chain(ExceptionClass::ALL.iter().map(|class| class.name()))
            .map(String::from)
            .collect();
        for id in std::iter::once(unit).chain(self.program.neighbours(unit)) {
            names.extend(self.tables.unit(id).types.keys().map(|&name| name.into()));
        }
        names.extend(self.tables.unit(unit).aliases.keys().map(|&name| name.into()));
        names
    }

    /// A package of the program that declares a type or function of this name.
    pub(super) fn elsewhere(&self, name: &str) -> Option<&str> {
        let has = |(_, table): &(usize, &super::tables::UnitTable<'_>)| {
            table.types.contains_key(name) || table.functions.contains_key(name)
        };
        let (at, _) = self.tables.units.iter().enumerate().find(has)?;
        Some(&self.program.units[at].package)
    }
}

/// A qualified name as it is written.
pub(super) fn join(parts: &[ast::Name]) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(&part.text);
    }
    text
}

pub(super) fn package_error(span: Span, error: &PackageError) -> Diagnostic {
    match error {
        PackageError::NotImported(name) => {
            Diagnostic::error(span, format!("package `{name}` is not imported here"))
                .hint(format!("add `import {name};` at the top of the file"))
        }
        PackageError::Unknown(name) => Diagnostic::error(span, format!("unknown name `{name}`")),
    }
}
