//! Handlers: jumps within a function. Backward ones count.

// A comparison with NaN is false, and so is not the same as the negated opposite.
#![allow(clippy::neg_cmp_op_on_partial_ord)]

use super::state::{Flow, Slow, State};
use super::{raise, tick};
use crate::vm::heap::object;

/// Forward jumps on a condition over two registers, distance in `c`.
macro_rules! jump_registers {
    ($($name:ident($a:ident, $b:ident: $from:expr) = $cond:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $a = $from(s.get(s.a()));
                let $b = $from(s.get(s.b()));
                if $cond { s.jump(s.c_signed() as isize) } else { s.advance() }
            }
        }
    )*};
}

/// Forward jumps on a register against the constant `b`, distance in `c`.
macro_rules! jump_constant {
    ($($name:ident($a:ident, $k:ident: $t:ty) = $cond:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $a = s.get(s.a()) as $t;
                let $k = <$t>::from(s.b_signed());
                if $cond { s.jump(s.c_signed() as isize) } else { s.advance() }
            }
        }
    )*};
}

/// Forward jumps on one register, distance in `x`.
macro_rules! jump_one {
    ($($name:ident($a:ident) = $cond:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $a = s.get(s.a());
                if $cond { s.jump(s.x_signed() as isize) } else { s.advance() }
            }
        }
    )*};
}

/// Goes back, if the budget allows: else the slow path first, then this instruction again.
macro_rules! back {
    ($s:ident, $distance:expr) => {{
        $s.budget -= 1;
        if $s.budget < 0 {
            return Flow::Slow(tick);
        }
        $s.jump($distance as isize)
    }};
}

macro_rules! loop_registers {
    ($($name:ident($a:ident, $b:ident: $t:ty) = $cond:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $a = s.get(s.a()) as $t;
                let $b = s.get(s.b()) as $t;
                if $cond { back!(s, s.c_signed()) } else { s.advance() }
            }
        }
    )*};
}

macro_rules! loop_constant {
    ($($name:ident($a:ident, $k:ident: $t:ty) = $cond:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $a = s.get(s.a()) as $t;
                let $k = <$t>::from(s.b_signed());
                if $cond { back!(s, s.c_signed()) } else { s.advance() }
            }
        }
    )*};
}

/// Counts the register up (or down), then goes back on a condition.
macro_rules! loop_count {
    ($($name:ident($s:ident, $a:ident: $t:ty as $unsigned:ty, $step:literal, $limit:ident = $read:expr)
        = $cond:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name($s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let register = $s.a();
                let $a = ($s.get(register) as $t).wrapping_add($step);
                let $limit: $t = $read;
                if $cond {
                    $s.budget -= 1;
                    if $s.budget < 0 {
                        return Flow::Slow(tick);
                    }
                    $s.set(register, u64::from($a as $unsigned));
                    $s.jump($s.c_signed() as isize)
                } else {
                    $s.set(register, u64::from($a as $unsigned));
                    $s.advance()
                }
            }
        }
    )*};
}

/// Counts the register up, then goes back if it is below the length of what is in `b`.
macro_rules! loop_length {
    ($($name:ident($container:ident) = $length:expr, null: $null:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the verifier has seen that `b` holds null or what has such a length.
            unsafe {
                let register = s.a();
                let count = (s.get(register) as i32).wrapping_add(1);
                let $container = s.get(s.b());
                if let (0, Some(null)) = ($container, $null) {
                    s.set(register, u64::from(count as u32));
                    return Flow::Slow(null);
                }
                if count < $length as i32 {
                    s.budget -= 1;
                    if s.budget < 0 {
                        return Flow::Slow(tick);
                    }
                    s.set(register, u64::from(count as u32));
                    s.jump(s.c_signed() as isize)
                } else {
                    s.set(register, u64::from(count as u32));
                    s.advance()
                }
            }
        }
    )*};
}

#[inline(always)]
fn int(word: u64) -> i32 {
    word as i32
}

#[inline(always)]
fn long(word: u64) -> i64 {
    word as i64
}

#[inline(always)]
fn ulong(word: u64) -> u64 {
    word
}

#[inline(always)]
pub(super) unsafe fn Jump(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe { s.jump(s.x_signed() as isize) }
}

jump_one! {
    JumpIf(a) = a as u8 != 0;
    JumpIfNot(a) = a as u8 == 0;
    JumpNull(a) = a == 0;
    JumpNotNull(a) = a != 0;
}

