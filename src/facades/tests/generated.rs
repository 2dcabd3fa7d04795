//! The committed code in `generated/` is what `proto/` of this crate describes. Needs no protoc.
//! `make proto` writes it.

use std::{env, fs, path::Path};

use prost::Message as _;

const FILES: [&str; 5] = [
    "dapr/lock.proto",
    "etcd/rpc.proto",
    "etcd/v3election.proto",
    "etcd/v3lock.proto",
    "terraform/lock.proto",
];

#[test]
fn the_committed_code_is_what_proto_says() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = protox::Compiler::new([here.join("proto")])?;
    compiler.include_imports(true).open_files(FILES)?;
    let descriptors = compiler.file_descriptor_set();
    let fresh = tempfile::tempdir()?;
    let encoded = descriptors.encode_to_vec();
    fs::write(fresh.path().join("descriptors.bin"), encoded)?;
    tonic_prost_build::configure()
        .out_dir(fresh.path())
        .compile_fds(descriptors)?;
    let committed = here.join("generated");
    if env::var_os("UPDATE_PROTO").is_some() {
        for file in fs::read_dir(fresh.path())? {
            let file = file?;
            fs::copy(file.path(), committed.join(file.file_name()))?;
        }
    }
    for file in fs::read_dir(fresh.path())? {
        let file = file?;
        let same = fs::read(committed.join(file.file_name())).ok() == fs::read(file.path()).ok();
        assert!(same, "{:?} is not what proto/ says", file.file_name());
    }
    Ok(())
}
