use std::{fs, path::Path};

use prometheus_client::{encoding::text::encode, registry::Registry};
use tempfile::NamedTempFile;
use tokio::time::{Instant, timeout};

use super::*;
use crate::{
    account::{Quota, QuotaReached},
    entries::entries,
};

const TOKEN: &str = "0123456789abcdef";

/// Others reach it, and nobody is anonymous.
const GUARDED: Port = Port {
    admits_anonymous: false,
    is_trusted: false,
    takes_tokens: true,
};

fn with_tokens(text: &str) -> (NamedTempFile, Config) {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, text).unwrap();
    let token_file = Some(file.path().to_owned());
    let config = Config {
        token_file,
        ..Config::default()
    };
    (file, config)
}

fn with_rules(rules: &[(&str, &[Right])]) -> Config {
    Config {
        rules: rules_of(rules),
        ..Config::default()
    }
}

fn rules_of(rules: &[(&str, &[Right])]) -> Vec<Rule> {
    let rules = rules.iter().map(|(identity, allow)| Rule {
        identity: (*identity).to_owned(),
        prefix: String::new(),
        allow: allow.to_vec(),
    });
    rules.collect()
}

fn access(config: Config, port: Port) -> Access {
    Access::new(config, port).unwrap()
}

/// The refusal of who was let in, which has to come.
async fn refused<E>(access: &Access, look: impl Fn() -> Result<Option<u64>, E>) -> E {
    let refused = timeout(Duration::from_secs(3600), access.until_refused(look)).await;
    refused.unwrap_or_else(|_| panic!("it never comes"))
}

fn refusal(of: Result<Identity, Unauthenticated>) -> String {
    of.unwrap_err().0
}

#[test]
fn each_setting_alone_turns_it_on() {
    let jwt = JwtConfig {
        file: Path::new("keys").to_owned(),
        issuer: "i".to_owned(),
        audience: "a".to_owned(),
        lifetime_max: None,
    };
    let quotas = Quotas {
        streams: 1,
        ..Quotas::default()
    };
    let (_file, tokens) = with_tokens("");
    let off = Config::default;
    for config in [
        tokens,
        Config {
            jwt: Some(jwt),
            ..off()
        },
        Config {
            certificates: true,
            ..off()
        },
        with_rules(&[("*", &[])]),
        Config { quotas, ..off() },
    ] {
        assert!(config.is_on(), "{config:?}");
    }
    assert!(!off().is_on());
    assert!(access(with_rules(&[("*", &[])]), Port::OPEN).is_on());
    assert!(!Access::open().is_on());
}

#[test]
fn callers_are_asked_who_they_are_if_anything_is_set_or_the_port_says_so() {
    let open = Access::open();
    assert!(!open.asks());
    assert!(open.at(GUARDED).asks());
    assert!(!open.asks(), "the other port is as it was");
    assert!(access(with_rules(&[("*", &[])]), Port::OPEN).asks());
}

#[test]
fn while_nothing_is_set_a_caller_on_a_trusted_port_is_anonymous_and_may_do_all() {
    let open = Access::open();
    let web = Identity::named("web");
    let caller = open.identify(Some(&web), Some(TOKEN)).unwrap();
    assert!(caller.is_anonymous(), "nothing says who is to be believed");
    for right in Right::ALL {
        assert!(open.allows(&caller, right, "a"), "{right:?}");
    }
    assert!(open.allows_anything(&caller));
    let reachable = open.at(Port {
        is_trusted: false,
        ..Port::OPEN
    });
    for right in Right::ALL {
        let is_of_operators = matches!(right, Right::Admin | Right::Preempt);
        let is_allowed = reachable.allows(&caller, right, "a");
        assert_eq!(is_allowed, !is_of_operators, "{right:?}");
    }
}

#[test]
fn what_is_set_without_rules_keeps_the_rights_of_operators_from_all() {
    let (_file, config) = with_tokens("");
    let trusted = access(config, Port::OPEN);
    let anonymous = Identity::anonymous();
    assert!(trusted.allows(&anonymous, Right::Acquire, "a"));
    assert!(!trusted.allows(&anonymous, Right::Admin, "a"));
    assert!(!trusted.allows(&anonymous, Right::Preempt, "a"));
}

#[test]
fn a_token_goes_before_the_connection_and_nobody_is_let_in_without_either() {
    let (_file, config) = with_tokens(&format!("ci {TOKEN}"));
    let guarded = access(config, GUARDED);
    let web = Identity::named("web");
    let who = |connection, token| guarded.identify(connection, token).unwrap();
    assert_eq!(who(Some(&web), Some(TOKEN)).as_str(), "ci");
    assert_eq!(who(Some(&web), None).as_str(), "web");
    assert_eq!(guarded.bearer(Some(TOKEN)).unwrap().as_str(), "ci");
    let unknown = guarded.identify(Some(&web), Some("fedcba9876543210"));
    assert!(refusal(unknown).contains("not known"));
    assert!(refusal(guarded.bearer(None)).contains("bearer token or a client certificate"));
    let public = guarded.at(Port {
        takes_tokens: false,
        ..GUARDED
    });
    assert!(refusal(public.bearer(Some(TOKEN))).contains("use TLS"));
    assert!(guarded.at(Port::OPEN).bearer(None).unwrap().is_anonymous());
}

