//! Arguments against parameters: which overload is meant, and what a call of it evaluates.

use crate::lang::ast;
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, Callee, ExprKind, LocalId};
use crate::lang::source::Span;
use crate::vm::types::{Param, Type, TypeId};

use super::Checker;
use super::messages::{count, listed};
use super::scope::{Binding, Body};
use super::tables::{Dispatch, ERROR, FnId, Owner, ParamInfo};
use super::value::{Checked, Value};

/// How many defaults may be needed for the sake of other defaults, in a whole program: they could
/// multiply without end.
const NESTED_DEFAULTS: usize = 20_000;

/// One checked argument.
pub(super) struct CheckedArg<'a> {
    pub name: Option<&'a ast::Name>,
    pub span: Span,
    pub checked: Checked<'a>,
    pub is_out: bool,
    /// The variable of an `out` argument.
    pub out: Option<LocalId>,
}

/// How arguments fill parameters.
struct Match {
    /// For each argument, its parameter.
    params: Vec<usize>,
    distance: u32,
}

/// Why they do not.
enum Mismatch {
    TooMany,
    Missing(Vec<usize>),
    UnknownName(usize),
    Twice(usize),
    Position(usize),
    StrayOut(usize),
    MissingOut(usize, usize),
    Type(usize, usize),
}

impl<'a> Checker<'a> {
    pub(super) fn check_args(&mut self, args: &'a [ast::Arg]) -> Vec<CheckedArg<'a>> {
        let check = |arg: &'a ast::Arg| {
            let name = arg.name.as_ref();
            let (checked, out) = match arg.is_out {
                true => match self.out_argument(&arg.value) {
                    Some((value, local)) => (value.into(), Some(local)),
                    None => (Value::error(arg.value.span).into(), None),
                },
                false => (self.check_expr(&arg.value), None),
            };
            CheckedArg { name, span: arg.span, checked, is_out: arg.is_out, out }
        };
        args.iter().map(check).collect()
    }

    fn out_argument(&mut self, value: &'a ast::Expr) -> Option<(Value, LocalId)> {
        let binding = match &value.kind {
            ast::ExprKind::Error => return None,
            ast::ExprKind::Name(name) => self.body.find(&name.text),
            _ => None,
        };
        let Some(binding) = binding.filter(|_| !self.body.is_default) else {
            match &value.kind {
                ast::ExprKind::Name(name) if self.variable(name).is_none() => {
                    self.unknown_variable(name);
                }
                _ => self.report(
                    Diagnostic::error(value.span, "an `out` argument must be a variable")
                        .hint("put the value into a local variable before the call"),
                ),
            }
            return None;
        };
        if binding.is_const {
            let message = format!("`{}` is `const`: no call can change it", binding.name);
            self.error(value.span, message);
            return None;
        }
        Some((self.read(binding, value.span), LocalId(binding.index)))
    }

    pub(super) fn discard_args(&mut self, args: Vec<CheckedArg<'a>>) {
        for arg in args {
            self.discard(arg.checked);
        }
    }

    /// How far an argument is from a parameter's type; `None` if it cannot become one.
    pub(super) fn distance(&self, checked: &Checked<'a>, to: TypeId) -> Option<u32> {
        if to == ERROR {
            return Some(0);
        }
        match checked {
            Checked::Value(value) => {
                self.implicit(value.ty(), value.literal, to).map(|conversion| conversion.distance)
            }
            Checked::Functions(functions) => {
                let Type::Func(wanted) = self.ty(to) else { return None };
                let fits = |&id: &FnId| {
                    let signature = self.signature(self.tables.function(id));
                    signature.is_none_or(|signature| signature == *wanted)
                };
                functions.candidates.iter().any(fits).then_some(0)
            }
            Checked::Braces(..) => self.takes_braces(to).then_some(0),
            Checked::Elements(..) => {
                matches!(self.ty(to), Type::Array(_) | Type::List(_)).then_some(0)
            }
        }
    }

