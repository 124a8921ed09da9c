//! The last pass: defaults and bodies of all functions.

use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, LocalVar};
use crate::lang::source::Span;
use crate::lang::units::UnitId;
use crate::vm::module::FunctionKind;
use crate::vm::types::{FunctionId, Param, Signature, Type, TypeId, known};

use super::Checker;
use super::scope::{Binding, Body};
use super::tables::{FnId, Owner};

impl<'a> Checker<'a> {
    /// Checks all that runs; the functions are in the order of their ids.
    pub(super) fn check_bodies(&mut self) -> Vec<hir::Function> {
        for index in 0..self.tables.functions.len() {
            let id = FnId(index as u32);
            for param in 0..self.tables.function(id).params.len() {
                if self.tables.function(id).params[param].default.is_some() {
                    self.defaults.push((id, param));
                    self.check_default(id, param);
                    self.defaults.pop();
                }
            }
        }
        let code = self.tables.code.clone();
        code.into_iter().map(|id| self.check_body(id)).collect()
    }

    /// The type of `this` in what an owner has.
    pub(super) fn this_type(&mut self, owner: Owner) -> Option<TypeId> {
        match owner {
            Owner::Unit => None,
            Owner::Object => Some(known::OBJECT),
            Owner::Class(id) => Some(self.types.intern(Type::Class(id))),
            Owner::Interface(id) => Some(self.types.intern(Type::Interface(id))),
            Owner::Enum(_) => Some(known::INT),
        }
    }

    fn check_body(&mut self, id: FnId) -> hir::Function {
        let info = self.tables.function(id);
        let (owner, result, ast) = (info.owner, info.result, info.ast);
        let (is_constructor, display) = (info.is_constructor, info.display.clone());
        let params = info.params.clone();
        let has_receiver = info.has_receiver();
        let mut body = Body::new(info.unit, owner);
        (body.result, body.is_constructor) = (result, is_constructor);
        let mut signature = Signature { params: Vec::new(), result };
        if has_receiver {
            body.this = self.this_type(owner);
            let ty = body.this.unwrap_or(super::tables::ERROR);
            body.locals.push(LocalVar { name: "this".into(), ty });
            signature.params.push(Param { ty, out: false });
        }
        for param in &params {
            let index = body.locals.len() as u32;
            body.locals.push(LocalVar { name: param.name.into(), ty: param.ty });
            body.bind(Binding { name: param.name, ty: param.ty, is_const: false, index });
            signature.params.push(Param { ty: param.ty, out: param.out });
        }
        self.body = body;
        let span = ast.map_or(Span::default(), |ast| ast.span);
        let mut stmts = Vec::new();
        let mut end = span;
        match ast.and_then(|ast| ast.body.as_ref()) {
            Some(block) => {
                end = Span {
                    start: block.span.end.saturating_sub(1).max(block.span.start),
                    ..block.span
                };
                if let Owner::Class(class) = owner
                    && is_constructor
                    && self.is_exception(class)
                {
                    stmts.push(self.empty_backtrace(span));
                }
                self.body_stmts(&block.stmts, &mut stmts);
            }
            None if ast.is_some_and(|ast| ast.modifiers.is_native) => {
                stmts = self.host_wrapper(id, span);
            }
            None => {}
        }
        let body = std::mem::take(&mut self.body);
        let kind = match owner {
            _ if is_constructor => FunctionKind::Constructor,
            Owner::Class(_) if has_receiver => FunctionKind::Method,
            _ => FunctionKind::Free,
        };
        hir::Function {
            name: display,
            signature,
            kind,
            locals: body.locals,
            body: stmts,
            span,
            end,
        }
    }

    /// The entry of the program, if the root unit has one.
    pub(super) fn find_main(&mut self) -> Option<FunctionId> {
        let root = self.tables.units.first()?;
        let candidates = root.functions.get("main")?.clone();
        let fits = |id: &&FnId| {
            let info = self.tables.function(**id);
            info.params.is_empty() && matches!(info.result, known::INT | known::VOID)
        };
        if let Some(&main) = candidates.iter().find(fits) {
            return self.tables.function(main).code;
        }
        let info = self.tables.function(candidates[0]);
        debug_assert_eq!(info.unit, UnitId(0));
        let span = info.span;
        self.report(
            Diagnostic::error(span, "`main` takes no parameters and returns `int` or `void`")
                .hint("write `int main()`"),
        );
        None
    }
}
