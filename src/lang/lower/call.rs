//! Calls: windows, arguments, outs; natives that are single instructions.
//!
//! ```text
//!            | a - 1  |  a   | a + 1 | …
//!  caller    | free   | args …        | temporaries of arguments yet to come
//!  callee    | return | its registers …
//!  afterwards|        |result| outs … |
//! ```
//!
//! Arguments are evaluated in the order of the tree, each into its place. Temporaries lie above the
//! places that are filled already, so they may lie on places that are not.

use super::builder::Reg;
use super::expr::Want;
use super::function::Lowering;
use super::registers::Mark;
use crate::lang::hir::{Arg, Callee, Conversion, Expr, ExprKind};
use crate::vm::module::FunctionKind;
use crate::vm::op::Op;
use crate::vm::types::{FunctionId, Param, Type, known};

/// A native function that is an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inlined {
    /// A value of one operand.
    Unary(Op),
    /// A value of two operands.
    Binary(Op),
    /// Without a value, of two operands.
    Effect2(Op),
    /// Without a value, of three operands.
    Effect3(Op),
}

impl Inlined {
    /// Whether it changes nothing, and throws at most for null, or may throw anything.
    pub(super) fn only_reads(self, may_throw: bool) -> bool {
        match self {
            Inlined::Unary(_) => true,
            Inlined::Binary(_) => may_throw,
            Inlined::Effect2(_) | Inlined::Effect3(_) => false,
        }
    }
}

impl<'a> Lowering<'a> {
    /// The instruction that does what a native function does, if there is one.
    pub(super) fn inlined(&self, native: u32) -> Option<Inlined> {
        let import = &self.pool.called[native as usize];
        let receiver = import.signature.params.first()?.ty;
        let elements = self.element_ops(receiver);
        Some(match (import.name.as_str(), elements) {
            ("Array.length", _) => Inlined::Unary(Op::ArrayLength),
            ("List.length", _) => Inlined::Unary(Op::ListLength),
            ("string.length", _) => Inlined::Unary(Op::TextLength),
            ("math.sqrt", _) => Inlined::Unary(Op::SqrtDouble),
            ("List.add", _) => Inlined::Effect2(Op::ListAdd),
            ("List.get", Some((get, _))) => Inlined::Binary(get),
            ("List.set", Some((_, set))) => Inlined::Effect3(set),
            _ => return None,
        })
    }

