//! Numbers: `12`, `0xFF`, `1.5`, `.5`, `2e5`, `2.5e-3`, and with the suffix `f` floats.

use super::{Diagnostic, Lexer, TokenKind, is_word};

impl Lexer<'_> {
    pub(super) fn number(&mut self) -> TokenKind {
        let start = self.at;
        if self.byte(0) == b'0' && self.byte(1) == b'x' {
            return self.hexadecimal(start);
        }
        self.skip_while(|c| c.is_ascii_digit());
        let mut is_integer = true;
        if self.byte(0) == b'.' {
            if self.byte(1).is_ascii_digit() {
                is_integer = false;
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit());
            } else if !starts_member(self.byte(1), self.byte(2)) {
                return self.dangling_point(start);
            }
        }
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                is_integer = false;
                self.at += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit());
            } else if sign == 1 {
                self.at += 2;
                self.report(Diagnostic::error(self.span(start), "the exponent has no digits"));
                return TokenKind::Double(0.0);
            }
        }
        let digits_end = self.at;
        self.skip_while(is_word);
        let digits = &self.source.text[start..digits_end];
        match &self.source.text[digits_end..self.at] {
            "" if is_integer => self.integer(start, digits, 10),
            "" => self
                .floating(start, digits, f64::is_infinite, "double")
                .map_or_else(|| TokenKind::Double(0.0), TokenKind::Double),
            "f" => self
                .floating(start, digits, f32::is_infinite, "float")
                .map_or_else(|| TokenKind::Float(0.0), TokenKind::Float),
            suffix => {
                let hint = match suffix.as_bytes()[0] {
                    b'_' => "digits are written without separators",
                    b'e' | b'E' => "an exponent is written `2e5`",
                    b'F' => "the suffix of a float is a small `f`",
                    b'L' | b'l' | b'u' | b'U' => {
                        "an integer literal has the type that fits its value; convert with `as`"
                    }
                    b'b' | b'o' | b'X' if digits == "0" => {
                        "integers are decimal or hexadecimal: `0x1F`"
                    }
                    _ => "a number ends at the first letter; the only suffix is `f`",
                };
                let message = format!("`{digits}{suffix}` is not a number");
                self.report(Diagnostic::error(self.span(start), message).hint(hint));
                if is_integer { TokenKind::Int(0) } else { TokenKind::Double(0.0) }
            }
        }
    }

    fn hexadecimal(&mut self, start: usize) -> TokenKind {
        self.at += 2;
        self.skip_while(is_word);
        let digits = &self.source.text[start + 2..self.at];
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            let message = format!("`0x{digits}` is not a hexadecimal number");
            let hint = "hexadecimal digits are 0 to 9 and A to F, without separators or suffix";
            self.report(Diagnostic::error(self.span(start), message).hint(hint));
            return TokenKind::Int(0);
        }
        self.integer(start, digits, 16)
    }

    fn integer(&mut self, start: usize, digits: &str, radix: u32) -> TokenKind {
        match u64::from_str_radix(digits, radix) {
            Ok(value) => TokenKind::Int(value),
            Err(_) => {
                let message = "this integer does not fit into 64 bits";
                let hint = "the largest is 18446744073709551615";
                self.report(Diagnostic::error(self.span(start), message).hint(hint));
                TokenKind::Int(0)
            }
        }
    }

    /// Digits with a point or an exponent (or neither, before an `f`) always parse; they may be too
    /// large.
    fn floating<T: std::str::FromStr + Copy>(
        &mut self,
        start: usize,
        digits: &str,
        is_infinite: fn(T) -> bool,
        name: &str,
    ) -> Option<T> {
        let value = digits.parse().ok().filter(|&value| !is_infinite(value));
        if value.is_none() {
            let message = format!("this number is too large for a {name}");
            self.report(Diagnostic::error(self.span(start), message));
        }
        value
    }

    /// `5.` with nothing that could follow a point.
    fn dangling_point(&mut self, start: usize) -> TokenKind {
        let digits = self.source.text[start..self.at].to_owned();
        self.at += 1;
        let exponent = matches!(self.byte(0), b'e' | b'E' | b'f');
        if exponent {
            self.skip_while(is_word);
        }
        let number = &self.source.text[start..self.at];
        let rest = &number[digits.len() + 1..];
        let diagnostic = Diagnostic::error(self.span(start), format!("`{number}` is not a number"))
            .hint(format!("write a digit after the point: `{digits}.0{rest}`"));
        self.report(diagnostic);
        if rest == "f" { TokenKind::Float(0.0) } else { TokenKind::Double(0.0) }
    }
}

/// Whether these bytes after a point begin a member's name rather than an exponent or suffix.
fn starts_member(first: u8, second: u8) -> bool {
    match first {
        b'e' | b'E' => !second.is_ascii_digit() && is_word(char::from(second)),
        b'f' => is_word(char::from(second)),
        _ => first.is_ascii_alphabetic() || first == b'_',
    }
}
