//! Statements.

use crate::lang::ast::{self, StmtKind as S};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::hir::{self, Callee, ExprKind, Place, StmtKind};
use crate::lang::source::Span;
use crate::vm::types::{Type, TypeId, known};

use super::Checker;
use super::construct::{BACKTRACE, MESSAGE};
use super::scope::{Jump, Target};
use super::tables::ERROR;
use super::value::{Value, expr};

pub(super) fn stmt(kind: StmtKind, span: Span) -> hir::Stmt {
    hir::Stmt { kind, span }
}

impl<'a> Checker<'a> {
    /// The statements of a block in a scope of their own.
    pub(super) fn block(&mut self, stmts: &'a [ast::Stmt]) -> Vec<hir::Stmt> {
        self.body.enter();
        let mut out = Vec::with_capacity(stmts.len());
        for s in stmts {
            self.stmt(s, &mut out);
        }
        self.body.leave();
        out
    }

    /// The statements of a function, in the scope of its parameters.
    pub(super) fn body_stmts(&mut self, stmts: &'a [ast::Stmt], out: &mut Vec<hir::Stmt>) {
        for s in stmts {
            self.stmt(s, out);
        }
    }

    /// A statement that is part of another one.
    fn nested(&mut self, s: &'a ast::Stmt) -> Box<hir::Stmt> {
        let mut out = match &s.kind {
            S::Block(block) => self.block(&block.stmts),
            _ => self.block(std::slice::from_ref(s)),
        };
        Box::new(match out.len() {
            1 if !matches!(out[0].kind, StmtKind::Local { .. }) => out.remove(0),
            _ => stmt(StmtKind::Block(out), s.span),
        })
    }

    /// A statement inside of which jumps have another target.
    fn nested_in(&mut self, jump: Jump, s: &'a ast::Stmt) -> Box<hir::Stmt> {
        self.body.jumps.push(jump);
        let inner = self.nested(s);
        self.body.jumps.pop();
        inner
    }

    fn stmt(&mut self, s: &'a ast::Stmt, out: &mut Vec<hir::Stmt>) {
        let kind = match &s.kind {
            S::Empty => return,
            S::Error => {
                self.body.unparsed.push(s.span);
                return;
            }
            S::Block(block) => StmtKind::Block(self.block(&block.stmts)),
            S::Local { is_const, ty, vars } => return self.locals(*is_const, ty, vars, out),
            S::Expr(e) => self.expr_stmt(e),
            S::Assign { target, op, value } => match self.assign(target, *op, value, s.span) {
                Some(kind) => kind,
                None => return,
            },
            S::If { cond, then, otherwise } => {
                let cond = self.condition(cond, "the condition of `if`");
                let then = self.nested(then);
                let otherwise = otherwise.as_ref().map(|s| self.nested(s));
                StmtKind::If { cond, then, otherwise }
            }
            S::While { cond, body } => {
                let cond = self.condition(cond, "the condition of `while`");
                StmtKind::While { cond, body: self.nested_in(Jump::Loop, body) }
            }
            S::DoWhile { body, cond } => {
                let body = self.nested_in(Jump::Loop, body);
                let cond = self.condition(cond, "the condition of `while`");
                StmtKind::DoWhile { body, cond }
            }
            S::For { init, cond, step, body } => {
                self.body.enter();
                let mut first = Vec::new();
                if let Some(init) = init {
                    self.stmt(init, &mut first);
                }
                let cond = cond.as_ref().map(|e| self.condition(e, "the condition of `for`"));
                let step = step.as_ref().map(|s| self.nested(s));
                let body = self.nested_in(Jump::Loop, body);
                self.body.leave();
                StmtKind::For { init: first, cond, step, body }
            }
            S::Foreach { ty, name, iterable, body } => self.foreach(ty, name, iterable, body),
            S::Switch { value, cases, default } => self.switch(value, cases, default.as_deref()),
            S::Try { body, catches, finally } => self.try_stmt(body, catches, finally.as_deref()),
            S::Throw(value) => match self.throw(value.as_ref(), s.span) {
                Some(kind) => kind,
                None => return,
            },
            S::Return(value) => self.return_stmt(value.as_ref(), s.span, out),
            S::Break => {
                match self.body.can_break() {
                    Target::Found => {}
                    Target::Finally => self.error(s.span, "`break` cannot leave a `finally` body"),
                    Target::Nothing => {
                        self.error(s.span, "`break` outside of a loop or a `switch`");
                    }
                }
                StmtKind::Break
            }
            S::Continue => {
                match self.body.can_continue() {
                    Target::Found => {}
                    Target::Finally => {
                        self.error(s.span, "`continue` cannot leave a `finally` body");
                    }
                    Target::Nothing => self.error(s.span, "`continue` outside of a loop"),
                }
                StmtKind::Continue
            }
            S::Assert(cond) => StmtKind::Assert(self.condition(cond, "what `assert` checks")),
            S::Super(args) => match self.super_call(args, s.span) {
                Some(kind) => kind,
                None => return,
            },
        };
        out.push(stmt(kind, s.span));
    }

