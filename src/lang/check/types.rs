//! Type expressions and aliases.

use crate::lang::ast::{self, TypeExpr, TypeExprKind};
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::types::{Param, Signature, Type, TypeId, known};

use super::Checker;
use super::names::{Generic, TypeName, join};
use super::tables::ERROR;

impl<'a> Checker<'a> {
    /// The type of values that an expression names.
    pub(super) fn resolve_type(&mut self, unit: UnitId, ty: &'a TypeExpr) -> TypeId {
        match &ty.kind {
            TypeExprKind::Void => {
                self.error(ty.span, "`void` is not a type of values");
                ERROR
            }
            TypeExprKind::Primitive(word) => primitive(word),
            TypeExprKind::Named { path, args } => self.resolve_named(unit, ty.span, path, args),
            TypeExprKind::Func { result, params } => {
                let result = self.resolve_result(unit, result);
                let mut list = Vec::with_capacity(params.len());
                let mut wrong = result == ERROR;
                for (out, param) in params {
                    let resolved = self.resolve_type(unit, param);
                    wrong |= resolved == ERROR;
                    if *out {
                        wrong |= !self.check_out_type(resolved, param.span);
                    }
                    list.push(Param { ty: resolved, out: *out });
                }
                if wrong {
                    return ERROR;
                }
                self.types.intern(Type::Func(Signature { params: list, result }))
            }
            TypeExprKind::Array(element) => {
                let element = self.resolve_type(unit, element);
                self.array_of(element, ty.span)
            }
            TypeExprKind::Error => ERROR,
        }
    }

    /// The type of what a function returns: `void`, too.
    pub(super) fn resolve_result(&mut self, unit: UnitId, ty: &'a TypeExpr) -> TypeId {
        match ty.kind {
            TypeExprKind::Void => known::VOID,
            _ => self.resolve_type(unit, ty),
        }
    }

    /// The type of arrays of an element type.
    pub(super) fn array_of(&mut self, element: TypeId, span: Span) -> TypeId {
        if element == ERROR {
            return ERROR;
        }
        if let Type::Array(_) = self.ty(element) {
            let inner = self.name(element);
            self.report(
                crate::lang::diagnostic::Diagnostic::error(span, "arrays have one dimension")
                    .hint(format!("use `List<{inner}>`")),
            );
            return ERROR;
        }
        self.types.intern(Type::Array(element))
    }

    fn resolve_named(
        &mut self,
        unit: UnitId,
        span: Span,
        path: &'a ast::Path,
        args: &'a [TypeExpr],
    ) -> TypeId {
        let name = match self.find_type_name(unit, path) {
            Ok(name) => name,
            Err(unknown) => {
                self.unknown_type(unit, path, &unknown);
                return ERROR;
            }
        };
        let args: Vec<(TypeId, Span)> =
            args.iter().map(|arg| (self.resolve_type(unit, arg), arg.span)).collect();
        if let TypeName::Generic(generic) = name {
            return self.apply_generic(generic, &args, span);
        }
        if !args.is_empty() {
            self.error(span, format!("`{}` takes no type arguments", join(&path.parts)));
            return ERROR;
        }
        self.type_of_name(name)
    }

    /// The type that a name means by itself; [`ERROR`] for a generic one.
    pub(super) fn type_of_name(&mut self, name: TypeName) -> TypeId {
        match name {
            TypeName::Known(ty) | TypeName::Alias(ty) => ty,
            TypeName::Opaque(opaque) => self.types.intern(Type::Opaque(opaque)),
            TypeName::Decl(decl) => self.tables.decl(decl).ty,
            TypeName::Generic(_) => ERROR,
        }
    }

    fn apply_generic(&mut self, generic: Generic, args: &[(TypeId, Span)], span: Span) -> TypeId {
        let wanted = if generic == Generic::Dict { 2 } else { 1 };
        if args.len() != wanted {
            let example = if wanted == 2 { "Dict<string, int>" } else { "List<int>" };
            self.report(
                crate::lang::diagnostic::Diagnostic::error(
                    span,
                    format!(
                        "`{generic:?}` takes {}",
                        super::messages::count(wanted, "type argument")
                    ),
                )
                .hint(format!("as in `{example}`")),
            );
            return ERROR;
        }
        if args.iter().any(|(arg, _)| *arg == ERROR) {
            return ERROR;
        }
        let first = args[0].0;
        let ty = match generic {
            Generic::List => Type::List(first),
            Generic::Channel => Type::Channel(first),
            Generic::Future => Type::Future(first),
            Generic::Promise => Type::Promise(first),
            Generic::Dict => {
                if let Type::Func(_) | Type::Struct(_) = self.ty(first) {
                    let name = self.name(first);
                    self.error(args[0].1, format!("`{name}` cannot be the key of a Dict"));
                    return ERROR;
                }
                Type::Dict(first, args[1].0)
            }
        };
        self.types.intern(ty)
    }

