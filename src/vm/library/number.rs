//! Numbers as text and back.
//!
//! A floating-point number is written with the fewest digits that read back as the same number,
//! plain or scientific, whichever is shorter (plain if both are equal): `0.1`, `1`, `1e+05`. That is
//! what `std::to_chars` of C++ does.
//!
//! The parsers are strict: the whole text is the number, without space around it. A sign is allowed.
//! What is out of the type's range is an error.

use std::fmt::Write;

/// Writes a `double`.
pub fn write_double(out: &mut String, value: f64) {
    if !write_special(out, value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        let mut text = Short::default();
        write!(text, "{value:e}").expect("the buffer holds any double");
        text.finish(out, |out| write!(out, "{:.0}", value.abs()));
    }
}

/// Writes a `float`.
pub fn write_float(out: &mut String, value: f32) {
    if !write_special(out, value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        let mut text = Short::default();
        write!(text, "{value:e}").expect("the buffer holds any float");
        text.finish(out, |out| write!(out, "{:.0}", value.abs()));
    }
}

fn write_special(out: &mut String, nan: bool, infinite: bool, negative: bool) -> bool {
    if nan {
        out.push_str("nan");
    } else if infinite {
        out.push_str(if negative { "-inf" } else { "inf" });
    }
    nan || infinite
}

/// The shortest digits of a finite number as Rust writes them: `-1.25e-7`, `3e0`.
#[derive(Default)]
struct Short {
    bytes: [u8; 32],
    len: usize,
}

impl Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Short {
    /// Chooses a form. `exact` writes a large whole number with all its digits: zeros behind the
    /// shortest ones would claim digits that the number does not have.
    fn finish(&self, out: &mut String, exact: impl Fn(&mut String) -> std::fmt::Result) {
        let text = std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default();
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let mantissa = match mantissa.strip_prefix('-') {
            Some(rest) => {
                out.push('-');
                rest
            }
            None => mantissa,
        };
        let count = mantissa.len() as i32 - i32::from(mantissa.contains('.'));
        let digits = || mantissa.bytes().filter(|&byte| byte != b'.').map(char::from);

        let exponent_width = if exponent.abs() >= 100 { 3 } else { 2 };
        let scientific = count + i32::from(count > 1) + 2 + exponent_width;
        let plain = match exponent {
            ..0 => 1 - exponent + count,
            _ if exponent >= count - 1 => exponent + 1,
            _ => count + 1,
        };
        if plain > scientific {
            out.push_str(mantissa);
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "e{sign}{:02}", exponent.abs()).expect("a string takes everything");
        } else if exponent < 0 {
            out.push_str("0.");
            out.extend((1..-exponent).map(|_| '0'));
            out.extend(digits());
        } else if exponent >= count - 1 {
            exact(out).expect("a string takes everything");
        } else {
            let whole = exponent as usize + 1;
            out.extend(digits().take(whole));
            out.push('.');
            out.extend(digits().skip(whole));
        }
    }
}

/// Why a text is not a value of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadText {
    text: String,
    ty: &'static str,
    out_of_range: bool,
}

impl BadText {
    fn new(text: &str, ty: &'static str, out_of_range: bool) -> BadText {
        BadText { text: text.into(), ty, out_of_range }
    }
}

impl std::fmt::Display for BadText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A message stays readable whatever the input was.
        let shown: String = self.text.chars().take(40).collect();
        let dots = if shown.len() < self.text.len() { "…" } else { "" };
        let BadText { ty, out_of_range, .. } = self;
        match out_of_range {
            true => write!(f, "{shown:?}{dots} is out of range for {ty}"),
            false => write!(f, "{shown:?}{dots} is not a value of type {ty}"),
        }
    }
}

/// Parses an `int`.
pub fn parse_int(text: &str) -> Result<i32, BadText> {
    text.parse().map_err(|error| bad_integer(text, "int", &error))
}

/// Parses a `long`.
pub fn parse_long(text: &str) -> Result<i64, BadText> {
    text.parse().map_err(|error| bad_integer(text, "long", &error))
}

fn bad_integer(text: &str, ty: &'static str, error: &std::num::ParseIntError) -> BadText {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    BadText::new(text, ty, matches!(error.kind(), PosOverflow | NegOverflow))
}