#[test]
fn where_only_certificates_count_a_token_is_not_looked_at() {
    let config = Config {
        certificates: true,
        ..Config::default()
    };
    let guarded = access(config, GUARDED);
    let web = Identity::named("web");
    let who = guarded.identify(Some(&web), Some("anything")).unwrap();
    assert_eq!(who.as_str(), "web");
    assert_eq!(
        refusal(guarded.bearer(Some("anything"))),
        "show a client certificate"
    );
    assert_eq!(guarded.end_of("anything"), None);
}

#[test]
fn rules_decide_once_there_are_any() {
    let rules = with_rules(&[("web", &[Right::Acquire]), ("ops", &[Right::Admin])]);
    let guarded = access(rules, Port::OPEN);
    let [web, ops, other] = ["web", "ops", "other"].map(Identity::named);
    assert!(guarded.allows(&web, Right::Acquire, "a"));
    assert!(!guarded.allows(&web, Right::Admin, "a"));
    assert!(guarded.allows(&ops, Right::Admin, "a"));
    assert!(guarded.allows_anything(&web));
    assert!(!guarded.allows_anything(&other));
    guarded.set(Vec::new(), Quotas::default());
    assert!(guarded.allows(&other, Right::Acquire, "a"), "none any more");
}

#[tokio::test(start_paused = true)]
async fn who_was_let_in_is_refused_when_the_rules_change() {
    let guarded = access(with_rules(&[("web", &[Right::Admin])]), Port::OPEN);
    let web = Identity::named("web");
    let look = || {
        let is_allowed = guarded.allows(&web, Right::Admin, "a");
        is_allowed.then_some(None).ok_or("gone")
    };
    let quotas = Quotas {
        sessions: 1,
        ..Quotas::default()
    };
    let changes = async {
        tokio::task::yield_now().await;
        guarded.set(rules_of(&[("web", &[Right::Describe])]), quotas);
    };
    let (refused, ()) = tokio::join!(refused(&guarded, look), changes);
    assert_eq!(refused, "gone");
    let account = guarded.account(web);
    let _first = account.count(Quota::Sessions, 1).unwrap();
    let second = account.count(Quota::Sessions, 1).unwrap_err();
    assert_eq!(second, QuotaReached::Full(Quota::Sessions));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changed_is_read_again_and_one_that_cannot_be_used_is_not() {
    let (file, config) = with_tokens(&format!("ci {TOKEN}"));
    let guarded = access(config, GUARDED);
    let look = || guarded.bearer(Some(TOKEN)).map(|_| None);
    let changes = async {
        tokio::task::yield_now().await;
        fs::write(&file, "ci").unwrap();
        guarded.reload();
        assert!(look().is_ok(), "what was read before stays in force");
        fs::write(&file, "ci fedcba9876543210").unwrap();
        guarded.reload();
    };
    let (refused, ()) = tokio::join!(refused(&guarded, look), changes);
    assert!(refused.0.contains("not known"), "{refused}");
    assert!(guarded.bearer(Some("fedcba9876543210")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_was_let_in_is_looked_at_again_after_the_end_of_the_token() {
    let begun = Instant::now();
    let looks = std::cell::Cell::new(0);
    let end = get_current_timestamp() + 10;
    let look = || {
        looks.set(looks.get() + 1);
        if looks.get() < 2 {
            Ok(Some(end))
        } else {
            Err("over")
        }
    };
    assert_eq!(refused(&Access::open(), look).await, "over");
    // The wall clock may have come to the next second before the first look.
    assert!(begun.elapsed() >= Duration::from_secs(10));
}

#[test]
fn watchers_are_counted_where_callers_have_names() {
    let anonymous = Identity::anonymous();
    let open = Access::open();
    let many: Vec<_> = (0..100).map_while(|_| open.watch(&anonymous)).collect();
    assert_eq!(many.len(), 100);
    let guarded = access(with_rules(&[("web", &[Right::Admin])]), GUARDED);
    let web = Identity::named("web");
    let some: Vec<_> = (0..100).map_while(|_| guarded.watch(&web)).collect();
    assert!((1..100).contains(&some.len()), "{}", some.len());
}

#[test]
fn refusals_are_counted_by_the_name_of_the_quota() {
    let quotas = Quotas {
        grants: 1,
        ..Quotas::default()
    };
    let config = Config {
        quotas,
        ..Config::default()
    };
    let guarded = access(config, Port::OPEN);
    let account = guarded.account(Identity::named("web"));
    assert_eq!(account.identity().as_str(), "web");
    assert!(account.count(Quota::Grants, 2).is_err());
    let mut registry = Registry::default();
    guarded.register(&mut Registrar::new(&mut registry));
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    assert!(
        text.contains("quota_refusals_total{quota=\"grants\"} 1"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_shows_no_valid_credentials_is_audited() {
    let access = Access::open();
    let why = Unauthenticated("the bearer token is not known".to_owned());
    let logged = entries(|| {
        for operation in ["Acquire", "Release", "Describe"] {
            access.denied(None, operation, &why);
        }
    });
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(logged[0]["operation"], "Acquire");
    assert_eq!(logged[0]["reason"], "the bearer token is not known");
    tokio::time::advance(Duration::from_secs(60)).await;
    let logged = entries(|| access.reload());
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(logged[0]["operation"], "Describe", "the last");
    assert_eq!(logged[0]["calls"], 2);
}
