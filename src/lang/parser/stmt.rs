//! Statements.

use super::{Keyword, Parse, Parser, Reported, Symbol, TokenKind};
use crate::lang::ast::{
    BinaryOp, Block, Case, Catch, Expr, ExprKind, LocalVar, NewInit, Stmt, StmtKind, TypeExpr,
};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::source::Span;

impl Parser<'_> {
    pub(super) fn block(&mut self) -> Parse<Block> {
        let opener = self.here();
        self.expect(Symbol::OpenBrace)?;
        let stmts = self.stmts(Self::ends_statements);
        self.close_body(opener);
        Ok(Block { stmts, span: self.since(opener.start) })
    }

    /// Statements up to where `ends` says so.
    pub(super) fn stmts(&mut self, ends: impl Fn(&Self) -> bool) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        while !ends(self) {
            let stmt = self.stmt();
            stmts.push(stmt);
        }
        stmts
    }

    /// A statement; one that is broken is skipped.
    fn stmt(&mut self) -> Stmt {
        let (first, start, parens, depth) = (self.at, self.start(), self.parens, self.depth);
        let kind = self.enter().and_then(|()| self.stmt_kind()).unwrap_or_else(|Reported| {
            self.skip_statement(first, parens);
            StmtKind::Error
        });
        self.depth = depth;
        Stmt { kind, span: self.since(start) }
    }

    /// The statement that an `if` or a loop governs: no declaration.
    fn body(&mut self) -> Box<Stmt> {
        if self.ends_statements() {
            let place = self.here();
            let _ = self.expected("a statement");
            return Box::new(Stmt { kind: StmtKind::Error, span: place });
        }
        let stmt = self.stmt();
        if matches!(stmt.kind, StmtKind::Local { .. }) {
            let hint = "put it into braces";
            self.error(stmt.span, "a declaration cannot be the whole body", hint);
        }
        Box::new(stmt)
    }

    fn stmt_kind(&mut self) -> Parse<StmtKind> {
        let TokenKind::Keyword(keyword) = self.peek() else {
            return match self.peek() {
                TokenKind::Symbol(Symbol::OpenBrace) => self.block().map(StmtKind::Block),
                TokenKind::Symbol(Symbol::Semicolon) => {
                    self.bump();
                    Ok(StmtKind::Empty)
                }
                _ => self.plain_statement(),
            };
        };
        match keyword {
            Keyword::If => self.if_statement(),
            Keyword::While => {
                self.bump();
                let cond = self.condition()?;
                let body = self.body();
                Ok(StmtKind::While { cond, body })
            }
            Keyword::Do => self.do_statement(),
            Keyword::For => self.for_statement(),
            Keyword::Foreach => self.foreach_statement(),
            Keyword::Switch => self.switch_statement(),
            Keyword::Try => self.try_statement(),
            Keyword::Throw => {
                self.bump();
                let value = self.optional_value(Self::expr)?;
                Ok(StmtKind::Throw(value))
            }
            Keyword::Return => {
                self.bump();
                let value = self.optional_value(Self::init)?;
                Ok(StmtKind::Return(value))
            }
            Keyword::Break => {
                self.bump();
                self.expect_semicolon()?;
                Ok(StmtKind::Break)
            }
            Keyword::Continue => {
                self.bump();
                self.expect_semicolon()?;
                Ok(StmtKind::Continue)
            }
            Keyword::Assert => {
                self.bump();
                let cond = self.condition()?;
                self.expect_semicolon()?;
                Ok(StmtKind::Assert(cond))
            }
            Keyword::Super => self.super_statement(),
            Keyword::Else
            | Keyword::Catch
            | Keyword::Finally
            | Keyword::Case
            | Keyword::Default => self.stray_part(keyword),
            _ => self.plain_statement(),
        }
    }

    /// A declaration, a call or an assignment, with its `;`.
    fn plain_statement(&mut self) -> Parse<StmtKind> {
        let kind =
            if self.begins_local() { self.local_statement()? } else { self.simple_statement()? };
        self.expect_semicolon()?;
        Ok(kind)
    }

    /// `(cond)`.
    fn condition(&mut self) -> Parse<Expr> {
        let opener = self.here();
        self.expect(Symbol::OpenParen)?;
        let cond = self.expr()?;
        self.expect_close(Symbol::CloseParen, opener)?;
        Ok(cond)
    }

    /// After `return` or `throw`.
    fn optional_value(&mut self, value: fn(&mut Self) -> Parse<Expr>) -> Parse<Option<Expr>> {
        let is_bare = self.is(Symbol::Semicolon) || self.is(Symbol::CloseBrace);
        let value = if is_bare { None } else { Some(value(self)?) };
        self.expect_semicolon()?;
        Ok(value)
    }

    fn if_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let cond = self.condition()?;
        let then = self.body();
        let otherwise = if self.eat_keyword(Keyword::Else) { Some(self.body()) } else { None };
        Ok(StmtKind::If { cond, then, otherwise })
    }

    fn do_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let body = self.body();
        if !self.eat_keyword(Keyword::While) {
            return Err(self.expected("`while` after the body of `do`"));
        }
        let cond = self.condition()?;
        self.expect_semicolon()?;
        Ok(StmtKind::DoWhile { body, cond })
    }

    fn for_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let opener = self.here();
        self.expect(Symbol::OpenParen)?;
        let init = if self.is(Symbol::Semicolon) {
            None
        } else {
            let start = self.start();
            let kind = if self.begins_local() {
                self.local_statement()?
            } else {
                self.simple_statement()?
            };
            Some(Box::new(Stmt { kind, span: self.since(start) }))
        };
        if self.is(Symbol::Colon) && self.is_news() {
            let hint = "going through a container is `foreach (T v in e)`";
            self.error(self.here(), "expected `;`, found `:`", hint);
        }
        self.expect(Symbol::Semicolon)?;
        let cond = if self.is(Symbol::Semicolon) { None } else { Some(self.expr()?) };
        self.expect(Symbol::Semicolon)?;
        let step = if self.is(Symbol::CloseParen) {
            None
        } else {
            let start = self.start();
            let kind = self.simple_statement()?;
            Some(Box::new(Stmt { kind, span: self.since(start) }))
        };
        if self.is(Symbol::Comma) && self.is_news() {
            let hint = "put the other steps at the end of the body";
            self.error(self.here(), "a `for` has one step", hint);
        }
        self.expect_close(Symbol::CloseParen, opener)?;
        let body = self.body();
        Ok(StmtKind::For { init, cond, step, body })
    }

    fn foreach_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let opener = self.here();
        self.expect(Symbol::OpenParen)?;
        let ty = self.ty()?;
        if self.is_keyword(Keyword::In) && self.is_news() {
            let hint = "the variable needs a type: `foreach (int x in e)`";
            self.error(self.here(), "expected the name of a variable, found `in`", hint);
            return Err(Reported);
        }
        let name = self.name("the name of a variable")?;
        if !self.eat_keyword(Keyword::In) {
            return Err(self.expected("`in`"));
        }
        let iterable = self.expr()?;
        self.expect_close(Symbol::CloseParen, opener)?;
        let body = self.body();
        Ok(StmtKind::Foreach { ty, name, iterable, body })
    }

    fn switch_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let value = self.condition()?;
        let opener = self.here();
        self.expect(Symbol::OpenBrace)?;
        let mut cases = Vec::new();
        let mut default = None;
        loop {
            let place = self.here();
            if self.is_keyword(Keyword::Case) {
                if default.is_some() {
                    self.error(place, "`default` comes last", "move this case before it");
                }
                cases.push(self.case()?);
            } else if self.eat_keyword(Keyword::Default) {
                self.expect(Symbol::Colon)?;
                let body = self.stmts(Self::ends_case);
                if default.replace(body).is_some() {
                    self.error(place, "there is a `default` already", "");
                }
            } else if self.ends_statements() {
                break;
            } else {
                let _ = self.expected("`case`, `default` or `}`");
                // What stands before the first case is read, to find where it begins.
                self.stmts(Self::ends_case);
            }
        }
        self.close_body(opener);
        Ok(StmtKind::Switch { value, cases, default })
    }

    fn ends_case(&self) -> bool {
        self.is_keyword(Keyword::Case)
            || self.is_keyword(Keyword::Default)
            || self.ends_statements()
    }

    fn case(&mut self) -> Parse<Case> {
        self.bump();
        let mut labels = vec![self.expr()?];
        while self.eat(Symbol::Comma) {
            labels.push(self.expr()?);
        }
        self.expect(Symbol::Colon)?;
        let body = self.stmts(Self::ends_case);
        Ok(Case { labels, body })
    }

    fn try_statement(&mut self) -> Parse<StmtKind> {
        let place = self.here();
        self.bump();
        let body = self.body();
        let mut catches = Vec::new();
        while self.is_keyword(Keyword::Catch) {
            catches.push(self.catch()?);
        }
        let finally = if self.eat_keyword(Keyword::Finally) { Some(self.body()) } else { None };
        if catches.is_empty() && finally.is_none() {
            let is_broken = matches!(body.kind, StmtKind::Error);
            if !is_broken {
                self.error(place, "`try` needs a `catch` or a `finally`", "");
            }
            return Ok(StmtKind::Block(Block { span: body.span, stmts: vec![*body] }));
        }
        Ok(StmtKind::Try { body, catches, finally })
    }

    fn catch(&mut self) -> Parse<Catch> {
        self.bump();
        let opener = self.here();
        if self.is(Symbol::OpenBrace) && self.is_news() {
            let hint = "everything is caught by `catch (Exception e)`";
            self.error(opener, "`catch` needs a class and a variable", hint);
            return Err(Reported);
        }
        self.expect(Symbol::OpenParen)?;
        let ty = self.ty()?;
        let name = self.name("the name of a variable")?;
        self.expect_close(Symbol::CloseParen, opener)?;
        let body = self.body();
        Ok(Catch { ty, name, body })
    }

    fn super_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        if !self.is(Symbol::OpenParen) {
            if self.is_news() {
                let hint = "`super(…);` calls the constructor of the base class; there is no other \
                            use";
                self.error(self.here(), "expected `(` after `super`", hint);
            }
            return Err(Reported);
        }
        let args = self.args()?;
        self.expect_semicolon()?;
        Ok(StmtKind::Super(args))
    }

    /// `else`, `case`, … where nothing is open that they could belong to.
    fn stray_part(&mut self, keyword: Keyword) -> Parse<StmtKind> {
        if self.is_news() {
            let (owner, hint) = match keyword {
                Keyword::Else => ("if", "what stands between them needs braces"),
                Keyword::Catch | Keyword::Finally => ("try", "`catch` comes before `finally`"),
                _ => ("switch", ""),
            };
            let message = format!("`{}` without `{owner}`", keyword.text());
            self.error(self.here(), message, hint);
        }
        Err(Reported)
    }

    /// `[const] type a = 1, b` without the `;`.
    fn local_statement(&mut self) -> Parse<StmtKind> {
        let is_const = self.eat_keyword(Keyword::Const);
        let ty = self.ty()?;
        if let Some(cast) = self.conversion_call(&ty) {
            return Err(cast);
        }
        let mut vars = Vec::new();
        loop {
            let name = self.name("the name of a variable")?;
            if vars.is_empty() && self.is(Symbol::OpenParen) {
                return Err(self.nested_function());
            }
            if self.is(Symbol::OpenBracket) && self.is_news() {
                let hint = format!("an array is declared as `T[] {0} = new T[n]`", name.text);
                self.error(self.here(), "the brackets belong to the type", &hint);
                return Err(Reported);
            }
            let init = if self.eat(Symbol::Assign) { Some(self.init()?) } else { None };
            vars.push(LocalVar { name, init });
            if !self.eat(Symbol::Comma) {
                break;
            }
        }
        Ok(StmtKind::Local { is_const, ty, vars })
    }

    /// `int(x)`.
    fn conversion_call(&mut self, ty: &TypeExpr) -> Option<Reported> {
        if !self.is(Symbol::OpenParen) {
            return None;
        }
        if self.is_news() {
            let hint = "a conversion is written `x as int`";
            self.error(ty.span, "a type cannot be called", hint);
        }
        Some(Reported)
    }

    fn nested_function(&mut self) -> Reported {
        if self.is_news() {
            let hint = "is a `}` missing before it?";
            self.error(self.here(), "a function cannot be declared inside another one", hint);
        }
        Reported
    }

    /// A call or an assignment, without the `;`.
    fn simple_statement(&mut self) -> Parse<StmtKind> {
        for (symbol, op) in [(Symbol::Plus, "+"), (Symbol::Minus, "-")] {
            if self.is_doubled(symbol) {
                return self.prefix_step(op);
            }
        }
        let target = self.expr()?;
        if matches!(target.kind, ExprKind::Error) {
            return Ok(StmtKind::Error);
        }
        let op = match self.peek() {
            TokenKind::Symbol(Symbol::Assign) => None,
            TokenKind::Symbol(Symbol::PlusAssign) => Some(BinaryOp::Add),
            TokenKind::Symbol(Symbol::MinusAssign) => Some(BinaryOp::Sub),
            TokenKind::Symbol(Symbol::StarAssign) => Some(BinaryOp::Mul),
            TokenKind::Symbol(Symbol::SlashAssign) => Some(BinaryOp::Div),
            TokenKind::Symbol(Symbol::PercentAssign) => Some(BinaryOp::Mod),
            _ => return self.call_statement(target),
        };
        self.check_target(&target);
        self.bump();
        let value = self.init()?;
        Ok(StmtKind::Assign { target, op, value })
    }

    /// `++i`.
    fn prefix_step(&mut self, op: &str) -> Parse<StmtKind> {
        let start = self.bump().start;
        self.bump();
        let place = self.since(start);
        self.expr()?;
        self.no_step(place, op);
        Ok(StmtKind::Error)
    }

    /// Reports `++` or `--`.
    pub(super) fn no_step(&mut self, place: Span, op: &str) {
        let hint = format!("write `i {op}= 1` or `i = i {op} 1`");
        self.error(place, format!("there is no `{op}{op}`"), &hint);
    }

    fn check_target(&mut self, target: &Expr) {
        let message = match target.kind {
            ExprKind::Name(_) | ExprKind::Member { .. } | ExprKind::Index { .. } => return,
            ExprKind::Call { .. } | ExprKind::New { .. } => "the result of a call is no variable",
            ExprKind::This => "`this` is no variable",
            _ => "this cannot be assigned to",
        };
        let hint = "only variables, fields and elements can be assigned to";
        self.error(target.span, message, hint);
    }

    /// An expression as a statement.
    fn call_statement(&mut self, expr: Expr) -> Parse<StmtKind> {
        match &expr.kind {
            ExprKind::Call { .. } | ExprKind::New { init: NewInit::Args(_), .. } => {
                return Ok(StmtKind::Expr(expr));
            }
            _ => {}
        }
        // What follows may tell more than what stands here.
        if !self.is(Symbol::Semicolon) && !self.is(Symbol::CloseParen) {
            return Err(self.expected("`;`, `=` or `(`"));
        }
        if self.is_news() {
            let hint = match &expr.kind {
                ExprKind::Binary { op: BinaryOp::Eq, .. } => "an assignment is written with `=`",
                ExprKind::Name(_) | ExprKind::Member { .. } => {
                    "a call is written with parentheses: `f()`"
                }
                _ => "a statement is a call or an assignment",
            };
            let message = "the value of this expression is not used";
            self.report(Diagnostic::error(expr.span, message).hint(hint));
        }
        Ok(StmtKind::Error)
    }
}
