//! From one instruction to the next.
//!
//! Every handler is written once, as an inlined function over a [`State`]. This module makes a
//! dispatch of them in one of two shapes:
//!
//! * **a loop** around one `match`, in builds without optimisation and with sanitizers;
//! * **threaded code**: one function per operation, with the state in the argument registers, that ends
//!   in a call of the next one through a table. In optimised builds that call is a jump: the compiler
//!   turns a call in tail position into one where caller and callee agree on convention and stack
//!   arguments, nothing is left to drop and no address of a local has been taken. All of that holds
//!   for the functions here: their locals are the fields of a `State`, which are `Copy` and end in
//!   registers.
//!
//! The optimisation is not promised by the language, so nothing unsafe may depend on it: were it
//! missing, the native stack would grow and meet its guard page. `build.rs` chooses the shape, and a
//! test runs millions of instructions of every kind on a small stack.

use super::Machine;
use super::arithmetic::*;
use super::calls::*;
use super::jumps::*;
use super::objects::*;
use super::state::Slow;
use super::state::{Flow, State, Step};
use crate::vm::op::{Op, for_each_op};

/// The operation behind the last of the list: returns from the dispatch. It stands only in the stub
/// that the lowest frame of a run returns to.
pub(super) const EXIT: u16 = Op::ALL.len() as u16;

/// Runs the machine's current thread from the state in the machine, until something returns
/// [`Step::Exit`].
///
/// # Safety
///
/// The state in the machine is that of a thread between two instructions of verified code.
pub(super) unsafe fn run(machine: *mut Machine) {
    // SAFETY: the caller's promise.
    unsafe { shape::run(machine) }
}

#[cfg(not(pirn_threaded))]
mod shape {
    use super::*;

    pub(super) unsafe fn run(machine: *mut Machine) {
        // SAFETY: the caller's promise; each handler keeps the state's invariants.
        unsafe {
            let mut s = load(machine);
            loop {
                let flow = step(&mut s);
                if let Flow::Slow(slow) = flow {
                    if leave(s, slow) == Step::Exit {
                        return;
                    }
                    s = load(machine);
                }
            }
        }
    }

    macro_rules! by_match {
        ($($name:ident)*) => {
            #[inline(always)]
            #[allow(non_upper_case_globals)]
            unsafe fn step(s: &mut State) -> Flow {
                $(const $name: u16 = Op::$name as u16;)*
                // SAFETY: the state's invariants.
                unsafe {
                    match (*s.pc).number() {
                        $($name => super::$name(s),)*
                        // Verified code has the operations of the list only, apart from the stub's.
                        _ => Flow::Slow(super::super::finished),
                    }
                }
            }
        };
    }
    for_each_op!(by_match);
}

#[cfg(pirn_threaded)]
mod shape {
    use std::mem::MaybeUninit;

    use super::*;
    use crate::vm::op::Code;

    /// A handler with the state in registers.
    type Threaded = unsafe extern "C-unwind" fn(
        *const Code,
        *mut u64,
        *mut Machine,
        isize,
        *const Table,
        Address,
    ) -> Step;

    /// The address of a slow path, for [`slowly`]; nothing for handlers. It is there so that all
    /// have the same arguments, and costs nothing where it is not set.
    type Address = MaybeUninit<*const ()>;

    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub(super) struct Table(Threaded);

    pub(super) unsafe fn run(machine: *mut Machine) {
        // SAFETY: the caller's promise.
        unsafe {
            let s = load(machine);
            next(s, TABLE.as_ptr());
        }
    }

    #[inline(always)]
    unsafe fn next(s: State, table: *const Table) -> Step {
        // SAFETY: `pc` is at an instruction, whose number is one of the table's.
        unsafe {
            let handler = (*table.add(usize::from((*s.pc).number()))).0;
            handler(s.pc, s.base, s.cx, s.budget, table, Address::uninit())
        }
    }

    /// Runs a slow path, whose address is the last argument, and goes on.
    #[inline(never)]
    unsafe extern "C-unwind" fn slowly(
        pc: *const Code,
        base: *mut u64,
        cx: *mut Machine,
        budget: isize,
        table: *const Table,
        slow: Address,
    ) -> Step {
        // SAFETY: only the handlers below call this, with the address of a slow path; each keeps the
        // state's invariants.
        unsafe {
            let slow = std::mem::transmute::<*const (), Slow>(slow.assume_init());
            if leave(State { pc, base, cx, budget }, slow) == Step::Exit {
                return Step::Exit;
            }
            next(load(cx), table)
        }
    }

    macro_rules! by_table {
        ($($name:ident)*) => {
            #[allow(non_snake_case)]
            mod threaded {
                use super::*;
                $(
                    pub(super) unsafe extern "C-unwind" fn $name(
                        pc: *const Code,
                        base: *mut u64,
                        cx: *mut Machine,
                        budget: isize,
                        table: *const Table,
                        _: Address,
                    ) -> Step {
                        let mut s = State { pc, base, cx, budget };
                        // SAFETY: the state's invariants.
                        unsafe {
                            match super::super::$name(&mut s) {
                                Flow::Next => next(s, table),
                                Flow::Slow(slow) => {
                                    slowly(s.pc, s.base, s.cx, s.budget, table, Address::new(slow as *const ()))
                                }
                            }
                        }
                    }
                )*
                pub(super) unsafe extern "C-unwind" fn exit(
                    pc: *const Code,
                    base: *mut u64,
                    cx: *mut Machine,
                    budget: isize,
                    table: *const Table,
                    _: Address,
                ) -> Step {
                    // SAFETY: the state's invariants.
                    unsafe { slowly(pc, base, cx, budget, table, Address::new(super::super::super::finished as *const ())) }
                }
            }
            static TABLE: [Table; Op::ALL.len() + 1] =
                [$(Table(threaded::$name),)* Table(threaded::exit)];
        };
    }
    for_each_op!(by_table);
}

/// The state that a slow path left in the machine.
#[inline(always)]
unsafe fn load(cx: *mut Machine) -> State {
    // SAFETY: the machine is alive.
    unsafe { State { pc: (*cx).pc, base: (*cx).base, cx, budget: (*cx).budget } }
}

/// Puts the state into the machine and runs a slow path.
#[inline(always)]
unsafe fn leave(s: State, slow: Slow) -> Step {
    // SAFETY: the machine is alive, and no other Rust reference to it.
    unsafe {
        let machine = &mut *s.cx;
        machine.pc = s.pc;
        machine.base = s.base;
        machine.budget = s.budget;
        slow(machine)
    }
}
