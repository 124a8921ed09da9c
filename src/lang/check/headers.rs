//! The second pass: types of fields, parameters and results; members of enums.

use std::collections::HashMap;

use crate::lang::ast;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::parser::MAX_PARAMS;
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::types::{ClassId, EnumId, FieldDef, InterfaceId, Type, TypeId, known};

use super::Checker;
use super::fold::Folded;
use super::tables::{
    DeclId, DeclKind, Dispatch, ERROR, FieldInfo, FnId, Owner, ParamInfo, Reach, TypeDecl,
};

/// What a function is declared in, as far as its header is concerned.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Unit,
    Class,
    Constructor,
    Interface,
    Enum,
}

impl<'a> Checker<'a> {
    pub(super) fn resolve_headers(&mut self) {
        for index in 0..self.tables.functions.len() {
            if self.tables.functions[index].owner == Owner::Unit {
                self.resolve_header(FnId(index as u32), Place::Unit);
            }
        }
        for index in 0..self.tables.decls.len() {
            let decl = DeclId(index as u32);
            let TypeDecl { unit, kind, ty, .. } = *self.tables.decl(decl);
            match (kind, self.ty(ty).clone()) {
                (DeclKind::Class(class), Type::Class(id)) => self.declare_class(unit, id, class),
                (DeclKind::Struct(it), Type::Struct(id)) => {
                    self.declare_fields(unit, id, &it.fields)
                }
                (DeclKind::Interface(it), Type::Interface(id)) => {
                    self.declare_interface(unit, id, it);
                }
                (DeclKind::Enum(it), Type::Enum(id)) => self.declare_enum(unit, id, it),
                _ => {}
            }
        }
        for index in 0..self.tables.functions.len() {
            self.check_duplicate(FnId(index as u32));
        }
    }

    fn declare_class(&mut self, unit: UnitId, id: ClassId, class: &'a ast::Class) {
        if let Some(path) = &class.base {
            let base = self.resolve_path(unit, path);
            match *self.ty(base) {
                // One with a later id is part of a circle, which has been reported.
                Type::Class(base) if base < id => {
                    self.types.classes[id.0 as usize].base = Some(base)
                }
                Type::Class(_) => {}
                _ if base == known::OBJECT || base == ERROR => {}
                _ => {
                    let name = self.name(base);
                    let diagnostic =
                        Diagnostic::error(path.span, format!("`{name}` cannot be a base class"));
                    self.report(match self.ty(base) {
                        Type::Interface(_) => diagnostic.hint(format!("write `implements {name}`")),
                        _ => diagnostic,
                    });
                }
            }
        }
        for path in &class.interfaces {
            let interface = self.resolve_path(unit, path);
            match *self.ty(interface) {
                Type::Interface(interface) => {
                    let list = &mut self.types.classes[id.0 as usize].interfaces;
                    if list.contains(&interface) {
                        self.error(path.span, "this interface is named twice");
                    } else {
                        list.push(interface);
                    }
                }
                _ if interface == ERROR => {}
                _ => {
                    let name = self.name(interface);
                    self.error(path.span, format!("`{name}` is not an interface"));
                }
            }
        }
        self.declare_fields(unit, id, &class.fields);
        for method in &class.methods {
            let function = self.declare_member(unit, Owner::Class(id), method, Place::Class);
            let table = &mut self.tables.classes[id.0 as usize];
            table.methods.entry(&method.name.text).or_default().push(function);
        }
        for constructor in &class.constructors {
            let owner = Owner::Class(id);
            let function = self.declare_member(unit, owner, constructor, Place::Constructor);
            self.tables.classes[id.0 as usize].constructors.push(function);
        }
    }

