//! What the lexer makes of a file: words, literals and symbols.

use super::ast::StringPart;

/// A token and its bytes in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenKind {
    /// An identifier; the file has its text.
    Word,
    Keyword(Keyword),
    Int(u64),
    Double(f64),
    Float(f32),
    Char(char),
    /// By its index in [`Tokens::strings`].
    String(u32),
    Symbol(Symbol),
    /// What is no token at all; the lexer has reported it.
    Bad,
    /// The end of the file; always the last token, and only there.
    End,
}

/// All tokens of a file.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    pub list: Vec<Token>,
    /// The pieces of each string literal; without interpolation one piece, or none.
    pub strings: Vec<Vec<StringPart>>,
}

/// A list of names, each with its spelling.
macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            /// As the source spells it.
            pub fn text(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The one that is spelled so, if any.
            pub fn from_text(text: &str) -> Option<$name> {
                match text {
                    $($text => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

spelled! {
    /// The reserved words.
    Keyword {
        As = "as",
        Assert = "assert",
        Bool = "bool",
        Break = "break",
        Byte = "byte",
        Case = "case",
        Catch = "catch",
        Char = "char",
        Class = "class",
        Const = "const",
        Continue = "continue",
        Default = "default",
        Do = "do",
        Double = "double",
        Else = "else",
        Enum = "enum",
        False = "false",
        Finally = "finally",
        Float = "float",
        For = "for",
        Foreach = "foreach",
        Func = "func",
        If = "if",
        Implements = "implements",
        Import = "import",
        In = "in",
        Int = "int",
        Interface = "interface",
        Long = "long",
        Native = "native",
        New = "new",
        Null = "null",
        Out = "out",
        Private = "private",
        Protected = "protected",
        Public = "public",
        Return = "return",
        Short = "short",
        Static = "static",
        String = "string",
        Struct = "struct",
        Super = "super",
        Switch = "switch",
        This = "this",
        Throw = "throw",
        True = "true",
        Try = "try",
        Ubyte = "ubyte",
        Uint = "uint",
        Ulong = "ulong",
        Ushort = "ushort",
        Using = "using",
        Virtual = "virtual",
        Void = "void",
        While = "while",
    }
}

spelled! {
    /// Operators and punctuation. `>>` is two of [`Symbol::Greater`], so that it closes two lists of
    /// type arguments.
    Symbol {
        Plus = "+",
        Minus = "-",
        Star = "*",
        Slash = "/",
        Percent = "%",
        Assign = "=",
        PlusAssign = "+=",
        MinusAssign = "-=",
        StarAssign = "*=",
        SlashAssign = "/=",
        PercentAssign = "%=",
        Equal = "==",
        NotEqual = "!=",
        Less = "<",
        LessEqual = "<=",
        Greater = ">",
        GreaterEqual = ">=",
        And = "&&",
        Or = "||",
        Not = "!",
        Dot = ".",
        Comma = ",",
        Semicolon = ";",
        Colon = ":",
        OpenParen = "(",
        CloseParen = ")",
        OpenBracket = "[",
        CloseBracket = "]",
        OpenBrace = "{",
        CloseBrace = "}",
    }
}

impl Keyword {
    /// Whether it names a scalar type or `string`.
    pub fn is_primitive(self) -> bool {
        use Keyword::*;
        matches!(
            self,
            Bool | Byte
                | Char
                | Double
                | Float
                | Int
                | Long
                | Short
                | String
                | Ubyte
                | Uint
                | Ulong
                | Ushort
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reserved_word_of_the_language_is_a_keyword_and_no_other() {
        let reserved = "as assert bool break byte case catch char class const continue default do \
            double else enum false finally float for foreach func if implements import in int \
            interface long native new null out private protected public return short static \
            string struct super switch this throw true try ubyte uint ulong ushort using virtual \
            void while";
        for word in reserved.split_whitespace() {
            assert_eq!(Keyword::from_text(word).map(Keyword::text), Some(word));
        }
        for word in ["state", "elseif", "var", "Func", "List", "Int", "foreach_", ""] {
            assert_eq!(Keyword::from_text(word), None);
        }
    }

    #[test]
    fn the_primitive_types_are_the_twelve_scalars_and_string() {
        let words = "byte short int long ubyte ushort uint ulong float double bool char string";
        let primitives = |word: &&str| Keyword::from_text(word).is_some_and(Keyword::is_primitive);
        assert!(words.split(' ').all(|word| primitives(&word)));
        assert!(!["void", "func", "new"].iter().any(primitives));
    }
}
