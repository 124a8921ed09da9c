//! Names and dots: what `a`, `a.b` and `a[i]` mean.
//!
//! A name is a variable, else a field of `this`, else a function, a type, a package: the first that
//! there is. What a dot means follows from what stands before it.

use crate::lang::ast::{self, ExprKind as Ast};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, ExprKind};
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::library::decl as library;
use crate::vm::types::{ClassId, Type, TypeId, known};

use super::Checker;
use super::messages::familiar;
use super::names::{Generic, Package, TypeName, Unknown, package_error};
use super::scope::Binding;
use super::tables::{ERROR, FnId, Owner, Reach};
use super::value::{Checked, Functions, Value};

/// What a name, plain or with dots, stands for.
pub(super) enum Entity<'a> {
    Expr(Checked<'a>),
    Type(TypeId),
    /// `List`, `Future`, …, without type arguments.
    Generic(Generic),
    Package(String),
}

impl<'a> Checker<'a> {
    /// What an expression before a dot (or before call parentheses) stands for. What is wrong is
    /// reported.
    pub(super) fn entity(&mut self, e: &'a ast::Expr) -> Entity<'a> {
        match &e.kind {
            Ast::Name(name) => self.named_entity(name),
            Ast::Member { object, name } => {
                let object = self.entity(object);
                self.member_of(object, name, e.span)
            }
            _ => Entity::Expr(self.check_expr(e)),
        }
    }

    /// What a name behind a dot stands for.
    pub(super) fn member_of(
        &mut self,
        object: Entity<'a>,
        name: &'a ast::Name,
        span: Span,
    ) -> Entity<'a> {
        match object {
            Entity::Expr(checked) => Entity::Expr(self.member(checked, name, span)),
            Entity::Type(ty) => Entity::Expr(self.static_member(ty, name, span)),
            Entity::Generic(generic) => {
                match native_functions(&format!("{generic:?}"), &name.text, span) {
                    Some(functions) => Entity::Expr(functions),
                    None => {
                        let message = format!("`{generic:?}` has no `{}`", name.text);
                        self.error(name.span, message);
                        Entity::Expr(Value::error(span).into())
                    }
                }
            }
            Entity::Package(package) => self.package_member(&package, name, span),
        }
    }

