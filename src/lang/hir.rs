//! The typed tree between checker and lowering: every name resolved, every conversion written out,
//! every default filled in. What is here is legal; lowering reports nothing.
//!
//! The order of evaluation is the order of the tree's children. Where a struct is read from a place
//! (local, field, element) and goes to another, the checker has put a [`ExprKind::Copy`].

use super::source::Span;
use crate::vm::types::{ClassId, FunctionId, SelectorId, Signature, TypeId, TypeTable};

/// A checked program.
#[derive(Debug)]
pub struct Program {
    /// Classes complete with slots, vtables and selectors; their function ids are indices of
    /// `functions`.
    pub types: TypeTable,
    pub functions: Vec<Function>,
    /// Native functions used, with types filled in: what [`Callee::Native`] indexes.
    pub natives: Vec<crate::vm::module::NativeImport>,
    pub main: Option<FunctionId>,
}

#[derive(Debug)]
pub struct Function {
    /// As messages show it.
    pub name: String,
    pub signature: Signature,
    pub kind: crate::vm::module::FunctionKind,
    /// Parameters first, the receiver before them, then all variables of the body.
    pub locals: Vec<LocalVar>,
    pub body: Vec<Stmt>,
    pub span: Span,
    /// The closing brace: where falling off the end is.
    pub end: Span,
}

/// A parameter or variable, by its index in [`Function::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalId(pub u32);

#[derive(Debug)]
pub struct LocalVar {
    pub name: String,
    pub ty: TypeId,
}

#[derive(Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Debug)]
pub enum StmtKind {
    Block(Vec<Stmt>),
    /// The variable begins here, with its zero value if there is no other (each time anew, in a
    /// loop).
    Local {
        local: LocalId,
        init: Option<Expr>,
    },
    /// A value computed for its effect, if it has any type at all.
    Expr(Expr),
    /// Evaluates the place's receiver and index, then the value, then stores. The value of a
    /// compound assignment has [`ExprKind::Old`] inside, which reads the place before the rest of
    /// the value is evaluated.
    Assign {
        place: Place,
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
    /// `init` may be a block-like list of several variables; they live until the end of the loop.
    For {
        init: Vec<Stmt>,
        cond: Option<Expr>,
        step: Option<Box<Stmt>>,
        body: Box<Stmt>,
    },
    /// Over an array, list, dictionary (its keys) or string (its chars), by the iterable's type. A
    /// struct element is copied into the variable.
    Foreach {
        local: LocalId,
        iterable: Expr,
        body: Box<Stmt>,
    },
    /// Labels are of the value's type and tested in order.
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
    Throw(Expr),
    /// Throws what the catch clause around it holds in this variable.
    Rethrow(LocalId),
    Return(Option<Expr>),
    /// Leaves the innermost loop or switch.
    Break,
    /// Goes on with the innermost loop.
    Continue,
    Assert(Expr),
}

#[derive(Debug)]
pub struct Case {
    pub labels: Vec<Expr>,
    pub body: Vec<Stmt>,
}

#[derive(Debug)]
pub struct Catch {
    pub class: ClassId,
    /// Takes the exception. (One that is assigned to or rethrown later keeps the caught object in
    /// `rethrown`.)
    pub local: LocalId,
    /// A hidden variable that also takes the exception, for `throw;`.
    pub rethrown: LocalId,
    pub body: Box<Stmt>,
}

/// What can be assigned to.
#[derive(Debug)]
pub enum Place {
    Local(LocalId),
    /// Of a class or struct, by slot.
    Field {
        object: Expr,
        field: u16,
    },
    /// Of an array, list or dictionary, by the base's type.
    Index {
        base: Expr,
        index: Expr,
    },
}

#[derive(Debug)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: TypeId,
    pub span: Span,
}

#[derive(Debug)]
pub enum ExprKind {
    /// A scalar or enum constant: its canonical word.
    Word(u64),
    Text(String),
    Null,
    /// The zero value of the type: 0, "", null, or a new struct.
    Zero,
    Local(LocalId),
    /// Reads the place of the compound assignment around it. At most once in it.
    Old,
    /// An argument that is already evaluated: what defaults refer to. It belongs to the call that
    /// has the innermost default ([`Arg::is_default`]) around it, which need not be the innermost
    /// call: a default may be a call itself. Parameter 0 is the receiver, if there is one.
    Argument(u16),
    Field {
        object: Box<Expr>,
        field: u16,
    },
    /// Of an array, list, dictionary or string (gives `ubyte`), by the base's type.
    Index {
        base: Box<Expr>,
        index: Box<Expr>,
    },
    Neg(Box<Expr>),
    Not(Box<Expr>),
    /// Both operands have the expression's type.
    Arithmetic {
        op: Arithmetic,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Both operands have the same type, or both are references.
    Compare {
        op: Compare,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    /// All pieces are strings; at least two.
    Concat(Vec<Expr>),
    Convert {
        conversion: Conversion,
        value: Box<Expr>,
    },
    /// A deep copy of a struct.
    Copy(Box<Expr>),
    /// Arguments in order of evaluation; the receiver, where there is one, is the argument for
    /// parameter 0 and comes first.
    Call {
        callee: Callee,
        args: Vec<Arg>,
    },
    /// A new object; then the constructor, if there is one, with these arguments (parameters from 1
    /// on), then fields in order.
    New {
        class: ClassId,
        constructor: Option<FunctionId>,
        args: Vec<Arg>,
        fields: Vec<(u16, Expr)>,
    },
    /// An empty List or Dict, by the type.
    NewContainer,
    NewArray {
        length: Box<Expr>,
    },
    /// An array or List with elements, by the type.
    Elements(Vec<Expr>),
    /// A Dict with entries.
    Entries(Vec<(Expr, Expr)>),
    /// A function or static method as a value.
    FunctionValue(FunctionId),
    /// A method bound to its receiver.
    BoundValue {
        receiver: Box<Expr>,
        method: BoundMethod,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundMethod {
    Direct(FunctionId),
    Virtual(u16),
    Interface(SelectorId),
}

#[derive(Debug)]
pub enum Callee {
    /// A function, static method, enum method, constructor (from `super`), or non-virtual method
    /// (then null as receiver throws).
    Direct(FunctionId),
    Virtual(u16),
    Interface(SelectorId),
    /// An index of [`Program::natives`].
    Native(u32),
    /// A function value.
    Value(Box<Expr>),
}

#[derive(Debug)]
pub struct Arg {
    /// Which parameter this is for; the receiver is 0.
    pub param: u16,
    pub value: Expr,
    /// The value is the parameter's default: each [`ExprKind::Argument`] in it that stands in no
    /// inner default is an argument of this call. Defaults come after all given arguments.
    pub is_default: bool,
    /// For an `out` parameter: what takes its final value (the value is a read of it).
    pub out: Option<LocalId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// How a value becomes one of the expression's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Between numbers (and enum or char to integer), by both types.
    Number,
    /// Integer to char: throws for what is no scalar value.
    ToChar,
    /// The text of any value but a struct.
    ToString,
    /// Scalar, enum (as its int) or string to Object.
    Box,
    /// Object to scalar or string.
    Unbox,
    /// To a base class, an interface, Object, or null to any reference: nothing to do.
    Upcast,
    /// To a class or interface: checked.
    Downcast,
}
