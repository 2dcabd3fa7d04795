//! A release: what is published together has one version, and so do the files that name it.

use crate::{
    expect_none,
    source::{File, text, tree},
};

/// Where the version stands: a file, what is before it, and what is behind.
const PLACES: [(&str, &str, &str); 11] = [
    ("README.md", "\nVersion ", ". "),
    ("docs/deployment.md", "-t lockkeeper:", " "),
    ("docker-compose.yml", "image: lockkeeper:", "\n"),
    ("deploy/Dockerfile", "-t lockkeeper:", " "),
    ("deploy/install.sh", "\nversion=", "\n"),
    ("clients/node/package.json", "\"version\": \"", "\""),
    ("clients/python/pyproject.toml", "\nversion = \"", "\""),
    (
        "clients/java/pom.xml",
        "<artifactId>lockkeeper-parent</artifactId>\n  <version>",
        "<",
    ),
    ("clients/go/tools/artefact/test", "\nversion=v", "\n"),
    ("deploy/helm/lockkeeper/Chart.yaml", "appVersion: ", "\n"),
    (
        "deploy/kubernetes/deployment.yaml",
        "image: lockkeeper:",
        "\n",
    ),
];

#[test]
fn what_is_released_together_has_one_version() {
    expect_none(&problems(&tree(), env!("CARGO_PKG_VERSION")));
}

fn problems(files: &[File], version: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, before, behind) in PLACES {
        let file = files.iter().find(|file| file.path == path);
        let text = file.map_or("", |file| &file.text);
        let found = text.split_once(before).map_or("", |(_, rest)| rest);
        let found = found.split_once(behind).map_or("", |(found, _)| found);
        // A page may leave the last number out.
        let is_right = found == version || version.strip_suffix(".0") == Some(found);
        if !is_right {
            problems.push(format!("{path}: has {found:?}, and the crates {version}"));
        }
    }
    problems
}

#[test]
fn published_crates_have_the_licence() {
    for package in ["src/api", "src/client"] {
        let manifest = text(&format!("{package}/Cargo.toml"));
        assert!(manifest.contains("\"/LICENSE\""), "{package}");
        let licence = text(&format!("{package}/LICENSE"));
        assert_eq!(licence, text("LICENSE"), "{package}");
    }
}

#[test]
fn another_version_is_found() {
    let found = |text: &str| {
        let file = File::new("deploy/install.sh", text);
        let problems = problems(&[file], "0.2.0");
        problems
            .iter()
            .any(|it| it.starts_with("deploy/install.sh"))
    };
    assert!(found("\nversion=0.1.0\n"));
    assert!(found("\n# nothing\n"));
    assert!(!found("\nversion=0.2.0\n"));
}
