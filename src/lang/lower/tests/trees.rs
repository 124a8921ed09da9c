//! Trees made by hand.

use crate::lang::hir::{
    Arg, Arithmetic, Callee, Catch, Compare, Expr, ExprKind, Function, LocalId, LocalVar, Place,
    Program, Stmt, StmtKind,
};
use crate::lang::lower::lower;
use crate::lang::source::{Source, Sources, Span};
use crate::vm::disasm::FunctionListing;
use crate::vm::module::{FunctionKind, Module};
use crate::vm::types::{ExceptionClass, FunctionId, Param, Signature, TypeId, TypeTable, known};

fn expr(kind: ExprKind, ty: TypeId) -> Expr {
    Expr { kind, ty, span: Span::default() }
}

fn int(value: i32) -> Expr {
    expr(ExprKind::Word(value as u32 as u64), known::INT)
}

fn var(local: u32) -> Expr {
    expr(ExprKind::Local(LocalId(local)), known::INT)
}

fn arith(op: Arithmetic, left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    expr(ExprKind::Arithmetic { op, left, right }, known::INT)
}

fn compare(op: Compare, left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    expr(ExprKind::Compare { op, left, right }, known::BOOL)
}

fn call(function: u32, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().zip(0..);
    let args = args.map(|(value, param)| Arg { param, value, is_default: false, out: None });
    let callee = Callee::Direct(FunctionId(function));
    expr(ExprKind::Call { callee, args: args.collect() }, known::INT)
}

fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, span: Span::default() }
}

fn block(stmts: Vec<Stmt>) -> Box<Stmt> {
    Box::new(stmt(StmtKind::Block(stmts)))
}

fn declare(local: u32, init: Expr) -> Stmt {
    stmt(StmtKind::Local { local: LocalId(local), init: Some(init) })
}

fn assign(local: u32, value: Expr) -> Stmt {
    stmt(StmtKind::Assign { place: Place::Local(LocalId(local)), value })
}

fn back(value: Expr) -> Stmt {
    stmt(StmtKind::Return(Some(value)))
}

/// A function of ints.
fn function(name: &str, params: &[bool], locals: usize, body: Vec<Stmt>) -> Function {
    let locals = (0..params.len() + locals)
        .map(|i| LocalVar { name: format!("v{i}"), ty: known::INT })
        .collect();
    let params = params.iter().map(|&out| Param { ty: known::INT, out }).collect();
    Function {
        name: name.into(),
        signature: Signature { params, result: known::INT },
        kind: FunctionKind::Free,
        locals,
        body,
        span: Span::default(),
        end: Span::default(),
    }
}

fn module(functions: Vec<Function>) -> Module {
    let mut sources = Sources::default();
    sources.add(Source::new("test.n".into(), "\n".into()));
    let program = Program { types: TypeTable::new(), functions, natives: Vec::new(), main: None };
    lower(program, &sources).expect("within the limits")
}

fn listing(functions: Vec<Function>) -> String {
    let module = module(functions);
    FunctionListing { module: &module, index: 0 }.to_string()
}

