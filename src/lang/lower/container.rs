//! Elements of arrays, lists, dictionaries and strings.

use super::builder::Reg;
use super::expr::Want;
use super::function::{Lowering, Target};
use crate::lang::hir::Expr;
use crate::vm::op::Op;
use crate::vm::types::{Type, TypeId, known};

/// Reading and writing an element: how it lies in an array or list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    I8,
    U8,
    I16,
    U16,
    W32,
    W64,
}

impl Width {
    pub(super) fn of(ty: &Type) -> Width {
        match ty {
            Type::Byte => Width::I8,
            Type::Bool | Type::Ubyte => Width::U8,
            Type::Short => Width::I16,
            Type::Ushort => Width::U16,
            Type::Int | Type::Uint | Type::Float | Type::Char | Type::Enum(_) => Width::W32,
            _ => Width::W64,
        }
    }

    pub(super) fn array_get(self) -> Op {
        match self {
            Width::I8 => Op::ArrayGetI8,
            Width::U8 => Op::ArrayGetU8,
            Width::I16 => Op::ArrayGetI16,
            Width::U16 => Op::ArrayGetU16,
            Width::W32 => Op::ArrayGet32,
            Width::W64 => Op::ArrayGet64,
        }
    }

    fn array_set(self) -> Op {
        match self {
            Width::I8 | Width::U8 => Op::ArraySet8,
            Width::I16 | Width::U16 => Op::ArraySet16,
            Width::W32 => Op::ArraySet32,
            Width::W64 => Op::ArraySet64,
        }
    }

    pub(super) fn list_get(self) -> Op {
        match self {
            Width::I8 => Op::ListGetI8,
            Width::U8 => Op::ListGetU8,
            Width::I16 => Op::ListGetI16,
            Width::U16 => Op::ListGetU16,
            Width::W32 => Op::ListGet32,
            Width::W64 => Op::ListGet64,
        }
    }

    fn list_set(self) -> Op {
        match self {
            Width::I8 | Width::U8 => Op::ListSet8,
            Width::I16 | Width::U16 => Op::ListSet16,
            Width::W32 => Op::ListSet32,
            Width::W64 => Op::ListSet64,
        }
    }
}

impl<'a> Lowering<'a> {
    /// The instructions that read and write an element of an array or list type.
    pub(super) fn element_ops(&self, ty: TypeId) -> Option<(Op, Op)> {
        match *self.ty(ty) {
            Type::Array(element) => {
                let width = Width::of(self.ty(element));
                Some((width.array_get(), width.array_set()))
            }
            Type::List(element) => {
                let width = Width::of(self.ty(element));
                Some((width.list_get(), width.list_set()))
            }
            _ => None,
        }
    }

    fn dict(&self, ty: TypeId) -> (TypeId, TypeId) {
        match *self.ty(ty) {
            Type::Dict(key, value) => (key, value),
            _ => panic!("`{}` has no elements", self.pool.types.name(ty)),
        }
    }

    /// Reads an element.
    pub(super) fn element(
        &mut self,
        expr: &'a Expr,
        base: &'a Expr,
        index: &'a Expr,
        want: Want,
    ) -> Reg {
        let mark = self.registers.mark();
        let read = match self.ty(base.ty) {
            Type::String => Some(Op::TextByte),
            _ => self.element_ops(base.ty).map(|(read, _)| read),
        };
        if let Some(read) = read {
            let base = self.operand_before(base, &[index]);
            let index = self.operand(index);
            let to = self.destination(mark, want);
            self.line(expr.span);
            self.code.abc(read, to, base, index);
            return to;
        }
        let (key, value) = self.dict(base.ty);
        let native = self.pool.native("Dict.get", base.ty, &[key], value);
        let window = self.window(want);
        self.eval(base, Want::Window(window));
        self.registers.cover(window);
        self.push(index);
        self.line(expr.span);
        self.code.ax(Op::CallNative, window, native);
        self.take_result(mark, window, want)
    }

    /// Reads an element of a base and an index in registers.
    pub(super) fn read_element(&mut self, ty: TypeId, base: Reg, index: Reg, want: Want) -> Reg {
        let mark = self.registers.mark();
        if let Some((read, _)) = self.element_ops(ty) {
            let to = self.destination(mark, want);
            self.code.abc(read, to, base, index);
            return to;
        }
        let (key, value) = self.dict(ty);
        let native = self.pool.native("Dict.get", ty, &[key], value);
        let window = self.window(want);
        self.push_copies(window, &[base, index]);
        self.code.ax(Op::CallNative, window, native);
        self.take_result(mark, window, want)
    }

    /// Copies registers into a window.
    fn push_copies(&mut self, window: Reg, values: &[Reg]) {
        for (slot, &value) in (window..).zip(values) {
            self.registers.cover(slot);
            self.code.copy(slot, value);
        }
    }

    /// Assigns to an element.
    pub(super) fn assign_element(&mut self, base: &'a Expr, index: &'a Expr, value: &'a Expr) {
        let ty = base.ty;
        if let Some((_, write)) = self.element_ops(ty) {
            let span = base.span;
            let base = self.operand_before(base, &[index, value]);
            let index = self.operand_before(index, &[value]);
            self.place = Some(Target::Index { base, index, ty });
            let value = self.operand(value);
            self.line(span);
            self.code.abc(write, base, index, value);
            return;
        }
        // The place of a compound assignment is used twice: the call's window, where reading it
        // would put the old value, is then only filled afterwards.
        let (key, element) = self.dict(ty);
        let native = self.pool.native("Dict.set", ty, &[key, element], known::VOID);
        let span = base.span;
        let base = self.operand_before(base, &[index, value]);
        let index = self.operand_before(index, &[value]);
        self.place = Some(Target::Index { base, index, ty });
        let window = self.window(Want::Any);
        self.registers.cover(window + 1);
        self.push(value);
        self.code.copy(window, base);
        self.code.copy(window + 1, index);
        self.line(span);
        self.code.ax(Op::CallNative, window, native);
    }
}
