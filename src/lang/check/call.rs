//! Calls: what is called, and with what receiver.

use crate::lang::ast::{self, ExprKind as Ast};
use crate::lang::hir::{self, Callee, ExprKind};
use crate::lang::source::Span;
use crate::vm::library::decl as library;
use crate::vm::types::{Signature, Type, TypeId, known};

use super::Checker;
use super::member::Entity;
use super::messages::count;
use super::overload::CheckedArg;
use super::tables::{ERROR, Owner};
use super::value::{Checked, Value};

impl<'a> Checker<'a> {
    /// `callee(args)`; the value is `void` if nothing is returned.
    pub(super) fn call(
        &mut self,
        callee: &'a ast::Expr,
        args: &'a [ast::Arg],
        span: Span,
    ) -> Value {
        match &callee.kind {
            Ast::Name(name) => {
                let entity = self.called_name(callee, name);
                self.call_entity(entity, args, name.span, span)
            }
            Ast::Member { object, name } => {
                // What an enum's method has as `this` is an int that knows the enum's methods.
                if let (Ast::This, Owner::Enum(id)) = (&object.kind, self.body.owner) {
                    let methods = &self.tables.enums[id.0 as usize].methods;
                    if let Some(methods) = methods.get(name.text.as_str()).cloned() {
                        let this = self.this(object.span);
                        let args = self.check_args(args);
                        return self.call_overload(&methods, Some(this), args, name.span, span);
                    }
                }
                match self.entity(object) {
                    Entity::Expr(checked) => match self.receiver(checked) {
                        Some(value) => self.call_method(value, name, args, span),
                        None => {
                            let args = self.check_args(args);
                            self.discard_args(args);
                            Value::error(span)
                        }
                    },
                    Entity::Type(ty) => self.call_static(ty, name, args, callee.span, span),
                    entity => {
                        let entity = self.member_of(entity, name, callee.span);
                        self.call_entity(entity, args, name.span, span)
                    }
                }
            }
            _ => {
                let checked = self.check_expr(callee);
                self.call_entity(Entity::Expr(checked), args, callee.span, span)
            }
        }
    }

