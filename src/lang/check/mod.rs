//! From parsed units to the typed tree: names, types, overloads, conversions.
//!
//! The work goes in passes over all units, so that declarations may refer to one another in any
//! order: [`collect`] finds names and brings classes into order, [`headers`] resolves the types of
//! fields and parameters, [`classes`] lays out fields, virtual slots and interfaces, and then every
//! body is checked by itself.
//!
//! Within a body, an expression is first looked at without knowing where it goes ([`value::Checked`])
//! and then brought into the form that its place wants ([`convert`]); only what has no type of its
//! own (`{…}`, `[…]`, the name of a function) waits for that. So an argument is checked once,
//! however many overloads there are to choose from.
//!
//! What is wrong is reported and becomes a value of the type [`tables::ERROR`], which fits everywhere:
//! one mistake, one message. If there was any, no typed tree is given out; an `ERROR` never reaches
//! the type table.

mod assign;
mod bodies;
mod call;
mod classes;
mod collect;
mod construct;
mod convert;
mod expr;
mod fold;
mod funcref;
mod headers;
mod member;
mod messages;
mod names;
mod native;
mod operators;
mod overload;
mod scope;
mod stmt;
mod switch;
mod tables;
mod types;
mod value;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::lang::diagnostic::{Diagnostic, Diagnostics};
use crate::lang::hir;
use crate::lang::on_deep_stack;
use crate::lang::source::Span;
use crate::lang::units::ParsedProgram;
use crate::vm::module::NativeImport;
use crate::vm::types::{ClassId, Signature, Type, TypeId, TypeTable};

use scope::Body;
use tables::{ERROR, FnId, Tables};

/// Checks a program. The typed tree is there if neither the parser nor the checker found an error.
///
/// `is_host_function` says whether the host has a native function of a qualified name: what a
/// `native` declaration refers to.
pub(crate) fn check(
    program: &ParsedProgram,
    is_host_function: &dyn Fn(&str) -> bool,
) -> (Option<hir::Program>, Diagnostics) {
    on_deep_stack(|| check_all(program, is_host_function))
}

fn check_all(
    program: &ParsedProgram,
    is_host_function: &dyn Fn(&str) -> bool,
) -> (Option<hir::Program>, Diagnostics) {
    let mut checker = Checker {
        program,
        is_host_function,
        types: TypeTable::new(),
        tables: Tables::default(),
        object_methods: Vec::new(),
        object_class: None,
        natives: Vec::new(),
        native_ids: HashMap::new(),
        diagnostics: Diagnostics::default(),
        silent: 0,
        defaults: Vec::new(),
        nested_defaults: 0,
        depth: 0,
        body: Body::default(),
    };
    checker.collect();
    checker.resolve_headers();
    checker.lay_out_classes();
    let functions = checker.check_bodies();
    let main = checker.find_main();
    if program.diagnostics.has_errors() || checker.diagnostics.has_errors() {
        return (None, checker.diagnostics);
    }
    let program = hir::Program { types: checker.types, functions, natives: checker.natives, main };
    (Some(program), checker.diagnostics)
}

struct Checker<'a> {
    program: &'a ParsedProgram,
    is_host_function: &'a dyn Fn(&str) -> bool,
    types: TypeTable,
    tables: Tables<'a>,
    /// `equals`, `getHashCode`, `toString`, by their slots.
    object_methods: Vec<FnId>,
    /// The class of `new Object()`, once there is one.
    object_class: Option<ClassId>,
    natives: Vec<NativeImport>,
    native_ids: HashMap<(String, Signature), u32>,
    diagnostics: Diagnostics,
    /// While it is not 0, nothing is reported: what is checked a second time.
    silent: u32,
    /// The defaults that are being filled in, so that none needs itself.
    defaults: Vec<(FnId, usize)>,
    /// How often a default was needed by another one.
    nested_defaults: usize,
    /// How deep expressions and statements are nested at this point, defaults included.
    depth: u32,
    /// The function being checked.
    body: Body<'a>,
}

impl Checker<'_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(span, message));
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.silent == 0 {
            self.diagnostics.push(diagnostic);
        }
    }

    /// The structure of a type; of [`ERROR`] that of `void`, which nothing accepts.
    fn ty(&self, id: TypeId) -> &Type {
        if id == ERROR { &Type::Void } else { self.types.get(id) }
    }

    /// A type's name for messages.
    fn name(&self, id: TypeId) -> String {
        if id == ERROR { "?".into() } else { self.types.name(id) }
    }

    /// The index of a native function that this program uses.
    fn import(&mut self, name: String, signature: Signature) -> u32 {
        let id = self.natives.len() as u32;
        let known = *self.native_ids.entry((name.clone(), signature.clone())).or_insert(id);
        if known == id {
            self.natives.push(NativeImport { name, signature });
        }
        known
    }
}
