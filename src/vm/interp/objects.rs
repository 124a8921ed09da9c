//! Handlers: moves, constants, objects, containers, strings, casts, function values, exceptions.

use super::arithmetic::slow;
use super::state::{Flow, State};
use super::{raise, slow as paths, targets, throw};
use crate::vm::heap::object;

#[inline(always)]
pub(super) unsafe fn Move(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        let word = s.get(s.b());
        s.set(s.a(), word);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Move2(s: &mut State) -> Flow {
    // SAFETY: the state's invariants; the verifier has seen that there is a register `a + 1`.
    unsafe {
        let a = s.a();
        let first = s.get(s.b());
        s.set(a, first);
        let second = s.get(s.c());
        s.set(a + 1, second);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Int(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        let word = u64::from(s.x());
        s.set(s.a(), word);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Long(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        let word = i64::from(s.x_signed()) as u64;
        s.set(s.a(), word);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Const(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that there is a constant of this index.
    unsafe {
        let word = *(*s.cx).words.add(s.x() as usize);
        s.set(s.a(), word);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Text(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that there is a text of this index.
    unsafe {
        let word = *(*s.cx).texts.add(s.x() as usize);
        s.set(s.a(), word);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Null(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        s.set(s.a(), 0);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn Switch(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that there is a table of this index and that its targets are
    // instructions of the function.
    unsafe {
        let table = &*(*s.cx).switches.add(s.x() as usize);
        let place = s.get(s.a()).wrapping_sub(table.first as u64);
        s.pc = if place < table.count { *table.targets.add(place as usize) } else { table.default };
        Flow::Next
    }
}

#[inline(always)]
pub(super) unsafe fn New(s: &mut State) -> Flow {
    // SAFETY: the linker has put the runtime type of a class or struct there.
    unsafe {
        let instance = &*(*s.cx).instances.add(s.x() as usize);
        // No mutable reference to the machine is alive in hot code.
        let heap = &raw const (*s.cx).heap;
        match (*heap).take_cell(instance.class, instance.header) {
            Some(object) => {
                s.set(s.a(), object);
                s.advance()
            }
            None => Flow::Slow(paths::new_object),
        }
    }
}

#[inline(always)]
pub(super) unsafe fn GetField(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the object, if it is one, has the field.
    unsafe {
        let object = s.get(s.b());
        if object == 0 {
            return Flow::Slow(raise::null_field);
        }
        let word = object::field(object, s.c());
        s.set(s.a(), word);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn SetField(s: &mut State) -> Flow {
    // SAFETY: as for `GetField`; the verifier has seen that the value is of the field's type.
    unsafe {
        let object = s.get(s.a());
        if object == 0 {
            return Flow::Slow(raise::null_field);
        }
        object::set_field(object, s.b(), s.get(s.c()));
        s.advance()
    }
}

/// Changes a field by the register, or the constant, in `c`.
macro_rules! change_field {
    ($($name:ident($s:ident, $old:ident) = $new:expr;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name($s: &mut State) -> Flow {
            // SAFETY: the verifier has seen that the object, if it is one, has the field, and that it
            // is no reference.
            unsafe {
                let object = $s.get($s.a());
                if object == 0 {
                    return Flow::Slow(raise::null_field);
                }
                let slot = $s.b();
                let $old = object::field(object, slot);
                object::set_field(object, slot, $new);
                $s.advance()
            }
        }
    )*};
}

change_field! {
    AddFieldInt(s, old) = u64::from((old as u32).wrapping_add(s.get(s.c()) as u32));
    SubFieldInt(s, old) = u64::from((old as u32).wrapping_sub(s.get(s.c()) as u32));
    AddFieldIntK(s, old) = u64::from((old as u32).wrapping_add(i32::from(s.c_signed()) as u32));
    AddFieldLong(s, old) = old.wrapping_add(s.get(s.c()));
    SubFieldLong(s, old) = old.wrapping_sub(s.get(s.c()));
    AddFieldLongK(s, old) = old.wrapping_add(i64::from(s.c_signed()) as u64);
    AddFieldDouble(s, old) = (f64::from_bits(old) + f64::from_bits(s.get(s.c()))).to_bits();
    SubFieldDouble(s, old) = (f64::from_bits(old) - f64::from_bits(s.get(s.c()))).to_bits();
}

#[inline(always)]
pub(super) unsafe fn ArrayLength(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the reference is null or an array.
    unsafe {
        let array = s.get(s.b());
        if array == 0 {
            return Flow::Slow(raise::null_array);
        }
        let length = object::array_length(array);
        s.set(s.a(), length);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn ListLength(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the reference is null or a list.
    unsafe {
        let list = s.get(s.b());
        if list == 0 {
            return Flow::Slow(raise::null_list);
        }
        let length = object::list_length(list);
        s.set(s.a(), length);
        s.advance()
    }
}

macro_rules! elements {
    ($($get_array:ident $get_list:ident = $get:ident as $($cast:ty),+;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $get_array(s: &mut State) -> Flow {
            // SAFETY: the verifier has seen that the reference is null or an array with elements of
            // this size; the index is tested.
            unsafe {
                let array = s.get(s.b());
                if array == 0 {
                    return Flow::Slow(raise::null_array);
                }
                let index = s.get(s.c());
                if index >= object::array_length(array) {
                    return Flow::Slow(raise::array_index);
                }
                let word = object::$get(array, index) $(as $cast)+;
                s.set(s.a(), word);
                s.advance()
            }
        }

        #[inline(always)]
        pub(super) unsafe fn $get_list(s: &mut State) -> Flow {
            // SAFETY: as above; a list's buffer has room for as many elements as its length says.
            unsafe {
                let list = s.get(s.b());
                if list == 0 {
                    return Flow::Slow(raise::null_list);
                }
                let index = s.get(s.c());
                if index >= object::list_length(list) {
                    return Flow::Slow(raise::list_index);
                }
                let word = object::$get(object::list_buffer(list), index) $(as $cast)+;
                s.set(s.a(), word);
                s.advance()
            }
        }
    )*};
}

elements! {
    ArrayGetI8 ListGetI8 = element8 as i8, i32, u32, u64;
    ArrayGetU8 ListGetU8 = element8 as u64;
    ArrayGetI16 ListGetI16 = element16 as i16, i32, u32, u64;
    ArrayGetU16 ListGetU16 = element16 as u64;
    ArrayGet32 ListGet32 = element32 as u64;
    ArrayGet64 ListGet64 = element64 as u64;
}

macro_rules! set_elements {
    ($($set_array:ident $set_list:ident = $set:ident $ty:ty;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $set_array(s: &mut State) -> Flow {
            // SAFETY: as for reading; the verifier has seen that the value is of the element's type.
            unsafe {
                let array = s.get(s.a());
                if array == 0 {
                    return Flow::Slow(raise::null_array);
                }
                let index = s.get(s.b());
                if index >= object::array_length(array) {
                    return Flow::Slow(raise::array_index);
                }
                object::$set(array, index, s.get(s.c()) as $ty);
                s.advance()
            }
        }

        #[inline(always)]
        pub(super) unsafe fn $set_list(s: &mut State) -> Flow {
            // SAFETY: as above.
            unsafe {
                let list = s.get(s.a());
                if list == 0 {
                    return Flow::Slow(raise::null_list);
                }
                let index = s.get(s.b());
                if index >= object::list_length(list) {
                    return Flow::Slow(raise::list_index);
                }
                object::$set(object::list_buffer(list), index, s.get(s.c()) as $ty);
                s.advance()
            }
        }
    )*};
}

set_elements! {
    ArraySet8 ListSet8 = set_element8 u8;
    ArraySet16 ListSet16 = set_element16 u16;
    ArraySet32 ListSet32 = set_element32 u32;
    ArraySet64 ListSet64 = set_element64 u64;
}

#[inline(always)]
pub(super) unsafe fn ListAdd(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the reference is null or a list, and the word one of its
    // elements; with one carrier nobody else changes the list.
    unsafe {
        let list = s.get(s.a());
        if list == 0 || (*s.cx).shared {
            return Flow::Slow(paths::list_add);
        }
        let length = object::list_length(list);
        let buffer = object::list_buffer(list);
        if buffer == 0 || length == object::array_length(buffer) {
            return Flow::Slow(paths::list_add);
        }
        object::set_element(buffer, length, s.get(s.b()));
        object::store_release(list + 8, length + 1);
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn TextLength(s: &mut State) -> Flow {
    // SAFETY: the verifier has seen that the reference is a string or null.
    unsafe {
        let length = object::string_length(s.get(s.b()));
        s.set(s.a(), u64::from(length));
        s.advance()
    }
}

#[inline(always)]
pub(super) unsafe fn TextByte(s: &mut State) -> Flow {
    // SAFETY: as for `TextLength`; the index is tested.
    unsafe {
        let string = s.get(s.b());
        let index = s.get(s.c());
        if index >= u64::from(object::string_length(string)) {
            return Flow::Slow(raise::text_index);
        }
        let byte = object::string_byte(string, index);
        s.set(s.a(), u64::from(byte));
        s.advance()
    }
}

/// Handlers that compare strings: at once where that is settled by identity, else outside.
macro_rules! compare_texts {
    ($($name:ident = $same:literal, $slow:path;)*) => {$(
        #[inline(always)]
        pub(super) unsafe fn $name(s: &mut State) -> Flow {
            // SAFETY: the state's invariants.
            unsafe {
                if s.get(s.b()) != s.get(s.c()) {
                    return Flow::Slow($slow);
                }
                s.set(s.a(), $same);
                s.advance()
            }
        }
    )*};
}

compare_texts! {
    EqText = 1, paths::text_eq;
    NeText = 0, paths::text_ne;
    LtText = 0, paths::text_lt;
    LeText = 1, paths::text_le;
}

#[inline(always)]
pub(super) unsafe fn CheckNull(s: &mut State) -> Flow {
    // SAFETY: the state's invariants.
    unsafe {
        if s.get(s.a()) == 0 {
            return Flow::Slow(raise::null_value);
        }
        s.advance()
    }
}

slow! {
    ModFloat = paths::mod_float;
    ModDouble = paths::mod_double;
    LongToChar = paths::long_to_char;
    CopyStruct = paths::copy_struct;
    NewArray = paths::new_array;
    NewContainer = paths::new_container;
    TextNext = paths::text_next;
    Concat = paths::concat;
    ConcatMany = paths::concat_many;
    WordText = paths::word_text;
    RefText = paths::reference_text;
    Box = paths::box_word;
    Unbox = paths::unbox;
    Cast = paths::cast;
    EqFunc = targets::func_eq;
    NeFunc = targets::func_ne;
    FuncOf = targets::func_of;
    Bind = targets::bind;
    BindVirtual = targets::bind_virtual;
    BindInterface = targets::bind_interface;
    Throw = throw::throw;
    Raise = throw::raise;
}
