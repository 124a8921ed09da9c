//! Units, declarations and members.

use super::recover::begins_statement;
use super::{Keyword, MAX_PARAMS, Parse, Parser, Symbol, TokenKind};
use crate::lang::ast::{
    Access, Alias, Block, Class, Decl, Enum, EnumMember, Field, Function, Import, Interface,
    Modifiers, Name, Param, Path, Struct, TypeExpr, TypeExprKind, Unit,
};
use crate::lang::source::Span;

/// What a body holds members of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Class,
    Struct,
    Interface,
    Enum,
}

/// The members of any body, before it is known which are allowed.
#[derive(Default)]
struct Members {
    fields: Vec<Field>,
    methods: Vec<Function>,
    constructors: Vec<Function>,
}

/// Units and what stands at their top level.
impl Parser<'_> {
    pub(super) fn unit(&mut self) -> Unit {
        let mut unit = Unit::default();
        while self.peek() != TokenKind::End {
            let first = self.at;
            self.depth = 0;
            if self.top_level(&mut unit).is_err() {
                self.skip_declaration(first, true);
            }
        }
        unit
    }

    fn top_level(&mut self, unit: &mut Unit) -> Parse<()> {
        match self.peek() {
            TokenKind::Keyword(Keyword::Import) => {
                if !(unit.aliases.is_empty() && unit.decls.is_empty()) {
                    let hint = "move it to the beginning of the file";
                    self.error(self.here(), "an import stands before everything else", hint);
                }
                let import = self.import()?;
                unit.imports.push(import);
                return Ok(());
            }
            TokenKind::Keyword(Keyword::Using) => {
                if !unit.decls.is_empty() {
                    let hint = "move it after the imports";
                    self.error(self.here(), "an alias stands before all declarations", hint);
                }
                let alias = self.alias()?;
                unit.aliases.push(alias);
                return Ok(());
            }
            TokenKind::Keyword(Keyword::Class) => {
                let class = self.class()?;
                unit.decls.push(Decl::Class(class));
            }
            TokenKind::Keyword(Keyword::Struct) => {
                self.bump();
                let name = self.name("the name of a struct")?;
                let members = self.type_body(&name, Owner::Struct)?;
                unit.decls.push(Decl::Struct(Struct { name, fields: members.fields }));
            }
            TokenKind::Keyword(Keyword::Interface) => {
                self.bump();
                let name = self.name("the name of an interface")?;
                if self.is(Symbol::Colon) || self.is_keyword(Keyword::Implements) {
                    self.error(self.here(), "an interface has no base", "");
                    self.bump();
                    self.paths()?;
                }
                let members = self.type_body(&name, Owner::Interface)?;
                unit.decls.push(Decl::Interface(Interface { name, methods: members.methods }));
            }
            TokenKind::Keyword(Keyword::Enum) => {
                let decl = self.enumeration()?;
                unit.decls.push(Decl::Enum(decl));
            }
            TokenKind::Symbol(Symbol::CloseBrace) => {
                if self.is_news() {
                    self.error(self.here(), "this `}` closes nothing", "");
                }
                self.bump();
            }
            TokenKind::Symbol(Symbol::Semicolon) => {
                if self.is_news() {
                    let hint = "no `;` stands after a closing brace";
                    self.error(self.here(), "a `;` without a declaration", hint);
                }
                self.bump();
            }
            TokenKind::Keyword(keyword)
                if begins_statement(keyword) && keyword != Keyword::Const =>
            {
                if self.is_news() {
                    let hint = "a program begins in `int main() { … }`";
                    self.error(self.here(), "a statement stands inside a function", hint);
                }
                return Err(super::Reported);
            }
            _ => {
                let function = self.top_function()?;
                unit.decls.push(Decl::Function(function));
            }
        }
        Ok(())
    }

    fn import(&mut self) -> Parse<Import> {
        let start = self.bump().start;
        if let TokenKind::String(_) = self.peek() {
            let hint = "`import lib.geo;` loads `lib/geo.n`";
            return Err(self.wrong("an import names a package, not a file", hint));
        }
        let path = self.path("the name of a package")?;
        let recursive = self.is(Symbol::Dot) && self.nth_is(1, Symbol::Star);
        if recursive {
            self.bump();
            self.bump();
        }
        self.expect_semicolon()?;
        Ok(Import { path, recursive, span: self.since(start) })
    }

    fn alias(&mut self) -> Parse<Alias> {
        let start = self.bump().start;
        let name = self.name("the name of an alias")?;
        if self.is(Symbol::Semicolon) || self.is(Symbol::Dot) {
            let hint = "`using Row = List<int>;` names a type; packages are opened by `import`";
            return Err(self.wrong("an alias needs a type", hint));
        }
        self.expect(Symbol::Assign)?;
        let ty = self.ty()?;
        self.expect_semicolon()?;
        Ok(Alias { name, ty, span: self.since(start) })
    }

    /// Reports something at the next token, if that is news.
    fn wrong(&mut self, message: &str, hint: &str) -> super::Reported {
        if self.is_news() {
            self.error(self.here(), message, hint);
        }
        super::Reported
    }

    fn paths(&mut self) -> Parse<Vec<Path>> {
        let mut paths = vec![self.path("the name of a type")?];
        while self.eat(Symbol::Comma) {
            paths.push(self.path("the name of a type")?);
        }
        Ok(paths)
    }

    fn top_function(&mut self) -> Parse<Function> {
        let start = self.start();
        let modifiers = self.modifiers()?;
        if self.peek() == TokenKind::Word && self.nth_is(1, Symbol::OpenParen) {
            return self.without_result(modifiers, start);
        }
        let result = self.result_type()?;
        if self.is(Symbol::OpenParen) {
            if self.is_news() {
                let hint = "a program begins in `int main() { … }`";
                self.error(result.span, "a statement stands inside a function", hint);
            }
            return Err(super::Reported);
        }
        let name = self.name("a name")?;
        if !self.is(Symbol::OpenParen) {
            let is_variable = [Symbol::Assign, Symbol::Semicolon, Symbol::Comma]
                .iter()
                .any(|&symbol| self.is(symbol));
            if is_variable && self.is_news() {
                let hint = "declare it in `main` and pass it on, or make it the field of an object";
                self.error(name.span, "there are no global variables", hint);
                return Err(super::Reported);
            }
            return Err(self.expected("`(` and parameters"));
        }
        self.function(modifiers, result, name, start, true)
    }

    /// `main() {…}`, or a call where none can stand.
    fn without_result(&mut self, modifiers: Modifiers, start: u32) -> Parse<Function> {
        if !self.call_has_body() {
            let hint = "a program begins in `int main() { … }`";
            return Err(self.wrong("a statement stands inside a function", hint));
        }
        let name = self.take_name();
        let hint = format!("write `void {0}(…)` or `int {0}(…)`", name.text);
        self.error(name.span, "a function needs a result type", &hint);
        let result = TypeExpr { kind: TypeExprKind::Error, span: name.span };
        self.function(modifiers, result, name, start, true)
    }

    /// Whether a brace follows the parentheses after the next token. (Looks only so far.)
    fn call_has_body(&self) -> bool {
        let mut open = 0;
        for ahead in 1..200 {
            match self.nth(ahead).kind {
                TokenKind::Symbol(Symbol::OpenParen) => open += 1,
                TokenKind::Symbol(Symbol::CloseParen) => {
                    open -= 1;
                    if open == 0 {
                        return self.nth_is(ahead + 1, Symbol::OpenBrace);
                    }
                }
                TokenKind::Symbol(Symbol::Semicolon) | TokenKind::End => return false,
                _ => {}
            }
        }
        false
    }
}

