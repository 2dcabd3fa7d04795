//! `lockkeeper_fuzzing::grpc_timeout`, fed by libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lockkeeper_fuzzing::grpc_timeout(bytes));
