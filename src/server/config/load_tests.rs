//! Tests of what is said of settings that are not understood.

use super::{Flag, Sources};
use crate::config::tests::given;

fn refusal(text: &str, flags: &[(&str, &str)]) -> String {
    let flags = flags.iter().map(|(key, value)| Flag {
        flag: format!("--set {key}"),
        key: (*key).to_owned(),
        value: (*value).to_owned(),
    });
    let sources = Sources {
        file: Some("settings.toml".into()),
        flags: flags.collect(),
        ..Sources::default()
    };
    sources.load_with(text).unwrap_err().to_string()
}

#[test]
fn a_mistake_is_answered_with_what_is_meant() {
    let meant = "server.lissten (settings.toml, line 2); did you mean server.listen?";
    let unlike = "unknown key server.colour (settings.toml, line 3)";
    let problem = refusal("[server]\nlissten = 'x'\ncolour = 1\n", &[]);
    assert!(
        problem.contains(meant) && problem.lines().any(|it| it == unlike),
        "{problem}"
    );
    let problem = refusal("[session]\nlease = 30\n", &[]);
    let expected = "session.lease: must be a duration in quotes, such as \"30s\" (settings.toml, \
                    line 2)";
    assert_eq!(problem, expected);
    let problem = refusal("", &[("session.lease", "10")]);
    assert!(
        problem.contains("expected a duration, such as \"30s\""),
        "{problem}"
    );
    let problem = refusal("", &[("server.listen", "localhost:7625")]);
    assert!(
        problem.contains("with a port, such as 127.0.0.1:7625"),
        "{problem}"
    );
}

#[test]
fn a_word_is_not_a_number() {
    for word in ["true", "on", "no", "many", ""] {
        let problem = refusal("", &[("store.connections", word)]);
        let expected = "store.connections: must be a number (--set store.connections)";
        assert_eq!(problem, expected, "{word}");
        let problem = given()
            .variable("LOCKKEEPER__TELEMETRY__SAMPLE_RATIO", word)
            .refusal();
        assert!(
            problem.contains("must be a number (environment variable"),
            "{problem}"
        );
    }
}

#[test]
fn a_mistake_in_a_rule_is_named_with_its_place_and_what_is_known() {
    for (rule, expected) in [
        (
            "identity = 'a'\nallow = ['admin', 'acqire']\n",
            "access.rules[0].allow[1]: \"acqire\" is no right: must be acquire, release, \
             describe, preempt or admin (settings.toml, line 1)",
        ),
        (
            "allow = ['admin']\n",
            "access.rules[0].identity: is missing (settings.toml, line 1)",
        ),
    ] {
        assert_eq!(refusal(&format!("[[access.rules]]\n{rule}"), &[]), expected);
    }
}

#[test]
fn more_threads_or_connections_than_any_machine_serves_are_refused() {
    for (key, most) in [("server.worker_threads", 1024), ("store.connections", 1000)] {
        let problem = refusal("", &[(key, &(most + 1).to_string())]);
        assert!(
            problem.contains(&format!("must not be more than {most}")),
            "{problem}"
        );
        given().flag(key, &most.to_string()).settings();
    }
}

#[test]
fn prefixes_of_metrics_are_few_and_differ() {
    let refusal = |value: &str| refusal("", &[("admin.metric_prefixes", value)]);
    let of = |count: usize| {
        let prefixes: Vec<_> = (0..count).map(|it| format!("p{it}")).collect();
        prefixes.join(" ")
    };
    for (value, why) in [
        (of(11), "more than 10"),
        ("p".repeat(129), "1 to 128 bytes"),
        ("jobs/ other".to_owned(), "must not have other"),
        ("jobs/ a jobs/".to_owned(), "twice"),
    ] {
        let problem = refusal(&value);
        let is_it = problem.starts_with("admin.metric_prefixes: ") && problem.contains(why);
        assert!(is_it, "{problem}");
    }
    let sources = Sources {
        environment: vec![("LOCKKEEPER__ADMIN__METRIC_PREFIXES".into(), of(10).into())],
        ..Sources::default()
    };
    assert_eq!(sources.load().unwrap().admin.metric_prefixes.len(), 10);
}

#[test]
fn a_variable_with_one_underscore_is_noticed_and_those_of_the_client_are_not() {
    let variables = [
        "LOCKKEEPER_STORE_URL",
        "LOCKKEEPER_SESSION_RESUME_MAX",
        "LOCKKEEPER_SERVER",
        "LOCKKEEPER_SERVICE_HOST",
        "LOCKKEEPER__STORE__URL",
    ];
    let sources = Sources {
        environment: variables.map(|it| (it.into(), "x".into())).to_vec(),
        ..Sources::default()
    };
    let meant = ["LOCKKEEPER__STORE__URL", "LOCKKEEPER__SESSION__RESUME_MAX"];
    let expected = meant.map(str::to_owned);
    let ignored = sources
        .ignored()
        .into_iter()
        .unzip::<_, _, Vec<_>, Vec<_>>();
    assert_eq!(ignored, (variables[..2].to_vec(), expected.to_vec()));
}

#[test]
fn scrapers_show_no_tokens_in_plain_text_unasked() {
    let scraped = given()
        .flag("admin.listen", "0.0.0.0:1")
        .flag("auth.token_file", "t")
        .flag("admin.authenticate_metrics", "true");
    assert!(scraped.refusal().contains("admin.authenticate_metrics"));
    scraped.flag("auth.allow_plaintext", "true").settings();
}

#[test]
fn a_file_with_a_secret_is_known() {
    let given = given();
    for (text, has_secret) in [
        ("[store]\nurl = 'redis://h:1/0'\n", false),
        ("[session]\nsecret_file = 'f'\n", false),
        (
            "[session]\nsecret = '0123456789abcdef0123456789abcdef'\n",
            true,
        ),
        ("[store]\nurl = 'redis://:pw@h:1/0'\n", true),
        (
            "[store]\nquorum = ['redis://h:1', 'redis://:pw@h:2']\n",
            true,
        ),
    ] {
        let sources = Sources {
            file: Some(given.write("lockkeeper.toml", text)),
            ..Sources::default()
        };
        assert_eq!(sources.has_secret_in_file(), has_secret, "{text}");
    }
}
