use super::*;
use crate::lang::ast::StringPart;
use crate::lang::diagnostic::Severity;
use crate::lang::source::Sources;

/// The tokens of a file, without the end, and the messages about it.
fn lexed(text: &str) -> (Vec<TokenKind>, Tokens, Vec<String>) {
    let mut sources = Sources::default();
    let file = sources.add(Source::from_bytes("x.n".to_owned(), text.as_bytes()));
    let mut diagnostics = Diagnostics::default();
    let tokens = lex(file, sources.get(file), &mut diagnostics);
    let mut kinds: Vec<TokenKind> = tokens.list.iter().map(|token| token.kind).collect();
    assert_eq!(kinds.pop(), Some(TokenKind::End));
    let messages = diagnostics.sorted().into_iter().map(|found| {
        assert_eq!(found.severity, Severity::Error);
        let column = sources.get(file).position(found.span.expect("a place").start).1;
        format!("{column}: {}", found.message)
    });
    let messages = messages.collect();
    (kinds, tokens, messages)
}

#[track_caller]
fn tokens(text: &str) -> Vec<TokenKind> {
    let (kinds, _, messages) = lexed(text);
    assert_eq!(messages, [""; 0], "{text}");
    kinds
}

fn messages(text: &str) -> Vec<String> {
    lexed(text).2
}

/// A string literal's pieces: text, and `$name`.
#[track_caller]
fn pieces(literal: &str) -> Vec<String> {
    let (kinds, tokens, messages) = lexed(literal);
    assert_eq!((kinds, messages), (vec![TokenKind::String(0)], vec![]), "{literal}");
    let show = |part: &StringPart| match part {
        StringPart::Text(text) => text.clone(),
        StringPart::Name(name) => format!("${}", name.text),
    };
    tokens.strings[0].iter().map(show).collect()
}

#[test]
fn blanks_and_comments_separate_tokens_and_are_none() {
    use TokenKind::Word;
    assert_eq!(tokens("a\tb\x0B\x0Cc\r\nd\re // f\n/* g\n * h **/i/**/j // end"), [Word; 7]);
    assert_eq!(tokens(""), []);
    assert_eq!(tokens("/* /* */"), []);
    assert_eq!(tokens("a /* /* */ */")[1..], [Symbol::Star, Symbol::Slash].map(TokenKind::Symbol));
    assert_eq!(messages("a /* b"), ["3: this comment is not closed"]);
    assert_eq!(messages("/*/"), ["1: this comment is not closed"]);
}

#[test]
fn words_are_names_unless_they_are_reserved() {
    assert_eq!(tokens("_a1 Z elseif state Int"), [TokenKind::Word; 5]);
    assert_eq!(tokens("while"), [TokenKind::Keyword(Keyword::While)]);
    let (kinds, _, messages) = lexed("gr\u{f6}\u{df}e \u{e9}");
    assert_eq!(kinds, [TokenKind::Word; 2]);
    assert_eq!(messages, ["1: `größe` is not a legal name", "7: `é` is not a legal name"]);
}

