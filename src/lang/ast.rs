//! The tree that the parser makes: what the source says, names unresolved.

use super::source::Span;

/// A name with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// A qualified name: `lib.geo.Point`; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub parts: Vec<Name>,
    pub span: Span,
}

/// One source file.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    pub imports: Vec<Import>,
    pub aliases: Vec<Alias>,
    pub decls: Vec<Decl>,
}

#[derive(Clone, Debug)]
pub struct Import {
    pub path: Path,
    /// `import lib.*;`
    pub recursive: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Alias {
    pub name: Name,
    pub ty: TypeExpr,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum Decl {
    Function(Function),
    Class(Class),
    Struct(Struct),
    Interface(Interface),
    Enum(Enum),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Public,
    Protected,
    Private,
}

/// What stands before a function: each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    pub access: Option<Access>,
    pub is_static: bool,
    pub is_virtual: bool,
    pub is_const: bool,
    pub is_native: bool,
}

#[derive(Clone, Debug)]
pub struct Function {
    pub modifiers: Modifiers,
    pub result: TypeExpr,
    pub name: Name,
    pub params: Vec<Param>,
    /// `None` for `native`.
    pub body: Option<Block>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Param {
    pub is_out: bool,
    pub ty: TypeExpr,
    pub name: Name,
    pub default: Option<Expr>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Class {
    pub name: Name,
    pub base: Option<Path>,
    pub interfaces: Vec<Path>,
    pub fields: Vec<Field>,
    pub methods: Vec<Function>,
    /// Members named as the class, whatever dummy result they declare.
    pub constructors: Vec<Function>,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub access: Option<Access>,
    pub ty: TypeExpr,
    pub name: Name,
}

#[derive(Clone, Debug)]
pub struct Struct {
    pub name: Name,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub struct Interface {
    pub name: Name,
    /// Without bodies.
    pub methods: Vec<Function>,
}

#[derive(Clone, Debug)]
pub struct Enum {
    pub name: Name,
    pub members: Vec<EnumMember>,
    pub methods: Vec<Function>,
}

#[derive(Clone, Debug)]
pub struct EnumMember {
    pub name: Name,
    pub value: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct TypeExpr {
    pub kind: TypeExprKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum TypeExprKind {
    Void,
    /// A built-in scalar or `string`, by its keyword.
    Primitive(&'static str),
    /// A class, alias, … with type arguments (`List<int>`), if any.
    Named {
        path: Path,
        args: Vec<TypeExpr>,
    },
    /// `func<R, P…>`.
    Func {
        result: Box<TypeExpr>,
        params: Vec<(bool, TypeExpr)>,
    },
    Array(Box<TypeExpr>),
    /// What could not be parsed; already reported.
    Error,
}

#[derive(Clone, Debug, Default)]
pub struct Block {
    pub stmts: Vec<Stmt>,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum StmtKind {
    Block(Block),
    Empty,
    /// `[const] type a = 1, b;`
    Local {
        is_const: bool,
        ty: TypeExpr,
        vars: Vec<LocalVar>,
    },
    /// A call, for its effect.
    Expr(Expr),
    /// `target = value`, `target += value`, ….
    Assign {
        target: Expr,
        op: Option<BinaryOp>,
        value: Expr,
    },
    If {
        cond: Expr,
        then: Box<Stmt>,
        otherwise: Option<Box<Stmt>>,
    },
    While {
        cond: Expr,
        body: Box<Stmt>,
    },
    DoWhile {
        body: Box<Stmt>,
        cond: Expr,
    },
    For {
        init: Option<Box<Stmt>>,
        cond: Option<Expr>,
        step: Option<Box<Stmt>>,
        body: Box<Stmt>,
    },
    Foreach {
        ty: TypeExpr,
        name: Name,
        iterable: Expr,
        body: Box<Stmt>,
    },
    Switch {
        value: Expr,
        cases: Vec<Case>,
        default: Option<Vec<Stmt>>,
    },
    Try {
        body: Box<Stmt>,
        catches: Vec<Catch>,
        finally: Option<Box<Stmt>>,
    },
    /// `throw;` without a value rethrows.
    Throw(Option<Expr>),
    Return(Option<Expr>),
    Break,
    Continue,
    Assert(Expr),
    /// `super(args);`
    Super(Vec<Arg>),
    /// What could not be parsed; already reported.
    Error,
}

#[derive(Clone, Debug)]
pub struct LocalVar {
    pub name: Name,
    pub init: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub labels: Vec<Expr>,
    pub body: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub struct Catch {
    pub ty: TypeExpr,
    pub name: Name,
    pub body: Box<Stmt>,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// Without a sign. (The parser reports what does not fit into 64 bits.)
    Int(u64),
    Double(f64),
    Float(f32),
    Bool(bool),
    Char(char),
    /// Pieces of text and, between them, interpolated names; concatenated.
    String(Vec<StringPart>),
    Null,
    This,
    Name(Name),
    /// `object.name`, also a qualified name: what it is shows when names are resolved.
    Member {
        object: Box<Expr>,
        name: Name,
    },
    Index {
        object: Box<Expr>,
        index: Box<Expr>,
    },
    /// `callee(args)`; the callee is a `Name` or a `Member`.
    Call {
        callee: Box<Expr>,
        args: Vec<Arg>,
    },
    /// `new C(args)`, `new C{…}`, `new List<int>{…}`, `List<int>(…)`: what names a type.
    New {
        ty: TypeExpr,
        init: NewInit,
    },
    /// `new T[n]`; the type is the element's.
    NewArray {
        element: TypeExpr,
        length: Box<Expr>,
    },
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{…}` where the target type says what it is.
    Braces(Vec<Entry>),
    Unary {
        op: UnaryOp,
        operand: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
        op_span: Span,
    },
    Cast {
        operand: Box<Expr>,
        ty: TypeExpr,
    },
    /// In parentheses, which matter for messages and for what folds into a literal.
    Paren(Box<Expr>),
    /// What could not be parsed; already reported.
    Error,
}

#[derive(Clone, Debug)]
pub enum StringPart {
    Text(String),
    Name(Name),
}

#[derive(Clone, Debug)]
pub enum NewInit {
    Args(Vec<Arg>),
    Braces(Vec<Entry>),
}

/// One entry of braces: `value`, `name: value` or `"key": value`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Option<EntryKey>,
    pub value: Expr,
}

#[derive(Clone, Debug)]
pub enum EntryKey {
    Name(Name),
    Text(String, Span),
}

/// One argument: `value`, `name = value` or `out name`.
#[derive(Clone, Debug)]
pub struct Arg {
    pub name: Option<Name>,
    pub is_out: bool,
    pub value: Expr,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    Neg,
    Plus,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
}
