//! Tests of the settings of the store.

use super::{
    tests::{assert_refused, given},
    *,
};

#[test]
fn secrets_are_not_shown() {
    let settings = given()
        .flag("session.secret", "tuna and other fish")
        .flag("store.url", "redis://keeper:tuna@fish@example.com:6379/1")
        .settings();
    assert_eq!(
        settings.store.url.expose(),
        "redis://keeper:tuna@fish@example.com:6379/1"
    );
    let printed = settings.to_redacted_toml();
    assert!(
        printed.contains(r#"url = "redis://keeper:REDACTED@example.com:6379/1""#),
        "{printed}"
    );
    assert!(printed.contains(r#"secret = "REDACTED""#), "{printed}");
    for shown in [
        printed.clone(),
        format!("{settings:?}"),
        settings.store.url.to_string(),
    ] {
        assert!(
            !shown.contains("tuna") && !shown.contains("fish"),
            "{shown}"
        );
    }
    assert!(
        given()
            .file(&printed)
            .refusal()
            .contains("session.secret: must have at least")
    );
    assert_eq!(
        StoreUrl::from("redis://swordfish@h").redacted(),
        "redis://REDACTED@h"
    );
    assert_eq!(StoreUrl::from("swordfish").redacted(), "REDACTED");
    assert_eq!(StoreUrl::from("redis://h:1").redacted(), "redis://h:1");
    let refusal = given().flag("store.url", "user:swordfish@h").refusal();
    assert!(!refusal.contains("swordfish"), "{refusal}");
}

#[test]
fn an_address_shows_its_user_at_most() {
    for (url, shown) in [
        ("redis://:tuna@h:1/2", "redis://:REDACTED@h:1/2"),
        ("redis://keeper:tuna@h", "redis://keeper:REDACTED@h"),
        ("redis://h?password=tuna", "redis://h?REDACTED"),
        (
            "redis+sentinel://keeper:tuna@a:1,b:2/locks/3?sentinel_user=x&sentinel_password=tuna",
            "redis+sentinel://keeper:REDACTED@a:1,b:2/locks/3?REDACTED",
        ),
    ] {
        assert_eq!(StoreUrl::from(url).redacted(), shown);
    }
}

#[test]
fn the_password_can_come_from_a_file() {
    let given = given();
    let path = given.write("password", "tuna@/fish:ü\n");
    let path = path.to_str().unwrap();
    let with = |url: &str| {
        self::given()
            .flag("store.url", url)
            .flag("store.password_file", path)
    };
    for (url, expected) in [
        ("redis://h:1/2", "redis://:tuna%40%2Ffish%3A%C3%BC@h:1/2"),
        (
            "redis://keeper@h",
            "redis://keeper:tuna%40%2Ffish%3A%C3%BC@h",
        ),
    ] {
        let settings = with(url).settings();
        assert_eq!(settings.store.url.expose(), expected);
        assert!(!settings.to_redacted_toml().contains("tuna"));
    }
    let several = self::given()
        .flag("store.quorum", "redis://a redis://keeper@b redis://c")
        .flag("store.password_file", path)
        .settings();
    for url in &several.store.quorum {
        let with_it = url.expose().contains(":tuna%40%2Ffish%3A%C3%BC@");
        assert!(with_it, "{url}");
    }
    for url in ["embedded:", "redis://:known@h", "redis://keeper:known@h"] {
        let refusal = with(url).refusal();
        assert!(refusal.starts_with("store.password_file: "), "{refusal}");
    }
    assert_refused("store.password_file", "/nowhere/x", "/nowhere/x");
}

#[test]
fn replicas_are_a_number_or_a_word() {
    for (text, expected) in [
        ("'none'", ReplicaAcks::None),
        ("'all'", ReplicaAcks::All),
        ("'2'", ReplicaAcks::AtLeast(2)),
        ("2", ReplicaAcks::AtLeast(2)),
        ("0", ReplicaAcks::None),
    ] {
        let file = format!("[store]\nurl = 'redis://h'\nreplica_acks = {text}");
        let settings = given().file(&file).settings();
        assert_eq!(settings.store.replica_acks, expected, "{text}");
        let printed = settings.to_redacted_toml();
        assert_eq!(given().file(&printed).settings(), settings);
    }
    let given = given()
        .variable("LOCKKEEPER__STORE__URL", "redis://h")
        .variable("LOCKKEEPER__STORE__REPLICA_ACKS", "1");
    assert_eq!(given.settings().store.replica_acks, ReplicaAcks::AtLeast(1));
    assert_refused("store.replica_acks", "some", "none, all or a number");
    assert_refused("store.replica_acks", "-1", "none, all or a number");
    assert_refused("store.replica_acks", "1", "the embedded store");
}

#[test]
fn certificates_need_tls_and_each_other() {
    let on = |url: &str, keys: &[&str]| {
        let given = given().flag("store.url", url);
        keys.iter().fold(given, |given, key| {
            given.flag(&format!("store.tls.{key}"), "x.pem")
        })
    };
    assert_eq!(
        on("rediss://h", &["ca_file"]).settings().store.tls.ca_file,
        PathBuf::from("x.pem")
    );
    on("rediss+sentinel://h/s", &["certificate_file", "key_file"]).settings();
    let refusal = on("redis://h", &["ca_file"]).refusal();
    assert!(refusal.starts_with("store.tls.ca_file: needs"), "{refusal}");
    let refusal = on("rediss://h", &["certificate_file"]).refusal();
    assert!(
        refusal.starts_with("store.tls.key_file: must be set"),
        "{refusal}"
    );
    let refusal = on("rediss://h", &["key_file"]).refusal();
    assert!(
        refusal.starts_with("store.tls.certificate_file: must"),
        "{refusal}"
    );
    let given = given().file("[store.tls]\nca = 'x'");
    assert!(given.refusal().starts_with("unknown key store.tls.ca "));
    let given = self::given()
        .variable("LOCKKEEPER__STORE__URL", "rediss://h")
        .variable("LOCKKEEPER__STORE__TLS__CA_FILE", "y.pem");
    assert_eq!(given.settings().store.tls.ca_file, PathBuf::from("y.pem"));
}

#[test]
fn names_for_the_store_are_checked() {
    assert_refused("store.client_name", "two words", "without spaces");
    assert_refused("store.client_name", "", "not empty");
    assert_refused("store.key_prefix", "a\n", "control characters");
    assert_refused("store.key_prefix", &"x".repeat(129), "128 bytes");
}

#[test]
fn printed_settings_can_be_read_back() {
    let settings = given().flag("store.connections", "9").settings();
    assert_eq!(
        given().file(&settings.to_redacted_toml()).settings(),
        settings
    );
}

#[test]
fn a_quorum_is_a_list_in_every_source() {
    let expected = ["redis://a", "redis://:swordfish@b:1", "redis://c"].map(StoreUrl::from);
    let words = "redis://a redis://:swordfish@b:1  redis://c";
    let file = "[store]\nquorum = ['redis://a', 'redis://:swordfish@b:1', 'redis://c']";
    for given in [
        given().file(file),
        given().variable("LOCKKEEPER__STORE__QUORUM", words),
        given().flag("store.quorum", words),
        given()
            .file("[store]\nquorum = ['redis://x', 'redis://y', 'redis://z']")
            .variable("LOCKKEEPER__STORE__QUORUM", words),
        given()
            .variable("LOCKKEEPER__STORE__QUORUM", "redis://x")
            .flag("store.quorum", words),
    ] {
        let settings = given.settings();
        assert_eq!(settings.store.quorum, expected);
        let printed = settings.to_redacted_toml();
        assert!(
            printed.contains("redis://:REDACTED@b:1") && !printed.contains("swordfish"),
            "{printed}"
        );
    }
}

#[test]
fn lists_that_are_no_quorum_are_refused() {
    for (urls, problem) in [
        ("redis://a", "3 or 5, not 1"),
        ("redis://a redis://b", "3 or 5, not 2"),
        ("redis://a redis://b redis://c redis://d", "3 or 5, not 4"),
        (
            "redis://a rediss://b redis://c",
            "must not mix schemes: redis, rediss",
        ),
        (
            "redis://a redis+sentinel://b/s redis://c",
            "must not mix schemes: redis, redis+sentinel",
        ),
        (
            "redis://a redis://b redis://a:6379/2",
            "stores 1 and 3 are the same",
        ),
        (
            "redis://a redis://u:p@B redis://b:6379",
            "stores 2 and 3 are the same",
        ),
        (
            "redis+sentinel://a,b/s redis+sentinel://c/s redis+sentinel://b:26379/s",
            "stores 1 and 3 are the same",
        ),
        (
            "redis://a embedded: redis://c",
            "store 2: an embedded store",
        ),
        ("redis://a swordfish redis://c", "store 2: not an address"),
    ] {
        assert_refused("store.quorum", urls, problem);
        let refusal = given().flag("store.quorum", urls).refusal();
        assert!(!refusal.contains("swordfish"), "{refusal}");
    }
    let three = "redis://a redis://b redis://c";
    let both = given()
        .flag("store.quorum", three)
        .flag("store.url", "redis://d");
    assert!(
        both.refusal()
            .contains("must not be set together with store.url")
    );
    let slow = given()
        .flag("store.quorum", three)
        .flag("store.quorum_member_timeout", "3s");
    assert!(
        slow.refusal()
            .contains("must not be longer than store.call_timeout")
    );
    // The same sentinels may watch several independent masters.
    given()
        .flag(
            "store.quorum",
            "redis+sentinel://a,b/s redis+sentinel://a,b/t redis+sentinel://a,b/u",
        )
        .settings();
    given()
        .flag("store.quorum", "redis://a:1 redis://a:2 redis://[::1]:1")
        .settings();
}

#[test]
fn secrets_on_the_command_line_are_noted() {
    let exposed = given()
        .flag("session.secret", "sixteen bytes at least")
        .flag("store.url", "redis://user:pw@h")
        .flag("store.quorum", "redis://a redis://:pw@b redis://c")
        .flag("session.lease", "5s");
    let exposed = exposed.exposed();
    let found: Vec<_> = exposed.iter().map(|(_, instead)| *instead).collect();
    let password = "store.password_file";
    assert_eq!(found, ["session.secret_file", password, password]);
    let fine = given()
        .flag("session.secret", "")
        .flag("store.url", "redis://h")
        .variable("LOCKKEEPER__SESSION__SECRET", "sixteen bytes at least");
    assert_eq!(fine.exposed(), []);
}

#[test]
fn where_callers_have_rights_names_are_kept_apart_from_those_of_other_programs() {
    let on = |store: &str| given().flag("store.url", store);
    let redis = || on("redis://h");
    let with_tls = || {
        redis()
            .flag("server.tls.certificate_file", "c")
            .flag("server.tls.key_file", "k")
    };
    let with_jwt = || {
        redis()
            .flag("auth.jwt_issuer", "i")
            .flag("auth.jwt_audience", "a")
    };
    let with_rules = given().file(
        "[store]\nurl = 'redis://h'\n[server]\nallow_unauthenticated = true\n[[access.rules]]\n\
         identity = 'anonymous'\nallow = ['acquire']",
    );
    let quorum = given().flag("store.quorum", "redis://a redis://b redis://c");
    for sharing in [
        redis().flag("auth.token_file", "t"),
        with_jwt().flag("auth.jwks_file", "j"),
        with_tls().flag("server.tls.client_ca_file", "ca"),
        with_rules,
        quorum.flag("auth.token_file", "t"),
    ] {
        let refusal = sharing.refusal();
        assert!(refusal.starts_with("store.key_prefix: "), "{refusal}");
        assert!(refusal.contains("store.shares_names = true"), "{refusal}");
        let apart = sharing.flag("store.key_prefix", "app:");
        apart.settings();
        let shared = apart
            .flag("store.key_prefix", "")
            .flag("store.shares_names", "true");
        assert!(shared.settings().store.shares_names);
    }
    // The embedded store has no other programs, and without rights everything is allowed.
    on("embedded:").flag("auth.token_file", "t").settings();
    redis().settings();
}
