use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt as _, path::PathBuf, time::Duration};

use tempfile::TempDir;

use super::*;

const EXAMPLE: &str = include_str!("../../../deploy/config.example.toml");

/// Sources with a file that exists as long as the value.
pub(crate) struct Given {
    sources: Sources,
    folder: TempDir,
}

pub(crate) fn given() -> Given {
    Given {
        sources: Sources::default(),
        folder: TempDir::new().unwrap(),
    }
}

impl Given {
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn file(mut self, text: &str) -> Self {
        self.sources.file = Some(self.write("lockkeeper.toml", text));
        self
    }

    pub(super) fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn flag(mut self, key: &str, value: &str) -> Self {
        self.sources.flags.push(Flag {
            flag: format!("--set {key}"),
            key: key.to_owned(),
            value: value.to_owned(),
        });
        self
    }

    pub(super) fn exposed(&self) -> Vec<(&str, &'static str)> {
        self.sources.exposed()
    }

    pub(crate) fn settings(&self) -> Settings {
        self.sources.load().unwrap()
    }

    pub(super) fn refusal(&self) -> String {
        self.sources.load().unwrap_err().to_string()
    }
}

#[track_caller]
pub(super) fn assert_refused(key: &str, value: &str, problem: &str) {
    let refusal = given().flag(key, value).refusal();
    assert!(
        refusal.starts_with(&format!("{key}: ")) && refusal.contains(problem),
        "{key} = {value}: {refusal}"
    );
}

const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn nothing_given_means_the_defaults() {
    assert_eq!(given().settings(), Settings::default());
}

#[test]
fn half_of_the_cores_serve_by_default() {
    let mut server = Server::default();
    let by_cores = [1, 2, 3, 4, 64].map(|cores| server.workers(cores));
    assert_eq!(by_cores, [1, 1, 1, 2, 32]);
    server.worker_threads = 3;
    assert_eq!(server.workers(2), 3);
}

#[test]
fn the_example_has_every_key_with_its_default() {
    assert_eq!(given().file(EXAMPLE).settings(), Settings::default());
    let example: toml::Table = EXAMPLE.parse().unwrap();
    let defaults: toml::Table = Settings::default().to_redacted_toml().parse().unwrap();
    for (section, keys) in &defaults {
        for (key, value) in keys.as_table().unwrap() {
            let given = example[section].get(key);
            assert!(given.is_some(), "{section}.{key} is missing");
            for inner in value.as_table().into_iter().flat_map(toml::Table::keys) {
                let given = given.and_then(|given| given.get(inner));
                assert!(given.is_some(), "{section}.{key}.{inner} is missing");
            }
        }
    }
    let sections = Settings::SECTIONS.iter();
    let outer = sections.filter(|section| !section.contains('.'));
    assert_eq!(defaults.keys().count(), outer.count());
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let given = given()
        .file("[server]\nkeepalive_interval = '1s'\nkeepalive_timeout = '1s'\ndrain_grace = '1s'")
        .variable("LOCKKEEPER__SERVER__KEEPALIVE_TIMEOUT", "2s")
        .variable("LOCKKEEPER__SERVER__DRAIN_GRACE", "2s")
        .flag("server.drain_grace", "3s");
    let server = given.settings().server;
    assert_eq!(server.listen, Server::default().listen);
    assert_eq!(server.keepalive_interval, Duration::from_secs(1));
    assert_eq!(server.keepalive_timeout, Duration::from_secs(2));
    assert_eq!(server.drain_grace, Duration::from_secs(3));
}

#[test]
fn the_environment_can_set_every_type() {
    let settings = given()
        .variable("LOCKKEEPER__STORE__CONNECTIONS", "7")
        .variable("LOCKKEEPER__SERVER__LISTEN", "[::1]:80")
        .variable("LOCKKEEPER__LOG__FORMAT", "json")
        .variable("LOCKKEEPER__SESSION__SECRET", SECRET)
        .variable("LOCKKEEPER_SERVER", "http://not.ours")
        .settings();
    assert_eq!(settings.store.connections, 7);
    assert_eq!(settings.server.listen.0.unwrap().port(), 80);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.session.secret.expose(), SECRET);
}

