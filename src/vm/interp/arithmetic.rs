//! Handlers: moves, constants, arithmetic, conversions, comparisons.

use super::raise;
use super::state::{Flow, State};
use crate::vm::native::Word;

/// How a type of the language lies in a word.
trait Canonical: Copy {
    fn from_word(word: Word) -> Self;
    fn into_word(self) -> Word;
}

macro_rules! canonical {
    ($($ty:ty: |$word:ident| $from:expr, |$value:ident| $into:expr;)*) => {$(
        impl Canonical for $ty {
            #[inline(always)]
            fn from_word($word: Word) -> $ty { $from }
            #[inline(always)]
            fn into_word(self) -> Word { let $value = self; $into }
        }
    )*};
}

canonical! {
    i8: |w| w as i8, |v| Word::from(v as i32 as u32);
    u8: |w| w as u8, |v| Word::from(v);
    i16: |w| w as i16, |v| Word::from(v as i32 as u32);
    u16: |w| w as u16, |v| Word::from(v);
    i32: |w| w as i32, |v| Word::from(v as u32);
    u32: |w| w as u32, |v| Word::from(v);
    i64: |w| w as i64, |v| v as Word;
    u64: |w| w, |v| v;
    f32: |w| f32::from_bits(w as u32), |v| Word::from(v.to_bits());
    f64: |w| f64::from_bits(w), |v| v.to_bits();
    bool: |w| w as u8 != 0, |v| Word::from(v);
}

/// Handlers that compute `a` from `b`, or from `b` and `c`, and cannot fail.
macro_rules! pure {
    ($($name:ident($b:ident: $bt:ty) -> $rt:ty = $value:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $b = <$bt>::from_word(s.get(s.b()));
                let value: $rt = $value;
                s.set(s.a(), value.into_word());
                s.advance()
            }
        }
    )*};
}

macro_rules! binary {
    ($($name:ident($b:ident, $c:ident: $t:ty) -> $rt:ty = $value:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $b = <$t>::from_word(s.get(s.b()));
                let $c = <$t>::from_word(s.get(s.c()));
                let value: $rt = $value;
                s.set(s.a(), value.into_word());
                s.advance()
            }
        }
    )*};
}

/// As `binary`, with the constant `c`.
macro_rules! with_constant {
    ($($name:ident($b:ident, $k:ident: $t:ty) = $value:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $b = <$t>::from_word(s.get(s.b()));
                let $k = <$t>::from(s.c_signed());
                let value: $t = $value;
                s.set(s.a(), value.into_word());
                s.advance()
            }
        }
    )*};
}

/// As `binary`; throws if `c` is zero.
macro_rules! division {
    ($($name:ident($b:ident, $c:ident: $t:ty) zero $zero:expr, = $value:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                let $c = <$t>::from_word(s.get(s.c()));
                if $c == $zero {
                    return Flow::Slow(raise::division_by_zero);
                }
                let $b = <$t>::from_word(s.get(s.b()));
                let value: $t = $value;
                s.set(s.a(), value.into_word());
                s.advance()
            }
        }
    )*};
}

pure! {
    NegInt(b: i32) -> i32 = b.wrapping_neg();
    NegLong(b: i64) -> i64 = b.wrapping_neg();
    NegFloat(b: f32) -> f32 = -b;
    NegDouble(b: f64) -> f64 = -b;
    SqrtDouble(b: f64) -> f64 = b.sqrt();
    Not(b: bool) -> bool = !b;

    IntToLong(b: i32) -> i64 = i64::from(b);
    LongToInt(b: i64) -> i32 = b as i32;
    ToByte(b: i64) -> i8 = b as i8;
    ToUbyte(b: i64) -> u8 = b as u8;
    ToShort(b: i64) -> i16 = b as i16;
    ToUshort(b: i64) -> u16 = b as u16;
    IntToFloat(b: i32) -> f32 = b as f32;
    IntToDouble(b: i32) -> f64 = f64::from(b);
    LongToFloat(b: i64) -> f32 = b as f32;
    LongToDouble(b: i64) -> f64 = b as f64;
    UlongToFloat(b: u64) -> f32 = b as f32;
    UlongToDouble(b: u64) -> f64 = b as f64;
    FloatToDouble(b: f32) -> f64 = f64::from(b);
    DoubleToFloat(b: f64) -> f32 = b as f32;
    DoubleToByte(b: f64) -> i8 = b as i8;
    DoubleToUbyte(b: f64) -> u8 = b as u8;
    DoubleToShort(b: f64) -> i16 = b as i16;
    DoubleToUshort(b: f64) -> u16 = b as u16;
    DoubleToInt(b: f64) -> i32 = b as i32;
    DoubleToUint(b: f64) -> u32 = b as u32;
    DoubleToLong(b: f64) -> i64 = b as i64;
    DoubleToUlong(b: f64) -> u64 = b as u64;
}

