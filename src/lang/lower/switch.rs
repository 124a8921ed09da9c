//! `switch`: a table where the labels are constants close to one another, else tests in order.

use super::builder::{Label, Reg, Table};
use super::convert::Number;
use super::function::Lowering;
use super::tries::Exit;
use crate::lang::hir::{Case, Expr, Stmt};
use crate::vm::op::Op;
use crate::vm::types::TypeId;

/// From how many labels on a table pays.
const FEWEST: usize = 4;

/// How many places a table may have for each label.
const SPARSEST: i128 = 4;

impl<'a> Lowering<'a> {
    pub(super) fn switch_statement(
        &mut self,
        value: &'a Expr,
        cases: &'a [Case],
        default: Option<&'a [Stmt]>,
    ) {
        let ty = value.ty;
        let mark = self.registers.mark();
        let labels: Vec<&Expr> = cases.iter().flat_map(|case| &case.labels).collect();
        let value = self.operand_before(value, &labels);
        let end = self.new_label();
        let targets: Vec<Label> = cases.iter().map(|_| self.new_label()).collect();
        let otherwise = if default.is_some() { self.new_label() } else { end };
        match self.table(ty, cases, &targets, otherwise) {
            Some(table) => self.jump_by_table(value, ty, table),
            None => {
                for (case, &target) in cases.iter().zip(&targets) {
                    for label in &case.labels {
                        self.line(label.span);
                        self.branch_on_equal(value, ty, label, target);
                    }
                }
                self.code.goto(otherwise);
            }
        }
        // The value is not needed any more.
        self.registers.release(mark);
        self.exits.push(Exit::Switch { end });
        for (case, &target) in cases.iter().zip(&targets) {
            self.code.bind(target);
            self.block(&case.body);
            self.code.goto(end);
        }
        if let Some(body) = default {
            self.code.bind(otherwise);
            self.block(body);
        }
        self.exits.pop();
        self.code.bind(end);
    }

    /// The table for labels that are dense enough.
    fn table(
        &self,
        ty: TypeId,
        cases: &[Case],
        targets: &[Label],
        default: Label,
    ) -> Option<Table> {
        let number = Number::of(self.ty(ty))?;
        if matches!(number, Number::F32 | Number::F64) {
            return None;
        }
        let mut values: Vec<(i128, Label)> = Vec::new();
        for (case, &target) in cases.iter().zip(targets) {
            for label in &case.labels {
                values.push((number.value(self.constant(label)?), target));
            }
        }
        let first = values.iter().map(|&(value, _)| value).min()?;
        let last = values.iter().map(|&(value, _)| value).max()?;
        if values.len() < FEWEST || last - first >= values.len() as i128 * SPARSEST {
            return None;
        }
        let mut table = Table { first: first as i64, targets: Vec::new(), default };
        table.targets.resize((last - first) as usize + 1, default);
        // The first of equal labels counts.
        for (value, target) in values.into_iter().rev() {
            table.targets[(value - first) as usize] = target;
        }
        Some(table)
    }

    fn jump_by_table(&mut self, value: Reg, ty: TypeId, table: Table) {
        let mark = self.registers.mark();
        let signed = Number::of(self.ty(ty)).is_some_and(Number::is_signed_32);
        // A table's distance is taken between 64 bits; without labels below zero, a negative `int`
        // is far beyond the end even as it lies there.
        let value = if signed && table.first < 0 {
            let long = self.registers.temp();
            self.code.abc(Op::IntToLong, long, value, 0);
            long
        } else {
            value
        };
        self.code.switch(value, table);
        self.registers.release(mark);
    }
}
