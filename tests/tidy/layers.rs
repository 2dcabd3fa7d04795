//! The arrows. Cargo holds those between crates, as far as their manifests are what is written
//! here; what is finer than a crate is checked by what files import.

use crate::{
    expect_none,
    source::{File, is_word, rust_below, tree, words},
};

/// The crates that each may depend on, of ours, and crates of others that it does not know.
const CRATES: &[(&str, &[&str], &[&str])] = &[
    (
        "allocator",
        &[],
        &["tokio", "tonic", "prost", "deadpool-redis", "mlua"],
    ),
    ("base", &[], &["tonic", "prost", "deadpool-redis", "mlua"]),
    ("api", &[], &["deadpool-redis", "mlua"]),
    ("client", &["api"], &["deadpool-redis", "mlua", "clap"]),
    (
        "access",
        &["base"],
        &["tonic", "prost", "deadpool-redis", "mlua"],
    ),
    ("store", &["base"], &["tonic", "prost"]),
    (
        "coordinator",
        &["access", "base", "store"],
        &[
            "tonic",
            "tonic-types",
            "prost",
            "prost-types",
            "deadpool-redis",
            "mlua",
        ],
    ),
    (
        "facades",
        &["access", "base", "coordinator"],
        &["deadpool-redis", "mlua"],
    ),
    (
        "server",
        &["access", "api", "base", "coordinator", "facades", "store"],
        &["deadpool-redis", "mlua"],
    ),
    (
        "cli",
        &["api", "base", "client"],
        &["deadpool-redis", "mlua"],
    ),
    (
        "bench",
        &["api", "base", "cli", "client"],
        &["deadpool-redis", "mlua"],
    ),
];

/// What the files below a path must not take, although their crate may; all but the exceptions. A
/// layer's errors and handles are its vocabulary, which those above may name.
const MUST_NOT: &[(&str, &[&str], &[&str])] = &[
    ("src/store/host/", &["crate::script"], &[]),
    (
        "src/coordinator/",
        &["lockkeeper_store::host"],
        &[
            "lockkeeper_store::host::Connected",
            "lockkeeper_store::host::Partition",
            "lockkeeper_store::host::Replicas",
            "lockkeeper_store::host::ScriptHost",
            "lockkeeper_store::host::Server",
            "lockkeeper_store::host::Subscriptions",
            "lockkeeper_store::host::Wake",
        ],
    ),
    (
        "src/server/grpc/",
        &[
            "lockkeeper_store",
            "crate::admin",
            "crate::config",
            "crate::telemetry",
        ],
        &[
            "lockkeeper_store::script::CallError",
            "lockkeeper_store::script::Ownership",
            "lockkeeper_store::script::Unsupported",
        ],
    ),
    (
        "src/server/admin/",
        &[
            "lockkeeper_store",
            "crate::grpc",
            "crate::config",
            "crate::telemetry",
        ],
        &[],
    ),
    (
        "src/server/config/",
        &[
            "lockkeeper_access",
            "lockkeeper_coordinator",
            "lockkeeper_store",
            "crate::admin",
            "crate::grpc",
        ],
        &[],
    ),
    (
        "src/server/telemetry/",
        &[
            "lockkeeper_access",
            "lockkeeper_coordinator",
            "lockkeeper_store",
            "crate::admin",
            "crate::grpc",
        ],
        &[],
    ),
    ("src/server/process/", &["lockkeeper_coordinator"], &[]),
    ("src/server/security.rs", &["lockkeeper_coordinator"], &[]),
];

/// Words of the domain; a host runs scripts and does not know what a lock is.
const DOMAIN: [&str; 5] = ["session", "grant", "waiter", "watchdog", "fencing"];

/// Texts that have one place. Where tasks are spawned is held by clippy.
const ONE_PLACE: [(&str, &str); 4] = [
    ("lua/", "src/store/script/catalog.rs"),
    (".lua", "src/store/script/catalog.rs"),
    ("redisson_", "src/store/script/keys.rs"),
    ("lockkeeper_", "src/store/script/keys.rs"),
];

/// Where statuses are made: by who speaks gRPC.
const MAKE_STATUSES: [&str; 6] = [
    "src/api/",
    "src/bench/",
    "src/cli/",
    "src/client/",
    "src/facades/",
    "src/server/grpc/",
];

#[test]
fn every_manifest_follows_the_arrows() {
    let manifests = tree()
        .into_iter()
        .filter(|file| file.path.starts_with("src/") && file.path.ends_with("/Cargo.toml"));
    let manifests: Vec<_> = manifests.collect();
    assert_eq!(manifests.len(), CRATES.len());
    let problems: Vec<_> = manifests.iter().flat_map(forbidden_crates).collect();
    expect_none(&problems);
}

