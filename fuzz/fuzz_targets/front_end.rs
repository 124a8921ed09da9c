//! Any bytes as a source file: the compiler reports what is wrong with them, or makes a module that
//! the verifier accepts; it never panics, hangs or overflows its stack.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pirn::fuzzing::front_end(bytes));