    /// A name before call parentheses: a variable counts only if it holds a function, so that a
    /// function may be called in spite of a variable of its name.
    fn called_name(&mut self, callee: &'a ast::Expr, name: &'a ast::Name) -> Entity<'a> {
        let ty = match (self.body.find(&name.text), self.body.class()) {
            (Some(binding), _) => Some(binding.ty),
            (None, Some(class)) if self.body.this.is_some() => {
                self.find_field(class, &name.text).map(|(_, ty)| ty)
            }
            _ => None,
        };
        match ty {
            Some(ty) if ty != ERROR && !matches!(self.ty(ty), Type::Func(_)) => {
                let functions = self.find_functions(self.body.unit, &name.text);
                if !functions.is_empty() {
                    return Entity::Expr(Checked::Functions(super::value::Functions {
                        name: name.text.clone(),
                        candidates: functions,
                        receiver: None,
                        native: None,
                        span: name.span,
                    }));
                }
                match self.find_simple_type(self.body.unit, &name.text) {
                    Ok(found) => Entity::Type(self.type_of_name(found)),
                    Err(_) => self.entity(callee),
                }
            }
            _ => self.entity(callee),
        }
    }

    fn call_entity(
        &mut self,
        entity: Entity<'a>,
        args: &'a [ast::Arg],
        name_span: Span,
        span: Span,
    ) -> Value {
        match entity {
            Entity::Expr(Checked::Functions(functions)) => {
                let args = self.check_args(args);
                match functions.native {
                    Some((home, name)) => self.call_native(home, name, None, args, name_span, span),
                    None => {
                        let (candidates, receiver) = (functions.candidates, functions.receiver);
                        self.call_overload(&candidates, receiver, args, name_span, span)
                    }
                }
            }
            Entity::Expr(Checked::Value(value)) => self.call_value(value, args, span),
            Entity::Type(ty) => self.construct(ty, args, name_span, span),
            Entity::Generic(generic) => {
                self.error(name_span, format!("`{generic:?}` needs type arguments"));
                let args = self.check_args(args);
                self.discard_args(args);
                Value::error(span)
            }
            Entity::Package(name) => {
                self.error(name_span, format!("`{name}` is a package and cannot be called"));
                let args = self.check_args(args);
                self.discard_args(args);
                Value::error(span)
            }
            Entity::Expr(checked) => {
                self.error(checked.span(), "this cannot be called");
                self.discard(checked);
                Value::error(span)
            }
        }
    }

    fn call_method(
        &mut self,
        value: Value,
        name: &'a ast::Name,
        args: &'a [ast::Arg],
        span: Span,
    ) -> Value {
        let ty = value.ty();
        let candidates = self.methods_of(ty, &name.text);
        if !candidates.is_empty() {
            let args = self.check_args(args);
            return self.call_overload(&candidates, Some(value), args, name.span, span);
        }
        if let Some(home) = library::home_of_type(self.ty(ty))
            && let Some(native) = library::lookup(home, &name.text).first()
        {
            let method = native.declaration.name;
            let args = self.check_args(args);
            return self.call_native(home, method, Some(value), args, name.span, span);
        }
        if let Some((slot, field)) = self.field_of(ty, name) {
            let field = super::member::read_field(value, slot, field, name.span);
            return self.call_value(field, args, span);
        }
        // Whatever has a text can be asked for it.
        if name.text == "toString"
            && args.is_empty()
            && self.implicit(ty, None, known::STRING).is_some()
        {
            let mut text = self.coerce_value(value, known::STRING);
            text.span = span;
            return Value { expr: text, literal: None, is_place: false };
        }
        self.no_member(ty, name);
        let args = self.check_args(args);
        self.discard_args(args);
        Value::error(span)
    }

    /// `C.m(args)`.
    fn call_static(
        &mut self,
        ty: TypeId,
        name: &'a ast::Name,
        args: &'a [ast::Arg],
        callee_span: Span,
        span: Span,
    ) -> Value {
        if let Some(home) = library::home_of_type(self.ty(ty))
            && let Some(native) = library::lookup(home, &name.text).first()
        {
            let args = self.check_args(args);
            let method = native.declaration.name;
            return self.call_native(home, method, None, args, name.span, span);
        }
        if let Type::Class(id) = *self.ty(ty) {
            let candidates = self.methods_named(id, &name.text);
            // Of those that could be meant, the static ones.
            let is_static = |id: &super::tables::FnId| self.tables.function(*id).is_static;
            let statics: Vec<_> = candidates.iter().copied().filter(is_static).collect();
            let candidates = if statics.is_empty() { candidates } else { statics };
            if !candidates.is_empty() {
                let args = self.check_args(args);
                return self.call_overload(&candidates, None, args, name.span, span);
            }
        }
        let entity = self.member_of(Entity::Type(ty), name, callee_span);
        self.call_entity(entity, args, name.span, span)
    }

    /// Calls a function value.
    fn call_value(&mut self, value: Value, args: &'a [ast::Arg], span: Span) -> Value {
        let args = self.check_args(args);
        if value.is_error() {
            self.discard_args(args);
            return Value::error(span);
        }
        let Type::Func(signature) = self.ty(value.ty()).clone() else {
            let name = self.name(value.ty());
            self.error(value.span(), format!("this is `{name}` and cannot be called"));
            self.discard_args(args);
            return Value::error(span);
        };
        let result = signature.result;
        match self.positional(&signature, args, value.span()) {
            Some(args) => {
                let callee = Callee::Value(Box::new(value.expr));
                Value::new(ExprKind::Call { callee, args }, result, span)
            }
            None => Value::new(ExprKind::Zero, result, span),
        }
    }

    /// Arguments of a function value: all of them, without names.
    fn positional(
        &mut self,
        signature: &Signature,
        args: Vec<CheckedArg<'a>>,
        callee: Span,
    ) -> Option<Vec<hir::Arg>> {
        if let Some(name) = args.iter().find_map(|arg| arg.name) {
            self.error(name.span, "the parameters of a function value have no names");
            self.discard_args(args);
            return None;
        }
        if args.len() != signature.params.len() {
            let wanted = count(signature.params.len(), "argument");
            let message = format!("this function takes {wanted}, not {}", args.len());
            self.error(callee, message);
            self.discard_args(args);
            return None;
        }
        let mut list = Vec::with_capacity(args.len());
        for (index, (arg, param)) in args.into_iter().zip(&signature.params).enumerate() {
            if arg.is_out != param.out {
                let message = match param.out {
                    true => "the argument must be marked `out`",
                    false => "this parameter is not `out`",
                };
                self.error(arg.span, message);
                self.discard(arg.checked);
                continue;
            }
            if let Checked::Value(value) = &arg.checked
                && arg.is_out
                && !value.is_error()
                && value.ty() != param.ty
            {
                let (found, wanted) = (self.name(value.ty()), self.name(param.ty));
                let message =
                    format!("the `out` parameter is `{wanted}`, but the variable is `{found}`");
                self.error(arg.span, message);
                continue;
            }
            let value = self.coerce(arg.checked, param.ty);
            let param = index as u16;
            list.push(hir::Arg { param, value, is_default: false, out: arg.out });
        }
        Some(list)
    }
}
