//! Any bytes as a compiled program: they are refused, or read as what is written again unchanged, and
//! verified or refused; nothing panics, hangs or takes memory without need.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pirn::fuzzing::module_bytes(bytes));
