use super::*;

#[test]
fn new_quotas_count_for_what_is_used_already() {
    let accounts = Accounts::new(Quotas {
        sessions: 2,
        ..Quotas::default()
    });
    let account = accounts.of(Identity::named("a"));
    let _used = [(); 2].map(|()| account.count(Quota::Sessions, 1).unwrap());
    accounts.set(Quotas {
        sessions: 3,
        requests_per_second: 1,
        ..Quotas::default()
    });
    let third = account.count(Quota::Sessions, 1).unwrap();
    assert!(account.count(Quota::Sessions, 1).is_err());
    assert!(account.request().is_ok() && account.request().is_err());
    accounts.set(Quotas {
        sessions: 2,
        requests_per_second: 1,
        ..Quotas::default()
    });
    assert!(account.request().is_err(), "its rate is as it was");
    accounts.set(Quotas {
        sessions: 1,
        ..Quotas::default()
    });
    drop(third);
    assert!(account.count(Quota::Sessions, 1).is_err());
    assert!(account.request().is_ok());
}

#[test]
fn each_identity_has_quotas_of_its_own() {
    let accounts = Accounts::new(Quotas {
        sessions: 1,
        requests_per_second: 2,
        ..Quotas::default()
    });
    let (a, b) = (Identity::named("a"), Identity::named("b"));
    let of_a = accounts.of(a.clone());
    let first = of_a.count(Quota::Sessions, 1).unwrap();
    let refused = accounts
        .of(a.clone())
        .count(Quota::Sessions, 1)
        .unwrap_err();
    assert_eq!(refused, QuotaReached::Full(Quota::Sessions));
    assert!(accounts.of(b).count(Quota::Sessions, 1).is_ok());
    drop(first);
    assert!(of_a.count(Quota::Sessions, 1).is_ok());
    assert!(of_a.count(Quota::Grants, 1).is_ok(), "no quota");
    assert_eq!((of_a.request(), of_a.request()), (Ok(()), Ok(())));
    let refused = of_a.request().unwrap_err();
    let half = Duration::from_millis(500);
    assert!(
        matches!(refused, QuotaReached::TooOften(after) if after <= half),
        "{refused:?}"
    );
}

fn of(quotas: Quotas) -> Account {
    Accounts::new(quotas).of(Identity::named("a"))
}

#[test]
fn without_quotas_nothing_is_counted() {
    let account = of(Quotas::default());
    assert!(!account.has_quotas());
    let counted = account.count(Quota::Grants, u32::MAX).unwrap();
    assert!(!counted.counts());
    assert!(!account.count_anyway(Quota::Grants, 1).counts());
    assert!(account.has_room(Quota::Grants));
    assert!(account.may_wait_beside(usize::MAX).is_ok());
    assert!(account.request().is_ok());
}

#[test]
fn what_exists_already_counts_beyond_the_quota() {
    let account = of(Quotas {
        grants: 2,
        ..Quotas::default()
    });
    assert!(account.has_quotas());
    assert!(account.has_room(Quota::Grants));
    let first = account.count(Quota::Grants, 1).unwrap();
    assert!(account.has_room(Quota::Grants), "one of two");
    let second = account.count(Quota::Grants, 1).unwrap();
    assert!(!account.has_room(Quota::Grants), "two of two");
    drop(second);
    let more = account.count_anyway(Quota::Grants, 5);
    assert!(first.counts() && more.counts());
    assert!(!account.has_room(Quota::Grants));
    assert!(account.has_room(Quota::Sessions), "no quota");
    assert!(account.count(Quota::Grants, 1).is_err());
    let nothing = account.count(Quota::Grants, 0).unwrap();
    assert!(!nothing.counts());
    drop(more);
    assert!(account.count(Quota::Grants, 1).is_ok());
}

#[test]
fn each_quota_limits_its_own_kind() {
    let account = of(Quotas {
        sessions: 1,
        grants: 2,
        waiters: 3,
        streams: 4,
        ..Quotas::default()
    });
    let kinds = [
        (Quota::Sessions, 1),
        (Quota::Grants, 2),
        (Quota::Waiters, 3),
        (Quota::Streams, 4),
    ];
    let _all = kinds.map(|(quota, max)| account.count(quota, max).unwrap());
    for (quota, _) in kinds {
        let refused = account.count(quota, 1).unwrap_err();
        assert_eq!(refused, QuotaReached::Full(quota));
    }
}

#[test]
fn a_part_of_what_is_counted_ends_by_itself() {
    let account = of(Quotas {
        grants: 5,
        ..Quotas::default()
    });
    let mut all = account.count(Quota::Grants, 5).unwrap();
    let part = all.split(2);
    assert!(
        account.count(Quota::Grants, 1).is_err(),
        "nothing has ended"
    );
    drop(part);
    assert!(account.count(Quota::Grants, 3).is_err());
    assert!(account.count(Quota::Grants, 2).is_ok());
    let rest = all.split(10);
    assert!(rest.counts() && !all.counts());
    drop(rest);
    assert!(account.count(Quota::Grants, 5).is_ok());
}

#[test]
fn so_many_calls_may_wait_for_a_name() {
    let account = of(Quotas {
        waiters_per_lock: 2,
        ..Quotas::default()
    });
    assert!(account.may_wait_beside(1).is_ok());
    let refused = account.may_wait_beside(2).unwrap_err();
    assert_eq!(refused, QuotaReached::WaitersPerLock);
    let account = of(Quotas {
        waiters: 2,
        ..Quotas::default()
    });
    assert!(account.may_wait_beside(100).is_ok(), "another quota");
}

#[test]
fn a_refusal_names_the_setting() {
    let names = [
        (QuotaReached::Full(Quota::Sessions), "sessions"),
        (QuotaReached::Full(Quota::Grants), "grants"),
        (QuotaReached::Full(Quota::Waiters), "waiters"),
        (QuotaReached::Full(Quota::Streams), "streams"),
        (QuotaReached::WaitersPerLock, "waiters_per_lock"),
        (
            QuotaReached::TooOften(Duration::ZERO),
            "requests_per_second",
        ),
    ];
    for (refused, name) in names {
        assert_eq!(refused.name(), name);
        assert!(
            refused
                .to_string()
                .contains(&format!("access.quotas.{name} "))
        );
    }
}

#[test]
fn an_account_says_whose_it_is_and_from_where() {
    let account = of(Quotas::default());
    assert_eq!(account.identity().as_str(), "a");
    assert_eq!(account.peer(), None);
    let peer = Some(SocketAddr::from(([10, 0, 0, 1], 4711)));
    let account = account.used_from(peer);
    assert_eq!(account.peer(), peer);
    assert_eq!(account.identity().as_str(), "a");
}

#[test]
fn accounts_without_use_are_forgotten_when_there_are_many() {
    let accounts = Accounts::new(Quotas {
        sessions: 1,
        ..Quotas::default()
    });
    let name = |number: usize| Identity::named(&format!("team-{number}"));
    let used = accounts.of(name(0));
    let _one = used.count(Quota::Sessions, 1).unwrap();
    for number in 1..ACCOUNTS_KEPT {
        accounts.of(name(number));
    }
    assert_eq!(accounts.by_identity.len(), ACCOUNTS_KEPT);
    accounts.of(name(1));
    assert_eq!(accounts.by_identity.len(), ACCOUNTS_KEPT, "a known one");
    accounts.of(name(ACCOUNTS_KEPT));
    assert_eq!(
        accounts.by_identity.len(),
        2,
        "the one in use, and the new one"
    );
    assert!(accounts.of(name(0)).count(Quota::Sessions, 1).is_err());
}
