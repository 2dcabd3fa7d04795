//! `deploy/Dockerfile`: what it copies is there, what it stands on is pinned, and what it leaves
//! runs as nobody.

use super::{expect_problem, is_pinned, text};
use crate::{expect_none, source::exists};

const PATH: &str = "deploy/Dockerfile";

#[test]
fn the_image_can_be_built_from_what_is_here() {
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

fn problems(text: &str) -> Vec<String> {
    let instructions = instructions(text);
    let mut problems = Vec::new();
    let mut stages = Vec::new();
    let (mut user, mut has_health_check, mut command) = (None, false, Vec::new());
    for (name, arguments) in &instructions {
        match name.as_str() {
            "FROM" => {
                if arguments[0] != "scratch" && !is_pinned(&arguments[0]) {
                    problems.push(format!("{} may change", arguments[0]));
                }
                match &arguments[1..] {
                    [word, stage] if word == "AS" => stages.push(stage.clone()),
                    _ => problems.push(format!("{} has no name", arguments[0])),
                }
                (user, has_health_check) = (None, false);
            }
            "COPY" => {
                let from = arguments[0].strip_prefix("--from=");
                if let Some(stage) = from.filter(|stage| !stages.iter().any(|it| it == stage)) {
                    problems.push(format!("there is no stage {stage}"));
                }
            }
            "RUN" if arguments.iter().any(|it| it == "cargo") => {
                if !arguments.iter().any(|it| it == "--locked") {
                    problems.push("builds what was not tested".to_owned());
                }
            }
            "USER" => user = arguments.first().cloned(),
            "HEALTHCHECK" => has_health_check = true,
            "ENTRYPOINT" | "CMD" => command.extend(arguments.clone()),
            "ARG" | "RUN" | "WORKDIR" | "EXPOSE" | "ENV" | "LABEL" => {}
            other => problems.push(format!("{other} is not expected")),
        }
    }
    let number = user.as_deref().and_then(|it| it.split(':').next());
    if !number.is_some_and(|it| it.parse::<u32>().is_ok_and(|number| number > 0)) {
        problems.push(format!("runs as {user:?}"));
    }
    if !has_health_check {
        problems.push("has no health check".to_owned());
    }
    if command != ["[\"lockkeeper\"]", "[\"serve\"]"] {
        problems.push(format!("starts {command:?}"));
    }
    let missing = copied(&instructions).into_iter().filter(|it| !exists(it));
    problems.extend(missing.map(|path| format!("{path} does not exist")));
    problems
}

#[test]
fn broken_images_are_found() {
    let good = text(PATH);
    let broken = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        problems(&good.replace(from, to))
    };
    expect_problem(&broken("rust:1.95.0-bookworm", "rust:latest"), "may change");
    expect_problem(&broken(" AS coordinator", ""), "has no name");
    expect_problem(&broken("USER 65532:65532", "USER root"), "runs as");
    expect_problem(&broken("USER 65532:65532\n", ""), "runs as None");
    expect_problem(&broken("HEALTHCHECK", "ARG"), "has no health check");
    expect_problem(
        &broken("COPY lua", "COPY scripts/lua"),
        "scripts/lua does not exist",
    );
    expect_problem(
        &broken("--from=build /build", "--from=builder /build"),
        "no stage builder",
    );
    expect_problem(&broken(" --locked --bin", " --bin"), "not tested");
}
