//! What `finally` promises: it runs once, on every way out of every shape of loop, at every depth,
//! and what it was leaving for goes on afterwards.
//!
//! Each combination becomes a function of a script, and a few lines of Rust say what it must do.

use std::fmt::Write as _;

use pirn::vm::{Vm, compile};

/// How the innermost body is left, in the second of three rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Exit {
    Fall,
    Return,
    Break,
    Continue,
    Throw,
    Rethrow,
}

/// What a `finally` body does.
#[derive(Clone, Copy, Debug)]
enum Finally {
    Empty,
    Call,
    Throw,
    Loop,
}

/// What is around it all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Around {
    For,
    While,
    Do,
    Foreach,
    Switch,
}

use Around::{Do, For, Foreach, Switch, While};
use Exit::{Break, Continue, Fall, Rethrow, Return, Throw};

const EXITS: [Exit; 6] = [Fall, Return, Break, Continue, Throw, Rethrow];
const FINALLIES: [Finally; 4] = [Finally::Empty, Finally::Call, Finally::Throw, Finally::Loop];
const LOOPS: [Around; 5] = [For, While, Do, Foreach, Switch];

#[derive(Debug)]
struct Case {
    around: Around,
    /// Outermost first.
    finallies: Vec<Finally>,
    exit: Exit,
}

fn cases() -> Vec<Case> {
    let mut chains: Vec<Vec<Finally>> = vec![Vec::new()];
    let mut cases = Vec::new();
    for depth in 1..=3 {
        let longer = |chain: &Vec<Finally>| FINALLIES.map(|f| [&chain[..], &[f]].concat());
        chains = chains.iter().flat_map(longer).collect();
        for (i, finallies) in chains.iter().enumerate() {
            for exit in EXITS {
                // At the greatest depth the loops take turns.
                let turn = [LOOPS[(i + exit as usize) % LOOPS.len()]];
                for around in if depth < 3 { &LOOPS[..] } else { &turn[..] } {
                    cases.push(Case { around: *around, finallies: finallies.clone(), exit });
                }
            }
        }
    }
    cases
}

impl Case {
    fn source(&self, out: &mut String, number: usize) {
        let (head, tail) = match self.around {
            For => ("for (int i = 0; i < 3; i += 1) {", "l.add(\"a\"); }"),
            While => ("int i = -1; while (i < 2) { i += 1;", "l.add(\"a\"); }"),
            Do => ("int i = -1; do { i += 1;", "l.add(\"a\"); } while (i < 2);"),
            Foreach => ("foreach (int i in [0, 1, 2]) {", "l.add(\"a\"); }"),
            Switch => (
                "for (int i = 0; i < 3; i += 1) { switch (i) { case 7: l.add(\"?\"); default:",
                "l.add(\"a\"); } l.add(\"s\"); }",
            ),
        };
        write!(out, "int case{number}(Log l) {{ int v = 1; {head} ").unwrap();
        self.level(out, 0);
        writeln!(out, " {tail} l.add(\"e\"); return v; }}").unwrap();
    }

    fn level(&self, out: &mut String, level: usize) {
        let Some(finally) = self.finallies.get(level) else {
            out.push_str("l.add(\"x\"); if (i == 1) { ");
            out.push_str(match self.exit {
                Fall => "v += 1;",
                Return => "return v + 100;",
                Break => "break;",
                Continue => "continue;",
                Throw => "throw Exception(\"t\");",
                Rethrow => {
                    "try { throw Exception(\"r\"); } catch (Exception e) { l.add(\"c\"); throw; }"
                }
            });
            out.push_str(" }");
            return;
        };
        out.push_str("try { ");
        self.level(out, level + 1);
        write!(out, " l.add(\"t{level}\"); }} finally {{ ").unwrap();
        match finally {
            Finally::Empty => {}
            Finally::Call => write!(out, "l.add(\"f{level}\"); v += 10;").unwrap(),
            Finally::Throw => write!(out, "l.boom(\"b{level}\", i);").unwrap(),
            Finally::Loop => out.push_str(
                "for (int j = 0; j < 9; j += 1) { if (j == 0) { continue; } if (j == 2) { break; } l.add(\"j\"); }",
            ),
        }
        out.push_str(" }");
    }
}

/// How a body ends.
enum Flow {
    Fall,
    Return(i32),
    Break,
    Continue,
    Throw(String),
}

/// What a case must do.
#[derive(Default)]
struct Model {
    trace: String,
    v: i32,
}

impl Model {
    fn add(&mut self, what: &str) {
        self.trace.push_str(what);
        self.trace.push(' ');
    }

    fn level(&mut self, case: &Case, level: usize, i: i32) -> Flow {
        let Some(finally) = case.finallies.get(level) else {
            self.add("x");
            if i != 1 {
                return Flow::Fall;
            }
            return match case.exit {
                Fall => {
                    self.v += 1;
                    Flow::Fall
                }
                Return => Flow::Return(self.v + 100),
                Break => Flow::Break,
                Continue => Flow::Continue,
                Throw => Flow::Throw("t".into()),
                Rethrow => {
                    self.add("c");
                    Flow::Throw("r".into())
                }
            };
        };
        let flow = self.level(case, level + 1, i);
        if matches!(flow, Flow::Fall) {
            self.add(&format!("t{level}"));
        }
        match finally {
            Finally::Empty => {}
            Finally::Call => {
                self.add(&format!("f{level}"));
                self.v += 10;
            }
            Finally::Throw => {
                self.add(&format!("b{level}"));
                if i == 1 {
                    return Flow::Throw(format!("b{level}"));
                }
            }
            Finally::Loop => self.add("j"),
        }
        flow
    }

    fn run(case: &Case) -> String {
        let mut model = Model { v: 1, ..Model::default() };
        let mut flow = Flow::Fall;
        for i in 0..3 {
            flow = model.level(case, 0, i);
            if matches!(flow, Flow::Fall) {
                model.add("a");
            }
            match flow {
                // It leaves the switch, not the loop.
                Flow::Fall | Flow::Break if case.around == Switch => model.add("s"),
                Flow::Fall | Flow::Continue => {}
                _ => break,
            }
        }
        match flow {
            Flow::Return(value) => model.add(&format!("={value}")),
            Flow::Throw(message) => model.add(&format!("!{message}")),
            Flow::Fall | Flow::Break | Flow::Continue => {
                model.add("e");
                let v = model.v;
                model.add(&format!("={v}"));
            }
        }
        model.trace
    }
}

#[test]
fn finally_runs_once_whatever_is_left_and_however() {
    let cases = cases();
    let mut source = String::from(
        "class Log {
            public string s;
            public void add(string what) { s += what + \" \"; }
            public void boom(string what, int i) {
                this.add(what);
                if (i == 1) { throw Exception(what); }
            }
        }\n",
    );
    for (number, case) in cases.iter().enumerate() {
        case.source(&mut source, number);
    }
    source.push_str("string run(int which) { Log l = Log(); int v; try { switch (which) {\n");
    for number in 0..cases.len() {
        writeln!(source, "case {number}: v = case{number}(l);").unwrap();
    }
    source.push_str(
        "} l.add(\"=\" + v); } catch (Exception e) { l.add(\"!\" + e.message); } return l.s; }",
    );
    let mut vm = Vm::new(&compile(&source).unwrap()).unwrap();
    for (number, case) in cases.iter().enumerate() {
        let found: String = vm.call("run", (number as i32,)).unwrap();
        assert_eq!(found, Model::run(case), "{case:?}");
    }
}
