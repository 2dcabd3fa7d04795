//! What runs the coordinator elsewhere: what a schema cannot check. `tests/deploy` holds the
//! manifests against Kubernetes' own schemas, and their names against each other.

mod compose;
mod dockerfile;
mod kubernetes;
mod redis_conf;
mod systemd;

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

use crate::source::text;

/// The strings of a list, the keys of a map, or nothing.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(items) => items.iter().map(|it| it.as_str().unwrap()).collect(),
        Value::Object(map) => map.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The items of a list; none if there is no list.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An image that is the same tomorrow: with a tag that says a version in full.
fn is_pinned(image: &str) -> bool {
    let tag = image.rsplit_once(':').map(|(_, tag)| tag);
    tag.is_some_and(|tag| {
        let version = tag.split('-').next().unwrap_or_default();
        let numbers = version.split('.').filter(|it| it.parse::<u32>().is_ok());
        numbers.count() >= 2
    })
}

/// What the real binary says to a command line and an environment: the settings that result, or why
/// it refuses them.
fn settings_of(
    arguments: &[String],
    environment: &BTreeMap<String, String>,
) -> Result<toml::Table, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(arguments)
        .arg("--print-config")
        .env_clear()
        .envs(environment)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8(output.stderr).unwrap());
    }
    Ok(String::from_utf8(output.stdout).unwrap().parse().unwrap())
}

/// Fails unless one of the problems says this.
fn expect_problem(problems: &[String], said: &str) {
    assert!(
        problems.iter().any(|problem| problem.contains(said)),
        "{said:?} is not among {problems:#?}"
    );
}

#[test]
fn images_that_may_change_are_found() {
    assert!(is_pinned("redis:7.2.5-bookworm") && is_pinned("registry.example:5000/a:1.0"));
    for image in [
        "redis",
        "redis:latest",
        "redis:7",
        "redis:bookworm",
        "registry.example:5000/a",
    ] {
        assert!(!is_pinned(image), "{image}");
    }
}

#[test]
fn a_variable_that_is_no_setting_is_found() {
    let serve = ["serve".to_owned()];
    let environment = |name: &str| BTreeMap::from([(name.to_owned(), "5s".to_owned())]);
    let settings = settings_of(&serve, &environment("LOCKKEEPER__SESSION__LEASE")).unwrap();
    assert_eq!(settings["session"]["lease"].as_str(), Some("5s"));
    let refused = settings_of(&serve, &environment("LOCKKEEPER__SESSION__LEISE"));
    assert!(refused.unwrap_err().contains("leise"));
}