#[test]
fn fib_has_no_instruction_too_many() {
    let smaller = |k| call(0, vec![arith(Arithmetic::Sub, var(0), int(k))]);
    let body = vec![
        stmt(StmtKind::If {
            cond: compare(Compare::Lt, var(0), int(2)),
            then: Box::new(back(var(0))),
            otherwise: None,
        }),
        back(arith(Arithmetic::Add, smaller(1), smaller(2))),
    ];
    insta::assert_snapshot!(listing(vec![function("fib", &[false], 0, body)]), @r#"
    func #0 int fib(int)  registers 5  "test.n"
        local r0 int v0 [0..8)
        line 1
           0  jump.ge.int.k r0, 2, @2
           1  return       r0
           2  add.int.k    r2, r0, -1
           3  call         r2, #0 fib
           4  add.int.k    r4, r0, -2
           5  call         r4, #0 fib
           6  add.int      r1, r2, r4
           7  return       r1
    "#);
}

#[test]
fn a_counting_loop_has_one_instruction_of_its_own_a_round() {
    let body = vec![
        declare(1, int(0)),
        stmt(StmtKind::For {
            init: vec![declare(2, int(0))],
            cond: Some(compare(Compare::Lt, var(2), var(0))),
            step: Some(Box::new(assign(2, arith(Arithmetic::Add, var(2), int(1))))),
            body: block(vec![assign(1, arith(Arithmetic::Add, var(1), var(2)))]),
        }),
        back(var(1)),
    ];
    insta::assert_snapshot!(listing(vec![function("sum", &[false], 2, body)]), @r#"
    func #0 int sum(int)  registers 3  "test.n"
        local r2 int v2 [2..5)
        local r1 int v1 [1..6)
        local r0 int v0 [0..6)
        line 1
           0  int          r1, 0
           1  int          r2, 0
           2  jump.le.int  r0, r2, @5
           3  add.int      r1, r1, r2
           4  loop.inc.lt.int r2, r0, @3
           5  return       r1
    "#);
}

#[test]
fn a_way_out_leads_through_every_finally_block() {
    let returning = block(vec![back(call(0, vec![int(1)]))]);
    let inner = stmt(StmtKind::Try {
        body: returning,
        catches: vec![Catch {
            class: ExceptionClass::Io.class(),
            local: LocalId(1),
            rethrown: LocalId(2),
            body: block(vec![stmt(StmtKind::Break)]),
        }],
        finally: Some(block(vec![assign(0, int(2))])),
    });
    let outer = stmt(StmtKind::Try {
        body: block(vec![inner]),
        catches: Vec::new(),
        finally: Some(block(vec![assign(0, int(3))])),
    });
    let body = vec![stmt(StmtKind::While {
        cond: compare(Compare::Gt, var(0), int(0)),
        body: block(vec![outer]),
    })];
    insta::assert_snapshot!(listing(vec![function("nested", &[false], 2, body)]), @r#"
    func #0 int nested(int)  registers 8  "test.n"
        local r6 int v1 [11..12)
        local r0 int v0 [0..29)
        line 1
           0  jump.le.int.k r0, 0, @28
           1  null         r1, #17 Exception
           2  int          r2, 0
           3  int          r3, 0
           4  null         r4, #17 Exception
           5  int          r5, 0
           6  int          r7, 1
           7  call         r7, #0 nested
           8  move         r3, r7
           9  int          r5, 1
          10  jump         @12
          11  int          r5, 2
          12  int          r0, 2
          13  jump.null    r4, @15
          14  throw        r4
          15  jump.ne.int.k r5, 1, @18
          16  int          r2, 1
          17  jump         @20
          18  jump.ne.int.k r5, 2, @20
          19  int          r2, 2
          20  int          r0, 3
          21  jump.null    r1, @23
          22  throw        r1
          23  jump.ne.int.k r2, 1, @25
          24  return       r3
          25  jump.ne.int.k r2, 2, @27
          26  return.int   0
          27  loop.gt.int.k r0, 0, @1
          28  return.int   0
        [6..11) -> @11  r6 IOException
        [6..12) -> @12  r4 Exception
        [4..20) -> @20  r1 Exception
    "#);
}

#[test]
fn outs_come_back_from_behind_the_result() {
    // int f(int a, out int b, out int c) { b = a; return c; }
    let callee = function("f", &[false, true, true], 0, vec![assign(1, var(0)), back(var(2))]);
    let arg = |param, local, out: bool| Arg {
        param,
        value: var(local),
        is_default: false,
        out: out.then_some(LocalId(local)),
    };
    // x + f(x, out x, out y): the first x is the one from before the call.
    let args = vec![arg(0, 0, false), arg(1, 0, true), arg(2, 1, true)];
    let called = expr(ExprKind::Call { callee: Callee::Direct(FunctionId(1)), args }, known::INT);
    let caller =
        function("caller", &[false, false], 0, vec![back(arith(Arithmetic::Add, var(0), called))]);
    let module = module(vec![caller, callee]);
    let listing = |index| FunctionListing { module: &module, index }.to_string();
    insta::assert_snapshot!(listing(0), @r#"
    func #0 int caller(int, int)  registers 7  "test.n"
        local r1 int v1 [0..7)
        local r0 int v0 [0..7)
        line 1
           0  move         r2, r0
           1  move.2       r4, r0, r0
           2  move         r6, r1
           3  call         r4, #1 f
           4  move.2       r0, r5, r6
           5  add.int      r2, r2, r4
           6  return       r2
    "#);
    insta::assert_snapshot!(listing(1), @r#"
    func #1 int f(int, out int, out int)  registers 3  "test.n"
        local r2 int v2 [0..3)
        local r1 int v1 [0..3)
        local r0 int v0 [0..3)
        line 1
           0  move         r1, r0
           1  move         r0, r2
           2  return       r0
    "#);
}

#[test]
fn too_many_registers_are_reported_with_the_function_that_has_them() {
    let locals = 70_000;
    let body = (0..locals as u32).map(|local| declare(local, int(1))).collect();
    let mut sources = Sources::default();
    sources.add(Source::new("test.n".into(), "\n".into()));
    let functions = vec![function("huge", &[], locals, body)];
    let program = Program { types: TypeTable::new(), functions, natives: Vec::new(), main: None };
    let diagnostic = lower(program, &sources).unwrap_err();
    assert_eq!(diagnostic.message, "`huge` is too large: it needs more than 65535 registers");
}
