//! Makes the bare server's half of `LockService` as any user of tonic would, with tonic's own
//! codec. The coordinator's is made with smaller buffers, and an anchor must not profit from what
//! is to be measured.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = "../../proto";
    println!("cargo:rerun-if-changed={proto}");
    let mut compiler = protox::Compiler::new([proto])?;
    compiler.include_imports(true);
    compiler.open_file("lockkeeper/v1/lock_service.proto")?;
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".lockkeeper.v1", "::lockkeeper_api::pb")
        .extern_path(".google.rpc.Status", "::lockkeeper_api::pb::Status")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
