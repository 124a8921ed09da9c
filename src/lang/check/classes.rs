//! The third pass: layouts, virtual slots, and what implements each method of an interface.
//!
//! Classes are visited by id, so that everything of a base is known before.

use std::collections::HashMap;

use crate::lang::ast;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::source::Span;
use crate::vm::types::{
    CLASS_DEPTH, ClassId, FunctionId, InterfaceId, Method, STRUCT_DEPTH, STRUCTS, SelectorDef,
    SelectorId, Type, TypeId,
};

use super::Checker;
use super::tables::{DeclKind, Dispatch, ERROR, FnId, Owner};

impl<'a> Checker<'a> {
    pub(super) fn lay_out_classes(&mut self) {
        for index in 0..self.tables.interfaces.len() {
            self.number_selectors(InterfaceId(index as u32));
        }
        for index in 0..self.types.classes.len() {
            let id = ClassId(index as u32);
            if self.tables.class(id).decl.is_none() || self.types.class(id).is_struct {
                continue;
            }
            self.inherit_fields(id);
            self.assign_slots(id);
            self.implement_interfaces(id);
        }
        self.check_depths();
        self.check_struct_cycles();
        self.check_sizes();
    }

    fn number_selectors(&mut self, id: InterfaceId) {
        for at in 0..self.tables.interfaces[id.0 as usize].all.len() {
            let method = self.tables.interfaces[id.0 as usize].all[at];
            let info = self.tables.function(method);
            // What every object has needs no selector.
            let object = self.object_methods.iter().find(|&&object| {
                let object = self.tables.function(object);
                object.name == info.name && object.same_params(info)
            });
            if let Some(&object) = object {
                let dispatch = self.tables.function(object).dispatch;
                self.check_override(method, object);
                self.tables.functions[method.0 as usize].dispatch = dispatch;
                continue;
            }
            let Some(signature) = self.signature(info) else { continue };
            let def = SelectorDef { name: info.name.into(), signature };
            let selector = match self.types.selectors.iter().position(|other| *other == def) {
                Some(at) => SelectorId(at as u32),
                None => {
                    self.types.selectors.push(def);
                    SelectorId(self.types.selectors.len() as u32 - 1)
                }
            };
            self.tables.functions[method.0 as usize].dispatch = Dispatch::Interface(selector);
            let selectors = &mut self.types.interfaces[id.0 as usize].selectors;
            if !selectors.contains(&selector) {
                selectors.push(selector);
            }
        }
    }

    fn inherit_fields(&mut self, id: ClassId) {
        let Some(base) = self.types.class(id).base else { return };
        let mut fields = self.types.class(base).fields.clone();
        let mut infos = self.tables.class(base).fields.clone();
        fields.append(&mut self.types.classes[id.0 as usize].fields);
        infos.append(&mut self.tables.classes[id.0 as usize].fields);
        self.types.classes[id.0 as usize].fields = fields;
        self.tables.classes[id.0 as usize].fields = infos;
    }

    /// The place of the name of an own field.
    fn field_span(&self, id: ClassId, own: usize) -> Option<Span> {
        let fields: &[ast::Field] = match self.tables.decl(self.tables.class(id).decl?).kind {
            DeclKind::Class(class) => &class.fields,
            DeclKind::Struct(it) => &it.fields,
            DeclKind::Interface(_) | DeclKind::Enum(_) => return None,
        };
        // Fields that clash with an earlier one were left out.
        let mut seen: Vec<&str> = Vec::new();
        let mut distinct = fields.iter().filter(|field| {
            let is_new = !seen.contains(&field.name.text.as_str());
            seen.push(&field.name.text);
            is_new
        });
        distinct.nth(own).map(|field| field.name.span)
    }

    pub(super) fn class_span(&self, id: ClassId) -> Span {
        let decl = self.tables.class(id).decl;
        decl.map_or(Span::default(), |decl| self.tables.decl(decl).name.span)
    }

