//! `lockkeeper_fuzzing::url`, fed by libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lockkeeper_fuzzing::url(bytes));
