//! The arrows: `grpc` to `coordinator` to `script` to `host`, and never back.

use crate::{
    expect_none,
    source::{File, is_word, rust_below, words},
};

/// What the files below a path may take from other parts of the crate; `shutdown` and `measure` are leaves that all may use. The first line that fits a file counts, and every file must
/// have one. What is named by its type and not by its module is the vocabulary of a layer: errors and handles, no behaviour.
const MAY_USE: &[(&str, &[&str])] = &[
    (
        "src/grpc/status.rs",
        &[
            "access::QuotaReached",
            "access::Unauthenticated",
            "grpc",
            "coordinator",
            "script::CallError",
            "script::Ownership",
            "script::Unsupported",
        ],
    ),
    (
        "src/grpc/",
        &[
            "access",
            "grpc",
            "coordinator",
            "measure",
            "shutdown",
            "spans",
        ],
    ),
    (
        "src/coordinator/",
        &[
            "access::Account",
            "access::Counted",
            "access::Identity",
            "access::Quota",
            "access::QuotaReached",
            "access::Right",
            "busy_poll",
            "coordinator",
            "script",
            "measure",
            "shutdown",
            "spans",
            "host::Connected",
            "host::Partition",
            "host::Replicas",
            "host::ScriptHost",
            "host::Subscriptions",
            "host::Wake",
        ],
    ),
    (
        "src/script/",
        &[
            "script",
            "host::Acks",
            "measure",
            "shutdown",
            "spans",
            "host::Call",
            "host::HostError",
            "host::Partition",
            "host::Replicas",
            "host::Replication",
            "host::ScanCursor",
            "host::Script",
            "host::ScriptHost",
            "host::Value",
        ],
    ),
    ("src/host/", &["host", "measure", "shutdown"]),
    ("src/busy_poll.rs", &["shutdown"]),
    ("src/measure.rs", &["measure"]),
    ("src/spans.rs", &["spans"]),
    ("src/access/", &["access", "measure"]),
    (
        "src/admin/",
        &["access", "admin", "coordinator", "shutdown"],
    ),
    (
        "src/cli/",
        &["cli", "client", "config", "grpc::pb", "shutdown", "threads"],
    ),
    ("src/client/", &["client", "grpc::pb", "shutdown"]),
    ("src/config/", &["config", "threads"]),
    ("src/security.rs", &["access", "config", "grpc::listen"]),
    ("src/telemetry/", &["config", "spans"]),
    ("src/shutdown.rs", &[]),
    ("src/notify.rs", &[]),
    ("src/threads.rs", &[]),
    ("src/files.rs", &[]),
    // Not shipped: it knocks at the doors of all layers.
    (
        "src/fuzzing/",
        &[
            "access",
            "config",
            "coordinator",
            "grpc",
            "host",
            "script",
            "server",
        ],
    ),
    ("src/lib.rs", &[]),
    (
        "src/main.rs",
        &[
            "busy_poll",
            "cli",
            "config",
            "server",
            "telemetry",
            "threads",
        ],
    ),
    // The wiring sees every layer; no other file has more than one.
    (
        "src/server.rs",
        &[
            "access",
            "admin",
            "config",
            "coordinator",
            "files",
            "grpc",
            "host",
            "measure",
            "notify",
            "script",
            "security",
            "shutdown",
            "telemetry",
        ],
    ),
];

/// Crates that a layer does not know.
const NEVER_NAMES: &[(&str, &[&str])] = &[
    ("src/grpc/", &["redis", "deadpool_redis", "mlua"]),
    (
        "src/coordinator/",
        &[
            "tonic",
            "tonic_types",
            "prost",
            "prost_types",
            "redis",
            "deadpool_redis",
            "mlua",
        ],
    ),
    (
        "src/script/",
        &["tonic", "prost", "redis", "deadpool_redis", "mlua"],
    ),
    ("src/host/", &["tonic", "prost"]),
    ("src/cli/", &["redis", "deadpool_redis", "mlua"]),
    ("src/client/", &["redis", "deadpool_redis", "mlua", "clap"]),
];

/// Words of the domain; a host runs scripts and does not know what a lock is.
const DOMAIN: [&str; 5] = ["session", "grant", "waiter", "watchdog", "fencing"];

/// Code that has one place.
const ONE_PLACE: &[(&str, &str)] = &[
    ("tokio::spawn", "src/shutdown.rs"),
    ("task::spawn", "src/shutdown.rs"),
    ("include_proto", "src/grpc/pb.rs"),
];

/// Texts that have one place.
const ONE_PLACE_OF_TEXT: &[(&str, &str)] = &[
    ("lua/", "src/script/catalog.rs"),
    (".lua", "src/script/catalog.rs"),
    ("redisson_", "src/script/keys.rs"),
    ("lockkeeper_", "src/script/keys.rs"),
];