    /// Whether a parameter of this type may be `out`; reports if not.
    pub(super) fn check_out_type(&mut self, ty: TypeId, span: Span) -> bool {
        if let Type::Struct(_) = self.ty(ty) {
            self.error(span, "a struct cannot be an `out` parameter");
            return false;
        }
        true
    }

    /// Resolves the aliases of a unit, each of which may use those above it.
    pub(super) fn resolve_aliases(&mut self, unit: UnitId) {
        let aliases = &self.program.unit(unit).ast.aliases;
        for alias in aliases {
            let name = alias.name.text.as_str();
            let table = self.tables.unit(unit);
            let taken = if let Some(&decl) = table.types.get(name) {
                Some(Some(self.tables.decl(decl).name.span))
            } else if let Some(functions) = table.functions.get(name) {
                Some(Some(self.tables.function(functions[0]).span))
            } else if super::names::is_reserved_type(name) {
                Some(None)
            } else {
                let first = table.alias_places.get(name).map(|&at| &aliases[at]);
                first.filter(|&first| first.span != alias.span).map(|first| Some(first.name.span))
            };
            let mut used = Vec::new();
            simple_names(&alias.ty, &mut used);
            let refers_to_itself = used.contains(&name);
            if let Some(first) = taken {
                match first {
                    Some(first) => self.clash(&alias.name, "alias", first),
                    None => {
                        self.error(
                            alias.name.span,
                            format!("`{name}` is the name of a built-in type"),
                        );
                    }
                }
                continue;
            }
            let ty = if refers_to_itself {
                self.error(alias.name.span, format!("alias `{name}` refers to itself"));
                ERROR
            } else if let Some(later) = self.later_alias(unit, alias, &used) {
                self.report(
                    crate::lang::diagnostic::Diagnostic::error(
                        alias.ty.span,
                        format!("alias `{}` is declared below", later.text),
                    )
                    .label(later.span, "an alias may use only those above it"),
                );
                ERROR
            } else {
                self.resolve_type(unit, &alias.ty)
            };
            self.tables.units[unit.0 as usize].aliases.insert(name, ty);
        }
    }

    /// An alias further down that this one uses, given the names in its type.
    fn later_alias(
        &self,
        unit: UnitId,
        alias: &ast::Alias,
        used: &[&str],
    ) -> Option<&'a ast::Name> {
        let aliases = &self.program.unit(unit).ast.aliases;
        let places = &self.tables.unit(unit).alias_places;
        used.iter()
            .filter_map(|&name| places.get(name).map(|&at| &aliases[at]))
            .find(|other| {
                other.span.start > alias.span.start
                    && self.find_simple_type(unit, &other.name.text).is_err()
            })
            .map(|other| &other.name)
    }
}

/// The names without a package in a type expression.
fn simple_names<'t>(ty: &'t TypeExpr, names: &mut Vec<&'t str>) {
    match &ty.kind {
        TypeExprKind::Named { path, args } => {
            if let [only] = path.parts.as_slice() {
                names.push(&only.text);
            }
            args.iter().for_each(|arg| simple_names(arg, names));
        }
        TypeExprKind::Func { result, params } => {
            simple_names(result, names);
            params.iter().for_each(|(_, param)| simple_names(param, names));
        }
        TypeExprKind::Array(element) => simple_names(element, names),
        TypeExprKind::Void | TypeExprKind::Primitive(_) | TypeExprKind::Error => {}
    }
}

/// The type of a keyword.
fn primitive(word: &str) -> TypeId {
    match word {
        "bool" => known::BOOL,
        "byte" => known::BYTE,
        "short" => known::SHORT,
        "int" => known::INT,
        "long" => known::LONG,
        "ubyte" => known::UBYTE,
        "ushort" => known::USHORT,
        "uint" => known::UINT,
        "ulong" => known::ULONG,
        "float" => known::FLOAT,
        "double" => known::DOUBLE,
        "char" => known::CHAR,
        "string" => known::STRING,
        _ => ERROR,
    }
}
