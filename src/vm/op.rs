//! The instructions: one list that encoder, verifier, dispatch and disassembler read.
//!
//! An instruction is 8 bytes: the operation in the low 16 bits, then the fields `a`, `b`, `c` of 16
//! bits each; some use `b` and `c` together as one field `x` of 32 bits.
//!
//! ```text
//!  63      48 47      32 31      16 15       0
//! +----------+----------+----------+----------+
//! |    c     |    b     |    a     | operation|
//! +----------+----------+----------+----------+
//! |          x          |    a     | operation|
//! +---------------------+----------+----------+
//! ```
//!
//! An entry of the list names the operation, how it is written, and its operands in the order in
//! which the disassembler prints them. What registers an operation reads and writes follows from the
//! operands; for those marked `special` the verifier has a rule of its own.
//!
//! Operands, each with the field that holds it:
//!
//! | operand | meaning |
//! |---|---|
//! | `DW` / `DR` / `DS` | register written: a word without a reference / a reference / a string |
//! | `W` / `R` / `S` | register read: a word / any reference, null included / a string |
//! | `K` | a signed constant of 16 (`b`, `c`) or 32 bits (`x`) |
//! | `U` | an unsigned constant |
//! | `J` | a signed distance from the next instruction: negative in `Loop…` (-1 is the instruction itself), else 0 or more; 16 or 32 bits |
//! | `Str` `Word` `Ty` `Cls` `Fun` `Nat` `Sel` `Slot` `Fld` `Sw` `Exc` | an index: text constant, word constant, type, class, function, native import, selector, virtual slot, field, switch table, exception class |
//! | `Call` | the register that becomes the callee's `base[0]` |

/// An encoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u64);

/// Which bits of an instruction hold an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    A,
    B,
    C,
    X,
}

/// What an operand means: see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    DW,
    DR,
    DS,
    W,
    R,
    S,
    K,
    U,
    J,
    Str,
    Word,
    Ty,
    Cls,
    Fun,
    Nat,
    Sel,
    Slot,
    Fld,
    Sw,
    Exc,
    Call,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.op() {
            Some(op) => write!(f, "{} {} {} {}", op.text(), self.a(), self.b(), self.c()),
            None => write!(f, "? {:#x}", self.0),
        }
    }
}

impl Code {
    /// An instruction with the fields `a`, `b`, `c`.
    pub const fn abc(op: Op, a: u16, b: u16, c: u16) -> Code {
        Code(op as u64 | (a as u64) << 16 | (b as u64) << 32 | (c as u64) << 48)
    }

    /// An instruction with the fields `a` and `x`.
    pub const fn ax(op: Op, a: u16, x: u32) -> Code {
        Code(op as u64 | (a as u64) << 16 | (x as u64) << 32)
    }

    /// The operation's number, which may be none of the list's.
    pub const fn number(self) -> u16 {
        self.0 as u16
    }

    pub const fn a(self) -> u16 {
        (self.0 >> 16) as u16
    }

    pub const fn b(self) -> u16 {
        (self.0 >> 32) as u16
    }