    /// Whether an expression is a call, not an instruction, and has a value.
    pub(super) fn is_real_call(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Call { callee: Callee::Native(native), .. } => {
                self.inlined(*native).is_none()
            }
            ExprKind::Call { .. } => expr.ty != known::VOID,
            ExprKind::Convert { conversion: Conversion::Upcast, value } => self.is_real_call(value),
            _ => false,
        }
    }

    /// The first register of a call's window, which is not taken yet; the one below is.
    pub(super) fn window(&mut self, want: Want) -> Reg {
        match want {
            Want::Window(window) if window == self.registers.top() => window,
            _ => {
                self.registers.temp();
                self.registers.top()
            }
        }
    }

    /// Takes the result of a call from its window.
    pub(super) fn take_result(&mut self, mark: Mark, window: Reg, want: Want) -> Reg {
        self.registers.reserve(window, 1);
        self.registers.release(mark);
        match want {
            Want::Any => {
                self.registers.cover(window);
                window
            }
            Want::Fresh(_) | Want::Window(_) | Want::Local(_) => self.in_place(window, want),
        }
    }

    pub(super) fn call(
        &mut self,
        expr: &'a Expr,
        callee: &'a Callee,
        args: &'a [Arg],
        want: Want,
    ) -> Reg {
        if let &Callee::Native(native) = callee
            && let Some(inlined) = self.inlined(native)
            && args.iter().enumerate().all(|(i, arg)| usize::from(arg.param) == i)
        {
            return self.inline_call(expr, inlined, args, want);
        }
        let mark = self.registers.mark();
        let function = match callee {
            Callee::Value(value) => {
                let later: Vec<&Expr> = args.iter().map(|arg| &arg.value).collect();
                Some(self.operand_before(value, &later))
            }
            _ => None,
        };
        let window = self.window(want);
        // A function value may be bound: its first place is for the receiver.
        let first = window + u16::from(function.is_some());
        self.args(window, first, args);
        let outs = self.outs(callee, args);
        self.registers.reserve(window, 1 + outs.len() as u32);
        self.line(expr.span);
        match callee {
            Callee::Direct(function) => self.call_direct(window, *function, args),
            Callee::Virtual(slot) => self.call_virtual(window, *slot, args),
            Callee::Interface(selector) => {
                self.code.ax(Op::CallInterface, window, selector.0);
            }
            Callee::Native(native) => {
                let native = self.pool.called(*native);
                self.code.ax(Op::CallNative, window, native);
            }
            Callee::Value(_) => {
                let function = function.expect("evaluated above");
                self.code.abc(Op::CallFunc, window, function, 0);
            }
        }
        for (arg, place) in outs {
            if let Some(local) = arg.out {
                self.code.copy(self.local(local), window + place);
            }
        }
        if expr.ty == known::VOID {
            self.registers.release(mark);
            return window;
        }
        self.take_result(mark, window, want)
    }

    /// Evaluates arguments into a window, parameter 0 at `first`.
    pub(super) fn args(&mut self, window: Reg, first: Reg, args: &'a [Arg]) {
        for arg in args {
            let slot = first + arg.param;
            if arg.is_default {
                self.windows.push(window);
            }
            // Nothing is in the window yet: a call inside can have it.
            let want = match slot == window && self.registers.top() == window {
                true => Want::Window(slot),
                false => Want::Fresh(slot),
            };
            let mark = self.registers.mark();
            self.eval(&arg.value, want);
            self.registers.release(mark);
            self.registers.cover(slot);
            if arg.is_default {
                self.windows.pop();
            }
        }
    }

    /// The `out` arguments, and where in the window their final values are.
    fn outs(&self, callee: &Callee, args: &'a [Arg]) -> Vec<(&'a Arg, Reg)> {
        if args.iter().all(|arg| arg.out.is_none()) {
            return Vec::new();
        }
        let params: &[Param] = match callee {
            Callee::Direct(function) => &self.functions[function.0 as usize].signature.params,
            Callee::Native(native) => &self.pool.called[*native as usize].signature.params,
            Callee::Value(value) => match self.ty(value.ty) {
                Type::Func(signature) => &signature.params,
                _ => &[],
            },
            // These have none.
            Callee::Virtual(_) | Callee::Interface(_) => &[],
        };
        let place = |arg: &Arg| {
            let before = params.iter().take(arg.param as usize);
            1 + before.filter(|param| param.out).count() as Reg
        };
        args.iter().filter(|arg| arg.out.is_some()).map(|arg| (arg, place(arg))).collect()
    }

    fn call_direct(&mut self, window: Reg, function: FunctionId, args: &[Arg]) {
        let callee = &self.functions[function.0 as usize];
        let receiver = args.iter().find(|arg| arg.param == 0);
        let checked = callee.kind == FunctionKind::Method
            && receiver.is_some_and(|receiver| {
                self.pool.types.is_reference(receiver.value.ty)
                    && !self.is_never_null(&receiver.value)
            });
        let op = if checked { Op::CallMethod } else { Op::Call };
        self.code.ax(op, window, function.0);
    }

    fn call_virtual(&mut self, window: Reg, slot: u16, args: &[Arg]) {
        let receiver = args.iter().find(|arg| arg.param == 0);
        let class = receiver.and_then(|receiver| self.pool.class_of(receiver.value.ty));
        match class.and_then(|class| self.pool.only_method(class, slot)) {
            Some(function) => self.call_direct(window, function, args),
            None => self.code.abc(Op::CallVirtual, window, slot, 0),
        }
    }

    /// Whether a reference is an object for certain.
    fn is_never_null(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Local(local) => self.is_this(*local),
            ExprKind::New { .. } => true,
            ExprKind::Convert { conversion: Conversion::Upcast, value } => {
                self.is_never_null(value)
            }
            _ => false,
        }
    }

    fn inline_call(
        &mut self,
        expr: &'a Expr,
        inlined: Inlined,
        args: &'a [Arg],
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        let mut operands = [0; 3];
        for (i, arg) in args.iter().enumerate() {
            let later: Vec<&Expr> = args[i + 1..].iter().map(|arg| &arg.value).collect();
            operands[i] = self.operand_before(&arg.value, &later);
        }
        let [first, second, third] = operands;
        let to = match inlined {
            Inlined::Unary(_) | Inlined::Binary(_) => self.destination(mark, want),
            Inlined::Effect2(_) | Inlined::Effect3(_) => {
                self.registers.release(mark);
                first
            }
        };
        self.line(expr.span);
        match inlined {
            Inlined::Unary(op) => self.code.abc(op, to, first, 0),
            Inlined::Binary(op) => self.code.abc(op, to, first, second),
            Inlined::Effect2(op) => self.code.abc(op, first, second, 0),
            Inlined::Effect3(op) => self.code.abc(op, first, second, third),
        }
        to
    }
}