#[test]
fn unknown_keys_are_refused_with_their_name_and_place() {
    let given = given()
        .file("[server]\nlistn = '127.0.0.1:1'\n[stroe]\n")
        .variable("LOCKKEEPER__STORE__ULR", "embedded:")
        .flag("limits.lease_mni", "1s");
    let refusal = given.refusal();
    let lines: Vec<_> = refusal.lines().collect();
    let path = given.sources.file.as_ref().unwrap().display();
    assert_eq!(
        lines,
        [
            format!("unknown key server.listn ({path}, line 2); did you mean server.listen?"),
            format!("unknown key stroe ({path}, line 3)"),
            "unknown key store.ulr (environment variable LOCKKEEPER__STORE__ULR); \
             did you mean store.url?"
                .to_owned(),
            "unknown key limits.lease_mni (--set limits.lease_mni); did you mean limits.lease_min?"
                .to_owned(),
        ]
    );
    for variable in ["LOCKKEEPER__SERVER", "LOCKKEEPER__", "LOCKKEEPER__A__B__C"] {
        let refusal = self::given().variable(variable, "x").refusal();
        assert!(
            refusal.contains("unknown key") && refusal.contains(variable),
            "{refusal}"
        );
    }
    for text in [
        "listen = '1'",
        "[server.listen]\nhost = 'x'",
        "[[server]]\nlisten = 'x'",
    ] {
        self::given().file(text).refusal();
    }
}

#[test]
fn values_of_a_wrong_type_are_refused_with_the_key() {
    for (text, key) in [
        ("[store]\nconnections = 2.5", "store.connections"),
        ("[store]\nconnections = '2'", "store.connections"),
        ("[store]\nconnections = -2", "store.connections"),
        ("[store]\ncall_timeout = 2", "store.call_timeout"),
        ("[store]\ncall_timeout = 'soon'", "store.call_timeout"),
        ("[session]\nsecret = 12345678901234567", "session.secret"),
    ] {
        let refusal = given().file(text).refusal();
        assert!(
            refusal.starts_with(&format!("{key}: ")),
            "{text}: {refusal}"
        );
        assert!(refusal.contains("lockkeeper.toml"), "{text}: {refusal}");
        assert!(!refusal.contains("12345678901234567"), "{refusal}");
    }
    assert_refused("server.listen", "localhost", "address with a port");
    assert_refused("store.connections", "-1", "");
    assert_refused("limits.connection_streams_max", "4294967296", "");
    assert_refused("log.format", "xml", "text");
    let refusal = given()
        .variable("LOCKKEEPER__STORE__CONNECTIONS", "two")
        .refusal();
    assert!(refusal.starts_with("store.connections: "), "{refusal}");
    assert!(
        refusal.contains("LOCKKEEPER__STORE__CONNECTIONS"),
        "{refusal}"
    );
}

#[test]
fn impossible_values_are_refused_with_the_key() {
    for key in [
        "server.keepalive_interval",
        "server.keepalive_timeout",
        "store.call_timeout",
        "store.quorum_member_timeout",
        "store.connect_timeout",
        "store.pubsub_ping_interval",
        "store.poll_interval",
        "store.request_retention",
    ] {
        assert_refused(key, "0s", "must be at least 1ms");
    }
    for key in [
        "server.drain_grace",
        "store.call_timeout",
        "store.idle_token_retention",
    ] {
        assert_refused(key, "101y", "must not be longer than 100 years");
    }
    assert_refused("server.busy_poll", "11ms", "must not be longer than 10ms");
    for key in [
        "store.connections",
        "limits.name_bytes_max",
        "limits.owner_bytes_max",
        "limits.request_id_bytes_max",
        "limits.client_name_bytes_max",
        "limits.message_bytes_max",
        "limits.grants_per_session_max",
        "limits.locks_per_request_max",
        "limits.operations_per_session_max",
        "limits.waits_per_session_max",
        "limits.connection_streams_max",
    ] {
        assert_refused(key, "0", "must not be zero");
    }
    assert_refused(
        "store.url",
        "http://example.com",
        "unknown scheme http; supported are embedded:, redis://",
    );
    assert_refused("store.url", "redis://", "names no host");
    assert_refused("store.url", "redis://user:pw@:6379", "names no host");
    assert_refused("store.url", "embedded:x", "nothing may follow");
    assert_refused("store.url", "", "not an address");
    assert_refused("store.idle_token_retention", "1h", "limits.lease_max");
    assert_refused("session.secret", &SECRET[1..], "at least 32 bytes");
    let shipped = include_str!("../../../deploy/kubernetes/secret.yaml");
    let shipped = shipped
        .lines()
        .find_map(|it| it.trim().strip_prefix("session-secret: "));
    assert_refused("session.secret", shipped.unwrap(), "is a placeholder");
    assert_refused("log.level", "loud=very", "");
    assert_refused("log.level", "warning", "\"warning\" is no level");
    assert_refused("telemetry.sample_ratio", "1.5", "from 0 to 1");
    assert_refused("telemetry.sample_ratio", "nan", "from 0 to 1");
    assert_refused("telemetry.otlp_endpoint", "collector:4317", "http://");
    given().flag("store.idle_token_retention", "0s").settings();
    given().flag("store.url", "rediss://h:1/2").settings();
}

