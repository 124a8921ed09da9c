//! The tree as compact s-expressions, for tests.

use std::fmt::Write;

use crate::lang::ast::*;

/// Every declaration of a unit, one a line.
pub fn unit(unit: &Unit) -> String {
    let mut lines = Vec::new();
    for import in &unit.imports {
        let star = if import.recursive { ".*" } else { "" };
        lines.push(format!("(import {}{star})", path(&import.path)));
    }
    for alias in &unit.aliases {
        lines.push(format!("(using {} {})", alias.name.text, ty(&alias.ty)));
    }
    lines.extend(unit.decls.iter().map(decl));
    lines.join("\n")
}

fn list<T>(head: &str, items: &[T], show: impl Fn(&T) -> String) -> String {
    let mut out = format!("({head}");
    for item in items {
        let _ = write!(out, " {}", show(item));
    }
    out + ")"
}

fn path(path: &Path) -> String {
    let parts: Vec<&str> = path.parts.iter().map(|part| part.text.as_str()).collect();
    parts.join(".")
}

fn decl(decl: &Decl) -> String {
    match decl {
        Decl::Function(decl) => function("fn", decl),
        Decl::Struct(decl) => list(&format!("struct {}", decl.name.text), &decl.fields, field),
        Decl::Interface(decl) => {
            list(&format!("interface {}", decl.name.text), &decl.methods, |f| function("fn", f))
        }
        Decl::Enum(decl) => {
            let mut parts: Vec<String> = decl
                .members
                .iter()
                .map(|member| match &member.value {
                    Some(value) => format!("(= {} {})", member.name.text, expr(value)),
                    None => member.name.text.clone(),
                })
                .collect();
            parts.extend(decl.methods.iter().map(|method| function("fn", method)));
            list(&format!("enum {}", decl.name.text), &parts, String::clone)
        }
        Decl::Class(decl) => {
            let mut parts = Vec::new();
            parts.extend(decl.base.iter().map(|base| format!(":{}", path(base))));
            parts.extend(decl.interfaces.iter().map(|name| format!("+{}", path(name))));
            parts.extend(decl.fields.iter().map(field));
            parts.extend(decl.constructors.iter().map(|made| function("ctor", made)));
            parts.extend(decl.methods.iter().map(|method| function("fn", method)));
            list(&format!("class {}", decl.name.text), &parts, String::clone)
        }
    }
}

fn access(access: Option<Access>) -> &'static str {
    match access {
        None => "",
        Some(Access::Public) => "public ",
        Some(Access::Protected) => "protected ",
        Some(Access::Private) => "private ",
    }
}

fn field(field: &Field) -> String {
    format!("({}{} {})", access(field.access), ty(&field.ty), field.name.text)
}

fn function(head: &str, function: &Function) -> String {
    let modifiers = function.modifiers;
    let mut out = format!("({head} {}", access(modifiers.access));
    for (flag, word) in [
        (modifiers.is_static, "static "),
        (modifiers.is_virtual, "virtual "),
        (modifiers.is_const, "const "),
        (modifiers.is_native, "native "),
    ] {
        if flag {
            out += word;
        }
    }
    let params: Vec<String> = function
        .params
        .iter()
        .map(|param| {
            let word = if param.is_out { "out " } else { "" };
            let default = param.default.as_ref().map(|value| format!(" = {}", expr(value)));
            let default = default.unwrap_or_default();
            format!("{word}{} {}{default}", ty(&param.ty), param.name.text)
        })
        .collect();
    let _ = write!(out, "{} {}({})", ty(&function.result), function.name.text, params.join(", "));
    if let Some(body) = &function.body {
        let _ = write!(out, " {}", block(body));
    }
    out + ")"
}

pub fn ty(this: &TypeExpr) -> String {
    match &this.kind {
        TypeExprKind::Void => "void".to_owned(),
        TypeExprKind::Primitive(name) => (*name).to_owned(),
        TypeExprKind::Named { path: name, args } => {
            let args: Vec<String> = args.iter().map(ty).collect();
            match args.is_empty() {
                true => path(name),
                false => format!("{}<{}>", path(name), args.join(",")),
            }
        }
        TypeExprKind::Func { result, params } => {
            let mut args = vec![ty(result)];
            args.extend(params.iter().map(|(is_out, param)| {
                format!("{}{}", if *is_out { "out " } else { "" }, ty(param))
            }));
            format!("func<{}>", args.join(","))
        }
        TypeExprKind::Array(element) => format!("{}[]", ty(element)),
        TypeExprKind::Error => "<error>".to_owned(),
    }
}

fn block(block: &Block) -> String {
    list("do", &block.stmts, stmt)
}

fn optional<T>(value: Option<&T>, show: impl Fn(&T) -> String) -> String {
    value.map_or("_".to_owned(), show)
}

