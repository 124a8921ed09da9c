//! The first pass: which names there are, and classes in an order in which each comes after its base.

use crate::lang::ast;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::types::{
    ClassDef, ClassId, EnumDef, EnumId, ExceptionClass, InterfaceDef, InterfaceId, Param,
    Signature, Type, known, object_slot,
};

use super::Checker;
use super::names::TypeName;
use super::tables::{
    ClassInfo, DeclId, DeclKind, Dispatch, ERROR, EnumInfo, FieldInfo, FunctionInfo, InterfaceInfo,
    Owner, ParamInfo, Reach, TypeDecl, UnitTable,
};

impl<'a> Checker<'a> {
    /// Fills the tables with all names; types of fields and parameters are not yet known.
    pub(super) fn collect(&mut self) {
        self.tables.units.resize_with(self.program.units.len(), UnitTable::default);
        self.declare_object_methods();
        for (index, unit) in self.program.units.iter().enumerate() {
            let id = UnitId(index as u32);
            for (at, alias) in unit.ast.aliases.iter().enumerate() {
                let places = &mut self.tables.units[index].alias_places;
                places.entry(&alias.name.text).or_insert(at);
            }
            for decl in &unit.ast.decls {
                match decl {
                    ast::Decl::Function(function) => self.declare_function(id, function),
                    ast::Decl::Class(it) => self.declare_type(id, &it.name, DeclKind::Class(it)),
                    ast::Decl::Struct(it) => self.declare_type(id, &it.name, DeclKind::Struct(it)),
                    ast::Decl::Interface(it) => {
                        self.declare_type(id, &it.name, DeclKind::Interface(it));
                    }
                    ast::Decl::Enum(it) => self.declare_type(id, &it.name, DeclKind::Enum(it)),
                }
            }
        }
        self.number_types();
        for index in 0..self.program.units.len() {
            self.resolve_aliases(UnitId(index as u32));
        }
    }

    fn declare_object_methods(&mut self) {
        let object = ParamInfo { name: "other", ty: known::OBJECT, out: false, default: None };
        let methods = [
            ("equals", object_slot::EQUALS, vec![object], known::INT),
            ("getHashCode", object_slot::GET_HASH_CODE, vec![], known::INT),
            ("toString", object_slot::TO_STRING, vec![], known::STRING),
        ];
        for (name, slot, params, result) in methods {
            let id = self.tables.add_function(FunctionInfo {
                name,
                display: format!("Object.{name}"),
                unit: UnitId(0),
                owner: Owner::Object,
                ast: None,
                span: Span::default(),
                reach: Reach::Public,
                is_static: false,
                is_constructor: false,
                dispatch: Dispatch::Virtual(slot),
                params,
                result,
                code: None,
            });
            self.object_methods.push(id);
        }
    }

