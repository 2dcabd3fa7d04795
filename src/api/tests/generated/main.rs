//! The committed code in `generated/`, and the reference in `docs/api/`, are what `proto/`
//! describes. Needs no protoc. `make proto` writes them.

mod reference;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use prost::Message as _;

const SERVICES: [&str; 5] = ["admin", "election", "latch", "lock", "semaphore"];

#[test]
fn the_committed_code_is_what_proto_says() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler = protox::Compiler::new([here.join("../../proto")])?;
    compiler.include_source_info(true).include_imports(true);
    for service in SERVICES {
        compiler.open_file(format!("lockkeeper/v1/{service}_service.proto"))?;
    }
    let descriptors = compiler.file_descriptor_set();
    let pages = reference::pages(&descriptors);
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
        let fresh = fs::read(generated.path().join(file))?;
        check(&here.join("generated").join(file), &fresh)?;
    }
    for (page, text) in pages {
        check(&here.join("../../docs/api").join(page), text.as_bytes())?;
    }
    Ok(())
}

/// A committed file is as it would be written now, or is written.
fn check(committed: &PathBuf, fresh: &[u8]) -> std::io::Result<()> {
    if env::var_os("UPDATE_PROTO").is_some() {
        fs::create_dir_all(committed.parent().expect("a folder"))?;
        fs::write(committed, fresh)?;
    }
    assert!(
        fs::read(committed).is_ok_and(|it| it == fresh),
        "{} is not what proto/ says: `make proto` writes it anew",
        committed.display()
    );
    Ok(())
}
