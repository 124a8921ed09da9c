//! Calls of the library. Which functions there are, only its table says.

use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, Callee, Conversion, ExprKind};
use crate::lang::source::Span;
use crate::vm::library::decl::{self as library, Native};
use crate::vm::library::pattern::{Bindings, Home, Pattern};
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::convert::How;
use super::messages::{count, listed};
use super::overload::CheckedArg;
use super::tables::ERROR;
use super::value::{Checked, Value};

impl<'a> Checker<'a> {
    /// Calls a function of a home and name: a method of the receiver, or one without.
    pub(super) fn call_native(
        &mut self,
        home: &str,
        name: &str,
        receiver: Option<Value>,
        args: Vec<CheckedArg<'a>>,
        name_span: Span,
        span: Span,
    ) -> Value {
        let fits_home = |native: &&Native| match native.declaration.home {
            Home::Method => receiver.is_some(),
            Home::Package | Home::Static => receiver.is_none(),
            Home::Constructor => false,
        };
        let candidates: Vec<&'static Native> =
            library::lookup(home, name).iter().filter(fits_home).collect();
        if candidates.is_empty() {
            let message = match receiver {
                Some(_) => format!("`{home}.{name}` has no receiver: write `{home}.{name}(…)`"),
                None => format!("`{name}` is a method of `{home}`: it needs a receiver"),
            };
            self.error(name_span, message);
            self.discard_args(args);
            return Value::error(span);
        }
        let mut bindings = Bindings::default();
        if let (Some(value), Some(native)) = (&receiver, candidates.first()) {
            let pattern = &native.declaration.params[0].ty;
            pattern.unify(value.ty(), &self.types, &mut bindings);
        }
        self.call_declared(&candidates, bindings, receiver, args, name_span, span)
    }