    fn match_args(
        &self,
        params: &[ParamInfo<'a>],
        args: &[CheckedArg<'a>],
    ) -> Result<Match, Mismatch> {
        let mut taken = vec![false; params.len()];
        let mut places = Vec::with_capacity(args.len());
        let mut named = false;
        for (at, arg) in args.iter().enumerate() {
            let param = match arg.name {
                Some(name) => {
                    named = true;
                    let found = params.iter().position(|param| param.name == name.text);
                    found.ok_or(Mismatch::UnknownName(at))?
                }
                None if named => return Err(Mismatch::Position(at)),
                None if at >= params.len() => return Err(Mismatch::TooMany),
                None => at,
            };
            if std::mem::replace(&mut taken[param], true) {
                return Err(Mismatch::Twice(at));
            }
            places.push(param);
        }
        let is_missing = |&param: &usize| !taken[param] && params[param].default.is_none();
        let missing: Vec<usize> = (0..params.len()).filter(is_missing).collect();
        if !missing.is_empty() {
            return Err(Mismatch::Missing(missing));
        }
        let mut total = 0;
        for (at, (arg, &param)) in args.iter().zip(&places).enumerate() {
            let ty = params[param].ty;
            match (arg.is_out, params[param].out) {
                (true, false) => return Err(Mismatch::StrayOut(at)),
                (false, true) => return Err(Mismatch::MissingOut(at, param)),
                _ => {}
            }
            let exact = |checked: &Checked<'a>| match checked {
                Checked::Value(value) => {
                    (value.ty() == ty || value.is_error() || ty == ERROR).then_some(0)
                }
                _ => None,
            };
            let distance =
                if arg.is_out { exact(&arg.checked) } else { self.distance(&arg.checked, ty) };
            total += distance.ok_or(Mismatch::Type(at, param))?;
        }
        Ok(Match { params: places, distance: total })
    }

    /// Calls one of some functions: the one that the arguments are nearest to.
    pub(super) fn call_overload(
        &mut self,
        candidates: &[FnId],
        receiver: Option<Value>,
        args: Vec<CheckedArg<'a>>,
        name_span: Span,
        span: Span,
    ) -> Value {
        let Some((id, places)) = self.choose(candidates, &args, name_span) else {
            let result = match candidates {
                [only] => self.tables.function(*only).result,
                _ => ERROR,
            };
            self.discard_args(args);
            return Value::new(ExprKind::Zero, result, span);
        };
        self.check_function_access(id, name_span);
        if !self.check_receiver(id, receiver.is_some(), name_span) {
            self.discard_args(args);
            return Value::error(span);
        }
        let info = self.tables.function(id);
        let (result, dispatch, code) = (info.result, info.dispatch, info.code);
        let mut list = Vec::with_capacity(args.len() + 1);
        if let Some(receiver) = receiver {
            let value = self.dispatched(receiver, id);
            list.push(hir::Arg { param: 0, value, is_default: false, out: None });
        }
        let this = list.first().map(|arg| arg.value.ty);
        list.extend(self.fill_params(id, places, args));
        let callee = match (dispatch, code) {
            (Dispatch::Virtual(slot), _) => Callee::Virtual(slot),
            (Dispatch::Interface(selector), _) => Callee::Interface(selector),
            (Dispatch::Direct, Some(code)) => Callee::Direct(code),
            (Dispatch::Host, _) => match self.host_signature(id, this) {
                Some(callee) => callee,
                None => return Value::new(ExprKind::Zero, result, span),
            },
            (Dispatch::Direct, None) => return Value::new(ExprKind::Zero, result, span),
        };
        Value::new(ExprKind::Call { callee, args: list }, result, span)
    }

    /// The import of a host function; `None` if a type in its signature is wrong.
    pub(super) fn host_signature(&mut self, id: FnId, this: Option<TypeId>) -> Option<Callee> {
        let info = self.tables.function(id);
        let mut signature = self.signature(info)?;
        let name = info.display.clone();
        if let Owner::Class(class) = info.owner
            && info.has_receiver()
        {
            let ty = self.types.find(&Type::Class(class)).or(this)?;
            signature.params.insert(0, Param { ty, out: false });
        }
        Some(Callee::Native(self.import(name, signature)))
    }

    /// Whether a method has an object if and only if it needs one; reports if not.
    fn check_receiver(&mut self, id: FnId, has_receiver: bool, span: Span) -> bool {
        let info = self.tables.function(id);
        if info.has_receiver() == has_receiver {
            return true;
        }
        let name = info.display.clone();
        let diagnostic = if has_receiver {
            Diagnostic::error(span, format!("`{name}` is `static`"))
                .hint(format!("call it by its class: `{name}(…)`"))
        } else {
            Diagnostic::error(span, format!("`{name}` is not `static`: it needs an object"))
        };
        self.report(diagnostic);
        false
    }

    /// The arguments in order of evaluation: the given ones as they are written, then defaults.
    pub(super) fn fill_params(
        &mut self,
        id: FnId,
        places: Vec<usize>,
        args: Vec<CheckedArg<'a>>,
    ) -> Vec<hir::Arg> {
        let params = self.tables.function(id).params.clone();
        let index = |checker: &Self, param| checker.tables.function(id).param_index(param);
        let mut list = Vec::with_capacity(params.len() + 1);
        for (arg, &param) in args.into_iter().zip(&places) {
            let value = self.coerce(arg.checked, params[param].ty);
            let param = index(self, param);
            list.push(hir::Arg { param, value, is_default: false, out: arg.out });
        }
        for param in 0..params.len() {
            if !places.contains(&param) {
                let value = self.default_value(id, param);
                let param = index(self, param);
                list.push(hir::Arg { param, value, is_default: true, out: None });
            }
        }
        list
    }

    /// The default of a parameter, for one call. Its errors have been reported with the declaration.
    fn default_value(&mut self, id: FnId, param: usize) -> hir::Expr {
        let info = self.tables.function(id);
        let (display, name) = (info.display.clone(), info.params[param].name);
        let Some(default) = info.params[param].default else {
            return Value::error(info.span).expr;
        };
        if self.defaults.contains(&(id, param)) {
            // Reported even while all else is silent: only here it can be seen.
            let message =
                format!("the default of `{name}` needs a call of `{display}` that needs it");
            self.diagnostics.error(default.span, message);
            return Value::error(default.span).expr;
        }
        if !self.defaults.is_empty() {
            self.nested_defaults += 1;
            if self.nested_defaults > NESTED_DEFAULTS {
                let message =
                    format!("the default of `{name}` is needed too often by other defaults");
                self.diagnostics.error(default.span, message);
                return Value::error(default.span).expr;
            }
        }
        self.defaults.push((id, param));
        self.silent += 1;
        let value = self.check_default(id, param);
        self.silent -= 1;
        self.defaults.pop();
        value.unwrap_or_else(|| Value::error(default.span).expr)
    }

    /// Checks the default of a parameter in the light of its declaration.
    pub(super) fn check_default(&mut self, id: FnId, param: usize) -> Option<hir::Expr> {
        let owner = self.tables.function(id).owner;
        let this = self.this_type(owner);
        let info = self.tables.function(id);
        let default = info.params[param].default?;
        let ty = info.params[param].ty;
        let mut body = Body::new(info.unit, owner);
        body.this = this.filter(|_| info.has_receiver());
        body.is_default = true;
        for (at, earlier) in info.params[..param].iter().enumerate() {
            let index = info.param_index(at).into();
            body.bind(Binding { name: earlier.name, ty: earlier.ty, is_const: false, index });
        }
        let outer = std::mem::replace(&mut self.body, body);
        let value = self.expr_as(default, ty);
        self.body = outer;
        Some(value)
    }

    /// Of several functions the one to call, and the parameter of each argument; reports if there
    /// is none.
    pub(super) fn choose(
        &mut self,
        candidates: &[FnId],
        args: &[CheckedArg<'a>],
        name_span: Span,
    ) -> Option<(FnId, Vec<usize>)> {
        if let &[only] = candidates {
            let params = self.tables.function(only).params.clone();
            return match self.match_args(&params, args) {
                Ok(found) => Some((only, found.params)),
                Err(mismatch) => {
                    self.explain(only, &params, &mismatch, args, name_span);
                    None
                }
            };
        }
        let mut best: Option<(FnId, Match)> = None;
        let mut tied = Vec::new();
        for &id in candidates {
            let Ok(found) = self.match_args(&self.tables.function(id).params, args) else {
                continue;
            };
            match &best {
                Some((_, other)) if other.distance < found.distance => {}
                Some((_, other)) if other.distance == found.distance => tied.push(id),
                _ => {
                    tied.clear();
                    best = Some((id, found));
                }
            }
        }
        let is_error =
            |arg: &CheckedArg<'_>| matches!(&arg.checked, Checked::Value(v) if v.is_error());
        let Some((id, found)) = best else {
            if !args.iter().any(is_error) {
                self.no_overload(candidates, args, name_span);
            }
            return None;
        };
        if tied.is_empty() {
            return Some((id, found.params));
        }
        if !args.iter().any(is_error) {
            let name = self.tables.function(id).name;
            let message = format!("this call of `{name}` is ambiguous");
            let mut diagnostic = Diagnostic::error(name_span, message);
            for &id in std::iter::once(&id).chain(&tied) {
                let text = format!("it could be `{}`", self.describe(id));
                diagnostic = diagnostic.label(self.tables.function(id).span, text);
            }
            self.report(diagnostic);
        }
        None
    }

    fn no_overload(&mut self, candidates: &[FnId], args: &[CheckedArg<'a>], name_span: Span) {
        let Some(&first) = candidates.first() else { return };
        let name = self.tables.function(first).display.clone();
        let types: Vec<String> = args.iter().map(|arg| self.describe_arg(arg)).collect();
        let message = format!("no `{name}` takes `({})`", types.join(", "));
        let mut diagnostic = Diagnostic::error(name_span, message);
        for &id in candidates.iter().take(4) {
            let info = self.tables.function(id);
            if info.owner != Owner::Object {
                diagnostic =
                    diagnostic.label(info.span, format!("there is `{}`", self.describe(id)));
            }
        }
        self.report(diagnostic);
    }

    fn describe_arg(&self, arg: &CheckedArg<'a>) -> String {
        let ty = match &arg.checked {
            Checked::Value(value) => self.name(value.ty()),
            Checked::Functions(functions) => format!("the function {}", functions.name),
            Checked::Braces(..) => "{…}".into(),
            Checked::Elements(..) => "[…]".into(),
        };
        match (arg.is_out, arg.name) {
            (true, _) => format!("out {ty}"),
            (_, Some(name)) => format!("{} = {ty}", name.text),
            _ => ty,
        }
    }

    /// A function with its parameters, as messages show it.
    pub(super) fn describe(&self, id: FnId) -> String {
        let info = self.tables.function(id);
        let param = |param: &ParamInfo<'_>| {
            let out = if param.out { "out " } else { "" };
            format!("{out}{}", self.name(param.ty))
        };
        let params: Vec<String> = info.params.iter().map(param).collect();
        format!("{}({})", info.display, params.join(", "))
    }

    /// Reports why arguments do not fit the only function there is.
    fn explain(
        &mut self,
        id: FnId,
        params: &[ParamInfo<'a>],
        mismatch: &Mismatch,
        args: &[CheckedArg<'a>],
        name_span: Span,
    ) {
        let info = self.tables.function(id);
        let (name, declared) = (info.display.clone(), info.span);
        let is_object = info.owner == Owner::Object;
        let text = self.describe(id);
        let with_label = move |diagnostic: Diagnostic| match is_object {
            true => diagnostic,
            false => diagnostic.label(declared, format!("this is `{text}`")),
        };
        match *mismatch {
            Mismatch::TooMany => {
                let message = format!(
                    "`{name}` takes {}, but {} given",
                    count(params.len(), "argument"),
                    match args.len() {
                        1 => "1 is".into(),
                        n => format!("{n} are"),
                    }
                );
                let span = args.get(params.len()).map_or(name_span, |arg| arg.span);
                self.report(with_label(Diagnostic::error(span, message)));
            }
            Mismatch::Missing(ref missing) => {
                let names: Vec<String> =
                    missing.iter().map(|&param| format!("`{}`", params[param].name)).collect();
                let message = format!(
                    "the call of `{name}` lacks {} {}",
                    if names.len() == 1 { "an argument for" } else { "arguments for" },
                    listed(&names)
                );
                self.report(with_label(Diagnostic::error(name_span, message)));
            }
            Mismatch::UnknownName(at) => {
                let Some(given) = args[at].name else { return };
                let message = format!("`{name}` has no parameter `{}`", given.text);
                let names = params.iter().map(|param| param.name.into()).collect();
                let diagnostic = with_label(Diagnostic::error(given.span, message));
                self.report(match self.suggestion(&given.text, names) {
                    Some(other) => diagnostic.hint(format!("did you mean `{other}`?")),
                    None => diagnostic,
                });
            }
            Mismatch::Twice(at) => {
                let given = args[at].name.map_or("", |name| &name.text);
                self.error(args[at].span, format!("parameter `{given}` is given twice"));
            }
            Mismatch::Position(at) => {
                self.error(
                    args[at].span,
                    "an argument without a name cannot follow one with a name",
                );
            }
            Mismatch::StrayOut(at) => {
                let message = "this parameter is not `out`";
                self.report(with_label(Diagnostic::error(args[at].span, message)));
            }
            Mismatch::MissingOut(at, param) => {
                let message =
                    format!("the argument for `{}` must be marked `out`", params[param].name);
                self.report(with_label(Diagnostic::error(args[at].span, message)));
            }
            Mismatch::Type(at, param) => self.wrong_argument(&args[at], params[param].ty),
        }
    }

    fn wrong_argument(&mut self, arg: &CheckedArg<'a>, to: TypeId) {
        match &arg.checked {
            Checked::Value(value) if arg.is_out => {
                let (found, wanted) = (self.name(value.ty()), self.name(to));
                let message =
                    format!("the `out` parameter is `{wanted}`, but the variable is `{found}`");
                self.error(arg.span, message);
            }
            Checked::Value(value) => {
                let copy = Value {
                    literal: value.literal,
                    ..Value::new(ExprKind::Zero, value.ty(), value.span())
                };
                self.coerce_value(copy, to);
            }
            Checked::Functions(functions) => {
                let copy = super::value::Functions {
                    name: functions.name.clone(),
                    candidates: functions.candidates.clone(),
                    receiver: None,
                    native: functions.native,
                    span: functions.span,
                };
                self.function_value(copy, to);
            }
            &Checked::Braces(_, span) => {
                let wanted = self.name(to);
                self.error(span, format!("expected `{wanted}`, found `{{…}}`"));
            }
            &Checked::Elements(_, span) => {
                let wanted = self.name(to);
                self.error(span, format!("expected `{wanted}`, found `[…]`"));
            }
        }
    }
}