    fn locals(
        &mut self,
        is_const: bool,
        ty: &'a ast::TypeExpr,
        vars: &'a [ast::LocalVar],
        out: &mut Vec<hir::Stmt>,
    ) {
        let ty = self.resolve_type(self.body.unit, ty);
        for var in vars {
            // The variable is not yet known in its own initialiser.
            let init = var.init.as_ref().map(|init| self.expr_as(init, ty));
            let span = match &var.init {
                Some(init) => var.name.span.to(init.span),
                None => var.name.span,
            };
            let local = self.declare_local(&var.name, ty, is_const);
            out.push(stmt(StmtKind::Local { local, init }, span));
        }
    }

    fn expr_stmt(&mut self, e: &'a ast::Expr) -> StmtKind {
        let value = self.value_or_void(e);
        StmtKind::Expr(value.expr)
    }

    fn foreach(
        &mut self,
        ty: &'a ast::TypeExpr,
        name: &'a ast::Name,
        iterable: &'a ast::Expr,
        body: &'a ast::Stmt,
    ) -> StmtKind {
        let declared = self.resolve_type(self.body.unit, ty);
        let iterable = self.value(iterable);
        let element = match *self.ty(iterable.ty()) {
            Type::Array(element) | Type::List(element) | Type::Dict(element, _) => element,
            Type::String => known::CHAR,
            _ => {
                if !iterable.is_error() {
                    let found = self.name(iterable.ty());
                    let message = format!("`foreach` cannot go through `{found}`");
                    let hint = "it goes through arrays, Lists, Dicts (their keys) and strings";
                    self.report(Diagnostic::error(iterable.span(), message).hint(hint));
                }
                ERROR
            }
        };
        if declared != element && declared != ERROR && element != ERROR {
            let (found, wanted) = (self.name(declared), self.name(element));
            let message = format!("the elements are `{wanted}`, but the variable is `{found}`");
            self.report(
                Diagnostic::error(ty.span, message).hint(format!("write `{wanted} {}`", name.text)),
            );
        }
        self.body.enter();
        let local = self.declare_local(name, declared, false);
        let body = self.nested_in(Jump::Loop, body);
        self.body.leave();
        StmtKind::Foreach { local, iterable: iterable.expr, body }
    }

    fn try_stmt(
        &mut self,
        body: &'a ast::Stmt,
        catches: &'a [ast::Catch],
        finally: Option<&'a ast::Stmt>,
    ) -> StmtKind {
        let body = self.nested(body);
        let catches = catches.iter().filter_map(|clause| self.catch(clause)).collect();
        let finally = finally.map(|s| self.nested_in(Jump::Finally, s));
        StmtKind::Try { body, catches, finally }
    }

    fn catch(&mut self, clause: &'a ast::Catch) -> Option<hir::Catch> {
        let ty = self.resolve_type(self.body.unit, &clause.ty);
        let class = self.exception_class(ty);
        if class.is_none() && ty != ERROR {
            let name = self.name(ty);
            self.error(clause.ty.span, format!("`{name}` is no exception class"));
        }
        let rethrown = self.body.hidden(ty);
        self.body.enter();
        let ty = if class.is_some() { ty } else { ERROR };
        let local = self.declare_local(&clause.name, ty, false);
        self.body.caught.push(rethrown);
        let body = self.nested(&clause.body);
        self.body.caught.pop();
        self.body.leave();
        Some(hir::Catch { class: class?, local, rethrown, body })
    }

    fn exception_class(&self, ty: TypeId) -> Option<crate::vm::types::ClassId> {
        match *self.ty(ty) {
            Type::Class(id) if self.is_exception(id) => Some(id),
            _ => None,
        }
    }

    fn throw(&mut self, value: Option<&'a ast::Expr>, span: Span) -> Option<StmtKind> {
        if self.body.in_finally() {
            self.error(span, "`throw` is not possible in a `finally` body");
        }
        let Some(value) = value else {
            let caught = self.body.caught.last().copied();
            if caught.is_none() {
                self.report(
                    Diagnostic::error(span, "`throw;` outside of a `catch` body")
                        .hint("name the exception to throw"),
                );
            }
            return caught.map(StmtKind::Rethrow);
        };
        let value = self.value(value);
        if !value.is_error() && self.exception_class(value.ty()).is_none() {
            let found = self.name(value.ty());
            let message = format!("only exceptions can be thrown, but this is `{found}`");
            let hint = match value.ty() {
                known::STRING => "write `throw Exception(…);`",
                _ => "the class must derive from `Exception`",
            };
            self.report(Diagnostic::error(value.span(), message).hint(hint));
        }
        Some(StmtKind::Throw(value.expr))
    }