#[test]
fn symbols_are_as_long_as_possible_but_angles_never_join() {
    let symbols = |text: &str| {
        let texts = tokens(text).into_iter().map(|kind| match kind {
            TokenKind::Symbol(symbol) => symbol.text(),
            other => panic!("{other:?}"),
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(
        symbols("+=+-=-*=*/=/%=% ==="),
        ["+=", "+", "-=", "-", "*=", "*", "/=", "/", "%=", "%", "==", "="]
    );
    assert_eq!(
        symbols("!=!&&||<=<>=>>.,;:()[]{}"),
        [
            "!=", "!", "&&", "||", "<=", "<", ">=", ">", ">", ".", ",", ";", ":", "(", ")", "[",
            "]", "{", "}"
        ]
    );
    assert_eq!(symbols("++--"), ["+", "+", "-", "-"]);
}

#[test]
fn integers_are_decimal_or_hexadecimal_up_to_64_bits() {
    for (text, value) in [
        ("0", 0),
        ("007", 7),
        ("2147483648", 1 << 31),
        ("18446744073709551615", u64::MAX),
        ("0xFf", 255),
        ("0xFFFFFFFFFFFFFFFF", u64::MAX),
        ("0x00000000000000000001", 1),
    ] {
        assert_eq!(tokens(text), [TokenKind::Int(value)], "{text}");
    }
    for text in ["18446744073709551616", "0x10000000000000000"] {
        assert_eq!(messages(text), ["1: this integer does not fit into 64 bits"]);
    }
    assert_eq!(messages("0x"), ["1: `0x` is not a hexadecimal number"]);
    assert_eq!(messages("0x1G"), ["1: `0x1G` is not a hexadecimal number"]);
    for text in ["1_000", "12abc", "0b1", "0XFF", "1L", "2em"] {
        assert_eq!(messages(text), [format!("1: `{text}` is not a number")]);
    }
}

#[test]
fn points_and_exponents_make_doubles_and_the_suffix_floats() {
    for (text, value) in
        [("1.5", 1.5), (".5", 0.5), ("2e5", 2e5), ("2.5e-3", 0.0025), ("1E+2", 100.0), ("0.1", 0.1)]
    {
        assert_eq!(tokens(text), [TokenKind::Double(value)], "{text}");
    }
    for (text, value) in [("1.5f", 1.5), (".5f", 0.5), ("2e3f", 2e3), ("3f", 3.0), ("0.1f", 0.1)] {
        assert_eq!(tokens(text), [TokenKind::Float(value)], "{text}");
    }
    assert_eq!(messages("1e999"), ["1: this number is too large for a double"]);
    assert_eq!(messages("1e39f"), ["1: this number is too large for a float"]);
    assert_eq!(messages("1e+"), ["1: the exponent has no digits"]);
    assert_eq!(messages("5."), ["1: `5.` is not a number"]);
    assert_eq!(messages("5.f"), ["1: `5.f` is not a number"]);
    assert_eq!(messages("5.e3"), ["1: `5.e3` is not a number"]);
    let member = [TokenKind::Int(5), TokenKind::Symbol(Symbol::Dot), TokenKind::Word];
    assert_eq!(tokens("5.fun"), member);
    assert_eq!(tokens("5.length"), member);
}

#[test]
fn a_char_is_one_scalar_or_an_escape() {
    for (text, value) in [
        ("'x'", 'x'),
        ("'\"'", '"'),
        ("'\u{1F600}'", '\u{1F600}'),
        (r"'\n'", '\n'),
        (r"'\r'", '\r'),
        (r"'\t'", '\t'),
        (r"'\''", '\''),
        (r"'\\'", '\\'),
        (r"'\u00e9'", '\u{e9}'),
    ] {
        assert_eq!(tokens(text), [TokenKind::Char(value)], "{text}");
    }
    for (text, message) in [
        ("''", "1: this char is empty"),
        ("'''", "1: this char is empty"),
        ("'ab'", "1: a char holds exactly one character"),
        ("'e\u{301}'", "1: a char holds exactly one character"),
        (r"'\0'", r"2: `\0` is not an escape"),
        (r"'\ud83d'", "2: half of a surrogate pair is not a character"),
        (r"'\u12'", r"2: `\u` takes exactly four hexadecimal digits"),
        ("'a", "1: this char is not closed"),
        ("'", "1: this char is not closed"),
        ("'\n'", "1: this char is not closed"),
        ("'\\", "1: this char is not closed"),
    ] {
        assert_eq!(messages(text)[0], message, "{text}");
    }
}

#[test]
fn strings_have_escapes() {
    assert_eq!(pieces(r#""""#), [""; 0]);
    assert_eq!(pieces(r#""a 'b' // /* é""#), ["a 'b' // /* é"]);
    let all = r#""\n\r\t\\\"\'\0\a\b\f\v\u0041""#;
    assert_eq!(pieces(all), ["\n\r\t\\\"'\0\x07\x08\x0C\x0BA"]);
    assert_eq!(messages(r#""a\qb""#), [r"3: `\q` is not an escape"]);
    assert_eq!(messages(r#""\x41""#), [r"2: `\x` is not an escape"]);
    assert_eq!(messages(r#""\u00g1""#), [r"2: `\u` takes exactly four hexadecimal digits"]);
}

#[test]
fn surrogate_escapes_combine_in_pairs_only() {
    assert_eq!(pieces(r#""a\ud83d\ude00b""#), ["a\u{1F600}b"]);
    assert_eq!(pieces(r#""\uD83D\uDE00""#), ["\u{1F600}"]);
    for text in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\n""#, r#""\ud83d\u0041""#]
    {
        assert_eq!(messages(text), ["2: half of a surrogate pair is not a character"], "{text}");
    }
    assert_eq!(messages(r#""\ud83d\ud83d\ude00""#).len(), 1);
}

#[test]
fn a_string_ends_on_its_line() {
    let (kinds, _, messages) = lexed("\"ab\nc");
    assert_eq!(kinds, [TokenKind::Bad, TokenKind::Word]);
    assert_eq!(messages, ["1: this string is not closed"]);
    assert_eq!(lexed("\"a\\").2, ["1: this string is not closed"]);
}

#[test]
fn names_in_braces_after_a_dollar_are_interpolated() {
    assert_eq!(pieces(r#""${a}${_b1}""#), ["$a", "$_b1"]);
    assert_eq!(pieces(r#""x${a}y""#), ["x", "$a", "y"]);
    assert_eq!(pieces(r#""$${x}""#), ["${x}"]);
    assert_eq!(pieces(r#""$$${x}$$""#), ["$", "$x", "$"]);
    assert_eq!(pieces(r#""$ $a {b} $""#), ["$ $a {b} $"]);
    for text in ["${}", "${ a}", "${a.b}", "${1}", "${this}", "${int}", "${a+b}", "${é}", "${1a}"]
    {
        let wrong = messages(&format!("\"{text}\""));
        assert_eq!(wrong, ["2: `${…}` takes the name of a variable, nothing else"], "{text}");
    }
    assert_eq!(messages(r#""${a""#), ["2: `${` without `}` in this string"]);
    assert_eq!(messages(r#""\$""#), [r"2: `\$` is not an escape"]);
}

#[test]
fn what_begins_no_token_is_bad_and_says_so() {
    let (kinds, _, messages) = lexed("a ? b & c |= @");
    assert_eq!(kinds.iter().filter(|&&kind| kind == TokenKind::Bad).count(), 4);
    assert_eq!(
        messages,
        [
            "3: `?` is not an operator of this language",
            "7: `&` is not an operator of this language",
            "11: `|=` is not an operator of this language",
            "14: `@` is not an operator of this language",
        ]
    );
    assert_eq!(lexed("\u{A0}").2, ["1: the character U+00A0 does not belong here"]);
    assert_eq!(lexed("\0").2, ["1: the character U+0000 does not belong here"]);
}

#[test]
fn a_byte_order_mark_is_skipped_and_every_line_end_is_one_line_feed() {
    let source = |bytes: &[u8]| Source::from_bytes("x.n".to_owned(), bytes);
    assert_eq!(source(b"\xEF\xBB\xBFa\r\nb\rc\n\r\r\n").text, "a\nb\nc\n\n\n");
    let twice = source(b"\xEF\xBB\xBF\xEF\xBB\xBFa");
    assert_eq!(twice.text, "\u{FEFF}a");
    let broken = source(b"a\r\xFF\n\xC3(\xF0\x9F");
    assert_eq!(broken.text, "a\n\u{FFFD}\n\u{FFFD}(\u{FFFD}");
    assert_eq!(broken.invalid.map(|invalid| (invalid.at, invalid.count)), Some((2, 3)));
    assert_eq!(source("é\u{FFFD}".as_bytes()).invalid, None);
}