/// Functions.
impl Parser<'_> {
    /// Access and modifiers, in any order.
    fn modifiers(&mut self) -> Parse<Modifiers> {
        let mut modifiers = Modifiers::default();
        loop {
            let TokenKind::Keyword(keyword) = self.peek() else { return Ok(modifiers) };
            let access = match keyword {
                Keyword::Public => Some(Access::Public),
                Keyword::Protected => Some(Access::Protected),
                Keyword::Private => Some(Access::Private),
                Keyword::Static | Keyword::Virtual | Keyword::Const | Keyword::Native => None,
                _ => return Ok(modifiers),
            };
            let place = self.here();
            self.bump();
            if let Some(access) = access {
                if modifiers.access.replace(access).is_some() {
                    self.error(
                        place,
                        "there can be only one of `public`, `protected`, `private`",
                        "",
                    );
                }
                continue;
            }
            let flag = match keyword {
                Keyword::Static => &mut modifiers.is_static,
                Keyword::Virtual => &mut modifiers.is_virtual,
                Keyword::Const => &mut modifiers.is_const,
                _ => &mut modifiers.is_native,
            };
            if std::mem::replace(flag, true) {
                self.error(place, format!("`{}` is repeated", keyword.text()), "");
            }
        }
    }

    /// From the parameters on. A function has a body unless it is native; without `wants_body`, it
    /// never has.
    fn function(
        &mut self,
        modifiers: Modifiers,
        result: TypeExpr,
        name: Name,
        start: u32,
        wants_body: bool,
    ) -> Parse<Function> {
        let params = self.params()?;
        let body = if self.is(Symbol::OpenBrace) {
            let opener = self.here();
            let body = self.block()?;
            if !wants_body {
                let hint = "write `;`; the classes that implement the interface have the body";
                self.error(opener, "a method of an interface has no body", hint);
                None
            } else if modifiers.is_native {
                self.error(opener, "a native function has no body", "");
                None
            } else {
                Some(body)
            }
        } else if wants_body && !modifiers.is_native {
            self.missing_body(&name)?
        } else {
            self.expect_semicolon()?;
            None
        };
        Ok(Function { modifiers, result, name, params, body, span: self.since(start) })
    }

    fn missing_body(&mut self, name: &Name) -> Parse<Option<Block>> {
        if !self.is(Symbol::Semicolon) {
            return Err(self.expected("`{` and the body of the function"));
        }
        if self.is_news() {
            let hint = "there are no forward declarations; functions may be used before they stand";
            self.error(name.span, format!("`{}` has no body", name.text), hint);
        }
        self.bump();
        let span = self.since(self.end);
        Ok(Some(Block { stmts: Vec::new(), span }))
    }

    fn params(&mut self) -> Parse<Vec<Param>> {
        let opener = self.here();
        self.expect(Symbol::OpenParen)?;
        let mut params = Vec::new();
        if self.is_keyword(Keyword::Void) && self.nth_is(1, Symbol::CloseParen) {
            self.error(self.here(), "a parameter cannot be `void`", "write `()`");
            self.bump();
        } else if !self.is(Symbol::CloseParen) {
            loop {
                params.push(self.param()?);
                if !self.eat(Symbol::Comma) {
                    break;
                }
            }
        }
        self.expect_close(Symbol::CloseParen, opener)?;
        if let Some(beyond) = params.get(MAX_PARAMS) {
            let message = format!("a function has at most {MAX_PARAMS} parameters");
            self.error(beyond.span, message, "pass an object");
            params.truncate(MAX_PARAMS);
        }
        Ok(params)
    }

    fn param(&mut self) -> Parse<Param> {
        let start = self.start();
        let is_out = self.eat_keyword(Keyword::Out);
        let ty = self.ty()?;
        let name = self.name("the name of a parameter")?;
        let default = if self.eat(Symbol::Assign) { Some(self.init()?) } else { None };
        Ok(Param { is_out, ty, name, default, span: self.since(start) })
    }
}