#[test]
fn every_import_follows_the_arrows() {
    let problems: Vec<_> = product().iter().flat_map(forbidden_imports).collect();
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

/// What is shipped and written by hand.
fn product() -> Vec<File> {
    rust_below("src/")
        .into_iter()
        .filter(|file| !file.is_tests() && !file.path.contains("/generated/"))
        .collect()
}

fn forbidden_crates(manifest: &File) -> Vec<String> {
    let name = manifest.path.split('/').nth(1).unwrap_or_default();
    let Some((_, ours, never)) = CRATES.iter().find(|(known, ..)| *known == name) else {
        return vec![format!(
            "{}: has no line in the table of crates",
            manifest.path
        )];
    };
    let shipped = manifest.text.split("[dev-dependencies]").next();
    let lines = shipped.unwrap_or_default().lines();
    let names = lines.filter_map(|line| line.split(['.', ' ']).next());
    let forbidden = names.filter(|name| match name.strip_prefix("lockkeeper-") {
        Some(crate_of_ours) => !ours.contains(&crate_of_ours),
        None => never.contains(name),
    });
    let text = |it: &str| format!("{}: must not depend on {it}", manifest.path);
    let of_itself = format!("lockkeeper-{name}");
    forbidden.filter(|it| **it != of_itself).map(text).collect()
}

fn forbidden_imports(file: &File) -> Vec<String> {
    // Tests in a file of their own are no more bound than those at the end of one.
    if file.is_tests() {
        return Vec::new();
    }
    let rules = MUST_NOT
        .iter()
        .filter(|(place, ..)| file.path.starts_with(place));
    let fits = |path: &str, start: &str| {
        path.strip_prefix(start)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let imported = imports(&file.shipped().code);
    rules
        .flat_map(|(_, forbidden, but)| {
            let all = imported.iter();
            all.filter(move |path| forbidden.iter().any(|it| fits(path, it)))
                .filter(move |path| !but.iter().any(|it| fits(path, it)))
        })
        .map(|path| format!("{}: must not use {path}", file.path))
        .collect()
}

/// The paths that start at the root of a crate of ours, those in braces one by one.
pub(crate) fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate", "lockkeeper_"] {
        for (at, _) in code.match_indices(root) {
            if !code[..at].ends_with(|letter| is_word(letter) || letter == ':') {
                expand(&code[at..], "", &mut found);
            }
        }
    }
    found
}

/// Reads one path or one list of paths; returns what stands behind it.
pub(crate) fn expand<'a>(text: &'a str, before: &str, found: &mut Vec<String>) -> &'a str {
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

fn domain_words(file: &File) -> Vec<String> {
    if !file.path.starts_with("src/store/host/") {
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
    let says = |what: &str| {
        let bare = |at: usize, text: &str| !text[..at].ends_with(char::is_alphanumeric);
        shipped.literals.iter().any(|text| {
            text.match_indices(what)
                .any(|(at, _)| bare(at, text) || what == ".lua")
        })
    };
    let misplaced = ONE_PLACE
        .iter()
        .filter(|(what, place)| says(what) && file.path != *place);
    let mut problems: Vec<_> = misplaced
        .map(|(what, place)| format!("{}: {what} belongs into {place}", file.path))
        .collect();
    let makes_statuses = shipped
        .code
        .match_indices("Status::")
        .any(|(at, _)| !shipped.code[..at].ends_with(is_word));
    if makes_statuses && !MAKE_STATUSES.iter().any(|it| file.path.starts_with(it)) {
        problems.push(format!(
            "{}: statuses belong into src/server/grpc",
            file.path
        ));
    }
    problems
}

#[test]
fn a_manifest_against_the_arrows_is_found() {
    let found = |text: &str| forbidden_crates(&File::new("src/coordinator/Cargo.toml", text));
    let text = "name = \"lockkeeper-coordinator\"\n[dependencies]\nlockkeeper-base.workspace = \
        true\n\
                lockkeeper-api.workspace = true\ntonic = \"1\"\n[dev-dependencies]\n\
                    prost.workspace = true\n";
    assert_eq!(found(text).len(), 2, "{:?}", found(text));
}

#[test]
fn an_import_against_the_arrows_is_found() {
    let text = "use lockkeeper_store::{script::{self, CallError as E}, host::Value};\nfn f() { \
        crate::admin::serve() }";
    assert_eq!(
        imports(text),
        [
            "crate::admin::serve",
            "lockkeeper_store::script::self",
            "lockkeeper_store::script::CallError",
            "lockkeeper_store::host::Value",
        ]
    );
    let found = |path, text| forbidden_imports(&File::new(path, text)).len();
    assert_eq!(found("src/server/grpc/x.rs", text), 3);
    assert_eq!(found("src/coordinator/x.rs", text), 1);
    assert_eq!(found("src/store/host/x.rs", "use crate::script;"), 1);
    assert_eq!(found("src/store/host/x.rs", "// use crate::script;\n"), 0);
    assert_eq!(found("src/store/script/x.rs", "use crate::host::Wake;"), 0);
}

#[test]
fn a_word_of_the_domain_is_found_in_a_host() {
    let found = |text: &str| domain_words(&File::new("src/store/host/x.rs", text)).len();
    assert_eq!(found("/// The Grants of a session_id.\n"), 2);
    assert_eq!(found("watch::channel(); // possession, fragrant\n"), 0);
}

#[test]
fn what_is_out_of_place_is_found() {
    let found = |path, text: &str| out_of_place(&File::new(path, text)).len();
    let key = "format!(\"redisson_lock:{name}\")";
    assert_eq!(found("src/store/script/x.rs", key), 1);
    let script = "include_str!(\"../../lua/a.lua\")";
    assert_eq!(found("src/store/script/x.rs", script), 2);
    let comment = "// lua/a.lua\nuse mlua::Lua;";
    assert_eq!(found("src/store/script/x.rs", comment), 0);
    let status = "Status::internal(x); ServingStatus::Serving";
    assert_eq!(found("src/server/wiring.rs", status), 1);
    assert_eq!(found("src/server/wiring.rs", "ServingStatus::Serving"), 0);
}
