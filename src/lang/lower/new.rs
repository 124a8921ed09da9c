//! New objects, arrays and containers with what is in them.

use super::builder::Reg;
use super::expr::Want;
use super::function::Lowering;
use crate::lang::hir::{Arg, Expr};
use crate::vm::op::Op;
use crate::vm::types::{ClassId, FunctionId, Type, known};

impl<'a> Lowering<'a> {
    pub(super) fn new_object(
        &mut self,
        expr: &'a Expr,
        class: ClassId,
        constructor: Option<FunctionId>,
        args: &'a [Arg],
        fields: &'a [(u16, Expr)],
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        if constructor.is_none() && fields.is_empty() {
            let to = self.destination(mark, want);
            self.line(expr.span);
            self.code.ax(Op::New, to, class.0);
            return to;
        }
        let object = self.early_destination(want);
        self.code.ax(Op::New, object, class.0);
        if let Some(constructor) = constructor {
            let inner = self.registers.mark();
            let window = self.window(Want::Any);
            self.registers.cover(window);
            self.code.copy(window, object);
            self.args(window, window, args);
            self.line(expr.span);
            self.code.ax(Op::Call, window, constructor.0);
            self.registers.release(inner);
        }
        for (field, value) in fields {
            let inner = self.registers.mark();
            let value = self.operand(value);
            self.code.abc(Op::SetField, object, *field, value);
            self.registers.release(inner);
        }
        self.settle(mark, object, want)
    }

    pub(super) fn new_array(&mut self, expr: &'a Expr, length: &'a Expr, want: Want) -> Reg {
        let mark = self.registers.mark();
        let ty = self.type16(expr.ty);
        let length = self.operand_as_long(length);
        let to = self.destination(mark, want);
        self.line(expr.span);
        self.code.abc(Op::NewArray, to, length, ty);
        to
    }

    /// An array or list with elements.
    pub(super) fn elements(&mut self, expr: &'a Expr, values: &'a [Expr], want: Want) -> Reg {
        let mark = self.registers.mark();
        let object = self.early_destination(want);
        let is_array = matches!(self.ty(expr.ty), Type::Array(_));
        if is_array {
            let ty = self.type16(expr.ty);
            let inner = self.registers.mark();
            let length = self.registers.temp();
            self.load(values.len() as u64, length);
            self.registers.release(inner);
            self.line(expr.span);
            self.code.abc(Op::NewArray, object, length, ty);
        } else {
            self.code.ax(Op::NewContainer, object, expr.ty.0);
        }
        let write = self.element_ops(expr.ty).map_or(Op::ListAdd, |(_, write)| write);
        for (index, value) in values.iter().enumerate() {
            let inner = self.registers.mark();
            let value = self.operand(value);
            if is_array {
                let at = self.registers.temp();
                self.load(index as u64, at);
                self.code.abc(write, object, at, value);
            } else {
                self.code.abc(Op::ListAdd, object, value, 0);
            }
            self.registers.release(inner);
        }
        self.settle(mark, object, want)
    }

    /// A dictionary with entries.
    pub(super) fn entries(
        &mut self,
        expr: &'a Expr,
        entries: &'a [(Expr, Expr)],
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        let object = self.early_destination(want);
        self.code.ax(Op::NewContainer, object, expr.ty.0);
        let Type::Dict(key, value) = *self.ty(expr.ty) else {
            panic!("`{}` has no entries", self.pool.types.name(expr.ty))
        };
        let set = self.pool.native("Dict.set", expr.ty, &[key, value], known::VOID);
        for (key, value) in entries {
            let inner = self.registers.mark();
            let window = self.window(Want::Any);
            self.registers.cover(window);
            self.code.copy(window, object);
            self.push(key);
            self.push(value);
            self.code.ax(Op::CallNative, window, set);
            self.registers.release(inner);
        }
        self.settle(mark, object, want)
    }
}