/// Types and their members.
impl Parser<'_> {
    fn class(&mut self) -> Parse<Class> {
        self.bump();
        let name = self.name("the name of a class")?;
        if self.is(Symbol::Less) {
            let hint = "only built-in types like `List<T>` have type parameters";
            self.error(self.here(), "a class has no type parameters", hint);
            while !matches!(
                self.peek(),
                TokenKind::Symbol(Symbol::Colon | Symbol::OpenBrace | Symbol::CloseBrace)
                    | TokenKind::Keyword(Keyword::Implements)
                    | TokenKind::End
            ) {
                self.bump();
            }
        }
        let base = if self.eat(Symbol::Colon) {
            Some(self.path("the name of the base class")?)
        } else {
            None
        };
        if base.is_some() && self.is(Symbol::Comma) {
            let hint = "a class has one base; interfaces follow `implements`";
            return Err(self.wrong("expected `implements` or `{`, found `,`", hint));
        }
        let interfaces =
            if self.eat_keyword(Keyword::Implements) { self.paths()? } else { Vec::new() };
        let members = self.type_body(&name, Owner::Class)?;
        let Members { fields, methods, constructors } = members;
        Ok(Class { name, base, interfaces, fields, methods, constructors })
    }

    fn enumeration(&mut self) -> Parse<Enum> {
        self.bump();
        let name = self.name("the name of an enum")?;
        let opener = self.here();
        self.expect(Symbol::OpenBrace)?;
        let mut members = Vec::new();
        loop {
            self.depth = 0;
            match self.enum_member() {
                Ok(member) => members.push(member),
                Err(_) => self.skip_enum_member(),
            }
            if !self.eat(Symbol::Comma) {
                break;
            }
        }
        let methods = if self.eat(Symbol::Semicolon) {
            self.members(&name, Owner::Enum, opener).methods
        } else {
            if !self.is(Symbol::CloseBrace) && self.peek() != TokenKind::End {
                let _ = self.expected("`,`, `;` or `}`");
                self.skip_enum_body();
            }
            self.close_body(opener);
            Vec::new()
        };
        Ok(Enum { name, members, methods })
    }

    fn enum_member(&mut self) -> Parse<EnumMember> {
        let name = self.name("the name of an enum's member")?;
        let value = if self.eat(Symbol::Assign) { Some(self.expr()?) } else { None };
        Ok(EnumMember { name, value })
    }

    /// To the next member, or where none can be.
    fn skip_enum_member(&mut self) {
        while !matches!(
            self.peek(),
            TokenKind::Symbol(
                Symbol::Comma | Symbol::Semicolon | Symbol::OpenBrace | Symbol::CloseBrace
            ) | TokenKind::End
        ) {
            self.bump();
        }
    }

    /// To the brace that ends the enum, whatever stands before it.
    fn skip_enum_body(&mut self) {
        let mut braces = 0;
        loop {
            match self.peek() {
                TokenKind::End => return,
                TokenKind::Symbol(Symbol::CloseBrace) if braces == 0 => return,
                TokenKind::Symbol(Symbol::CloseBrace) => braces -= 1,
                TokenKind::Symbol(Symbol::OpenBrace) => braces += 1,
                _ => {}
            }
            self.bump();
        }
    }

    fn type_body(&mut self, name: &Name, owner: Owner) -> Parse<Members> {
        let opener = self.here();
        self.expect(Symbol::OpenBrace)?;
        Ok(self.members(name, owner, opener))
    }

    /// Members up to the closing brace, and that.
    fn members(&mut self, name: &Name, owner: Owner, opener: Span) -> Members {
        let mut members = Members::default();
        loop {
            match self.peek() {
                TokenKind::End | TokenKind::Symbol(Symbol::CloseBrace) => break,
                TokenKind::Keyword(
                    Keyword::Class
                    | Keyword::Struct
                    | Keyword::Interface
                    | Keyword::Enum
                    | Keyword::Import
                    | Keyword::Using,
                ) => break,
                _ => {}
            }
            let first = self.at;
            self.depth = 0;
            if self.member(name, owner, &mut members).is_err() {
                self.skip_declaration(first, false);
            }
        }
        self.close_body(opener);
        members
    }

    fn member(&mut self, owner_name: &Name, owner: Owner, members: &mut Members) -> Parse<()> {
        let start = self.start();
        if self.is(Symbol::Semicolon) {
            let hint = "no `;` stands after a closing brace";
            let _ = self.wrong("a `;` without a member", hint);
            self.bump();
            return Ok(());
        }
        let modifiers = self.modifiers()?;
        if owner == Owner::Class && self.begins_constructor(owner_name) {
            let function = self.constructor(modifiers, owner_name, start)?;
            members.constructors.push(function);
            return Ok(());
        }
        let (result, name) = if self.peek() == TokenKind::Word && self.nth_is(1, Symbol::OpenParen)
        {
            let name = self.take_name();
            let hint = if owner == Owner::Class {
                format!("write `void {}(…)`; a constructor is named as its class", name.text)
            } else {
                format!("write `void {0}(…)` or `int {0}(…)`", name.text)
            };
            self.error(name.span, "a method needs a result type", &hint);
            (TypeExpr { kind: TypeExprKind::Error, span: name.span }, name)
        } else {
            (self.result_type()?, self.name("the name of a member")?)
        };
        if !self.is(Symbol::OpenParen) {
            return self.fields(modifiers, result, name, start, owner, members);
        }
        if owner == Owner::Struct {
            let hint = "make it a function that takes the struct, or a class";
            self.error(name.span, "a struct has no methods", hint);
        }
        if owner == Owner::Interface
            && modifiers != (Modifiers { access: modifiers.access, ..Modifiers::default() })
        {
            let hint = "all methods of an interface dispatch on the object's class";
            self.error(self.since(start), "a method of an interface has no modifiers", hint);
        }
        let function = self.function(modifiers, result, name, start, owner != Owner::Interface)?;
        members.methods.push(function);
        Ok(())
    }

    /// Whether the next tokens are `Name(`, `int Name(` or `void Name(`.
    fn begins_constructor(&self, class: &Name) -> bool {
        let is_dummy = self.is_keyword(Keyword::Int) || self.is_keyword(Keyword::Void);
        let at = usize::from(is_dummy);
        let token = self.nth(at);
        token.kind == TokenKind::Word
            && self.text(token) == class.text
            && self.nth_is(at + 1, Symbol::OpenParen)
    }

    fn constructor(&mut self, modifiers: Modifiers, class: &Name, start: u32) -> Parse<Function> {
        let only_access = Modifiers { access: modifiers.access, ..Modifiers::default() };
        if modifiers != only_access {
            self.error(self.since(start), "a constructor has no modifiers but its access", "");
        }
        let place = self.here();
        let result = match self.peek() {
            TokenKind::Word => TypeExpr { kind: TypeExprKind::Void, span: place },
            _ => self.result_type()?,
        };
        debug_assert_eq!(self.text(self.nth(0)), class.text);
        let name = self.take_name();
        self.function(only_access, result, name, start, true)
    }

    /// After type and name: the end of a field.
    fn fields(
        &mut self,
        modifiers: Modifiers,
        ty: TypeExpr,
        name: Name,
        start: u32,
        owner: Owner,
        members: &mut Members,
    ) -> Parse<()> {
        if matches!(owner, Owner::Interface | Owner::Enum) {
            let what = if owner == Owner::Enum { "an enum" } else { "an interface" };
            self.error(name.span, format!("{what} has no fields"), "");
        }
        let access = modifiers.access;
        if modifiers != (Modifiers { access, ..Modifiers::default() }) {
            let hint = "there are no static fields; tasks share state through objects";
            let hint = if modifiers.is_static { hint } else { "" };
            self.error(self.since(start), "a field has no modifiers but its access", hint);
        }
        let ty = if matches!(ty.kind, TypeExprKind::Void) {
            self.error(ty.span, "`void` is not a type of values", "");
            TypeExpr { kind: TypeExprKind::Error, span: ty.span }
        } else {
            ty
        };
        let mut names = vec![name];
        loop {
            if self.is(Symbol::Assign) {
                let place = self.here();
                self.bump();
                let hint = match owner {
                    Owner::Class => "set it in the constructor",
                    _ => "its value is zero at first; set it where the struct is made",
                };
                self.error(place, "a field has no initialiser", hint);
                self.init()?;
            }
            if !self.is(Symbol::Comma) {
                break;
            }
            let _ = self.wrong("a field stands alone", "declare the next one with its own type");
            self.bump();
            names.push(self.name("the name of a field")?);
        }
        self.expect_semicolon()?;
        for name in names {
            members.fields.push(Field { access, ty: ty.clone(), name });
        }
        Ok(())
    }
}
