//! What users of the crate lockkeeper-client build: few packages, and none of the coordinator's.

use std::{collections::BTreeSet, process::Command};

/// The client, its dependencies and theirs.
const PACKAGES_MAX: usize = 100;

/// Crates that only the coordinator and the command line need.
const FOREIGN: [&str; 7] = [
    "aws-lc-rs",
    "axum",
    "clap",
    "deadpool-redis",
    "lockkeeper-base",
    "mlua",
    "redis",
];

/// Crates of TLS, which need a C compiler.
const TLS: [&str; 3] = ["cc", "ring", "rustls"];

/// The packages that a build of the client compiles.
fn packages(features: &[&str]) -> BTreeSet<String> {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "lockkeeper-client",
        ])
        .args([
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{errors}");
    let lines = String::from_utf8(tree.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn the_client_needs_few_packages_and_none_of_the_coordinator() {
    let packages = packages(&[]);
    assert!(packages.contains("tonic") && packages.contains("ring"));
    assert!(packages.len() <= PACKAGES_MAX, "{}", packages.len());
    let foreign: Vec<_> = FOREIGN
        .iter()
        .filter(|it| packages.contains(**it))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn without_tls_the_client_needs_no_c_compiler() {
    let packages = packages(&["--no-default-features"]);
    assert!(packages.contains("tonic"));
    let tls: Vec<_> = TLS.iter().filter(|it| packages.contains(**it)).collect();
    assert!(tls.is_empty(), "{tls:?}");
}
