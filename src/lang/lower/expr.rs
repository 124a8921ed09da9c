//! Expressions: where their values go, and the simple kinds.

use super::builder::Reg;
use super::function::{Lowering, Target};
use super::registers::Mark;
use crate::lang::hir::{BoundMethod, Conversion, Expr, ExprKind, LocalId};
use crate::vm::op::Op;
use crate::vm::types::{Type, TypeId, known};

/// Where the value of an expression has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Anywhere: where it stands, or in the next temporary.
    Any,
    /// In a register that nobody reads before, so that it may be written early. It is below the top,
    /// or the top itself.
    Fresh(Reg),
    /// In the register at the top, below which a call finds room for its return address.
    Window(Reg),
    /// In a variable that keeps its value until the very end: the expression may read it, and so may
    /// a handler.
    Local(Reg),
}

impl<'a> Lowering<'a> {
    /// Evaluates an expression. Without a wish for a place, temporaries up to the result stay taken;
    /// else the stack of temporaries is as before.
    pub(super) fn eval(&mut self, expr: &'a Expr, want: Want) -> Reg {
        let mark = self.registers.mark();
        if let Some(word) = self.constant(expr) {
            if let (Want::Any, Some(pinned)) = (want, self.pinned(word)) {
                return pinned;
            }
            let to = self.destination(mark, want);
            self.load(word, to);
            return to;
        }
        match &expr.kind {
            ExprKind::Word(_) => unreachable!("a word is a constant"),
            ExprKind::Text(text) => {
                let text = self.pool.string(text);
                let to = self.destination(mark, want);
                self.code.ax(Op::Text, to, text);
                to
            }
            ExprKind::Null | ExprKind::Zero => {
                let to = self.destination(mark, want);
                self.zero(expr.ty, to);
                to
            }
            ExprKind::Local(local) => self.in_place(self.local(*local), want),
            ExprKind::Old => self.old(want),
            ExprKind::Argument(param) => {
                let window = *self.windows.last().expect("only a default refers to an argument");
                self.in_place(window + param, want)
            }
            ExprKind::Field { object, field } => {
                let object = self.operand(object);
                let to = self.destination(mark, want);
                self.line(expr.span);
                self.code.abc(Op::GetField, to, object, *field);
                to
            }
            ExprKind::Index { base, index } => self.element(expr, base, index, want),
            ExprKind::Neg(value) => self.negate(expr, value, want),
            ExprKind::Not(value) => self.not(value, want),
            ExprKind::Arithmetic { op, left, right } => {
                self.arithmetic(expr, *op, left, right, want)
            }
            ExprKind::Compare { op, left, right } => self.compare(*op, left, right, want),
            ExprKind::And(left, right) => self.short_circuit(true, left, right, want),
            ExprKind::Or(left, right) => self.short_circuit(false, left, right, want),
            ExprKind::Concat(pieces) => self.concat(expr, pieces, want),
            ExprKind::Convert { conversion, value } => self.convert(expr, *conversion, value, want),
            ExprKind::Copy(value) => {
                let from = self.operand(value);
                let to = self.destination(mark, want);
                self.line(expr.span);
                self.code.abc(Op::CopyStruct, to, from, 0);
                to
            }
            ExprKind::Call { callee, args } => self.call(expr, callee, args, want),
            ExprKind::New { class, constructor, args, fields } => {
                self.new_object(expr, *class, *constructor, args, fields, want)
            }
            ExprKind::NewContainer => {
                let to = self.destination(mark, want);
                self.code.ax(Op::NewContainer, to, expr.ty.0);
                to
            }
            ExprKind::NewArray { length } => self.new_array(expr, length, want),
            ExprKind::Elements(values) => self.elements(expr, values, want),
            ExprKind::Entries(entries) => self.entries(expr, entries, want),
            ExprKind::FunctionValue(function) => {
                let to = self.destination(mark, want);
                self.code.ax(Op::FuncOf, to, function.0);
                to
            }
            ExprKind::BoundValue { receiver, method } => {
                let receiver = self.operand(receiver);
                let (op, method) = match *method {
                    BoundMethod::Direct(function) => (Op::Bind, function.0),
                    BoundMethod::Virtual(slot) => (Op::BindVirtual, u32::from(slot)),
                    BoundMethod::Interface(selector) => (Op::BindInterface, selector.0),
                };
                let method = self.index16(method, "a method as a value");
                let to = self.destination(mark, want);
                self.line(expr.span);
                self.code.abc(op, to, receiver, method);
                to
            }
        }
    }

