//! The typed tree as short text: one statement a line.

use std::fmt::Write;

use crate::lang::hir::*;
use crate::vm::types::TypeTable;

/// The body of a function.
pub fn dump(program: &Program, function: &str) -> String {
    let found = program.functions.iter().find(|it| it.name == function);
    let function = found.unwrap_or_else(|| panic!("there is no {function}"));
    let dumper = Dumper { program, locals: &function.locals };
    let mut out = String::new();
    for stmt in &function.body {
        dumper.stmt(&mut out, stmt, 0);
    }
    out
}

struct Dumper<'a> {
    program: &'a Program,
    locals: &'a [LocalVar],
}

impl Dumper<'_> {
    fn types(&self) -> &TypeTable {
        &self.program.types
    }

    fn local(&self, id: LocalId) -> String {
        match self.locals[id.0 as usize].name.as_str() {
            "" => format!("hidden{}", id.0),
            name => name.into(),
        }
    }

    fn stmts(&self, out: &mut String, stmts: &[Stmt], depth: usize) {
        for stmt in stmts {
            self.stmt(out, stmt, depth);
        }
    }

    fn stmt(&self, out: &mut String, stmt: &Stmt, depth: usize) {
        let pad = "  ".repeat(depth);
        let line = match &stmt.kind {
            StmtKind::Block(stmts) => return self.stmts(out, stmts, depth),
            StmtKind::Local { local, init: None } => format!("var {}", self.local(*local)),
            StmtKind::Local { local, init: Some(init) } => {
                format!("var {} = {}", self.local(*local), self.expr(init))
            }
            StmtKind::Expr(expr) => self.expr(expr),
            StmtKind::Assign { place, value } => {
                format!("{} = {}", self.place(place), self.expr(value))
            }
            StmtKind::Return(None) => "return".into(),
            StmtKind::Return(Some(expr)) => format!("return {}", self.expr(expr)),
            StmtKind::Foreach { local, iterable, body } => {
                let _ =
                    writeln!(out, "{pad}foreach {} in {}", self.local(*local), self.expr(iterable));
                return self.stmt(out, body, depth + 1);
            }
            StmtKind::Switch { value, cases, default } => {
                let _ = writeln!(out, "{pad}switch {}", self.expr(value));
                for case in cases {
                    let labels: Vec<String> = case.labels.iter().map(|l| self.expr(l)).collect();
                    let _ = writeln!(out, "{pad}case {}", labels.join(", "));
                    self.stmts(out, &case.body, depth + 1);
                }
                if let Some(default) = default {
                    let _ = writeln!(out, "{pad}default");
                    self.stmts(out, default, depth + 1);
                }
                return;
            }
            StmtKind::Try { body, catches, finally } => {
                let _ = writeln!(out, "{pad}try");
                self.stmt(out, body, depth + 1);
                for catch in catches {
                    let class = &self.types().class(catch.class).name;
                    let (local, hidden) = (self.local(catch.local), self.local(catch.rethrown));
                    let _ = writeln!(out, "{pad}catch {class} {local} {hidden}");
                    self.stmt(out, &catch.body, depth + 1);
                }
                if let Some(finally) = finally {
                    let _ = writeln!(out, "{pad}finally");
                    self.stmt(out, finally, depth + 1);
                }
                return;
            }
            StmtKind::Throw(expr) => format!("throw {}", self.expr(expr)),
            StmtKind::Rethrow(local) => format!("rethrow {}", self.local(*local)),
            other => format!("{other:?}"),
        };
        let _ = writeln!(out, "{pad}{line}");
    }

    fn place(&self, place: &Place) -> String {
        match place {
            Place::Local(local) => self.local(*local),
            Place::Field { object, field } => format!("{}.{field}", self.expr(object)),
            Place::Index { base, index } => format!("{}[{}]", self.expr(base), self.expr(index)),
        }
    }

    fn list(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(", ")
    }

    fn args(&self, args: &[Arg]) -> String {
        let arg = |arg: &Arg| {
            let default = if arg.is_default { "default " } else { "" };
            let out = if arg.out.is_some() { "out " } else { "" };
            format!("{}: {default}{out}{}", arg.param, self.expr(&arg.value))
        };
        args.iter().map(arg).collect::<Vec<_>>().join(", ")
    }

    fn expr(&self, expr: &Expr) -> String {
        match &expr.kind {
            ExprKind::Word(word) => format!("{word}{}", self.suffix(expr)),
            ExprKind::Text(text) => format!("{text:?}"),
            ExprKind::Null => "null".into(),
            ExprKind::Zero => "zero".into(),
            ExprKind::Local(local) => self.local(*local),
            ExprKind::Old => "old".into(),
            ExprKind::Argument(param) => format!("#{param}"),
            ExprKind::Field { object, field } => format!("{}.{field}", self.expr(object)),
            ExprKind::Index { base, index } => format!("{}[{}]", self.expr(base), self.expr(index)),
            ExprKind::Neg(inner) => format!("-{}", self.expr(inner)),
            ExprKind::Not(inner) => format!("!{}", self.expr(inner)),
            ExprKind::Arithmetic { op, left, right } => {
                format!("{op:?}({}, {})", self.expr(left), self.expr(right))
            }
            ExprKind::Compare { op, left, right } => {
                format!("{op:?}({}, {})", self.expr(left), self.expr(right))
            }
            ExprKind::And(left, right) => format!("And({}, {})", self.expr(left), self.expr(right)),
            ExprKind::Or(left, right) => format!("Or({}, {})", self.expr(left), self.expr(right)),
            ExprKind::Concat(pieces) => format!("Concat({})", self.list(pieces)),
            ExprKind::Convert { conversion, value } => {
                let to = self.types().name(expr.ty);
                format!("{conversion:?}<{to}>({})", self.expr(value))
            }
            ExprKind::Copy(inner) => format!("Copy({})", self.expr(inner)),
            ExprKind::Call { callee, args } => {
                format!("{}({})", self.callee(callee), self.args(args))
            }
            ExprKind::New { class, constructor, args, fields } => {
                let name = &self.types().class(*class).name;
                let args = if constructor.is_some() {
                    format!("({})", self.args(args))
                } else {
                    String::new()
                };
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(slot, value)| format!("{slot}: {}", self.expr(value)))
                    .collect();
                let fields = if fields.is_empty() {
                    String::new()
                } else {
                    format!("{{{}}}", fields.join(", "))
                };
                format!("new {name}{args}{fields}")
            }
            ExprKind::NewContainer => format!("new {}", self.types().name(expr.ty)),
            ExprKind::NewArray { length } => {
                format!("new {}({})", self.types().name(expr.ty), self.expr(length))
            }
            ExprKind::Elements(elements) => {
                format!("{}[{}]", self.types().name(expr.ty), self.list(elements))
            }
            ExprKind::Entries(entries) => {
                let entry = |(key, value): &(Expr, Expr)| {
                    format!("{}: {}", self.expr(key), self.expr(value))
                };
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            ExprKind::FunctionValue(id) => {
                format!("&{}", self.program.functions[id.0 as usize].name)
            }
            ExprKind::BoundValue { receiver, method } => {
                let method = match *method {
                    BoundMethod::Direct(id) => Callee::Direct(id),
                    BoundMethod::Virtual(slot) => Callee::Virtual(slot),
                    BoundMethod::Interface(selector) => Callee::Interface(selector),
                };
                format!("bound {} {}", self.callee(&method), self.expr(receiver))
            }
        }
    }

    fn suffix(&self, expr: &Expr) -> String {
        match self.types().name(expr.ty).as_str() {
            "int" => String::new(),
            name => format!("_{name}"),
        }
    }

    fn callee(&self, callee: &Callee) -> String {
        match callee {
            Callee::Direct(id) => self.program.functions[id.0 as usize].name.clone(),
            Callee::Virtual(slot) => format!("virtual{slot}"),
            Callee::Interface(selector) => {
                format!("interface {}", self.types().selectors[selector.0 as usize].name)
            }
            Callee::Native(native) => self.program.natives[*native as usize].name.clone(),
            Callee::Value(value) => format!("({})", self.expr(value)),
        }
    }
}
