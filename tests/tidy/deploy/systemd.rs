//! `deploy/systemd/`: the unit starts what there is, gives it time to stop, and leaves it no
//! privilege.

use std::{collections::BTreeMap, fs};

use tempfile::TempDir;

use super::{expect_problem, settings_of, text};
use crate::expect_none;

const PATH: &str = "deploy/systemd/lockkeeper.service";

/// Where the service reads its settings.
const FOLDER: &str = "/etc/lockkeeper";

/// What a service that needs nothing but the network goes without.
const HARDENED: [&str; 15] = [
    "User=lockkeeper",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectControlGroups=yes",
    "RestrictNamespaces=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
];

#[test]
fn the_unit_starts_the_binary_and_protects_the_rest() {
    expect_none(&problems(&text(PATH)));
}

fn value<'a>(unit: &'a str, key: &str) -> Option<&'a str> {
    unit.lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

fn problems(unit: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for line in HARDENED {
        if !unit.lines().any(|it| it == line) {
            problems.push(format!("{line} is missing"));
        }
    }
    let harms = [
        ("PrivateUsers", "cannot tell the users of its socket apart"),
        ("ProcSubset", "does not see the memory of the machine"),
        // Copies, made at the start.
        ("LoadCredential", "does not see that its files change"),
        ("DynamicUser", "has no group that may read its files"),
    ];
    let harms = harms.iter().filter(|(key, _)| value(unit, key).is_some());
    problems.extend(harms.map(|(_, harm)| (*harm).to_owned()));
    let service = unit.find("[Service]").unwrap_or_default();
    if value(&unit[..service], "StartLimitIntervalSec") != Some("0") {
        problems.push("is given up after some starts".to_owned());
    }
    if value(unit, "Type") != Some("notify") {
        problems.push("does not wait until it serves".to_owned());
    }
    // Its files, in a folder of this machine.
    let folder = TempDir::new().unwrap();
    let example = text("deploy/config.example.toml");
    fs::write(folder.path().join("config.toml"), example).unwrap();
    let secret = "0123456789abcdef".repeat(2);
    fs::write(folder.path().join("session-secret"), secret).unwrap();
    let there = |text: &str| text.replace(FOLDER, folder.path().to_str().unwrap());
    let start = value(unit, "ExecStart").unwrap_or_default();
    let mut words = start.split_whitespace().map(there);
    if words.next().as_deref() != Some("/usr/local/bin/lockkeeper") {
        problems.push("starts something else".to_owned());
    }
    let environment = value(unit, "Environment").and_then(|it| it.split_once('='));
    let environment: BTreeMap<_, _> = environment
        .map(|(key, value)| (key.to_owned(), there(value)))
        .into_iter()
        .collect();
    match settings_of(&words.collect::<Vec<_>>(), &environment) {
        Ok(settings) => {
            let drain = settings["server"]["drain_grace"].as_str().unwrap();
            let drain = humantime::parse_duration(drain).unwrap().as_secs();
            let stop = value(unit, "TimeoutStopSec").and_then(|it| it.parse::<u64>().ok());
            if stop.is_none_or(|stop| stop <= drain) {
                problems.push("is killed while it drains".to_owned());
            }
        }
        Err(refused) => problems.push(refused),
    }
    problems
}

#[test]
fn a_broken_unit_is_found() {
    let good = text(PATH);
    let broken = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        problems(&good.replace(from, to))
    };
    expect_problem(&broken("ProtectHome=yes\n", ""), "ProtectHome");
    expect_problem(&broken("PrivateTmp", "PrivateUsers"), "users of its socket");
    expect_problem(
        &broken("KeyringMode=private", "ProcSubset=pid"),
        "memory of the machine",
    );
    expect_problem(&broken("UMask=0007", "LoadCredential=a:/a"), "files change");
    expect_problem(
        &broken("Group=lockkeeper", "DynamicUser=yes"),
        "may read its files",
    );
    expect_problem(&broken("StartLimitIntervalSec=0\n", ""), "given up");
    expect_problem(&broken("Type=notify", "Type=simple"), "until it serves");
    expect_problem(&broken("serve --config", "serve --konfig"), "--konfig");
    expect_problem(&broken("/config.toml\n", "/other.toml\n"), "other.toml");
    expect_problem(
        &broken("SESSION__SECRET_FILE", "SESSION__KEY"),
        "session.key",
    );
    expect_problem(&broken("TimeoutStopSec=20", "TimeoutStopSec=5"), "drains");
}
