//! `lockkeeper_fuzzing::session_frames`, fed by libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lockkeeper_fuzzing::session_frames(bytes));