pub fn stmt(this: &Stmt) -> String {
    match &this.kind {
        StmtKind::Block(inner) => block(inner),
        StmtKind::Empty => "_".to_owned(),
        StmtKind::Local { is_const, ty: declared, vars } => {
            let head = if *is_const { "const" } else { "let" };
            list(&format!("{head} {}", ty(declared)), vars, |var| match &var.init {
                Some(init) => format!("(= {} {})", var.name.text, expr(init)),
                None => var.name.text.clone(),
            })
        }
        StmtKind::Expr(value) => expr(value),
        StmtKind::Assign { target, op, value } => {
            let op = op.map_or("", operator);
            format!("({op}= {} {})", expr(target), expr(value))
        }
        StmtKind::If { cond, then, otherwise } => match otherwise {
            Some(otherwise) => format!("(if {} {} {})", expr(cond), stmt(then), stmt(otherwise)),
            None => format!("(if {} {})", expr(cond), stmt(then)),
        },
        StmtKind::While { cond, body } => format!("(while {} {})", expr(cond), stmt(body)),
        StmtKind::DoWhile { body, cond } => format!("(do-while {} {})", stmt(body), expr(cond)),
        StmtKind::For { init, cond, step, body } => format!(
            "(for {} {} {} {})",
            optional(init.as_deref(), stmt),
            optional(cond.as_ref(), expr),
            optional(step.as_deref(), stmt),
            stmt(body)
        ),
        StmtKind::Foreach { ty: declared, name, iterable, body } => {
            format!("(foreach {} {} {} {})", ty(declared), name.text, expr(iterable), stmt(body))
        }
        StmtKind::Switch { value, cases, default } => {
            let mut parts: Vec<String> = cases
                .iter()
                .map(|case| {
                    let labels = list("", &case.labels, expr).replacen("( ", "(", 1);
                    list(&format!("case {labels}"), &case.body, stmt)
                })
                .collect();
            parts.extend(default.iter().map(|body| list("default", body, stmt)));
            list(&format!("switch {}", expr(value)), &parts, String::clone)
        }
        StmtKind::Try { body, catches, finally } => {
            let mut parts = vec![stmt(body)];
            parts.extend(catches.iter().map(|catch| {
                format!("(catch {} {} {})", ty(&catch.ty), catch.name.text, stmt(&catch.body))
            }));
            parts.extend(finally.iter().map(|body| format!("(finally {})", stmt(body))));
            list("try", &parts, String::clone)
        }
        StmtKind::Throw(value) => format!("(throw {})", optional(value.as_ref(), expr)),
        StmtKind::Return(value) => format!("(return {})", optional(value.as_ref(), expr)),
        StmtKind::Break => "break".to_owned(),
        StmtKind::Continue => "continue".to_owned(),
        StmtKind::Assert(cond) => format!("(assert {})", expr(cond)),
        StmtKind::Super(values) => list("super", values, arg),
        StmtKind::Error => "<error>".to_owned(),
    }
}

fn arg(arg: &Arg) -> String {
    let mut out = String::new();
    out.extend(arg.name.iter().map(|name| format!("{}=", name.text)));
    if arg.is_out {
        out += "out ";
    }
    out + &expr(&arg.value)
}

fn entry(entry: &Entry) -> String {
    match &entry.key {
        Some(EntryKey::Name(name)) => format!("{}: {}", name.text, expr(&entry.value)),
        Some(EntryKey::Text(text, _)) => format!("{text:?}: {}", expr(&entry.value)),
        None => expr(&entry.value),
    }
}

pub fn expr(this: &Expr) -> String {
    match &this.kind {
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Double(value) => format!("{value:?}"),
        ExprKind::Float(value) => format!("{value:?}f"),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Char(value) => format!("{value:?}"),
        ExprKind::String(parts) => {
            let show = |part: &StringPart| match part {
                StringPart::Text(text) => format!("{text:?}"),
                StringPart::Name(name) => format!("${}", name.text),
            };
            match parts.as_slice() {
                [] => "\"\"".to_owned(),
                [StringPart::Text(text)] => format!("{text:?}"),
                parts => list("cat", parts, show),
            }
        }
        ExprKind::Null => "null".to_owned(),
        ExprKind::This => "this".to_owned(),
        ExprKind::Name(name) => name.text.clone(),
        ExprKind::Member { object, name } => format!("(. {} {})", expr(object), name.text),
        ExprKind::Index { object, index } => format!("([] {} {})", expr(object), expr(index)),
        ExprKind::Call { callee, args } => list(&format!("call {}", expr(callee)), args, arg),
        ExprKind::New { ty: made, init: NewInit::Args(args) } => {
            list(&format!("new {}", ty(made)), args, arg)
        }
        ExprKind::New { ty: made, init: NewInit::Braces(entries) } => {
            list(&format!("init {}", ty(made)), entries, entry)
        }
        ExprKind::NewArray { element, length } => {
            format!("(array {} {})", ty(element), expr(length))
        }
        ExprKind::List(elements) => list("list", elements, expr),
        ExprKind::Braces(entries) => list("braces", entries, entry),
        ExprKind::Unary { op, operand } => {
            let op = match op {
                UnaryOp::Neg => "-",
                UnaryOp::Plus => "+",
                UnaryOp::Not => "!",
            };
            format!("({op} {})", expr(operand))
        }
        ExprKind::Binary { op, left, right, .. } => {
            format!("({} {} {})", operator(*op), expr(left), expr(right))
        }
        ExprKind::Cast { operand, ty: target } => format!("(as {} {})", expr(operand), ty(target)),
        ExprKind::Paren(inner) => format!("(paren {})", expr(inner)),
        ExprKind::Error => "<error>".to_owned(),
    }
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
    }
}