#[test]
fn every_import_follows_the_arrows() {
    let problems: Vec<_> = product().iter().flat_map(forbidden_imports).collect();
    expect_none(&problems);
}

#[test]
fn no_file_climbs_out_of_its_layer() {
    let problems: Vec<_> = product().iter().filter_map(climbs).collect();
    expect_none(&problems);
}

#[test]
fn no_layer_names_a_crate_of_another() {
    let problems: Vec<_> = product().iter().flat_map(named_crates).collect();
    expect_none(&problems);
}

#[test]
fn hosts_do_not_know_what_a_lock_is() {
    let problems: Vec<_> = product().iter().flat_map(domain_words).collect();
    expect_none(&problems);
}

#[test]
fn what_has_one_place_stays_there() {
    let problems: Vec<_> = product().iter().flat_map(out_of_place).collect();
    expect_none(&problems);
}

fn product() -> Vec<File> {
    rust_below("src/")
        .into_iter()
        .filter(|file| !file.is_tests())
        .collect()
}

fn forbidden_imports(file: &File) -> Vec<String> {
    let Some((_, may_use)) = MAY_USE
        .iter()
        .find(|(place, _)| file.path.starts_with(place))
    else {
        return vec![format!("{}: has no line in the table of arrows", file.path)];
    };
    let allowed = |path: &str| {
        let fits = |start: &str| {
            path.strip_prefix(start)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        may_use.iter().any(|start| fits(start))
    };
    let forbidden = imports(&file.shipped().code)
        .into_iter()
        .filter(|path| !allowed(path));
    forbidden
        .map(|path| format!("{}: must not use {path}", file.path))
        .collect()
}

/// The paths that start at the root of the crate, those in braces one by one.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate::", "lockkeeper::"] {
        for (at, _) in code.match_indices(root) {
            if !code[..at].ends_with(|letter| is_word(letter) || letter == ':') {
                expand(&code[at + root.len()..], "", &mut found);
            }
        }
    }
    found
}

/// Reads one path or one list of paths; returns what stands behind it.
fn expand<'a>(text: &'a str, before: &str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
            if rest.is_empty() || rest.starts_with('}') {
                return rest.get(1..).unwrap_or_default();
            }
            rest = expand(rest, before, found);
        }
    }
    let name = text
        .find(|letter| !is_word(letter))
        .unwrap_or(text.len())
        .max(1)
        .min(text.len());
    let (name, rest) = text.split_at(name);
    let path = format!("{before}{name}");
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(rest, &format!("{path}::"), found);
    }
    found.push(path);
    match rest.trim_start().strip_prefix("as ") {
        Some(rest) => rest.trim_start().trim_start_matches(is_word),
        None => rest,
    }
}

/// `super` from a layer's own module is the root of the crate.
fn climbs(file: &File) -> Option<String> {
    let inside = file.path.strip_prefix("src/")?;
    let depth = inside.matches('/').count();
    let modules = depth + usize::from(!inside.ends_with("mod.rs"));
    let code = file.shipped().code;
    let out = "super::".repeat(modules);
    (depth > 0 && code.contains(&out)).then(|| format!("{}: {out} leaves the layer", file.path))
}

fn named_crates(file: &File) -> Vec<String> {
    let fits = NEVER_NAMES
        .iter()
        .filter(|(place, _)| file.path.starts_with(place));
    let code = file.shipped().code;
    let named = fits.flat_map(|(_, crates)| crates.iter()).filter(|name| {
        let uses = |at: usize| !code[..at].ends_with(|it| is_word(it) || it == ':');
        let starts = code
            .match_indices(&format!("{name}::"))
            .any(|(at, _)| uses(at));
        starts || code.contains(&format!("use {name};"))
    });
    named
        .map(|name| format!("{}: must not know {name}", file.path))
        .collect()
}

fn domain_words(file: &File) -> Vec<String> {
    if !file.path.starts_with("src/host/") {
        return Vec::new();
    }
    let text = file.text.to_lowercase();
    let found = DOMAIN
        .iter()
        .filter(|it| words(&text).any(|word| word.split('_').any(|part| part.starts_with(**it))));
    found
        .map(|word| format!("{}: speaks of a {word}", file.path))
        .collect()
}