    /// Own fields only: inherited ones are put before them when classes are laid out.
    fn declare_fields(&mut self, unit: UnitId, id: ClassId, fields: &'a [ast::Field]) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for field in fields {
            if let Some(&first) = seen.get(field.name.text.as_str()) {
                self.clash(&field.name, "field", first);
                continue;
            }
            seen.insert(&field.name.text, field.name.span);
            let ty = self.resolve_type(unit, &field.ty);
            let is_struct = self.types.class(id).is_struct;
            let reach = match Reach::of(field.access) {
                // Nothing has a struct as `this`.
                Reach::Private | Reach::Protected if is_struct => Reach::Package,
                reach => reach,
            };
            let def = FieldDef { name: field.name.text.clone(), ty };
            self.types.classes[id.0 as usize].fields.push(def);
            let table = &mut self.tables.classes[id.0 as usize];
            table.own_fields.insert(&field.name.text, table.own_fields.len());
            table.fields.push(FieldInfo { reach, owner: id, unit });
        }
    }

    fn declare_interface(&mut self, unit: UnitId, id: InterfaceId, it: &'a ast::Interface) {
        for method in &it.methods {
            let function =
                self.declare_member(unit, Owner::Interface(id), method, Place::Interface);
            let table = &mut self.tables.interfaces[id.0 as usize];
            table.methods.entry(&method.name.text).or_default().push(function);
            table.all.push(function);
        }
    }

    fn declare_enum(&mut self, unit: UnitId, id: EnumId, it: &'a ast::Enum) {
        let mut next: Option<i32> = Some(0);
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for member in &it.members {
            if let Some(&first) = seen.get(member.name.text.as_str()) {
                self.clash(&member.name, "member", first);
                continue;
            }
            seen.insert(&member.name.text, member.name.span);
            let value = match &member.value {
                Some(value) => self.discriminant(value),
                None if next.is_none() => {
                    self.error(
                        member.name.span,
                        "the value of this member does not fit into `int`",
                    );
                    Some(0)
                }
                None => next,
            };
            let value = value.unwrap_or(0);
            next = value.checked_add(1);
            let members = &mut self.types.enums[id.0 as usize].members;
            members.push((member.name.text.clone(), value));
            self.tables.enums[id.0 as usize].members.insert(&member.name.text, value);
        }
        for method in &it.methods {
            let function = self.declare_member(unit, Owner::Enum(id), method, Place::Enum);
            let table = &mut self.tables.enums[id.0 as usize];
            table.methods.entry(&method.name.text).or_default().push(function);
        }
    }

    /// The value that an enum gives to a member, if it may.
    fn discriminant(&mut self, value: &ast::Expr) -> Option<i32> {
        if let ast::ExprKind::Error = value.kind {
            return None;
        }
        match super::fold::fold(value) {
            Some(Folded::Int(n)) if (0..=i128::from(i32::MAX)).contains(&n) => Some(n as i32),
            Some(Folded::Int(n)) if n < 0 => {
                self.error(value.span, "the value of an enum member cannot be negative");
                None
            }
            Some(Folded::Int(_)) => {
                self.error(value.span, "the value of this member does not fit into `int`");
                None
            }
            _ => {
                self.error(value.span, "the value of an enum member must be an integer constant");
                None
            }
        }
    }

    fn declare_member(
        &mut self,
        unit: UnitId,
        owner: Owner,
        function: &'a ast::Function,
        place: Place,
    ) -> FnId {
        let home = match owner {
            Owner::Class(id) => self.types.class(id).name.clone(),
            Owner::Interface(id) => self.types.interfaces[id.0 as usize].name.clone(),
            Owner::Enum(id) => self.types.enums[id.0 as usize].name.clone(),
            Owner::Unit | Owner::Object => String::new(),
        };
        let display = format!("{home}.{}", function.name.text);
        let mut info = self.function_info(unit, owner, function, display);
        match place {
            Place::Constructor => {
                info.is_constructor = true;
                info.is_static = false;
            }
            Place::Interface => {
                info.reach = Reach::Public;
                info.is_static = false;
            }
            Place::Enum => info.is_static = false,
            Place::Unit | Place::Class => {}
        }
        let id = self.tables.add_function(info);
        self.resolve_header(id, place);
        id
    }

    /// The type that a path names, reported if there is none.
    fn resolve_path(&mut self, unit: UnitId, path: &'a ast::Path) -> TypeId {
        match self.find_type_name(unit, path) {
            Ok(name) => {
                let ty = self.type_of_name(name);
                if let super::names::TypeName::Generic(generic) = name {
                    self.error(path.span, format!("`{generic:?}` needs type arguments"));
                }
                ty
            }
            Err(unknown) => {
                self.unknown_type(unit, path, &unknown);
                ERROR
            }
        }
    }

    fn resolve_header(&mut self, id: FnId, place: Place) {
        let info = self.tables.function(id);
        let (unit, Some(function)) = (info.unit, info.ast) else { return };
        let params = self.resolve_params(unit, function, place);
        let result = match place {
            // Whatever result it declares is not used.
            Place::Constructor => known::VOID,
            _ => self.resolve_result(unit, &function.result),
        };
        let code = self.check_modifiers(id, function, place);
        let info = &mut self.tables.functions[id.0 as usize];
        info.params = params;
        info.result = result;
        if code {
            let code = self.tables.add_code(id);
            self.tables.functions[id.0 as usize].code = Some(code);
        }
    }

    fn resolve_params(
        &mut self,
        unit: UnitId,
        function: &'a ast::Function,
        place: Place,
    ) -> Vec<ParamInfo<'a>> {
        let mut params = Vec::with_capacity(function.params.len());
        // That there are more has been reported.
        for (at, param) in function.params.iter().take(MAX_PARAMS).enumerate() {
            let same = |other: &&ast::Param| other.name.text == param.name.text;
            if let Some(first) = function.params[..at].iter().find(same) {
                self.clash(&param.name, "parameter", first.name.span);
            }
            let mut ty = self.resolve_type(unit, &param.ty);
            if param.is_out {
                let forbidden = match place {
                    Place::Constructor => Some("a constructor"),
                    Place::Interface => Some("a method of an interface"),
                    Place::Enum => Some("a method of an enum"),
                    Place::Class if function.modifiers.is_virtual => Some("a virtual method"),
                    Place::Class | Place::Unit => None,
                };
                if let Some(what) = forbidden {
                    self.error(param.span, format!("{what} cannot have `out` parameters"));
                } else if !self.check_out_type(ty, param.span) {
                    ty = ERROR;
                }
            }
            if let Some(default) = &param.default {
                if param.is_out {
                    self.error(default.span, "an `out` parameter cannot have a default");
                } else if place == Place::Enum {
                    self.error(default.span, "a method of an enum cannot have defaults");
                }
            }
            let default = param.default.as_ref().filter(|_| !param.is_out && place != Place::Enum);
            params.push(ParamInfo { name: &param.name.text, ty, out: param.is_out, default });
        }
        params
    }

    /// Checks what a function may be and says whether it gets code. (That a body is missing, or too
    /// many, the parser reports.)
    fn check_modifiers(&mut self, id: FnId, function: &'a ast::Function, place: Place) -> bool {
        let modifiers = function.modifiers;
        let span = function.name.span;
        if modifiers.is_virtual && place != Place::Class {
            if place != Place::Interface {
                self.error(span, "only a method of a class can be `virtual`");
            }
        } else if modifiers.is_virtual && modifiers.is_static {
            self.error(span, "a method cannot be both `static` and `virtual`");
        }
        if place == Place::Enum && function.name.text == "toString" {
            self.error(
                span,
                "an enum cannot define `toString`: its text is the name of the member",
            );
        }
        if place == Place::Interface {
            return false;
        }
        if modifiers.is_native && matches!(place, Place::Unit | Place::Class) {
            let name = self.tables.function(id).display.clone();
            if !(self.is_host_function)(&name) {
                self.report(
                    Diagnostic::error(span, format!("there is no native function `{name}`"))
                        .hint("the host that runs the program has to register it"),
                );
            }
            if !modifiers.is_virtual {
                self.tables.functions[id.0 as usize].dispatch = Dispatch::Host;
            }
            // Code that calls it, for virtual slots and interfaces.
            return place == Place::Class;
        }
        true
    }

    /// Reports a function that takes the same parameters as one before it in the same place, and
    /// leaves it out of what calls can mean.
    fn check_duplicate(&mut self, id: FnId) {
        let siblings = self.siblings(id).map(|list| list.clone()).unwrap_or_default();
        let info = self.tables.function(id);
        let first = siblings
            .iter()
            .take_while(|&&other| other != id)
            .find(|&&other| self.tables.function(other).same_params(info));
        if let Some(&first) = first {
            let message = format!("`{}` is declared twice with these parameters", info.display);
            let span = info.span;
            let first = self.tables.function(first).span;
            self.report(Diagnostic::error(span, message).label(first, "the first one is here"));
            if let Some(siblings) = self.siblings(id) {
                siblings.retain(|&other| other != id);
            }
        }
    }

    /// The functions of one name and place.
    fn siblings(&mut self, id: FnId) -> Option<&mut Vec<FnId>> {
        let tables = &mut self.tables;
        let info = &tables.functions[id.0 as usize];
        match info.owner {
            Owner::Unit => tables.units[info.unit.0 as usize].functions.get_mut(info.name),
            Owner::Object => None,
            Owner::Class(class) if info.is_constructor => {
                Some(&mut tables.classes[class.0 as usize].constructors)
            }
            Owner::Class(class) => tables.classes[class.0 as usize].methods.get_mut(info.name),
            Owner::Interface(it) => tables.interfaces[it.0 as usize].methods.get_mut(info.name),
            Owner::Enum(it) => tables.enums[it.0 as usize].methods.get_mut(info.name),
        }
    }
}
