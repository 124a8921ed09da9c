//! Which registers of a function are taken.
//!
//! Registers below `top` are taken, by variables in scope first and by temporaries of the expression
//! at hand above them; an expression gives its temporaries back all at once. A register below `top`
//! that a call needed for its return address, and that a variable with the call's result now stands
//! above, is a hole: the next variable takes it.

use super::builder::Reg;

/// How many registers a function may have.
pub(super) const LIMIT: u32 = 65_535;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Registers {
    top: u32,
    most: u32,
    holes: Vec<Reg>,
}

/// Where an expression or a scope began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u32);

/// What was taken when a scope began.
#[derive(Debug)]
pub(super) struct Scope {
    top: u32,
    holes: Vec<Reg>,
}

impl Registers {
    /// How many registers the function needs; more than [`LIMIT`] is for the caller to report.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// The lowest register above all that are taken.
    pub(super) fn top(&self) -> Reg {
        self.top.min(LIMIT - 1) as Reg
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.top)
    }

    /// Gives back what was taken since a mark.
    pub(super) fn release(&mut self, mark: Mark) {
        self.top = mark.0;
    }

    /// Takes the next register.
    pub(super) fn temp(&mut self) -> Reg {
        let reg = self.top();
        self.top += 1;
        self.most = self.most.max(self.top);
        reg
    }

    /// Takes everything up to a register.
    pub(super) fn cover(&mut self, reg: Reg) {
        self.top = self.top.max(u32::from(reg) + 1);
        self.most = self.most.max(self.top);
    }

    /// Sees to it that a call's window fits into the frame.
    pub(super) fn reserve(&mut self, first: Reg, count: u32) {
        self.most = self.most.max(u32::from(first) + count);
    }

    /// Takes a register for a variable.
    pub(super) fn variable(&mut self) -> Reg {
        match self.holes.pop() {
            Some(hole) => hole,
            None => self.temp(),
        }
    }

    /// Leaves a register that lies below a variable to the next one.
    pub(super) fn leave_hole(&mut self, reg: Reg) {
        self.holes.push(reg);
    }

    pub(super) fn enter(&self) -> Scope {
        Scope { top: self.top, holes: self.holes.clone() }
    }

    /// Gives back all variables of a scope.
    pub(super) fn leave(&mut self, scope: Scope) {
        self.top = scope.top;
        self.holes = scope.holes;
    }
}
