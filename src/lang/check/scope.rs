//! What is known inside of one body: variables in scope, and where a jump would go.

use std::collections::HashMap;

use crate::lang::ast;
use crate::lang::hir::{self, LocalId};
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::types::{ClassId, TypeId, known};

use super::Checker;
use super::tables::Owner;

/// A function whose body (or one of whose defaults) is being checked.
pub(super) struct Body<'a> {
    pub unit: UnitId,
    pub owner: Owner,
    /// The type of `this`, if there is one: of an enum's methods, `int`.
    pub this: Option<TypeId>,
    pub result: TypeId,
    pub is_constructor: bool,
    /// Statements that could not be parsed: they may have declared the names in them.
    pub unparsed: Vec<Span>,
    /// A default is being checked: the variables are arguments.
    pub is_default: bool,
    pub locals: Vec<hir::LocalVar>,
    /// All variables in scope, those of inner scopes last.
    bindings: Vec<Binding<'a>>,
    /// Where in `bindings` each name stands, innermost last.
    by_name: HashMap<&'a str, Vec<usize>>,
    /// Where in `bindings` each scope but the outermost begins.
    scopes: Vec<usize>,
    pub jumps: Vec<Jump>,
    /// The hidden variables of the catch clauses around, innermost last.
    pub caught: Vec<LocalId>,
}

/// What a statement can be inside of, as far as `break`, `continue`, `return` and `throw` care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jump {
    Loop,
    Switch,
    Finally,
}

/// A variable in scope.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    pub name: &'a str,
    pub ty: TypeId,
    pub is_const: bool,
    /// Of [`Body::locals`], or in a default the parameter.
    pub index: u32,
}

impl Default for Body<'_> {
    fn default() -> Self {
        Body::new(UnitId(0), Owner::Unit)
    }
}

impl<'a> Body<'a> {
    pub fn new(unit: UnitId, owner: Owner) -> Body<'a> {
        Body {
            unit,
            owner,
            this: None,
            result: known::VOID,
            is_constructor: false,
            unparsed: Vec::new(),
            is_default: false,
            locals: Vec::new(),
            bindings: Vec::new(),
            by_name: HashMap::new(),
            scopes: Vec::new(),
            jumps: Vec::new(),
            caught: Vec::new(),
        }
    }

    /// The class of `this`.
    pub fn class(&self) -> Option<ClassId> {
        match self.owner {
            Owner::Class(id) => Some(id),
            _ => None,
        }
    }

    pub fn find(&self, name: &str) -> Option<Binding<'a>> {
        let &at = self.by_name.get(name)?.last()?;
        self.bindings.get(at).copied()
    }

    /// The names in scope, for suggestions.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.bindings.iter().map(|binding| binding.name)
    }

    pub fn bind(&mut self, binding: Binding<'a>) {
        self.by_name.entry(binding.name).or_default().push(self.bindings.len());
        self.bindings.push(binding);
    }

    pub fn enter(&mut self) {
        self.scopes.push(self.bindings.len());
    }

    pub fn leave(&mut self) {
        let first = self.scopes.pop().unwrap_or(0);
        for binding in self.bindings.drain(first..) {
            if let Some(places) = self.by_name.get_mut(binding.name) {
                places.pop();
            }
        }
    }

    fn in_this_scope(&self, name: &str) -> bool {
        let first = self.scopes.last().copied().unwrap_or(0);
        let last = self.by_name.get(name).and_then(|places| places.last());
        last.is_some_and(|&last| last >= first)
    }

    /// A variable that the source does not name.
    pub fn hidden(&mut self, ty: TypeId) -> LocalId {
        self.locals.push(hir::LocalVar { name: String::new(), ty });
        LocalId(self.locals.len() as u32 - 1)
    }

    /// Whether the innermost thing a jump of this kind could leave lies within the finally body
    /// around, if there is one.
    pub fn can_break(&self) -> Target {
        match self.jumps.last() {
            None => Target::Nothing,
            Some(Jump::Finally) => Target::Finally,
            Some(Jump::Loop | Jump::Switch) => Target::Found,
        }
    }

    pub fn can_continue(&self) -> Target {
        match self.jumps.iter().rev().find(|&&jump| jump != Jump::Switch) {
            None => Target::Nothing,
            Some(Jump::Finally) => Target::Finally,
            Some(_) => Target::Found,
        }
    }

    pub fn in_finally(&self) -> bool {
        self.jumps.contains(&Jump::Finally)
    }
}

/// Where a jump would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Found,
    /// Out of a finally body.
    Finally,
    Nothing,
}

impl<'a> Checker<'a> {
    /// A new variable in the innermost scope.
    pub(super) fn declare_local(
        &mut self,
        name: &'a ast::Name,
        ty: TypeId,
        is_const: bool,
    ) -> LocalId {
        if self.body.in_this_scope(&name.text) {
            self.error(name.span, format!("variable `{}` is declared twice", name.text));
        }
        let id = self.body.hidden(ty);
        self.body.locals[id.0 as usize].name.clone_from(&name.text);
        self.body.bind(Binding { name: &name.text, ty, is_const, index: id.0 });
        id
    }
}