    fn assign_slots(&mut self, id: ClassId) {
        let base = self.types.class(id).base;
        let mut slots = match base {
            Some(base) => self.tables.class(base).slots.clone(),
            None => self.object_methods.clone(),
        };
        let mut named: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, &slot) in slots.iter().enumerate() {
            named.entry(self.tables.function(slot).name).or_default().push(at);
        }
        for method in self.own_methods(id) {
            let info = self.tables.function(method);
            if info.is_static {
                continue;
            }
            let alike = named.entry(info.name).or_default();
            let takes_the_same = |&&at: &&usize| self.tables.function(slots[at]).same_params(info);
            let overridden = alike.iter().find(takes_the_same).copied();
            let is_virtual = info.ast.is_some_and(|ast| ast.modifiers.is_virtual);
            let slot = match overridden {
                Some(slot) => {
                    self.check_override(method, slots[slot]);
                    slots[slot] = method;
                    slot
                }
                None if is_virtual => {
                    alike.push(slots.len());
                    slots.push(method);
                    slots.len() - 1
                }
                None => continue,
            };
            let Ok(slot) = u16::try_from(slot) else {
                let span = self.tables.function(method).span;
                self.error(span, "a class cannot have that many virtual methods");
                continue;
            };
            self.tables.functions[method.0 as usize].dispatch = Dispatch::Virtual(slot);
        }
        let vtable = slots.iter().map(|&slot| match self.tables.function(slot).code {
            Some(code) => Method::Script(code),
            None => Method::Native,
        });
        self.types.classes[id.0 as usize].vtable = vtable.collect();
        self.tables.classes[id.0 as usize].slots = slots;
    }

    /// All own methods of a class, in order of declaration.
    fn own_methods(&self, id: ClassId) -> Vec<FnId> {
        let mut methods: Vec<FnId> =
            self.tables.class(id).methods.values().flatten().copied().collect();
        methods.sort();
        methods
    }

    /// A method that takes the place of another one must return the same.
    fn check_override(&mut self, method: FnId, overridden: FnId) {
        let (info, other) = (self.tables.function(method), self.tables.function(overridden));
        if info.result == other.result || info.result == ERROR || other.result == ERROR {
            return;
        }
        let (ty, wanted) = (self.name(info.result), self.name(other.result));
        let message =
            format!("`{}` must return `{wanted}` as `{}` does", info.display, other.display);
        let mut diagnostic =
            Diagnostic::error(info.span, message).hint(format!("it returns `{ty}`"));
        if other.owner != Owner::Object {
            diagnostic = diagnostic.label(other.span, "the other one is here");
        }
        self.report(diagnostic);
        // Said once is enough.
        self.tables.functions[method.0 as usize].result = ERROR;
    }

    fn implement_interfaces(&mut self, id: ClassId) {
        let mut interfaces = match self.types.class(id).base {
            Some(base) => self.types.class(base).interfaces.clone(),
            None => Vec::new(),
        };
        let own = std::mem::take(&mut self.types.classes[id.0 as usize].interfaces);
        for interface in own {
            if !interfaces.contains(&interface) {
                interfaces.push(interface);
            }
        }
        let mut selectors: Vec<(SelectorId, FunctionId)> = Vec::new();
        for &interface in &interfaces {
            for at in 0..self.tables.interfaces[interface.0 as usize].all.len() {
                let wanted = self.tables.interfaces[interface.0 as usize].all[at];
                let Dispatch::Interface(selector) = self.tables.function(wanted).dispatch else {
                    continue;
                };
                if let Some(code) = self.implementation(id, wanted)
                    && !selectors.iter().any(|(other, _)| *other == selector)
                {
                    selectors.push((selector, code));
                }
            }
        }
        let class = &mut self.types.classes[id.0 as usize];
        class.interfaces = interfaces;
        class.selectors = selectors;
    }

    /// The code with which a class implements a method of an interface; reports if it does not.
    fn implementation(&mut self, id: ClassId, wanted: FnId) -> Option<FunctionId> {
        let info = self.tables.function(wanted);
        let name = info.name;
        let found = self.methods_named(id, name).into_iter().find(|&method| {
            let method = self.tables.function(method);
            !method.is_static && method.same_params(self.tables.function(wanted))
        });
        match found {
            Some(found) => {
                self.check_override(found, wanted);
                self.tables.function(found).code
            }
            None => {
                let what = self.describe(wanted);
                let class = self.types.class(id).name.clone();
                let (span, place) = (self.class_span(id), self.tables.function(wanted).span);
                let message = format!("class `{class}` does not implement `{what}`");
                self.report(
                    Diagnostic::error(span, message).label(place, "which is declared here"),
                );
                None
            }
        }
    }

    /// The methods of a name that an object of a class has: those of the class itself first; an
    /// inherited one is left out if one before it takes the same parameters.
    pub(super) fn methods_named(&self, class: ClassId, name: &str) -> Vec<FnId> {
        let mut found: Vec<FnId> = Vec::new();
        let mut next = Some(class);
        while let Some(class) = next {
            for &method in self.tables.class(class).methods.get(name).into_iter().flatten() {
                self.add_visible(&mut found, method);
            }
            next = self.types.class(class).base;
        }
        self.add_object_methods(name, &mut found);
        found
    }

    /// The methods of a name that every object has.
    pub(super) fn add_object_methods(&self, name: &str, found: &mut Vec<FnId>) {
        for &method in &self.object_methods {
            if self.tables.function(method).name == name {
                self.add_visible(found, method);
            }
        }
    }

    fn add_visible(&self, found: &mut Vec<FnId>, method: FnId) {
        let info = self.tables.function(method);
        if !found.iter().any(|&other| self.tables.function(other).same_params(info)) {
            found.push(method);
        }
    }

    /// A field of a class or struct, inherited ones included: its slot and type.
    pub(super) fn find_field(&self, class: ClassId, name: &str) -> Option<(u16, TypeId)> {
        let mut next = Some(class);
        while let Some(class) = next {
            let (def, table) = (self.types.class(class), self.tables.class(class));
            if let Some(&own) = table.own_fields.get(name) {
                let slot = def.fields.len().checked_sub(table.own_fields.len())? + own;
                return Some((u16::try_from(slot).ok()?, def.fields.get(slot)?.ty));
            }
            next = def.base;
        }
        None
    }

    /// Walking up from a class to `Object` has to be quick.
    fn check_depths(&mut self) {
        let mut depths: Vec<u32> = Vec::with_capacity(self.types.classes.len());
        for index in 0..self.types.classes.len() {
            let base = self.types.classes[index].base;
            let above = base.and_then(|base| depths.get(base.0 as usize).copied());
            let depth = above.map_or(0, |above| above + 1);
            depths.push(depth);
            // Said once of each line of heirs.
            if depth == CLASS_DEPTH + 1 {
                let span = self.class_span(ClassId(index as u32));
                self.error(span, format!("a class cannot have more than {CLASS_DEPTH} above it"));
            }
        }
    }

    /// An object is made by one instruction, with all the structs in it, and its fields have numbers.
    fn check_sizes(&mut self) {
        let count = self.types.classes.len();
        // The structs in one, itself included, and how deep they lie in one another.
        let mut sizes: Vec<Option<(u32, u32)>> = vec![None; count];
        for root in 0..count {
            // The fields of a struct before the struct, which may be declared further up.
            let mut path = vec![root];
            while let Some(&class) = path.last() {
                let (mut structs, mut depth) = (1u32, 0);
                let mut open = None;
                for field in &self.types.classes[class].fields {
                    let Type::Struct(inner) = *self.ty(field.ty) else { continue };
                    match sizes[inner.0 as usize] {
                        Some((within, below)) => {
                            structs = structs.saturating_add(within);
                            depth = depth.max(below + 1);
                        }
                        // One that contains itself was reported.
                        None if path.contains(&(inner.0 as usize)) => {}
                        None => open = Some(inner.0 as usize),
                    }
                }
                if let Some(open) = open {
                    path.push(open);
                    continue;
                }
                path.pop();
                if sizes[class].is_some() {
                    continue;
                }
                let is_large = self.check_size(ClassId(class as u32), structs, depth);
                // What contains it need not be reported too.
                sizes[class] = Some(if is_large { (1, 0) } else { (structs, depth) });
            }
        }
    }

    /// Reports a class or struct that is too large, and says whether it is.
    fn check_size(&mut self, id: ClassId, structs: u32, depth: u32) -> bool {
        let def = self.types.class(id);
        let most = usize::from(u16::MAX);
        let message = if def.fields.len() > most {
            format!("`{}` has more than {most} fields", def.name)
        } else if structs > STRUCTS {
            format!("`{}` consists of more than {STRUCTS} structs", def.name)
        } else if depth > STRUCT_DEPTH {
            format!("`{}` has more than {STRUCT_DEPTH} structs within one another", def.name)
        } else {
            return false;
        };
        let span = self.class_span(id);
        self.report(Diagnostic::error(span, message).hint("keep a part in an object of a class"));
        true
    }

    /// A struct that contains itself would be infinitely large.
    fn check_struct_cycles(&mut self) {
        let count = self.types.classes.len();
        let mut done = vec![false; count];
        for index in 0..count {
            let mut path: Vec<(usize, usize)> = vec![(index, 0)];
            while let Some(&mut (class, ref mut field)) = path.last_mut() {
                let def = &self.types.classes[class];
                if !def.is_struct || done[class] || *field == def.fields.len() {
                    done[class] = true;
                    path.pop();
                    continue;
                }
                let at = *field;
                *field += 1;
                let Type::Struct(inner) = *self.ty(def.fields[at].ty) else { continue };
                let inner = inner.0 as usize;
                if path.iter().any(|&(outer, _)| outer == inner) {
                    let span = self.field_span(ClassId(class as u32), at).unwrap_or_default();
                    let name = self.types.classes[inner].name.clone();
                    self.error(span, format!("struct `{name}` would contain itself"));
                } else if !done[inner] {
                    path.push((inner, 0));
                }
            }
        }
    }
}