/// Parses a `double`; `inf` and `nan` are numbers too.
pub fn parse_double(text: &str) -> Result<f64, BadText> {
    let value: f64 = text.parse().map_err(|_| BadText::new(text, "double", false))?;
    if value.is_infinite() && has_digit(text) {
        return Err(BadText::new(text, "double", true));
    }
    Ok(value)
}

/// Parses a `float`, rounding once.
pub fn parse_float(text: &str) -> Result<f32, BadText> {
    let value: f32 = text.parse().map_err(|_| BadText::new(text, "float", false))?;
    if value.is_infinite() && has_digit(text) {
        return Err(BadText::new(text, "float", true));
    }
    Ok(value)
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Parses `true` or `false`.
pub fn parse_bool(text: &str) -> Result<bool, BadText> {
    text.parse().map_err(|_| BadText::new(text, "bool", false))
}

/// Parses the decimal number of a Unicode scalar value.
pub fn parse_char(text: &str) -> Result<char, BadText> {
    let number: u32 = text.parse().map_err(|_| BadText::new(text, "char", false))?;
    char::from_u32(number).ok_or_else(|| BadText::new(text, "char", true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(value: f64) -> String {
        let mut text = String::new();
        write_double(&mut text, value);
        text
    }

    fn float(value: f32) -> String {
        let mut text = String::new();
        write_float(&mut text, value);
        text
    }

    #[test]
    fn doubles_are_written_as_to_chars_does() {
        // The right column is the output of `std::to_chars` of libstdc++.
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (10000.0, "10000"),
            (100000.0, "1e+05"),
            (123456.0, "123456"),
            (1234567.0, "1234567"),
            (1200000.0, "1200000"),
            (12000000.0, "1.2e+07"),
            (0.001, "0.001"),
            (0.0001, "1e-04"),
            (0.00012, "0.00012"),
            (0.000012, "1.2e-05"),
            (1e100, "1e+100"),
            (1e-100, "1e-100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (3.5e10, "3.5e+10"),
            (0.30000000000000004, "0.30000000000000004"),
            (123456789012345680000.0, "123456789012345683968"),
            (9007199254740993.0, "9007199254740992"),
            (f64::NAN, "nan"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn floats_have_the_digits_of_a_float() {
        for (value, text) in [(0.1, "0.1"), (1.0 / 3.0, "0.33333334"), (16777216.0, "16777216")] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn parsers_take_the_whole_text_or_nothing() {
        assert_eq!(parse_int("-2147483648"), Ok(i32::MIN));
        assert_eq!(parse_int("+7"), Ok(7));
        for text in ["", " 1", "1 ", "0x10", "1.0", "-", "2147483648", "1_000", "١"] {
            assert!(parse_int(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_long("9223372036854775807"), Ok(i64::MAX));
        assert_eq!(parse_double("-2.5e-3"), Ok(-0.0025));
        assert!(parse_double("nan").unwrap().is_nan());
        assert_eq!(parse_double("-inf"), Ok(f64::NEG_INFINITY));
        for text in ["", "1e", "e5", ".", "1e999", "1.5f", " 1.5"] {
            assert!(parse_double(text).is_err(), "{text:?}");
        }
        assert!(parse_float("1e39").is_err());
        assert_eq!(parse_bool("true"), Ok(true));
        assert!(parse_bool("True").is_err());
        assert_eq!(parse_char("8364"), Ok('€'));
        assert!(parse_char("55296").is_err() && parse_char("a").is_err());
    }

    #[test]
    fn messages_say_what_is_wrong_and_stay_short() {
        let message = parse_int("99999999999").unwrap_err().to_string();
        assert_eq!(message, "\"99999999999\" is out of range for int");
        let long = parse_int(&"x\n".repeat(1000)).unwrap_err().to_string();
        assert!(long.len() < 120 && !long.contains('\n'), "{long}");
    }

    proptest! {
        #[test]
        fn any_double_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(parse_double(&double(value)).unwrap().to_bits(), bits);
        }

        #[test]
        fn any_float_reads_back(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(parse_float(&float(value)).unwrap().to_bits(), bits);
        }
    }
}
