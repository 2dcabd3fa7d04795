//! Contexts, and the flags of a connection before the command.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Output};

use super::tool::{Place, assert_code, fake, lockkeeper, stderr, stdout};

/// A command of a user whose settings are in `place`.
fn ask(place: &Place, arguments: &[&str]) -> Output {
    let mut command = lockkeeper(arguments);
    command.env("XDG_CONFIG_HOME", place.0.path());
    command.current_dir(place.0.path()).output().unwrap()
}

#[test]
fn the_current_context_is_used_if_nothing_else_is_named() {
    let (fake, place) = (fake(), Place::new());
    let server = format!("http://{}", fake.address);
    let set = |name, server| ask(&place, &["context", "set", name, "--server", server]);
    assert_code(&set("local", &server), 0);
    assert_code(&set("gone", "http://127.0.0.1:1"), 0);
    let file = place.path("lockkeeper/contexts.toml");
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );

    // The first that was made is the current one.
    assert_code(&ask(&place, &["describe", "orders"]), 0);
    assert_code(&ask(&place, &["context", "use", "gone"]), 0);
    assert_code(&ask(&place, &["describe", "orders"]), 69);
    for named in [
        ["--context", "local", "describe", "orders"],
        ["describe", "orders", "--context", "local"],
        ["--server", &server, "describe", "orders"],
        ["describe", "orders", "--server", &server],
    ] {
        assert_code(&ask(&place, &named), 0);
    }
    let mut by_variable = lockkeeper(&["describe", "orders"]);
    by_variable.env("XDG_CONFIG_HOME", place.0.path());
    let by_variable = by_variable.env("LOCKKEEPER_CONTEXT", "local");
    assert_code(&by_variable.output().unwrap(), 0);
    // As Compose sets a variable that has no value.
    let empty = [
        "SERVER",
        "CA_FILE",
        "CERTIFICATE_FILE",
        "KEY_FILE",
        "TOKEN_FILE",
    ];
    by_variable.envs(empty.map(|name| (format!("LOCKKEEPER_{name}"), "")));
    assert_code(&by_variable.output().unwrap(), 0);
    let mut current = lockkeeper(&["describe", "orders"]);
    let current = current.env("XDG_CONFIG_HOME", place.0.path());
    assert_code(&current.env("LOCKKEEPER_CONTEXT", "").output().unwrap(), 69);

    let listed = stdout(&ask(&place, &["context", "list"]));
    let lines: Vec<_> = listed.lines().map(str::split_whitespace).collect();
    let words: Vec<Vec<_>> = lines.into_iter().map(Iterator::collect).collect();
    assert_eq!(words[1], ["*", "gone", "http://127.0.0.1:1"]);
    assert_eq!(words[2], ["local", server.as_str()]);
    let json = stdout(&ask(&place, &["context", "list", "--output", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["current"], "gone");
    assert_eq!(json["contexts"]["local"]["server"], server);

    assert_code(&ask(&place, &["context", "delete", "gone"]), 0);
    let unknown = ask(&place, &["context", "use", "gone"]);
    assert_code(&unknown, 64);
    let told = "lockkeeper: there is no context gone; the contexts are: local\n";
    assert_eq!(stderr(&unknown), told);
    let unknown = ask(&place, &["describe", "orders", "--context", "gone"]);
    assert_eq!(
        (unknown.status.code(), stderr(&unknown).as_str()),
        (Some(64), told)
    );
}

/// A token is for the coordinator of its context, and for no other.
#[test]
fn a_named_server_gets_no_credentials_of_the_current_context() {
    let (fake, place) = (fake(), Place::new());
    let server = format!("http://{}", fake.address);
    let set = [
        "context",
        "set",
        "prod",
        "--server",
        &server,
        "--token-file",
        "token",
    ];
    assert_code(&ask(&place, &set), 0);
    // There is no such file: what reads it fails.
    let refused = ask(&place, &["describe", "orders"]);
    let file = place.path("token").display().to_string();
    assert!(stderr(&refused).contains(&file), "{refused:?}");
    assert_code(
        &ask(&place, &["describe", "orders", "--server", &server]),
        0,
    );
    fs::write(&file, "").unwrap();
    let empty = stderr(&ask(&place, &["describe", "orders"]));
    assert!(
        empty.contains(&format!("{file}: is empty, and should have a token")),
        "{empty}"
    );
}

/// No flag or variable could choose it.
#[test]
fn a_context_has_a_name() {
    let place = Place::new();
    let refused = ask(&place, &["context", "set", ""]);
    assert_code(&refused, 64);
    let said = stderr(&refused);
    assert!(said.contains("required for '<NAME>'"), "{said}");
    assert!(!fs::exists(place.path("lockkeeper")).unwrap());
}

#[test]
fn an_empty_address_is_none() {
    let place = Place::new();
    for words in [
        ["describe", "orders", "--server", ""],
        ["--server", "", "describe", "orders"],
    ] {
        let refused = ask(&place, &words);
        assert_code(&refused, 64);
        let said = stderr(&refused);
        assert!(said.contains("a value is required for '--server"), "{said}");
    }
    let refused = ask(&place, &["context", "set", "local", "--server", ""]);
    assert_code(&refused, 64);
    assert!(!fs::exists(place.path("lockkeeper")).unwrap());
}

#[test]
fn an_unusable_file_is_named_and_secrets_are_refused_in_it() {
    let place = Place::new();
    fs::create_dir(place.path("lockkeeper")).unwrap();
    let file = place.path("lockkeeper/contexts.toml");
    fs::write(&file, "[contexts.prod]\ntoken = \"s3cret\"\n").unwrap();
    let refused = ask(&place, &["list", "--context", "prod"]);
    assert_code(&refused, 64);
    let told = stderr(&refused);
    let expected = format!("lockkeeper: {}: unknown field `token`", file.display());
    assert!(
        told.starts_with(&expected) && told.contains("`token_file`"),
        "{told}"
    );
    assert!(!told.contains("s3cret"), "{told}");
}

#[test]
fn commands_that_ask_nobody_take_no_server() {
    let place = Place::new();
    for arguments in [
        ["serve", "--server", "http://127.0.0.1:1"],
        ["--server", "http://127.0.0.1:1", "version"],
    ] {
        let refused = ask(&place, &arguments);
        assert_code(&refused, 64);
        let told = stderr(&refused);
        assert!(
            told.contains("--server is for commands that ask a coordinator"),
            "{told}"
        );
    }
}
