//! The committed code in `generated/` is what `proto/` describes. Needs no protoc. `make proto`
//! writes it.

use std::{env, fs, path::Path};

use prost::Message as _;

const SERVICES: [&str; 4] = ["admin", "latch", "lock", "semaphore"];

#[test]
fn the_committed_code_is_what_proto_says() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = protox::Compiler::new([here.join("../../proto")])?;
    compiler.include_source_info(true).include_imports(true);
    for service in SERVICES {
        compiler.open_file(format!("lockkeeper/v1/{service}_service.proto"))?;
    }
    let descriptors = compiler.file_descriptor_set();
    let generated = tempfile::tempdir()?;
    fs::write(
        generated.path().join("descriptors.bin"),
        descriptors.encode_to_vec(),
    )?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::SizedCodec")
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .out_dir(generated.path())
        .compile_fds(descriptors)?;
    for file in ["descriptors.bin", "lockkeeper.v1.rs"] {
        let committed = here.join("generated").join(file);
        let fresh = fs::read(generated.path().join(file))?;
        if env::var_os("UPDATE_PROTO").is_some() {
            fs::create_dir_all(here.join("generated"))?;
            fs::write(&committed, &fresh)?;
        }
        assert!(
            fs::read(&committed).is_ok_and(|it| it == fresh),
            "{} is not what proto/ says: `make proto` writes it anew",
            committed.display()
        );
    }
    Ok(())
}