    pub const fn c(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub const fn x(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The field at a place, without a sign.
    pub const fn field(self, place: Place) -> u32 {
        match place {
            Place::A => self.a() as u32,
            Place::B => self.b() as u32,
            Place::C => self.c() as u32,
            Place::X => self.x(),
        }
    }

    /// The instruction with another value in a field; `None` if the field is too narrow.
    pub const fn with_field(self, place: Place, value: u32) -> Option<Code> {
        let (shift, mask) = match place {
            Place::A => (16, u16::MAX as u64),
            Place::B => (32, u16::MAX as u64),
            Place::C => (48, u16::MAX as u64),
            Place::X => (32, u32::MAX as u64),
        };
        if value as u64 > mask {
            return None;
        }
        Some(Code(self.0 & !(mask << shift) | (value as u64) << shift))
    }

    /// The field at a place, with a sign.
    pub const fn signed(self, place: Place) -> i32 {
        match place {
            Place::X => self.x() as i32,
            _ => self.field(place) as u16 as i16 as i32,
        }
    }

    /// Where the instruction, which stands at an index, jumps to: `None` if it is no jump, or if the
    /// target lies before the beginning.
    pub fn jump_target(self, at: usize) -> Option<usize> {
        let op = self.op()?;
        let &(_, place) = op.operands().iter().find(|(operand, _)| *operand == Operand::J)?;
        (at + 1).checked_add_signed(self.signed(place) as isize)
    }

    /// The operation, if the number is one.
    pub fn op(self) -> Option<Op> {
        Op::from_number(self.number())
    }
}

macro_rules! instructions {
    ($(
        $(#[$doc:meta])*
        $name:ident $text:literal ($($operand:ident $place:ident),*) $($mark:ident)?;
    )*) => {
        /// The operations.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op {
            $($(#[$doc])* $name,)*
        }

        impl Op {
            /// All operations, by number.
            pub const ALL: &'static [Op] = &[$(Op::$name),*];

            /// How the disassembler writes it.
            pub fn text(self) -> &'static str {
                match self { $(Op::$name => $text),* }
            }

            /// Its operands, in the order in which they are written.
            pub fn operands(self) -> &'static [(Operand, Place)] {
                match self { $(Op::$name => &[$((Operand::$operand, Place::$place)),*]),* }
            }

            /// Whether the verifier needs a rule of its own for it.
            pub fn is_special(self) -> bool {
                match self { $(Op::$name => instructions!(@special $($mark)?)),* }
            }
        }

        #[allow(unused_macros)]
        /// Calls `$then!` with the names of all operations, to build tables from the list.
        macro_rules! for_each_op {
            ($then:ident) => { $then! { $($name)* } };
        }
        #[allow(unused_imports)]
        pub(crate) use for_each_op;
    };
    (@special special) => { true };
    (@special) => { false };
}

impl Op {
    /// The operation with a number.
    pub fn from_number(number: u16) -> Option<Op> {
        Op::ALL.get(number as usize).copied()
    }

    /// Whether it jumps backward, and so counts.
    pub fn is_loop(self) -> bool {
        (Op::Loop as u16..Op::New as u16).contains(&(self as u16))
    }

    /// Whether the next instruction is never reached from this one.
    pub fn ends(self) -> bool {
        matches!(
            self,
            Op::Jump
                | Op::Switch
                | Op::Loop
                | Op::Return
                | Op::ReturnInt
                | Op::ReturnVoid
                | Op::Throw
                | Op::Raise
        )
    }
}

instructions! {
    // Moves and constants.
    /// Copies a register, of whatever kind.
    Move "move" (DW A, W B) special;
    /// Copies two registers, of whatever kind, to `a` and then to `a + 1`.
    Move2 "move.2" (DW A, W B, W C) special;
    /// The `int` (or `uint`, enum, char, bool, narrow) word of a 32-bit constant.
    Int "int" (DW A, K X);
    /// A constant, sign-extended to 64 bits.
    Long "long" (DW A, K X);
    Const "const" (DW A, Word X);
    Text "text" (DS A, Str X);
    /// Null (of `string`: the empty one) as a value of a type, which is no struct.
    Null "null" (DR A, Ty X) special;

    // 32-bit integers: `int` and, where the sign does not matter, `uint`.
    AddInt "add.int" (DW A, W B, W C);
    SubInt "sub.int" (DW A, W B, W C);
    MulInt "mul.int" (DW A, W B, W C);
    DivInt "div.int" (DW A, W B, W C);
    ModInt "mod.int" (DW A, W B, W C);
    DivUint "div.uint" (DW A, W B, W C);
    ModUint "mod.uint" (DW A, W B, W C);
    NegInt "neg.int" (DW A, W B);
    AddIntK "add.int.k" (DW A, W B, K C);
    MulIntK "mul.int.k" (DW A, W B, K C);
    /// The constant is not 0.
    DivIntK "div.int.k" (DW A, W B, K C) special;
    /// The constant is not 0.
    ModIntK "mod.int.k" (DW A, W B, K C) special;

    // 64-bit integers.
    AddLong "add.long" (DW A, W B, W C);
    SubLong "sub.long" (DW A, W B, W C);
    MulLong "mul.long" (DW A, W B, W C);
    DivLong "div.long" (DW A, W B, W C);
    ModLong "mod.long" (DW A, W B, W C);
    DivUlong "div.ulong" (DW A, W B, W C);
    ModUlong "mod.ulong" (DW A, W B, W C);
    NegLong "neg.long" (DW A, W B);
    AddLongK "add.long.k" (DW A, W B, K C);
    MulLongK "mul.long.k" (DW A, W B, K C);
    /// The constant is not 0.
    DivLongK "div.long.k" (DW A, W B, K C) special;
    /// The constant is not 0.
    ModLongK "mod.long.k" (DW A, W B, K C) special;

    // Floating point. Division by zero throws.
    AddFloat "add.float" (DW A, W B, W C);
    SubFloat "sub.float" (DW A, W B, W C);
    MulFloat "mul.float" (DW A, W B, W C);
    DivFloat "div.float" (DW A, W B, W C);
    ModFloat "mod.float" (DW A, W B, W C);
    NegFloat "neg.float" (DW A, W B);
    AddDouble "add.double" (DW A, W B, W C);
    SubDouble "sub.double" (DW A, W B, W C);
    MulDouble "mul.double" (DW A, W B, W C);
    DivDouble "div.double" (DW A, W B, W C);
    ModDouble "mod.double" (DW A, W B, W C);
    NegDouble "neg.double" (DW A, W B);
    SqrtDouble "sqrt.double" (DW A, W B);

    // Conversions. The result is canonical; from `uint`, `char` and unsigned narrow types a word is
    // also the `long` of its value, from `byte` and `short` also the `int`.
    IntToLong "int.long" (DW A, W B);
    LongToInt "long.int" (DW A, W B);
    ToByte "to.byte" (DW A, W B);
    ToUbyte "to.ubyte" (DW A, W B);
    ToShort "to.short" (DW A, W B);
    ToUshort "to.ushort" (DW A, W B);
    /// Throws for what is no Unicode scalar value; reads a `long`.
    LongToChar "long.char" (DW A, W B);
    IntToFloat "int.float" (DW A, W B);
    IntToDouble "int.double" (DW A, W B);
    LongToFloat "long.float" (DW A, W B);
    LongToDouble "long.double" (DW A, W B);
    UlongToFloat "ulong.float" (DW A, W B);
    UlongToDouble "ulong.double" (DW A, W B);
    FloatToDouble "float.double" (DW A, W B);
    DoubleToFloat "double.float" (DW A, W B);
    /// Truncates towards zero, saturates, NaN gives 0; so do the next ones.
    DoubleToByte "double.byte" (DW A, W B);
    DoubleToUbyte "double.ubyte" (DW A, W B);
    DoubleToShort "double.short" (DW A, W B);
    DoubleToUshort "double.ushort" (DW A, W B);
    DoubleToInt "double.int" (DW A, W B);
    DoubleToUint "double.uint" (DW A, W B);
    DoubleToLong "double.long" (DW A, W B);
    DoubleToUlong "double.ulong" (DW A, W B);

    // Comparisons into a bool. `Eq`/`Ne` compare whole words: integers, chars, bools, enums.
    Eq "eq" (DW A, W B, W C);
    Ne "ne" (DW A, W B, W C);
    LtInt "lt.int" (DW A, W B, W C);
    LeInt "le.int" (DW A, W B, W C);
    LtLong "lt.long" (DW A, W B, W C);
    LeLong "le.long" (DW A, W B, W C);
    /// Also for `uint` and `char`.
    LtUlong "lt.ulong" (DW A, W B, W C);
    LeUlong "le.ulong" (DW A, W B, W C);
    EqFloat "eq.float" (DW A, W B, W C);
    NeFloat "ne.float" (DW A, W B, W C);
    LtFloat "lt.float" (DW A, W B, W C);
    LeFloat "le.float" (DW A, W B, W C);
    EqDouble "eq.double" (DW A, W B, W C);
    NeDouble "ne.double" (DW A, W B, W C);
    LtDouble "lt.double" (DW A, W B, W C);
    LeDouble "le.double" (DW A, W B, W C);
    /// Identity of references.
    EqRef "eq.ref" (DW A, R B, R C);
    NeRef "ne.ref" (DW A, R B, R C);
    /// Target, receiver and form of two function values.
    EqFunc "eq.func" (DW A, R B, R C);
    NeFunc "ne.func" (DW A, R B, R C);
    EqText "eq.text" (DW A, S B, S C);
    NeText "ne.text" (DW A, S B, S C);
    LtText "lt.text" (DW A, S B, S C);
    LeText "le.text" (DW A, S B, S C);
    Not "not" (DW A, W B);

    // Forward jumps.
    Jump "jump" (J X);
    JumpIf "jump.if" (W A, J X);
    JumpIfNot "jump.ifnot" (W A, J X);
    JumpNull "jump.null" (R A, J X);
    JumpNotNull "jump.notnull" (R A, J X);
    JumpEq "jump.eq" (W A, W B, J C);
    JumpNe "jump.ne" (W A, W B, J C);
    JumpEqRef "jump.eq.ref" (R A, R B, J C);
    JumpNeRef "jump.ne.ref" (R A, R B, J C);
    JumpLtInt "jump.lt.int" (W A, W B, J C);
    JumpLeInt "jump.le.int" (W A, W B, J C);
    JumpLtLong "jump.lt.long" (W A, W B, J C);
    JumpLeLong "jump.le.long" (W A, W B, J C);
    JumpLtUlong "jump.lt.ulong" (W A, W B, J C);
    JumpLeUlong "jump.le.ulong" (W A, W B, J C);
    JumpEqDouble "jump.eq.double" (W A, W B, J C);
    JumpNeDouble "jump.ne.double" (W A, W B, J C);
    JumpLtDouble "jump.lt.double" (W A, W B, J C);
    JumpLeDouble "jump.le.double" (W A, W B, J C);
    JumpNotLtDouble "jump.notlt.double" (W A, W B, J C);
    JumpNotLeDouble "jump.notle.double" (W A, W B, J C);
    JumpEqIntK "jump.eq.int.k" (W A, K B, J C);
    JumpNeIntK "jump.ne.int.k" (W A, K B, J C);
    JumpLtIntK "jump.lt.int.k" (W A, K B, J C);
    JumpLeIntK "jump.le.int.k" (W A, K B, J C);
    JumpGtIntK "jump.gt.int.k" (W A, K B, J C);
    JumpGeIntK "jump.ge.int.k" (W A, K B, J C);
    JumpEqLongK "jump.eq.long.k" (W A, K B, J C);
    JumpNeLongK "jump.ne.long.k" (W A, K B, J C);
    JumpLtLongK "jump.lt.long.k" (W A, K B, J C);
    JumpLeLongK "jump.le.long.k" (W A, K B, J C);
    JumpGtLongK "jump.gt.long.k" (W A, K B, J C);
    JumpGeLongK "jump.ge.long.k" (W A, K B, J C);
    /// To the table's target for the 64 bits of `a`, by their wrapping distance from the first.
    Switch "switch" (W A, Sw X) special;

    // Backward jumps: the back-edges of loops, which count.
    Loop "loop" (J X);
    LoopIf "loop.if" (W A, J X);
    LoopIfNot "loop.ifnot" (W A, J X);
    LoopNotNull "loop.notnull" (R A, J X);
    LoopNe "loop.ne" (W A, W B, J C);
    LoopNeIntK "loop.ne.int.k" (W A, K B, J C);
    LoopNeLongK "loop.ne.long.k" (W A, K B, J C);
    LoopLtInt "loop.lt.int" (W A, W B, J C);
    LoopLeInt "loop.le.int" (W A, W B, J C);
    LoopLtIntK "loop.lt.int.k" (W A, K B, J C);
    LoopLeIntK "loop.le.int.k" (W A, K B, J C);
    LoopGtIntK "loop.gt.int.k" (W A, K B, J C);
    LoopGeIntK "loop.ge.int.k" (W A, K B, J C);
    LoopLtLong "loop.lt.long" (W A, W B, J C);
    LoopLeLong "loop.le.long" (W A, W B, J C);
    LoopLtLongK "loop.lt.long.k" (W A, K B, J C);
    LoopLeLongK "loop.le.long.k" (W A, K B, J C);
    LoopGtLongK "loop.gt.long.k" (W A, K B, J C);
    LoopGeLongK "loop.ge.long.k" (W A, K B, J C);
    LoopLtDouble "loop.lt.double" (W A, W B, J C);
    LoopLeDouble "loop.le.double" (W A, W B, J C);
    /// `a = a + 1`, then back if `a < b`.
    LoopIncLtInt "loop.inc.lt.int" (W A, W B, J C) special;
    /// `a = a + 1`, then back if `a <= b`.
    LoopIncLeInt "loop.inc.le.int" (W A, W B, J C) special;
    /// `a = a + 1`, then back if `a < k`.
    LoopIncLtIntK "loop.inc.lt.int.k" (W A, K B, J C) special;
    /// `a = a + 1`, then back if `a <= k`.
    LoopIncLeIntK "loop.inc.le.int.k" (W A, K B, J C) special;
    /// `a = a - 1`, then back if `a >= k`.
    LoopDecGeIntK "loop.dec.ge.int.k" (W A, K B, J C) special;
    /// `a = a + 1`, then back if `a < b`, in 64 bits.
    LoopIncLtLong "loop.inc.lt.long" (W A, W B, J C) special;
    /// `a = a + 1`, then back if `a < k`, in 64 bits.
    LoopIncLtLongK "loop.inc.lt.long.k" (W A, K B, J C) special;
    /// `a = a + 1`, then back if `a` is below the length of the array, list or string in `b`. Null
    /// throws, after the step.
    LoopIncLtArray "loop.inc.lt.array" (W A, R B, J C) special;
    LoopIncLtList "loop.inc.lt.list" (W A, R B, J C) special;
    LoopIncLtText "loop.inc.lt.text" (W A, S B, J C) special;

    // Objects.
    /// A new object or struct: fields zero, fields of struct types new structs.
    New "new" (DR A, Cls X) special;
    /// A copy of a struct, with copies of the structs inside.
    CopyStruct "copy" (DR A, R B) special;
    /// Throws if the object is null. The field's type decides what the register holds.
    GetField "get" (DW A, R B, Fld C) special;
    SetField "set" (R A, Fld B, W C) special;
    /// Adds to a field, or subtracts from it, as the instructions without `Field` do. Throws if the
    /// object is null.
    AddFieldInt "add.field.int" (R A, Fld B, W C) special;
    SubFieldInt "sub.field.int" (R A, Fld B, W C) special;
    AddFieldIntK "add.field.int.k" (R A, Fld B, K C) special;
    AddFieldLong "add.field.long" (R A, Fld B, W C) special;
    SubFieldLong "sub.field.long" (R A, Fld B, W C) special;
    AddFieldLongK "add.field.long.k" (R A, Fld B, K C) special;
    AddFieldDouble "add.field.double" (R A, Fld B, W C) special;
    SubFieldDouble "sub.field.double" (R A, Fld B, W C) special;

    // Arrays (`Array…`) and lists (`List…`). An index is any integer word: what is not below the
    // length as an unsigned number throws. `8`, `16`: narrow elements, `I` sign-extends; `32`; `64`.
    /// An array type and a length (`long`); negative ones throw. Elements are zero or new structs.
    NewArray "new.array" (DR A, W B, Ty C) special;
    /// An empty list or dictionary of a type.
    NewContainer "new.container" (DR A, Ty X) special;
    ArrayLength "array.length" (DW A, R B) special;
    ArrayGetI8 "array.get.i8" (DW A, R B, W C) special;
    ArrayGetU8 "array.get.u8" (DW A, R B, W C) special;
    ArrayGetI16 "array.get.i16" (DW A, R B, W C) special;
    ArrayGetU16 "array.get.u16" (DW A, R B, W C) special;
    ArrayGet32 "array.get.32" (DW A, R B, W C) special;
    ArrayGet64 "array.get.64" (DW A, R B, W C) special;
    ArraySet8 "array.set.8" (R A, W B, W C) special;
    ArraySet16 "array.set.16" (R A, W B, W C) special;
    ArraySet32 "array.set.32" (R A, W B, W C) special;
    ArraySet64 "array.set.64" (R A, W B, W C) special;
    ListLength "list.length" (DW A, R B) special;
    ListGetI8 "list.get.i8" (DW A, R B, W C) special;
    ListGetU8 "list.get.u8" (DW A, R B, W C) special;
    ListGetI16 "list.get.i16" (DW A, R B, W C) special;
    ListGetU16 "list.get.u16" (DW A, R B, W C) special;
    ListGet32 "list.get.32" (DW A, R B, W C) special;
    ListGet64 "list.get.64" (DW A, R B, W C) special;
    ListSet8 "list.set.8" (R A, W B, W C) special;
    ListSet16 "list.set.16" (R A, W B, W C) special;
    ListSet32 "list.set.32" (R A, W B, W C) special;
    ListSet64 "list.set.64" (R A, W B, W C) special;
    /// Appends an element of any type.
    ListAdd "list.add" (R A, W B) special;

    // Strings.
    TextLength "text.length" (DW A, S B);
    /// The byte at an index, as `ubyte`.
    TextByte "text.byte" (DW A, S B, W C);
    /// The char that begins at the byte position in `c`, which moves on to the next char.
    TextNext "text.next" (DW A, S B, W C) special;
    Concat "concat" (DS A, S B, S C);
    /// Concatenates the `c` strings in the registers from `b` on.
    ConcatMany "concat.many" (DS A, S B, U C) special;
    /// The text of a word (not a reference) of a type; throws for an enum value without a name.
    WordText "word.text" (DS A, W B, Ty C);
    /// The text of any reference; may call `toString` of script classes.
    RefText "ref.text" (DS A, R B);

    // Object, casts.
    /// A word or string of a type as `Object`; a null string becomes an empty one.
    Box "box" (DR A, W B, Ty C) special;
    /// The other way; throws if the object is not of exactly this boxed type.
    Unbox "unbox" (DW A, R B, Ty C) special;
    /// Throws if the object is neither null nor of this class, interface or other reference type.
    Cast "cast" (DR A, R B, Ty C) special;
    /// Throws `NullPointerException` if the reference is null.
    CheckNull "check.null" (R A);

    // Function values. The second operand of the bound ones is the receiver: null throws.
    FuncOf "func" (DR A, Fun X) special;
    /// Bound to one method. (A module has at most 65,536 functions that can be bound: later ones are
    /// given a low index by the compiler.)
    Bind "bind" (DR A, R B, Fun C) special;
    BindVirtual "bind.virtual" (DR A, R B, Slot C) special;
    BindInterface "bind.interface" (DR A, R B, Sel C) special;

    // Calls and returns.
    Call "call" (Call A, Fun X) special;
    /// Calls a method that is known: throws if the receiver, in `a`, is null.
    CallMethod "call.method" (Call A, Fun X) special;
    CallVirtual "call.virtual" (Call A, Slot B) special;
    CallInterface "call.interface" (Call A, Sel X) special;
    /// Calls the function value in `b`; its arguments begin at `a + 1`.
    CallFunc "call.func" (Call A, R B) special;
    CallNative "call.native" (Call A, Nat X) special;
    /// Returns the register's value, of whatever kind.
    Return "return" (W A) special;
    /// Returns the word of a 32-bit constant, as `Int` makes it.
    ReturnInt "return.int" (K X) special;
    ReturnVoid "return.void" () special;

    // Exceptions.
    /// Throws `NullPointerException` for null.
    Throw "throw" (R A) special;
    /// Throws a new exception of a class with a constant message and a backtrace.
    Raise "raise" (Exc A, Str X) special;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_put() {
        let code = Code::abc(Op::AddInt, 1, 0xffff, 3);
        assert_eq!((code.op(), code.a(), code.b(), code.c()), (Some(Op::AddInt), 1, 0xffff, 3));
        let code = Code::ax(Op::Int, 7, -1i32 as u32);
        assert_eq!((code.op(), code.a(), code.x() as i32), (Some(Op::Int), 7, -1));
        assert_eq!(Op::from_number(Op::ALL.len() as u16), None);
    }

    #[test]
    fn a_jump_counts_from_the_next_instruction() {
        let forward = Code::abc(Op::JumpLtInt, 1, 2, 3);
        let backward = Code::abc(Op::LoopLtInt, 1, 2, -3i16 as u16);
        assert_eq!((forward.jump_target(10), backward.jump_target(10)), (Some(14), Some(8)));
        assert_eq!(Code::ax(Op::Loop, 0, -12i32 as u32).jump_target(10), None);
        assert_eq!(Code::ax(Op::Int, 0, 12).jump_target(10), None);
        for &op in Op::ALL {
            assert_eq!(op.is_loop(), op.text().starts_with("loop"), "{op:?}");
        }
    }

    #[test]
    fn no_two_operands_share_bits() {
        for &op in Op::ALL {
            let mut taken = 0u8;
            for &(_, place) in op.operands() {
                let bits = match place {
                    Place::A => 1,
                    Place::B => 2,
                    Place::C => 4,
                    Place::X => 6,
                };
                assert_eq!(taken & bits, 0, "{op:?}");
                taken |= bits;
            }
        }
    }
}