    fn named_entity(&mut self, name: &'a ast::Name) -> Entity<'a> {
        if let Some(value) = self.variable(name) {
            return Entity::Expr(value.into());
        }
        let unit = self.body.unit;
        let functions = self.find_functions(unit, &name.text);
        if !functions.is_empty() {
            return Entity::Expr(Checked::Functions(Functions {
                name: name.text.clone(),
                candidates: functions,
                receiver: None,
                native: None,
                span: name.span,
            }));
        }
        match self.find_simple_type(unit, &name.text) {
            Ok(TypeName::Generic(generic)) => return Entity::Generic(generic),
            Ok(found) => return Entity::Type(self.type_of_name(found)),
            Err(unknown @ Unknown::Ambiguous(..)) => {
                let path = ast::Path { parts: vec![name.clone()], span: name.span };
                self.unknown_type(unit, &path, &unknown);
                return Entity::Expr(Value::error(name.span).into());
            }
            Err(_) => {}
        }
        match self.find_package(unit, &name.text) {
            Ok(_) => return Entity::Package(name.text.clone()),
            Err(error @ super::names::PackageError::NotImported(_)) => {
                self.report(package_error(name.span, &error));
            }
            Err(super::names::PackageError::Unknown(_)) => self.unknown_variable(name),
        }
        Entity::Expr(Value::error(name.span).into())
    }

    /// A variable in scope, or a field of `this`.
    pub(super) fn variable(&mut self, name: &ast::Name) -> Option<Value> {
        if let Some(binding) = self.body.find(&name.text) {
            return Some(self.read(binding, name.span));
        }
        let class = self.body.class()?;
        self.body.this?;
        let (slot, ty) = self.find_field(class, &name.text)?;
        self.check_field_access(class, slot, name);
        let this = self.this(name.span);
        let kind = ExprKind::Field { object: Box::new(this.expr), field: slot };
        Some(Value::place(kind, ty, name.span))
    }

    pub(super) fn read(&self, binding: Binding<'a>, span: Span) -> Value {
        let kind = match self.body.is_default {
            true => ExprKind::Argument(binding.index as u16),
            false => ExprKind::Local(hir::LocalId(binding.index)),
        };
        Value::place(kind, binding.ty, span)
    }

    /// Reports a simple name that means nothing.
    pub(super) fn unknown_variable(&mut self, name: &ast::Name) {
        let text = name.text.as_str();
        if self.may_be_unparsed(text) {
            return;
        }
        let mut diagnostic = Diagnostic::error(name.span, format!("unknown name `{text}`"));
        let class = self.body.class();
        if let Some(class) = class {
            if !self.methods_named(class, text).is_empty() {
                let hint = match self.body.this {
                    Some(_) => format!("methods need a receiver: `this.{text}`"),
                    None => format!("`{text}` is a method: it needs an object"),
                };
                self.report(diagnostic.hint(hint));
                return;
            }
            if self.body.this.is_none() && self.find_field(class, text).is_some() {
                self.report(diagnostic.hint("a `static` method has no fields"));
                return;
            }
        }
        if !self.may_suggest() {
            self.report(diagnostic);
            return;
        }
        let unit = self.body.unit;
        let neighbours = self.program.neighbours(unit).collect::<Vec<_>>();
        let mut names: Vec<String> = self.body.names().map(String::from).collect();
        for id in std::iter::once(unit).chain(neighbours) {
            let table = self.tables.unit(id);
            names.extend(table.functions.keys().chain(table.types.keys()).map(|&n| n.into()));
        }
        if let Some(class) = class {
            names.extend(self.types.class(class).fields.iter().map(|field| field.name.clone()));
        }
        names.extend(self.program.unit(unit).imports.iter().map(|import| import.name.clone()));
        if let Some(other) = self.suggestion(text, names) {
            diagnostic = diagnostic.hint(format!("did you mean `{other}`?"));
        } else if let Some(package) = self.elsewhere(text) {
            diagnostic = diagnostic.hint(format!("write `{package}.{text}`"));
        } else if let Some((package, function)) = in_library(text) {
            diagnostic = diagnostic.hint(match self.find_package(unit, package) {
                Ok(_) => format!("write `{package}.{function}`"),
                Err(_) => format!("write `{package}.{function}`, and `import {package};`"),
            });
        }
        self.report(diagnostic);
    }

    /// Whether a name occurs in a statement that could not be parsed, which may have declared it.
    fn may_be_unparsed(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        self.body.unparsed.iter().any(|span| {
            let text = &self.program.sources.get(span.file).text;
            let text = text.get(span.start as usize..span.end as usize).unwrap_or("");
            text.split(|c| !is_part(c)).any(|word| word == name)
        })
    }

    pub(super) fn not_a_value(&mut self, entity: &Entity<'a>, span: Span) {
        match entity {
            Entity::Expr(_) => {}
            Entity::Type(ty) => {
                if *ty != ERROR {
                    let name = self.name(*ty);
                    self.error(span, format!("`{name}` is a type, not a value"));
                }
            }
            Entity::Generic(generic) => {
                self.error(span, format!("`{generic:?}` is a type, not a value"));
            }
            Entity::Package(name) => {
                self.error(span, format!("`{name}` is a package, not a value"));
            }
        }
    }

    fn package_member(&mut self, package: &str, name: &'a ast::Name, span: Span) -> Entity<'a> {
        let unit = self.body.unit;
        let text = name.text.as_str();
        let found = self.find_package(unit, package);
        match found {
            Ok(Package::Unit(id)) => {
                if let Some(functions) = self.tables.unit(id).functions.get(text) {
                    let candidates = functions.clone();
                    return Entity::Expr(Checked::Functions(Functions {
                        name: text.into(),
                        candidates,
                        receiver: None,
                        native: None,
                        span,
                    }));
                }
                if let Some(&decl) = self.tables.unit(id).types.get(text) {
                    return Entity::Type(self.tables.decl(decl).ty);
                }
            }
            Ok(Package::Library(home)) => {
                if let Some(functions) = native_functions(home, text, span) {
                    return Entity::Expr(functions);
                }
            }
            Ok(Package::Prefix) | Err(_) => {}
        }
        let qualified = format!("{package}.{text}");
        match self.find_package(unit, &qualified) {
            Ok(_) => return Entity::Package(qualified),
            Err(error @ super::names::PackageError::NotImported(_)) => {
                self.report(package_error(span, &error));
                return Entity::Expr(Value::error(span).into());
            }
            Err(super::names::PackageError::Unknown(_)) => {}
        }
        let mut diagnostic =
            Diagnostic::error(name.span, format!("package `{package}` has no `{text}`"));
        if let Some(other) = self.suggestion(text, self.package_names(package)) {
            diagnostic = diagnostic.hint(format!("did you mean `{package}.{other}`?"));
        }
        self.report(diagnostic);
        Entity::Expr(Value::error(span).into())
    }

    fn package_names(&self, package: &str) -> Vec<String> {
        match self.find_package(self.body.unit, package) {
            Ok(Package::Unit(id)) => {
                let table = self.tables.unit(id);
                table.functions.keys().chain(table.types.keys()).map(|&name| name.into()).collect()
            }
            Ok(Package::Library(home)) => {
                library::members(home).map(|native| native.declaration.name.into()).collect()
            }
            Ok(Package::Prefix) | Err(_) => Vec::new(),
        }
    }

    /// `Dir.N`, or a static method without parentheses.
    fn static_member(&mut self, ty: TypeId, name: &'a ast::Name, span: Span) -> Checked<'a> {
        let text = name.text.as_str();
        match *self.ty(ty) {
            Type::Enum(id) => {
                if let Some(&value) = self.tables.enums[id.0 as usize].members.get(text) {
                    let word = u64::from(value as u32);
                    return Value::new(ExprKind::Word(word), ty, span).into();
                }
            }
            Type::Class(id) => {
                let candidates = self.methods_named(id, text);
                if !candidates.is_empty() {
                    let name = text.into();
                    let receiver = None;
                    return Checked::Functions(Functions {
                        name,
                        candidates,
                        receiver,
                        native: None,
                        span,
                    });
                }
            }
            _ if ty == ERROR => return Value::error(span).into(),
            _ => {}
        }
        self.no_member(ty, name);
        Value::error(span).into()
    }

    /// `object.name` without parentheses.
    fn member(&mut self, object: Checked<'a>, name: &'a ast::Name, span: Span) -> Checked<'a> {
        let value = match self.receiver(object) {
            Some(value) => value,
            None => return Value::error(span).into(),
        };
        let ty = value.ty();
        if let Some((slot, field_type)) = self.field_of(ty, name) {
            return read_field(value, slot, field_type, span).into();
        }
        let candidates = self.methods_of(ty, &name.text);
        if candidates.is_empty() {
            if let Some(home) = library::home_of_type(self.ty(ty))
                && let Some(functions) = native_functions(home, &name.text, span)
            {
                return functions;
            }
            self.no_member(ty, name);
            return Value::error(span).into();
        }
        Checked::Functions(Functions {
            name: name.text.clone(),
            candidates,
            receiver: Some(value),
            native: None,
            span,
        })
    }

    /// What stands before a dot, as a value; `None` for what has been reported.
    pub(super) fn receiver(&mut self, object: Checked<'a>) -> Option<Value> {
        let span = object.span();
        match object {
            Checked::Value(value) if value.is_error() => None,
            Checked::Value(value) if value.ty() == known::VOID => {
                self.error(span, "this call returns no value");
                None
            }
            Checked::Value(value) => Some(value),
            Checked::Functions(functions) => {
                let name = functions.name;
                let message = format!("`{name}` is a function");
                self.report(Diagnostic::error(span, message).hint(format!("call it: `{name}(…)`")));
                None
            }
            Checked::Elements(elements, span) => {
                let value = self.untyped_elements(elements, span);
                (!value.is_error()).then_some(value)
            }
            braces @ Checked::Braces(..) => {
                self.error(span, "nothing here says what `{…}` is");
                self.discard(braces);
                None
            }
        }
    }

    /// The slot and type of a field that values of a type have; reports if it may not be used.
    pub(super) fn field_of(&mut self, ty: TypeId, name: &ast::Name) -> Option<(u16, TypeId)> {
        let (Type::Class(class) | Type::Struct(class)) = *self.ty(ty) else { return None };
        let (slot, ty) = self.find_field(class, &name.text)?;
        self.check_field_access(class, slot, name);
        Some((slot, ty))
    }

    /// The declared methods of a name that values of a type have.
    pub(super) fn methods_of(&self, ty: TypeId, name: &str) -> Vec<FnId> {
        match *self.ty(ty) {
            Type::Class(id) => self.methods_named(id, name),
            Type::Interface(id) => {
                let methods = &self.tables.interfaces[id.0 as usize].methods;
                let mut found = methods.get(name).cloned().unwrap_or_default();
                self.add_object_methods(name, &mut found);
                found
            }
            Type::Object => {
                let mut found = Vec::new();
                self.add_object_methods(name, &mut found);
                found
            }
            Type::Enum(id) => {
                let methods = &self.tables.enums[id.0 as usize].methods;
                methods.get(name).cloned().unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Reports that a type has no member of a name.
    pub(super) fn no_member(&mut self, ty: TypeId, name: &ast::Name) {
        let text = name.text.as_str();
        let type_name = self.name(ty);
        let mut names: Vec<String> = Vec::new();
        match *self.ty(ty) {
            Type::Class(id) | Type::Struct(id) => {
                names.extend(self.types.class(id).fields.iter().map(|field| field.name.clone()));
                let mut next = Some(id);
                while let Some(class) = next {
                    names.extend(self.tables.class(class).methods.keys().map(|&n| n.into()));
                    next = self.types.class(class).base;
                }
            }
            Type::Interface(id) => {
                let methods = &self.tables.interfaces[id.0 as usize].methods;
                names.extend(methods.keys().map(|&n| n.into()));
            }
            Type::Enum(id) => {
                let members = &self.types.enums[id.0 as usize].members;
                names.extend(members.iter().map(|(member, _)| member.clone()));
                let methods = &self.tables.enums[id.0 as usize].methods;
                names.extend(methods.keys().map(|&n| n.into()));
            }
            _ => {}
        }
        if matches!(self.ty(ty), Type::Class(_) | Type::Interface(_) | Type::Object) {
            names.extend(["equals", "getHashCode", "toString"].map(String::from));
        }
        if let Some(home) = library::home_of_type(self.ty(ty)) {
            names.extend(library::members(home).map(|native| native.declaration.name.into()));
        }
        let other = |other: &&&str| names.iter().any(|name| name == **other);
        let familiar = familiar(text).iter().find(other).map(|&name| String::from(name));
        let is_array = matches!(self.ty(ty), Type::Array(_));
        let message = format!("`{type_name}` has no member `{text}`");
        let mut diagnostic = Diagnostic::error(name.span, message);
        if let Some(other) = familiar.or_else(|| self.suggestion(text, names)) {
            diagnostic = diagnostic.hint(format!("did you mean `{other}`?"));
        } else if is_array && !library::lookup("List", text).is_empty() {
            diagnostic = diagnostic.hint("the length of an array is fixed: use a List");
        }
        self.report(diagnostic);
    }

    /// Whether the body being checked may use a member of a class (or struct).
    pub(super) fn may_use(&self, reach: Reach, owner: Option<ClassId>, unit: UnitId) -> bool {
        let within = self.body.class();
        match (reach, owner) {
            (Reach::Public, _) => true,
            (Reach::Package, _) | (Reach::Private | Reach::Protected, None) => {
                self.body.unit == unit
            }
            (Reach::Private, Some(owner)) => within == Some(owner),
            (Reach::Protected, Some(owner)) => {
                within.is_some_and(|class| self.types.derives(class, owner))
            }
        }
    }

    pub(super) fn check_field_access(&mut self, class: ClassId, slot: u16, name: &ast::Name) {
        let info = self.tables.class(class).fields[usize::from(slot)];
        if !self.may_use(info.reach, Some(info.owner), info.unit) {
            let owner = self.types.class(info.owner).name.clone();
            let what = format!("field `{}` of `{owner}`", name.text);
            self.no_access(info.reach, &what, name.span);
        }
    }

    /// Reports a function that the body may not use.
    pub(super) fn check_function_access(&mut self, id: FnId, span: Span) {
        let info = self.tables.function(id);
        let owner = match info.owner {
            Owner::Class(class) => Some(class),
            _ => None,
        };
        // Functions and the methods of enums are there for whoever can name them.
        let reach = match (info.owner, info.reach) {
            (Owner::Class(_), reach) => reach,
            (_, Reach::Private) => Reach::Private,
            _ => Reach::Public,
        };
        if !self.may_use(reach, owner, info.unit) {
            let what = format!("`{}`", info.display);
            self.no_access(reach, &what, span);
        }
    }

    fn no_access(&mut self, reach: Reach, what: &str, span: Span) {
        let (message, hint) = match reach {
            Reach::Private => (format!("{what} is private"), None),
            Reach::Protected => (format!("{what} is protected"), None),
            Reach::Package | Reach::Public => {
                (format!("{what} belongs to its own file"), Some("declare it `public`"))
            }
        };
        let diagnostic = Diagnostic::error(span, message);
        self.report(match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    /// `object[index]`.
    pub(super) fn index(
        &mut self,
        object: &'a ast::Expr,
        index: &'a ast::Expr,
        span: Span,
    ) -> Value {
        let base = self.value(object);
        let (key, element) = match *self.ty(base.ty()) {
            Type::Array(element) | Type::List(element) => (known::INT, element),
            Type::Dict(key, value) => (key, value),
            Type::String => (known::INT, known::UBYTE),
            _ => {
                if !base.is_error() {
                    let name = self.name(base.ty());
                    self.error(base.span(), format!("`{name}` has no elements"));
                }
                let index = self.check_expr(index);
                self.discard(index);
                return Value::error(span);
            }
        };
        let is_dict = matches!(self.ty(base.ty()), Type::Dict(..));
        let index = if is_dict {
            self.expr_as(index, key)
        } else {
            let index = self.value(index);
            self.int_index(index)
        };
        let kind = ExprKind::Index { base: Box::new(base.expr), index: Box::new(index) };
        Value::place(kind, element, span)
    }

    /// The index of an element: any integer. One that does not fit into `int` becomes one that is
    /// out of every range.
    fn int_index(&mut self, index: Value) -> hir::Expr {
        let ty = index.ty();
        let is_wide = matches!(ty, known::LONG | known::UINT | known::ULONG);
        if is_wide && self.implicit(ty, index.literal, known::INT).is_none() {
            // By way of `double`, which saturates.
            let span = index.span();
            let index = self.cast(index, known::DOUBLE, span);
            return self.cast(index, known::INT, span).expr;
        }
        if !index.is_error() && self.implicit(ty, index.literal, known::INT).is_none() {
            let name = self.name(ty);
            let diagnostic = Diagnostic::error(
                index.span(),
                format!("an index must be `int`, but this is `{name}`"),
            );
            self.report(if super::convert::is_number(ty) {
                diagnostic.hint("convert it: `… as int`")
            } else {
                diagnostic
            });
            return Value::error(index.span()).expr;
        }
        self.coerce_value(index, known::INT)
    }
}

/// The function of the library that a name alone may be meant to be, and its package.
fn in_library(name: &str) -> Option<(&'static str, &'static str)> {
    let names = || std::iter::once(name).chain(familiar(name).iter().copied());
    library::PACKAGES.iter().find_map(|&package| {
        let native = names().find_map(|name| library::lookup(package, name).first())?;
        Some((package, native.declaration.name))
    })
}

pub(super) fn read_field(object: Value, slot: u16, ty: TypeId, span: Span) -> Value {
    let kind = ExprKind::Field { object: Box::new(object.expr), field: slot };
    Value::place(kind, ty, span)
}

/// Functions of the library of a home and name, if there are any.
fn native_functions<'a>(home: &str, name: &str, span: Span) -> Option<Checked<'a>> {
    let native = library::lookup(home, name).first()?;
    let declaration = &native.declaration;
    Some(Checked::Functions(Functions {
        name: name.into(),
        candidates: Vec::new(),
        receiver: None,
        native: Some((declaration.home_name, declaration.name)),
        span,
    }))
}