binary! {
    AddInt(b, c: i32) -> i32 = b.wrapping_add(c);
    SubInt(b, c: i32) -> i32 = b.wrapping_sub(c);
    MulInt(b, c: i32) -> i32 = b.wrapping_mul(c);
    AddLong(b, c: i64) -> i64 = b.wrapping_add(c);
    SubLong(b, c: i64) -> i64 = b.wrapping_sub(c);
    MulLong(b, c: i64) -> i64 = b.wrapping_mul(c);
    AddFloat(b, c: f32) -> f32 = b + c;
    SubFloat(b, c: f32) -> f32 = b - c;
    MulFloat(b, c: f32) -> f32 = b * c;
    AddDouble(b, c: f64) -> f64 = b + c;
    SubDouble(b, c: f64) -> f64 = b - c;
    MulDouble(b, c: f64) -> f64 = b * c;

    Eq(b, c: u64) -> bool = b == c;
    Ne(b, c: u64) -> bool = b != c;
    LtInt(b, c: i32) -> bool = b < c;
    LeInt(b, c: i32) -> bool = b <= c;
    LtLong(b, c: i64) -> bool = b < c;
    LeLong(b, c: i64) -> bool = b <= c;
    LtUlong(b, c: u64) -> bool = b < c;
    LeUlong(b, c: u64) -> bool = b <= c;
    EqFloat(b, c: f32) -> bool = b == c;
    NeFloat(b, c: f32) -> bool = b != c;
    LtFloat(b, c: f32) -> bool = b < c;
    LeFloat(b, c: f32) -> bool = b <= c;
    EqDouble(b, c: f64) -> bool = b == c;
    NeDouble(b, c: f64) -> bool = b != c;
    LtDouble(b, c: f64) -> bool = b < c;
    LeDouble(b, c: f64) -> bool = b <= c;
    EqRef(b, c: u64) -> bool = b == c;
    NeRef(b, c: u64) -> bool = b != c;
}

with_constant! {
    AddIntK(b, k: i32) = b.wrapping_add(k);
    MulIntK(b, k: i32) = b.wrapping_mul(k);
    DivIntK(b, k: i32) = b.checked_div(k).unwrap_or(b.wrapping_neg());
    ModIntK(b, k: i32) = b.checked_rem(k).unwrap_or(0);
    AddLongK(b, k: i64) = b.wrapping_add(k);
    MulLongK(b, k: i64) = b.wrapping_mul(k);
    DivLongK(b, k: i64) = b.checked_div(k).unwrap_or(b.wrapping_neg());
    ModLongK(b, k: i64) = b.checked_rem(k).unwrap_or(0);
}

division! {
    DivInt(b, c: i32) zero 0, = b.wrapping_div(c);
    ModInt(b, c: i32) zero 0, = b.wrapping_rem(c);
    DivUint(b, c: u32) zero 0, = b / c;
    ModUint(b, c: u32) zero 0, = b % c;
    DivLong(b, c: i64) zero 0, = b.wrapping_div(c);
    ModLong(b, c: i64) zero 0, = b.wrapping_rem(c);
    DivUlong(b, c: u64) zero 0, = b / c;
    ModUlong(b, c: u64) zero 0, = b % c;
    DivFloat(b, c: f32) zero 0.0, = b / c;
    DivDouble(b, c: f64) zero 0.0, = b / c;
}

/// Handlers that do all their work outside the hot code.
macro_rules! slow {
    ($($name:ident = $slow:path;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(_: &mut State) -> Flow {
            Flow::Slow($slow)
        }
    )*};
}
pub(super) use slow;