    /// A function or method whose types are resolved later.
    pub(super) fn function_info(
        &self,
        unit: UnitId,
        owner: Owner,
        function: &'a ast::Function,
        display: String,
    ) -> FunctionInfo<'a> {
        FunctionInfo {
            name: &function.name.text,
            display,
            unit,
            owner,
            ast: Some(function),
            span: function.name.span,
            reach: Reach::of(function.modifiers.access),
            is_static: function.modifiers.is_static,
            is_constructor: false,
            dispatch: Dispatch::Direct,
            params: Vec::new(),
            result: ERROR,
            code: None,
        }
    }

    fn declare_function(&mut self, unit: UnitId, function: &'a ast::Function) {
        let display = self.qualified(unit, &function.name.text);
        let info = self.function_info(unit, Owner::Unit, function, display);
        if let Some(&decl) = self.tables.unit(unit).types.get(info.name) {
            self.clash(&function.name, "function", self.tables.decl(decl).name.span);
            return;
        }
        let name = info.name;
        let id = self.tables.add_function(info);
        self.tables.units[unit.0 as usize].functions.entry(name).or_default().push(id);
    }

    fn declare_type(&mut self, unit: UnitId, name: &'a ast::Name, kind: DeclKind<'a>) {
        if super::names::is_reserved_type(&name.text) {
            self.error(name.span, format!("`{}` is the name of a built-in type", name.text));
            return;
        }
        let table = self.tables.unit(unit);
        if let Some(&other) = table.types.get(name.text.as_str()) {
            self.clash(name, kind.word(), self.tables.decl(other).name.span);
            return;
        }
        if let Some(others) = table.functions.get(name.text.as_str()) {
            self.clash(name, kind.word(), self.tables.function(others[0]).span);
            return;
        }
        let id = DeclId(self.tables.decls.len() as u32);
        self.tables.decls.push(TypeDecl { unit, name, kind, ty: ERROR });
        self.tables.units[unit.0 as usize].types.insert(&name.text, id);
    }

    pub(super) fn clash(&mut self, name: &ast::Name, word: &str, first: Span) {
        self.report(
            Diagnostic::error(name.span, format!("the name of {word} `{}` is taken", name.text))
                .label(first, "it is declared here"),
        );
    }

    /// The name by which messages and other units know something.
    pub(super) fn qualified(&self, unit: UnitId, name: &str) -> String {
        match unit {
            UnitId(0) => name.into(),
            _ => format!("{}.{name}", self.program.unit(unit).package),
        }
    }

    /// Gives every declared type its id; a class gets a later one than its base.
    fn number_types(&mut self) {
        for class in ExceptionClass::ALL {
            let own =
                (class == ExceptionClass::Exception).then_some([("message", 0), ("backtrace", 1)]);
            let field = FieldInfo { reach: Reach::Public, owner: ClassId(0), unit: UnitId(0) };
            self.tables.classes.push(ClassInfo {
                fields: vec![field; 2],
                own_fields: own.into_iter().flatten().collect(),
                slots: self.object_methods.clone(),
                ..ClassInfo::default()
            });
        }
        let mut states = vec![State::New; self.tables.decls.len()];
        for index in 0..self.tables.decls.len() {
            self.number_type(DeclId(index as u32), &mut states);
        }
    }

    fn number_type(&mut self, decl: DeclId, states: &mut [State]) {
        // From a class up its bases, so that the depth of a hierarchy is no depth of recursion.
        let mut chain = Vec::new();
        let mut next = Some(decl);
        while let Some(decl) = next {
            match states[decl.0 as usize] {
                State::Done => break,
                State::Active => {
                    let name = self.tables.decl(decl).name;
                    self.error(name.span, format!("class `{}` derives from itself", name.text));
                    break;
                }
                State::New => {}
            }
            states[decl.0 as usize] = State::Active;
            chain.push(decl);
            next = self.base_decl(decl);
        }
        for decl in chain.into_iter().rev() {
            self.add_type(decl);
            states[decl.0 as usize] = State::Done;
        }
    }

    /// The class that a class names as its base, if the program declares it.
    fn base_decl(&self, decl: DeclId) -> Option<DeclId> {
        let TypeDecl { unit, kind: DeclKind::Class(class), .. } = *self.tables.decl(decl) else {
            return None;
        };
        let mut path = class.base.as_ref()?;
        let aliases = &self.program.unit(unit).ast.aliases;
        let mut above = aliases.len();
        loop {
            // An alias may only refer to those above it, so this ends.
            if let [name] = path.parts.as_slice()
                && let Some(&at) = self.tables.unit(unit).alias_places.get(name.text.as_str())
                && at < above
                && let ast::TypeExprKind::Named { path: target, args } = &aliases[at].ty.kind
                && args.is_empty()
            {
                path = target;
                above = at;
                continue;
            }
            return match self.find_type_name(unit, path) {
                Ok(TypeName::Decl(id)) => {
                    matches!(self.tables.decl(id).kind, DeclKind::Class(_)).then_some(id)
                }
                _ => None,
            };
        }
    }

    fn add_type(&mut self, decl: DeclId) {
        let TypeDecl { unit, name, kind, .. } = *self.tables.decl(decl);
        let qualified = self.qualified(unit, &name.text);
        let ty = match kind {
            DeclKind::Class(_) | DeclKind::Struct(_) => {
                let id = ClassId(self.types.classes.len() as u32);
                let is_struct = matches!(kind, DeclKind::Struct(_));
                self.types.classes.push(ClassDef {
                    name: qualified,
                    base: None,
                    is_struct,
                    fields: Vec::new(),
                    vtable: Vec::new(),
                    selectors: Vec::new(),
                    interfaces: Vec::new(),
                });
                self.tables.classes.push(ClassInfo { decl: Some(decl), ..ClassInfo::default() });
                if is_struct { Type::Struct(id) } else { Type::Class(id) }
            }
            DeclKind::Interface(_) => {
                let id = InterfaceId(self.types.interfaces.len() as u32);
                self.types.interfaces.push(InterfaceDef { name: qualified, selectors: Vec::new() });
                let methods = std::collections::HashMap::new();
                self.tables.interfaces.push(InterfaceInfo { methods, all: Vec::new() });
                Type::Interface(id)
            }
            DeclKind::Enum(_) => {
                let id = EnumId(self.types.enums.len() as u32);
                self.types.enums.push(EnumDef { name: qualified, members: Vec::new() });
                let methods = std::collections::HashMap::new();
                let members = std::collections::HashMap::new();
                self.tables.enums.push(EnumInfo { members, methods });
                Type::Enum(id)
            }
        };
        self.tables.decls[decl.0 as usize].ty = self.types.intern(ty);
    }

    /// The signature of a function as a value: without its receiver. `None` if a type in it is
    /// wrong.
    pub(super) fn signature(&self, function: &FunctionInfo<'_>) -> Option<Signature> {
        if function.result == ERROR || function.params.iter().any(|param| param.ty == ERROR) {
            return None;
        }
        let params = function.params.iter().map(|p| Param { ty: p.ty, out: p.out }).collect();
        Some(Signature { params, result: function.result })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Active,
    Done,
}
