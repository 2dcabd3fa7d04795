//! Names the commit that is built.

use std::{env, process::Command};

fn main() {
    println!("cargo:rustc-env=LOCKKEEPER_COMMIT={}", commit());
}

/// The commit that is built, for `--version` and the metrics: `LOCKKEEPER_COMMIT` of the
/// environment if it is set, as where sources are built without their repository; else what git
/// says, in release builds only, because others would be built anew after every commit; else
/// `unknown`.
fn commit() -> String {
    println!("cargo:rerun-if-env-changed=LOCKKEEPER_COMMIT");
    let given = env::var("LOCKKEEPER_COMMIT").unwrap_or_default();
    if !given.is_empty() {
        return given;
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"])
    {
        if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
            println!("cargo:rerun-if-changed={log}");
        }
        return commit;
    }
    "unknown".to_owned()
}

fn git(arguments: &[&str]) -> Option<String> {
    let answer = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    (answer.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