    /// Makes an object of a built-in type; `None` if the library has no constructor of it.
    pub(super) fn construct_native(
        &mut self,
        ty: TypeId,
        args: Vec<CheckedArg<'a>>,
        name_span: Span,
        span: Span,
    ) -> Result<Value, Vec<CheckedArg<'a>>> {
        let Some(home) = library::home_of_type(self.ty(ty)) else { return Err(args) };
        let constructors: Vec<&'static Native> = library::lookup(home, "new")
            .iter()
            .filter(|native| native.declaration.home == Home::Constructor)
            .collect();
        let Some(first) = constructors.first() else { return Err(args) };
        let mut bindings = Bindings::default();
        first.declaration.result.unify(ty, &self.types, &mut bindings);
        Ok(self.call_declared(&constructors, bindings, None, args, name_span, span))
    }

    fn call_declared(
        &mut self,
        candidates: &[&'static Native],
        bindings: Bindings,
        receiver: Option<Value>,
        args: Vec<CheckedArg<'a>>,
        name_span: Span,
        span: Span,
    ) -> Value {
        if let Some(name) = args.iter().find_map(|arg| arg.name) {
            self.error(name.span, "the parameters of library functions have no names");
            self.discard_args(args);
            return Value::error(span);
        }
        let first = usize::from(receiver.is_some());
        let counted: Vec<&'static Native> = candidates
            .iter()
            .copied()
            .filter(|native| native.declaration.params.len() == args.len() + first)
            .collect();
        if counted.is_empty() {
            self.wrong_count(candidates, first, args.len(), name_span);
            self.discard_args(args);
            return self.uniform_result(candidates, bindings, span);
        }
        let mut best: Option<(u32, &'static Native, Bindings)> = None;
        for native in &counted {
            let mut bindings = bindings;
            let Some(distance) = self.native_distance(native, first, &args, &mut bindings) else {
                continue;
            };
            if best.as_ref().is_none_or(|(other, ..)| distance < *other) {
                best = Some((distance, native, bindings));
            }
        }
        let (native, mut bindings) = match best {
            Some((_, native, bindings)) => (native, bindings),
            None if counted.len() == 1 => (counted[0], bindings),
            None => {
                let declaration = &counted[0].declaration;
                let name = format!("{}.{}", declaration.home_name, declaration.name);
                self.error(name_span, format!("no `{name}` takes these arguments"));
                self.discard_args(args);
                return self.uniform_result(&counted, bindings, span);
            }
        };
        let mut list = Vec::with_capacity(args.len() + first);
        if let Some(receiver) = receiver {
            let value = receiver.expr;
            list.push(hir::Arg { param: 0, value, is_default: false, out: None });
        }
        for (at, arg) in args.into_iter().enumerate() {
            let param = &native.declaration.params[at + first];
            let out = arg.out;
            let value = self.native_argument(arg, &param.ty, param.out, &mut bindings);
            let param = (at + first) as u16;
            list.push(hir::Arg { param, value, is_default: false, out });
        }
        if list.iter().any(|arg| arg.value.ty == ERROR) {
            let result = native.declaration.result.instantiate(&mut self.types, &bindings);
            return Value::new(ExprKind::Zero, result.unwrap_or(ERROR), span);
        }
        let Some(signature) = native.declaration.instantiate(&mut self.types, &bindings) else {
            self.error(name_span, "the types of this call are not known");
            return Value::error(span);
        };
        let result = signature.result;
        let callee = Callee::Native(self.import(native.import_name(), signature));
        // What a container gives out is still the container's.
        Value::place(ExprKind::Call { callee, args: list }, result, span)
    }

    /// The result of a call that is wrong, if all that could be meant agree on it.
    fn uniform_result(
        &mut self,
        candidates: &[&'static Native],
        bindings: Bindings,
        span: Span,
    ) -> Value {
        let mut results = candidates
            .iter()
            .map(|native| native.declaration.result.instantiate(&mut self.types, &bindings));
        let result = match results.next() {
            Some(Some(first)) if results.all(|other| other == Some(first)) => first,
            _ => ERROR,
        };
        Value::new(ExprKind::Zero, result, span)
    }

    fn wrong_count(&mut self, candidates: &[&Native], first: usize, given: usize, span: Span) {
        let counts: Vec<usize> =
            candidates.iter().map(|native| native.declaration.params.len() - first).collect();
        let wanted = match counts.as_slice() {
            [only] => count(*only, "argument"),
            many => {
                let mut many: Vec<String> = many.iter().map(usize::to_string).collect();
                many.dedup();
                format!("{} arguments", listed(&many).replace(" and ", " or "))
            }
        };
        let declaration = &candidates[0].declaration;
        let name = format!("{}.{}", declaration.home_name, declaration.name);
        let given = if given == 1 { "1 is".into() } else { format!("{given} are") };
        self.error(span, format!("`{name}` takes {wanted}, but {given} given"));
    }

    /// The distance of arguments from the parameters of a library function, whose type variables
    /// they bind; `None` if they do not fit.
    fn native_distance(
        &mut self,
        native: &'static Native,
        first: usize,
        args: &[CheckedArg<'a>],
        bindings: &mut Bindings,
    ) -> Option<u32> {
        let mut total = 0;
        for (arg, param) in args.iter().zip(&native.declaration.params[first..]) {
            if arg.is_out != param.out {
                return None;
            }
            if param.ty == Pattern::Text {
                total += self
                    .distance(&arg.checked, known::STRING)
                    .or_else(|| matches!(arg.checked, Checked::Elements(..)).then_some(0))?;
                continue;
            }
            let to = self.native_target(&param.ty, &arg.checked, bindings)?;
            if arg.is_out {
                let Checked::Value(value) = &arg.checked else { return None };
                if value.ty() != to && !value.is_error() {
                    return None;
                }
                continue;
            }
            if self.turns_into_text(&arg.checked, to) {
                return None;
            }
            total += self.distance(&arg.checked, to)?;
        }
        Some(total)
    }

    /// The type that a parameter has for an argument, which may bind type variables.
    fn native_target(
        &mut self,
        pattern: &Pattern,
        checked: &Checked<'a>,
        bindings: &mut Bindings,
    ) -> Option<TypeId> {
        if let Some(to) = pattern.instantiate(&mut self.types, bindings) {
            return Some(to);
        }
        match checked {
            Checked::Value(value) if value.is_error() => Some(ERROR),
            Checked::Value(value) => {
                let mut extended = *bindings;
                if !pattern.unify(value.ty(), &self.types, &mut extended) {
                    return None;
                }
                *bindings = extended;
                Some(value.ty())
            }
            Checked::Functions(functions) => {
                for &id in &functions.candidates {
                    let Some(signature) = self.signature(self.tables.function(id)) else {
                        return Some(ERROR);
                    };
                    let ty = self.types.intern(Type::Func(signature));
                    let mut extended = *bindings;
                    if pattern.unify(ty, &self.types, &mut extended) {
                        *bindings = extended;
                        return Some(ty);
                    }
                }
                None
            }
            Checked::Braces(..) | Checked::Elements(..) => None,
        }
    }

    /// Whether an argument fits only as its text: the library does not take that.
    fn turns_into_text(&self, checked: &Checked<'a>, to: TypeId) -> bool {
        let Checked::Value(value) = checked else { return false };
        let conversion = self.implicit(value.ty(), value.literal, to);
        conversion.is_some_and(|it| it.how == How::Convert(Conversion::ToString))
    }

    fn native_argument(
        &mut self,
        arg: CheckedArg<'a>,
        pattern: &Pattern,
        out: bool,
        bindings: &mut Bindings,
    ) -> hir::Expr {
        let span = arg.checked.span();
        if arg.is_out != out {
            let message = match out {
                true => "the argument must be marked `out`",
                false => "this parameter is not `out`",
            };
            self.error(arg.span, message);
            self.discard(arg.checked);
            return Value::error(span).expr;
        }
        if *pattern == Pattern::Text {
            return match arg.checked {
                Checked::Elements(elements, span) => {
                    let value = self.untyped_elements(elements, span);
                    self.coerce_value(value, known::STRING)
                }
                checked => self.coerce(checked, known::STRING),
            };
        }
        let checked = match arg.checked {
            Checked::Elements(elements, span)
                if matches!(pattern, Pattern::List(_))
                    && pattern.instantiate(&mut self.types, bindings).is_none() =>
            {
                Checked::Value(self.untyped_list(elements, span))
            }
            checked => checked,
        };
        let Some(to) = self.native_target(pattern, &checked, bindings) else {
            self.no_instance(&checked, pattern);
            self.discard(checked);
            return Value::error(span).expr;
        };
        if let Checked::Value(value) = &checked
            && out
            && value.ty() != to
            && !value.is_error()
        {
            let (found, wanted) = (self.name(value.ty()), self.name(to));
            let message =
                format!("the `out` parameter is `{wanted}`, but the variable is `{found}`");
            self.error(arg.span, message);
            return Value::error(span).expr;
        }
        if self.turns_into_text(&checked, to) {
            let found = match &checked {
                Checked::Value(value) => self.name(value.ty()),
                _ => String::new(),
            };
            self.report(
                Diagnostic::error(span, format!("expected `string`, found `{found}`"))
                    .hint("the library takes only strings here: convert it with `… as string`"),
            );
            return Value::error(span).expr;
        }
        self.coerce(checked, to)
    }

    fn no_instance(&mut self, checked: &Checked<'a>, pattern: &Pattern) {
        let span = checked.span();
        let message = match (checked, pattern) {
            (Checked::Functions(functions), Pattern::Func { params, .. }) => {
                let wanted = match params.len() {
                    0 => "a function without parameters".into(),
                    n => format!("a function with {}", count(n, "parameter")),
                };
                format!("expected {wanted}, but `{}` is none", functions.name)
            }
            (Checked::Value(value), Pattern::Func { .. }) => {
                let found = self.name(value.ty());
                format!("expected a function, found `{found}`")
            }
            (Checked::Value(value), _) => {
                let found = self.name(value.ty());
                format!("`{found}` does not fit here")
            }
            _ => "the type of this is not known here".into(),
        };
        self.error(span, message);
    }
}
