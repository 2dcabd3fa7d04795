//! `lockkeeper_fuzzing::http_json`, fed by libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lockkeeper_fuzzing::http_json(bytes));