#[test]
fn values_that_do_not_fit_together_are_refused_with_their_source() {
    for (given, line) in [
        (
            given().flag("limits.lease_min", "25h"),
            "limits.lease_min: must not be larger than limits.lease_max (--set limits.lease_min)",
        ),
        (
            given().flag("session.lease", "25h"),
            "session.lease: must not be longer than limits.lease_max (--set session.lease)",
        ),
        (
            given()
                .flag("session.lease", "5s")
                .flag("limits.lease_min", "10s"),
            "session.lease: must not be shorter than limits.lease_min (--set session.lease)",
        ),
        (
            given().flag("session.lease", "0s"),
            "session.lease: must be at least 1ms (--set session.lease)",
        ),
        (
            given().flag("limits.lease_min", "0s"),
            "limits.lease_min: must be at least 1ms (--set limits.lease_min)",
        ),
        (
            given().flag("limits.lease_max", "0s"),
            "limits.lease_max: must be at least 1ms (--set limits.lease_max)",
        ),
        (
            given().flag("limits.message_bytes_max", "896"),
            "limits.message_bytes_max: must be larger than the other limits of bytes together \
            (896) \
             (--set limits.message_bytes_max)",
        ),
    ] {
        let refusal = given.refusal();
        assert!(
            refusal.lines().any(|found| found == line),
            "{line}: {refusal}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_its_text_is_not_shown() {
    let mut unread = given();
    unread.sources.file = Some("/nowhere/lockkeeper.toml".into());
    assert!(unread.refusal().starts_with("/nowhere/lockkeeper.toml: "));
    let refusal = given().file("[session]\nsecret = 'swordfish\n").refusal();
    assert!(
        refusal.contains("line 2") && !refusal.contains("swordfish"),
        "{refusal}"
    );
    let mut sources = Sources::default();
    let bytes = OsString::from_vec(vec![0xff]);
    sources
        .environment
        .push(("LOCKKEEPER__LOG__LEVEL".into(), bytes));
    let refusal = sources.load().unwrap_err().to_string();
    assert!(refusal.starts_with("log.level: not UTF-8"), "{refusal}");
}

#[test]
fn the_secret_can_come_from_a_file() {
    let given = given();
    let path = given.write("secret", &format!("{SECRET}\n"));
    let path = path.to_str().unwrap();
    let given = given.flag("session.secret_file", path);
    assert_eq!(given.settings().session.secret.expose(), SECRET);
    let both = given.flag("session.secret", SECRET);
    assert!(
        both.refusal()
            .contains("session.secret_file: must not be set together")
    );
    for (text, problem) in [
        ("short", "session.secret: "),
        (" \n", "session.secret_file: is empty"),
    ] {
        both.write("secret", text);
        let refusal = self::given().flag("session.secret_file", path).refusal();
        assert!(refusal.starts_with(problem), "{refusal}");
    }
    assert_refused("session.secret_file", "/nowhere/secret", "/nowhere/secret");
}

/// Refused for a key, with a word of the reason.
#[track_caller]
fn assert_insecure(given: &Given, key: &str, problem: &str) {
    let refusal = given.refusal();
    assert!(
        refusal.starts_with(&format!("{key}: ")) && refusal.contains(problem),
        "{refusal}"
    );
}

#[test]
fn where_others_can_reach_it_callers_must_show_who_they_are() {
    let at = |address| given().flag("server.listen", address);
    for local in [
        "127.0.0.1:1",
        "127.8.8.8:1",
        "[::1]:1",
        "[::ffff:127.0.0.1]:1",
    ] {
        assert!(at(local).sources.load().is_ok(), "{local}");
    }
    for public in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1"] {
        assert_insecure(&at(public), "server.listen", "server.allow_unauthenticated");
        let allowed = at(public).flag("server.allow_unauthenticated", "true");
        assert!(allowed.sources.load().is_ok(), "{public}");
    }
    let with_tls = || {
        at("0.0.0.0:1")
            .flag("server.tls.certificate_file", "c")
            .flag("server.tls.key_file", "k")
    };
    assert_insecure(&with_tls(), "server.listen", "nobody would have to show");
    let mutual = with_tls().flag("server.tls.client_ca_file", "ca");
    assert!(mutual.sources.load().is_ok());
    assert!(
        with_tls()
            .flag("auth.token_file", "t")
            .sources
            .load()
            .is_ok()
    );
    let forced = given()
        .flag("admin.listen", "0.0.0.0:1")
        .flag("admin.allow_unauthenticated", "true")
        .flag("admin.allow_force_release", "true");
    assert!(forced.refusal().contains("admin.allow_force_release"));
    let plain = || at("0.0.0.0:1").flag("auth.token_file", "t");
    assert_insecure(&plain(), "server.listen", "in plain text");
    let encrypted_elsewhere = plain().flag("auth.allow_plaintext", "true");
    assert!(encrypted_elsewhere.sources.load().is_ok());
}

#[test]
fn half_of_what_belongs_together_is_refused() {
    let one = |key, value| given().flag(key, value);
    assert_insecure(
        &one("server.listen", ""),
        "server.listen",
        "server.uds_path",
    );
    let socket = one("server.listen", "").flag("server.uds_path", "/tmp/s");
    assert!(socket.sources.load().is_ok());
    let certificate = one("server.tls.certificate_file", "c");
    assert_insecure(&certificate, "server.tls.key_file", "together");
    let ca = one("server.tls.client_ca_file", "c");
    assert_insecure(&ca, "server.tls.client_ca_file", "needs");
    let jwks = || one("auth.jwks_file", "j").flag("auth.jwt_issuer", "i");
    assert_insecure(&jwks(), "auth.jwt_audience", "other services");
    assert!(jwks().flag("auth.jwt_audience", "a").sources.load().is_ok());
    assert_insecure(&one("auth.jwt_issuer", "i"), "auth.jwt_issuer", "needs");
    assert_insecure(&one("server.uds_mode", "0888"), "server.uds_mode", "octal");
    let quota = one("access.quotas.sessions", "1");
    assert_insecure(&quota, "access", "nobody could show");
}

#[test]
fn rules_are_read_and_checked() {
    let with = |rule: &str| {
        given().file(&format!(
            "[auth]\ntoken_file = 't'\n[[access.rules]]\n{rule}"
        ))
    };
    let good =
        with("identity = 'spiffe://prod/*'\nprefix = 'orders/'\nallow = ['acquire', 'admin']");
    let rules = good.settings().access.rules;
    assert_eq!(rules[0].prefix, "orders/");
    assert_eq!(rules[0].allow, [AccessRight::Acquire, AccessRight::Admin]);
    for (bad, problem) in [
        ("identity = ''\nallow = ['acquire']", "rule 1: identity"),
        ("identity = 'a*b'\nallow = ['acquire']", "one *"),
        ("identity = 'a'\nallow = []", "allow"),
        ("identity = 'a'\nallow = ['everything']", "everything"),
        ("identity = 'a'\nallow = ['acquire']\nprefx = 'x'", "prefx"),
    ] {
        let refusal = with(bad).refusal();
        assert!(refusal.contains(problem), "{bad}: {refusal}");
    }
}