fn out_of_place(file: &File) -> Vec<String> {
    let shipped = file.shipped();
    let code = ONE_PLACE.iter().filter(|(what, _)| {
        let ends = |at: usize| !shipped.code[at + what.len()..].starts_with(is_word);
        shipped.code.match_indices(what).any(|(at, _)| ends(at))
    });
    let says = |what: &str| {
        let bare = |at: usize, text: &str| !text[..at].ends_with(char::is_alphanumeric);
        shipped.literals.iter().any(|text| {
            text.match_indices(what)
                .any(|(at, _)| bare(at, text) || what == ".lua")
        })
    };
    let texts = ONE_PLACE_OF_TEXT.iter().filter(|(what, _)| says(what));
    let mut problems: Vec<_> = code
        .chain(texts)
        .filter(|(_, place)| file.path != *place)
        .map(|(what, place)| format!("{}: {what} belongs into {place}", file.path))
        .collect();
    let makes_statuses = shipped
        .code
        .match_indices("Status::")
        .any(|(at, _)| !shipped.code[..at].ends_with(is_word));
    if makes_statuses
        && !["src/grpc/", "src/cli/", "src/client/"]
            .iter()
            .any(|place| file.path.starts_with(place))
    {
        problems.push(format!("{}: statuses belong into src/grpc", file.path));
    }
    problems
}

#[test]
fn an_import_against_the_arrows_is_found() {
    let text = "use crate::{grpc::{pb, status as s}, shutdown::Tasks};\nfn f() { crate::host::redis::connect() }";
    let file = File::new("src/coordinator/x.rs", text);
    assert_eq!(
        imports(text),
        [
            "grpc::pb",
            "grpc::status",
            "shutdown::Tasks",
            "host::redis::connect"
        ]
    );
    let problems = forbidden_imports(&file);
    assert_eq!(problems.len(), 3, "{problems:?}");
    let vocabulary = File::new(
        "src/coordinator/x.rs",
        "use crate::host::{Subscriptions, Wake};",
    );
    assert_eq!(forbidden_imports(&vocabulary), Vec::<String>::new());
    let whole = File::new("src/coordinator/x.rs", "use crate::host;");
    assert_eq!(forbidden_imports(&whole).len(), 1);
    let unknown = File::new("src/metrics.rs", "");
    assert_eq!(forbidden_imports(&unknown).len(), 1);
    let second = File::new(
        "src/telemetry/mod.rs",
        "use crate::{coordinator::Load, grpc::Config};",
    );
    assert_eq!(forbidden_imports(&second).len(), 2);
    let commented = File::new("src/script/x.rs", "// use crate::coordinator::Core;\n");
    assert_eq!(forbidden_imports(&commented), Vec::<String>::new());
}

#[test]
fn a_climb_is_found() {
    let climbing = |path, text| climbs(&File::new(path, text)).is_some();
    assert!(climbing("src/grpc/mod.rs", "use super::script::keys;"));
    assert!(!climbing("src/grpc/lock.rs", "use super::pb;"));
    assert!(climbing(
        "src/grpc/lock.rs",
        "use super::super::script::keys;"
    ));
    assert!(!climbing(
        "src/host/embedded/commands/keys.rs",
        "use super::super::data;"
    ));
    assert!(!climbing(
        "src/grpc/mod.rs",
        "#[cfg(test)]\nmod tests {\nuse super::*;\n}"
    ));
}

#[test]
fn a_crate_of_another_layer_is_found() {
    let named = |text: &str| named_crates(&File::new("src/coordinator/x.rs", text)).len();
    assert_eq!(named("use tonic::Status; // prost::Message"), 1);
    assert_eq!(named("redis::cmd(\"GET\")"), 1);
    assert_eq!(named("use a::redis::b; let redis = 1;"), 0);
}

#[test]
fn a_word_of_the_domain_is_found_in_a_host() {
    let found = |text: &str| domain_words(&File::new("src/host/x.rs", text)).len();
    assert_eq!(found("/// The Grants of a session_id.\n"), 2);
    assert_eq!(found("watch::channel(); // possession, fragrant\n"), 0);
}

#[test]
fn what_is_out_of_place_is_found() {
    let found = |path, text: &str| out_of_place(&File::new(path, text)).len();
    assert_eq!(
        found(
            "src/grpc/x.rs",
            "tokio::spawn(f()); tokio::task::spawn_blocking(g)"
        ),
        1
    );
    assert_eq!(found("src/shutdown.rs", "tokio::spawn(f())"), 0);
    assert_eq!(
        found("src/script/x.rs", "format!(\"redisson_lock:{name}\")"),
        1
    );
    assert_eq!(
        found("src/script/x.rs", "include_str!(\"../../lua/a.lua\")"),
        2
    );
    assert_eq!(found("src/script/x.rs", "// lua/a.lua\nuse mlua::Lua;"), 0);
    assert_eq!(
        found(
            "src/server.rs",
            "Status::internal(x); ServingStatus::Serving"
        ),
        1
    );
    assert_eq!(found("src/server.rs", "ServingStatus::Serving"), 0);
}
