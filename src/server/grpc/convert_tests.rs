use lockkeeper_access::{Config, Port, Rule};
use lockkeeper_store::host::embedded::{Clock, EmbeddedStore};

use super::*;
use crate::{config::Settings, layers::coordinator_config};

/// What a client in the prefix `app/` names, as it is understood.
fn with_requests<T>(does: impl FnOnce(&Requests<'_>) -> T) -> T {
    let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
    let config = coordinator_config(&Settings::default());
    let coordinator = Coordinator::start(config, store.connect());
    let rule = Rule {
        identity: "app".to_owned(),
        prefix: "app/".to_owned(),
        allow: vec![Right::Acquire],
    };
    let config = Config {
        rules: vec![rule],
        ..Config::default()
    };
    let access = Access::new(config, Port::OPEN).unwrap();
    let account = access.account(Identity::named("app"));
    does(&Requests {
        coordinator: &coordinator,
        access: &access,
        account: &account,
        own: None,
    })
}

fn named(name: &str, owner: &str, mode: i32) -> pb::Grant {
    pb::Grant {
        name: name.to_owned(),
        owner: owner.to_owned(),
        mode,
        ..pb::Grant::default()
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_a_resume_names_only_what_can_not_have_been_granted_is_left_out() {
    let long = "n".repeat(10_000);
    let grants = vec![
        named("app/a", "1", 1),
        named("", "1", 1),
        named(&long, "1", 1),
        named("app/b\n", "1", 1),
        named("app/b", &long, 1),
        named("app/b", "1", 9),
        named("other/c", "1", 3),
    ];
    let id = SessionId::random();
    let resumed = with_requests(|requests| requests.resumed(&id, grants));
    let resumed: Vec<_> = resumed
        .iter()
        .map(|it| (it.name.public(), it.mode, it.is_permitted))
        .collect();
    let expected = [
        ("app/a", Mode::Exclusive, true),
        ("other/c", Mode::Read, false),
    ];
    assert_eq!(resumed, expected);
}

#[tokio::test(start_paused = true)]
async fn permits_that_a_resume_names_are_understood_in_the_same_way() {
    let good = "00ff0a0d00257d7b203f80fe00313278";
    let named = |name: &str, ids: &[&str]| pb::PermitGrant {
        name: name.to_owned(),
        owner: "1".to_owned(),
        permit_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        ..pb::PermitGrant::default()
    };
    let permits = vec![
        named("app/s", &[good]),
        named("app/s", &[]),
        named("app/s", &["x"]),
        named("", &[good]),
        named("other/s", &[good]),
    ];
    let id = SessionId::random();
    let resumed = with_requests(|requests| requests.resumed_permits(&id, permits));
    let resumed: Vec<_> = resumed
        .iter()
        .map(|it| (it.name.public(), it.is_permitted))
        .collect();
    assert_eq!(resumed, [("app/s", true), ("other/s", false)]);
}

#[test]
fn a_duration_is_refused_whatever_its_numbers_are() {
    let of = |seconds, nanos| duration("lease", prost_types::Duration { seconds, nanos });
    assert_eq!(of(1, 500_000_000), Ok(Duration::from_millis(1500)));
    for seconds in [i64::MIN, i64::MIN + 1, -1] {
        for nanos in [i32::MIN, -1, 0, 1, i32::MAX] {
            assert!(of(seconds, nanos).is_err(), "{seconds} {nanos}");
        }
    }
    for nanos in [i32::MIN, i32::MAX] {
        assert!(of(i64::MAX, nanos).is_ok(), "{nanos}");
    }
}