    /// A value wherever it is.
    pub(super) fn operand(&mut self, expr: &'a Expr) -> Reg {
        self.eval(expr, Want::Any)
    }

    /// A value wherever it is, safe from what evaluating the later operands does.
    pub(super) fn operand_before(&mut self, expr: &'a Expr, later: &[&Expr]) -> Reg {
        let register = self.operand(expr);
        let local = self.variable_in_place(expr);
        let changes = |local| later.iter().any(|later| self.facts.may_change(local, later));
        if !local.is_some_and(changes) {
            return register;
        }
        let copy = self.registers.temp();
        self.code.copy(copy, register);
        copy
    }

    /// A value in the next register at the top, which is then taken.
    pub(super) fn push(&mut self, expr: &'a Expr) -> Reg {
        let mark = self.registers.mark();
        let slot = self.registers.top();
        self.eval(expr, Want::Fresh(slot));
        self.registers.release(mark);
        self.registers.temp()
    }

    /// The variable that an expression's operand stands in, if it is not copied.
    fn variable_in_place(&self, expr: &Expr) -> Option<LocalId> {
        match &expr.kind {
            ExprKind::Local(local) => Some(*local),
            ExprKind::Old => match self.place {
                Some(Target::Local(local)) => Some(local),
                _ => None,
            },
            ExprKind::Convert { conversion, value }
                if self.is_same_word(*conversion, value, expr.ty) =>
            {
                self.variable_in_place(value)
            }
            _ => None,
        }
    }

    /// Gives back the temporaries of an expression, and says where its result goes.
    pub(super) fn destination(&mut self, mark: Mark, want: Want) -> Reg {
        self.registers.release(mark);
        match want {
            Want::Any => self.registers.temp(),
            Want::Fresh(to) | Want::Window(to) | Want::Local(to) => {
                self.registers.reserve(to, 1);
                to
            }
        }
    }

    /// A destination that is written before all of the expression is evaluated: a temporary, for a
    /// variable. Until [`settle`](Lowering::settle) it is taken.
    pub(super) fn early_destination(&mut self, want: Want) -> Reg {
        match want {
            Want::Any | Want::Local(_) => self.registers.temp(),
            Want::Fresh(to) | Want::Window(to) => {
                self.registers.cover(to);
                to
            }
        }
    }

    /// Brings the value in an early destination to where it is wanted.
    pub(super) fn settle(&mut self, mark: Mark, early: Reg, want: Want) -> Reg {
        let to = self.destination(mark, want);
        self.code.copy(to, early);
        to
    }

    /// The value of a register, where it is or copied to where it is wanted.
    pub(super) fn in_place(&mut self, register: Reg, want: Want) -> Reg {
        match want {
            Want::Any => register,
            Want::Fresh(to) | Want::Window(to) | Want::Local(to) => {
                self.registers.reserve(to, 1);
                self.code.copy(to, register);
                to
            }
        }
    }

    /// A constant word.
    pub(super) fn load(&mut self, word: u64, to: Reg) {
        if let Ok(small) = u32::try_from(word) {
            self.code.ax(Op::Int, to, small);
        } else if let Ok(small) = i32::try_from(word as i64) {
            self.code.ax(Op::Long, to, small as u32);
        } else {
            let index = self.pool.word(word);
            self.code.ax(Op::Const, to, index);
        }
    }

    /// The zero value of a type.
    pub(super) fn zero(&mut self, ty: TypeId, to: Reg) {
        match *self.ty(ty) {
            Type::Struct(class) => self.code.ax(Op::New, to, class.0),
            Type::Null | Type::Void => self.code.ax(Op::Null, to, known::OBJECT.0),
            _ if self.pool.types.is_reference(ty) => self.code.ax(Op::Null, to, ty.0),
            _ => self.load(0, to),
        }
    }

