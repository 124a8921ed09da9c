//! The package `math`.
//!
//! Functions of `double` follow IEEE 754: what has no value is NaN. Where the result is an integer,
//! what does not fit throws.

use super::random::Mt19937;
use crate::vm::native::{Context, Outcome, Trap};

type Result = std::result::Result<Outcome, Trap>;

macro_rules! of_one_double {
    ($($name:ident: $function:expr;)*) => {
        $(pub fn $name(cx: &mut Context<'_>) -> Result {
            let function: fn(f64) -> f64 = $function;
            cx.set_double(function(cx.double(0)));
            Ok(Outcome::Done)
        })*
    };
}

macro_rules! of_two_doubles {
    ($($name:ident: $function:expr;)*) => {
        $(pub fn $name(cx: &mut Context<'_>) -> Result {
            let function: fn(f64, f64) -> f64 = $function;
            cx.set_double(function(cx.double(0), cx.double(1)));
            Ok(Outcome::Done)
        })*
    };
}

macro_rules! to_long {
    ($($name:ident: $function:expr;)*) => {
        $(pub fn $name(cx: &mut Context<'_>) -> Result {
            let function: fn(f64) -> f64 = $function;
            let value = cx.double(0);
            cx.set_long(long(function(value), value)?);
            Ok(Outcome::Done)
        })*
    };
}

of_one_double! {
    sin: f64::sin;
    cos: f64::cos;
    tan: f64::tan;
    asin: f64::asin;
    acos: f64::acos;
    atan: f64::atan;
    sqrt: f64::sqrt;
    exp: f64::exp;
    log: f64::ln;
    absf: f64::abs;
}

of_two_doubles! {
    atan2: f64::atan2;
    pow: f64::powf;
    minf: f64::min;
    maxf: f64::max;
}

to_long! {
    floor: f64::floor;
    ceil: f64::ceil;
    round: f64::round;
}

/// A whole number as a `long`, if it is one.
fn long(whole: f64, value: f64) -> std::result::Result<i64, Trap> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&whole) {
        return Ok(whole as i64);
    }
    let mut text = String::new();
    super::number::write_double(&mut text, value);
    Err(Trap::exception(format!("{text} is out of range for long")))
}

pub fn absi(cx: &mut Context<'_>) -> Result {
    cx.set_int(cx.int(0).wrapping_abs());
    Ok(Outcome::Done)
}

pub fn mini(cx: &mut Context<'_>) -> Result {
    cx.set_int(cx.int(0).min(cx.int(1)));
    Ok(Outcome::Done)
}

pub fn maxi(cx: &mut Context<'_>) -> Result {
    cx.set_int(cx.int(0).max(cx.int(1)));
    Ok(Outcome::Done)
}

pub fn clampi(cx: &mut Context<'_>) -> Result {
    let (value, low, high) = (cx.int(0), cx.int(1), cx.int(2));
    if low > high {
        return Err(Trap::exception(format!("no number is between {low} and {high}")));
    }
    cx.set_int(value.clamp(low, high));
    Ok(Outcome::Done)
}

pub fn clampf(cx: &mut Context<'_>) -> Result {
    let (value, low, high) = (cx.double(0), cx.double(1), cx.double(2));
    // NaN as a bound is no bound either.
    if !matches!(low.partial_cmp(&high), Some(order) if order.is_le()) {
        let mut text = String::from("no number is between ");
        super::number::write_double(&mut text, low);
        text.push_str(" and ");
        super::number::write_double(&mut text, high);
        return Err(Trap::exception(text));
    }
    cx.set_double(value.clamp(low, high));
    Ok(Outcome::Done)
}

pub fn random(cx: &mut Context<'_>) -> Result {
    let bits = cx.state::<Mt19937>().next() >> 8;
    cx.set_double(f64::from(bits) / f64::from(1 << 24));
    Ok(Outcome::Done)
}

pub fn srand(cx: &mut Context<'_>) -> Result {
    let seed = cx.uint(0);
    *cx.state::<Mt19937>() = Mt19937::new(seed);
    Ok(Outcome::Done)
}

pub fn randomi(cx: &mut Context<'_>) -> Result {
    let (low, high) = (cx.int(0), cx.int(1));
    if low > high {
        return Err(Trap::exception(format!("no number is between {low} and {high}")));
    }
    let count = u64::from(high.wrapping_sub(low) as u32) + 1;
    let offset = u64::from(cx.state::<Mt19937>().next()) % count;
    cx.set_int(low.wrapping_add(offset as u32 as i32));
    Ok(Outcome::Done)
}
