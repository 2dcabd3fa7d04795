//! Compiles `proto/` without protoc and keeps the descriptors for the reflection service.

use std::{env, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true);
    for service in ["lock", "semaphore", "latch"] {
        compiler.open_file(format!("lockkeeper/v1/{service}_service.proto"))?;
    }
    let descriptors = compiler.file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .codec_path("crate::grpc::codec::SizedCodec")
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors)?;
    Ok(())
}