    /// Reads the place of the assignment at hand.
    fn old(&mut self, want: Want) -> Reg {
        match self.place.expect("`Old` stands in an assignment") {
            Target::Local(local) => self.in_place(self.local(local), want),
            Target::Field { object, field } => {
                let to = self.destination(self.registers.mark(), want);
                self.code.abc(Op::GetField, to, object, field);
                to
            }
            Target::Index { base, index, ty } => self.read_element(ty, base, index, want),
        }
    }

    fn short_circuit(&mut self, and: bool, left: &'a Expr, right: &'a Expr, want: Want) -> Reg {
        let mark = self.registers.mark();
        let end = self.new_label();
        if let Want::Local(to) = want {
            if let ExprKind::Local(local) = left.kind
                && self.local(local) == to
            {
                // `x = x && …`: the left value is in its place.
                self.branch(left, !and, end);
                self.eval(right, want);
            } else {
                let decided = self.new_label();
                self.branch(left, !and, decided);
                self.eval(right, want);
                self.code.goto(end);
                self.code.bind(decided);
                self.code.ax(Op::Int, to, u32::from(!and));
            }
            self.code.bind(end);
            return to;
        }
        let to = self.early_destination(want);
        self.eval(left, Want::Fresh(to));
        self.branch_on(to, !and, end);
        self.eval(right, Want::Fresh(to));
        self.code.bind(end);
        self.settle(mark, to, want)
    }

    fn not(&mut self, value: &'a Expr, want: Want) -> Reg {
        let mark = self.registers.mark();
        let value = self.operand(value);
        let to = self.destination(mark, want);
        self.code.abc(Op::Not, to, value, 0);
        to
    }

    fn concat(&mut self, expr: &'a Expr, pieces: &'a [Expr], want: Want) -> Reg {
        let mark = self.registers.mark();
        let mut flat = Vec::new();
        self.flatten(pieces, &mut flat);
        if let [left, right] = &flat[..] {
            let later: &[&Expr] = match right {
                Piece::Value(right) => &[right],
                Piece::Text(_) => &[],
            };
            let left = match left {
                Piece::Value(left) => self.operand_before(left, later),
                Piece::Text(text) => self.push_text(text),
            };
            let right = match right {
                Piece::Value(right) => self.operand(right),
                Piece::Text(text) => self.push_text(text),
            };
            let to = self.destination(mark, want);
            self.line(expr.span);
            self.code.abc(Op::Concat, to, left, right);
            return to;
        }
        let first = self.registers.top();
        let count = flat.len();
        for piece in flat {
            match piece {
                Piece::Value(value) => self.push(value),
                Piece::Text(text) => self.push_text(&text),
            };
        }
        let to = self.destination(mark, want);
        self.line(expr.span);
        // As many as there are registers at most: one too many is reported by their number.
        self.code.abc(Op::ConcatMany, to, first, count as u16);
        to
    }

    /// The pieces of a concatenation and of those inside, with texts that stand side by side joined.
    fn flatten(&mut self, pieces: &'a [Expr], flat: &mut Vec<Piece<'a>>) {
        for piece in pieces {
            if let ExprKind::Concat(inner) = &piece.kind {
                self.flatten(inner, flat);
                continue;
            }
            match (self.constant_text(piece), flat.last_mut()) {
                (Some(text), Some(Piece::Text(before))) => before.push_str(&text),
                (Some(text), _) => flat.push(Piece::Text(text)),
                (None, _) => flat.push(Piece::Value(piece)),
            }
        }
    }

    fn push_text(&mut self, text: &str) -> Reg {
        let text = self.pool.string(text);
        let to = self.registers.temp();
        self.code.ax(Op::Text, to, text);
        to
    }

    /// Whether a conversion leaves the word as it is.
    pub(super) fn is_same_word(&self, conversion: Conversion, value: &Expr, to: TypeId) -> bool {
        match conversion {
            Conversion::Upcast => !matches!(value.kind, ExprKind::Null),
            Conversion::ToString => value.ty == known::STRING,
            Conversion::Number => self.number_conversion(value.ty, to).is_none(),
            _ => false,
        }
    }
}

/// A part of a concatenation.
enum Piece<'a> {
    Value(&'a Expr),
    Text(String),
}
