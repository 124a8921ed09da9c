//! The name of a function as a value.

use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, BoundMethod, ExprKind};
use crate::vm::types::{Type, TypeId};

use super::Checker;
use super::tables::{Dispatch, ERROR, FnId, Owner};
use super::value::{Functions, Value, expr};

impl Checker<'_> {
    /// The function that a name means where a value of a type is expected.
    pub(super) fn function_value(&mut self, functions: Functions, to: TypeId) -> hir::Expr {
        let span = functions.span;
        let wrong = Value::error(span).expr;
        if to == ERROR {
            return wrong;
        }
        let name = functions.name.clone();
        let Type::Func(wanted) = self.ty(to).clone() else {
            let expected = self.name(to);
            let message = format!("expected `{expected}`, found the function `{name}`");
            self.report(Diagnostic::error(span, message).hint(format!("call it: `{name}(…)`")));
            return wrong;
        };
        if functions.native.is_some() {
            let message = format!("`{name}` is a native function and cannot be a value");
            let hint = "put it into a function of the program";
            self.report(Diagnostic::error(span, message).hint(hint));
            return wrong;
        }
        let fits = |id: &&FnId| {
            let info = self.tables.function(**id);
            self.signature(info).as_ref() == Some(&wanted)
        };
        let Some(&found) = functions.candidates.iter().find(fits) else {
            self.no_such_function(&functions, to);
            return wrong;
        };
        if !self.may_be_value(found, &functions) {
            return wrong;
        }
        self.check_function_access(found, span);
        let info = self.tables.function(found);
        let Some(receiver) = functions.receiver else {
            return match info.code {
                Some(code) => expr(ExprKind::FunctionValue(code), to, span),
                None => wrong,
            };
        };
        let method = match (info.dispatch, info.code) {
            (Dispatch::Virtual(slot), _) => BoundMethod::Virtual(slot),
            (Dispatch::Interface(selector), _) => BoundMethod::Interface(selector),
            (Dispatch::Direct, Some(code)) => BoundMethod::Direct(code),
            (Dispatch::Direct | Dispatch::Host, _) => return wrong,
        };
        let receiver = self.dispatched(receiver, found);
        expr(ExprKind::BoundValue { receiver: Box::new(receiver), method }, to, span)
    }

    /// Reports a function that cannot be a value.
    fn may_be_value(&mut self, id: FnId, functions: &Functions) -> bool {
        let info = self.tables.function(id);
        let name = &info.display;
        let message = if info.dispatch == Dispatch::Host
            || info.ast.is_some_and(|ast| ast.modifiers.is_native)
        {
            format!("`{name}` is a native function and cannot be a value")
        } else if matches!(info.owner, Owner::Enum(_)) {
            format!("`{name}` is a method of an enum and cannot be a value")
        } else if info.params.iter().any(|param| param.default.is_some()) {
            format!("`{name}` has defaults and cannot be a value")
        } else if info.has_receiver() && functions.receiver.is_none() {
            format!("`{name}` is not `static`: it needs an object")
        } else if info.is_static && functions.receiver.is_some() {
            format!("`{name}` is `static`: name its class instead of an object")
        } else {
            return true;
        };
        self.error(functions.span, message);
        false
    }

    fn no_such_function(&mut self, functions: &Functions, to: TypeId) {
        let known: Option<Vec<_>> = functions
            .candidates
            .iter()
            .map(|&id| self.signature(self.tables.function(id)))
            .collect();
        // A signature with an error in it has been reported.
        let Some(known) = known else { return };
        let wanted = self.name(to);
        let message = format!("`{}` is no `{wanted}`", functions.name);
        let mut diagnostic = Diagnostic::error(functions.span, message);
        if let [only] = known.as_slice() {
            let ty = self.types.intern(Type::Func(only.clone()));
            diagnostic = diagnostic.hint(format!("it is a `{}`", self.name(ty)));
        }
        self.report(diagnostic);
    }

    /// The receiver of a method in the type in which the method is looked up.
    pub(super) fn dispatched(&mut self, receiver: Value, method: FnId) -> hir::Expr {
        let info = self.tables.function(method);
        let target = match info.owner {
            Owner::Object => crate::vm::types::known::OBJECT,
            Owner::Interface(_) if matches!(info.dispatch, Dispatch::Virtual(_)) => {
                crate::vm::types::known::OBJECT
            }
            _ => return receiver.expr,
        };
        if receiver.ty() == target || matches!(self.ty(receiver.ty()), Type::Class(_)) {
            return receiver.expr;
        }
        self.coerce_value(receiver, target)
    }
}