jump_registers! {
    JumpEq(a, b: ulong) = a == b;
    JumpNe(a, b: ulong) = a != b;
    JumpEqRef(a, b: ulong) = a == b;
    JumpNeRef(a, b: ulong) = a != b;
    JumpEqDouble(a, b: f64::from_bits) = a == b;
    JumpNeDouble(a, b: f64::from_bits) = a != b;
    JumpLtInt(a, b: int) = a < b;
    JumpLeInt(a, b: int) = a <= b;
    JumpLtLong(a, b: long) = a < b;
    JumpLeLong(a, b: long) = a <= b;
    JumpLtUlong(a, b: ulong) = a < b;
    JumpLeUlong(a, b: ulong) = a <= b;
    JumpLtDouble(a, b: f64::from_bits) = a < b;
    JumpLeDouble(a, b: f64::from_bits) = a <= b;
    JumpNotLtDouble(a, b: f64::from_bits) = !(a < b);
    JumpNotLeDouble(a, b: f64::from_bits) = !(a <= b);
}

jump_constant! {
    JumpEqIntK(a, k: i32) = a == k;
    JumpNeIntK(a, k: i32) = a != k;
    JumpLtIntK(a, k: i32) = a < k;
    JumpLeIntK(a, k: i32) = a <= k;
    JumpGtIntK(a, k: i32) = a > k;
    JumpGeIntK(a, k: i32) = a >= k;
    JumpEqLongK(a, k: i64) = a == k;
    JumpNeLongK(a, k: i64) = a != k;
    JumpLtLongK(a, k: i64) = a < k;
    JumpLeLongK(a, k: i64) = a <= k;
    JumpGtLongK(a, k: i64) = a > k;
    JumpGeLongK(a, k: i64) = a >= k;
}

#[inline(always)]
pub(super) unsafe fn Loop(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe { back!(s, s.x_signed()) }
}

#[inline(always)]
pub(super) unsafe fn LoopIf(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe { if s.get(s.a()) as u8 != 0 { back!(s, s.x_signed()) } else { s.advance() } }
}

#[inline(always)]
pub(super) unsafe fn LoopIfNot(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe { if s.get(s.a()) as u8 == 0 { back!(s, s.x_signed()) } else { s.advance() } }
}

#[inline(always)]
pub(super) unsafe fn LoopNotNull(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe { if s.get(s.a()) != 0 { back!(s, s.x_signed()) } else { s.advance() } }
}

#[inline(always)]
pub(super) unsafe fn LoopLtDouble(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        let less = f64::from_bits(s.get(s.a())) < f64::from_bits(s.get(s.b()));
        if less { back!(s, s.c_signed()) } else { s.advance() }
    }
}

#[inline(always)]
pub(super) unsafe fn LoopLeDouble(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        let less = f64::from_bits(s.get(s.a())) <= f64::from_bits(s.get(s.b()));
        if less { back!(s, s.c_signed()) } else { s.advance() }
    }
}

loop_registers! {
    LoopLtInt(a, b: i32) = a < b;
    LoopLeInt(a, b: i32) = a <= b;
    LoopLtLong(a, b: i64) = a < b;
    LoopLeLong(a, b: i64) = a <= b;
    LoopNe(a, b: u64) = a != b;
}

loop_constant! {
    LoopLtIntK(a, k: i32) = a < k;
    LoopLeIntK(a, k: i32) = a <= k;
    LoopGtIntK(a, k: i32) = a > k;
    LoopGeIntK(a, k: i32) = a >= k;
    LoopNeIntK(a, k: i32) = a != k;
    LoopNeLongK(a, k: i64) = a != k;
    LoopLtLongK(a, k: i64) = a < k;
    LoopLeLongK(a, k: i64) = a <= k;
    LoopGtLongK(a, k: i64) = a > k;
    LoopGeLongK(a, k: i64) = a >= k;
}

loop_count! {
    LoopIncLtInt(s, a: i32 as u32, 1, limit = s.get(s.b()) as i32) = a < limit;
    LoopIncLeInt(s, a: i32 as u32, 1, limit = s.get(s.b()) as i32) = a <= limit;
    LoopIncLtIntK(s, a: i32 as u32, 1, limit = i32::from(s.b_signed())) = a < limit;
    LoopIncLeIntK(s, a: i32 as u32, 1, limit = i32::from(s.b_signed())) = a <= limit;
    LoopDecGeIntK(s, a: i32 as u32, -1, limit = i32::from(s.b_signed())) = a >= limit;
    LoopIncLtLong(s, a: i64 as u64, 1, limit = s.get(s.b()) as i64) = a < limit;
    LoopIncLtLongK(s, a: i64 as u64, 1, limit = i64::from(s.b_signed())) = a < limit;
}

loop_length! {
    LoopIncLtArray(array) = object::array_length(array), null: Some(raise::null_array as Slow);
    LoopIncLtList(list) = object::list_length(list), null: Some(raise::null_list as Slow);
    LoopIncLtText(text) = object::string_length(text), null: None::<Slow>;
}
