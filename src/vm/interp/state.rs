//! What the handlers of instructions work on: the virtual machine's registers, held in those of the
//! processor, and the fields of the current instruction.

use super::Machine;
use crate::vm::native::Word;
use crate::vm::op::Code;

/// Where a thread stands, as the handlers pass it on.
///
/// # Invariants
///
/// While a handler runs, `pc` is at the instruction that it executes, in the code of a verified
/// function; `base` is the frame of that function in the current thread's segment, with all its
/// registers below the segment's end; `cx` is the machine, of which no Rust reference is alive
/// outside the slow paths.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) pc: *const Code,
    pub(super) base: *mut Word,
    pub(super) cx: *mut Machine,
    /// Back-edges and calls left before the slow path looks whether there is something to do.
    pub(super) budget: isize,
}

/// How a handler goes on.
pub(super) enum Flow {
    /// With the instruction at `pc`.
    Next,
    /// With a function outside the hot code.
    Slow(Slow),
}

/// What happens outside the hot code. The state is in the machine, with `pc` at the instruction, and
/// is read from there afterwards.
pub(super) type Slow = unsafe fn(&mut Machine) -> Step;

/// How the hot code goes on after a slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Step {
    /// With the machine's state.
    Continue = 0,
    /// By returning to the caller of the dispatch: [`Machine::exit`](super::Machine) says why.
    Exit = 1,
}

impl State {
    /// Field `a` of the instruction.
    #[inline(always)]
    pub(super) unsafe fn a(&self) -> usize {
        // SAFETY: `pc` is at an instruction; its fields lie at these offsets in little-endian order,
        // which all supported targets have.
        unsafe { usize::from(*self.pc.cast::<u16>().add(1)) }
    }

    /// Field `b`.
    #[inline(always)]
    pub(super) unsafe fn b(&self) -> usize {
        // SAFETY: as for `a`.
        unsafe { usize::from(*self.pc.cast::<u16>().add(2)) }
    }

    /// Field `c`.
    #[inline(always)]
    pub(super) unsafe fn c(&self) -> usize {
        // SAFETY: as for `a`.
        unsafe { usize::from(*self.pc.cast::<u16>().add(3)) }
    }

    /// Field `b` as a signed constant.
    #[inline(always)]
    pub(super) unsafe fn b_signed(&self) -> i16 {
        // SAFETY: as for `a`.
        unsafe { *self.pc.cast::<i16>().add(2) }
    }

    /// Field `c` as a signed constant.
    #[inline(always)]
    pub(super) unsafe fn c_signed(&self) -> i16 {
        // SAFETY: as for `a`.
        unsafe { *self.pc.cast::<i16>().add(3) }
    }

    /// Field `x`.
    #[inline(always)]
    pub(super) unsafe fn x(&self) -> u32 {
        // SAFETY: as for `a`.
        unsafe { *self.pc.cast::<u32>().add(1) }
    }

    /// Field `x` as a signed constant.
    #[inline(always)]
    pub(super) unsafe fn x_signed(&self) -> i32 {
        // SAFETY: as for `a`.
        unsafe { *self.pc.cast::<i32>().add(1) }
    }

    /// Reads a register.
    #[inline(always)]
    pub(super) unsafe fn get(&self, register: usize) -> Word {
        // SAFETY: the verifier has seen that the register is one of the frame.
        unsafe { *self.base.add(register) }
    }

    /// Writes a register.
    #[inline(always)]
    pub(super) unsafe fn set(&mut self, register: usize, word: Word) {
        // SAFETY: as for `get`.
        unsafe { *self.base.add(register) = word }
    }

    /// Goes to the next instruction.
    #[inline(always)]
    pub(super) unsafe fn advance(&mut self) -> Flow {
        // SAFETY: verified code does not end with an instruction that goes on.
        self.pc = unsafe { self.pc.add(1) };
        Flow::Next
    }

    /// Goes to the instruction at a distance from the next one.
    #[inline(always)]
    pub(super) unsafe fn jump(&mut self, distance: isize) -> Flow {
        // SAFETY: the verifier has seen that the target is an instruction of the function.
        self.pc = unsafe { self.pc.offset(1 + distance) };
        Flow::Next
    }
}
