//! `deploy/Dockerfile`: it copies what the workspace needs, and what it stands on is pinned.

use super::{expect_problem, is_pinned, text};
use crate::expect_none;

const PATH: &str = "deploy/Dockerfile";

#[test]
fn the_image_is_built_of_what_was_tested() {
    expect_none(&problems(&text(PATH)));
}

#[test]
fn the_build_is_sent_what_it_copies_and_no_more() {
    let ignored = text(".dockerignore");
    let kept: Vec<_> = ignored
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .collect();
    assert!(ignored.lines().any(|line| line == "*"));
    let mut copied = copied(&instructions(&text(PATH)));
    copied.sort();
    // The first stage takes the manifests from what the second takes whole.
    copied.dedup();
    let mut expected: Vec<_> = kept.iter().map(|&it| it.to_owned()).collect();
    expected.sort();
    assert_eq!(copied, expected);
}

#[test]
fn what_the_build_copies_is_all_that_the_crate_includes() {
    // The scripts are the only files outside of `src` that the sources name.
    let copied = copied(&instructions(&text(PATH)));
    for needed in ["Cargo.toml", "Cargo.lock", "build.rs", "lua", "src"] {
        assert!(copied.iter().any(|it| it == needed), "{needed}");
    }
    let manifest = text("Cargo.toml");
    let workspace: toml::Table = manifest.parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    for member in members.iter().map(|it| it.as_str().unwrap()) {
        let needed = format!("{member}/Cargo.toml");
        assert!(
            member.starts_with("src/") || copied.contains(&needed),
            "{needed}"
        );
    }
}

#[test]
fn the_oldest_rust_that_we_promise_builds_it() {
    let manifest = text("Cargo.toml");
    let minimum = manifest.split("rust-version = \"").nth(1).unwrap();
    let minimum = minimum.split('"').next().unwrap();
    let checks = format!("cargo +{minimum} check");
    assert!(text(".github/workflows/ci.yml").contains(&checks));
}

/// Instructions with their arguments, comments left out and lines joined.
fn instructions(text: &str) -> Vec<(String, Vec<String>)> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            (words.next().unwrap(), words.collect())
        })
        .collect()
}

/// What is taken from the tree.
fn copied(instructions: &[(String, Vec<String>)]) -> Vec<String> {
    let copies = instructions.iter().filter(|(name, arguments)| {
        name == "COPY" && !arguments.iter().any(|it| it.starts_with("--from="))
    });
    copies
        .flat_map(|(_, arguments)| &arguments[..arguments.len() - 1])
        .cloned()
        .collect()
}

/// `tests/containers` builds and runs the image, which shows the rest.
fn problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, arguments) in instructions(text) {
        let base = &arguments[0];
        if name == "FROM" && base != "scratch" && !is_pinned(base) {
            problems.push(format!("{base} may change"));
        }
        let has = |word: &str| arguments.iter().any(|it| it == word);
        if name == "RUN" && has("cargo") && !has("--locked") {
            problems.push("builds what was not tested".to_owned());
        }
    }
    problems
}

#[test]
fn an_image_that_may_change_is_found() {
    let good = text(PATH);
    for (from, to, said) in [
        ("rust:1.95.0-bookworm", "rust:latest", "may change"),
        (" --locked --bin", " --bin", "not tested"),
    ] {
        assert!(good.contains(from), "{from}");
        expect_problem(&problems(&good.replace(from, to)), said);
    }
}