    fn return_stmt(
        &mut self,
        value: Option<&'a ast::Expr>,
        span: Span,
        out: &mut Vec<hir::Stmt>,
    ) -> StmtKind {
        if self.body.in_finally() {
            self.error(span, "`return` cannot leave a `finally` body");
        }
        let Some(value) = value else {
            if self.body.result != known::VOID && self.body.result != ERROR {
                let wanted = self.name(self.body.result);
                self.error(span, format!("a value of type `{wanted}` must be returned"));
            }
            return StmtKind::Return(None);
        };
        if self.body.is_constructor {
            // Constructors may be written as if they returned something.
            let value = self.value(value);
            if !matches!(value.expr.kind, ExprKind::Word(_) | ExprKind::Null) {
                out.push(stmt(StmtKind::Expr(value.expr), span));
            }
            return StmtKind::Return(None);
        }
        if self.body.result == known::VOID {
            let value = self.check_expr(value);
            self.error(span, "this function returns `void`: it cannot return a value");
            self.discard(value);
            return StmtKind::Return(None);
        }
        StmtKind::Return(Some(self.expr_as(value, self.body.result)))
    }

    /// `super(args);`
    fn super_call(&mut self, args: &'a [ast::Arg], span: Span) -> Option<StmtKind> {
        let args = self.check_args(args);
        let class = self.body.class().filter(|_| self.body.is_constructor);
        let Some(class) = class else {
            self.error(span, "`super(…)` outside of a constructor");
            self.discard_args(args);
            return None;
        };
        let base = self.types.class(class).base;
        let constructors = base.map(|base| self.tables.class(base).constructors.clone());
        match (base, constructors) {
            (Some(_), Some(constructors)) if !constructors.is_empty() => {
                if args.iter().any(|arg| arg.is_out) {
                    self.error(span, "`super(…)` cannot have `out` arguments");
                    self.discard_args(args);
                    return None;
                }
                let Some((chosen, places)) = self.choose(&constructors, &args, span) else {
                    self.discard_args(args);
                    return None;
                };
                self.check_function_access(chosen, span);
                let this = self.this(span).expr;
                let mut list =
                    vec![hir::Arg { param: 0, value: this, is_default: false, out: None }];
                list.extend(self.fill_params(chosen, places, args));
                let callee = Callee::Direct(self.tables.function(chosen).code?);
                let kind = ExprKind::Call { callee, args: list };
                Some(StmtKind::Expr(expr(kind, known::VOID, span)))
            }
            (Some(base), _) if self.is_exception(base) => {
                let message = self.exception_message(args, span)??;
                let place = Place::Field { object: self.this(span).expr, field: MESSAGE };
                Some(StmtKind::Assign { place, value: message })
            }
            _ => {
                if !args.is_empty() {
                    let message = match base {
                        Some(base) => format!(
                            "class `{}` has no constructor that takes arguments",
                            self.types.class(base).name
                        ),
                        None => {
                            "this class has no base class whose constructor could be called".into()
                        }
                    };
                    self.error(span, message);
                    self.discard_args(args);
                }
                None
            }
        }
    }

    /// What a constructor of an exception class begins with: objects made by scripts have an empty
    /// backtrace.
    pub(super) fn empty_backtrace(&mut self, span: Span) -> hir::Stmt {
        let place = Place::Field { object: self.this(span).expr, field: BACKTRACE };
        let value = expr(ExprKind::NewContainer, known::STRINGS, span);
        stmt(StmtKind::Assign { place, value }, span)
    }

    /// Code that only calls a native function of the host: what a slot of a class holds.
    pub(super) fn host_wrapper(&mut self, id: super::tables::FnId, span: Span) -> Vec<hir::Stmt> {
        let info = self.tables.function(id);
        let result = info.result;
        let count = info.params.len() + usize::from(info.has_receiver());
        let outs: Vec<bool> = (0..count)
            .map(|at| {
                let declared = at.checked_sub(usize::from(info.has_receiver()));
                declared.is_some_and(|declared| info.params[declared].out)
            })
            .collect();
        let this = self.body.this;
        let Some(callee) = self.host_signature(id, this) else { return Vec::new() };
        let arg = |(at, out): (usize, &bool)| {
            let local = hir::LocalId(at as u32);
            let ty = self.body.locals[at].ty;
            let value = expr(ExprKind::Local(local), ty, span);
            hir::Arg { param: at as u16, value, is_default: false, out: out.then_some(local) }
        };
        let args = outs.iter().enumerate().map(arg).collect();
        let call = Value::new(ExprKind::Call { callee, args }, result, span).expr;
        vec![match result {
            known::VOID => stmt(StmtKind::Expr(call), span),
            _ => stmt(StmtKind::Return(Some(call)), span),
        }]
    }
}
